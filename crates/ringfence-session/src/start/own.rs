//! Files of the system that a session has its own of.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;

use ringfence_egress::pool::Addresses;
use ringfence_plan::MountOp;
use ringfence_surface::{AbsPath, Access, Effect, HostTarget, Look, PathFact, Role, Rule, Surface, follow};
use rustix::fs::Mode;

use super::{Order, PrepareError};
use crate::account;
use crate::environment;
use crate::launch::Identity;
use crate::script::OwnText;
use crate::store::Held;
use crate::walk::os_path;

/// Names that the host's own file has would be dialled by their real address, which leads nowhere inside. All names are asked
/// for, and the host's file is read outside.
const HOSTS: &str = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n";

/// The machine's own name, which many programs look up without meaning to reach anybody. A host that the policy names is asked
/// for like any other.
fn own_name(surface: &Surface) -> String {
    let system = rustix::system::uname();
    let Some(target) = system.nodename().to_str().ok().and_then(|name| HostTarget::new(name, 1).ok()) else {
        return String::new();
    };
    let is_listed = surface.reach().hosts.iter().any(|entry| entry.value.matches_host(&target));
    match (target.name(), target.name().split_once('.')) {
        _ if is_listed || target.address().is_some() => String::new(),
        (name, Some((short, _))) => format!("127.0.1.1 {name} {short}\n"),
        (name, None) => format!("127.0.1.1 {name}\n"),
    }
}

/// Files of the system that the session has its own of.
pub(super) fn own_texts(order: &Order<'_>, identity: Identity, look: &mut dyn Look) -> io::Result<Vec<OwnText>> {
    let (Identity::Caller { uid, gid } | Identity::Other { uid, gid }) = identity;
    let mut texts = Vec::new();
    let hosts = AbsPath::root().join("etc/hosts");
    if look.path(&hosts) == PathFact::File {
        let content = [HOSTS.as_bytes(), own_name(order.surface).as_bytes()].concat();
        texts.push(OwnText { path: hosts, name: "hosts", content });
    }
    if order.rung.engine().is_some() {
        // Where it is a link, an engine mounts where that leads.
        let named = AbsPath::root().join("etc/resolv.conf");
        let resolver = follow(&AbsPath::root(), named.as_bytes(), look).map_or(named, |found| found.path);
        let content = format!("nameserver {}\n", Addresses::Loopback.resolver()).into_bytes();
        texts.push(OwnText { path: resolver, name: "resolv.conf", content });
    }
    let accounts = account::list();
    let is_shown = order.surface.decide(&accounts, Access::Read).is_allowed();
    if is_shown && look.path(&accounts) == PathFact::File {
        let home = environment::home(order.session.dir(), look);
        if let Some(content) = account::own_list(&fs::read(os_path(&accounts))?, (uid, gid), &home) {
            texts.push(OwnText { path: accounts, name: "passwd", content });
        }
    }
    Ok(texts)
}

/// What root gives to whoever works are caches of ringfence's own. Where they lie in somebody else's home, a link of theirs could lead
/// to any directory: root follows only its own.
pub(super) fn caches(order: &Order<'_>, identity: Identity) -> Result<(), PrepareError> {
    let is_cache = |rule: &&Rule| rule.effect == Effect::Write(Role::Cache);
    let mut paths = order.surface.rules().iter().filter(is_cache).filter_map(|rule| rule.pattern.as_path()).peekable();
    let named = order.facts.project_cache(order.surface.root());
    let (Some(named), Identity::Other { .. }, Some(_)) = (named, identity, paths.peek()) else { return Ok(()) };
    let failed = |source| PrepareError::Directory { path: named.clone(), source };
    let real = Held::open(&named, Some(Mode::RWXU)).and_then(|held| held.real()).map_err(failed)?;
    match paths.find(|path| !path.is_within(&real)) {
        Some(path) => Err(failed(io::Error::other(format!("a link in it leads to {path}")))),
        None => Ok(()),
    }
}

/// As files of the session, for a view that somebody else makes.
pub(super) fn write_texts(session: &AbsPath, texts: impl Iterator<Item = OwnText>) -> io::Result<Vec<MountOp>> {
    let write = |OwnText { path, name, content }| {
        let file = session.join(name);
        fs::write(os_path(&file), content)?;
        fs::set_permissions(os_path(&file), fs::Permissions::from_mode(0o644))?;
        Ok(MountOp::Own { path, name: name.to_owned() })
    };
    texts.map(write).collect()
}
