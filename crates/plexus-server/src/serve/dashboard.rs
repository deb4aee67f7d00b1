//! The files of the dashboard and of the page for phones, built from `web/` and part of this
//! program. They hold nothing secret, so they need no token; the pages ask for one.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use plexus_core::ApprovalId;

/// Nothing from elsewhere, nothing inline, and no other page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' \
    data:; connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; \
form-action 'none'; frame-ancestors 'none'";

struct Asset {
    /// Where it is served.
    path: &'static str,
    /// Where it lies below `web/dist`.
    #[cfg_attr(not(test), expect(dead_code, reason = "the test compares it with what is there"))]
    file: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! asset {
    ($path:literal, $file:literal, $kind:literal) => {
        Asset {
            path: $path,
            file: $file,
            kind: $kind,
            bytes: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/dist/", $file)),
        }
    };
}

/// Every file of the page. Named one by one: there are few, and a test says when one is missing.
const ASSETS: &[Asset] = &[
    asset!("/", "index.html", "text/html; charset=utf-8"),
    asset!("/assets/app.js", "assets/app.js", "text/javascript; charset=utf-8"),
    asset!("/assets/hub.js", "assets/hub.js", "text/javascript; charset=utf-8"),
    asset!("/assets/app.css", "assets/app.css", "text/css; charset=utf-8"),
    asset!("/favicon.svg", "favicon.svg", "image/svg+xml"),
    asset!("/favicon-waiting.svg", "favicon-waiting.svg", "image/svg+xml"),
    asset!("/phone", "phone.html", "text/html; charset=utf-8"),
    asset!("/assets/phone.js", "assets/phone.js", "text/javascript; charset=utf-8"),
    asset!("/assets/phone.css", "assets/phone.css", "text/css; charset=utf-8"),
    asset!("/sw.js", "sw.js", "text/javascript; charset=utf-8"),
    asset!("/manifest.webmanifest", "manifest.webmanifest", "application/manifest+json"),
    asset!("/icon-192.png", "icon-192.png", "image/png"),
    asset!("/icon-512.png", "icon-512.png", "image/png"),
];

/// Returns the routes of the page.
pub(super) fn router() -> Router {
    let router = Router::new().route("/approve/{id}", get(approve));
    ASSETS.iter().fold(router, |router, asset| {
        router.route(asset.path, get(move |headers| async move { serve(asset, &headers) }))
    })
}

/// Leads a link in a message to the one approval, on the page for phones. The rest of the address
/// is after a `#`, which browsers keep to themselves.
async fn approve(Path(id): Path<String>) -> Response {
    match id.parse::<ApprovalId>() {
        Ok(id) => Redirect::to(&format!("../phone#/approve/{id}")).into_response(),
        Err(_) => (StatusCode::NOT_FOUND, "this is not the id of an approval\n").into_response(),
    }
}

fn serve(asset: &'static Asset, request: &HeaderMap) -> Response {
    let tag = etag(asset);
    let headers = [
        (header::CONTENT_TYPE, asset.kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // The names do not change with the contents, so a browser asks each time; the answer is
        // usually 304.
        (header::CACHE_CONTROL, "no-cache"),
        (header::ETAG, tag.as_str()),
    ];
    let known =
        request.get(header::IF_NONE_MATCH).is_some_and(|seen| seen.as_bytes() == tag.as_bytes());
    if known {
        (StatusCode::NOT_MODIFIED, headers).into_response()
    } else {
        (headers, asset.bytes).into_response()
    }
}

/// A fingerprint of the contents. It only has to change with them; nobody gains by forging it.
fn etag(asset: &Asset) -> String {
    use std::hash::{Hash, Hasher};
    let mut hasher = std::hash::DefaultHasher::new();
    asset.bytes.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path as FilePath;

    use super::*;

    fn files(folder: &FilePath, root: &FilePath, into: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, root, into);
            } else {
                into.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }

    #[test]
    fn every_built_file_is_embedded() {
        let root = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist");
        let mut built = BTreeSet::new();
        files(&root, &root, &mut built);
        let embedded: BTreeSet<String> = ASSETS.iter().map(|asset| asset.file.to_owned()).collect();
        assert_eq!(embedded, built);
    }

    #[test]
    fn the_pages_ask_only_for_files_that_are_there() {
        let pages = ASSETS.iter().filter(|asset| asset.file.ends_with(".html"));
        let pages = pages.map(|asset| std::str::from_utf8(asset.bytes).unwrap());
        let page = &pages.collect::<String>();
        for attribute in ["src=\"", "href=\""] {
            for rest in page.split(attribute).skip(1) {
                let path = rest.split('"').next().unwrap();
                let path = path.strip_prefix('.').unwrap_or(path);
                assert!(ASSETS.iter().any(|asset| asset.path == path), "{path}");
            }
        }
    }
}
