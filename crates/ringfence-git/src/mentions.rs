//! What a setting of git names: settings files that are read too, files that git executes or reads, directories of hooks.
//!
//! The list of keys that name nothing is closed ([`crate::settings`] and a few more): every other value is taken for a command line or a
//! path, so that a key that a later version of git invents counts too.

use crate::command_line::{WordRole, command_words};
use crate::config::Entry;
use crate::settings;

/// Something that a setting names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mention {
    /// A file of settings, relative to the file that names it.
    Include(Vec<u8>),
    /// A path that is executed or read whether it exists now or not, relative to the top of the work tree.
    Path(Vec<u8>),
    /// A word that counts if a file of this name exists.
    Word(Vec<u8>),
    /// A command whose program depends on something unknown.
    Unpredictable,
}

/// The expansions of `~/` and `%(prefix)/`.
#[derive(Debug, Clone, Copy)]
pub struct Prefixes<'p> {
    /// The user's home.
    pub home: Option<&'p [u8]>,
    /// Where git may be installed.
    pub installed: &'p [Vec<u8>],
}

/// Keys that name nothing on the disk, or only files that are neither executed nor settings, beyond those that an agent may set.
const INERT: &[&str] = &[
    "advice.*",
    "author.*",
    "branch.*",
    "clean.*",
    "color.*",
    "column.*",
    "committer.*",
    "delta.*",
    "fetch.*",
    "format.pretty",
    "help.*",
    "i18n.*",
    "init.defaultbranch",
    "init.defaultobjectformat",
    "init.defaultrefformat",
    "log.*",
    "pretty.*",
    "pull.*",
    "push.*",
    "rebase.instructionformat",
    "safe.*",
    "status.*",
    "tag.*",
    "url.*",
    "user.*",
];

/// Endings of names whose value is one path.
const PATH_NAMES: &[&[u8]] = &[b"path", b"file", b"dir", b"template", b"templatedir"];

/// What a setting names.
#[must_use]
pub fn mentions(entry: &Entry, prefixes: Prefixes<'_>) -> Vec<Mention> {
    let Some(value) = entry.value.as_deref().map(<[u8]>::trim_ascii).filter(|value| !value.is_empty()) else {
        return Vec::new();
    };
    let is_command = value.starts_with(b"!");
    if !is_command && (settings::is_harmless(entry) || entry.matches_any(INERT.iter().copied()) || is_plain(value)) {
        return Vec::new();
    }
    if entry.is("include", "path") || entry.is("includeif", "path") {
        return paths(value, prefixes, Mention::Include);
    }
    if is_path_name(&entry.name) {
        return paths(value, prefixes, Mention::Path);
    }
    // An alias without `!` is a command line of git's own, which may have options such as `--exec`.
    let is_alias = entry.section == b"alias" && !is_command;
    of_command(value.strip_prefix(b"!").unwrap_or(value), prefixes, is_alias)
}

fn is_path_name(name: &[u8]) -> bool {
    PATH_NAMES.iter().any(|ending| name.ends_with(ending))
}

/// Yes, no, a number.
fn is_plain(value: &[u8]) -> bool {
    let words: [&[u8]; 8] = [b"true", b"false", b"yes", b"no", b"on", b"off", b"auto", b"always"];
    words.contains(&value.to_ascii_lowercase().as_slice()) || value.iter().all(u8::is_ascii_digit)
}

fn paths(value: &[u8], prefixes: Prefixes<'_>, mention: fn(Vec<u8>) -> Mention) -> Vec<Mention> {
    let value = value.strip_prefix(b":(optional)").unwrap_or(value);
    if let Some(below) = value.strip_prefix(b"%(prefix)") {
        return prefixes.installed.iter().map(|prefix| mention([prefix.as_slice(), below].concat())).collect();
    }
    if let Some(below) = value.strip_prefix(b"~") {
        return match prefixes.home.filter(|_| below.is_empty() || below.starts_with(b"/")) {
            Some(home) => vec![mention([home, below].concat())],
            None => vec![Mention::Unpredictable],
        };
    }
    vec![mention(value.to_vec())]
}

fn of_command(line: &[u8], prefixes: Prefixes<'_>, is_alias: bool) -> Vec<Mention> {
    let Some(words) = command_words(line, prefixes.home) else {
        // A shell would refuse it; git's own reader of an alias may not.
        return vec![Mention::Unpredictable];
    };
    let mut found = Vec::new();
    let mut awaits_script = false;
    let mut interpreter: Vec<u8> = Vec::new();
    for word in words {
        if awaits_script && loads_modules(&interpreter, &word.text) {
            found.push(Mention::Unpredictable);
        }
        if runs_scripts(&word.text) {
            interpreter = program_name(&word.text).to_vec();
        }
        // `sh watch`: without a slash the first argument of an interpreter is a file all the same, and need not exist yet.
        let is_script = awaits_script && word.role == WordRole::Script && !word.text.starts_with(b"-");
        awaits_script = awaits_script && !is_script && word.role == WordRole::Script || runs_scripts(&word.text);
        if word.is_unpredictable {
            let is_executed = word.role != WordRole::Argument && !is_alias;
            found.extend(is_executed.then_some(Mention::Unpredictable));
            continue;
        }
        // A program without a slash is found on the user's `PATH`.
        if word.role == WordRole::Program && !word.text.contains(&b'/') {
            continue;
        }
        // `--file=x`, `-c core.hooksPath=x`.
        let (key, after) = match word.text.iter().position(|byte| *byte == b'=') {
            Some(at) => (word.text[..at].to_ascii_lowercase(), Some(word.text[at + 1..].to_vec())),
            None => (Vec::new(), None),
        };
        if let Some(value) = after.as_ref().filter(|_| key.contains(&b'.') && is_path_name(&key)) {
            found.extend(paths(value, prefixes, Mention::Path));
        }
        for text in [Some(word.text), after].into_iter().flatten() {
            let is_address = text.windows(3).any(|window| window == b"://");
            if text.is_empty() || text.starts_with(b"-") || is_address {
                continue;
            }
            let is_path = (is_script || text.contains(&b'/')) && !is_alias && text.iter().all(|byte| is_usual(*byte));
            found.push(if is_path { Mention::Path(text) } else { Mention::Word(text) });
        }
    }
    found.sort();
    found.dedup();
    found
}

fn program_name(program: &[u8]) -> &[u8] {
    program.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Does an option make an interpreter look for modules by their names, in the working directory or another one that the option names? Each
/// of them may load more: it is unknown which files are executed.
fn loads_modules(interpreter: &[u8], option: &[u8]) -> bool {
    let Some(letters) = option.strip_prefix(b"-") else { return false };
    let long: &[&[u8]] = &[b"-require", b"-import", b"-loader", b"-experimental-loader"];
    let is_long = long.iter().any(|start| letters.starts_with(start));
    let has = |wanted: &[u8]| !letters.starts_with(b"-") && letters.iter().any(|letter| wanted.contains(letter));
    match interpreter {
        // Also with a text of its own the working directory comes first.
        name if name.starts_with(b"python") => has(b"mc"),
        b"perl" => has(b"I"),
        b"ruby" => has(b"Ir"),
        b"node" => is_long || has(b"r"),
        b"lua" => has(b"l"),
        _ => false,
    }
}

/// Does a program of this name execute the file that its first argument names?
fn runs_scripts(program: &[u8]) -> bool {
    let name = program_name(program);
    let is_listed: [&[u8]; 13] =
        [b".", b"ash", b"bash", b"dash", b"ksh", b"lua", b"node", b"perl", b"php", b"ruby", b"sh", b"source", b"zsh"];
    is_listed.contains(&name) || name.starts_with(b"python")
}

/// A byte that paths of scripts are made of, and patterns or formats are not.
fn is_usual(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/._+@- ".contains(&byte) || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let installed = [b"/usr".to_vec()];
        let prefixes = Prefixes { home: Some(b"/home/u"), installed: &installed };
        let shown = |mention: Mention| {
            let text_of = |bytes| String::from_utf8(bytes).unwrap();
            match mention {
                Mention::Include(path) => format!("include {}", text_of(path)),
                Mention::Path(path) => format!("path {}", text_of(path)),
                Mention::Word(word) => format!("word {}", text_of(word)),
                Mention::Unpredictable => "unpredictable".to_owned(),
            }
        };
        let entries = parse(text.as_bytes());
        assert!(!entries.is_empty(), "{text}");
        let found: Vec<String> = entries.iter().flat_map(|entry| mentions(entry, prefixes)).map(shown).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn a4_settings_that_name_a_path() {
        check("[core]\n\thooksPath = tools/hooks\n", &["path tools/hooks"]);
        check("[core]\n\thooksPath = \"my hooks\"\n", &["path my hooks"]);
        check("[core]\n\thooksPath = my hooks ; comment\n", &["path my hooks"]);
        check("[core]\n\thooksPath = tools/\\\nhooks\n", &["path tools/hooks"]);
        check("[core]\n\thooksPath = ~/p/hooks\n", &["path /home/u/p/hooks"]);
        check("[core]\n\thooksPath = ~ada/hooks\n", &["unpredictable"]);
        check("[core]\n\thooksPath = %(prefix)/hooks\n", &["path /usr/hooks"]);
        check("[core]\n\tattributesFile = .attributes\n", &["path .attributes"]);
        check("[core]\n\texcludesFile = ~/ignore\n", &["path /home/u/ignore"]);
        check("[commit]\n\ttemplate = .message\n", &["path .message"]);
        check("[init]\n\ttemplateDir = ~/t\n", &["path /home/u/t"]);
        check("[blame]\n\tignoreRevsFile = .ignore-revs\n", &["path .ignore-revs"]);
        check("[mailmap]\n\tfile = .mailmap\n", &["path .mailmap"]);
        check("[gpg \"ssh\"]\n\tallowedSignersFile = keys/signers\n", &["path keys/signers"]);
        check("[include]\n\tpath = ../shared\n", &["include ../shared"]);
        check("[includeIf \"gitdir:~/p/\"]\n\tpath = ~/p/.gitconfig\n", &["include /home/u/p/.gitconfig"]);
        check("[difftool \"x\"]\n\tpath = tools/d\n", &["path tools/d"]);
    }

    #[test]
    fn a4_settings_that_name_a_command() {
        for key in [
            "[filter \"x\"]\n\tclean",
            "[filter \"x\"]\n\tsmudge",
            "[filter \"x\"]\n\tprocess",
            "[diff \"x\"]\n\ttextconv",
            "[diff \"x\"]\n\tcommand",
            "[diff]\n\texternal",
            "[merge \"x\"]\n\tdriver",
            "[mergetool \"x\"]\n\tcmd",
            "[core]\n\tfsmonitor",
            "[core]\n\teditor",
            "[core]\n\tpager",
            "[core]\n\tsshCommand",
            "[core]\n\taskPass",
            "[core]\n\tgitProxy",
            "[core]\n\talternateRefsCommand",
            "[sequence]\n\teditor",
            "[interactive]\n\tdiffFilter",
            "[pager]\n\tlog",
            "[gpg]\n\tprogram",
            "[gpg \"ssh\"]\n\tdefaultKeyCommand",
            "[credential]\n\thelper",
            "[credential \"https://x\"]\n\thelper",
            "[trailer \"x\"]\n\tcommand",
            "[trailer \"x\"]\n\tcmd",
            "[uploadpack]\n\tpackObjectsHook",
            "[remote \"x\"]\n\tuploadpack",
            "[hook \"x\"]\n\tcommand",
            "[unheard]\n\tof",
        ] {
            check(&format!("{key} = sh tools/x.sh\n"), &["path tools/x.sh"]);
            check(&format!("{key} = ./x \"%f\"\n"), &["path ./x", "word %f"]);
            check(&format!("{key} = $TOOL/x\n"), &["unpredictable"]);
        }
        check("[alias]\n\tx = !sh tools/x.sh\n", &["path tools/x.sh"]);
        check("[submodule \"x\"]\n\tupdate = !tools/x\n", &["path tools/x"]);
        check("[credential]\n\thelper = \"!f() { sh tools/x.sh; }; f\"\n", &["path tools/x.sh"]);
        check("[alias]\n\tx = -c core.hooksPath=h log\n", &["path h", "word core.hooksPath=h", "word h", "word log"]);
        check("[core]\n\teditor = \"python3 x.py\"\n", &["path x.py"]);
        check("[core]\n\tfsmonitor = sh -e watch fast\n", &["path watch", "word fast"]);
        check("[core]\n\tpager = env LESS=F less x\n", &["word F", "word LESS=F", "word less", "word x"]);
    }

    #[test]
    fn a4_modules_that_an_interpreter_finds_by_name() {
        for command in [
            "python3 -m tools.x",
            "/usr/bin/python3 -Bm tools.x",
            "python3 -c import",
            "perl -Itools -MX",
            "perl -I tools -MX -e 1",
            "ruby -Ilib -rx -e 1",
            "node --require ./x y.js",
            "node -r ./x",
            "lua -l x",
        ] {
            let text = format!("[core]\n\teditor = \"{command}\"\n[alias]\n\tx = \"!{command}\"\n");
            let prefixes = Prefixes { home: None, installed: &[] };
            for entry in parse(text.as_bytes()) {
                assert!(mentions(&entry, prefixes).contains(&Mention::Unpredictable), "{text}");
            }
        }
        check("[core]\n\teditor = perl -Mstrict -pe x\n", &["path x"]);
        check("[core]\n\teditor = sh -c x\n", &["path x"]);
        check("[core]\n\teditor = python3 -u x.py\n", &["path x.py"]);
    }

    #[test]
    fn a4_settings_that_name_nothing() {
        for text in [
            "[user]\n\tname = A / B\n\tsigningKey = ~/.ssh/id\n",
            "[core]\n\tquotePath = false\n\tautocrlf = input\n\tfsmonitor = true\n",
            "[url \"https://x/\"]\n\tinsteadOf = git@x:\n",
            "[remote \"o\"]\n\turl = ../o.git\n\tfetch = +refs/heads/*:refs/remotes/o/*\n",
            "[pull]\n\trebase = true\n",
            "[format]\n\tpretty = %h/%s\n",
            "[submodule \"x\"]\n\tupdate = rebase\n",
            "[core]\n\tpager\n\teditor =\n",
        ] {
            check(text, &[]);
        }
    }
}
