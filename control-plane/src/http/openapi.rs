//! The description of the API, OpenAPI 3.1, written from the code.

use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{ContentBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, ResponseBuilder};

use crate::auth::session::COOKIE_NAME;

/// Tags with what they are about, in the order of the page.
const TAGS: [(&str, &str); 13] = [
    ("domains", "Namespaces of rules and counters, with their kill switch"),
    ("tiers", "Plans that subjects are on"),
    ("rules", "What is limited, by what, how much"),
    ("documents", "A domain as one document"),
    ("revisions", "What was published, and who runs it"),
    ("shards", "The ring of counter stores"),
    ("agents", "Those who decide"),
    ("analytics", "What was allowed and denied"),
    ("alerts", "Rules that deny too much"),
    ("tokens", "Credentials of people, programs and agents"),
    ("audit", "Who changed what"),
    ("session", "The dashboard's sign-in"),
    ("health", "For load balancers and supervisors"),
];

/// The description without paths: those come from the routes.
#[must_use]
pub fn frame() -> OpenApi {
    let licence = LicenseBuilder::new().name("MIT OR Apache-2.0").build();
    let info = InfoBuilder::new()
        .title("Weir control plane")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Admin API of Weir, a distributed rate limiter.\n\nWrites are published to all agents at once; the header `Weir-Revision` says as \
             which revision. `PUT` and `DELETE` of documents need `If-Match` with the ETag read before. Errors are `application/problem+json` with one entry per mistake.",
        ))
        .license(Some(licence))
        .build();
    let tags = TAGS.map(|(name, about)| TagBuilder::new().name(name).description(Some(about)).build());
    OpenApiBuilder::new().info(info).tags(Some(tags)).build()
}

/// Adds what all operations have in common: the answer to a problem, and the session as another way than a token.
pub fn complete(api: &mut OpenApi) {
    let components = api.components.get_or_insert_with(Default::default);
    let token =
        Http::builder().scheme(HttpAuthScheme::Bearer).bearer_format("weir_...").description(Some("A token of the kind `api`")).build();
    let session = ApiKey::Cookie(ApiKeyValue::with_description(COOKIE_NAME, "The dashboard's session"));
    components.add_security_scheme("token", SecurityScheme::Http(token));
    components.add_security_scheme("session", SecurityScheme::ApiKey(session));
    for item in api.paths.paths.values_mut() {
        for operation in [&mut item.get, &mut item.post, &mut item.put, &mut item.delete].into_iter().flatten() {
            complete_operation(operation);
        }
    }
}

fn complete_operation(operation: &mut Operation) {
    let content = ContentBuilder::new().schema(Some(RefOr::Ref(Ref::from_schema_name("Problem")))).build();
    let problem = ResponseBuilder::new().description("What went wrong").content("application/problem+json", content).build();
    operation.responses.responses.insert("default".to_owned(), RefOr::T(problem));
    let Some(role) = role(operation) else { return };
    if let Some(security) = &mut operation.security {
        security.push(SecurityRequirement::new("session", [role]));
    }
}

/// The role that an operation asks for; `None`: it needs no credentials.
fn role(operation: &Operation) -> Option<String> {
    let security = serde_json::to_value(operation.security.as_ref()?).ok()?;
    security.as_array()?.iter().find_map(|requirement| Some(requirement.get("token")?.get(0)?.as_str()?.to_owned()))
}
