//! From texts to values, with errors that say what is allowed.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use http::HeaderName;
use weir_core::client_ip::SourceHeader;
use weir_core::headers::HeaderStyle;
use weir_core::key::HashSecret;
use weir_core::name::Name;
use weir_core::span::Span;
use weir_core::subject::Kind;

use super::{Forwarded, OnNoRules, Permission};
use crate::limiter::ShardConfig;
use crate::limiter::address;

pub(super) fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|error| format!("{text:?} {error}"))
}

pub(super) fn number<T: FromStr + PartialOrd + std::fmt::Display>(min: T, max: T) -> impl Fn(&str) -> Result<T, String> {
    move |text| {
        let number = text.parse::<T>().ok().filter(|n| *n >= min && *n <= max);
        number.ok_or_else(|| format!("must be a whole number from {min} to {max}, not {text:?}"))
    }
}

pub(super) fn span(min: Span, max: Span) -> impl Fn(&str) -> Result<Duration, String> {
    move |text| {
        let span = text.parse::<Span>().ok().filter(|span| (min..=max).contains(span));
        span.map(Span::as_duration).ok_or_else(|| format!("must be a time from {min} to {max}, not {text:?}"))
    }
}

pub(super) fn truth(text: &str) -> Result<bool, String> {
    choice(&[("true", true), ("false", false)])(text)
}

/// One of a few words.
pub(super) fn choice<'a, T: Copy>(words: &'a [(&'a str, T)]) -> impl Fn(&str) -> Result<T, String> + 'a {
    move |text| {
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        let all = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        found.ok_or_else(|| format!("must be one of {}, not {text:?}", all()))
    }
}

pub(super) fn on_no_rules(text: &str) -> Result<OnNoRules, String> {
    choice(&[("open", OnNoRules::Open), ("closed", OnNoRules::Closed)])(text)
}

pub(super) fn permission(text: &str) -> Result<Permission, String> {
    choice(&Permission::ALL.map(|permission| (permission.as_str(), permission)))(text)
}

pub(super) fn header_style(text: &str) -> Result<HeaderStyle, String> {
    use HeaderStyle::{DeltaReset, Full, None, Triple};
    choice(&[("full", Full), ("triple", Triple), ("delta_reset", DeltaReset), ("none", None)])(text)
}

pub(super) fn source_header(text: &str) -> Result<SourceHeader, String> {
    use SourceHeader::{Forwarded, None, XForwardedFor, XRealIp};
    choice(&[("x-forwarded-for", XForwardedFor), ("x-real-ip", XRealIp), ("forwarded", Forwarded), ("none", None)])(text)
}

pub(super) fn forwarded(text: &str) -> Result<Forwarded, String> {
    choice(&[("auto", Forwarded::Auto), ("x-forwarded", Forwarded::XForwarded), ("x-original", Forwarded::XOriginal)])(text)
}

pub(super) fn header_name(text: &str) -> Result<HeaderName, String> {
    text.parse().map_err(|_| format!("{text:?} is not a header name"))
}

pub(super) fn subject_kind(text: &str) -> Result<Kind, String> {
    text.parse().map_err(|error| format!("{error}, not {text:?}"))
}

/// A TCP address; `off`: none.
pub(super) fn listen(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| format!("must be an address with a port, such as 127.0.0.1:7080, or off, not {text:?}"))
}

/// `name=redis://[user:password@]host:port/db`. The text may hold a password, so it is not repeated.
pub(super) fn shard(text: &str) -> Result<ShardConfig, String> {
    let (shard, url) = text.split_once('=').ok_or("must be name=redis://host:port")?;
    let given = address::read(url).map_err(|error| format!("shard {shard}: {error}"))?;
    Ok(ShardConfig::given(name(shard)?, given))
}

/// 64 hex digits.
pub(super) fn hash_secret(text: &str) -> Option<HashSecret> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let bytes: Vec<u8> = digits?.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    (text.len() == 64).then(|| bytes.try_into().ok().map(HashSecret::new)).flatten()
}
