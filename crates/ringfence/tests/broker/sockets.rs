//! Unix sockets by path: those that are made inside work as they do elsewhere, and no other is reached.

use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::process::{Output, Stdio};

use crate::desk::{Desk, each_user, shown};

const SCRIPT: &str = include_str!("sockets.py");

/// Runs a part of the script inside. Something outside listens at `host`, made once the session runs; how often somebody came there?
fn part(desk: &Desk, name: &str) -> (Output, usize) {
    let path = desk.project("host");
    let _ = std::fs::remove_file(&path);
    let mut command = desk.run();
    // It begins when it is told: what is there at the start is hidden anyway.
    command.args(["bash", "-c", "echo ready; read line; exec python3 -I -c \"$0\" \"$1\"", SCRIPT, name]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let listener = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    listener.set_nonblocking(true).unwrap();
    desk.hand_over();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let came = std::iter::from_fn(|| listener.accept().ok()).count();
    (output, came)
}

/// K9: whoever makes a socket inside is reached there, and everything is as without a broker.
#[test]
fn k9_sockets_that_are_made_inside_work() {
    each_user(|desk| {
        let (output, _) = part(&desk, "works");
        assert!(shown(&output).contains("works"), "{}", shown(&output));
        let outside = desk.outside("python3").args(["-I", "-c", SCRIPT, "works"]).output().unwrap();
        assert!(shown(&outside).contains("works"), "outside: {}", shown(&outside));
        let lacks = |output: &Output| shown(output).contains("no ::1");
        assert!(!lacks(&output) || lacks(&outside), "inside there is no ::1, and outside there is");
    });
}

/// K9: a socket that the host makes later in the project is somebody's outside, and is refused by what it is.
#[test]
fn k9_no_socket_of_the_host_is_reached() {
    each_user(|desk| {
        let (output, came) = part(&desk, "refused");
        let said = shown(&output);
        assert!(said.contains("refused"), "{said}");
        assert!(said.contains("not made inside") && said.contains("[network] sockets"), "{said}");
        assert_eq!(came, 0);
    });
}

/// K9: nor by changing the name, the link or the descriptor while it is connected.
#[test]
fn k9_no_race_reaches_a_socket_of_the_host() {
    each_user(|desk| {
        let (output, came) = part(&desk, "raced");
        assert!(shown(&output).contains("raced True"), "{}", shown(&output));
        assert_eq!(came, 0);
    });
}
