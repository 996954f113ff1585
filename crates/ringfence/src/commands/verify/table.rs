//! What was found, rule by rule and layer by layer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ringfence_plan::Claim;
use ringfence_plan::verify::{Came, Expected, Judged, Moved, Said, Subject, Trial, judge};
use ringfence_surface::{Effect, Rule, Sense, Shown, Source, Surface};
use serde::Serialize;

use crate::wire::SCHEMA;

/// How one rule fared in one layer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Cell {
    holds: usize,
    does_not: usize,
    /// How much of what the rule itself says, about what exists, is not carried.
    lacks: usize,
    /// Why some of it is not carried.
    not_carried: BTreeMap<String, usize>,
}

impl Cell {
    fn add(&mut self, other: &Self) {
        self.holds += other.holds;
        self.does_not += other.does_not;
        self.lacks += other.lacks;
        for (reason, count) in &other.not_carried {
            *self.not_carried.entry(reason.clone()).or_insert(0) += count;
        }
    }

    fn word(&self) -> &'static str {
        match (self.does_not, self.lacks, self.holds, self.not_carried.is_empty()) {
            (1.., ..) => "does not",
            (0, 1.., ..) | (0, 0, 0, false) => "not carried",
            (0, 0, 1.., _) => "holds",
            (0, 0, 0, true) => "-",
        }
    }
}

/// Something that did not come out as it must.
#[derive(Debug, Clone, Serialize)]
struct Mismatch {
    layer: &'static str,
    rule: String,
    edge: &'static str,
    tried: String,
    must: &'static str,
    came: String,
}

/// One layer.
pub(super) struct Column {
    name: &'static str,
    cells: BTreeMap<Subject, Cell>,
    mismatches: Vec<(Subject, Mismatch)>,
    /// Why this host does not have it.
    missing: Option<String>,
    took: Duration,
}

impl Column {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, cells: BTreeMap::new(), mismatches: Vec::new(), missing: None, took: Duration::ZERO }
    }

    /// With the time that trying took.
    pub(super) fn in_time(self, took: Duration) -> Self {
        Self { took, ..self }
    }

    /// A layer that this host does not have.
    pub(super) fn missing(name: &'static str, cause: &dyn std::error::Error) -> Self {
        let mut said = cause.to_string();
        let mut next = cause.source();
        while let Some(cause) = next {
            said = format!("{said}: {cause}");
            next = cause.source();
        }
        Self { missing: Some(said), ..Self::new(name) }
    }

    /// Adds what came of one start.
    pub(super) fn add<'t>(
        &mut self,
        trials: impl IntoIterator<Item = &'t Trial>,
        came: &[Came],
        said: &Said,
        moved: &Moved,
    ) {
        let place = moved.path(&ringfence_surface::AbsPath::root()).to_string();
        for (trial, came) in trials.into_iter().zip(came) {
            let cell = self.cells.entry(trial.subject).or_default();
            match judge(&trial.expected, *came, said) {
                Judged::Holds => cell.holds += 1,
                Judged::NotCarried(reason) => {
                    cell.lacks += usize::from(is_the_rules_own(trial));
                    *cell.not_carried.entry(reason.replace(&place, "")).or_insert(0) += 1;
                }
                Judged::Open => {}
                Judged::DoesNot => {
                    cell.does_not += 1;
                    let must = match &trial.expected {
                        Expected::Refused { .. } => "be refused",
                        Expected::Allowed { .. } | Expected::Open => "be done",
                    };
                    let mismatch = Mismatch {
                        layer: self.name,
                        rule: String::new(),
                        edge: trial.edge.words(),
                        tried: trial.deed.to_string().replace(&place, ""),
                        must,
                        came: came.to_string(),
                    };
                    self.mismatches.push((trial.subject, mismatch));
                }
            }
        }
    }
}

/// Is it what the rule itself says: that what exists there is not read or written? What a layer lacks of other kinds is told in
/// its notes.
fn is_the_rules_own(trial: &Trial) -> bool {
    let is_own = |claim: &Claim| matches!(claim, Claim::Denied { .. } | Claim::Protected { .. });
    matches!(&trial.expected, Expected::Refused { claims, .. } if claims.first().is_some_and(is_own))
}

/// Everything.
pub(super) struct Table<'s> {
    surface: &'s Surface,
    columns: Vec<Column>,
    took: Duration,
}

#[derive(Debug, Serialize)]
pub(super) struct WireTable {
    schema: u32,
    ok: bool,
    seconds: f64,
    layers: Vec<WireLayer>,
    rules: Vec<WireRow>,
    mismatches: Vec<Mismatch>,
}

#[derive(Debug, Serialize)]
struct WireLayer {
    name: &'static str,
    available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    tried: usize,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct WireRow {
    rule: String,
    source: String,
    written: bool,
    layers: Vec<WireCell>,
}

#[derive(Debug, Serialize)]
struct WireCell {
    layer: &'static str,
    result: &'static str,
    held: usize,
    failed: usize,
    not_carried: Vec<String>,
}

/// A line of the table: a rule, or several that ringfence brings along.
struct Row {
    name: String,
    source: String,
    is_written: bool,
    subjects: Vec<Subject>,
}

impl<'s> Table<'s> {
    pub(super) fn new(surface: &'s Surface, columns: Vec<Column>, took: Duration) -> Self {
        Self { surface, columns, took }
    }

    /// Does every layer do what it claims?
    pub(super) fn holds(&self) -> bool {
        self.columns.iter().all(|column| column.mismatches.is_empty())
    }

    fn mismatches(&self) -> Vec<Mismatch> {
        let all = self.columns.iter().flat_map(|column| &column.mismatches);
        all.map(|(subject, one)| Mismatch { rule: self.name(*subject), ..one.clone() }).collect()
    }

    fn name(&self, subject: Subject) -> String {
        match subject {
            Subject::Rule(number) => self.surface.rules().get(number).map(said).unwrap_or_default(),
            Subject::Elsewhere => "everything else".to_owned(),
            Subject::Network => "the network".to_owned(),
            Subject::Sockets => "sockets of the host".to_owned(),
            Subject::Processes => "processes of the host".to_owned(),
        }
    }

    /// Every rule that was tried in any layer.
    fn rows(&self, all: bool) -> Vec<Row> {
        let subjects: BTreeSet<Subject> = self.columns.iter().flat_map(|column| column.cells.keys().copied()).collect();
        let mut rows: Vec<Row> = Vec::new();
        let mut groups: BTreeMap<(u8, String), Row> = BTreeMap::new();
        for subject in subjects {
            let one = |source: String, is_written| Row {
                name: self.name(subject),
                source,
                is_written,
                subjects: vec![subject],
            };
            match subject {
                Subject::Rule(number) => {
                    let Some(rule) = self.surface.rules().get(number) else { continue };
                    if rule.source.is_written() || all {
                        rows.push(one(rule.source.to_string(), rule.source.is_written()));
                        continue;
                    }
                    let (order, name) = group(rule);
                    let row = groups.entry((order, name.clone())).or_insert_with(|| Row {
                        name,
                        source: "built-in".to_owned(),
                        is_written: false,
                        subjects: Vec::new(),
                    });
                    row.subjects.push(subject);
                }
                _ => rows.push(one("built-in".to_owned(), false)),
            }
        }
        rows.sort_by_key(|row| !row.is_written);
        let groups = groups
            .into_values()
            .map(|row| Row { name: format!("{} ({})", row.name, rules(row.subjects.len())), ..row });
        rows.extend(groups);
        rows
    }

    fn cell(row: &Row, column: &Column) -> Cell {
        let mut cell = Cell::default();
        row.subjects.iter().filter_map(|subject| column.cells.get(subject)).for_each(|one| cell.add(one));
        cell
    }

    pub(super) fn wire(&self) -> WireTable {
        let layers = self.columns.iter().map(|column| WireLayer {
            name: column.name,
            available: column.missing.is_none(),
            reason: column.missing.clone(),
            tried: column.cells.values().map(|cell| cell.holds + cell.does_not).sum(),
            seconds: seconds(column.took),
        });
        let tried: Vec<&Column> = self.columns.iter().filter(|column| column.missing.is_none()).collect();
        let rows = self.rows(true).into_iter().map(|row| {
            let cells = tried.iter().map(|column| {
                let cell = Self::cell(&row, column);
                let not_carried = cell.not_carried.keys().cloned().collect();
                let (result, held, failed) = (cell.word(), cell.holds, cell.does_not);
                WireCell { layer: column.name, result, held, failed, not_carried }
            });
            WireRow { layers: cells.collect(), rule: row.name, source: row.source, written: row.is_written }
        });
        WireTable {
            schema: SCHEMA,
            ok: self.holds(),
            seconds: seconds(self.took),
            layers: layers.collect(),
            rules: rows.collect(),
            mismatches: self.mismatches(),
        }
    }

    pub(super) fn to_text(&self, all: bool) -> String {
        let tried: Vec<&Column> = self.columns.iter().filter(|column| column.missing.is_none()).collect();
        let rows = self.rows(all);
        let mut notes: Vec<String> = Vec::new();
        let mut lines: Vec<Vec<String>> =
            vec![std::iter::once("rule".to_owned()).chain(tried.iter().map(|column| column.name.to_owned())).collect()];
        for row in &rows {
            let mut line = vec![row.name.clone()];
            for column in &tried {
                let cell = Self::cell(row, column);
                let mut text = cell.word().to_owned();
                let numbers: Vec<String> = cell.not_carried.keys().map(|reason| note(&mut notes, reason)).collect();
                if !numbers.is_empty() {
                    text = format!("{text} [{}]", numbers.join(","));
                }
                line.push(text);
            }
            lines.push(line);
        }
        let mut text = columns(&lines);
        for (number, reason) in notes.iter().enumerate() {
            text += &format!("\n[{}] not carried: {}", number + 1, Shown(reason.as_bytes()));
        }
        if !notes.is_empty() {
            text.push('\n');
        }
        for column in self.columns.iter().filter(|column| column.missing.is_some()) {
            let reason = column.missing.as_deref().unwrap_or_default();
            text += &format!("\n{} cannot be had on this host: {}\n", column.name, Shown(reason.as_bytes()));
        }
        text + &self.end()
    }

    /// What is wrong, and how much was tried.
    fn end(&self) -> String {
        let mismatches = self.mismatches();
        let mut text = String::new();
        for one in mismatches.iter().take(MOST) {
            text += &format!(
                "\nDOES NOT HOLD [{}] {}, {}: {}\n    must {}; {}\n",
                one.layer, one.rule, one.edge, one.tried, one.must, one.came
            );
        }
        if mismatches.len() > MOST {
            text += &format!("\nand {} more (--json shows them all)\n", mismatches.len() - MOST);
        }
        let count: usize = self.columns.iter().flat_map(|column| column.cells.values()).map(|c| c.holds).sum();
        let verdict = match mismatches.len() {
            0 => "every layer does what it claims".to_owned(),
            1 => "1 trial came out otherwise than it must".to_owned(),
            more => format!("{more} trials came out otherwise than they must"),
        };
        text + &format!("\n{verdict}; {count} came out as they must, in {:.1} s\n", self.took.as_secs_f64())
    }
}

/// As it is shown: to a tenth.
fn seconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 10.0).round() / 10.0
}

/// More are seldom read.
const MOST: usize = 20;

/// The number of a note.
fn note(notes: &mut Vec<String>, reason: &str) -> String {
    let at = notes.iter().position(|known| known == reason).unwrap_or_else(|| {
        notes.push(reason.to_owned());
        notes.len() - 1
    });
    (at + 1).to_string()
}

fn columns(lines: &[Vec<String>]) -> String {
    let count = lines.first().map_or(0, Vec::len);
    let width = |at: usize| lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..count).map(|at| width(at).unwrap_or(0)).collect();
    let line = |line: &Vec<String>| {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    lines.iter().map(line).collect()
}

fn said(rule: &Rule) -> String {
    format!("{rule} ({})", rule.source)
}

/// What a rule that ringfence brings along belongs to.
fn group(rule: &Rule) -> (u8, String) {
    let (order, word) = match rule.effect {
        Effect::Escape => (0, "deny, in every policy"),
        Effect::Deny => (1, "deny"),
        Effect::Protect => (2, "protect"),
        Effect::Write(_) => (3, "write"),
        _ => (4, "read"),
    };
    let of = match &rule.source {
        Source::Table { name, .. } => format!("built-in {name} set"),
        Source::Pack { name, .. } => format!("pack {name}"),
        Source::Default { .. } => "default".to_owned(),
        _ => "this host".to_owned(),
    };
    let exception = if rule.sense == Sense::Exception { ", exceptions" } else { "" };
    (order, format!("{word}{exception}: {of}"))
}

fn rules(count: usize) -> String {
    if count == 1 { "1 rule".to_owned() } else { format!("{count} rules") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ringfence_plan::verify::{Deed, Edge, One};
    use ringfence_surface::policy::PolicyFile;
    use ringfence_surface::text::PolicyText;
    use ringfence_surface::{
        AbsPath, GitFact, HostFacts, Inputs, Layer, Level, Look, PathFact, Request, Trust, Via, resolve,
    };

    use super::*;

    /// A host that has a project and nothing else.
    struct Project;

    impl Look for Project {
        fn path(&mut self, path: &AbsPath) -> PathFact {
            if abs("/home/u/p").is_within(path) { PathFact::Directory } else { PathFact::Missing }
        }

        fn git(&mut self, _: &AbsPath) -> Option<GitFact> {
            None
        }

        fn git_runs(&mut self, _: &AbsPath, _: &AbsPath) -> Vec<ringfence_surface::GitRun> {
            Vec::new()
        }
    }

    fn abs(text: &str) -> AbsPath {
        AbsPath::lexical(text.as_bytes()).expect("a path")
    }

    fn facts() -> HostFacts {
        HostFacts {
            environment: [(b"HOME".to_vec(), b"/home/u".to_vec())].into(),
            cwd: abs("/home/u/p"),
            homes: Vec::new(),
            paths: BTreeMap::new(),
            git: BTreeMap::new(),
            git_runs: BTreeMap::new(),
            mounts: Vec::new(),
            kernel: "unknown".into(),
            session: Some(abs("/s")),
        }
    }

    fn surface() -> Surface {
        let path = abs("/home/u/p/ringfence.toml");
        let text = PolicyText::new(path.as_bytes(), b"version = 1\n".to_vec()).expect("text");
        let file = PolicyFile::parse(&text).expect("a policy");
        let request = Request {
            persona: None,
            task: None,
            agent: None,
            references: Vec::new(),
            env: Vec::new(),
            writes: Vec::new(),
            worktree: None,
        };
        let layer = Layer { level: Level::Project(Trust::Trusted), via: Via::Itself, file, text, path };
        resolve(&Inputs { layers: vec![layer], request }, &facts(), &mut Project).expect("a surface").surface
    }

    /// What came of one deed that must be refused, as a table.
    fn table(surface: &Surface, came: Came) -> Table<'_> {
        let moved = Moved::new(surface, &facts(), abs("/copy"), (abs("/s"), abs("/t")));
        let claims = vec![Claim::NothingElseIsReadable];
        let trial = Trial {
            subject: Subject::Elsewhere,
            edge: Edge::Itself,
            deed: Deed::One(One::Read, abs("/copy/srv/x")),
            expected: Expected::Refused { claims, unless: Vec::new() },
        };
        let said = Said { short: Vec::new(), less: Vec::new(), hidden: Vec::new(), unwritable: None };
        let mut column = Column::new("native");
        column.add([&trial], &[came], &said, &moved);
        Table::new(surface, vec![column], Duration::from_millis(1240))
    }

    /// The exit code is 1 exactly where something did not come out as it must.
    #[test]
    fn g2_a_mismatch_is_shown_and_fails() {
        let surface = surface();
        let well = table(&surface, Came::Refused(13));
        assert!(well.holds() && well.to_text(false).contains("claims; 1 came out as they must, in 1.2 s"));
        let wrong = table(&surface, Came::Done);
        let text = wrong.to_text(false);
        assert!(!wrong.holds());
        assert!(text.contains("DOES NOT HOLD [native] everything else, itself: read /srv/x"), "{text}");
        assert!(text.contains("must be refused; done") && text.contains("1 trial came out otherwise"), "{text}");
        let json = serde_json::to_value(wrong.wire()).expect("JSON");
        assert_eq!((&json["ok"], json["mismatches"][0]["tried"].as_str()), (&false.into(), Some("read /srv/x")));
    }
}
