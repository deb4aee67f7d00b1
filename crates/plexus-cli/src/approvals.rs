//! What waits and what answers it: `pending`, `approve`, `deny`, `rules`.

use anyhow::{Context as _, Result, anyhow, bail};
use plexus_client::wire::{
    Approval, DecidedApproval, ErrorKind, LastDecisions, Remember, RespondParams, Responded, Rule,
    RuleAddParams, RuleDecision, RuleRemoveParams, RuleScope, RuleSuggestParams, RuleTestParams,
    Said, SessionId, SessionRef,
};
use plexus_client::{Client, ClientError};

use super::args::{Approve, Deny, Global, RuleAdd, Rules, RulesCommand, ScopeArgs, Which};
use super::find::session as find_session;
use super::server::{self, failed};
use super::{exit, find};
use plexus_render::error::complain;
use plexus_render::screen::{self, Screen, Tone, cut, duration, now_ms};
use plexus_render::tool_call::{self, Extent};
use plexus_render::{question, sanitize};

/// Characters of a session's name in a table.
const MAX_NAME: usize = 30;

/// `plexus pending`: a table of what waits, or one approval in full.
pub(super) async fn pending(global: &Global, which: Option<&str>, json: bool) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    let all = client.pending(None).await.map_err(failed)?;
    let asked = match which {
        None => Asked::All,
        Some(which) => asked_for(&client, &all, which).await?,
    };
    let (approvals, whole) = match asked {
        Asked::All => (all.clone(), false),
        Asked::Of(id) => (all.iter().filter(|it| it.session_id == id).cloned().collect(), false),
        Asked::One(approval) => (vec![*approval], true),
    };
    if json {
        screen::line(&serde_json::to_string_pretty(&approvals)?)?;
        return Ok(exit::OK);
    }
    let screen = Screen::stdout();
    if approvals.is_empty() {
        screen::line("nothing waits")?;
    } else if whole {
        approvals.iter().try_for_each(|approval| show(approval, screen))?;
    } else {
        table(&approvals, &all, screen)?;
        let hint = "`plexus pending ID` shows one in full; `plexus approve ID`, `plexus deny ID` \
                    and `plexus review` answer";
        screen::line(&screen.paint(Tone::Faint, hint))?;
    }
    Ok(exit::OK)
}

/// What `plexus pending` is asked for.
enum Asked {
    All,
    Of(SessionId),
    One(Box<Approval>),
}

/// Finds what a word names: the session of that very name, then an approval, then a session by the
/// beginning of its id. A session and its first approval begin alike when they are made within a
/// minute, and this command is about approvals.
async fn asked_for(client: &Client, all: &[Approval], which: &str) -> Result<Asked> {
    let fits = find::fitting(all, which);
    if let [one] = fits.as_slice() {
        return match client.session(&SessionRef::named(which)).await {
            Ok(session) => Ok(Asked::Of(session.id)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(Asked::One(Box::new((*one).clone())))
            }
            Err(error) => Err(failed(error)),
        };
    }
    match find_session(client, which).await {
        Ok(session) => Ok(Asked::Of(session.id)),
        // Says which approvals begin like this, or how the one that it names was decided.
        Err(error) if error.kind() == ErrorKind::NotFound || !fits.is_empty() => {
            let approval = find::approval(client, all, which, find::Purpose::Show).await?;
            Ok(Asked::One(Box::new(approval)))
        }
        Err(error) => Err(failed(error)),
    }
}

/// One line for each, with the beginning of its id that no other of `all` has.
fn table(approvals: &[Approval], all: &[Approval], screen: Screen) -> Result<()> {
    let now = now_ms();
    let ids_of = |them: &[Approval]| them.iter().map(|it| it.id.to_string()).collect::<Vec<_>>();
    let ids = find::short_ids(&ids_of(approvals), &ids_of(all));
    let names: Vec<String> = approvals
        .iter()
        .map(|approval| cut(&sanitize::one_line(&approval.session_name), MAX_NAME))
        .collect();
    let widest = |texts: &[String]| texts.iter().map(|it| it.chars().count()).max().unwrap_or(0);
    let (id_width, name_width) = (widest(&ids), widest(&names));
    for ((approval, id), name) in approvals.iter().zip(&ids).zip(&names) {
        let age = duration(now - approval.created_at.0 * 1_000);
        let left = match approval.expires_at {
            Some(at) => format!("{} left", duration(at.0 * 1_000 - now)),
            None => "no deadline".to_owned(),
        };
        let times = format!("{age:>11}  {left:<16}");
        let what = tool_call::about(approval, screen);
        screen::line(&format!(
            "{id:<id_width$}  {name:<name_width$}  {}  {what}",
            screen.paint(Tone::Faint, &times)
        ))?;
    }
    Ok(())
}

fn show(approval: &Approval, screen: Screen) -> Result<()> {
    let now = now_ms();
    let age = duration(now - approval.created_at.0 * 1_000);
    let left = match approval.expires_at {
        Some(at) => format!("denied automatically in {}", duration(at.0 * 1_000 - now)),
        None => "no deadline".to_owned(),
    };
    let tool = screen.paint(Tone::Warn, &sanitize::one_line(&approval.tool_name));
    screen::line(&format!(
        "{} wants {tool}  {}",
        sanitize::one_line(&approval.session_name),
        screen.paint(Tone::Faint, &format!("for {age}, {left}  {}", approval.id))
    ))?;
    let said = approval.description.as_deref().filter(|said| !said.is_empty());
    let said = said.map(|said| screen.paint(Tone::Faint, &sanitize::one_line(said)));
    let facts = [
        said,
        tool_call::person_only(approval, screen),
        tool_call::risk(approval, screen),
        tool_call::starts_in(approval, screen),
    ];
    for fact in facts.into_iter().flatten() {
        screen::line(&format!("  {fact}"))?;
    }
    let input = approval.input.to_value();
    for line in tool_call::call(approval, &input, Extent::Whole, screen) {
        screen::line(&format!("  {line}"))?;
    }
    Ok(())
}

/// Finds the approvals that a command is about: those that it names, or everything that waits.
async fn chosen(client: &Client, which: &Which, json: bool) -> Result<Vec<Approval>> {
    let session = match &which.session {
        Some(which) => Some(find_session(client, which).await.map_err(failed)?.id),
        None => None,
    };
    let all = client.pending(None).await.map_err(failed)?;
    if which.all {
        let is_of = |approval: &&Approval| session.is_none_or(|id| approval.session_id == id);
        let pending: Vec<Approval> = all.iter().filter(is_of).cloned().collect();
        // A program that reads JSON is told of each decision; a person sees first what is decided.
        match (json, pending.is_empty()) {
            (true, _) => {}
            (false, true) => screen::line("nothing waits")?,
            (false, false) => table(&pending, &all, Screen::stdout())?,
        }
        return Ok(pending);
    }
    let mut found: Vec<Approval> = Vec::new();
    for id in &which.ids {
        let approval = find::approval(client, &all, id, find::Purpose::Decide).await?;
        if found.iter().all(|other| other.id != approval.id) {
            found.push(approval);
        }
    }
    Ok(found)
}

/// `plexus approve`: bound to the inputs that are shown here.
pub(super) async fn approve(global: &Global, arguments: &Approve) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    let approvals = chosen(&client, &arguments.which, arguments.json).await?;
    let is_alone =
        arguments.input.is_none() && arguments.remember.is_none() && arguments.answer.is_empty();
    if approvals.len() > 1 && !is_alone {
        bail!("could not approve several with --input, --remember or --answer: name one approval");
    }
    let mut answers = Vec::new();
    for approval in &approvals {
        answers.push(allowed(approval, arguments)?);
    }
    decide(&client, &approvals, answers, "allowed", arguments.json).await
}

fn allowed(approval: &Approval, arguments: &Approve) -> Result<RespondParams> {
    let mut answer =
        RespondParams { message: arguments.message.clone(), ..RespondParams::allow(approval) };
    if let Some(input) = &arguments.input {
        let input = serde_json::from_str(input);
        answer.updated_input =
            Some(input.context("could not read --input: it is not a JSON object")?);
    }
    if !arguments.answer.is_empty() {
        let question = approval.question.as_ref().and_then(|question| question.known());
        let question = question
            .context("could not answer: this request is not a question; leave out --answer")?;
        let answers = question::answers(question, &arguments.answer);
        answer.answers = Some(answers.map_err(|words| anyhow!("could not answer: {words}"))?);
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
    Ok(answer)
}

/// `plexus deny`.
pub(super) async fn deny(global: &Global, arguments: &Deny) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    let approvals = chosen(&client, &arguments.which, arguments.json).await?;
    let reason = arguments.reason.clone().unwrap_or_else(|| "the operator said no".to_owned());
    let no = |approval: &Approval| RespondParams::deny(approval.id, reason.clone());
    let answers = approvals.iter().map(no).collect();
    decide(&client, &approvals, answers, "denied", arguments.json).await
}

/// Sends the answers one after the other; an answer that is refused does not stop the others.
async fn decide(
    client: &Client,
    approvals: &[Approval],
    answers: Vec<RespondParams>,
    word: &str,
    json: bool,
) -> Result<u8> {
    let mut failure = None;
    for (approval, answer) in approvals.iter().zip(answers) {
        match client.loopback().respond(&answer).await {
            Ok(told) => report(&told, approval, word, json)?,
            Err(error) => {
                let standing = match &error {
                    ClientError::Call(call) => call.standing.clone(),
                    _ => None,
                };
                let standing: Option<DecidedApproval> =
                    standing.and_then(|standing| serde_json::from_value(standing).ok());
                let is_question = approval.question.is_some() && answer.answers.is_none();
                let error = match standing {
                    Some(decided) => {
                        anyhow!("could not decide {}: {}", approval.id, find::stands(&decided))
                    }
                    None if is_question && answer.approve => failed(error)
                        .context("answer it with --answer, once for each thing that is asked"),
                    None => failed(error),
                };
                if approvals.len() == 1 {
                    return Err(error);
                }
                complain(&format!("plexus: {error:#}"));
                failure = Some(exit::FAILED);
            }
        }
    }
    Ok(failure.unwrap_or(exit::OK))
}

fn report(told: &Responded, approval: &Approval, word: &str, json: bool) -> Result<()> {
    if json {
        return Ok(screen::line(&serde_json::to_string(told)?)?);
    }
    let screen = Screen::stdout();
    screen::line(&format!("{word}: {}", tool_call::about(approval, screen)))?;
    let released = told.released.len();
    if released > 0 {
        screen::line(&format!("the rule also released {released} more"))?;
    }
    Ok(())
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
        Some(RulesCommand::Suggest { last }) => suggest_rules(&client, last, arguments.json).await,
    }
}

/// Shows what could be a rule, with the evidence and the command that makes it one.
async fn suggest_rules(client: &Client, last: Option<LastDecisions>, json: bool) -> Result<u8> {
    let told = client.loopback().rule_suggest(&RuleSuggestParams { last }).await.map_err(failed)?;
    if json {
        screen::line(&serde_json::to_string_pretty(&told)?)?;
        return Ok(exit::OK);
    }
    let of = told.looked_at;
    if told.suggestions.is_empty() {
        screen::line(&match of {
            0 => "you have decided nothing yet, so there is no rule to suggest".to_owned(),
            1 => "your one decision suggests no rule".to_owned(),
            _ => format!("your last {of} decisions suggest no rule"),
        })?;
    }
    for rule in &told.suggestions {
        let pattern = sanitize::one_line(&rule.pattern);
        screen::line(&format!("{pattern}\n  {}", sanitize::one_line(&rule.label)))?;
        let sessions = if rule.sessions == 1 { "session" } else { "sessions" };
        screen::line(&format!(
            "  would have answered {} of your last {of}, none that you denied ({} {sessions})",
            rule.answers, rule.sessions
        ))?;
        screen::line(&format!("  plexus rules add allow {}", shell_word(&pattern)))?;
    }
    Ok(exit::OK)
}

/// Quotes a text as one word of a shell.
fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
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
