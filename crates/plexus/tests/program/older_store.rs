//! A store that is older than the run directories beside it: what `plexus serve` says, and what
//! does not count as one.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::installation::{Installation, eventually};
use crate::serve::{Server, log_of};

const FLAG: &str = "--accept-older-store";

/// Creates a session, lets it answer once, and returns its id.
fn session(installation: &Installation, name: &str) -> String {
    let create = json!({"name": name, "working_dir": installation.work()});
    let id = installation.call("agents.create", &create)["id"].as_str().unwrap().to_owned();
    installation.call("agents.chat_async", &json!({"name": name, "prompt": "sim:\nsay here"}));
    eventually("the end of the turn", || {
        let session = installation.call("agents.get", &json!({"name": name}));
        (session["session"]["status"] == "complete").then_some(())
    });
    assert!(installation.data().join("runs").join(&id).is_dir(), "{id} has run");
    id
}

fn stop(installation: &Installation, server: Server) {
    installation.works(&["stop", "--children"]);
    assert!(server.wait().success(), "{}", log_of(installation));
}

/// Every path below a directory.
fn paths(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(paths(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

/// Starts a server that must refuse because of this session, and must touch no run directory.
fn refuses(installation: &Installation, lost: &str) {
    let runs = installation.data().join("runs");
    let before = paths(&runs);
    let complaint = installation.fails(&["serve"]);
    for words in ["plexus.db", "1 session", lost, FLAG] {
        assert!(complaint.contains(words), "no {words:?} in {complaint}");
    }
    assert_eq!(paths(&runs), before);
}

#[test]
fn an_older_copy_is_refused_until_it_is_accepted() {
    let installation = Installation::new();
    let (database, copy) =
        (installation.data().join("plexus.db"), installation.work().join("copy"));
    let server = Server::start(&installation, &[]);
    session(&installation, "kept");
    stop(&installation, server);
    std::fs::copy(&database, &copy).unwrap();
    let server = Server::start(&installation, &[]);
    let lost = session(&installation, "lost");
    stop(&installation, server);
    std::fs::copy(&copy, &database).unwrap();
    refuses(&installation, &lost);
    let doctor = installation.plexus(&["doctor"]);
    let words = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(!doctor.status.success() && words.contains(FLAG), "{words}");

    let server = Server::start(&installation, &[FLAG]);
    assert!(log_of(&installation).contains("was accepted"), "{}", log_of(&installation));
    stop(&installation, server);
    // It is accepted once and for all.
    stop(&installation, Server::start(&installation, &[]));
}

#[test]
fn an_emptied_store_is_refused_every_time() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    let lost = session(&installation, "lost");
    stop(&installation, server);
    std::fs::write(installation.data().join("plexus.db"), "").unwrap();
    refuses(&installation, &lost);
    refuses(&installation, &lost);
    stop(&installation, Server::start(&installation, &[FLAG]));
}

#[test]
fn a_log_that_was_cut_off_is_refused() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    let lost = session(&installation, "lost");
    server.kill_9();
    let files = ["plexus.db", "plexus.db-wal"].map(|name| installation.data().join(name));
    let whole = files.clone().map(|path| std::fs::read(path).unwrap());
    std::fs::File::options().write(true).open(&files[1]).unwrap().set_len(0).unwrap();
    refuses(&installation, &lost);
    // Once the files are back the server starts, as after every kill.
    for (path, bytes) in files.iter().zip(whole) {
        std::fs::write(path, bytes).unwrap();
    }
    drop(std::fs::remove_file(installation.data().join("plexus.db-shm")));
    let server = Server::start(&installation, &[]);
    installation.call("agents.get", &json!({"name": "lost"}));
    stop(&installation, server);
}

#[test]
fn directories_of_deleted_and_pruned_sessions_refuse_nothing() {
    let installation = Installation::new();
    let server = Server::start(&installation, &[]);
    session(&installation, "pruned");
    installation.call("server.prune", &json!({"older_than_days": 0}));
    let deleted = session(&installation, "deleted");
    installation.call("agents.delete", &json!({"name": "deleted"}));
    let dir = installation.data().join("runs").join(deleted);
    assert!(!dir.exists());
    server.kill_9();
    // What a kill leaves that comes before the directory is removed.
    std::fs::create_dir(&dir).unwrap();
    let server = Server::start(&installation, &[]);
    installation.call("agents.get", &json!({"name": "pruned"}));
    stop(&installation, server);
}
