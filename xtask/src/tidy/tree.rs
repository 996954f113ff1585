//! The files of the project: their paths and their text.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// A file of the tree.
#[derive(Debug)]
pub(super) struct File {
    /// From the root, with `/` between the parts.
    pub(super) path: String,
    /// Bytes that are not UTF-8 are replaced: the rules look for words, and those are ASCII.
    pub(super) text: String,
}

impl File {
    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the whole file is there for tests, benches or fuzzing only.
    pub(super) fn is_test_only(&self) -> bool {
        let mut parts = self.path.split('/');
        parts.any(|part| matches!(part, "tests" | "benches" | "fuzz" | "tests.rs"))
    }
}

/// Directories that are never part of the project, for when git cannot be asked.
const GENERATED: &[&str] = &[".git", "target", "fuzz/artifacts", "fuzz/corpus", "fuzz/target"];

/// Reads every file that git tracks or would track.
pub(super) fn read(root: &Path) -> io::Result<Vec<File>> {
    let mut paths = match tracked(root)? {
        Some(paths) => paths,
        // An unpacked archive is no repository, and git refuses the repository of another user. The rules hold there too.
        None => {
            let mut paths = Vec::new();
            walk(root, "", &mut paths)?;
            paths
        }
    };
    paths.sort();
    paths.dedup();
    let mut files = Vec::new();
    for path in paths {
        let full = root.join(&path);
        // A path that git still knows may be gone from the disk, or go now, and a link's target is checked where it is.
        if fs::symlink_metadata(&full).is_ok_and(|metadata| metadata.is_file()) {
            match fs::read(&full) {
                Ok(bytes) => files.push(File { path, text: String::from_utf8_lossy(&bytes).into_owned() }),
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
                Err(cause) => return Err(cause),
            }
        }
    }
    Ok(files)
}

/// What git answers; nothing when it does not take `root` for the top of a repository.
fn tracked(root: &Path) -> io::Result<Option<Vec<String>>> {
    if !root.join(".git").exists() {
        return Ok(None);
    }
    let output = match Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
    {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    if !output.status.success() {
        return Ok(None);
    }
    let names = String::from_utf8(output.stdout).map_err(|cause| io::Error::new(io::ErrorKind::InvalidData, cause))?;
    Ok(Some(names.split_terminator('\0').map(str::to_owned).collect()))
}

fn walk(root: &Path, below: &str, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} is not UTF-8", entry.path().display())));
        };
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() && !GENERATED.contains(&path.as_str()) {
            walk(root, &path, paths)?;
        } else if kind.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_finds_what_git_lists() {
        let root = crate::workspace_root();
        let mut walked = Vec::new();
        walk(&root, "", &mut walked).expect("the tree can be read");
        assert!(walked.contains(&"xtask/src/tidy/tree.rs".to_owned()));
        assert!(!walked.iter().any(|path| path.starts_with("target/")), "build output is not part of the project");
    }

    #[test]
    fn test_files_are_known_by_their_place() {
        let is_test_only = |path: &str| super::super::file(path, "").is_test_only();
        assert!(is_test_only("crates/ringfence/tests/explain.rs"));
        assert!(is_test_only("crates/ringfence-surface/src/decide/tests.rs"));
        assert!(is_test_only("crates/ringfence-surface/benches/decide.rs"));
        assert!(!is_test_only("crates/ringfence-testkit/src/lib.rs"));
        assert!(!is_test_only("crates/ringfence-surface/src/tests_of_time.rs"));
    }
}
