//! How an agent runs in a container, as the files say it.

use super::grants::Grant;
use super::{Cx, Layer, Level, Trust, source_of};
use crate::agent::{ContainerChoice, ContainerMountChoice};
use crate::path::AbsPath;
use crate::policy::{Container, ContainerMount, MountMode, SurfaceMode};
use crate::report::Dropped;
use crate::source::Source;
use crate::surface::{Effect, Sourced};

impl Cx<'_> {
    /// The image and the mounts of the last trusted file that says any. `exclusive` counts from every file: whoever forbids
    /// further mounts is not overruled by one who lists some.
    pub(super) fn container_choice(&mut self, name: &str, grants: &[Grant]) -> ContainerChoice {
        let layers = self.inputs.layers.iter().rev();
        let said: Vec<(&Container, &Layer)> = layers
            .filter_map(|layer| Some((layer.file.agent.as_ref()?.get(name)?.container.as_ref()?, layer)))
            .collect();
        let is_trusted = |layer: &Layer| layer.level != Level::Project(Trust::Untrusted);
        for (container, _) in said.iter().filter(|(_, layer)| !is_trusted(layer)) {
            let image = container.image.as_ref().map(|image| ("image", source_of(image)));
            let mounts = container.mounts.iter().flatten().map(|mount| ("mounts", source_of(&mount.src)));
            let dropped: Vec<_> = image.into_iter().chain(mounts).collect();
            for (what, source) in dropped {
                self.omit(format!("agent.{name}.container {what}"), source, Dropped::Untrusted);
            }
        }
        let trusted = || said.iter().filter(|(_, layer)| is_trusted(layer));
        let image = trusted().find_map(|(container, _)| container.image.as_ref());
        let image = image.map(|image| Sourced { value: image.value.clone(), source: source_of(image) });
        let listed = trusted().find_map(|(container, layer)| Some((container.mounts.as_ref()?, *layer)));
        let modes = said.iter().filter_map(|(container, _)| container.surface_mode.as_ref());
        let surface_mode = match modes.into_iter().find(|mode| mode.value == SurfaceMode::Exclusive) {
            Some(mode) => Sourced { value: SurfaceMode::Exclusive, source: source_of(mode) },
            None => {
                let source = Source::Default { reason: "mounts are added, and the surface wins where they differ" };
                Sourced { value: SurfaceMode::Additive, source }
            }
        };
        let mut mounts = Vec::new();
        for (mount, layer) in listed.into_iter().flat_map(|(list, layer)| list.iter().map(move |one| (one, layer))) {
            match self.container_mount(mount, layer, grants) {
                Ok(mount) => mounts.push(mount),
                Err(why) => self.omit(mount.src.value.0.text(), source_of(&mount.src), why),
            }
        }
        ContainerChoice { image, mounts, surface_mode }
    }

    fn container_mount(
        &mut self,
        mount: &ContainerMount,
        layer: &Layer,
        grants: &[Grant],
    ) -> Result<ContainerMountChoice, Dropped> {
        let dir = layer.path.parent().unwrap_or_else(AbsPath::root);
        let found = self.place(&mount.src.value.0, &dir)?;
        let is_writable = |link: &AbsPath| {
            let writes = grants.iter().filter(|grant| matches!(grant.effect, Effect::Write(_)));
            writes.filter_map(|grant| grant.pattern.as_path()).any(|root| link.is_within(root))
        };
        if let Some(link) = found.links.iter().find(|link| is_writable(link)) {
            return Err(Dropped::PlantedLink { link: link.clone(), target: found.path });
        }
        // What is in the container is another's: no link of the host's is followed for it.
        let split = mount.dst.value.0.split(&self.facts.environment)?;
        let destination = match split.literal.first() {
            Some(b'/') => AbsPath::lexical(&split.literal)?,
            _ => AbsPath::lexical(&[dir.as_bytes(), b"/", &split.literal].concat())?,
        };
        Ok(ContainerMountChoice {
            source: found.path,
            destination,
            mode: mount.mode.as_ref().map_or(MountMode::ReadOnly, |mode| mode.value),
            written: source_of(&mount.src),
        })
    }
}
