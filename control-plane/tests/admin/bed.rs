//! A control plane on a Postgres of its own.

use serde_json::{Value, json};
use weir_control_plane::auth::Role;
use weir_control_plane::{ControlPlane, NewToken, Settings, TokenKind};
use weir_testbed::Postgres;

use secrecy::ExposeSecret as _;

use super::client::Client;

/// Everything a test of the admin API needs.
pub(crate) struct Bed {
    pub(crate) postgres: Postgres,
    pub(crate) database: String,
    pub(crate) plane: ControlPlane,
    /// Sends the token of an admin.
    pub(crate) admin: Client,
}

impl Bed {
    pub(crate) async fn start() -> Self {
        // Shown for a test that fails: the cause of a 500 is only in the log.
        let _ = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_test_writer().try_init();
        let postgres = Postgres::temporary().await.unwrap();
        let database = postgres.create_database("weir").await.unwrap();
        let plane = ControlPlane::start(Settings::new(&database)).await.unwrap();
        let admin = Client::new(plane.http_addr());
        let mut bed = Self { postgres, database, plane, admin };
        bed.admin = bed.client("admin", Some(Role::Admin), None).await;
        bed
    }

    /// The same with the domain `default`, the tiers `free` (default) and `paid`, and three rules.
    pub(crate) async fn with_rules() -> Self {
        let bed = Self::start().await;
        bed.admin.post("/v1/apply", &rules()).await.expect(200);
        bed
    }

    pub(crate) fn anybody(&self) -> Client {
        Client::new(self.plane.http_addr())
    }

    /// Makes a token; no role: an agent's.
    pub(crate) async fn token(&self, name: &str, role: Option<Role>, domains: Option<&[&str]>) -> String {
        let kind = if role.is_some() { TokenKind::Api } else { TokenKind::Agent };
        let domains = domains.map(|domains| domains.iter().map(ToString::to_string).collect());
        let new = NewToken { name: name.to_owned(), kind, role, domains, expires_at: None, created_by: "test".to_owned() };
        self.plane.create_token(&new).await.unwrap().expose_secret().to_owned()
    }

    pub(crate) async fn client(&self, name: &str, role: Option<Role>, domains: Option<&[&str]>) -> Client {
        self.anybody().with_token(&self.token(name, role, domains).await)
    }

    /// The newest revision of the domain `default`.
    pub(crate) async fn revision(&self) -> u64 {
        let list = self.admin.get("/v1/revisions?page_size=1").await.expect(200).json();
        list["items"][0]["revision"].as_u64().unwrap_or_default()
    }
}

/// The rules document of the README, in small.
pub(crate) fn rules() -> Value {
    json!({
        "domain": "default",
        "tiers": [{ "name": "free", "default": true }, { "name": "paid" }],
        "rules": [
            {
                "name": "per-user", "match": { "path": "/**" }, "key": ["subject"],
                "limits": { "free": { "limit": 100, "window": "60s", "burst": 100 }, "paid": { "limit": 1000, "window": "60s" } },
            },
            rule("search"),
            rule("upload"),
        ],
    })
}

/// A rule that is valid with whatever tiers.
pub(crate) fn rule(name: &str) -> Value {
    json!({
        "name": name, "match": { "path": format!("/api/{name}") }, "key": ["subject", "route"], "algorithm": "sliding_window",
        "limits": { "*": { "limit": 50, "window": "60s" } },
    })
}
