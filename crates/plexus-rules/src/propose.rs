//! Proposes rules from past decisions. Each proposal is tried on every decision first; a person
//! accepts or refuses it.

use super::call::Call;
use super::pattern::Pattern;
use super::rule::{Decision, Rule};
use super::set::{RuleSet, covers};
use super::suggest::{Suggestion, suggest};

/// How many allowed calls a rule must cover before it is proposed: a call seen only once may never
/// be asked about again.
pub const LEAST_EVIDENCE: usize = 2;

/// One call that somebody decided.
#[derive(Clone, Copy)]
pub struct Decided<'a> {
    /// The call.
    pub call: Call<'a>,
    /// Whether it was allowed as it was asked.
    pub allowed: bool,
}

/// An allow that would have changed no decision, only saved questions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The pattern.
    pub pattern: Pattern,
    /// What it means, in words.
    pub label: String,
    /// The indices of the decisions it would have made, all of them allows.
    pub answers: Vec<usize>,
}

/// Proposes allows, the narrowest first, and among those the one with most evidence.
///
/// A proposal covers at least [`LEAST_EVIDENCE`] calls that were allowed and that no rule answers
/// today, and none that was denied. It never covers a whole tool whose calls can be told apart.
#[must_use]
pub fn propose(decided: &[Decided<'_>], in_force: &RuleSet) -> Vec<Proposal> {
    let asked: Vec<usize> = (0..decided.len())
        .filter(|&at| in_force.decide(&decided[at].call).decision == Decision::Ask)
        .collect();
    let mut found: Vec<(usize, Proposal)> = Vec::new();
    for &at in asked.iter().filter(|&&at| decided[at].allowed) {
        for (width, Suggestion { pattern, label }) in
            suggest(&decided[at].call).into_iter().enumerate()
        {
            if found.iter().any(|(_, other)| other.pattern == pattern) || is_whole_tool(&pattern) {
                continue;
            }
            let rule = Rule::new(Decision::Allow, pattern);
            let taken = |at: &usize| covers(&rule, &decided[*at].call);
            if decided.iter().enumerate().any(|(at, one)| !one.allowed && taken(&at)) {
                continue;
            }
            let answers: Vec<usize> =
                asked.iter().copied().filter(|at| decided[*at].allowed && taken(at)).collect();
            if answers.len() >= LEAST_EVIDENCE {
                found.push((width, Proposal { pattern: rule.pattern, label, answers }));
            }
        }
    }
    // Of proposals with the same evidence, the narrowest stays.
    found.sort_by_key(|(width, proposal)| (*width, std::cmp::Reverse(proposal.answers.len())));
    let mut proposals: Vec<Proposal> = Vec::new();
    for (_, proposal) in found {
        if !proposals.iter().any(|narrower| narrower.answers == proposal.answers) {
            proposals.push(proposal);
        }
    }
    proposals
}

/// Returns whether a pattern covers every call of its tool, as one without parentheses does. One
/// tool of an MCP server is as narrow as the notation gets; all tools of a server are not.
fn is_whole_tool(pattern: &Pattern) -> bool {
    let text = pattern.as_str();
    !text.contains('(') && (!text.starts_with("mcp__") || text.ends_with('*'))
}
