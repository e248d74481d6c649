//! The pages for people: files that are part of this binary, served as they are. What they show comes from the API.

mod base;
mod console;

use crate::app::App;
use crate::problem::Problem;
use axum::Router;
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use guerdon_core::Code;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// Nothing but this server's own files, nothing inline, in nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// A file: its place in `assets/`, and what is in it.
type Asset = (&'static str, &'static [u8]);

macro_rules! assets {
    ($($path:literal)+) => {
        pub(super) const ASSETS: &[super::Asset] =
            &[$(($path, include_bytes!(concat!("../../assets/", $path)))),+];
    };
}
use assets;

const ASSETS: [&[Asset]; 2] = [base::ASSETS, console::ASSETS];

/// Where pages begin, and the file that is there.
const PAGES: &[(&str, &str)] = &[("/console", "console/index.html")];

struct Served {
    body: &'static [u8],
    kind: &'static str,
    tag: HeaderValue,
}

static SERVED: LazyLock<HashMap<&str, Served>> = LazyLock::new(|| {
    let assets = ASSETS.into_iter().flatten();
    assets.map(|(path, body)| (*path, Served { body, kind: kind(path), tag: tag(body) })).collect()
});

fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("webmanifest") => "application/manifest+json",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}

/// Changes with what is in the file, and is the same at every server of one version.
fn tag(body: &[u8]) -> HeaderValue {
    let hash = URL_SAFE_NO_PAD.encode(&Sha256::digest(body)[..12]);
    HeaderValue::from_str(&format!("\"{hash}\"")).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

fn serve(path: &str, headers: &HeaderMap) -> Result<Response, Problem> {
    let served = SERVED.get(path);
    let Served { body, kind, tag } =
        served.ok_or_else(|| Problem::new(Code::NotFound, "there is no such file"))?;
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known = known
        .flat_map(|value| value.split(','))
        .any(|known| known.trim().trim_start_matches("W/").as_bytes() == tag.as_bytes());
    let mut response =
        if is_known { StatusCode::NOT_MODIFIED.into_response() } else { (*body).into_response() };
    let headers = response.headers_mut();
    headers.insert(ETAG, tag.clone());
    for (name, value) in [
        (CONTENT_TYPE, *kind),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

pub(crate) fn routes() -> Router<Arc<App>> {
    let files = |Path(path): Path<String>, headers: HeaderMap| async move { serve(&path, &headers) };
    PAGES.iter().fold(Router::new().route("/assets/{*path}", get(files)), |router, (address, file)| {
        router.route(address, get(move |headers: HeaderMap| async move { serve(file, &headers) }))
    })
}

#[cfg(test)]
mod tests {
    use super::{ASSETS, PAGES, SERVED};
    use std::collections::BTreeSet;
    use std::path::Path;

    fn files(folder: &Path, under: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{under}{}", entry.file_name().to_string_lossy());
            if entry.file_type().unwrap().is_dir() {
                files(&entry.path(), &format!("{name}/"), found);
            } else {
                found.insert(name);
            }
        }
    }

    #[test]
    fn every_file_is_served_and_nothing_else() {
        let mut there = BTreeSet::new();
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("assets"), "", &mut there);
        let listed: Vec<_> =
            ASSETS.iter().flat_map(|part| part.iter()).map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(listed.len(), SERVED.len(), "none is listed twice");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), there);
        assert!(PAGES.iter().all(|(_, file)| SERVED.contains_key(file)));
        assert!(SERVED.values().all(|served| served.kind != "application/octet-stream"));
    }

    #[test]
    fn pages_need_nothing_from_outside_and_nothing_inline() {
        for (path, body) in ASSETS.into_iter().flatten() {
            let text = std::str::from_utf8(body).unwrap().replace("http://www.w3.org/", "");
            assert!(!text.contains("://"), "{path} leads outside");
            for inline in
                [" style=\"", "<style", "onclick=", "innerHTML", "outerHTML", "insertAdjacentHTML", "eval("]
            {
                assert!(!text.contains(inline), "{path} has {inline}");
            }
            for script in text.split("<script").skip(1) {
                assert!(
                    script.trim_start().starts_with("type=\"module\" src=\"/assets/"),
                    "{path} has a script of its own"
                );
            }
        }
    }
}
