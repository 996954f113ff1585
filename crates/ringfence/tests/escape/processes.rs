//! Processes outside, and what is shared between processes of one user.

use super::row::{OTHERS, OUTSIDERS, READABLE, Row, SEEN, Sign, python};
use super::suite::{Topic, tests};

tests!(TOPIC);

const fn strike(says: &'static str, attack: &'static str) -> Row {
    python(OUTSIDERS, says, attack, Sign::Struck)
}

const fn reach(says: &'static str, attack: &'static str) -> Row {
    python(OUTSIDERS, says, attack, Sign::Works)
}

const fn told(says: &'static str, attack: &'static str) -> Row {
    python(READABLE, says, attack, Sign::Secret)
}

pub(super) static TOPIC: Topic = Topic {
    opened: None,
    rows: &[
        strike("a process outside is not killed", "os.kill(SLEEPER, 9)"),
        strike("a process outside is not stopped", "os.kill(SLEEPER, 19)"),
        strike("a process outside is not killed by its thread", "c('tgkill', SLEEPER, SLEEPER, 9)"),
        strike(
            "a process outside is not killed by its descriptor",
            "signal.pidfd_send_signal(os.pidfd_open(SLEEPER), 9)",
        ),
        strike(
            "a process outside is not killed with its group",
            "os.killpg(os.getpgid(SLEEPER), 0); os.kill(SLEEPER, 15)",
        ),
        strike("a process outside is not killed by a queue of signals", "c('sigqueue', SLEEPER, 9, 0)"),
        strike(
            "a process outside is not struck by the owner of a pipe",
            "
            read, write_end = os.pipe()
            fcntl.fcntl(read, fcntl.F_SETOWN, SLEEPER)
            fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC)
            os.write(write_end, b'x')
            time.sleep(0.05)
            ",
        ),
        reach(
            "a process outside gets no other limits",
            "c('prlimit', OUTSIDER['pid'], 4, struct.pack('QQ', 0, 0), None)",
        ),
        // The lowest: whatever the tests run with, anybody may give it to a process of their own.
        reach("a process outside gets no other priority", "os.setpriority(os.PRIO_PROCESS, OUTSIDER['pid'], 19)"),
        // The tests may not run on every processor.
        reach(
            "a process outside gets no other processors",
            "os.sched_setaffinity(OUTSIDER['pid'], {min(os.sched_getaffinity(0))})",
        ),
        reach(
            "a process outside gets no other scheduler",
            "os.sched_setscheduler(OUTSIDER['pid'], os.SCHED_BATCH, os.sched_param(0))",
        ),
        reach("a process outside gets no other turn at the disk", "call('ioprio_set', 1, OUTSIDER['pid'], 3 << 13)"),
        reach(
            "memory of a process outside is not moved",
            "call('migrate_pages', OUTSIDER['pid'], 8, struct.pack('Q', 1), struct.pack('Q', 1))",
        ),
        reach("a process outside is not traced", "c('ptrace', 0x4206, OUTSIDER['pid'], None, None)"),
        told(
            "memory of a process outside is not read",
            "
            buffer = ctypes.create_string_buffer(OUTSIDER['length'])
            here = struct.pack('QQ', ctypes.addressof(buffer), OUTSIDER['length'])
            there = struct.pack('QQ', OUTSIDER['address'], OUTSIDER['length'])
            c('process_vm_readv', OUTSIDER['pid'], here, 1, there, 1, 0)
            print(buffer.value)
            ",
        ),
        reach(
            "memory of a process outside is not written",
            "
            buffer = ctypes.create_string_buffer(b'EVIL')
            here = struct.pack('QQ', ctypes.addressof(buffer), 4)
            there = struct.pack('QQ', OUTSIDER['scratch'], 4)
            c('process_vm_writev', OUTSIDER['pid'], here, 1, there, 1, 0)
            ",
        ),
        told(
            "an open file of a process outside is not taken",
            "print(os.pread(call(438, os.pidfd_open(OUTSIDER['pid']), OUTSIDER['file'], 0), 999, 0))",
        ),
        told(
            "shared memory of the host is not read",
            "
            libc.shmat.restype = ctypes.c_void_p
            at = libc.shmat(OUTSIDER['memory'], None, 0o10000)
            if at == ctypes.c_void_p(-1).value:
                raise OSError(ctypes.get_errno(), 'shmat')
            print(ctypes.string_at(at, OUTSIDER['length']))
            ",
        ),
        told(
            "a queue of messages of the host is not read",
            "
            buffer = ctypes.create_string_buffer(200)
            c('msgrcv', OUTSIDER['messages'], buffer, 100, 0, 0o4000)
            print(buffer.raw)
            ",
        ),
        reach("a queue of messages of the host is not removed", "c('msgctl', OUTSIDER['spare_messages'], 0, None)"),
        reach("shared memory of the host is not removed", "c('shmctl', OUTSIDER['spare_memory'], 0, None)"),
        reach("a counter of the host is not set", "c('semctl', OUTSIDER['counter'], 0, 16, 7)"),
        reach("a named queue of the host is not removed", "c('mq_unlink', OUTSIDER['spare_queue'].encode())"),
        told(
            "a named queue of the host is not read",
            "
            buffer = ctypes.create_string_buffer(10000)
            queue = c('mq_open', OUTSIDER['queue'].encode(), os.O_RDONLY | os.O_NONBLOCK)
            c('mq_receive', queue, buffer, 10000, None)
            print(buffer.value)
            ",
        ),
        told(
            "a key of the user is not read",
            "
            # Linked to where it can be seen, as whoever looks for it does.
            call('keyctl', 8, -4, -2)
            found = call('keyctl', 10, -4, b'user', OUTSIDER['key']['name'].encode(), 0)
            buffer = ctypes.create_string_buffer(999)
            call('keyctl', 11, found, buffer, 999)
            print(buffer.value)
            ",
        ),
        python(SEEN, "a process outside cannot be seen", "os.stat(f\"/proc/{OUTSIDER['pid']}\")", Sign::Works),
        python(
            OTHERS,
            "it cannot be asked whether a process outside lives",
            "os.getpgid(OUTSIDER['pid'])",
            Sign::Works,
        ),
    ],
};
