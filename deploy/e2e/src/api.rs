//! The admin API as a script of an operator would call it.

use anyhow::{Context as _, bail};
use reqwest::{Method, StatusCode};
use serde_json::Value;
use weir_core::config::DomainConfig;

/// An admin at the control plane's REST address.
#[derive(Debug, Clone)]
pub struct Api {
    http: reqwest::Client,
    base: String,
    token: String,
}

impl Api {
    pub(crate) fn new(base: String, token: String) -> Self {
        // A provider may be installed already; any is the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { http: reqwest::Client::new(), base, token }
    }

    /// One call: the status and the JSON body (`null` without one).
    ///
    /// # Errors
    /// The control plane cannot be reached.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        if_match: Option<&str>,
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let mut request = self.http.request(method, format!("{}{path}", self.base)).bearer_auth(&self.token);
        if let Some(etag) = if_match {
            request = request.header("if-match", etag);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await?;
        let status = response.status();
        Ok((status, response.json().await.unwrap_or(Value::Null)))
    }

    /// A call that must succeed.
    ///
    /// # Errors
    /// It did not.
    pub async fn done(&self, method: Method, path: &str, if_match: Option<&str>, body: Option<&Value>) -> anyhow::Result<Value> {
        let (status, answer) = self.call(method, path, if_match, body).await?;
        if !status.is_success() {
            bail!("{path}: {status}: {answer}");
        }
        Ok(answer)
    }

    /// Reads `path`.
    ///
    /// # Errors
    /// As [`done`](Self::done).
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.done(Method::GET, path, None, None).await
    }

    /// Applies a rules file to its domain, and says which revision that made.
    ///
    /// # Errors
    /// The rules are not valid, or were refused.
    pub async fn apply(&self, rules: &str) -> anyhow::Result<u64> {
        let document = DomainConfig::from_yaml(rules)?.to_document();
        let answer = self.done(Method::POST, "/v1/apply", None, Some(&document)).await?;
        answer["revision"].as_u64().context("no revision in the answer")
    }

    /// Changes one rule of the default domain as an operator would: read, edit, replace what was read.
    ///
    /// # Errors
    /// As [`done`](Self::done).
    pub async fn edit_rule(&self, name: &str, edit: impl FnOnce(&mut Value)) -> anyhow::Result<u64> {
        let path = format!("/v1/rules/{name}");
        let mut rule = self.get(&path).await?;
        let etag = rule["meta"]["etag"].as_str().context("no etag")?.to_owned();
        edit(&mut rule);
        let changed = self.done(Method::PUT, &path, Some(&etag), Some(&rule)).await?;
        changed["meta"]["revision"].as_u64().context("no revision in the answer")
    }
}
