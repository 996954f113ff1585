//! Names that are readable but never written (claim K8), at any depth, whether they exist yet or not.
//!
//! The line: what starts by itself when a program opens, enters or commits in a directory, what chooses which program a
//! name runs, and what runs elsewhere with more rights (CI). What a person runs on purpose (Makefile, package.json, build.rs,
//! conftest.py, eslint.config.js) is the project itself. Left out on purpose, too:
//!
//! - `.gitattributes` of a work tree only chooses among filters whose commands are in git's config, which is protected;
//! - AGENTS.md, CLAUDE.md, GEMINI.md, `.cursorrules` and the like are text that people ask agents to edit; they start nothing;
//! - `.editorconfig`, `.nvmrc`, `.python-version` choose among what is installed, never by path;
//! - `*.pth` would break every `pip install`; `.direnv` is written by direnv itself, `.envrc` decides.

use super::Row;
pub use super::persistence::PROTECTED_HOME;

/// Settings of agents and editors, hooks, CI, package managers' settings, start-up files.
pub static PROTECTED_ANYWHERE: &[Row] = rows! {
    "**/*.code-workspace" => "VS Code: tasks and settings that name programs",
    "**/*.sublime-project" => "Sublime Text: build systems and language servers",
    "**/.Renviron" => "R: variables of every session started here",
    "**/.Rprofile" => "R: code that runs in every session started here",
    "**/.agent" => "agent settings: hooks, servers and commands that start by themselves",
    "**/.agents" => "agent settings: hooks, servers and commands that start by themselves",
    "**/.aider.conf.yml" => "aider: test and lint commands that it runs by itself",
    "**/.aider.model.*" => "aider: where prompts and keys are sent",
    "**/.amazonq" => "Amazon Q: agents, hooks and MCP servers",
    "**/.amp" => "Amp: settings and MCP servers",
    "**/.antigravity" => "Antigravity: settings and MCP servers",
    "**/.appveyor.yml" => "CI: runs with the project's secrets",
    "**/.arcconfig" => "Arcanist: libraries that it loads",
    "**/.augment" => "Augment: settings and MCP servers",
    "**/.autoenv" => "autoenv: runs when the directory is entered",
    "**/.autoenv.zsh" => "autoenv: runs when the directory is entered",
    "**/.azure-pipelines" => "CI: runs with the project's secrets",
    "**/.bash_aliases" => "shell start-up file",
    "**/.bash_login" => "shell start-up file",
    "**/.bash_logout" => "shell start-up file",
    "**/.bash_profile" => "shell start-up file",
    "**/.bashrc" => "shell start-up file",
    "**/.bazeliskrc" => "Bazel: which Bazel runs",
    "**/.bazelrc" => "Bazel: programs that wrap every action",
    "**/.bazelversion" => "which bazel runs",
    "**/.buckconfig" => "Buck: programs and options of every build",
    "**/.build.yml" => "CI: runs with the project's secrets",
    "**/.buildkite" => "CI: runs with the project's secrets",
    "**/.builds" => "CI: runs with the project's secrets",
    "**/.bundle/config" => "Bundler: gem sources and plugins",
    "**/.bundle/plugin" => "Bundler: code that runs with every command",
    "**/.captain" => "git hooks",
    "**/.cargo/config" => "cargo: linkers, wrappers and runners of every build",
    "**/.cargo/config.toml" => "cargo: linkers, wrappers and runners of every build",
    "**/.circleci" => "CI: runs with the project's secrets",
    "**/.cirrus.yml" => "CI: runs with the project's secrets",
    "**/.claude" => "Claude Code: settings, hooks, commands, MCP servers",
    "**/.claude-plugin" => "Claude Code: a plugin's hooks and servers",
    "**/.claude.json" => "Claude Code: trust decisions and MCP servers",
    "**/.cline" => "Cline: settings and MCP servers",
    "**/.clinerules/hooks" => "Cline: hooks",
    "**/.codebuddy" => "CodeBuddy: settings and hooks",
    "**/.codeium" => "Windsurf: settings and MCP servers",
    "**/.codesandbox" => "development container: runs when the project is opened",
    "**/.codex" => "Codex: settings, rules and hooks",
    "**/.config/autostart" => "programs that start with the session",
    "**/.config/fish" => "shell start-up file",
    "**/.config/mise" => "mise: hooks and variables when the directory is entered",
    "**/.config/mise.toml" => "mise: hooks and variables when the directory is entered",
    "**/.config/systemd" => "services that start with the session",
    "**/.continue" => "Continue: settings and MCP servers",
    "**/.continuerc.json" => "Continue: settings",
    "**/.copilot" => "Copilot CLI: settings and MCP servers",
    "**/.crush.json" => "Crush: language and MCP servers",
    "**/.cshrc" => "shell start-up file",
    "**/.cursor" => "Cursor: settings, hooks, MCP servers",
    "**/.devcontainer" => "development container: runs when the project is opened",
    "**/.devcontainer.json" => "development container: runs when the project is opened",
    "**/.devin" => "Devin: settings",
    "**/.dir-locals-2.el" => "Emacs: code that runs when a file is opened",
    "**/.dir-locals.el" => "Emacs: code that runs when a file is opened",
    "**/.direnv/*.rc" => "nix-direnv: runs when the directory is entered",
    "**/.drone.*" => "CI: runs with the project's secrets",
    "**/.emacs" => "Emacs: start-up code",
    "**/.emacs.d" => "Emacs: start-up code",
    "**/.envrc" => "direnv: runs when the directory is entered",
    "**/.erlang" => "Erlang: code that runs in every session started here",
    "**/.exrc" => "vi: commands that run when it starts here",
    "**/.externalToolBuilders" => "Eclipse: programs that run at each build",
    "**/.factory" => "Factory: settings, hooks and droids",
    "**/.firebender" => "Firebender: settings and MCP servers",
    "**/.fleet" => "Fleet: run configurations",
    "**/.forgejo" => "CI: runs with the project's secrets",
    "**/.gdbinit" => "gdb: commands that run when it starts here",
    "**/.gemini" => "Gemini CLI: settings, hooks, extensions",
    "**/.gemrc" => "RubyGems: sources and options",
    "**/.ghci" => "GHCi: commands that run when it starts here",
    "**/.git-hooks" => "git hooks, by custom",
    "**/.gitconfig" => "git: programs that git runs",
    "**/.gitea" => "CI: runs with the project's secrets",
    "**/.githooks" => "git hooks, by custom",
    "**/.github/actions" => "CI: runs with the project's secrets",
    "**/.github/agents" => "Copilot: agents with their MCP servers",
    "**/.github/hooks" => "Copilot: hooks",
    "**/.github/workflows" => "CI: runs with the project's secrets",
    "**/.gitlab-ci.yml" => "CI: runs with the project's secrets",
    "**/.gitlab/ci" => "CI: runs with the project's secrets",
    "**/.gitmodules" => "git: where submodules come from, and how they are updated",
    "**/.gitpod.*" => "development container: runs when the project is opened",
    "**/.goose" => "goose: settings and recipes",
    "**/.gptme.toml" => "gptme: commands that it runs by itself",
    "**/.grok" => "Grok CLI: settings and MCP servers",
    "**/.gvimrc" => "vim: start-up commands",
    "**/.helix" => "Helix: language servers, which are programs",
    "**/.hg/hgrc*" => "Mercurial: hooks and programs that it runs",
    "**/.hg/sharedpath" => "Mercurial: where it takes further hooks and programs from",
    "**/.husky" => "git hooks",
    "**/.idea" => "JetBrains: run configurations and start-up tasks",
    "**/.idx" => "development container: runs when the project is opened",
    "**/.iex.exs" => "IEx: code that runs in every session started here",
    "**/.iflow" => "iFlow: settings and hooks",
    "**/.inputrc" => "keys that type commands",
    "**/.irbrc" => "irb: code that runs in every session started here",
    "**/.jj/repo/config*" => "jj: programs that it runs",
    "**/.jj/repo/store/git/config" => "git: programs that git runs",
    "**/.jj/repo/store/git/hooks" => "git hooks",
    "**/.jj/workspace-config*" => "jj: programs that it runs",
    "**/.junie" => "Junie: settings and MCP servers",
    "**/.jvmopts" => "JVM: agents that are loaded into every build",
    "**/.kilocode" => "Kilo Code: settings and MCP servers",
    "**/.kilocodemodes" => "Kilo Code: modes and what they may do",
    "**/.kimi" => "Kimi CLI: settings and MCP servers",
    "**/.kiro" => "Kiro: hooks and MCP servers",
    "**/.kshrc" => "shell start-up file",
    "**/.lapce" => "Lapce: settings that name programs",
    "**/.lefthook" => "git hooks",
    "**/.lefthook*.json" => "git hooks",
    "**/.lefthook*.toml" => "git hooks",
    "**/.lefthook*.y*ml" => "git hooks",
    "**/.lfsconfig" => "git-lfs: the server that large files and passwords are sent to",
    "**/.lingma" => "Lingma: settings and MCP servers",
    "**/.lintstagedrc*" => "lint-staged: commands that run at each commit",
    "**/.lldbinit" => "lldb: commands that run when it starts here",
    "**/.login" => "shell start-up file",
    "**/.logout" => "shell start-up file",
    "**/.lvimrc" => "vim: commands that run when a file is opened",
    "**/.mcp" => "MCP servers that clients start by themselves",
    "**/.mcp.json" => "MCP servers that clients start by themselves",
    "**/.mise" => "mise: hooks and variables when the directory is entered",
    "**/.mise.*.toml" => "mise: hooks and variables when the directory is entered",
    "**/.mise.toml" => "mise: hooks and variables when the directory is entered",
    "**/.mkshrc" => "shell start-up file",
    "**/.mvn" => "Maven: extensions and the wrapper that every build runs",
    "**/.nova" => "Nova: tasks",
    "**/.npmrc" => "npm: registries, the shell of scripts, where tokens are sent",
    "**/.nvim.lua" => "neovim: code that runs when it starts here",
    "**/.nvimrc" => "neovim: commands that run when it starts here",
    "**/.ocamlinit" => "OCaml: code that runs in every session started here",
    "**/.octaverc" => "Octave: code that runs in every session started here",
    "**/.opencode" => "OpenCode: settings, plugins, commands",
    "**/.openhands" => "OpenHands: set-up script and hooks",
    "**/.overcommit.yml" => "git hooks",
    "**/.p4config" => "Perforce: the server, and programs that it runs",
    "**/.pam_environment" => "variables of every session",
    "**/.pdbrc" => "pdb: commands that run when it starts here",
    "**/.perldb" => "Perl debugger: code that runs when it starts here",
    "**/.pi" => "pi: extensions",
    "**/.pijul/config*" => "Pijul: hooks and programs that it runs",
    "**/.pnpmfile.*" => "pnpm: code that runs at each install",
    "**/.pre-commit-config.yaml" => "pre-commit: programs that run at each commit",
    "**/.pre-commit-hooks.yaml" => "pre-commit: programs that others run at each commit",
    "**/.profile" => "shell start-up file",
    "**/.pryrc" => "pry: code that runs in every session started here",
    "**/.pythonrc*" => "Python: start-up code of interactive sessions",
    "**/.pythonstartup" => "Python: start-up code of interactive sessions",
    "**/.qoder" => "Qoder: settings and hooks",
    "**/.qodo" => "Qodo: settings and MCP servers",
    "**/.qwen" => "Qwen Code: settings, hooks, extensions",
    "**/.replit" => "development container: runs when the project is opened",
    "**/.repo/repo" => "repo: the tool itself, which is run from here",
    "**/.ringfence" => "ringfence: the fence itself",
    "**/.ringfence-*" => "ringfence: what it is about to put in place",
    "**/.roo" => "Roo Code: settings and MCP servers",
    "**/.roomodes" => "Roo Code: modes and what they may do",
    "**/.rovodev" => "Rovo Dev: settings and MCP servers",
    "**/.rust-analyzer.toml" => "rust-analyzer: the command that runs at each save",
    "**/.rvmrc" => "runs on entering the directory",
    "**/.sbtopts" => "sbt: agents that are loaded into every build",
    "**/.screenrc" => "screen: commands that run when it starts",
    "**/.semaphore" => "CI: runs with the project's secrets",
    "**/.simple-git-hooks.*" => "git hooks",
    "**/.sl/config*" => "Sapling: hooks and programs that it runs",
    "**/.sl/sharedpath" => "Sapling: where it takes further hooks and programs from",
    "**/.sops.yaml" => "whose keys open what is encrypted next",
    "**/.ssh" => "who may log in, and programs that ssh runs",
    "**/.tabnine" => "Tabnine: settings and MCP servers",
    "**/.tcshrc" => "shell start-up file",
    "**/.teamcity" => "CI: runs with the project's secrets",
    "**/.tekton" => "CI: runs with the project's secrets",
    "**/.theia" => "Theia: tasks and settings that name programs",
    "**/.tmux.conf" => "tmux: commands that run when it starts",
    "**/.tool-versions" => "asdf: which program a name runs, also by path",
    "**/.trae" => "Trae: settings and MCP servers",
    "**/.travis.yml" => "CI: runs with the project's secrets",
    "**/.vibe" => "Mistral Vibe: settings and MCP servers",
    "**/.vim" => "vim: start-up commands",
    "**/.vimrc" => "vim: start-up commands",
    "**/.vs" => "Visual Studio: settings that name programs",
    "**/.vscode" => "VS Code: tasks and settings that name programs",
    "**/.warp" => "Warp: workflows and MCP servers",
    "**/.windsurf" => "Windsurf: settings and hooks",
    "**/.woodpecker" => "CI: runs with the project's secrets",
    "**/.woodpecker.*" => "CI: runs with the project's secrets",
    "**/.xinitrc" => "session start-up file",
    "**/.xonshrc" => "shell start-up file",
    "**/.xprofile" => "session start-up file",
    "**/.xsession" => "session start-up file",
    "**/.xsessionrc" => "session start-up file",
    "**/.yarn/plugins" => "yarn: code that runs with every command",
    "**/.yarn/releases" => "yarn: the program itself",
    "**/.yarn/sdks" => "yarn: programs that the editor runs",
    "**/.yarnrc" => "yarn: registries, and which yarn runs",
    "**/.yarnrc.yml" => "yarn: registries, plugins, and which yarn runs",
    "**/.ycm_extra_conf.py" => "YouCompleteMe: code that runs when a file is opened",
    "**/.zed" => "Zed: tasks and language servers",
    "**/.zencoder" => "Zencoder: settings and MCP servers",
    "**/.zlogin" => "shell start-up file",
    "**/.zlogout" => "shell start-up file",
    "**/.zprofile" => "shell start-up file",
    "**/.zshenv" => "shell start-up file",
    "**/.zshrc" => "shell start-up file",
    "**/Jenkinsfile" => "CI: runs with the project's secrets",
    "**/NuGet.Config" => "NuGet: package sources",
    "**/NuGet.config" => "NuGet: package sources",
    "**/_darcs/prefs" => "darcs: hooks",
    "**/ansible.cfg" => "Ansible: directories of plugins, which are code",
    "**/appveyor.yml" => "CI: runs with the project's secrets",
    "**/azure-pipelines*.yml" => "CI: runs with the project's secrets",
    "**/bitbucket-pipelines.yml" => "CI: runs with the project's secrets",
    "**/buildspec.y*ml" => "CI: runs with the project's secrets",
    "**/bunfig.toml" => "bun: registries and preloaded code",
    "**/cloudbuild.y*ml" => "CI: runs with the project's secrets",
    "**/crush.json" => "Crush: language and MCP servers",
    "**/gptme.toml" => "gptme: commands that it runs by itself",
    "**/gradle/wrapper" => "Gradle: the wrapper that every build runs",
    "**/jupyter_*config.py" => "Jupyter: code that runs when it starts here",
    "**/lefthook*.json" => "git hooks",
    "**/lefthook*.toml" => "git hooks",
    "**/lefthook*.y*ml" => "git hooks",
    "**/lint-staged.config.*" => "lint-staged: commands that run at each commit",
    "**/mcp.json" => "MCP servers that clients start by themselves",
    "**/mise.*.toml" => "mise: hooks and variables when the directory is entered",
    "**/mise.toml" => "mise: hooks and variables when the directory is entered",
    "**/nuget.config" => "NuGet: package sources",
    "**/opencode.json" => "OpenCode: settings, MCP servers, commands",
    "**/opencode.jsonc" => "OpenCode: settings, MCP servers, commands",
    "**/pip.conf" => "pip: package sources",
    "**/ringfence.toml" => "ringfence: the fence itself",
    "**/rust-analyzer.toml" => "rust-analyzer: the command that runs at each save",
    "**/rust-toolchain" => "rustup: which compiler runs, also by path",
    "**/rust-toolchain.toml" => "rustup: which compiler runs, also by path",
    "**/simple-git-hooks.*" => "git hooks",
    "**/sitecustomize.py" => "Python: code that runs whenever Python starts",
    "**/tools/bazel" => "Bazel: a script that runs instead of bazel",
    "**/usercustomize.py" => "Python: code that runs whenever Python starts",
    "**/uv.toml" => "uv: package sources",
};

/// Directories below which [`PROTECTED_ANYWHERE`] does not hold.
///
/// Packages ship their own `.github`, `.vscode`, `.travis.yml` and `.cargo`, which mean nothing there, and an install that
/// cannot unpack them fails. The same goes for every private cache of a pack. The root itself may lie inside such a
/// directory and is still protected: a pattern begins below the root.
pub static THIRD_PARTY: &[Row] = rows! {
    "**/bower_components" => "unpacked packages of bower",
    "**/node_modules" => "unpacked packages of npm",
    "**/site-packages" => "unpacked packages of Python",
    "**/target/package" => "cargo unpacks the crate it is about to publish",
    "**/vendor" => "unpacked packages of Go, PHP, Ruby and cargo vendor",
};

/// What is protected inside a git directory, relative to it.
///
/// Writable stay objects, refs, logs, index, HEAD, packed-refs, `worktrees/*/{gitdir,commondir}` (`git worktree add` makes
/// them) and the state of merge, rebase and bisect. `modules/**/config` and its like also catch a submodule's own
/// `refs/heads/config` or `refs/heads/hooks/x`: such a branch of a submodule cannot be made inside, which is the
/// cheaper mistake, since submodule names contain slashes and nest. In the main repository those branches work.
/// Grafts are left out: `refs/replace` does the same and is an ordinary ref.
pub static GIT_DIR: &[Row] = rows! {
    "branches" => "remotes by the oldest syntax, which nothing writes any more",
    "commondir" => "sends git to another directory for its config and hooks",
    "config" => "names programs that git runs",
    "config.worktree" => "names programs that git runs",
    "hooks" => "programs that git runs",
    "info/attributes" => "chooses which filter programs git runs",
    "modules/**/config" => "names programs that git runs in a submodule",
    "modules/**/config.worktree" => "names programs that git runs in a submodule",
    "modules/**/hooks" => "programs that git runs in a submodule",
    "modules/**/info/attributes" => "chooses which filter programs git runs in a submodule",
    "objects/info/alternates" => "sends git to another directory for its objects",
    "remotes" => "remotes by an old syntax, which nothing writes any more",
    "worktrees/*/config.worktree" => "names programs that git runs in a worktree",
};

/// What in a repository belongs to the work trees that a session does not work on, relative to its git directory.
///
/// Writable stay objects, refs and their logs, and `packed-refs`, which git locks whenever it removes a ref.
pub static GIT_OTHER_TREES: &[Row] = rows! {
    "AUTO_MERGE" => "the user's own merge",
    "BISECT_*" => "the user's own search",
    "CHERRY_PICK_HEAD" => "the user's own merge",
    "COMMIT_EDITMSG" => "the user's own commit",
    "FETCH_HEAD" => "what the user fetched",
    "HEAD" => "what the user works on",
    "HEAD.lock" => "what the user works on",
    "MERGE_*" => "the user's own merge",
    "ORIG_HEAD" => "where the user was",
    "REBASE_HEAD" => "the user's own rebase",
    "REVERT_HEAD" => "the user's own merge",
    "SQUASH_MSG" => "the user's own merge",
    "index" => "what the user is about to commit",
    "index.lock" => "what the user is about to commit",
    "info" => "what the user's work tree leaves out",
    "logs/HEAD" => "where the user was",
    "modules" => "the user's own submodules",
    "rebase-apply" => "the user's own rebase, with commands to run",
    "rebase-merge" => "the user's own rebase, with commands to run",
    "sequencer" => "the user's own rebase, with commands to run",
    "worktrees" => "other work trees",
};

/// Asked about in accept-edits mode, never protected: package managers must write them.
pub static LOCKFILES: &[Row] = rows! {
    "**/.terraform.lock.hcl" => "lock file of Terraform",
    "**/Cargo.lock" => "lock file of cargo",
    "**/Cartfile.resolved" => "lock file of Carthage",
    "**/Chart.lock" => "lock file of Helm",
    "**/Gemfile.lock" => "lock file of Bundler",
    "**/MODULE.bazel.lock" => "lock file of Bazel",
    "**/Manifest.toml" => "lock file of Julia",
    "**/Package.resolved" => "lock file of Swift packages",
    "**/Pipfile.lock" => "lock file of pipenv",
    "**/Podfile.lock" => "lock file of CocoaPods",
    "**/aqua-checksums.json" => "lock file of aqua",
    "**/buf.lock" => "lock file of Buf",
    "**/buildscript-gradle.lockfile" => "lock file of Gradle",
    "**/bun.lock" => "lock file of bun",
    "**/bun.lockb" => "lock file of bun",
    "**/cabal.project.freeze" => "lock file of Cabal",
    "**/composer.lock" => "lock file of Composer",
    "**/conan.lock" => "lock file of Conan",
    "**/conda-lock.yml" => "lock file of conda",
    "**/deno.lock" => "lock file of Deno",
    "**/devbox.lock" => "lock file of Devbox",
    "**/dub.selections.json" => "lock file of dub",
    "**/flake.lock" => "lock file of Nix",
    "**/go.sum" => "lock file of Go modules",
    "**/go.work.sum" => "lock file of Go modules",
    "**/gradle.lockfile" => "lock file of Gradle",
    "**/gradle/verification-metadata.xml" => "lock file of Gradle",
    "**/lake-manifest.json" => "lock file of Lake",
    "**/mise.lock" => "lock file of mise",
    "**/mix.lock" => "lock file of Mix",
    "**/nimble.lock" => "lock file of Nimble",
    "**/npm-shrinkwrap.json" => "lock file of npm",
    "**/package-lock.json" => "lock file of npm",
    "**/packages.lock.json" => "lock file of NuGet",
    "**/paket.lock" => "lock file of Paket",
    "**/pdm.lock" => "lock file of PDM",
    "**/pixi.lock" => "lock file of pixi",
    "**/pnpm-lock.yaml" => "lock file of pnpm",
    "**/poetry.lock" => "lock file of poetry",
    "**/pubspec.lock" => "lock file of Dart",
    "**/pylock*.toml" => "lock file of Python",
    "**/rebar.lock" => "lock file of rebar3",
    "**/renv.lock" => "lock file of R",
    "**/shard.lock" => "lock file of Crystal",
    "**/spago.lock" => "lock file of Spago",
    "**/stack.yaml.lock" => "lock file of Stack",
    "**/symfony.lock" => "lock file of Symfony",
    "**/uv.lock" => "lock file of uv",
    "**/yarn.lock" => "lock file of yarn",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(table: &[Row], pattern: &str, listed: bool) {
        assert_eq!(table.iter().any(|row| row.pattern == pattern), listed, "{pattern}");
    }

    #[test]
    fn every_name_of_the_design_is_protected() {
        for name in [
            ".claude",
            ".codex",
            ".agents",
            ".gemini",
            ".cursor",
            ".vscode",
            ".idea",
            ".mcp.json",
            ".envrc",
            ".husky",
            ".github/workflows",
            ".pre-commit-config.yaml",
            ".npmrc",
            ".yarnrc",
            ".yarnrc.yml",
            ".cargo/config.toml",
            "ringfence.toml",
            ".gitmodules",
            ".bashrc",
            ".zshrc",
            ".profile",
            ".qwen",
            ".opencode",
            ".ssh",
        ] {
            check(PROTECTED_ANYWHERE, &format!("**/{name}"), true);
        }
    }

    #[test]
    fn the_project_itself_stays_writable() {
        for name in [
            "AGENTS.md",
            "CLAUDE.md",
            ".gitattributes",
            ".gitignore",
            ".git",
            "Makefile",
            "package.json",
            ".env",
            "*.pth",
        ] {
            check(PROTECTED_ANYWHERE, &format!("**/{name}"), false);
        }
    }

    #[test]
    fn a_row_is_for_any_depth() {
        for row in PROTECTED_ANYWHERE.iter().chain(LOCKFILES).chain(THIRD_PARTY) {
            assert!(row.pattern.starts_with("**/"), "{}", row.pattern);
        }
    }

    #[test]
    fn git_still_works() {
        check(GIT_DIR, "hooks", true);
        check(GIT_DIR, "config", true);
        check(GIT_DIR, "commondir", true);
        check(GIT_DIR, "modules/**/config", true);
        for row in GIT_DIR {
            let first = row.pattern.split('/').next();
            let written =
                ["refs", "logs", "index", "HEAD", "ORIG_HEAD", "FETCH_HEAD", "packed-refs", "rebase-merge", "**", "*"];
            assert!(!written.iter().any(|name| Some(*name) == first), "{} stops git", row.pattern);
            assert!(
                !row.pattern.starts_with("worktrees") || row.pattern.ends_with("config.worktree"),
                "{}",
                row.pattern
            );
        }
    }

    #[test]
    fn a_lock_file_is_asked_about_and_not_protected() {
        check(LOCKFILES, "**/Cargo.lock", true);
        check(LOCKFILES, "**/package-lock.json", true);
        for row in LOCKFILES {
            check(PROTECTED_ANYWHERE, row.pattern, false);
        }
    }
}
