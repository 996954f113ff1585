//! Supervisors that are killed at any moment: nothing is left after the next start, and the audit is whole.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::{Fence, Who, is_root, text};

/// Moments of one session: its start, its run, grants in it, its end.
const MOMENTS: u32 = 50;

/// A sequence that looks random and is the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// The command's own name for its processes, so that they can be found.
fn marked(fence: &Fence) -> String {
    format!("6{:07}", u64::from(std::process::id()) + u64::from(fence.who == Who::Nobody))
}

fn processes_with(mark: &str) -> usize {
    let of = |pid: &str| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let names = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let pids = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    pids.filter(|pid| of(pid).split(|byte| *byte == 0).any(|word| word == mark.as_bytes())).count()
}

fn start(fence: &Fence, script: &str) -> Child {
    let mut command = fence.ringfence();
    command.args(["run", "--", "/bin/sh", "-c", &fence.script(script)]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0).spawn().unwrap()
}

#[test]
fn m6_a_supervisor_that_is_killed_at_any_moment_leaves_nothing() {
    let fence = Fence::new(if is_root() { Who::Nobody } else { Who::Caller });
    fence.write(&[("other/file", "hello\n"), ("project/file", "x\n")]);
    let before: Vec<_> = fs::read_dir(fence.path("project")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    // Of this world: others mount and unmount meanwhile.
    let world = fence.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    let mounts = || {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        table.lines().filter(|line| line.contains(&world)).map(str::to_owned).collect::<Vec<_>>()
    };
    let mounted = mounts();
    let mark = marked(&fence);
    // How long a whole session takes here and now; it is looked at anew in each round, since others use the machine too.
    let begun = Instant::now();
    assert!(start(&fence, "exit 0").wait().unwrap().success());
    let mut whole = begun.elapsed();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for round in 0..MOMENTS {
        let ends_soon = round % 5 == 4;
        let script = if ends_soon { "exit 0".to_owned() } else { format!("setsid sleep {mark} & sleep {mark}; true") };
        let mut child = start(&fence, &script);
        let moment = Duration::from_micros(dice.below(u64::try_from(whole.as_micros()).unwrap() * 3 / 2));
        let moment = Instant::now() + moment;
        // Others change it meanwhile, over and over.
        let mut asked = Vec::new();
        while Instant::now() < moment {
            if round % 5 == 3 && asked.len() < 3 {
                let id = sessions(&fence).pop().unwrap_or_else(|| "none".to_owned());
                let mut grant = fence.ringfence();
                grant.args(["grant", &id, "--read"]).arg(fence.path("other"));
                asked.push(grant.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
            }
            std::thread::yield_now();
        }
        // It may have ended by itself.
        let _ = child.kill();
        child.wait().unwrap();
        for mut asked in asked {
            asked.wait().unwrap();
        }
        let next = fence.run(&["/bin/true"]);
        assert!(next.status.success(), "round {round}: {}", text(&next.stderr));
        let end = Instant::now() + Duration::from_secs(60);
        while processes_with(&mark) > 0 {
            assert!(Instant::now() < end, "round {round}: a process is left");
            std::thread::yield_now();
        }
        // The kernel lets go of the lock with the last process, which may be a moment after the start above.
        let begun = Instant::now();
        let next = fence.run(&["/bin/true"]);
        whole = begun.elapsed();
        assert!(next.status.success(), "round {round}: {}", text(&next.stderr));
        fence.is_collected();
        let verified = fence.ringfence().args(["audit", "verify"]).output().unwrap();
        assert!(verified.status.success(), "round {round}: {}", text(&verified.stdout));
    }
    assert_eq!(mounts(), mounted);
    let after: Vec<_> = fs::read_dir(fence.path("project")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(after, before);
    let killed = text(&fence.ringfence().args(["audit", "--json"]).output().unwrap().stdout);
    assert!(killed.matches("\"event\":\"killed\"").count() > 5, "few were killed while they ran:\n{killed}");
}

fn sessions(fence: &Fence) -> Vec<String> {
    let dir = fence.path("home/.local/state/ringfence/sessions");
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
