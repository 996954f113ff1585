//! A14: the acceptance list for a fence of the operating system, line by line. The other lines of that list speak of the agent's
//! own tools; where the system holds them too, they are here.

use std::fs;

use super::ground::Ground;
use super::row::Thing::File;
use super::row::{NETWORK, READABLE, Row, SECRET, Sign, WRITABLE, python, shell};
use super::suite::{Backend, Receipt, Topic, every_fence, fence, output};

/// A14: without a fence every one of these attacks succeeds.
#[test]
fn a14_without_a_fence() {
    TOPIC.without_a_fence();
}

/// A14, natively.
#[test]
fn a14_native() {
    TOPIC.in_a_fence(Backend::Native);
}

/// A14, by bubblewrap.
#[test]
fn a14_bwrap() {
    TOPIC.in_a_fence(Backend::Bwrap);
}

/// A14, with Landlock alone.
#[test]
fn a14_landlock() {
    TOPIC.in_a_fence(Backend::Landlock);
}

/// A14, in a root.
#[test]
fn a14_chroot() {
    TOPIC.in_a_fence(Backend::Chroot);
}

#[test]
fn docker() {
    TOPIC.in_a_fence(Backend::Docker);
}

#[test]
fn podman() {
    TOPIC.in_a_fence(Backend::Podman);
}

pub(super) static TOPIC: Topic = Topic {
    opened: None,
    rows: &[
        python(
            READABLE,
            "the view holds the project and the directories of the system, and nothing else",
            "
            known = {'bin', 'dev', 'etc', 'lib', 'lib32', 'lib64', 'libx32', 'proc', 'sbin', 'tmp', 'usr', 'var'}
            beside = set(os.listdir('/')) - known - {PROJECT.split('/')[1]}
            # A container engine makes these; nothing is in them.
            def is_empty(place):
                found = [os.path.join(top, name) for top, _, names in os.walk(place) for name in names]
                return not any(os.path.getsize(file) for file in found or [place] if os.path.isfile(file))
            beside -= {name for name in ('.dockerenv', 'run', 'sys') if is_empty('/' + name)}
            print(beside)
            if not beside:
                raise OSError(2, 'nothing')
            ",
            Sign::Works,
        ),
        shell(READABLE, "the homes of users cannot be listed", "ls /home", Sign::Works),
        shell(READABLE, "the passwords of users cannot be read", "cat /etc/shadow", Sign::Works).as_root(),
        python(
            NETWORK,
            "services of other projects are not reached",
            "
            import urllib.request
            # Whoever answers is no server of pages; its answer is in the complaint.
            try:
                urllib.request.urlopen(f\"http://127.0.0.1:{OUTSIDER['tcp4']}/\", timeout=PATIENCE)
            except OSError:
                raise
            except Exception as answer:
                print(repr(answer))
            ",
            Sign::Secret,
        ),
        python(READABLE, "a file outside the project is not read", "show(f'{OUT}/file')", Sign::Secret)
            .files(&[File("out/file", SECRET)]),
        shell(
            READABLE,
            "nothing outside the project is found by a search",
            "grep -rs secret- \"$OUT\"; ls \"$OUT\"/*",
            Sign::Secret,
        )
        .files(&[File("out/file", SECRET)]),
        shell(READABLE, "the user's keys are not read", "cat \"$HOST_HOME/.ssh/id_rsa\"", Sign::Secret)
            .files(&[File("home/.ssh/id_rsa", SECRET)]),
        shell(
            READABLE,
            "the user's credentials for a cloud are not read",
            "cat \"$HOST_HOME/.aws/credentials\"",
            Sign::Secret,
        )
        .files(&[File("home/.aws/credentials", SECRET)]),
        shell(
            READABLE,
            "the state of whoever governs the projects is not read",
            "cat \"$OUT/_cortex/specs/one.md\"",
            Sign::Secret,
        )
        .files(&[File("out/_cortex/specs/one.md", SECRET)]),
        python(
            WRITABLE,
            "nothing is written outside the project by a shell",
            "os.system(f'echo EVIL > {OUT}/new')",
            Sign::Exists("out/new"),
        ),
    ],
};

static NO_ROWS: &[Row] = &[];

/// A14: the home is the session's own, and is gone afterwards, with everything else that the session made.
#[test]
fn a14_the_home_is_the_sessions_and_is_gone() {
    every_fence(|backend, who| {
        let ground = Ground::new(NO_ROWS);
        let script = "echo \"$HOME\"; test -w \"$HOME\" && echo x > \"$HOME/file\" && echo x > \"$TMPDIR/file\"";
        let seen = output(&ground, &fence(&ground, backend, who), &["/bin/sh", "-c", script]);
        let said = seen.stderr.escape_ascii().to_string();
        assert!(seen.status.success(), "[{}, {who:?}] {said}", backend.word());
        let home = String::from_utf8(seen.stdout).unwrap();
        let sessions = ground.world.path("home/.local/state/ringfence/sessions");
        assert!(home.starts_with(sessions.to_str().unwrap()), "{home}");
        assert_eq!(fs::read_dir(sessions).unwrap().count(), 0, "[{}, {who:?}]", backend.word());
        assert_eq!(fs::read_dir(ground.world.path("project")).unwrap().count(), 1, "the policy alone");
    });
}

/// A14 A9: bubblewrap carries the same fence, and for root it needs no user namespace.
#[test]
fn a14_bubblewrap_works() {
    for who in super::ground::Who::everybody() {
        let ground = Ground::new(NO_ROWS);
        let script = "readlink /proc/self/ns/user; id -u";
        let seen = output(&ground, &fence(&ground, Backend::Bwrap, *who), &["/bin/sh", "-c", script]);
        let shown = String::from_utf8(seen.stdout).unwrap();
        let lines: Vec<&str> = shown.lines().collect();
        let ours = fs::read_link("/proc/self/ns/user").unwrap();
        let is_ours = lines.first() == ours.to_str().as_ref();
        assert_eq!(is_ours, *who == super::ground::Who::Root, "{who:?}: {lines:?}");
        assert!(lines.get(1).is_some_and(|uid| *uid != "0"), "{lines:?}");
    }
}

/// A9: for one project, bubblewrap's receipt says the same as our own, line by line, but for what the broker holds.
#[test]
fn a9_bubblewrap_carries_the_same_claims() {
    for who in super::ground::Who::everybody() {
        let lines = |backend| {
            let ground = Ground::new(NO_ROWS);
            let seen = output(&ground, &fence(&ground, backend, *who), &["true"]);
            let said = seen.stderr.escape_ascii().to_string().replace("\\n", "\n");
            let place = ground.world.path("").to_str().unwrap().to_owned();
            let receipt = Receipt::from(&said);
            let lines = receipt.lines().map(|(kind, words, holds)| (kind.to_owned(), words.replace(&place, ""), holds));
            lines.filter(|(kind, ..)| kind != "protected-later").collect::<Vec<_>>()
        };
        assert_eq!(lines(Backend::Native), lines(Backend::Bwrap), "{who:?}");
    }
}
