//! `plexus search`: what a person at a terminal finds.

use crate::installation::Installation;
use serde_json::Value;

#[test]
fn words_are_found_with_their_session_and_narrowed() {
    let installation = Installation::new();
    installation.works(&["run", "--name", "first", "sim:\nsay the lost needle"]);
    installation.works(&["run", "--name", "second", "sim:\nthink no needle here\nsay done"]);
    let found = installation.works(&["search", "needle", "--kind", "said"]);
    assert!(found.contains("first") && found.contains("the lost needle"), "{found}");
    assert!(!found.contains("second") && !found.contains('\u{1b}'), "{found}");
    let all = installation.works(&["search", "needle"]);
    assert!(all.contains("second  chat 0") && all.contains("thought"), "{all}");
    let json: Value =
        serde_json::from_str(&installation.works(&["search", "--json", "-s", "second", "nee*"]))
            .unwrap();
    let names: Vec<&Value> =
        json["hits"].as_array().unwrap().iter().map(|hit| &hit["session_name"]).collect();
    assert!(!names.is_empty() && names.iter().all(|name| *name == "second"), "{json:#}");

    let noted = installation.works(&["search", "lost", "OR", "\"needle"]);
    assert!(noted.contains("OR is looked for as a word"), "{noted}");
    assert!(noted.contains("a quote has no end"), "{noted}");
    assert!(
        installation.works(&["search", "needle", "--until", "1d"]).contains("nothing was found")
    );
    assert!(installation.works(&["search", "needle", "--since", "1h"]).contains("first"));
    assert!(installation.fails(&["search", "--", "->"]).contains("no letter and no digit"));
    assert!(installation.fails(&["search", "x", "--since", "yesterday"]).contains("2026-11-17"));
    assert!(installation.fails(&["search", "x", "-s", "nobody"]).contains("nobody"));
}
