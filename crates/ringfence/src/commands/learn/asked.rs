//! What was looked for inside, as what is there on the host.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;

use ringfence_session::learned::{Act, Learned, Seen};
use ringfence_surface::AbsPath;
use ringfence_surface::learn::{Asked, Thing, Want};

use super::Lesson;
use crate::host::os_path;

/// Adds what a run has shown. What is not there on the host either was not denied.
pub(super) fn merge(lesson: &mut Lesson<'_>, learned: &Learned) {
    let mut of_this_run: BTreeMap<Want, Asked> = BTreeMap::new();
    for seen in &learned.seen {
        if let (Some(why), Some(host)) = (&seen.why, &seen.host) {
            lesson.stopped.insert(host.clone(), why.clone());
            continue;
        }
        for want in wants(seen, lesson) {
            let one = of_this_run.entry(want.clone()).or_insert(Asked { want, programs: BTreeMap::new(), times: 0 });
            one.times += seen.times;
            for (program, times) in &seen.programs {
                *one.programs.entry(program.clone()).or_insert(0) += times;
            }
        }
    }
    // How often it is asked for in one run, and not in all of them together.
    let mut all: BTreeMap<Want, Asked> = lesson.asked.drain(..).map(|asked| (asked.want.clone(), asked)).collect();
    for (want, one) in of_this_run {
        match all.get_mut(&want) {
            None => {
                all.insert(want, one);
            }
            Some(known) => {
                known.times = known.times.max(one.times);
                for (program, times) in one.programs {
                    let known = known.programs.entry(program).or_insert(0);
                    *known = times.max(*known);
                }
            }
        }
    }
    // A name that leads where none may is no better for a line.
    let leads_nowhere = |name: &str| lesson.stopped.keys().any(|host| host_name(host) == name);
    all.retain(|want, _| !matches!(want, Want::Host { name, .. } if leads_nowhere(name)));
    lesson.asked = all.into_values().collect();
}

fn wants(seen: &Seen, lesson: &mut Lesson<'_>) -> Vec<Want> {
    if let Some(host) = &seen.host {
        return host_of(host).into_iter().collect();
    }
    let Some(path) = seen.path.as_ref().and_then(ringfence_session::text::Bytes::path) else { return Vec::new() };
    match seen.act {
        Act::Read | Act::Look => read(&path, seen.act, lesson),
        Act::Write | Act::Make => write(path, seen.act).into_iter().collect(),
        Act::Connect => {
            let Some(real) = real(&path) else { return Vec::new() };
            let is_socket = fs::metadata(os_path(&real)).is_ok_and(|metadata| metadata.file_type().is_socket());
            if is_socket { vec![Want::Socket { path: real }] } else { Vec::new() }
        }
        Act::Reach => Vec::new(),
    }
}

fn read(path: &AbsPath, act: Act, lesson: &mut Lesson<'_>) -> Vec<Want> {
    let Some(real) = real(path) else { return Vec::new() };
    let Ok(metadata) = fs::metadata(os_path(&real)) else { return Vec::new() };
    let thing = if metadata.is_dir() { Thing::Directory } else { Thing::File };
    if metadata.file_type().is_socket() {
        return Vec::new();
    }
    if act == Act::Look && thing == Thing::Directory {
        // Whether a directory is there shows nothing of what is in it, and a line for it would open all of that.
        lesson.looked.insert(real);
        return Vec::new();
    }
    let mut wants = vec![Want::Read { path: real.clone(), thing }];
    if real != *path
        && let Some(dir) = first_link(path).and_then(|link| link.parent())
    {
        // A link is shown with the directory that it is in.
        wants.push(Want::Read { path: dir, thing: Thing::Directory });
    }
    wants
}

fn write(path: AbsPath, act: Act) -> Option<Want> {
    if act == Act::Write
        && let Some(real) = real(&path)
    {
        let thing = if os_path(&real).is_dir() { Thing::Directory } else { Thing::File };
        return Some(Want::Write { path: real.clone(), place: real, thing });
    }
    // A name is made in a directory; that, or the nearest above that is there, can be named.
    let (above, dir) = path.ancestors().skip(1).find_map(|above| Some((above.clone(), real(&above)?)))?;
    let below = path.components().skip(above.components().count());
    let path = below.fold(dir.clone(), |path, name| path.child(name));
    os_path(&dir).is_dir().then_some(Want::Write { path, place: dir, thing: Thing::Directory })
}

fn host_name(host: &str) -> &str {
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

/// `host`, `host:port` or `address:port`.
fn host_of(text: &str) -> Option<Want> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(Want::Host { name: address.ip().to_string(), port: Some(address.port()) });
    }
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => (name, Some(port.parse().ok()?)),
        None => (text, None),
    };
    // A service of the host's own is reached by its port, and by nothing that was refused.
    (name != "localhost" && !name.is_empty()).then(|| Want::Host { name: name.to_owned(), port })
}

fn real(path: &AbsPath) -> Option<AbsPath> {
    AbsPath::lexical(fs::canonicalize(os_path(path)).ok()?.as_os_str().as_bytes()).ok()
}

fn first_link(path: &AbsPath) -> Option<AbsPath> {
    let mut above: Vec<AbsPath> = path.ancestors().collect();
    above.reverse();
    above.into_iter().find(|path| fs::symlink_metadata(os_path(path)).is_ok_and(|metadata| metadata.is_symlink()))
}
