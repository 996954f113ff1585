//! Whatever is changed, cut or moved is found; whatever is torn is set right and said.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use super::log::append_within;
use super::*;
use crate::walk::os_path;

fn audit() -> (tempfile::TempDir, Audit) {
    let place = tempfile::tempdir().unwrap();
    let state = AbsPath::lexical(place.path().as_os_str().as_bytes()).unwrap().join("state");
    (place, Audit::of(&state))
}

fn event(number: u64) -> Event {
    let what =
        What::Grant { path: Bytes::new(format!("/p/{number}").as_bytes()), access: "read".into(), until_ms: None };
    Event { session: Some(format!("s{}", number % 3)), at_ms: number, what }
}

fn filled(count: u64) -> (tempfile::TempDir, Audit) {
    let (place, audit) = audit();
    for number in 0..count {
        audit.append(&[event(number)], Patience::Start).unwrap();
    }
    (place, audit)
}

impl Audit {
    fn log(&self) -> std::path::PathBuf {
        os_path(&self.dir.join("log.jsonl")).to_owned()
    }

    fn lines(&self) -> Vec<String> {
        fs::read_to_string(self.log()).unwrap().lines().map(str::to_owned).collect()
    }

    fn set(&self, lines: &[String]) {
        fs::write(self.log(), lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    }
}

#[track_caller]
fn finds(audit: &Audit, words: &str) {
    let report = audit.verify(None).unwrap();
    assert!(report.problems.iter().any(|problem| problem.contains(words)), "{words}: {report:?}");
}

#[track_caller]
fn is_whole(audit: &Audit, lines: u64) -> Report {
    let report = audit.verify(None).unwrap();
    assert_eq!((report.problems.as_slice(), report.lines), ([].as_slice(), lines));
    report
}

#[test]
fn a11_a_chain_is_whole_and_can_be_asked() {
    let (_place, audit) = filled(10);
    is_whole(&audit, 10);
    let (all, unread) = audit.query(&Query::all()).unwrap();
    assert_eq!((all.len(), unread, &all[3].event, all[3].n), (10, 0, &event(3), 4));
    let of = |query: Query| audit.query(&query).unwrap().0.iter().map(|one| one.n).collect::<Vec<_>>();
    assert_eq!(of(Query { session: Some("s1".into()), ..Query::all() }), [2, 5, 8]);
    assert_eq!(of(Query { since_ms: Some(8), ..Query::all() }), [9, 10]);
    let path = AbsPath::lexical(b"/p/7").ok();
    assert_eq!(of(Query { path, ..Query::all() }), [8]);
    let path = AbsPath::lexical(b"/p").ok();
    assert_eq!(of(Query { path, ..Query::all() }).len(), 10);
}

#[test]
fn a11_every_change_is_found() {
    let (_place, audit) = filled(10);
    let lines = audit.lines();
    for at in 0..10 {
        let mut changed = lines.clone();
        changed[at] = changed[at].replace("read", "reae");
        audit.set(&changed);
        assert!(!audit.verify(None).unwrap().problems.is_empty(), "line {at} was changed");
        let mut cut = lines.clone();
        cut.remove(at);
        audit.set(&cut);
        assert!(!audit.verify(None).unwrap().problems.is_empty(), "line {at} was cut");
        let mut twice = lines.clone();
        twice.insert(at, lines[at].clone());
        audit.set(&twice);
        assert!(!audit.verify(None).unwrap().problems.is_empty(), "line {at} was doubled");
        if at > 0 {
            let mut moved = lines.clone();
            moved.swap(at, at - 1);
            audit.set(&moved);
            finds(&audit, "out of order");
        }
    }
    audit.set(&lines);
    is_whole(&audit, 10);
}

#[test]
fn a11_a_cut_at_the_end_is_found_and_stays_found() {
    let (_place, audit) = filled(10);
    let lines = audit.lines();
    audit.set(&lines[..7]);
    finds(&audit, "the lines from 8 to 10 are missing");
    // Whoever writes next goes on, and says so.
    audit.append(&[event(11)], Patience::Start).unwrap();
    finds(&audit, "line 10 was the last, and line 7 is");
    audit.append(&[event(12)], Patience::Start).unwrap();
    finds(&audit, "line 10 was the last, and line 7 is");
    fs::remove_file(audit.log()).unwrap();
    finds(&audit, "are missing at the end");
    let (_place, audit) = filled(3);
    fs::remove_file(os_path(&audit.dir.join("head"))).unwrap();
    finds(&audit, "the head is gone");
    audit.append(&[event(1)], Patience::Start).unwrap();
    finds(&audit, "the head was gone");
    let (_place, audit) = filled(3);
    fs::write(os_path(&audit.dir.join("head")), "{").unwrap();
    finds(&audit, "the head cannot be read");
}

/// Somebody who has the user's rights writes the end anew, head and all: only who remembered a line notices.
#[test]
fn a11_a_line_that_was_known_elsewhere() {
    let (_place, audit) = filled(5);
    let report = is_whole(&audit, 5);
    let known = Known { n: report.n, hash: report.hash };
    audit.append(&[event(6)], Patience::Start).unwrap();
    assert_eq!(audit.verify(Some(&known)).unwrap().problems, Vec::<String>::new());
    let (_place, audit) = filled(4);
    audit.append(&[event(7), event(8)], Patience::Start).unwrap();
    assert!(audit.verify(None).unwrap().problems.is_empty());
    assert!(audit.verify(Some(&known)).unwrap().problems[0].contains("not the one that was known"));
    let known = Known { n: 99, ..known };
    assert!(audit.verify(Some(&known)).unwrap().problems[0].contains("is not there"));
}

#[test]
fn a11_half_a_line_is_set_right_and_said() {
    for length in 1..60 {
        let (_place, audit) = filled(3);
        let torn = &audit.lines()[2].clone()[..length];
        let mut text = fs::read(audit.log()).unwrap();
        text.extend_from_slice(torn.as_bytes());
        fs::write(audit.log(), &text).unwrap();
        let report = audit.verify(None).unwrap();
        assert!(report.problems.is_empty() && report.remarks[0].contains("half a line"), "{report:?}");
        audit.append(&[event(4)], Patience::Start).unwrap();
        let report = is_whole(&audit, 5);
        assert!(report.remarks[0].contains("was set right"), "{report:?}");
        let (all, _) = audit.query(&Query::all()).unwrap();
        let expected = What::Torn { text: Bytes::new(torn.as_bytes()), bytes: length as u64 };
        assert_eq!((all[3].event.what.clone(), all[4].event.clone()), (expected, event(4)));
    }
}

/// The writer was stopped after the lines and before the head.
#[test]
fn a11_lines_beyond_the_head_are_taken_over() {
    let (_place, audit) = filled(3);
    let head = fs::read(os_path(&audit.dir.join("head"))).unwrap();
    audit.append(&[event(4), event(5)], Patience::Start).unwrap();
    fs::write(os_path(&audit.dir.join("head")), &head).unwrap();
    assert!(is_whole(&audit, 5).remarks[0].contains("2 lines follow"));
    audit.append(&[event(6)], Patience::Start).unwrap();
    assert!(is_whole(&audit, 6).remarks.is_empty());
    // What does not follow is not taken over in silence.
    fs::write(os_path(&audit.dir.join("head")), &head).unwrap();
    let mut lines = audit.lines();
    lines.swap(3, 4);
    audit.set(&lines);
    audit.append(&[event(7)], Patience::Start).unwrap();
    finds(&audit, "others stand there");
}

#[test]
fn a11_parts_are_put_away_and_the_oldest_removed_by_right() {
    let (_place, audit) = audit();
    let append = |number| append_within(&audit.dir, &[event(number)], Duration::from_secs(1), 600).unwrap();
    for number in 0..100 {
        append(number);
    }
    let report = is_whole(&audit, audit.query(&Query::all()).unwrap().0.len() as u64);
    let parts = log::parts(&audit.dir).unwrap();
    assert!(parts.len() == 16 && report.n > report.lines, "{} {report:?}", parts.len());
    // One more than by right.
    fs::remove_file(os_path(&parts[0])).unwrap();
    finds(&audit, "nothing says that they were removed by right");
    let (_place, audit) = filled(1);
    for number in 0..6 {
        append_within(&audit.dir, &[event(number)], Duration::from_secs(1), 400).unwrap();
    }
    let parts = log::parts(&audit.dir).unwrap();
    fs::remove_file(os_path(&parts[1])).unwrap();
    finds(&audit, "lines are missing");
}

/// The writer was stopped between putting a part away and saying so.
#[test]
fn a11_a_stop_while_a_part_is_put_away() {
    let (_place, audit) = filled(3);
    fs::rename(audit.log(), os_path(&audit.dir.join("log-000000000003.jsonl"))).unwrap();
    is_whole(&audit, 3);
    audit.append(&[event(4)], Patience::Start).unwrap();
    assert!(is_whole(&audit, 4).remarks.is_empty());
}

#[test]
fn a11_many_write_at_once() {
    let (_place, audit) = audit();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let audit = &audit;
            scope.spawn(move || {
                for number in 0..50 {
                    audit.append(&[event(writer * 50 + number), event(number)], Patience::Start).unwrap();
                }
            });
        }
    });
    is_whole(&audit, 800);
    // Each batch stands together.
    let (all, _) = audit.query(&Query::all()).unwrap();
    assert!(all.chunks(2).all(|pair| pair[0].event.at_ms % 50 == pair[1].event.at_ms));
}

#[test]
fn a11_nobody_else_can_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_place, audit) = filled(1);
    let mode = |path: &AbsPath| fs::metadata(os_path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&audit.dir), mode(&audit.dir.join("log.jsonl")), mode(&audit.dir.join("head"))),
        (0o700, 0o600, 0o600)
    );
}

/// Somebody who holds the lock for ever keeps a running session waiting for a moment only.
#[test]
fn a11_a_lock_that_is_never_let_go_of() {
    let (_place, audit) = filled(1);
    let held = log::lock(&audit.dir, Duration::from_secs(1)).unwrap();
    let before = std::time::Instant::now();
    let refused = audit.append(&[event(2)], Patience::Running).unwrap_err();
    assert!(refused.kind() == io::ErrorKind::WouldBlock && before.elapsed() < Patience::Start.time());
    drop(held);
    audit.append(&[event(2)], Patience::Running).unwrap();
    is_whole(&audit, 2);
}
