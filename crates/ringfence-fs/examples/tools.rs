//! The tools of a small orchestrator: an agent's calls come as lines of text, and every answer goes back to it. What leads out of
//! the directory, or is not writable, comes back as words that an agent can act on.
//!
//! ```text
//! cargo run -p ringfence-fs --example tools -- DIR 'src/**'
//! read README.md
//! write src/main.rs fn main() {}
//! glob **/*.rs
//! remove src/main.rs
//! exec cargo check
//! ```

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io::{self, BufRead as _, Write as _};
use std::path::Path;
use std::time::Duration;

use ringfence_fs::{Environment, Exec, ExecError, FileError, LocalEnvironment, Root, Writable};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args_os().skip(1);
    let dir = words.next().unwrap_or_else(|| OsString::from("."));
    let globs: Vec<OsString> = words.collect();
    // No globs: nothing can be written. An empty list is an error, since nobody means one.
    let writable = if globs.is_empty() { Writable::nothing() } else { Writable::globs(globs)? };
    let environment = LocalEnvironment::new(Root::open(dir, writable)?);
    for line in io::stdin().lock().lines() {
        let answer = answer(&environment, &line?);
        io::stdout().write_all(&answer)?;
        io::stdout().write_all(b"\n")?;
    }
    Ok(())
}

fn answer(environment: &dyn Environment, line: &str) -> Vec<u8> {
    let (tool, rest) = line.split_once(' ').unwrap_or((line, ""));
    let result = match tool {
        "read" => environment.read(Path::new(rest), 1 << 20).map_err(refusal),
        "write" => {
            let (path, content) = rest.split_once(' ').unwrap_or((rest, ""));
            environment.write(Path::new(path), content.as_bytes()).map(|()| b"written".to_vec()).map_err(refusal)
        }
        "remove" => environment.remove(Path::new(rest)).map(|()| b"removed".to_vec()).map_err(refusal),
        "glob" => environment.glob(Path::new(rest), 100).map_err(refusal).map(|found| {
            found.entries.iter().map(|entry| format!("{}\n", entry.path.display())).collect::<String>().into_bytes()
        }),
        "exec" => run(environment, rest).map_err(|error| error.to_string()),
        other => Err(format!("there is no tool `{other}`")),
    };
    result.unwrap_or_else(|refused| format!("refused: {refused}").into_bytes())
}

/// The words for an agent, with what it can do instead.
fn refusal(error: FileError) -> String {
    match error.hint() {
        Some(hint) => format!("{error} (hint: {hint})"),
        None => error.to_string(),
    }
}

fn run(environment: &dyn Environment, line: &str) -> Result<Vec<u8>, ExecError> {
    let exec = Exec::shell(line, Duration::from_secs(60)).env("PATH", "/usr/local/bin:/usr/bin:/bin").keep(16 << 10);
    let done = environment.exec(&exec)?;
    let mut text = format!("{:?}\n", done.outcome).into_bytes();
    if done.stdout.is_truncated() {
        text.extend(format!("[{} bytes before this were dropped]\n", done.stdout.dropped).into_bytes());
    }
    text.extend(done.stdout.tail);
    text.extend(done.stderr.tail);
    Ok(text)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn m3_every_tool_goes_through_the_environment() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), Writable::globs(["src/**"]).unwrap()).unwrap();
        let environment = LocalEnvironment::new(root);
        let say = |line: &str| String::from_utf8(answer(&environment, line)).unwrap();
        assert_eq!(say("write src/a/main.rs fn main() {}"), "written");
        assert_eq!(say("read src/a/main.rs"), "fn main() {}");
        assert_eq!(say("glob **/*.rs"), "src/a/main.rs\n");
        assert!(say("write README.md x").contains("no writable glob"));
        assert!(say("read ../x").contains("leads out of the root"));
        assert!(say("read /etc/passwd").contains("leads out of the root"));
        assert!(say("exec id").contains("runs no commands"));
        assert!(say("fly").contains("no tool"));
        assert_eq!(say("remove src/a/main.rs"), "removed");
    }
}
