//! An alert as an operator writes it: read and validated with all mistakes at once.

use std::time::Duration;

use serde_json::{Map, Value, json};
use weir_core::mistake::{Mistakes, child};
use weir_core::name::Name;
use weir_core::span::Span;

use super::target::{AllowList, Target};

/// The shortest time that a share can be asked to stay above: one look.
pub const MIN_FOR: Duration = Duration::from_secs(10);
/// The longest.
pub const MAX_FOR: Duration = Duration::from_secs(24 * 3_600);
/// A shorter secret could be guessed from one delivery.
const MIN_SECRET: usize = 16;
const MAX_SECRET: usize = 256;

/// An alert.
#[derive(Debug, Clone, PartialEq)]
pub struct Alert {
    /// Its name, unique in the domain.
    pub name: Name,
    /// The rule that it watches.
    pub rule: Name,
    /// The denied share above which it counts, in percent: from 0 to below 100.
    pub denied_share_percent: f64,
    /// How long the share must stay above.
    pub r#for: Span,
    /// Where it is told.
    pub webhook: Option<Webhook>,
    /// Whether it is looked at.
    pub enabled: bool,
}

/// Where an alert is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Webhook {
    /// The address.
    pub url: String,
    /// The key of the signatures; `None` in a replacement: it stays.
    pub secret: Option<String>,
}

/// Reads an alert; `allowed` says where webhooks may go.
pub fn read(value: &Value, allowed: &AllowList, mistakes: &mut Mistakes) -> Option<Alert> {
    let Some(fields) = value.as_object() else {
        mistakes.add("", "must be an object");
        return None;
    };
    // `state` is in answers: what was read may be sent back.
    unknown(fields, &["name", "rule", "denied_share_percent", "for", "webhook", "enabled", "state"], "", mistakes);
    let name = name(fields, "name", mistakes);
    let rule = self::name(fields, "rule", mistakes);
    let denied_share_percent = percent(fields, mistakes);
    let r#for = span(fields, mistakes);
    let webhook = match fields.get("webhook") {
        None | Some(Value::Null) => Some(None),
        Some(value) => webhook(value, allowed, mistakes).map(Some),
    };
    let enabled = match fields.get("enabled") {
        None => Some(true),
        Some(value) => value.as_bool().or_else(|| {
            mistakes.add("/enabled", "must be true or false");
            None
        }),
    };
    Some(Alert {
        name: name?,
        rule: rule?,
        denied_share_percent: denied_share_percent?,
        r#for: r#for?,
        webhook: webhook?,
        enabled: enabled?,
    })
}

fn unknown(fields: &Map<String, Value>, known: &[&str], at: &str, mistakes: &mut Mistakes) {
    for field in fields.keys().filter(|field| !known.contains(&field.as_str())) {
        mistakes.add(child(at, field), format!("is not a field here; there are {}", known.join(", ")));
    }
}

fn text<'a>(fields: &'a Map<String, Value>, field: &str, at: &str, mistakes: &mut Mistakes) -> Option<&'a str> {
    match fields.get(field) {
        Some(Value::String(text)) => return Some(text),
        Some(_) => mistakes.add(format!("{at}/{field}"), "must be a text"),
        None => mistakes.add(format!("{at}/{field}"), "is needed"),
    }
    None
}

fn name(fields: &Map<String, Value>, field: &str, mistakes: &mut Mistakes) -> Option<Name> {
    let read = Name::new(text(fields, field, "", mistakes)?);
    read.map_err(|error| mistakes.add(format!("/{field}"), error.to_string())).ok()
}

fn percent(fields: &Map<String, Value>, mistakes: &mut Mistakes) -> Option<f64> {
    const FIELD: &str = "denied_share_percent";
    let given = fields.get(FIELD);
    let number = given.and_then(Value::as_f64).filter(|percent| (0.0..100.0).contains(percent));
    if number.is_none() {
        let detail = if given.is_none() { "is needed" } else { "must be a number from 0 to below 100" };
        mistakes.add(format!("/{FIELD}"), detail);
    }
    number
}

fn span(fields: &Map<String, Value>, mistakes: &mut Mistakes) -> Option<Span> {
    let read = text(fields, "for", "", mistakes)?.parse::<Span>();
    let whole = |span: &Span| span.as_micros().is_multiple_of(1_000_000) && (MIN_FOR..=MAX_FOR).contains(&span.as_duration());
    let span = read.ok().filter(whole);
    if span.is_none() {
        mistakes.add("/for", "must be a length of time from 10s to 24h in whole seconds, such as \"5m\"");
    }
    span
}

fn webhook(value: &Value, allowed: &AllowList, mistakes: &mut Mistakes) -> Option<Webhook> {
    let Some(fields) = value.as_object() else {
        mistakes.add("/webhook", "must be an object with a url, or null");
        return None;
    };
    unknown(fields, &["url", "secret", "has_secret"], "/webhook", mistakes);
    let url = text(fields, "url", "/webhook", mistakes).and_then(|url| {
        let checked = url.parse::<Target>().and_then(|target| allowed.check_name(&target));
        checked.map_err(|error| mistakes.add("/webhook/url", error.to_string())).ok()?;
        Some(url.to_owned())
    });
    let secret = match fields.get("secret") {
        None | Some(Value::Null) => Some(None),
        Some(Value::String(secret)) if (MIN_SECRET..=MAX_SECRET).contains(&secret.len()) && !secret.contains('\0') => {
            Some(Some(secret.clone()))
        }
        Some(_) => {
            mistakes.add("/webhook/secret", format!("must be a text of {MIN_SECRET} to {MAX_SECRET} bytes"));
            None
        }
    };
    Some(Webhook { url: url?, secret: secret? })
}

impl Alert {
    /// The alert as it is shown: without the secret.
    #[must_use]
    pub fn to_document(&self) -> Value {
        let webhook = self.webhook.as_ref().map(|webhook| json!({ "url": webhook.url, "has_secret": true }));
        json!({
            "name": self.name, "rule": self.rule, "denied_share_percent": self.denied_share_percent, "for": self.r#for, "webhook": webhook,
            "enabled": self.enabled,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(value: &Value) -> Vec<String> {
        let allowed: AllowList = "hooks.example.com".parse().unwrap();
        let mut mistakes = Mistakes::new();
        let read = read(value, &allowed, &mut mistakes);
        assert_eq!(read.is_some(), mistakes.is_empty() || mistakes.as_slice().iter().all(|m| m.detail.contains("not a field")));
        mistakes.into_iter().map(|m| m.pointer).collect()
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let bad = json!({
            "name": "a b", "rule": 7, "denied_share_percent": 100, "for": "1s", "enabled": "yes", "extra/field": 1,
            "webhook": { "url": "http://169.254.169.254/", "secret": "short", "x": 1 },
        });
        let expected = [
            "/extra~1field",
            "/name",
            "/rule",
            "/denied_share_percent",
            "/for",
            "/webhook/x",
            "/webhook/url",
            "/webhook/secret",
            "/enabled",
        ];
        assert_eq!(mistakes(&bad), expected);
        assert_eq!(mistakes(&json!({})), ["/name", "/rule", "/denied_share_percent", "/for"]);
        assert_eq!(mistakes(&json!([])), [""]);
    }

    #[test]
    fn numbers_and_times_have_bounds() {
        let alert = |percent: Value, r#for: &str| json!({ "name": "a", "rule": "r", "denied_share_percent": percent, "for": r#for });
        for good in [json!(0), json!(99.9), json!(20)] {
            assert!(mistakes(&alert(good, "5m")).is_empty());
        }
        for bad in [json!(-1), json!(100), json!("20"), json!(null), json!(true)] {
            assert_eq!(mistakes(&alert(bad, "5m")), ["/denied_share_percent"]);
        }
        for bad in ["", "5", "9s", "25h", "10500ms", "-5m", "99999999999999999999s"] {
            assert_eq!(mistakes(&alert(json!(1), bad)), ["/for"], "{bad}");
        }
    }

    #[test]
    fn a_document_never_shows_the_secret_and_can_be_sent_back() {
        let allowed: AllowList = "hooks.example.com".parse().unwrap();
        let given = json!({ "name": "a", "rule": "r", "denied_share_percent": 20.5, "for": "300s",
            "webhook": { "url": "https://hooks.example.com/x", "secret": "0123456789abcdef" } });
        let alert = read(&given, &allowed, &mut Mistakes::new()).unwrap();
        let shown = alert.to_document();
        assert!(!shown.to_string().contains("0123456789abcdef"));
        assert_eq!((shown["for"].as_str(), shown["enabled"].as_bool()), (Some("5m"), Some(true)));
        let again = read(&shown, &allowed, &mut Mistakes::new()).unwrap();
        assert_eq!(again.webhook.unwrap().secret, None);
    }
}
