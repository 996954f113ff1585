//! The image that holds nothing: the directories that every container needs and the links that lead to the host's programs.
//!
//! It is made from the view's own links, so its content, and with it its name, is the same for every session on a host.

use std::io::Write as _;
use std::process::{Command, Stdio};

use ringfence_plan::{Engine, MountOp};
use ringfence_surface::{AbsPath, Shown};
use sha2::{Digest as _, Sha256};

use super::contained::NoContainer;
use super::engine::EngineHere;

/// What a policy calls it.
pub const HOST: &str = "host";

/// What the image is called, but for its version.
const NAME: &str = "localhost/ringfence-host";

/// Directories that there must be for an engine to mount on, and their modes. A memory file system takes the mode of what it is
/// mounted on.
const DIRECTORIES: [(&str, u32); 9] = [
    ("dev/", 0o755),
    ("etc/", 0o755),
    ("proc/", 0o555),
    ("run/", 0o755),
    ("sys/", 0o555),
    ("tmp/", 0o1777),
    ("usr/", 0o755),
    ("var/", 0o755),
    ("var/tmp/", 0o1777),
];

/// The image of a view: its name, and what it is made of.
struct Image {
    name: String,
    content: Vec<u8>,
}

impl Image {
    fn of(mounts: &[MountOp]) -> Self {
        let links = mounts.iter().filter_map(|op| match op {
            MountOp::Link { path, target } => Some((path, target)),
            _ => None,
        });
        let mut content = Vec::new();
        for (name, mode) in DIRECTORIES {
            content.extend(header(name.as_bytes(), mode, b'5', b"").into_iter().flatten());
        }
        for (path, target) in links.filter(|(path, _)| is_at_the_top(path)) {
            let name = path.as_bytes().strip_prefix(b"/").unwrap_or_default();
            content.extend(header(name, 0o777, b'2', target).into_iter().flatten());
        }
        // Two empty blocks end an archive.
        content.resize(content.len() + 1024, 0);
        let digest = Sha256::digest(&content);
        let version: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        Self { name: format!("{NAME}:{version}"), content }
    }
}

fn is_at_the_top(path: &AbsPath) -> bool {
    path.parent().is_some_and(|above| above.is_root())
}

/// One entry of an archive that has no content of its own; nothing where it does not fit.
fn header(name: &[u8], mode: u32, kind: u8, target: &[u8]) -> Option<[u8; 512]> {
    let mut block = [0; 512];
    let mut put =
        |at: usize, bytes: &[u8]| block.get_mut(at..at + bytes.len()).map(|place| place.copy_from_slice(bytes));
    if name.len() > 100 || target.len() > 100 {
        return None;
    }
    put(0, name)?;
    put(100, format!("{mode:07o}").as_bytes())?;
    put(108, b"0000000\x000000000\x00")?;
    put(124, b"00000000000\x0000000000000\x00")?;
    put(148, b"        ")?;
    put(156, &[kind])?;
    put(157, target)?;
    put(257, b"ustar\x0000root")?;
    put(297, b"root")?;
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\x00 ").as_bytes());
    Some(block)
}

/// What the image of a view is called.
pub(super) fn image_name(mounts: &[MountOp]) -> String {
    Image::of(mounts).name
}

/// Makes the image of a view, unless the engine has it, and says its name.
pub(super) fn host_image(here: &EngineHere, mounts: &[MountOp]) -> Result<String, NoContainer> {
    let image = Image::of(mounts);
    if here.ask(&["image", "inspect", "--format", "{{.Id}}", &image.name]).is_some() {
        return Ok(image.name);
    }
    let failed = |said: &[u8]| NoContainer::Image { said: Shown(said.trim_ascii()).to_string() };
    let mut import = Command::new(&here.program);
    import.arg("import").envs(here.variables.iter().cloned());
    if here.facts.engine == Engine::Podman {
        import.arg("--quiet");
    }
    import.args(["-", &image.name]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = import.spawn().map_err(|source| failed(source.to_string().as_bytes()))?;
    if let Some(mut input) = child.stdin.take() {
        // An engine that does not listen says so by its end.
        let _ = input.write_all(&image.content);
    }
    let output = child.wait_with_output().map_err(|source| failed(source.to_string().as_bytes()))?;
    if output.status.success() { Ok(image.name) } else { Err(failed(&output.stderr)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(path: &str, target: &str) -> MountOp {
        MountOp::Link { path: AbsPath::lexical(path.as_bytes()).unwrap(), target: target.into() }
    }

    /// The same links, the same image; another link, another.
    #[test]
    fn a_view_has_one_image() {
        let (one, same) = (Image::of(&[link("/bin", "usr/bin")]), Image::of(&[link("/bin", "usr/bin")]));
        assert_eq!((&one.name, &one.content), (&same.name, &same.content));
        assert_ne!(one.name, Image::of(&[link("/bin", "usr/sbin")]).name);
        assert!(one.name.starts_with("localhost/ringfence-host:") && one.content.len() < 10 << 10);
        assert_eq!(one.content.len() % 512, 0);
    }
}
