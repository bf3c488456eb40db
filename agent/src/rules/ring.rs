//! The ring of shards as the control plane sends it, and the credentials, which come apart from it.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use weir_core::item::Item;
use weir_core::key::HashSecret;
use weir_core::mistake::Mistakes;
use weir_core::name::Name;
use weir_core::shard;
use weir_proto::v1;

/// The shards at one revision.
#[derive(Debug, Clone)]
pub struct Ring {
    /// Its revision.
    pub revision: u64,
    /// The shards, in any order.
    pub shards: Vec<Shard>,
}

/// One shard.
#[derive(Debug, Clone)]
pub struct Shard {
    /// Its name, which places it on the ring.
    pub name: Name,
    /// Its address, without credentials.
    pub address: String,
    /// Its share relative to the others.
    pub weight: u32,
    /// Bytes of memory that it may fill, if it has no limit of its own.
    pub memory_limit: Option<u64>,
    /// What opens it.
    pub credentials: Option<Credentials>,
}

/// What opens a shard.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The ACL user, if any.
    pub username: Option<String>,
    /// The password, if any.
    pub password: Option<SecretString>,
    /// The user that sentinels ask for, if any.
    pub sentinel_username: Option<String>,
    /// The password that sentinels ask for, if any.
    pub sentinel_password: Option<SecretString>,
}

/// Reads the shards of a ring, without credentials. Items of another kind are left out and named beside.
///
/// # Errors
/// Every mistake, its pointer being `/shard/name/...`.
pub fn read(items: &[Item]) -> Result<(Vec<Shard>, Vec<String>), Mistakes> {
    let (shards, left_out) = shard::ring(items)?;
    let locked = |shard: shard::Shard| {
        let shard::Shard { name, address, weight, memory_limit } = shard;
        Shard { name, address, weight, memory_limit, credentials: None }
    };
    Ok((shards.into_iter().map(locked).collect(), left_out))
}

/// What must never be seen: the secret of counter keys and the shards' credentials.
#[derive(Clone, Default)]
pub struct Secrets {
    /// The secret of counter keys.
    pub hash_secret: Option<HashSecret>,
    /// Credentials by shard name.
    pub shards: HashMap<String, Credentials>,
    /// Changes when any secret does.
    pub fingerprint: String,
}

impl Secrets {
    /// Gives the shards their credentials.
    pub fn unlock(&self, shards: &mut [Shard]) {
        for shard in shards {
            shard.credentials = self.shards.get(shard.name.as_str()).cloned();
        }
    }

    /// The form that is kept on disk, mode 0600.
    #[must_use]
    pub fn to_disk(&self) -> SecretsOnDisk {
        let password = |password: &Option<SecretString>| password.as_ref().map(|p| p.expose_secret().to_owned()).unwrap_or_default();
        let shards = self.shards.iter().map(|(name, credentials)| ShardOnDisk {
            shard: name.clone(),
            username: credentials.username.clone().unwrap_or_default(),
            password: password(&credentials.password),
            sentinel_username: credentials.sentinel_username.clone().unwrap_or_default(),
            sentinel_password: password(&credentials.sentinel_password),
        });
        let hash_secret = self.hash_secret.as_ref().map(|secret| STANDARD.encode(secret.as_bytes()));
        SecretsOnDisk { hash_secret: hash_secret.unwrap_or_default(), shards: shards.collect(), fingerprint: self.fingerprint.clone() }
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.fingerprint)
    }
}

/// Why a secrets message cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the hash secret must have 32 bytes, not {0}")]
pub struct SecretsError(usize);

impl TryFrom<v1::Secrets> for Secrets {
    type Error = SecretsError;

    fn try_from(message: v1::Secrets) -> Result<Self, SecretsError> {
        let hash_secret = match message.hash_secret.as_slice() {
            [] => None,
            bytes => Some(HashSecret::new(bytes.try_into().map_err(|_| SecretsError(bytes.len()))?)),
        };
        let shards = message.shards.into_iter().map(|s| (s.shard.clone(), credentials(s))).collect();
        Ok(Self { hash_secret, shards, fingerprint: message.fingerprint })
    }
}

impl TryFrom<SecretsOnDisk> for Secrets {
    type Error = SecretsError;

    fn try_from(disk: SecretsOnDisk) -> Result<Self, SecretsError> {
        let hash_secret = STANDARD.decode(&disk.hash_secret).map_err(|_| SecretsError(0))?;
        let shards = disk.shards.into_iter();
        let shards = shards.map(|s| {
            let ShardOnDisk { shard, username, password, sentinel_username, sentinel_password } = s;
            v1::ShardCredentials { shard, username, password, sentinel_username, sentinel_password }
        });
        let shards = shards.collect();
        Self::try_from(v1::Secrets { hash_secret, shards, fingerprint: disk.fingerprint })
    }
}

/// [`Secrets`] as kept on disk.
#[derive(Serialize, Deserialize)]
pub struct SecretsOnDisk {
    hash_secret: String,
    shards: Vec<ShardOnDisk>,
    fingerprint: String,
}

#[derive(Serialize, Deserialize)]
struct ShardOnDisk {
    shard: String,
    username: String,
    password: String,
    // Files of agents before there were sentinels have neither.
    #[serde(default)]
    sentinel_username: String,
    #[serde(default)]
    sentinel_password: String,
}

fn credentials(message: v1::ShardCredentials) -> Credentials {
    let some = |text: String| (!text.is_empty()).then_some(text);
    Credentials {
        username: some(message.username),
        password: some(message.password).map(SecretString::from),
        sentinel_username: some(message.sentinel_username),
        sentinel_password: some(message.sentinel_password).map(SecretString::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_survive_the_disk_and_are_never_printed() {
        let message = v1::Secrets {
            hash_secret: vec![7; 32],
            shards: vec![v1::ShardCredentials {
                shard: "a".into(),
                username: "u".into(),
                password: "hunter2".into(),
                sentinel_username: String::new(),
                sentinel_password: "watchword".into(),
            }],
            fingerprint: "f1".into(),
        };
        let secrets = Secrets::try_from(message).unwrap();
        let again = Secrets::try_from(secrets.to_disk()).unwrap();
        assert_eq!(again.hash_secret.as_ref().unwrap().as_bytes(), &[7; 32]);
        let item =
            shard::Shard { name: Name::new("a").unwrap(), address: "redis://127.0.0.1:1".into(), weight: 1, memory_limit: None }.to_item();
        let (mut shards, _) = read(&[item]).unwrap();
        again.unlock(&mut shards);
        let credentials = shards[0].credentials.as_ref().unwrap();
        assert_eq!(credentials.password.as_ref().unwrap().expose_secret(), "hunter2");
        assert_eq!(credentials.sentinel_password.as_ref().unwrap().expose_secret(), "watchword");
        let printed = format!("{again:?} {shards:?}");
        assert!(!printed.contains("hunter2") && !printed.contains("watchword"));
        assert!(Secrets::try_from(v1::Secrets { hash_secret: vec![1; 31], ..Default::default() }).is_err());
    }
}
