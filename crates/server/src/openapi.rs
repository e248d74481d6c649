//! The API's description, made from the code, and a page to read it on.

use crate::app::App;
use crate::error_pages;
use crate::problem::ProblemBody;
use crate::routes;
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::routing::get;
use std::sync::{Arc, LazyLock};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, OpenApiVersion,
    Ref, RefOr, ResponseBuilder,
};
use utoipa::{PartialSchema, ToSchema};

/// The description as it is served: OpenAPI 3.1, pretty-printed.
pub fn document() -> String {
    let (_, collected) = routes::all().split_for_parts();
    let license = LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build();
    let info = InfoBuilder::new()
        .title("Guerdon")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("Runs reward events: every reward is granted exactly once, to the right person, in the order people lined up."))
        .license(Some(license))
        .build();
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT").build();
    let mut schemas = Vec::new();
    ProblemBody::schemas(&mut schemas);
    let components = ComponentsBuilder::new()
        .schema("Problem", ProblemBody::schema())
        .schemas_from_iter(schemas)
        .security_scheme("bearer", SecurityScheme::Http(bearer))
        .build();
    let mut api = OpenApiBuilder::new()
        .openapi(OpenApiVersion::Version31)
        .info(info)
        .components(Some(components))
        .build();
    api.merge(collected);
    add_problems(&mut api);
    let mut text = api.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// Every call can end in a problem, and all but the open ones need a token.
fn add_problems(api: &mut OpenApi) {
    let content = ContentBuilder::new().schema(Some(RefOr::Ref(Ref::from_schema_name("Problem")))).build();
    let problem = ResponseBuilder::new()
        .description("A problem; see `code`")
        .content("application/problem+json", content)
        .build();
    for (path, item) in &mut api.paths.paths {
        let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            for (status, response) in &mut operation.responses.responses {
                if let RefOr::T(response) = response
                    && response.description.is_empty()
                {
                    let reason = status.parse().ok().and_then(|code| StatusCode::from_u16(code).ok());
                    response.description =
                        reason.and_then(|code| code.canonical_reason()).unwrap_or("Answer").into();
                }
            }
            operation.responses.responses.insert("default".into(), RefOr::T(problem.clone()));
            if path.starts_with("/v1/") && operation.security.is_none() {
                operation.security = Some(vec![SecurityRequirement::new("bearer", [] as [&str; 0])]);
            }
        }
    }
}

static DOCUMENT: LazyLock<String> = LazyLock::new(document);

/// `/openapi.json` and `/docs`: everything the page needs is in this binary.
pub(crate) fn routes() -> Router<Arc<App>> {
    let asset = |content_type: &'static str, body: &'static str| {
        move || async move {
            let headers = [
                (CONTENT_TYPE, content_type),
                (CACHE_CONTROL, "no-cache"),
                (CONTENT_SECURITY_POLICY, "default-src 'self'; frame-ancestors 'none'"),
            ];
            (headers, body).into_response()
        }
    };
    Router::new()
        .route("/openapi.json", get(|| async { ([(CONTENT_TYPE, "application/json")], DOCUMENT.as_str()) }))
        .route("/docs", get(asset("text/html; charset=utf-8", include_str!("docs/index.html"))))
        .route("/docs/errors/{code}", get(error_pages::handle))
        .route("/docs/page.js", get(asset("text/javascript; charset=utf-8", include_str!("docs/page.js"))))
        .route("/docs/page.css", get(asset("text/css; charset=utf-8", include_str!("docs/page.css"))))
}
