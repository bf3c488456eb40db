//! The servers that Weir needs: private ones, or those that the environment names.

use std::path::Path;

use anyhow::Context as _;
use weir_agent::limiter::address::{self, Given};
use weir_core::shard::wrong_address;
use weir_testbed::{Flavor, Postgres, PostgresSettings, Redis, RedisSettings};

use crate::args::Dev;

/// Shards when none are given.
const SHARDS: usize = 3;

/// A shard as the control plane is told of it.
#[derive(Debug)]
pub(super) struct Shard {
    /// `shard-1`, `shard-2`, ...
    pub(super) name: String,
    /// Its address, without credentials.
    pub(super) address: String,
    /// How it was given, logins included.
    pub(super) given: Given,
}

impl Shard {
    /// The shard of that number at `url`, which may hold credentials.
    pub(super) fn new(number: usize, url: &str) -> anyhow::Result<Self> {
        let name = format!("shard-{number}");
        let given = address::read(url).with_context(|| format!("{name} of WEIR_REDIS_URLS"))?;
        // As it was given, if that is an address and nothing else.
        let address = if wrong_address(url).is_none() { url.to_owned() } else { given.address.to_string() };
        Ok(Self { name, address, given })
    }
}

/// Running servers; those that are ours stop with this value.
#[derive(Debug)]
pub(super) struct Servers {
    postgres: Option<Postgres>,
    redis: Vec<Redis>,
    /// Where the control plane's database is.
    pub(super) database_url: String,
    /// The shards of the ring.
    pub(super) shards: Vec<Shard>,
}

impl Servers {
    /// Starts what was not given.
    pub(super) async fn start(dev: &Dev, data: &Path) -> anyhow::Result<Self> {
        let postgres = match &dev.database_url {
            Some(_) => None,
            None => {
                let settings = PostgresSettings { data: Some(data.join("postgres")), ..PostgresSettings::default() };
                Some(Postgres::start(settings).await.context("the private Postgres (DATABASE_URL names another)")?)
            }
        };
        let database_url = match (&dev.database_url, &postgres) {
            (Some(url), _) => url.clone(),
            (None, Some(postgres)) => postgres.url(),
            (None, None) => String::new(),
        };
        let mut redis = Vec::new();
        if dev.redis_urls.is_empty() {
            for number in 1..=SHARDS {
                redis.push(start_redis(data, number).await?);
            }
        }
        let urls: Vec<String> = if redis.is_empty() { dev.redis_urls.clone() } else { redis.iter().map(Redis::url).collect() };
        let shards = urls.iter().enumerate().map(|(i, url)| Shard::new(i + 1, url)).collect::<anyhow::Result<_>>()?;
        Ok(Self { postgres, redis, database_url, shards })
    }

    /// Stops what is ours, so that all data is on disk.
    pub(super) async fn stop(&self) {
        let redis = futures::future::join_all(self.redis.iter().map(Redis::stop));
        let postgres = async {
            if let Some(postgres) = &self.postgres {
                postgres.stop().await;
            }
        };
        tokio::join!(redis, postgres);
    }
}

async fn start_redis(data: &Path, number: usize) -> anyhow::Result<Redis> {
    let data = data.join(format!("redis-{number}"));
    let settings = RedisSettings {
        flavor: Flavor::for_data(&data).context("the private Redis shards (WEIR_REDIS_URLS names others)")?,
        data: Some(data),
        extra: vec![("appendonly".into(), "yes".into())],
        ..RedisSettings::default()
    };
    Redis::start(settings).await.with_context(|| format!("private Redis shard {number}"))
}
