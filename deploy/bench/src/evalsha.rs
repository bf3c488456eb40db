//! The classic script under `redis-benchmark`: what a team gets that writes its own limiter in an afternoon, at its very best.

use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::Command;
use weir_testbed::Redis;

const SUBJECTS: u32 = 1_000_000;
const CLIENTS: u32 = 50;
const PIPELINE: u32 = 64;

/// The script, loaded.
#[derive(Debug)]
pub(crate) struct Classic {
    port: u16,
    sha1: String,
}

impl Classic {
    pub(crate) async fn prepare(redis: &Redis) -> anyhow::Result<Self> {
        let mut connection = redis::Client::open(redis.url())?.get_multiplexed_async_connection().await?;
        let sha1: String = redis::cmd("SCRIPT").arg("LOAD").arg(include_str!("classic.lua")).query_async(&mut connection).await?;
        Ok(Self { port: redis.addr()?.port(), sha1 })
    }

    /// Checks per second over about `length`.
    pub(crate) async fn slice(&self, length: Duration) -> anyhow::Result<f64> {
        // redis-benchmark counts requests, not seconds: this many take about `length` on one core.
        let requests = 110_000 * length.as_secs();
        let numbers = [("-p", u64::from(self.port)), ("-c", u64::from(CLIENTS)), ("-P", u64::from(PIPELINE)), ("-n", requests)];
        let mut command = Command::new("redis-benchmark");
        for (flag, value) in numbers {
            command.arg(flag).arg(value.to_string());
        }
        command.args(["-r", &SUBJECTS.to_string(), "--csv"]);
        command.args(["EVALSHA", &self.sha1, "1", "classic:__rand_int__", "0.000278", "1000", "1700000000000", "1"]);
        let output = command.output().await.context("redis-benchmark (Debian's package redis-tools) is needed for this row")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(rate) = text.lines().last().and_then(|line| line.split("\",\"").nth(1)?.parse().ok()) else {
            bail!("redis-benchmark printed no figure: {text}{}", String::from_utf8_lossy(&output.stderr));
        };
        Ok(rate)
    }
}
