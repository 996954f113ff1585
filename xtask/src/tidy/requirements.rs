//! `docs/requirements.md` lists every requirement once, and what it calls held is shown by tests that exist.
//!
//! A row is `| id | what | state | shown by |`. The state is `held`, `part` or `open`. A held or partly held requirement
//! names its tests as `` `path/to/file.rs::test_name` ``; each of them carries the id in its name (`g7_...`) or in the comment
//! above it. An open one names nothing.

use std::ops::RangeInclusive;

use super::Complaint;
use super::rust_text::{RustText, is_name, names};
use super::tree::File;

const PAGE: &str = "docs/requirements.md";

/// The ids: a letter and its numbers.
const IDS: &[(char, RangeInclusive<u8>)] = &[('G', 1..=12), ('K', 1..=17), ('M', 1..=8), ('A', 1..=16), ('T', 1..=10)];

/// What the last cell of an open requirement holds.
const NOTHING: &str = "—";

/// A row of the page.
struct Row<'a> {
    line: usize,
    id: &'a str,
    what: &'a str,
    state: &'a str,
    shown_by: &'a str,
}

pub(super) fn check(files: &[File]) -> Vec<Complaint> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return vec![Complaint::new(PAGE, 0, "missing")];
    };
    let known: Vec<String> =
        IDS.iter().flat_map(|(letter, numbers)| numbers.clone().map(move |n| format!("{letter}{n}"))).collect();
    let mut complaints = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        let mut complain = |what: String| complaints.push(Complaint::new(PAGE, index + 1, what));
        match row(index + 1, line) {
            None => {}
            Some(Err(what)) => complain(what),
            Some(Ok(row)) if !known.iter().any(|id| id == row.id) => {
                complain(format!("`{}` is no requirement", row.id))
            }
            Some(Ok(row)) if seen.contains(&row.id) => complain(format!("{} has a row already", row.id)),
            Some(Ok(row)) => {
                seen.push(row.id);
                complaints.extend(check_row(&row, files));
            }
        }
    }
    let absent = known.iter().filter(|id| !seen.contains(&id.as_str()));
    complaints.extend(absent.map(|id| Complaint::new(PAGE, 0, format!("{id} has no row"))));
    complaints
}

/// Reads a line of a table; nothing when the line is none, or the table's head or rule.
fn row(line: usize, text: &str) -> Option<Result<Row<'_>, String>> {
    let cells = text.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
    match cells[..] {
        ["id", ..] => None,
        [first, ..] if first.starts_with("---") => None,
        [id, what, state, shown_by] => Some(Ok(Row { line, id, what, state, shown_by })),
        _ => Some(Err(format!("a row has four cells, not {}", cells.len()))),
    }
}

fn check_row(row: &Row<'_>, files: &[File]) -> Vec<Complaint> {
    let complain = |what: String| Complaint::new(PAGE, row.line, what);
    let mut complaints = Vec::new();
    if row.what.is_empty() {
        complaints.push(complain(format!("{} does not say what", row.id)));
    }
    match row.state {
        "open" if row.shown_by != NOTHING => {
            complaints.push(complain(format!("{} is open, so its last cell is `{NOTHING}`", row.id)));
        }
        "open" => {}
        "held" | "part" => complaints.extend(check_tests(row, files).into_iter().map(complain)),
        other => complaints.push(complain(format!("`{other}` is no state: write held, part or open"))),
    }
    complaints
}

fn check_tests(row: &Row<'_>, files: &[File]) -> Vec<String> {
    // Between backticks is every second piece; outside them only commas may stand.
    let pieces: Vec<&str> = row.shown_by.split('`').collect();
    let between_is_plain = pieces.iter().step_by(2).all(|piece| matches!(piece.trim(), "" | ","));
    if pieces.len() < 3 || pieces.len().is_multiple_of(2) || !between_is_plain {
        return vec![format!("{} names its tests as `path/to/file.rs::test_name`, with commas between", row.id)];
    }
    pieces.iter().skip(1).step_by(2).filter_map(|reference| check_test(row.id, reference, files).err()).collect()
}

fn check_test(id: &str, reference: &str, files: &[File]) -> Result<(), String> {
    let (path, name) =
        reference.split_once("::").ok_or_else(|| format!("`{reference}` is not `path/to/file.rs::test_name`"))?;
    let file = files
        .iter()
        .find(|file| file.path == path && file.is_rust())
        .ok_or_else(|| format!("there is no file {path}"))?;
    let comments = test_comments(&file.text, name).ok_or_else(|| format!("{path} has no test `{name}`"))?;
    let in_name = name.split('_').any(|part| part.eq_ignore_ascii_case(id));
    let in_comments = names(&comments, id).next().is_some();
    if in_name || in_comments {
        Ok(())
    } else {
        Err(format!("the test `{name}` carries {id} neither in its name nor in its comment"))
    }
}

/// The comment lines above the test of this name; nothing when the file has no such test.
fn test_comments(text: &str, name: &str) -> Option<String> {
    let split = RustText::new(text);
    let code: Vec<&str> = split.code.lines().collect();
    let comments: Vec<&str> = split.comments.lines().collect();
    let functions = (0..code.len()).filter(|index| declares(code[*index], name));
    for function in functions {
        // Attributes and comments belong to the function up to an empty line or the end of whatever stands before.
        let ends_other = |index: &usize| {
            let code = code[*index].trim();
            let only_comment = code.is_empty() && !comments[*index].trim().is_empty();
            !only_comment && (code.is_empty() || code.ends_with(['}', ';', '{']))
        };
        let first = (0..function).rev().find(ends_other).map_or(0, |index| index + 1);
        let is_test = code[first..=function].iter().any(|line| {
            let squeezed: String = line.split_whitespace().collect();
            squeezed.contains("#[test]") || (squeezed.contains("#[") && squeezed.contains("::test]"))
        });
        if is_test {
            return Some(comments[first..=function].join("\n"));
        }
    }
    None
}

/// Whether the line declares a function of this name.
fn declares(code: &str, name: &str) -> bool {
    names(code, name).any(|at| {
        let before = code[..at].trim_end();
        let is_fn = before.strip_suffix("fn").is_some_and(|rest| !rest.chars().next_back().is_some_and(is_name));
        is_fn && code[at + name.len()..].trim_start().starts_with(['(', '<'])
    })
}

#[cfg(test)]
mod tests {
    use super::super::{expect, file};
    use super::*;

    const TESTS: &str = "\
//! G9 in the head of the file counts for nothing.

#[test]
fn g7_an_unset_variable_drops_the_entry() {}

/// Shows G1
/// and K8.
#[test]
#[expect(
    clippy::too_many_lines,
    reason = \"a table\"
)]
fn the_sets_are_complete() {}

// G2
fn helper() {}

// #[test]
// fn g2_commented_out() {}

proptest! {
    // K10: random pairs.
    #[test]
    fn tighten_never_widens(a in any::<u8>()) {}
}
";

    /// The page with every requirement open, but for `id`, whose row ends so.
    fn page(id: &str, end: &str) -> String {
        let mut page = String::from("# Head\n| id | what | state | shown by |\n| --- | --- | --- | --- |\n");
        for (letter, numbers) in IDS {
            for number in numbers.clone() {
                let this = format!("{letter}{number}");
                let end = if this == id { end } else { "open | —" };
                page.push_str(&format!("| {this} | something | {end} |\n"));
            }
        }
        page
    }

    #[track_caller]
    fn row_is(id: &str, end: &str, complaints: usize) {
        let files = [file(PAGE, &page(id, end)), file("crates/a/src/a.rs", TESTS), file("a.txt", TESTS)];
        let found = check(&files);
        assert_eq!(found.len(), complaints, "{found:#?}");
    }

    #[test]
    fn a_held_requirement_names_a_test_that_carries_its_id() {
        row_is("G7", "held | `crates/a/src/a.rs::g7_an_unset_variable_drops_the_entry`", 0);
        row_is("G1", "part | `crates/a/src/a.rs::the_sets_are_complete`", 0);
        row_is("K8", "held | `crates/a/src/a.rs::the_sets_are_complete`", 0);
        row_is("K10", "held | `crates/a/src/a.rs::tighten_never_widens`", 0);
        // An id is a whole word: G1 is not in a comment that says K10 or G11.
        row_is("K1", "held | `crates/a/src/a.rs::tighten_never_widens`", 1);
        row_is("G9", "held | `crates/a/src/a.rs::g7_an_unset_variable_drops_the_entry`", 1);
    }

    #[test]
    fn a_test_that_does_not_exist_shows_nothing() {
        row_is("G7", "held | `crates/a/src/a.rs::g7_no_such_test`", 1);
        row_is("G7", "held | `crates/a/src/b.rs::g7_an_unset_variable_drops_the_entry`", 1);
        row_is("G7", "held | `a.txt::g7_an_unset_variable_drops_the_entry`", 1);
        row_is("G2", "held | `crates/a/src/a.rs::helper`", 1);
        row_is("G2", "held | `crates/a/src/a.rs::g2_commented_out`", 1);
    }

    #[test]
    fn a_cell_has_its_form() {
        let good = "`crates/a/src/a.rs::g7_an_unset_variable_drops_the_entry`";
        row_is("G7", &format!("held | {good}, {good}"), 0);
        row_is("G7", &format!("held | {good} and {good}"), 1);
        row_is("G7", "held | —", 1);
        row_is("G7", "held | ``", 1);
        row_is("G7", "held | `a_test`", 1);
        row_is("G7", &format!("open | {good}"), 1);
        row_is("G7", &format!("done | {good}"), 1);
        row_is("G7", "open", 2);
    }

    #[test]
    fn every_requirement_has_one_row() {
        expect(check, &[], &[PAGE]);
        let whole = page("", "");
        expect(check, &[file(PAGE, &whole)], &[]);
        let lacking = whole.replace("| K17 | something | open | — |\n", "");
        expect(check, &[file(PAGE, &lacking)], &[PAGE]);
        let last = whole.lines().count() + 1;
        for added in ["| T10 | again | open | — |\n", "| T11 | new | open | — |\n"] {
            expect(check, &[file(PAGE, &format!("{whole}{added}"))], &[&format!("{PAGE}:{last}")]);
        }
    }
}
