//! What a container engine or a cluster would make of what is rendered for it, without one: the mounts are read back from the
//! arguments, and deeds are answered as a kernel with these mounts would.
//!
//! One thing at each destination, the deeper after the shallower. A destination that leads through a link is where the link
//! leads, since engines follow it in the container's root.

use std::collections::BTreeMap;
use std::io;

use ringfence_plan::verify::{Came, Deed, Node, One, Said, Shape};
use ringfence_plan::{Claim, ClusterVersion, Engine, FilesFrom, MountAccess, NamedHosts, PodVolumeKind, Rung, compile};
use ringfence_session::container::{Described, DescribedPod, EngineHere, InContainer, render, render_pod, usual};
use ringfence_session::look::{Live, facts_of};
use ringfence_surface::{AbsPath, HostFacts, Surface};

/// The engine that the rendering is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    Docker,
    Podman,
    Kubernetes,
}

impl Reader {
    pub(crate) const ALL: [Self; 3] = [Self::Docker, Self::Podman, Self::Kubernetes];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Docker => "render-docker",
            Self::Podman => "render-podman",
            Self::Kubernetes => "render-kubernetes",
        }
    }
}

/// What stands at a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stands {
    Host(AbsPath, MountAccess),
    /// Nothing of the host's.
    Own,
}

/// The mounts of a container, by where they really are.
pub(crate) struct Rendered {
    mounts: BTreeMap<AbsPath, Stands>,
    pub(crate) said: Said,
}

/// Renders for a reader, with the tree on the disk. `None` where nothing can be rendered for this Surface, which is refused in words.
pub(crate) fn rendered(
    surface: &Surface,
    shape: &Shape,
    facts: &HostFacts,
    session: &AbsPath,
    reader: Reader,
) -> io::Result<Option<Rendered>> {
    let facts = facts_of(surface, facts.clone(), &mut Live::new());
    let rung = if reader == Reader::Docker { Rung::Docker } else { Rung::Podman };
    let plan = compile(surface, &facts, rung);
    let (found, short, hidden) = match reader {
        Reader::Kubernetes => {
            let described = DescribedPod {
                name: "agree",
                choice: None,
                surface: (surface, &plan.mounts),
                facts: &facts,
                command: &[],
                files: FilesFrom::Node,
                named: NamedHosts::Withheld,
                cluster: ClusterVersion::USERS,
                runtime_class: None,
            };
            let Ok(rendered) = render_pod(&described, &mut Live::new()) else { return Ok(None) };
            let short = rendered.plan.shortfalls.iter().map(|short| (short.claim.clone(), short.reason.clone()));
            let mut found = Vec::new();
            for mount in &rendered.plan.mounts {
                let volume = rendered.plan.volumes.iter().find(|volume| volume.name == mount.volume);
                let stands = match volume.map(|volume| &volume.kind) {
                    Some(PodVolumeKind::Node { path, .. }) if path != "/dev/null" => {
                        Stands::Host(super::absolute(path)?, mount.access)
                    }
                    _ => Stands::Own,
                };
                found.push((super::absolute(&mount.path)?, stands));
            }
            (found, short.collect(), rendered.hidden)
        }
        Reader::Docker | Reader::Podman => {
            let engine = if reader == Reader::Docker { Engine::Docker } else { Engine::Podman };
            let here = EngineHere {
                program: engine.word().to_owned(),
                version: String::new(),
                facts: usual(engine),
                variables: Vec::new(),
            };
            let described = Described {
                container: InContainer { here: &here, choice: None, program: None },
                surface: Some((surface, plan.mounts.as_slice())),
                facts: &facts,
                session,
                command: &[],
            };
            let Ok(rendered) = render(&described, &mut Live::new()) else { return Ok(None) };
            let mut found = Vec::new();
            for pair in rendered.words.windows(2).filter(|pair| pair[0] == b"--mount") {
                found.push(mount(&pair[1], session).ok_or(io::ErrorKind::InvalidData)?);
            }
            let short = rendered.shortfalls.iter().map(|short| (short.claim.clone(), short.reason.clone()));
            (found, short.collect(), rendered.hidden)
        }
    };
    let mut mounts = BTreeMap::new();
    for (destination, stands) in found {
        let real = if destination.is_within(shape.place()) {
            shape.follow(&destination).map_or(destination, |found| found.path)
        } else {
            destination
        };
        mounts.insert(real, stands);
    }
    let mut said = Said { short, less: Vec::new(), hidden: Vec::new(), unwritable: None };
    // Nothing of ours runs there: who looks at each name as it is made is missing.
    let later = "nothing of ringfence's runs in what is rendered".to_owned();
    said.short.extend([Claim::DeniedLater, Claim::ProtectedLater].map(|claim| (claim, later.clone())));
    let names = shape.nodes().filter_map(|(path, node)| match node {
        Node::Name(of) => Some([path, of]),
        _ => None,
    });
    said.short.extend(names.flatten().map(|path| (Claim::OneName { path: path.to_string() }, later.clone())));
    said.less.extend(plan.skipped.iter().map(|one| (one.pattern.clone(), one.why.words().to_owned())));
    said.hidden = hidden.iter().map(|one| (one.path.clone(), one.why.words().to_owned())).collect();
    // Exceptions that are patterns are not looked for in what is closed as a whole.
    let exceptions = surface.rules().iter().filter(|rule| rule.sense == ringfence_surface::Sense::Exception);
    let exceptions = exceptions.filter(|rule| rule.pattern.as_path().is_none());
    said.less.extend(exceptions.map(|rule| (rule.pattern.to_string(), later.clone())));
    Ok(Some(Rendered { mounts, said }))
}

/// A mount as an engine reads it: fields between commas, some of them quoted.
fn mount(word: &[u8], session: &AbsPath) -> Option<(AbsPath, Stands)> {
    let text = std::str::from_utf8(word).ok()?;
    let (mut fields, mut field, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    fields.push(field);
    let value = |key: &str| fields.iter().find_map(|field| field.strip_prefix(key));
    let destination = super::absolute(value("dst=")?).ok()?;
    let stands = match (value("type=")?, value("src=")) {
        ("bind", Some(source)) => {
            let source = super::absolute(source).ok()?;
            let is_read_only = fields.iter().any(|field| field == "readonly");
            let access = if is_read_only { MountAccess::ReadOnly } else { MountAccess::ReadWrite };
            if source.is_within(session) { Stands::Own } else { Stands::Host(source, access) }
        }
        ("tmpfs", None) => Stands::Own,
        _ => return None,
    };
    Some((destination, stands))
}

const EACCES: i32 = 13;

impl Rendered {
    /// What would come of a deed.
    pub(crate) fn attempt(&self, shape: &Shape, deed: &Deed) -> Came {
        let Deed::One(one, path) = deed else { return Came::NotTried };
        let found = match one {
            One::Read | One::List | One::Write | One::Truncate => shape.follow(path),
            One::Create | One::MakeDirectory | One::Remove | One::RemoveDirectory => shape.follow_above(path),
            _ => return Came::NotTried,
        };
        // What is on the way must be shown, too: a link in something that is not shown leads nowhere.
        let Some(found) = found.filter(|found| found.links.iter().all(|link| self.is_seen(link))) else {
            return Came::NotTried;
        };
        let real = found.path;
        let is_done = match one {
            One::Read | One::List => self.access(&real).is_some(),
            One::Write | One::Truncate => self.access(&real) == Some(MountAccess::ReadWrite),
            _ => {
                // What is mounted itself, or has something mounted in it, stays.
                let is_mounted = self.mounts.keys().any(|at| at.is_within(&real));
                let dir = real.parent().and_then(|dir| self.access(&dir));
                dir == Some(MountAccess::ReadWrite) && !is_mounted
            }
        };
        if is_done { Came::Done } else { Came::Refused(EACCES) }
    }

    /// How the host's own file at a path is shown there, if it is.
    fn access(&self, path: &AbsPath) -> Option<MountAccess> {
        let (at, stands) = path.ancestors().find_map(|dir| self.mounts.get_key_value(&dir))?;
        match stands {
            Stands::Host(source, access) if source == at => Some(*access),
            _ => None,
        }
    }

    fn is_seen(&self, path: &AbsPath) -> bool {
        self.access(path).is_some()
    }
}
