//! Lines that nobody thought of, against real shells: what counts as read-only changes nothing when it runs, what is understood is
//! valid, and words are what a shell takes them for.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use ringfence_surface::command::{Class, Git, classify, literal_words};
use ringfence_testkit::report_skip;

/// Shells that a client may use. One that is not installed is left out and said.
const SHELLS: &[&str] = &["/bin/bash", "/bin/dash", "/bin/zsh"];

/// What lines are made of. The only things in it that change anything make a file called `c`.
const TOKENS: &[&str] = &[
    " ",
    " ",
    " ",
    " ",
    " ",
    "\n",
    "\n",
    ";",
    ";",
    "&",
    "&&",
    "||",
    "|",
    "|&",
    "'",
    "'",
    "\"",
    "\"",
    "\\",
    "`",
    "`",
    "$(",
    ")",
    ")",
    "(",
    "{ ",
    "}",
    "; }",
    "{",
    "$((",
    "))",
    "((",
    "${x:-",
    "${x",
    "$x",
    "$1",
    "$?",
    "<<E\n",
    "\nE\n",
    "<<'E'\n",
    "<<-E\n",
    "E",
    "#",
    " #",
    "[[ ",
    " ]]",
    "[ ",
    " ]",
    " -f ",
    "if ",
    "; then ",
    "; fi",
    "for i in ",
    "; do ",
    "; done",
    "case x in ",
    " esac",
    "x) ",
    ";; ",
    "! ",
    "time ",
    "$'",
    "\\'",
    "$\"",
    " > c",
    ">c",
    ">",
    "<",
    "<c",
    "2>",
    "&>",
    ">&",
    "<>",
    " /dev/null",
    "<(",
    ">(",
    "x=",
    "x=1",
    "y=c",
    "a[",
    "]",
    "*",
    "?",
    "[",
    "~",
    "=",
    "==",
    "=~ ",
    "{a,",
    "b}",
    "..",
    "\\\n",
    "-v",
    "-n",
    "-o",
    "-e",
    " -- ",
    "echo ",
    "echo ",
    "cat ",
    "touch c",
    "touch c",
    "touch c",
    ";touch c;",
    "\ntouch c\n",
    "$(touch c)",
    "`touch c`",
    "printf ",
    "%s",
    "%d",
    "test ",
    "read x",
    "eval ",
    "xargs ",
    "sh -c ",
    "env ",
    "command ",
    "find . -exec ",
    " {} \\;",
    " {} +",
    " -delete",
    "sed ",
    "s/a/b/",
    "w c",
    "1e touch c",
    "awk ",
    "{print}",
    "print > \"c\"",
    "system(\"touch c\")",
    "sort ",
    "uniq a ",
    "c",
    "a",
    "f() ",
    "function f ",
    "true",
    "false",
    "1",
    "0",
    ",",
    ":",
    "-",
    "+",
    "!",
    "^",
    "%",
    "@",
    "\t",
    "\r",
    "é",
    "\u{a0}",
];

/// Lines that are close to being something else.
const SEEDS: &[&str] = &[
    "echo $'a' 'touch c'",
    "echo \"`echo a`\" ; cat <<E\ntouch c\nE\n",
    "[[ a == b && -f touch ]] || echo touch c",
    "for i in a 'touch c'; do echo \"$i\"; done",
    "case x in a|b) echo 'touch c';; *) cat a;; esac",
    "echo ${x:-touch c} \"${x:-touch c}\" ${x#'touch c'}",
    "find . -exec echo touch c {} \\;",
    "sed -e 's/a/touch c/' -e '/w c/p' a",
    "awk '/touch c/ { print \"c\" }' a",
    "echo $((1 + 2)) \"$(echo 'touch c')\" <(echo touch c)",
    "x='touch c'; echo $x; printf '%s' \"$x\"; [ \"$x\" = c ]",
    "cat <<'E' | cat\n$(touch c)\nE\n",
    "sh -c 'echo touch c' touch c",
    "echo touch c # touch c\necho a",
    "{ echo touch c; } 2>&1 | cat && ! echo c",
    "if [ -f c ]; then echo touch c; else cat a; fi",
];

struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 20).unwrap() % below
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.roll(from.len())]
    }

    /// A line of tokens, or a seed with a few of them put in, taken out or doubled.
    fn line(&mut self) -> String {
        if self.roll(3) == 0 {
            return (0..3 + self.roll(12)).map(|_| self.pick(TOKENS)).collect();
        }
        let mut line: Vec<char> = self.pick(SEEDS).chars().collect();
        for _ in 0..1 + self.roll(4) {
            let at = self.roll(line.len() + 1);
            match self.roll(4) {
                0 if at < line.len() => drop(line.remove(at)),
                1 => {
                    let end = (at + self.roll(8)).min(line.len());
                    let piece: Vec<char> = line[at..end].to_vec();
                    let to = self.roll(line.len() + 1);
                    line.splice(to..to, piece);
                }
                _ => drop(line.splice(at..at, self.pick(TOKENS).chars()).count()),
            }
        }
        line.into_iter().collect()
    }
}

/// Lines that count as read-only, up to so many.
fn read_only_lines(seed: u64, count: usize, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut dice = Dice(seed);
    let mut lines = Vec::new();
    for _ in 0..count * 2000 {
        let line = dice.line();
        if is_wanted(&line) && classify(line.as_bytes(), Git::Quiet) == Class::ReadOnly {
            lines.push(line);
        }
        if lines.len() == count {
            break;
        }
    }
    assert_eq!(lines.len(), count, "too few lines are read-only");
    lines
}

fn run(shell: &str, arguments: &[&OsStr], dir: &Path) -> Output {
    let mut command = Command::new("/usr/bin/timeout");
    command.args(["--kill-after=1", "30", shell]).args(arguments).current_dir(dir).stdin(Stdio::null());
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", dir.join("home"))
        .env("LANG", "C.UTF-8")
        .output()
        .unwrap()
}

fn shells() -> &'static [&'static str] {
    static HERE: LazyLock<Vec<&str>> = LazyLock::new(|| {
        let (here, missing): (Vec<&str>, Vec<&str>) = SHELLS.iter().partition(|shell| Path::new(shell).exists());
        missing.iter().for_each(|shell| report_skip(&format!("{shell}: it is not installed")));
        assert!(!here.is_empty(), "there is no shell");
        here
    });
    &HERE
}

/// K2: no line that counts as read-only makes a file, in any shell.
#[test]
fn k2_invented_lines_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let names = || -> Vec<_> {
        let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    fs::create_dir(dir.path().join("home")).unwrap();
    fs::write(dir.path().join("a"), "a\ntouch c\n$(touch c)\n").unwrap();
    fs::write(dir.path().join("touch c"), "").unwrap();
    let before = names();
    for line in read_only_lines(0x5eed, 300, |line| line.contains('c')) {
        for shell in shells() {
            run(shell, &[OsStr::new("-c"), OsStr::from_bytes(line.as_bytes())], dir.path());
            assert_eq!(names(), before, "{shell} -c {line:?} is not read-only");
        }
    }
}

/// K2: what is understood is valid: bash reads it without a complaint.
#[test]
fn k2_what_is_understood_is_valid() {
    let dir = tempfile::tempdir().unwrap();
    for line in read_only_lines(0xbeef, 600, |_| true) {
        let output = run("/bin/bash", &[OsStr::new("-nc"), OsStr::new(&line)], dir.path());
        assert!(output.status.success(), "bash does not understand {line:?}: {output:?}");
    }
}

/// What words are made of.
const PIECES: &[&str] = &[
    " ", " ", "  ", "\t", "a", "b", "-x", "'", "'", "\"", "\"", "\\", "\\\\", "\\\"", "\\'", "\\$", "$", "''", "\"\"",
    "' '", "\" \"", "\\ ", "#", "a#", " #", "\\\n", "{", "}", "{}", "{a}", ",", "=", "x=", "%", "!", "^", "\\`", "\\;",
    "';'", "\"&\"", "é", "'é'", "\\\t", "'\n'", "\"\n\"", "\"\\\n\"", "~", "a~", ":", "@", "[", "]", ".",
];

/// K2: words are those that shells hand to a program.
#[test]
fn k2_words_are_those_of_the_shells() {
    let dir = tempfile::tempdir().unwrap();
    let mut dice = Dice(0xfeed);
    let mut compared = 0;
    while compared < 400 {
        let rest: String = (0..1 + dice.roll(12)).map(|_| dice.pick(PIECES)).collect();
        let line = format!("printf '%s\\0' {rest}");
        let Some(words) = literal_words(line.as_bytes()) else { continue };
        let [printf, format, words @ ..] = words.as_slice() else { panic!("{line:?} has lost words: {words:?}") };
        assert_eq!((printf.as_slice(), format.as_slice()), (b"printf".as_slice(), b"%s\\0".as_slice()), "{line:?}");
        // Without words it prints one empty one.
        let expected: Vec<u8> =
            if words.is_empty() { vec![0] } else { words.iter().flat_map(|w| [w, &[0][..]].concat()).collect() };
        for shell in shells() {
            let output = run(shell, &[OsStr::new("-c"), OsStr::new(&line)], dir.path());
            // zsh gives up over a word that begins with `=` or `~` and has no meaning.
            if shell.ends_with("zsh") && !output.status.success() {
                continue;
            }
            assert_eq!(
                output.stdout.escape_ascii().to_string(),
                expected.escape_ascii().to_string(),
                "{shell} -c {line:?}"
            );
        }
        compared += 1;
    }
}
