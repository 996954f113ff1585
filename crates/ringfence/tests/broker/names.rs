//! Names that do not exist yet, by every way to make one.

use crate::desk::{each_user, shown};

/// Each is a sentence and a script that must fail.
const ATTACKS: &[(&str, &str)] = &[
    ("a file is made", "echo x > .envrc"),
    ("a file is made where nothing was looked at", "mkdir -p new/deep && echo x > new/deep/.envrc"),
    ("a directory is made", "mkdir .vscode"),
    ("a directory is made below one that may be", "mkdir -p new/.github && mkdir new/.github/workflows"),
    ("a file is moved there", "echo x > plain && mv plain .envrc"),
    ("a second name is made", "echo x > plain && ln plain .envrc"),
    ("a link is made", "ln -s plain .envrc"),
    ("a link takes the name of the directory", "mkdir -p evil && echo x > evil/config.toml && ln -s evil .cargo"),
    ("a link is moved to the name of the directory", "ln -s evil lead && mv -T lead .cargo"),
    ("a second name of a link is that of the directory", "ln -s evil lead && ln -P lead .github"),
    ("a link takes the name of a git directory", "mkdir evil && ln -s evil .git"),
    ("a directory brings such a link along", "mkdir store && ln -s ../evil store/repo && mv store .jj"),
    (
        "dependencies bring such a link along",
        "mkdir -p node_modules/p && ln -s ../evil node_modules/p/.bundle && mv node_modules/p p",
    ),
    (
        "a directory is exchanged for a link",
        "mkdir .hg && ln -s evil lead && python3 -c 'import ctypes; \
         raise SystemExit(ctypes.CDLL(None).renameat2(-100, b\"lead\", -100, b\".hg\", 2) != 0)'",
    ),
    ("a pipe is made", "mkfifo .envrc"),
    ("a copy is made", "echo x > plain && cp plain .npmrc"),
    ("by a link to the directory", "ln -s . here && echo x > here/.envrc"),
    ("by a link to the name", "ln -s .envrc lead && echo x > lead"),
    ("by a link that goes up and down", "mkdir -p a/b && ln -s ../.. a/b/up && echo x > a/b/up/a/../.envrc"),
    ("by the working directory in /proc", "echo x > /proc/self/cwd/.envrc"),
    ("by the root in /proc", "echo x > /proc/self/root$PWD/.envrc"),
    ("by a descriptor of the directory", "exec 3< . && echo x > /proc/self/fd/3/.envrc"),
    ("by a descriptor in /dev", "exec 3< . && echo x > /dev/fd/3/.envrc"),
    ("by the first process", "echo x > /proc/1/root$PWD/.envrc"),
    ("the hooks of a repository are made", "git init -q made && mkdir made/.git/hooks"),
    (
        "the settings of a repository are written",
        "git init -q made2 && printf '[core]\n\tpager = x\n' | tee -a made2/.git/config",
    ),
    (
        "the settings of a repository are written by way of another descriptor",
        "git init -q made6 && printf '[core]\n\tpager = x\n' >> made6/.git/config; sleep 1; grep pager made6/.git/config",
    ),
    ("the settings of a repository name a program", "git init -q made3 && git -C made3 config core.pager x"),
    ("the settings of a repository include others", "git init -q made4 && git -C made4 config include.path x"),
    (
        "settings are moved into place by hand",
        "git init -q made5 && printf '[core]\\n\\tfsmonitor = ./x\\n' > made5/.git/config.lock && \
         mv made5/.git/config.lock made5/.git/config",
    ),
    ("a directory brings hooks along", "mkdir -p ready/hooks && echo x > ready/hooks/pre-commit && mv ready r1.git"),
    ("a directory brings settings along", "mkdir ready2 && echo x > ready2/config && mv ready2 r2.git"),
    ("a directory brings the settings of a project along", "mkdir -p ready3/workflows && mv ready3 .github"),
    (
        "a directory far above brings them along",
        "mkdir -p top/x/hooks && echo x > top/x/hooks/h && mkdir -p to && mv top/x to/y.git",
    ),
    ("hooks are made in what was moved", "mkdir empty && mv empty r3.git && mkdir r3.git/hooks"),
    (
        "a directory becomes a repository under another name",
        "mkdir -p evil/objects evil/refs && echo x > evil/config && echo 'ref: refs/heads/main' > evil/HEAD",
    ),
    (
        "a directory becomes a repository under another name when a directory is made",
        "mkdir -p evil/refs && printf '[core]\n\tpager = x\n' > evil/config && echo 'ref: refs/heads/main' > evil/HEAD && mkdir evil/objects",
    ),
    (
        "a repository without work tree that is made under another name names a program",
        "git init -q --bare evil && git --git-dir=evil config core.pager x",
    ),
    (
        "a link in a directory becomes one in a repository",
        "mkdir -p evil/objects evil/refs && ln -s config evil/COMMIT_EDITMSG && echo 'ref: refs/heads/main' > evil/HEAD",
    ),
    ("a work tree is tied to another place", "mkdir evil && echo ../x > evil/commondir && echo x > evil/HEAD"),
    (
        "a submodule is tied to another place",
        "git init -q tied && mkdir -p tied/.git/modules/s && echo x > tied/.git/modules/s/HEAD && echo ../x > tied/.git/modules/s/commondir",
    ),
    (
        "a submodule that is called like a work tree is tied to another place",
        "git init -q tied2 && cd tied2/.git && mkdir -p modules/worktrees/s/objects && cd modules/worktrees/s && echo x > commondir && \
         echo x > HEAD",
    ),
    (
        "the tie of a work tree becomes that of a submodule",
        "git init -q tied3 && cd tied3/.git && mkdir -p worktrees/w modules && echo x > worktrees/w/HEAD && echo x > worktrees/w/commondir && \
         mv worktrees/w modules/w",
    ),
    (
        "the valid entry of a work tree becomes a submodule",
        "git init -q tied4 && cd tied4/.git && mkdir -p worktrees/w modules && echo ref: refs/heads/x > worktrees/w/HEAD && \
         echo ../.. > worktrees/w/commondir && while ! grep -q . worktrees/w/commondir; do :; done && mv worktrees/w modules/w",
    ),
    (
        "a repository of Mercurial shares what another has",
        "mkdir -p m/.hg && echo shared > m/.hg/requires && echo ../evil > m/.hg/sharedpath",
    ),
    ("a repository of Sapling runs what it likes", "mkdir -p s/.sl && echo x > s/.sl/config"),
    ("a repository of Pijul runs what it likes", "mkdir -p p/.pijul && echo x > p/.pijul/config"),
    ("what direnv remembers is written", "mkdir -p .direnv/python-3 && echo x > .direnv/flake-profile-1.rc"),
    ("a11: jj is sent to another repository", "mkdir -p j/.jj && echo ../../evil > j/.jj/repo"),
    ("a11: jj is sent to another repository by a move", "mkdir -p j2/.jj && echo ../evil > x && mv x j2/.jj/repo"),
    ("a11: a directory brings it along", "mkdir ready5 && echo ../evil > ready5/repo && mv ready5 .jj"),
    ("a11: a second name of a file sends jj elsewhere", "mkdir -p j3/.jj && echo ../evil > x && ln x j3/.jj/repo"),
    ("a11: a build server is named", "mkdir .bsp"),
    ("a11: a pre-commit tool of another name", "echo x > prek.toml"),
    ("a11: what an approved .envrc reads", "echo x > .envrc.local"),
    ("a11: CI by another extension", "echo x > azure-pipelines-release.yaml"),
    (
        "the tool of a checkout brings itself along",
        "mkdir -p ready4/repo && echo x > ready4/repo/main.py && mv ready4 .repo",
    ),
    (
        "hooks come last",
        "mkdir -p evil/refs evil/objects evil/h && echo 'ref: refs/heads/main' > evil/HEAD && mv evil/h evil/hooks",
    ),
    (
        "one name becomes another beside it",
        "mkdir -p evil/objects evil/r evil/hooks && echo 'ref: refs/heads/main' > evil/HEAD && mv evil/r evil/refs",
    ),
    ("a link takes the last name", "mkdir -p evil/refs evil/objects && ln -s x evil/HEAD"),
    ("a second name takes the last one", "mkdir -p evil/refs evil/objects && echo x > y && ln y evil/HEAD"),
    (
        "a repository that was moved to another name gets hooks",
        "git init -q --bare made6.git && mv made6.git evil && mkdir -p evil/hooks && echo x > evil/hooks/post-checkout",
    ),
    (
        "two directories are exchanged",
        "mkdir -p e1/hooks e2.git && python3 -c 'import ctypes; \
         raise SystemExit(ctypes.CDLL(None).renameat2(-100, b\"e1\", -100, b\"e2.git\", 2) != 0)'",
    ),
    (
        "a file without a name gets one",
        "python3 -c 'import ctypes, os; f = os.open(\".\", os.O_TMPFILE | os.O_RDWR); \
         raise SystemExit(ctypes.CDLL(None).linkat(-100, b\"/proc/self/fd/%d\" % f, -100, b\".envrc\", 0x400) != 0)'",
    ),
    (
        "relative to a descriptor",
        "python3 -c 'import os; os.open(\".envrc\", os.O_WRONLY | os.O_CREAT, dir_fd=os.open(\".\", os.O_RDONLY))'",
    ),
    (
        "by openat2",
        "python3 -c 'import ctypes, struct; raise SystemExit(ctypes.CDLL(None).syscall(437, -100, b\".envrc\", \
         struct.pack(\"QQQ\", 0o101, 0o600, 0), 24) < 0)'",
    ),
    (
        "dependencies are moved to where they belong to the project",
        "mkdir -p node_modules/p/.vscode && mv node_modules/p p",
    ),
];

/// What lies in the project afterwards and may not.
const FORBIDDEN: &str = "find . \\( -name .envrc -o -name .npmrc -o -name workflows -o -path '*.git/hooks' -o -name .vscode \\) \
                         -not -path '*/ready*' -not -path '*/node_modules/*' -not -path '*/top/*'";

#[test]
fn k8_names_that_do_not_exist_yet_cannot_be_made() {
    each_user(|desk| {
        // One session for all: each in a directory of its own, so that none stands in the way of another.
        let mut script = String::from("failed=0\n");
        for (number, (sentence, attack)) in ATTACKS.iter().enumerate() {
            assert!(!sentence.contains('\''), "the sentence is quoted: {sentence}");
            script += &format!(
                "mkdir -p w{number} && cd w{number} && if (set -e; {attack}) >/tmp/said 2>&1; then echo 'SUCCEEDS: {sentence}'; failed=1; \
                 elif grep -q 'not found' /tmp/said; then echo 'CANNOT BE TRIED: {sentence}'; cat /tmp/said; failed=1; fi; cd ..\n",
            );
        }
        script += &format!("test -z \"$({FORBIDDEN})\" || {{ {FORBIDDEN}; failed=1; }}\nexit $failed");
        let output = desk.inside(&script);
        assert!(output.status.success(), "{}", shown(&output));
        // And seen from outside.
        let outside = desk.outside("/bin/sh").args(["-c", FORBIDDEN]).output().unwrap();
        let left = String::from_utf8(outside.stdout).unwrap();
        assert!(left.is_empty(), "{left}");
    });
}

/// A name that the user protects for another reason does not stand for what guards a repository.
#[test]
fn k8_no_repository_is_made_beside_a_name_that_the_user_protects() {
    each_user(|desk| {
        let policy = "version = 1\n[files]\nprotect = [\"**/config\"]\n";
        std::fs::write(desk.world.path("project/ringfence.toml"), policy).unwrap();
        let script = "mkdir -p evil/objects evil/refs; for name in hooks HEAD; do mkdir evil/$name || true; done; \
                      ! test -e evil/hooks || ! test -e evil/HEAD";
        let output = desk.inside(script);
        assert!(output.status.success(), "{}", shown(&output));
    });
}

/// What the kernel shows of a process depends on who opens it, and opens that may make a file are carried out by the broker.
const ABOUT_THE_BROKER: &str = r#"
import ctypes, os, struct
threads = os.listdir("/proc/1/task")
places = ["/proc/1"] + [f"/proc/{one}" for one in threads] + [f"/proc/1/task/{one}" for one in threads]
kept = ["maps", "smaps", "numa_maps", "fdinfo/3", "map_files", "environ", "mem"]
for path in [f"{place}/{name}" for place in places for name in kept]:
    for flags in (os.O_RDONLY, os.O_RDONLY | os.O_CREAT):
        try:
            os.open(path, flags)
            print("OPENED", path, flags)
        except OSError:
            pass
    how = struct.pack("QQQ", os.O_RDONLY, 0, 0)
    if ctypes.CDLL(None).syscall(437, -100, path.encode(), how, len(how)) >= 0:
        print("OPENED by openat2", path)
os.close(os.open("/proc/self/maps", os.O_RDONLY | os.O_CREAT))
"#;

#[test]
fn k8_what_is_known_of_the_broker_is_not_handed_out() {
    each_user(|desk| {
        let output = desk.inside(&format!("python3 -c '{ABOUT_THE_BROKER}'"));
        assert!(output.status.success() && output.stdout.is_empty(), "{}", shown(&output));
    });
}

/// Each attack is one: without the broker it succeeds.
#[test]
fn k8_without_the_broker_they_can_be_made() {
    each_user(|desk| {
        let mut script = String::from("set +e\n");
        for (number, (sentence, attack)) in ATTACKS.iter().enumerate() {
            assert!(!sentence.contains('\''), "the sentence is quoted: {sentence}");
            script += &format!(
                "mkdir -p w{number} && cd w{number} && (set -e; {attack}) >/dev/null 2>&1 || echo 'fails: {sentence}'; cd ..\n"
            );
        }
        let mut command = desk.outside(desk.world.binary().to_str().unwrap());
        let output = command.args(["run", "--no-broker", "--", "bash", "-c", &script]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        // The first process is out of reach by itself; where root's project is worked on by another, openat2 is not there.
        let is_known = |line: &&str| line.contains("the first process") || line.contains("by openat2");
        let fails: Vec<&str> = said.lines().filter(|line| !is_known(line)).collect();
        assert!(fails.is_empty(), "{fails:?}");
    });
}

#[test]
fn k8_what_is_nobodys_project_is_open() {
    each_user(|desk| {
        desk.works(&[
            ("dependencies bring their settings", "mkdir -p node_modules/p/.vscode && echo x > node_modules/p/.npmrc"),
            ("so do temporary files", "mkdir -p /tmp/p/.git/hooks && echo x > /tmp/p/.envrc"),
            ("and the session's home", "mkdir -p ~/.vscode && echo x > ~/.npmrc"),
            (
                "the caller's own descriptors, also those whose numbers are nobody's else",
                "exec 57< . && echo x > /proc/self/fd/57/of57 && echo y > /dev/fd/57/of58 && mv /proc/self/fd/57/of57 of59 && \
                 test \"$(cat of59 of58)\" = \"$(printf 'x\\ny')\" && rm /proc/self/fd/57/of58 of59",
            ),
            ("some of the names of a repository", "mkdir -p r/hooks r/config r/objects && echo x > r/HEAD && rm -r r && mkdir -p s/refs/x s/objects"),
            ("a repository without work tree, under any name", "git init -q --bare plain && mv plain plain2 && git --git-dir=plain2 symbolic-ref HEAD refs/heads/x"),
            ("a repository without work tree among temporary files", "git init -q --bare /tmp/bare && git --git-dir=/tmp/bare config core.pager x"),
            ("and in the session's home", "git init -q --bare ~/db && mv ~/db ~/db2"),
            ("names that are only alike", "echo x > .envrc2 && echo x > xenvrc && mkdir .vscode2"),
            (
                "a directory keeps its name below another",
                "mkdir -p m1/m2 && echo x > m1/m2/f && mv m1 m3 && cat m3/m2/f",
            ),
        ]);
    });
}

#[test]
fn k8_repositories_are_made_inside() {
    each_user(|desk| {
        desk.works(&[
            (
                "one is made, with the settings that git gives it",
                "git init -q one && cd one && test \"$(git config core.filemode)\" = true && test -z \"$(git config core.pager)\" && \
                 echo a > a && git add a && git commit -qm a",
            ),
            (
                "it is cloned",
                "git clone -q one two && cd two && test \"$(git remote)\" = origin && git remote add up ../one && \
                 git config branch.main.description words && ! git remote add far https://example.com/x",
            ),
            ("it has worktrees", "cd two && git worktree add -q ../three -b side && cd ../three && echo b > b && git add b && git commit -qm b"),
            (
                "it has submodules",
                "cd two && git -c protocol.file.allow=always submodule add -q ../one sub && git commit -qm sub && \
                 test \"$(git config -f .gitmodules submodule.sub.path)\" = sub && git -C sub log -1 --format=%s",
            ),
            ("a bare one is made and pushed to", "git init -q --bare four.git && cd two && git remote add four ../four.git && git push -q four HEAD:main"),
            ("they are moved and removed", "mv two five && git -C five status --porcelain && rm -rf one three five four.git"),
        ]);
    });
}

/// What has too many names to look at does not go where rules speak of them, and that is told like any refusal.
#[test]
fn k8_what_is_too_large_to_look_at_is_refused_and_told() {
    each_user(|desk| {
        let many = desk.project("many");
        std::fs::create_dir(&many).unwrap();
        for number in 0..50_001 {
            std::fs::File::create(many.join(number.to_string())).unwrap();
        }
        desk.hand_over();
        let output = desk.inside("mv many moved; mv moved .cargo");
        let said = shown(&output);
        assert!(!output.status.success() && desk.project("moved").exists(), "{said}");
        assert!(said.contains("more than 50000 names to look at") && said.contains("stopped: write"), "{said}");
    });
}

/// What was there at the start is held by mounts. The kernel calls that busy, which tells nobody why.
#[test]
fn k8_what_is_held_since_the_start_says_so() {
    each_user(|desk| {
        desk.prepare("git init -q && mkdir -p sub/.vscode && echo '{}' > sub/.vscode/settings.json");
        desk.hand_over();
        for (script, stopped) in [
            ("git config core.pager words", "/.git/config (rename) by git"),
            ("rm -f .git/config", "/.git/config (unlink"),
            ("mv sub other", "/sub (rename"),
        ] {
            let said = shown(&desk.inside(script));
            let is_told = |line: &str| line.starts_with("ringfence: stopped: write ") && line.contains(stopped);
            let line = said.lines().find(|line| is_told(line)).unwrap_or_else(|| panic!("{script}: {said}"));
            assert!(line.ends_with("make this change yourself, outside the fence"), "{line}");
        }
        assert!(desk.project("sub/.vscode/settings.json").exists() && desk.project(".git/config").exists());
    });
}

/// A directory with something in it is removed nowhere, fence or not. `git rebase` and `git stash` try it of `.git` and go on.
#[test]
fn k8_a_directory_that_is_not_empty_is_no_violation() {
    each_user(|desk| {
        desk.prepare("git init -q && echo 1 > a && git add a && git commit -qm a && echo 2 > a && git commit -qam b");
        desk.hand_over();
        let script = "! rmdir .git; echo 3 > a; git stash -q && git stash pop -q && git commit -qam c && \
                      GIT_EDITOR=true git rebase -q -i HEAD~2 && echo done";
        let said = shown(&desk.inside(script));
        assert!(said.contains("Directory not empty") && said.contains("done"), "{said}");
        assert!(!said.contains("stopped:"), "{said}");
    });
}

/// Settings that are set anew to what they are change nothing, whatever else stands beside them. `git submodule update` does that.
#[test]
fn k8_settings_that_stay_as_they_are_can_be_set() {
    each_user(|desk| {
        desk.prepare(
            "git init -q up && git -C up commit -q --allow-empty -m a && git init -q && \
             git -c protocol.file.allow=always submodule add -q \"$PWD/up\" sub && git commit -qm sub && \
             git -C sub commit -q --allow-empty -m b && git config core.pager less && git -C sub config core.pager less",
        );
        desk.hand_over();
        desk.works(&[
            (
                "a submodule is brought up to date",
                "git submodule update --init && git -C sub log -1 --format=%s | grep -qx a",
            ),
            ("a setting is set to what it is", "git config core.pager less && test ! -e .git/config.lock"),
            ("no program", "! git config core.pager more && ! git -C sub config core.pager more && test \"$(git config core.pager)\" = less"),
            ("what describes a branch", "git config branch.main.description words && git -C sub config branch.main.description words"),
        ]);
    });
}

/// By the ioctls of some file systems, with an open directory and no other right. Here is none of them; what their kernel would be asked
/// for says no before it is known whose it is.
const BY_IOCTL: &str = r#"
import errno, fcntl, os, struct, sys
dir = os.open(".", os.O_RDONLY)
def said(command, argument):
    try:
        fcntl.ioctl(dir, command, argument, True)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
name = bytearray(struct.pack("q4088s", dir, b".vscode"))
for command in (0x5000940e, 0x50009401, 0x5000940f, 0x50009417, 0x50009418, 0x5000943f):
    assert said(command, name) == "EPERM", (hex(command), said(command, name))
# FS_IOC_GETFLAGS says what is there, and to set just that is refused: FS_CASEFOLD_FL would be among it.
flags = bytearray(8)
if said(0x80086601, flags) == "done":
    assert said(0x40086602, flags) == "ENOTSUP", said(0x40086602, flags)
"#;

#[test]
fn k8_no_name_is_made_by_ioctl() {
    each_user(|desk| {
        desk.write("by_ioctl.py", BY_IOCTL);
        let output = desk.inside("python3 by_ioctl.py");
        assert!(output.status.success(), "{}", shown(&output));
    });
}
