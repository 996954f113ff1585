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
    assert!(parts.len() >= 12 && report.n > report.lines, "{} {report:?}", parts.len());
    assert!(report.removed > 0 && report.remarks.iter().any(|remark| remark.contains("were removed")), "{report:?}");
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

/// A denial of a session, with a path of this length.
fn denied(session: &str, number: u64, length: usize) -> Event {
    let path = format!("/p/{number}/{}", "x".repeat(length));
    let attempt = ringfence_egress::Attempt::Socket(AbsPath::lexical(path.as_bytes()).unwrap());
    let refusal = ringfence_egress::Refusal { attempt, why: ringfence_egress::Why::Failed("no".into()) };
    let violation = crate::violations::Violation::of_refusal(refusal, session, "");
    let what = What::Violation(Counted { violation, times: 1 });
    Event { session: Some(session.to_owned()), at_ms: number, what }
}

fn of_kind(session: &str, what: What) -> Event {
    Event { session: Some(session.to_owned()), at_ms: 1, what }
}

fn start(session: &str) -> Event {
    of_kind(session, What::Start { path: Bytes::new(b"/p"), command: Vec::new(), rung: "native".into(), pid: 1 })
}

fn end(session: &str) -> Event {
    of_kind(session, What::End { code: 0, stopped: 0 })
}

/// One session floods the audit, among others that do not: its denials go, and nothing else.
#[test]
fn g1_a_flood_removes_its_own_lines_and_says_so() {
    let (_place, audit) = audit();
    let most = 4_000;
    let append = |event: Event| append_within(&audit.dir, &[event], Duration::from_secs(1), most).unwrap();
    for session in ["quiet", "loud"] {
        append(start(session));
    }
    for number in 0..400 {
        append(denied("loud", number, 200));
        if number % 40 == 0 {
            append(denied("quiet", number, 200));
        }
    }
    for session in ["loud", "quiet"] {
        append(end(session));
    }
    let report = is_whole(&audit, audit.verify(None).unwrap().lines);
    assert!(report.removed > 100 && report.n > report.lines, "{report:?}");
    let said = report.remarks.iter().filter(|remark| remark.contains("of session loud were removed at")).count();
    assert!(said > 0 && report.remarks.iter().all(|remark| !remark.contains("quiet")), "{report:?}");
    let (all, unread) = audit.query(&Query::all()).unwrap();
    let count = |session: &str, is_it: fn(&What) -> bool| {
        all.iter().filter(|one| one.event.session.as_deref() == Some(session) && is_it(&one.event.what)).count()
    };
    assert_eq!(unread, 0);
    for session in ["loud", "quiet"] {
        assert_eq!(count(session, |what| matches!(what, What::Start { .. })), 1, "{session}");
        assert_eq!(count(session, |what| matches!(what, What::End { .. })), 1, "{session}");
    }
    assert_eq!(count("quiet", |what| matches!(what, What::Violation(_))), 10);
    // The numbers go on over what was removed, and so does a follower.
    let mut follow = audit.follow(From::After(0)).unwrap();
    let mut followed = Vec::new();
    loop {
        let more = follow.more().unwrap();
        if more.is_empty() {
            break;
        }
        followed.extend(more);
    }
    assert_eq!(followed.len(), all.len());
    // What is kept stays within its limit.
    let length = |part: &AbsPath| fs::metadata(os_path(part)).unwrap().len();
    assert!(log::parts(&audit.dir).unwrap().iter().map(length).sum::<u64>() <= 16 * most);
}

/// Lines that another program removes in the same way are detected; so is a change of what stands in their place.
#[test]
fn g1_lines_that_nobody_removed_by_right_are_found() {
    let (_place, audit) = audit();
    let append = |event: Event| append_within(&audit.dir, &[event], Duration::from_secs(1), 4_000).unwrap();
    append(start("loud"));
    (0..400).for_each(|number| append(denied("loud", number, 200)));
    let parts = log::parts(&audit.dir).unwrap();
    let is_thinned = |part: &&AbsPath| fs::read_to_string(os_path(part)).unwrap().contains("\"event\":\"gone\"");
    let thinned = parts.iter().find(is_thinned).unwrap();
    let text = fs::read_to_string(os_path(thinned)).unwrap();
    fs::write(os_path(thinned), text.replacen("\"at_ms\":", "\"at_ms\":1", 2)).unwrap();
    finds(&audit, "nothing says that they were removed by right");
    fs::write(os_path(thinned), &text).unwrap();
    is_whole(&audit, audit.verify(None).unwrap().lines);
    // A run of lines in a part from which nothing was removed.
    let whole = parts.iter().rev().find(|part| !is_thinned(part)).unwrap();
    let text = fs::read_to_string(os_path(whole)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let (first, last) = (lines[1], lines[2]);
    let link = |line: &str| serde_json::from_str::<Link>(line).unwrap();
    let (n, prev) = (link(first).n, link(first).prev);
    let gone = What::Gone { through: link(last).n, hash: hash(last.as_bytes()) };
    let event = of_kind("loud", gone);
    let stand_in = serde_json::to_string(&Line { n, prev: &prev, event: &event }).unwrap();
    let forged = [&[lines[0], &stand_in], &lines[3..]].concat().join("\n") + "\n";
    fs::write(os_path(whole), forged).unwrap();
    finds(&audit, "nothing says that they were removed by right");
}

/// Starts and ends are removed only when nothing else is left, the oldest first.
#[test]
fn g1_starts_and_ends_go_last() {
    let (_place, audit) = audit();
    let append = |event: Event| append_within(&audit.dir, &[event], Duration::from_secs(1), 600).unwrap();
    for number in 0..100 {
        append(start(&format!("s{number}")));
        append(end(&format!("s{number}")));
    }
    let report = audit.verify(None).unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
    assert!(report.remarks.iter().any(|remark| remark.contains("the lines up to")), "{report:?}");
}

/// However long a path is that was tried, its line is short, and says which path it was.
#[test]
fn g1_a_line_is_bounded() {
    let (_place, audit) = audit();
    let long = denied("s", 1, 3_800);
    let What::Violation(counted) = &long.what else { panic!("a denial") };
    let path = counted.violation.path.as_ref().unwrap().bytes().unwrap();
    let bytes = Bytes::new(&[b"/\xff".as_slice(), &[b'y'; 4_000]].concat());
    let odd = of_kind("s", What::Gap { path: bytes, guard: "deny".into(), ms: None, why: Some("z".repeat(9_000)) });
    let many = What::Used { reached: vec!["h".repeat(500); 1_000], written: None, is_cut: false };
    let command = What::Start {
        path: Bytes::new(b"/p"),
        command: vec![Bytes::new("prompt ".repeat(400).as_bytes())],
        rung: "native".into(),
        pid: 1,
    };
    audit.append(&[long.clone(), odd, of_kind("s", many), of_kind("s", command.clone())], Patience::Start).unwrap();
    let lines = audit.lines();
    assert!(lines[0].len() < 3_000 && lines[1].len() < 2_500 && lines[2].len() < 18_000, "{lines:?}");
    assert!(
        lines[0].contains(&hash(&path)) && lines[0].contains(&format!("[{} bytes, SHA-256", path.len())),
        "{}",
        lines[0]
    );
    let (all, unread) = audit.query(&Query::all()).unwrap();
    assert_eq!((all.len(), unread), (4, 0));
    assert_eq!(all[3].event.what, command, "a command is kept as it is");
    // It is found by the directory that it is in.
    let query = Query { path: AbsPath::lexical(b"/p/1").ok(), ..Query::all() };
    assert_eq!(audit.query(&query).unwrap().0.len(), 1);
    is_whole(&audit, 4);
}

/// What the program inside causes fills three quarters of a session's part, what others do may use the rest, and its end is
/// always written.
#[test]
fn g1_a_session_has_a_budget() {
    let mut budget = Budget::new();
    let mut bytes = 0;
    for number in 0..20_000 {
        let event = denied("s", number, 3_000);
        if budget.admit(&event) == Admission::Written {
            bytes += serde_json::to_vec(&event.bounded()).unwrap().len();
        }
    }
    assert!(bytes < 3 << 20 && bytes > 2 << 20, "{bytes}");
    assert!(budget.omitted() > 10_000);
    assert_eq!(budget.admit(&event(1)), Admission::Written, "a grant");
    assert_eq!(budget.admit(&denied("s", 1, 3_000)), Admission::Counted);
    let resumed = of_kind("s", What::Resume);
    let written = (0..100_000).filter(|_| budget.admit(&resumed) == Admission::Written).count();
    assert!(written > 1_000 && written < 20_000, "{written}");
    assert_eq!(budget.admit(&end("s")), Admission::Written);
}

/// An I/O error is no evidence of tampering: nothing is written, and the chain is not reported as broken.
#[test]
fn h2_a_head_that_cannot_be_read_is_no_evidence() {
    let (_place, audit) = filled(3);
    // Only opened for writing, it cannot be read: the kernel's own error, as EIO would be.
    let head = os_path(&audit.dir.join("head")).to_owned();
    let unreadable = fs::OpenOptions::new().write(true).open(&head).unwrap();
    assert!(log::Head::load(&unreadable).unwrap_err().raw_os_error().is_some());
    fs::write(&head, "{").unwrap();
    let damaged = fs::File::open(&head).unwrap();
    assert!(matches!(log::Head::load(&damaged).unwrap(), log::StoredHead::Damaged(_)));
}
