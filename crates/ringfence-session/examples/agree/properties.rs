//! What must hold of a policy before any fence is built, said a second time and in another way than `decide` says it.
//!
//! `deny` and `protect` beat every grant, from every file, at every depth (E2); a ceiling is one; what an earlier session left
//! behind widens nothing (E4); a call has nothing that its session has not (E1); and no mount gives what `decide` refuses (E3).

use ringfence_plan::verify::{Node, Shape};
use ringfence_plan::{MountAccess, MountOp};
use ringfence_surface::{AbsPath, Access, Surface};

use super::case::{Case, List, Whose, at};

/// A question that was asked, and whether the answer is as it must be.
pub(crate) struct Answers {
    /// How many questions.
    pub(crate) asked: usize,
    /// Those that were answered otherwise than they must be.
    pub(crate) wrong: Vec<String>,
}

impl Answers {
    pub(crate) fn new() -> Self {
        Self { asked: 0, wrong: Vec::new() }
    }

    fn ask(&mut self, holds: bool, what: impl FnOnce() -> String) {
        self.asked += 1;
        if !holds {
            self.wrong.push(what());
        }
    }
}

const BOTH: [Access; 2] = [Access::Read, Access::Write];

fn may(surface: &Surface, path: &AbsPath, access: Access) -> bool {
    surface.decide(path, access).is_allowed()
}

/// Every path of the tree, and one in every directory that does not exist.
fn paths(shape: &Shape) -> Vec<AbsPath> {
    let new = |(path, node): (&AbsPath, &Node)| (*node == Node::Directory).then(|| path.child(b"not-there"));
    let missing: Vec<AbsPath> = shape.nodes().filter_map(new).collect();
    shape.nodes().map(|(path, _)| path.clone()).chain(missing).collect()
}

/// What holds of one Surface.
pub(crate) fn of_one(case: &Case, shape: &Shape, surface: &Surface, is_call: bool, answers: &mut Answers) {
    let paths = paths(shape);
    for path in &paths {
        let holds = may(surface, path, Access::Read) || !may(surface, path, Access::Write);
        answers.ask(holds, || format!("{path} can be written and not read"));
    }
    let files = [None, Some(Whose::User), Some(Whose::Managed), Some(Whose::Call).filter(|_| is_call)];
    for whose in [files[0]].into_iter().chain(files[1..].iter().copied().filter(Option::is_some)) {
        for list in [List::Deny, List::Protect] {
            taken_away(case, shape, whose, list).iter().for_each(|taken| {
                for path in paths.iter().filter(|path| taken.covers(path, shape.place())) {
                    let accesses = if list == List::Deny { &BOTH[..] } else { &BOTH[1..] };
                    for access in accesses {
                        let holds = !may(surface, path, *access);
                        answers.ask(holds, || {
                            format!("{} {} of {whose:?} does not hold: {access} {path}", list.word(), taken.text)
                        });
                    }
                }
            });
        }
    }
    for (list, access) in [(List::Write, Access::Write), (List::Read, Access::Read)] {
        // What may be written may be read, whichever list says so.
        let more = if list == List::Read { ceiling(case, shape, List::Write) } else { Some(Vec::new()) };
        let has_more = list == List::Write || case.entries(Whose::Managed, List::Write, shape.place()).is_empty();
        let (Some(ceiling), true) = (ceiling(case, shape, list), has_more || more.is_some()) else { continue };
        let ceiling: Vec<AbsPath> = ceiling.into_iter().chain(more.into_iter().flatten()).collect();
        let home = shape.place().join("home");
        for path in paths.iter().filter(|path| !path.is_within(&home) && *path != shape.place()) {
            let holds = !may(surface, path, access) || ceiling.iter().any(|limit| path.is_within(limit));
            answers.ask(holds, || format!("beyond the ceiling: {access} {path}"));
        }
    }
}

/// What is mounted for a Surface gives nothing that it refuses.
pub(crate) fn of_mounts(surface: &Surface, mounts: &[MountOp], answers: &mut Answers) {
    for op in mounts {
        let (path, access) = match op {
            MountOp::Bind { path, access, .. } => (path, *access),
            MountOp::Pin { path } | MountOp::Cover { path } => (path, MountAccess::ReadWrite),
            MountOp::Freeze { path } => (path, MountAccess::ReadOnly),
            _ => continue,
        };
        let holds = may(surface, path, Access::Read);
        let holds = holds && (access == MountAccess::ReadOnly || may(surface, path, Access::Write));
        answers.ask(holds, || format!("mounted and refused: {op:?}"));
    }
}

/// The first gives nothing that the second does not.
pub(crate) fn of_two(shape: &Shape, narrow: &Surface, wide: &Surface, why: &str, answers: &mut Answers) {
    // A link is no file: what is read through it is asked about where it leads.
    for path in paths(shape).into_iter().filter(|path| !matches!(shape.get(path), Some(Node::Link(_)))) {
        for access in BOTH {
            let holds = !may(narrow, &path, access) || may(wide, &path, access);
            answers.ask(holds, || format!("{why}: {access} {path}"));
        }
    }
}

/// The tree without links that an agent could have made: in the project, where it may write, and where it could.
pub(crate) fn without_links(case: &Case, shape: &Shape, surface: &Surface) -> Option<Shape> {
    let earlier: Vec<AbsPath> = case.earlier.iter().map(|path| at(shape.place(), path)).collect();
    let project = shape.place().join("project");
    let could_be_made = |path: &AbsPath| {
        path.is_within(&project)
            || earlier.iter().any(|dir| path.is_within(dir))
            || path.parent().is_some_and(|dir| may(surface, &dir.child(b"not-there"), Access::Write))
    };
    let links = shape.nodes().filter(|(path, node)| matches!(node, Node::Link(_)) && could_be_made(path));
    let links: Vec<AbsPath> = links.map(|(path, _)| path.clone()).collect();
    let mut without = shape.clone();
    links.iter().for_each(|link| {
        without.remove(link);
    });
    (!links.is_empty()).then_some(without)
}

/// A rule that takes something away, as plain text says it.
struct Taken {
    text: String,
    /// A name, at any depth; the project's own is exempt where it is not the administrator's rule.
    name: Option<Vec<u8>>,
    is_managed: bool,
    /// Or places.
    places: Vec<AbsPath>,
}

impl Taken {
    fn covers(&self, path: &AbsPath, place: &AbsPath) -> bool {
        let own = place.components().count();
        let is_named = |(depth, name): (usize, &[u8])| {
            let is_projects_own = depth == own && name == b"project" && !self.is_managed;
            depth >= own && Some(name) == self.name.as_deref() && !is_projects_own
        };
        path.components().enumerate().any(is_named) || self.places.iter().any(|place| path.is_within(place))
    }
}

/// The rules of a list that name a place or a name, and that no exception undoes.
fn taken_away(case: &Case, shape: &Shape, whose: Option<Whose>, list: List) -> Vec<Taken> {
    let place = shape.place();
    let entries: Vec<String> = match whose {
        Some(whose) => case.entries(whose, list, place),
        None => case.rules.iter().filter(|(of, _)| *of == list).map(|(_, entry)| entry.clone()).collect(),
    };
    let last_exception = entries.iter().rposition(|entry| entry.starts_with('!'));
    let after = last_exception.map_or(0, |at| at + 1);
    let taken = |text: &String| {
        let is_managed = whose == Some(Whose::Managed);
        let plain = literal(text.trim_end_matches('/'))?;
        let taken = Taken { text: text.clone(), name: None, is_managed, places: Vec::new() };
        if let Some(name) = plain.strip_prefix(b"**/") {
            return (!name.contains(&b'/')).then(|| Taken { name: Some(name.to_vec()), ..taken });
        }
        let path = match plain.split_first() {
            Some((b'/', _)) => AbsPath::lexical(&plain).ok()?,
            Some((b'~', rest)) => AbsPath::lexical(&[place.join("home").as_bytes(), rest].concat()).ok()?,
            _ => AbsPath::lexical(&[place.join("project").as_bytes(), b"/", &plain].concat()).ok()?,
        };
        // In a call, the caller follows links.
        let leads_to = shape.follow(&path).map(|found| found.path).filter(|_| whose != Some(Whose::Call));
        Some(Taken { places: [path].into_iter().chain(leads_to).collect(), ..taken })
    };
    entries[after..].iter().filter_map(taken).collect()
}

/// What a rule without wildcards says, or a name at any depth.
fn literal(text: &str) -> Option<Vec<u8>> {
    let (floats, rest) = text.strip_prefix("**/").map_or(("", text), |rest| ("**/", rest));
    let mut plain = floats.as_bytes().to_vec();
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' => chars.next()?,
            '*' | '?' | '[' | '$' | '{' => return None,
            c => c,
        };
        plain.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Some(plain)
}

/// The administrator's limit for a list, where it consists of places and nothing else.
fn ceiling(case: &Case, shape: &Shape, list: List) -> Option<Vec<AbsPath>> {
    let entries = case.entries(Whose::Managed, list, shape.place());
    let place = |text: &String| {
        let path = AbsPath::lexical(&literal(text)?).ok()?;
        // A link says where its target is, too.
        let found = shape.follow(&path)?;
        found.links.is_empty().then_some(path)
    };
    (!entries.is_empty()).then(|| entries.iter().map(place).collect::<Option<Vec<AbsPath>>>())?
}
