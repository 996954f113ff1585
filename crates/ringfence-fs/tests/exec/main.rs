//! Commands that nothing confines: what is captured, and what is ended.

#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

#[cfg(test)]
mod capture;
#[cfg(test)]
mod ending;

#[cfg(test)]
use std::time::Duration;

#[cfg(test)]
use ringfence_fs::{Environment as _, Exec, Executed, LocalEnvironment, Root, Writable};

/// Long enough for anything that ends by itself.
#[cfg(test)]
const LONG: Duration = Duration::from_secs(60);

#[cfg(test)]
struct Ground {
    temp: tempfile::TempDir,
    environment: LocalEnvironment,
}

#[cfg(test)]
impl Ground {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let root = Root::open(temp.path(), Writable::everything()).unwrap();
        Self { temp, environment: LocalEnvironment::with_unfenced_exec(root) }
    }

    fn shell(&self, line: &str) -> Executed {
        self.environment.exec(&shell(line, LONG)).unwrap()
    }
}

#[cfg(test)]
fn shell(line: &str, timeout: Duration) -> Exec {
    Exec::shell(line, timeout).env("PATH", "/usr/local/bin:/usr/bin:/bin")
}
