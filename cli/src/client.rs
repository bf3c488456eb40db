//! The admin API as the CLI calls it.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use reqwest::{Method, StatusCode, Url};
use serde_json::Value;

use crate::args::Connection;

/// A control plane and the right to talk to it.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    token: String,
}

impl Client {
    /// From flags and environment.
    pub(crate) fn new(connection: &Connection) -> anyhow::Result<Self> {
        let token = match (&connection.token, &connection.token_file) {
            (Some(token), _) => token.trim().to_owned(),
            (None, Some(file)) => {
                std::fs::read_to_string(file).with_context(|| format!("cannot read the token file {}", file.display()))?.trim().to_owned()
            }
            (None, None) => bail!("no API token: set WEIR_TOKEN, or give --token-file (`weir dev` prints a token for its control plane)"),
        };
        Self::with_token(&connection.url, token)
    }

    /// For a known address and token.
    pub(crate) fn with_token(url: &str, token: String) -> anyhow::Result<Self> {
        // A provider may be installed already by another part of this process; either is the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let base = Url::parse(url).with_context(|| format!("--url {url:?} is not an address such as http://127.0.0.1:7070"))?;
        let http = reqwest::Client::builder().timeout(Duration::from_secs(30)).redirect(reqwest::redirect::Policy::none()).build()?;
        Ok(Self { http, base, token })
    }

    /// One call; `path` starts with `/v1/`. The JSON answer, `null` if it has no body.
    pub(crate) async fn call(&self, method: Method, path: &str, query: &[(&str, &str)], body: Option<&Value>) -> anyhow::Result<Value> {
        let url = self.base.join(path).with_context(|| format!("bad path {path}"))?;
        let mut request = self.http.request(method, url).query(query);
        if let Some(body) = body {
            request = request.json(body);
        }
        self.send(request).await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> anyhow::Result<Value> {
        let response = request.bearer_auth(&self.token).send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let bytes = response.bytes().await.context("the control plane's answer broke off")?;
        if !status.is_success() {
            bail!("{}", refusal(status, &bytes));
        }
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes)
            .with_context(|| format!("{} did not answer with JSON: is it really Weir's control plane?", self.base))
    }

    /// Reads one document.
    pub(crate) async fn get(&self, path: &str, query: &[(&str, &str)]) -> anyhow::Result<Value> {
        self.call(Method::GET, path, query, None).await
    }

    /// Replaces the document at `path` in the state in which it is now; one who changed it meanwhile is not overwritten.
    pub(crate) async fn replace(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let current = self.get(path, &[]).await?;
        let etag = current["meta"]["etag"].as_str().unwrap_or("*").to_owned();
        let url = self.base.join(path).with_context(|| format!("bad path {path}"))?;
        let request = self.http.put(url).header(reqwest::header::IF_MATCH, etag).json(body);
        self.send(request).await
    }

    /// Deletes the document at `path` in the state in which it is now.
    pub(crate) async fn delete(&self, path: &str) -> anyhow::Result<Value> {
        let current = self.get(path, &[]).await?;
        let etag = current["meta"]["etag"].as_str().unwrap_or("*").to_owned();
        let url = self.base.join(path).with_context(|| format!("bad path {path}"))?;
        self.send(self.http.delete(url).header(reqwest::header::IF_MATCH, etag)).await
    }

    /// Reads all pages of a list.
    pub(crate) async fn list(&self, path: &str, query: &[(&str, &str)]) -> anyhow::Result<Vec<Value>> {
        let mut items = Vec::new();
        let mut token = String::new();
        loop {
            let mut query = query.to_vec();
            query.push(("page_size", "500"));
            if !token.is_empty() {
                query.push(("page_token", &token));
            }
            let mut page = self.get(path, &query).await?;
            match page["items"].take() {
                Value::Array(more) => items.extend(more),
                _ => bail!("the answer to {path} is not a list"),
            }
            match page["next_page_token"].as_str() {
                Some(next) if !next.is_empty() => token = next.to_owned(),
                _ => return Ok(items),
            }
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> anyhow::Error {
        let why = if error.is_timeout() { "no answer within 30 s".to_owned() } else { innermost(error) };
        anyhow::anyhow!("cannot reach the control plane at {}: {why}\n(start one with `weir dev`, or set --url or WEIR_URL)", self.base)
    }
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// A problem+json answer as lines for a person.
fn refusal(status: StatusCode, body: &[u8]) -> String {
    let Ok(problem) = serde_json::from_slice::<Value>(body) else {
        return format!("the control plane answered {status}");
    };
    let title = problem["title"].as_str().unwrap_or("refused");
    let mut text = format!("{title} ({})", status.as_u16());
    let errors = problem["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    // Of a single mistake the detail only says what its own line says with its place.
    if let Some(detail) = problem["detail"].as_str().filter(|_| errors.len() != 1) {
        let _ = write!(text, ": {detail}");
    }
    for error in errors {
        let pointer = error["pointer"].as_str().filter(|p| !p.is_empty()).unwrap_or("document");
        let _ = write!(text, "\n  {pointer}: {}", error["detail"].as_str().unwrap_or_default());
    }
    for user in problem["used_by"].as_array().into_iter().flatten() {
        let part = |name: &str| user[name].as_str().unwrap_or_default();
        let _ = write!(text, "\n  used by {} {} (domain {})", part("kind"), part("name"), part("domain"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_as_lines_with_places() {
        let body = br#"{"title":"Bad request","detail":"2 mistakes","errors":[{"pointer":"/limits/free","detail":"missing"},{"pointer":"","detail":"x"}]}"#;
        assert_eq!(refusal(StatusCode::BAD_REQUEST, body), "Bad request (400): 2 mistakes\n  /limits/free: missing\n  document: x");
        let body = br#"{"title":"Bad request","detail":"/limits/free: missing","errors":[{"pointer":"/limits/free","detail":"missing"}]}"#;
        assert_eq!(refusal(StatusCode::BAD_REQUEST, body), "Bad request (400)\n  /limits/free: missing");
        let body = br#"{"title":"Still in use","detail":"1 rule","used_by":[{"kind":"rule","domain":"shop","name":"search"}]}"#;
        assert_eq!(refusal(StatusCode::CONFLICT, body), "Still in use (409): 1 rule\n  used by rule search (domain shop)");
        assert_eq!(refusal(StatusCode::BAD_GATEWAY, b"<html>"), "the control plane answered 502 Bad Gateway");
    }
}
