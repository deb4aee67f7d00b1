//! Who is at work: which agent a session runs, how it asks, whether it has a wall, and whether its
//! worker lets it wait until it is parked.

use serde_json::{Value, json};
use testkit::{messages_api, responses_api};

/// The name under which the simulated agent of the Agent Client Protocol is configured.
pub const SIMULATED_ACP: &str = "sim_acp";

/// The real agent of the Agent Client Protocol: claude-agent-acp.
pub const REAL_ACP: &str = "claude_acp";

/// Who plays the agents of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cast {
    /// The simulator.
    Simulated,
    /// The real CLIs, against stand-ins for their models.
    Real,
}

/// One step of a chat.
#[derive(Debug, Clone)]
pub enum Step {
    /// A shell command, which asks.
    Bash(String),
    /// A line of the simulator's language; real agents skip it.
    Simulated(String),
}

/// The agent of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// An agent of the Agent Client Protocol.
    Acp,
}

impl Agent {
    /// Whether a chat goes on after a line that cannot be read, which may have been a question: of
    /// Codex it does not (docs/agents.md).
    #[must_use]
    pub fn can_be_asked_what_is_open(self) -> bool {
        self != Self::Codex
    }
}

/// The channel on which a session asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// The agent's own lines.
    Control,
    /// A call of our MCP server.
    Mcp,
}

/// What a session is and how its worker treats it.
#[derive(Debug, Clone, Copy)]
pub struct Role {
    /// Who plays it.
    pub cast: Cast,
    /// The agent.
    pub agent: Agent,
    /// How it asks.
    pub channel: Channel,
    /// Whether a wall is around it.
    pub is_confined: bool,
    /// Whether its questions wait until it is parked.
    pub is_kept_waiting: bool,
}

impl Role {
    /// Returns the role of the session with this number. Of each four sessions two are Claude Code,
    /// which has channels and parking of its own, and two of each five have a wall, so that every
    /// mixture comes up.
    #[must_use]
    pub fn of(cast: Cast, index: usize, has_walls: bool) -> Self {
        let agent = match index % 4 {
            2 => Agent::Codex,
            3 => Agent::Acp,
            _ => Agent::Claude,
        };
        // Claude Code in turn: answered at once, kept waiting, over MCP.
        let turn = (index / 4 * 2 + index % 4) % 3;
        let is_claude = agent == Agent::Claude;
        Self {
            cast,
            agent,
            channel: if is_claude && turn == 2 { Channel::Mcp } else { Channel::Control },
            is_confined: has_walls && [1, 3].contains(&(index % 5)),
            is_kept_waiting: is_claude && turn == 1,
        }
    }

    /// Returns the parameters of its session that depend on the role.
    #[must_use]
    pub fn session_params(self) -> Value {
        let mut params = match (self.agent, self.channel) {
            (Agent::Claude, Channel::Control) => json!({"channel": "control"}),
            (Agent::Claude, Channel::Mcp) => json!({"channel": "mcp"}),
            (Agent::Codex, _) => json!({"agent": "codex", "supervise": "all"}),
            (Agent::Acp, _) => json!({"agent": self.acp_agent()}),
        };
        params["confine"] = json!(if self.is_confined { "workspace" } else { "none" });
        params
    }

    fn acp_agent(self) -> &'static str {
        match self.cast {
            Cast::Simulated => SIMULATED_ACP,
            Cast::Real => REAL_ACP,
        }
    }

    /// Returns the prompt that has the agent play these steps.
    #[must_use]
    pub fn prompt(self, steps: &[Step]) -> String {
        let commands = || {
            steps.iter().filter_map(|step| match step {
                Step::Bash(command) => Some(command.as_str()),
                Step::Simulated(_) => None,
            })
        };
        match (self.cast, self.agent) {
            (Cast::Simulated, _) => {
                let line = |step: &Step| match step {
                    Step::Bash(command) => format!("tool Bash {}", json!({"command": command})),
                    Step::Simulated(line) => line.clone(),
                };
                let lines: Vec<String> = steps.iter().map(line).collect();
                format!("sim:\n{}", lines.join("\n"))
            }
            (Cast::Real, Agent::Codex) => {
                let mut script: Vec<_> = commands().map(responses_api::Step::shell).collect();
                script.push(responses_api::Step::text("Done."));
                responses_api::prompt(&script)
            }
            (Cast::Real, Agent::Claude | Agent::Acp) => {
                let mut script: Vec<_> = commands().map(messages_api::Step::bash).collect();
                script.push(messages_api::Step::text("Done."));
                messages_api::prompt(&script)
            }
        }
    }

    /// Returns the lines of the report that its figures are part of.
    #[must_use]
    pub fn groups(self) -> Vec<&'static str> {
        let agent = match (self.agent, self.channel) {
            _ if self.cast == Cast::Real => match self.agent {
                Agent::Claude => "real Claude Code",
                Agent::Codex => "real Codex",
                Agent::Acp => "real claude-agent-acp",
            },
            (Agent::Claude, Channel::Mcp) => "Claude Code, MCP",
            (Agent::Claude, Channel::Control) if self.is_kept_waiting => "Claude Code, parked",
            (Agent::Claude, Channel::Control) => "Claude Code",
            (Agent::Codex, _) => "Codex",
            (Agent::Acp, _) => "ACP",
        };
        vec![agent, if self.is_confined { "with a wall" } else { "without a wall" }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_sessions_have_every_agent_with_and_without_a_wall() {
        let roles: Vec<Role> =
            (0..10).map(|index| Role::of(Cast::Simulated, index, true)).collect();
        for agent in [Agent::Claude, Agent::Codex, Agent::Acp] {
            for is_confined in [true, false] {
                let fits = |role: &Role| role.agent == agent && role.is_confined == is_confined;
                assert!(roles.iter().any(fits), "{agent:?} {is_confined}");
            }
        }
        assert!(roles.iter().any(|role| role.channel == Channel::Mcp));
        assert!(roles.iter().any(|role| role.is_kept_waiting));
        assert!(!Role::of(Cast::Simulated, 1, false).is_confined);
    }
}
