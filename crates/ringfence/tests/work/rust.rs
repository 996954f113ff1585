//! Rust: cargo and rustup, with the toolchain in the user's home and a crate in the user's own cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence_testkit::report_skip;
use sha2::{Digest as _, Sha256};

use crate::desk::{Desk, each, open};
use crate::served::Served;
use crate::table::{BY_HASH, RUST};

/// The toolchain that runs this test, put into the user's home as rustup lays it out. Where that is possible its files
/// get another name; elsewhere they are copied.
fn toolchain(desk: &Desk) -> PathBuf {
    let cargo = PathBuf::from(std::env::var_os("CARGO").expect("cargo runs the tests"));
    let rustc = cargo.with_file_name("rustc");
    let sysroot = Command::new(&rustc).args(["--print", "sysroot"]).output().unwrap().stdout;
    let sysroot = PathBuf::from(String::from_utf8(sysroot).unwrap().trim());
    let version = Command::new(&rustc).arg("-vV").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let inner = desk.home(".rustup/toolchains/mine");
    for part in ["bin", "lib", "libexec"] {
        take(&sysroot.join(part), &inner.join(part), &|path| {
            // Other targets, documentation and debuggers are not needed.
            !path.parent().is_some_and(|above| above.ends_with("rustlib"))
                || path.ends_with(host)
                || path.ends_with("etc")
        });
    }
    desk.write_home(".rustup/settings.toml", "version = \"12\"\ndefault_toolchain = \"mine\"\n");
    let Some(rustup) = rustup() else {
        report_skip("rustup's proxies: there is no rustup");
        return inner.join("bin");
    };
    let bin = desk.home(".cargo/bin");
    fs::create_dir_all(&bin).unwrap();
    take_file(&rustup, &bin.join("rustup"));
    for name in ["cargo", "cargo-fmt", "rustc", "rustdoc", "rustfmt"] {
        std::os::unix::fs::symlink("rustup", bin.join(name)).unwrap();
    }
    desk.hand_over();
    bin
}

/// The user has a toolchain, and finds it.
pub(crate) fn with_toolchain(desk: Desk) -> Desk {
    let bin = toolchain(&desk);
    desk.searching(&bin)
}

fn rustup() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|dir| dir.join("rustup")).find(|path| path.is_file())?;
    fs::canonicalize(found).ok()
}

fn take(from: &Path, into: &Path, wanted: &dyn Fn(&Path) -> bool) {
    let Ok(entries) = fs::read_dir(from) else { return };
    fs::create_dir_all(into).unwrap();
    open(into);
    for entry in entries.map(Result::unwrap).filter(|entry| wanted(&entry.path())) {
        let (source, target) = (entry.path(), into.join(entry.file_name()));
        if source.is_dir() {
            take(&source, &target, wanted);
        } else {
            take_file(&source, &target);
        }
    }
}

/// By `cp`: a process that another test forks while we hold a program open for writing would keep it from being run.
fn take_file(from: &Path, into: &Path) {
    if fs::hard_link(from, into).is_err() {
        assert!(Command::new("cp").arg(from).arg(into).status().unwrap().success());
    }
}

/// A crate that a registry serves, and a build of the user's that has put it into the user's cache.
fn dependency(desk: &Desk, served: &Served) {
    let source = desk.home("source");
    desk.write_home(
        "source/tiny-1.0.0/Cargo.toml",
        "[package]\nname = \"tiny\"\nversion = \"1.0.0\"\nedition = \"2021\"\n",
    );
    desk.write_home("source/tiny-1.0.0/src/lib.rs", "pub fn seven() -> u32 {\n    7\n}\n");
    let tar = Command::new("tar").args(["-czf", "tiny.crate", "tiny-1.0.0"]).current_dir(&source).status().unwrap();
    assert!(tar.success());
    let archive = fs::read(source.join("tiny.crate")).unwrap();
    let hash: String = Sha256::digest(&archive).iter().map(|byte| format!("{byte:02x}")).collect();
    served.put("/config.json", format!("{{\"dl\": \"{}/{{crate}}-{{version}}.crate\"}}", served.url()));
    let line = format!(
        "{{\"name\":\"tiny\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"{hash}\",\"features\":{{}},\"yanked\":false}}\n"
    );
    served.put("/ti/ny/tiny", line);
    served.put("/tiny-1.0.0.crate", archive);
}

/// M1: in a root of its own too.
#[test]
fn a_workspace_is_built_tested_and_run() {
    each(&RUST, |desk| {
        let served = Served::start();
        dependency(&desk, &served);
        desk.write(
            "Cargo.toml",
            "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
             [dependencies]\npart = { path = \"part\" }\n\
             tiny = { version = \"1\", registry = \"mine\" }\n[workspace]\nmembers = [\"part\"]\n",
        );
        desk.write("part/Cargo.toml", "[package]\nname = \"part\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
        desk.write(
            "part/src/lib.rs",
            "pub fn one() -> u32 {\n    1\n}\n\n#[test]\nfn is_one() {\n    assert_eq!(one(), 1);\n}\n",
        );
        desk.write("src/main.rs", "fn main() {\nprintln!(\"{}\", part::one() + tiny::seven());\n}\n");
        desk.write(".cargo/config.toml", &format!("[registries.mine]\nindex = \"sparse+{}/\"\n", served.url()));
        desk.write_home(
            ".cargo/config.toml",
            "[build]\nrustc-wrapper = \"no-such-wrapper\"\n[alias]\nlook = \"tree\"\n[registry]\ntoken = \
             \"SECRET\"\n",
        );
        desk.write_home(".cargo/credentials.toml", "[registries.mine]\ntoken = \"SECRET\"\n");
        desk.prepare("cargo --config build.rustc-wrapper=\"''\" fetch -q");
        // The registry is out of reach from here on: the network inside is closed.
        let is_proxied = desk.home(".cargo/bin/rustup").exists() || desk.is_in_a_root();
        desk.works(&[
            ("the compiler is found where the user has it", "cargo --version && rustc -vV > /dev/null"),
            (
                "rustup's proxies find the toolchain",
                if is_proxied { "rustup show active-toolchain | grep -q mine" } else { "true" },
            ),
            ("a workspace builds, with a crate that the user has already", "cargo build -q --offline --locked"),
            ("what it built runs", "test \"$(cargo run -q --offline)\" = 8"),
            ("tests run", "cargo test -q --offline --workspace | grep -q '1 passed'"),
            ("an unformatted file is formatted", "! cargo fmt --check > /dev/null && cargo fmt && cargo fmt --check"),
            (
                "nothing is built twice",
                "touch marker && cargo build -q --offline && cargo build --offline 2>&1 | grep -q Finished",
            ),
            ("documentation is made", "cargo doc -q --offline --no-deps -p part && test -e target/doc/part/index.html"),
            (
                "a package is added to the workspace",
                "cargo new -q --vcs none --offline other && cargo build -q --offline -p other",
            ),
            (
                "and one that has no word of repositories",
                "cargo new -q --offline fresh && test ! -e fresh/.git && cargo build -q --offline -p fresh",
            ),
            ("an alias of the user's own settings works", "cargo look --offline | grep -q tiny"),
            (
                "the toolchain cannot be changed",
                "! touch \"$(rustc --print sysroot)/lib/x\" 2> /dev/null && \
                 ! touch \"$RUSTUP_HOME/x\" 2> /dev/null && \
                 ! touch \"$(dirname \"$(command -v cargo)\")/x\" 2> /dev/null",
            ),
            (
                "what cargo keeps is the project's own, and no password is in it",
                "test -e \"$CARGO_HOME/registry\" && ! grep -rq SECRET \"$CARGO_HOME\" \"$HOME\"",
            ),
        ]);
    });
}

/// A lock file without the right hash gets nothing: an agent that writes one learns nothing of what else the user has.
#[test]
fn a_crate_is_copied_by_its_hash_alone() {
    each(&BY_HASH, |desk| {
        desk.write_home(".cargo/registry/cache/private-1/secret-1.0.0.crate", "SECRET");
        desk.write_home(".cargo/registry/index/private-1/config.json", "{}");
        desk.write_home(".cargo/registry/index/private-1/.cache/se/cr/secret", "lines");
        let lock = |hash: &str| {
            format!(
                "[[package]]\nname = \"secret\"\nversion = \"1.0.0\"\nsource = \"registry+x\"\nchecksum = \
                 \"{hash}\"\n"
            )
        };
        desk.write("Cargo.toml", "[package]\nname = \"x\"\n");
        // A pack whose file appears later waits for the user.
        desk.write("go.mod", "module y\n");
        desk.write("Cargo.lock", &lock(&"0".repeat(64)));
        desk.works(&[("a wrong hash gets nothing", "! grep -rq SECRET \"$CARGO_HOME\"")]);
        let hash: String = Sha256::digest(b"SECRET").iter().map(|byte| format!("{byte:02x}")).collect();
        desk.write("Cargo.lock", &lock(&hash));
        desk.works(&[
            (
                "the right one gets the crate",
                "grep -q SECRET \"$CARGO_HOME/registry/cache/private-1/secret-1.0.0.crate\"",
            ),
            (
                "and what the index says of it",
                "grep -q lines \"$CARGO_HOME/registry/index/private-1/.cache/se/cr/secret\"",
            ),
            (
                "the copy is the project's own",
                "echo changed > \"$CARGO_HOME/registry/cache/private-1/secret-1.0.0.crate\"",
            ),
            ("a link is planted", "rm -r \"$CARGO_HOME/registry\" && ln -s /etc \"$CARGO_HOME/registry\""),
        ]);
        assert_eq!(fs::read(desk.home(".cargo/registry/cache/private-1/secret-1.0.0.crate")).unwrap(), b"SECRET");
        let said = crate::desk::shown(&desk.inside("true"));
        assert!(said.contains("packages could not be copied"), "{said}");
        // A cache that lies in a project is the agent's too, and what it holds may lead anywhere.
        desk.write("go/cache/download/x/@v/v1.ziphash", "h1:x");
        std::os::unix::fs::symlink(desk.home(".gitconfig"), desk.project("go/cache/download/x/@v/v1.zip")).unwrap();
        desk.write("go.sum", "x v1 h1:x\n");
        let cache = desk.project("go");
        let desk = desk.with("GOMODCACHE", cache.to_str().unwrap());
        desk.works(&[("what a link leads to is not copied", "! grep -rq Ada \"$GOMODCACHE\"")]);
    });
}
