//! What only `ringfence render kubernetes` takes.

use clap::Args;

/// Options about a cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "With `kubernetes`")]
pub(crate) struct KubernetesArgs {
    /// What the pod is part of: nothing, or a Sandbox of agent-sandbox
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<PodKindArg>,
    /// Say hosts that are named to Cilium; a network policy alone knows addresses
    #[arg(long)]
    pub(crate) cilium: bool,
    /// Take the files from this volume claim, which holds this machine's tree from its root on, and not from the node
    #[arg(long, value_name = "NAME")]
    pub(crate) claim: Option<String>,
    /// The cluster's version; 1.33 where nobody says
    #[arg(long, value_name = "VERSION", value_parser = cluster_version)]
    pub(crate) cluster: Option<u32>,
    /// What the objects are called
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The class of the runtime that starts it, as one with a kernel of its own
    #[arg(long, value_name = "NAME")]
    pub(crate) runtime_class: Option<String>,
}

impl KubernetesArgs {
    /// The first that was given.
    pub(crate) fn first(&self) -> Option<&'static str> {
        let given = [
            ("--kind", self.kind.is_some()),
            ("--cilium", self.cilium),
            ("--claim", self.claim.is_some()),
            ("--cluster", self.cluster.is_some()),
            ("--name", self.name.is_some()),
            ("--runtime-class", self.runtime_class.is_some()),
        ];
        given.into_iter().find_map(|(name, is_given)| is_given.then_some(name))
    }
}

/// What a pod can be part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PodKindArg {
    /// A Pod
    Pod,
    /// A Sandbox, `agents.x-k8s.io/v1beta1`
    Sandbox,
}

/// `1.33`, with or without what follows: the second number counts.
fn cluster_version(text: &str) -> Result<u32, String> {
    let wrong = || "a version is written 1.33".to_owned();
    let mut parts = text.trim_start_matches('v').split('.');
    match (parts.next(), parts.next()) {
        (Some("1"), Some(minor)) => minor.parse().map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (text, minor) in
            [("1.33", Some(33)), ("v1.30.2", Some(30)), ("1.31+k3s1", None), ("2.0", None), ("1", None), ("", None)]
        {
            assert_eq!(cluster_version(text).ok(), minor, "{text}");
        }
    }
}
