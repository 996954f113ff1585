//! Policies, trees and deeds by chance, the same for the same seed on every machine and in every year.

use std::collections::HashSet;

use ringfence_plan::verify::{One, Two};

use super::case::{Act, Case, List, Made, Whom, Whose};

/// A generator of one's own.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Seeds that differ by one must not begin alike.
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d | 1);
        for _ in 0..8 {
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`; 0 when there is none.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 20).unwrap_or(0) % end.max(1)
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Names that stand in trees. None ties a work tree to its repository: those are guarded by more than rules.
const NAMES: &[&[u8]] = &[
    b"a",
    b"b",
    b"c",
    b"src",
    b"deep",
    b".env",
    b".env.example",
    b"main.rs",
    b"lib.rs",
    b"infra",
    b"secret",
    b"two words",
    b"new\nline",
    b"it's",
    b"say \"so\"",
    b"-rf",
    b"*",
    b"[x]",
    b"$HOME",
    b"back\\slash",
    b"\xc3\xa9t\xc3\xa9",
    b"\xff\xfe",
    b".bashrc",
    b".vscode",
    b"node_modules",
    b"...",
    b"~",
    b"#",
];

/// One case.
pub(crate) fn case(seed: u64, deeds: usize) -> Case {
    let random = &mut Random::new(seed);
    let mut case = Case { is_host_view: random.one_in(12), ..Case::empty() };
    case.nodes.push((b"project".to_vec(), Made::Directory));
    for (top, most) in [(&b"project"[..], 26), (b"outside", 10), (b"home", 6)] {
        tree(random, &mut case, top, most);
    }
    links(random, &mut case);
    rules(random, &mut case);
    below_a_name(random, &mut case);
    others(random, &mut case);
    network(random, &mut case);
    // What was tried once shows nothing more when it is tried again; small trees have no more to try.
    let mut known = HashSet::new();
    for _ in 0..deeds * 3 {
        let act = act(random, &case);
        if case.acts.len() < deeds && known.insert(act.clone()) {
            case.acts.push(act);
        }
    }
    case
}

fn tree(random: &mut Random, case: &mut Case, top: &[u8], most: usize) {
    let mut dirs = vec![top.to_vec()];
    case.nodes.push((top.to_vec(), Made::Directory));
    for _ in 0..random.below(most) + 3 {
        let dir = random.pick(&dirs).clone();
        let path = [&dir[..], b"/", name(random)].concat();
        if dir.iter().filter(|byte| **byte == b'/').count() < 5 && random.one_in(2) {
            dirs.push(path.clone());
            case.nodes.push((path, Made::Directory));
        } else {
            case.nodes.push((path, Made::File));
        }
    }
    case.nodes.sort();
    case.nodes.dedup_by(|one, other| one.0 == other.0);
}

fn links(random: &mut Random, case: &mut Case) {
    for number in 0..random.below(7) {
        let (dir, to) = (directory(random, case), any(random, case));
        let own = format!("link{number}");
        let path = [&dir[..], b"/", own.as_bytes()].concat();
        let made = match (random.below(4), file(random, case)) {
            (0, Some(of)) if top(&of) == top(&path) => Made::Name(of),
            (1, _) => Made::Link([&b"./"[..], name(random)].concat()),
            // From the directory of the tree.
            _ => Made::Link([b"@", &to[..]].concat()),
        };
        case.nodes.push((path, made));
    }
}

/// Hosts as policies name them, and hosts as programs do.
const HOSTS: &[&str] =
    &["example.com", "*.example.com", "api.example.org:443", "*.docs.example.org", "one.example.net:22"];
const NAMES_OF_HOSTS: &[&str] = &[
    "example.com",
    "EXAMPLE.com",
    "a.example.com",
    "a.b.example.com",
    "notexample.com",
    "example.com.evil.org",
    "api.example.org",
    "docs.example.org",
    "x.docs.example.org",
    "one.example.net",
    "localhost.example.invalid",
];

/// Who may be reached, in every third case: a way out takes longer to make than all the rest.
fn network(random: &mut Random, case: &mut Case) {
    for number in 0..random.below(3) {
        let dir = directory(random, case);
        let path = [&dir[..], b"/", format!("socket{number}").as_bytes()].concat();
        let named = random.one_in(3);
        if let (true, Some(text)) = (named, spelled(&path)) {
            case.rules.push((List::Sockets, text));
        }
        case.nodes.push((path, Made::Socket));
    }
    if random.one_in(3) {
        case.has_port = random.one_in(2);
        for _ in 0..random.below(3) {
            case.rules.push((List::Allow, (*random.pick(HOSTS)).to_owned()));
        }
    }
}

/// A path of the tree as a policy names it, where it is text.
fn spelled(path: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(path).ok()?;
    let (top, rest) = text.split_once('/')?;
    let rest = escaped(rest.as_bytes());
    Some(match top {
        "project" => format!("./{rest}"),
        "outside" => format!("../outside/{rest}"),
        _ => format!("~/{rest}"),
    })
}

fn top(path: &[u8]) -> &[u8] {
    path.split(|byte| *byte == b'/').next().unwrap_or_default()
}

fn any(random: &mut Random, case: &Case) -> Vec<u8> {
    random.pick(&case.nodes).0.clone()
}

fn directory(random: &mut Random, case: &Case) -> Vec<u8> {
    let dirs: Vec<&Vec<u8>> =
        case.nodes.iter().filter(|(_, made)| *made == Made::Directory).map(|(path, _)| path).collect();
    (*random.pick(&dirs)).clone()
}

fn file(random: &mut Random, case: &Case) -> Option<Vec<u8>> {
    let files: Vec<&Vec<u8>> =
        case.nodes.iter().filter(|(_, made)| *made == Made::File).map(|(path, _)| path).collect();
    (!files.is_empty()).then(|| (*random.pick(&files)).clone())
}

fn rules(random: &mut Random, case: &mut Case) {
    if random.one_in(5) {
        for _ in 0..random.below(3) {
            let path = pattern(random, case, b"project");
            case.rules.push((List::Write, path));
        }
    } else {
        case.rules.push((List::Write, ".".to_owned()));
    }
    for _ in 0..random.below(3) {
        let place = if random.one_in(4) { "../outside".to_owned() } else { pattern(random, case, b"outside") };
        case.rules.push((if random.one_in(3) { List::Write } else { List::Read }, place));
    }
    for list in [List::Deny, List::Protect] {
        for _ in 0..random.below(4) {
            let (top, not) = (random.below(6), random.one_in(5));
            let top: &[u8] = match top {
                0 => b"outside",
                1 => b"home",
                _ => b"project",
            };
            let pattern = pattern(random, case, top);
            case.rules.push((list, if not { format!("!{pattern}") } else { pattern }));
        }
    }
}

/// A name is denied at any depth, and something at such a name or below it is granted (E2).
fn below_a_name(random: &mut Random, case: &mut Case) {
    if !random.one_in(3) {
        return;
    }
    let path = any(random, case);
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let name = escaped(names[random.below(names.len())]);
    let whose = if random.one_in(3) { Whose::User } else { Whose::Managed };
    let list = if random.one_in(3) { List::Protect } else { List::Deny };
    match random.one_in(2) {
        // A work in a place that the administrator denies is none.
        true if name != "project" => case.others.push((whose, list, format!("**/{name}"))),
        _ => case.rules.push((list, format!("**/{name}"))),
    }
    if let Some(text) = spelled(&path) {
        case.rules.push((if random.one_in(2) { List::Write } else { List::Read }, text));
    }
}

/// Rules of the user's own file and of the administrator's, those of a call, and what an earlier session could write.
fn others(random: &mut Random, case: &mut Case) {
    if random.one_in(3) {
        for _ in 0..random.below(3) + 1 {
            let list = *random.pick(&List::FILES);
            let entry = absolute(random, case, list);
            case.others.push((Whose::User, list, entry));
        }
    }
    if random.one_in(5) {
        // A ceiling without the project leaves nothing to start in.
        for list in [List::Read, List::Write] {
            if random.one_in(2) {
                case.others.push((Whose::Managed, list, "@project".to_owned()));
                let entry = absolute(random, case, list);
                case.others.push((Whose::Managed, list, entry));
            }
        }
        for list in [List::Deny, List::Protect] {
            if random.one_in(2) {
                let entry = absolute(random, case, list);
                case.others.push((Whose::Managed, list, entry));
            }
        }
    }
    for list in List::FILES {
        for _ in 0..random.below(3) {
            if random.one_in(2) {
                let entry = absolute(random, case, list);
                case.others.push((Whose::Call, list, entry));
            }
        }
    }
    if random.one_in(2) {
        case.earlier.push(b"outside".to_vec());
    }
}

/// A rule of another file, for something in the tree.
fn absolute(random: &mut Random, case: &Case, list: List) -> String {
    let path = any(random, case);
    let mut names: Vec<String> = path.split(|byte| *byte == b'/').map(escaped).collect();
    if matches!(list, List::Deny | List::Protect) && random.one_in(2) {
        return format!("**/{}", names.last().map_or("a", String::as_str));
    }
    if random.one_in(5) && names.len() > 1 {
        let at = 1 + random.below(names.len() - 1);
        names[at] = random.pick(&["*", "?", "*e*", "**"]).to_string();
    }
    format!("@{}", names.join("/"))
}

/// A pattern for something in a part of the tree: its path, or that with wildcards in it.
fn pattern(random: &mut Random, case: &Case, within: &[u8]) -> String {
    let paths: Vec<&Vec<u8>> = case.nodes.iter().map(|(path, _)| path).filter(|path| top(path) == within).collect();
    let path = (*random.pick(&paths)).clone();
    let mut names: Vec<String> = path.split(|byte| *byte == b'/').skip(1).map(escaped).collect();
    if random.one_in(6) {
        names.push(escaped(name(random)));
    }
    if let (true, Some(name)) = (random.one_in(3), names.last()) {
        return format!("**/{name}");
    }
    if random.one_in(4) && !names.is_empty() {
        let at = random.below(names.len());
        names[at] = random.pick(&["*", "**", "?", "[a-d]", "*.rs", ".*", "[!a]*", "*e*"]).to_string();
    }
    let slash = if random.one_in(8) { "/" } else { "" };
    let start = match within {
        b"project" => ".",
        b"outside" => "../outside",
        _ => "~",
    };
    let all: Vec<&str> = std::iter::once(start).chain(names.iter().map(String::as_str)).collect();
    all.join("/") + slash
}

/// A name as rule text. Bytes that are no text are left to a wildcard.
fn escaped(name: &[u8]) -> String {
    let Ok(name) = std::str::from_utf8(name) else { return "*".to_owned() };
    let mut text = String::new();
    for c in name.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '$' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

fn act(random: &mut Random, case: &Case) -> Act {
    // Whom a process reaches takes longer than what it does to files.
    if random.one_in(60) {
        return match random.below(8) {
            at @ 0..=3 => Act::Whom(Whom::ALL[at]),
            _ => Act::Resolve((*random.pick(NAMES_OF_HOSTS)).to_owned()),
        };
    }
    if random.one_in(14)
        && let Some(act) = around(random, case)
    {
        return act;
    }
    if random.one_in(3) {
        let two = *random.pick(&Two::ALL);
        let from = any(random, case);
        let to = if two == Two::Exchange { any(random, case) } else { new(random, case) };
        return Act::Two(two, from, to);
    }
    let one = *random.pick(&One::ALL);
    let of_kind = |made: &dyn Fn(&Made) -> bool, random: &mut Random| {
        let those: Vec<&Vec<u8>> = case.nodes.iter().filter(|(_, node)| made(node)).map(|(path, _)| path).collect();
        (!those.is_empty()).then(|| (*random.pick(&those)).clone())
    };
    let fitting = match one {
        One::Connect => of_kind(&|made| *made == Made::Socket, random),
        One::List | One::RemoveDirectory => of_kind(&|made| *made == Made::Directory, random),
        One::Read | One::Write | One::Truncate | One::Remove => of_kind(&|made| *made == Made::File, random),
        _ => None,
    };
    let path = match one {
        // Most of what does not fit is open, and shows nothing.
        _ if fitting.is_some() && !random.one_in(4) => fitting.unwrap_or_default(),
        One::Create | One::MakeDirectory | One::MakeLink | One::MakeSocket => new(random, case),
        _ if random.one_in(6) => through(random, case),
        _ => any(random, case),
    };
    Act::One(one, path)
}

/// A directory above a file gets another name.
fn around(random: &mut Random, case: &Case) -> Option<Act> {
    let path = file(random, case)?;
    let cuts: Vec<usize> = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).collect();
    let at = *cuts.get(random.below(cuts.len()))?;
    Some(Act::Around(path[..at].to_vec(), new(random, case), path[at + 1..].to_vec()))
}

/// A name that may be there or not.
fn new(random: &mut Random, case: &Case) -> Vec<u8> {
    let dir = directory(random, case);
    [&dir[..], b"/", name(random)].concat()
}

/// A name below a link.
fn through(random: &mut Random, case: &Case) -> Vec<u8> {
    let links: Vec<&Vec<u8>> =
        case.nodes.iter().filter(|(_, made)| matches!(made, Made::Link(_))).map(|(path, _)| path).collect();
    if links.is_empty() {
        return any(random, case);
    }
    let link = *random.pick(&links);
    [&link[..], b"/", name(random)].concat()
}

fn name(random: &mut Random) -> &'static [u8] {
    NAMES[random.below(NAMES.len())]
}
