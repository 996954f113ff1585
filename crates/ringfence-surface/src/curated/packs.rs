//! Packs: what the common toolchains need to build at the first try, and no more.
//!
//! The home directory inside is private, so a toolchain that lives in the user's own is read where it is and told so by its
//! variable; what it downloads goes to a cache of this project alone. A cache that several projects write would let one
//! project's agent change what another project builds, and one that they all read would show each the code of the others: what
//! the project's lock file names is copied instead. Toolchains and `~/.cargo/bin` are never writable.
//! PATH is not here: it is built from what is readable.

use super::{Row, settings};

/// What one toolchain needs.
#[derive(Debug, Clone, Copy)]
pub struct Pack {
    /// What a policy writes in `extends`.
    pub name: &'static str,
    /// What it is for.
    pub reason: &'static str,
    /// Names in the project's root that choose this pack.
    pub markers: &'static [&'static str],
    /// Toolchain paths, read-only.
    pub reads: &'static [Row],
    /// Variables that say where the toolchain is, since HOME no longer does.
    pub homes: &'static [ToolHome],
    /// Caches, private to each project.
    pub caches: &'static [Cache],
    /// Names of variables that pass.
    pub env: &'static [Row],
    /// Settings of the user's own that go along.
    pub settings: &'static [Settings],
    /// Network groups.
    pub groups: &'static [&'static str],
}

/// A variable that is set to a place in the user's own home, unless the user has set it.
#[derive(Debug, Clone, Copy)]
pub struct ToolHome {
    /// The variable.
    pub variable: &'static str,
    /// Where the toolchain may be; the first that exists counts, and none leaves the variable unset.
    pub places: &'static [&'static str],
    /// What it is for.
    pub reason: &'static str,
}

/// A directory that builds write, made private per project.
#[derive(Debug, Clone, Copy)]
pub struct Cache {
    /// The variable that moves it.
    pub variable: &'static str,
    /// What stands before the directory in the variable; usually nothing.
    pub prefix: &'static str,
    /// The directory's name below ringfence's cache directory.
    pub dir: &'static str,
    /// Where the user's own one is when the variable is unset.
    pub home: &'static str,
    /// The project's lock file, where there is one that says what belongs in it.
    pub lock: Option<LockFile>,
    /// What is in it.
    pub reason: &'static str,
}

/// A file of the project that names packages together with their hashes.
///
/// What it names is copied from the user's own cache into the project's. Whoever knows a package's hash has had the package in
/// hand, so this shows nothing of other projects; and it needs neither the network nor the password of a private registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockFile {
    /// `Cargo.lock`.
    Cargo,
    /// `go.sum`.
    Go,
    /// `package-lock.json`.
    Npm,
}

/// A file of settings in the user's own home. What it says goes along, but for what may be secret.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The directory it is in.
    pub base: Base,
    /// The file below that; the first that exists counts.
    pub names: &'static [&'static str],
    /// Where it is put.
    pub inside: Inside,
    /// How it is written.
    pub format: Format,
    /// The keys that pass.
    pub keys: &'static [Row],
}

/// A directory of the user's that a variable may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// The home directory.
    Home,
    /// `$XDG_CONFIG_HOME`, or `~/.config`.
    Config,
    /// `$CARGO_HOME`, or `~/.cargo`.
    Cargo,
}

/// Where settings are put inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inside {
    /// Below the session's home.
    Home(&'static str),
    /// In the project's own cache of this name.
    Cache {
        /// [`Cache::dir`].
        dir: &'static str,
        /// The file.
        name: &'static str,
    },
}

/// How a file of settings is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `key = value`, each line by itself.
    Lines,
    /// `key = value` in sections, where an indented line goes on with the value.
    Sections,
    /// TOML.
    Toml,
}

/// The pack of this name.
#[must_use]
pub fn pack(name: &str) -> Option<&'static Pack> {
    PACKS.iter().find(|pack| pack.name == name)
}

/// Every pack, sorted by name.
pub static PACKS: &[Pack] = &[
    Pack {
        name: "git",
        reason: "git: its variables and hosts",
        markers: &[".git"],
        reads: &[],
        homes: &[],
        caches: &[],
        env: rows! {
            "EMAIL" => "address in commits",
            "GIT_AUTHOR_*" => "name, address and date in commits",
            "GIT_COMMITTER_*" => "name, address and date in commits",
            "GIT_MERGE_AUTOEDIT" => "no editor for merges",
            "GIT_TERMINAL_PROMPT" => "no questions on the terminal",
        },
        settings: &[],
        groups: &["github"],
    },
    Pack {
        name: "go",
        reason: "Go modules",
        markers: &["go.mod", "go.work"],
        reads: rows! {
            "$GOPATH/bin" => "tools that were installed with go",
            "$GOROOT" => "the compiler",
            "$XDG_DATA_HOME/mise" => "compilers and interpreters of mise",
            "~/.asdf" => "compilers and interpreters of asdf",
            "~/.goenv" => "compilers of goenv",
            "~/.gvm" => "compilers of gvm",
            "~/.local/share/mise" => "compilers and interpreters of mise",
            "~/go/bin" => "tools that were installed with go",
            "~/sdk" => "further compilers",
        },
        homes: &[
            ToolHome { variable: "ASDF_DATA_DIR", places: &["~/.asdf"], reason: "asdf finds its compilers" },
            ToolHome {
                variable: "MISE_DATA_DIR",
                places: &["~/.local/share/mise"],
                reason: "mise finds its compilers",
            },
        ],
        caches: &[
            Cache {
                variable: "GOCACHE",
                prefix: "",
                dir: "go-build",
                home: "~/.cache/go-build",
                lock: None,
                reason: "build results",
            },
            Cache {
                variable: "GOLANGCI_LINT_CACHE",
                prefix: "",
                dir: "golangci-lint",
                home: "~/.cache/golangci-lint",
                lock: None,
                reason: "results of the linter",
            },
            Cache {
                variable: "GOMODCACHE",
                prefix: "",
                dir: "go-mod",
                home: "~/go/pkg/mod",
                lock: Some(LockFile::Go),
                reason: "downloaded modules",
            },
        ],
        env: rows! {
            "ASDF_GOLANG_VERSION" => "which compiler",
            "CGO_ENABLED" => "how to build",
            "GOAMD64" => "what to build for",
            "GOARCH" => "what to build for",
            "GOARM" => "what to build for",
            "GODEBUG" => "how the runtime behaves",
            "GOENV_VERSION" => "which compiler",
            "GOEXPERIMENT" => "how to build",
            "GOFLAGS" => "how to build",
            "GOGC" => "how the runtime behaves",
            "GOINSECURE" => "which modules come without TLS",
            "GOMAXPROCS" => "how the runtime behaves",
            "GOMEMLIMIT" => "how the runtime behaves",
            "GONOPROXY" => "which modules are private",
            "GONOSUMDB" => "which modules are private",
            "GOOS" => "what to build for",
            "GOPRIVATE" => "which modules are private",
            "GOPROXY" => "where modules come from",
            "GOROOT" => "the compiler",
            "GOSUMDB" => "who vouches for modules",
            "GOTOOLCHAIN" => "which compiler",
            "GOTRACEBACK" => "how the runtime behaves",
        },
        settings: &[Settings {
            base: Base::Config,
            names: &["go/env"],
            inside: Inside::Home(".config/go/env"),
            format: Format::Lines,
            keys: settings::GO,
        }],
        groups: &["go"],
    },
    Pack {
        name: "jvm",
        reason: "Java, Kotlin and Scala with Maven, Gradle or sbt",
        markers: &[
            "build.gradle",
            "build.gradle.kts",
            "build.sbt",
            "pom.xml",
            "settings.gradle",
            "settings.gradle.kts",
        ],
        reads: rows! {
            "$JAVA_HOME" => "the JVM",
            "$XDG_DATA_HOME/mise" => "compilers and interpreters of mise",
            "~/.asdf" => "compilers and interpreters of asdf",
            "~/.jdks" => "JVMs of JetBrains and Gradle",
            "~/.jenv" => "JVMs of jenv",
            "~/.local/share/mise" => "compilers and interpreters of mise",
            "~/.sdkman" => "JVMs and build tools of SDKMAN",
        },
        homes: &[
            ToolHome { variable: "ASDF_DATA_DIR", places: &["~/.asdf"], reason: "asdf finds its compilers" },
            ToolHome {
                variable: "MISE_DATA_DIR",
                places: &["~/.local/share/mise"],
                reason: "mise finds its compilers",
            },
            ToolHome { variable: "SDKMAN_DIR", places: &["~/.sdkman"], reason: "SDKMAN finds its JVMs" },
        ],
        caches: &[
            Cache {
                variable: "COURSIER_CACHE",
                prefix: "",
                dir: "coursier",
                home: "~/.cache/coursier/v1",
                lock: None,
                reason: "downloaded packages of sbt and coursier",
            },
            Cache {
                variable: "GRADLE_USER_HOME",
                prefix: "",
                dir: "gradle",
                home: "~/.gradle",
                lock: None,
                reason: "downloaded packages and Gradle itself",
            },
            Cache {
                variable: "KONAN_DATA_DIR",
                prefix: "",
                dir: "konan",
                home: "~/.konan",
                lock: None,
                reason: "the native Kotlin compiler",
            },
            Cache {
                variable: "MAVEN_ARGS",
                prefix: "-Dmaven.repo.local=",
                dir: "maven",
                home: "~/.m2/repository",
                lock: None,
                reason: "downloaded packages; Maven asks the password file for the home directory, not HOME",
            },
            Cache {
                variable: "MAVEN_USER_HOME",
                prefix: "",
                dir: "maven-wrapper",
                home: "~/.m2",
                lock: None,
                reason: "Maven itself, by its wrapper",
            },
        ],
        env: rows! {
            "ASDF_JAVA_VERSION" => "which JVM",
            "GRADLE_VERSION" => "which Gradle",
            "JAVA_HOME" => "the JVM",
            "JAVA_VERSION" => "which JVM",
            "JENV_VERSION" => "which JVM",
            "MAVEN_VERSION" => "which Maven",
            "MISE_JAVA_VERSION" => "which JVM",
        },
        settings: &[],
        groups: &["gradle", "maven"],
    },
    Pack {
        name: "node",
        reason: "Node with npm, pnpm, yarn or bun",
        markers: &["package.json"],
        reads: rows! {
            "$NVM_DIR" => "Node of nvm",
            "$XDG_CACHE_HOME/ms-playwright" => "browsers for tests",
            "$XDG_DATA_HOME/fnm" => "Node of fnm",
            "$XDG_DATA_HOME/mise" => "compilers and interpreters of mise",
            "$XDG_DATA_HOME/pnpm" => "pnpm and what it installed",
            "~/.asdf" => "compilers and interpreters of asdf",
            "~/.bun/bin" => "bun",
            "~/.cache/ms-playwright" => "browsers for tests",
            "~/.deno/bin" => "deno",
            "~/.fnm" => "Node of fnm",
            "~/.local/share/fnm" => "Node of fnm",
            "~/.local/share/mise" => "compilers and interpreters of mise",
            "~/.local/share/pnpm" => "pnpm and what it installed",
            "~/.nodenv" => "Node of nodenv",
            "~/.npm-global" => "programs that were installed with npm",
            "~/.npm-packages" => "programs that were installed with npm",
            "~/.nvm" => "Node of nvm",
            "~/.volta" => "Node of volta",
        },
        homes: &[
            ToolHome { variable: "ASDF_DATA_DIR", places: &["~/.asdf"], reason: "asdf finds its compilers" },
            ToolHome {
                variable: "MISE_DATA_DIR",
                places: &["~/.local/share/mise"],
                reason: "mise finds its compilers",
            },
            ToolHome { variable: "NVM_DIR", places: &["~/.nvm"], reason: "nvm finds its versions" },
            ToolHome {
                variable: "PLAYWRIGHT_BROWSERS_PATH",
                places: &["~/.cache/ms-playwright"],
                reason: "tests find their browsers",
            },
            ToolHome { variable: "VOLTA_HOME", places: &["~/.volta"], reason: "volta finds its versions" },
        ],
        caches: &[
            Cache {
                variable: "BUN_INSTALL_CACHE_DIR",
                prefix: "",
                dir: "bun",
                home: "~/.bun/install/cache",
                lock: None,
                reason: "downloaded packages of bun",
            },
            Cache {
                variable: "COREPACK_HOME",
                prefix: "",
                dir: "corepack",
                home: "~/.cache/node/corepack",
                lock: None,
                reason: "package managers that the project asks for",
            },
            Cache {
                variable: "PNPM_HOME",
                prefix: "",
                dir: "pnpm",
                home: "~/.local/share/pnpm",
                lock: None,
                reason: "downloaded packages of pnpm",
            },
            Cache {
                variable: "YARN_CACHE_FOLDER",
                prefix: "",
                dir: "yarn",
                home: "~/.cache/yarn",
                lock: None,
                reason: "downloaded packages of yarn",
            },
            Cache {
                variable: "YARN_GLOBAL_FOLDER",
                prefix: "",
                dir: "yarn-berry",
                home: "~/.yarn/berry",
                lock: None,
                reason: "downloaded packages of newer yarn",
            },
            Cache {
                variable: "npm_config_cache",
                prefix: "",
                dir: "npm",
                home: "~/.npm",
                lock: Some(LockFile::Npm),
                reason: "downloaded packages of npm",
            },
            Cache {
                variable: "npm_package_config_node_gyp_devdir",
                prefix: "",
                dir: "node-gyp",
                home: "~/.cache/node-gyp",
                lock: None,
                reason: "headers for native modules",
            },
        ],
        env: rows! {
            "ASDF_NODEJS_VERSION" => "which Node",
            "COREPACK_DEFAULT_TO_LATEST" => "which package manager",
            "COREPACK_ENABLE_DOWNLOAD_PROMPT" => "which package manager",
            "COREPACK_ENABLE_STRICT" => "which package manager",
            "FNM_RESOLVE_ENGINES" => "which Node",
            "MISE_NODE_VERSION" => "which Node",
            "NODENV_VERSION" => "which Node",
            "NODE_ENV" => "how to build",
            "NODE_EXTRA_CA_CERTS" => "whose certificates are trusted",
            "NODE_NO_WARNINGS" => "what is printed",
            "NODE_VERSION" => "which Node",
            "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD" => "what is installed",
            "PUPPETEER_SKIP_DOWNLOAD" => "what is installed",
            "UV_THREADPOOL_SIZE" => "how Node runs",
        },
        settings: &[Settings {
            base: Base::Home,
            names: &[".npmrc"],
            inside: Inside::Home(".npmrc"),
            format: Format::Lines,
            keys: settings::NPM,
        }],
        groups: &["nodejs", "npm"],
    },
    Pack {
        name: "python",
        reason: "Python with pip, uv or poetry",
        markers: &["Pipfile", "pyproject.toml", "requirements.txt", "setup.cfg", "setup.py"],
        reads: rows! {
            "$PYENV_ROOT" => "interpreters of pyenv",
            "$XDG_DATA_HOME/mise" => "compilers and interpreters of mise",
            "$XDG_DATA_HOME/pipx" => "programs of pipx",
            "$XDG_DATA_HOME/uv" => "interpreters and tools of uv",
            "~/.asdf" => "compilers and interpreters of asdf",
            "~/.local/bin" => "uv, poetry and programs of pipx",
            "~/.local/lib" => "packages of the user",
            "~/.local/pipx" => "programs of pipx",
            "~/.local/share/mise" => "compilers and interpreters of mise",
            "~/.local/share/pipx" => "programs of pipx",
            "~/.local/share/uv" => "interpreters and tools of uv",
            "~/.pixi" => "interpreters of pixi",
            "~/.pyenv" => "interpreters of pyenv",
            "~/.rye" => "interpreters of rye",
            "~/anaconda3" => "interpreters of conda",
            "~/miniconda3" => "interpreters of conda",
            "~/miniforge3" => "interpreters of conda",
        },
        homes: &[
            ToolHome { variable: "ASDF_DATA_DIR", places: &["~/.asdf"], reason: "asdf finds its compilers" },
            ToolHome {
                variable: "MISE_DATA_DIR",
                places: &["~/.local/share/mise"],
                reason: "mise finds its compilers",
            },
            ToolHome { variable: "PYENV_ROOT", places: &["~/.pyenv"], reason: "pyenv finds its versions" },
            ToolHome {
                variable: "UV_PYTHON_INSTALL_DIR",
                places: &["~/.local/share/uv/python"],
                reason: "uv finds its interpreters",
            },
        ],
        caches: &[
            Cache {
                variable: "PDM_CACHE_DIR",
                prefix: "",
                dir: "pdm",
                home: "~/.cache/pdm",
                lock: None,
                reason: "downloaded packages of PDM",
            },
            Cache {
                variable: "PIPENV_CACHE_DIR",
                prefix: "",
                dir: "pipenv",
                home: "~/.cache/pipenv",
                lock: None,
                reason: "downloaded packages of pipenv",
            },
            Cache {
                variable: "PIP_CACHE_DIR",
                prefix: "",
                dir: "pip",
                home: "~/.cache/pip",
                lock: None,
                reason: "downloaded packages of pip",
            },
            Cache {
                variable: "POETRY_CACHE_DIR",
                prefix: "",
                dir: "poetry",
                home: "~/.cache/pypoetry",
                lock: None,
                reason: "downloaded packages and environments of poetry",
            },
            Cache {
                variable: "PRE_COMMIT_HOME",
                prefix: "",
                dir: "pre-commit",
                home: "~/.cache/pre-commit",
                lock: None,
                reason: "programs that pre-commit runs",
            },
            Cache {
                variable: "UV_CACHE_DIR",
                prefix: "",
                dir: "uv",
                home: "~/.cache/uv",
                lock: None,
                reason: "downloaded packages of uv",
            },
            Cache {
                variable: "WORKON_HOME",
                prefix: "",
                dir: "virtualenvs",
                home: "~/.local/share/virtualenvs",
                lock: None,
                reason: "environments of pipenv",
            },
        ],
        env: rows! {
            "ASDF_PYTHON_VERSION" => "which interpreter",
            "CONDA_DEFAULT_ENV" => "which environment is active",
            "CONDA_PREFIX" => "which environment is active",
            "MISE_PYTHON_VERSION" => "which interpreter",
            "PIP_CERT" => "whose certificates are trusted",
            "PIP_DISABLE_PIP_VERSION_CHECK" => "what pip asks the index",
            "PYENV_VERSION" => "which interpreter",
            "PYTHONDONTWRITEBYTECODE" => "what is written beside sources",
            "PYTHONHASHSEED" => "reproducible runs",
            "PYTHONIOENCODING" => "encoding of output",
            "PYTHONUNBUFFERED" => "output appears at once",
            "PYTHONUTF8" => "encoding of output",
            "UV_LINK_MODE" => "how packages are installed",
            "UV_OFFLINE" => "how packages are installed",
            "UV_PYTHON" => "which interpreter",
            "UV_PYTHON_DOWNLOADS" => "which interpreter",
            "UV_PYTHON_PREFERENCE" => "which interpreter",
            "VIRTUAL_ENV" => "which environment is active",
        },
        settings: &[
            Settings {
                base: Base::Home,
                names: &[".pip/pip.conf"],
                inside: Inside::Home(".pip/pip.conf"),
                format: Format::Sections,
                keys: settings::PIP,
            },
            Settings {
                base: Base::Config,
                names: &["pip/pip.conf"],
                inside: Inside::Home(".config/pip/pip.conf"),
                format: Format::Sections,
                keys: settings::PIP,
            },
        ],
        groups: &["pypi"],
    },
    Pack {
        name: "rust",
        reason: "Rust with cargo and rustup",
        markers: &["Cargo.toml"],
        reads: rows! {
            "$CARGO_HOME/bin" => "cargo, rustup and installed tools",
            "$RUSTUP_HOME" => "compilers",
            "~/.cargo/bin" => "cargo, rustup and installed tools",
            "~/.rustup" => "compilers",
        },
        homes: &[ToolHome { variable: "RUSTUP_HOME", places: &["~/.rustup"], reason: "rustup finds its compilers" }],
        caches: &[Cache {
            variable: "CARGO_HOME",
            prefix: "",
            dir: "cargo",
            home: "~/.cargo",
            lock: Some(LockFile::Cargo),
            reason: "index, downloaded crates and git checkouts",
        }],
        env: rows! {
            "CARGO_BUILD_JOBS" => "how to build",
            "CARGO_HTTP_CAINFO" => "whose certificates are trusted",
            "CARGO_INCREMENTAL" => "how to build",
            "CARGO_NET_OFFLINE" => "how to build",
            "CARGO_PROFILE_*" => "how to build",
            "CARGO_TERM_*" => "what is printed",
            "RUSTDOCFLAGS" => "how to build",
            "RUSTFLAGS" => "how to build",
            "RUSTUP_TOOLCHAIN" => "which compiler",
            "RUST_BACKTRACE" => "what is printed",
            "RUST_LIB_BACKTRACE" => "what is printed",
            "RUST_LOG" => "what is printed",
            "RUST_MIN_STACK" => "how tests run",
            "RUST_TEST_THREADS" => "how tests run",
        },
        settings: &[Settings {
            base: Base::Cargo,
            names: &["config", "config.toml"],
            inside: Inside::Cache { dir: "cargo", name: "config.toml" },
            format: Format::Toml,
            keys: settings::CARGO,
        }],
        groups: &["crates"],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curated::groups::group;

    #[test]
    fn packs_are_sorted_and_found_by_name() {
        let names: Vec<&str> = PACKS.iter().map(|pack| pack.name).collect();
        assert_eq!(names, ["git", "go", "jvm", "node", "python", "rust"]);
        for known in PACKS {
            assert_eq!(pack(known.name).map(|found| found.reason), Some(known.reason));
        }
        assert!(pack("cobol").is_none());
    }

    #[test]
    fn every_group_of_a_pack_exists() {
        for pack in PACKS {
            assert!(!pack.markers.is_empty() && !pack.groups.is_empty(), "{}", pack.name);
            for name in pack.groups {
                assert!(group(name).is_some(), "{}: no group {name}", pack.name);
            }
        }
    }

    #[test]
    fn a_directory_and_a_variable_belong_to_one_cache() {
        let caches: Vec<&Cache> = PACKS.iter().flat_map(|pack| pack.caches).collect();
        for (index, cache) in caches.iter().enumerate() {
            assert!(!cache.reason.is_empty() && !cache.dir.contains(['/', '.']), "{}", cache.dir);
            for other in &caches[index + 1..] {
                assert_ne!(cache.dir, other.dir, "{} and {}", cache.variable, other.variable);
                assert_ne!(cache.variable, other.variable, "{} and {}", cache.dir, other.dir);
            }
        }
    }

    #[test]
    fn settings_go_to_a_cache_of_their_own_pack() {
        for pack in PACKS {
            for settings in pack.settings {
                assert!(!settings.names.is_empty() && !settings.keys.is_empty(), "{}", pack.name);
                if let Inside::Cache { dir, .. } = settings.inside {
                    assert!(pack.caches.iter().any(|cache| cache.dir == dir), "{}: no cache {dir}", pack.name);
                }
            }
        }
    }

    #[test]
    fn a_tool_home_is_readable() {
        for pack in PACKS {
            for home in pack.homes {
                for place in home.places {
                    let covered = pack.reads.iter().any(|row| {
                        place.strip_prefix(row.pattern).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                    });
                    assert!(covered, "{}: {place} of {} is not read", pack.name, home.variable);
                }
            }
        }
    }
}
