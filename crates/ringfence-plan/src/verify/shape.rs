//! A tree of canaries as data.

use std::collections::BTreeMap;
use std::ops::Bound;

use ringfence_surface::{AbsPath, Followed, GitFact, Look, PathFact, follow};

/// What is made at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A directory.
    Directory,
    /// A file with a canary in it.
    File,
    /// A symbolic link that says this.
    Link(Vec<u8>),
    /// Another name of a file.
    Name(AbsPath),
    /// A socket that somebody of the host's listens on.
    Socket,
}

/// A tree of canaries. Every directory above something in it, up to the place, is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    place: AbsPath,
    nodes: BTreeMap<AbsPath, Node>,
}

impl Shape {
    /// Nothing but the place where it will be made.
    pub fn new(place: AbsPath) -> Self {
        Self { nodes: [(place.clone(), Node::Directory)].into(), place }
    }

    /// Where it is made.
    pub fn place(&self) -> &AbsPath {
        &self.place
    }

    /// Everything in it, what contains before what is contained.
    pub fn nodes(&self) -> impl Iterator<Item = (&AbsPath, &Node)> {
        self.nodes.iter()
    }

    /// What is at a path.
    pub fn get(&self, path: &AbsPath) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// Everything strictly below a path.
    pub fn below<'s>(&'s self, path: &AbsPath) -> impl Iterator<Item = (&'s AbsPath, &'s Node)> + use<'s> {
        let prefix = [path.as_bytes(), b"/"].concat();
        let range = (Bound::Included(prefix.as_slice()), Bound::Unbounded);
        self.nodes
            .range::<[u8], _>(range)
            .take_while(move |(below, _)| below.as_bytes().starts_with(&prefix))
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// Adds something, with the directories above it. `false` where it cannot be: something else is there, or above it.
    pub fn add(&mut self, path: &AbsPath, node: Node) -> bool {
        if !path.is_within(&self.place)
            || path.as_bytes().len() > LONGEST
            || path.file_name().is_some_and(|name| name.len() > 250)
        {
            return false;
        }
        let above: Vec<AbsPath> = path.ancestors().skip(1).take_while(|dir| dir.is_within(&self.place)).collect();
        if above.iter().any(|dir| self.nodes.get(dir).is_some_and(|node| *node != Node::Directory)) {
            return false;
        }
        match self.nodes.get(path) {
            Some(there) => *there == node,
            None => {
                above.into_iter().for_each(|dir| {
                    self.nodes.insert(dir, Node::Directory);
                });
                self.nodes.insert(path.clone(), node);
                true
            }
        }
    }

    /// Takes something away that has nothing below it. Whether it was there.
    pub fn remove(&mut self, path: &AbsPath) -> bool {
        *path != self.place && self.below(path).next().is_none() && self.nodes.remove(path).is_some()
    }

    /// Where a path leads.
    pub fn follow(&self, path: &AbsPath) -> Option<Followed> {
        follow(&AbsPath::root(), path.as_bytes(), &mut &*self).ok()
    }

    /// Where a path leads whose last name is not followed.
    pub fn follow_above(&self, path: &AbsPath) -> Option<Followed> {
        let (parent, name) = (path.parent()?, path.file_name()?);
        let mut found = self.follow(&parent)?;
        if found.fact != PathFact::Directory {
            return None;
        }
        found.path = found.path.child(name);
        found.fact = (&mut &*self).path(&found.path);
        Some(found)
    }
}

/// Longer paths leave no room for what is tried beside them.
const LONGEST: usize = 3500;

impl Look for &Shape {
    fn path(&mut self, path: &AbsPath) -> PathFact {
        match self.nodes.get(path) {
            Some(Node::Directory) => PathFact::Directory,
            Some(Node::File | Node::Name(_)) => PathFact::File,
            Some(Node::Link(target)) => PathFact::Link(target.clone()),
            Some(Node::Socket) => PathFact::Special,
            // What lies around the place exists, and is made of directories.
            None if self.place.is_within(path) => PathFact::Directory,
            None => PathFact::Missing,
        }
    }

    fn git(&mut self, _: &AbsPath) -> Option<GitFact> {
        None
    }

    fn git_runs(&mut self, _: &AbsPath, _: &AbsPath) -> Vec<ringfence_surface::GitRun> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn abs(text: &str) -> AbsPath {
        AbsPath::lexical(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_contains_comes_along_and_nothing_is_made_in_a_file() {
        let mut shape = Shape::new(abs("/s"));
        assert!(shape.add(&abs("/s/a/b/c"), Node::File));
        assert_eq!(shape.get(&abs("/s/a/b")), Some(&Node::Directory));
        assert!(!shape.add(&abs("/s/a/b/c/d"), Node::File));
        assert!(!shape.add(&abs("/s/a/b"), Node::File));
        assert!(!shape.add(&abs("/other"), Node::File));
        assert!(shape.add(&abs("/s/a0"), Node::File));
        let below: Vec<String> = shape.below(&abs("/s/a")).map(|(path, _)| path.to_string()).collect();
        assert_eq!(below, ["/s/a/b", "/s/a/b/c"]);
        assert!(!shape.remove(&abs("/s/a")) && shape.remove(&abs("/s/a/b/c")));
    }

    #[test]
    fn links_are_followed() {
        let mut shape = Shape::new(abs("/s"));
        shape.add(&abs("/s/d/file"), Node::File);
        shape.add(&abs("/s/l"), Node::Link(b"d".to_vec()));
        shape.add(&abs("/s/abs"), Node::Link(b"/s/l/file".to_vec()));
        let found = shape.follow(&abs("/s/abs")).unwrap();
        assert_eq!((found.path, found.fact), (abs("/s/d/file"), PathFact::File));
        let found = shape.follow_above(&abs("/s/l/new")).unwrap();
        assert_eq!((found.path, found.fact), (abs("/s/d/new"), PathFact::Missing));
        assert!(shape.follow_above(&abs("/s/d/file/new")).is_none());
    }
}
