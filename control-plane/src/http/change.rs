//! The one way in which a domain changes: lock, read all, edit, validate the whole, publish.

use std::collections::HashMap;
use std::fmt;

use weir_core::config::{DomainConfig, PartialConfig};
use weir_core::domain::{Defaults, Domain, DomainMode};
use weir_core::item::ItemKind;
use weir_core::mistake::Mistakes;
use weir_core::name::Name;

use super::answer::etag;
use super::extract::IfMatch;
use super::params::DEFAULT_DOMAIN;
use super::problem::Problem;
use crate::auth::Principal;
use crate::db::document::{self, Document};
use crate::db::publish::{self, Note, Published};
use crate::db::revision;
use crate::db::set::{self, Head};
use crate::state::App;

/// A write that is wanted.
pub struct Order<'a> {
    /// Who wants it.
    pub author: &'a Principal,
    /// In which domain.
    pub domain: &'a Name,
    /// Whether only to say what would happen.
    pub validate_only: bool,
    /// One line for people, kept with the revision.
    pub summary: String,
}

impl<'a> Order<'a> {
    /// An order to `verb` one document.
    #[must_use]
    pub fn new(author: &'a Principal, domain: &'a Name, validate_only: bool, verb: &str, kind: ItemKind, name: &dyn fmt::Display) -> Self {
        Self { author, domain, validate_only, summary: format!("{verb} {} {name}", kind.as_str()) }
    }
}

/// A domain under its lock: what is stored, before the edit.
pub struct Draft {
    documents: Vec<Document>,
    /// The content; `None`: there is no such domain.
    pub config: Option<DomainConfig>,
}

/// What part of a domain the request's body is, so that mistakes found in the whole can be shown at their place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Focus {
    /// One document.
    One(ItemKind, Name),
    /// A rules document: where each of its tiers and rules stands in it.
    Many(HashMap<(ItemKind, Name), String>),
}

impl Focus {
    /// On one document.
    #[must_use]
    pub fn on(kind: ItemKind, name: &Name) -> Option<Self> {
        Some(Self::One(kind, name.clone()))
    }

    /// On the tiers and rules of a rules document.
    #[must_use]
    pub fn on_all(document: &PartialConfig) -> Option<Self> {
        let tiers = document.tiers.iter().enumerate().map(|(i, tier)| ((ItemKind::Tier, tier.name.clone()), format!("/tiers/{i}")));
        let rules = document.rules.iter().enumerate().map(|(i, rule)| ((ItemKind::Rule, rule.name.clone()), format!("/rules/{i}")));
        Some(Self::Many(tiers.chain(rules).collect()))
    }

    /// The place of a document in the request's body, if it is there.
    fn place(&self, kind: ItemKind, name: &Name) -> Option<&str> {
        match self {
            Self::One(own, named) => (*own == kind && named == name).then_some(""),
            Self::Many(places) => places.get(&(kind, name.clone())).map(String::as_str),
        }
    }
}

/// What a write did.
pub struct Outcome {
    /// The revision and the changes.
    pub published: Published,
    /// The document that the write was about, as it is now.
    pub document: Option<Document>,
    /// The domain's content afterwards; `None`: it is gone.
    pub config: Option<DomainConfig>,
}

impl Draft {
    /// The stored document of that kind and name.
    #[must_use]
    pub fn document(&self, kind: ItemKind, name: &str) -> Option<&Document> {
        self.documents.iter().find(|d| d.kind == kind.as_str() && d.name == name)
    }

    /// That the document is there, in the version that the client has seen.
    ///
    /// # Errors
    /// 404, 412.
    pub fn require(&self, kind: ItemKind, name: &str, condition: &IfMatch) -> Result<(), Problem> {
        let document = self.document(kind, name).ok_or_else(|| missing(kind, name))?;
        condition.check(&etag(document))
    }

    /// That the document is not there yet.
    ///
    /// # Errors
    /// 409.
    pub fn require_new(&self, kind: ItemKind, name: &str) -> Result<(), Problem> {
        match self.document(kind, name) {
            Some(_) => Err(Problem::conflict(format!("there is a {} {name:?} already", kind.as_str()))),
            None => Ok(()),
        }
    }

    /// The content. The domain `default` is made by whatever is written into it first.
    ///
    /// # Errors
    /// 404: there is no such domain.
    pub fn existing(&self, domain: &Name) -> Result<DomainConfig, Problem> {
        match &self.config {
            Some(config) => Ok(config.clone()),
            None if *domain == DEFAULT_DOMAIN => Ok(DomainConfig { domain: empty(domain), tiers: Vec::new(), rules: Vec::new() }),
            None => Err(missing(ItemKind::Domain, domain.as_str())),
        }
    }
}

fn empty(name: &Name) -> Domain {
    Domain { name: name.clone(), description: String::new(), mode: DomainMode::default(), defaults: Defaults::default() }
}

/// 404 for a document.
#[must_use]
pub fn missing(kind: ItemKind, name: &str) -> Problem {
    Problem::not_found(format!("there is no {} {name:?}", kind.as_str()))
}

/// Changes a domain: `edit` gets what is there and says what shall be there; `None` removes the domain.
///
/// # Errors
/// What `edit` finds, 400 if the whole is not valid, 503 if the database is away.
pub async fn change(
    app: &App,
    order: &Order<'_>,
    focus: Option<Focus>,
    edit: impl FnOnce(&Draft) -> Result<Option<DomainConfig>, Problem> + Send,
) -> Result<Outcome, Problem> {
    let mut transaction = app.pool.begin().await?;
    let head = set::lock(&mut transaction, order.domain.as_str()).await?;
    let documents = document::all(&mut transaction, order.domain.as_str()).await?;
    let config = stored(&documents)?;
    let draft = Draft { documents, config };
    let config = edit(&draft)?;
    let note = Note { author: &order.author.name, summary: &order.summary };
    let published = match &config {
        Some(config) => {
            valid(config, focus.as_ref())?;
            publish::publish(&mut transaction, &head, &draft.documents, &config.items(), None, note).await?
        }
        None => publish::remove_domain(&mut transaction, &head, &draft.documents, note.author).await?,
    };
    let document = match &focus {
        Some(Focus::One(kind, name)) => document::get(&mut transaction, order.domain.as_str(), *kind, name.as_str()).await?,
        Some(Focus::Many(_)) | None => None,
    };
    if order.validate_only {
        transaction.rollback().await?;
    } else {
        transaction.commit().await?;
        prune_later(app, &head, published.revision);
    }
    Ok(Outcome { published, document, config })
}

/// The content that the documents of a domain make; `None`: there is no such domain.
///
/// # Errors
/// 500: what is stored cannot be read by this build.
pub fn stored(documents: &[Document]) -> Result<Option<DomainConfig>, Problem> {
    if documents.is_empty() {
        return Ok(None);
    }
    let items: Vec<_> = documents.iter().map(Document::to_item).collect();
    let (config, _) = DomainConfig::from_items(&items).map_err(|mistakes| Problem::internal(&mistakes))?;
    Ok(Some(config))
}

/// Removes what is too old, beside the answer.
pub(super) fn prune_later(app: &App, head: &Head, newest: u64) {
    if newest <= revision::KEPT || newest == head.revision {
        return;
    }
    let (pool, domain) = (app.pool.clone(), head.domain.clone());
    app.tasks.spawn(async move {
        if let Err(error) = revision::prune(&pool, &domain, newest).await {
            tracing::warn!(%error, domain, "old revisions could not be removed; the next write tries again");
        }
    });
}

/// That the whole is valid. Mistakes in the document that the request's body is are shown at their place in it, others by name.
fn valid(config: &DomainConfig, focus: Option<&Focus>) -> Result<(), Problem> {
    let mut mistakes = Mistakes::new();
    for mistake in config.validate() {
        match place(config, &mistake.pointer) {
            Some((kind, name, rest)) => match focus.and_then(|focus| focus.place(kind, name)) {
                Some(place) => mistakes.add(format!("{place}{rest}"), mistake.detail),
                None => mistakes.add("", format!("{} {name} {rest}: {}", kind.as_str(), mistake.detail)),
            },
            None if matches!(focus, Some(Focus::Many(_))) => mistakes.add(mistake.pointer, mistake.detail),
            None => mistakes.add("", mistake.detail),
        }
    }
    Ok(mistakes.into_result(())?)
}

/// Which rule or tier a pointer into the whole document points into, and where in it.
fn place<'c>(config: &'c DomainConfig, pointer: &str) -> Option<(ItemKind, &'c Name, String)> {
    let mut parts = pointer.splitn(4, '/').skip(1);
    let (list, index) = (parts.next()?, parts.next()?.parse::<usize>().ok()?);
    let rest = parts.next().map(|rest| format!("/{rest}")).unwrap_or_default();
    match list {
        "rules" => Some((ItemKind::Rule, &config.rules.get(index)?.name, rest)),
        "tiers" => Some((ItemKind::Tier, &config.tiers.get(index)?.name, rest)),
        _ => None,
    }
}
