//! `/v1/agents`: those who decide, and what they run.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::IntoParams;
use weir_core::item::SetHash;

use super::extract::{Path, Query};
use super::paging::Page;
use super::params::{Nothing, Write};
use super::problem::Problem;
use crate::auth::{Admin, Principal, Viewer};
use crate::db::agent::{self, Agent, AgentSet, Filter};
use crate::db::audit;
use crate::db::publish::{Action, Change};
use crate::db::set::RING;
use crate::db::time::Time;
use crate::push::report::ShardReport;
use crate::state::App;

/// Which agents.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Wanted {
    /// Only those that serve this domain.
    pub domain: Option<String>,
    /// How many entries (default 50, at most 500).
    pub page_size: Option<i64>,
    /// `next_page_token` of the page before.
    pub page_token: Option<String>,
}

/// How an agent stands to the newest revision of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It runs it.
    Current,
    /// It is connected and does not run it yet.
    Pending,
    /// It refused it and runs an older one.
    Refused,
    /// It is not connected.
    Offline,
}

/// What an agent has of the rules of a domain, or of the ring.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = AgentSet)]
pub struct SetView {
    /// The domain; absent for the ring.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub domain: String,
    /// The revision that it runs; 0: none yet.
    pub revision: i64,
    /// The hash of what it runs, in hex; empty: nothing yet.
    pub hash: String,
    /// The newest revision; 0: there is none.
    pub latest: i64,
    /// How it stands to the newest.
    pub state: Standing,
    /// Why it refused what it refused last; empty: nothing refused since.
    pub errors: Vec<String>,
}

/// An agent.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Agent)]
pub struct AgentView {
    /// Its name.
    pub name: String,
    /// Whether its stream is open.
    pub connected: bool,
    /// Version of its build.
    pub build: String,
    /// Version of the time-zone database by which it aligns calendar windows; empty: it does not say.
    pub time_zones: String,
    /// Random per start of its process.
    pub boot: String,
    /// The name of its token; null: the token is gone.
    pub token: Option<String>,
    /// The domains it serves.
    pub domains: Vec<SetView>,
    /// The ring of shards.
    pub ring: Option<SetView>,
    /// When it said something last.
    #[schema(value_type = String, format = DateTime)]
    pub last_seen: Time,
    /// Since when its stream is open.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub connected_since: Option<Time>,
    /// What went wrong last; null: nothing.
    pub last_error: Option<String>,
    /// Problems that it reports.
    pub warnings: Vec<String>,
    /// How it sees its shards.
    pub shards: Vec<ShardReport>,
    /// Decisions per second of late.
    pub decisions_per_second: f64,
    /// Seconds since its rules were confirmed by a control plane; 0 while connected.
    pub stale_seconds: i64,
    /// Events that it lost since it started.
    pub dropped_events: i64,
}

/// List agents
///
/// A token for some domains sees the agents of those only.
#[utoipa::path(get, path = "/v1/agents", tag = "agents", operation_id = "listAgents", params(Wanted), security(("token" = ["viewer"])),
    responses((status = 200, description = "A page of agents, by name", body = Page<AgentView>)))]
pub async fn list(State(app): State<App>, Viewer(who): Viewer, Query(query): Query<Wanted>) -> Result<Json<Value>, Problem> {
    if let Some(domain) = &query.domain {
        who.enter(domain)?;
    }
    let scope = json!(["agent", query.domain]).to_string();
    let wanted = app.pager.wanted(scope, query.page_size, query.page_token.as_deref())?;
    let filter = Filter { among: who.domains.as_deref(), domain: query.domain.as_deref(), name: None };
    let after = wanted.after.as_deref().unwrap_or_default();
    let mut connection = app.pool.acquire().await?;
    let rows = agent::page(&mut connection, filter, after, wanted.limit()).await?;
    let names: Vec<&str> = rows.iter().map(|agent| agent.name.as_str()).collect();
    let sets = agent::sets(&mut connection, &names).await?;
    Ok(Json(app.pager.page(&wanted, rows, |a: &Agent| a.name.clone(), |a| json!(view(a, &sets, &who)))))
}

/// Read an agent
#[utoipa::path(get, path = "/v1/agents/{name}", tag = "agents", operation_id = "getAgent", security(("token" = ["viewer"])),
    params(("name" = String, Path, description = "The agent")),
    responses((status = 200, description = "The agent", body = AgentView)))]
pub async fn get(
    State(app): State<App>,
    Viewer(who): Viewer,
    Query(Nothing {}): Query<Nothing>,
    Path(name): Path<String>,
) -> Result<Json<AgentView>, Problem> {
    let mut connection = app.pool.acquire().await?;
    let filter = Filter { among: who.domains.as_deref(), domain: None, name: Some(&name) };
    let found = agent::page(&mut connection, filter, "", 1).await?.pop().ok_or_else(|| missing(&name))?;
    let sets = agent::sets(&mut connection, &[&found.name]).await?;
    Ok(Json(view(found, &sets, &who)))
}

/// Forget an agent
///
/// Its name is free for another token then. Refused while it is connected; agents that are away for long are forgotten anyway.
#[utoipa::path(delete, path = "/v1/agents/{name}", tag = "agents", operation_id = "deleteAgent", security(("token" = ["admin"])),
    params(("name" = String, Path, description = "The agent"), Write),
    responses((status = 204, description = "Forgotten")))]
pub async fn delete(
    State(app): State<App>,
    Admin(who): Admin,
    Query(query): Query<Write>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    who.enter_all()?;
    let mut transaction = app.pool.begin().await?;
    let filter = Filter { name: Some(&name), ..Filter::default() };
    let found = agent::page(&mut transaction, filter, "", 1).await?.pop().ok_or_else(|| missing(&name))?;
    if !agent::delete(&mut transaction, &name).await? {
        return Err(Problem::conflict(format!("{name} is connected: stop it first, or revoke its token")));
    }
    let before = Some(json!({ "name": found.name, "build": found.build, "token": found.token, "last_seen": found.last_seen }));
    let change = Change { kind: "agent".to_owned(), name, action: Action::Delete, before, after: None };
    audit::insert(&mut transaction, "", None, &[change], &who.name).await?;
    if query.validate_only {
        transaction.rollback().await?;
    } else {
        transaction.commit().await?;
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn missing(name: &str) -> Problem {
    Problem::not_found(format!("there is no agent {name:?}"))
}

fn view(agent: Agent, sets: &[AgentSet], who: &Principal) -> AgentView {
    let own = || sets.iter().filter(|set| set.agent == agent.name);
    let show = |set| set_view(set, agent.connected);
    AgentView {
        domains: own().filter(|set| set.domain != RING && who.sees(&set.domain)).map(show).collect(),
        ring: own().find(|set| set.domain == RING).map(show),
        name: agent.name.clone(),
        connected: agent.connected,
        build: agent.build,
        time_zones: agent.time_zones,
        boot: agent.boot,
        token: agent.token,
        last_seen: agent.last_seen,
        connected_since: agent.connected_since.filter(|_| agent.connected),
        last_error: Some(agent.last_error).filter(|error| !error.is_empty()),
        warnings: agent.warnings,
        shards: agent.shards.0,
        decisions_per_second: agent.decisions_per_second,
        stale_seconds: agent.stale_seconds,
        dropped_events: agent.dropped_events,
    }
}

fn set_view(set: &AgentSet, connected: bool) -> SetView {
    let state = match (connected, set.is_latest, set.refused_latest) {
        (false, ..) => Standing::Offline,
        (true, true, _) => Standing::Current,
        (true, false, true) => Standing::Refused,
        (true, false, false) => Standing::Pending,
    };
    let hash = set.hash.as_deref().and_then(|hash| Some(SetHash(hash.try_into().ok()?).to_string()));
    SetView {
        domain: set.domain.clone(),
        revision: set.revision,
        hash: hash.unwrap_or_default(),
        latest: set.latest.unwrap_or_default(),
        state,
        errors: set.errors.clone(),
    }
}
