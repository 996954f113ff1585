//! Many connections, slow ones and broken ones: nothing hangs, memory stays bounded, and what is refused is told.

use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use crate::internet::{Internet, Who, ended, shown, with};

/// Clients that do everything at once.
const CLIENTS: &str = include_str!("clients.py");

/// More than the program and its buffers take, and less than what is in flight on the way.
const MOST_MEMORY_KB: u64 = 64 * 1024;

/// Runs the clients inside, with so many descriptors for the supervisor. Gives how they ended and the most memory that the
/// supervisor had.
#[track_caller]
fn soak(internet: &Internet, descriptors: &str, arguments: &[&str]) -> (Output, u64, Duration) {
    internet.write("clients.py", CLIENTS);
    let mut command = internet.outside("prlimit");
    command.arg(format!("--nofile={descriptors}")).arg(internet.path("ringfence"));
    command.args(["run", "--", "/usr/bin/python3", "clients.py"]).args(arguments);
    let begun = Instant::now();
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let watching = std::thread::spawn(move || {
        let mut most = 0;
        while let Some(now) = std::fs::read_to_string(&status).ok().and_then(|text| high_water(&text)) {
            most = now.max(most);
            std::thread::sleep(Duration::from_millis(20));
        }
        most
    });
    let output = ended(child);
    (output, watching.join().unwrap(), begun.elapsed())
}

/// The most memory that a process had. One that has ended has none.
fn high_water(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?.parse().ok()
}

#[test]
fn k9_many_connections_at_once_and_many_one_after_another() {
    with(Who::Ordinary, |internet| {
        let (output, memory, _) = soak(&internet, "1024:4096", &["at-once", "200", "short", "10000", "resets", "200"]);
        let said = shown(&output);
        assert!(output.status.success(), "{said}");
        assert!(memory < MOST_MEMORY_KB, "the supervisor took {memory} kB\n{said}");
        assert!(!said.contains("stopped: "), "{said}");
    });
}

/// Two hundred readers that take nothing of a stream that does not end: nothing is read for them, and others go on.
#[test]
fn k9_slow_readers_take_no_memory_and_hold_nobody_up() {
    with(Who::Ordinary, |internet| {
        let (output, memory, _) = soak(&internet, "1024:4096", &["slow", "200", "short", "100"]);
        assert!(output.status.success(), "{}", shown(&output));
        assert!(memory < MOST_MEMORY_KB, "the supervisor took {memory} kB\n{}", shown(&output));
    });
}

/// Whoever reads quickly is given much at once. A hundred of them that stop at that moment would leave much
/// behind. More would take all the memory that the kernel has for TCP, as they do without a fence.
#[test]
fn k9_readers_that_stop_suddenly_take_no_memory() {
    with(Who::Ordinary, |internet| {
        let (output, memory, _) = soak(&internet, "1024:4096", &["stalled", "100", "short", "100"]);
        assert!(output.status.success(), "{}", shown(&output));
        assert!(memory < 40 * 1024, "the supervisor took {memory} kB\n{}", shown(&output));
    });
}

/// F9: what nobody reads stays in the kernel, whose memory no limit of the session counts.
#[test]
fn f9_streams_that_nobody_reads_take_little_of_the_kernels_memory() {
    with(Who::Ordinary, |internet| {
        internet.write("clients.py", CLIENTS);
        let mut fence = internet.outside("prlimit");
        fence.arg("--nofile=4096:4096").arg(internet.path("ringfence"));
        fence.args(["run", "--", "/usr/bin/python3", "clients.py", "slow", "600"]);
        let mut child = fence.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut most, mut sockets) = (0, 0);
        while child.try_wait().unwrap().is_none() {
            // What has arrived from outside and was not carried on, as the kernel counts it.
            let said = internet.outside("ss").args(["-tmnOH", "dport", "=", ":19"]).output().unwrap();
            let said = shown(&said);
            let kept = |line: &str| line.split_once("skmem:(r")?.1.split_once(',')?.0.parse::<u64>().ok();
            most = said.lines().filter_map(kept).sum::<u64>().max(most);
            sockets = said.lines().count().max(sockets);
        }
        let output = ended(child);
        assert!(output.status.success() && sockets > 500, "{sockets} sockets\n{}", shown(&output));
        // The first four have what the kernel gives. It gave 1,130 MB to 600.
        assert!(most < 120 << 20, "the kernel kept {most} bytes for {sockets} sockets");
    });
}

/// What cannot be carried is refused at once and told, and there is room again when others have ended.
#[test]
fn k9_a_supervisor_without_descriptors_refuses_and_recovers() {
    with(Who::Ordinary, |internet| {
        let (output, memory, took) = soak(&internet, "200:200", &["held", "140", "short", "100"]);
        let said = shown(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("stopped: connection") && said.contains("too many at once"), "{said}");
        assert!(took < Duration::from_secs(60) && memory < MOST_MEMORY_KB, "{took:?}, {memory} kB\n{said}");
    });
}
