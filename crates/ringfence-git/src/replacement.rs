//! What a command of git is about to put into the work tree, as its command line says.
//!
//! This is a hint: it serves to refuse a command before it has changed anything, where it would be refused later. A command line that is not
//! understood says nothing.

/// How a commit changes the work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replacement {
    /// Files in which the commit differs from `HEAD` are replaced.
    Switch(Vec<u8>),
    /// The same, only for files below these paths, seen from the current directory.
    Paths(Vec<u8>, Vec<Vec<u8>>),
    /// The same, if `HEAD` does not contain the commit already.
    Rebase(Vec<u8>),
    /// What the commit changed since it parted from `HEAD` is merged.
    Merge(Vec<u8>),
    /// What each commit changed is applied.
    Pick(Vec<Vec<u8>>),
    /// What the commit changed is undone.
    Revert(Vec<u8>),
}

impl Replacement {
    /// May the file at this path of the repository be replaced? For names that may mean others, and for the current directory, which is unknown, the
    /// answer is no: then the command is refused later.
    #[must_use]
    pub fn covers(&self, file: &[u8]) -> bool {
        let Self::Paths(_, paths) = self else { return true };
        paths.iter().any(|path| {
            let path = path.strip_suffix(b"/").unwrap_or(path);
            let is_plain = !path.is_empty() && !path.iter().any(|byte| b"*?[:".contains(byte));
            is_plain && file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        })
    }
}

/// Options whose value is the next word.
const GLOBAL: &[&[u8]] = &[b"-C", b"-c", b"--git-dir", b"--work-tree", b"--namespace", b"--config-env", b"--exec-path"];

/// Reads a command line, beginning with the name of the program.
#[must_use]
pub fn of_command<'w>(words: impl IntoIterator<Item = &'w [u8]>) -> Option<Replacement> {
    let mut words = words.into_iter().skip(1);
    let command = loop {
        match words.next()? {
            word if GLOBAL.contains(&word) => drop(words.next()?),
            word if word.starts_with(b"-") => {}
            word => break word,
        }
    };
    let rest: Vec<&[u8]> = words.collect();
    match command {
        b"switch" => switch(&Arguments::read(&rest, &[b"-c", b"-C", b"--create", b"--force-create", b"--conflict"])),
        b"checkout" => checkout(&Arguments::read(&rest, &[b"-b", b"-B", b"--conflict"])),
        b"reset" => reset(&Arguments::read(&rest, &[])),
        b"restore" => restore(&Arguments::read(&rest, &[b"-s", b"--source", b"--conflict"])),
        b"merge" => {
            merge(&Arguments::read(&rest, &[b"-m", b"-F", b"--file", b"-X", b"--strategy-option", b"--into-name"]))
        }
        b"rebase" => {
            rebase(&Arguments::read(&rest, &[b"--onto", b"-x", b"--exec", b"-X", b"--strategy-option", b"-C"]))
        }
        b"cherry-pick" => {
            pick(&Arguments::read(&rest, &[b"-X", b"--strategy-option", b"--cleanup"])).map(Replacement::Pick)
        }
        b"revert" => {
            let arguments = Arguments::read(&rest, &[b"-X", b"--strategy-option", b"--cleanup"]);
            pick(&arguments)?.pop().filter(|_| arguments.plain.len() == 1).map(Replacement::Revert)
        }
        b"stash" => stash(&rest),
        b"worktree" if rest.first() == Some(&b"add".as_slice()) => {
            let arguments = Arguments::read(&rest[1..], &[b"-b", b"-B", b"--reason"]);
            if arguments.has(&[b"--orphan", b"--no-checkout"]) {
                return None;
            }
            match arguments.plain.as_slice() {
                [_, revision] => Some(Replacement::Switch(revision.to_vec())),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The words after a command.
struct Arguments<'w> {
    /// Options, each with its value.
    options: Vec<(&'w [u8], &'w [u8])>,
    plain: Vec<&'w [u8]>,
    /// What follows `--`.
    paths: Option<Vec<&'w [u8]>>,
}

impl<'w> Arguments<'w> {
    fn read(words: &[&'w [u8]], with_value: &[&[u8]]) -> Self {
        let mut arguments = Self { options: Vec::new(), plain: Vec::new(), paths: None };
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            if word == b"--" {
                arguments.paths = Some(words.collect());
                break;
            }
            if word == b"-" || !word.starts_with(b"-") {
                arguments.plain.push(word);
            } else if with_value.contains(&word) {
                arguments.options.push((word, words.next().unwrap_or_default()));
            } else {
                let at = word.iter().position(|byte| *byte == b'=').filter(|_| word.starts_with(b"--"));
                let (name, value) = at.map_or((word, &word[..0]), |at| (&word[..at], &word[at + 1..]));
                arguments.options.push((name, value));
            }
        }
        arguments
    }

    fn has(&self, names: &[&[u8]]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(name))
    }

    fn value(&self, names: &[&[u8]]) -> Option<&'w [u8]> {
        self.options.iter().rev().find(|(name, _)| names.contains(name)).map(|(_, value)| *value)
    }
}

fn only(arguments: &Arguments<'_>) -> Option<Vec<u8>> {
    match arguments.plain.as_slice() {
        [revision] => Some(revision.to_vec()),
        _ => None,
    }
}

fn switch(arguments: &Arguments<'_>) -> Option<Replacement> {
    if arguments.has(&[b"--orphan"]) {
        return None;
    }
    only(arguments).map(Replacement::Switch)
}

fn checkout(arguments: &Arguments<'_>) -> Option<Replacement> {
    let partial: &[&[u8]] = &[b"--orphan", b"-p", b"--patch", b"--ours", b"--theirs", b"--pathspec-from-file"];
    if arguments.has(partial) {
        return None;
    }
    let owned = |paths: &[&[u8]]| paths.iter().map(|path| path.to_vec()).collect::<Vec<_>>();
    match (arguments.plain.as_slice(), arguments.paths.as_deref()) {
        ([revision], None | Some([])) => Some(Replacement::Switch(revision.to_vec())),
        ([revision], Some(paths)) => Some(Replacement::Paths(revision.to_vec(), owned(paths))),
        ([revision, paths @ ..], None) => Some(Replacement::Paths(revision.to_vec(), owned(paths))),
        _ => None,
    }
}

fn reset(arguments: &Arguments<'_>) -> Option<Replacement> {
    if arguments.has(&[b"--hard", b"--merge", b"--keep"]) && arguments.paths.as_ref().is_none_or(Vec::is_empty) {
        return only(arguments).map(Replacement::Switch);
    }
    None
}

fn restore(arguments: &Arguments<'_>) -> Option<Replacement> {
    let is_in_work_tree = !arguments.has(&[b"-S", b"--staged"]) || arguments.has(&[b"-W", b"--worktree"]);
    if arguments.has(&[b"-p", b"--patch", b"--pathspec-from-file"]) || !is_in_work_tree {
        return None;
    }
    let paths = arguments.plain.iter().chain(arguments.paths.iter().flatten()).map(|path| path.to_vec()).collect();
    Some(Replacement::Paths(arguments.value(&[b"-s", b"--source"])?.to_vec(), paths))
}

/// A strategy of its own may take anything from either side.
const SPECIAL: &[&[u8]] =
    &[b"-s", b"--strategy", b"-X", b"--strategy-option", b"--abort", b"--continue", b"--quit", b"--skip"];

fn merge(arguments: &Arguments<'_>) -> Option<Replacement> {
    if arguments.has(SPECIAL) {
        return None;
    }
    only(arguments).map(Replacement::Merge)
}

fn rebase(arguments: &Arguments<'_>) -> Option<Replacement> {
    // With another branch it is not `HEAD` whose files are replaced.
    if arguments.has(&[b"--abort", b"--continue", b"--quit", b"--skip", b"--edit-todo", b"--root"])
        || arguments.plain.len() > 1
    {
        return None;
    }
    let onto = arguments.value(&[b"--onto"]).or_else(|| arguments.plain.first().copied())?;
    Some(Replacement::Rebase(onto.to_vec()))
}

fn pick(arguments: &Arguments<'_>) -> Option<Vec<Vec<u8>>> {
    let is_range = |word: &&[u8]| word.windows(2).any(|two| two == b"..") || word.starts_with(b"^");
    if arguments.has(SPECIAL)
        || arguments.has(&[b"-m", b"--mainline", b"--stdin"])
        || arguments.plain.iter().any(is_range)
    {
        return None;
    }
    Some(arguments.plain.iter().map(|word| word.to_vec()).collect()).filter(|commits: &Vec<_>| !commits.is_empty())
}

fn stash(rest: &[&[u8]]) -> Option<Replacement> {
    let [b"pop" | b"apply", rest @ ..] = rest else { return None };
    let arguments = Arguments::read(rest, &[]);
    let revision = match arguments.plain.as_slice() {
        [] => b"stash@{0}".to_vec(),
        [number] if number.iter().all(u8::is_ascii_digit) => [b"stash@{".as_slice(), number, b"}"].concat(),
        [revision] => revision.to_vec(),
        _ => return None,
    };
    Some(Replacement::Pick(vec![revision]))
}

/// Steps from a commit to one of its ancestors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// `^N`.
    Parent(usize),
    /// `~N`: so many times the first parent.
    Ancestor(usize),
}

/// A revision: what it begins with, and the steps from there. Nothing where it has other suffixes.
#[must_use]
pub fn steps(revision: &[u8]) -> Option<(&[u8], Vec<Step>)> {
    let end = revision.iter().position(|byte| matches!(byte, b'^' | b'~')).unwrap_or(revision.len());
    let (base, mut rest) = revision.split_at(end);
    let mut steps = Vec::new();
    while let Some((sign, after)) = rest.split_first() {
        let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = match digits {
            0 => 1,
            _ => std::str::from_utf8(&after[..digits]).ok()?.parse().ok()?,
        };
        steps.push(match sign {
            b'^' => Step::Parent(number),
            b'~' => Step::Ancestor(number),
            _ => return None,
        });
        rest = &after[digits..];
    }
    Some((base, steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let shown = match of_command(line.split(' ').map(str::as_bytes)) {
            None => String::new(),
            Some(Replacement::Switch(to)) => format!("switch {}", text(&to)),
            Some(Replacement::Paths(of, paths)) => {
                format!("paths {} {}", text(&of), paths.iter().map(|path| text(path)).collect::<Vec<_>>().join(" "))
            }
            Some(Replacement::Rebase(onto)) => format!("rebase {}", text(&onto)),
            Some(Replacement::Merge(with)) => format!("merge {}", text(&with)),
            Some(Replacement::Pick(all)) => {
                format!("pick {}", all.iter().map(|one| text(one)).collect::<Vec<_>>().join(" "))
            }
            Some(Replacement::Revert(one)) => format!("revert {}", text(&one)),
        };
        assert_eq!(shown, expected, "{line}");
    }

    fn text(bytes: &[u8]) -> String {
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn b_what_a_command_replaces() {
        check("git switch dev", "switch dev");
        check("git -C x -c a=b --no-pager switch -q -", "switch -");
        check("git switch -c new origin/dev", "switch origin/dev");
        check("git switch -c new", "");
        check("git switch --orphan new", "");
        check("git checkout -b new dev~2", "switch dev~2");
        check("git checkout dev -- .github a", "paths dev .github a");
        check("git checkout dev a", "paths dev a");
        check("git checkout -- a", "");
        check("git checkout -p dev", "");
        check("git reset --hard HEAD~1", "switch HEAD~1");
        check("git reset --hard", "");
        check("git reset HEAD~1", "");
        check("git restore --source=dev --staged a", "");
        check("git restore --source=dev --staged --worktree a", "paths dev a");
        check("git restore -s dev a", "paths dev a");
        check("git merge --no-edit -m words dev", "merge dev");
        check("git merge --abort", "");
        check("git merge -s ours dev", "");
        check("git merge a b", "");
        check("git rebase main", "rebase main");
        check("git rebase --onto dev main", "rebase dev");
        check("git rebase main topic", "");
        check("git rebase --continue", "");
        check("git cherry-pick -n a b", "pick a b");
        check("git cherry-pick a..b", "");
        check("git revert --no-edit HEAD", "revert HEAD");
        check("git stash", "");
        check("git stash pop", "pick stash@{0}");
        check("git stash apply --index 2", "pick stash@{2}");
        check("git worktree add -b new ../wt dev", "switch dev");
        check("git worktree add ../wt", "");
        check("git status", "");
        check("git", "");
    }

    #[test]
    fn b_files_that_paths_cover() {
        let covers = |path: &str, file: &str| Replacement::Paths(Vec::new(), vec![path.into()]).covers(file.as_bytes());
        for (path, file, expected) in [
            (".github/", ".github/workflows/a", true),
            (".envrc", ".envrc", true),
            (".env", ".envrc", false),
            (".", ".envrc", false),
            (":/", ".envrc", false),
            ("*", ".envrc", false),
        ] {
            assert_eq!(covers(path, file), expected, "{path} {file}");
        }
    }

    #[test]
    fn b_steps_of_a_revision() {
        assert_eq!(steps(b"dev"), Some((b"dev".as_slice(), vec![])));
        assert_eq!(steps(b"HEAD~2^"), Some((b"HEAD".as_slice(), vec![Step::Ancestor(2), Step::Parent(1)])));
        assert_eq!(steps(b"v1^0"), Some((b"v1".as_slice(), vec![Step::Parent(0)])));
        assert_eq!(steps(b"v1^{commit}"), None);
        assert_eq!(steps(b"a^99999999999999999999"), None);
    }
}
