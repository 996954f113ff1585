//! A container as an engine's arguments, in one order.

use ringfence_surface::AbsPath;

use super::{
    Bound, ContainerError, ContainerOrder, Engine, EngineRights, First, Labels, Limited, Material, NewerAddresses,
    Recursive,
};
use crate::mounts::MountAccess;

/// What is found by it belongs to a session of ringfence's.
pub const LABEL: &str = "ringfence.session";

/// How many processes there are at most where the policy says nothing: a bomb ends here.
const MOST_PROCESSES: u32 = 4096;

/// What tells a loader to begin with other libraries.
const LOADERS: [&str; 4] = ["GLIBC_TUNABLES", "LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD"];

pub(super) fn words(order: &ContainerOrder<'_>, bound: &[Bound]) -> Result<Vec<Vec<u8>>, ContainerError> {
    let mut words = Words(Vec::new());
    let facts = &order.facts;
    // What is not there is not fetched: that would be a way out.
    words.all(&["run", "--rm", "--pull", "never"]);
    // What an image names for it would be started by the engine again and again, beside our first process and outside its walls.
    words.all(&["--no-healthcheck"]);
    if let Some(label) = order.label {
        words.all(&["--label", &format!("{LABEL}={label}")]);
    }
    words.all(&["--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]);
    if facts.labels == Labels::Enforced {
        words.all(&["--security-opt", "label=disable"]);
    }
    if matches!(order.first, First::Ourselves(_)) {
        // Ours is tighter, is the same in every fence, and lets the first process put up Landlock.
        words.all(&["--security-opt", "seccomp=unconfined"]);
        // Nothing of the image's is loaded into it: it looks around before anything of the image's may run.
        for name in LOADERS {
            words.all(&["--env", &format!("{name}=")]);
        }
        // Names are asked for at port 53 of the container's own loopback.
        words.all(&["--sysctl", "net.ipv4.ip_unprivileged_port_start=0"]);
        if (facts.engine, facts.newer) == (Engine::Docker, NewerAddresses::Had) {
            // It switches them off, and programs find `localhost` by both kinds.
            words.all(&["--sysctl", "net.ipv6.conf.lo.disable_ipv6=0"]);
        }
    }
    let (uid, gid) = order.user;
    match facts.rights {
        EngineRights::Root => words.all(&["--user", &format!("{uid}:{gid}")]),
        EngineRights::User => words.all(&["--userns", "keep-id", "--user", &format!("{uid}:{gid}")]),
        EngineRights::UserAlone => words.all(&["--user", "0:0"]),
    }
    words.all(&["--ipc", "private", "--log-driver", "none"]);
    if facts.engine == Engine::Podman {
        // Only what is mounted can be written, and the lists of users are those that are mounted.
        words.all(&["--read-only-tmpfs=false", "--passwd=false"]);
    }
    if let Some(name) = order.hostname {
        words.all(&["--hostname", name]);
    }
    if let (Some(bytes), Limited::Can) = (order.memory, facts.limits.memory) {
        let bytes = bytes.to_string();
        // As much with swap as without: there is none.
        words.all(&["--memory", &bytes, "--memory-swap", &bytes]);
    }
    if facts.limits.pids == Limited::Can {
        words.all(&["--pids-limit", &order.pids.unwrap_or(MOST_PROCESSES).to_string()]);
    }
    if let Some(workdir) = order.workdir {
        words.all(&["--workdir"]);
        words.0.push(sayable(workdir)?.as_bytes().to_vec());
    }
    for one in bound {
        words.all(&["--mount"]);
        words.0.push(mount(one, order)?);
    }
    match order.first {
        First::Ourselves(own) => {
            let (program, rest) = own.split_first().map_or((&[][..], &[][..]), |(one, rest)| (one.as_slice(), rest));
            // Settings of the engine's may put one of theirs before it.
            words.all(&["--init=false", "--entrypoint"]);
            words.0.push(program.to_vec());
            words.all(&[order.image]);
            words.0.extend_from_slice(rest);
        }
        First::Engines(command) => {
            words.all(&["--init", order.image]);
            words.0.extend_from_slice(command);
        }
    }
    Ok(words.0)
}

struct Words(Vec<Vec<u8>>);

impl Words {
    fn all(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(|word| word.as_bytes().to_vec()));
    }
}

/// One mount as the fields of a line.
fn mount(bound: &Bound, order: &ContainerOrder<'_>) -> Result<Vec<u8>, ContainerError> {
    let facts = &order.facts;
    let destination = format!("dst={}", sayable(&bound.destination)?);
    let fields = match &bound.material {
        Material::Host { source, access } => {
            let mut fields = vec!["type=bind".to_owned(), format!("src={}", sayable(source)?), destination];
            match (access, facts.recursive) {
                (MountAccess::ReadWrite, _) => {}
                (MountAccess::ReadOnly, Recursive::No) => fields.push("readonly".to_owned()),
                (MountAccess::ReadOnly, Recursive::Asked) => {
                    // It is refused where what is mounted below could come and go.
                    let words = ["readonly", "bind-recursive=readonly", "bind-propagation=rprivate"];
                    fields.extend(words.map(str::to_owned));
                }
            }
            fields
        }
        Material::Memory { mode } => {
            let mut fields = vec!["type=tmpfs".to_owned(), destination, format!("tmpfs-mode={mode:04o}")];
            if facts.engine == Engine::Podman {
                // It would fill the directory with what the image has there.
                fields.push("notmpcopyup".to_owned());
            }
            fields
        }
    };
    Ok(fields.iter().map(|field| quoted(field)).collect::<Vec<_>>().join(",").into_bytes())
}

/// A field as a reader of comma-separated values takes it.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', ' ']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.to_owned() }
}

fn sayable(path: &AbsPath) -> Result<&str, ContainerError> {
    let text = std::str::from_utf8(path.as_bytes()).map_err(|_| ContainerError::NotUtf8 { path: path.clone() })?;
    if text.contains('\r') { Err(ContainerError::Lost { path: path.clone() }) } else { Ok(text) }
}
