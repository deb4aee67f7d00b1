//! What a person reads on a phone: the events of a burst as one message, which holds no more of an
//! input than its receiver's `detail` lets out.
//!
//! A webhook is told everything, because a program reads it. Every other receiver gets a
//! [`Message`]: a title, a text, and for each request that waits an [`Item`] with what its buttons
//! need.

use std::collections::BTreeMap;

use plexus_core::{ApprovalId, SecretToken, SessionId};
use plexus_store::{Store, StoreError, UnixMillis};
use plexus_wire::{
    ApprovalStatus, AskedApproval, BareSession, DecidedBy, HookBody, HookEvent, HookMessage, Json,
    RiskLevel, Said,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::kinds::To;
use plexus_render::screen::{cut, duration};
use plexus_render::tool_call::decider;
use plexus_render::{sanitize, tool_call};

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

/// The fewest characters to which a name is cut, where even the titles of a message are too long:
/// with them a message about as many events as are gathered fits everywhere.
const MIN_NAME_CHARS: usize = 10;

/// The fewest bytes of an input beside which there is room for the reasons of its risk.
const MIN_SHOWN_BYTES: usize = 40;

/// Names of sessions, by their ids.
pub(super) type SessionNames = BTreeMap<SessionId, String>;

/// What a message may hold, where it goes and where links lead.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) detail: Detail,
    /// Who says whether the finished message is short enough.
    pub(super) to: &'a To,
    /// The names of sessions whose events do not hold them.
    pub(super) names: &'a SessionNames,
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
    /// Writes the message about these events. It is never longer than its receiver takes: details
    /// are cut first, then names.
    pub(super) fn about(events: Vec<HookMessage>, frame: Frame<'_>) -> Option<Self> {
        let id = events.first()?.id;
        let drafts: Vec<Draft> =
            events.into_iter().map(|event| Draft::of(event, frame.detail, frame.names)).collect();
        let ends_at = drafts
            .iter()
            .map(|draft| draft.ends_at)
            .collect::<Option<Vec<_>>>()
            .and_then(|ends| ends.into_iter().max());
        let approvals: Vec<ApprovalId> = drafts.iter().filter_map(|it| it.approval).collect();
        let tag = match (drafts.as_slice(), approvals.as_slice()) {
            ([_], [approval]) => approval.to_string(),
            _ => id.to_string(),
        };
        // The page of the first request leads on to the others, and works on a paired phone.
        let path = approvals.first().map_or("#/queue".into(), |id| format!("approve/{id}"));
        let url = frame.public_url.map(|url| format!("{}/{path}", url.trim_end_matches('/')));
        let mut message = Self {
            title: String::new(),
            body: String::new(),
            url,
            tag,
            level: drafts.iter().filter_map(|draft| draft.level).max(),
            ends_at,
            items: drafts.iter().map(|draft| Item::blank(draft.approval)).collect(),
        };
        message.fit(&drafts, frame.to);
        for (item, draft) in message.items.iter_mut().zip(drafts) {
            item.event = draft.event(item.press.is_some());
        }
        Some(message)
    }

    /// Writes as much of the drafts as fits.
    fn fit(&mut self, drafts: &[Draft], to: &To) {
        let mut names = NAME_CHARS;
        self.write(drafts, 0, names);
        while !to.takes(self) && names > MIN_NAME_CHARS {
            names = (names / 2).max(MIN_NAME_CHARS);
            self.write(drafts, 0, names);
        }
        // The most bytes that each event may have. `fits` is known to fit, and `too_many` not to.
        let (mut fits, mut too_many) = (0, to.room().saturating_add(1));
        let mut next = to.room();
        while fits < next && next < too_many {
            self.write(drafts, next, names);
            if to.takes(self) {
                fits = next;
            } else {
                too_many = next;
            }
            next = fits + (too_many - fits) / 2;
        }
        self.write(drafts, fits, names);
    }

    /// Writes the title and the text, with at most `room` bytes about each event and `names`
    /// characters of each name.
    fn write(&mut self, drafts: &[Draft], room: usize, names: usize) {
        for (item, draft) in self.items.iter_mut().zip(drafts) {
            let (text, is_whole) = draft.text(room);
            item.title = draft.title(names);
            item.text = text;
            // A message that was cut has no buttons, because its reader has not seen everything.
            item.press = draft.press.clone().filter(|_| is_whole);
        }
        if let [only] = self.items.as_slice() {
            (self.title, self.body) = (only.title.clone(), only.text.clone());
            return;
        }
        let all = self.items.len();
        let waiting = self.items.iter().filter(|item| item.approval.is_some()).count();
        self.title = match waiting {
            0 => format!("Plexus: {all} messages"),
            1 => format!("1 request waits, and {} other messages", all - 1),
            n if n == all => format!("{n} requests wait"),
            n => format!("{n} requests wait, and {} other messages", all - n),
        };
        let lines = self.items.iter().enumerate().map(|(at, item)| {
            let text = match item.text.as_str() {
                "" => String::new(),
                text => format!("\n   {}", text.replace('\n', "\n   ")),
            };
            format!("{}. {}{text}", at + 1, item.title)
        });
        self.body = lines.collect::<Vec<String>>().join("\n");
    }

    /// The message of `plexus notify test`.
    pub(super) fn test(receiver: &str, public_url: Option<&str>) -> Self {
        let id = Uuid::now_v7();
        let (title, body) =
            ("Plexus: a test".to_owned(), format!("The receiver {receiver} is set up."));
        let event = serde_json::json!({"id": id, "type": "test"});
        let item =
            Item { title: title.clone(), text: body.clone(), approval: None, press: None, event };
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
    fn blank(approval: Option<ApprovalId>) -> Self {
        let (title, text) = (String::new(), String::new());
        Self { title, text, approval, press: None, event: Value::Null }
    }
}

/// A part of a title.
enum Part {
    /// The name of a session or a tool, which may be cut.
    Name(String),
    Words(String),
}

/// All that a message may say about one event, before it is cut to what its receiver takes.
#[derive(Default)]
struct Draft {
    title: Vec<Part>,
    /// What `detail` lets out of what somebody said.
    shown: String,
    /// Whether `shown` is all of what `detail` lets out.
    is_whole: bool,
    /// The lines after it, about a request: the risk, its reasons, and how long it waits.
    risk: Option<String>,
    reasons: String,
    waits: Option<String>,
    approval: Option<ApprovalId>,
    press: Option<Press>,
    level: Option<RiskLevel>,
    ends_at: Option<UnixMillis>,
    /// The event, without what `detail` keeps back.
    event: Option<HookMessage>,
}

impl Draft {
    fn of(message: HookMessage, detail: Detail, names: &SessionNames) -> Self {
        let HookMessage { id, event, created_at, body, respond } = message;
        let name = |text: &str| Part::Name(sanitize::one_line(text).into_owned());
        let words = |text: &str| Part::Words(text.to_owned());
        let says = |text: &str| match detail {
            Detail::None => String::new(),
            Detail::Summary | Detail::Full => cut(&sanitize::one_line(text), SUMMARY_CHARS),
        };
        // A session that was deleted meanwhile has its id alone.
        let session = |id: SessionId| {
            let known = names.get(&id).cloned();
            [name(&known.unwrap_or_else(|| format!("session {id}"))), words(": ")]
        };
        let mut draft = Self::default();
        let body = match body {
            HookBody::Asked { approval } => {
                draft.asks(&approval, detail);
                let is_question = approval.question.is_some();
                let verb = if is_question { " has a question: " } else { " asks: " };
                if event == HookEvent::ApprovalEscalated {
                    draft.title.push(words("Still waiting: "));
                }
                draft.title.extend([
                    name(&approval.session_name),
                    words(verb),
                    name(&approval.tool_name),
                ]);
                // A question has no buttons: it is answered in words.
                draft.press = respond.clone().filter(|_| !is_question).and_then(|it| {
                    Some(Press { token: SecretToken::new(it.token?), url: it.url? })
                });
                HookBody::Asked { approval: kept_back(approval, detail) }
            }
            HookBody::Resolved { mut approval } => {
                let by = decided_by(approval.decided_by.as_ref(), approval.receiver.as_deref());
                draft.title.extend(session(approval.session_id));
                draft.title.extend([
                    name(&approval.tool_name),
                    match approval.status.known() {
                        Some(ApprovalStatus::Expired) => words(" expired"),
                        _ => Part::Words(format!(" was {}{by}", approval.status)),
                    },
                ]);
                draft.shown = approval.message.as_deref().map(says).unwrap_or_default();
                if detail == Detail::None {
                    (approval.message, approval.breach) = (None, None);
                }
                HookBody::Resolved { approval }
            }
            HookBody::Ended(mut ended) => {
                draft.title.extend([
                    name(&ended.session.name),
                    Part::Words(format!(": chat {} {}", ended.chat, word(&ended))),
                ]);
                draft.shown = ended.error.as_deref().map(says).unwrap_or_default();
                if detail == Detail::None {
                    ended.error = None;
                }
                HookBody::Ended(ended)
            }
            HookBody::Budget(used) => {
                let percent = (used.used * 100.0).round();
                let of = &used.of;
                draft.title.extend([
                    name(&used.session.name),
                    Part::Words(format!(": {percent} % of its {of} is used up")),
                ]);
                HookBody::Budget(used)
            }
            HookBody::Breach { session: BareSession { id, .. }, what } => {
                draft.title.extend(session(id));
                draft.title.push(words("a run did what nobody allowed, and was stopped"));
                draft.shown = says(&what);
                draft.level = Some(RiskLevel::Critical);
                let what = if detail == Detail::None { String::new() } else { what };
                HookBody::Breach { session: BareSession { id }, what }
            }
        };
        draft.event = Some(HookMessage { id, event, created_at, body, respond });
        draft
    }

    /// Notes what a message says about a request that waits.
    fn asks(&mut self, approval: &AskedApproval, detail: Detail) {
        if let Some(risk) = approval.risk.as_ref().and_then(|risk| risk.known()) {
            self.level = Some(risk.level);
            self.risk = Some(format!("risk {}", risk_word(risk.level)));
            if detail > Detail::None && !risk.reasons.is_empty() {
                let reasons = risk.reasons.iter().take(MAX_REASONS);
                let reasons: Vec<String> =
                    reasons.map(|it| cut(&sanitize::one_line(it), NAME_CHARS)).collect();
                self.reasons = format!(": {}", reasons.join("; "));
            }
        }
        self.waits = Some(match approval.expires_at {
            Some(at) => {
                let left = at.0.saturating_mul(1_000).saturating_sub(UnixMillis::now().0);
                format!("denied automatically in {}", duration(left))
            }
            None => "waits until somebody answers".to_owned(),
        });
        self.approval = Some(approval.id);
        self.ends_at = approval.expires_at.map(|at| UnixMillis(at.0.saturating_mul(1_000)));
        (self.shown, self.is_whole) = match (detail, &approval.input) {
            (Detail::None, _) => (String::new(), false),
            (_, None) => ("the input is too large to tell".to_owned(), false),
            (Detail::Summary, Some(input)) => within(&summary(approval, input), SUMMARY_CHARS),
            (Detail::Full, Some(input)) => (whole(approval, input), true),
        };
    }

    /// The title, with at most so many characters of each name.
    fn title(&self, names: usize) -> String {
        let part = |part: &Part| match part {
            Part::Name(name) => cut(name, names),
            Part::Words(words) => words.clone(),
        };
        self.title.iter().map(part).collect()
    }

    /// The text in at most so many bytes, and whether it is all that `detail` lets out. What was
    /// said is cut first, then the reasons of the risk go, and at last the other lines.
    fn text(&self, room: usize) -> (String, bool) {
        let tail = |reasons: &str| {
            let risk = self.risk.as_ref().map(|risk| format!("{risk}{reasons}"));
            [risk, self.waits.clone()].into_iter().flatten().collect::<Vec<_>>().join("\n")
        };
        let (mut tail, short) = (tail(&self.reasons), tail(""));
        let mut is_whole = self.is_whole;
        let least = self.shown.len().min(MIN_SHOWN_BYTES);
        if tail.len() + least + 1 > room && tail != short {
            (tail, is_whole) = (short, false);
        }
        if tail.len() > room {
            return (within(&tail, room).0, false);
        }
        if self.shown.is_empty() {
            return (tail, is_whole);
        }
        let line_end = if tail.is_empty() { "" } else { "\n" };
        let (shown, fits) = match room.checked_sub(tail.len() + line_end.len()) {
            Some(room) => within(&self.shown, room),
            None => (String::new(), false),
        };
        if shown.is_empty() {
            return (tail, false);
        }
        (format!("{shown}{line_end}{tail}"), is_whole && fits)
    }

    /// The event, with what an answer needs if its message has buttons.
    fn event(self, has_buttons: bool) -> Value {
        let event = self.event.map(|event| {
            let respond = event.respond.filter(|_| has_buttons);
            HookMessage { respond, ..event }
        });
        serde_json::to_value(event).unwrap_or_default()
    }
}

/// Says who decided, after what became of the request.
fn decided_by(by: Option<&Said<DecidedBy>>, receiver: Option<&str>) -> String {
    match (by.and_then(|by| by.known()), receiver) {
        (Some(DecidedBy::Webhook), Some(receiver)) => format!(" through {receiver}"),
        // The status says it: it has expired, or was cancelled.
        (Some(DecidedBy::Deadline | DecidedBy::AgentEnded) | None, _) => String::new(),
        (Some(by), _) => format!(" by {}", decider(*by)),
    }
}

fn word(ended: &plexus_wire::ChatEnded) -> String {
    serde_json::to_value(ended.status)
        .ok()
        .and_then(|word| word.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// One line of what is asked.
fn summary(approval: &AskedApproval, input: &Json) -> String {
    match approval.question.as_ref().and_then(|question| question.known()) {
        Some(question) => sanitize::one_line(&question.summary()).into_owned(),
        None => {
            let target = approval.target.as_ref().and_then(|target| target.known());
            tool_call::about_input(&input.to_value(), target)
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
fn within(text: &str, room: usize) -> (String, bool) {
    if text.len() <= room {
        return (text.to_owned(), true);
    }
    const CUT: &str = "… (cut)";
    let Some(mut end) = room.checked_sub(CUT.len()) else { return (String::new(), false) };
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

/// Reads the names of the sessions of these events that do not hold them.
pub(super) async fn names(
    store: &dyn Store,
    events: &[HookMessage],
) -> Result<SessionNames, StoreError> {
    let mut names = SessionNames::new();
    for event in events {
        let id = match &event.body {
            HookBody::Resolved { approval } => approval.session_id,
            HookBody::Breach { session, .. } => session.id,
            HookBody::Asked { .. } | HookBody::Ended(_) | HookBody::Budget(_) => continue,
        };
        match store.session(id).await {
            Ok(session) => names.insert(id, session.name),
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
    }
    Ok(names)
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
            let status = stands["status"].as_str().unwrap_or("decided");
            let by = serde_json::from_value(stands["decided_by"].clone()).ok();
            format!("Too late: it is already {status}{}.", decided_by(by.as_ref(), None))
        }
        None => format!("Could not {}.", error.message),
    }
}

#[cfg(test)]
mod tests;
