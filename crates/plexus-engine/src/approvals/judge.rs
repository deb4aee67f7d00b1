//! What would happen to a call if it were asked now: by rules, and by a temporary mode that the
//! operator set. Live requests, edited inputs, releases and `rule_test` all come through
//! [`Approvals::judge`], so they cannot disagree.

use jiff::Timestamp;
use plexus_core::RuleId;
use plexus_rules::{self as rules, Author, Decision};
use plexus_store::{DecidedBy, Owner, SessionRecord, StoreError, UnixMillis, Verdict};
use plexus_wire::{Mode, Seconds, ToolTarget};

use super::Approvals;
use crate::authority::Deed;
use crate::replan::Replans;
use crate::rulebook::granted;
use crate::session::SessionState;

/// What rules and modes say of a call.
pub struct Judgement {
    /// What is decided.
    pub decision: Decision,
    /// Who decides; `None` when somebody is asked.
    pub by: Option<DecidedBy>,
    /// The rule that decides the call or demands a question.
    pub rule: Option<RuleId>,
    /// Every rule that the decision depends on; each counts as used.
    pub used: Vec<RuleId>,
    /// Why, for callers that may see the rules.
    pub why: String,
}

impl Judgement {
    /// Returns the decision that is made without asking anybody, and who makes it.
    pub(crate) fn at_once(&self) -> Option<(Verdict, DecidedBy)> {
        let by = self.by?;
        match self.decision {
            Decision::Allow => Some((Verdict::Allow { updated_input: None }, by)),
            Decision::Deny => Some((Verdict::Deny, by)),
            Decision::Ask => None,
        }
    }
}

impl Approvals {
    /// Says what would happen to this call now. Of a call that is left to a person, a rule may only
    /// deny it.
    pub async fn judge(
        &self,
        session: &SessionRecord,
        deed: &Deed<'_>,
    ) -> Result<Judgement, StoreError> {
        if deed.tool.target == (ToolTarget::Question {}) {
            let why = "it is a question, which only somebody who reads it can answer".to_owned();
            let (decision, rule, used) = (Decision::Ask, None, Vec::new());
            return Ok(asked(rules::Ruling { decision, rule, used, why }));
        }
        let ruling = self.standing_rules_say(session, deed).await?;
        if let Some(reason) = deed.person_only
            && ruling.decision != Decision::Deny
        {
            let why = format!("only the operator may allow it: {reason}");
            return Ok(asked(rules::Ruling { decision: Decision::Ask, why, ..ruling }));
        }
        match (ruling.decision, ruling.rule) {
            (Decision::Allow | Decision::Deny, Some(rule)) => Ok(Judgement {
                decision: ruling.decision,
                by: Some(DecidedBy::Rule(rule)),
                rule: Some(rule),
                used: ruling.used,
                why: ruling.why,
            }),
            // An `ask` rule beats a mode.
            (Decision::Ask, Some(_)) => Ok(asked(ruling)),
            (Decision::Allow | Decision::Deny | Decision::Ask, None) => {
                Ok(self.mode_says(session, deed)?.unwrap_or_else(|| asked(ruling)))
            }
        }
    }

    /// Says why a rule or a mode decided, for everybody who sees the decision. The text gives the
    /// rule's reason, never its pattern: only callers to whom `rules` shows it may see that.
    pub(crate) async fn told(
        &self,
        judgement: &Judgement,
        deed: &Deed<'_>,
    ) -> Result<String, StoreError> {
        let verb = match judgement.decision {
            Decision::Allow => "allowed",
            Decision::Deny => "denied",
            Decision::Ask => "asked",
        };
        let Some(rule) = judgement.rule else { return Ok(judgement.why.clone()) };
        let mut unstored = self.rulebook.file_rules();
        unstored.extend(granted(deed.asker, deed.asker_config));
        let reason = match unstored.into_iter().find(|it| it.id == rule) {
            Some(rule) => rule.reason,
            None => match self.store.rule(rule).await {
                Ok(stored) => stored.rule.reason,
                Err(StoreError::NotFound { .. }) => None,
                Err(error) => return Err(error),
            },
        };
        Ok(match reason {
            Some(reason) => format!("{verb} by a rule: {reason}"),
            None => format!("{verb} by a rule"),
        })
    }

    /// Applies the rules, after checking that each one the ruling depends on is still in force and
    /// within its author's authority.
    async fn standing_rules_say(
        &self,
        session: &SessionRecord,
        deed: &Deed<'_>,
    ) -> Result<rules::Ruling, StoreError> {
        let mut replans = Replans::default();
        while replans.once_more() {
            let ruling = self.rulebook.decide(session, deed.asker_config, deed.tool).await?;
            match self.check_used(&ruling, deed).await? {
                Used::InForce => {
                    // A granted rule has no row in which its decisions are counted.
                    let granted = granted(deed.asker, deed.asker_config);
                    let is_granted = |id: &RuleId| granted.iter().any(|rule| rule.id == *id);
                    let used = ruling.used.iter().copied().filter(|id| !is_granted(id)).collect();
                    return Ok(rules::Ruling { used, ..ruling });
                }
                Used::Beyond(pattern) => {
                    let why = format!(
                        "`{pattern}` allows it, and was made by a session that may not decide this"
                    );
                    return Ok(rules::Ruling {
                        decision: Decision::Ask,
                        rule: None,
                        used: Vec::new(),
                        why,
                    });
                }
                // The rule ended with its run, was removed or is used up, so the compiled rules are
                // stale.
                Used::Gone => self.rulebook.changed(),
            }
        }
        let why = "the rules keep changing".to_owned();
        Ok(rules::Ruling { decision: Decision::Ask, rule: None, used: Vec::new(), why })
    }

    async fn check_used(
        &self,
        ruling: &rules::Ruling,
        deed: &Deed<'_>,
    ) -> Result<Used, StoreError> {
        let now = UnixMillis::now();
        let granted = granted(deed.asker, deed.asker_config);
        for id in ruling.used.iter().filter(|id| !self.rulebook.is_from_file(**id)) {
            if let Some(rule) = granted.iter().find(|rule| rule.id == *id) {
                if let Author::Session(author) = rule.author
                    && !self.authority.may_allow(author, deed).await?
                {
                    return Ok(Used::Beyond(rule.pattern.to_string()));
                }
                continue;
            }
            let stored = match self.store.rule(*id).await {
                Ok(stored) => stored,
                Err(StoreError::NotFound { .. }) => return Ok(Used::Gone),
                Err(error) => return Err(error),
            };
            let over = stored.rule.expires_at.is_some_and(|end| end <= now);
            if ruling.decision != Decision::Ask && (over || stored.uses_left() == Some(0)) {
                return Ok(Used::Gone);
            }
            if let Owner::Session(author) = stored.rule.author
                && ruling.decision == Decision::Allow
                && !self.authority.may_allow(author, deed).await?
            {
                return Ok(Used::Beyond(stored.rule.pattern));
            }
        }
        Ok(Used::InForce)
    }

    fn mode_says(
        &self,
        session: &SessionRecord,
        deed: &Deed<'_>,
    ) -> Result<Option<Judgement>, StoreError> {
        let mode =
            SessionState::of(session)?.mode.filter(|mode| mode.until > UnixMillis::now().into());
        let Some(mode) = mode else { return Ok(None) };
        let covered = match mode.mode {
            Mode::Ask => false,
            Mode::AllowAll => true,
            Mode::AcceptEdits => {
                self.rulebook.is_edit_inside(session, deed.asker_config, deed.tool)
            }
        };
        Ok(covered.then(|| Judgement {
            decision: Decision::Allow,
            by: Some(DecidedBy::Operator),
            rule: None,
            used: Vec::new(),
            why: format!("the operator's mode allows it {}", until(mode.until)),
        }))
    }
}

/// Says until when, with the date: the words are stored with the decision, and read long after it.
fn until(end: Seconds) -> String {
    let end = Timestamp::from_second(end.0).unwrap_or(Timestamp::MAX);
    end.strftime("until %Y-%m-%d %H:%M UTC").to_string()
}

/// The rules of a ruling, as the store has them.
enum Used {
    InForce,
    /// One of them is gone or used up.
    Gone,
    /// One of them allows what its author may not allow. Holds its pattern.
    Beyond(String),
}

fn asked(ruling: rules::Ruling) -> Judgement {
    Judgement {
        decision: Decision::Ask,
        by: None,
        rule: ruling.rule,
        used: ruling.used,
        why: ruling.why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_mode_is_told_with_its_date() {
        assert_eq!(until(Seconds(1_794_732_931)), "until 2026-11-15 08:55 UTC");
        assert_eq!(until(Seconds(i64::MAX)), "until 9999-12-30 22:00 UTC");
    }
}
