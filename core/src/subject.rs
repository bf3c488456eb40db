//! Who is limited.

use std::borrow::Cow;
use std::net::IpAddr;

/// The longest subject id, in bytes; a longer one is refused, never cut (two long ids with one beginning must not fall together).
pub const MAX_ID_LENGTH: usize = 1024;

/// Who is limited: an id with its kind. Ids are bytes: two different byte strings are two subjects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject<'a> {
    /// What the id names: `user`, `key`, `tenant`, `ip`, ...: a lower-case word.
    pub kind: Cow<'a, str>,
    /// The id, 1 to [`MAX_ID_LENGTH`] bytes.
    pub id: Cow<'a, [u8]>,
}

/// The kind of subjects that are client addresses.
pub const IP: &str = "ip";
/// The kind of the subject of requests that name none and have no client address.
pub const ANONYMOUS: &str = "anonymous";
/// The kind of a subject that was given without one.
pub const USER: &str = "user";

impl<'a> Subject<'a> {
    /// Reads `kind:id`; without a kind (a lower-case word of at most 32 characters before the first colon) the kind is [`USER`].
    /// `None` if the id is empty or longer than [`MAX_ID_LENGTH`].
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let (kind, id) = match text.split_once(':') {
            Some((kind, id)) if is_kind(kind) => (kind, id),
            _ => (USER, text),
        };
        Self::new(kind, id.as_bytes())
    }

    /// A subject of `kind` with `id`; `None` if the id is empty or longer than [`MAX_ID_LENGTH`].
    #[must_use]
    pub fn new(kind: &'a str, id: &'a [u8]) -> Option<Self> {
        (!id.is_empty() && id.len() <= MAX_ID_LENGTH).then_some(Self { kind: Cow::Borrowed(kind), id: Cow::Borrowed(id) })
    }

    /// The client address as a subject: IPv4 (also when mapped into IPv6) as it is, IPv6 as its network of `v6_prefix` bits.
    #[must_use]
    pub fn from_ip(ip: IpAddr, v6_prefix: u8) -> Subject<'static> {
        let id = match ip.to_canonical() {
            IpAddr::V4(v4) => v4.to_string(),
            IpAddr::V6(v6) => {
                let bits = u32::from(v6_prefix.min(128));
                let mask = if bits == 0 { 0 } else { u128::MAX << (128 - bits) };
                format!("{}/{bits}", std::net::Ipv6Addr::from(u128::from(v6) & mask))
            }
        };
        Subject { kind: Cow::Borrowed(IP), id: Cow::Owned(id.into_bytes()) }
    }

    /// Who is limited if nothing is known of the caller. Its empty id cannot be given by a caller.
    #[must_use]
    pub const fn anonymous() -> Subject<'static> {
        Subject { kind: Cow::Borrowed(ANONYMOUS), id: Cow::Borrowed(&[]) }
    }

    /// `kind:id` for people and events; bytes that are not UTF-8 are shown as `\xNN`.
    #[must_use]
    pub fn display(&self) -> String {
        let mut text = format!("{}:", self.kind);
        for chunk in self.id.utf8_chunks() {
            text.push_str(chunk.valid());
            for byte in chunk.invalid() {
                text.push_str(&format!("\\x{byte:02x}"));
            }
        }
        text
    }

    /// The same subject, owning its parts.
    #[must_use]
    pub fn into_owned(self) -> Subject<'static> {
        Subject { kind: Cow::Owned(self.kind.into_owned()), id: Cow::Owned(self.id.into_owned()) }
    }
}

/// The kind of all subjects that come from one place, such as a header that only ever holds tenants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind(Box<str>);

/// Why a text is not a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a lower-case letter and at most 31 lower-case letters, digits or '_', and neither {IP} nor {ANONYMOUS}")]
pub struct KindError;

impl Kind {
    /// The kind as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for Kind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, KindError> {
        if is_kind(text) && ![IP, ANONYMOUS].contains(&text) { Ok(Self(text.into())) } else { Err(KindError) }
    }
}

/// Whether `text` can be a subject's kind: a lower-case letter, then at most 31 lower-case letters, digits or `_`.
#[must_use]
pub fn is_kind(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= 32
        && bytes.next().is_some_and(|b| b.is_ascii_lowercase())
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}
