//! The powers that each agent claims must match the tables of `docs/agents.md`. Tests with the real
//! agents try each power; the documents name those tests.
#![expect(clippy::unwrap_used, reason = "tests")]

use plexus_agents::acp::{Homes, Profile};
use plexus_agents::{Acp, ClaudeCode, Codex, CodexOptions};
use plexus_engine::driver::Driver;
use serde_json::{Value, json};

/// Returns the powers of an agent as callers see them.
fn powers(agent: &str) -> Value {
    let acp = |profile: Profile| Acp::new(profile, Homes::default()).powers();
    let powers = match agent {
        "claude_code" => ClaudeCode.powers(),
        "codex" => Codex::new(CodexOptions::default()).powers(),
        "cone" => acp(Profile::cone()),
        name => {
            let mut known = Profile::known().into_iter();
            acp(known.find(|(known, _)| *known == name).unwrap().1)
        }
    };
    serde_json::to_value(powers).unwrap()
}

#[test]
fn each_agent_claims_the_powers_of_the_table() {
    let table = json!({
        "power": ["claude_code", "codex", "opencode", "gemini", "goose", "claude_acp", "cone"],
        "edit_input": [true, false, false, false, false, false, false],
        "deny_reason":
            ["in_answer", "as_next_message", "none", "none", "none", "in_answer", "none"],
        "steer": [true, true, false, false, false, false, false],
        "resume": [true, true, true, true, true, true, true],
        "fork": ["anywhere", "anywhere", "head", "none", "none", "head", "none"],
        "warm": [true, true, true, true, true, true, true],
        "cost": ["usd", "tokens", "usd", "tokens", "none", "usd", "tokens"],
        "says_who_accepted": [true, false, false, false, false, false, false],
        "asks_for": [
            "everything", "everything", "everything", "everything", "everything", "changes",
            "everything"
        ],
        "images": [true, true, true, true, true, true, false],
        "mcp_servers": [true, true, true, false, true, true, false],
    });
    let agents = table["power"].as_array().unwrap();
    for (column, agent) in agents.iter().enumerate() {
        let powers = powers(agent.as_str().unwrap());
        for (power, row) in table.as_object().unwrap() {
            if power != "power" {
                assert_eq!(powers[power], row[column], "{power} of {agent}");
            }
        }
        // A power that is missing in the table was never reviewed.
        let known = table.as_object().unwrap().len() - 1;
        let parking = usize::from(powers.get("park").is_some());
        assert_eq!(powers.as_object().unwrap().len(), known + parking, "{agent}: {powers}");
    }
}
