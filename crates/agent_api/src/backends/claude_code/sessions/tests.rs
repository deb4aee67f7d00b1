//! Tests the lookup with folders in the layout of the CLI (seen with 2.1.325).

use std::time::Duration;

use super::*;

const FIRST: &str = "11111111-1111-4111-8111-111111111111";
const SECOND: &str = "22222222-2222-4222-8222-222222222222";

struct Projects {
    config_dir: tempfile::TempDir,
}

impl Projects {
    fn new() -> Self {
        Self { config_dir: tempfile::tempdir().unwrap() }
    }

    /// Writes a transcript that was used `age` seconds ago.
    fn transcript(&self, folder: &str, id: &str, cwd: &str, age: u64) {
        let folder = self.config_dir.path().join("projects").join(folder);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{id}.jsonl"));
        let lines = [
            serde_json::json!({"type": "queue-operation", "content": "hi", "sessionId": id}),
            serde_json::json!({"type": "user", "cwd": cwd, "sessionId": id}),
        ];
        fs::write(&path, lines.map(|line| line.to_string()).join("\n")).unwrap();
        let used = SystemTime::now() - Duration::from_secs(age);
        File::options().write(true).open(&path).unwrap().set_modified(used).unwrap();
    }

    fn last(&self, working_dir: &str) -> Option<String> {
        ClaudeCodeTranscripts.last(self.config_dir.path(), Path::new(working_dir)).unwrap()
    }
}

#[test]
fn nothing_is_found_where_nothing_is() {
    let projects = Projects::new();
    assert_eq!(projects.last("/srv/a"), None);
    projects.transcript("-srv-b", FIRST, "/srv/b", 1);
    assert_eq!(projects.last("/srv/a"), None);
}

#[test]
fn the_session_used_last_is_found() {
    let projects = Projects::new();
    projects.transcript("-srv-a", FIRST, "/srv/a", 10);
    projects.transcript("-srv-a", SECOND, "/srv/a", 20);
    assert_eq!(projects.last("/srv/a").as_deref(), Some(FIRST));
}

#[test]
fn a_session_of_another_directory_in_the_same_folder_is_not_taken() {
    let projects = Projects::new();
    projects.transcript("-srv-a-b", FIRST, "/srv/a-b", 10);
    projects.transcript("-srv-a-b", SECOND, "/srv/a/b", 20);
    assert_eq!(projects.last("/srv/a/b").as_deref(), Some(SECOND));
    assert_eq!(projects.last("/srv/a-b").as_deref(), Some(FIRST));
    assert_eq!(projects.last("/srv/a.b"), None);
}

#[test]
fn a_file_that_is_not_a_transcript_is_skipped() {
    let projects = Projects::new();
    projects.transcript("-srv-a", "agent-0123", "/srv/a", 1);
    fs::create_dir_all(projects.config_dir.path().join("projects/-srv-a/memory")).unwrap();
    fs::write(
        projects.config_dir.path().join(format!("projects/-srv-a/{SECOND}.jsonl")),
        "not json\n",
    )
    .unwrap();
    assert_eq!(projects.last("/srv/a"), None);
}

#[test]
fn the_folder_of_a_long_path_is_found_by_its_beginning() {
    let projects = Projects::new();
    let long = format!("/srv/{}", "d".repeat(250));
    let folder = format!("{}-k3v9aa", &folder_name(Path::new(&long))[..MAX_FOLDER_NAME]);
    projects.transcript(&folder, FIRST, &long, 10);
    assert_eq!(projects.last(&long).as_deref(), Some(FIRST));
    assert_eq!(projects.last(&format!("{long}e")), None);
}

#[test]
fn folder_names_are_those_of_the_cli() {
    assert_eq!(folder_name(Path::new("/srv/agent_api/cli.x/é y")), "-srv-agent-api-cli-x---y");
    // A character outside the basic plane is two units in JavaScript.
    assert_eq!(folder_name(Path::new("/🦀")), "---");
}

#[test]
fn only_a_uuid_is_a_session_id() {
    assert!(is_session_id(FIRST));
    assert!(is_session_id("0B9F3C4D-aaaa-4bbb-8ccc-0123456789ab"));
    for wrong in [
        "",
        "my session",
        "11111111-1111-4111-8111-11111111111",
        "11111111-1111-4111-8111-11111111111g",
    ] {
        assert!(!is_session_id(wrong), "{wrong}");
    }
    assert!(!is_session_id("111111111111141118111111111111111111"));
}
