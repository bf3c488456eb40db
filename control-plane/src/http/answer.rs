//! Documents as they are answered: the document itself, with `meta` beside it.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{ETAG, LOCATION};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};

use crate::db::document::Document;
use crate::db::time::Time;

/// Header that says which revision a write was published as.
pub const REVISION_HEADER: HeaderName = HeaderName::from_static("weir-revision");

/// What the control plane knows about a document. Answers carry it as `meta`; in requests it is ignored.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Meta {
    /// The domain; empty for shards.
    pub domain: String,
    /// Changes with every change; to be sent as `If-Match`.
    pub etag: String,
    /// When it was first written.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    /// When it was last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Time,
    /// Who changed it last.
    pub updated_by: String,
    /// The revision that last changed it.
    pub revision: u64,
}

/// A document's ETag: the revision that last changed it, which no later content can have.
#[must_use]
pub fn etag(document: &Document) -> String {
    format!("\"{}\"", document.revision)
}

/// The document with its `meta`.
#[must_use]
pub fn with_meta(document: Document) -> Value {
    let meta = Meta {
        etag: etag(&document),
        domain: document.domain,
        created_at: document.created_at,
        updated_at: document.updated_at,
        updated_by: document.updated_by,
        revision: document.revision.unsigned_abs(),
    };
    let mut body = document.body.0;
    body["meta"] = json!(meta);
    body
}

/// The answer to a read of one document.
#[must_use]
pub fn one(document: Document) -> Response {
    let etag = etag(&document);
    tagged(Json(with_meta(document)).into_response(), &etag)
}

/// Adds the ETag.
#[must_use]
pub fn tagged(mut response: Response, etag: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(etag) {
        response.headers_mut().insert(ETAG, value);
    }
    response
}

/// Adds the revision that a write was published as.
#[must_use]
pub fn published(mut response: Response, revision: u64) -> Response {
    response.headers_mut().insert(REVISION_HEADER, HeaderValue::from(revision));
    response
}

/// The answer to a creation: 201, or 200 where it was only validated.
#[must_use]
pub fn created(mut response: Response, location: &str, validate_only: bool) -> Response {
    if validate_only {
        return response;
    }
    *response.status_mut() = StatusCode::CREATED;
    if let Ok(value) = HeaderValue::from_str(location) {
        response.headers_mut().insert(LOCATION, value);
    }
    response
}
