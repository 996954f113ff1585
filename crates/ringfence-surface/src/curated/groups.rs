//! Network groups (claim K9): the hosts that a registry, a forge or a model provider really needs, by one name.
//!
//! Hosts are enumerated; no group has a wildcard. Statistics, updates and web pages are left out. A host that serves
//! data of any user (`github.com`) is listed only where the tool stops without it. `storage.googleapis.com`, where the module proxy of
//! Go sends a few large downloads, is not: every bucket of every customer has that name.

use super::Row;

/// Hosts under one name.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// What a policy writes in `network.allow`.
    pub name: &'static str,
    /// What it is for.
    pub reason: &'static str,
    /// Host patterns, and what each is for.
    pub hosts: &'static [Row],
}

/// The group of this name.
#[must_use]
pub fn group(name: &str) -> Option<&'static Group> {
    GROUPS.binary_search_by(|group| group.name.cmp(name)).ok().and_then(|index| GROUPS.get(index))
}

/// Every group, sorted by name.
pub static GROUPS: &[Group] = &[
    Group {
        name: "alpine",
        reason: "packages of Alpine Linux",
        hosts: rows! {
            "dl-cdn.alpinelinux.org" => "package downloads",
        },
    },
    Group {
        name: "anthropic",
        reason: "Claude models",
        hosts: rows! {
            "api.anthropic.com:443" => "the API",
            "console.anthropic.com:443" => "renews the sign-in of older clients",
            "platform.claude.com:443" => "renews the sign-in",
        },
    },
    Group {
        name: "bitbucket",
        reason: "repositories on Bitbucket",
        hosts: rows! {
            "api.bitbucket.org:443" => "the API",
            "bitbucket.org:22" => "git over SSH",
            "bitbucket.org:443" => "git over HTTPS",
        },
    },
    Group {
        name: "codeberg",
        reason: "repositories on Codeberg",
        hosts: rows! {
            "codeberg.org:22" => "git over SSH",
            "codeberg.org:443" => "git over HTTPS, and the API",
        },
    },
    Group {
        name: "crates",
        reason: "Rust crates",
        hosts: rows! {
            "crates.io:443" => "search, and the API",
            "index.crates.io:443" => "the index",
            "static.crates.io:443" => "crate downloads",
        },
    },
    Group {
        name: "debian",
        reason: "packages of Debian",
        hosts: rows! {
            "deb.debian.org" => "package downloads",
            "security.debian.org" => "security updates",
        },
    },
    Group {
        name: "deepseek",
        reason: "DeepSeek models",
        hosts: rows! {
            "api.deepseek.com:443" => "the API",
        },
    },
    Group {
        name: "github",
        reason: "repositories on GitHub",
        hosts: rows! {
            "api.github.com:443" => "the API",
            "codeload.github.com:443" => "archives of repositories",
            "github-cloud.githubusercontent.com:443" => "large files of git-lfs",
            "github-cloud.s3.amazonaws.com:443" => "uploads of git-lfs",
            "github.com:22" => "git over SSH",
            "github.com:443" => "git over HTTPS",
            "objects.githubusercontent.com:443" => "release downloads",
            "raw.githubusercontent.com:443" => "single files",
            "release-assets.githubusercontent.com:443" => "release downloads",
            "uploads.github.com:443" => "release uploads",
        },
    },
    Group {
        name: "github-copilot",
        reason: "models through GitHub Copilot",
        hosts: rows! {
            "api.business.githubcopilot.com:443" => "the API of business plans",
            "api.enterprise.githubcopilot.com:443" => "the API of enterprise plans",
            "api.github.com:443" => "renews the sign-in",
            "api.githubcopilot.com:443" => "the API",
            "api.individual.githubcopilot.com:443" => "the API of personal plans",
        },
    },
    Group {
        name: "gitlab",
        reason: "repositories on GitLab",
        hosts: rows! {
            "gitlab.com:22" => "git over SSH",
            "gitlab.com:443" => "git over HTTPS, and the API",
        },
    },
    Group {
        name: "go",
        reason: "Go modules",
        hosts: rows! {
            "proxy.golang.org:443" => "module downloads",
            "sum.golang.org:443" => "checksums",
        },
    },
    Group {
        name: "google-ai",
        reason: "Gemini models",
        hosts: rows! {
            "aiplatform.googleapis.com:443" => "the API through Google Cloud",
            "cloudcode-pa.googleapis.com:443" => "the API of signed-in Gemini CLI users",
            "generativelanguage.googleapis.com:443" => "the API",
            "oauth2.googleapis.com:443" => "renews the sign-in",
        },
    },
    Group {
        name: "gradle",
        reason: "Gradle itself and its plugins",
        hosts: rows! {
            "downloads.gradle.org:443" => "Gradle downloads",
            "github.com:443" => "Gradle downloads are sent on to its releases",
            "plugins-artifacts.gradle.org:443" => "plugin downloads",
            "plugins.gradle.org:443" => "plugin index",
            "release-assets.githubusercontent.com:443" => "Gradle downloads are sent on to its releases",
            "services.gradle.org:443" => "versions, and where each is downloaded",
        },
    },
    Group {
        name: "groq",
        reason: "models on Groq",
        hosts: rows! {
            "api.groq.com:443" => "the API",
        },
    },
    Group {
        name: "huggingface",
        reason: "models and data sets on Hugging Face",
        hosts: rows! {
            "cas-bridge.xethub.hf.co:443" => "large files",
            "cas-server.xethub.hf.co:443" => "large files",
            "cdn-lfs.hf.co:443" => "large files",
            "cdn-lfs.huggingface.co:443" => "large files",
            "huggingface.co:443" => "the API and small files",
            "transfer.xethub.hf.co:443" => "large files",
        },
    },
    Group {
        name: "maven",
        reason: "Java packages",
        hosts: rows! {
            "repo.maven.apache.org:443" => "Maven Central",
            "repo1.maven.org:443" => "Maven Central, older address",
        },
    },
    Group {
        name: "mistral",
        reason: "Mistral models",
        hosts: rows! {
            "api.mistral.ai:443" => "the API",
            "codestral.mistral.ai:443" => "the API for code",
        },
    },
    Group {
        name: "moonshot",
        reason: "Kimi models",
        hosts: rows! {
            "api.moonshot.ai:443" => "the API",
            "api.moonshot.cn:443" => "the API in China",
        },
    },
    Group {
        name: "nodejs",
        reason: "Node itself",
        hosts: rows! {
            "nodejs.org:443" => "Node downloads, and headers for native modules",
        },
    },
    Group {
        name: "npm",
        reason: "npm packages",
        hosts: rows! {
            "registry.npmjs.org:443" => "the registry",
            "registry.yarnpkg.com:443" => "the registry, by yarn's name for it",
            "repo.yarnpkg.com:443" => "yarn itself",
        },
    },
    Group {
        name: "openai",
        reason: "OpenAI models",
        hosts: rows! {
            "api.openai.com:443" => "the API",
            "auth.openai.com:443" => "renews the sign-in",
            "chatgpt.com:443" => "the API of signed-in Codex users",
        },
    },
    Group {
        name: "opencode",
        reason: "models through OpenCode",
        hosts: rows! {
            "models.dev:443" => "the list of models",
            "opencode.ai:443" => "the API",
        },
    },
    Group {
        name: "openrouter",
        reason: "models through OpenRouter",
        hosts: rows! {
            "openrouter.ai:443" => "the API",
        },
    },
    Group {
        name: "pypi",
        reason: "Python packages",
        hosts: rows! {
            "files.pythonhosted.org:443" => "package downloads",
            "pypi.org:443" => "the index",
        },
    },
    Group {
        name: "python",
        reason: "Python itself",
        hosts: rows! {
            "www.python.org:443" => "Python downloads",
        },
    },
    Group {
        name: "qwen",
        reason: "Qwen models",
        hosts: rows! {
            "chat.qwen.ai:443" => "renews the sign-in",
            "dashscope-intl.aliyuncs.com:443" => "the API",
            "dashscope.aliyuncs.com:443" => "the API in China",
            "portal.qwen.ai:443" => "the API of signed-in users",
        },
    },
    Group {
        name: "rubygems",
        reason: "Ruby gems",
        hosts: rows! {
            "index.rubygems.org:443" => "the index",
            "rubygems.org:443" => "gem downloads",
        },
    },
    Group {
        name: "rust",
        reason: "Rust itself",
        hosts: rows! {
            "static.rust-lang.org:443" => "compilers and rustup",
        },
    },
    Group {
        name: "sourcehut",
        reason: "repositories on sourcehut",
        hosts: rows! {
            "git.sr.ht:22" => "git over SSH",
            "git.sr.ht:443" => "git over HTTPS",
            "hg.sr.ht:22" => "Mercurial over SSH",
            "hg.sr.ht:443" => "Mercurial over HTTPS",
        },
    },
    Group {
        name: "ubuntu",
        reason: "packages of Ubuntu",
        hosts: rows! {
            "archive.ubuntu.com" => "package downloads",
            "ports.ubuntu.com" => "package downloads of other processors",
            "security.ubuntu.com" => "security updates",
        },
    },
    Group {
        name: "xai",
        reason: "Grok models",
        hosts: rows! {
            "api.x.ai:443" => "the API",
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostPattern;

    #[test]
    fn groups_are_sorted_and_found_by_name() {
        assert!(GROUPS.windows(2).all(|pair| pair[0].name < pair[1].name), "not sorted by name, or not unique");
        for known in GROUPS {
            assert_eq!(group(known.name).map(|found| found.reason), Some(known.reason));
            assert!(!known.reason.is_empty() && !known.hosts.is_empty(), "{}", known.name);
        }
        assert!(group("nothing").is_none());
    }

    #[test]
    fn every_host_is_a_canonical_pattern_without_a_wildcard() {
        for group in GROUPS {
            for row in group.hosts {
                let pattern = HostPattern::parse(row.pattern).unwrap_or_else(|error| panic!("{}: {error}", group.name));
                assert_eq!(pattern.to_string(), row.pattern, "{}", group.name);
                assert!(!row.pattern.contains('*'), "{}: {}", group.name, row.pattern);
            }
        }
    }

    #[test]
    fn a_group_is_never_mistaken_for_a_host() {
        // A policy's `allow` holds both; a name with a dot or a colon is a host.
        for group in GROUPS {
            assert!(group.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", group.name);
        }
    }
}
