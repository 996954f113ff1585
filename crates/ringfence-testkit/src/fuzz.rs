//! The bodies of the fuzz targets. A bounded smoke test runs the same functions in every build.
//!
//! Each takes any bytes and panics if something is wrong: a panic inside, a message that would move the cursor, a pattern
//! whose printed form is another pattern.

use std::collections::BTreeMap;
use std::sync::Arc;

#[cfg(target_os = "linux")]
use ringfence_fs::{Root, Writable};
use ringfence_surface::command::{Class, Git, LONGEST_LINE, classify, literal_words};
use ringfence_surface::policy::{Bytes, EnvName, Format, PolicyFile, Task, Wall};
use ringfence_surface::text::{Diagnostic, PolicyText};
use ringfence_surface::{
    AbsPath, Access, HostFacts, HostPattern, HostTarget, Inputs, Layer, Level, PathFact, PathRule, RelativeGlob,
    Request, TemplateKind, Via, WritableGlobs, resolve,
};

/// Reads bytes as a policy and as a work item in both formats, renders whatever is said, and resolves what can be used.
///
/// # Panics
/// When the parser or a message is wrong.
pub fn policy(bytes: &[u8]) {
    let text = match PolicyText::new(b"fuzz.toml", bytes.to_vec()) {
        Ok(text) => text,
        Err(said) => return check_messages(&[said]),
    };
    for format in [Format::Toml, Format::Json] {
        if let Err(said) = Task::parse(&text, format) {
            check_refusal(&said);
        }
    }
    match PolicyFile::parse(&text) {
        Ok(file) => use_policy(file, text),
        Err(said) => check_refusal(&said),
    }
}

/// Reads text as every kind of rule that stands in a policy.
///
/// # Panics
/// When a parser is wrong.
pub fn pattern(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for kind in [TemplateKind::Path, TemplateKind::Socket] {
        match PathRule::parse(text, kind) {
            Ok(rule) => assert_eq!(rule.text(), text),
            Err(error) => {
                let _ = (error.to_string(), error.hint());
                let inside = error.at().is_none_or(|at| at.start < at.end && at.end <= text.len());
                assert!(inside, "{error} is not inside {text:?}");
            }
        }
        if let Ok(place) = PathRule::parse_one_place(text, kind) {
            assert!(!place.is_floating(), "{text:?} is one place and floats");
        }
    }
    let (pattern, target) = (HostPattern::parse(text), HostTarget::parse(text));
    if let Ok(target) = &target {
        assert_eq!(HostTarget::parse(&target.to_string()).as_ref(), Ok(target), "{text:?}");
    }
    match pattern {
        Ok(pattern) => {
            assert_eq!(HostPattern::parse(&pattern.to_string()).as_ref(), Ok(&pattern), "{text:?}");
            assert!(pattern.covers(&pattern), "{text:?}");
            let _ = target.is_ok_and(|target| pattern.matches(&target));
        }
        Err(error) => {
            let _ = (error.to_string(), error.hint());
        }
    }
    let _ = (EnvName::new(text), Bytes::parse(text), Wall::parse(text));
}

/// Reads bytes up to a zero as a glob and the rest as a path below a directory, and matches them in two ways.
///
/// # Panics
/// When the two do not agree, or a message would move the cursor.
pub fn glob(bytes: &[u8]) {
    let (text, path) = match bytes.iter().position(|byte| *byte == 0) {
        Some(zero) => (&bytes[..zero], &bytes[zero + 1..]),
        None => (bytes, b"a/b".as_slice()),
    };
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).take(6).collect();
    let path = names.join(&b'/');
    match RelativeGlob::search(text) {
        Ok(glob) => {
            let parts: Vec<&[u8]> =
                text.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
            if parts.len() <= 8 {
                let is_match = glob.is_match(glob.after(&path));
                assert_eq!(is_match, matches_slowly(&parts, &names), "`{}`", text.escape_ascii());
            }
        }
        Err(error) => {
            assert!(error.to_string().chars().all(|c| !c.is_control()), "{error:?} moves the cursor");
            assert!(RelativeGlob::writable(text).is_err(), "what cannot be searched for cannot be written");
        }
    }
    let Ok(globs) = WritableGlobs::new([text]) else { return };
    let below = [path.as_slice(), b"/x/y"].concat();
    assert!(!globs.covers_tree(&path) || globs.covers(&below), "a tree is covered, and not what is in it");
    let parent = names[..names.len().saturating_sub(1)].join(&b'/');
    assert!(
        !globs.covers(&path) || names.is_empty() || globs.leads_through(&parent),
        "nothing leads to what is covered"
    );
}

/// One component after the other, every choice of a `**` tried.
fn matches_slowly(parts: &[&[u8]], names: &[&[u8]]) -> bool {
    match (parts, names) {
        ([], names) => names.is_empty(),
        // At the end it stands for something: `a/**` is not `a`.
        ([b"**"], names) => !names.is_empty(),
        ([b"**", rest @ ..], names) => (0..=names.len()).any(|taken| matches_slowly(rest, &names[taken..])),
        ([part, rest @ ..], [name, names @ ..]) => {
            let one = RelativeGlob::search(part).is_ok_and(|one| one.is_match(one.step(one.start(), name)));
            one && matches_slowly(rest, names)
        }
        (_, []) => false,
    }
}

/// Reads bytes as a script of changes beneath a root that is full of links to the outside, and looks at the outside after it.
///
/// # Panics
/// When anything outside was read or changed.
#[cfg(target_os = "linux")]
pub fn files(bytes: &[u8]) {
    use std::os::unix::ffi::OsStrExt as _;

    let world = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory can be made");
    let (inside, outside) = (world.path().join("in"), world.path().join("out"));
    for dir in [inside.join("d"), outside.join("d")] {
        std::fs::create_dir_all(dir).expect("a directory can be made");
    }
    std::fs::write(outside.join("f"), "SECRET").expect("a file can be written");
    for (link, target) in [("l", "../out"), ("d/l", "../../out/f"), ("m", "d"), ("n", "../out/new")] {
        std::os::unix::fs::symlink(target, inside.join(link)).expect("a link can be made");
    }
    let root = Root::open(&inside, Writable::everything()).expect("a root can be opened");
    for line in bytes.split(|byte| *byte == b'\n').take(16) {
        let Some((verb, path)) = line.split_first() else { continue };
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(path));
        match verb % 8 {
            0 => drop(root.write(path, b"x")),
            1 => drop(root.open_for_write(path)),
            2 => drop(root.create_dir_all(path)),
            3 => drop(root.remove(path)),
            4 => drop(root.rename(path, "d/g").and_then(|()| root.rename("d/g", path))),
            5 => drop(root.remove_dir(path)),
            6 => drop(root.glob(path, 100)),
            _ => drop(root.read(path, 100).map(|content| assert_ne!(content, b"SECRET", "the outside was read"))),
        }
    }
    let mut left: Vec<_> = std::fs::read_dir(&outside)
        .expect("it is there")
        .map(|entry| entry.expect("it is there").file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["d", "f"], "the outside was changed");
    assert_eq!(std::fs::read(outside.join("f")).expect("it is there"), b"SECRET");
    assert_eq!(std::fs::read_dir(outside.join("d")).expect("it is there").count(), 0);
}

/// Classifies a line, and says why. Two lines one after the other are read-only if both are.
///
/// # Panics
/// When the answer is wrong in itself.
pub fn command(bytes: &[u8]) {
    let class = classify(bytes, Git::Quiet);
    if let Class::Mutating(mutation) = &class {
        let said = mutation.to_string();
        assert!(!said.is_empty() && said.chars().all(|c| !c.is_control()), "{said:?} moves the cursor");
        assert!(mutation.at.start <= mutation.at.end && mutation.at.end <= bytes.len(), "{said}: {:?}", mutation.at);
    }
    if class == Class::ReadOnly {
        let with = |after: &[u8]| classify(&[bytes, after].concat(), Git::Quiet);
        assert_ne!(with(b"\nrm x"), Class::ReadOnly, "what follows is not seen");
        assert!(bytes.len() + 4 > LONGEST_LINE || with(b"\npwd") == Class::ReadOnly, "what follows makes a difference");
        assert_eq!(classify(bytes, Git::Quiet), class, "it is another one now");
    }
    // Without its settings git is at most as harmless.
    assert!(class == Class::ReadOnly || classify(bytes, Git::AsItIs) != Class::ReadOnly);
    let _ = literal_words(bytes);
}

fn check_refusal(said: &[Diagnostic]) {
    assert!(!said.is_empty(), "refused without a word");
    check_messages(said);
}

fn check_messages(said: &[Diagnostic]) {
    // A file of nothing but mistakes has as many messages; the first hundred are as good as all.
    for diagnostic in said.iter().take(100) {
        let shown = diagnostic.to_string();
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?} moves the cursor");
        if let Some(place) = &diagnostic.place {
            let (line, column) = place.line_column();
            assert!(line > 0 && column > 0, "{shown}");
        }
    }
}

/// Resolves on a small host and asks a few questions.
fn use_policy(file: PolicyFile, text: Arc<PolicyText>) {
    let facts = small_host();
    let persona = file.persona.iter().flatten().map(|(name, _)| name.clone()).next();
    let layer = Layer { level: Level::Explicit, via: Via::Itself, file, text, path: path("/w/ringfence.toml") };
    let request = Request {
        persona,
        task: None,
        agent: None,
        references: vec![b"x".to_vec()],
        writes: Vec::new(),
        env: Vec::new(),
        worktree: None,
    };
    match resolve(&Inputs { layers: vec![layer], request }, &facts, &mut &facts) {
        Ok(resolved) => {
            check_messages(&resolved.diagnostics);
            for asked in ["/", "/w", "/w/a/.env", "/home/u/.ssh/id", "/etc/passwd"] {
                let read = resolved.surface.decide(&path(asked), Access::Read);
                let write = resolved.surface.decide(&path(asked), Access::Write);
                assert!(read.is_allowed() || !write.is_allowed(), "{asked} is writable and not readable");
                assert!(asked != "/home/u/.ssh/id" || !write.is_allowed(), "a key can be written");
            }
        }
        Err(said) => check_refusal(&said),
    }
}

fn small_host() -> HostFacts {
    let bytes = |text: &str| text.as_bytes().to_vec();
    let variables = [("HOME", "/home/u"), ("USER", "u"), ("GOPATH", ""), ("CARGO_HOME", "relative")];
    let directories = ["/home", "/home/u", "/w", "/w/a", "/w/docs", "/docs"];
    let mut paths: BTreeMap<AbsPath, PathFact> =
        directories.iter().map(|dir| (path(dir), PathFact::Directory)).collect();
    paths.insert(path("/w/link"), PathFact::Link(bytes("../home/u")));
    paths.insert(path("/w/loop"), PathFact::Link(bytes("loop")));
    HostFacts {
        environment: variables.iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
        cwd: path("/w"),
        homes: vec![path("/home/u")],
        paths,
        git: BTreeMap::new(),
        git_runs: BTreeMap::new(),
        mounts: Vec::new(),
        kernel: String::new(),
        session: Some(path("/home/u/.local/state/ringfence/sessions/s")),
    }
}

fn path(text: &str) -> AbsPath {
    AbsPath::lexical(text.as_bytes()).expect("the path is written here")
}
