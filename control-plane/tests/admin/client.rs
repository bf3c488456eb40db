//! A small HTTP client that follows nothing and hides nothing.

use std::net::SocketAddr;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client as Hyper;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// Somebody who talks to a control plane.
#[derive(Clone)]
pub(crate) struct Client {
    hyper: Hyper<HttpConnector, Full<bytes::Bytes>>,
    address: SocketAddr,
    headers: HeaderMap,
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { hyper: Hyper::builder(TokioExecutor::new()).build_http(), address, headers: HeaderMap::new() }
    }

    /// The same client, always sending one more header.
    pub(crate) fn with(&self, name: &'static str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        client
    }

    pub(crate) fn with_token(&self, token: &str) -> Self {
        self.with("authorization", &format!("Bearer {token}"))
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: impl Into<bytes::Bytes>) -> Answer {
        let mut request =
            Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(format!("http://{}{path}", self.address));
        request.headers_mut().unwrap().extend(self.headers.clone());
        let response = self.hyper.request(request.body(Full::new(body.into())).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let text = String::from_utf8_lossy(&body.collect().await.unwrap().to_bytes()).into_owned();
        Answer { status: parts.status, headers: parts.headers, text }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "").await
    }

    pub(crate) async fn json(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.with("content-type", "application/json").send(method, path, body.to_string()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.json("POST", path, body).await
    }

    pub(crate) async fn put(&self, path: &str, etag: &str, body: &Value) -> Answer {
        self.with("if-match", etag).json("PUT", path, body).await
    }

    pub(crate) async fn delete(&self, path: &str, etag: &str) -> Answer {
        self.with("if-match", etag).send("DELETE", path, "").await
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.text))
    }

    /// That the status is this one; else says what was answered.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self
    }

    /// That it is a well-formed problem with this status and type.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, name: &str) -> Value {
        assert_eq!(self.header("content-type"), "application/problem+json", "{} {}", self.status, self.text);
        let problem = self.expect(status).json();
        assert_eq!(problem["type"], format!("urn:weir:problem:{name}"), "{problem}");
        assert_eq!(problem["status"], status);
        for part in ["title", "detail"] {
            assert!(problem[part].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
        }
        problem
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub(crate) fn etag(&self) -> String {
        let etag = self.header("etag").to_owned();
        assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() > 2, "{etag:?} is no strong ETag");
        etag
    }
}
