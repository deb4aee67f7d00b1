//! All rules, indexed, and the one function that decides.

use std::collections::HashMap;

use plexus_wire::{RuleId, ToolTarget};
use serde_json::json;

use super::Fit;
use super::bash::{BashIndex, Touch, files_named};
use super::call::Call;
use super::files::{PathPattern, fold};
use super::known;
use super::notation::{self, NETWORK_TOOL, WRITE_TOOL};
use super::pattern::Kind;
use super::places::PathRules;
use super::rule::{Author, Decision, Rule, Scope};
use super::steps::Step;
use super::target::Target;
use super::web::Address;

/// The tools whose rules that deny or ask are looked for in the words of commands too.
const FILE_TOOLS: &[&str] = &["Read", "Edit", WRITE_TOOL];

/// The decision of the rules about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// The decision.
    pub decision: Decision,
    /// The rule that decided; `None` when no rule did and somebody is asked.
    pub rule: Option<RuleId>,
    /// Every rule the decision rests on, `rule` first. There are several when different rules allow
    /// the parts of a compound command: each of them counts as used.
    pub used: Vec<RuleId>,
    /// Why, for the person who tests a rule or reads the audit.
    pub why: String,
}

/// A set of rules, ready to decide. When a rule changes, build a new set: that is cheap compared
/// with a permission request.
#[derive(Debug, Default)]
pub struct RuleSet {
    /// Sorted by id, so that the order in which rules were added cannot matter.
    rules: Vec<Rule>,
    whole_tools: HashMap<String, Vec<usize>>,
    mcp_servers: HashMap<String, Vec<usize>>,
    bash: BashIndex,
    paths: HashMap<&'static str, PathRules>,
    connections: Vec<usize>,
    hosts: Vec<usize>,
    hosts_by_name: HashMap<String, Vec<usize>>,
}

impl RuleSet {
    /// Indexes the rules.
    #[must_use]
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        let mut rules: Vec<Rule> = rules.into_iter().collect();
        rules.sort_by(|a, b| {
            a.id.cmp(&b.id).then_with(|| a.pattern.as_str().cmp(b.pattern.as_str()))
        });
        let mut set = Self::default();
        for (at, rule) in rules.iter().enumerate() {
            match rule.pattern.kind() {
                Kind::Tools(tools) => {
                    for tool in tools {
                        set.whole_tools.entry(tool.clone()).or_default().push(at);
                    }
                }
                Kind::McpPrefix { server, .. } => {
                    set.mcp_servers.entry(server.clone()).or_default().push(at)
                }
                Kind::Command(pattern) => set.bash.add(at, rule.decision, pattern),
                Kind::Path(family, pattern) => {
                    for tool in family.tools() {
                        set.paths.entry(tool).or_default().add(at, rule.decision, pattern);
                    }
                }
                Kind::Reach(_) => set.connections.push(at),
                Kind::Domain { ascii, .. } => match rule.decision {
                    Decision::Allow => set.hosts_by_name.entry(ascii.clone()).or_default().push(at),
                    Decision::Deny | Decision::Ask => set.hosts.push(at),
                },
            }
        }
        set.rules = rules;
        set
    }

    /// Returns the rules, sorted by id.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Decides a call: deny beats ask beats allow, and an uncovered call is asked about. Live
    /// requests and `rule_test` both use this function.
    #[must_use]
    pub fn decide(&self, call: &Call<'_>) -> Ruling {
        self.find(call, &|at| self.rules.get(at).is_some_and(|rule| rule.holds_for(call))).verdict()
    }

    fn find(&self, call: &Call<'_>, holds: &dyn Fn(usize) -> bool) -> Findings<'_> {
        let mut findings = Findings {
            rules: &self.rules,
            denied: None,
            asked: None,
            doubtful: None,
            allowed: None,
            doubt: None,
        };
        let tool = call.rule_tool();
        for at in whole(self.whole_tools.get(&*tool)).filter(|&at| holds(at)) {
            findings.matches(at);
        }
        // An agent's own name for a tool proves nothing, so it may match a deny or an ask but never
        // an allow.
        let own = Some(&call.tool.tool_name).filter(|own| **own != *tool);
        for at in whole(own.and_then(|own| self.whole_tools.get(own))).filter(|&at| holds(at)) {
            if self.rules.get(at).is_some_and(|rule| rule.decision != Decision::Allow) {
                findings.matches(at);
            }
        }
        if let Some(rest) = tool.strip_prefix("mcp__") {
            for at in self.servers(rest).flat_map(|server| whole(self.mcp_servers.get(server))) {
                if let Some(Kind::McpPrefix { prefix, .. }) = self.kind(at)
                    && tool.starts_with(prefix)
                    && holds(at)
                {
                    findings.matches(at);
                }
            }
        }
        if tool.starts_with("mcp__") {
            self.guard_lookalikes(&tool, holds, &mut findings);
        }
        match &*tool {
            "Bash" => {
                let edits = |path: &str| self.edits(path, call, holds);
                self.bash.find(&self.rules, call, holds, &edits, &mut findings);
                self.guard_named(call, holds, &mut findings);
            }
            "WebFetch" => self.find_hosts(call, holds, &mut findings),
            NETWORK_TOOL => self.find_connections(call, holds, &mut findings),
            tool => {
                if let Some(rules) = self.paths.get(tool) {
                    self.find_paths(rules, call, holds, &mut findings);
                }
                if tool != WRITE_TOOL {
                    self.guard_writes(call, holds, &mut findings);
                }
            }
        }
        findings
    }

    /// Returns the rules that allow to edit a file, if no other denies it or asks.
    fn edits(
        &self,
        path: &str,
        call: &Call<'_>,
        holds: &dyn Fn(usize) -> bool,
    ) -> Option<Vec<usize>> {
        let edit = json!({ "file_path": path, "old_string": "", "new_string": "" });
        let tool = notation::read("Edit", &edit);
        let found = self.find(&Call { tool: &tool, ..*call }, holds);
        let is_guarded =
            found.denied.is_some() || found.asked.is_some() || found.doubtful.is_some();
        found.allowed.filter(|_| !is_guarded)
    }

    /// Finds the rules that deny or ask about an MCP tool whose name a server may take for this.
    fn guard_lookalikes(
        &self,
        tool: &str,
        holds: &dyn Fn(usize) -> bool,
        findings: &mut Findings<'_>,
    ) {
        let is_odd = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        let (folded, is_odd) = (fold(tool), tool.contains(is_odd));
        for (at, rule) in self.rules.iter().enumerate() {
            let may_be_meant = match rule.pattern.kind() {
                Kind::Tools(tools) => tools.iter().any(|named| {
                    named.starts_with("mcp__")
                        && (is_odd || *named != tool && fold(named) == folded)
                }),
                Kind::McpPrefix { prefix, .. } => {
                    is_odd || !tool.starts_with(prefix) && folded.starts_with(&fold(prefix))
                }
                _ => false,
            };
            if may_be_meant && rule.decision != Decision::Allow && holds(at) {
                findings.may_match(at, "its name differs only in letters that may be the same");
            }
        }
    }

    /// Finds the rules that deny or ask about writing, for a call of another tool that writes whole
    /// files beside its other changes.
    fn guard_writes(
        &self,
        call: &Call<'_>,
        holds: &dyn Fn(usize) -> bool,
        findings: &mut Findings<'_>,
    ) {
        let guards = |at: &usize| {
            self.rules.get(*at).is_some_and(|rule| rule.decision != Decision::Allow) && holds(*at)
        };
        for target in Target::written_whole(call) {
            for at in whole(self.whole_tools.get(WRITE_TOOL)).filter(guards) {
                findings.matches(at);
            }
            if let Some(rules) = self.paths.get(WRITE_TOOL) {
                self.find_path(rules, &target, call, &|at| guards(&at), findings);
            }
        }
    }

    /// Finds the rules that deny or ask about a file, for a command that names it.
    fn guard_named(
        &self,
        call: &Call<'_>,
        holds: &dyn Fn(usize) -> bool,
        findings: &mut Findings<'_>,
    ) {
        let ToolTarget::Shell { command, .. } = &call.tool.target else { return };
        let of_files = || FILE_TOOLS.iter().filter_map(|tool| Some((*tool, self.paths.get(tool)?)));
        if of_files().all(|(_, rules)| rules.guards().next().is_none()) {
            return;
        }
        let guards = |at: &usize| {
            self.rules.get(*at).is_some_and(|rule| rule.decision != Decision::Allow) && holds(*at)
        };
        let Some(named) = files_named(command, call) else {
            for at in of_files().flat_map(|(_, rules)| rules.guards()).copied().filter(guards) {
                findings.may_match(at, "the command names more files than can be looked up");
            }
            return;
        };
        let touched_by = |touch| {
            of_files().filter(move |it| touch == Touch::Writes || it.0 == "Read").map(|it| it.1)
        };
        for (path, touch) in named.paths {
            let target = Target::named(call, &path);
            // Where it is not known where the path leads, every rule may fit.
            let least = match target.real() {
                Some(_) if call.home.is_some() => Fit::Maybe,
                _ => Fit::Yes,
            };
            for rules in touched_by(touch) {
                for at in rules.near(&target).into_iter().filter(guards) {
                    if let Some(Kind::Path(_, pattern)) = self.kind(at)
                        && pattern.guards(&target) >= least
                    {
                        findings.may_match(at, "the command names a file that it is about");
                    }
                }
            }
        }
        for tree in &named.trees {
            self.guard_tree(tree, call, &guards, findings);
        }
        if named.may_read_any {
            let readers = self.paths.get("Read").into_iter().flat_map(PathRules::guards);
            for at in readers.copied().filter(guards) {
                findings.may_match(at, "the command reads a file whose name it computes");
            }
        }
        for (step, touch) in named.steps {
            for at in touched_by(touch).flat_map(PathRules::guards).copied().filter(guards) {
                if let Some(Kind::Path(_, pattern)) = self.kind(at)
                    && pattern.last_step().may_be(&step)
                {
                    findings.may_match(at, "the command may name a file that it is about");
                }
            }
        }
    }

    /// Finds the rules that deny or ask about a file, for a command that reads everything below a
    /// directory.
    fn guard_tree(
        &self,
        tree: &str,
        call: &Call<'_>,
        guards: &dyn Fn(&usize) -> bool,
        findings: &mut Findings<'_>,
    ) {
        let Some(rules) = self.paths.get("Read") else { return };
        let patterns: Vec<_> = rules
            .guards()
            .filter(|at| guards(at))
            .filter_map(|&at| match self.kind(at) {
                Some(Kind::Path(_, pattern)) => Some((at, pattern)),
                _ => None,
            })
            .collect();
        let target = Target::tree(call, tree);
        let fitting: Vec<_> =
            patterns.into_iter().filter(|(_, it)| it.guards(&target) != Fit::No).collect();
        // A pattern with wildcards fits any directory, so its files are looked for.
        let (wild, plain): (Vec<_>, Vec<_>) =
            fitting.into_iter().partition(|(_, pattern)| pattern.has_wildcards());
        let found = if wild.is_empty() {
            Some(Vec::new())
        } else {
            let is_wanted = |name: &str| {
                let step = Step::whole(name);
                wild.iter().any(|(_, pattern)| pattern.last_step().may_be(&step))
            };
            known::files_below(tree, call, &is_wanted)
        };
        let holds_one = |pattern: &PathPattern| {
            found.as_ref().is_none_or(|found| {
                found
                    .iter()
                    .filter_map(|it| it.to_str())
                    .any(|path| pattern.guards(&Target::named(call, path)) != Fit::No)
            })
        };
        let wild = wild.into_iter().filter(|(_, pattern)| holds_one(pattern));
        for (at, _) in plain.into_iter().chain(wild) {
            findings.may_match(at, "the command reads all files of a directory");
        }
    }

    /// Returns the names that the server in `SERVER__TOOL` may have: with three underscores, the
    /// first may belong to the server or the last to the tool.
    fn servers<'a>(&self, rest: &'a str) -> impl Iterator<Item = &'a str> {
        let end = rest.find("__").unwrap_or(rest.len());
        let more = rest[end..].bytes().take_while(|&byte| byte == b'_').count().saturating_sub(2);
        // No rule names a longer one.
        let longest = self.mcp_servers.keys().map(String::len).max().unwrap_or_default();
        (end..=(end + more).min(longest)).filter_map(|end| rest.get(..end))
    }

    fn kind(&self, at: usize) -> Option<&Kind> {
        self.rules.get(at).map(|rule| rule.pattern.kind())
    }

    fn find_paths(
        &self,
        rules: &PathRules,
        call: &Call<'_>,
        holds: &dyn Fn(usize) -> bool,
        findings: &mut Findings<'_>,
    ) {
        let targets = Target::all(call);
        // The rules that allow each path; one that allows all of them is preferred.
        let mut allowing: Vec<Vec<usize>> = Vec::with_capacity(targets.len());
        for target in &targets {
            allowing.push(self.find_path(rules, target, call, holds, findings));
            if let Some(doubt) = &target.doubt {
                findings.doubt(doubt);
            }
        }
        let for_all = allowing.first().into_iter().flatten();
        if let Some(&at) = for_all.filter(|at| allowing.iter().all(|it| it.contains(at))).min() {
            findings.allow(vec![at]);
        } else if let Some(mut covering) =
            allowing.iter().map(|it| it.iter().copied().min()).collect::<Option<Vec<_>>>()
        {
            covering.sort_unstable();
            covering.dedup();
            findings.allow(covering);
        }
    }

    /// Adds the rules that deny one path or ask about it, and returns those that allow it.
    fn find_path(
        &self,
        rules: &PathRules,
        target: &Target<'_>,
        call: &Call<'_>,
        holds: &dyn Fn(usize) -> bool,
        findings: &mut Findings<'_>,
    ) -> Vec<usize> {
        let mut allowing = Vec::new();
        for at in rules.near(target).into_iter().filter(|&at| holds(at)) {
            let (Some(rule), Some(Kind::Path(family, pattern))) =
                (self.rules.get(at), self.kind(at))
            else {
                continue;
            };
            match rule.decision {
                Decision::Allow if pattern.covers(target, call) == Fit::Yes => {
                    if !family.changes_files() || pattern.names_what_is_obeyed(target, call) {
                        allowing.push(at);
                    } else {
                        findings.doubt(OBEYED);
                    }
                }
                Decision::Allow => {}
                Decision::Deny | Decision::Ask => findings.fit(at, pattern.guards(target)),
            }
        }
        allowing
    }

    fn find_connections(
        &self,
        call: &Call<'_>,
        holds: &dyn Fn(usize) -> bool,
        findings: &mut Findings<'_>,
    ) {
        let ToolTarget::Connect { host, port } = &call.tool.target else {
            for &at in self.connections.iter().filter(|&&at| holds(at)) {
                findings.may_match(at, "the call names no host and port");
            }
            return;
        };
        if let Some(doubt) = &call.tool.doubt {
            findings.doubt(doubt);
        }
        for &at in self.connections.iter().filter(|&&at| holds(at)) {
            let (Some(rule), Some(Kind::Reach(reach))) = (self.rules.get(at), self.kind(at)) else {
                continue;
            };
            match rule.decision {
                Decision::Allow if call.tool.doubt.is_none() && reach.covers(host, *port) => {
                    findings.matches(at);
                }
                Decision::Allow => {}
                Decision::Deny | Decision::Ask => findings.fit(at, reach.guards(host, *port)),
            }
        }
    }

    fn find_hosts(
        &self,
        call: &Call<'_>,
        holds: &dyn Fn(usize) -> bool,
        findings: &mut Findings<'_>,
    ) {
        let ToolTarget::Fetch { url: Some(url) } = &call.tool.target else {
            findings.doubt("the call has no URL");
            for &at in self.hosts.iter().filter(|&&at| holds(at)) {
                findings.may_match(at, "the call has no URL");
            }
            return;
        };
        let address = Address::read(url);
        for &at in self.hosts.iter().filter(|&&at| holds(at)) {
            if let Some(Kind::Domain { ascii, .. }) = self.kind(at) {
                findings.fit(at, address.guarded_by(ascii));
            }
        }
        if let Some(doubt) = &call.tool.doubt {
            findings.doubt(doubt);
            return;
        }
        for at in address
            .host()
            .and_then(|host| self.hosts_by_name.get(host))
            .into_iter()
            .flatten()
            .copied()
        {
            if let Some(Kind::Domain { ascii, written }) = self.kind(at)
                && holds(at)
                && address.covered_by(ascii, written) == Fit::Yes
            {
                findings.matches(at);
            }
        }
    }
}

fn whole(rules: Option<&Vec<usize>>) -> impl Iterator<Item = usize> {
    rules.into_iter().flatten().copied()
}

/// Why a rule for a directory does not allow a change in it.
const OBEYED: &str = "programs obey the file, and no rule names it";

/// The rules found for one call. Within each kind, the smallest position (the smallest id) wins.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    rules: &'a [Rule],
    denied: Option<usize>,
    asked: Option<usize>,
    /// A rule that denies or asks and may fit, and why that is uncertain.
    doubtful: Option<(usize, String)>,
    allowed: Option<Vec<usize>>,
    /// Why no allow fits.
    doubt: Option<String>,
}

impl Findings<'_> {
    /// Records that a rule fits, whatever its decision.
    pub(super) fn matches(&mut self, at: usize) {
        let smaller = |kept: &mut Option<usize>| *kept = Some(kept.map_or(at, |kept| kept.min(at)));
        match self.rules.get(at).map(|rule| rule.decision) {
            Some(Decision::Deny) => smaller(&mut self.denied),
            Some(Decision::Ask) => smaller(&mut self.asked),
            Some(Decision::Allow) => self.allow(vec![at]),
            None => {}
        }
    }

    /// Records that a rule that denies or asks may fit.
    pub(super) fn may_match(&mut self, at: usize, why: &str) {
        if self.doubtful.as_ref().is_none_or(|(kept, _)| at < *kept) {
            self.doubtful = Some((at, why.to_owned()));
        }
    }

    fn fit(&mut self, at: usize, fit: Fit) {
        match fit {
            Fit::No => {}
            Fit::Maybe => self.may_match(at, "where the call leads cannot be told"),
            Fit::Yes => self.matches(at),
        }
    }

    /// Records that these rules together allow the call. Fewer rules are preferred, then smaller
    /// ids.
    pub(super) fn allow(&mut self, covering: Vec<usize>) {
        if self.allowed.as_ref().is_none_or(|kept| (covering.len(), &covering) < (kept.len(), kept))
        {
            self.allowed = Some(covering);
        }
    }

    /// Records why no allow fits; the first reason is kept.
    pub(super) fn doubt(&mut self, reason: impl Into<String>) {
        self.doubt.get_or_insert_with(|| reason.into());
    }

    fn verdict(self) -> Ruling {
        let id = |at: usize| self.rules.get(at).map(|rule| rule.id);
        let name = |at: usize| {
            self.rules.get(at).map_or_else(String::new, |rule| match &rule.reason {
                Some(reason) => format!("`{}` ({reason})", rule.pattern),
                None => format!("`{}`", rule.pattern),
            })
        };
        let by = |decision, at: usize, why| Ruling {
            decision,
            rule: id(at),
            used: id(at).into_iter().collect(),
            why,
        };
        if let Some(at) = self.denied {
            return by(Decision::Deny, at, format!("denied by {}", name(at)));
        }
        if let Some(at) = self.asked {
            return by(Decision::Ask, at, format!("{} wants it asked", name(at)));
        }
        if let Some((at, why)) = &self.doubtful {
            let verb = if self.rules.get(*at).is_some_and(|rule| rule.decision == Decision::Deny) {
                "deny"
            } else {
                "ask about"
            };
            // The rule did not decide, so the ruling does not name it and does not count it as
            // used.
            let why = format!("{} may {verb} it: {why}", name(*at));
            return Ruling { decision: Decision::Ask, rule: None, used: Vec::new(), why };
        }
        if let Some(covering) = &self.allowed {
            let names: Vec<String> = covering.iter().map(|&at| name(at)).collect();
            return Ruling {
                decision: Decision::Allow,
                rule: covering.first().copied().and_then(id),
                used: covering.iter().copied().filter_map(id).collect(),
                why: format!("allowed by {}", names.join(" and ")),
            };
        }
        let why = self.doubt.unwrap_or_else(|| "no rule covers it".into());
        Ruling { decision: Decision::Ask, rule: None, used: Vec::new(), why }
    }
}

/// Says whether this rule by itself decides the call. The rule must hold for the caller. Examples
/// and the release of pending approvals depend on this.
#[must_use]
pub fn covers(rule: &Rule, call: &Call<'_>) -> bool {
    rule.holds_for(call) && fits(rule, call).is_ok()
}

/// Checks that the rule's pattern decides the call, for any caller and at any time; if not, returns
/// why.
pub(super) fn fits(rule: &Rule, call: &Call<'_>) -> Result<(), String> {
    let free = Rule {
        scope: Scope::All,
        author: Author::Operator,
        expires_at: None,
        uses_left: None,
        ..rule.clone()
    };
    let verdict = RuleSet::new([free]).decide(call);
    if verdict.rule.is_some() { Ok(()) } else { Err(verdict.why) }
}
