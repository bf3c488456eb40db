//! What it costs a Redis server to read the arguments of a batch and to answer it, by how both are written: the packed form of the script beside the
//! usual ones. `cargo run --release -p weir-agent --example encodings`

use redis::aio::MultiplexedConnection;
use weir_testbed::{Flavor, Redis};

const KEYS: usize = 32;
const CALLS: u64 = 5_000;
const ROUNDS: usize = 3;
/// Algorithm, limit, capacity, window and cost of a check, as most are.
const CHECK: [f64; 5] = [1.0, 1_000.0, 1_000.0, 86_400_000_000.0, 1.0];

#[allow(clippy::print_stdout, reason = "this is what it is for")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let server = Redis::temporary(Flavor::Redis).await?;
    let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    let texts = (0..KEYS).flat_map(|_| CHECK.map(|number| number.to_string().into_bytes())).collect();
    let empty = measure(&mut connection, "return ''", vec![Vec::new()]).await?;
    for (what, script, arguments) in [
        ("arguments, what is common once, a byte per key", COMMON_ONCE, vec![common_once()]),
        ("arguments, packed whole for each key", WHOLE, vec![packed(&CHECK).repeat(KEYS)]),
        ("arguments, MessagePack", "cmsgpack.unpack(ARGV[1]) return ''", vec![message_pack()]),
        ("arguments, JSON", "cjson.decode(ARGV[1]) return ''", vec![json()]),
        ("arguments, numbers as texts", TEXTS, texts),
        ("reply, a mark and the state per key", STATES, vec![Vec::new()]),
        ("reply, three packed numbers per key", NUMBERS, vec![Vec::new()]),
        ("reply, MessagePack", "local o = {} for k = 1, #KEYS do o[k] = {1, k, 9, 0} end return cmsgpack.pack(o)", vec![Vec::new()]),
        ("reply, arrays of integers", "local o = {} for k = 1, #KEYS do o[k] = {1, k, 9, 0} end return o", vec![Vec::new()]),
    ] {
        let us = measure(&mut connection, script, arguments).await? - empty;
        println!("{what:<48} {us:>6.2} us per call of {KEYS}  {:>5.2} us per check", us / f64::from(u32::try_from(KEYS)?));
    }
    Ok(())
}

const COMMON_ONCE: &str = "
local packed, position, algorithm, limit, capacity, window, cost = ARGV[1], 1
algorithm, limit, capacity, window, position = struct.unpack('<Bddd', packed, position)
cost, position = struct.unpack('<d', packed, position)
local shapes = { string.byte(packed, position, position + #KEYS - 1) }
return ''";
const WHOLE: &str = "
local packed, position, algorithm, limit, capacity, window, cost = ARGV[1], 1
for k = 1, #KEYS do
  algorithm, limit, capacity, window, cost, position = struct.unpack('<Bdddd', packed, position)
end
return ''";
const TEXTS: &str = "
for k = 1, #ARGV, 5 do
  local algorithm, limit, capacity = tonumber(ARGV[k]), tonumber(ARGV[k + 1]), tonumber(ARGV[k + 2])
  local window, cost = tonumber(ARGV[k + 3]), tonumber(ARGV[k + 4])
end
return ''";
const STATES: &str = "
local marks, out = {}, {}
for k = 1, #KEYS do marks[k], out[k] = '4', '123456789012' end
return struct.pack('<d', 1) .. table.concat(marks) .. table.concat(out)";
const NUMBERS: &str = "
local marks, out = {}, {}
for k = 1, #KEYS do marks[k], out[k] = '1', struct.pack('<ddd', k, 9, 0) end
return struct.pack('<d', 1) .. table.concat(marks) .. table.concat(out)";

fn packed(check: &[f64; 5]) -> Vec<u8> {
    [&[1][..], &check[1..].iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>()].concat()
}

fn common_once() -> Vec<u8> {
    [packed(&CHECK), vec![1; KEYS]].concat()
}

fn json() -> Vec<u8> {
    let check = format!("[{}]", CHECK.map(|number| number.to_string()).join(","));
    format!("[{}]", vec![check; KEYS].join(",")).into_bytes()
}

/// An array of arrays: 1, 1000, 1000, the window as 64 bits, 1.
fn message_pack() -> Vec<u8> {
    let window = 86_400_000_000u64.to_be_bytes();
    let check = [&[0x95, 0x01, 0xcd, 0x03, 0xe8, 0xcd, 0x03, 0xe8, 0xcf][..], &window, &[0x01]].concat();
    [vec![0xdc, 0, 32], check.repeat(KEYS)].concat()
}

/// Microseconds of the server per call of `script`: the best of a few rounds.
async fn measure(connection: &mut MultiplexedConnection, script: &str, arguments: Vec<Vec<u8>>) -> anyhow::Result<f64> {
    let sha1: String = redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(connection).await?;
    let mut call = redis::cmd("EVALSHA");
    call.arg(sha1).arg(KEYS).arg((0..KEYS).map(|key| format!("{{encodings}}{key}")).collect::<Vec<_>>()).arg(arguments);
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        redis::cmd("CONFIG").arg("RESETSTAT").exec_async(connection).await?;
        for _ in 0..CALLS {
            call.exec_async(connection).await?;
        }
        let info: String = redis::cmd("INFO").arg("commandstats").query_async(connection).await?;
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:"));
        let us = line.and_then(|line| line.split(',').find_map(|part| part.strip_prefix("usec_per_call=")?.parse().ok()));
        best = best.min(us.ok_or_else(|| anyhow::anyhow!("INFO commandstats says nothing of EVALSHA"))?);
    }
    Ok(best)
}
