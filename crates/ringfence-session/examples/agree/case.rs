//! A policy, a tree and deeds in it, as text that people can read and change.
//!
//! One thing to a line: `deny PATTERN`, `file PATH`, `rename PATH PATH`. Bytes that are no plain text, and blanks, stand as
//! `%41`. Paths begin with `project`, where the policy holds, `outside` or `home`. `port` lets a port of the host be reached.
//!
//! `user deny PATTERN` and `managed deny PATTERN` are rules of other files than the project's, `call read PATTERN` narrows one call
//! within the session. In these `@outside/a` is a path of the tree. `earlier PATH` is a place that an earlier session could write.

use ringfence_plan::verify::{Deed, Node, One, Shape, Two};
use ringfence_session::verify::Outsiders;
use ringfence_surface::AbsPath;

/// A list of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    Write,
    Read,
    Deny,
    Protect,
    Allow,
    Sockets,
}

impl List {
    pub(crate) const FILES: [Self; 4] = [Self::Write, Self::Read, Self::Deny, Self::Protect];
    pub(crate) const NETWORK: [Self; 2] = [Self::Allow, Self::Sockets];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Deny => "deny",
            Self::Protect => "protect",
            Self::Allow => "allow",
            Self::Sockets => "sockets",
        }
    }
}

/// Whose rules these are, beside the project's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whose {
    /// The administrator's.
    Managed,
    /// The user's own.
    User,
    /// Those of one call within the session.
    Call,
}

impl Whose {
    const ALL: [Self; 3] = [Self::Managed, Self::User, Self::Call];

    fn word(self) -> &'static str {
        match self {
            Self::Managed => "managed",
            Self::User => "user",
            Self::Call => "call",
        }
    }
}

/// What stands in a tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Made {
    Directory,
    File,
    /// What the link says; after an `@`, a path of the tree.
    Link(Vec<u8>),
    Name(Vec<u8>),
    Socket,
}

/// What is tried.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Act {
    One(One, Vec<u8>),
    Two(Two, Vec<u8>, Vec<u8>),
    /// A directory, its other name, and a file in it.
    Around(Vec<u8>, Vec<u8>, Vec<u8>),
    Resolve(String),
    Whom(Whom),
}

/// Somebody of the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Whom {
    ListedPort,
    UnlistedPort,
    Abstract,
    Process,
}

impl Whom {
    pub(crate) const ALL: [Self; 4] = [Self::ListedPort, Self::UnlistedPort, Self::Abstract, Self::Process];

    fn word(self) -> &'static str {
        match self {
            Self::ListedPort => "listed-port",
            Self::UnlistedPort => "unlisted-port",
            Self::Abstract => "abstract-socket",
            Self::Process => "process",
        }
    }
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) is_host_view: bool,
    /// Whether the policy names a port of the host's.
    pub(crate) has_port: bool,
    pub(crate) rules: Vec<(List, String)>,
    /// Rules of other files, and of a call. `@` is replaced by the path of the tree.
    pub(crate) others: Vec<(Whose, List, String)>,
    /// Places that an earlier session could write.
    pub(crate) earlier: Vec<Vec<u8>>,
    pub(crate) nodes: Vec<(Vec<u8>, Made)>,
    pub(crate) acts: Vec<Act>,
}

impl Case {
    /// Nothing.
    pub(crate) fn empty() -> Self {
        Self {
            is_host_view: false,
            has_port: false,
            rules: Vec::new(),
            others: Vec::new(),
            earlier: Vec::new(),
            nodes: Vec::new(),
            acts: Vec::new(),
        }
    }

    /// The policy, as somebody would write it; `port` is the one that stands for those of the host's that are named.
    pub(crate) fn policy(&self, port: Option<u16>) -> String {
        let mut text = "version = 1\n[files]\n".to_owned();
        if self.is_host_view {
            text += "view = \"host\"\n";
        }
        let list = |list: List| {
            let entries: Vec<String> =
                self.rules.iter().filter(|(of, _)| *of == list).map(|(_, entry)| quoted(entry)).collect();
            format!("{} = [{}]\n", list.word(), entries.join(", "))
        };
        text += &List::FILES.map(list).concat();
        text += &format!("[network]\n{}", List::NETWORK.map(list).concat());
        if let Some(port) = port.filter(|_| self.has_port) {
            text += &format!("host_ports = [{port}]\n");
        }
        text
    }

    /// The policy of another file; nothing where it has no rule.
    pub(crate) fn policy_of(&self, whose: Whose, place: &AbsPath) -> Option<String> {
        let mut text = "version = 1\n[files]\n".to_owned();
        for list in List::FILES {
            let entries: Vec<String> = self.entries(whose, list, place).iter().map(|entry| quoted(entry)).collect();
            if !entries.is_empty() {
                text += &format!("{} = [{}]\n", list.word(), entries.join(", "));
            }
        }
        self.others.iter().any(|(of, ..)| *of == whose).then_some(text)
    }

    /// The entries of one list of another file, as they are written there.
    pub(crate) fn entries(&self, whose: Whose, list: List, place: &AbsPath) -> Vec<String> {
        let those = self.others.iter().filter(|(of, in_list, _)| (*of, *in_list) == (whose, list));
        those.map(|(_, _, entry)| entry.replacen('@', &format!("{place}/"), 1)).collect()
    }

    /// The tree, at a place.
    pub(crate) fn shape(&self, place: &AbsPath) -> Shape {
        let mut shape = Shape::new(place.clone());
        for (path, made) in &self.nodes {
            let node = match made {
                Made::Directory => Node::Directory,
                Made::File => Node::File,
                Made::Socket => Node::Socket,
                Made::Link(target) => match target.strip_prefix(b"@") {
                    Some(path) => Node::Link(at(place, path).as_bytes().to_vec()),
                    None => Node::Link(target.clone()),
                },
                Made::Name(of) => match shape.get(&at(place, of)) {
                    Some(Node::File) => Node::Name(at(place, of)),
                    _ => continue,
                },
            };
            // What does not fit is left out.
            shape.add(&at(place, path), node);
        }
        shape
    }

    /// The deeds, in a tree at a place. Who stands outside is left out where nobody does.
    pub(crate) fn deeds(&self, place: &AbsPath, outsiders: Option<&Outsiders>) -> Vec<Deed> {
        let deed = |act: &Act| {
            Some(match act {
                Act::One(one, path) => Deed::One(*one, at(place, path)),
                Act::Two(two, from, to) => Deed::Two(*two, at(place, from), at(place, to)),
                Act::Around(dir, to, file) => {
                    Deed::Around { dir: at(place, dir), to: at(place, to), file: file.clone() }
                }
                Act::Resolve(name) => Deed::Resolve(name.clone()),
                Act::Whom(Whom::ListedPort) => Deed::Dial(*outsiders?.listed.first()?),
                Act::Whom(Whom::UnlistedPort) => Deed::Dial(outsiders?.unlisted),
                Act::Whom(Whom::Abstract) => Deed::Abstract(outsiders?.name.clone()),
                Act::Whom(Whom::Process) => Deed::Signal(outsiders?.process()),
            })
        };
        self.acts.iter().filter_map(deed).collect()
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        if self.is_host_view {
            text += "view host\n";
        }
        if self.has_port {
            text += "port\n";
        }
        for (list, entry) in &self.rules {
            text += &format!("{} {}\n", list.word(), coded(entry.as_bytes()));
        }
        for (whose, list, entry) in &self.others {
            text += &format!("{} {} {}\n", whose.word(), list.word(), coded(entry.as_bytes()));
        }
        for path in &self.earlier {
            text += &format!("earlier {}\n", coded(path));
        }
        for (path, made) in &self.nodes {
            text += &match made {
                Made::Directory => format!("dir {}\n", coded(path)),
                Made::File => format!("file {}\n", coded(path)),
                Made::Link(target) => format!("symbolic {} {}\n", coded(path), coded(target)),
                Made::Name(of) => format!("name {} {}\n", coded(path), coded(of)),
                Made::Socket => format!("socket {}\n", coded(path)),
            };
        }
        for act in &self.acts {
            text += &match act {
                Act::One(one, path) => format!("try {} {}\n", one.word(), coded(path)),
                Act::Two(two, from, to) => format!("try {} {} {}\n", two.word(), coded(from), coded(to)),
                Act::Around(dir, to, file) => format!("around {} {} {}\n", coded(dir), coded(to), coded(file)),
                Act::Resolve(name) => format!("resolve {}\n", coded(name.as_bytes())),
                Act::Whom(whom) => format!("reach {}\n", whom.word()),
            };
        }
        text
    }

    /// What a text says; `None` with the first line that says nothing.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut case = Self::empty();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            case.line(line).ok_or_else(|| line.to_owned())?;
        }
        Ok(case)
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["view", "host"] => self.is_host_view = true,
            ["port"] => self.has_port = true,
            ["socket", path] => self.nodes.push((plain(path)?, Made::Socket)),
            ["around", dir, to, file] => self.acts.push(Act::Around(plain(dir)?, plain(to)?, plain(file)?)),
            ["resolve", name] => self.acts.push(Act::Resolve(String::from_utf8(plain(name)?).ok()?)),
            ["reach", word] => self.acts.push(Act::Whom(Whom::ALL.into_iter().find(|whom| whom.word() == *word)?)),
            ["earlier", path] => self.earlier.push(plain(path)?),
            [whose @ ("managed" | "user" | "call"), word, entry] => {
                let whose = Whose::ALL.into_iter().find(|one| one.word() == *whose)?;
                let list = List::FILES.into_iter().find(|list| list.word() == *word)?;
                self.others.push((whose, list, String::from_utf8(plain(entry)?).ok()?));
            }
            ["dir", path] => self.nodes.push((plain(path)?, Made::Directory)),
            ["file", path] => self.nodes.push((plain(path)?, Made::File)),
            ["symbolic", path, target] => self.nodes.push((plain(path)?, Made::Link(plain(target)?))),
            ["name", path, of] => self.nodes.push((plain(path)?, Made::Name(plain(of)?))),
            ["try", word, path] => {
                let one = One::ALL.into_iter().find(|one| one.word() == *word)?;
                self.acts.push(Act::One(one, plain(path)?));
            }
            ["try", word, from, to] => {
                let two = Two::ALL.into_iter().find(|two| two.word() == *word)?;
                self.acts.push(Act::Two(two, plain(from)?, plain(to)?));
            }
            [word, entry] => {
                let mut lists = List::FILES.into_iter().chain(List::NETWORK);
                let list = lists.find(|list| list.word() == *word)?;
                self.rules.push((list, String::from_utf8(plain(entry)?).ok()?));
            }
            _ => return None,
        }
        Some(())
    }
}

/// A path of the tree, at a place.
pub(crate) fn at(place: &AbsPath, path: &[u8]) -> AbsPath {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).fold(place.clone(), |at, name| at.child(name))
}

/// Text as TOML.
fn quoted(text: &str) -> String {
    let mut out = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out += &format!("\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out + "\""
}

fn coded(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        match byte {
            b'!'..=b'~' if *byte != b'%' => out.push(char::from(*byte)),
            byte => out += &format!("%{byte:02x}"),
        }
    }
    out
}

fn plain(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        out.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    Some(out)
}
