//! `plexus search`: what a person at a terminal finds.

use crate::installation::Installation;
use serde_json::Value;

#[test]
fn words_are_found_with_their_session_and_narrowed() {
    let place = Installation::new();
    place.works(&["run", "--name", "first", "sim:\nsay the lost needle"]);
    place.works(&["run", "--name", "second", "sim:\nthink no needle here\nsay done"]);
    let found = place.works(&["search", "needle", "--kind", "said"]);
    assert!(found.contains("first") && found.contains("the lost needle"), "{found}");
    assert!(!found.contains("second") && !found.contains('\u{1b}'), "{found}");
    let all = place.works(&["search", "needle"]);
    assert!(all.contains("second  chat 0") && all.contains("thought"), "{all}");
    let json: Value =
        serde_json::from_str(&place.works(&["search", "--json", "-s", "second", "nee*"])).unwrap();
    let names: Vec<&Value> =
        json["hits"].as_array().unwrap().iter().map(|hit| &hit["session_name"]).collect();
    assert!(!names.is_empty() && names.iter().all(|name| *name == "second"), "{json:#}");

    let noted = place.works(&["search", "lost", "OR", "\"needle"]);
    assert!(noted.contains("OR is looked for as a word"), "{noted}");
    assert!(noted.contains("a quote has no end"), "{noted}");
    assert!(place.works(&["search", "needle", "--until", "1d"]).contains("nothing was found"));
    assert!(place.works(&["search", "needle", "--since", "1h"]).contains("first"));
    assert!(place.fails(&["search", "--", "->"]).contains("no letter and no digit"));
    assert!(place.fails(&["search", "x", "--since", "yesterday"]).contains("2026-11-17"));
    assert!(place.fails(&["search", "x", "-s", "nobody"]).contains("nobody"));
}
