//! Which settings of a repository the agent may change, and to which values.
//!
//! Git executes, contacts and writes what its settings name, so the list is closed: a key that is not here stays as it is. What is
//! here names no program, no other file of settings, and no directory that git would write to; addresses lead only to hosts that
//! the caller permits.

use crate::address::{self, Address, Relative};
use crate::config::Entry;
use crate::ref_name::{is_inert, is_valid};

/// A change of settings that is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// `section.subsection.name`.
    pub key: Vec<u8>,
    /// Why.
    pub why: WhyRefused,
}

/// Why a change of settings is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhyRefused {
    /// The key is not on the list.
    #[error("this setting can be changed only outside the sandbox")]
    Key,
    /// The value is not one of those that do nothing else.
    #[error("this value can be set only outside the sandbox")]
    Value,
    /// The address leads to a host that is not permitted.
    #[error("the host {host} is not listed in the policy")]
    Host {
        /// Which.
        host: String,
    },
    /// The address is a path that the session may not read, or not write.
    #[error("the path leads to no repository that the session may read and write, or a link is on its way")]
    Local,
    /// A relative path could be the short form of an address, which the user's settings rewrite.
    #[error("a relative path begins with ./ or ../ here")]
    Bare,
    /// It may be set when a repository is made, and not afterwards.
    #[error("this setting of an existing repository can be changed only outside the sandbox")]
    Existing,
}

/// The facts about the repository that a change is judged by.
pub struct Judge<'j> {
    /// What the settings are now; empty for a new repository.
    pub before: &'j [Entry],
    /// Was the repository made in this session?
    pub age: Age,
    /// May the user's git contact this host and port?
    pub may_contact: &'j dyn Fn(&str, u16) -> bool,
    /// May the user's git use this repository of the local file system: may the session itself read and write it, and is it outside of the
    /// directories that only sessions use? An attacker has repositories with hooks there.
    pub may_use: &'j dyn Fn(&LocalPath<'_>, LocalUse) -> bool,
    /// Does the work tree that a submodule names belong to it?
    pub is_work_tree: &'j dyn Fn(&[u8]) -> bool,
}

/// A repository of the local file system, as an address names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalPath<'p> {
    /// Relative to the top of a work tree, if it is not absolute.
    OfRemote(&'p [u8]),
    /// Relative to the address of a remote, or to the directory in which that is.
    BesideRemote(&'p [u8]),
    /// The whole address of a submodule, relative to that of a remote if this is local, and to the top of the work tree if there is no
    /// remote.
    OfSuperproject(&'p [u8]),
}

/// What the user's git does with a repository of the local file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalUse {
    /// It fetches from it, and pushes to it where no other address is set for that.
    Fetch,
    /// It pushes to it.
    Push,
    /// It is the name of a remote, or of a path if there is no such remote.
    Name,
}

/// Since when a repository exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// It was there when the session began, or the user has made it since.
    Existing,
    /// It was made in this session.
    New,
}

/// When a setting may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Always,
    /// Of a new repository only.
    Creation,
}

/// Which values a setting may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    /// One line of text that git shows or records.
    Text,
    /// Booleans (`true`, `no`, `on`), and numbers.
    Simple,
    OneOf(&'static [&'static [u8]]),
    /// The name of a remote; `.` is this repository.
    Remote,
    Address,
    /// A branch or another ref.
    Ref,
    FetchRefspec,
    /// A path below the work tree.
    PathBelow,
    /// Where a submodule's files are.
    WorkTree,
}

struct Row {
    key: &'static str,
    scope: Scope,
    values: Values,
}

macro_rules! rows {
    ($($key:literal $scope:ident $values:expr;)*) => { &[$(Row { key: $key, scope: Scope::$scope, values: $values }),*] };
}

use Values::{FetchRefspec, OneOf, PathBelow, Ref, Remote, Simple, Text, WorkTree};

/// Keys in lower case, without the part in quotes.
static SETTINGS: &[Row] = rows! {
    "advice.*" Always Simple;
    "branch.autosetupmerge" Always OneOf(&[b"true", b"false", b"always", b"inherit", b"simple"]);
    "branch.autosetuprebase" Always OneOf(&[b"never", b"local", b"remote", b"always"]);
    "branch.description" Always Text;
    "branch.gh-merge-base" Always Ref;
    "branch.github-pr-base-branch" Always Text;
    "branch.github-pr-owner-number" Always Text;
    "branch.merge" Always Ref;
    "branch.pushremote" Always Remote;
    "branch.rebase" Always OneOf(&[b"true", b"false", b"merges", b"m", b"interactive", b"i"]);
    "branch.remote" Always Remote;
    "branch.sort" Always Text;
    "branch.vscode-merge-base" Always Ref;
    "color.*" Always Text;
    "core.abbrev" Always Simple;
    "core.autocrlf" Always OneOf(&[b"true", b"false", b"input"]);
    "core.bare" Creation Simple;
    "core.eol" Always OneOf(&[b"lf", b"crlf", b"native"]);
    "core.filemode" Always Simple;
    "core.ignorecase" Creation Simple;
    "core.logallrefupdates" Always OneOf(&[b"true", b"false", b"always"]);
    "core.precomposeunicode" Creation Simple;
    "core.quotepath" Always OneOf(&[b"true", b"yes", b"on", b"1"]);
    "core.repositoryformatversion" Always OneOf(&[b"0", b"1"]);
    "core.safecrlf" Always OneOf(&[b"true", b"false", b"warn"]);
    "core.sparsecheckout" Always Simple;
    "core.sparsecheckoutcone" Always Simple;
    "core.symlinks" Creation Simple;
    "core.whitespace" Always Text;
    "core.worktree" Always WorkTree;
    "diff.algorithm" Always Simple;
    "diff.colormoved" Always Simple;
    "diff.ignoresubmodules" Always Simple;
    "diff.noprefix" Always Simple;
    "diff.renamelimit" Always Simple;
    "diff.renames" Always Simple;
    "extensions.compatobjectformat" Creation Simple;
    "extensions.noop" Creation Text;
    "extensions.objectformat" Creation OneOf(&[b"sha1", b"sha256"]);
    "extensions.partialclone" Creation Remote;
    "extensions.preciousobjects" Creation Simple;
    "extensions.refstorage" Creation OneOf(&[b"files", b"reftable"]);
    "extensions.relativeworktrees" Always Simple;
    "extensions.worktreeconfig" Always Simple;
    "fetch.prune" Always Simple;
    "fetch.prunetags" Always Simple;
    "gc.auto" Always Simple;
    "gc.autodetach" Always Simple;
    "index.skiphash" Creation Simple;
    "index.sparse" Always Simple;
    "index.threads" Always Simple;
    "index.version" Always Simple;
    "init.defaultbranch" Always Ref;
    "lfs.access" Always OneOf(&[b"basic", b"none", b"negotiate", b"private"]);
    "lfs.locksverify" Always Simple;
    "lfs.repositoryformatversion" Always Simple;
    "log.abbrevcommit" Always Simple;
    "log.date" Always Text;
    "log.decorate" Always Simple;
    "log.follow" Always Simple;
    "maintenance.auto" Always Simple;
    "maintenance.strategy" Always OneOf(&[b"incremental", b"none", b"geometric", b"gc"]);
    "merge.conflictstyle" Always OneOf(&[b"merge", b"diff3", b"zdiff3"]);
    "merge.ff" Always OneOf(&[b"true", b"false", b"only"]);
    "merge.log" Always Simple;
    "merge.renames" Always Simple;
    "merge.stat" Always Simple;
    "notes.displayref" Always Ref;
    "pull.ff" Always OneOf(&[b"true", b"false", b"only"]);
    "pull.rebase" Always OneOf(&[b"true", b"false", b"merges", b"m", b"interactive", b"i"]);
    "push.autosetupremote" Always Simple;
    "push.default" Always OneOf(&[b"simple", b"current", b"nothing"]);
    "rebase.autosquash" Always Simple;
    "rebase.autostash" Always Simple;
    "rebase.updaterefs" Always Simple;
    "remote.fetch" Always FetchRefspec;
    "remote.gh-resolved" Always Text;
    "remote.partialclonefilter" Creation Text;
    "remote.promisor" Creation Simple;
    "remote.prune" Always Simple;
    "remote.prunetags" Always Simple;
    "remote.pushdefault" Always Remote;
    "remote.pushurl" Always Values::Address;
    "remote.skipfetchall" Always Simple;
    "remote.tagopt" Always OneOf(&[b"--tags", b"--no-tags"]);
    "remote.url" Always Values::Address;
    "rerere.autoupdate" Always Simple;
    "rerere.enabled" Always OneOf(&[b"false", b"no", b"off", b"0"]);
    "stash.*" Always Simple;
    "status.*" Always Simple;
    "submodule.active" Always Text;
    "submodule.branch" Always Ref;
    "submodule.fetchrecursesubmodules" Always Simple;
    "submodule.ignore" Always OneOf(&[b"none", b"untracked", b"dirty", b"all"]);
    "submodule.path" Always PathBelow;
    "submodule.recurse" Always Simple;
    "submodule.shallow" Always Simple;
    "submodule.update" Always OneOf(&[b"checkout", b"rebase", b"merge", b"none"]);
    "submodule.url" Always Values::Address;
    "tag.sort" Always Text;
    "user.email" Always Text;
    "user.name" Always Text;
    "user.useconfigonly" Always Simple;
};

/// Does a setting name no program, no other file of settings and no directory that git would write to, whatever its value?
pub fn is_harmless(entry: &Entry) -> bool {
    Judge::row(entry).is_some()
}

/// The key of an entry, as git prints it.
pub fn key_of(entry: &Entry) -> Vec<u8> {
    match &entry.subsection {
        Some(part) => [&entry.section, part.as_slice(), &entry.name].join(&b'.'),
        None => [entry.section.as_slice(), &entry.name].join(&b'.'),
    }
}

impl Judge<'_> {
    /// The first change that is not accepted, of all that differs from the present settings: what is new, what is left out, and what
    /// comes in another order, since the last value of a key counts.
    pub fn refused(&self, after: &[Entry]) -> Option<Refused> {
        let is_new = |entry: &&Entry| !self.before.contains(entry);
        let is_gone = |entry: &&Entry| !after.contains(entry);
        let new = after.iter().filter(is_new).find_map(|entry| Some((entry, self.why_not(entry)?)));
        let gone = || self.before.iter().filter(is_gone).find_map(|entry| Some((entry, self.why_not_removed(entry)?)));
        let reordered = || {
            after
                .iter()
                .filter(|entry| self.is_reordered(after, entry))
                .find_map(|entry| Some((entry, self.why_not(entry)?)))
        };
        let is_in_order = || {
            let kept = after.iter().filter(|entry| !is_new(entry));
            kept.eq(self.before.iter().filter(|entry| !is_gone(entry)))
        };
        let refused = new.or_else(gone).or_else(|| if is_in_order() { None } else { reordered() });
        refused.map(|(entry, why)| Refused { key: key_of(entry), why })
    }

    /// Have the values of a key another order than before, without those that are new or gone? What is included counts for every key.
    fn is_reordered(&self, after: &[Entry], entry: &Entry) -> bool {
        let is_same = |other: &&Entry| {
            (&other.section, &other.subsection, &other.name) == (&entry.section, &entry.subsection, &entry.name)
                || other.is("include", "path")
                || other.is("includeif", "path")
        };
        let kept = after.iter().filter(|other| is_same(other) && self.before.contains(other));
        kept.ne(self.before.iter().filter(|other| is_same(other) && after.contains(other)))
    }

    fn row(entry: &Entry) -> Option<&'static Row> {
        SETTINGS.iter().find(|row| entry.matches_any([row.key]))
    }

    /// Something that is left out does nothing any more; but what the user has closed by a setting must stay closed.
    fn why_not_removed(&self, entry: &Entry) -> Option<WhyRefused> {
        let Some(row) = Self::row(entry) else { return Some(WhyRefused::Key) };
        (row.scope == Scope::Creation && self.age == Age::Existing).then_some(WhyRefused::Existing)
    }

    fn why_not(&self, entry: &Entry) -> Option<WhyRefused> {
        let Some(row) = Self::row(entry) else { return Some(WhyRefused::Key) };
        if row.scope == Scope::Creation && self.age == Age::Existing {
            return Some(WhyRefused::Existing);
        }
        if entry.subsection.as_ref().is_some_and(|part| part.iter().any(u8::is_ascii_control)) {
            return Some(WhyRefused::Key);
        }
        // A key without a value means true.
        let value = entry.value.as_deref().unwrap_or(b"true");
        if value.iter().any(u8::is_ascii_control) {
            return Some(WhyRefused::Value);
        }
        let fits = |fits: bool| (!fits).then_some(WhyRefused::Value);
        match row.values {
            Text => None,
            Simple => {
                fits(value.len() < 40 && value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_,".contains(byte)))
            }
            OneOf(words) => fits(words.contains(&value.to_ascii_lowercase().as_slice()) || words.contains(&value)),
            // Git takes a name with a slash for a path if no remote has it.
            Remote => fits(
                is_remote_name(value)
                    && (!value.contains(&b'/') || (self.may_use)(&LocalPath::OfRemote(value), LocalUse::Name)),
            ),
            Ref => fits(value.first() != Some(&b'-') && is_inert(value) && !value.is_empty()),
            FetchRefspec => fits(is_fetch_refspec(value)),
            PathBelow => fits(is_below(value)),
            WorkTree => fits((self.is_work_tree)(value)),
            Values::Address => self.why_not_contacted(entry, value),
        }
    }

    fn why_not_contacted(&self, entry: &Entry, value: &[u8]) -> Option<WhyRefused> {
        // Git hands the address to a program that the user chose for this remote.
        let is_for_helper = |other: &Entry| other.is("remote", "vcs") && other.subsection == entry.subsection;
        if entry.section == b"remote" && self.before.iter().any(is_for_helper) {
            return Some(WhyRefused::Value);
        }
        let usage = if entry.is("remote", "pushurl") { LocalUse::Push } else { LocalUse::Fetch };
        let used = |path: LocalPath<'_>| (!(self.may_use)(&path, usage)).then_some(WhyRefused::Local);
        if let Some(relative) = address::relative_to_remote(value).filter(|_| entry.section == b"submodule") {
            return match relative {
                Relative::Beside(path) => {
                    used(LocalPath::BesideRemote(&path)).or_else(|| used(LocalPath::OfSuperproject(value)))
                }
                // Above the address of a remote is another host.
                Relative::Elsewhere(_) => used(LocalPath::OfSuperproject(value)),
            };
        }
        let why_not = |address: &[u8]| match address::parse(address) {
            Address::Local(path) if !is_marked_path(&path) => Some(WhyRefused::Bare),
            Address::Local(path) => used(LocalPath::OfRemote(&path)),
            Address::Host { host, port } if self.contacts_already(&host) || (self.may_contact)(&host, port) => None,
            Address::Host { host, .. } => Some(WhyRefused::Host { host }),
            Address::Helper | Address::Malformed => Some(WhyRefused::Value),
        };
        let plain = self.rewritten(value, "insteadof").unwrap_or_else(|| value.to_vec());
        let pushed = self.rewritten(value, "pushinsteadof");
        why_not(&plain).or_else(|| why_not(&pushed?))
    }

    /// What the user's settings of this repository make of an address: the longest prefix counts.
    fn rewritten(&self, address: &[u8], name: &str) -> Option<Vec<u8>> {
        let prefix =
            |entry: &'_ &Entry| entry.value.as_deref().filter(|value| address.starts_with(value)).map(<[u8]>::len);
        let rules = self.before.iter().filter(|entry| entry.is("url", name) && prefix(entry).is_some());
        let longest = rules.max_by_key(prefix)?;
        Some([longest.subsection.as_deref()?, &address[prefix(&longest)?..]].concat())
    }

    /// Does the user's git contact this host already, by a remote of this repository?
    fn contacts_already(&self, host: &str) -> bool {
        let urls = self.before.iter().filter(|entry| entry.is("remote", "url") || entry.is("remote", "pushurl"));
        let values = urls.filter_map(|entry| entry.value.as_deref());
        values
            .into_iter()
            .any(|value| matches!(address::parse(value), Address::Host { host: theirs, .. } if theirs == host))
    }
}

/// Can a path not be the short form of an address (`work/api`, by `insteadOf` in settings that are not known here)?
fn is_marked_path(path: &[u8]) -> bool {
    matches!(path, b"." | b"..") || [b"/".as_slice(), b"./", b"../"].iter().any(|start| path.starts_with(start))
}

/// Anything with a colon or a slash at its beginning may be taken for an address, and `a/../../b` for a path outside of the work tree.
fn is_remote_name(name: &[u8]) -> bool {
    let is_component = |part: &[u8]| !matches!(part.first(), None | Some(b'-' | b'.'));
    name == b"." || name.split(|byte| *byte == b'/').all(is_component) && !name.contains(&b':') && is_inert(name)
}

/// `+refs/heads/*:refs/remotes/origin/*`. One that writes to branches would move them whenever the user fetches.
fn is_fetch_refspec(spec: &[u8]) -> bool {
    let spec = spec.strip_prefix(b"+").or_else(|| spec.strip_prefix(b"^")).unwrap_or(spec);
    let Some(colon) = spec.iter().position(|byte| *byte == b':') else { return is_pattern(spec) };
    let (from, to) = (&spec[..colon], &spec[colon + 1..]);
    let is_remote = [b"refs/remotes/".as_slice(), b"refs/tags/", b"refs/notes/", b"refs/pull/"]
        .iter()
        .any(|start| to.starts_with(start));
    is_pattern(from) && is_pattern(to) && is_remote
}

fn is_pattern(name: &[u8]) -> bool {
    let plain: Vec<u8> = name.iter().map(|byte| if *byte == b'*' { b'x' } else { *byte }).collect();
    is_valid(&plain) && is_inert(&plain)
}

fn is_below(path: &[u8]) -> bool {
    !path.is_empty()
        && !matches!(path[0], b'/' | b'-')
        && !path.split(|byte| *byte == b'/').any(|name| name == b".." || name.eq_ignore_ascii_case(b".git"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_whole;

    fn refused(before: &str, after: &str, age: Age) -> Option<Refused> {
        let before = parse_whole(before.as_bytes()).unwrap();
        let judge = Judge {
            before: &before,
            age,
            may_contact: &|host, _| host == "listed.example.com",
            may_use: &|path, _| {
                !matches!(
                    path,
                    LocalPath::OfRemote(b"/own/r.git" | b"own/r.git")
                        | LocalPath::BesideRemote(b"own/r.git")
                        | LocalPath::OfSuperproject([b'.', b'.', b'/', b'.', ..])
                )
            },
            is_work_tree: &|path| path == b"../../../lib/x",
        };
        judge.refused(&parse_whole(after.as_bytes()).unwrap())
    }

    #[track_caller]
    fn accepted(after: &str) {
        assert_eq!(refused("", after, Age::Existing), None, "{after}");
    }

    #[track_caller]
    fn not_accepted(after: &str) {
        assert!(refused("", after, Age::Existing).is_some(), "{after}");
    }

    #[test]
    fn keys_are_sorted_and_in_lower_case() {
        assert!(SETTINGS.is_sorted_by_key(|row| row.key));
        assert!(SETTINGS.iter().all(|row| row.key == row.key.to_ascii_lowercase()));
    }

    #[test]
    fn what_git_sets_in_a_new_repository() {
        let init =
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n";
        assert_eq!(refused("", init, Age::New), None);
        assert_eq!(refused(init, init, Age::Existing), None);
        assert!(refused("", "[core]\n\tbare = true\n", Age::Existing).is_some());
        assert!(refused("[core]\n\tbare = false\n", "", Age::Existing).is_some());
        assert_eq!(refused("", "[extensions]\n\tobjectFormat = sha256\n", Age::New), None);
    }

    #[test]
    fn ordinary_changes() {
        accepted("[branch \"x\"]\n\tremote = origin\n\tmerge = refs/heads/main\n\trebase = true\n");
        accepted("[branch \"x\"]\n\tremote = team/a.b\n[remote]\n\tpushDefault = home\n");
        accepted("[user]\n\tname = A B <x>\n\temail = a@b\n");
        accepted(
            "[remote \"o\"]\n\turl = https://listed.example.com/a.git\n\tfetch = +refs/heads/*:refs/remotes/o/*\n",
        );
        accepted("[remote \"o\"]\n\turl = ../bare.git\n");
        accepted("[submodule \"x\"]\n\turl = ../x.git\n");
        accepted("[submodule \"x\"]\n\turl = ./x.git\n");
        accepted(
            "[submodule \"x\"]\n\tpath = lib/x\n\turl = https://listed.example.com/x\n\tupdate = checkout\n\tactive = true\n",
        );
        accepted("[core]\n\tworktree = ../../../lib/x\n");
        accepted("[extensions]\n\tworktreeConfig = true\n[core]\n\tsparseCheckout = true\n");
        accepted("[advice]\n\tdetachedHead = false\n[color \"diff\"]\n\tmeta = blue\n");
        let before = "[remote \"origin\"]\n\turl = git@host.example.com:a/b\n";
        let after = "[remote \"origin\"]\n\turl = git@host.example.com:a/b\n[remote \"fork\"]\n\turl = https://host.example.com/c\n";
        assert_eq!(refused(before, after, Age::Existing), None);
        assert_eq!(refused(after, before, Age::Existing), None);
    }

    /// Keys that git takes programs, files or hosts from.
    #[test]
    fn what_would_run_contact_or_write() {
        for text in [
            "[core]\n\thooksPath = x\n",
            "[core]\n\tfsmonitor = ./x\n",
            "[core]\n\tfsmonitor = true\n",
            "[core]\n\tsshCommand = x\n",
            "[core]\n\tpager = x\n",
            "[core]\n\teditor = x\n",
            "[core]\n\taskPass = x\n",
            "[core]\n\tgitProxy = x\n",
            "[core]\n\tattributesFile = x\n",
            "[core]\n\texcludesFile = x\n",
            "[core]\n\talternateRefsCommand = x\n",
            "[core]\n\tworktree = /home\n",
            "[core]\n\tworktree = ../../../../../.config/autostart\n",
            "[core]\n\tsharedRepository = 0666\n",
            "[core]\n\tprotectNTFS = false\n",
            "[include]\n\tpath = x\n",
            "[includeIf \"gitdir:x\"]\n\tpath = x\n",
            "[filter \"x\"]\n\tclean = x\n",
            "[diff \"x\"]\n\ttextconv = x\n",
            "[diff]\n\texternal = x\n",
            "[difftool \"x\"]\n\tcmd = x\n",
            "[merge \"x\"]\n\tdriver = x\n",
            "[mergetool \"x\"]\n\tcmd = x\n",
            "[alias]\n\tst = !x\n",
            "[credential]\n\thelper = x\n",
            "[gpg]\n\tprogram = x\n",
            "[gpg \"ssh\"]\n\tdefaultKeyCommand = x\n",
            "[commit]\n\ttemplate = x\n",
            "[commit]\n\tgpgSign = false\n",
            "[sequence]\n\teditor = x\n",
            "[sendemail]\n\tsmtpServer = x\n",
            "[trailer \"x\"]\n\tcommand = x\n",
            "[uploadpack]\n\tpackObjectsHook = x\n",
            "[hook \"x\"]\n\tcommand = x\n",
            "[pager]\n\tstatus = x\n",
            "[instaweb]\n\thttpd = x\n",
            "[web]\n\tbrowser = x\n",
            "[man \"x\"]\n\tcmd = x\n",
            "[url \"ext::x\"]\n\tinsteadOf = https://\n",
            "[url \"https://evil/\"]\n\tinsteadOf = https://listed.example.com/\n",
            "[http]\n\tproxy = http://evil\n",
            "[http]\n\tcookieFile = x\n",
            "[protocol \"ext\"]\n\tallow = always\n",
            "[safe]\n\tdirectory = *\n",
            "[remote \"o\"]\n\turl = ext::sh -c x\n",
            "[remote \"o\"]\n\turl = -oProxyCommand=x\n",
            "[remote \"o\"]\n\turl = https::evil.example.net/leak\n",
            "[remote \"o\"]\n\turl = ssh://x%40evil.example.net%2f@listed.example.com/y\n",
            "[remote \"o\"]\n\turl = listed.example.com:a@[evil.example.net]:b\n",
            "[remote \"o\"]\n\turl = /own/r.git\n",
            "[remote \"o\"]\n\turl = file:///own/r.git\n",
            "[remote \"o\"]\n\tpushurl = /own/r.git\n",
            "[remote \"o\"]\n\turl = ~/r.git\n",
            "[remote \"o\"]\n\turl = ssh://-oProxyCommand=x/y\n",
            "[remote \"o\"]\n\turl = https://evil.example.net/leak\n",
            "[remote \"o\"]\n\turl = git@evil.example.net:leak\n",
            "[remote \"o\"]\n\tpushurl = https://evil.example.net/leak\n",
            "[remote \"o\"]\n\tvcs = x\n",
            "[remote \"o\"]\n\tuploadpack = x\n",
            "[remote \"o\"]\n\treceivepack = x\n",
            "[remote \"o\"]\n\tproxy = x\n",
            "[remote \"o\"]\n\tmirror = true\n",
            "[remote \"o\"]\n\tpush = +refs/heads/evil:refs/heads/main\n",
            "[remote \"o\"]\n\tfetch = +refs/heads/evil:refs/heads/main\n",
            "[remote \"o\"]\n\tpromisor = true\n",
            "[remote]\n\tpushDefault = https://evil.example.net/leak\n",
            "[branch \"x\"]\n\tremote = https://evil.example.net/leak\n",
            "[branch \"x\"]\n\tpushRemote = evil:leak\n",
            "[branch \"x\"]\n\tremote = /srv/x\n",
            "[branch \"x\"]\n\tremote = a/../../x\n",
            "[branch \"x\"]\n\tremote = a/./x\n",
            "[branch \"x\"]\n\tremote = a//x\n",
            "[branch \"x\"]\n\tremote = own/r.git\n",
            "[remote]\n\tpushDefault = a/../../x\n",
            "[branch \"x\"]\n\tmerge = --upload-pack=x\n",
            "[push]\n\tdefault = upstream\n",
            "[push]\n\tdefault = matching\n",
            "[extensions]\n\tpartialClone = origin\n",
            "[extensions]\n\tunheardOf = true\n",
            "[submodule \"x\"]\n\tupdate = !x\n",
            "[submodule \"x\"]\n\tpath = ../x\n",
            "[submodule \"x\"]\n\tpath = .git/hooks\n",
            "[submodule \"x\"]\n\turl = https://evil.example.net/leak\n",
            "[submodule \"x\"]\n\turl = ext::sh -c x\n",
            "[submodule \"x\"]\n\turl = /own/r.git\n",
            "[submodule \"x\"]\n\turl = ./own/r.git\n",
            "[submodule \"x\"]\n\turl = ../../../evil.example.net/leak\n",
            "[submodule \"x\"]\n\turl = ../../../../:evil.example.net/leak\n",
            "[lfs]\n\turl = https://evil.example.net\n",
            "[lfs \"customtransfer.x\"]\n\tpath = x\n",
            "[gc]\n\tpruneExpire = now\n",
            "[rerere]\n\tenabled = true\n",
            "[receive]\n\tdenyCurrentBranch = ignore\n",
            "[user]\n\tname = a\\nb\n",
            "[unheard]\n\tof = x\n",
        ] {
            not_accepted(text);
        }
    }

    /// The user's `vcs` makes a program of every address of this remote.
    #[test]
    fn a5_the_address_of_a_remote_with_a_helper_stays() {
        let before = "[remote \"o\"]\n\tvcs = ext\n\turl = sh -c true\n[remote \"p\"]\n\turl = ../p\n";
        let after = before.replace("true", "touch% x");
        assert!(refused(before, &after, Age::Existing).is_some());
        assert!(refused(before, &before.replace("../p", "../q"), Age::Existing).is_none());
    }

    /// The last value of a key counts.
    #[test]
    fn a5_the_order_of_values_stays() {
        let before =
            "[core]\n\tfsmonitor = evil\n\tfsmonitor = false\n[remote \"o\"]\n\tfetch = +a:b\n\tfetch = +c:d\n";
        let swapped =
            "[core]\n\tfsmonitor = false\n\tfsmonitor = evil\n[remote \"o\"]\n\tfetch = +a:b\n\tfetch = +c:d\n";
        assert!(refused(before, swapped, Age::Existing).is_some());
        // The same entry once more, behind the others.
        assert!(refused(before, &format!("{before}[core]\n\tfsmonitor = evil\n"), Age::Existing).is_some());
        let fetch = before.replace("+a:b\n\tfetch = +c:d", "+c:d\n\tfetch = +a:b");
        assert!(refused(before, &fetch, Age::Existing).is_some());
        let included = "[core]\n\tfsmonitor = false\n[include]\n\tpath = x\n";
        assert!(refused(included, "[include]\n\tpath = x\n[core]\n\tfsmonitor = false\n", Age::Existing).is_some());
        // Other keys come in any order, and new values behind those that are there.
        let sections =
            "[remote \"o\"]\n\tfetch = +a:b\n\tfetch = +c:d\n[core]\n\tfsmonitor = evil\n\tfsmonitor = false\n";
        assert_eq!(refused(before, sections, Age::Existing), None);
        let more = before.replace("+c:d\n", "+c:d\n\tfetch = +refs/heads/x:refs/remotes/o/x\n");
        assert_eq!(refused(before, &more, Age::Existing), None);
        let harmless = "[user]\n\tname = a\n\tname = b\n";
        assert_eq!(refused(harmless, "[user]\n\tname = b\n\tname = a\n", Age::Existing), None);
    }

    /// The user's settings make another address of it.
    #[test]
    fn a5_an_address_is_judged_as_it_is_rewritten() {
        let before = "[url \"https://evil.example.net/\"]\n\tinsteadOf = https://listed.example.com/e/\n\tpushInsteadOf = https://listed.example.com/p/\n\
            [url \"ext::\"]\n\tinsteadOf = x/\n";
        for url in ["https://listed.example.com/e/x", "https://listed.example.com/p/x", "x/sh", "work/api", "bare.git"]
        {
            let after = format!("{before}[remote \"o\"]\n\turl = {url}\n");
            assert!(refused(before, &after, Age::Existing).is_some(), "{url}");
        }
        for url in ["https://listed.example.com/x", "./bare.git", "../bare.git", "/srv/x", "."] {
            let after = format!("{before}[remote \"o\"]\n\turl = {url}\n");
            assert_eq!(refused(before, &after, Age::Existing), None, "{url}");
        }
    }

    /// What the user has closed stays closed, and what the user has set may stay.
    #[test]
    fn what_is_left_out() {
        let user = "[core]\n\thooksPath = hooks\n[transfer]\n\tfsckObjects = true\n";
        assert_eq!(refused(user, &format!("{user}[user]\n\tname = x\n"), Age::Existing), None);
        assert!(refused(user, "[core]\n\thooksPath = hooks\n", Age::Existing).is_some());
        let branch = "[branch \"x\"]\n\tremote = origin\n";
        assert_eq!(refused(branch, "", Age::Existing), None);
    }
}
