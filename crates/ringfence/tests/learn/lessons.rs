//! What is learned, as the program says it.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::place::{Place, shown};

impl Place {
    /// What is learned from a command.
    #[track_caller]
    pub(crate) fn learn(&self, options: &[&str], command: &[&str]) -> Value {
        let words = [&["learn", "--json"], options, &["--"], command].concat();
        let output = self.ringfence(&words);
        assert!(output.status.success(), "{command:?} as {:?}: {}", self.who, shown(&output));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", shown(&output)))
    }
}

impl Place {
    /// May everybody on the machine go there? Where the tests do not run as root it lies in the checkout, which may be closed.
    pub(crate) fn is_open(&self) -> bool {
        self.path("other").ancestors().all(|dir| {
            let mode = std::fs::metadata(dir).map_or(0, |metadata| metadata.permissions().mode());
            mode & 0o001 != 0
        })
    }
}

/// The values of the lines that are proposed, as `key value`.
pub(crate) fn lines(learned: &Value) -> Vec<String> {
    let text = |change: &Value, name: &str| change[name].as_str().unwrap().to_owned();
    let changes = learned["changes"].as_array().unwrap();
    changes.iter().map(|change| format!("{} {}", text(change, "key"), text(change, "value"))).collect()
}

pub(crate) fn refused(learned: &Value) -> Vec<String> {
    learned["refused"].as_array().unwrap().iter().map(|one| one["asked"].as_str().unwrap().to_owned()).collect()
}
