//! The other commands, as scripts use them.

use std::process::Stdio;

use crate::installation::{Installation, eventually, text};
use serde_json::{Value, json};

#[test]
fn without_a_terminal_a_run_says_how_to_answer_and_waits() {
    let installation = Installation::new();
    let run = installation
        .command(&["run", "--name", "batch", "hello"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let approval = installation.pending();
    installation.works(&["approve", approval["id"].as_str().unwrap()]);
    let output = run.wait_with_output().unwrap();
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}");
    assert!(
        shown.contains(&format!("plexus approve {}", approval["id"].as_str().unwrap())),
        "{shown}"
    );
    assert!(!shown.contains('\u{1b}'), "no colours without a terminal: {shown:?}");

    let sessions: Value = serde_json::from_str(&installation.works(&["ps", "--json"])).unwrap();
    assert_eq!(
        (&sessions[0]["name"], &sessions[0]["status"]),
        (&json!("batch"), &json!("complete"))
    );
    let log = installation.works(&["logs", "batch"]);
    assert!(log.contains("[0] hello") && log.contains("Done: plexus-sim.txt is written."), "{log}");
    for line in installation.works(&["logs", "batch", "--json"]).lines() {
        serde_json::from_str::<Value>(line).expect("one JSON object a line");
    }
    assert!(installation.works(&["tree", "batch"]).contains("hello"));
}

#[test]
fn a_run_names_its_agent() {
    let installation = Installation::new();
    let words = [
        "run",
        "--agent",
        "codex",
        "--codex-bin",
        "sim",
        "--supervise-all",
        "--name",
        "other",
        "hello",
    ];
    let run = installation.command(&words).stdout(Stdio::piped()).spawn().unwrap();
    let approval = installation.pending();
    assert_eq!(approval["tool_name"], "apply_patch", "{approval:#}");
    installation.works(&["approve", approval["id"].as_str().unwrap()]);
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(installation.work().join("plexus-sim.txt").exists());
    let sessions: Value = serde_json::from_str(&installation.works(&["ps", "--json"])).unwrap();
    assert_eq!(
        (&sessions[0]["agent"], &sessions[0]["status"]),
        (&json!("codex"), &json!("complete"))
    );
    let refused = installation.fails(&["run", "--agent", "nobody", "hello"]);
    assert!(refused.contains("nobody") && refused.contains("codex"), "{refused}");
}

#[test]
fn exit_codes_tell_how_a_chat_ended() {
    let installation = Installation::new();
    for (prompt, code) in [("sim:\nsay fine", 0), ("sim:\nexit 7", 3), ("sim:\ncrash", 3)] {
        let output = installation.plexus(&["run", prompt]);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{prompt:?}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
    }
    assert_eq!(installation.plexus(&["run"]).status.code(), Some(2));
    assert_eq!(installation.plexus(&["run", "--session", "nobody", "hi"]).status.code(), Some(1));
}

#[test]
fn a_denial_from_the_shell_reaches_the_agent() {
    let installation = Installation::new();
    let run = installation.command(&["run", "hello"]).stdout(Stdio::piped()).spawn().unwrap();
    let approval = installation.pending();
    let pending = installation.works(&["pending", approval["id"].as_str().unwrap()]);
    assert!(pending.contains("wants Write") && pending.contains("+ hello"), "{pending}");
    installation.works(&["deny", approval["id"].as_str().unwrap(), "--reason", "not today"]);
    let output = run.wait_with_output().unwrap();
    let shown = text(&output.stdout);
    assert!(shown.contains("denied: not today"), "{shown}");
    assert!(shown.contains("complete · 1 denied in"), "{shown}");
    assert_eq!(output.status.code(), Some(5), "{shown}");
    let complaint = installation.fails(&["approve", approval["id"].as_str().unwrap()]);
    assert!(complaint.contains("it was already denied by the operator: not today"), "{complaint}");
}

#[test]
fn a_run_shows_what_follows_an_unreadable_line() {
    let installation = Installation::new();
    installation.start_server();
    for _ in 0..5 {
        let shown = installation.works(&["run", "--once", "sim:\nsay a\ngarbage\nsay b\nsay c"]);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines.contains(&"b") && lines.contains(&"c"), "{shown}");
        assert!(shown.contains("✓ complete") && shown.contains(" · $"), "{shown}");
    }
}

#[test]
fn the_ids_that_pending_prints_name_their_approvals() {
    let installation = Installation::new();
    for name in ["first", "second"] {
        installation.works(&["run", "--detach", "--name", name, "hello"]);
    }
    let approvals = eventually("two approvals", || {
        let shown: Value =
            serde_json::from_str(&installation.works(&["pending", "--json"])).ok()?;
        shown.as_array().filter(|all| all.len() == 2).cloned()
    });
    for name in ["first", "second"] {
        let shown = installation.works(&["pending", name]);
        let short = shown.split_whitespace().next().unwrap();
        let whole = installation.works(&["pending", short]);
        assert!(whole.contains(&format!("{name} wants Write")), "{short}: {whole}");
        installation.works(&["approve", short]);
    }
    assert_eq!(approvals.len(), 2);
}

#[test]
fn a_beginning_that_a_session_shares_names_the_approval() {
    let installation = Installation::new();
    installation.works(&["run", "--detach", "hello"]);
    let approval = installation.pending();
    let (id, session) =
        (approval["id"].as_str().unwrap(), approval["session_id"].as_str().unwrap());
    let same = id.bytes().zip(session.bytes()).take_while(|(a, b)| a == b).count();
    assert!(same >= 4, "{id} and {session} are of the same day");
    let shown = installation.works(&["pending", &id[..same.min(8)]]);
    assert!(shown.contains("wants Write"), "{shown}");
}

#[test]
fn a_prompt_that_no_chat_takes_leaves_no_session() {
    let installation = Installation::new();
    installation.start_server();
    for (words, told) in [
        (vec!["run", ""], "the prompt is empty: say what"),
        (vec!["run", "-"], "the prompt is empty: say what"),
        (vec!["run", "--budget-usd", "0", "x"], "more than 0"),
    ] {
        let complaint = installation.fails(&words);
        assert!(complaint.contains(told), "{words:?}: {complaint}");
    }
    assert_eq!(installation.works(&["ps", "--json"]).trim(), "[]");
}

#[test]
fn a_start_that_fails_says_why_and_only_its_own_why() {
    let installation = Installation::new();
    std::fs::create_dir(installation.data()).unwrap();
    let file = installation.data().join("plexus.toml");
    std::fs::write(&file, "nope = 1\n").unwrap();
    let complaint = installation.fails(&["run", "hi"]);
    let cause = format!("could not read {}", file.display());
    assert!(complaint.contains(&cause) && complaint.contains("nope"), "{complaint}");
    std::fs::write(&file, "log = 7\n").unwrap();
    let complaint = installation.fails(&["run", "hi"]);
    assert!(complaint.contains(&cause) && !complaint.contains("nope"), "{complaint}");
}

#[test]
fn a_data_directory_that_is_a_file_is_said() {
    let installation = Installation::new();
    std::fs::write(installation.data(), "").unwrap();
    let complaint = installation.fails(&["serve"]);
    assert!(complaint.contains("a file and not a directory"), "{complaint}");
    let complaint = installation.fails(&["ps"]);
    assert!(
        complaint.contains("could not read") && !complaint.contains("none runs"),
        "{complaint}"
    );
}

#[test]
fn a_pruned_chat_keeps_its_prompt_and_json_says_each_key_once() {
    let installation = Installation::new();
    installation.works(&["run", "--name", "old", "sim:\nsay well"]);
    let json = installation.works(&["logs", "old", "--json"]);
    for line in json.lines() {
        assert_eq!(line.matches("\"chat\":").count(), 1, "{line}");
    }
    let before = installation.works(&["logs", "old"]);
    assert!(before.contains("[0] sim:") && before.contains("(1 turn, "), "{before}");
    // What ended in this very millisecond is not older than now.
    let after = eventually("a pruned chat", || {
        installation.works(&["prune", "--older-than", "0d"]);
        Some(installation.works(&["logs", "old"])).filter(|log| log.contains("pruned"))
    });
    assert!(after.contains("[0] sim:") && !after.contains("(start, pruned)"), "{after}");
}

#[test]
fn what_is_said_can_be_done() {
    let installation = Installation::new();
    let detached = installation.works(&["run", "--detach", "--name", "away", "sim:\nsay x"]);
    assert!(detached.contains("`plexus attach away`"), "{detached}");
    assert!(installation.works(&["devices"]).contains("plexus pair"));
    assert!(installation.works(&["parents"]).contains("mcp-config --as"));
    let complaint = installation.fails(&["devices", "revoke", "nope"]);
    assert!(complaint.contains("`plexus devices`"), "{complaint}");
}

#[test]
fn a_running_session_can_be_cancelled() {
    let installation = Installation::new();
    let run = installation
        .command(&["run", "--name", "long", "hello"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    installation.pending();
    installation.works(&["cancel", "long", "--reason", "enough"]);
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(4));
}

#[test]
fn our_own_data_is_no_place_for_an_agent() {
    let installation = Installation::new();
    let mut command = installation.command(&["run", "hello"]);
    let output = command.current_dir(installation.work().join("..")).output().unwrap();
    let complaint = text(&output.stderr);
    assert!(!output.status.success() && complaint.contains("--data-dir"), "{complaint}");
    assert!(!installation.data().exists(), "nothing was started");
}

#[test]
fn rules_are_added_listed_tried_and_removed() {
    let installation = Installation::new();
    installation.start_server();
    installation
        .call("claudecode.create", &json!({"name": "a", "working_dir": installation.work()}));
    installation.works(&["rules", "add", "deny", "Bash(rm:*)", "--reason", "careful"]);
    let tried = installation.works(&["rules", "test", "Bash", "{\"command\":\"rm x\"}"]);
    assert!(tried.starts_with("deny:"), "{tried}");
    let listed: Value = serde_json::from_str(&installation.works(&["rules", "--json"])).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    assert!(installation.works(&["rules"]).contains("Bash(rm:*)"));
    installation.works(&["rules", "remove", id]);
    assert!(installation.works(&["rules"]).contains("no rules"));
    assert!(installation.works(&["rules", "suggest"]).contains("nothing yet"));
}

#[test]
fn a_parent_gets_a_configuration_with_or_without_a_token() {
    let installation = Installation::new();
    let stdio: Value = serde_json::from_str(&installation.works(&["mcp-config"])).unwrap();
    assert_eq!(stdio["mcpServers"]["plexus"]["args"][0], "mcp");
    let http: Value =
        serde_json::from_str(&installation.works(&["mcp-config", "--as", "boss"])).unwrap();
    let entry = &http["mcpServers"]["plexus"];
    assert!(entry["url"].as_str().unwrap().ends_with("/mcp"));
    let token = entry["headers"]["Authorization"].as_str().unwrap();
    let operator = installation.works(&["token"]);
    assert!(
        token.starts_with("Bearer plx_") && !token.contains(operator.trim()),
        "not the operator's"
    );
}

#[test]
fn errors_of_a_call_are_for_programs_to_read() {
    let installation = Installation::new();
    installation.start_server();
    let output = installation.plexus(&["call", "claudecode.get", "{\"name\":\"nobody\"}"]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &told["error"]["kind"]), (Some(1), &json!("not_found")));
}

#[test]
fn old_records_are_pruned_with_and_without_a_server() {
    let installation = Installation::new();
    assert!(installation.fails(&["prune", "--older-than", "30d"]).contains("no store"));
    installation.start_server();
    installation.works(&["prune", "--older-than", "30d", "--json"]);
    installation.works(&["stop"]);
    assert!(installation.works(&["prune", "--older-than", "30"]).contains("removed 0"));
}

#[test]
fn a_store_is_moved_only_to_a_database_that_is_named() {
    let installation = Installation::new();
    let told = installation.fails(&["migrate", "--from", "sqlite", "--to", "postgres"]);
    assert!(told.contains("DATABASE_URL"), "{told}");
}

#[test]
fn completions_and_manual_pages_are_written() {
    let installation = Installation::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(installation.works(&["completions", shell]).contains("COMPLETE"), "{shell}");
    }
    installation.works(&["man", installation.work().join("man").to_str().unwrap()]);
    let page = std::fs::read_to_string(installation.work().join("man/plexus-run.1")).unwrap();
    assert!(page.contains("Exit codes") && page.contains("130"), "{page}");
}

#[test]
fn the_tour_ends_by_itself_and_leaves_nothing() {
    let installation = Installation::new();
    let output =
        installation.command(&["demo"]).env("TMPDIR", installation.work()).output().unwrap();
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}\n{}", text(&output.stderr));
    for words in [
        "allowed by rule",
        "4 still are",
        "test the parser first",
        "denied by operator",
        "4 decisions",
    ] {
        assert!(shown.contains(words), "{words:?} is not in:\n{shown}");
    }
    eventually("an empty folder", || {
        std::fs::read_dir(installation.work()).unwrap().next().is_none().then_some(())
    });
    assert!(
        !installation.work().join("../.claude").exists(),
        "nothing in the home of whoever took the tour"
    );
}
