//! What may be read and not written: by every name, with every directory above it, and for names that do not exist yet.

use super::ground::{Ground, give_away, is_root};
use super::row::List::Protect;
use super::row::Thing::{Dir, File, Link, Name};
use super::row::{Line, METADATA, PROTECT_INFRA, PROTECTED_LATER, REPLACED, Row, Sign, Thing, python};
use super::suite::{Topic, tests};

tests!(TOPIC);

const INFRA: &[Thing] = &[File("here/infra/main", "old\n"), File("here/plain", "EVIL\n"), Dir("here/other")];
const DEEP: &[Thing] = &[File("here/a/b/infra/main", "old\n"), Dir("here/other")];

/// An attack on `here/infra/main`.
const fn infra(says: &'static str, attack: &'static str) -> Row {
    python(PROTECT_INFRA, says, attack, Sign::Changed("here/infra/main")).files(INFRA)
}

/// An attack on `here/a/b/infra/main`.
const fn deep(says: &'static str, attack: &'static str) -> Row {
    python(PROTECT_INFRA, says, attack, Sign::Changed("here/a/b/infra/main")).files(DEEP)
}

/// An attack on what is not content of `here/infra/main`.
const fn metadata(says: &'static str, attack: &'static str) -> Row {
    python(METADATA, says, attack, Sign::Changed("here/infra/main")).files(INFRA)
}

/// Creates a name that is protected anywhere.
const fn later(says: &'static str, attack: &'static str, made: &'static str) -> Row {
    python(PROTECTED_LATER, says, attack, Sign::Exists(made))
}

pub(super) static TOPIC: Topic = Topic {
    opened: None,
    rows: &[
        infra("a protected file is not written", "write('infra/main')"),
        infra("a protected file is not added to", "write('infra/main', os.O_WRONLY | os.O_APPEND)"),
        infra("a protected file is not cut short", "os.truncate('infra/main', 0)"),
        infra("a protected file is not removed", "os.unlink('infra/main')"),
        infra("a protected file is not moved", "os.rename('infra/main', 'moved')"),
        infra("a protected file is not replaced", "os.rename('plain', 'infra/main')"),
        infra(
            "a protected file is not exchanged with another",
            "c('renameat2', -100, b'plain', -100, b'infra/main', 2)",
        ),
        infra("a protected file is not whited out", "c('renameat2', -100, b'infra/main', -100, b'other/x', 4)"),
        infra("a protected file is not written by a second name", "os.link('infra/main', 'name'); write('name')"),
        infra("a protected file is not written by a link", "os.symlink('infra/main', 'link'); write('link')"),
        infra(
            "a protected file that is open for reading is not opened again for writing",
            "fd = os.open('infra/main', os.O_RDONLY); write(f'/proc/self/fd/{fd}')",
        ),
        infra(
            "a protected file that is opened as a path is not opened again for writing",
            "fd = os.open('infra/main', os.O_PATH); write(f'/proc/self/fd/{fd}')",
        ),
        infra(
            "a protected file is not written by a descriptor of the directory above",
            "write('infra/main', dir_fd=os.open('.', os.O_PATH))",
        ),
        infra("a protected file is not written by /proc/self/root", "write(f'/proc/self/root{HERE}/infra/main')"),
        infra(
            "a protected file is not mapped for writing",
            "
            fd = os.open('infra/main', os.O_RDWR)
            mmap.mmap(fd, 4, prot=mmap.PROT_READ | mmap.PROT_WRITE)[0:4] = b'EVIL'
            ",
        ),
        python(
            PROTECT_INFRA,
            "nothing is created in a protected directory",
            "write('infra/new', os.O_WRONLY | os.O_CREAT)",
            Sign::Exists("here/infra/new"),
        )
        .files(INFRA),
        python(
            PROTECT_INFRA,
            "a file without a name gets none in a protected directory",
            "
            fd = os.open('.', os.O_TMPFILE | os.O_WRONLY)
            c('linkat', -100, f'/proc/self/fd/{fd}'.encode(), -100, b'infra/new', 0x400)
            ",
            Sign::Exists("here/infra/new"),
        )
        .files(INFRA),
        infra("a protected directory is not moved", "os.rename('infra', 'moved')"),
        infra("a protected directory is not moved with a slash at its end", "os.rename('infra/', 'moved')"),
        infra(
            "a protected directory is not exchanged for another",
            "c('renameat2', -100, b'infra', -100, b'other', 2)",
        ),
        infra(
            "a protected directory is not exchanged for a link",
            "os.symlink('other', 'link'); c('renameat2', -100, b'infra', -100, b'link', 2)",
        ),
        deep("the directory of something protected is not moved", "os.rename('a/b', 'other/b')"),
        deep("no directory above something protected is moved", "os.rename('a', 'z')"),
        deep(
            "no directory above something protected is exchanged for another",
            "c('renameat2', -100, b'a', -100, b'other', 2)",
        ),
        deep(
            "no directory above something protected is swapped for a link",
            "os.rename('a', 'z'); os.symlink('other', 'a')",
        ),
        deep(
            "something protected is not removed with everything above it",
            "
            import shutil
            shutil.rmtree('a')
            ",
        ),
        python(
            Line::Words("protect $project/ringfence.toml"),
            "the policy of the project is not written",
            "write(f'{PROJECT}/ringfence.toml', os.O_WRONLY | os.O_APPEND, b'# EVIL\\n')",
            Sign::Changed("project/ringfence.toml"),
        ),
        python(
            Line::Words("protect $here/*/lock"),
            "a pattern with a star in the middle protects",
            "write('x/lock')",
            Sign::Changed("here/x/lock"),
        )
        .files(&[File("here/x/lock", "old\n")])
        .policy(&[(Protect, "ROW/*/lock")]),
        python(
            Line::Words("protect $here/kept"),
            "a directory protected with a slash at its end is protected",
            "write('kept/file')",
            Sign::Changed("here/kept/file"),
        )
        .files(&[File("here/kept/file", "old\n")])
        .policy(&[(Protect, "ROW/kept/")]),
        python(
            Line::Words("protect **/.vscode"),
            "an editor's settings that are a link are not led elsewhere",
            "os.unlink('.vscode'); os.symlink('/', '.vscode')",
            Sign::Changed("here/.vscode"),
        )
        .files(&[Link("here/.vscode", "other"), File("here/other/settings.json", "{}\n")]),
        python(
            PROTECT_INFRA,
            "A13: a protected file is not written by a second name that it had before",
            "write('name')",
            Sign::Changed("here/infra/main"),
        )
        .files(&[File("here/infra/main", "old\n"), Name("here/name", "here/infra/main")]),
        // What is not content.
        metadata("the mode of a protected file stays", "os.chmod('infra/main', 0o777)"),
        metadata(
            "the mode of a protected file stays by the newest call for it",
            "call(452, -100, b'infra/main', 0o777, 0x100)",
        ),
        metadata(
            "the mode of a protected file stays by a descriptor for reading",
            "os.fchmod(os.open('infra/main', os.O_RDONLY), 0o777)",
        ),
        metadata("the times of a protected file stay", "os.utime('infra/main', (1, 1))"),
        metadata("the attributes of a protected file stay", "os.setxattr('infra/main', 'user.evil', b'x')"),
        python(
            METADATA,
            "the flags of a protected file stay",
            "fcntl.ioctl(os.open('infra/main', os.O_RDONLY), 0x40086602, struct.pack('l', 0x40))",
            Sign::Works,
        )
        .files(INFRA),
        // Names that are not there yet.
        later(
            "an environment that shells load later is not planted",
            "write('.envrc', os.O_WRONLY | os.O_CREAT)",
            "here/.envrc",
        ),
        later(
            "an editor's tasks are not planted",
            "os.mkdir('.vscode'); write('.vscode/tasks.json', os.O_WRONLY | os.O_CREAT)",
            "here/.vscode/tasks.json",
        ),
        later("an editor's settings are not planted as a link", "os.symlink('other', '.vscode')", "here/.vscode")
            .files(&[Dir("here/other")]),
        later(
            "an agent's settings are not planted by moving them",
            "os.mkdir('x'); write('x/settings.json', os.O_WRONLY | os.O_CREAT); os.rename('x', '.claude')",
            "here/.claude/settings.json",
        ),
        python(
            REPLACED,
            "a protected directory that is made anew outside is protected",
            "outside(); write('infra/main'); print('written')",
            Sign::Says("written"),
        )
        .and(PROTECT_INFRA)
        .files(INFRA)
        .meanwhile(make_anew)
        .luck("where calls are brokered, what is protected is so by its name"),
    ],
};

/// As a version control system does on a switch of branches: the old one goes, a new one comes.
fn make_anew(ground: &Ground, number: usize, _: &str) -> String {
    let infra = ground.place(number, "here/infra");
    std::fs::rename(&infra, ground.place(number, "out/old")).unwrap();
    std::fs::create_dir(&infra).unwrap();
    std::fs::write(infra.join("main"), "new\n").unwrap();
    if is_root() {
        give_away(&infra);
    }
    String::new()
}
