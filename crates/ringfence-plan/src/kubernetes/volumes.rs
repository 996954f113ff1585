//! The places of a view as volumes and mounts of a pod.

use std::collections::BTreeMap;

use ringfence_surface::{AbsPath, Look, PathFact};

use super::{
    EMPTY_FILE, FilesFrom, NodeKind, POD_HOME, PodError, PodMount, PodOrder, PodVolume, PodVolumeKind, sayable,
};
use crate::container::Made;
use crate::mounts::{Found, MountAccess};

/// What the agent's own home and temporary files may take of a node's disk before the pod is ended.
const SCRATCH: u64 = 8 << 30;

/// What a directory in memory may take; it counts as the pod's own memory.
const IN_MEMORY: u64 = 16 << 20;

/// An empty directory needs a page at most.
const NOTHING: u64 = 1 << 20;

/// The volume of what may be read by nobody, as a directory and as a file.
const DENIED: &str = "denied";
const DENIED_FILE: &str = "denied-file";

/// Volumes and where they are mounted, sorted by path.
pub(super) fn volumes(
    order: &PodOrder<'_>,
    mut made: BTreeMap<AbsPath, Made>,
    look: &mut dyn Look,
) -> Result<(Vec<PodVolume>, Vec<PodMount>), PodError> {
    // The agent's home is the pod's own, whatever stands at this place elsewhere.
    let home = AbsPath::root().join(POD_HOME.trim_start_matches('/'));
    made.retain(|path, _| !path.is_within(&home));
    let mut pod = Volumes { files: order.files, volumes: Vec::new(), mounts: Vec::new() };
    pod.mount(&home, "home", None, MountAccess::ReadWrite)?;
    pod.add("home", PodVolumeKind::Disk(SCRATCH));
    for (path, made) in made {
        match made {
            Made::Host { source, access } => pod.host(&path, &source, access, look)?,
            Made::Mask(Found::Directory) => {
                pod.add(DENIED, PodVolumeKind::Memory(NOTHING));
                pod.mount(&path, DENIED, None, MountAccess::ReadOnly)?;
            }
            Made::Mask(Found::File) => pod.mask(&path)?,
            Made::Tmp => {
                pod.add("tmp", PodVolumeKind::Disk(SCRATCH));
                pod.mount(&path, "tmp", None, MountAccess::ReadWrite)?;
            }
            // What is mounted in it afterwards needs a place there, so it cannot be read-only from the start.
            Made::Memory(_) => {
                let name = format!("memory-{}", pod.mounts.len());
                pod.add(&name, PodVolumeKind::Memory(IN_MEMORY));
                pod.mount(&path, &name, None, MountAccess::ReadWrite)?;
            }
            // Of a session, and there is none.
            Made::Own(_) => {}
        }
    }
    pod.mounts.sort_by(|a, b| a.path.cmp(&b.path));
    Ok((pod.volumes, pod.mounts))
}

struct Volumes<'a> {
    files: FilesFrom<'a>,
    volumes: Vec<PodVolume>,
    mounts: Vec<PodMount>,
}

impl Volumes<'_> {
    /// A volume, unless there is one of this name.
    fn add(&mut self, name: &str, kind: PodVolumeKind) {
        if !self.volumes.iter().any(|volume| volume.name == name) {
            self.volumes.push(PodVolume { name: name.to_owned(), kind });
        }
    }

    fn mount(
        &mut self,
        path: &AbsPath,
        volume: &str,
        part: Option<String>,
        access: MountAccess,
    ) -> Result<(), PodError> {
        let path = sayable(path)?.to_owned();
        self.mounts.push(PodMount { path, volume: volume.to_owned(), part, access });
        Ok(())
    }

    /// Something of the host's, which is the node's or on the claim.
    fn host(
        &mut self,
        path: &AbsPath,
        source: &AbsPath,
        access: MountAccess,
        look: &mut dyn Look,
    ) -> Result<(), PodError> {
        let text = std::str::from_utf8(source.as_bytes()).map_err(|_| PodError::NotUtf8 { path: source.clone() })?;
        match self.files {
            FilesFrom::Node => {
                // A kind that is said is looked at before anything starts; one that is not would be made where it is missing.
                let kind = match look.path(source) {
                    PathFact::Directory => NodeKind::Directory,
                    PathFact::File => NodeKind::File,
                    PathFact::Missing | PathFact::Link(_) | PathFact::Special => {
                        return Err(PodError::Source { path: source.clone() });
                    }
                };
                let kind = PodVolumeKind::Node { path: text.to_owned(), kind };
                let name = match self.volumes.iter().find(|volume| volume.kind == kind) {
                    Some(volume) => volume.name.clone(),
                    None => format!("node-{}", self.volumes.len()),
                };
                self.add(&name, kind);
                self.mount(path, &name, None, access)
            }
            FilesFrom::Claim(claim) => {
                self.add("files", PodVolumeKind::Claim(claim.to_owned()));
                let part = text.trim_start_matches('/').to_owned();
                self.mount(path, "files", Some(part), access)
            }
        }
    }

    /// Nothing in the place of a file. A cluster of one machine has the device that holds nothing; elsewhere a node's path is
    /// often forbidden, and an object with one empty entry does the same.
    fn mask(&mut self, path: &AbsPath) -> Result<(), PodError> {
        let (kind, part) = match self.files {
            FilesFrom::Node => (PodVolumeKind::Node { path: "/dev/null".to_owned(), kind: NodeKind::Null }, None),
            FilesFrom::Claim(_) => (PodVolumeKind::EmptyFile, Some(EMPTY_FILE.to_owned())),
        };
        self.add(DENIED_FILE, kind);
        self.mount(path, DENIED_FILE, part, MountAccess::ReadOnly)
    }
}
