//! What a person reads on a phone: the events of a burst as one message, which holds no more of an
//! input than its receiver's `detail` lets out.
//!
//! A webhook is told everything, because a program reads it. Every other receiver gets a
//! [`Message`]: a title, a text, and for each request that waits an [`Item`] with what its buttons
//! need.

use plexus_core::{ApprovalId, SecretToken};
use plexus_store::UnixMillis;
use plexus_wire::{AskedApproval, HookBody, HookEvent, HookMessage, Json, RiskLevel};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::cli::screen::{cut, duration};
use crate::cli::{render, sanitize};

/// How much of what an agent says a message may hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// Nothing of the input: who asks, which tool, the risk, and how long it waits.
    #[default]
    None,
    /// One line of it: the command, the path, the address.
    Summary,
    /// All of it, as far as the service takes it.
    Full,
}

/// The longest line of a summary, in characters.
const SUMMARY_CHARS: usize = 200;

/// The longest name of a session or a tool in a message, in characters.
const NAME_CHARS: usize = 80;

/// Reasons of a risk that are told.
const MAX_REASONS: usize = 3;

/// What the service takes and where links lead.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) detail: Detail,
    /// The longest text that the service takes, in bytes.
    pub(super) room: usize,
    /// Where the dashboard is reached from outside.
    pub(super) public_url: Option<&'a str>,
}

/// One message, about one event or several.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) title: String,
    pub(super) body: String,
    /// Where a person reads more.
    pub(super) url: Option<String>,
    /// A later message with the same tag replaces this one, where the service can do that.
    pub(super) tag: String,
    /// The gravest risk in it.
    pub(super) level: Option<RiskLevel>,
    /// When it is out of date: none of its requests waits then.
    pub(super) ends_at: Option<UnixMillis>,
    pub(super) items: Vec<Item>,
}

/// One event of a message.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) title: String,
    pub(super) text: String,
    pub(super) approval: Option<ApprovalId>,
    /// What the buttons need, where somebody may decide who has seen what `detail` lets out, whole.
    pub(super) press: Option<Press>,
    level: Option<RiskLevel>,
    ends_at: Option<UnixMillis>,
    /// The event itself, without what `detail` keeps back.
    pub(super) event: Value,
}

/// What an allow or a deny needs.
#[derive(Clone, Debug)]
pub(super) struct Press {
    pub(super) token: SecretToken,
    /// Where it is posted.
    pub(super) url: String,
}

impl Message {
    /// Writes the message about these events.
    pub(super) fn about(events: Vec<HookMessage>, frame: Frame<'_>) -> Option<Self> {
        let id = events.first()?.id;
        let room = frame.room / events.len().max(1);
        let items: Vec<Item> =
            events.into_iter().map(|event| Item::of(event, Frame { room, ..frame })).collect();
        let level = items.iter().filter_map(|item| item.level).max();
        let ends_at = items
            .iter()
            .map(|item| item.ends_at)
            .collect::<Option<Vec<_>>>()
            .and_then(|ends| ends.into_iter().max());
        let link = |path: &str| {
            frame.public_url.map(|url| format!("{}/#/{path}", url.trim_end_matches('/')))
        };
        Some(match items.as_slice() {
            [only] => {
                let (title, body) = (only.title.clone(), only.text.clone());
                let tag = only.approval.map_or_else(|| id.to_string(), |id| id.to_string());
                let path = only.approval.map_or("queue".into(), |id| format!("queue/{id}"));
                let url = link(&path);
                Self { title, body, url, tag, level, ends_at, items }
            }
            several => {
                let waiting = several.iter().filter(|item| item.approval.is_some()).count();
                let title = match waiting {
                    0 => format!("Plexus: {} messages", several.len()),
                    1 => format!("1 request waits, and {} other messages", several.len() - 1),
                    n if n == several.len() => format!("{n} requests wait"),
                    n => format!("{n} requests wait, and {} other messages", several.len() - n),
                };
                let lines: Vec<String> = several
                    .iter()
                    .enumerate()
                    .map(|(at, item)| {
                        let text = item.text.replace('\n', "\n   ");
                        format!("{}. {}\n   {text}", at + 1, item.title)
                    })
                    .collect();
                let (body, url) = (lines.join("\n"), link("queue"));
                Self { title, body, url, tag: id.to_string(), level, ends_at, items }
            }
        })
    }

    /// The message of `plexus notify test`.
    pub(super) fn test(receiver: &str, public_url: Option<&str>) -> Self {
        let id = Uuid::now_v7();
        let (title, body) =
            ("Plexus: a test".to_owned(), format!("The receiver {receiver} is set up."));
        let event = serde_json::json!({"id": id, "type": "test"});
        let item = Item {
            title: title.clone(),
            text: body.clone(),
            approval: None,
            press: None,
            level: None,
            ends_at: None,
            event,
        };
        let url = public_url.map(str::to_owned);
        let items = vec![item];
        Self { title, body, url, tag: id.to_string(), level: None, ends_at: None, items }
    }

    /// Title and text as one, for services that have no title.
    pub(super) fn text(&self) -> String {
        if self.body.is_empty() {
            return self.title.clone();
        }
        format!("{}\n{}", self.title, self.body)
    }
}

impl Item {
    fn of(message: HookMessage, frame: Frame<'_>) -> Self {
        let HookMessage { id, event, created_at, body, respond } = message;
        let name = |text: &str| cut(&sanitize::one_line(text), NAME_CHARS);
        let says = |text: &str| -> String {
            match frame.detail {
                Detail::None => String::new(),
                Detail::Summary | Detail::Full => {
                    cut(&sanitize::one_line(text), SUMMARY_CHARS.min(frame.room))
                }
            }
        };
        let mut told = Self {
            title: String::new(),
            text: String::new(),
            approval: None,
            press: None,
            level: None,
            ends_at: None,
            event: Value::Null,
        };
        let body = match body {
            HookBody::Asked { approval } => {
                let (text, is_whole) = asked(&approval, frame);
                let verb = if approval.question.is_some() { "has a question" } else { "asks" };
                told.title = format!(
                    "{} {verb}: {}",
                    name(&approval.session_name),
                    name(&approval.tool_name)
                );
                if event == HookEvent::ApprovalEscalated {
                    told.title = format!("Still waiting: {}", told.title);
                }
                told.text = text;
                told.approval = Some(approval.id);
                told.level = level(&approval);
                told.ends_at = approval.expires_at.map(|at| UnixMillis(at.0.saturating_mul(1_000)));
                // A message that was cut has no buttons, because its reader has not seen everything.
                // A question has none either: it is answered in words.
                let decidable = is_whole && approval.question.is_none();
                told.press = respond.clone().filter(|_| decidable).and_then(|it| {
                    Some(Press { token: SecretToken::new(it.token?), url: it.url? })
                });
                HookBody::Asked { approval: kept_back(approval, frame.detail) }
            }
            HookBody::Resolved { mut approval } => {
                let by = approval.decided_by.as_ref().map(|by| format!(" by {by}"));
                told.title = format!(
                    "{}: {}{}",
                    name(&approval.tool_name),
                    approval.status,
                    by.unwrap_or_default()
                );
                told.text = approval.message.as_deref().map(says).unwrap_or_default();
                if frame.detail == Detail::None {
                    (approval.message, approval.breach) = (None, None);
                }
                HookBody::Resolved { approval }
            }
            HookBody::Ended(mut ended) => {
                told.title =
                    format!("{}: chat {} {}", name(&ended.session.name), ended.chat, word(&ended));
                told.text = ended.error.as_deref().map(says).unwrap_or_default();
                if frame.detail == Detail::None {
                    ended.error = None;
                }
                HookBody::Ended(ended)
            }
            HookBody::Budget(used) => {
                let percent = (used.used * 100.0).round();
                let of = &used.of;
                told.title =
                    format!("{}: {percent} % of its {of} is used up", name(&used.session.name));
                HookBody::Budget(used)
            }
            HookBody::Breach { session, what } => {
                told.title = "A run did what nobody allowed, and was stopped".to_owned();
                told.text = says(&what);
                told.level = Some(RiskLevel::Critical);
                let what = if frame.detail == Detail::None { String::new() } else { what };
                HookBody::Breach { session, what }
            }
        };
        let respond = respond.filter(|_| told.press.is_some());
        let event = HookMessage { id, event, created_at, body, respond };
        told.event = serde_json::to_value(event).unwrap_or_default();
        told
    }
}

fn word(ended: &plexus_wire::ChatEnded) -> String {
    serde_json::to_value(ended.status)
        .ok()
        .and_then(|word| word.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn level(approval: &AskedApproval) -> Option<RiskLevel> {
    approval.risk.as_ref().and_then(|risk| risk.known()).map(|risk| risk.level)
}

/// The text about a request that waits, and whether nothing was cut from what `detail` lets out.
fn asked(approval: &AskedApproval, frame: Frame<'_>) -> (String, bool) {
    let mut tail = Vec::new();
    if let Some(risk) = approval.risk.as_ref().and_then(|risk| risk.known()) {
        let reasons: Vec<String> = match frame.detail {
            Detail::None => Vec::new(),
            Detail::Summary | Detail::Full => {
                let reasons = risk.reasons.iter().take(MAX_REASONS);
                reasons.map(|it| cut(&sanitize::one_line(it), NAME_CHARS)).collect()
            }
        };
        let why = if reasons.is_empty() { String::new() } else { ": ".to_owned() };
        tail.push(format!("risk {}{why}{}", risk_word(risk.level), reasons.join("; ")));
    }
    tail.push(match approval.expires_at {
        Some(at) => {
            let left = at.0.saturating_mul(1_000).saturating_sub(UnixMillis::now().0);
            format!("denied automatically in {}", duration(left))
        }
        None => "waits until somebody answers".to_owned(),
    });
    let tail = tail.join("\n");
    let room = frame.room.saturating_sub(tail.len() + 1);
    let (shown, is_whole) = match (frame.detail, &approval.input) {
        (Detail::None, _) => (String::new(), false),
        (_, None) => ("the input is too large to tell".to_owned(), false),
        (Detail::Summary, Some(input)) => within(summary(approval, input), SUMMARY_CHARS.min(room)),
        (Detail::Full, Some(input)) => within(whole(approval, input), room),
    };
    let text = if shown.is_empty() { tail } else { format!("{shown}\n{tail}") };
    (text, is_whole)
}

/// One line of what is asked.
fn summary(approval: &AskedApproval, input: &Json) -> String {
    match approval.question.as_ref().and_then(|question| question.known()) {
        Some(question) => sanitize::one_line(&question.summary()).into_owned(),
        None => {
            let target = approval.target.as_ref().and_then(|target| target.known());
            render::about_input(&input.to_value(), target)
        }
    }
}

/// All of what is asked, with a field a line where a text has several lines.
fn whole(approval: &AskedApproval, input: &Json) -> String {
    let value = input.to_value();
    let mut lines = Vec::new();
    match value.as_object() {
        Some(fields) => {
            for (field, value) in fields {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                lines.push(format!("{}: {}", sanitize::one_line(field), sanitize::text(&text)));
            }
        }
        None => lines.push(sanitize::text(&value.to_string()).into_owned()),
    }
    if let Some(dir) = &approval.working_dir {
        lines.push(format!("in {}", sanitize::one_line(&dir.to_string_lossy())));
    }
    lines.join("\n")
}

/// Cuts a text to so many bytes, and says whether it was whole.
fn within(text: String, room: usize) -> (String, bool) {
    if text.len() <= room {
        return (text, true);
    }
    const CUT: &str = "… (cut)";
    let mut end = room.saturating_sub(CUT.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    (format!("{}{CUT}", &text[..end]), false)
}

/// Takes from a request what `detail` does not let out.
fn kept_back(approval: AskedApproval, detail: Detail) -> AskedApproval {
    match detail {
        Detail::Full => approval,
        Detail::None => AskedApproval {
            input: None,
            target: None,
            description: None,
            question: None,
            working_dir: None,
            risk: approval.risk.map(|risk| match risk {
                plexus_wire::Said::Known(risk) => {
                    plexus_wire::Said::Known(plexus_wire::Risk { reasons: Vec::new(), ..risk })
                }
                plexus_wire::Said::Unknown(_) => plexus_wire::Said::Unknown(Value::Null),
            }),
            ..approval
        },
        Detail::Summary => AskedApproval {
            input: None,
            target: None,
            description: None,
            question: None,
            ..approval
        },
    }
}

/// The word of a level.
pub(super) fn risk_word(level: RiskLevel) -> &'static str {
    match level {
        RiskLevel::Low => "low",
        RiskLevel::Medium => "medium",
        RiskLevel::High => "high",
        RiskLevel::Critical => "critical",
    }
}

/// What became of an approval, in words for a person who pressed a button.
pub(super) fn standing(error: &plexus_core::CallError) -> String {
    match &error.standing {
        Some(stands) => {
            let word = |field: &str| stands[field].as_str().unwrap_or("decided").to_owned();
            format!("Too late: it is already {} by {}.", word("status"), word("decided_by"))
        }
        None => format!("Could not {}.", error.message),
    }
}
