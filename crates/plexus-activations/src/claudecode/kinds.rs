//! `kinds`: which agents there are, and what each can do.

use plexus_core::{Call, CallError};
use plexus_wire::{AgentKind, AgentKinds, NoParams};

use super::ClaudeCode;

impl ClaudeCode {
    pub(super) async fn kinds(
        &self,
        _call: Call,
        _params: NoParams,
    ) -> Result<AgentKinds, CallError> {
        let mut agents = Vec::new();
        for agent in self.agents.all() {
            let identified = agent.identify().await;
            agents.push(AgentKind {
                agent: agent.name.clone(),
                kind: agent.driver.kind().to_owned(),
                usable: identified.is_ok(),
                about: identified.map_or_else(|why| why.to_string(), |agent| agent.label.clone()),
                powers: agent.driver.powers(),
            });
        }
        Ok(AgentKinds { agents })
    }
}
