//! Lines of shell and their class, from the tables beside this file.
//!
//! A row is `read-only | LINE` or `mutating FRAGMENT | LINE`, where the fragment stands in the reason or the remedy. `\n`, `\t` and
//! `\xNN` are written out; `\\` is a backslash. Every bypass that was ever found is a row.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod rows;

use ringfence_surface::command::{Class, Git, classify};

use rows::{Expected, Row, rows};

#[track_caller]
fn check(row: &Row) -> Result<(), String> {
    let at = format!("{}:{}: {}", row.file, row.number, row.line.escape_ascii());
    match (&row.expected, classify(&row.line, Git::Quiet)) {
        (Expected::ReadOnly, Class::ReadOnly) => Ok(()),
        (Expected::ReadOnly, Class::Mutating(why)) => Err(format!("{at}\n    is read-only, not: {why}")),
        (Expected::Mutating(_), Class::ReadOnly) => Err(format!("{at}\n    is MUTATING")),
        (Expected::Mutating(fragment), Class::Mutating(why)) => {
            let inside = why.at.start <= why.at.end && why.at.end <= row.line.len();
            let said = why.to_string();
            if !inside || !said.contains(fragment.as_str()) {
                return Err(format!("{at}\n    says {said:?} at {:?}, without {fragment:?}", why.at));
            }
            Ok(())
        }
    }
}

/// K2: a line is read-only only if everything in it is.
#[test]
fn k2_every_line_has_its_class() {
    let rows = rows();
    assert!(rows.len() > 800, "only {} rows", rows.len());
    let wrong: Vec<String> = rows.iter().filter_map(|row| check(row).err()).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

fn is_read_only(line: &str) -> bool {
    classify(line.as_bytes(), Git::Quiet) == Class::ReadOnly
}

/// Ways to put commands together, each with two places.
const FRAMES: &[&str] = &[
    "A; B",
    "A\nB",
    "A && B",
    "A || B",
    "A & B",
    "A | B",
    "A |& B",
    "{ A; B\n}",
    "(A\nB)",
    "if A\nthen B\nfi",
    "if true; then A\nelse B\nfi",
    "while A\ndo B\ndone",
    "for i in a b; do A\nB\ndone",
    "case a in a) A\n;; *) B\nesac",
    "echo $(A\n) \"$(B\n)\"",
    "cat <(A\n) <(B\n)",
    "x=$(A\n) y=(a $(B\n))",
    "cat <<E\n$(A\n)\nE\nB",
    "[ -f $(A\n) ] || B",
    "! A\ntime B",
    "echo ${x:-$(A\n)}; B",
    "echo \"`A`\"; B",
];

/// K2: compound commands are read-only if both of their parts are, whatever they are put together with.
#[test]
fn k2_a_compound_is_what_its_parts_are() {
    let harmless = ["ls", "cat 'a b' | wc -l", "echo $(pwd)", "git log -3", "sed -n 1p x"];
    let harmful = ["rm x", "ls > x", "./x", "sort *", "sed -i p x", "eval ls", "git push", "x() { ls; }", "ls $(rm x)"];
    for frame in FRAMES {
        let is_word = frame.contains("-f $(") || frame.contains('`');
        let with = |a: &str, b: &str| frame.replace('A', "\u{1}").replace('B', b).replace('\u{1}', a);
        for a in harmless {
            for b in harmless {
                let line = with(a, b);
                assert!(is_word || is_read_only(&line), "{line:?}: {:?}", classify(line.as_bytes(), Git::Quiet));
            }
            for b in harmful {
                assert!(!is_read_only(&with(a, b)), "{:?}", with(a, b));
                assert!(!is_read_only(&with(b, a)), "{:?}", with(b, a));
            }
        }
    }
}

/// K2: rows of the tables, one after the other, are read-only if both are.
#[test]
fn k2_lines_one_after_the_other() {
    let rows = rows();
    for (at, first) in rows.iter().enumerate().filter(|(_, row)| !row.line.contains(&b'x')) {
        let second = &rows[(at * 7 + 3) % rows.len()];
        let both = matches!((&first.expected, &second.expected), (Expected::ReadOnly, Expected::ReadOnly));
        let line = [first.line.as_slice(), b"\n", &second.line].concat();
        let class = classify(&line, Git::Quiet);
        assert_eq!(class == Class::ReadOnly, both, "{}: {class:?}", line.escape_ascii());
    }
}

/// Without the fence's settings git must carry its own.
#[test]
fn k2_git_must_be_kept_quiet() {
    let as_it_is = |line: &str| classify(line.as_bytes(), Git::AsItIs);
    let Class::Mutating(why) = as_it_is("git status") else { panic!("git is taken as it is") };
    let remedy = why.remedy.unwrap();
    let before = remedy.strip_prefix("use `").unwrap().strip_suffix(" ...`").unwrap();
    assert_eq!(as_it_is(&format!("{before} status")), Class::ReadOnly);
    assert_eq!(as_it_is("git --version"), Class::ReadOnly);
    assert_eq!(as_it_is("ls"), Class::ReadOnly);
}

/// However long and however deep, an answer comes soon.
#[test]
fn k2_long_and_deep_lines() {
    let deep = |open: &str, close: &str, times: usize| format!("echo {}a{}", open.repeat(times), close.repeat(times));
    for (open, close) in [("$(echo ", ")"), ("${x:-", "}"), ("\"$(echo ", ")\""), ("$((", "))"), ("<(cat ", ")")] {
        assert!(!is_read_only(&deep(open, close, 5000)), "{open}");
    }
    assert!(is_read_only(&deep("$(echo ", ")", 8)));
    for piece in [
        "{",
        "[",
        "\\\\",
        "'a'",
        "\"$x\" ",
        "a ",
        "ls;",
        "ls|",
        "<<E ",
        "x=1 ",
        "*",
        "$((",
        "`",
        "! ",
        "((",
        "[[ a ",
        "x=1;",
        "x=1;$(ls);",
        "y=$x;",
    ] {
        for length in [1000, 60_000] {
            let _ = is_read_only(&format!("echo {}", piece.repeat(length / piece.len())));
            let _ = is_read_only(&piece.repeat(length / piece.len()));
        }
    }
    assert!(is_read_only(&format!("echo {}", "a ".repeat(30_000))));
    assert!(!is_read_only(&format!("echo {}", "a".repeat(1 << 20))));
}
