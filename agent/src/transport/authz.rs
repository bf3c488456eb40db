//! `/authz`: the question of a forward-auth gateway. Any method; answers 200, 400, 403, 429 or 503, and never redirects.

use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::header::HOST;
use http::request::Parts;
use weir_core::mistake::Mistakes;
use weir_core::request::Request as Question;

use super::forwarded::{self, Original};
use crate::agent::Agent;
use crate::answer;
use crate::identity;

pub(super) async fn authz(State(agent): State<Agent>, request: Request) -> Response {
    // The body is the client's business; it is not read.
    let (parts, _body) = request.into_parts();
    let question = match question(&agent, &parts) {
        Ok(question) => question,
        Err(why) => {
            let mut mistakes = Mistakes::new();
            mistakes.add("", why);
            return answer::bad_request(&mistakes).into_response();
        }
    };
    match agent.check(&question).await {
        Ok(decision) => answer::decided(&decision, agent.header_style(), agent.wall()).into_response(),
        Err(error) => answer::undecidable(&error).into_response(),
    }
}

fn question<'a>(agent: &'a Agent, parts: &'a Parts) -> Result<Question<'a>, String> {
    let caller = agent.authz_identity().caller(identity::peer(&parts.extensions), &parts.headers).map_err(|e| e.to_string())?;
    let original = if caller.trusted {
        forwarded::original(agent.settings().authz.forwarded, &parts.headers).map_err(|e| e.to_string())?
    } else {
        Original::default()
    };
    let own_host = || parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    Ok(Question {
        domain: agent.authz_domain(),
        subject: caller.subject,
        tier: caller.tier,
        method: original.method.or(Some(parts.method.as_str())),
        host: original.host.or_else(own_host),
        path: original.path.or(Some(parts.uri.path())),
        headers: &parts.headers,
        client_ip: caller.client_ip,
        descriptors: &[],
        cost: 1,
        limits: None,
    })
}
