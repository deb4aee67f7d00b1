//! What a shell gets: logs in a pipe, hints that name commands, and completions.

use serde_json::json;

use crate::installation::{Installation, eventually, text};

/// A chat with a long result, a denial and a request that waits.
fn told(installation: &Installation) {
    let long = "{\"command\":\"touch a && seq 1 40\"}";
    let prompt = format!("sim:\ntool Bash {long}\ntool Bash {{\"command\":\"touch x\"}}");
    installation.works(&["run", "--detach", "--name", "told", &prompt]);
    installation.works(&["approve", installation.pending()["id"].as_str().unwrap()]);
    crate::installation::eventually("the second request", || {
        (installation.pending()["input"]["command"] == "touch x").then_some(())
    });
}

#[test]
fn logs_are_whole_in_a_pipe_and_say_when_and_who_and_what_waits() {
    let installation = Installation::new();
    told(&installation);
    let log = installation.works(&["logs", "told"]);
    assert!(log.contains("│ 40") && !log.contains("more lines"), "{log}");
    assert!(log.contains("✓ allowed by operator"), "{log}");
    assert!(log.contains("for an answer: ") && log.contains("Bash touch x"), "{log}");
    assert!(log.contains("`plexus approve "), "{log}");
    let prompt = log.lines().find(|line| line.contains("[0] sim:")).unwrap();
    let (time, _) = prompt.split_at(8);
    let is_time = |(at, c): (usize, char)| if at % 3 == 2 { c == ':' } else { c.is_ascii_digit() };
    assert!(time.chars().enumerate().all(is_time), "no time in {prompt:?}");

    let id = installation.pending()["id"].as_str().unwrap().to_owned();
    installation.works(&["deny", &id, "--reason", "no"]);
    let again = installation.fails(&["approve", &id[..]]);
    assert!(again.contains("it was already denied by the operator: no"), "{again}");
    assert!(installation.works(&["logs", "told"]).contains("✗ denied by operator: no"));
}

#[test]
fn an_edited_call_is_shown_and_found_as_it_ran() {
    let installation = Installation::new();
    let asked = "{\"command\":\"touch asked_name\"}";
    let prompt = format!("sim:\ntool Bash {asked}\ntool Write {{\"file_path\":\"a\"}}");
    installation.works(&["run", "--detach", "--name", "edited", &prompt]);
    let pending = installation.pending();
    assert_eq!(pending["tool_name"], "Bash", "{pending}");
    let ran = "{\"command\":\"touch ran_name\",\"timeout\":7}";
    installation.works(&["approve", pending["id"].as_str().unwrap(), "--input", ran]);
    eventually("the second request", || {
        (installation.pending()["tool_name"] == "Write").then_some(())
    });

    let log = installation.works(&["logs", "edited"]);
    let after = log.split_once("✓ allowed as edited by operator").expect(&log).1;
    assert!(after.contains("    Bash touch ran_name\n"), "{log}");
    assert!(after.contains("      timeout: 7\n"), "{log}");
    let tree = installation.works(&["tree", "edited"]);
    assert!(tree.contains("allowed as edited to touch ran_name"), "{tree}");
    eventually("the edit in the index", || {
        let found = installation.plexus(&["search", "ran_name"]);
        text(&found.stdout).contains("ran_name").then_some(())
    });
}

#[test]
fn in_a_terminal_logs_are_short_unless_all_is_asked_for() {
    let installation = Installation::new();
    told(&installation);
    for (arguments, all) in [(&["logs", "told"][..], false), (&["logs", "told", "--full"], true)] {
        let mut terminal = crate::pty::Terminal::start(&installation, 100, &[], arguments);
        terminal.wait_for("for an answer: ");
        let (code, shown) = terminal.finish();
        assert_eq!((code, shown.contains("│ 40"), shown.contains("more lines")), (0, all, !all));
    }
}

#[test]
fn hints_name_commands() {
    let installation = Installation::new();
    installation.start_server();
    let told = installation.fails(&["parents", "revoke", "nobody"]);
    assert!(told.contains("`plexus parents` lists them"), "{told}");
}

#[test]
fn a_shell_completes_names_and_ids_of_sessions_and_approvals() {
    let installation = Installation::new();
    installation.works(&["run", "--detach", "--name", "first", "hello"]);
    let approval = installation.pending();
    installation
        .call("agents.create", &json!({"name": "other", "working_dir": installation.work()}));
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_plexus"));
    let path = std::env::join_paths(
        std::iter::once(bin.parent().unwrap().to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let path = path.unwrap();
    let complete = |words: &[&str]| {
        let script = "source <(plexus completions bash); COMP_WORDS=(plexus \"$@\"); \
            COMP_CWORD=$#; COMP_TYPE=9; _clap_complete_plexus plexus \"${!#}\" 2>&1; \
            printf '%s\\n' \"${COMPREPLY[@]}\"";
        let mut command = std::process::Command::new("bash");
        command.args(["-c", script, "bash"]).args(words).env_clear().envs(installation.env());
        let output = command.env("PATH", &path).current_dir(installation.work()).output().unwrap();
        let lines = text(&output.stdout);
        let offers = lines.split(['\n', '\u{b}']).map(|line| line.trim().to_owned());
        offers.filter(|offer| !offer.is_empty() && !offer.starts_with('-')).collect::<Vec<_>>()
    };
    // A server that is slow to answer is not waited for, and nothing is offered.
    let completes = |words: &[&str], offers: &[&str]| {
        eventually(&format!("{offers:?} for {words:?}"), || {
            (complete(words) == offers).then_some(())
        });
    };
    completes(&["logs", ""], &["first", "other"]);
    completes(&["attach", "fi"], &["first"]);
    let id = approval["session_id"].as_str().unwrap();
    completes(&["rename", &id[..12]], &[id]);
    completes(&["run", "--session", "o"], &["other"]);
    let offered = eventually("one approval", || {
        let offered = complete(&["approve", ""]);
        (offered.len() == 1).then_some(offered)
    });
    // Its session's id begins alike.
    assert_eq!(offered[0], approval["id"].as_str().unwrap()[..8]);
    assert_eq!(installation.works(&["pending"]).split(' ').next(), Some(&*offered[0]));
    assert!(complete(&["renam"]).contains(&"rename".to_owned()));
}
