//! Repositories that run a program of an agent's when somebody else runs git there.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{SimulatedHub, texts};

/// A directory that runs its own program under git: the index names a nested repository, whose
/// configuration names the program.
struct Planted {
    dir: PathBuf,
    /// The file that the program makes.
    mark: PathBuf,
}

impl Planted {
    fn new(folder: &Path) -> Self {
        let (dir, mark) = (folder.join("planted"), folder.join("mark"));
        let write = |name: &str, text: &str| fs::write(dir.join(name), text).unwrap();
        fs::create_dir(&dir).unwrap();
        git(&dir, &["init", "--quiet"]);
        write("kept.txt", "one\n");
        git(&dir, &["add", "kept.txt"]);
        git(&dir, &["commit", "--quiet", "--message", "first"]);
        let commit = fs::read_dir(dir.join(".git/refs/heads")).unwrap().next().unwrap();
        let commit = fs::read_to_string(commit.unwrap().path()).unwrap();
        let program = dir.join("program");
        write("program", &format!("#!/bin/sh\ntouch '{}'\ncat\n", mark.display()));
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["objects/info", "refs"] {
            fs::create_dir_all(dir.join("lib/.git").join(name)).unwrap();
        }
        write("lib/.git/HEAD", &commit);
        write("lib/.git/objects/info/alternates", "../../../.git/objects\n");
        let program = program.display();
        let config = format!(
            "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {program}\n\
             [filter \"planted\"]\n\tclean = {program}\n\tsmudge = {program}\n\trequired = true\n"
        );
        write("lib/.git/config", &config);
        write("lib/.gitattributes", "* filter=planted\n");
        write("lib/nested.txt", "nested\n");
        let modules = "[submodule \"lib\"]\n\tpath = lib\n\turl = ./lib\n\tignore = none\n";
        write(".gitmodules", modules);
        git(&dir, &["add", "lib"]);
        let planted = Self { dir, mark };
        planted.is_a_trap();
        planted
    }

    /// The same directory as an archive would leave it: other inodes, other times.
    fn unpacked(self) -> Self {
        let dir = self.dir.with_file_name("unpacked");
        let copied = Command::new("cp").arg("-R").args([&self.dir, &dir]).status().unwrap();
        assert!(copied.success());
        Self { dir, mark: self.mark }
    }

    /// Fails unless git runs the program, of which it then leaves no trace.
    fn is_a_trap(&self) {
        git(&self.dir, &["diff"]);
        fs::remove_file(&self.mark).expect("git does not run the planted program");
    }
}

fn git(dir: &Path, words: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
        .args(words)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(status.status.success(), "{words:?}: {status:?}");
}

/// Creates, forks and compares sessions in a directory, and fails if that runs its program.
async fn supervise_in(planted: &Planted) {
    let hub = SimulatedHub::new().await;
    let mut ran = Vec::new();
    let mut look = |step: &'static str| {
        if fs::remove_file(&planted.mark).is_ok() {
            ran.push(step);
        }
    };
    let session = hub.create("planted", json!({"working_dir": planted.dir})).await;
    look("create");
    let events = hub.chat_to_end(&session, "sim:\nsay one").await;
    assert_eq!(texts(&events), ["one"]);
    look("chat");
    let fork = json!({"session_id": session, "new_name": "fork"});
    let fork = hub.ok("agents.fork", fork).await["id"].clone();
    look("fork");
    fs::write(planted.dir.join("kept.txt"), "two\n").unwrap();
    fs::write(planted.dir.join("lib/nested.txt"), "changed\n").unwrap();
    let changes =
        async |session: Value| hub.ok("agents.changes", json!({"session_id": session})).await;
    let found = [changes(json!(session)).await, changes(fork).await];
    look("changes");
    hub.ok("agents.delete", json!({"session_id": session})).await;
    look("delete");
    assert_eq!(ran, [""; 0], "these ran the program of the nested repository");
    for found in found {
        assert_eq!(found["source"], "git", "{found}");
        let changes = found["changes"].as_array().unwrap();
        assert_eq!(changes.len(), 1, "{found}");
        assert_eq!(changes[0]["path"], "kept.txt");
    }
    planted.is_a_trap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_repository_planted_by_an_agent_runs_nothing() {
    let folder = TempDir::new().unwrap();
    let planted = Planted::new(folder.path());
    supervise_in(&planted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_repository_from_an_archive_runs_nothing() {
    let folder = TempDir::new().unwrap();
    let planted = Planted::new(folder.path()).unpacked();
    supervise_in(&planted).await;
}
