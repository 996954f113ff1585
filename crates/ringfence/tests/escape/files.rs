//! Contents, names and metadata of what is outside the project. M8: another tenant's project is one of these.

use super::row::Thing::{File, Link};
use super::row::{METADATA, READABLE, SECRET, SEEN, Sign, Thing, WRITABLE, python, shell};
use super::suite::{Backend, Topic};

/// Every attack of this topic is one: without a fence it succeeds.
#[test]
fn without_a_fence() {
    TOPIC.without_a_fence();
}

/// M8: nothing of another project shows, natively.
#[test]
fn m8_native() {
    TOPIC.in_a_fence(Backend::Native);
}

/// M8: nothing of another project shows, by bubblewrap.
#[test]
fn m8_bwrap() {
    TOPIC.in_a_fence(Backend::Bwrap);
}

/// M8: with Landlock alone names and sizes of another project show, and that is said; contents do not.
#[test]
fn m8_landlock() {
    TOPIC.in_a_fence(Backend::Landlock);
}

/// M8: nothing of another project shows in a root.
#[test]
fn m8_chroot() {
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

const FILE: &[Thing] = &[File("out/file", SECRET)];
const MINE: &[Thing] = &[File("out/file", SECRET), File("here/mine/file", "mine\n")];

pub(super) static TOPIC: Topic = Topic {
    opened: None,
    rows: &[
        // Contents.
        python(READABLE, "a file of another project cannot be read", "show(f'{OUT}/file')", Sign::Secret).files(FILE),
        python(
            READABLE,
            "a file of another project cannot be read by a way up",
            "show(os.path.relpath(f'{OUT}/file'))",
            Sign::Secret,
        )
        .files(FILE),
        python(
            READABLE,
            "a file of another project cannot be read with two slashes, dots and a way back",
            "show(f'/{OUT}/./../{os.path.basename(OUT)}//file')",
            Sign::Secret,
        )
        .files(FILE),
        python(
            READABLE,
            "a link made inside does not lead to another project",
            "os.symlink(f'{OUT}/file', 'link'); show('link')",
            Sign::Secret,
        )
        .files(FILE),
        python(READABLE, "a link that was there does not lead to another project", "show('link')", Sign::Secret)
            .files(&[File("out/file", SECRET), Link("here/link", "$out/file")]),
        python(
            READABLE,
            "openat2 opens nothing of another project",
            "fd = call(437, -100, f'{OUT}/file'.encode(), struct.pack('QQQ', 0, 0, 0), 24); os.write(1, os.read(fd, 999))",
            Sign::Secret,
        )
        .files(FILE),
        python(
            READABLE,
            "openat2 that takes another directory for its root opens nothing of another project",
            "
            root = os.open('/', os.O_PATH)
            how = struct.pack('QQQ', 0, 0, 0x10)
            os.write(1, os.read(call(437, root, f'{OUT}/file'.encode(), how, 24), 999))
            ",
            Sign::Secret,
        )
        .files(FILE),
        python(
            READABLE,
            "a file of another project gets no second name inside",
            "os.link(f'{OUT}/file', 'name'); show('name')",
            Sign::Secret,
        )
        .files(FILE),
        python(
            READABLE,
            "a file of another project is not moved inside",
            "os.rename(f'{OUT}/file', 'moved'); show('moved')",
            Sign::Secret,
        )
        .files(FILE),
        python(
            READABLE,
            "a script of another project is not run",
            "
            os.dup2(1, 2)
            os.execv(f'{OUT}/script', ['script'])
            ",
            Sign::Secret,
        )
        .files(&[File("out/script", "#!/bin/sh\necho $SECRET")])
        .before(|ground, number| executable(&ground.place(number, "out/script"))),
        shell(READABLE, "another project cannot be listed", "ls \"$OUT\"", Sign::Says("listed"))
            .files(&[File("out/listed", "")]),
        shell(
            READABLE,
            "a search through everything finds nothing of another project",
            "grep -rs secret- \"$OUT\" \"$OUT/..\"",
            Sign::Secret,
        )
        .files(FILE),
        python(
            READABLE,
            "the user's keys cannot be read",
            "first(lambda: show(f'{HOST_HOME}/.ssh/id_ed25519'), lambda: show(f'{HOST_HOME}/.aws/credentials'))",
            Sign::Secret,
        )
        .files(&[File("home/.ssh/id_ed25519", SECRET), File("home/.aws/credentials", SECRET)]),
        python(READABLE, "the host's /tmp cannot be read", "show(f'{TMP}/file')", Sign::Secret)
            .files(&[File("tmp/file", SECRET)]),
        python(READABLE, "the host's shared memory cannot be read", "show(f'{SHM}/file')", Sign::Secret)
            .files(&[File("shm/file", SECRET)]),
        // That it is there at all.
        python(SEEN, "it cannot be seen that a file of another project exists", "os.stat(f'{OUT}/file')", Sign::Works)
            .files(FILE),
        python(
            SEEN,
            "where a link of another project leads cannot be seen",
            "print(os.readlink(f'{OUT}/link'))",
            Sign::Says("elsewhere"),
        )
        .files(&[Link("out/link", "elsewhere")]),
        python(SEEN, "another project cannot be entered", "os.chdir(OUT)", Sign::Works),
        // Writing.
        python(
            WRITABLE,
            "nothing is created in another project",
            "write(f'{OUT}/new', os.O_WRONLY | os.O_CREAT)",
            Sign::Exists("out/new"),
        ),
        python(WRITABLE, "no directory is made in another project", "os.mkdir(f'{OUT}/new')", Sign::Exists("out/new")),
        python(
            WRITABLE,
            "no link is made in another project",
            "os.symlink('/', f'{OUT}/new')",
            Sign::Exists("out/new"),
        ),
        python(WRITABLE, "no pipe is made in another project", "os.mkfifo(f'{OUT}/new')", Sign::Exists("out/new")),
        python(WRITABLE, "a file of another project is not written", "write(f'{OUT}/file')", Sign::Changed("out/file"))
            .files(FILE),
        python(
            WRITABLE,
            "a link made inside does not lead a write to another project",
            "os.symlink(f'{OUT}/file', 'link'); write('link', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)",
            Sign::Changed("out/file"),
        )
        .files(FILE),
        python(
            WRITABLE,
            "a file of another project is not cut short",
            "os.truncate(f'{OUT}/file', 0)",
            Sign::Changed("out/file"),
        )
        .files(FILE),
        python(WRITABLE, "a file of another project is not removed", "os.unlink(f'{OUT}/file')", Sign::Changed("out/file"))
            .files(FILE),
        python(
            WRITABLE,
            "a file of another project is not replaced",
            "os.rename('mine/file', f'{OUT}/file')",
            Sign::Changed("out/file"),
        )
        .files(MINE),
        python(
            WRITABLE,
            "a directory is not moved to another project",
            "os.rename('mine', f'{OUT}/new')",
            Sign::Exists("out/new"),
        )
        .files(MINE),
        python(
            WRITABLE,
            "files are not exchanged with another project",
            "c('renameat2', -100, b'mine/file', -100, f'{OUT}/file'.encode(), 2)",
            Sign::Changed("out/file"),
        )
        .files(MINE),
        python(
            WRITABLE,
            "a file without a name gets none in another project",
            "
            fd = os.open('.', os.O_TMPFILE | os.O_WRONLY)
            c('linkat', -100, f'/proc/self/fd/{fd}'.encode(), -100, f'{OUT}/new'.encode(), 0x400)
            ",
            Sign::Exists("out/new"),
        ),
        python(
            WRITABLE,
            "the host's /tmp is not written",
            "write(f'{TMP}/new', os.O_WRONLY | os.O_CREAT)",
            Sign::Exists("tmp/new"),
        )
        .files(&[File("tmp/file", "")]),
        python(
            WRITABLE,
            "the host's shared memory is not written",
            "write(f'{SHM}/new', os.O_WRONLY | os.O_CREAT)",
            Sign::Exists("shm/new"),
        )
        .files(&[File("shm/file", "")]),
        python(
            WRITABLE,
            "the system's own files are not opened for writing",
            "first(*[lambda path=path: os.open(path, os.O_WRONLY) for path in ('/etc/ld.so.cache', '/usr/bin/env')])",
            Sign::Works,
        )
        .as_root(),
        // What is not content.
        python(
            METADATA,
            "the mode of another project's file stays",
            "os.chmod(f'{OUT}/file', 0o600)",
            Sign::Changed("out/file"),
        )
        .files(FILE),
        python(
            METADATA,
            "the mode of another project's file stays by the newest call for it",
            "call(452, -100, f'{OUT}/file'.encode(), 0o600, 0x100)",
            Sign::Changed("out/file"),
        )
        .files(FILE),
        python(
            METADATA,
            "the times of another project's file stay",
            "os.utime(f'{OUT}/file', (1, 1))",
            Sign::Changed("out/file"),
        )
        .files(FILE),
        python(
            METADATA,
            "the attributes of another project's file stay",
            "os.setxattr(f'{OUT}/file', 'user.evil', b'x')",
            Sign::Changed("out/file"),
        )
        .files(FILE),
        python(
            METADATA,
            "the owner of another project's file is not set",
            "os.chown(f'{OUT}/file', os.getuid(), os.getgid())",
            Sign::Works,
        )
        .files(FILE),
    ],
};

fn executable(path: &std::path::Path) {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}
