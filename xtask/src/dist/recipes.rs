//! What other programs build or install a release with: `install.sh`, a formula, a PKGBUILD, an action, a feature.

use super::archive::{Entry, gzip, tar};
use super::{Release, read};
use crate::steps::Failure;

/// Environment variables with the public keys that `install.sh` verifies signatures with. They are no secret; a release that is not
/// signed has none.
const SSH_SIGNER: &str = "RINGFENCE_SSH_SIGNER";
const MINISIGN_KEY: &str = "RINGFENCE_MINISIGN_KEY";

pub(super) fn installer(release: &Release) -> Result<Entry, Failure> {
    let key = |name: &str| {
        let key = std::env::var(name).unwrap_or_default();
        // It becomes a part of a script, within single quotes.
        match key.contains(['\'', '\n', '\\']) {
            true => Err(Failure::Found(format!("{name} is not one line of a public key"))),
            false => Ok(key),
        }
    };
    let keys = [("SSH_SIGNER", key(SSH_SIGNER)?), ("MINISIGN_KEY", key(MINISIGN_KEY)?)];
    let keys = keys.each_ref().map(|(name, value)| (*name, value.as_str()));
    Ok(Entry::program("install.sh", release.recipe("install.sh", &keys)?))
}

pub(super) fn homebrew(release: &Release, tarball: &str, sum: &str) -> Result<Entry, Failure> {
    let more = [("TARBALL", tarball), ("SHA256", sum), ("BREW_ARCH", release.architecture.homebrew)];
    Ok(Entry::file("ringfence.rb", release.recipe("homebrew/ringfence.rb", &more)?))
}

pub(super) fn aur(release: &Release, tarball: &str, sum: &str) -> Result<Entry, Failure> {
    Ok(Entry::file("PKGBUILD", release.recipe("aur/PKGBUILD", &[("TARBALL", tarball), ("SHA256", sum)])?))
}

/// The repository of the action: `uses: ringfence/ringfence-action`.
pub(super) fn action(release: &Release) -> Result<Entry, Failure> {
    let name = format!("ringfence-action-{}", release.version);
    let action = read(&release.root.join("packaging/action/action.yml"))?;
    let entries = [Entry::file("action.yml", action), installer(release)?].map(|entry| entry.below(&name));
    Ok(Entry::file(format!("{name}.tar.gz"), gzip(&tar(&entries, "", release.time))))
}

/// A feature for development containers, as its registry keeps it.
pub(super) fn devcontainer(release: &Release) -> Result<Entry, Failure> {
    let recipe = |name: &str| release.recipe(&format!("devcontainer/{name}"), &[]);
    let entries = [
        Entry::file("devcontainer-feature.json", recipe("devcontainer-feature.json")?),
        Entry::program("install.sh", recipe("install.sh")?),
        Entry { path: "ringfence-install.sh".to_owned(), ..installer(release)? },
    ];
    Ok(Entry::file("devcontainer-feature-ringfence.tgz", gzip(&tar(&entries, "", release.time))))
}
