//! Asking a program for its version.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use agent_lines::ask_version;

#[tokio::test]
async fn version_is_asked_outside_of_the_working_directory() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let program = Path::new(folder.path().file_name().unwrap()).join("program");
    std::fs::write(&program, "#!/bin/sh\npwd\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(ask_version(&program).await.unwrap(), "/\n");
}
