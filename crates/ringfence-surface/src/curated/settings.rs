//! Settings of the user's own that go along into the private home, key by key.
//!
//! The files they come from hold tokens and passwords as well, name programs that are not there inside, and ask for keys that
//! nobody has there. So a key passes only if it is listed here, and a value that holds an address with a password, or a path
//! that cannot be read inside, does not pass at all.

use super::Row;

/// Keys of git's configuration, in lower case, without the part in quotes. Who commits, how things look and how branches move;
/// nothing that signs, asks for a password, starts an editor or a pager, or says where servers are.
pub static GIT: &[Row] = rows! {
    "advice.*" => "what git explains",
    "alias.*" => "short names of git's own commands",
    "apply.whitespace" => "how patches are taken",
    "author.email" => "address in commits",
    "author.name" => "name in commits",
    "branch.autosetupmerge" => "how branches are made",
    "branch.autosetuprebase" => "how branches are made",
    "branch.sort" => "how branches are listed",
    "checkout.defaultremote" => "how branches are made",
    "clean.requireforce" => "what `git clean` asks for",
    "color.*" => "how things look",
    "column.*" => "how things look",
    "commit.cleanup" => "how messages are written",
    "commit.status" => "how messages are written",
    "commit.verbose" => "how messages are written",
    "committer.email" => "address in commits",
    "committer.name" => "name in commits",
    "core.abbrev" => "how things look",
    "core.autocrlf" => "ends of lines",
    "core.commentchar" => "how messages are written",
    "core.eol" => "ends of lines",
    "core.quotepath" => "how things look",
    "core.safecrlf" => "ends of lines",
    "core.whitespace" => "which blanks are mistakes",
    "diff.algorithm" => "how changes are found",
    "diff.colormoved" => "how things look",
    "diff.colormovedws" => "how things look",
    "diff.context" => "how things look",
    "diff.indentheuristic" => "how changes are found",
    "diff.interhunkcontext" => "how things look",
    "diff.mnemonicprefix" => "how things look",
    "diff.noprefix" => "how things look",
    "diff.renamelimit" => "how changes are found",
    "diff.renames" => "how changes are found",
    "diff.submodule" => "how things look",
    "fetch.prune" => "which branches stay",
    "fetch.prunetags" => "which tags stay",
    "filter.clean" => "programs that files pass through, as git-lfs",
    "filter.process" => "programs that files pass through, as git-lfs",
    "filter.required" => "programs that files pass through, as git-lfs",
    "filter.smudge" => "programs that files pass through, as git-lfs",
    "format.pretty" => "how things look",
    "grep.*" => "how things look",
    "help.autocorrect" => "what git does about a slip",
    "init.defaultbranch" => "name of the first branch",
    "log.abbrevcommit" => "how things look",
    "log.date" => "how things look",
    "log.decorate" => "how things look",
    "log.follow" => "how things look",
    "merge.autostash" => "how branches are joined",
    "merge.conflictstyle" => "how conflicts look",
    "merge.ff" => "how branches are joined",
    "merge.log" => "how messages are written",
    "merge.renames" => "how changes are found",
    "merge.stat" => "how things look",
    "pretty.*" => "how things look",
    "pull.ff" => "how branches are joined",
    "pull.rebase" => "how branches are joined",
    "push.autosetupremote" => "where branches go",
    "push.default" => "where branches go",
    "push.followtags" => "where branches go",
    "rebase.*" => "how branches are moved",
    "rerere.*" => "how conflicts are remembered",
    "safe.directory" => "whose repositories are trusted",
    "stash.*" => "how things look",
    "status.*" => "how things look",
    "submodule.recurse" => "whether submodules follow",
    "tag.sort" => "how tags are listed",
    "user.email" => "address in commits",
    "user.name" => "name in commits",
    "user.useconfigonly" => "that no address is guessed",
    "versionsort.*" => "how tags are listed",
};

/// Keys of `~/.config/go/env`.
pub static GO: &[Row] = rows! {
    "CGO_ENABLED" => "how to build",
    "GOAMD64" => "what to build for",
    "GOARCH" => "what to build for",
    "GOEXPERIMENT" => "how to build",
    "GOFLAGS" => "how to build",
    "GOINSECURE" => "which modules come without TLS",
    "GONOPROXY" => "which modules are private",
    "GONOSUMDB" => "which modules are private",
    "GOOS" => "what to build for",
    "GOPRIVATE" => "which modules are private",
    "GOPROXY" => "where modules come from",
    "GOSUMDB" => "who vouches for modules",
    "GOTOOLCHAIN" => "which compiler",
};

/// Keys of `.npmrc`. Tokens are kept under keys that begin with `//`.
pub static NPM: &[Row] = rows! {
    "*:registry" => "where packages of a scope come from",
    "audit" => "what npm asks the registry",
    "cafile" => "whose certificates are trusted",
    "engine-strict" => "which packages are taken",
    "fund" => "what is printed",
    "ignore-scripts" => "whether packages run code when they are installed",
    "init-author-name" => "what new packages say",
    "init-license" => "what new packages say",
    "init-version" => "what new packages say",
    "install-strategy" => "how packages are laid out",
    "legacy-peer-deps" => "which packages are taken",
    "loglevel" => "what is printed",
    "min-release-age" => "which packages are taken",
    "package-lock" => "whether a lock file is written",
    "prefer-offline" => "whether the cache comes first",
    "progress" => "what is printed",
    "registry" => "where packages come from",
    "save-exact" => "what is written to package.json",
    "save-prefix" => "what is written to package.json",
    "strict-peer-deps" => "which packages are taken",
    "strict-ssl" => "whether certificates are checked",
    "update-notifier" => "what is printed",
};

/// Keys of `pip.conf`, in lower case.
pub static PIP: &[Row] = rows! {
    "break-system-packages" => "where packages go",
    "cert" => "whose certificates are trusted",
    "default-timeout" => "how long pip waits",
    "disable-pip-version-check" => "what pip asks the index",
    "extra-index-url" => "where packages come from",
    "find-links" => "where packages come from",
    "index-url" => "where packages come from",
    "no-binary" => "which packages are taken",
    "no-input" => "that nothing is asked",
    "no-warn-script-location" => "what is printed",
    "only-binary" => "which packages are taken",
    "pre" => "which packages are taken",
    "prefer-binary" => "which packages are taken",
    "require-virtualenv" => "where packages go",
    "retries" => "how often pip tries",
    "timeout" => "how long pip waits",
    "trusted-host" => "which hosts need no certificate",
    "upgrade-strategy" => "which packages are taken",
};

/// Keys of cargo's `config.toml`; `*` stands for one part anywhere, and for all the rest at the end. Wrappers of the compiler
/// are left out: they only make builds faster, and fail where their own cache or service is not there.
pub static CARGO: &[Row] = rows! {
    "alias.*" => "short names of commands",
    "build.build-dir" => "where results go",
    "build.dep-info-basedir" => "how to build",
    "build.incremental" => "how to build",
    "build.jobs" => "how to build",
    "build.rustdocflags" => "how to build",
    "build.rustflags" => "how to build",
    "build.target" => "what to build for",
    "build.target-dir" => "where results go",
    "cargo-new.*" => "what new packages are like",
    "future-incompat-report.*" => "what is printed",
    "http.cainfo" => "whose certificates are trusted",
    "http.check-revoke" => "whose certificates are trusted",
    "http.low-speed-limit" => "how long cargo waits",
    "http.multiplexing" => "how packages come",
    "http.timeout" => "how long cargo waits",
    "net.git-fetch-with-cli" => "how packages come",
    "net.offline" => "whether cargo asks the network",
    "net.retry" => "how often cargo tries",
    "profile.*" => "how to build",
    "registries.*.index" => "where packages come from",
    "registry.default" => "where packages come from",
    "resolver.*" => "which packages are taken",
    "source.*" => "where packages come from",
    "target.*.ar" => "how to build",
    "target.*.linker" => "how to build",
    "target.*.runner" => "how results are run",
    "target.*.rustdocflags" => "how to build",
    "target.*.rustflags" => "how to build",
    "term.*" => "what is printed",
    "unstable.*" => "how to build",
};

#[cfg(test)]
mod tests {
    use super::*;

    /// What must never pass, by the names of things that hold or ask for secrets, or start a program of the user's own.
    #[test]
    fn nothing_secret_is_listed() {
        let never =
            ["token", "passw", "credential", "secret", "sign", "helper", "askpass", "editor", "pager", "hookspath"];
        for row in GIT.iter().chain(GO).chain(NPM).chain(PIP).chain(CARGO) {
            let key = row.pattern.to_ascii_lowercase();
            assert!(!never.iter().any(|word| key.contains(word)), "{key}");
            assert!(!key.contains("auth") || key.starts_with("author.") || key == "init-author-name", "{key}");
            assert!(!["user.*", "http.*", "url.*", "core.*", "commit.*", "gpg.*"].contains(&key.as_str()), "{key}");
        }
    }
}
