//! The packages themselves. Each has the same program.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::archive::{Entry, Time, ar, base64, directories, gzip, sha256, tar, zip};
use super::{REPOSITORY, Release, said, write};
use crate::steps::Failure;
use sha2::{Digest as _, Sha256};

const SUMMARY: &str = "Decide which files and hosts a spawned coding agent may touch";

const DESCRIPTION: &str = "Name once what a coding agent may read, write and reach. Every layer between the agent and the machine then enforces exactly that: \
     namespaces, mounts, Landlock, seccomp, the agent's own hooks. A receipt says what holds.";

/// The program and its texts below one directory: what `install.sh`, `cargo binstall`, Homebrew and the AUR take.
pub(super) fn tarball(release: &Release) -> Entry {
    let name = release.name();
    let readme = Entry::file("README.md", release.readme.clone());
    let entries: Vec<Entry> =
        release.tree.iter().chain(&release.licenses).chain([&readme]).map(|entry| entry.below(&name)).collect();
    Entry::file(format!("{name}.tar.gz"), gzip(&tar(&entries, "", release.time)))
}

/// The tree below `usr`, with the papers that packages of distributions have.
fn system_tree(release: &Release) -> Vec<Entry> {
    let mut entries: Vec<Entry> = release.tree.iter().map(|entry| entry.below("usr")).collect();
    entries.push(Entry::file("usr/share/doc/ringfence/README.md", release.readme.clone()));
    let copyright: Vec<u8> = release.licenses.iter().flat_map(|entry| [&entry.bytes[..], b"\n"].concat()).collect();
    entries.push(Entry::file("usr/share/doc/ringfence/copyright", copyright));
    entries
}

/// A package for Debian and its descendants.
pub(super) fn deb(release: &Release) -> Result<Entry, Failure> {
    let mut entries = system_tree(release);
    for entry in &mut entries {
        // Debian keeps those of packages apart from the administrator's own.
        entry.path = entry.path.replace("zsh/site-functions", "zsh/vendor-completions");
    }
    let size =
        entries.iter().map(|entry| entry.bytes.len().div_ceil(1024)).sum::<usize>() + directories(&entries).len();
    let (version, architecture) = (&release.version, release.architecture.debian);
    let control = format!(
        "Package: ringfence\nVersion: {version}\nArchitecture: {architecture}\nSection: utils\nPriority: optional\n\
         Installed-Size: {size}\nMaintainer: The ringfence authors <ringfence@localhost>\nHomepage: {REPOSITORY}\n\
         Suggests: bubblewrap\nDescription: {SUMMARY}\n {DESCRIPTION}\n"
    );
    let script = |name: &str| Ok(Entry::program(name, release.recipe(&format!("debian/{name}"), &[])?));
    let control = [Entry::file("control", control), script("postinst")?, script("postrm")?];
    let control = gzip(&tar(&control, "./", release.time));
    let data = gzip(&tar(&entries, "./", release.time));
    let members = [("debian-binary", &b"2.0\n"[..]), ("control.tar.gz", &control), ("data.tar.gz", &data)];
    Ok(Entry::file(format!("ringfence_{version}_{architecture}.deb"), ar(&members, release.time)))
}

/// A package for Fedora, openSUSE and their descendants, made by `rpmbuild`; the reason where there is none.
pub(super) fn rpm(release: &Release) -> Result<Result<Entry, String>, Failure> {
    let has_builder = Command::new("rpmbuild").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !has_builder.is_ok_and(|status| status.success()) {
        return Ok(Err("rpmbuild is missing (Debian: the package `rpm`)".to_owned()));
    }
    let place = tempfile::tempdir().map_err(|cause| Failure::Found(format!("a directory for rpmbuild: {cause}")))?;
    let staged = place.path().join("staged");
    let entries = system_tree(release);
    entries.iter().try_for_each(|entry| write(&staged, entry))?;
    let mut files: Vec<String> = entries.iter().map(|entry| format!("/{}", entry.path)).collect();
    // Directories that no other package may have made. Those that others own too stay as long as something is in them.
    let shared = ["usr", "usr/bin", "usr/share", "usr/share/doc", "usr/share/man", "usr/share/man/man1"];
    let own = directories(&entries).into_iter().filter(|dir| !shared.contains(&dir.as_str()));
    files.extend(own.map(|dir| format!("%dir /{dir}")));
    files.sort();
    let spec = Entry::file("ringfence.spec", release.recipe("rpm/ringfence.spec", &[("FILES", &files.join("\n"))])?);
    write(place.path(), &spec)?;
    let Time(time) = release.time;
    let mut command = Command::new("rpmbuild");
    command.args(["-bb", "--quiet", "--target", release.architecture.rpm, "--buildroot"]).arg(&staged);
    for (name, value) in [
        ("_topdir", place.path().join("top").display().to_string().as_str()),
        ("_buildhost", "localhost"),
        ("use_source_date_epoch_as_buildtime", "1"),
        ("clamp_mtime_to_source_date_epoch", "1"),
        ("_binary_payload", "w6.gzdio"),
        ("__os_install_post", "%{nil}"),
        ("_build_id_links", "none"),
        ("debug_package", "%{nil}"),
    ] {
        command.arg("--define").arg(format!("{name} {value}"));
    }
    said(command.arg(place.path().join("ringfence.spec")).env("SOURCE_DATE_EPOCH", time.to_string()))?;
    let (version, architecture) = (&release.version, release.architecture.rpm);
    let name = format!("ringfence-{version}-1.{architecture}.rpm");
    let bytes = super::read(&place.path().join("top/RPMS").join(architecture).join(&name))?;
    Ok(Ok(Entry::file(name, bytes)))
}

/// The package `ringfence` of npm: a launcher, and one optional dependency for each platform.
pub(super) fn npm(release: &Release) -> Result<Entry, Failure> {
    let platforms = super::ARCHITECTURES.iter().map(|one| (platform(one.node), Value::from(release.version.as_str())));
    let manifest = json!({
        "name": "ringfence",
        "version": release.version,
        "description": SUMMARY,
        "license": "MIT OR Apache-2.0",
        "repository": { "type": "git", "url": format!("git+{REPOSITORY}.git") },
        "keywords": ["sandbox", "agent", "landlock", "seccomp"],
        "bin": { "ringfence": "bin/ringfence.js" },
        "engines": { "node": ">=18" },
        "optionalDependencies": platforms.collect::<serde_json::Map<_, _>>(),
    });
    let launcher = release.recipe("npm/ringfence.js", &[])?;
    let entries = [
        Entry::program("bin/ringfence.js", launcher),
        Entry::file("package.json", pretty(&manifest)),
        Entry::file("README.md", release.readme.clone()),
    ];
    Ok(npm_archive(release, format!("ringfence-{}.tgz", release.version), &entries))
}

/// The program, as npm installs it on this platform only. Nothing runs while it is installed.
pub(super) fn npm_platform(release: &Release) -> Entry {
    let node = release.architecture.node;
    let manifest = json!({
        "name": platform(node),
        "version": release.version,
        "description": format!("{SUMMARY}: the program for Linux on {node}"),
        "license": "MIT OR Apache-2.0",
        "repository": { "type": "git", "url": format!("git+{REPOSITORY}.git") },
        "os": ["linux"],
        "cpu": [node],
        "preferUnplugged": true,
    });
    let entries = [release.program().clone(), Entry::file("package.json", pretty(&manifest))];
    npm_archive(release, format!("ringfence-linux-{node}-{}.tgz", release.version), &entries)
}

fn platform(node: &str) -> String {
    format!("@ringfence/linux-{node}")
}

fn npm_archive(release: &Release, name: String, entries: &[Entry]) -> Entry {
    let entries: Vec<Entry> = entries.iter().chain(&release.licenses).map(|entry| entry.below("package")).collect();
    Entry::file(name, gzip(&tar(&entries, "", release.time)))
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// A wheel with the program, for `pipx run ringfence` and `uvx ringfence`.
pub(super) fn wheel(release: &Release) -> Result<Entry, Failure> {
    let (version, architecture) = (&release.version, release.architecture.rust);
    // A static program needs no C library at all, so it satisfies both.
    let platforms = [format!("manylinux_2_17_{architecture}"), format!("musllinux_1_1_{architecture}")];
    let tags: String = platforms.iter().map(|platform| format!("Tag: py3-none-{platform}\n")).collect();
    let info = format!("ringfence-{version}.dist-info");
    let readme = String::from_utf8(release.readme.clone());
    let readme = readme.map_err(|_| Failure::Found("README.md is not UTF-8".to_owned()))?;
    let metadata = format!(
        "Metadata-Version: 2.4\nName: ringfence\nVersion: {version}\nSummary: {SUMMARY}\nLicense-Expression: MIT OR Apache-2.0\n\
         License-File: LICENSE\nLicense-File: LICENSE-MIT\nLicense-File: LICENSE-APACHE\nProject-URL: Source, {REPOSITORY}\n\
         Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n{readme}"
    );
    let wheel = format!("Wheel-Version: 1.0\nGenerator: ringfence-xtask\nRoot-Is-Purelib: false\n{tags}");
    let program = Entry { path: format!("ringfence-{version}.data/scripts/ringfence"), ..release.program().clone() };
    let mut entries = vec![program];
    entries.extend(release.licenses.iter().map(|entry| entry.below(&format!("{info}/licenses"))));
    entries.push(Entry::file(format!("{info}/METADATA"), metadata));
    entries.push(Entry::file(format!("{info}/WHEEL"), wheel));
    let record = format!("{info}/RECORD");
    let sum = |entry: &Entry| {
        format!("{},sha256={},{}\n", entry.path, base64(&Sha256::digest(&entry.bytes)), entry.bytes.len())
    };
    let lines: String = entries.iter().map(sum).chain([format!("{record},,\n")]).collect();
    entries.push(Entry::file(record, lines));
    Ok(Entry::file(format!("ringfence-{version}-py3-none-{}.whl", platforms.join(".")), zip(&entries)))
}

/// An image with the program and nothing else, as an OCI layout in a tar archive.
pub(super) fn oci(release: &Release) -> Entry {
    let layer = tar(&[release.program().below("usr")], "", release.time);
    let packed = gzip(&layer);
    let config = json!({
        "architecture": release.architecture.oci,
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/ringfence"],
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Labels": {
                "org.opencontainers.image.source": REPOSITORY,
                "org.opencontainers.image.revision": release.commit,
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))] },
    });
    let config = pretty(&config).into_bytes();
    let blob = |kind: &str, bytes: &[u8]| {
        json!({
            "mediaType": format!("application/vnd.oci.image.{kind}"),
            "digest": format!("sha256:{}", sha256(bytes)),
            "size": bytes.len(),
        })
    };
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("config.v1+json", &config),
        "layers": [blob("layer.v1.tar+gzip", &packed)],
    });
    let manifest = pretty(&manifest).into_bytes();
    let mut described = blob("manifest.v1+json", &manifest);
    described["annotations"] = json!({ "org.opencontainers.image.ref.name": release.version });
    described["platform"] = json!({ "architecture": release.architecture.oci, "os": "linux" });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [described],
    });
    let mut entries: Vec<Entry> = [packed, config, manifest]
        .into_iter()
        .map(|bytes| Entry::file(format!("blobs/sha256/{}", sha256(&bytes)), bytes))
        .collect();
    entries.push(Entry::file("index.json", pretty(&index)));
    entries.push(Entry::file("oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}\n"));
    let (version, architecture) = (&release.version, release.architecture.oci);
    Entry::file(format!("ringfence-{version}-oci-{architecture}.tar"), tar(&entries, "", release.time))
}
