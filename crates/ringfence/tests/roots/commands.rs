//! `ringfence root`, and what is said of a root that cannot be used.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::ground::{Ground, NOBODY, Who, shown, skips};

/// M1, M2: git, a shell and Python in a root, with CAP_SYS_CHROOT and nothing else.
#[test]
fn m1_m2_a_root_is_made_and_used_with_one_right() {
    if skips() {
        return;
    }
    for who in [Who::Root, Who::Ambient, Who::File] {
        let ground = Ground::new(who);
        let begun = Instant::now();
        ground.create("t", "git,shell,python");
        // Seconds, on a machine that does other things too.
        assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
        let script = "git init -q && echo x > a && git add a && git -c user.name=a -c user.email=a@b commit -qm first && \
                      git log --format=%s && python3 -c 'import json, ssl, sqlite3, zlib; print(6 * 7)'";
        let seen = ground.run("t", &["sh", "-c", script]);
        assert!(seen.status.success(), "{who:?}: {}", shown(&seen));
        assert_eq!(seen.stdout, b"first\n42\n", "{who:?}: {}", shown(&seen));
        // Nothing but the work has come to it.
        let listed = ground.ringfence(&["root", "show", "t"]).output().unwrap();
        assert!(shown(&listed).contains("every file is as it was made"), "{who:?}: {}", shown(&listed));
        assert!(listed.status.success());
    }
}

/// M2: a toolchain works in a root, although it looks for its own parts by way of `/proc`.
#[test]
fn m2_rust_compiles_and_links_in_a_root() {
    if skips() {
        return;
    }
    let ground = Ground::new(Who::Root);
    let toolchain = std::path::Path::new(env!("CARGO")).parent().unwrap().to_str().unwrap();
    let mut create = ground.ringfence(&["root", "create", "t", "--with", "shell,rust"]);
    let made = create.env("PATH", format!("/usr/bin:/bin:{toolchain}")).output().unwrap();
    assert!(made.status.success(), "{}", shown(&made));
    let script = format!(
        "export PATH=\"$PATH:{toolchain}\"; echo 'fn main() {{ println!(\"{{}}\", 6 * 7) }}' > m.rs && rustc m.rs && ./m && \
         cargo init -q --vcs none app && cd app && cargo run -q --offline"
    );
    let seen = ground.run("t", &["sh", "-c", &script]);
    assert_eq!(seen.stdout, b"42\nHello, world!\n", "{}", shown(&seen));
}

/// M1: without the right it is said which one it takes.
#[test]
fn m1_without_the_right_nothing_starts() {
    if skips() {
        return;
    }
    let ground = Ground::new(Who::Nothing);
    ground.create("t", "shell");
    let seen = ground.run("t", &["sh", "-c", "echo started"]);
    assert_eq!(seen.status.code(), Some(125));
    assert!(!shown(&seen).contains("started\n") && shown(&seen).contains("CAP_SYS_CHROOT"), "{}", shown(&seen));
}

/// M2: a root that was changed is not used, and it is said what was changed.
#[test]
fn m2_a_changed_root_is_not_used() {
    if skips() {
        return;
    }
    let ground = Ground::new(Who::Root);
    let work = ground.create("t", "shell");
    let planted = work.join("../usr/bin/planted");
    fs::write(&planted, "x").unwrap();
    let seen = ground.run("t", &["true"]);
    assert_eq!(seen.status.code(), Some(125));
    assert!(shown(&seen).contains("/usr/bin holds planted, which is not in the manifest"), "{}", shown(&seen));
    let listed = ground.ringfence(&["root", "show", "t"]).output().unwrap();
    assert_eq!(listed.status.code(), Some(1), "{}", shown(&listed));
    fs::remove_file(&planted).unwrap();
    assert!(ground.run("t", &["true"]).status.success());
}

/// M6: a root goes when it is told to, not while there is work in it; `gc` takes those of workspaces that are gone.
#[test]
fn m6_roots_go() {
    if skips() {
        return;
    }
    let ground = Ground::new(Who::Root);
    let work = ground.create("kept", "file");
    fs::write(work.join("file"), "x").unwrap();
    let refused = ground.ringfence(&["root", "remove", "kept"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(125));
    assert!(shown(&refused).contains("--force"), "{}", shown(&refused));
    ground.world.mkdir("workspace");
    let made = ground.ringfence(&["root", "create", "gone", "--with", "file", "--workspace", "workspace"]).output();
    assert!(made.unwrap().status.success());
    let collect = || shown(&ground.ringfence(&["gc"]).output().unwrap());
    assert_eq!(collect(), "");
    fs::remove_dir(ground.world.path("workspace")).unwrap();
    assert_eq!(collect(), "collected root gone\n");
    let listed = ground.ringfence(&["root", "list", "--json"]).output().unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["roots"].as_array().unwrap().len(), 1);
    assert_eq!(listed["roots"][0]["name"], "kept");
    assert!(ground.ringfence(&["root", "remove", "kept", "--force"]).output().unwrap().status.success());
    assert!(!work.exists());
}

/// M2, M6: a project elsewhere is worked on where root has bound it into the work; neither removing the root nor collecting what is
/// left of one empties it through that mount, and neither waits for ever.
#[test]
fn m2_m6_a_project_that_is_bound_into_a_root() {
    if skips() {
        return;
    }
    let ground = Ground::new(Who::Root);
    let work = ground.create("t", "shell");
    let project = ground.world.mkdir("elsewhere");
    ground.write(&project.join("file"), "kept\n");
    ground.world.mkdir("elsewhere/.git");
    for path in [&project, &project.join(".git")] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let told = ground.started("t", &["pwd"]).current_dir(&project).output().unwrap();
    assert!(shown(&told).contains("elsewhere is not in the root: clone it into "), "{}", shown(&told));
    let unfinished = work.ancestors().nth(3).unwrap().join(".new-x-1");
    fs::create_dir_all(unfinished.join("p")).unwrap();
    let script = r#"mkdir "$1/p" && mount --bind "$2" "$1/p" && mount --bind "$2" "$3/p" && cd "$1/p" || exit 99
        "$4" run --backend chroot --root t -- sh -c 'cat file; pwd; echo made > made'
        cd /; timeout 60 "$4" root remove t --force; echo "removed: $?"; timeout 60 "$4" gc; echo "collected: $?""#;
    let mut command = Command::new("/usr/bin/unshare");
    command.args(["-m", "--propagation", "private", "sh", "-c", script, "sh"]);
    command.args([&work, &project, &unfinished]).arg(ground.world.binary()).stdin(Stdio::null());
    command.env_clear().env("HOME", ground.world.path("home")).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let seen = shown(&command.output().unwrap());
    assert!(seen.contains("kept\n"), "{seen}");
    assert!(seen.contains("/p is a mount\n") && seen.contains("hint: unmount it first"), "{seen}");
    assert!(seen.contains("removed: 125\n") && seen.contains("collected: "), "{seen}");
    let read = |name: &str| fs::read_to_string(project.join(name)).unwrap_or_default();
    assert_eq!((read("file").as_str(), read("made").as_str()), ("kept\n", "made\n"), "{seen}");
    let gone = ground.ringfence(&["root", "remove", "t", "--force"]).output().unwrap();
    assert!(gone.status.success() && !work.exists() && project.join("file").exists(), "{}", shown(&gone));
}

/// Nothing of a session is left in a root, also if it was killed.
#[test]
fn m6_nothing_of_a_session_stays_in_a_root() {
    if skips() {
        return;
    }
    let ground = Ground::new(Who::Root);
    let work = ground.create("t", "shell");
    let sessions = fs::canonicalize(ground.world.path("home/.local/state/ringfence")).unwrap().join("sessions");
    let inside = work.join("..").join(sessions.strip_prefix("/").unwrap());
    assert!(ground.run("t", &["sh", "-c", "touch /tmp/left $HOME/left"]).status.success());
    assert_eq!(fs::read_dir(&inside).unwrap().count(), 0);
    assert_eq!(fs::read_dir(work.join("../tmp")).unwrap().count(), 0);
    let mut child = ground.started("t", &["sh", "-c", "touch /tmp/left; echo up; sleep 1000"]);
    let mut child = child.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
    assert_eq!(fs::read_dir(&inside).unwrap().count(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    // Whoever watches ends the rest, and lets go of the root a moment later.
    let until = Instant::now() + std::time::Duration::from_secs(60);
    while fs::read_dir(&inside).unwrap().count() > 0 && Instant::now() < until {
        ground.ringfence(&["gc"]).output().unwrap();
    }
    assert_eq!(fs::read_dir(&inside).unwrap().count(), 0);
    assert_eq!(fs::read_dir(work.join("../tmp")).unwrap().count(), 0);
}

/// What cannot go together is said before anything is done.
#[test]
fn what_makes_no_sense_is_refused() {
    if skips() {
        return;
    }
    let ground = Ground::new(Who::Root);
    ground.create("t", "file");
    for (words, code, said) in [
        (&["run", "--backend", "chroot", "--", "true"][..], 2, "--root NAME"),
        (&["run", "--root", "t", "--", "true"], 2, "--root NAME"),
        (&["run", "--backend", "chroot", "--root", "u", "--", "true"], 125, "there is no root `u`"),
        (&["run", "--backend", "chroot", "--root", "../t", "--", "true"], 2, "is no name for a root"),
        (&["root", "create", "t", "--with", "file"], 125, "there is a root `t` already"),
        (&["root", "create", "x", "--with", "perl"], 2, "possible values: file, git, shell"),
        (&["root", "remove", "u"], 125, "there is no root `u`"),
        (&["run", "--backend", "chroot", "--root", "t", "--", "true"], 127, "not found inside the fence"),
        (
            &["run", "--backend", "chroot", "--root", "t", "--", "/usr/bin/git"],
            127,
            "root create NAME --with file,git`",
        ),
        (&["run", "--backend", "chroot", "--root", "t", "--", "strace"], 127, "no class of tools has `strace`"),
    ] {
        let seen = ground.ringfence(words).output().unwrap();
        assert_eq!(seen.status.code(), Some(code), "{words:?}: {}", shown(&seen));
        assert!(shown(&seen).contains(said), "{words:?}: {}", shown(&seen));
    }
}

/// The steps are printed in their order.
#[test]
fn the_steps_are_printed() {
    if skips() {
        return;
    }
    let ground = Ground::new(Who::Root);
    let work = ground.create("t", "file");
    let seen = ground.ringfence(&["render", "chroot", "--root", "t"]).output().unwrap();
    let text = String::from_utf8(seen.stdout).unwrap();
    let at = |line: &str| text.find(line).unwrap_or_else(|| panic!("{line}: {text}"));
    let order = ["chroot /", "drop every capability", "no_new_privs", "landlock:", "seccomp: ", "execve"].map(at);
    assert!(order.is_sorted(), "{text}");
    assert!(text.contains(&format!("landlock: write {}\n", work.display())), "{text}");
}
