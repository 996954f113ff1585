//! What can go wrong where a layer is only printed.

/// Why a layer is not printed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RenderFailure {
    /// An option that one layer alone takes.
    #[error("{option} is for `{layer}`")]
    OnlyWith {
        /// Which.
        option: &'static str,
        /// Which layer.
        layer: &'static str,
    },
    /// An argument cannot stand on a line of its own.
    #[cfg(target_os = "linux")]
    #[error("{word:?} holds a new line, and there is one argument to a line")]
    TwoLines {
        /// Which.
        word: String,
    },
    /// A description that no cluster takes.
    #[cfg(target_os = "linux")]
    #[error("the objects are {bytes} bytes, and a cluster takes {most}")]
    TooLarge {
        /// How large.
        bytes: usize,
        /// How large at most.
        most: usize,
    },
}

impl RenderFailure {
    /// What the user can do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::OnlyWith { .. } => None,
            #[cfg(target_os = "linux")]
            Self::TwoLines { .. } => Some("`--json` prints it".into()),
            #[cfg(target_os = "linux")]
            Self::TooLarge { .. } => Some("guard whole directories rather than many names in them".into()),
        }
    }
}
