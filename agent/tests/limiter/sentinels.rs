//! Sentinels that do not agree.

use weir_testbed::await_until;

use crate::fault::{answering, refusing};
use crate::support::*;

/// A sentinel that lost sight of the others still names the primary that was demoted: the others are asked too.
#[tokio::test(flavor = "multi_thread")]
async fn fault_a_sentinel_that_is_wrong_is_not_believed_for_ever() {
    let server = redis().await;
    let demoted = refusing("READONLY You can't write against a read only replica.").await;
    let sentinel = |port: u16| answering(format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.to_string().len()));
    let (wrong, right) = (sentinel(demoted.port()).await, sentinel(server.addr().expect("TCP").port()).await);
    let limiter = limiter_with(patient(), [format!("redis+sentinel://{wrong},{right}/main").as_str()]).await;
    let question = query(key("user-1", "r"), 1_000);
    let counts = async || in_time(&limiter, &question).await.degraded.is_none();
    assert!(await_until(RECOVERY, counts).await, "{:?}", limiter.shards());
}
