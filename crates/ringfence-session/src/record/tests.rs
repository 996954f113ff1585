//! A record is read back as it was written, or not at all.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

use proptest::prelude::*;
use ringfence_surface::policy::PolicyFile;
use ringfence_surface::text::PolicyText;
use ringfence_surface::{
    Access, HostFacts, HostTarget, Inputs, Layer, Level, PathFact, Request, SubPolicy, Trust, Verdict, Via, resolve,
};

use super::*;

fn abs(text: &str) -> AbsPath {
    AbsPath::lexical(text.as_bytes()).unwrap()
}

/// The Surface of a session in `/home/u/proj` with this policy.
fn surface(policy: &str) -> Option<Surface> {
    let path = "/home/u/proj/ringfence.toml";
    let text = PolicyText::new(path.as_bytes(), format!("version = 1\n{policy}").into_bytes()).unwrap();
    let file = PolicyFile::parse(&text).ok()?;
    let dirs = ["/home", "/home/u", "/home/u/proj", "/srv", "/srv/in", "/usr", "/etc"];
    let paths: BTreeMap<AbsPath, PathFact> = dirs.iter().map(|dir| (abs(dir), PathFact::Directory)).collect();
    let facts = HostFacts {
        environment: [(b"HOME".to_vec(), b"/home/u".to_vec())].into(),
        cwd: abs("/home/u/proj"),
        homes: vec![abs("/home/u")],
        paths,
        git: BTreeMap::new(),
        git_runs: BTreeMap::new(),
        mounts: Vec::new(),
        kernel: "6.18".into(),
        session: Some(abs("/home/u/.local/state/ringfence/sessions/1")),
    };
    let level = Level::Project(Trust::Trusted);
    let request = Request {
        persona: None,
        task: None,
        agent: None,
        references: Vec::new(),
        writes: Vec::new(),
        env: Vec::new(),
        worktree: None,
    };
    let inputs = Inputs { layers: vec![Layer { level, via: Via::Itself, file, text, path: abs(path) }], request };
    Some(resolve(&inputs, &facts, &mut &facts).ok()?.surface)
}

const POLICY: &str = r#"
    extends = ["rust", "node"]
    [files]
    write = [".", "/srv/out", "häuser/*.[!a-z]x?"]
    read = ["/srv/in", "/srv/*/y[]-]z"] # a comment that is nobody's business
    deny = ["**/.env", "!**/ok/.env", "private", 'q\*r']
    protect = ["infra"]
    [network]
    allow = ["api.example.com", "*.cdn.example.com:443", "github", "10.0.0.0/8:22", "[fd00::/64]"]
    private = ["api.example.com"]
    host_ports = [5432]
    sockets = ["/run/db.sock"]
    inject."api.example.com" = { header = "authorization", from_env = "TOKEN2", prefix = "Bearer " }
    [env]
    pass = ["TOKEN"]
    [limits]
    memory = "1GiB"
    pids = 100
    wall = "1h"
"#;

fn record(surface: &Surface) -> Record<&Surface> {
    Record {
        session: "1-2-3".to_owned(),
        agent: Some("claude".to_owned()),
        mode: Mode::Auto,
        rung: Rung::Bwrap,
        home: abs("/home/u/.local/state/ringfence/sessions/1/home"),
        surface,
    }
}

fn read(bytes: &[u8]) -> Result<Record, RecordError> {
    Record::from_bytes(bytes, &abs("/r"))
}

/// Everything that is said about a path.
fn said(surface: &Surface, path: &AbsPath, access: Access) -> String {
    let verdict: Verdict<'_> = surface.decide(path, access);
    let ask = verdict.ask.map(|rule| format!("{rule} {}", rule.source));
    let source = match verdict.because {
        ringfence_surface::Because::Rule(rule) | ringfence_surface::Because::OnlyReadable(rule) => {
            rule.source.to_string()
        }
        ringfence_surface::Because::View(_) => String::new(),
    };
    let remedy = surface.remedy(path, access, &verdict);
    format!("{:?} {} {source} {ask:?} {remedy:?}", verdict.outcome, verdict.because)
}

/// G2: what another process reads is what the session decides by, to the last word of a message.
#[test]
fn g2_a_record_is_read_as_it_was_written() {
    let before = surface(POLICY).unwrap();
    let bytes = record(&before).to_bytes();
    let read = read(&bytes).unwrap();
    let after = &read.surface;
    assert_eq!((read.session.as_str(), read.agent.as_deref()), ("1-2-3", Some("claude")));
    assert_eq!((read.mode, read.rung), (Mode::Auto, Rung::Bwrap));
    assert_eq!(read.home, record(&before).home);
    assert_eq!(format!("{:?}", before.parts()), format!("{:?}", after.parts()));
    for host in ["api.example.com:443", "x.cdn.example.com:443", "10.1.2.3:22", "evil.example:443", "github.com:22"] {
        let target = HostTarget::parse(host).unwrap();
        assert_eq!(before.decide_host(&target).is_some(), after.decide_host(&target).is_some(), "{host}");
        assert_eq!(before.decide_private(&target).is_some(), after.decide_private(&target).is_some(), "{host}");
    }
    for name in ["TOKEN", "TOKEN2", "PATH", "AWS_SECRET_ACCESS_KEY", "CARGO_TERM_COLOR"] {
        assert_eq!(before.decide_variable(name.as_bytes()), after.decide_variable(name.as_bytes()), "{name}");
    }
    assert!(after.tighten(&SubPolicy::unchanged()).is_ok());
}

/// The agent can read the record: what a policy says beside its rules is not in it.
#[test]
fn comments_are_not_in_a_record() {
    let bytes = record(&surface(POLICY).unwrap()).to_bytes();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("q\\*r") && !holds("nobody's business") && !holds("extends"));
}

/// Half a fence is none.
#[test]
fn what_is_cut_or_longer_is_refused() {
    let whole = record(&surface("[files]\nwrite = [\"a*\"]\n").unwrap()).to_bytes();
    for length in (0..whole.len()).step_by(97).chain(whole.len() - 40..whole.len()) {
        assert!(read(&whole[..length]).is_err(), "{length} bytes");
    }
    assert!(matches!(read(&[whole.as_slice(), b"x"].concat()), Err(RecordError::Damaged { .. })));
    let mut other = whole.clone();
    other[MAGIC.len()] += 1;
    assert!(matches!(read(&other), Err(RecordError::Schema { found, .. }) if found == SCHEMA + 1));
}

#[test]
fn only_a_file_that_nobody_else_can_write_is_read() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| AbsPath::lexical(place.path().as_os_str().as_bytes()).unwrap().join(name);
    let surface = surface("").unwrap();
    record(&surface).write(&at("record")).unwrap();
    assert!(Record::read(&at("record")).is_ok());
    assert!(matches!(record(&surface).write(&at("record")), Err(RecordError::Write { .. })));
    assert!(matches!(Record::read(&at("missing")), Err(RecordError::Read { .. })));
    assert!(matches!(Record::read(&at("")), Err(RecordError::NoFile { .. })));
    std::os::unix::fs::symlink("record", os_path(&at("link"))).unwrap();
    assert!(matches!(Record::read(&at("link")), Err(RecordError::Read { .. })));
    for mode in [0o664, 0o646] {
        fs::set_permissions(os_path(&at("record")), fs::Permissions::from_mode(mode)).unwrap();
        assert!(matches!(Record::read(&at("record")), Err(RecordError::Foreign { .. })));
    }
}

fn rules() -> impl Strategy<Value = Vec<String>> {
    let part = "(a|b|ab|\\*|a\\*|\\*b|\\?|\\[ab\\]|\\[!a\\]x|\\*\\*)";
    let rule = format!("(/srv/in|/home/u/proj|/home/u|\\.|\\*\\*)(/{part}){{0,3}}");
    let rule = proptest::string::string_regex(&rule).unwrap();
    // `**` stands alone in a component.
    prop::collection::vec(rule, 0..4)
}

fn list(rules: &[String]) -> String {
    let quoted: Vec<String> = rules.iter().map(|rule| format!("'{rule}'")).collect();
    format!("[{}]", quoted.join(", "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// G2: for any policy and any path, `decide` says the same before and after.
    #[test]
    fn g2_decide_agrees_before_and_after(
        (write, read_rules, deny, except, protect) in (rules(), rules(), rules(), rules(), rules()),
        is_host_view in any::<bool>(),
        paths in prop::collection::vec("(/home/u/proj|/home/u|/srv/in|/etc|/tmp)(/(a|b|ab|c|\\.env|\\.ssh|Cargo\\.lock)){0,4}", 1..30),
    ) {
        let exceptions: Vec<String> = except.iter().map(|rule| format!("!{rule}")).collect();
        let view = if is_host_view { "host" } else { "surface" };
        let policy = format!(
            "[files]\nview = \"{view}\"\nwrite = {}\nread = {}\ndeny = {}\nprotect = {}\n",
            list(&write), list(&read_rules), list(&[deny, exceptions.clone()].concat()), list(&[protect, exceptions].concat()),
        );
        let before = surface(&policy);
        prop_assume!(before.is_some(), "what cannot be resolved has no record");
        let before = before.unwrap();
        let after = read(&record(&before).to_bytes()).unwrap().surface;
        for path in &paths {
            for access in [Access::Read, Access::Write] {
                prop_assert_eq!(said(&before, &abs(path), access), said(&after, &abs(path), access), "{} {}", access, path);
            }
        }
    }

    /// Whatever the bytes are, reading them ends.
    #[test]
    fn no_bytes_make_it_panic(at in 0_usize..4_000, byte in any::<u8>()) {
        let mut bytes = record(&surface("[files]\nwrite = [\"a*\"]\n").unwrap()).to_bytes();
        if let Some(place) = bytes.get_mut(MAGIC.len() + at) {
            *place = byte;
        }
        let _ = read(&bytes);
    }
}
