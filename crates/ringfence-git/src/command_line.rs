//! Which words of a shell command line may name a file that the command executes or reads.
//!
//! Git passes many of its settings to a shell: `core.fsmonitor = sh tools/query.sh`. This reader does not decide what a command does; it
//! finds every word, in nested substitutions too, and says of a word that depends on something unknown that it is unpredictable. It errs
//! on the side of too many words.

/// A word of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandWord {
    /// The word without its quotes.
    pub text: Vec<u8>,
    /// What it is to the command.
    pub role: WordRole,
    /// Does it hold an expansion whose result is unknown?
    pub is_unpredictable: bool,
}

/// What a word is to the command that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordRole {
    /// The program. Without a slash it is found on the user's `PATH`.
    Program,
    /// An argument of an interpreter: it may be the script.
    Script,
    /// Another argument, or the value of a variable.
    Argument,
}

/// How deeply substitutions and quoted command lines may be nested.
const DEEPEST: usize = 8;

/// Words after which another command begins.
const RESERVED: &[&[u8]] =
    &[b"!", b"do", b"elif", b"else", b"if", b"then", b"time", b"until", b"while", b"{", b"}", b"done", b"fi"];

/// Programs that execute what one of their arguments names.
const INTERPRETERS: &[&[u8]] = &[
    b".", b"ash", b"bash", b"builtin", b"command", b"dash", b"doas", b"env", b"eval", b"exec", b"ksh", b"lua", b"nice",
    b"node", b"nohup", b"perl", b"php", b"ruby", b"setsid", b"sh", b"source", b"stdbuf", b"sudo", b"timeout", b"xargs",
    b"zsh",
];

/// Variables that hold arguments which git passes, not programs: `$1`, `$@`, and the files of a merge or diff tool.
const DATA: &[&[u8]] = &[b"BASE", b"LOCAL", b"MERGED", b"REMOTE", b"GIT_EDITOR", b"EDITOR", b"VISUAL", b"PAGER"];

/// Every word, or nothing where the quotes are not balanced. `home` replaces `~/` and `$HOME`.
#[must_use]
pub fn command_words(line: &[u8], home: Option<&[u8]>) -> Option<Vec<CommandWord>> {
    let mut words = Vec::new();
    collect(line, home, 0, &mut words)?;
    Some(words)
}

fn collect(line: &[u8], home: Option<&[u8]>, depth: usize, words: &mut Vec<CommandWord>) -> Option<()> {
    let mut reader = Reader {
        rest: line,
        home,
        depth,
        words,
        role: WordRole::Program,
        follows_cd: false,
        directory: Directory::Top,
    };
    if depth > DEEPEST {
        return None;
    }
    reader.read()
}

/// Where the command runs after a `cd`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Directory {
    Top,
    Below(Vec<u8>),
    Unknown,
}

struct Reader<'r, 'w> {
    rest: &'r [u8],
    home: Option<&'r [u8]>,
    depth: usize,
    words: &'w mut Vec<CommandWord>,
    role: WordRole,
    /// Is the next word the argument of `cd`?
    follows_cd: bool,
    directory: Directory,
}

/// A word that is being read.
#[derive(Default)]
struct Draft {
    text: Vec<u8>,
    is_begun: bool,
    is_unpredictable: bool,
    is_quoted: bool,
}

impl Reader<'_, '_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn read(&mut self) -> Option<()> {
        let mut word = Draft::default();
        while let Some(byte) = self.next() {
            match byte {
                b' ' | b'\t' | b'\r' => self.end(&mut word)?,
                b'\n' | b';' | b'|' | b'&' | b'(' | b')' => {
                    self.end(&mut word)?;
                    (self.role, self.follows_cd) = (WordRole::Program, false);
                }
                b'<' | b'>' => self.end(&mut word)?,
                b'#' if !word.is_begun => {
                    while self.rest.first().is_some_and(|byte| *byte != b'\n') {
                        self.next();
                    }
                }
                b'\'' => {
                    let end = self.rest.iter().position(|byte| *byte == b'\'')?;
                    word.text.extend(&self.rest[..end]);
                    (word.is_begun, word.is_quoted) = (true, true);
                    self.rest = &self.rest[end + 1..];
                }
                b'"' => self.double_quoted(&mut word)?,
                b'\\' => {
                    word.is_begun = true;
                    word.text.extend(self.next().filter(|byte| *byte != b'\n'));
                }
                b'$' | b'`' => self.expansion(byte, &mut word)?,
                b'~' if !word.is_begun => self.tilde(&mut word),
                _ => {
                    // A file name pattern, or a list in braces.
                    word.is_unpredictable |=
                        matches!(byte, b'*' | b'?' | b'[') || byte == b',' && word.text.contains(&b'{');
                    word.is_begun = true;
                    word.text.push(byte);
                }
            }
        }
        self.end(&mut word)
    }

    fn double_quoted(&mut self, word: &mut Draft) -> Option<()> {
        (word.is_begun, word.is_quoted) = (true, true);
        loop {
            match self.next()? {
                b'"' => return Some(()),
                b'\\' => match self.next()? {
                    byte @ (b'"' | b'\\' | b'$' | b'`') => word.text.push(byte),
                    b'\n' => {}
                    byte => word.text.extend([b'\\', byte]),
                },
                byte @ (b'$' | b'`') => self.expansion(byte, word)?,
                byte => word.text.push(byte),
            }
        }
    }

    fn tilde(&mut self, word: &mut Draft) {
        word.is_begun = true;
        let end = self.rest.iter().position(|byte| b"/ \t\n;|&()<>'\"$`".contains(byte)).unwrap_or(self.rest.len());
        match (self.home, end) {
            (Some(home), 0) => word.text.extend(home),
            _ => word.is_unpredictable = true,
        }
    }

    fn expansion(&mut self, sign: u8, word: &mut Draft) -> Option<()> {
        word.is_begun = true;
        if sign == b'`' {
            let end = self.rest.iter().position(|byte| *byte == b'`')?;
            let inner = &self.rest[..end];
            self.rest = &self.rest[end + 1..];
            return self.substitution(inner, word);
        }
        match self.rest.first() {
            Some(b'(') => {
                let end = closing(self.rest)?;
                let inner = &self.rest[1..end];
                self.rest = &self.rest[end + 1..];
                self.substitution(inner, word)
            }
            Some(b'{') => {
                let end = self.rest.iter().position(|byte| *byte == b'}')?;
                let inner = &self.rest[1..end];
                self.rest = &self.rest[end + 1..];
                self.variable(inner, word);
                Some(())
            }
            Some(byte) if byte.is_ascii_alphabetic() || *byte == b'_' => {
                let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let end = self.rest.iter().position(|byte| !is_name(byte)).unwrap_or(self.rest.len());
                let name = &self.rest[..end];
                self.rest = &self.rest[end..];
                self.variable(name, word);
                Some(())
            }
            Some(byte) if b"@*#?!$-0123456789".contains(byte) => {
                let name = &self.rest[..1];
                self.rest = &self.rest[1..];
                self.variable(name, word);
                Some(())
            }
            _ => {
                word.text.push(b'$');
                Some(())
            }
        }
    }

    /// What a command prints becomes a part of the word.
    fn substitution(&mut self, inner: &[u8], word: &mut Draft) -> Option<()> {
        // The top of the work tree, where git runs its commands.
        if inner.trim_ascii() == b"git rev-parse --show-toplevel" || inner.trim_ascii() == b"pwd" {
            word.text.push(b'.');
            return Some(());
        }
        word.is_unpredictable = true;
        collect(inner, self.home, self.depth + 1, self.words)
    }

    fn variable(&mut self, name: &[u8], word: &mut Draft) {
        match name {
            b"HOME" if self.home.is_some() => word.text.extend(self.home.unwrap_or_default()),
            b"PWD" | b"GIT_WORK_TREE" => word.text.push(b'.'),
            [b'@' | b'*' | b'#' | b'?' | b'!' | b'$' | b'-' | b'0'..=b'9'] => {}
            name if DATA.contains(&name) => {}
            _ => word.is_unpredictable = true,
        }
    }

    /// A word ends.
    fn end(&mut self, word: &mut Draft) -> Option<()> {
        let Draft { text, is_begun, is_unpredictable, is_quoted } = std::mem::take(word);
        if !is_begun {
            return Some(());
        }
        if self.role == WordRole::Program {
            if !is_quoted && RESERVED.contains(&text.as_slice()) {
                return Some(());
            }
            if let Some(value) = assigned(&text) {
                self.words.push(CommandWord {
                    text: value.to_vec(),
                    role: WordRole::Argument,
                    is_unpredictable: false,
                });
                return Some(());
            }
        }
        let follows_cd = self.follows_cd;
        if follows_cd {
            self.directory = if is_unpredictable { Directory::Unknown } else { Directory::Below(text.clone()) };
        }
        let role = self.role;
        self.follows_cd = role == WordRole::Program && text == b"cd";
        self.role = match role {
            WordRole::Program if is_interpreter(&text) => WordRole::Script,
            WordRole::Script => WordRole::Script,
            WordRole::Program | WordRole::Argument => WordRole::Argument,
        };
        // A command line in quotes: `sh -c '...'`, `git rebase --exec '...'`.
        if is_quoted && text.iter().any(u8::is_ascii_whitespace) {
            collect(&text, self.home, self.depth + 1, self.words)?;
        }
        // The argument of `cd` itself is relative to where the command began.
        let is_relative = text.first() != Some(&b'/') && !follows_cd;
        match &self.directory {
            Directory::Below(dir) if is_relative && (role != WordRole::Program || text.contains(&b'/')) => {
                let text = [dir.as_slice(), b"/", &text].concat();
                self.words.push(CommandWord { text, role, is_unpredictable });
            }
            Directory::Unknown if is_relative && role != WordRole::Argument && text.contains(&b'/') => {
                self.words.push(CommandWord { text: text.clone(), role, is_unpredictable: true });
            }
            _ => {}
        }
        self.words.push(CommandWord { text, role, is_unpredictable });
        Some(())
    }
}

/// The value of `NAME=value`.
fn assigned(word: &[u8]) -> Option<&[u8]> {
    let at = word.iter().position(|byte| *byte == b'=')?;
    let is_name = !word[..at].is_empty() && word[..at].iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    is_name.then(|| &word[at + 1..])
}

fn is_interpreter(program: &[u8]) -> bool {
    let name = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let unversioned: &[u8] = name.trim_ascii_end();
    INTERPRETERS.contains(&unversioned) || name.starts_with(b"python") || name.starts_with(b"pypy")
}

/// Where the parenthesis closes that a text begins with.
fn closing(text: &[u8]) -> Option<usize> {
    let (mut depth, mut quote, mut is_escaped) = (0_usize, None, false);
    for (at, byte) in text.iter().enumerate() {
        match (byte, quote) {
            _ if is_escaped => is_escaped = false,
            (b'\\', None | Some(b'"')) => is_escaped = true,
            (byte, Some(open)) if *byte == open => quote = None,
            (_, Some(_)) => {}
            (b'\'' | b'"', None) => quote = Some(*byte),
            (b'(', None) => depth += 1,
            (b')', None) => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `!word` is the program, `>word` an argument of an interpreter, `?word` is unpredictable.
    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        let words = command_words(line.as_bytes(), Some(b"/home/u")).unwrap();
        let shown = |word: &CommandWord| {
            let text = String::from_utf8(word.text.clone()).unwrap();
            let role = match word.role {
                WordRole::Program => "!",
                WordRole::Script => ">",
                WordRole::Argument => "",
            };
            format!("{role}{}{text}", if word.is_unpredictable { "?" } else { "" })
        };
        assert_eq!(words.iter().map(shown).collect::<Vec<_>>(), expected, "{line}");
    }

    #[test]
    fn a4_words_of_a_command_line() {
        check("sh tools/x.sh", &["!sh", ">tools/x.sh"]);
        check("tools/x --flag a", &["!tools/x", "--flag", "a"]);
        check("'tools/my x' a", &["!tools/my", "x", "!tools/my x", "a"]);
        check("tools/my\\ x", &["!tools/my x"]);
        check("A=b/c tools/x", &["b/c", "!tools/x"]);
        check("if true; then x/y; fi", &["!true", "!x/y"]);
        check("a && b | c/d; (e/f)", &["!a", "!b", "!c/d", "!e/f"]);
        check("sh -c 'cd tools && ./x'", &["!sh", ">-c", "!cd", "tools", "!tools/./x", "!./x", ">cd tools && ./x"]);
        check("python3 < x.py", &["!python3", ">x.py"]);
        check("# tools/x\nb", &["!b"]);
        check("~/bin/x \"$HOME/y\"", &["!/home/u/bin/x", "/home/u/y"]);
    }

    #[test]
    fn a4_expansions_of_a_command_line() {
        check("f() { git log \"$@\"; }; f", &["!f", "!git", "log", "", "!f"]);
        check("$(git rev-parse --show-toplevel)/tools/x", &["!./tools/x"]);
        check("\"`pwd`/tools/x\"", &["!./tools/x"]);
        check("$TOOLS/x", &["!?/x"]);
        check("sh $(find . -name x.sh)", &["!sh", "!find", ".", "-name", "x.sh", ">?"]);
        check("git push $(git branch --show-current)", &["!git", "push", "!git", "branch", "--show-current", "?"]);
        check("cd \"$GIT_PREFIX\" && tools/x", &["!cd", "?", "!?tools/x", "!tools/x"]);
        check("tools/*.sh", &["!?tools/*.sh"]);
        check("~ada/x", &["!?ada/x"]);
        assert_eq!(command_words(b"sh 'open", None), None);
        assert_eq!(command_words(b"sh \"open", None), None);
        assert_eq!(command_words(b"sh $(open", None), None);
        let deep = "$(".repeat(20) + &")".repeat(20);
        assert_eq!(command_words(deep.as_bytes(), None), None);
    }
}
