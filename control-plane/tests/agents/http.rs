//! A small client of the admin API.

use std::net::SocketAddr;

use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client as Hyper;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

pub(super) struct Client {
    hyper: Hyper<HttpConnector, Full<bytes::Bytes>>,
    address: SocketAddr,
    token: String,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) etag: String,
    pub(super) body: Value,
    pub(super) text: String,
}

impl Client {
    pub(super) fn new(address: SocketAddr, token: &str) -> Self {
        Self { hyper: Hyper::builder(TokioExecutor::new()).build_http(), address, token: token.into() }
    }

    pub(super) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&Value>) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let response = self.hyper.request(request.body(Full::new(body.into())).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let etag = response.headers().get("etag").map(|etag| etag.to_str().unwrap().to_owned()).unwrap_or_default();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Answer { status, etag, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null), text }
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], None).await
    }
}
