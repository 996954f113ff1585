//! Which files are found and how they limit each other, with a managed file of the test's own.

use std::collections::BTreeMap;
use std::fs;

use ringfence_surface::{Dropped, HostTarget};
use tempfile::TempDir;

use super::*;

/// A directory with a home, a project, and a place for the managed file.
struct Place {
    dir: TempDir,
    facts: HostFacts,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(dir.path()).unwrap();
        let abs = |name: &str| AbsPath::lexical(path.join(name).as_os_str().as_bytes()).unwrap();
        let environment = BTreeMap::from([(b"HOME".to_vec(), abs("home").as_bytes().to_vec())]);
        let facts = HostFacts {
            environment,
            cwd: abs("project"),
            homes: Vec::new(),
            paths: BTreeMap::new(),
            git: BTreeMap::new(),
            git_runs: BTreeMap::new(),
            mounts: Vec::new(),
            kernel: String::new(),
            session: None,
        };
        let place = Self { dir, facts };
        place.write("project/.keep", "");
        place
    }

    fn write(&self, relative: &str, text: &str) {
        let path = self.dir.path().join(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn managed(&self) -> PathBuf {
        self.dir.path().join("etc/managed.toml")
    }

    fn resolve(&self) -> Result<Here, Failure> {
        Loader::with_facts(&self.managed(), self.facts.clone()).resolve(&PolicyArgs::only(None))
    }
}

const USERS: &str = "version = 1\n[network]\nallow = [\"github\", \"crates\"]\n";

#[track_caller]
fn reaches(here: &Here, host: &str) -> bool {
    here.resolved.surface.decide_host(&HostTarget::parse(host).unwrap()).is_some()
}

#[test]
fn without_a_managed_file_nothing_limits() {
    let place = Place::new();
    place.write("home/.config/ringfence/config.toml", USERS);
    let here = place.resolve().unwrap();
    assert!(reaches(&here, "github.com") && reaches(&here, "crates.io"));
    // Nor does one that cannot be there, because a file stands above it.
    place.write("etc", "");
    assert!(place.resolve().is_ok());
}

#[test]
fn the_managed_file_is_a_ceiling() {
    let place = Place::new();
    place.write("home/.config/ringfence/config.toml", USERS);
    place.write("etc/managed.toml", "version = 1\n[network]\nallow = [\"crates\"]\n[limits]\npids = 7\n");
    let here = place.resolve().unwrap();
    assert_eq!(here.inputs.layers[0].level, Level::Managed);
    assert!(!reaches(&here, "github.com") && reaches(&here, "crates.io"));
    assert_eq!(here.resolved.surface.caps().pids.as_ref().map(|cap| cap.value), Some(7));
    let beyond = |omission: &ringfence_surface::Omission| matches!(omission.why, Dropped::BeyondCeiling { .. });
    assert!(here.resolved.omissions.iter().any(beyond), "{:?}", here.resolved.omissions);
}

#[test]
fn a_managed_file_that_cannot_be_used_stops_everything() {
    let place = Place::new();
    place.write("etc/managed.toml", "version = 1\n[network]\nalow = []\n");
    let Err(Failure::Policy { said }) = place.resolve() else { panic!("it is wrong") };
    assert!(said[0].to_string().contains("did you mean `allow`?"), "{}", said[0]);
    fs::remove_file(place.managed()).unwrap();
    // Unreadable for everybody, root too: a directory, a link into nothing.
    fs::create_dir(place.managed()).unwrap();
    assert!(matches!(place.resolve(), Err(Failure::Read { .. })));
    fs::remove_dir(place.managed()).unwrap();
    std::os::unix::fs::symlink("nowhere", place.managed()).unwrap();
    assert!(matches!(place.resolve(), Err(Failure::Read { .. })));
}

/// Each directory follows its own variable; trust needs one for state and no home.
#[test]
fn without_a_home() {
    let mut place = Place::new();
    place.write("project/ringfence.toml", "version = 1\n");
    place.facts.environment.clear();
    let managed = place.managed();
    let store = |facts: &HostFacts| {
        let mut loader = Loader::with_facts(&managed, facts.clone());
        let path = loader.find_project_file().unwrap().unwrap();
        let project = loader.project(os_path(&path)).unwrap();
        let stored = trust::store(facts, &project.layers, &project.hash);
        (stored, loader.project(os_path(&path)).unwrap().known)
    };
    assert!(place.resolve().is_ok());
    assert!(matches!(store(&place.facts), (Err(Failure::NoHome), Known::Never)));
    let state = place.dir.path().join("state");
    place.facts.environment.insert(b"XDG_STATE_HOME".to_vec(), state.as_os_str().as_bytes().to_vec());
    assert!(matches!(store(&place.facts), (Ok(()), Known::AsItIs)));
    assert!(state.join("ringfence/trust").is_dir());
    assert!(trust::trusted_texts(&place.facts, &place.facts.cwd.child(PROJECT_FILE)).is_some());
}

/// What each directory answers, from the current one up: `y` found, `n` nothing, `x` not permitted, `e` a broken disk.
#[track_caller]
fn search(answers: &str, expected: Result<Option<&str>, io::ErrorKind>) {
    let cwd = AbsPath::lexical(b"/a/b/c").unwrap();
    let look = |path: &Path| match answers.as_bytes()[5 - path.components().count()] {
        b'y' => Ok(()),
        b'x' => Err(io::ErrorKind::PermissionDenied.into()),
        b'e' => Err(io::Error::from_raw_os_error(5)),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let found = match nearest(&cwd, look) {
        Ok(found) => Ok(found.map(|path| path.to_string())),
        Err(Failure::Read { source, .. }) => Err(source.kind()),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(found, expected.map(|path| path.map(str::to_owned)), "{answers}");
}

#[test]
fn a_project_file_that_may_not_be_looked_at_is_not_skipped() {
    let denied = io::ErrorKind::PermissionDenied;
    search("nnnn", Ok(None));
    search("ynnn", Ok(Some("/a/b/c/ringfence.toml")));
    search("nnyn", Ok(Some("/a/ringfence.toml")));
    search("nnny", Ok(Some("/ringfence.toml")));
    search("xnnn", Err(denied));
    search("xnny", Err(denied));
    search("nxyn", Ok(Some("/a/ringfence.toml")));
    search("nxxn", Ok(None));
    search("nenn", Err(io::Error::from_raw_os_error(5).kind()));
}
