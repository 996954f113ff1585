//! What is denied inside the project, by every name, and however the policy spells it.

use super::ground::{Ground, give_away, is_root};
use super::row::List::{Deny, Read};
use super::row::Thing::{Dir, File, Link, Name};
use super::row::{DENIED_LATER, DENY_ENV, Line, METADATA, REPLACED, SECRET, SEEN, Sign, Thing, python, shell};
use super::suite::{Topic, tests};

tests!(TOPIC);

const ENV: &[Thing] = &[File("here/.env", SECRET), File("here/plain", "plain\n")];
const DEEP: &[Thing] = &[File("here/a/b/.env", SECRET), Dir("here/other")];

pub(super) static TOPIC: Topic = Topic {
    opened: None,
    rows: &[
        python(DENY_ENV, "a denied file cannot be read", "show('.env')", Sign::Secret).files(ENV),
        python(
            DENY_ENV,
            "a denied file cannot be read with two slashes, dots and a way back",
            "show(f'{HERE}/..//{os.path.basename(HERE)}/./.env')",
            Sign::Secret,
        )
        .files(ENV),
        python(
            DENY_ENV,
            "a denied file cannot be read by a descriptor of its directory",
            "show('.env', dir_fd=os.open('.', os.O_PATH))",
            Sign::Secret,
        )
        .files(ENV),
        python(DENY_ENV, "a denied file cannot be read by /proc/self/cwd", "show('/proc/self/cwd/.env')", Sign::Secret)
            .files(ENV),
        python(
            DENY_ENV,
            "a denied file cannot be read by /proc/self/root",
            "show(f'/proc/self/root{HERE}/.env')",
            Sign::Secret,
        )
        .files(ENV),
        python(
            DENY_ENV,
            "a denied file that is opened as a path cannot be opened again for reading",
            "show(f\"/proc/self/fd/{os.open('.env', os.O_PATH)}\")",
            Sign::Secret,
        )
        .files(ENV),
        python(DENY_ENV, "a denied file cannot be read by a link", "os.symlink('.env', 'l'); show('l')", Sign::Secret)
            .files(ENV),
        python(
            DENY_ENV,
            "a denied file cannot be read by a link to its directory that was there",
            "show('link/.env')",
            Sign::Secret,
        )
        .files(&[File("here/a/.env", SECRET), Link("here/link", "a")]),
        python(DENY_ENV, "a denied file gets no second name", "os.link('.env', 'n'); show('n')", Sign::Secret)
            .files(ENV),
        python(DENY_ENV, "a denied file is not moved", "os.rename('.env', 'n'); show('n')", Sign::Secret).files(ENV),
        python(
            DENY_ENV,
            "a denied file is not exchanged with another",
            "c('renameat2', -100, b'.env', -100, b'plain', 2); show('plain')",
            Sign::Secret,
        )
        .files(ENV),
        python(
            DENY_ENV,
            "the directory of a denied file is not moved",
            "os.rename('a/b', 'other/b'); show('other/b/.env')",
            Sign::Secret,
        )
        .files(DEEP),
        python(
            DENY_ENV,
            "no directory above a denied file is moved",
            "os.rename('a', 'z'); show('z/b/.env')",
            Sign::Secret,
        )
        .files(DEEP),
        python(
            DENY_ENV,
            "no directory above a denied file is exchanged with another",
            "c('renameat2', -100, b'a', -100, b'other', 2); show('other/b/.env')",
            Sign::Secret,
        )
        .files(DEEP),
        python(
            DENY_ENV,
            "a denied file that is made readable is still denied",
            "
            try:
                os.chmod('.env', 0o777)
            except OSError:
                pass
            show('.env')
            ",
            Sign::Secret,
        )
        .files(ENV),
        shell(
            DENY_ENV,
            "a denied file does not come along in a copy of the tree",
            "cp -r . \"${TMPDIR:-$OUT}/copy\"; cat \"${TMPDIR:-$OUT}/copy/.env\"; tar cf - . | grep -a secret-",
            Sign::Secret,
        )
        .files(ENV),
        python(DENY_ENV, "a denied program is not run", "os.execv('.env', ['x'])", Sign::Secret)
            .files(&[File("here/.env", "#!/bin/sh\necho $SECRET")])
            .before(|ground, number| {
                let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
                std::fs::set_permissions(ground.place(number, "here/.env"), mode).unwrap();
            }),
        python(
            DENY_ENV,
            "a denied file is not written",
            "write('.env', os.O_WRONLY | os.O_APPEND)",
            Sign::Changed("here/.env"),
        )
        .files(ENV),
        python(DENY_ENV, "a denied file is not removed", "os.unlink('.env')", Sign::Changed("here/.env")).files(ENV),
        python(DENY_ENV, "a denied file is not replaced", "os.rename('plain', '.env')", Sign::Changed("here/.env"))
            .files(ENV),
        python(
            SEEN,
            "the size of a denied file cannot be seen",
            "print('empty', os.stat('.env').st_size == 0)",
            Sign::Says("empty False"),
        )
        .files(ENV),
        python(METADATA, "the mode of a denied file stays", "os.chmod('.env', 0o600)", Sign::Changed("here/.env"))
            .files(ENV),
        // However it is spelled.
        python(
            Line::Words("deny $here/kept"),
            "a directory denied with a slash at its end is denied",
            "show('kept/key')",
            Sign::Secret,
        )
        .files(&[File("here/kept/key", SECRET)])
        .policy(&[(Deny, "ROW/kept/")]),
        python(
            Line::Words("deny $here/kept"),
            "a directory denied by a relative path is denied",
            "show('kept/deep/key')",
            Sign::Secret,
        )
        .files(&[File("here/kept/deep/key", SECRET)])
        .policy(&[(Deny, "./ROW/kept")]),
        python(
            Line::Words("deny $here/kept"),
            "a directory denied by its whole path is denied",
            "show('kept/deep/key')",
            Sign::Secret,
        )
        .files(&[File("here/kept/deep/key", SECRET)])
        .policy(&[(Deny, "$here/kept")]),
        python(
            Line::Words("deny $here/*/key"),
            "a pattern with a star in the middle denies",
            "show('kept/key')",
            Sign::Secret,
        )
        .files(&[File("here/kept/key", SECRET)])
        .policy(&[(Deny, "ROW/*/key")]),
        python(
            Line::Words("deny $here/**/*.pem"),
            "a pattern at any depth denies",
            "show('a/b/c/x.pem')",
            Sign::Secret,
        )
        .files(&[File("here/a/b/c/x.pem", SECRET)])
        .policy(&[(Deny, "ROW/**/*.pem")]),
        python(
            Line::Words("deny $home/key"),
            "a deny of the home holds below what may be read there",
            "show(f'{HOST_HOME}/key')",
            Sign::Secret,
        )
        .files(&[File("home/key", SECRET), File("home/open", "open\n")])
        .policy(&[(Read, "~/ROW"), (Deny, "~/ROW/key")]),
        python(
            Line::Words("deny $here/vault"),
            "a deny above beats a right to read below",
            "show('vault/open/key')",
            Sign::Secret,
        )
        .files(&[File("here/vault/open/key", SECRET)])
        .policy(&[(Deny, "ROW/vault"), (Read, "ROW/vault/open")]),
        python(
            Line::Words("deny $out/x*/key"),
            "a pattern denies outside the project too, in what may be read there",
            "show(f'{OUT}/xyz/key')",
            Sign::Secret,
        )
        .files(&[File("out/xyz/key", SECRET), File("out/xyz/open", "open\n")])
        .policy(&[(Read, "$out"), (Deny, "$out/x*/key")]),
        python(SEEN, "names in a denied directory cannot be seen", "print(os.listdir('kept'))", Sign::Says("listed"))
            .files(&[File("here/kept/listed", "")])
            .policy(&[(Deny, "ROW/kept")]),
        // Odd names.
        python(
            DENY_ENV,
            "a denied file in a directory whose name is no text is denied",
            "show(os.fsencode(HERE) + b'/deep/\\xff\\xfe/.env')",
            Sign::Secret,
        )
        .before(|ground, number| in_a_directory_called(ground, number, b"deep/\xff\xfe")),
        python(
            DENY_ENV,
            "a denied file in a directory whose name has a new line is denied",
            "show('a\\nb/.env')",
            Sign::Secret,
        )
        .before(|ground, number| in_a_directory_called(ground, number, b"a\nb")),
        python(
            DENY_ENV,
            "a denied file in a directory whose name begins like an option is denied",
            "show('--ro-bind/.env')",
            Sign::Secret,
        )
        .before(|ground, number| in_a_directory_called(ground, number, b"--ro-bind")),
        python(
            DENY_ENV,
            "a denied file in a directory whose name is a pattern is denied",
            "show('[a]*?/.env')",
            Sign::Secret,
        )
        .before(|ground, number| in_a_directory_called(ground, number, b"[a]*?")),
        python(
            DENY_ENV,
            "a denied file in a directory with the longest name is denied",
            "show('x' * 255 + '/.env')",
            Sign::Secret,
        )
        .before(|ground, number| in_a_directory_called(ground, number, &[b'x'; 255])),
        python(
            DENY_ENV,
            "a denied file in a directory with escapes in its name is denied",
            "show('a\\\\040\\x1b[31m\\t b/.env')",
            Sign::Secret,
        )
        .before(|ground, number| in_a_directory_called(ground, number, b"a\\040\x1b[31m\t b")),
        // What the host does later.
        python(DENIED_LATER, "a denied name that appears later is denied", "outside(); show('.env')", Sign::Secret)
            .files(&[File("here/plain", "")])
            .luck("our own supervisor hides it, some milliseconds later")
            .meanwhile(|ground, number, _| save(ground, number, "here/.env")),
        python(REPLACED, "a denied file that an editor saves anew is denied", "outside(); show('.env')", Sign::Secret)
            .files(&[File("here/.env", "old\n")])
            .luck("our own supervisor hides it again, some milliseconds later")
            .meanwhile(|ground, number, _| save(ground, number, "here/.env")),
        python(
            DENY_ENV,
            "A13: a denied file is denied by a second name that it had before",
            "show('name')",
            Sign::Secret,
        )
        .files(&[File("here/.env", SECRET), Name("here/name", "here/.env")]),
        python(
            Line::Words("deny $here/kept"),
            "A13: a file in a denied directory is denied by a second name that it had before",
            "show('name')",
            Sign::Secret,
        )
        .files(&[File("here/kept/key", SECRET), Name("here/name", "here/kept/key")])
        .policy(&[(Deny, "ROW/kept")]),
    ],
};

fn in_a_directory_called(ground: &Ground, number: usize, name: &[u8]) {
    let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(name);
    let dir = ground.place(number, "here").join(name);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join(".env"), ground.secret(number)).unwrap();
    if is_root() {
        give_away(&dir);
    }
}

/// As editors do: a new file takes the name of the old one.
fn save(ground: &Ground, number: usize, place: &str) -> String {
    let (path, new) = (ground.place(number, place), ground.place(number, "out/new"));
    std::fs::write(&new, ground.secret(number)).unwrap();
    if is_root() {
        give_away(&new);
    }
    std::fs::rename(new, path).unwrap();
    String::new()
}
