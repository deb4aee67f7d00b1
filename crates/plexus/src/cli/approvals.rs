//! What waits and what answers it: `pending`, `approve`, `deny`, `rules`.

use anyhow::{Context as _, Result};
use plexus_client::Client;
use plexus_client::wire::{
    Approval, ApprovalId, Remember, RespondParams, Responded, Rule, RuleAddParams, RuleDecision,
    RuleRemoveParams, RuleScope, RuleTestParams, Said,
};

use super::args::{Approve, Deny, Global, RuleAdd, Rules, RulesCommand, ScopeArgs};
use super::render::{self, Extent};
use super::run::find_session;
use super::screen::{self, Screen, Tone, duration, now_ms};
use super::server::{self, failed};
use super::{exit, sanitize};

/// `plexus pending`.
pub(super) async fn pending(global: &Global, session: Option<&str>, json: bool) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    let session = match session {
        Some(which) => Some(find_session(&client, which).await.map_err(failed)?.id),
        None => None,
    };
    let approvals = client.pending(session).await.map_err(failed)?;
    if json {
        screen::line(&serde_json::to_string_pretty(&approvals)?)?;
        return Ok(exit::OK);
    }
    if approvals.is_empty() {
        screen::line("nothing waits")?;
    }
    let screen = Screen::stdout();
    for approval in &approvals {
        show(approval, screen)?;
        screen::line(&format!(
            "  {}",
            screen.paint(
                Tone::Faint,
                &format!("plexus approve {0}  ·  plexus deny {0} --reason …", approval.id)
            )
        ))?;
    }
    Ok(exit::OK)
}

fn show(approval: &Approval, screen: Screen) -> Result<()> {
    let now = now_ms();
    let age = duration(now - approval.created_at.0 * 1_000);
    let left = match approval.expires_at {
        Some(at) => format!("denied by itself in {}", duration(at.0 * 1_000 - now)),
        None => "no deadline".to_owned(),
    };
    let tool = screen.paint(Tone::Warn, &sanitize::one_line(&approval.tool_name));
    screen::line(&format!(
        "{} wants {tool}  {}",
        sanitize::one_line(&approval.session_name),
        screen.paint(Tone::Faint, &format!("for {age}, {left}"))
    ))?;
    let facts = [render::risk(approval, screen), render::starts_in(approval, screen)];
    for fact in facts.into_iter().flatten() {
        screen::line(&format!("  {fact}"))?;
    }
    let input = approval.input.to_value();
    for line in render::call(approval, &input, Extent::of_stdout(), screen) {
        screen::line(&format!("  {line}"))?;
    }
    Ok(())
}

async fn find(client: &Client, id: ApprovalId) -> Result<Approval> {
    let pending = client.pending(None).await.map_err(failed)?;
    pending
        .into_iter()
        .find(|approval| approval.id == id)
        .with_context(|| format!("could not find {id} among what waits; `plexus pending` lists it"))
}

/// `plexus approve`: bound to the input that is shown here.
pub(super) async fn approve(global: &Global, arguments: &Approve) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    let approval = find(&client, arguments.id).await?;
    let mut answer =
        RespondParams { message: arguments.message.clone(), ..RespondParams::allow(&approval) };
    if let Some(input) = &arguments.input {
        let input = serde_json::from_str(input);
        answer.updated_input =
            Some(input.context("could not read --input: it is not a JSON object")?);
    }
    if let Some(pattern) = &arguments.remember {
        let pattern = (!pattern.is_empty()).then(|| pattern.clone());
        let scope = if arguments.everywhere {
            RuleScope::All
        } else {
            RuleScope::Session(approval.session_id)
        };
        answer.remember = Some(Remember { pattern, ..Remember::new(scope) });
    }
    let told = client.loopback().respond(&answer).await.map_err(failed)?;
    report(&told, &approval, "allowed", arguments.json)
}

/// `plexus deny`.
pub(super) async fn deny(global: &Global, arguments: &Deny) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    let approval = find(&client, arguments.id).await?;
    let reason = arguments.reason.clone().unwrap_or_else(|| "the operator said no".to_owned());
    let no = RespondParams::deny(approval.id, reason);
    let told = client.loopback().respond(&no).await.map_err(failed)?;
    report(&told, &approval, "denied", arguments.json)
}

fn report(told: &Responded, approval: &Approval, word: &str, json: bool) -> Result<u8> {
    if json {
        screen::line(&serde_json::to_string(told)?)?;
        return Ok(exit::OK);
    }
    let screen = Screen::stdout();
    screen::line(&format!(
        "{word}: {}",
        render::summary(&approval.tool_name, &approval.input.to_value(), screen)
    ))?;
    let released = told.released.len();
    if released > 0 {
        screen::line(&format!("the rule also released {released} more"))?;
    }
    Ok(exit::OK)
}

/// `plexus rules`.
pub(super) async fn rules(global: &Global, arguments: Rules) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    match arguments.command {
        None => list_rules(&client, arguments.json).await,
        Some(RulesCommand::Add(add)) => add_rule(&client, add).await,
        Some(RulesCommand::Remove { id }) => {
            client.loopback().rule_remove(&RuleRemoveParams::new(id)).await.map_err(failed)?;
            screen::line("removed")?;
            Ok(exit::OK)
        }
        Some(RulesCommand::Test { tool, input, session }) => {
            let input = serde_json::from_str(&input)
                .context("could not read the input: it is not a JSON object")?;
            let mut params = RuleTestParams::new(tool, input);
            if let Some(which) = session {
                params.session_id = Some(find_session(&client, &which).await.map_err(failed)?.id);
            }
            let told = client.loopback().rule_test(&params).await.map_err(failed)?;
            let words = format!(
                "{}: {}",
                sanitize::one_line(&told.decision.to_string()),
                sanitize::one_line(&told.why)
            );
            screen::line(&if arguments.json { serde_json::to_string(&told)? } else { words })?;
            Ok(exit::OK)
        }
    }
}

async fn list_rules(client: &Client, json: bool) -> Result<u8> {
    let rules = client.rules().await.map_err(failed)?;
    if json {
        screen::line(&serde_json::to_string_pretty(&rules)?)?;
        return Ok(exit::OK);
    }
    if rules.is_empty() {
        screen::line("no rules; `plexus rules add allow \"Bash(git diff:*)\"` makes one")?;
    }
    let screen = Screen::stdout();
    for rule in &rules {
        screen::line(&rule_line(rule, screen))?;
    }
    Ok(exit::OK)
}

fn rule_line(rule: &Rule, screen: Screen) -> String {
    let tone = match rule.decision {
        Said::Known(RuleDecision::Allow) => Tone::Good,
        Said::Known(RuleDecision::Deny) => Tone::Bad,
        Said::Known(RuleDecision::Ask) | Said::Unknown(_) => Tone::Warn,
    };
    let scope = match &rule.scope {
        Said::Known(RuleScope::Session(id)) => format!("session {id}"),
        Said::Known(RuleScope::Subtree(id)) => format!("subtree {id}"),
        Said::Known(RuleScope::All) => "all".to_owned(),
        Said::Unknown(_) => sanitize::one_line(&rule.scope.to_string()).into_owned(),
    };
    let used = rule.used.map(|used| format!(", used {used} times")).unwrap_or_default();
    let facts = screen.paint(Tone::Faint, &format!("{scope}{used}  {}", rule.id));
    let word =
        screen.paint(tone, &format!("{:<5}", sanitize::one_line(&rule.decision.to_string())));
    format!("{word} {}  {facts}", sanitize::one_line(&rule.pattern))
}

async fn add_rule(client: &Client, add: RuleAdd) -> Result<u8> {
    let params = RuleAddParams {
        scope: Some(scope_of(client, &add.scope).await?),
        reason: add.reason,
        uses: add.uses,
        expires_in_secs: add.expires_in_secs,
        ..RuleAddParams::new(add.decision, add.pattern)
    };
    let told = client.loopback().rule_add(&params).await.map_err(failed)?;
    screen::line(&format!("added {}", told.rule_id))?;
    Ok(exit::OK)
}

async fn scope_of(client: &Client, scope: &ScopeArgs) -> Result<RuleScope> {
    Ok(match (&scope.session, &scope.subtree) {
        (Some(which), _) => {
            RuleScope::Session(find_session(client, which).await.map_err(failed)?.id)
        }
        (None, Some(which)) => {
            RuleScope::Subtree(find_session(client, which).await.map_err(failed)?.id)
        }
        (None, None) => RuleScope::All,
    })
}
