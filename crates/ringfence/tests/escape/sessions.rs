//! What a session leaves for the next one, and what it may do to its own record.

use std::fs;

use super::ground::{Ground, give_away, is_root};
use super::row::Thing::{Dir, File};
use super::row::{READABLE, Row, SECRET, Sign, WRITABLE, python};
use super::suite::{Receipt, Topic, every_fence, fence, fence_with, output, setpriv, tests};

tests!(TOPIC);

/// Where ringfence keeps what it knows.
const STATE: &str = "home/../.local/state/ringfence";

pub(super) static TOPIC: Topic = Topic {
    opened: None,
    rows: &[
        python(
            READABLE,
            "what ringfence keeps cannot be read",
            "show(f'{HOST_HOME}/../.local/state/ringfence/receipts/old.json')",
            Sign::Secret,
        )
        .before(|ground, number| keep(ground, number, "old.json")),
        python(
            WRITABLE,
            "a receipt is not changed",
            "write(f'{HOST_HOME}/../.local/state/ringfence/receipts/mine.json')",
            Sign::Changed("home/../.local/state/ringfence/receipts/mine.json"),
        )
        .before(|ground, number| keep(ground, number, "mine.json")),
        python(
            WRITABLE,
            "nothing is added to what ringfence keeps",
            "write(f'{HOST_HOME}/../.local/state/ringfence/trust', os.O_WRONLY | os.O_CREAT)",
            Sign::Exists("home/../.local/state/ringfence/trust"),
        ),
        python(
            WRITABLE,
            "the session's own directory is not written but for its home",
            "
            # In the control there is none; the directory above the home stands for it.
            write(os.path.dirname(os.environ['HOME']) + '/evil', os.O_WRONLY | os.O_CREAT)
            print(outside())
            ",
            Sign::Says("written"),
        )
        .before(|ground, _| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
            fs::set_permissions(ground.world.path(""), mode).unwrap();
        })
        .meanwhile(|ground, number, _| {
            let sessions = fs::read_dir(ground.place(number, STATE).join("sessions")).unwrap();
            let mut places = sessions.map(|entry| entry.unwrap().path()).chain([ground.world.path("")]);
            if places.any(|place| place.join("evil").exists()) { "written".to_owned() } else { "clean".to_owned() }
        }),
        python(
            WRITABLE,
            "ringfence itself is not replaced",
            "
            os.rename('mine', os.path.dirname(PROJECT) + '/ringfence-copy')
            ",
            Sign::Exists("project/../ringfence-copy"),
        )
        .files(&[File("here/mine", "EVIL\n")]),
        python(
            READABLE,
            "another session's home cannot be read",
            "
            above = f'{HOST_HOME}/../.local/state/ringfence/sessions'
            for name in os.listdir(above):
                show(f'{above}/{name}/home/file')
            ",
            Sign::Secret,
        )
        .before(|ground, number| {
            let home = ground.place(number, STATE).join("sessions/other/home");
            fs::create_dir_all(&home).unwrap();
            fs::write(home.join("file"), ground.secret(number)).unwrap();
            if is_root() {
                give_away(&ground.place(number, STATE).join("sessions/other"));
            }
        }),
    ],
};

fn keep(ground: &Ground, number: usize, name: &str) {
    let dir = ground.place(number, STATE).join("receipts");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join(name), ground.secret(number)).unwrap();
    if is_root() {
        give_away(&dir);
    }
}

static KEPT: &[Row] = &[python(READABLE, "", "", Sign::Secret).files(&[
    File("here/.env", SECRET),
    File("here/a/b/.env", SECRET),
    File("here/infra/main", "old\n"),
    File("out/file", SECRET),
    Dir("here/linked"),
])];

/// What a first command does to get at a secret in a second one.
const FIRST: &str = "
cd r00
mv .env moved; ln .env hard; ln -s .env soft; mv a z; mv a/b c; ln -s a/b l; cp -a a copy
mv infra i; mkdir -p infra; echo EVIL > infra/main
rm -rf linked; ln -s \"$1\" linked
true
";

/// Looks at everything by every name.
const SECOND: &str =
    "cd r00; find . -type f -o -type l | while read -r name; do cat \"$name\"; done; cat linked/file; true";

/// A deny holds in the next command, whatever the first one did to names.
#[test]
fn a_deny_holds_in_the_next_command() {
    let shell = |script: &'static str| ["/bin/sh", "-c", script, "sh"];
    let (ground, control) = (Ground::new(KEPT), setpriv());
    let control: Vec<String> = if control.is_empty() { vec!["/usr/bin/env".to_owned()] } else { control };
    let outside = ground.place(0, "out").to_str().unwrap().to_owned();
    output(&ground, &control, &[&shell(FIRST)[..], &[&outside]].concat());
    let seen = output(&ground, &control, &shell(SECOND));
    assert!(
        seen.stdout.escape_ascii().to_string().contains(ground.secret(0).trim()),
        "without a fence nothing is seen"
    );
    every_fence(|backend, who| {
        let ground = Ground::new(KEPT);
        let outside = ground.place(0, "out").to_str().unwrap().to_owned();
        let fence = fence(&ground, backend, who);
        assert!(output(&ground, &fence, &[&shell(FIRST)[..], &[&outside]].concat()).status.success());
        let seen = output(&ground, &fence, &shell(SECOND));
        let said = seen.stderr.escape_ascii().to_string().replace("\\n", "\n");
        let shown = seen.stdout.escape_ascii().to_string();
        let deny =
            Receipt::from(&said).lines().filter(|(_, words, _)| *words == "deny **/.env").all(|(.., holds)| holds);
        assert!(deny && !shown.contains(ground.secret(0).trim()), "[{}, {who:?}] {shown}\n{said}", backend.word());
    });
}

/// A link that a first command plants where a policy names a directory does not open what it leads to for the second.
#[test]
fn a_planted_link_widens_nothing() {
    static ROWS: &[Row] = &[python(READABLE, "", "", Sign::Secret).files(&[
        File("out/file", SECRET),
        Dir("here/to-read"),
        Dir("here/to-write"),
    ])];
    let policy = "version = 1\n[files]\nread = [\"r00/to-read\"]\nwrite = [\".\", \"r00/to-write\"]\n";
    every_fence(|backend, who| {
        let ground = Ground::new(ROWS);
        ground.world.write("project/named.toml", policy);
        let fence = fence_with(&ground, backend, who, &["--policy", "named.toml"]);
        let outside = ground.place(0, "out").to_str().unwrap().to_owned();
        let plant = "cd r00; rmdir to-read to-write; ln -s \"$1\" to-read; ln -s \"$1\" to-write";
        output(&ground, &fence, &["/bin/sh", "-c", plant, "sh", &outside]);
        let is_planted = |place| ground.place(0, place).is_symlink();
        let place = format!("[{}, {who:?}]", backend.word());
        assert!(is_planted("here/to-read") && is_planted("here/to-write"), "{place} nothing was planted");
        let second = "cat r00/to-read/file r00/to-write/file; echo EVIL > r00/to-write/new; true";
        let seen = output(&ground, &fence, &["/bin/sh", "-c", second]);
        let (shown, said) = (seen.stdout.escape_ascii().to_string(), seen.stderr.escape_ascii().to_string());
        assert!(said.contains("receipt kept"), "{place} {said}");
        let is_open = shown.contains(ground.secret(0).trim()) || ground.place(0, "out/new").exists();
        assert!(!is_open, "{place} a planted link opened another project: {said}");
    });
}

/// A policy that the command itself has written widens nothing: nobody trusts it.
#[test]
fn a_policy_written_inside_widens_nothing() {
    every_fence(|backend, who| {
        let ground = Ground::new(KEPT);
        let outside = ground.place(0, "out").to_str().unwrap().to_owned();
        let policy = format!("version = 1\n[files]\nread = [{outside:?}]\nwrite = [{outside:?}]\ndeny = []\n");
        let first = ["/bin/sh", "-c", "printf %s \"$1\" > ringfence.toml; cat ringfence.toml", "sh", &policy];
        let fence = fence(&ground, backend, who);
        let first = output(&ground, &fence, &first).stderr.escape_ascii().to_string().replace("\\n", "\n");
        let second = ["/bin/sh", "-c", "cat \"$1/file\" r00/.env; echo EVIL > \"$1/new\"; true", "sh", &outside];
        let seen = output(&ground, &fence_with(&ground, backend, who, &[]), &second);
        let (shown, said) = (seen.stdout.escape_ascii().to_string(), seen.stderr.escape_ascii().to_string());
        let place = format!("[{}, {who:?}]", backend.word());
        assert!(said.contains("receipt kept"), "{place} {said}");
        // What the old policy denied, a new one that is let to be written may not deny any more: that is the line of the policy's
        // own protection, which says whether it holds.
        let is_protected = fs::read_to_string(ground.project().join("ringfence.toml")).unwrap() != policy;
        let line = format!("protect {}", ground.project().join("ringfence.toml").display());
        let receipt = Receipt::from(&first);
        let holds = receipt.lines().find(|(_, words, _)| *words == line).unwrap().2;
        assert_eq!(is_protected, holds, "{place}");
        assert!(!ground.place(0, "out/new").exists(), "{place} {said}");
        let lines = shown.matches(ground.secret(0).trim()).count();
        assert!(lines == 0 || !holds && lines == 1, "{place} {shown}");
    });
}

/// A tree that is deeper than a path is long: what is denied at its end is not read, or nothing starts.
#[test]
fn the_end_of_a_very_long_path_is_not_read() {
    let walk = "
import os
for _ in range(20):
    os.chdir('d' * 250)
print(open('.env').read())
";
    let deep = || {
        let ground = Ground::new(KEPT);
        let make = format!(
            "import os\nfor _ in range(20):\n    os.mkdir('d' * 250)\n    os.chdir('d' * 250)\nopen('.env', 'w').write({:?})\n",
            ground.secret(0)
        );
        let made: Vec<String> = setpriv();
        let made = if made.is_empty() { vec!["/usr/bin/env".to_owned()] } else { made };
        assert!(output(&ground, &made, &["/usr/bin/python3", "-I", "-c", &make]).status.success());
        let control = output(&ground, &made, &["/usr/bin/python3", "-I", "-c", walk]);
        assert!(control.stdout.starts_with(b"secret-"), "without a fence nothing is read");
        ground
    };
    every_fence(|backend, who| {
        let ground = deep();
        let seen = output(&ground, &fence(&ground, backend, who), &["/usr/bin/python3", "-I", "-c", walk]);
        let (shown, said) = (seen.stdout.escape_ascii().to_string(), seen.stderr.escape_ascii().to_string());
        assert!(!shown.contains("secret-"), "[{}, {who:?}] {said}", backend.word());
        assert!(said.contains("receipt kept") || seen.status.code() == Some(125), "{said}");
    });
}
