//! Everything that differs between systems is in one module, and nothing needs a pseudo-terminal.

#![allow(clippy::expect_used, reason = "a failed test is allowed to stop loudly")]

use std::path::{Path, PathBuf};

#[test]
fn what_differs_between_systems_is_in_one_module_and_nothing_needs_a_pty() {
    fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { sources(&path, found) } else { found.push(path) }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for system in ["linux.rs", "unix.rs", "windows.rs"] {
        assert!(root.join("src/process").join(system).exists(), "{system}");
    }
    let mut found = Vec::new();
    sources(&root.join("src"), &mut found);
    for path in found {
        let text = std::fs::read_to_string(&path).expect("a source file");
        let is_process = path.parent().is_some_and(|dir| dir.ends_with("process"));
        for word in ["cfg(unix", "cfg(windows", "target_os", "std::os::", "rustix"] {
            assert!(is_process || !text.contains(word), "{word} in {}", path.display());
        }
        assert!(!text.to_lowercase().contains("openpt"), "{}", path.display());
    }
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).expect("a manifest");
    assert!(!manifest.contains("pty"));
}
