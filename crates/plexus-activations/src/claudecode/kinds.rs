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
        // Each program is asked for its version once, all at the same time: some take seconds.
        let agents = self.agents.all().map(|agent| async {
            let identified = agent.identify().await;
            AgentKind {
                agent: agent.name.clone(),
                kind: agent.driver.kind().to_owned(),
                usable: identified.is_ok(),
                about: identified.map_or_else(|why| why.to_string(), |agent| agent.label.clone()),
                powers: agent.driver.powers(),
            }
        });
        Ok(AgentKinds { agents: futures::future::join_all(agents).await })
    }
}
