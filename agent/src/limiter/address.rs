//! Where a shard is, as a command line says it: the address itself ([`weir_core::shard::address`]), and with it what opens the shard.

use secrecy::SecretString;
pub use weir_core::shard::address::{Address as ShardAddress, Host, Reach};

/// What opens a server.
#[derive(Debug, Clone, Default)]
pub struct Login {
    /// The ACL user.
    pub username: Option<String>,
    /// The password.
    pub password: Option<SecretString>,
}

/// A shard as a command line names it.
#[derive(Debug, Clone)]
pub struct Given {
    /// Where it is.
    pub address: ShardAddress,
    /// What opens it.
    pub login: Login,
    /// What opens the sentinels that know it.
    pub sentinel_login: Login,
    /// Its share of the counters.
    pub weight: u32,
    /// Bytes of memory that it may fill, if it has no limit of its own.
    pub memory_limit: Option<u64>,
}

/// Why a text names no shard. Never repeats the text, which may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is no address.
    #[error("{0}")]
    Form(&'static str),
    /// What comes after `?` is not known.
    #[error("after '?' there may be sentinel_username, sentinel_password, weight and memory_limit; for a socket also db, user and pass")]
    Parameter,
    /// A number is none, or out of range.
    #[error("{0} is not a number in its range")]
    Number(&'static str),
    /// A `%` is not followed by two hex digits, or what they spell is no text.
    #[error("a user name or password is not percent-encoded properly")]
    Encoding,
}

/// Reads `redis://[user:password@]host:port/db` in all its forms, a path, or `unix:///path`, with parameters after `?`.
///
/// # Errors
/// [`AddressError`].
pub fn read(text: &str) -> Result<Given, AddressError> {
    let (place, parameters) = text.split_once('?').unwrap_or((text, ""));
    let (place, login) = without_login(place.strip_prefix("unix://").unwrap_or(place))?;
    let address: ShardAddress = place.parse().map_err(AddressError::Form)?;
    let mut given = Given { address, login, sentinel_login: Login::default(), weight: 1, memory_limit: None };
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').ok_or(AddressError::Parameter)?;
        given.set(name, &decoded(value)?)?;
    }
    Ok(given)
}

impl Given {
    fn set(&mut self, name: &str, value: &str) -> Result<(), AddressError> {
        let is_socket = matches!(self.address.reach, Reach::Socket(_));
        match name {
            "sentinel_username" => self.sentinel_login.username = Some(value.to_owned()),
            "sentinel_password" => self.sentinel_login.password = Some(value.into()),
            "weight" => {
                let weight = value.parse().ok().filter(|weight| (1..=super::MAX_WEIGHT).contains(weight));
                self.weight = weight.ok_or(AddressError::Number("weight"))?;
            }
            "memory_limit" => {
                let limit = value.parse().ok().filter(|limit| *limit >= weir_core::shard::MIN_MEMORY_LIMIT);
                self.memory_limit = Some(limit.ok_or(AddressError::Number("memory_limit"))?);
            }
            "db" if is_socket => self.address.database = value.parse().map_err(|_| AddressError::Number("db"))?,
            "user" if is_socket => self.login.username = Some(value.to_owned()),
            "pass" if is_socket => self.login.password = Some(value.into()),
            _ => return Err(AddressError::Parameter),
        }
        Ok(())
    }
}

/// An address, and the credentials that stood in it.
fn without_login(text: &str) -> Result<(String, Login), AddressError> {
    let none = || Ok((text.to_owned(), Login::default()));
    let Some((scheme, rest)) = text.split_once("://") else { return none() };
    let authority = rest.split('/').next().unwrap_or(rest);
    let Some((user, _)) = authority.rsplit_once('@') else { return none() };
    let (username, password) = user.split_once(':').map_or((user, None), |(name, password)| (name, Some(password)));
    let username = Some(decoded(username)?).filter(|name| !name.is_empty());
    let password = password.map(decoded).transpose()?.map(SecretString::from);
    Ok((format!("{scheme}://{}", &rest[user.len() + 1..]), Login { username, password }))
}

/// `%40` is `@`.
fn decoded(text: &str) -> Result<String, AddressError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits =
            rest.split_at_checked(2).filter(|(digits, _)| digits.iter().all(u8::is_ascii_hexdigit)).ok_or(AddressError::Encoding)?;
        let byte = std::str::from_utf8(digits.0).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or(AddressError::Encoding)?);
        rest = digits.1;
    }
    String::from_utf8(bytes).map_err(|_| AddressError::Encoding)
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn login(login: &Login) -> (Option<&str>, Option<&str>) {
        (login.username.as_deref(), login.password.as_ref().map(ExposeSecret::expose_secret))
    }

    #[test]
    fn what_the_control_plane_accepts_is_an_address_here() {
        for address in [
            "redis://h:1",
            "redis://my_redis-0.ns.svc:1/65535",
            "redis://[::1]:6379/3",
            "rediss://h",
            "redis://h/",
            "/run/a@b.sock",
            "redis+sentinel://a:1,b/m/2",
            "rediss+cluster://a,b",
        ] {
            assert_eq!(read(address).unwrap().address, address.parse().unwrap(), "{address}");
        }
        for bad in ["", "127.0.0.1:6379", "http://127.0.0.1:1", "redis://", "redis://127.0.0.1/x", "redis://0.0.0.0:1"] {
            assert!(matches!(read(bad), Err(AddressError::Form(_))), "{bad}");
        }
    }

    #[test]
    fn credentials_are_kept_apart() {
        let given = read("redis://alice:s3%40cret@127.0.0.1:1/2").unwrap();
        assert_eq!((given.address.to_string().as_str(), login(&given.login)), ("redis://127.0.0.1:1/2", (Some("alice"), Some("s3@cret"))));
        assert!(!format!("{given:?}").contains("s3@cret"));
        let given = read("redis+sentinel://:p@a:1,b:2/m?sentinel_username=u&sentinel_password=s&weight=3&memory_limit=1048576").unwrap();
        assert_eq!(given.address.to_string(), "redis+sentinel://a:1,b:2/m");
        assert_eq!((login(&given.login), login(&given.sentinel_login)), ((None, Some("p")), (Some("u"), Some("s"))));
        assert_eq!((given.weight, given.memory_limit), (3, Some(1_048_576)));
        let given = read("unix:///run/redis.sock?db=3&pass=x").unwrap();
        assert_eq!(
            (given.address.to_string().as_str(), given.address.database, login(&given.login)),
            ("/run/redis.sock", 3, (None, Some("x")))
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_without_being_repeated() {
        for bad in ["redis://h?pass=secret", "redis://:%zz@h", "redis://h?weight=0", "redis://h?memory_limit=x", "redis://h?x"] {
            let error = read(bad).unwrap_err().to_string();
            assert!(!error.contains("secret") && !error.contains("zz"), "{error}");
        }
    }
}
