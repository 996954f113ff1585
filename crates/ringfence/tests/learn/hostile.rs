//! A command that wants to learn more than it should.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::lessons::{lines, refused};
use crate::place::{each, shown};

const SECRET: &str = "THE-SECRET";

#[test]
fn secrets_are_never_shown_nor_proposed() {
    each(|place| {
        for path in ["home/.ssh/id_ed25519", "home/.aws/credentials", "project/.env", "other/deep/.env", "home/.netrc"]
        {
            place.world.write(path, SECRET);
        }
        place.world.write("other/deep/plain.txt", "plain");
        place.world.write("home/notes/a", "a");
        symlink(place.path("home/.ssh/id_ed25519"), place.path("project/link")).unwrap();
        symlink(place.path("home/.ssh"), place.path("other/deep/keys")).unwrap();
        place.world.write("project/ringfence.toml", "version = 1\n[files]\ndeny = [\"**/.env\"]\n");
        place.done(&["trust"]);
        let attack = format!(
            "h={}; o={}; for f in $h/.ssh/id_ed25519 $h/.aws/credentials .env link $o/deep/.env $o/deep/plain.txt $h/.netrc \
             $o/deep/keys/id_ed25519 $h/.aws/../.ssh/id_ed25519 /proc/1/root$h/.ssh/id_ed25519 /etc/shadow; do cat $f; done; \
             ls -a $h $h/.ssh $h/.aws $o/deep/keys; mv .env moved; cat moved; ln .env hard; cat hard; mv link l2; cat l2; \
             cp -r . copy; cat copy/.env; true",
            place.at("home"),
            place.at("other")
        );
        let output = place.ringfence(&["learn", "--yes", "--", "sh", "-c", &attack]);
        let said = shown(&output);
        assert!(output.status.success() && said.contains("plain") && !said.contains(SECRET), "{said}");
        let learned = place.learn(&["--yes"], &["sh", "-c", &attack]);
        for line in lines(&learned) {
            let closed = [".ssh", ".aws", ".env", ".netrc", "keys", "shadow"];
            assert!(!closed.iter().any(|name| line.contains(name)), "{line}\n{learned:#}");
        }
        let refused = refused(&learned).join("\n");
        for path in ["home/.ssh/id_ed25519", "home/.aws/credentials", "project/.env", "other/deep/.env", "home/.netrc"]
        {
            assert!(refused.contains(&place.at(path)), "{path}\n{refused}");
        }
    });
}

#[test]
fn nothing_lands() {
    each(|place| {
        place.world.write("project/kept", "old\n");
        place.world.write("project/dir/inner", "old\n");
        place.world.write("project/.git/HEAD", "ref: refs/heads/main\n");
        let before = place.picture("project");
        let deeds = "echo new >> kept; echo x > made; rm dir/inner; rmdir dir; mkdir -p a/b/c; ln -s kept l; chmod 777 kept; \
                     mv kept moved; echo evil > .git/hooks/pre-commit; echo evil > .git/config; echo evil > ringfence.toml; \
                     echo evil > .envrc; sh -c 'echo late > late' & wait; cat moved made";
        let output = place.ringfence(&["learn", "--yes", "--", "sh", "-c", deeds]);
        let said = shown(&output);
        assert!(output.status.success() && said.contains("old\nnew\nx\n"), "inside it is there: {said}");
        assert_eq!(place.picture("project"), before, "{said}");
        // Neither do the layers stay.
        let sessions = place.path("home/.local/state/ringfence/sessions");
        assert_eq!(fs::read_dir(sessions).unwrap().count(), 0);
    });
}

/// Lines that open something of anybody's own are not tried by themselves.
#[test]
fn without_a_yes_only_low_risks_are_tried() {
    each(|place| {
        place.world.write("home/notes/a", "PRIVATE-NOTE");
        let command = format!("cat {}", place.at("home/notes/a"));
        let output = place.ringfence(&["learn", "--", "sh", "-c", &command]);
        assert!(output.status.success() && !shown(&output).contains("PRIVATE-NOTE"), "{}", shown(&output));
        let learned = place.learn(&[], &["sh", "-c", &command]);
        assert_eq!((lines(&learned), &learned["proven"]), (vec!["files.read ~/notes/a".to_owned()], &false.into()));
        assert_eq!(
            (&learned["changes"][0]["risk"], &learned["changes"][0]["tried"]),
            (&"medium".into(), &false.into())
        );
        let learned = place.learn(&["--yes"], &["sh", "-c", &command]);
        assert_eq!((&learned["proven"], &learned["code"]), (&true.into(), &0.into()), "{learned:#}");
    });
}

/// What not everybody on the machine may read is somebody's own, also where it is in no home, and also where it lies beside something else.
#[test]
fn without_a_yes_nothing_is_shown_that_not_everybody_may_read() {
    each(|place| {
        place.world.write("other/data/open", "OPEN");
        let private = place.world.write("other/data/private", "PRIVATE-KEY");
        fs::set_permissions(private, fs::Permissions::from_mode(0o600)).unwrap();
        let (open, private) = (place.at("other/data/open"), place.at("other/data/private"));
        let command = format!("cat {private}; cat {open} && cat {private}");
        let output = place.ringfence(&["learn", "--", "sh", "-c", &command]);
        assert!(output.status.success() && !shown(&output).contains("PRIVATE-KEY"), "{}", shown(&output));
        let learned = place.learn(&[], &["sh", "-c", &command]);
        let risk = |name: &str| {
            let mut changes = learned["changes"].as_array().unwrap().iter();
            changes.find(|change| change["value"].as_str().unwrap().ends_with(name)).map(|change| &change["risk"])
        };
        assert_eq!(risk("private"), Some(&"medium".into()), "{learned:#}");
        if place.is_open() {
            assert_eq!(risk("open"), Some(&"low".into()), "{learned:#}");
            assert!(shown(&output).contains("OPEN"), "{}", shown(&output));
        }
    });
}

/// A command that only asks whether directories are there, and then fails, is not shown what is in them for that.
#[test]
fn without_a_yes_no_directory_of_the_machine_is_shown() {
    each(|place| {
        let command = "for d in /var/log /var/lib /sys/kernel /sys/class; do test -d $d && echo SEEN $d; done; exit 1";
        let output = place.ringfence(&["learn", "--", "sh", "-c", command]);
        assert!(output.status.success() && !shown(&output).contains("SEEN /"), "{}", shown(&output));
    });
}

/// Whoever learns may be killed. The command ends with it, whatever it does about signals, and nothing is left of what was tried.
#[test]
fn a_command_does_not_outlive_whoever_learns() {
    each(|place| {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = place.command(&["learn", "--", "sh", "-c", "trap '' TERM HUP INT; echo BEGUN >&2; sleep 60"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer).spawn().unwrap();
        drop(command);
        let mut lines = BufReader::new(reader).lines();
        assert!(lines.by_ref().map_while(Result::ok).any(|line| line == "BEGUN"));
        let killed = Instant::now();
        child.kill().unwrap();
        child.wait().unwrap();
        // Whoever still has the other end of the pipe runs.
        assert_eq!(lines.map_while(Result::ok).find(|line| line.contains("BEGUN")), None);
        assert!(killed.elapsed() < Duration::from_secs(50), "it ran to its end");
        let state = fs::read_dir(place.path("home/.local/state/ringfence")).unwrap();
        let names: Vec<String> = state.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert!(!names.iter().any(|name| name.contains("learn")), "{names:?}");
    });
}

/// A program chooses its name, and the names that it asks for.
#[test]
fn names_are_only_text() {
    each(|place| {
        place.world.write("other/a", "x");
        place.world.write("other/b\nwrite = [\"/\"]", "x");
        let script = "import sys, ctypes\nctypes.CDLL(None).prctl(15, b'x\\n]\\n[files]\\x1b[2J')\n\
                      for name in sys.argv[1:]:\n    try: open(name)\n    except OSError: pass\n";
        place.world.write("project/odd.py", script);
        let odd = place.at("other/b\nwrite = [\"/\"]");
        let command = ["python3", "odd.py", &place.at("other/a"), &odd];
        let output = place.ringfence(&[&["learn", "--yes", "--write", "--"], command.as_slice()].concat());
        assert!(output.status.success() && !output.stdout.contains(&0x1b), "{}", shown(&output));
        let text = fs::read_to_string(place.path("project/ringfence.toml")).unwrap();
        assert!(text.contains("../other/a") && !text.contains("write"), "{text}");
        assert_eq!(text.lines().count(), 6, "{text}");
    });
}

#[test]
fn what_is_refused() {
    each(|place| {
        let said = |words: &[&str]| shown(&place.ringfence(words));
        let nobody = said(&["learn", "--write", "--", "true"]);
        assert!(nobody.contains("nobody can be asked") && nobody.contains("--yes"), "{nobody}");
        place.world.write("project/ringfence.toml", "version = 1\n[files]\nread = [\"/opt\"]\n");
        let untrusted = said(&["learn", "--", "true"]);
        assert!(untrusted.contains("is not trusted") && untrusted.contains("ringfence trust"), "{untrusted}");
        fs::remove_file(place.path("project/ringfence.toml")).unwrap();
        let missing = place.ringfence(&["learn", "--", "no-such-program"]);
        assert!(!missing.status.success() && shown(&missing).contains("nothing was learned"), "{}", shown(&missing));
        assert_eq!(place.ringfence(&["learn"]).status.code(), Some(2));
        assert_eq!(place.ringfence(&["learn", "--shrink", "--", "true"]).status.code(), Some(2));
    });
}

/// The change is one that `patch` takes.
#[test]
fn the_change_can_be_applied() {
    each(|place| {
        place.world.write("other/a", "x");
        place
            .world
            .write("project/ringfence.toml", "version = 1\n\n[files]\n# mine\nread = [\"src\"]\n\n[env]\npass = []\n");
        place.done(&["trust"]);
        let output = place.ringfence(&["learn", "--yes", "--", "cat", &place.at("other/a")]);
        let change = place.world.write("change", &output.stdout);
        let mut patch = Command::new("patch");
        patch.args(["-p0", "-i"]).arg(&change).arg("project/ringfence.toml").current_dir(place.path(""));
        let patched = patch.output().unwrap();
        assert!(patched.status.success(), "{}\n{}", shown(&patched), shown(&output));
        place.done(&["trust", "--force"]);
        assert_eq!(lines(&place.learn(&[], &["cat", &place.at("other/a")])).len(), 0);
    });
}
