//! Where a shard listens: `redis://host:port/db`, `rediss://host:port/db` (TLS) or `unix:///path?db=1`.

use std::fmt;
use std::str::FromStr;

use redis::{ConnectionAddr, IntoConnectionInfo as _};
use secrecy::SecretString;

/// A shard's address, without credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct ShardAddress {
    addr: ConnectionAddr,
    db: i64,
}

/// What a shard address may hold besides the address.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// The ACL user.
    pub username: Option<String>,
    /// The password.
    pub password: Option<SecretString>,
}

/// Why a text is no shard address. Never repeats the text, which may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Neither of the three forms.
    #[error("must be redis://host:port, rediss://host:port or unix:///path ({0})")]
    Form(String),
    /// User name or password in a place where they would be shown.
    #[error("must not hold a user name or password")]
    Credentials,
}

impl ShardAddress {
    /// Reads an address that may hold credentials, as command lines have it.
    ///
    /// # Errors
    /// [`AddressError::Form`].
    pub fn with_credentials(text: &str) -> Result<(Self, Credentials), AddressError> {
        // A bare path is what people type for a socket.
        let url = if text.starts_with('/') { format!("unix://{text}") } else { text.to_owned() };
        let info = url.as_str().into_connection_info().map_err(|e| AddressError::Form(e.detail().unwrap_or("unreadable").to_owned()))?;
        let redis = info.redis_settings();
        let credentials = Credentials { username: redis.username().map(str::to_owned), password: redis.password().map(SecretString::from) };
        Ok((Self { addr: info.addr().clone(), db: redis.db() }, credentials))
    }

    pub(super) fn connection_addr(&self) -> &ConnectionAddr {
        &self.addr
    }

    pub(super) fn db(&self) -> i64 {
        self.db
    }
}

impl FromStr for ShardAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (address, credentials) = Self::with_credentials(text)?;
        if credentials.username.is_some() || credentials.password.is_some() {
            return Err(AddressError::Credentials);
        }
        Ok(address)
    }
}

impl fmt::Display for ShardAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.addr {
            ConnectionAddr::Unix(path) => {
                write!(f, "unix://{}", path.display())?;
                if self.db == 0 { Ok(()) } else { write!(f, "?db={}", self.db) }
            }
            ConnectionAddr::TcpTls { .. } => write!(f, "rediss://{}/{}", self.addr, self.db),
            _ => write!(f, "redis://{}/{}", self.addr, self.db),
        }
    }
}

impl fmt::Debug for ShardAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_and_print() {
        for (text, printed) in [
            ("redis://127.0.0.1:6400", "redis://127.0.0.1:6400/0"),
            ("redis://127.0.0.1/3", "redis://127.0.0.1:6379/3"),
            ("rediss://cache.example:6380/1", "rediss://cache.example:6380/1"),
            ("unix:///run/redis.sock", "unix:///run/redis.sock"),
            ("/run/redis.sock", "unix:///run/redis.sock"),
        ] {
            let address: ShardAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), printed);
            assert_eq!(printed.parse::<ShardAddress>().unwrap(), address);
        }
        for bad in ["", "127.0.0.1:6379", "http://127.0.0.1:1", "redis://", "redis://127.0.0.1/x", "redis://0.0.0.0:1"] {
            assert!(matches!(bad.parse::<ShardAddress>(), Err(AddressError::Form(_))), "{bad}");
        }
    }

    #[test]
    fn what_the_control_plane_accepts_is_an_address_here() {
        for address in
            ["redis://h:1", "redis://my_redis-0.ns.svc:1/65535", "redis://[::1]:6379/3", "rediss://h", "redis://h/", "/run/a@b.sock"]
        {
            assert_eq!(weir_core::shard::wrong_address(address), None, "{address}");
            assert!(address.parse::<ShardAddress>().is_ok(), "{address}");
        }
    }

    #[test]
    fn credentials_are_kept_apart() {
        let text = "redis://alice:s3cret@127.0.0.1:1";
        assert_eq!(text.parse::<ShardAddress>(), Err(AddressError::Credentials));
        let (address, credentials) = ShardAddress::with_credentials(text).unwrap();
        assert_eq!((address.to_string().as_str(), credentials.username.as_deref()), ("redis://127.0.0.1:1/0", Some("alice")));
        assert!(!format!("{address:?} {credentials:?}").contains("s3cret"));
    }
}
