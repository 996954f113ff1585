//! When processes run: each decides for its own, and not for the broker.

use crate::desk::{each_user, shown};

const SCRIPT: &str = r#"
import ctypes, errno, os, subprocess
libc = ctypes.CDLL(None, use_errno=True)
threads = [int(name) for name in os.listdir("/proc/1/task")]
# The broker has threads by now.
open("made", "w").close()
threads = sorted(set(threads + [int(name) for name in os.listdir("/proc/1/task")]))
assert len(threads) > 1, threads
def state():
    found = {}
    for t in threads:
        try:
            found[t] = (os.sched_getscheduler(t), os.getpriority(os.PRIO_PROCESS, t), os.sched_getaffinity(t))
        except ProcessLookupError:
            # A thread of the broker that had nothing to do has ended.
            pass
    return found
before = state()
def refused(name, act):
    try:
        act()
        print("DONE", name)
    except (PermissionError, ProcessLookupError):
        pass
attr = (ctypes.c_uint32 * 12)(48, 5)
for t in threads:
    refused("sched_setscheduler", lambda: os.sched_setscheduler(t, os.SCHED_IDLE, os.sched_param(0)))
    refused("sched_setparam", lambda: os.sched_setparam(t, os.sched_param(0)))
    refused("sched_setaffinity", lambda: os.sched_setaffinity(t, [min(os.sched_getaffinity(0))]))
    refused("setpriority", lambda: os.setpriority(os.PRIO_PROCESS, t, 19))
    number = {"x86_64": (314, 251), "aarch64": (274, 30)}[os.uname().machine]
    for call, args in ((number[0], (t, attr, 0)), (number[1], (1, t, 3 << 13))):
        if libc.syscall(call, *args) != -1 or ctypes.get_errno() not in (errno.EPERM, errno.ESRCH):
            print("DONE", call, ctypes.get_errno())
group = os.getpgid(1)
if group:
    refused("of the group", lambda: os.setpriority(os.PRIO_PGRP, group, 19))
refused("of the user", lambda: os.setpriority(os.PRIO_USER, 0, 19))
refused("of the user by number", lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19))
after = state()
assert 1 in after and all(after[t] == before[t] for t in after), (before, after)
# What is ordinary.
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
os.sched_setscheduler(child.pid, os.SCHED_BATCH, os.sched_param(0))
os.sched_setaffinity(child.pid, os.sched_getaffinity(0))
# The tests may have been started with a nice value of their own, which no user lowers.
nicer = min(19, os.getpriority(os.PRIO_PROCESS, 0) + 3)
os.setpriority(os.PRIO_PROCESS, child.pid, nicer)
os.setpriority(os.PRIO_PGRP, os.getpgid(child.pid), nicer)
assert os.sched_getscheduler(child.pid) == os.SCHED_BATCH and os.getpriority(os.PRIO_PROCESS, child.pid) == nicer
child.kill()
child.wait()
try:
    os.sched_setscheduler(child.pid, os.SCHED_BATCH, os.sched_param(0))
except ProcessLookupError:
    print("gone")
for words in (["nice", "-n", "3", "true"], ["chrt", "--batch", "0", "true"], ["taskset", "-c", "0-1023", "true"], ["ionice", "-c", "3", "true"]):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
for words in (["renice", "-n", str(nicer), "-p"], ["chrt", "--batch", "-p", "0"], ["ionice", "-c", "3", "-p"]):
    subprocess.run(words + [str(os.getpid())], check=True, stdout=subprocess.DEVNULL)
print("tried")
"#;

/// [H5] An agent cannot take the processor from the broker, by none of its threads, its group or its user. It schedules its own processes as
/// outside.
#[test]
fn h5_the_broker_is_not_rescheduled() {
    each_user(|desk| {
        desk.write("scheduling.py", SCRIPT);
        let output = desk.bare(&[]).args(["/usr/bin/python3", "-I", "scheduling.py"]).output().unwrap();
        assert_eq!(output.stdout, b"gone\ntried\n", "{}", shown(&output));
    });
}
