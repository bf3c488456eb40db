//! The servers that Weir needs: private ones, or those that the environment names.

use std::path::Path;

use anyhow::Context as _;
use weir_testbed::{Flavor, Postgres, PostgresSettings, Redis, RedisSettings};

use crate::args::Dev;

/// Shards when none are given.
const SHARDS: usize = 3;

/// Running servers; those that are ours stop with this value.
#[derive(Debug)]
pub(super) struct Servers {
    postgres: Option<Postgres>,
    redis: Vec<Redis>,
    /// Where the control plane's database is.
    pub(super) database_url: String,
    /// Name and address of each shard.
    pub(super) shards: Vec<(String, String)>,
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
        let shards = urls.into_iter().enumerate().map(|(i, url)| (format!("shard-{}", i + 1), url)).collect();
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
