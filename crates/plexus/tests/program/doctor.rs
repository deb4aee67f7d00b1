//! `plexus doctor`: every ordinary problem is found, and the next step is said.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::installation::{Installation, eventually, executable, text};
use serde_json::Value;

/// What doctor says about one thing.
#[derive(Debug)]
struct Said {
    verdict: String,
    words: String,
    next: String,
    code: Option<i32>,
}

fn ask(command: &mut Command, what: &str) -> Said {
    let output = command.output().unwrap();
    let findings: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let found =
        findings.as_array().unwrap().iter().find(|finding| finding["what"] == what).expect(what);
    let word = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    Said {
        verdict: word("verdict"),
        words: word("words"),
        next: word("next"),
        code: output.status.code(),
    }
}

fn doctor(installation: &Installation) -> Command {
    installation.command(&["doctor", "--json"])
}

/// Something that must be repaired: it is said, with a step that helps, and the exit code tells a
/// script.
#[track_caller]
fn bad(said: &Said, words: &str, next: &str) {
    assert_eq!((said.verdict.as_str(), said.code), ("bad", Some(1)), "{said:?}");
    assert!(said.words.contains(words) && said.next.contains(next), "{said:?}");
}

/// Something that works, but not as one would expect.
#[track_caller]
fn odd(said: &Said, words: &str, next: &str) {
    assert_eq!(said.verdict, "odd", "{said:?}");
    assert!(said.words.contains(words) && said.next.contains(next), "{said:?}");
}

#[test]
fn a_new_user_is_well() {
    let installation = Installation::new();
    let output = installation.plexus(&["doctor"]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("none runs") && shown.contains("→ plexus run starts one"), "{shown}");
    assert!(!installation.data().exists(), "looking makes nothing");
}

#[test]
fn an_agent_that_is_missing_old_or_not_signed_in() {
    let installation = Installation::new();
    let (bin, home) = (installation.work().join("bin"), installation.work().join("home"));
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::create_dir_all(&home).unwrap();
    let claude = bin.join("claude");
    let doctor = |named: &str| {
        let mut command = doctor(&installation);
        command.env("PLEXUS_CLAUDE_BIN", named).env("PATH", &bin).env("HOME", &home);
        command
    };
    odd(
        &ask(&mut doctor(""), "agent"),
        "there is no `claude`",
        "npm install -g @anthropic-ai/claude-code",
    );
    bad(&ask(&mut doctor("/no/such/claude"), "agent"), "/no/such/claude", "--claude-bin");
    executable(&claude, "#!/bin/sh\necho '1.0.3 (Claude Code)'\n");
    bad(&ask(&mut doctor(""), "agent"), "1.0.3", "claude update");
    executable(&claude, "#!/bin/sh\nexit 7\n");
    bad(&ask(&mut doctor(""), "agent"), "claude", "does it run by hand?");

    odd(&ask(&mut doctor(""), "login"), "none found", "sign in");
    let keyed = ask(doctor("").env("ANTHROPIC_API_KEY", "k"), "login");
    assert_eq!(keyed.verdict, "good", "{keyed:?}");
    std::fs::create_dir(home.join(".claude")).unwrap();
    std::fs::write(home.join(".claude/.credentials.json"), "{}").unwrap();
    assert_eq!(ask(&mut doctor(""), "login").verdict, "good");
    assert_eq!(ask(&mut doctor("sim"), "login").verdict, "good");
}

#[test]
fn codex_that_is_missing_old_or_not_signed_in() {
    let installation = Installation::new();
    let (bin, home) = (installation.work().join("bin"), installation.work().join("home"));
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::create_dir_all(home.join(".codex")).unwrap();
    let doctor = |named: &str| {
        let mut command = doctor(&installation);
        command.env("PLEXUS_CODEX_BIN", named).env("PATH", &bin).env("HOME", &home);
        command
    };
    // Codex is one agent of several, so it may be missing.
    assert_eq!(ask(&mut doctor(""), "codex").verdict, "good");
    bad(&ask(&mut doctor("/no/such/codex"), "codex"), "/no/such/codex", "--codex-bin");
    executable(&bin.join("codex"), "#!/bin/sh\necho 'codex-cli 0.98.0'\n");
    bad(&ask(&mut doctor(""), "codex"), "0.98.0", "npm install -g @openai/codex");
    executable(&bin.join("codex"), "#!/bin/sh\necho 'codex-cli 0.169.0'\n");
    assert_eq!(ask(&mut doctor(""), "codex").verdict, "good");

    odd(&ask(&mut doctor(""), "codex login"), "sandbox", "codex.home");
    let elsewhere = |named: &str| {
        let mut command = doctor(named);
        command.env("PLEXUS_CODEX_HOME", "/no/such/home");
        command
    };
    odd(&ask(&mut elsewhere(""), "codex login"), "none found", "codex login");
    std::fs::write(home.join(".codex/auth.json"), "{}").unwrap();
    assert_eq!(ask(&mut elsewhere(""), "codex login").verdict, "good");
}

#[test]
fn tools_that_are_not_there() {
    let installation = Installation::new();
    let bin = installation.work().join("bin");
    std::fs::create_dir(&bin).unwrap();
    bad(&ask(doctor(&installation).env("PATH", &bin), "tools"), "bash", "install bash");
    executable(&bin.join("bash"), "");
    odd(&ask(doctor(&installation).env("PATH", &bin), "tools"), "no git", "install git");
    executable(&bin.join("git"), "");
    assert_eq!(ask(doctor(&installation).env("PATH", &bin), "tools").verdict, "good");
}

#[test]
fn a_data_directory_that_cannot_be_used() {
    let installation = Installation::new();
    // Nobody can write there, not even root.
    bad(
        &ask(doctor(&installation).env("PLEXUS_DATA_DIR", "/proc/plexus"), "data"),
        "could not write",
        "--data-dir",
    );
    std::fs::write(installation.data(), "a file").unwrap();
    bad(&ask(&mut doctor(&installation), "data"), "not a directory", "--data-dir");
    for what in ["rules", "token"] {
        odd(&ask(&mut doctor(&installation), what), "could not be looked at", "");
    }
    std::fs::remove_file(installation.data()).unwrap();
    std::fs::create_dir(installation.data()).unwrap();
    std::fs::set_permissions(installation.data(), std::fs::Permissions::from_mode(0o755)).unwrap();
    odd(&ask(&mut doctor(&installation), "data"), "can be read by others", "chmod 700");
}

#[test]
fn a_token_that_others_can_read() {
    let installation = Installation::new();
    installation.start_server();
    installation.works(&["stop"]);
    for what in ["token", "clock"] {
        assert_eq!(ask(&mut doctor(&installation), what).verdict, "good", "{what}");
    }
    let token = installation.data().join("operator.token");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    bad(
        &ask(&mut doctor(&installation), "token"),
        "others can read",
        "the next start makes a new one",
    );
}

#[test]
fn a_clock_that_was_set_back_by_an_hour_is_said_and_an_approval_waits_as_before() {
    let installation = Installation::new();
    installation.works(&["run", "--detach", "hello"]);
    let before = installation.pending();
    installation.works(&["stop"]);
    // What was written an hour from now was written before the clock was set back.
    let written = SystemTime::now() + Duration::from_secs(3_600);
    let token = installation.data().join("operator.token");
    std::fs::File::options().append(true).open(&token).unwrap().set_modified(written).unwrap();
    bad(&ask(&mut doctor(&installation), "clock"), "in the future", "timedatectl");
    installation.start_server();
    bad(&ask(&mut doctor(&installation), "clock"), "in the future", "timedatectl");
    let log = std::fs::read_to_string(installation.data().join("server.log")).unwrap();
    assert!(log.contains("the clock was set back"), "{log}");
    assert_eq!(installation.pending()["id"], before["id"]);
}

#[tokio::test]
async fn time_after_a_restart_goes_on_from_the_newest_in_the_store() {
    use plexus_store::{
        AuditLine, Change, JsonText, Priority, SqliteOptions, SqliteStore, Store as _, UnixMillis,
    };

    let installation = Installation::new();
    installation.start_server();
    installation.works(&["stop"]);
    // What was written an hour from now was written before the clock was set back.
    let at = UnixMillis::now().plus(Duration::from_secs(3_600));
    let body = JsonText::from(serde_json::json!({}));
    let line = AuditLine { at, kind: "test".to_owned(), session: None, body };
    let store = SqliteStore::open(&SqliteOptions::new(installation.data())).unwrap();
    store.commit(vec![Change::AppendAudit(line)], Priority::Normal).await.unwrap();
    store.close().await.unwrap();
    installation.works(&["run", "--detach", "hello"]);
    let asked = installation.pending()["created_at"].as_i64().unwrap();
    assert!(asked >= at.as_secs(), "{asked} is before {}", at.as_secs());
}

#[test]
fn a_server_that_runs_was_killed_or_hangs() {
    let installation = Installation::new();
    installation.start_server();
    for what in ["server", "store", "port"] {
        assert_eq!(ask(&mut doctor(&installation), what).verdict, "good", "{what}");
    }
    let announced: Value =
        serde_json::from_slice(&std::fs::read(installation.data().join("server.json")).unwrap())
            .unwrap();
    let pid =
        rustix::process::Pid::from_raw(i32::try_from(announced["pid"].as_u64().unwrap()).unwrap())
            .unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    eventually("the end of the server", || {
        (ask(&mut doctor(&installation), "server").verdict == "odd").then_some(())
    });
    odd(
        &ask(&mut doctor(&installation), "server"),
        "ended without being stopped",
        "takes over its children",
    );
    assert_eq!(ask(&mut doctor(&installation), "store").verdict, "good", "what it left is whole");

    // A process holds the store's lock and does not answer.
    let lock =
        std::fs::File::options().write(true).open(installation.data().join("plexus.lock")).unwrap();
    lock.lock().unwrap();
    bad(&ask(&mut doctor(&installation), "store"), "", "agents go on running");
}

#[test]
fn a_port_a_store_and_a_configuration_that_are_not_as_they_should_be() {
    let installation = Installation::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    bad(
        &ask(doctor(&installation).env("PLEXUS_LISTEN", &taken), "port"),
        "has the port",
        "PLEXUS_LISTEN",
    );

    installation.start_server();
    installation.works(&["stop"]);
    std::fs::write(installation.data().join("plexus.db"), "this is no database").unwrap();
    std::fs::write(installation.data().join("plexus.toml"), "lissten = 1\n").unwrap();
    bad(&ask(&mut doctor(&installation), "configuration"), "lissten", "repair it");
    bad(&ask(&mut doctor(&installation), "store"), "", "backup");
    std::fs::write(installation.data().join("loopback.toml"), "[[rules]\n").unwrap();
    bad(&ask(&mut doctor(&installation), "rules"), "could not read ", "no server starts");
}

#[test]
fn a_directory_where_no_agent_may_run() {
    let installation = Installation::new();
    let mut command = doctor(&installation);
    odd(
        &ask(command.current_dir(installation.work().join("..")), "directory"),
        "no agent can run",
        "directory of a project",
    );
}
