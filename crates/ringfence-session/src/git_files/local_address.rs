//! Which addresses of repositories lead to directories that only sessions use.
//!
//! A session's home, its temporary files and the caches of its packs are on the host's disk, under paths that an agent knows. Nothing judges
//! the repositories there: a remote in one of them has hooks that the user's `git push` would execute. The decision is made by the text of
//! the path alone, since the agent can move what the address is relative to. Links are not followed.

use ringfence_git::settings::LocalPath;
use ringfence_surface::{AbsPath, Effect, Role, Surface};

/// Would the user's git, wherever it resolves this address, enter a directory that only sessions use?
pub(super) fn leads_to_own(surface: &Surface, address: LocalPath<'_>) -> bool {
    let own = || places(surface, |role| matches!(role, Role::Scratch | Role::Cache));
    // The tops of work trees that an agent may have made are below these.
    let is_common = |above: &AbsPath| {
        places(surface, |role| !matches!(role, Role::Scratch | Role::Cache | Role::Private))
            .any(|tree| tree.is_within(above))
    };
    match address {
        LocalPath::OfRemote([b'/', ..]) => {
            let LocalPath::OfRemote(path) = address else { return true };
            let Ok(path) = AbsPath::lexical(path) else { return true };
            // A submodule's address may be relative to this one, or to the directory in which it is.
            let is_near = |own: &AbsPath| {
                [Some(&path), path.parent().as_ref()]
                    .into_iter()
                    .flatten()
                    .any(|base| own.is_within(base) && !is_common(base))
            };
            own().any(|own| path.is_within(own) || is_near(own))
        }
        LocalPath::OfRemote(path) | LocalPath::BesideRemote(path) | LocalPath::OfSuperproject(path) => {
            let names = names_after_ups(path);
            own().any(|own| leads_into(own, &names, &is_common))
        }
    }
}

/// Does a relative path lead into a directory, or close to it, from one of the directories above?
fn leads_into(own: &AbsPath, names: &[&[u8]], is_common: &impl Fn(&AbsPath) -> bool) -> bool {
    let mut above: Vec<AbsPath> = own.ancestors().collect();
    above.reverse();
    let own_names: Vec<&[u8]> = own.components().collect();
    (0..own_names.len()).any(|from| {
        let below = &own_names[from..];
        let shared = names.iter().zip(below).take_while(|(a, b)| a == b).count();
        let is_into = shared == below.len();
        // A submodule's address may be relative to this one, or to the directory in which it is.
        let is_near = |length: usize| length > 0 && length <= shared && !is_common(&above[from + length]);
        // From directories without work trees only a long path counts: a name such as `npm` alone is common.
        if is_common(&above[from]) {
            is_into || is_near(names.len()) || is_near(names.len().saturating_sub(1))
        } else {
            is_into && below.len() >= 3
        }
    })
}

/// The names of a relative path without `.`, and without `..` and what that undoes.
fn names_after_ups(path: &[u8]) -> Vec<&[u8]> {
    let mut names = Vec::new();
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names
}

/// The directories that may be written with such a role.
fn places(surface: &Surface, has: impl Fn(Role) -> bool) -> impl Iterator<Item = &AbsPath> {
    let is_such = move |effect: Effect| matches!(effect, Effect::Write(role) if has(role));
    surface.rules().iter().filter(move |rule| is_such(rule.effect)).filter_map(|rule| rule.pattern.base())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ringfence_surface::policy::PolicyFile;
    use ringfence_surface::text::PolicyText;
    use ringfence_surface::{HostFacts, Inputs, Layer, Level, PathFact, Request, Trust, Via, resolve};

    use super::*;

    fn abs(text: &str) -> AbsPath {
        AbsPath::lexical(text.as_bytes()).unwrap()
    }

    /// A session in `/home/u/p` with the caches of Go's pack, and its hash in their paths.
    fn surface() -> (Surface, String) {
        let text = PolicyText::new(b"/home/u/p/x.toml", b"version = 1\nextends = [\"go\"]\n".to_vec()).unwrap();
        let file = PolicyFile::parse(&text).unwrap();
        let dirs = ["/home", "/home/u", "/home/u/p", "/srv"];
        let facts = HostFacts {
            environment: [(b"HOME".to_vec(), b"/home/u".to_vec())].into(),
            cwd: abs("/home/u/p"),
            homes: vec![abs("/home/u")],
            paths: dirs.iter().map(|dir| (abs(dir), PathFact::Directory)).collect(),
            git: BTreeMap::new(),
            git_runs: BTreeMap::new(),
            mounts: Vec::new(),
            kernel: "6.18".into(),
            session: Some(abs("/home/u/.local/state/ringfence/sessions/1")),
        };
        let request = Request {
            persona: None,
            task: None,
            agent: None,
            references: Vec::new(),
            writes: Vec::new(),
            env: Vec::new(),
            worktree: None,
        };
        let level = Level::Project(Trust::Trusted);
        let layer = Layer { level, via: Via::Itself, file, text, path: abs("/home/u/p/x.toml") };
        let inputs = Inputs { layers: vec![layer], request };
        let surface = resolve(&inputs, &facts, &mut &facts).unwrap().surface;
        let cache = places(&surface, |role| role == Role::Cache).find(|dir| dir.file_name() == Some(b"go-mod"));
        let project = cache.unwrap().parent().unwrap().to_string();
        (surface, project)
    }

    #[track_caller]
    fn check(address: LocalPath<'_>, expected: bool) {
        assert_eq!(leads_to_own(&surface().0, address), expected, "{address:?}");
    }

    #[test]
    fn a2_repositories_of_sessions_are_no_remotes() {
        let project = surface().1;
        let below_home = project.strip_prefix("/home/u/").unwrap();
        for path in [
            format!("{project}/go-mod/r.git"),
            format!("{project}/go-mod"),
            format!("{project}/x/../go-mod/r.git"),
            // What is relative to these leads there.
            project.clone(),
            format!("{project}/x"),
            "/home/u/.cache".to_owned(),
            "/home/u/.local/state/ringfence/sessions/1/home/r".to_owned(),
            "/home/u/.local/state/ringfence/sessions/1/tmp".to_owned(),
            format!("../{below_home}/go-mod/r.git"),
            format!("../../../../home/u/{below_home}/go-mod/r.git"),
            format!("../../u/./{below_home}//x/../go-mod/r.git"),
            format!("../{below_home}"),
            "../.cache".to_owned(),
            "../.cache/x".to_owned(),
            format!("./{below_home}/go-mod/r.git"),
        ] {
            check(LocalPath::OfRemote(path.as_bytes()), true);
        }
        let (_, last_two) = project.match_indices('/').rev().nth(1).map(|(at, _)| project.split_at(at + 1)).unwrap();
        for path in [format!("{below_home}/go-mod/r.git"), format!("{last_two}/go-mod/r.git")] {
            check(LocalPath::BesideRemote(path.as_bytes()), true);
        }
    }

    #[test]
    fn a2_other_repositories_are_remotes() {
        for path in [
            "/srv/a.git",
            "/home/u/a.git",
            "/home/u/p",
            "/home/u/p/bare.git",
            "../a.git",
            ".",
            "..",
            "./a",
            "../u/a",
            "/tmp/x",
        ] {
            check(LocalPath::OfRemote(path.as_bytes()), false);
        }
        for path in ["go-mod", "tmp/a", "ringfence", "home.git"] {
            check(LocalPath::BesideRemote(path.as_bytes()), false);
        }
    }
}
