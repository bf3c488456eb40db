//! An operator's first day in a real browser; the steps are in `web/e2e/`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::Path;

use tokio::process::Command;
use weir_e2e::{Plan, Product, closed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_signs_in_makes_a_rule_and_sees_whom_it_refuses() {
    let product = Product::start(Plan { rules: closed(), ..Plan::default() }).await.unwrap();
    let gateway = product.gateway().await.unwrap();
    let link = product.sign_in_link().await.unwrap();
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let mut command = Command::new("npm");
    command.args(["run", "--silent", "e2e"]).current_dir(web).kill_on_drop(true);
    command.env("WEIR_E2E_URL", product.url()).env("WEIR_E2E_LINK", link).env("WEIR_E2E_GATEWAY", gateway);
    command.env("WEIR_CHROMIUM", weir_testbed::chromium().unwrap());
    let output = command.output().await.expect("npm runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    product.stop().await.unwrap();
}
