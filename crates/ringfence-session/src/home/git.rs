//! Who commits: the user's own git configuration, with what it includes, as far as it may go along.

use std::io;

use ringfence_git::config::{self as git_config, Entry};
use ringfence_surface::curated::Row;
use ringfence_surface::curated::packs::Base;
use ringfence_surface::curated::settings;
use ringfence_surface::{AbsPath, Look, PathFact, follow};

use super::{Denied, Ground, has_password, put};
use crate::beneath::{Dir, read_real};

/// Git itself goes no deeper.
const MOST_INCLUDES: usize = 10;
/// Twice as many as the broker has threads that wait for calls.
const MOST_WORKERS: u32 = 8;

/// Whether somebody wants commits to be signed. Inside nobody can: there is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signing {
    /// Nobody asked.
    Unasked,
    /// The user's settings ask. They do not go along.
    AskedByUser,
    /// The repository's own configuration asks, which git reads inside too.
    AskedByRepository,
}

/// What conditions of includes are about.
#[derive(Debug)]
struct Repository {
    /// As it is named and as it really is.
    git_dirs: Vec<AbsPath>,
    branch: Option<Vec<u8>>,
    entries: Vec<Entry>,
}

/// Writes `.gitconfig` and the files that it would name.
pub(super) fn furnish(ground: &Ground<'_>, home: &Dir, look: &mut dyn Look) -> io::Result<Signing> {
    let repository = Repository::of(ground.surface.root(), look);
    let config = ground.base(Base::Config);
    let mut reader = Reader { ground, look, repository: &repository, entries: Vec::new(), files: Files::default() };
    let named = ground.caller.get(b"GIT_CONFIG_GLOBAL".as_slice()).map(|path| AbsPath::lexical(path).ok());
    let both =
        || [config.as_ref().map(|dir| dir.join("git/config")), ground.base(Base::Home).map(|h| h.join(".gitconfig"))];
    let paths: Vec<AbsPath> = match named {
        Some(path) => path.into_iter().collect(),
        None => both().into_iter().flatten().collect(),
    };
    for path in &paths {
        reader.file(path, 0);
    }
    let Reader { entries, files, .. } = reader;
    let own = |section: &[u8], name: &[u8], value: &[u8]| {
        let (section, name) = (section.to_vec(), name.to_vec());
        Entry { section, subsection: None, name, value: Some(value.to_vec()) }
    };
    // What the user says comes later.
    let mut passing = vec![own(b"checkout", b"workers", workers(processors()).to_string().as_bytes())];
    passing.extend(entries.iter().filter(|entry| passes(entry, settings::GIT)).cloned());
    // Templates hold examples of hooks, and nothing of that name can be made inside.
    passing.push(own(b"init", b"templatedir", b""));
    put(home, b".gitconfig", &git_config::write(&passing))?;
    for (file, default) in [(files.ignore, "ignore"), (files.attributes, "attributes")] {
        let path = file.or_else(|| Some(config.as_ref()?.join("git").join(default)));
        let shown =
            path.and_then(|path| ground.read(&path, look)).filter(|(real, _)| ground.denied(real) == Denied::No);
        if let Some((_, text)) = shown {
            put(home, [b".config/git/", default.as_bytes()].concat().as_slice(), &text)?;
        }
    }
    Ok(match (asks_to_sign(&repository.entries), asks_to_sign(&entries)) {
        (Some(true), _) => Signing::AskedByRepository,
        (None, Some(true)) => Signing::AskedByUser,
        _ => Signing::Unasked,
    })
}

/// Is this setting of the user's copied to the session's home?
fn passes(entry: &Entry, keys: &[Row]) -> bool {
    // An alias with `!` is a command line of the user's own, with whatever was written into it.
    let is_command =
        entry.section == b"alias" && entry.value.as_ref().is_some_and(|value| value.first() == Some(&b'!'));
    let is_listed = entry.matches_any(keys.iter().map(|row| row.pattern));
    is_listed && !is_command && !entry.value.as_deref().is_some_and(has_password)
}

fn processors() -> u32 {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count())
}

/// How many make files at once when git checks out. Each file is a call that waits for the broker: so that every processor has
/// something to do there are two for each, and no more than the broker has hands for.
fn workers(processors: u32) -> u32 {
    if processors < 2 { 1 } else { (2 * processors).min(MOST_WORKERS) }
}

/// What the last word on it is.
fn asks_to_sign(entries: &[Entry]) -> Option<bool> {
    entries.iter().rfind(|entry| entry.is("commit", "gpgsign")).map(Entry::is_true)
}

/// Files that settings name, which git reads for every repository.
#[derive(Debug, Default)]
struct Files {
    ignore: Option<AbsPath>,
    attributes: Option<AbsPath>,
}

struct Reader<'a> {
    ground: &'a Ground<'a>,
    look: &'a mut dyn Look,
    repository: &'a Repository,
    entries: Vec<Entry>,
    files: Files,
}

impl Reader<'_> {
    /// Reads a file with what it includes, in git's order.
    fn file(&mut self, path: &AbsPath, depth: usize) {
        let Some((real, text)) = self.ground.read(path, self.look) else { return };
        // A file that the agent may write (dotfiles are projects too) leads nowhere else: it would choose what is read here.
        let leads = depth < MOST_INCLUDES && !self.ground.is_writable(&real);
        for entry in git_config::parse(&text) {
            let target = if leads { self.target(&entry, path) } else { None };
            match target {
                Some(target) if entry.is("core", "excludesfile") => self.files.ignore = Some(target),
                Some(target) if entry.is("core", "attributesfile") => self.files.attributes = Some(target),
                Some(target) if entry.is("include", "path") => self.file(&target, depth + 1),
                Some(target) if entry.is("includeif", "path") => {
                    let condition = entry.subsection.as_deref().unwrap_or_default();
                    if self.repository.fulfils(condition, path, self.ground.base(Base::Home).as_ref()) {
                        self.file(&target, depth + 1);
                    }
                }
                _ => {}
            }
            self.entries.push(entry);
        }
    }

    /// The file that a value names: below the home, or relative to the file it stands in.
    fn target(&self, entry: &Entry, file: &AbsPath) -> Option<AbsPath> {
        let value = entry.value.as_ref()?;
        let full = match value.strip_prefix(b"~/") {
            Some(rest) => [self.ground.base(Base::Home)?.as_bytes(), b"/", rest].concat(),
            None if value.first() == Some(&b'/') => value.clone(),
            None if value.is_empty() || !entry.section.starts_with(b"include") => return None,
            None => [file.parent()?.as_bytes(), b"/", value].concat(),
        };
        AbsPath::lexical(&full).ok()
    }
}

impl Repository {
    fn of(root: &AbsPath, look: &mut dyn Look) -> Self {
        let dot_git = root.child(b".git");
        let (git_dir, common_dir) = match look.path(&dot_git) {
            PathFact::Directory => (dot_git.clone(), dot_git.clone()),
            PathFact::Missing => return Self { git_dirs: Vec::new(), branch: None, entries: Vec::new() },
            _ => match look.git(&dot_git).filter(|git| git.vouched) {
                Some(git) => (git.git_dir, git.common_dir),
                None => return Self { git_dirs: Vec::new(), branch: None, entries: Vec::new() },
            },
        };
        let read = |path: AbsPath, most| read_real(&path, most).unwrap_or_default();
        let head = read(git_dir.child(b"HEAD"), 4096);
        let branch = head.trim_ascii().strip_prefix(b"ref: refs/heads/").map(<[u8]>::to_vec);
        let entries = git_config::parse(&read(common_dir.child(b"config"), super::MOST_BYTES));
        let real =
            follow(&AbsPath::root(), git_dir.as_bytes(), look).map_or_else(|_| git_dir.clone(), |found| found.path);
        Self { git_dirs: vec![git_dir, real], branch, entries }
    }

    /// Does the condition of an include hold? One that is not known does not.
    fn fulfils(&self, condition: &[u8], file: &AbsPath, home: Option<&AbsPath>) -> bool {
        if let Some(pattern) = condition.strip_prefix(b"gitdir:") {
            let Some(pattern) = directory_pattern(pattern, file, home) else { return false };
            return self.git_dirs.iter().any(|dir| matches(&pattern, dir.as_bytes()));
        }
        if let Some(pattern) = condition.strip_prefix(b"gitdir/i:") {
            let Some(pattern) = directory_pattern(pattern, file, home) else { return false };
            let lower = |bytes: &[u8]| bytes.to_ascii_lowercase();
            return self.git_dirs.iter().any(|dir| matches(&lower(&pattern), &lower(dir.as_bytes())));
        }
        if let Some(pattern) = condition.strip_prefix(b"onbranch:") {
            return self.branch.as_ref().is_some_and(|branch| matches(&whole(pattern), branch));
        }
        if let Some(pattern) = condition.strip_prefix(b"hasconfig:remote.*.url:") {
            let remotes = self.entries.iter().filter(|entry| entry.is("remote", "url"));
            return remotes.filter_map(|entry| entry.value.as_ref()).any(|url| matches(pattern, url));
        }
        false
    }
}

/// `~/` is the home, `./` the file's own directory, and what begins with neither is meant at any depth.
fn directory_pattern(pattern: &[u8], file: &AbsPath, home: Option<&AbsPath>) -> Option<Vec<u8>> {
    let full = match pattern {
        [b'~', b'/', rest @ ..] => [home?.as_bytes(), b"/", rest].concat(),
        [b'.', b'/', rest @ ..] => [file.parent()?.as_bytes(), b"/", rest].concat(),
        [b'/', ..] => pattern.to_vec(),
        _ => [b"**/", pattern].concat(),
    };
    Some(whole(&full))
}

/// A pattern that ends with a slash means everything below.
fn whole(pattern: &[u8]) -> Vec<u8> {
    if pattern.ends_with(b"/") { [pattern, b"**"].concat() } else { pattern.to_vec() }
}

/// Git's wildcards: `*` and `?` stay within one name, `**` between slashes is any number of them.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        b"**" => true,
        [b'*', b'*', b'/', rest @ ..] => {
            let deeper = text.iter().position(|byte| *byte == b'/');
            matches(rest, text) || deeper.is_some_and(|slash| matches(pattern, &text[slash + 1..]))
        }
        [b'*', rest @ ..] => {
            matches(rest, text) || text.first().is_some_and(|byte| *byte != b'/' && matches(pattern, &text[1..]))
        }
        [b'?', rest @ ..] => text.first().is_some_and(|byte| *byte != b'/' && matches(rest, &text[1..])),
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] => text.first() == Some(byte) && matches(rest, &text[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_twice_the_processors() {
        assert_eq!([1, 2, 3, 4, 64].map(workers), [1, 4, 6, 8, 8]);
    }

    #[test]
    fn only_listed_keys_pass() {
        let passing =
            |text: &str| git_config::parse(text.as_bytes()).iter().filter(|e| passes(e, settings::GIT)).count();
        for text in [
            "[user]\nname = A",
            "[filter \"lfs\"]\nclean = git-lfs clean -- %f",
            "[alias]\nco = checkout",
            "[color \"diff\"]\nmeta = blue",
        ] {
            assert_eq!(passing(text), 1, "{text}");
        }
        for text in [
            "[user]\nsigningkey = X",
            "[commit]\ngpgsign = true",
            "[credential]\nhelper = store",
            "[credential \"https://x\"]\nusername = u",
            "[url \"https://u:token@host/\"]\ninsteadOf = https://host/",
            "[http]\nextraHeader = AUTHORIZATION: bearer x",
            "[http \"https://host\"]\nproxy = http://u:p@proxy",
            "[core]\nsshCommand = ssh -i key",
            "[core]\nhooksPath = ~/hooks",
            "[core]\npager = delta",
            "[alias]\nx = !curl -H token",
            "[include]\npath = other",
            "[sendemail]\nsmtpPass = x",
            "[pretty]\nx = https://u:p@host/",
        ] {
            assert_eq!(passing(text), 0, "{text}");
        }
    }

    #[test]
    fn wildcards() {
        for (pattern, text) in [
            ("/home/u/work/**", "/home/u/work/a/.git"),
            ("**/work/**", "/home/u/work/a/.git"),
            ("/home/*/x", "/home/u/x"),
            ("feature/**", "feature/a/b"),
            ("fix-?", "fix-1"),
            ("git@github.com:corp/**", "git@github.com:corp/x.git"),
            ("https://*/corp/**", "https://h/corp/x"),
            ("a\\*b", "a*b"),
            ("**/a", "a"),
        ] {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("/home/u/work/**", "/home/u/workshop/.git"),
            ("/home/*/x", "/home/u/v/x"),
            ("fix-?", "fix-12"),
            ("a", "ab"),
            ("ab", "a"),
            ("**/a", "ba"),
        ] {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn conditions() {
        let path = |text: &str| AbsPath::lexical(text.as_bytes()).unwrap();
        let repository = Repository {
            git_dirs: vec![path("/home/u/work/api/.git")],
            branch: Some(b"feature/x".to_vec()),
            entries: git_config::parse(b"[remote \"origin\"]\nurl = git@host:corp/api\n"),
        };
        let check = |condition: &str, expected: bool| {
            let holds = repository.fulfils(condition.as_bytes(), &path("/home/u/.gitconfig"), Some(&path("/home/u")));
            assert_eq!(holds, expected, "{condition}");
        };
        check("gitdir:~/work/", true);
        check("gitdir:/home/u/work/", true);
        check("gitdir:./work/", true);
        check("gitdir:work/", true);
        check("gitdir:~/play/", false);
        check("gitdir:~/WORK/", false);
        check("gitdir/i:~/WORK/", true);
        check("onbranch:feature/", true);
        check("onbranch:main", false);
        check("hasconfig:remote.*.url:git@host:corp/**", true);
        check("hasconfig:remote.*.url:git@host:other/**", false);
        check("unheard-of:x", false);
    }
}
