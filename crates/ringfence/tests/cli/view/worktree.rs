//! G11: a session with a work tree of its own. It sees what git needs of the repository and nothing of the user's work tree;
//! nothing of the repository runs outside; nothing is lost, and nothing else is left.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::live::{json, ringfence, sessions, until};
use super::{Fence, Who, each, give_away, is_root, text};

impl Fence {
    /// git of the user, in the project.
    #[track_caller]
    fn git(&self, script: &str) -> String {
        let mut git = self.by(Command::new("/bin/sh"));
        // Root looks at somebody else's repository.
        let safe = "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'";
        git.args(["-euc", &format!("{safe}; {}", self.script(script))]);
        let output = git.output().unwrap();
        if is_root() {
            // What root keeps of its sessions stays root's: it acts on nobody else's.
            give_away(&self.path("project"));
        }
        assert!(output.status.success(), "as {:?}: {script}: {}", self.who, text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    }

    fn repository(&self) -> &Self {
        self.write(&[("project/a", "one\n"), ("project/sub/b", "two\n"), ("project/.gitignore", "ignored\n")]);
        self.git("git init -q -b main . && git config user.name n && git config user.email n@example.com");
        self.git("git add . && git commit -qm first");
        self
    }

    fn worktree(&self, options: &[&str], script: &str) -> Output {
        let mut command = self.ringfence();
        command.args(["run", "--worktree"]).args(options).args(["--", "/bin/sh", "-c", &self.script(script)]);
        command.output().unwrap()
    }

    #[track_caller]
    fn in_worktree(&self, options: &[&str], script: &str) -> (String, String) {
        let output = self.worktree(options, script);
        let said = text(&output.stderr);
        assert!(output.status.success(), "as {:?}: {script}\n{}\n{said}", self.who, text(&output.stdout));
        (text(&output.stdout).trim().to_owned(), said)
    }

    /// No work tree is left, no branch, and nothing in the user's own.
    #[track_caller]
    fn has_no_worktree(&self) {
        assert_eq!(self.git("git worktree list --porcelain | grep -c '^worktree'"), "1", "as {:?}", self.who);
        assert_eq!(self.git("git branch --list 'ringfence/*'"), "", "as {:?}", self.who);
        assert_eq!(self.git("git status --porcelain"), "", "as {:?}", self.who);
        let left = self.path("home/.local/state/ringfence/worktrees");
        let found: Vec<_> = walk(&left);
        assert!(found.is_empty(), "as {:?}: {found:?}", self.who);
        self.left_nothing();
    }
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

const COMMIT: &str = "git -c user.name=n -c user.email=n@example.com commit -q";

#[test]
fn g11_a_worktree_is_made_and_removed_or_kept() {
    each(|fence| {
        fence.repository();
        let (said, told) =
            fence.in_worktree(&[], "cat a sub/b; git status --porcelain; git branch --show-current; pwd");
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[..2], ["one", "two"], "{said}");
        assert!(lines[2].starts_with("ringfence/") && lines[3].contains("/worktrees/"), "{said}");
        assert!(told.contains("nothing was changed in the work tree; it is removed"), "{told}");
        fence.has_no_worktree();
        // What git ignores is not kept.
        fence.in_worktree(&["gone"], "echo x > ignored");
        fence.has_no_worktree();
        // A commit is; all that git does from day to day works.
        let (_, told) = fence.in_worktree(
            &["fix"],
            &format!(
                "set -e; echo more >> a; {COMMIT} -am second; git log --oneline | wc -l; git stash list
                 echo z > z; git add z; git -c user.name=n -c user.email=n@e stash -q; git stash pop -q; git reset -q --hard
                 git checkout -q -b side; echo s > s; git add s; {COMMIT} -m side; git checkout -q ringfence/fix
                 git -c user.name=n -c user.email=n@e merge -q --no-edit side; git branch -q -D side; git tag t; git tag -d t
                 git -c user.name=n -c user.email=n@e rebase -q HEAD~1; git worktree list; git fsck"
            ),
        );
        assert!(told.contains("kept (it has new commits)") && told.contains("git -C"), "{told}");
        assert_eq!(fence.git("git log --format=%s ringfence/fix"), "side\nsecond\nfirst");
        assert_eq!(fence.git("git status --porcelain; cat a"), "one");
        // What is said about it is what helps.
        let remove = told.split("\n  remove  ").nth(1).unwrap().lines().next().unwrap();
        let merge = told.split("\n  merge   ").nth(1).unwrap().lines().next().unwrap();
        fence.git(merge);
        assert_eq!(fence.git("cat a"), "one\nmore");
        fence.git(remove);
        fence.has_no_worktree();
        // So is what is not committed, and what is asked for.
        for (options, script) in [(&["left"][..], "echo x > new"), (&["left"], "rm a"), (&["left", "--keep"], "true")] {
            let (_, told) = fence.in_worktree(options, script);
            assert!(told.contains("the work tree is kept"), "{script}: {told}");
            fence.git(told.split("\n  remove  ").nth(1).unwrap().lines().next().unwrap());
        }
        // A head without a branch.
        let (_, told) = fence.in_worktree(&["left"], &format!("git checkout -q --detach; echo x >> a; {COMMIT} -am x"));
        assert!(told.contains("it has new commits"), "{told}");
        fence.git(told.split("\n  remove  ").nth(1).unwrap().lines().next().unwrap());
        fence.has_no_worktree();
    });
}

/// The user's own work tree is not there, and what the repository has for the others cannot be changed.
#[test]
fn g11_the_others_are_out_of_reach() {
    each(|fence| {
        fence.repository().write(&[("project/untracked", "SECRET\n"), ("other/x", "")]);
        fence.git("git worktree add -q -b other ../other/other");
        fence.in_worktree(&["own"], "test ! -e $W/project/a && test ! -e $W/other/other/a");
        for attack in [
            "cat $W/project/untracked",
            "echo x > $W/project/planted",
            "echo x >> $W/project/.git/HEAD",
            "echo x >> $W/project/.git/index",
            "echo x > $W/project/.git/new && mv $W/project/.git/new $W/project/.git/HEAD",
            "rm $W/project/.git/index",
            "mv $W/project/.git $W/project/.gitx",
            "mv $W/project/.git/worktrees $W/project/.git/w",
            "echo x >> $W/project/.git/worktrees/other/HEAD",
            "rm -f $W/project/.git/worktrees/other/index",
            "mkdir $W/project/.git/worktrees/mine",
            "echo x > $W/project/.git/hooks/post-checkout",
            "git config core.fsmonitor 'touch $W/other/ran'",
            "git config --worktree core.fsmonitor x",
            "echo /tmp > \"$(git rev-parse --git-dir)/commondir\"",
            "echo 'gitdir: /tmp' > .git",
            "rm .git",
            "echo x > \"$(git rev-parse --git-dir)/../../info/attributes\"",
        ] {
            let output = fence.worktree(&["own"], &format!("{attack} && echo DONE"));
            let said = text(&output.stdout) + &text(&output.stderr);
            assert!(!said.contains("DONE") && !said.contains("SECRET"), "as {:?}: {attack}: {said}", fence.who);
        }
        assert_eq!(fence.git("git status --porcelain; git -C ../other/other status --porcelain"), "?? untracked");
        // By name it can be read, without what is denied.
        let (said, _) = fence.in_worktree(&["own", "--ref", "../project"], "cat $W/project/a; cat a");
        assert_eq!(said, "one\none");
    });
}

/// Neither hooks nor filters nor monitors of the repository run outside the fence, before or after.
#[test]
fn g11_nothing_of_the_repository_runs_outside() {
    each(|fence| {
        fence.repository().write(&[("other/x", "")]);
        let mark = fence.path("other/ran");
        for hook in ["post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"] {
            let hook = format!("project/.git/hooks/{hook}");
            fence.write(&[(&hook, &format!("#!/bin/sh\ntouch '{}'\n", mark.display()))]);
            fs::set_permissions(fence.path(&hook), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let run = format!("touch '{}'; cat", mark.display());
        fence.git(&format!(
            "git config filter.evil.smudge \"{run}\"; git config filter.evil.clean \"{run}\"
             git config filter.evil.required true; git config 'filter.a=b c.process' \"{run}\"
             git config core.fsmonitor \"{run}\"; git config core.sshCommand \"{run}\"; git config diff.external \"{run}\"
             git config core.hooksPath .git/hooks; git config submodule.recurse true"
        ));
        fence.write(&[("project/.gitattributes", "*.f filter=evil\n*.g filter=a=b\n"), ("project/x.f", "f\n")]);
        fence.git(
            "git -c core.hooksPath=/dev/null -c filter.evil.clean= -c filter.evil.required=false -c core.fsmonitor= \
                   add . && git -c core.hooksPath=/dev/null -c core.fsmonitor= commit -qm filters",
        );
        let _ = fs::remove_file(&mark);
        // Inside they run, if anything; the place is not there. The session touches everything, so that git looks at it again.
        let (said, told) = fence.in_worktree(&[], "cat x.f; touch -d 2001-01-01 x.f a; echo x >> x.f; echo f > x.f");
        assert_eq!(said, "f", "{told}");
        assert!(told.contains("filters were not run (a=b c, evil)"), "{told}");
        let (_, told) = fence.in_worktree(&[], "echo changed >> x.f");
        assert!(told.contains("not committed"), "{told}");
        assert!(!mark.exists(), "as {:?}: something ran outside: {told}", fence.who);
    });
}

/// Ten at once in one repository, each on its own.
#[test]
fn g11_many_agents_in_one_repository() {
    let fence = Fence::new(if is_root() { Who::Nobody } else { Who::Caller });
    fence.repository();
    let script = fence.script(&format!(
        "set -e; for n in 1 2 3; do echo $NAME-$n >> mine; git add mine; {COMMIT} -m \"$NAME $n\"; done
         test \"$(git rev-list --count main..HEAD)\" = 3; ls $W/project/.git/worktrees | wc -l"
    ));
    let start = |number: usize| -> Child {
        let name = format!("agent-{number}");
        let mut command = fence.ringfence();
        command.args(["run", "--worktree", &name, "--", "/bin/sh", "-c", &script.replace("$NAME", &name)]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let all: Vec<Child> = (0..10).map(start).collect();
    for (number, child) in all.into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{number}: {}", text(&output.stderr));
    }
    for number in 0..10 {
        let log = fence.git(&format!("git log --format=%s main..ringfence/agent-{number}"));
        assert_eq!(log, format!("agent-{number} 3\nagent-{number} 2\nagent-{number} 1"));
    }
    assert_eq!(fence.git("git worktree list | wc -l; git fsck --no-dangling; git status --porcelain"), "11");
}

/// What cannot be is said, with what helps, and leaves nothing.
#[test]
fn g11_what_cannot_be_is_said() {
    each(|fence| {
        let refused = |dir: &str, options: &[&str], why: &str| {
            let mut command = fence.ringfence();
            command.current_dir(fence.path(dir)).args(["run", "--worktree"]).args(options).args(["--", "true"]);
            let output = command.output().unwrap();
            fence.refused(&output, why);
        };
        refused("project", &[], "is in no work tree of git");
        fence.git("git init -q -b main . && git config user.name n && git config user.email n@example.com");
        refused("project", &[], "has no commits yet");
        fence.git("rm -rf .git");
        fence.repository().write(&[("other/x", "")]);
        for name in ["../x", "a/b", ".x", "x.lock", "a b", "", "a..b"] {
            let output = fence.ringfence().args(["run", &format!("--worktree={name}"), "--", "true"]).output().unwrap();
            let said = text(&output.stderr);
            assert!(!output.status.success() && (said.contains("no name") || said.contains("value")), "{name}: {said}");
        }
        fence.git("git branch ringfence/taken");
        refused("project", &["taken"], "there is a branch ringfence/taken already");
        fence.git("git branch -D ringfence/taken; git init -q --bare ../other/bare.git");
        fence.own();
        refused("other/bare.git", &[], "in no work tree");
        refused("project/.git", &[], "in no work tree");
        fence.has_no_worktree();
        // From below the top, from a head without a branch, and from a linked work tree.
        let mut below = fence.ringfence();
        below.current_dir(fence.path("project/sub")).args(["run", "--worktree", "w", "--", "cat", "b"]);
        let output = below.output().unwrap();
        assert_eq!(text(&output.stdout), "two\n", "{}", text(&output.stderr));
        fence.git("git checkout -q --detach");
        let (said, _) = fence.in_worktree(&["w"], "git branch --show-current");
        assert_eq!(said, "ringfence/w");
        fence.git("git checkout -q main; git sparse-checkout set --no-cone /a");
        let (said, _) = fence.in_worktree(&["w"], "ls; git status --porcelain");
        assert!(said == "a" || said == "a\nsub", "{said}");
        fence.git("git sparse-checkout disable");
        fence.has_no_worktree();
    });
}

/// The pool of the repository, where the policy has one; and the policy holds in the work tree, also beside it.
#[test]
fn g11_the_pool_and_the_policy() {
    each(|fence| {
        fence.repository().write(&[
            ("other/docs/d", "docs\n"),
            ("project/keys/k", "SECRET\n"),
            ("project/infra/i", "i\n"),
        ]);
        fence.policy(
            "[files]\nread = [\"../other/docs\"]\ndeny = [\"keys\"]\nprotect = [\"infra\"]\n\
             [[workspace.repo]]\nname = \"p\"\npath = \".\"\nworktrees_dir = \"../other/pool\"\n",
        );
        fence.git("git add . && git commit -qm policy");
        let trusted = ringfence(fence, &["trust"]);
        assert!(trusted.status.success(), "{}", text(&trusted.stderr));
        let script =
            "pwd; cat $W/other/docs/d; cat keys/k; echo x > infra/i; echo x > ringfence.toml; ls $W/other/pool";
        let (said, told) = fence.in_worktree(&["w"], script);
        let expected = fence.script("$W/other/pool/w\ndocs\nw");
        assert_eq!(said, expected, "{told}");
        assert_eq!(fs::read_dir(fence.path("other/pool")).unwrap().count(), 0);
        // One in the work tree itself is refused.
        fence.policy("[[workspace.repo]]\nname = \"p\"\npath = \".\"\nworktrees_dir = \"pool\"\n");
        let trusted = ringfence(fence, &["trust", "--force"]);
        assert!(trusted.status.success(), "{}", text(&trusted.stderr));
        let output = fence.worktree(&["w"], "true");
        fence.refused(&output, "lies in the work tree");
    });
}

/// What a killed supervisor left is collected where nothing would be lost, and stays where something would be.
#[test]
fn g11_worktrees_of_dead_sessions_are_collected() {
    each(|fence| {
        fence.repository();
        let dies = |name: &str, script: &str| {
            let mut command = fence.ringfence();
            command
                .args(["run", "--worktree", name, "--", "/bin/sh", "-c"])
                .arg(format!("{script}; touch .ready; sleep 600"));
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let list = || json(fence, &["ps", "--json"])["sessions"].as_array().unwrap().clone();
            until("it runs", || {
                list().iter().any(|one| {
                    let dir = one["session"]["project"].as_str().unwrap_or_default();
                    std::path::Path::new(dir).join(".ready").exists()
                })
            });
            let dir = list()[0]["session"]["project"].as_str().unwrap().to_owned();
            fs::remove_file(std::path::Path::new(&dir).join(".ready")).unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            until("everything has ended", || !fence.is_alive());
        };
        dies("dirty", "echo x > new");
        dies("ahead", &format!("echo x >> a; {COMMIT} -am x"));
        dies("clean", "true");
        let said = text(&ringfence(fence, &["gc"]).stdout);
        assert!(said.contains("/clean of session") && said.contains("/dirty of dead session"), "{said}");
        assert_eq!(
            fence.git("git branch --list 'ringfence/*' --format='%(refname:short)'"),
            "ringfence/ahead\nringfence/dirty"
        );
        assert_eq!(fence.git("git worktree list | wc -l"), "3");
        // Again and again, until somebody has looked after it.
        let said = json(fence, &["gc", "--json"]);
        assert_eq!(said["worktrees"].as_array().unwrap().len(), 2, "{said}");
        fence.git(
            "git worktree list --porcelain | sed -n 's/^worktree //p' | grep worktrees | while read -r tree; do \
                   git worktree remove --force \"$tree\"; done; git branch -q -D ringfence/ahead ringfence/dirty",
        );
        ringfence(fence, &["gc"]);
        assert_eq!(json(fence, &["gc", "--json"])["worktrees"].as_array().unwrap().len(), 0);
        fence.has_no_worktree();
    });
}

impl Fence {
    /// Does anything of a session run still?
    fn is_alive(&self) -> bool {
        let alive = |dir: std::path::PathBuf| {
            let Ok(dir) = fs::File::open(dir) else { return false };
            rustix::fs::flock(&dir, rustix::fs::FlockOperation::NonBlockingLockShared).is_err()
        };
        fs::read_dir(sessions(self)).into_iter().flatten().flatten().any(|entry| alive(entry.path()))
    }
}

/// M6: the same at any moment, also while the work tree is being made or removed.
#[test]
fn m6_a_worktree_session_that_is_killed_at_any_moment_leaves_nothing() {
    let fence = Fence::new(if is_root() { Who::Nobody } else { Who::Caller });
    fence.repository();
    let begun = Instant::now();
    fence.in_worktree(&[], "true");
    let whole = begun.elapsed();
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..25 {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let mut command = fence.ringfence();
        command.args(["run", "--worktree", "--", "/bin/sh", "-c", if round % 3 == 0 { "sleep 600" } else { "true" }]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let moment = Duration::from_micros(dice % (u64::try_from(whole.as_micros()).unwrap() * 5 / 4));
        let moment = Instant::now() + moment;
        until("the moment comes", || Instant::now() > moment);
        let _ = child.kill();
        child.wait().unwrap();
        until("everything has ended", || !fence.is_alive());
        // A git that was started by the one that was killed goes on for a moment.
        until("it is collected", || {
            ringfence(&fence, &["gc"]);
            fence.git("git worktree list --porcelain | grep -c '^worktree'; git branch --list 'ringfence/*'") == "1"
        });
    }
    fence.has_no_worktree();
    assert!(ringfence(&fence, &["audit", "verify"]).status.success());
}
