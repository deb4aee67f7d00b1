//! The script language, step by step.

use serde_json::{Value, json};

use crate::driver::{Sandbox, tool_results};

fn said(lines: &[Value]) -> Vec<&str> {
    let blocks = lines
        .iter()
        .filter(|line| line["type"] == "assistant")
        .map(|line| &line["message"]["content"][0]);
    blocks.filter_map(|block| block["text"].as_str()).collect()
}

#[test]
fn blocks_up_to_a_tool_call_are_one_message() {
    let run = Sandbox::new()
        .run(&[], "sim:\nthink t\nsay a\ntool Bash {\"command\":\"ls\"}\nsay b\nsay c");
    let ids: Vec<&Value> = run
        .lines
        .iter()
        .filter(|line| line["type"] == "assistant")
        .map(|line| &line["message"]["id"])
        .collect();
    assert_eq!(ids.len(), 5);
    assert!(ids[0] == ids[1] && ids[1] == ids[2] && ids[2] != ids[3] && ids[3] == ids[4]);
    assert_eq!(run.result()["num_turns"], 2);
    assert_eq!(run.result()["result"], "c");
}

#[test]
fn a_script_that_ends_with_a_tool_is_closed_by_done() {
    let run = Sandbox::new().run(&[], "sim:\ntool Bash {\"command\":\"ls\"}");
    assert_eq!(run.result()["result"], "done");
}

#[test]
fn tools_really_run_in_the_working_directory() {
    let sandbox = Sandbox::new();
    let script = r#"sim:
tool Write {"file_path":"a.txt","content":"one two"}
tool Edit {"file_path":"a.txt","old_string":"two","new_string":"three"}
tool Read {"file_path":"a.txt"}
tool Bash {"command":"cat a.txt; echo oops >&2; exit 3"}
tool Edit {"file_path":"a.txt","old_string":"nowhere","new_string":"x"}
tool Read {"file_path":"b.txt"}
tool Frobnicate {}
say done"#;
    let run = sandbox.run(&["--allowedTools", "Write,Edit,Bash,Frobnicate"], script);
    let results = tool_results(&run.lines);
    let text = |n: usize| results[n]["message"]["content"][0]["content"].as_str().unwrap();
    let failed = |n: usize| results[n]["message"]["content"][0]["is_error"] == true;
    assert_eq!(text(2), "1\tone three");
    assert_eq!(text(3), "Exit code 3\none three\noops");
    assert!(text(4).contains("String to replace not found"));
    assert!(text(5).starts_with("File does not exist."));
    assert!(text(6).contains("does not play the tool Frobnicate"));
    assert_eq!([0, 1, 2, 3, 4, 5, 6].map(failed), [false, false, false, true, true, true, true]);
    assert_eq!(std::fs::read_to_string(sandbox.work().join("a.txt")).unwrap(), "one three");
}

#[test]
fn a_burst_is_numbered_complete_and_as_long_as_asked() {
    let run = Sandbox::new().run(&[], "sim:\nburst 10000 40");
    let texts = said(&run.lines);
    assert_eq!(texts.len(), 10_000);
    for (n, text) in texts.iter().enumerate() {
        assert_eq!(text.split(' ').next(), Some(n.to_string().as_str()));
        assert_eq!(text.len(), 40);
    }
}

#[test]
fn odd_lines_are_written_where_the_script_says() {
    let run = Sandbox::new().run(&[], "sim:\nsay a\ngarbage\nunknown\nstderr out of paper\nsay b");
    assert_eq!(said(&run.lines), ["a", "b"]);
    let garbage =
        run.raw.iter().position(|line| serde_json::from_str::<Value>(line).is_err()).unwrap();
    assert!(run.raw[garbage - 1].contains("\"text\":\"a\""));
    assert!(run.lines.iter().any(|line| line["type"] == "from_the_future"));
    assert!(run.stderr.contains("out of paper"));
    assert_eq!(run.code(), Some(0));
}

#[test]
fn exit_and_crash_end_the_process_without_a_result_and_lose_nothing() {
    let run = Sandbox::new().run(&[], "sim:\nsay last words\nexit 7");
    assert_eq!((said(&run.lines), run.code()), (vec!["last words"], Some(7)));
    assert!(!run.lines.iter().any(|line| line["type"] == "result"));
    let run = Sandbox::new().run(&[], "sim:\nsay last words\ncrash");
    assert_eq!(said(&run.lines), ["last words"]);
    assert_eq!(run.code(), None, "it died of a signal");
}

#[test]
fn a_script_that_cannot_be_played_is_an_error_that_names_the_line() {
    for (script, expected) in [
        ("sim:\nsay a\njump", "sim script, line 3: unknown step `jump`"),
        ("sim:\nsay ${last.id}", "${last.id} names nothing"),
    ] {
        let run = Sandbox::new().run(&[], script);
        assert_eq!(run.result()["subtype"], "error_during_execution");
        assert!(
            run.result()["errors"][0].as_str().unwrap().contains(expected),
            "{}",
            run.result()["errors"]
        );
        assert_eq!(run.code(), Some(1));
    }
}

#[test]
fn a_field_of_the_last_result_can_be_used() {
    let script = r#"sim:
tool Bash {"command":"echo '{\"session\":{\"id\":\"s1\"},\"n\":[4]}'"}
say got ${last.session.id}
tool Write {"file_path":"${last.session.id}.txt","content":"${last.n.0}!"}"#;
    let sandbox = Sandbox::new();
    let run = sandbox.run(&["--allowedTools", "Bash,Write"], script);
    assert_eq!(said(&run.lines)[0], "got s1");
    assert_eq!(std::fs::read_to_string(sandbox.work().join("s1.txt")).unwrap(), "4!");
}

#[test]
fn a_refused_tool_is_listed_and_the_script_goes_on() {
    let run = Sandbox::new()
        .run(&[], "sim:\ntool Write {\"file_path\":\"a\",\"content\":\"b\"}\nsay on we go");
    assert_eq!(
        run.result()["permission_denials"][0]["tool_input"],
        json!({"file_path": "a", "content": "b"})
    );
    assert_eq!(run.result()["result"], "on we go");
}

#[test]
fn a_tool_that_is_not_allowed_does_not_exist() {
    let run = Sandbox::new()
        .run(&["--disallowedTools", "Bash"], "sim:\ntool Bash {\"command\":\"ls\"}\nsay x");
    let init = run.lines.iter().find(|line| line["subtype"] == "init").unwrap();
    assert!(!init["tools"].as_array().unwrap().contains(&json!("Bash")));
    let text = &tool_results(&run.lines)[0]["message"]["content"][0]["content"];
    assert!(text.as_str().unwrap().contains("No such tool available: Bash"));
}
