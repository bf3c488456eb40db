//! A control plane on a Postgres of its own.

use std::time::Duration;

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use weir_control_plane::auth::Role;
use weir_control_plane::{ControlPlane, NewToken, Settings, TokenKind};
use weir_testbed::{Postgres, await_until};

use super::http::Client;

/// How long anything may take on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Bed {
    pub(super) postgres: Postgres,
    pub(super) settings: Settings,
    pub(super) control_plane: ControlPlane,
    /// Talks to the admin API as an admin.
    pub(super) admin: Client,
    admin_token: String,
    /// A token of agents, for all domains.
    pub(super) agent_token: String,
}

impl Bed {
    pub(super) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// With settings that differ from the usual ones.
    pub(super) async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let postgres = Postgres::temporary().await.unwrap();
        let mut settings = Settings::new(postgres.create_database("weir").await.unwrap());
        change(&mut settings);
        let control_plane = ControlPlane::start(settings.clone()).await.unwrap();
        let admin_token = token(&control_plane, "admin", TokenKind::Api, None).await;
        let agent_token = token(&control_plane, "agents", TokenKind::Agent, None).await;
        let admin = Client::new(control_plane.http_addr(), &admin_token);
        let bed = Self { postgres, settings, control_plane, admin, admin_token, agent_token };
        bed.apply(&rules(100)).await;
        let made = async || bed.number("SELECT count(*) FROM pg_inherits WHERE inhparent = 'denials'::regclass").await > 0;
        assert!(await_until(PATIENCE, made).await, "no partitions");
        bed
    }

    /// A token of agents for these domains.
    pub(super) async fn agent_token(&self, name: &str, domains: &[&str]) -> String {
        token(&self.control_plane, name, TokenKind::Agent, Some(domains.iter().map(|d| (*d).to_owned()).collect())).await
    }

    /// Publishes a whole domain; its revision.
    pub(super) async fn apply(&self, document: &Value) -> u64 {
        let domain = document["domain"].as_str().unwrap();
        let answer = self.admin.send("POST", "/v1/apply", &[], Some(document)).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.body["domain"], domain);
        answer.body["revision"].as_u64().unwrap()
    }

    /// Starts the control plane anew, at other ports.
    pub(super) async fn restart(self) -> Self {
        self.control_plane.shutdown().await;
        let control_plane = ControlPlane::start(self.settings.clone()).await.unwrap();
        let admin = Client::new(control_plane.http_addr(), &self.admin_token);
        Self { control_plane, admin, ..self }
    }

    /// Names in an old revision: events may carry them. An empty domain: the ring.
    pub(super) async fn knew(&self, domain: &str, kind: &str, names: &[&str]) {
        let sql = "INSERT INTO revision_items (domain, kind, name, from_revision, until_revision, hash) \
                   SELECT $1, $2, name, 1, 2, (SELECT hash FROM items LIMIT 1) FROM unnest($3::text[]) AS n (name)";
        sqlx::query(sql).bind(domain).bind(kind).bind(names).execute(&self.pool()).await.unwrap();
    }

    pub(super) async fn agent(&self, name: &str) -> Value {
        self.admin.get(&format!("/v1/agents/{name}")).await.body
    }

    /// Waits until the API says this of an agent.
    pub(super) async fn agent_becomes(&self, name: &str, mut what: impl FnMut(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let became = await_until(PATIENCE, async || {
            last = self.agent(name).await;
            what(&last)
        });
        assert!(became.await, "{name} did not become so: {last:#}");
        last
    }

    /// Another replica on the same database.
    pub(super) async fn replica(&self) -> ControlPlane {
        ControlPlane::start(self.settings.clone()).await.unwrap()
    }

    pub(super) fn pool(&self) -> sqlx::PgPool {
        self.control_plane.app().pool.clone()
    }

    /// A number from the database.
    pub(super) async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.pool()).await.unwrap()
    }
}

async fn token(control_plane: &ControlPlane, name: &str, kind: TokenKind, domains: Option<Vec<String>>) -> String {
    let role = (kind == TokenKind::Api).then_some(Role::Admin);
    let new = NewToken { name: name.into(), kind, role, domains, expires_at: None, created_by: "test".into() };
    control_plane.create_token(&new).await.unwrap().expose_secret().to_owned()
}

/// The rules of the domain `default`, with this limit.
pub(super) fn rules(limit: u64) -> Value {
    rules_of("default", limit)
}

pub(super) fn rules_of(domain: &str, limit: u64) -> Value {
    json!({
        "domain": domain,
        "tiers": [{ "name": "free", "default": true }],
        "rules": [{ "name": "search", "match": { "path": "/api/search" }, "key": ["subject"],
                    "limits": { "*": { "limit": limit, "window": "60s" } } }],
    })
}
