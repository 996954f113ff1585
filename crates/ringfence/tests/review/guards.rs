//! Over what waits for a review guards stay, whatever somebody outside does.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdout};
use std::thread::JoinHandle;

use crate::changes::wait_for_line;
use crate::place::{Place, each, shown};

const POLICY: &str = "version = 1\n[files]\ndeny = [\"**/.env\", \"closed\"]\n";

/// Reads in a tight loop until it is told to stop, and says when it has tried often enough, and what it could read.
const READER: &str = "
import os, sys, threading
stop = []
threading.Thread(target=lambda: (sys.stdin.read(), stop.append(1)), daemon=True).start()
print('ready', flush=True)
tries, got = 0, set()
while not stop:
    for path in ('.env', 'sub/.env', 'closed/key', 'sub/deep/.env'):
        tries += 1
        try:
            got.add((path, open(path).read()))
        except OSError as error:
            pass
    if tries == 1200:
        print('enough', flush=True)
print(sorted(got), flush=True)
";

struct Reader {
    child: Child,
    /// Ends when it has tried often enough.
    tries: JoinHandle<BufReader<ChildStdout>>,
}

fn start(place: &Place) -> Reader {
    for path in [".env", "sub/.env", "sub/deep/.env", "closed/key"] {
        place.world.write(format!("project/{path}"), "SECRET");
    }
    place.world.write("project/ringfence.toml", POLICY);
    place.world.write("project/reader.py", READER);
    place.done(&["trust"]);
    let mut child = place.start(&["run", "--review", "--", "python3", "reader.py"]);
    wait_for_line(&mut child);
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let tries = std::thread::spawn(move || {
        said.read_line(&mut String::new()).unwrap();
        said
    });
    Reader { child, tries }
}

/// Changes something again and again: at least so often, and until the reader has tried often enough meanwhile.
fn meanwhile(reader: &Reader, least: usize, mut change: impl FnMut(usize)) {
    let is_too_little = |round: &usize| *round < least || !reader.tries.is_finished();
    (0..).take_while(is_too_little).for_each(&mut change);
}

fn finish(place: &Place, reader: Reader) {
    let Reader { mut child, tries } = reader;
    drop(child.stdin.take());
    let (mut said, mut told) = (String::new(), String::new());
    tries.join().unwrap().read_to_string(&mut said).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    child.wait().unwrap();
    assert_eq!(said, "[]\n", "as {:?}: {told}", place.who);
    assert!(!told.contains("had no guard") && !told.contains("NO GUARD"), "{told}");
    let logs = place.done(&["audit", "--json"]);
    assert!(!logs.contains("\"gap\""), "{logs}");
}

fn replace(place: &Place, path: &str) {
    let new = place.world.write("project/new", "SECRET again");
    fs::rename(new, place.path(path)).unwrap();
}

#[test]
fn a_denied_file_that_an_editor_outside_saves_anew_is_never_readable_under_review() {
    each(|place| {
        let reader = start(&place);
        let paths = ["project/.env", "project/sub/.env", "project/closed/key"];
        meanwhile(&reader, 300, |_| paths.iter().for_each(|path| replace(&place, path)));
        finish(&place, reader);
    });
}

#[test]
fn nor_one_that_is_removed_and_made_again_or_whose_directory_is_moved_away() {
    each(|place| {
        let reader = start(&place);
        meanwhile(&reader, 100, |round| {
            fs::remove_file(place.path("project/.env")).unwrap();
            place.world.write("project/.env", "SECRET again");
            fs::rename(place.path("project/sub"), place.path(&format!("other/moved{round}"))).unwrap_or_else(|_| {
                place.world.mkdir("other");
                fs::rename(place.path("project/sub"), place.path(&format!("other/moved{round}"))).unwrap();
            });
            place.world.write("project/sub/.env", "SECRET again");
            place.world.write("project/sub/deep/.env", "SECRET again");
            fs::remove_dir_all(place.path("project/closed")).unwrap();
            place.world.write("project/closed/key", "SECRET again");
        });
        finish(&place, reader);
    });
}

/// What appears later under a denied name is covered once it is noticed, as without a review; the receipt says that it is no wall.
#[test]
fn what_appears_later_is_covered_and_the_receipt_says_what_is_not_held() {
    each(|place| {
        place.world.write("project/ringfence.toml", POLICY);
        place.world.mkdir("project/late");
        place.done(&["trust"]);
        let look = "echo ready; read go; cat late/.env; cat late/plain";
        let mut child = place.start(&["run", "--review", "--receipt", "--", "sh", "-c", look]);
        wait_for_line(&mut child);
        // The watching begins a moment after the start.
        let ended = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !place.done(&["audit", "--json"]).contains("\"gap\"") {
            place.world.write("project/late/.env", "SECRET");
            place.world.write("project/late/plain", "plain");
            assert!(std::time::Instant::now() < ended, "it was never noticed");
        }
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let said = shown(&output);
        assert!(said.contains("plain") && !said.contains("SECRET"), "{said}");
        assert!(said.contains("[denied-later]") && said.contains("readable later"), "{said}");
        // Guards elsewhere on this host fall off as they always do, and that is said; where there are none it holds.
        let replaced = said.lines().find(|line| line.contains("guards stay when a file is replaced outside")).unwrap();
        let is_said =
            replaced.contains("NOT HELD") && replaced.contains("guards stay over everything that waits for a review");
        assert!(is_said || replaced.trim_start().starts_with("holds"), "{said}");
    });
}

/// A link under a name that rules begin with is not applied: what it leads to is protected by another path.
#[test]
fn a_link_under_the_name_of_a_guarded_directory_is_never_applied() {
    each(|place| {
        let line = "mkdir conf; echo x > conf/config.toml; ln -s conf .cargo; ln -s conf harmless";
        place.done(&["run", "--review", "--no-broker", "--", "sh", "-ec", line]);
        let said = place.done(&["diff"]);
        assert!(said.contains(".cargo (a link) (never applied: protect \"**/.cargo/"), "{said}");
        let said = shown(&place.ringfence(&["apply"]));
        assert!(said.contains("never applied: ") && place.path("project/harmless").is_symlink(), "{said}");
        assert!(fs::symlink_metadata(place.path("project/.cargo")).is_err(), "{said}");
    });
}

/// K8: without a broker a bare repository can be made, under a name that guards nothing. What makes it one is not applied, nor in parts.
#[test]
fn k8_a_planted_repository_is_never_applied() {
    each(|place| {
        let line = "mkdir -p x/objects x/refs x/hooks y/objects y/refs; echo 'ref: refs/heads/main' | tee x/HEAD > y/HEAD; \
                    printf '[core]\\n\\tfsmonitor = ./evil\\n' > x/config; echo evil | tee x/hooks/pre-commit > x/plain; \
                    mkdir -p z.git/objects z.git/refs; echo 'ref: refs/heads/main' > z.git/HEAD; \
                    mkdir w; echo HEAD > w/HEAD; echo config > w/config";
        place.world.write("project/y/plain", "kept");
        place.done(&["run", "--review", "--no-broker", "--", "sh", "-ec", line]);
        let said = place.done(&["diff", "--stat"]);
        assert!(said.contains("/x/config (never applied: git would take "), "{said}");
        let parts =
            ["x/objects", "x/refs", "x/hooks", "x/hooks/pre-commit", "x/config", "x/HEAD", "y/objects", "y/HEAD"];
        let id = place.ringfence(&["diff", "--json"]).stdout;
        let id = serde_json::from_slice::<serde_json::Value>(&id).unwrap()["session"].as_str().unwrap().to_owned();
        for part in parts {
            let said = shown(&place.ringfence(&["apply", "--force", &id, part]));
            assert!(said.contains("never applied: "), "{part}: {said}");
        }
        let said = shown(&place.ringfence(&["apply"]));
        assert!(said.contains("never applied: "), "{said}");
        for part in parts {
            assert!(fs::symlink_metadata(place.path(&format!("project/{part}"))).is_err(), "{part}: {said}");
        }
        // What is guarded by its name lands, and so does what makes no repository.
        for landed in ["x/plain", "z.git/HEAD", "w/HEAD", "w/config"] {
            assert!(place.path(&format!("project/{landed}")).exists(), "{landed}: {said}");
        }
    });
}

/// Moves the directory as soon as something is opened in it, which a file without a name is too, and prints whether that was in time:
/// before the file was in its place.
const MOVER: &str = "
import ctypes, os, select, sys
libc = ctypes.CDLL(None)
watch = libc.inotify_init1(os.O_CLOEXEC)
libc.inotify_add_watch(watch, b'x', 0x20 | 0x2 | 0x100)
print('ready', flush=True)
is_moved = False
if watch in select.select([0, watch], [], [])[0]:
    os.rename('x', '.cargo')
    is_moved = not os.path.exists('.cargo/config.toml')
print('moved' if is_moved else 'late', flush=True)
sys.stdin.read()
";

/// What is applied lands where it was judged, or not at all: a session that runs moves the directory meanwhile. One with a broker could
/// not, since what is about to be put in place is protected.
#[test]
fn what_is_applied_lands_where_it_was_judged() {
    each(|place| {
        let who = place.who;
        // Where the machine does other things too it may be moved too late, which shows nothing.
        let mut tries = std::iter::once(place).chain(std::iter::repeat_with(|| Place::new(who)).take(9));
        assert!(tries.any(is_moved_while_it_is_applied), "as {who:?}: it was never moved in time");
    });
}

fn is_moved_while_it_is_applied(place: Place) -> bool {
    place.world.write("project/x/kept", "kept");
    place.world.write("project/mover.py", MOVER);
    place.review("head -c 100000000 /dev/urandom > x/config.toml");
    let mut child = place.start(&["run", "--no-broker", "--", "python3", "mover.py"]);
    wait_for_line(&mut child);
    let said = shown(&place.ringfence(&["apply"]));
    drop(child.stdin.take());
    let mut moved = String::new();
    child.stdout.take().unwrap().read_to_string(&mut moved).unwrap();
    child.wait().unwrap();
    if moved == "late\n" {
        return false;
    }
    assert_eq!(moved, "moved\n", "as {:?}: {said}", place.who);
    let names = fs::read_dir(place.path("project/.cargo")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["kept"], "as {:?}: {said}", place.who);
    true
}

/// [A8]: objects of the host's repository are neither replaced nor removed by what waits for a review, and what comes is verified.
#[test]
fn a8_apply_verifies_objects_and_replaces_none() {
    each(|place| {
        place.world.write("project/file", "one\n");
        let git = "git -c user.name=n -c user.email=e@x";
        place.done(&[
            "run",
            "--",
            "sh",
            "-ec",
            &format!("git init -q . && git add -A && {git} commit -qm one; git init -q --bare b"),
        ]);
        let script = format!(
            r#"echo two >> file; {git} commit -qam two; git cat-file commit HEAD > /dev/null
            cat > x.py <<'END'
import os, subprocess, zlib
run = lambda text: subprocess.check_output(text, shell=True, text=True).strip()
def at(id): return '.git/objects/%s/%s' % (id[:2], id[2:])
old, tree = run('git rev-parse HEAD~1:file'), run('git rev-parse HEAD~1^{{tree}}')
os.remove(at(old)); open(at(old), 'wb').write(zlib.compress(b'blob 4\0EVL\n')); os.remove(at(tree))
fake = '12' * 20; os.makedirs('.git/objects/12', exist_ok=True); open(at(fake), 'wb').write(zlib.compress(b'blob 4\0EVL\n'))
run('git init -q p; echo evil > p/x'); evil = run('git -C p hash-object -w x')
run('cd p && echo %s | git pack-objects -q pack' % evil)
name = [name for name in os.listdir('p') if name.endswith('.idx')][0][:-4]
index = open('p/%s.idx' % name, 'rb').read()
os.rename('p/%s.pack' % name, '.git/objects/pack/%s.pack' % name)
forged = index.replace(bytes.fromhex(evil), bytes.fromhex(evil)[:1] + bytes(19))
open('.git/objects/pack/%s.idx' % name, 'wb').write(forged)
open('.git/objects/pack/%s.rev' % name, 'wb').write(b'x')
try: os.remove('.git/config')
except OSError as error: print(error)
END
            python3 x.py; rm -r p x.py; rm -rf b || true; printf "%s" "$(ls .git/objects/pack/)""#
        );
        let inside = place.done(&["run", "--review", "--no-broker", "--", "sh", "-ec", &script]);
        let said = shown(&place.ringfence(&["apply"]));
        assert_eq!(said.matches("git: an object is written once").count(), 1, "{said}");
        assert!(said.contains("git: what a repository consists of is not removed from it"), "{said}");
        assert!(said.contains("objects/12/12") && said.contains("what its name says"), "{said}");
        for ending in [".idx: git: ", ".rev: git: "] {
            assert!(said.contains(ending), "{ending}: {said}");
        }
        for path in [".git/config", "b/HEAD", "b/config", "b/objects", "b/refs"] {
            assert!(place.path(&format!("project/{path}")).exists(), "{path}: {said}{inside}");
        }
        // What was committed inside landed, and everything that was there is there.
        let log =
            place.done(&["run", "--", "sh", "-ec", "git fsck; git log --format=%s; git cat-file blob HEAD~1:file"]);
        assert!(log.contains("two\none\none\n"), "{log}");
    });
}

/// [A8]: a pack that comes with its index is verified and applied.
#[test]
fn a8_apply_lands_a_verified_pack() {
    each(|place| {
        place.world.write("project/file", "one\n");
        let git = "git -c user.name=n -c user.email=e@x";
        place.done(&["run", "--", "sh", "-ec", &format!("git init -q . && git add -A && {git} commit -qm one")]);
        let script = format!("echo two >> file; {git} commit -qam two; git repack -q");
        place.done(&["run", "--review", "--", "sh", "-ec", &script]);
        let said = place.done(&["apply"]);
        assert!(!said.contains("never applied"), "{said}");
        let log = place.done(&["run", "--", "sh", "-ec", "git fsck; git log --format=%s; ls .git/objects/pack"]);
        assert!(log.contains("two") && log.contains(".idx"), "{log}");
    });
}

/// Without a broker nothing judged what was written inside: what may not be in a git directory is not applied.
#[test]
fn j1_apply_lands_no_link_and_no_malformed_file_in_a_git_directory() {
    each(|place| {
        place.world.write("project/file", "x\n");
        let git = "git -c user.name=n -c user.email=e@x";
        place.done(&["run", "--", "sh", "-ec", &format!("git init -q . && git add -A && {git} commit -qm one")]);
        let script = format!(
            "echo two >> file; {git} commit -qam two
            rm -f .git/COMMIT_EDITMSG; ln -s config .git/COMMIT_EDITMSG; rm -f .git/logs/HEAD; ln -s ../../elsewhere .git/logs/HEAD
            mkdir .git/rebase-merge; echo '$(touch x)' > .git/rebase-merge/msgnum; echo 2 > .git/rebase-merge/end
            mkdir .git/sequencer; printf '[options]\\n\\tstrategy = x/../e.sh\\n' > .git/sequencer/opts
            echo x > .git/lazygit.yml; mkdir .git/sl; echo x > .git/sl/config; echo gitdir: /elsewhere > sub.git
            echo x > .git/logs/.git; git rev-parse HEAD > .git/refs/.git; mkdir .git/refs/replace
            git rev-parse HEAD > .git/refs/replace/$(git rev-parse HEAD~)
            mkdir -p .git/logs/z/objects .git/logs/z/refs; cp .git/HEAD .git/config .git/logs/z
            mkdir -p bare/objects bare/refs/heads bare/lfs; echo ref: refs/heads/main > bare/HEAD; ln -s ../../x bare/refs/heads/l"
        );
        place.done(&["run", "--review", "--no-broker", "--", "sh", "-ec", &script]);
        let said = place.ringfence(&["apply"]);
        let said = shown(&said);
        for path in [
            ".git/COMMIT_EDITMSG",
            ".git/logs/HEAD",
            ".git/rebase-merge/msgnum",
            ".git/sequencer/opts",
            ".git/lazygit.yml",
            ".git/sl",
            "bare/refs/heads/l",
            // A file called `.git` makes no work tree of a directory of git's own, and no repository comes into such a directory.
            ".git/logs/.git",
            ".git/refs/.git",
            ".git/refs/replace",
            ".git/logs/z/config",
        ] {
            assert!(said.contains(&format!("project/{path}: ")), "{path}: {said}");
            let at = place.path(&format!("project/{path}"));
            let is_link = fs::symlink_metadata(&at).is_ok_and(|status| status.is_symlink());
            let is_new = path != ".git/COMMIT_EDITMSG" && path != ".git/logs/HEAD";
            assert!(!(is_link || is_new && at.exists()), "{path} was applied: {said}");
        }
        // What git writes during ordinary work landed, and the rebase that the user did not begin is named.
        assert_eq!(fs::read_to_string(place.path("project/file")).unwrap(), "x\ntwo\n");
        assert_eq!(fs::read_to_string(place.path("project/.git/rebase-merge/end")).unwrap(), "2\n");
        assert!(said.contains("a rebase was begun") && said.contains("rebase --abort"), "{said}");
        let log = place.done(&["run", "--", "git", "log", "--format=%s"]);
        assert!(log.contains("two"), "{log}");
    });
}
