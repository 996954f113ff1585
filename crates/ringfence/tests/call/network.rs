//! A call without a network, in a session that has one.

use std::io::Write as _;
use std::net::TcpListener;

use crate::ground::{BOTH, each};

/// K10: the session reaches a port of the host, and a call does until it is told not to.
#[test]
fn k10_no_network_while_the_session_has_one() {
    each(|ground| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // Ends with the test's process.
        std::thread::spawn(move || {
            for peer in listener.incoming().flatten() {
                let _ = (&peer).write_all(b"hello\n");
            }
        });
        ground.policy(&format!("[network]\nhost_ports = [{port}]\n"));
        let script = format!(
            "exec /bin/bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port} && read -r line <&3 && test \"$line\" = hello'"
        );
        for from in BOTH {
            ground.check(from, &[], &script, true);
            ground.check(from, &["--no-network"], &script, false);
            ground.check(from, &["--no-network", "--write", "src"], "echo x > src/f", true);
        }
    });
}
