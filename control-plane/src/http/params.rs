//! Query parameters that many routes share.

use serde::Deserialize;
use utoipa::IntoParams;
use weir_core::name::Name;

use super::problem::Problem;
use crate::auth::Principal;

/// The domain where nothing is said.
pub const DEFAULT_DOMAIN: &str = "default";

/// No parameters at all.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// A read in a domain.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct InDomain {
    /// The domain (default `default`).
    pub domain: Option<String>,
}

/// A write in a domain.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WriteInDomain {
    /// The domain (default `default`).
    pub domain: Option<String>,
    /// Only say what would happen: all checks are made, nothing is stored.
    #[serde(default)]
    pub validate_only: bool,
}

/// A write.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Write {
    /// Only say what would happen: all checks are made, nothing is stored.
    #[serde(default)]
    pub validate_only: bool,
}

/// A page of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Paged {
    /// How many entries (default 50, at most 500).
    pub page_size: Option<i64>,
    /// `next_page_token` of the page before.
    pub page_token: Option<String>,
}

/// A page of a list in a domain.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PagedInDomain {
    /// The domain (default `default`).
    pub domain: Option<String>,
    /// How many entries (default 50, at most 500).
    pub page_size: Option<i64>,
    /// `next_page_token` of the page before.
    pub page_token: Option<String>,
}

/// The domain that a request is about, which its sender may enter.
///
/// # Errors
/// 400: not a name; 403: the token is for other domains.
pub fn domain(given: Option<&str>, principal: &Principal) -> Result<Name, Problem> {
    let text = given.unwrap_or(DEFAULT_DOMAIN);
    let name = Name::new(text).map_err(|error| Problem::mistake("domain", error.to_string()))?;
    principal.enter(text)?;
    Ok(name)
}
