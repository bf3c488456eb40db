//! Processor time, of this process and of a server.

use anyhow::Context as _;
use weir_testbed::Redis;

/// Clock ticks a second in `/proc`, on every Linux that there is.
const TICKS: f64 = 100.0;

/// Seconds of processor time that this process has used.
pub(crate) fn own() -> anyhow::Result<f64> {
    seconds("/proc/self/stat")
}

/// Of those, what other threads than this one have used.
pub(crate) fn other_threads() -> anyhow::Result<f64> {
    Ok(own()? - seconds("/proc/thread-self/stat")?)
}

fn seconds(file: &str) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    // Fields after the name, which is in brackets and may hold anything; user and system time are the 12th and 13th.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / TICKS)
}

/// Seconds of processor time that a server's main thread has used.
pub(crate) async fn of(redis: &Redis) -> anyhow::Result<f64> {
    let mut connection = redis::Client::open(redis.url())?.get_multiplexed_async_connection().await?;
    let info: String = redis::cmd("INFO").arg("cpu").query_async(&mut connection).await?;
    let value = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse::<f64>().ok());
    let user = value("used_cpu_user_main_thread").or_else(|| value("used_cpu_user")).unwrap_or_default();
    let system = value("used_cpu_sys_main_thread").or_else(|| value("used_cpu_sys")).unwrap_or_default();
    Ok(user + system)
}
