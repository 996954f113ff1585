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
