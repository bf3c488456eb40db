//! `/v1/revisions`: what was published, by whom, and which agents run it.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde_json::{Value, json};
use weir_core::config::DomainConfig;
use weir_core::item::SetHash;

use super::answer;
use super::change::{Order, change};
use super::extract::{Path, Query};
use super::paging::Page;
use super::params::{InDomain, PagedInDomain, WriteInDomain, domain};
use super::problem::Problem;
use crate::auth::{Operator, Viewer};
use crate::db::agent::{self, Standing};
use crate::db::publish::{Action, Change};
use crate::db::revision::{self, Revision};
use crate::db::set;
use crate::db::time::Time;
use crate::state::App;

/// A published revision.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Revision)]
pub struct RevisionView {
    /// Its number; later ones are higher.
    pub revision: u64,
    /// The domain.
    pub domain: String,
    /// SHA-256 over its items, in hex: agents report the same for what they run.
    pub hash: String,
    /// When it was published.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    /// Who published it.
    pub author: String,
    /// What it is about.
    pub summary: String,
    /// What it changed.
    #[schema(value_type = Vec<ChangedName>)]
    pub changes: Value,
    /// Who runs it; only when one revision is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<Agents>,
}

/// A document that a revision changed.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ChangedName {
    /// `domain`, `tier` or `rule`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What happened to it.
    pub action: Action,
}

/// The agents that serve the domain, by how they stand to the revision. Those that run a later one are left out.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
pub struct Agents {
    /// They run it.
    pub current: Vec<String>,
    /// They are connected and run an earlier one.
    pub pending: Vec<String>,
    /// They refused it.
    pub refused: Vec<Refusal>,
    /// They are not connected and have not confirmed it.
    pub offline: Vec<String>,
}

/// An agent that refused a revision.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Refusal {
    /// The agent.
    pub agent: String,
    /// Why.
    pub errors: Vec<String>,
}

/// What a rollback did, or would do.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct RolledBack {
    /// The domain.
    pub domain: String,
    /// The newest revision afterwards.
    pub revision: u64,
    /// What changed; empty: nothing, and no new revision.
    pub changes: Vec<Change>,
}

/// List revisions, newest first
#[utoipa::path(get, path = "/v1/revisions", tag = "revisions", operation_id = "listRevisions", params(PagedInDomain), security(("token" = ["viewer"])),
    responses((status = 200, description = "A page of revisions", body = Page<RevisionView>)))]
pub async fn list(State(app): State<App>, Viewer(who): Viewer, Query(query): Query<PagedInDomain>) -> Result<Json<Value>, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    let wanted = app.pager.wanted(format!("revision?domain={domain}"), query.page_size, query.page_token.as_deref())?;
    let before = wanted.after_number(i64::MAX)?;
    let mut connection = app.pool.acquire().await?;
    let rows = revision::page(&mut connection, domain.as_str(), before, wanted.limit()).await?;
    Ok(Json(app.pager.page(&wanted, rows, |r: &Revision| r.revision.to_string(), |r| json!(view(r, None)))))
}

/// Read a revision, with the agents that run it
#[utoipa::path(get, path = "/v1/revisions/{revision}", tag = "revisions", operation_id = "getRevision", security(("token" = ["viewer"])),
    params(("revision" = u64, Path, description = "Its number"), InDomain),
    responses((status = 200, description = "The revision", body = RevisionView)))]
pub async fn get(
    State(app): State<App>,
    Viewer(who): Viewer,
    Query(query): Query<InDomain>,
    Path(number): Path<u64>,
) -> Result<Json<Value>, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    let mut connection = app.pool.acquire().await?;
    let found = revision::get(&mut connection, domain.as_str(), stored(number)).await?.ok_or_else(|| missing(number))?;
    let standings = agent::standings(&mut connection, domain.as_str()).await?;
    let head = set::head(&mut connection, domain.as_str()).await?;
    let newest = head.is_some_and(|head| head.revision == number);
    let agents = by_standing(standings, stored(number), newest);
    Ok(Json(json!(view(found, Some(agents)))))
}

/// Roll back to a revision
///
/// Publishes its content as a new, higher revision.
#[utoipa::path(post, path = "/v1/revisions/{revision}/rollback", tag = "revisions", operation_id = "rollBack", security(("token" = ["operator"])),
    params(("revision" = u64, Path, description = "The revision whose content shall be current again"), WriteInDomain),
    responses((status = 200, description = "Rolled back, or only validated", body = RolledBack, headers(("Weir-Revision" = u64)))))]
pub async fn roll_back(
    State(app): State<App>,
    Operator(who): Operator,
    Query(query): Query<WriteInDomain>,
    Path(number): Path<u64>,
) -> Result<Response, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    let items = {
        let mut connection = app.pool.acquire().await?;
        revision::get(&mut connection, domain.as_str(), stored(number)).await?.ok_or_else(|| missing(number))?;
        revision::items(&mut connection, domain.as_str(), number).await?
    };
    let (content, left_out) = DomainConfig::from_items(&items).map_err(|mistakes| Problem::internal(&mistakes))?;
    if !left_out.is_empty() {
        return Err(Problem::conflict(format!("this build cannot read all of revision {number}: {}", left_out.join("; "))));
    }
    let summary = format!("roll back to revision {number}");
    let order = Order { author: &who, domain: &domain, validate_only: query.validate_only, summary };
    let published = change(&app, &order, None, |_| Ok(Some(content))).await?.published;
    let revision = published.revision;
    let answer = RolledBack { domain: domain.to_string(), revision, changes: published.changes };
    Ok(answer::published(Json(answer).into_response(), revision))
}

/// The number as the database has it; larger ones do not exist.
fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn missing(number: u64) -> Problem {
    Problem::not_found(format!("there is no revision {number}, or it is not kept any more"))
}

fn view(row: Revision, agents: Option<Agents>) -> RevisionView {
    let hash = <[u8; 32]>::try_from(row.hash.as_slice()).map(|hash| SetHash(hash).to_string()).unwrap_or_default();
    RevisionView {
        revision: row.revision.unsigned_abs(),
        domain: row.domain,
        hash,
        created_at: row.created_at,
        author: row.author,
        summary: row.summary,
        changes: row.changes.0,
        agents,
    }
}

/// Sorts agents by how they stand to `revision`; only the newest is still on its way to anybody.
fn by_standing(standings: Vec<Standing>, revision: i64, newest: bool) -> Agents {
    let mut agents = Agents::default();
    for standing in standings {
        if standing.revision == revision {
            agents.current.push(standing.agent);
        } else if standing.refused_revision == Some(revision) {
            agents.refused.push(Refusal { agent: standing.agent, errors: standing.errors });
        } else if standing.revision < revision && newest {
            let list = if standing.connected { &mut agents.pending } else { &mut agents.offline };
            list.push(standing.agent);
        }
    }
    agents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(agent: &str, revision: i64, refused: Option<i64>, connected: bool) -> Standing {
        Standing { agent: agent.into(), revision, refused_revision: refused, errors: vec!["no".into()], connected }
    }

    #[test]
    fn agents_are_sorted_by_how_they_stand_to_a_revision() {
        let all = || {
            vec![
                standing("runs", 5, None, true),
                standing("runs-offline", 5, None, false),
                standing("behind", 4, None, true),
                standing("away", 4, None, false),
                standing("refused", 4, Some(5), true),
                standing("ahead", 6, None, true),
            ]
        };
        let agents = by_standing(all(), 5, true);
        assert_eq!(agents.current, ["runs", "runs-offline"]);
        assert_eq!(agents.pending, ["behind"]);
        assert_eq!(agents.offline, ["away"]);
        assert_eq!(agents.refused[0].agent, "refused");
        let old = by_standing(all(), 4, false);
        assert_eq!((old.current.len(), old.pending.len(), old.offline.len()), (3, 0, 0));
    }
}
