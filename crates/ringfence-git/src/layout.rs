//! The closed list of what may stand below a git directory, by path.
//!
//! Everything that git itself writes during ordinary work is listed, with the grammar that its content must follow. Whatever is not
//! listed is [`FileKind::Closed`]: a new kind of file that some tool reads from a git directory (`lazygit.yml`, `hooks/`, `sl/config`)
//! is refused although the list does not know the tool.
//!
//! No entry is ever a symbolic link, a second hard link, a pipe, a socket or a device: git follows links when it writes, so
//! `COMMIT_EDITMSG -> config` turns a commit message into settings.

/// What a regular file below a git directory may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Any content. Nothing is executed, contacted or written because of what it says.
    Free,
    /// Content that follows a grammar, judged when the file is closed or moved into place.
    Vetted(Grammar),
    /// Settings: written only as `config.lock` that is moved into place, and judged key by key.
    Settings,
    /// The index: written only as `index.lock` that is moved into place, and judged entry by entry.
    Index,
    /// The part of a split index that is shared by several: as the index.
    SharedIndex,
    /// A loose object, a pack or its index: moved into place once, never written again.
    Object(ObjectFile),
    /// Below a directory that is about to become a git directory of its own (`modules/NAME`): judged as a whole when it does.
    Forming,
    /// Cannot be written inside.
    Closed,
}

/// How the content of a [`FileKind::Vetted`] file is judged: see [`crate::grammar`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grammar {
    /// `HEAD`: an object id, or `ref: refs/...`.
    Head,
    /// A pseudo-ref such as `MERGE_HEAD`: object ids, or `ref: refs/...`.
    PseudoRef,
    /// A loose ref below `refs/`.
    LooseRef,
    /// `packed-refs`.
    PackedRefs,
    /// Lines of object ids, nothing else.
    ObjectIds,
    /// A decimal number. Shell prompts expand these files.
    Number,
    /// The branch that is rebased, or `detached HEAD`.
    HeadName,
    /// A list of rebase or cherry-pick steps, without commands to run.
    Todo,
    /// `GIT_AUTHOR_NAME='..'` and similar lines: old versions of git source this file.
    AuthorScript,
    /// The name of one of git's own merge strategies: `git merge-NAME` would be executed.
    Strategy,
    /// Options of a merge strategy.
    StrategyOptions,
    /// `-S` and a key id.
    SigningOption,
    /// Options for `git apply`.
    ApplyOptions,
    /// `sequencer/opts`, a small configuration file.
    SequencerOptions,
    /// A word or two, or nothing.
    Flag,
    /// Names of refs and object ids, line by line.
    RefUpdates,
    /// The two words that a bisection calls good and bad.
    BisectTerms,
    /// Quoted words that none of git's commands takes for options.
    QuotedWords,
    /// The log of a bisection.
    BisectLog,
    /// Where a linked work tree's directory belongs to.
    CommonDir,
    /// The `.git` file of a linked work tree.
    WorkTreeFile,
    /// Further directories of objects.
    Alternates,
}

/// Which object file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectFile {
    /// `objects/ab/cdef..`.
    Loose,
    /// `objects/pack/pack-*.pack`.
    Pack,
    /// `objects/pack/pack-*.idx`.
    PackIndex,
    /// What helps to read a pack and can be made again: `.rev`, `.bitmap`, `.mtimes`. Git believes it.
    PackCache,
    /// `.keep`: the pack stays when others are packed anew. Git does not read its content.
    PackKeep,
    /// `.promisor`: objects that the pack lacks come from a server. Git does not read its content.
    PackPromisor,
}

/// May a git directory of its own stand at this path, relative to another one? Git keeps those of submodules and of linked work trees there.
pub fn is_place_of_git_directory(path: &[u8]) -> bool {
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    matches!(names.as_slice(), [b"worktrees", _name]) || file_kind(path) == FileKind::Forming
}

/// Is this the path of a directory that git itself never makes in a git directory? The work tree of a bare repository may be there.
pub fn is_foreign_directory(path: &[u8]) -> bool {
    let first = path.split(|byte| *byte == b'/').next().unwrap_or_default();
    !is_directory(first) && !matches!(first, b"hooks" | b"branches" | b"remotes" | b"rr-cache")
}

/// `.git` names a git directory wherever it is, and git never makes one below another under this name. A file system may fold case.
fn has_dot_git(names: &[&[u8]]) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(b".git"))
}

/// May a directory of this path, relative to a git directory, be made?
pub fn is_directory(path: &[u8]) -> bool {
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    if has_dot_git(&names) {
        return false;
    }
    match names.as_slice() {
        [b"info" | b"lfs" | b"logs" | b"modules" | b"objects" | b"refs" | b"reftable" | b"worktrees"] => true,
        [b"rebase-apply" | b"rebase-merge" | b"sequencer" | b"NOTES_MERGE_WORKTREE"] => true,
        [b"rebase-merge", b"rewritten"] | [b"objects", b"info" | b"pack"] => true,
        [b"objects", rest @ ..] => is_objects_directory(rest),
        [b"worktrees", _name] => true,
        // Git reads these from the common directory. With `objects` of its own the entry would be another repository.
        [b"worktrees", _name, b"objects" | b"worktrees", ..] => false,
        [b"worktrees", _name, rest @ ..] => is_directory(&rest.join(&b'/')),
        [b"lfs", b"objects" | b"tmp" | b"cache" | b"incomplete" | b"logs", ..] => true,
        [b"refs", b"replace", ..] => false,
        [b"logs" | b"refs" | b"modules" | b"NOTES_MERGE_WORKTREE", ..] => true,
        _ => false,
    }
}

fn is_objects_directory(names: &[&[u8]]) -> bool {
    match names {
        [fan_out] if is_hex(fan_out, 2) => true,
        // What is received is kept apart until all of it is there.
        [quarantine] => is_quarantine(quarantine),
        [quarantine, rest @ ..] if is_quarantine(quarantine) => {
            matches!(rest, [b"info" | b"pack"]) || is_objects_directory(rest)
        }
        _ => false,
    }
}

fn is_quarantine(name: &[u8]) -> bool {
    name.starts_with(b"tmp_objdir-") || name.starts_with(b"incoming-")
}

/// What a file of this path, relative to a git directory, may hold.
pub fn file_kind(path: &[u8]) -> FileKind {
    // No program reads a lock: git writes it and moves it into place.
    if let Some(locked) = path.strip_suffix(b".lock") {
        return match file_kind(locked) {
            FileKind::Closed => FileKind::Closed,
            FileKind::Forming => FileKind::Forming,
            _ => FileKind::Free,
        };
    }
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    if has_dot_git(&names) { FileKind::Closed } else { kind_of(&names) }
}

fn kind_of(names: &[&[u8]]) -> FileKind {
    use FileKind::{Closed, Forming, Free, Vetted};
    match names {
        [name] => top_level(name),
        [b"objects", rest @ ..] => object_kind(rest),
        // Git takes another object wherever it reads this one: a hook that the user checks out would be the agent's.
        [b"refs", b"replace", ..] => Closed,
        [b"refs", rest @ ..] if rest.iter().all(|name| !name.is_empty()) => Vetted(Grammar::LooseRef),
        [b"logs", ..] => Free,
        [b"info", b"exclude" | b"sparse-checkout" | b"refs"] => Free,
        [b"info", name] if name.starts_with(b"refs_") => Free,
        [b"rebase-merge", name] => rebase_kind(name),
        [b"rebase-merge", b"rewritten", _] => Vetted(Grammar::ObjectIds),
        [b"rebase-apply", name] => am_kind(name),
        [b"sequencer", name] => match *name {
            b"todo" | b"done" => Vetted(Grammar::Todo),
            b"head" | b"abort-safety" => Vetted(Grammar::ObjectIds),
            b"opts" => Vetted(Grammar::SequencerOptions),
            name if is_editor_file(name, &[b"todo"]) => Free,
            _ => Closed,
        },
        [b"worktrees", _name, rest @ ..] if !rest.is_empty() => work_tree_kind(rest),
        [b"modules", ..] => Forming,
        [b"lfs", b"objects" | b"tmp" | b"cache" | b"incomplete" | b"logs", ..] => Free,
        // Notes that are merged by hand: text.
        [b"NOTES_MERGE_WORKTREE", ..] => Free,
        // Tables of refs. They are not parsed here; what they name is not judged.
        [b"reftable", name] => {
            if *name == b"tables.list" || name.ends_with(b".ref") || name.ends_with(b".temp") {
                Free
            } else {
                Closed
            }
        }
        _ => Closed,
    }
}

/// Below `worktrees/NAME`: what belongs to one work tree, and what ties it to its repository.
fn work_tree_kind(names: &[&[u8]]) -> FileKind {
    match names {
        [b"commondir"] => FileKind::Vetted(Grammar::CommonDir),
        [b"gitdir"] => FileKind::Vetted(Grammar::WorkTreeFile),
        // Why it is locked.
        [b"locked"] => FileKind::Free,
        // Shared by all work trees: git reads these from the common directory.
        [b"config" | b"packed-refs" | b"shallow"] | [b"objects" | b"hooks" | b"worktrees", ..] => FileKind::Closed,
        _ => kind_of(names),
    }
}

fn top_level(name: &[u8]) -> FileKind {
    use FileKind::{Closed, Free, Vetted};
    match name {
        b"HEAD" => Vetted(Grammar::Head),
        b"config" | b"config.worktree" => FileKind::Settings,
        b"index" => FileKind::Index,
        b"packed-refs" => Vetted(Grammar::PackedRefs),
        b"packed-refs.new" => Free,
        b"shallow" => Vetted(Grammar::ObjectIds),
        b"commondir" => Vetted(Grammar::CommonDir),
        b"gitdir" => Vetted(Grammar::WorkTreeFile),
        b"FETCH_HEAD" | b"description" | b"gc.log" | b"gc.pid" | b"BISECT_RUN" | b"locked" => Free,
        b"COMMIT_EDITMSG"
        | b"MERGE_MSG"
        | b"SQUASH_MSG"
        | b"TAG_EDITMSG"
        | b"NOTES_EDITMSG"
        | b"EDIT_DESCRIPTION"
        | b"BRANCH_DESCRIPTION"
        | b"ADD_EDIT.patch"
        | b"addp-hunk-edit.diff" => Free,
        b"MERGE_MODE" | b"BISECT_ANCESTORS_OK" | b"BISECT_FIRST_PARENT" => Vetted(Grammar::Flag),
        b"BISECT_START" => Vetted(Grammar::HeadName),
        b"BISECT_TERMS" => Vetted(Grammar::BisectTerms),
        b"BISECT_NAMES" => Vetted(Grammar::QuotedWords),
        b"BISECT_LOG" => Vetted(Grammar::BisectLog),
        // `git commit` copies the files that it names into `rr-cache`: a path that leads through a link would copy a secret to where
        // the next session can read it.
        b"MERGE_RR" => Closed,
        // A rebase by patches keeps them here for a moment.
        b"rebased-patches" => Free,
        // `git init` finds out whether there are symbolic links.
        [b't', rest @ ..] if rest.len() == 6 && rest.iter().all(u8::is_ascii_alphanumeric) => Free,
        _ if is_pseudo_ref(name) => Vetted(Grammar::PseudoRef),
        // Indexes that one command uses and removes.
        _ if name.starts_with(b"next-index-") || name.starts_with(b"index.stash.") => Free,
        _ if name.starts_with(b"sharedindex_") || name.starts_with(b"shallow_") => Free,
        _ if name.starts_with(b"sharedindex.") => FileKind::SharedIndex,
        _ if is_editor_file(name, EDITED) => Free,
        _ => Closed,
    }
}

/// Files of the git directory that editors open.
const EDITED: &[&[u8]] =
    &[b"COMMIT_EDITMSG", b"MERGE_MSG", b"SQUASH_MSG", b"TAG_EDITMSG", b"NOTES_EDITMSG", b"EDIT_DESCRIPTION"];

/// What an editor keeps beside a file that it edits: `.NAME.swp`, `NAME~`.
fn is_editor_file(name: &[u8], edited: &[&[u8]]) -> bool {
    // `sed -i` makes another file, and moves it into place.
    let is_of_sed =
        matches!(name, [b's', b'e', b'd', rest @ ..] if rest.len() == 6 && rest.iter().all(u8::is_ascii_alphanumeric));
    is_of_sed
        || edited.iter().any(|file| {
            name.strip_suffix(b"~") == Some(file)
                || name
                    .strip_prefix(b".")
                    .and_then(|name| name.strip_prefix(*file))
                    .is_some_and(|rest| matches!(rest, [b'.', b's', b'w', b'a'..=b'z']))
        })
}

/// `ORIG_HEAD`, `CHERRY_PICK_HEAD` and their like.
fn is_pseudo_ref(name: &[u8]) -> bool {
    let is_listed = matches!(
        name,
        b"AUTO_MERGE" | b"BISECT_EXPECTED_REV" | b"MERGE_AUTOSTASH" | b"NOTES_MERGE_PARTIAL" | b"NOTES_MERGE_REF"
    );
    is_listed || name.ends_with(b"_HEAD") && name.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_')
}

fn object_kind(names: &[&[u8]]) -> FileKind {
    use FileKind::{Closed, Free, Object};
    match names {
        [quarantine, rest @ ..] if is_quarantine(quarantine) => match object_kind(rest) {
            // What is kept apart is judged when it is moved to where objects are found.
            Object(_) => Free,
            kind => kind,
        },
        [fan_out, name] if is_hex(fan_out, 2) => match name {
            name if is_hex(name, 38) || is_hex(name, 62) => Object(ObjectFile::Loose),
            name if name.starts_with(b"tmp_obj_") => Free,
            // What a fetch from a server without a service of git's (dumb HTTP) has not moved into place yet.
            name if without_partial(name).is_some_and(|name| is_hex(name, 38) || is_hex(name, 62)) => Free,
            _ => Closed,
        },
        [name] if name.starts_with(b"tmp_obj_") => Free,
        [b"pack", name] => pack_kind(name),
        // Held while git tidies up.
        [b"maintenance" | b"schedule"] => Free,
        [b"info", b"packs"] => Free,
        [b"info", name] if name.starts_with(b"packs_") => Free,
        [b"info", b"alternates"] => FileKind::Vetted(Grammar::Alternates),
        // `commit-graph` and `multi-pack-index` record what is in a commit or where an object is, and git trusts them.
        _ => Closed,
    }
}

fn pack_kind(name: &[u8]) -> FileKind {
    const TEMPORARY: &[&[u8]] = &[b"tmp_pack_", b"tmp_idx_", b"tmp_rev_", b"tmp_mtimes_", b"tmp_bitmap_", b".tmp-"];
    if TEMPORARY.iter().any(|start| name.starts_with(start)) {
        return FileKind::Free;
    }
    let Some(rest) = name.strip_prefix(b"pack-") else { return FileKind::Closed };
    let Some(dot) = rest.iter().position(|byte| *byte == b'.') else { return FileKind::Closed };
    let (hash, ending) = rest.split_at(dot);
    if !is_hex(hash, 40) && !is_hex(hash, 64) {
        return FileKind::Closed;
    }
    match ending {
        b".pack" => FileKind::Object(ObjectFile::Pack),
        b".idx" => FileKind::Object(ObjectFile::PackIndex),
        b".pack.temp" | b".idx.temp" => FileKind::Free,
        b".rev" | b".bitmap" | b".mtimes" => FileKind::Object(ObjectFile::PackCache),
        b".keep" => FileKind::Object(ObjectFile::PackKeep),
        b".promisor" => FileKind::Object(ObjectFile::PackPromisor),
        _ => FileKind::Closed,
    }
}

/// The name of an object that is fetched in parts, without what is added until it is whole.
fn without_partial(name: &[u8]) -> Option<&[u8]> {
    name.strip_suffix(b".temp").or_else(|| name.strip_suffix(b".prev"))
}

fn is_hex(name: &[u8], length: usize) -> bool {
    name.len() == length && name.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Below `rebase-merge`.
fn rebase_kind(name: &[u8]) -> FileKind {
    use FileKind::{Closed, Free, Vetted};
    match name {
        b"git-rebase-todo" | b"git-rebase-todo.backup" | b"done" => Vetted(Grammar::Todo),
        b"msgnum" | b"end" => Vetted(Grammar::Number),
        b"head-name" => Vetted(Grammar::HeadName),
        b"onto" | b"orig-head" | b"amend" | b"stopped-sha" | b"squash-onto" | b"rewritten-list"
        | b"rewritten-pending" | b"autostash" | b"original-commit" | b"abort-safety" | b"dropped" => {
            Vetted(Grammar::ObjectIds)
        }
        b"current-fixups" => Vetted(Grammar::Todo),
        b"refs-to-delete" | b"update-refs" => Vetted(Grammar::RefUpdates),
        b"author-script" => Vetted(Grammar::AuthorScript),
        b"strategy" => Vetted(Grammar::Strategy),
        b"strategy_opts" => Vetted(Grammar::StrategyOptions),
        b"gpg_sign_opt" => Vetted(Grammar::SigningOption),
        b"interactive"
        | b"quiet"
        | b"verbose"
        | b"signoff"
        | b"allow_rerere_autoupdate"
        | b"cdate_is_adate"
        | b"ignore_date"
        | b"drop_redundant_commits"
        | b"keep_redundant_commits"
        | b"reschedule-failed-exec"
        | b"no-reschedule-failed-exec"
        | b"restrict-revision" => Vetted(Grammar::Flag),
        b"message" | b"message-squash" | b"message-fixup" | b"patch" | b"fixup-message" => Free,
        name if is_editor_file(name, &[b"git-rebase-todo", b"message"]) => Free,
        _ => Closed,
    }
}

/// Below `rebase-apply`, which `git am` uses, too.
fn am_kind(name: &[u8]) -> FileKind {
    use FileKind::{Closed, Free, Vetted};
    match name {
        b"next" | b"last" => Vetted(Grammar::Number),
        b"head-name" => Vetted(Grammar::HeadName),
        b"onto" | b"orig-head" | b"rewritten" | b"autostash" | b"original-commit" | b"abort-safety" => {
            Vetted(Grammar::ObjectIds)
        }
        b"author-script" => Vetted(Grammar::AuthorScript),
        b"strategy" => Vetted(Grammar::Strategy),
        b"strategy_opts" => Vetted(Grammar::StrategyOptions),
        b"gpg_sign_opt" => Vetted(Grammar::SigningOption),
        b"apply-opt" => Vetted(Grammar::ApplyOptions),
        b"rebasing"
        | b"applying"
        | b"threeway"
        | b"sign"
        | b"utf8"
        | b"keep"
        | b"messageid"
        | b"scissors"
        | b"quoted-cr"
        | b"no_inbody_headers"
        | b"quiet"
        | b"verbose"
        | b"signoff"
        | b"dirtyindex"
        | b"empty"
        | b"allow_rerere_autoupdate"
        | b"cdate_is_adate"
        | b"ignore_date" => Vetted(Grammar::Flag),
        b"info" | b"msg" | b"msg-clean" | b"patch" | b"final-commit" | b"patch-merge-index" | b"dirtyindex.lock" => {
            Free
        }
        // The mails themselves.
        name if name.len() >= 4 && name.iter().all(u8::is_ascii_digit) => Free,
        name if is_editor_file(name, &[b"final-commit", b"patch"]) => Free,
        _ => Closed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: FileKind) {
        assert_eq!(file_kind(path.as_bytes()), expected, "{path}");
    }

    #[test]
    fn what_git_writes_is_listed() {
        use FileKind::{Forming, Free, Index, Object, Settings, Vetted};
        check("HEAD", Vetted(Grammar::Head));
        check("HEAD.lock", Free);
        check("ORIG_HEAD", Vetted(Grammar::PseudoRef));
        check("config", Settings);
        check("config.lock", Free);
        check("config.worktree", Settings);
        check("index", Index);
        check("index.lock", Free);
        check("next-index-12.lock", Free);
        check("index.stash.77", Free);
        check("index.stash.77.lock", Free);
        check("packed-refs", Vetted(Grammar::PackedRefs));
        check("refs/heads/a/b", Vetted(Grammar::LooseRef));
        check("refs/heads/config", Vetted(Grammar::LooseRef));
        check("refs/stash", Vetted(Grammar::LooseRef));
        check("refs/heads/a.lock", Free);
        check("logs/HEAD", Free);
        check("logs/refs/heads/hooks/x", Free);
        check("objects/ab/0123456789012345678901234567890123456789", FileKind::Closed);
        check("objects/ab/01234567890123456789012345678901234567", Object(ObjectFile::Loose));
        check("objects/ab/tmp_obj_Xy1", Free);
        check("objects/ab/01234567890123456789012345678901234567.temp", Free);
        check("objects/ab/01234567890123456789012345678901234567.prev", Free);
        check("objects/pack/pack-0123456789012345678901234567890123456789.pack.temp", Free);
        check("objects/pack/tmp_pack_1", Free);
        check("objects/pack/pack-0123456789012345678901234567890123456789.pack", Object(ObjectFile::Pack));
        check("objects/pack/pack-0123456789012345678901234567890123456789.idx", Object(ObjectFile::PackIndex));
        for (ending, kind) in [
            ("rev", ObjectFile::PackCache),
            ("bitmap", ObjectFile::PackCache),
            ("mtimes", ObjectFile::PackCache),
            ("keep", ObjectFile::PackKeep),
            ("promisor", ObjectFile::PackPromisor),
        ] {
            check(&format!("objects/pack/pack-0123456789012345678901234567890123456789.{ending}"), Object(kind));
        }
        check("objects/tmp_objdir-incoming-x/ab/01234567890123456789012345678901234567", Free);
        check("objects/tmp_objdir-incoming-x/pack/tmp_pack_1", Free);
        check("objects/info/alternates", Vetted(Grammar::Alternates));
        check("rebase-merge/msgnum", Vetted(Grammar::Number));
        check("rebase-merge/git-rebase-todo", Vetted(Grammar::Todo));
        check("rebase-apply/0001", Free);
        check("sequencer/opts", Vetted(Grammar::SequencerOptions));
        check("worktrees/x/HEAD", Vetted(Grammar::Head));
        check("worktrees/x/commondir", Vetted(Grammar::CommonDir));
        check("worktrees/x/gitdir", Vetted(Grammar::WorkTreeFile));
        check("worktrees/x/rebase-merge/msgnum", Vetted(Grammar::Number));
        check("worktrees/x/modules/s/config", Forming);
        check("modules/lib/a/config", Forming);
        check(".COMMIT_EDITMSG.swp", Free);
        check("lfs/objects/ab/cd/abcd", Free);
        check("rebase-merge/sedJ6kjRJ", Free);
        check("objects/maintenance.lock", Free);
        check("info/refs_aeyB7g", Free);
        for path in [
            "objects/ab",
            "objects/pack",
            "refs/heads/a",
            "worktrees/x",
            "worktrees/x/logs",
            "rebase-merge",
            "modules/a/b",
        ] {
            assert!(is_directory(path.as_bytes()), "{path}");
        }
    }

    /// Including unknown names, and names of other tools.
    #[test]
    fn what_is_not_listed_is_closed() {
        for path in [
            "hooks/pre-commit",
            "hooks/pre-commit.lock",
            "hooks/post-checkout",
            "info/attributes",
            "info/attributes.lock",
            "info/grafts",
            "objects/info/commit-graph",
            "objects/info/commit-graphs/commit-graph-chain",
            "objects/info/http-alternates",
            "objects/pack/multi-pack-index",
            "objects/pack/evil",
            "objects/ab/x",
            "branches/x",
            "remotes/x",
            "lazygit.yml",
            "sl/config",
            "glab-cli/config.yml",
            "safe",
            "MERGE_RR",
            "rr-cache/aa/postimage",
            "rebase-merge/evil",
            "rebase-apply/evil",
            "sequencer/evil",
            "worktrees/x/config",
            "worktrees/x/hooks/pre-commit",
            "worktrees/x/objects/pack/x",
            "worktrees/x/lazygit.yml",
            "fsmonitor--daemon.ipc",
            ".vscode/tasks.json",
            "refs//x",
            "HEAD/x",
            "refs/replace/0123456789012345678901234567890123456789",
            "refs/replace",
            "",
            "lfs/hooks",
            // [A1, J1] A file of this name would make its directory look like a work tree.
            ".git",
            "logs/.git",
            "logs/.GIT",
            "logs/refs/.git/x",
            "refs/.git",
            "modules/.git",
            "modules/a/.git",
            "modules/a/.git/config",
            "lfs/tmp/.git",
            "worktrees/.git/HEAD",
            "worktrees/x/logs/.git",
            "NOTES_MERGE_WORKTREE/.git",
            "rebase-apply/.git",
            "logs/.git.lock",
        ] {
            check(path, FileKind::Closed);
        }
        for path in [
            "hooks/x",
            "branches",
            "refs/replace",
            "evil",
            "objects/evil",
            "worktrees/x/evil",
            "rebase-merge/evil",
            "svn",
            "rr-cache",
            ".git",
            "logs/.git",
            "modules/.git",
            "modules/a/.GIT",
            "worktrees/x/objects",
            "worktrees/x/worktrees",
            "worktrees/.git",
            "NOTES_MERGE_WORKTREE/.git",
        ] {
            assert!(!is_directory(path.as_bytes()), "{path}");
        }
    }

    /// [A1]
    #[test]
    fn where_git_directories_stand_in_git_directories() {
        for path in ["worktrees/x", "modules/a", "modules/a/b", "worktrees/x/modules/s"] {
            assert!(is_place_of_git_directory(path.as_bytes()), "{path}");
        }
        for path in [
            "",
            "modules",
            "worktrees",
            "worktrees/x/logs",
            "logs",
            "logs/z",
            "lfs/tmp/z",
            "NOTES_MERGE_WORKTREE",
            "refs",
            "refs/x",
            "objects",
            "hooks",
            "evil",
            "modules/.git",
            "worktrees/x/evil",
        ] {
            assert!(!is_place_of_git_directory(path.as_bytes()), "{path}");
        }
        for (path, expected) in
            [("main", true), ("a/b", true), ("hooks", false), ("hooks/x", false), ("logs", false), ("refs/x", false)]
        {
            assert_eq!(is_foreign_directory(path.as_bytes()), expected, "{path}");
        }
    }
}
