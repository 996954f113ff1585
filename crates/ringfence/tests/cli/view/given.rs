//! K13: attacks on grants of places, by whoever can change the host's files meanwhile and by whoever works inside.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_session::desk::{Answer, Connection, Gives, Verb};
use ringfence_session::text::Bytes;
use ringfence_surface::AbsPath;

use super::live::{Shell, ringfence};
use super::{each, text};

/// Whoever asks says what was looked at; what stands there when it is mounted must be that.
#[test]
fn k13_what_was_replaced_since_is_not_given() {
    each(|fence| {
        fence.write(&[
            ("home/.ssh/id", "SECRET\n"),
            ("other/a/f", "x\n"),
            ("other/b/f", "x\n"),
            ("other/c/d/f", "x\n"),
        ]);
        let mut shell = Shell::start(fence, &[]);
        let dir = AbsPath::lexical(shell.dir().as_os_str().as_bytes()).unwrap();
        let ask = |path: &str, at: &fs::Metadata| {
            let path = Bytes::new(fence.path(path).as_os_str().as_bytes());
            let (device, inode, access) = (at.dev(), at.ino(), Gives::Read);
            let verb = Verb::Grant { path, access, device, inode, for_ms: None, masked: Vec::new() };
            Connection::open(&dir).unwrap().ask(verb).unwrap()
        };
        let looked = |path: &str| fs::symlink_metadata(fence.path(path)).unwrap();
        let refused =
            |answer: Answer| assert!(matches!(&answer, Answer::Refused { .. }), "as {:?}: {answer:?}", fence.who);
        // A link in its place, in that of a directory above, another directory, and nothing at all.
        let (a, b, d) = (looked("other/a"), looked("other/b"), looked("other/c/d"));
        fs::rename(fence.path("other/a"), fence.path("other/gone")).unwrap();
        symlink(fence.path("home/.ssh"), fence.path("other/a")).unwrap();
        refused(ask("other/a", &a));
        refused(ask("other/a", &looked("home/.ssh")));
        fs::rename(fence.path("other/c"), fence.path("other/c2")).unwrap();
        symlink(fence.path("other/c2"), fence.path("other/c")).unwrap();
        refused(ask("other/c/d", &d));
        fs::rename(fence.path("other/b"), fence.path("other/b2")).unwrap();
        refused(ask("other/b", &b));
        fs::create_dir(fence.path("other/b")).unwrap();
        refused(ask("other/b", &b));
        assert!(shell.does("ls -A $W/other 2>&1").contains("No such file"), "nothing was made for it");
        shell.ends();
    });
}

/// Somebody swaps a place for a link to secrets, over and over, while it is given.
#[test]
fn k13_a_race_with_links_gives_no_secret() {
    each(|fence| {
        fence.write(&[("home/.ssh/f", "SECRET\n"), ("other/real/f", "plain\n")]);
        let mut shell = Shell::start(fence, &[]);
        let (place, link, stop) = (fence.path("other/place"), fence.path("other/link"), AtomicBool::new(false));
        fs::rename(fence.path("other/real"), &place).unwrap();
        symlink(fence.path("home/.ssh"), &link).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _ = rustix::fs::renameat_with(
                        rustix::fs::CWD,
                        &place,
                        rustix::fs::CWD,
                        &link,
                        rustix::fs::RenameFlags::EXCHANGE,
                    );
                }
            });
            let mut given = 0;
            for _ in 0..25 {
                given += usize::from(shell.grant("$W/other/place", &[]).status.success());
                let seen = shell.does("cat $W/other/place/f $W/home/.ssh/f 2>/dev/null");
                assert!(!seen.contains("SECRET"), "as {:?}: {seen}", fence.who);
                shell.revoke("$W/other/place");
            }
            stop.store(true, Ordering::Relaxed);
            assert!(given < 25, "the race was never close");
        });
        shell.ends();
    });
}

/// What is denied in a place that was given stays hidden when somebody outside replaces it, and what appears there later is.
#[test]
fn k13_guards_stay_in_what_is_given() {
    each(|fence| {
        fence.write(&[("other/.env", "SECRET\n"), ("other/in/file", "plain\n"), ("save", "SECRET\n")]);
        fence.policy("[files]\ndeny = [\"**/.env\"]\n");
        let mut shell = Shell::start(fence, &[]);
        shell.is_granted("$W/other");
        // Whoever reads all the time is refused in the end; a guard that stays away makes this a failure.
        let until_refused = |place: &str| {
            let refused = format!("cat $W/{place} 2>&1 | grep -q 'Permission denied'");
            format!("for i in $(seq 20000); do {refused} && break; done; cat $W/{place} 2>&1 | tail -c 18")
        };
        assert_eq!(shell.does(&until_refused("other/.env")), "Permission denied");
        fs::rename(fence.path("save"), fence.path("other/.env")).unwrap();
        assert_eq!(shell.does(&until_refused("other/.env")), "Permission denied");
        fs::write(fence.path("other/in/.env"), "SECRET\n").unwrap();
        assert_eq!(shell.does(&until_refused("other/in/.env")), "Permission denied");
        assert!(shell.revoke("$W/other").status.success());
        fs::write(fence.path("other/in/.env"), "SECRET\n").unwrap();
        assert!(shell.does("cat $W/other/in/file").contains("No such file"));
        shell.ends();
    });
}

/// A parent of secrets is given without them, whatever it is called; what is replaced later is not seen.
#[test]
fn k13_secrets_below_what_is_given_stay_hidden() {
    each(|fence| {
        fence.write(&[
            ("home/.config/gh/hosts.yml", "SECRET\n"),
            ("home/.config/app/settings", "plain\n"),
            ("home/.config/ringfence/x", "plain\n"),
            ("other/file", "one\n"),
            ("other/deep/keep/.env", "SECRET\n"),
        ]);
        fence.policy("[files]\ndeny = [\"**/.env\"]\n");
        let mut shell = Shell::start(fence, &[]);
        shell.is_granted("$W/home/.config");
        assert_eq!(shell.does("cat $W/home/.config/app/settings"), "plain");
        assert!(shell.does("cat $W/home/.config/gh/hosts.yml").contains("Permission denied"));
        shell.is_granted("$W/other/file");
        assert_eq!(shell.does("cat $W/other/file"), "one");
        // An editor that saves puts another file there: the one that was given stays, and nothing else is seen.
        fs::write(fence.path("other/new"), "SECRET\n").unwrap();
        fs::rename(fence.path("other/new"), fence.path("other/file")).unwrap();
        assert!(!shell.does("cat $W/other/file").contains("SECRET"));
        assert!(shell.revoke("$W/other/file").status.success());
        assert!(shell.does("cat $W/other/file").contains("No such file"));
        // What holds the whole session, or its state, cannot be given.
        for place in ["/", "$W", "$W/home", "$W/home/.local", "$W/home/.local/state"] {
            let output = shell.grant(place, &[]);
            let said = shell.does("cat $W/home/.ssh/id $W/home/.local/state/ringfence/audit/head 2>/dev/null | wc -c");
            assert_eq!(said, "0", "as {:?}: {place}: {}", fence.who, text(&output.stderr));
        }
        shell.is_granted("$W/other/deep");
        assert!(shell.does("cat $W/other/deep/keep/.env").contains("Permission denied"));
        // Whoever works inside cannot undo any of it.
        for attack in [
            "umount $W/other/deep",
            "umount -l $W/other/deep/keep/.env",
            "mount -o remount,rw $W/other/deep",
            "mv $W/other/deep $W/other/x",
            "rmdir $W/other/deep",
            "mount --bind /tmp $W/other/deep",
        ] {
            let said = shell.does(&format!("{attack} && echo DONE"));
            assert!(!said.contains("DONE"), "as {:?}: {attack}: {said}", fence.who);
        }
        assert!(shell.does("cat $W/other/deep/keep/.env").contains("Permission denied"));
        shell.ends();
    });
}

/// Names that are no words: they are given, listed and taken away like any other.
#[test]
fn k13_odd_names_are_given_and_taken_away() {
    each(|fence| {
        fence.write(&[("other/x", "")]);
        let names: &[&[u8]] =
            &[b"two\nlines", b"-rf", b"a b'c\"d", b"*?[x]", b"\xff\xfe", b"$(touch x)", b"\x1b[31m", &[b'n'; 250]];
        for name in names {
            let dir = fence.path("other").join(OsStr::from_bytes(name));
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("f"), "seen\n").unwrap();
        }
        fence.own();
        let mut shell = Shell::start(fence, &[]);
        for name in names {
            let place: OsString = fence.path("other").join(OsStr::from_bytes(name)).into_os_string();
            let does = |words: &[&OsStr]| fence.ringfence().args(words).output().unwrap();
            let id = OsString::from(&shell.id);
            let given = does(&[OsStr::new("grant"), &id, OsStr::new("--read"), &place]);
            assert!(given.status.success(), "as {:?}: {place:?}: {}", fence.who, text(&given.stderr));
            assert!(!given.stderr.contains(&0x1b), "what is shown is fit for a terminal");
            assert_eq!(shell.does("cat $W/other/*/f | sort -u"), "seen", "as {:?}: {place:?}", fence.who);
            let taken = does(&[OsStr::new("revoke"), &id, &place]);
            assert!(taken.status.success(), "as {:?}: {place:?}: {}", fence.who, text(&taken.stderr));
            assert!(shell.does("ls -A $W/other").contains("No such file"), "as {:?}: {place:?}", fence.who);
        }
        let logs = ringfence(fence, &["logs", &shell.id]);
        assert!(logs.status.success() && !logs.stdout.contains(&0x1b));
        shell.ends();
    });
}
