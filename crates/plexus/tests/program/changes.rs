//! `plexus changes`: what changed since a session began.

use std::process::Command;

use crate::installation::Installation;
use serde_json::Value;

#[test]
fn the_difference_of_a_directory_is_told_file_by_file() {
    let installation = Installation::new();
    let git = |words: &[&str]| {
        let who = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
        let status =
            Command::new("git").args(who).args(words).current_dir(installation.work()).status();
        assert!(status.unwrap().success(), "{words:?}");
    };
    git(&["init", "--quiet"]);
    std::fs::write(installation.work().join("kept.txt"), "one\ntwo\n").unwrap();
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "first"]);
    installation.works(&["run", "--name", "s", "sim:\nsay nothing yet"]);
    assert!(installation.works(&["changes", "s"]).contains("0 files differ"));
    std::fs::write(installation.work().join("kept.txt"), "one\n2\n").unwrap();
    std::fs::write(installation.work().join("new.txt"), "fresh\n").unwrap();
    let told = installation.works(&["changes", "s"]);
    assert!(told.contains("M kept.txt") && told.contains("A new.txt"), "{told}");
    assert!(told.contains("fresh") && told.contains("2 files differ"), "{told}");
    let names = installation.works(&["changes", "s", "--names"]);
    assert!(names.contains("A new.txt") && !names.contains("fresh"), "{names}");
    let json: Value =
        serde_json::from_str(&installation.works(&["changes", "s", "--json"])).unwrap();
    assert_eq!(json["source"], "git");
    assert!(installation.fails(&["changes", "nobody"]).contains("nobody"));
    // What was noted goes with its session.
    let noted = installation.data().join("beginnings");
    assert_eq!(std::fs::read_dir(&noted).unwrap().count(), 1);
    installation.works(&["rm", "s"]);
    assert_eq!(std::fs::read_dir(&noted).unwrap().count(), 0);
}
