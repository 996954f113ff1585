//! The keys of SSH servers that the user knows, for those hosts that the policy names.
//!
//! Without them SSH asks whether a server is the right one, and where nobody can answer it refuses. No key of the user's goes
//! along: who needs one names the socket of an agent.

use std::io;

use ringfence_egress::known_hosts;
use ringfence_surface::Look;
use ringfence_surface::curated::packs::Base;

use super::{Ground, put};
use crate::beneath::Dir;

/// As SSH has it below every home.
const KNOWN_HOSTS: &str = ".ssh/known_hosts";

/// Writes the file, where anything can be in it.
pub(super) fn furnish(ground: &Ground<'_>, home: &Dir, look: &mut dyn Look) -> io::Result<()> {
    let hosts: Vec<_> = ground.surface.reach().hosts.iter().map(|entry| entry.value.clone()).collect();
    if !known_hosts::is_wanted(&hosts) {
        return Ok(());
    }
    let path = ground.base(Base::Home).map(|home| home.join(KNOWN_HOSTS));
    let Some((_, text)) = path.and_then(|path| ground.read(&path, look)) else { return Ok(()) };
    put(home, KNOWN_HOSTS.as_bytes(), &known_hosts::only(&text, &hosts))
}
