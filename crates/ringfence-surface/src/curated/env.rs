//! Environment variables (claim A4): which pass by default, and which must never pass by a wildcard.
//!
//! The environment is built from empty. EDITOR, VISUAL and PAGER do not pass although they are harmless words most days:
//! they name programs, often by a path outside the surface, and an agent's tool that opens an editor hangs.

use super::Row;

/// Names that pass, with at most a `*` at the end.
pub static PASS: &[Row] = rows! {
    "CI" => "tools ask no questions",
    "CLICOLOR*" => "colours of the terminal",
    "COLORFGBG" => "colours of the terminal",
    "COLORTERM" => "colours of the terminal",
    "COLUMNS" => "size of the terminal",
    "CURL_CA_BUNDLE" => "whose certificates are trusted",
    "DEBIAN_FRONTEND" => "package tools ask no questions",
    "DO_NOT_TRACK" => "tools send no statistics",
    "FORCE_COLOR" => "colours of the terminal",
    "GREP_COLORS" => "colours of the terminal",
    "KONSOLE_VERSION" => "what the terminal can do",
    "LANG" => "language",
    "LANGUAGE" => "language",
    "LC_*" => "language",
    "LINES" => "size of the terminal",
    "LOGNAME" => "name of the user",
    "LS_COLORS" => "colours of the terminal",
    "NIX_SSL_CERT_FILE" => "whose certificates are trusted",
    "NO_COLOR" => "colours of the terminal",
    "REQUESTS_CA_BUNDLE" => "whose certificates are trusted",
    "SHELL" => "which shell tools open",
    "SOURCE_DATE_EPOCH" => "reproducible builds",
    "SSL_CERT_DIR" => "whose certificates are trusted",
    "SSL_CERT_FILE" => "whose certificates are trusted",
    "TERM" => "what the terminal can do",
    "TERMINFO" => "what the terminal can do",
    "TERM_PROGRAM" => "what the terminal can do",
    "TERM_PROGRAM_VERSION" => "what the terminal can do",
    "TZ" => "time zone",
    "USER" => "name of the user",
    "VTE_VERSION" => "what the terminal can do",
};

/// Names that never pass by a wildcard, and are warned about when they are passed by name; a `*` at either end.
pub static NEVER: &[Row] = rows! {
    "*ACCESSTOKEN*" => "secret, by its name",
    "*APIKEY*" => "secret, by its name",
    "*API_KEY*" => "secret, by its name",
    "*AUTHTOKEN*" => "secret, by its name",
    "*CREDENTIAL*" => "secret, by its name",
    "*DATABASE_URL*" => "database address, with its password",
    "*PASSPHRASE*" => "secret, by its name",
    "*PASSWD*" => "secret, by its name",
    "*PASSWORD*" => "secret, by its name",
    "*SECRET*" => "secret, by its name",
    "*WEBHOOK*" => "an address that is a secret",
    "*_AUTH" => "secret, by its name",
    "*_CONNECTION_STRING" => "database address, with its password",
    "*_COOKIE" => "secret, by its name",
    "*_DSN" => "database or service address, with its password",
    "*_INDEX_URL" => "package server address, often with a password",
    "*_KEY" => "secret, by its name",
    "*_KEY_*" => "secret, by its name",
    "*_PASS" => "secret, by its name",
    "*_PAT" => "secret, by its name",
    "*_PROXY" => "proxy address, often with a password; the fence has its own way out",
    "*_SESSION" => "secret, by its name",
    "*_TOKEN" => "secret, by its name",
    "*_TOKENS" => "secret, by its name",
    "*_TOKEN_*" => "secret, by its name",
    "ACTIONS_*" => "tokens and files of a CI job",
    "AGE_*" => "age keys",
    "ALACRITTY_SOCKET" => "control of the user's terminal",
    "ALIBABA_CLOUD_*" => "cloud credentials",
    "ALICLOUD_*" => "cloud credentials",
    "AMQP_URL" => "message broker address, with its password",
    "ANSIBLE_*" => "Ansible: password files and plugin directories",
    "ANTHROPIC_*" => "model provider: keys, and where prompts are sent",
    "ARM_*" => "cloud credentials",
    "AWS_*" => "cloud credentials",
    "AZURE_*" => "cloud credentials",
    "BASHOPTS" => "changes what every script means",
    "BASH_ENV" => "runs a file in every shell",
    "BASH_FUNC_*" => "replaces commands in every shell",
    "BASH_LOADABLES_PATH" => "loads libraries into every shell",
    "BITBUCKET_*" => "tokens and files of a CI job",
    "BROWSER" => "a program that tools start",
    "BUILDKITE_*" => "tokens and files of a CI job",
    "BUILDKIT_HOST" => "BuildKit: runs build steps outside the fence",
    "BUNDLE_*" => "Bundler: gem server passwords",
    "BW_*" => "Bitwarden session",
    "CARGO_BUILD_RUSTC*" => "a program that every build runs",
    "CARGO_REGISTRIES_*" => "crate registries and their tokens",
    "CARGO_TARGET_*" => "programs that every build runs",
    "CDPATH" => "changes where cd goes",
    "CF_*" => "cloud credentials",
    "CIRCLE_*" => "tokens and files of a CI job",
    "CI_*" => "tokens and files of a CI job",
    "CLASSPATH" => "loads code into every JVM",
    "CLAUDE_*" => "Claude Code: switches of hooks, trust and settings",
    "CLOUDFLARE_*" => "cloud credentials",
    "CLOUDSDK_*" => "cloud credentials",
    "CODEX_*" => "Codex: home, trust and settings",
    "CONSUL_*" => "Consul address and token",
    "CONTAINER_HOST" => "Podman: containers outside the fence",
    "CURL_HOME" => "options of every curl",
    "DBUS_*" => "D-Bus: every service of the host",
    "DD_*" => "monitoring keys",
    "DIGITALOCEAN_*" => "cloud credentials",
    "DISPLAY" => "X11: reads and types in every window",
    "DOCKER_*" => "Docker: root on the host",
    "DOTNET_STARTUP_HOOKS" => "loads code into every .NET program",
    "DYLD_*" => "loads libraries into every program",
    "EDITOR" => "a program that tools start",
    "ELIXIR_ERL_OPTIONS" => "loads code into every Elixir program",
    "EMACSLOADPATH" => "loads code into Emacs",
    "EMACS_SOCKET_NAME" => "runs any code in the user's editor",
    "ENV" => "runs a file in every shell",
    "ERL_*" => "loads code into every Erlang program",
    "EXINIT" => "runs commands in vi",
    "FIREBASE_*" => "cloud credentials",
    "FLY_*" => "cloud credentials",
    "FPATH" => "replaces commands in every shell",
    "GCLOUD_*" => "cloud credentials",
    "GCONV_PATH" => "loads libraries into every program",
    "GCP_*" => "cloud credentials",
    "GEMINI_*" => "Gemini CLI: keys, trust and settings",
    "GETCONF_DIR" => "runs programs from another directory",
    "GH_*" => "GitHub CLI: token, host and settings",
    "GITHUB_*" => "tokens and files of a CI job",
    "GITLAB_*" => "tokens and files of a CI job",
    "GIT_ALLOW_PROTOCOL" => "lets git run programs as transports",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES" => "sends git to another repository",
    "GIT_ASKPASS" => "a program that git runs",
    "GIT_ATTR_*" => "git: attributes from another place",
    "GIT_COMMON_DIR" => "sends git to another repository",
    "GIT_CONFIG*" => "git: programs that git runs",
    "GIT_DIR" => "sends git to another repository",
    "GIT_EDITOR" => "a program that git runs",
    "GIT_EXEC_PATH" => "programs that git runs",
    "GIT_EXTERNAL_DIFF" => "a program that git runs",
    "GIT_INDEX_FILE" => "sends git to another repository",
    "GIT_NAMESPACE" => "sends git to another repository",
    "GIT_OBJECT_DIRECTORY" => "sends git to another repository",
    "GIT_PAGER" => "a program that git runs",
    "GIT_PROXY_*" => "a program that git runs",
    "GIT_SEQUENCE_EDITOR" => "a program that git runs",
    "GIT_SSH*" => "a program that git runs",
    "GIT_SSL_*" => "git: trust and keys",
    "GIT_TEMPLATE_DIR" => "hooks of new repositories",
    "GIT_TRACE*" => "git appends to any file",
    "GIT_WORK_TREE" => "sends git to another repository",
    "GLIBC_TUNABLES" => "changes the loader of every program",
    "GNOME_KEYRING_*" => "GNOME keyring: every stored password",
    "GNUMAKEFLAGS" => "options of every make",
    "GNUPGHOME" => "GnuPG keys",
    "GOENV" => "options of every Go build",
    "GOOGLE_*" => "cloud credentials",
    "GPG_*" => "GnuPG agent",
    "GRADLE_OPTS" => "loads code into every JVM",
    "GVIMINIT" => "runs commands in vim",
    "HCLOUD_*" => "cloud credentials",
    "HELM_*" => "Helm: plugins and registries",
    "HEROKU_*" => "cloud credentials",
    "HF_*" => "Hugging Face token and endpoint",
    "HISTFILE" => "shell history",
    "HOSTALIASES" => "changes what names resolve to",
    "HYPRLAND_*" => "window manager: starts programs",
    "I3SOCK" => "window manager: starts programs",
    "IBMCLOUD_*" => "cloud credentials",
    "ICEAUTHORITY" => "right to join the desktop session",
    "IFS" => "changes what every script means",
    "INCUS_*" => "Incus: root on the host",
    "INPUTRC" => "keys that type commands",
    "JAVA_TOOL_OPTIONS" => "loads code into every JVM",
    "JDK_JAVA_OPTIONS" => "loads code into every JVM",
    "JULIA_LOAD_PATH" => "loads code into every Julia program",
    "KITTY_LISTEN_ON" => "control of the user's terminal",
    "KRB5*" => "Kerberos tickets",
    "KUBECONFIG" => "Kubernetes credentials",
    "KUBERNETES_*" => "Kubernetes: where the cluster answers",
    "LD_*" => "loads libraries into every program",
    "LESSCLOSE" => "a program that less runs",
    "LESSOPEN" => "a program that less runs",
    "LIBVIRT_*" => "libvirt: virtual machines with any disk of the host",
    "LISTEN_*" => "descriptors handed in by systemd",
    "LOCALDOMAIN" => "changes what names resolve to",
    "LOCPATH" => "loads data into every program",
    "LUA_*" => "loads code into every Lua program",
    "LXD_*" => "LXD: root on the host",
    "MAKEFILES" => "loads rules into every make",
    "MAKEFLAGS" => "options of every make",
    "MANPAGER" => "a program that tools start",
    "MAVEN_ARGS" => "options of every Maven build",
    "MAVEN_OPTS" => "loads code into every JVM",
    "MONGO*" => "database address, with its password",
    "MYSQL_*" => "database address and password",
    "MYVIMRC" => "runs commands in vim",
    "NIRI_SOCKET" => "window manager: starts programs",
    "NODE_OPTIONS" => "loads code into every Node program",
    "NODE_PATH" => "loads code into every Node program",
    "NODE_REPL_EXTERNAL_MODULE" => "loads code into every Node session",
    "NOMAD_*" => "Nomad address and token",
    "NOTIFY_SOCKET" => "speaks for a service to systemd",
    "NPM_*" => "npm: tokens, registries and the shell of scripts",
    "NUGET_*" => "NuGet: package sources and their passwords",
    "NVIM*" => "runs any code in the user's editor",
    "OCI_*" => "cloud credentials",
    "OPENAI_*" => "model provider: keys, and where prompts are sent",
    "OPENCODE_*" => "OpenCode: settings and trust",
    "OPENSSL_CONF" => "loads libraries into every program with TLS",
    "OPENSSL_ENGINES" => "loads libraries into every program with TLS",
    "OPENSSL_MODULES" => "loads libraries into every program with TLS",
    "OP_*" => "1Password session",
    "PAGER" => "a program that tools start",
    "PERL5*" => "loads code into every Perl program",
    "PERLLIB" => "loads code into every Perl program",
    "PG*" => "database address and password",
    "PHPRC" => "loads code into every PHP program",
    "PHP_INI_SCAN_DIR" => "loads code into every PHP program",
    "PIPEWIRE_*" => "records sound and the screen",
    "PODMAN_*" => "Podman: containers outside the fence",
    "POETRY_HTTP_*" => "Python package index passwords",
    "PROMPT_COMMAND" => "runs at every prompt",
    "PS4" => "runs in every traced script",
    "PULSE_*" => "records sound",
    "PULUMI_*" => "Pulumi token and settings",
    "PYTHONBREAKPOINT" => "loads code into every Python program",
    "PYTHONEXECUTABLE" => "loads code into every Python program",
    "PYTHONHOME" => "loads code into every Python program",
    "PYTHONINSPECT" => "opens an interpreter after every program",
    "PYTHONPATH" => "loads code into every Python program",
    "PYTHONPLATLIBDIR" => "loads code into every Python program",
    "PYTHONSTARTUP" => "loads code into every Python session",
    "PYTHONUSERBASE" => "loads code into every Python program",
    "PYTHONWARNINGS" => "loads code into every Python program",
    "QWEN_*" => "Qwen Code: keys, trust and settings",
    "REDIS_URL" => "database address, with its password",
    "RES_OPTIONS" => "changes what names resolve to",
    "RINGFENCE_*" => "ringfence: the fence itself",
    "RUBYLIB" => "loads code into every Ruby program",
    "RUBYOPT" => "loads code into every Ruby program",
    "RUBYSHELL" => "a program that Ruby runs",
    "RUNNER_*" => "tokens and files of a CI job",
    "RUSTC" => "a program that every build runs",
    "RUSTC_*" => "a program that every build runs",
    "RUSTDOC" => "a program that every build runs",
    "R_ENVIRON*" => "loads code into every R session",
    "R_PROFILE*" => "loads code into every R session",
    "SBT_OPTS" => "loads code into every JVM",
    "SCW_*" => "cloud credentials",
    "SENTRY_*" => "monitoring keys",
    "SESSION_MANAGER" => "joins the desktop session",
    "SHELLOPTS" => "changes what every script means",
    "SLACK_*" => "messenger tokens",
    "SOPS_*" => "sops keys",
    "SSH_*" => "SSH agent: signs with the user's keys",
    "SSLKEYLOGFILE" => "writes TLS keys to a file",
    "STRIPE_*" => "payment keys",
    "STY" => "types into the user's terminals",
    "SUDO_*" => "a program that sudo runs",
    "SUPABASE_*" => "cloud credentials",
    "SWAYSOCK" => "window manager: starts programs",
    "SYSTEMD_*" => "a program that systemd's tools run",
    "TELEGRAM_*" => "messenger tokens",
    "TF_*" => "Terraform: variables, tokens, plugins",
    "TMUX*" => "types into the user's terminals",
    "TWILIO_*" => "messenger tokens",
    "TWINE_*" => "Python package index passwords",
    "VAULT_*" => "Vault address and token",
    "VERCEL_*" => "cloud credentials",
    "VIMINIT" => "runs commands in vim",
    "VIMRUNTIME" => "runs commands in vim",
    "VISUAL" => "a program that tools start",
    "VSCODE_*" => "runs commands in the user's editor",
    "WANDB_*" => "tracking key",
    "WAYLAND_*" => "Wayland: windows, clipboard, screen",
    "WEZTERM_*" => "control of the user's terminal",
    "XAUTHORITY" => "right to read every X11 window and key press",
    "XDG_RUNTIME_DIR" => "sockets of the session",
    "XDG_SESSION_*" => "the desktop session",
    "YARN_*" => "yarn: registries, plugins and tokens",
    "ZDOTDIR" => "runs files in every shell",
    "ZELLIJ*" => "types into the user's terminals",
    "_JAVA_OPTIONS" => "loads code into every JVM",
};

/// The row by which a variable passes without being named in a policy. A dangerous name never does: `LC_API_KEY` is no locale.
#[must_use]
pub fn passes_by_default(name: &[u8]) -> Option<&'static Row> {
    let row = PASS.iter().find(|row| matches(row.pattern.as_bytes(), name))?;
    if dangerous(name).is_some() { None } else { Some(row) }
}

/// The row that says why a variable is dangerous. Case does not count: `http_proxy` and `npm_config__authToken` are real.
#[must_use]
pub fn dangerous(name: &[u8]) -> Option<&'static Row> {
    let upper = name.to_ascii_uppercase();
    NEVER.iter().find(|row| matches(row.pattern.as_bytes(), &upper))
}

/// Whether `name` is the pattern, with `*` at either end standing for any bytes, also none.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (front, core) = pattern.strip_prefix(b"*").map_or((false, pattern), |core| (true, core));
    let (back, core) = core.strip_suffix(b"*").map_or((false, core), |core| (true, core));
    match (front, back) {
        (false, false) => name == core,
        (false, true) => name.starts_with(core),
        (true, false) => name.ends_with(core),
        // `windows` has no value for a length of 0.
        (true, true) => core.is_empty() || name.windows(core.len()).any(|window| window == core),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, pass: Option<&str>, danger: Option<&str>) {
        let pattern = |row: Option<&'static Row>| row.map(|row| row.pattern);
        assert_eq!(pattern(passes_by_default(name.as_bytes())), pass, "{name} passes");
        assert_eq!(pattern(dangerous(name.as_bytes())), danger, "{name} is dangerous");
    }

    #[test]
    fn names() {
        check("TERM", Some("TERM"), None);
        check("TERMCAP", None, None);
        check("SSL_CERT_FILE", Some("SSL_CERT_FILE"), None);
        check("LC_ALL", Some("LC_*"), None);
        check("LC_API_KEY", None, Some("*API_KEY*"));
        check("CLICOLOR_FORCE", Some("CLICOLOR*"), None);
        check("term", None, None);
        check("EDITOR", None, Some("EDITOR"));
        check("SSH_AUTH_SOCK", None, Some("SSH_*"));
        check("AWS_PROFILE", None, Some("AWS_*"));
        check("GCP_PROJECT", None, Some("GCP_*"));
        check("AZURE_TENANT_ID", None, Some("AZURE_*"));
        check("GITHUB_TOKEN", None, Some("*_TOKEN"));
        check("LD_PRELOAD", None, Some("LD_*"));
        check("CLAUDE_CODE_SIMPLE", None, Some("CLAUDE_*"));
        check("DATABASE_URL", None, Some("*DATABASE_URL*"));
        check("http_proxy", None, Some("*_PROXY"));
        check("npm_config__authToken", None, Some("*AUTHTOKEN*"));
        check("BASH_FUNC_ls%%", None, Some("BASH_FUNC_*"));
        check("GIT_SSH_COMMAND", None, Some("GIT_SSH*"));
        check("GIT_AUTHOR_NAME", None, None);
        check("CI", Some("CI"), None);
        check("CI_JOB_URL", None, Some("CI_*"));
        check("", None, None);
        assert!(dangerous(b"AWS_\xff").is_some(), "names are bytes");
    }

    #[test]
    fn nothing_that_passes_is_dangerous() {
        let packs = crate::curated::packs::PACKS.iter().flat_map(|pack| pack.env);
        for row in PASS.iter().chain(packs) {
            let name = row.pattern.trim_end_matches('*');
            assert!(dangerous(name.as_bytes()).is_none(), "{} is also dangerous", row.pattern);
            assert!(!row.pattern.starts_with('*'), "{} begins with a wildcard", row.pattern);
        }
    }
}
