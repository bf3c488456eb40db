//! The layer: which agent, and whose word counts.

use std::sync::Arc;

use http::HeaderName;
use tower::Layer;
use weir_core::client_ip::{ClientIp, SourceHeader};
use weir_core::name::Name;
use weir_core::subject::Kind;

use super::service::RateLimit;
use crate::agent::Agent;
use crate::identity::Identity;

/// Whose word the layer takes for what. The default believes nothing but the connection's own address.
#[derive(Debug, Clone, Default)]
pub struct LayerSettings {
    /// The domain whose rules apply; default: the first that the agent serves.
    pub domain: Option<Name>,
    /// The header that names the subject. Only where callers cannot set it themselves.
    pub subject_header: Option<HeaderName>,
    /// What that header names, such as `tenant`: its whole value is the id. Default: the value is `kind:id`, or the id of a user.
    pub subject_kind: Option<Kind>,
    /// The header that names the tier. Only where callers cannot set it themselves.
    pub tier_header: Option<HeaderName>,
    /// Peers whose word about the client's address counts.
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// The header in which they say it; default `X-Forwarded-For` where there are such peers.
    pub client_ip_header: Option<SourceHeader>,
}

/// Lets through what the agent allows, and adds the rate-limit headers to every answer.
#[derive(Debug, Clone)]
pub struct RateLimitLayer {
    pub(super) agent: Agent,
    pub(super) scope: Arc<Scope>,
}

/// What the layer needs for every request.
#[derive(Debug)]
pub(super) struct Scope {
    pub(super) domain: String,
    pub(super) identity: Identity,
}

impl RateLimitLayer {
    /// A layer that asks `agent`, which serves the domain.
    pub(crate) fn new(agent: Agent, settings: LayerSettings) -> Self {
        let domain = settings.domain.map_or_else(|| agent.first_domain().to_owned(), |name| name.to_string());
        let source = settings.client_ip_header.unwrap_or(SourceHeader::XForwardedFor);
        let identity = Identity {
            subject_header: settings.subject_header,
            subject_kind: settings.subject_kind,
            tier_header: settings.tier_header,
            client_ip: ClientIp::new(source, &settings.trusted_proxies),
        };
        Self { agent, scope: Arc::new(Scope { domain, identity }) }
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit::new(inner, self.clone())
    }
}
