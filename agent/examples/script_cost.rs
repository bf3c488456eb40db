//! What a check costs a Redis server: processor time of the server per check, in batches of 32, for each algorithm, beside the classic
//! single-key script. `cargo run --release -p weir-agent --example script_cost`

use std::time::Duration;

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use weir_agent::limiter::script;
use weir_core::counter::CounterCall;
use weir_core::key::{HashSecret, Tag, counter_key};
use weir_core::lease::LeaseId;
use weir_core::limit::{Algorithm, Bound};
use weir_core::subject::Subject;
use weir_testbed::{Flavor, Redis};

const BATCH: usize = 32;
const SUBJECTS: usize = 20_000;
const CALLS: usize = 4_000;
const IN_FLIGHT: usize = 4;

/// The token bucket that most people write: a hash, read, written and expired by three commands, one key per call.
const CLASSIC: &str = "
local state = redis.call('HMGET', KEYS[1], 'tokens', 'time')
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local tokens, time = tonumber(state[1]) or 1000, tonumber(state[2]) or now
tokens = math.min(1000, tokens + (now - time) * 1000 / 60000000)
local passes = tokens >= 1
if passes then tokens = tokens - 1 end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'time', now)
redis.call('PEXPIRE', KEYS[1], 61000)
return { passes and 1 or 0, math.floor(tokens) }";

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let server = Redis::temporary(Flavor::Redis).await?;
    let patient = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
    let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection_with_config(&patient).await?;
    script::load(&mut connection).await?;
    let classic: String = redis::cmd("SCRIPT").arg("LOAD").arg(CLASSIC).query_async(&mut connection).await?;
    let single = |place: usize| redis::cmd("EVALSHA").arg(&classic).arg(1).arg(format!("{{{:016x}}}classic", place % SUBJECTS)).to_owned();
    measure(&mut connection, "classic script, one key", 1, 64, single).await?;
    for algorithm in Algorithm::ALL {
        let allow = |place: usize| batch(place, algorithm, 1_000);
        measure(&mut connection, &format!("{}, passes", algorithm.as_str()), BATCH, IN_FLIGHT, allow).await?;
        let refuse = |place: usize| batch(place, algorithm, 1);
        measure(&mut connection, &format!("{}, refused", algorithm.as_str()), BATCH, IN_FLIGHT, refuse).await?;
    }
    Ok(())
}

/// A batch of single-limit requests of different subjects; with a limit of 1 nearly all are refused.
fn batch(place: usize, algorithm: Algorithm, limit: u64) -> redis::Cmd {
    let secret = HashSecret::built_in();
    let bound = Bound { algorithm, limit, capacity: limit, window_us: 60_000_000, calendar: None };
    let calls: Vec<CounterCall> = (0..BATCH)
        .map(|k| {
            let subject = format!("user:{}", (place * 7_919 + k * 613) % SUBJECTS);
            let tag = Subject::parse(&subject)
                .map_or_else(|| Tag::of_rule(&secret, "bench", "rule", &[]), |subject| Tag::of_subject(&secret, "bench", &subject));
            let rule = format!("{}{limit}", algorithm.as_str());
            // Only `concurrency` looks at it: each call acquires another.
            let lease = Some(LeaseId::new(((place * BATCH + k) as u128).to_be_bytes()));
            CounterCall { lease, ..CounterCall::check(counter_key(&secret, tag, &rule, &[]), bound, 1) }
        })
        .collect();
    let requests: Vec<&[CounterCall]> = calls.chunks(1).collect();
    script::encode(&requests, 0)
}

/// Sends `CALLS` commands, `pipelined` at a time, after a round that is not measured.
#[allow(clippy::print_stdout, reason = "this is what it is for")]
async fn measure(
    connection: &mut MultiplexedConnection,
    name: &str,
    checks: usize,
    pipelined: usize,
    command: impl Fn(usize) -> redis::Cmd,
) -> anyhow::Result<()> {
    let mut before = 0.0;
    for round in 0..2 {
        if round == 1 {
            before = processor_seconds(connection).await?;
        }
        for at in (0..CALLS).step_by(pipelined) {
            let mut pipe = redis::pipe();
            for k in at..at + pipelined {
                pipe.add_command(command(round * CALLS + k)).ignore();
            }
            pipe.exec_async(connection).await?;
        }
    }
    let micros = (processor_seconds(connection).await? - before) * 1e6 / (CALLS * checks) as f64;
    println!("{name:28} {micros:6.2} µs per check {:8.0} checks/s", 1e6 / micros);
    Ok(())
}

async fn processor_seconds(connection: &mut MultiplexedConnection) -> anyhow::Result<f64> {
    let info: String = redis::cmd("INFO").arg("cpu").query_async(connection).await?;
    let value = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse::<f64>().ok());
    let user = value("used_cpu_user_main_thread").or_else(|| value("used_cpu_user")).unwrap_or_default();
    let system = value("used_cpu_sys_main_thread").or_else(|| value("used_cpu_sys")).unwrap_or_default();
    Ok(user + system)
}
