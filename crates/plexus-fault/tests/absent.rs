//! A release build has no fault points: the feature that compiles them in is off by default
//! everywhere, and a release build refuses it.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test, a panic is the answer")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// Compiles one program against the sources of this crate with `flags`, and returns whether that
/// worked and what the compiler wrote.
fn compile(into: &Path, flags: &[&str]) -> (bool, String) {
    let rustc = |arguments: &[&str]| {
        let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
            .args(["--edition", "2024", "--out-dir"])
            .arg(into)
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("rustc runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let library =
        [&["--crate-name", "plexus_fault", "--crate-type", "lib", "src/lib.rs"], flags].concat();
    let (built, words) = rustc(&library);
    if !built {
        return (false, words);
    }
    let program = into.join("program.rs");
    std::fs::write(
        &program,
        r#"fn main() {
            plexus_fault::point!("name.of.a.point");
            plexus_fault::point!("name.of.another", when std::env::args().count() > 7);
            if plexus_fault::fails!("name.of.a.failure") { std::process::exit(1); }
            assert_eq!(plexus_fault::cut!("name.of.a.cut", b"whole"), b"whole");
        }"#,
    )
    .expect("a program");
    let external = format!("plexus_fault={}", into.join("libplexus_fault.rlib").display());
    rustc(&["--crate-name", "program", "--extern", &external, program.to_str().expect("a name")])
}

#[test]
fn a_program_built_for_use_holds_no_name_of_a_point() {
    let folder = tempfile::tempdir().expect("a folder");
    // Unoptimised: the optimiser cannot be what removed the names.
    let (built, words) = compile(folder.path(), &[]);
    assert!(built, "{words}");
    let program = std::fs::read(folder.path().join("program")).expect("the program");
    assert!(!program.windows(7).any(|bytes| bytes == b"name.of"), "a name reached the program");
    assert!(program.windows(5).any(|bytes| bytes == b"whole"), "texts are found this way");
    assert!(Command::new(folder.path().join("program")).status().expect("it runs").success());
}

#[test]
fn a_release_refuses_the_feature() {
    let folder = tempfile::tempdir().expect("a folder");
    let (built, words) = compile(folder.path(), &["-O", "--cfg", "feature=\"armed\""]);
    assert!(!built && words.contains("a release has no fault points"), "{words}");
}

#[test]
fn nothing_turns_the_points_on_by_default() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(workspace())
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for package in metadata["packages"].as_array().expect("packages") {
        let name = &package["name"];
        for (feature, enables) in package["features"].as_object().expect("features") {
            let enables: Vec<&str> =
                enables.as_array().expect("a list").iter().filter_map(|it| it.as_str()).collect();
            let arms =
                enables.iter().any(|it| it.contains("plexus-fault/") || it.contains("/faults"));
            assert!(
                !arms || (name == "plexus" && feature == "faults"),
                "{name}/{feature} arms the points"
            );
            assert!(
                feature != "default" || !enables.contains(&"faults"),
                "{name} has faults by default"
            );
        }
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let features = dependency["features"].as_array().expect("features");
            let arms = dependency["name"] == "plexus-fault"
                && features.iter().any(|feature| feature == "armed");
            assert!(!arms, "{name} arms the points by depending on them");
        }
    }
}
