//! Classes of tools that compile: toolchains, which say themselves where their library is, and what links.

use std::process::Command;

use ringfence_surface::{AbsPath, Shown};

use super::classes::{Class, at, certificates, essential};
use super::collect::{Collector, Item, Scripts, real_path};
use super::error::RootError;
use crate::walk::os_path;

pub(super) fn rust(into: &mut Collector) -> Result<(), RootError> {
    let sysroot = library_of(Class::Rust, "rustc", &["--print", "sysroot"], into)?;
    for name in ["rustc", "cargo", "rustfmt", "cargo-fmt", "clippy-driver", "cargo-clippy", "rustdoc"] {
        let path = sysroot.join("bin").join(name);
        if into.file(&path).is_some() && !path.is_within(&at("usr")) {
            into.own(&at("usr/local/bin").join(name), Item::Link { target: path.as_bytes().to_vec() });
        }
    }
    // `cargo fmt` looks beside itself, by way of `/proc`.
    let rustfmt = sysroot.join("bin/rustfmt");
    if into.items.contains_key(&rustfmt) {
        into.variables.insert("RUSTFMT", rustfmt);
    }
    let is_wanted = |path: &AbsPath| !matches!(path.file_name(), Some(b"src" | b"doc" | b"etc"));
    let library = if sysroot == at("usr") { at("usr/lib/rustlib") } else { sysroot.join("lib") };
    into.tree(&library, Scripts::Read, &is_wanted);
    // The wrapper of its own linker finds that by way of `/proc`, which a root does not have; a link does as well.
    let wrappers: Vec<AbsPath> = into
        .items
        .keys()
        .filter(|path| path.is_within(&library) && path.file_name() == Some(b"ld.lld"))
        .cloned()
        .collect();
    for wrapper in wrappers {
        into.own(&wrapper, Item::Link { target: b"../rust-lld".to_vec() });
    }
    linker(Class::Rust, Languages::None, into)?;
    certificates(into);
    Ok(())
}

/// Parts of Go's library that are for its own makers.
const GO_WITHOUT: &[&[u8]] = &[b"testdata", b"test", b"api", b"misc", b"doc", b"obj"];

pub(super) fn go(into: &mut Collector) -> Result<(), RootError> {
    let library = library_of(Class::Go, "go", &["env", "GOROOT"], into)?;
    essential(Class::Go, "go", into)?;
    into.program("gofmt");
    let is_wanted = |path: &AbsPath| {
        let name = path.file_name().unwrap_or_default();
        // What its own commands were made from is linked into nothing else.
        let is_own = name == b"cmd" && path.is_within(&library.join("pkg"));
        !is_own && !GO_WITHOUT.contains(&name) && !name.ends_with(b"_test.go")
    };
    into.tree(&library, Scripts::Read, &is_wanted);
    // Distributions keep what is the same on every machine elsewhere, behind links.
    for part in ["src", "pkg/include", "lib"] {
        let link = library.join(part);
        if let Some(real) = real_path(&link).filter(|real| *real != link) {
            into.put(&link);
            into.tree(&real, Scripts::Read, &is_wanted);
        }
    }
    // It looks for its library by where it is itself, which it learns from `/proc`.
    into.variables.insert("GOROOT", library);
    certificates(into);
    Ok(())
}

/// Headers of the C library and of the kernel, beside the files in the same directory.
const HEADERS: &[&[u8]] = &[
    b"arpa",
    b"asm",
    b"asm-generic",
    b"bits",
    b"gnu",
    b"linux",
    b"misc",
    b"mtd",
    b"net",
    b"netinet",
    b"netpacket",
    b"protocols",
    b"rpc",
    b"scsi",
    b"sys",
];

pub(super) fn c(into: &mut Collector) -> Result<(), RootError> {
    linker(Class::C, Languages::C, into)?;
    into.program("make");
    for dir in ["usr/include", "usr/include/x86_64-linux-gnu", "usr/include/aarch64-linux-gnu"] {
        let dir = at(dir);
        // What other packages put there is of no use without their libraries.
        let is_wanted = |path: &AbsPath| {
            path.parent().as_ref() != Some(&dir)
                || HEADERS.contains(&path.file_name().unwrap_or_default())
                || os_path(path).is_file()
        };
        into.tree(&dir, Scripts::Read, &is_wanted);
    }
    Ok(())
}

/// How many lines of what a program says are told.
const SAID: usize = 3;

/// Where a toolchain's library is. What is on PATH may stand for another, which only it knows.
fn library_of(class: Class, program: &str, question: &[&str], into: &Collector) -> Result<AbsPath, RootError> {
    let missing = |why: String| RootError::Missing { class, program: program.into(), why };
    let path = into.which(program).ok_or_else(|| missing("it is not installed".into()))?;
    let asked = Command::new(os_path(&path)).args(question).output();
    let asked = asked.map_err(|cause| missing(format!("it cannot be run: {cause}")))?;
    let library = AbsPath::lexical(asked.stdout.trim_ascii_end()).ok().filter(|_| asked.status.success());
    library.ok_or_else(|| {
        // Whoever chooses between several says there what is to be done.
        let said = asked.stderr.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
        let said: String = said.take(SAID).map(|line| format!("; {}", Shown(line))).collect();
        missing(format!("{path} does not say where its library is{said}"))
    })
}

/// What cc is to understand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Languages {
    /// It only links.
    None,
    /// C.
    C,
}

/// What cc needs to link, and what programs begin with; of the compilers those that are wanted.
fn linker(class: Class, languages: Languages, into: &mut Collector) -> Result<(), RootError> {
    essential(class, "cc", into)?;
    for name in ["gcc", "ld", "ld.bfd", "ld.gold", "as", "ar", "strip", "objcopy"] {
        into.program(name);
    }
    let is_wanted = |path: &AbsPath| {
        let name = path.file_name().unwrap_or_default();
        match name {
            b"cc1" | b"include" | b"include-fixed" => languages == Languages::C,
            b"cc1plus" | b"lto1" | b"f951" | b"g++-mapper-server" => false,
            _ => !matches!(name, b"plugin" | b"install-tools" | b"finclude"),
        }
    };
    for dir in ["usr/lib/gcc", "usr/libexec/gcc"] {
        into.tree(&at(dir), Scripts::Read, &is_wanted);
    }
    for dir in ["usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64"] {
        for name in [
            "crt1.o",
            "crti.o",
            "crtn.o",
            "Scrt1.o",
            "rcrt1.o",
            "gcrt1.o",
            "libc.so",
            "libc.so.6",
            "libc_nonshared.a",
            "libm.so",
            "libm.so.6",
            "libmvec.so.1",
            "libpthread.a",
            "libdl.a",
            "librt.a",
            "libutil.a",
            "libgcc_s.so.1",
            "libpthread.so.0",
            "libdl.so.2",
            "librt.so.1",
            "libutil.so.1",
        ] {
            into.file(&at(dir).join(name));
        }
    }
    into.file(&at("lib64/ld-linux-x86-64.so.2"));
    into.file(&at("lib/ld-linux-aarch64.so.1"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever has several toolchains and chose none learns how.
    #[test]
    fn what_a_toolchain_says_is_told() {
        let check = |script: &str, expected: Result<&str, &str>| match (
            library_of(Class::Rust, "sh", &["-c", script], &Collector::new(b"")),
            expected,
        ) {
            (Ok(library), Ok(expected)) => assert_eq!(library.to_string(), expected),
            (Err(error), Err(expected)) => assert!(error.to_string().ends_with(expected), "{error}"),
            (got, _) => panic!("{script}: {got:?}"),
        };
        check("echo /some/where", Ok("/some/where"));
        check("echo somewhere", Err("/sh does not say where its library is"));
        check("echo /x; exit 1", Err("/sh does not say where its library is"));
        check(
            "echo 'error: none chosen' >&2; echo >&2; echo 'help: choose one' >&2; exit 1",
            Err("/sh does not say where its library is; error: none chosen; help: choose one"),
        );
    }
}
