use std::io::Write as _;

use clap::Parser as _;
use secrecy::ExposeSecret as _;

use super::*;
use crate::settings::{Permission, Permissions};

fn flags(line: &[&str]) -> Flags {
    Flags::try_parse_from(std::iter::once(&"weir-agent").chain(line)).unwrap()
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn mistakes(line: &[&str], environment: &[(&str, &str)]) -> Vec<String> {
    load(&flags(line), variables(environment)).unwrap_err().into_iter().map(|m| m.pointer).collect()
}

#[test]
fn a_rules_file_is_enough() {
    let loaded = load(&flags(&["--rules", "rules.yaml"]), []).unwrap();
    assert!(matches!(&loaded.agent.rules, RulesFrom::File(path) if path.as_os_str() == "rules.yaml"));
    assert!(matches!(loaded.agent.counters, Counters::Memory));
    assert_eq!(loaded.agent.listen.tcp, Some("127.0.0.1:7080".parse().unwrap()));
    assert_eq!((loaded.agent.budget, loaded.agent.agents, loaded.agent.v6_prefix), (Duration::from_millis(5), 1, 64));
    assert_eq!(loaded.log, LogSettings { filter: "info".into(), json: false });
    assert_eq!(loaded.threads, 1);
    assert!(loaded.agent.authz.trusted_proxies.is_empty() && loaded.agent.authz.subject_header.is_none());
}

#[test]
fn flags_override_the_environment_which_overrides_the_file() {
    let file = file("name = 'from-file'\nbudget = '7ms'\nagents = 3\ntrusted_proxies = ['127.0.0.0/8', '::1']\nlog_json = true\n");
    let path = file.path().to_str().unwrap();
    let environment = [("WEIR_AGENT_NAME", "from-env"), ("WEIR_AGENT_BUDGET", "8ms"), ("OTHER", "x"), ("WEIR_AGENT_CONFIG", path)];
    let loaded = load(&flags(&["--rules", "r.yaml", "--name", "from-flag"]), variables(&environment)).unwrap();
    assert_eq!(loaded.agent.name, "from-flag");
    assert_eq!((loaded.agent.budget, loaded.agent.agents), (Duration::from_millis(8), 3));
    assert_eq!(loaded.agent.authz.trusted_proxies.len(), 2);
    assert!(loaded.log.json);
}

#[test]
fn shards_are_repeated_as_flags_and_listed_elsewhere() {
    let shards = |loaded: Loaded| match loaded.agent.counters {
        Counters::Shards(shards) => shards.into_iter().map(|s| (s.name.to_string(), s.address.to_string())).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let by_flag = flags(&["--rules", "r", "--shard", "a=redis://127.0.0.1:1/0", "--shard", "b=redis://:pw@127.0.0.1:2/0"]);
    let by_flag = load(&by_flag, []).unwrap();
    let by_variable = [("WEIR_AGENT_SHARDS", "a=redis://127.0.0.1:1/0, b=redis://:pw@127.0.0.1:2/0")];
    let by_variable = load(&flags(&["--rules", "r"]), variables(&by_variable)).unwrap();
    assert!(!format!("{by_flag:?}").contains("pw"));
    let found = shards(by_flag);
    assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(found, shards(by_variable));
}

#[test]
fn the_threads_are_a_setting() {
    let with = |threads| load(&flags(&["--rules", "r"]), variables(&[("WEIR_AGENT_THREADS", threads)]));
    assert_eq!(with("4").unwrap().threads, 4);
    for bad in ["0", "65", "all"] {
        assert_eq!(with(bad).unwrap_err().as_slice()[0].pointer, "WEIR_AGENT_THREADS", "{bad}");
    }
}

#[test]
fn the_subjects_kind_is_a_setting() {
    let with =
        |kind| load(&flags(&["--rules", "r"]), variables(&[("WEIR_AGENT_SUBJECT_HEADER", "x-tenant"), ("WEIR_AGENT_SUBJECT_KIND", kind)]));
    assert_eq!(with("tenant").unwrap().agent.authz.subject_kind.unwrap().as_str(), "tenant");
    for bad in ["ip", "Tenant", "a:b"] {
        assert_eq!(with(bad).unwrap_err().as_slice()[0].pointer, "WEIR_AGENT_SUBJECT_KIND", "{bad}");
    }
}

#[test]
fn every_mistake_is_reported_with_its_place() {
    let file = file("budget = '1h'\nv6_prefix = 129\nnonsense = 1\ntoken = 'weir_x'\n[authz]\nx = 1\n");
    let path = file.path().to_str().unwrap();
    let environment = [
        ("WEIR_AGENT_AGENTS", "0"),
        ("WEIR_AGENT_ON_NO_RULES", "maybe"),
        ("WEIR_AGENT_TYPO", "1"),
        ("WEIR_AGENT_COUNTERS", "control_plane"),
        ("WEIR_AGENT_HASH_SECRET", "abc"),
    ];
    let found = mistakes(&["--config", path, "--name", "a b", "--shard", "nonsense", "--listen", "here"], &environment);
    for place in [
        "--name",
        "--shard",
        "--listen",
        "WEIR_AGENT_AGENTS",
        "WEIR_AGENT_ON_NO_RULES",
        "WEIR_AGENT_TYPO",
        "counters",
        "hash_secret_file",
        "rules",
        "authz",
        "token",
        &format!("{path}: budget"),
        &format!("{path}: v6_prefix"),
        &format!("{path}: nonsense"),
    ] {
        assert!(found.iter().any(|pointer| pointer == place), "{place} is missing in {found:?}");
    }
    assert_eq!(found.len(), 14, "{found:?}");
}

#[test]
fn secrets_come_from_files_and_are_never_printed() {
    let (token, secret) = (file(" weir_secret\n"), file(&"ab".repeat(32)));
    let (token, secret) = (token.path().to_str().unwrap(), secret.path().to_str().unwrap());
    let environment = [("WEIR_AGENT_TOKEN_FILE", token)];
    let loaded = load(&flags(&["--control-plane", "http://127.0.0.1:7071"]), variables(&environment)).unwrap();
    let RulesFrom::ControlPlane(control_plane) = &loaded.agent.rules else { panic!("{loaded:?}") };
    assert_eq!(control_plane.token.expose_secret(), "weir_secret");
    assert!(matches!(loaded.agent.counters, Counters::FromControlPlane));
    assert!(!format!("{loaded:?}").contains("weir_secret"));
    let loaded = load(&flags(&["--rules", "r"]), variables(&[("WEIR_AGENT_HASH_SECRET_FILE", secret)])).unwrap();
    assert_eq!(loaded.agent.hash_secret.unwrap().as_bytes(), &[0xab; 32]);
    let both = [("WEIR_AGENT_TOKEN_FILE", token), ("WEIR_AGENT_HASH_SECRET_FILE", secret)];
    assert_eq!(mistakes(&["--control-plane", "http://127.0.0.1:7071"], &both), ["hash_secret_file"]);
    assert_eq!(mistakes(&["--control-plane", "http://127.0.0.1:7071"], &[]), ["token_file"]);
    assert_eq!(mistakes(&["--rules", "r"], &[("WEIR_AGENT_LISTEN_TOKEN_FILE", "/no/such/file")]), ["WEIR_AGENT_LISTEN_TOKEN_FILE"]);
}

#[test]
fn what_is_wrong_with_the_form_of_a_file_is_said_without_its_text() {
    let file = file("name = 'gw-1'\ntoken = 'weir_hunter2\n");
    let error = load(&flags(&["--config", file.path().to_str().unwrap()]), []).unwrap_err().to_string();
    assert!(error.contains("line 2, column") && !error.contains("hunter2"), "{error}");
}

#[test]
fn silence_outlasts_a_few_pings() {
    let silence =
        |text| mistakes(&["--control-plane", "http://127.0.0.1:7071"], &[("WEIR_AGENT_TOKEN", "x"), ("WEIR_AGENT_SILENCE", text)]);
    assert_eq!(silence("14s"), ["WEIR_AGENT_SILENCE"]);
    assert!(
        load(&flags(&["--control-plane", "http://127.0.0.1:7071"]), variables(&[("WEIR_AGENT_TOKEN", "x"), ("WEIR_AGENT_SILENCE", "15s")]))
            .is_ok()
    );
}

/// What the documentation of the settings names can be set, and nothing else can.
#[test]
fn every_documented_variable_is_a_setting() {
    let documented: std::collections::BTreeSet<&str> = [include_str!("../../settings.rs"), include_str!("../load.rs")]
        .iter()
        .flat_map(|text| text.match_indices("`WEIR_AGENT_").map(|(at, _)| &text[at + 1..]))
        .map(|text| &text[..text.find(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_').unwrap_or(text.len())])
        .filter(|name| !matches!(*name, "WEIR_AGENT_" | "WEIR_AGENT_X"))
        .collect();
    assert!(documented.len() >= 30, "{documented:?}");
    for name in documented {
        let mistakes = load(&flags(&["--rules", "r"]), variables(&[(name, "")])).err().map(|m| m.to_string()).unwrap_or_default();
        assert!(!mistakes.contains("is not a setting"), "{name}: {mistakes}");
    }
}

/// Whoever asks `--help` learns of every setting: it is a flag, or listed after them.
#[test]
fn help_names_every_documented_variable() {
    let flags = Flags::default().values();
    let documented = [include_str!("../../settings.rs"), include_str!("../load.rs")].join("\n");
    let names: std::collections::BTreeSet<&str> = documented
        .split(|c: char| !c.is_ascii_uppercase() && c != '_' && !c.is_ascii_digit())
        .filter_map(|word| word.strip_prefix("WEIR_AGENT_"))
        .filter(|name| !matches!(*name, "" | "X"))
        .collect();
    for name in names {
        let is_flag = flags.iter().any(|(flag, _)| *flag == name.to_lowercase());
        assert!(is_flag || crate::settings::flags::OTHER_SETTINGS.contains(&format!("WEIR_AGENT_{name}")), "{name}");
    }
}

#[test]
fn operations_are_a_list_of_names() {
    let environment = [
        ("WEIR_AGENT_SOCKET", "/run/weir.sock"),
        ("WEIR_AGENT_SOCKET_OPERATIONS", "refund, limits"),
        ("WEIR_AGENT_SOCKET_GROUP", "www-data"),
    ];
    let listen = load(&flags(&["--rules", "r"]), variables(&environment)).unwrap().agent.listen;
    assert_eq!(listen.socket_operations, [Permission::Refund, Permission::Limits].into_iter().collect());
    assert_eq!((listen.socket_group.as_deref(), listen.tcp_operations), (Some("www-data"), Permissions::NONE));
    let file = file("tcp_operations = ['record', 'override']\n");
    let found = load(&flags(&["--rules", "r", "--config", file.path().to_str().unwrap()]), []).unwrap_err().to_string();
    assert!(found.contains("tcp_operations: must be one of record, refund, reset, limits, not \"override\""), "{found}");
}
