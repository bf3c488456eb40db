//! Who may open a stream, as whom, for what.

use secrecy::ExposeSecret as _;
use tonic::Code;
use weir_control_plane::NewToken;
use weir_control_plane::TokenKind;
use weir_control_plane::auth::Role;
use weir_proto::v1;

use super::bed::{Bed, rules_of};
use super::events::batch;
use super::wire::{Sync, Upload, hello};

#[tokio::test]
async fn bb_48_streams_need_an_agent_token() {
    let bed = Bed::new().await;
    let address = bed.control_plane.grpc_addr();
    let new = NewToken {
        name: "reader".into(),
        kind: TokenKind::Api,
        role: Some(Role::Viewer),
        domains: None,
        expires_at: None,
        created_by: "test".into(),
    };
    let api = bed.control_plane.create_token(&new).await.unwrap().expose_secret().to_owned();
    let mut forged = bed.agent_token.clone();
    forged.replace_range(10..11, if &forged[10..11] == "a" { "b" } else { "a" });
    for (token, code) in
        [("", Code::Unauthenticated), ("weir_x", Code::Unauthenticated), (&forged, Code::Unauthenticated), (&api, Code::PermissionDenied)]
    {
        let sync = Sync::open(address, token, hello("gw-1")).await.err().expect("refused");
        let upload = Upload::open(address, token).await.err().expect("refused");
        assert_eq!((sync.code(), upload.code()), (code, code), "{token}: {sync} {upload}");
    }
    assert_eq!(bed.number("SELECT count(*) FROM agents").await, 0, "nobody was registered");
}

#[tokio::test]
async fn bb_48_a_name_belongs_to_the_first_token_that_used_it() {
    let bed = Bed::new().await;
    let address = bed.control_plane.grpc_addr();
    let other = bed.agent_token("others", &["default"]).await;
    let mut stream = Sync::open(address, &bed.agent_token, hello("gw-1")).await.unwrap();
    stream.settle().await;
    let mut thief = Sync::open(address, &other, hello("gw-1")).await.unwrap();
    assert!(thief.refusal().await.contains("another token"));
    let status = Upload::open(address, &other).await.unwrap().store(batch("gw-1", 1)).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert_eq!(bed.agent("gw-1").await["token"], "agents");
    // The rightful one noticed nothing.
    bed.agent_becomes("gw-1", |agent| agent["connected"] == true && agent["domains"][0]["state"] == "current").await;
}

#[tokio::test]
async fn a_token_for_a_domain_gets_that_domain_only() {
    let bed = Bed::new().await;
    bed.apply(&rules_of("secret", 1)).await;
    let address = bed.control_plane.grpc_addr();
    let token = bed.agent_token("narrow", &["default"]).await;
    let greedy = v1::Hello { domains: vec!["default".into(), "secret".into()], ..hello("gw-1") };
    let mut stream = Sync::open(address, &token, greedy).await.unwrap();
    assert!(stream.refusal().await.contains("secret"));
    let mut events = batch("gw-1", 1);
    events.aggregates[0].domain = "secret".into();
    let ack = Upload::open(address, &token).await.unwrap().store(events).await.unwrap();
    assert!(ack.stored && ack.reason.contains("1 rows"), "{ack:?}");
    assert_eq!(bed.number("SELECT count(*) FROM traffic_10s WHERE domain = 'secret'").await, 0);
}

#[tokio::test]
async fn a_revoked_token_ends_its_streams_and_frees_its_names() {
    let bed = Bed::new().await;
    let address = bed.control_plane.grpc_addr();
    let token = bed.agent_token("leaked", &["default"]).await;
    let mut stream = Sync::open(address, &token, hello("gw-1")).await.unwrap();
    stream.settle().await;
    let mut upload = Upload::open(address, &token).await.unwrap();
    assert!(upload.store(batch("gw-1", 1)).await.unwrap().stored);
    let id: uuid::Uuid = sqlx::query_scalar("SELECT id FROM tokens WHERE name = 'leaked'").fetch_one(&bed.pool()).await.unwrap();
    assert_eq!(bed.admin.send("DELETE", &format!("/v1/tokens/{id}"), &[], None).await.status, 204);
    assert!(stream.refusal().await.contains("revoked"));
    let status = upload.ack().await.unwrap_err();
    assert_eq!((status.code(), status.message().contains("revoked")), (Code::Unauthenticated, true), "{status}");
    assert_eq!(Sync::open(address, &token, hello("gw-1")).await.err().unwrap().code(), Code::Unauthenticated);
    let mut stream = Sync::open(address, &bed.agent_token, hello("gw-1")).await.unwrap();
    stream.settle().await;
    bed.agent_becomes("gw-1", |agent| agent["token"] == "agents" && agent["connected"] == true).await;
}

#[tokio::test]
async fn an_expired_token_ends_its_uploads() {
    let bed = Bed::new().await;
    let address = bed.control_plane.grpc_addr();
    let token = bed.agent_token("short", &["default"]).await;
    let mut upload = Upload::open(address, &token).await.unwrap();
    assert!(upload.store(batch("gw-1", 1)).await.unwrap().stored);
    sqlx::query("UPDATE tokens SET expires_at = now() WHERE name = 'short'").execute(&bed.pool()).await.unwrap();
    assert_eq!(upload.ack().await.unwrap_err().code(), Code::Unauthenticated);
}
