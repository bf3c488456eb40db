//! Good and bad questions.

use weir_core::limit::MAX_UNITS;

use super::*;

fn check(body: &[u8]) -> Result<Question<'_>, Mistakes> {
    Question::from_json(body, Form::Check)
}

fn pointers(body: &str) -> Vec<String> {
    check(body.as_bytes()).unwrap_err().into_iter().map(|mistake| mistake.pointer).collect()
}

#[test]
fn an_empty_question_has_the_documented_defaults() {
    let question = check(b"{}").unwrap();
    assert_eq!((&*question.domain, question.cost), ("default", 1));
    let nulls = br#"{"subject":null,"tier":null,"method":null,"host":null,"path":null,"headers":null,"client_ip":null,"cost":null,"descriptors":null,"domain":null}"#;
    assert_eq!(check(nulls).unwrap(), question);
}

#[test]
fn a_whole_question_is_read() {
    let body = r#"{ "domain": "default", "subject": "user:123", "tier": "free", "method": "GET", "host": "api.example.com",
        "path": "/api/search?q=1", "headers": { "X-Plan": "a" }, "client_ip": "203.0.113.7",
        "descriptors": [ { "key": "k", "value": "v" } ], "cost": 1 }"#;
    let question = check(body.as_bytes()).unwrap();
    assert_eq!(question.headers.get("x-plan").unwrap(), "a");
    assert_eq!(question.descriptors, [("k".into(), "v".into())]);
    assert_eq!(question.client_ip, Some(IpAddr::from([203, 0, 113, 7])));
}

#[test]
fn all_mistakes_come_at_once() {
    let body = r#"{ "domain": 1, "subject": "", "method": "GE T", "headers": {"a b": "x", "ok": "a\r\nb", "n": 1},
        "client_ip": "1.2.3", "descriptors": [1, {"key": ""}, {"key": "k", "value": "v", "x": 1}], "cost": -1, "hits": 1 }"#;
    let expected = [
        "/domain",
        "/subject",
        "/method",
        "/headers/a b",
        "/headers/ok",
        "/headers/n",
        "/client_ip",
        "/descriptors/0",
        "/descriptors/1/key",
        "/descriptors/1",
        "/descriptors/2/x",
        "/cost",
        "/hits",
    ];
    assert_eq!(pointers(body), expected);
}

/// BB-59: a cost of 0 is a look, and not the same as none.
#[test]
fn bb_59_costs_are_whole_numbers_within_bounds() {
    for (text, cost) in [("0", 0), ("7", 7), ("9007199254740991", MAX_UNITS)] {
        assert_eq!(check(format!(r#"{{"cost":{text}}}"#).as_bytes()).unwrap().cost, cost);
    }
    for bad in ["-1", "1.5", "1e3", "1.0", "9007199254740992", "18446744073709551616", "\"1\"", "true", "[]", "1e999"] {
        assert_eq!(check(format!(r#"{{"cost":{bad}}}"#).as_bytes()).unwrap_err().as_slice().len(), 1, "{bad}");
    }
}

#[test]
fn a_field_that_is_given_twice_is_a_mistake() {
    assert_eq!(pointers(r#"{"cost":0,"cost":1,"subject":"a","subject":"b"}"#), ["/cost", "/subject"]);
    assert_eq!(pointers(r#"{"headers":{"a":"1","b":"2","A":"1"}}"#), ["/headers/A"]);
    assert_eq!(
        pointers(r#"{"descriptors":[{"key":"k","value":"v","key":"k"},{"value":"v","key":"k","value":null}]}"#),
        ["/descriptors/0/key", "/descriptors/1/value"]
    );
}

/// What is null in a list of values was meant to be something: a tenant that is dropped would share its limit with all.
#[test]
fn null_within_a_header_or_a_descriptor_is_a_mistake() {
    assert_eq!(
        pointers(r#"{"descriptors":[{"key":"tenant","value":null},{"key":null,"value":"v"},null]}"#),
        ["/descriptors/0/value", "/descriptors/1/key", "/descriptors/2"]
    );
    assert_eq!(pointers(r#"{"headers":{"x-tenant":null}}"#), ["/headers/x-tenant"]);
}

#[test]
fn malformed_bodies_are_refused_whole() {
    let deep = "[".repeat(10_000);
    for bad in ["", "{", "[]", "1", "null", "\"x\"", r#"{"subject":"\ud800"}"#, "{\"a\":\u{0}}", "{} {}", &deep] {
        assert_eq!(pointers(bad), [""], "{bad:.20}");
    }
    assert_eq!(check(b"{\"subject\":\"\xff\"}").unwrap_err().as_slice().len(), 1);
}

#[test]
fn counts_and_lengths_are_bounded() {
    let list = vec![r#"{"key":"k","value":"v"}"#; 65].join(",");
    assert_eq!(pointers(&format!(r#"{{"descriptors":[{list}]}}"#)), ["/descriptors"]);
    let headers: Vec<String> = (0..65).map(|i| format!(r#""h{i}":"v""#)).collect();
    assert_eq!(pointers(&format!(r#"{{"headers":{{{}}}}}"#, headers.join(","))), ["/headers"]);
    for (field, length) in [("subject", 1025), ("tier", 65), ("host", 256), ("path", 8193), ("domain", 65), ("method", 33)] {
        let long = "A".repeat(length);
        assert_eq!(pointers(&format!(r#"{{"{field}":"{long}"}}"#)), [format!("/{field}")], "{field}");
    }
    let many: Vec<String> = (0..5_000).map(|i| format!(r#""x{i}":1"#)).collect();
    assert!(pointers(&format!("{{{}}}", many.join(","))).len() <= weir_core::mistake::MAX_MISTAKES);
}

/// What changes counters says how much; a reset has no use for it.
#[test]
fn each_form_has_its_fields() {
    let found = |body: &str, form: Form| match Question::from_json(body.as_bytes(), form) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes.into_iter().map(|mistake| mistake.pointer).collect(),
    };
    for form in [Form::Record, Form::Refund] {
        assert_eq!(found("{}", form), ["/cost"]);
        assert_eq!(found(r#"{"cost":null}"#, form), ["/cost"]);
        assert_eq!(found(r#"{"cost":0}"#, form), ["/cost"]);
        assert_eq!(found(r#"{"cost":2}"#, form), [""; 0]);
    }
    assert_eq!(found(r#"{"rules":["a"]}"#, Form::Check), ["/rules"]);
    assert_eq!(found(r#"{"rules":["a"],"cost":1}"#, Form::Record), ["/rules"]);
    assert_eq!(found(r#"{"rules":["a"],"cost":1}"#, Form::Refund), [""; 0]);
    assert_eq!(found(r#"{"rules":["a"],"cost":1,"limits":{}}"#, Form::Reset), ["/cost", "/limits"]);
    for bad in ["[]", r#""a""#, "{}", &format!("[{}]", vec![r#""a""#; 65].join(","))] {
        assert_eq!(found(&format!(r#"{{"rules":{bad}}}"#), Form::Reset), ["/rules"], "{bad:.20}");
    }
    assert_eq!(found(r#"{"rules":["a","a b",1,""]}"#, Form::Reset), ["/rules/1", "/rules/2", "/rules/3"]);
}

/// Limits are read as those of rules are, with all their mistakes.
#[test]
fn limits_are_read_as_rules_have_them() {
    let body = r#"{"limits":{"search":{"limit":5,"window":"10s"},"quota":{"limit":9,"calendar":"day"},"free":{"unlimited":true}}}"#;
    let limits = check(body.as_bytes()).unwrap().limits.unwrap();
    assert_eq!(limits.len(), 3);
    let body = r#"{"limits":{"a b":{"limit":5,"window":"10s"},"a":{"limit":-5,"window":10},"b":{"limit":1,"limit":2,"window":"1s"},"c":{"limit":1.5,"window":"1s","x":true}}}"#;
    assert_eq!(pointers(body), ["/limits/b/limit", "/limits/a b", "/limits/a/limit", "/limits/a/window", "/limits/c/x", "/limits/c/limit"]);
    let many: Vec<String> = (0..65).map(|i| format!(r#""r{i}":{{"unlimited":true}}"#)).collect();
    assert_eq!(pointers(&format!(r#"{{"limits":{{{}}}}}"#, many.join(","))), ["/limits"]);
    assert_eq!(pointers(r#"{"limits":[]}"#), ["/limits"]);
    assert_eq!(check(br#"{"limits":null}"#).unwrap().limits, None);
}
