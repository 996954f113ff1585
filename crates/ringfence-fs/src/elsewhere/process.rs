//! On systems where a tree of processes cannot be found again, no command is run.

use std::process::Command;

use crate::error::ExecError;
use crate::exec::{Exec, Executed};

pub(crate) fn run(_command: Command, _exec: &Exec) -> Result<Executed, ExecError> {
    Err(ExecError::NotLinux)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t10_elsewhere_nothing_is_run() {
        let exec = Exec::new("true", std::time::Duration::from_secs(1));
        assert!(matches!(run(Command::new("true"), &exec), Err(ExecError::NotLinux)));
    }
}
