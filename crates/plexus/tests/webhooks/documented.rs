//! The ways to verify a message that docs/webhooks.md shows: both are run here, against a message
//! of a real server.

use std::process::Command;

use serde_json::json;

use crate::receiver::{Act, Receiver};
use crate::server_with_receivers::{SECRET, ServerWithReceivers};

/// The code block of a language in the document.
fn block(language: &str, containing: &str) -> String {
    let path = testkit::fixtures::workspace_root().join("docs/webhooks.md");
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```").skip(1).step_by(2);
    // A mark may follow the language: `sh run`.
    let mut of_language = blocks
        .filter_map(|block| block.split_once('\n'))
        .filter(|(info, _)| info.split(' ').next() == Some(language))
        .map(|(_, code)| code);
    of_language
        .find(|block| block.contains(containing))
        .unwrap_or_else(|| panic!("no {language}"))
        .to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_ways_to_verify_accept_a_message_and_refuse_a_changed_one() {
    let receiver = Receiver::new(|_| Act::Take).await;
    let setup = ServerWithReceivers::new(&[("phone", receiver.port, "")]).await;
    let session = setup.create("s", json!({})).await;
    setup.chat_to_end(&session).await;
    let letter = receiver.wait_for_type("session.ended").await;
    let folder = tempfile::tempdir().unwrap();
    let shell = format!("{}\nverify \"$1\" \"$2\" \"$3\"\n", block("sh", "verify()"));
    let python = format!(
        "{}\nimport sys\nsecret, header, path = sys.argv[1:]\nsys.exit(0 if verify(secret.encode(), header, open(path, 'rb').read()) else 1)\n",
        block("python", "def verify")
    );
    let changed = letter.text.replacen("complete", "failed", 1);
    assert_ne!(changed, letter.text);
    for (text, secret, genuine) in [
        (&letter.text, SECRET, true),
        (&changed, SECRET, false),
        (&letter.text, "another secret", false),
    ] {
        let body = folder.path().join("body");
        std::fs::write(&body, text).unwrap();
        for (program, script) in [("sh", &shell), ("python3", &python)] {
            let file = folder.path().join(program);
            std::fs::write(&file, script).unwrap();
            // Without the program the example cannot be run here; the signature itself has another
            // test.
            let needed = if program == "sh" { "openssl" } else { program };
            if Command::new(needed).arg("--help").output().is_err() {
                eprintln!("{needed} is not here, so its example is not run");
                continue;
            }
            let output = Command::new(program)
                .arg(&file)
                .args([secret, &letter.signature])
                .arg(&body)
                .output()
                .unwrap();
            assert_eq!(
                output.status.success(),
                genuine,
                "{program}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}
