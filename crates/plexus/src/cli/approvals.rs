//! What waits and what answers it: `pending`, `approve`, `deny`, `rules`.

use anyhow::{Context as _, Result, bail};
use plexus_client::{Approval, Client, Remember, Respond, RuleScope};
use plexus_core::ApprovalId;
use serde_json::{Value, json};

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
    let age = duration(now - approval.created_at * 1_000);
    let left = match approval.expires_at {
        Some(at) => format!("denied by itself in {}", duration(at * 1_000 - now)),
        None => "no deadline".to_owned(),
    };
    let tool = screen.paint(Tone::Warn, &sanitize::one_line(&approval.tool_name));
    screen::line(&format!(
        "{} wants {tool}  {}",
        sanitize::one_line(&approval.session_name),
        screen.paint(Tone::Faint, &format!("for {age}, {left}"))
    ))?;
    if let Some(dir) = approval.working_dir.as_deref().filter(|_| approval.tool_name == "Bash") {
        let dir = format!("in {}", sanitize::one_line(dir));
        screen::line(&format!("  {}", screen.paint(Tone::Faint, &dir)))?;
    }
    for line in render::call(&approval.tool_name, &approval.input, Extent::of_stdout(), screen) {
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
    let mut answer = Respond { message: arguments.message.clone(), ..Respond::allow(&approval) };
    if let Some(input) = &arguments.input {
        let input: Value =
            serde_json::from_str(input).context("could not read --input: it is not JSON")?;
        if !input.is_object() {
            bail!("could not take --input: it is not a JSON object");
        }
        answer.updated_input = Some(input);
    }
    if let Some(pattern) = &arguments.remember {
        let pattern = (!pattern.is_empty()).then(|| pattern.clone());
        let scope = if arguments.everywhere {
            RuleScope::All
        } else {
            RuleScope::Session(approval.session_id)
        };
        answer.remember = Some(Remember { pattern, scope });
    }
    let told: Value = client.call("loopback.respond", &answer).await.map_err(failed)?;
    report(&told, &approval, "allowed", arguments.json)
}

/// `plexus deny`.
pub(super) async fn deny(global: &Global, arguments: &Deny) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    let approval = find(&client, arguments.id).await?;
    let reason = arguments.reason.clone().unwrap_or_else(|| "the operator said no".to_owned());
    let told: Value = client
        .call("loopback.respond", Respond::deny(approval.id, reason))
        .await
        .map_err(failed)?;
    report(&told, &approval, "denied", arguments.json)
}

fn report(told: &Value, approval: &Approval, word: &str, json: bool) -> Result<u8> {
    if json {
        screen::line(&told.to_string())?;
        return Ok(exit::OK);
    }
    let screen = Screen::stdout();
    screen::line(&format!(
        "{word}: {}",
        render::summary(&approval.tool_name, &approval.input, screen)
    ))?;
    let released = told["released"].as_array().map_or(0, Vec::len);
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
            client
                .call::<Value>("loopback.rule_remove", json!({"rule_id": id}))
                .await
                .map_err(failed)?;
            screen::line("removed")?;
            Ok(exit::OK)
        }
        Some(RulesCommand::Test { tool, input, session }) => {
            let input: Value =
                serde_json::from_str(&input).context("could not read the input: it is not JSON")?;
            let mut params = json!({"tool_name": tool, "input": input});
            if let Some(which) = session {
                params["session_id"] =
                    json!(find_session(&client, &which).await.map_err(failed)?.id);
            }
            let told: Value = client.call("loopback.rule_test", params).await.map_err(failed)?;
            let words = [told["decision"].as_str(), told["why"].as_str()]
                .map(|text| sanitize::one_line(text.unwrap_or_default()).into_owned());
            screen::line(&if arguments.json { told.to_string() } else { words.join(": ") })?;
            Ok(exit::OK)
        }
    }
}

async fn list_rules(client: &Client, json: bool) -> Result<u8> {
    let mut rules: Vec<Value> = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let mut params = json!({"limit": 1_000});
        if !cursor.is_null() {
            params["cursor"] = cursor;
        }
        let mut page: Value = client.call("loopback.rules", params).await.map_err(failed)?;
        rules.extend(page["rules"].as_array_mut().map(std::mem::take).unwrap_or_default());
        cursor = page["cursor"].take();
        if cursor.is_null() {
            break;
        }
    }
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

fn rule_line(rule: &Value, screen: Screen) -> String {
    let text =
        |field: &str| sanitize::one_line(rule[field].as_str().unwrap_or_default()).into_owned();
    let tone = match rule["decision"].as_str() {
        Some("allow") => Tone::Good,
        Some("deny") => Tone::Bad,
        _ => Tone::Warn,
    };
    let scope = match &rule["scope"] {
        Value::Object(scope) => scope
            .iter()
            .map(|(kind, id)| format!("{kind} {}", id.as_str().unwrap_or_default()))
            .collect(),
        other => other.as_str().unwrap_or("all").to_owned(),
    };
    let used = rule["used"].as_u64().map(|used| format!(", used {used} times")).unwrap_or_default();
    let facts = screen.paint(Tone::Faint, &format!("{scope}{used}  {}", text("id")));
    format!(
        "{} {}  {facts}",
        screen.paint(tone, &format!("{:<5}", text("decision"))),
        text("pattern")
    )
}

async fn add_rule(client: &Client, add: RuleAdd) -> Result<u8> {
    let mut params = json!({"decision": add.decision, "pattern": add.pattern, "scope": scope_of(client, &add.scope).await?});
    let optional = [
        ("reason", json!(add.reason)),
        ("uses", json!(add.uses)),
        ("expires_in_secs", json!(add.expires_in_secs)),
    ];
    for (name, value) in optional.into_iter().filter(|(_, value)| !value.is_null()) {
        params[name] = value;
    }
    let told: Value = client.call("loopback.rule_add", params).await.map_err(failed)?;
    screen::line(&format!("added {}", told["rule_id"].as_str().unwrap_or_default()))?;
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
