//! Lists in pages: `page_size`, and an opaque `page_token` that says where the next page starts.
//!
//! The token is signed and bound to the list and its filters, so that it cannot be made up and is refused where it does not belong. It
//! carries no authority: whoever presents it is authorised anew.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::digest::Key;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::Sha256;

use super::problem::Problem;

/// Entries of a page where nothing is said.
pub const DEFAULT_SIZE: i64 = 50;
/// The most entries of a page; more is cut to this.
pub const MAX_SIZE: i64 = 500;
const SIGNATURE_LENGTH: usize = 16;

/// Signs and reads page tokens.
#[derive(Clone)]
pub struct Pager {
    empty: Hmac<Sha256>,
}

/// One page that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    scope: String,
    /// How many entries.
    pub size: i64,
    /// The key of the last entry of the page before; `None`: this is the first.
    pub after: Option<String>,
}

impl Wanted {
    /// How many rows to ask for: one more than wanted, to see whether there is another page.
    #[must_use]
    pub fn limit(&self) -> i64 {
        self.size + 1
    }

    /// The key of the last entry as a number, `start` for the first page.
    ///
    /// # Errors
    /// 400: not a token of this list.
    pub fn after_number(&self, start: i64) -> Result<i64, Problem> {
        self.after.as_deref().map_or(Ok(start), |after| after.parse().map_err(|_| bad_token()))
    }
}

impl Pager {
    /// With the key that all replicas share.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        let mut block = Key::<Hmac<Sha256>>::default();
        // HMAC fills a short key up with zeros.
        block[..key.len()].copy_from_slice(&key);
        Self { empty: Hmac::new(&block) }
    }

    /// What the query asks for. `scope` names the list and its filters.
    ///
    /// # Errors
    /// 400: a negative size, or a token of another list.
    pub fn wanted(&self, scope: impl Into<String>, size: Option<i64>, token: Option<&str>) -> Result<Wanted, Problem> {
        let scope = scope.into();
        let size = match size {
            None | Some(0) => DEFAULT_SIZE,
            Some(size) if size < 0 => return Err(Problem::mistake("page_size", "must not be negative")),
            Some(size) => size.min(MAX_SIZE),
        };
        let after = token.filter(|t| !t.is_empty()).map(|t| self.read(&scope, t)).transpose()?;
        Ok(Wanted { scope, size, after })
    }

    /// The page as it is answered; `rows` may have one entry more than wanted.
    pub fn page<T>(&self, wanted: &Wanted, mut rows: Vec<T>, key: impl Fn(&T) -> String, show: impl Fn(T) -> Value) -> Value {
        let size = usize::try_from(wanted.size).unwrap_or_default();
        let more = rows.len() > size;
        rows.truncate(size);
        let next = rows.last().filter(|_| more).map(|last| self.sign(&wanted.scope, &key(last))).unwrap_or_default();
        json!({ "items": rows.into_iter().map(show).collect::<Vec<_>>(), "next_page_token": next })
    }

    fn sign(&self, scope: &str, after: &str) -> String {
        let signature = self.mac(scope, after).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode([&signature[..SIGNATURE_LENGTH], after.as_bytes()].concat())
    }

    fn read(&self, scope: &str, token: &str) -> Result<String, Problem> {
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| bad_token())?;
        let (signature, after) = bytes.split_at_checked(SIGNATURE_LENGTH).ok_or_else(bad_token)?;
        let after = std::str::from_utf8(after).map_err(|_| bad_token())?;
        self.mac(scope, after).verify_truncated_left(signature).map_err(|_| bad_token())?;
        Ok(after.to_owned())
    }

    fn mac(&self, scope: &str, after: &str) -> Hmac<Sha256> {
        let mut mac = self.empty.clone();
        for part in [scope, after] {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part.as_bytes());
        }
        mac
    }
}

fn bad_token() -> Problem {
    Problem::mistake("page_token", "is not the next_page_token of this list with these filters")
}

/// A page of a list.
#[derive(Serialize, utoipa::ToSchema)]
pub struct Page<T> {
    /// The entries.
    pub items: Vec<T>,
    /// Where the next page starts; empty: this is the last one.
    pub next_page_token: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pager() -> Pager {
        Pager::new([7; 32])
    }

    #[test]
    fn a_list_is_walked_to_its_end() {
        let all: Vec<i64> = (1..=7).collect();
        let (mut seen, mut token) = (Vec::new(), String::new());
        loop {
            let wanted = pager().wanted("numbers", Some(3), Some(&token)).unwrap();
            let start = wanted.after_number(0).unwrap();
            let rows = all.iter().copied().filter(|n| *n > start).take(usize::try_from(wanted.limit()).unwrap()).collect();
            let page = pager().page(&wanted, rows, ToString::to_string, Value::from);
            seen.extend(page["items"].as_array().unwrap().iter().filter_map(Value::as_i64));
            token = page["next_page_token"].as_str().unwrap().to_owned();
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(seen, all);
    }

    #[test]
    fn sizes_are_bounded() {
        let size = |size| pager().wanted("x", size, None).map(|w| w.size);
        assert_eq!(size(None).unwrap(), DEFAULT_SIZE);
        assert_eq!(size(Some(0)).unwrap(), DEFAULT_SIZE);
        assert_eq!(size(Some(i64::MAX)).unwrap(), MAX_SIZE);
        assert_eq!(size(Some(-1)).unwrap_err().status(), 400);
    }

    #[test]
    fn a_token_is_good_for_its_list_only() {
        let token = pager().sign("rules?domain=a", "x");
        let open = |scope: &str, token: &str| pager().wanted(scope, None, Some(token));
        assert_eq!(open("rules?domain=a", &token).unwrap().after.as_deref(), Some("x"));
        assert!(open("rules?domain=b", &token).is_err());
        assert!(Pager::new([8; 32]).wanted("rules?domain=a", None, Some(&token)).is_err());
        for bad in ["x", "!!", &token[1..], &format!("{token}A"), &URL_SAFE_NO_PAD.encode("x")] {
            assert!(open("rules?domain=a", bad).is_err(), "{bad}");
        }
    }
}
