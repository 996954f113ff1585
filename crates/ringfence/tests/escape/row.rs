//! One claim as data: a sentence, the line of the receipt that it belongs to, an attack, and how its success shows outside.

use super::ground::Ground;

/// A claim and how it is tried.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// What must hold, in one sentence.
    pub(crate) says: &'static str,
    /// The line of the receipt that says whether it does.
    pub(crate) line: Line,
    /// Another that must hold as well.
    pub(crate) and: Option<Line>,
    pub(crate) attack: Attack,
    pub(crate) sign: Sign,
    pub(crate) files: &'static [Thing],
    pub(crate) policy: &'static [(List, &'static str)],
    pub(crate) variables: &'static [(&'static str, &'static str)],
    /// Sockets that somebody outside listens on, from before the start.
    pub(crate) sockets: &'static [&'static str],
    /// The same, for datagrams.
    pub(crate) datagrams: &'static [&'static str],
    pub(crate) control: Control,
    pub(crate) made_by: MadeBy,
    pub(crate) short: Short,
    /// What is made beside `files`.
    pub(crate) before: Option<fn(&Ground, usize)>,
    /// What somebody outside does when the attack asks for it, and says.
    pub(crate) meanwhile: Option<Meanwhile>,
}

/// The ground, the number of the row and what the attack says; the answer.
pub(crate) type Meanwhile = fn(&Ground, usize, &str) -> String;

/// Which line of a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// The only one of its kind.
    Kind(&'static str),
    /// By its words, in which places stand as in [`Thing`].
    Words(&'static str),
}

pub(crate) const READABLE: Line = Line::Kind("readable");
pub(crate) const SEEN: Line = Line::Kind("seen");
pub(crate) const OTHERS: Line = Line::Kind("others");
pub(crate) const WRITABLE: Line = Line::Kind("writable");
pub(crate) const METADATA: Line = Line::Kind("metadata");
pub(crate) const NETWORK: Line = Line::Kind("network");
pub(crate) const SOCKETS: Line = Line::Kind("sockets");
pub(crate) const SOCKETS_LATER: Line = Line::Kind("sockets-later");
pub(crate) const ENVIRONMENT: Line = Line::Kind("environment");
pub(crate) const OUTSIDERS: Line = Line::Kind("outsiders");
pub(crate) const FENCE: Line = Line::Kind("fence");
pub(crate) const DENIED_LATER: Line = Line::Kind("denied-later");
pub(crate) const PROTECTED_LATER: Line = Line::Kind("protected-later");
pub(crate) const REPLACED: Line = Line::Kind("replaced");
/// The pattern that every world denies.
pub(crate) const DENY_ENV: Line = Line::Words("deny **/.env");
/// The pattern that every world protects.
pub(crate) const PROTECT_INFRA: Line = Line::Words("protect **/infra");

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attack {
    /// Python, with what `driver.py` offers. The system's refusal is an `OSError`.
    Python(&'static str),
    /// A shell.
    Shell(&'static str),
}

/// How success shows outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// The attack printed a secret that it was not told.
    Secret,
    /// It printed this.
    Says(&'static str),
    /// It got through without being refused.
    Works,
    /// What is at this place is no longer as it was: content, name, mode, owner, times, attributes.
    Changed(&'static str),
    /// Something is at this place that was not there.
    Exists(&'static str),
    /// Somebody outside heard of it.
    Heard,
    /// A process outside was ended or stopped.
    Struck,
}

/// Something of the row's own. Places begin with `here/` (a directory of the project), `out/` (of another project), `home/` (of
/// the user's home), `project/`, or `tmp/` and `shm/` (of the host's `/tmp` and `/dev/shm`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thing {
    File(&'static str, &'static str),
    Dir(&'static str),
    Link(&'static str, &'static str),
    /// Another name of a file.
    Name(&'static str, &'static str),
}

/// The content of a file that must stay secret.
pub(crate) const SECRET: &str = "$SECRET";

/// A list of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    Deny,
    Protect,
    Read,
    Write,
}

/// How it is shown that the attack is one: it succeeds where there is no fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Control {
    /// As the same user.
    Bare,
    /// As root: what takes rights that the user does not have outside either. Where the tests do not run as root, it is left out
    /// and said.
    Root,
    /// In namespaces of its own with every right over them: what would harm the host if it worked there.
    Namespaces,
}

/// Who makes what the row needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MadeBy {
    Anybody,
    /// Where the tests do not run as root, the row is left out and said.
    Root,
}

/// What is expected where the receipt says that the claim is not held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Short {
    /// The attack succeeds: a receipt is not to be gloomier than the truth.
    Succeeds,
    /// It may or may not, for this reason.
    Luck(&'static str),
}

/// A claim and an attack on it in Python.
pub(crate) const fn python(line: Line, says: &'static str, attack: &'static str, sign: Sign) -> Row {
    row(line, says, Attack::Python(attack), sign)
}

/// A claim and an attack on it in the shell.
pub(crate) const fn shell(line: Line, says: &'static str, attack: &'static str, sign: Sign) -> Row {
    row(line, says, Attack::Shell(attack), sign)
}

const fn row(line: Line, says: &'static str, attack: Attack, sign: Sign) -> Row {
    Row {
        says,
        line,
        and: None,
        attack,
        sign,
        files: &[],
        policy: &[],
        variables: &[],
        sockets: &[],
        datagrams: &[],
        control: Control::Bare,
        made_by: MadeBy::Anybody,
        short: Short::Succeeds,
        before: None,
        meanwhile: None,
    }
}

impl Row {
    /// Does it lead out of the project, or by way of `/proc`? In a root there is nothing of either, whatever its receipt says of
    /// what is in the project.
    pub(crate) fn is_outside(&self) -> bool {
        let (Attack::Python(text) | Attack::Shell(text)) = self.attack;
        ["OUT}", "OUT,", "(OUT)", "$OUT", "HOST_HOME", "/proc"].iter().any(|place| text.contains(place))
    }

    pub(crate) const fn and(self, line: Line) -> Self {
        Self { and: Some(line), ..self }
    }

    pub(crate) const fn files(self, files: &'static [Thing]) -> Self {
        Self { files, ..self }
    }

    pub(crate) const fn policy(self, policy: &'static [(List, &'static str)]) -> Self {
        Self { policy, ..self }
    }

    pub(crate) const fn variables(self, variables: &'static [(&'static str, &'static str)]) -> Self {
        Self { variables, ..self }
    }

    pub(crate) const fn sockets(self, sockets: &'static [&'static str]) -> Self {
        Self { sockets, ..self }
    }

    pub(crate) const fn datagrams(self, datagrams: &'static [&'static str]) -> Self {
        Self { datagrams, ..self }
    }

    pub(crate) const fn as_root(self) -> Self {
        Self { control: Control::Root, ..self }
    }

    pub(crate) const fn in_namespaces(self) -> Self {
        Self { control: Control::Namespaces, ..self }
    }

    pub(crate) const fn made_by_root(self) -> Self {
        Self { made_by: MadeBy::Root, ..self }
    }

    pub(crate) const fn luck(self, why: &'static str) -> Self {
        Self { short: Short::Luck(why), ..self }
    }

    pub(crate) const fn before(self, before: fn(&Ground, usize)) -> Self {
        Self { before: Some(before), ..self }
    }

    pub(crate) const fn meanwhile(self, meanwhile: Meanwhile) -> Self {
        Self { meanwhile: Some(meanwhile), ..self }
    }
}
