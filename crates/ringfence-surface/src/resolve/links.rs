//! A grant must not go where an agent's own symbolic link leads.
//!
//! `read = ["docs"]` is written once and resolved at every start. An agent that may write in the project could replace
//! `docs` by a link to somebody's home directory and wait for the next session. So a grant that is reached through a link
//! inside the project counts only if its target is covered by other grants anyway. What a session has of its own (`/tmp`)
//! covers nothing of the host's. The same holds for a link in a place that an earlier session could write, although this one
//! cannot, and for what is named on the command line.

use std::collections::BTreeSet;

use super::grants::Grant;
use super::{Cx, covering};
use crate::path::AbsPath;
use crate::report::Dropped;
use crate::surface::{Effect, Role};

impl Cx<'_> {
    pub(super) fn without_planted_links(&mut self, root: &AbsPath, grants: Vec<Grant>) -> Vec<Grant> {
        let is_private =
            |grant: &Grant| matches!(grant.effect, Effect::Write(Role::Private) | Effect::Read(Role::Private));
        let direct = || grants.iter().filter(|grant| grant.links.is_empty() && !is_private(grant));
        let writes = || direct().filter(|grant| matches!(grant.effect, Effect::Write(_)));
        let writable = covering(writes().map(|grant| &grant.pattern));
        let readable = covering(direct().map(|grant| &grant.pattern));
        // A link stays when the session that made it has ended and the policy has become narrower since.
        let was_writable: Vec<AbsPath> = {
            let links: BTreeSet<&AbsPath> = grants.iter().flat_map(|grant| &grant.links).collect();
            links.into_iter().filter(|link| self.look.was_writable(link)).cloned().collect()
        };
        let could_be_made =
            |link: &AbsPath| link.is_within(root) || !writable.hits(link).is_empty() || was_writable.contains(link);
        let is_planted = |grant: &Grant| {
            let link = grant.links.iter().find(|link| could_be_made(link))?;
            let base = grant.pattern.base()?;
            let otherwise = if matches!(grant.effect, Effect::Write(_)) { &writable } else { &readable };
            (otherwise.hits(base).is_empty()).then(|| (link.clone(), base.clone()))
        };
        let mut kept = Vec::with_capacity(grants.len());
        let mut planted = Vec::new();
        for grant in &grants {
            match is_planted(grant) {
                Some(way) if grant.source.is_written() => planted.push((grant.clone(), way)),
                _ => kept.push(grant.clone()),
            }
        }
        for (grant, (link, target)) in planted {
            self.omit(grant.text, grant.source, Dropped::PlantedLink { link, target });
        }
        kept
    }
}
