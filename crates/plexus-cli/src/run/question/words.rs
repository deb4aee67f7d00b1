//! The words of the dialogue: what stands before the cursor, and the help.

use super::{Question, Step};
use plexus_render::question;
use plexus_render::screen::Screen;

/// Columns from which on a prompt names its keys.
const WIDE: usize = 66;

impl Question {
    /// The words before the cursor.
    pub(in crate::run) fn prompt(&self, screen: Screen) -> String {
        let wide = screen.width() >= WIDE;
        match &self.step {
            Step::Answer(_) => {
                let takes = self.next_part().map_or("", |(_, part)| question::takes(part));
                if wide {
                    format!("  {takes}; [n]o answer  [v]iew all  [?] > ")
                } else {
                    "  > ".into()
                }
            }
            Step::Plan if wide => {
                "  carry it out? [y]es  [n]o, send it back  [v]iew all  [?] > ".into()
            }
            Step::Plan => "  y/n/v/? > ".into(),
            Step::Reason if self.approval.question.is_some() && wide => {
                "  what should be different? (the agent reads it) > ".into()
            }
            Step::Choose if wide && self.approval.preview => {
                "  allow? [y]es once  [n]o  [p]review  [e]dit  [a]lways  [v]iew all  [?] > ".into()
            }
            Step::Choose if wide => {
                "  allow? [y]es once  [n]o  [e]dit  [a]lways  [v]iew all  [?] > ".into()
            }
            Step::Choose if self.approval.preview => "  y/n/p/e/a/v/? > ".into(),
            Step::Choose => "  y/n/e/a/v/? > ".into(),
            Step::Reason if wide => "  why not? (the agent reads it) > ".into(),
            Step::Reason => "  why not? > ".into(),
            Step::Remember if wide => {
                "  number or pattern, then `all` for every session; empty goes back > ".into()
            }
            Step::Remember => "  which? > ".into(),
            Step::Confirm { .. } if wide => {
                "  run it like this? [y]es  [n]o, back  [e]dit again  [v]iew all > ".into()
            }
            Step::Confirm { .. } => "  run? y/n/e/v > ".into(),
        }
    }
}

pub(super) fn answer_help() -> Vec<String> {
    [
        "  a number chooses an option, 1,2 several where that is possible",
        "  other words are your own answer; =n answers the word n",
        "  n  answer nothing, with a reason that the agent reads",
        "  s  show the question again",
        "  v  view all of it, in $PAGER when it is long",
        "  d  leave it waiting and go",
    ]
    .map(str::to_owned)
    .to_vec()
}

pub(super) fn plan_help() -> Vec<String> {
    [
        "  y  let the agent carry it out; what it does is still asked about",
        "  n  send it back, with a comment that the agent reads",
        "  v  view all of it, in $PAGER when it is long",
        "  d  leave it waiting and go",
    ]
    .map(str::to_owned)
    .to_vec()
}

pub(super) fn help() -> Vec<String> {
    [
        "  y  allow this call once",
        "  n  deny it, with a reason that the agent reads",
        "  e  edit what would run in $EDITOR, see the difference, then allow it",
        "  E  the same with the whole input, as JSON",
        "  a  allow it and remember a rule for calls like it",
        "  p  try a shell command on a copy, and see what it changes; it decides nothing",
        "  s  show the call again",
        "  v  view all of it, in $PAGER when it is long",
        "  d  leave it waiting and go",
        "  Ctrl-C asks the agent to stop; Ctrl-D leaves it waiting for another answer",
    ]
    .map(str::to_owned)
    .to_vec()
}
