//! What is taken away: escape vectors, authority sockets, the sensitive set, every file's `deny`; then what is protected.
//!
//! Each source is a list of its own, since an exception counts only in the list that wrote it. A rule that leads through a
//! link stands twice, for the path as written and for where it leads: the link may be replaced while the agent runs.

use super::grants::Grant;
use super::{Cx, Layer, covering, reach, source_of, table_rule};
use crate::curated::{self, Row};
use crate::facts::HostFacts;
use crate::path::AbsPath;
use crate::pattern::{Anchor, PathRule, Pattern};
use crate::policy::{DenyRule, Rules};
use crate::report::Dropped;
use crate::source::Source;
use crate::surface::{Effect, PROTECTED_ANYWHERE, Role, Rule, Sense};
use crate::template::{TemplateKind, Variables};

impl Cx<'_> {
    /// Every rule that denies or protects.
    pub(super) fn taken_away(&mut self, grants: &[Grant], asked: &reach::Asked) -> Vec<Rule> {
        let mut rules = Vec::new();
        self.escapes(&mut rules, grants);
        self.sensitive(&mut rules, grants, asked);
        self.protected(&mut rules, grants);
        for row in curated::protected::LOCKFILES {
            self.row_rules(&mut rules, row, Effect::Ask, "lockfile", 0);
        }
        let inputs = self.inputs;
        // The files come after the built-in lists, each deny and each protect a list of its own.
        for (list, layer) in (100..).zip(&inputs.layers) {
            if let Some(files) = &layer.file.files {
                self.file_list(&mut rules, &files.deny, Effect::Deny, layer, list);
                self.file_list(&mut rules, &files.protect, Effect::Protect, layer, list);
            }
        }
        rules
    }

    /// Ways out of any fence, and ringfence's own state: an agent that could write it would hold its own keys.
    fn escapes(&mut self, rules: &mut Vec<Rule>, grants: &[Grant]) {
        for row in curated::escape::ESCAPES {
            self.row_rules(rules, row, Effect::Escape, "escape", 0);
        }
        let Some(own) = self.facts.own_directories() else { return };
        for (path, reason) in [(own.state, "ringfence's own state"), (own.cache, "the caches of other projects")] {
            for pattern in self.both_ways(&path) {
                rules.push(table_rule(
                    Effect::Escape,
                    pattern,
                    &path.to_string(),
                    Source::Table { name: "escape", reason },
                    1,
                ));
            }
        }
        for grant in grants.iter().filter(|g| matches!(g.effect, Effect::Write(Role::Scratch | Role::Cache))) {
            let exception = table_rule(Effect::Escape, grant.pattern.clone(), &grant.text, grant.source.clone(), 1);
            rules.push(Rule { sense: Sense::Exception, ..exception });
        }
    }

    /// Secrets, and sockets that carry the authority of another program. What the user names on the command line is readable
    /// by construction, if it is a secret itself or lies inside one; naming a directory above does not open the secrets in it.
    /// A socket is open where the policy names it.
    fn sensitive(&mut self, rules: &mut Vec<Rule>, grants: &[Grant], asked: &reach::Asked) {
        let from = rules.len();
        for row in curated::sensitive::SENSITIVE {
            self.row_rules(rules, row, Effect::Deny, "sensitive", 2);
        }
        for row in curated::sockets::AUTHORITY_SOCKETS {
            self.row_rules(rules, row, Effect::Deny, "authority socket", 2);
        }
        let secrets = covering(rules[from..].iter().map(|rule| &rule.pattern));
        let mut open = |path: &AbsPath, source: Source| {
            if !secrets.hits(path).is_empty() {
                let exception = table_rule(Effect::Deny, Pattern::path(path.clone()), &path.to_string(), source, 2);
                rules.push(Rule { sense: Sense::Exception, ..exception });
            }
        };
        for grant in grants.iter().filter(|g| g.effect == Effect::Read(Role::Reference)) {
            if let Some(path) = grant.pattern.as_path() {
                open(path, grant.source.clone());
            }
        }
        for entry in &asked.sockets {
            open(entry.value(), Source::Default { reason: "a socket that is named" });
        }
    }

    /// Names that make code run later, wherever they are and whether or not they exist.
    fn protected(&mut self, rules: &mut Vec<Rule>, grants: &[Grant]) {
        for row in curated::protected::PROTECTED_ANYWHERE {
            self.row_rules(rules, row, Effect::Protect, "protected", PROTECTED_ANYWHERE);
        }
        // Packages ship such files by the thousand and nobody opens them as projects; refusing them would break installs.
        for row in curated::protected::THIRD_PARTY {
            self.row_rules(rules, row, Effect::ThirdParty, "third-party", 0);
        }
        for row in curated::protected::PROTECTED_HOME {
            self.row_rules(rules, row, Effect::Protect, "protected", 2);
        }
        for row in curated::protected::GIT_DIR {
            // `*.git` is `.git` and also a bare repository.
            let source = Source::Table { name: "protected", reason: row.reason };
            let text = format!("**/*.git/{}", row.pattern);
            self.text_rules(rules, &text, Effect::Protect, &source, 3, &AbsPath::root(), &self.facts.environment);
        }
        for grant in grants {
            let Some(path) = grant.pattern.as_path() else { continue };
            match grant.effect {
                Effect::Write(Role::GitDir) => {
                    for row in curated::protected::GIT_DIR {
                        let source = Source::Table { name: "protected", reason: row.reason };
                        self.text_rules(rules, row.pattern, Effect::Protect, &source, 3, path, &self.facts.environment);
                    }
                }
                Effect::Read(Role::Metadata) => {
                    rules.push(table_rule(
                        Effect::Protect,
                        grant.pattern.clone(),
                        &grant.text,
                        grant.source.clone(),
                        1,
                    ));
                }
                Effect::Write(role) if !role.is_ground() && self.look.git(&path.child(b".git")).is_some() => {
                    let dot_git = path.child(b".git");
                    let source = Source::Table { name: "protected", reason: "names the repository's git directory" };
                    rules.push(table_rule(
                        Effect::Protect,
                        Pattern::path(dot_git.clone()),
                        &dot_git.to_string(),
                        source,
                        1,
                    ));
                }
                _ => {}
            }
        }
        let inputs = self.inputs;
        for layer in &inputs.layers {
            let source = Source::Table { name: "protected", reason: "the policy itself" };
            let text = layer.path.to_string();
            rules.push(table_rule(Effect::Protect, Pattern::path(layer.path.clone()), &text, source, 1));
        }
        if let Some(own) = self.facts.own_directories() {
            for pattern in self.both_ways(&own.config) {
                let source = Source::Table { name: "protected", reason: "ringfence's own configuration" };
                rules.push(table_rule(Effect::Protect, pattern, &own.config.to_string(), source, 1));
            }
        }
    }

    /// One row, for every home where it begins with one.
    fn row_rules(&mut self, rules: &mut Vec<Rule>, row: &Row, effect: Effect, table: &'static str, list: u32) {
        let source = Source::Table { name: table, reason: row.reason };
        let facts = self.facts;
        let root = AbsPath::root();
        if !row.pattern.starts_with("~/") && !row.pattern.starts_with("$HOME/") {
            return self.text_rules(rules, row.pattern, effect, &source, list, &root, &facts.environment);
        }
        for home in facts.all_homes() {
            let mut vars = facts.environment.clone();
            vars.insert(b"HOME".to_vec(), home.as_bytes().to_vec());
            self.text_rules(rules, row.pattern, effect, &source, list, &root, &vars);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one call per table; a struct would only rename them")]
    fn text_rules(
        &mut self,
        rules: &mut Vec<Rule>,
        text: &str,
        effect: Effect,
        source: &Source,
        list: u32,
        dir: &AbsPath,
        vars: &Variables,
    ) {
        let Ok(rule) = PathRule::parse(text, TemplateKind::Socket) else { return };
        match self.deny_patterns(&rule, dir, vars) {
            Ok(patterns) => {
                rules.extend(patterns.into_iter().map(|p| table_rule(effect, p, text, source.clone(), list)))
            }
            Err(why) => self.omit(text, source.clone(), why),
        }
    }

    fn file_list(&mut self, rules: &mut Vec<Rule>, list: &Rules<DenyRule>, effect: Effect, layer: &Layer, number: u32) {
        let dir = layer.path.parent().unwrap_or_else(AbsPath::root);
        for rule in list.iter().flatten() {
            let text = rule.value.rule.text();
            match self.deny_patterns(&rule.value.rule, &dir, &self.facts.environment) {
                Ok(patterns) => rules.extend(patterns.into_iter().map(|pattern| Rule {
                    sense: rule.value.sense,
                    ..table_rule(effect, pattern, text, source_of(rule), number)
                })),
                Err(why) => self.omit(text, source_of(rule), why),
            }
        }
    }

    /// A rule that takes away, as written and as it leads.
    fn deny_patterns(&mut self, rule: &PathRule, dir: &AbsPath, vars: &Variables) -> Result<Vec<Pattern>, Dropped> {
        let split = rule.split(vars)?;
        if rule.is_floating() {
            return Ok(vec![Pattern { anchor: Anchor::Floating, rest: split.rest }]);
        }
        let written =
            if split.absolute { split.literal.clone() } else { [dir.as_bytes(), b"/", &split.literal].concat() };
        let written = AbsPath::lexical(&written)?;
        // Links in a circle lead nowhere now, and the path as written must still be closed.
        let leads_to = self.follow(dir, &split.literal).map_or_else(|_| written.clone(), |followed| followed.path);
        let mut bases = vec![leads_to];
        if !bases.contains(&written) {
            bases.push(written);
        }
        Ok(bases.into_iter().map(|base| Pattern { anchor: Anchor::At(base), rest: split.rest.clone() }).collect())
    }

    fn both_ways(&mut self, path: &AbsPath) -> Vec<Pattern> {
        let mut patterns = vec![Pattern::path(path.clone())];
        if let Ok(followed) = self.follow(&AbsPath::root(), path.as_bytes())
            && followed.path != *path
        {
            patterns.push(Pattern::path(followed.path));
        }
        patterns
    }
}

impl HostFacts {
    /// Where the private caches of a project are: its name to recognise it, its path's hash so that no two share one.
    pub fn project_cache(&self, root: &AbsPath) -> Option<AbsPath> {
        use sha2::Digest as _;
        let digest = sha2::Sha256::digest(root.as_bytes());
        let hash: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let name: Vec<u8> = root.file_name().unwrap_or(b"root").iter().copied().take(64).collect();
        let name = [name.as_slice(), b"-", hash.as_bytes()].concat();
        Some(self.own_directories()?.cache.join("projects").child(&name))
    }
}
