//! The standard streams: what works as it does outside, and what an agent gains by having them, which is nothing.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::ground::{Ground, Who};
use super::row::Row;
use super::suite::{Backend, every_fence, fence};

static NO_ROWS: &[Row] = &[];

/// The attacks of `streams.py`.
const ATTACKS: &[&str] = &[
    "a_pipe_is_written",
    "an_offset_is_moved",
    "a_memfd_is_written",
    "a_socket_leads_out",
    "a_pipe_becomes_non_blocking",
    "a_socket_becomes_non_blocking",
    "a_pipe_is_resized",
    "the_caller_is_signalled",
    "a_lease_is_left",
    "a_lock_is_left",
    "a_file_is_emptied",
];

/// Makes one attempt: did it succeed?
fn goes_through(attack: &str, ground: &Ground, words: &[String]) -> bool {
    let dir = ground.world.path("other");
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/escape/streams.py");
    let mut python = Command::new("/usr/bin/python3");
    python.arg(script).arg(attack).arg(&dir).arg(serde_json::to_string(words).unwrap());
    python.current_dir(ground.world.path("project")).env_clear().envs(ground.variables());
    let output = python.output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    match said.trim() {
        "through" => true,
        "held" => false,
        _ => panic!("{attack}: {said}\n{errors}"),
    }
}

/// A pipe, a memfd, a file or a socket of the caller's is not the payload's: nothing that is done to the payload's streams is
/// seen outside, but the bytes. Every attack succeeds without a fence.
#[test]
fn a3_a6_standard_streams_lead_nowhere() {
    for attack in ATTACKS {
        assert!(goes_through(attack, &Ground::new(NO_ROWS), &[]), "without a fence the attack fails: {attack}");
    }
    every_fence(|backend, who| {
        let ground = Ground::new(NO_ROWS);
        let words = fence(&ground, backend, who);
        for attack in ATTACKS {
            assert!(!goes_through(attack, &ground, &words), "[{}, {who:?}] {attack}", backend.word());
        }
    });
}

/// What a script prints, with `fence` in it. Outside `fence` runs its arguments as they are. The first lot is run in every fence.
const EVERYWHERE: &[(&str, &str)] = &[
    ("printf 'a\\nb\\n' | fence cat", "a\nb\n"),
    ("fence sh -c 'echo o; echo e >&2; exit 7' 2> /dev/null; echo $?", "o\n7\n"),
    ("printf 'a\\nb\\nc\\n' | while read x; do fence echo $x; done", "a\nb\nc\n"),
    ("echo 1 > log; (fence echo 2; echo 3) >> log; cat log", "1\n2\n3\n"),
    ("fence yes | head -1", "y\n"),
];

const NATIVELY: &[(&str, &str)] = &[
    // Scripts that are read from the stream which the command in them has as well.
    ("printf 'fence true\\necho one\\nfence true\\necho two\\n' | bash", "one\ntwo\n"),
    ("while read x; do fence echo $x; done < f", "l1\nl2\n"),
    ("{ fence head -c 3; cat; } < f", "l1\nl2\n"),
    ("printf 'l1\\nl2\\n' | { fence head -c 3; cat; }", "l1\nl2\n"),
    ("{ fence true; cat; } < f", "l1\nl2\n"),
    ("(echo a; sleep 0.3; echo b) | { fence sleep 0.6; cat; }", "a\nb\n"),
    ("{ fence cat; cat; } < f", "l1\nl2\n"),
    // Files.
    (
        "fence sh -c 'echo o > /dev/stdout; echo e > /dev/stderr; cat /dev/stdin' < f >> out 2>> err; cat out; grep -x e err",
        "o\nl1\nl2\ne\n",
    ),
    ("(fence echo 1; echo 2; fence echo 3) > log; cat log", "1\n2\n3\n"),
    (
        "fence sh -c 'for i in 1 2 3; do echo o$i; echo e$i >&2; done' > log 2>&1; grep -x '[oe][1-3]' log",
        "o1\ne1\no2\ne2\no3\ne3\n",
    ),
    ("fence sh -c 'echo o; echo e > /dev/stderr' > out 2> err; cat out; grep -x e err", "o\ne\n"),
    ("fence sh -c 'exit 3' < f > out; echo $?", "3\n"),
    // Kinds of streams.
    ("fence cat <<X\nhere\nX", "here\n"),
    ("fence cat < <(echo ps)", "ps\n"),
    ("fence echo t | tee out | cat - out", "t\nt\n"),
    ("fence cat < /dev/null; echo $?", "0\n"),
    ("fence true >&- 2>&-; echo $?", "0\n"),
    ("fence head -c 2 /dev/zero | od -An -tx1", " 00 00\n"),
    ("fence head -c 2 < /dev/zero | od -An -tx1", " 00 00\n"),
    ("mkfifo pf; (echo f > pf &); fence cat < pf; rm pf", "f\n"),
    // Ends.
    ("(sleep 0.2; echo late) | fence cat", "late\n"),
    ("fence sh -c 'yes; echo $? >&2' 2> err | head -1; grep -x 141 err", "y\n141\n"),
    ("fence sh -c 'exec <&-; echo closed' < f", "closed\n"),
    ("fence sh -c 'kill -TERM $$' < f; echo $?", "143\n"),
    // Much.
    (
        "head -c 30000000 /dev/zero | fence sha256sum | cut -c 1-8; head -c 30000000 /dev/zero | sha256sum | cut -c 1-8",
        "SAME",
    ),
    ("fence head -c 30000000 /dev/zero | wc -c", "30000000\n"),
    ("fence head -c 3000000 /dev/zero > out; wc -c < out", "3000000\n"),
    ("head -c 3000000 /dev/zero > in; fence wc -c < in", "3000000\n"),
];

/// Outside a closed stream is an error of the first program that uses it, and a pipe stays open as long as anybody has it.
const INSIDE_ONLY: &[(&str, &str)] =
    &[("fence sh -c 'cat; echo $?' <&-", "0\n"), ("fence sh -c 'sleep 1000 & echo done' | cat", "done\n")];

fn check_script(script: &str, expected: &str, ground: &Ground, words: &[String]) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::write(dir.path().join("f"), "l1\nl2\n").unwrap();
    let quoted = words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect::<Vec<_>>().join(" ");
    // The fence starts in the project, while the files of the script are the host's.
    let project = ground.world.path("project");
    let prelude = format!("fence() {{ (cd '{}'; exec {quoted} \"$@\"); }}; export -f fence\n", project.display());
    let mut bash = Command::new("/bin/bash");
    bash.arg("-c").arg(format!("{prelude}{script}")).current_dir(dir.path());
    let output = bash.env_clear().envs(ground.variables()).stdin(Stdio::null()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let is_same = expected == "SAME" && printed.lines().collect::<std::collections::BTreeSet<_>>().len() == 1;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(is_same || printed == expected, "{words:?}\n{script}\n{printed:?}\n{errors}");
}

/// Files, pipes and devices as standard streams behave as they do outside, and what a command does not read is left to its caller.
#[test]
fn a3_standard_streams_behave_as_outside() {
    let ground = Ground::new(NO_ROWS);
    for (script, expected) in EVERYWHERE.iter().chain(NATIVELY) {
        check_script(script, expected, &ground, &[]);
    }
    every_fence(|backend, who| {
        let ground = Ground::new(NO_ROWS);
        let words = fence(&ground, backend, who);
        let (more, inside) = if backend == Backend::Native { (NATIVELY, INSIDE_ONLY) } else { (&[][..], &[][..]) };
        for (script, expected) in EVERYWHERE.iter().chain(more).chain(inside) {
            check_script(script, expected, &ground, &words);
        }
    });
}

/// Output that the caller's file does not take is reported, and is no success.
#[test]
fn a3_output_that_is_lost_is_reported() {
    let ground = Ground::new(NO_ROWS);
    let words = fence(&ground, Backend::Native, *Who::everybody().last().unwrap());
    // Nothing inside learns that this file takes nothing.
    let script = "
import fcntl, json, os, subprocess, sys
sealed = os.memfd_create('sealed', os.MFD_ALLOW_SEALING)
fcntl.fcntl(sealed, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
done = subprocess.run(json.loads(sys.argv[1]) + ['echo', 'x'], stdout=sealed, stderr=subprocess.PIPE)
print(done.returncode, b'not all of stdout could be written: Operation not permitted' in done.stderr)
";
    let (printed, errors) = run_python(&ground, script, &words);
    assert_eq!(printed, "1 True\n", "{errors}");
}

/// Orchestrators hand in sockets: both directions, an end of the input, and an exit code.
#[test]
fn a3_a_socket_pair_is_a_stream() {
    every_fence(|backend, who| {
        let ground = Ground::new(NO_ROWS);
        let words = fence(&ground, backend, who);
        let script = "
import json, socket, subprocess, sys, threading
pairs = [socket.socketpair() for _ in range(2)]
command = json.loads(sys.argv[1]) + ['sh', '-c', 'cat; exit 3']
child = subprocess.Popen(command, stdin=pairs[0][1], stdout=pairs[1][1])
for _, theirs in pairs:
    theirs.close()
def feed():
    for _ in range(20):
        pairs[0][0].sendall(b'x' * 50000)
    pairs[0][0].shutdown(socket.SHUT_WR)
threading.Thread(target=feed).start()
got = 0
while more := pairs[1][0].recv(1 << 16):
    got += len(more)
print(got, child.wait())
";
        let (printed, errors) = run_python(&ground, script, &words);
        assert_eq!(printed, "1000000 3\n", "[{}, {who:?}] {errors}", backend.word());
    });
}

/// Runs an orchestrator, and returns what it printed on both streams.
fn run_python(ground: &Ground, script: &str, words: &[String]) -> (String, String) {
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-I", "-c", script]).arg(serde_json::to_string(words).unwrap());
    python.current_dir(ground.world.path("project")).env_clear().envs(ground.variables());
    let output = python.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}
