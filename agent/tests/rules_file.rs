//! An agent alone with a rules file that people edit.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod served;

use std::fs;
use std::path::Path;

use serde_json::json;
use served::{Served, settings, until};
use weir_agent::settings::{AgentSettings, RulesFrom};
use weir_agent::{Agent, StartError};

fn rules(limit: u32) -> String {
    format!(
        r#"
domain: default
tiers: [{{ name: free, default: true }}]
rules:
  - {{ name: all, key: [subject], algorithm: fixed_window, limits: {{ "*": {{ limit: {limit}, window: 365d }} }} }}
"#
    )
}

fn from_file(path: &Path) -> AgentSettings {
    AgentSettings { rules: RulesFrom::File(path.to_owned()), ..settings(&rules(1)) }
}

async fn limit(served: &Served) -> u64 {
    served.decide(&json!({ "subject": "look", "cost": 0 })).await["limit"].as_u64().unwrap()
}

async fn until_limit(served: &Served, wanted: u64) {
    until(&format!("a limit of {wanted}"), async || (limit(served).await == wanted).then_some(())).await;
}

async fn until_refused(served: &Served) -> String {
    until("a refused file", async || served.agent.status().domains[0].refused.clone()).await
}

#[tokio::test]
async fn a_change_is_seen_however_the_file_is_replaced_and_counters_live_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    fs::write(&path, rules(5)).unwrap();
    let served = Served::start(from_file(&path)).await;
    assert_eq!(served.admitted(&json!({ "subject": "s" }), 3).await, 3);
    // In place, as `echo >` does.
    fs::write(&path, rules(6)).unwrap();
    until_limit(&served, 6).await;
    // Atomically, as editors and configuration managers do.
    fs::write(folder.path().join("new"), rules(7)).unwrap();
    fs::rename(folder.path().join("new"), &path).unwrap();
    until_limit(&served, 7).await;
    // Moved away and written anew, as vim does with backups.
    fs::rename(&path, folder.path().join("rules.yaml~")).unwrap();
    fs::write(&path, rules(8)).unwrap();
    until_limit(&served, 8).await;
    assert_eq!(served.admitted(&json!({ "subject": "s" }), 9).await, 5);
    assert!(served.decide(&json!({ "cost": 0 })).await["revision"].as_u64().unwrap() >= 4);
    served.stop().await;
}

#[tokio::test]
async fn a_link_that_is_pointed_elsewhere_is_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (name, count) in [("v1", 5), ("v2", 6)] {
        fs::create_dir(at(name)).unwrap();
        fs::write(at(name).join("rules.yaml"), rules(count)).unwrap();
    }
    // As Kubernetes mounts a ConfigMap: rules.yaml -> ..data/rules.yaml, ..data -> v1.
    std::os::unix::fs::symlink("v1", at("..data")).unwrap();
    std::os::unix::fs::symlink("..data/rules.yaml", at("rules.yaml")).unwrap();
    let served = Served::start(from_file(&at("rules.yaml"))).await;
    assert_eq!(limit(&served).await, 5);
    std::os::unix::fs::symlink("v2", at("..new")).unwrap();
    fs::rename(at("..new"), at("..data")).unwrap();
    until_limit(&served, 6).await;
    served.stop().await;
}

#[tokio::test]
async fn a_bad_file_changes_nothing_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    fs::write(&path, rules(5)).unwrap();
    let served = Served::start(from_file(&path)).await;
    fs::write(&path, rules(5).replace("subject", "nonsense").replace("365d", "1000d")).unwrap();
    let why = until_refused(&served).await;
    assert!(why.contains("key") && why.contains("window"), "both mistakes are named: {why}");
    assert_eq!(limit(&served).await, 5);
    let status = served.agent.status();
    assert!(status.ready && status.warnings.iter().any(|warning| warning.contains("window")), "{status:?}");
    // Good again, even if it is what was there before.
    fs::write(&path, rules(5)).unwrap();
    until("the file is accepted", async || served.agent.status().domains[0].refused.is_none().then_some(())).await;
    fs::write(&path, rules(6).replace("domain: default", "domain: other")).unwrap();
    assert!(until_refused(&served).await.contains("other"));
    fs::remove_file(&path).unwrap();
    until("missing", async || served.agent.status().domains[0].refused.clone().filter(|why| why.contains("cannot read"))).await;
    assert_eq!(limit(&served).await, 5);
    fs::write(&path, rules(9)).unwrap();
    until_limit(&served, 9).await;
    served.stop().await;
}

#[tokio::test]
async fn an_agent_does_not_start_with_a_bad_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.yaml");
    let missing = Agent::start(from_file(&path)).await.unwrap_err();
    assert!(matches!(missing, StartError::Rules(_)), "{missing}");
    fs::write(&path, "domain: default\nrules: 7\ntears: []\n").unwrap();
    let text = Agent::start(from_file(&path)).await.unwrap_err().to_string();
    assert!(text.contains("/rules") && text.contains("/tears"), "{text}");
    fs::write(&path, rules(1)).unwrap();
    let stray = AgentSettings { domains: vec!["shop".parse().unwrap()], ..from_file(&path) };
    assert!(matches!(Agent::start(stray).await, Err(StartError::Domain { .. })));
}
