//! What it costs to start `true`: as it is, with bubblewrap and an equivalent view, with ringfence.

use std::ffi::OsString;
use std::fs;
use std::process::{Command, Stdio};

use super::Effort;
use super::bars::{Bars, ms, table};
use super::clock::{Runner, Taken, Turns, in_turns};
use super::ground::{Ground, failed};
use crate::steps::Failure;

/// What ringfence adds, over what bubblewrap adds.
const ADDED_BAR: f64 = 0.8;

/// Measures, prints, and holds the ratio to its bar.
pub(super) fn run(ground: &Ground, effort: Effort, turns: Turns, bars: &mut Bars) -> Result<(), Failure> {
    let (bwrap, mounts) = bubblewrap(ground)?;
    // bubblewrap has no network but the loopback either. A repository's own brings the hosts that git needs.
    let policy = ground.dir.join("scratch/closed.toml");
    fs::write(&policy, "version = 1\n[network]\nallow = []\n").map_err(|cause| failed(&policy, &cause))?;
    let closed = ["--policy".as_ref(), policy.as_os_str()];
    let mut runners = vec![
        Runner { name: "true", command: ground.command("true") },
        Runner { name: "bubblewrap", command: bwrap },
        Runner { name: "ringfence", command: ground.fenced(&closed, &["true"]) },
        Runner { name: "ringfence with a network", command: ground.fenced(&[], &["true"]) },
        Runner { name: "ringfence --version", command: version(ground) },
        Runner { name: "bubblewrap with a broad view", command: broad(ground) },
    ];
    if effort == Effort::Full {
        let mut command = ground.command(ground.plain());
        command.arg("run").args(closed).args(["--", "true"]);
        runners.push(Runner { name: "ringfence with the host's libraries", command });
    }
    let taken = in_turns(runners, turns)?;
    let [plain, bwrap, ringfence, ..] = taken.as_slice() else { return Ok(()) };
    let ratio = |of: fn(&Taken) -> f64| added(plain, ringfence, of) / added(plain, bwrap, of);
    let row = |taken: &Taken| {
        let over = |of: fn(&Taken) -> f64| ms(added(plain, taken, of));
        // bubblewrap goes away before its first process inside does, so that one's time is counted for nobody here.
        let cpu = if taken.name.starts_with("bubblewrap") { "not counted whole".to_owned() } else { over(|t| t.cpu) };
        vec![taken.name.to_owned(), ms(taken.median), over(|t| t.median), over(|t| t.least), cpu]
    };
    let mut rows: Vec<Vec<String>> = taken.iter().map(row).collect();
    let verdict = bars.hold("what ringfence adds over what bubblewrap adds", ratio(|t| t.median), ADDED_BAR);
    rows.push(vec![
        format!("ratio ({verdict})"),
        String::new(),
        format!("{:.2}", ratio(|t| t.median)),
        format!("{:.2}", ratio(|t| t.least)),
        String::new(),
    ]);
    let title = format!(
        "Starting `true`, {} runs each, in turns; bubblewrap makes the same view of {mounts} mounts",
        turns.rounds * turns.runs
    );
    table(&title, &["what", "median", "added", "added, least", "added, processor time"], &rows);
    Ok(())
}

fn added(plain: &Taken, taken: &Taken, of: fn(&Taken) -> f64) -> f64 {
    of(taken) - of(plain)
}

/// What people often write: the host read-only, the project writable, nothing masked. Another thing than our view, for
/// comparison only.
fn broad(ground: &Ground) -> Command {
    let mut command = ground.command("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/", "/", "--dev", "/dev"]);
    command.args(["--proc", "/proc", "--tmpfs", "/tmp", "--bind"]).arg(ground.project()).arg(ground.project());
    command.arg("--chdir").arg(ground.project()).arg("true");
    command
}

/// What an exec of the program costs by itself.
fn version(ground: &Ground) -> Command {
    let mut command = ground.command(ground.ringfence());
    command.arg("--version");
    command
}

/// bubblewrap with the view that ringfence makes: the mounts are read off inside the fence, so that both make as many.
/// How many that are, beside it.
fn bubblewrap(ground: &Ground) -> Result<(Command, usize), Failure> {
    let output = ground.fenced(&[], &["cat", "/proc/self/mountinfo"]).stdout(Stdio::piped()).output();
    let output = output.map_err(|cause| Failure::Start { command: "ringfence run".to_owned(), cause })?;
    let table = String::from_utf8(output.stdout).unwrap_or_default();
    let lines: Vec<&str> = table.lines().collect();
    if !output.status.success() || lines.len() < 5 {
        return Err(Failure::Found(format!(
            "`ringfence run -- cat /proc/self/mountinfo` ended with {}",
            output.status
        )));
    }
    let stand_in = StandIn {
        file: ground.scratch("bwrap")?.join("file"),
        directory: ground.scratch("bwrap/directory")?,
        tmp: ground.scratch("bwrap/tmp")?,
    };
    fs::write(&stand_in.file, "").map_err(|cause| failed(&stand_in.file, &cause))?;
    let mut command = ground.command("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--dev", "/dev", "--proc", "/proc"]);
    for line in &lines {
        command.args(bind(line, &stand_in));
    }
    for name in ["/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin"] {
        if let Ok(target) = fs::read_link(name) {
            command.arg("--symlink").arg(target).arg(name);
        }
    }
    command.arg("--chdir").arg(ground.project()).arg("true");
    Ok((command, lines.len()))
}

/// What stands in the place of what exists only in a session.
struct StandIn {
    file: std::path::PathBuf,
    directory: std::path::PathBuf,
    tmp: std::path::PathBuf,
}

/// A mount of the fence as bubblewrap's options: none for what its own root, `--dev` and `--proc` bring.
fn bind(line: &str, stand_in: &StandIn) -> Vec<OsString> {
    let fields: Vec<&str> = line.split(' ').collect();
    let (Some(root), Some(target), Some(flags)) = (fields.get(3), fields.get(4), fields.get(5)) else {
        return Vec::new();
    };
    let is_read_only = flags.split(',').any(|flag| flag == "ro");
    let is_tmpfs = fields.iter().skip_while(|field| **field != "-").nth(1) == Some(&"tmpfs");
    let option = if is_read_only { "--ro-bind" } else { "--bind" };
    let source: OsString = match (*root, *target) {
        (_, "/" | "/proc") => return Vec::new(),
        (_, target) if target == "/dev" || target.starts_with("/dev/") => return Vec::new(),
        ("/file", _) if is_tmpfs => (&stand_in.file).into(),
        ("/directory", _) if is_tmpfs => (&stand_in.directory).into(),
        (_, "/tmp" | "/var/tmp") => (&stand_in.tmp).into(),
        // The session is gone: another directory takes the place of its home.
        (_, target) if target.contains("/ringfence/sessions/") => {
            return vec!["--bind".into(), (&stand_in.tmp).into(), (&stand_in.tmp).into()];
        }
        (_, target) => target.into(),
    };
    vec![option.into(), source, target.into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        let stand_in = StandIn { file: "/s/f".into(), directory: "/s/d".into(), tmp: "/s/t".into() };
        let got: Vec<String> = bind(line, &stand_in).iter().map(|word| word.display().to_string()).collect();
        assert_eq!(got, expected, "{line}");
    }

    #[test]
    fn a_mount_of_the_fence_is_one_of_bubblewraps() {
        check("65 42 0:41 / / ro,nosuid unbindable - tmpfs tmpfs rw", &[]);
        check("67 65 0:6 /full /dev/full rw,nosuid - devtmpfs devtmpfs rw", &[]);
        check("75 65 254:0 /etc /etc ro,nosuid - ext4 /dev/vda rw", &["--ro-bind", "/etc", "/etc"]);
        check("80 77 254:0 /h/p /h/p rw,nosuid - ext4 /dev/vda rw", &["--bind", "/h/p", "/h/p"]);
        check("95 94 0:42 /file /etc/x ro,nosuid - tmpfs tmpfs rw", &["--ro-bind", "/s/f", "/etc/x"]);
        check("96 75 0:42 /directory /etc/y ro - tmpfs tmpfs rw", &["--ro-bind", "/s/d", "/etc/y"]);
        check("77 65 254:0 /h/s/tmp /tmp rw - ext4 /dev/vda rw", &["--bind", "/s/t", "/tmp"]);
        let session = "78 77 254:0 /h/ringfence/sessions/1/home /h/ringfence/sessions/1/home rw - ext4 /dev/vda rw";
        check(session, &["--bind", "/s/t", "/s/t"]);
        check("nonsense", &[]);
    }
}
