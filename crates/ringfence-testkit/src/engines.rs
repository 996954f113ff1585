//! The container engines that `cargo xtask test` starts for the tests, and how a process finds them.

use std::path::{Path, PathBuf};

/// Names the directory in which the engines keep everything.
pub const VARIABLE: &str = "RINGFENCE_TEST_ENGINES";

/// Who starts an engine's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starter {
    /// Root: the engine has root's rights.
    Root,
    /// The ordinary user of the tests: Docker has root's rights all the same, Podman the user's own.
    Ordinary,
}

/// The variables by which a command finds the engines; nothing where there are none, which fails in CI.
///
/// # Panics
/// In CI, where the engines must have been started.
#[must_use]
pub fn engines(starter: Starter) -> Option<Vec<(String, String)>> {
    let Some(dir) = std::env::var_os(VARIABLE).map(PathBuf::from).filter(|dir| dir.join("docker.sock").exists()) else {
        let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
        assert!(!is_ci, "no container engines were started: {VARIABLE} names none");
        return None;
    };
    let place = |name: &str| text(&dir.join(name));
    let (storage, runtime) = match starter {
        Starter::Root => ("root/storage.conf", "root/run"),
        Starter::Ordinary => ("user/storage.conf", "user/run"),
    };
    let variables = [
        ("DOCKER_HOST", format!("unix://{}", place("docker.sock"))),
        ("CONTAINERS_CONF", place("containers.conf")),
        ("CONTAINERS_STORAGE_CONF", place(storage)),
        ("XDG_RUNTIME_DIR", place(runtime)),
    ];
    Some(variables.map(|(name, value)| (name.to_owned(), value)).into())
}

fn text(path: &Path) -> String {
    path.to_str().expect("the target directory has a plain name").to_owned()
}
