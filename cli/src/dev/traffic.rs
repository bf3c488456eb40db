//! `weir dev --traffic`: many ordinary users, some paying ones, a few abusers.

use std::time::Duration;

use rand::RngExt as _;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Requests per second in all.
const RATE: u32 = 40;
/// The share of requests (in percent) that come from the abusers.
const ABUSE_PERCENT: u32 = 40;
const ORDINARY_USERS: u32 = 300;
const PAID_EVERY: u32 = 7;
const ABUSERS: [&str; 4] = ["scraper-17", "mallory", "bot-farm-3", "retry-storm"];

/// Who asks for what.
struct Ask {
    user: String,
    tier: &'static str,
    method: reqwest::Method,
    path: &'static str,
}

/// Sends requests to the demo gateway until `stop`.
pub(super) async fn run(gateway: String, stop: CancellationToken) {
    let http = reqwest::Client::builder().timeout(Duration::from_secs(2)).build().unwrap_or_default();
    let mut tick = interval(Duration::from_secs(1) / RATE);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
        }
        let ask = next();
        let request = http.request(ask.method, format!("{gateway}{}", ask.path)).header("x-user-id", ask.user).header("x-tier", ask.tier);
        // Answers do not matter here, and a gateway that is going away is not this task's concern.
        tokio::spawn(async move { request.send().await.map(|response| response.status()) });
    }
}

fn next() -> Ask {
    let mut rng = rand::rng();
    let (user, tier) = if rng.random_range(0..100) < ABUSE_PERCENT {
        (ABUSERS[rng.random_range(0..ABUSERS.len())].to_owned(), "free")
    } else {
        // The square makes a few users busier than the rest, as in life.
        let share: f64 = rng.random();
        let number = (share * share * f64::from(ORDINARY_USERS)) as u32;
        (format!("user-{number}"), if number.is_multiple_of(PAID_EVERY) { "paid" } else { "free" })
    };
    let (method, path) = match rng.random_range(0..100) {
        0..50 => (reqwest::Method::GET, "/api/search"),
        50..62 => (reqwest::Method::POST, "/api/upload"),
        _ => (reqwest::Method::GET, "/"),
    };
    Ask { user, tier, method, path }
}
