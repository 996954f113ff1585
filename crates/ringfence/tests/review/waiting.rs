//! Changes that wait, as the program says it.

use std::process::{Child, Stdio};

use serde_json::Value;

use crate::place::{Place, shown};

impl Place {
    /// Starts the program in the project, with pipes.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs a line of shell whose changes wait for a review.
    #[track_caller]
    pub(crate) fn review(&self, line: &str) -> String {
        self.done(&["run", "--review", "--", "sh", "-ec", line])
    }

    /// What would change, as `what path`, seen from the project.
    #[track_caller]
    pub(crate) fn changes(&self) -> Vec<String> {
        let output = self.ringfence(&["diff", "--json"]);
        assert!(output.status.success(), "as {:?}: {}", self.who, shown(&output));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let project = self.at("project/");
        let one = |change: &Value| {
            let path = change["path"].as_str().unwrap();
            format!("{} {}", change["change"].as_str().unwrap(), path.strip_prefix(&project).unwrap_or(path))
        };
        answer["changes"].as_array().unwrap().iter().map(one).collect()
    }
}
