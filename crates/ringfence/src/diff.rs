//! What changed between two texts, line by line.

use ringfence_surface::Shown;

/// More lines than this are counted only.
pub(crate) const MOST_LINES: usize = 200;
/// More of a line than this is not shown.
const MOST_WIDTH: usize = 160;
/// Above this many pairs of lines, what is between the first and the last difference is shown as one.
const MOST_PAIRS: usize = 4_000_000;

/// One line of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change<'t> {
    Removed(&'t str),
    Added(&'t str),
}

/// The lines that are gone (`-`) and those that are new (`+`), safe for a terminal, and how many more there are.
pub(crate) fn changes(old: &str, new: &str) -> Vec<String> {
    let changes = compare(&lines(old), &lines(new));
    let mut shown: Vec<String> = changes.iter().take(MOST_LINES).map(Change::shown).collect();
    if changes.len() > shown.len() {
        shown.push(format!("  and {} more lines", changes.len() - shown.len()));
    }
    shown
}

/// A change as `patch` takes it: three lines around each difference, and the names. Nothing of it moves a cursor but its own line
/// ends.
#[cfg(target_os = "linux")]
pub(crate) fn unified(old: Option<&str>, new: Option<&str>, name: &str) -> String {
    const AROUND: usize = 3;
    let (before, after) = (lines(old.unwrap_or_default()), lines(new.unwrap_or_default()));
    let all = merged(&before, &after);
    let is_change = |at: usize| all.get(at).is_some_and(|(mark, _)| *mark != ' ');
    let near = |at: usize| (at.saturating_sub(AROUND)..=at + AROUND).any(is_change);
    let side = |text: Option<&str>| if text.is_some() { name } else { "/dev/null" };
    let mut text = format!("--- {}\n+++ {}\n", side(old), side(new));
    let (mut at, mut old_line, mut new_line) = (0, 1, 1);
    while at < all.len() {
        let end = (at..all.len()).find(|at| !near(*at)).unwrap_or(all.len());
        let hunk = &all[at..end];
        let count = |mark: char| hunk.iter().filter(|(m, _)| *m == mark || *m == ' ').count();
        let (removed, added) = (count('-'), count('+'));
        if !hunk.is_empty() {
            let start = |line: usize, count: usize| if count == 0 { line - 1 } else { line };
            text += &format!("@@ -{},{removed} +{},{added} @@\n", start(old_line, removed), start(new_line, added));
            for (mark, line) in hunk {
                // Tabs stay, so that it can be applied.
                let parts = line.trim_end_matches('\n').split('\t').map(|part| Shown(part.as_bytes()).to_string());
                text += &format!("{mark}{}\n", parts.collect::<Vec<_>>().join("\t"));
                if !line.ends_with('\n') {
                    text += "\\ No newline at end of file\n";
                }
            }
        }
        (old_line, new_line, at) = (old_line + removed, new_line + added, end);
        while at < all.len() && !near(at) {
            (old_line, new_line, at) = (old_line + 1, new_line + 1, at + 1);
        }
    }
    text
}

/// All lines of both, each with what became of it.
#[cfg(target_os = "linux")]
fn merged<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(char, &'t str)> {
    let mut all = Vec::with_capacity(old.len() + new.len());
    let (mut a, mut b) = (0, 0);
    for change in compare(old, new) {
        // What stands before a change stands in both.
        let is_next = |a: usize, b: usize| match change {
            Change::Removed(line) => old.get(a).is_some_and(|next| std::ptr::eq(*next, line)),
            Change::Added(line) => new.get(b).is_some_and(|next| std::ptr::eq(*next, line)),
        };
        while !is_next(a, b) && a < old.len() && b < new.len() {
            all.push((' ', old[a]));
            (a, b) = (a + 1, b + 1);
        }
        match change {
            Change::Removed(line) => {
                all.push(('-', line));
                a += 1;
            }
            Change::Added(line) => {
                all.push(('+', line));
                b += 1;
            }
        }
    }
    all.extend(old[a..].iter().map(|line| (' ', *line)));
    all
}

/// Split at line ends only: a carriage return that was added is a change.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

impl Change<'_> {
    fn shown(&self) -> String {
        let (mark, line) = match self {
            Self::Removed(line) => ('-', line),
            Self::Added(line) => ('+', line),
        };
        let line = line.strip_suffix('\n').unwrap_or(line);
        let mut cut: String = line.chars().take(MOST_WIDTH).collect();
        let rest = if cut.len() < line.len() { "..." } else { "" };
        cut = Shown(cut.as_bytes()).to_string();
        format!("{mark} {cut}{rest}")
    }
}

fn compare<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<Change<'t>> {
    let front = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[front..], &new[front..]);
    let back = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[..old.len() - back], &new[..new.len() - back]);
    if old.len().saturating_mul(new.len()) > MOST_PAIRS {
        let removed = old.iter().copied().map(Change::Removed);
        return removed.chain(new.iter().copied().map(Change::Added)).collect();
    }
    walk(old, new, &common(old, new))
}

/// How many lines the ends of both texts have in common: `table[a][b]` for `old[a..]` and `new[b..]`.
fn common(old: &[&str], new: &[&str]) -> Vec<Vec<u32>> {
    let mut table = vec![vec![0; new.len() + 1]; old.len() + 1];
    for a in (0..old.len()).rev() {
        for b in (0..new.len()).rev() {
            table[a][b] = if old[a] == new[b] { table[a + 1][b + 1] + 1 } else { table[a + 1][b].max(table[a][b + 1]) };
        }
    }
    table
}

fn walk<'t>(old: &[&'t str], new: &[&'t str], common: &[Vec<u32>]) -> Vec<Change<'t>> {
    let mut changes = Vec::new();
    let (mut a, mut b) = (0, 0);
    while a < old.len() || b < new.len() {
        if a < old.len() && b < new.len() && old[a] == new[b] {
            (a, b) = (a + 1, b + 1);
        } else if b == new.len() || (a < old.len() && common[a + 1][b] >= common[a][b + 1]) {
            changes.push(Change::Removed(old[a]));
            a += 1;
        } else {
            changes.push(Change::Added(new[b]));
            b += 1;
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, expected: &[&str]) {
        assert_eq!(changes(old, new), expected, "{old:?} {new:?}");
    }

    #[test]
    fn lines_gone_and_new() {
        check("", "", &[]);
        check("a\nb\n", "a\nb\n", &[]);
        check("a\nb\nc\n", "a\nx\nc\n", &["- b", "+ x"]);
        check("a\nc\n", "a\nb\nc\n", &["+ b"]);
        check("a\nb\nc\n", "a\nc\n", &["- b"]);
        check("", "a\nb\n", &["+ a", "+ b"]);
        check("a\nb\nc\nd\n", "b\nx\nd\ne\n", &["- a", "- c", "+ x", "+ e"]);
        check("a\na\n", "a\n", &["- a"]);
        check("a", "a\n", &["- a", "+ a"]);
        check("a\n", "a\r\n", &["- a", "+ a\\r"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_change_as_patch_takes_it() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
        let new = old.replace("2\n3", "2\nx\n3").replace("11\n", "");
        let expected =
            "--- p\n+++ p\n@@ -1,5 +1,6 @@\n 1\n 2\n+x\n 3\n 4\n 5\n@@ -8,5 +9,4 @@\n 8\n 9\n 10\n-11\n 12\n";
        assert_eq!(unified(Some(old), Some(&new), "p"), expected);
        assert_eq!(unified(None, Some("a\nb\n"), "p"), "--- /dev/null\n+++ p\n@@ -0,0 +1,2 @@\n+a\n+b\n");
        let end = "--- p\n+++ p\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n";
        assert_eq!(unified(Some("a"), Some("a\n"), "p"), end);
        assert_eq!(unified(Some("a\n"), Some("\ta\u{1b}\n"), "p"), "--- p\n+++ p\n@@ -1,1 +1,1 @@\n-a\n+\ta\\u{1b}\n");
    }

    #[test]
    fn nothing_of_it_moves_the_cursor() {
        check("", "\u{1b}[2Jx\n", &["+ \\u{1b}[2Jx"]);
    }

    #[test]
    fn it_has_an_end() {
        let many: String = (0..5_000).map(|n| format!("line {n}\n")).collect();
        let found = changes("", &many);
        assert_eq!((found.len(), found[200].as_str()), (201, "  and 4800 more lines"));
        let others: String = (0..5_000).map(|n| format!("other {n}\n")).collect();
        assert_eq!(changes(&many, &others).len(), 201);
        assert!(changes("", &"x".repeat(1_000_000))[0].len() < 200);
    }

    /// Every text of up to five lines of two kinds, against every other.
    #[test]
    fn what_is_gone_and_what_is_new_account_for_the_whole() {
        let texts: Vec<Vec<&str>> = (0..6_u32)
            .flat_map(|length| (0..1_u32 << length).map(move |bits| (length, bits)))
            .map(|(length, bits)| (0..length).map(|at| if bits >> at & 1 == 0 { "a" } else { "b" }).collect())
            .collect();
        for (old, new) in texts.iter().flat_map(|old| texts.iter().map(move |new| (old, new))) {
            let changes = compare(old, new);
            let removed = changes.iter().filter(|change| matches!(change, Change::Removed(_))).count();
            let kept = (old.len() - removed, new.len() - (changes.len() - removed));
            assert_eq!(kept.0, kept.1, "{old:?} {new:?} {changes:?}");
            assert_eq!(changes.is_empty(), old == new, "{old:?} {new:?}");
        }
    }
}
