use std::time::{Duration, Instant};

/// Waits until `condition` holds, looking every 10 ms; `false` when it still does not after `patience`.
///
/// The deadline is real time, also in a test whose tokio clock is paused.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let mut looks = 0;
/// let seen = weir_testbed::await_until(std::time::Duration::from_secs(5), async || {
///     looks += 1;
///     looks == 3
/// });
/// assert!(seen.await, "three looks");
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub async fn await_until(patience: Duration, mut condition: impl AsyncFnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if condition().await {
            return true;
        }
        if start.elapsed() >= patience {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
