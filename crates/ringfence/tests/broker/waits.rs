//! Calls that wait for another process hold up no other call of their session.

use crate::desk::{each_user, shown};

const SCRIPT: &str = include_str!("waits.py");

/// [G5]: 200 waiting calls, which are more than the broker has threads, of each kind that may wait for ever.
#[test]
fn g5_calls_that_wait_for_a_peer_hold_up_no_write() {
    each_user(|desk| {
        let output = desk.run().args(["python3", "-I", "-c", SCRIPT]).output().unwrap();
        assert!(output.status.success(), "{}", shown(&output));
        assert!(shown(&output).contains("each waited alone"), "{}", shown(&output));
        assert!(!shown(&output).contains("no leases"), "{}", shown(&output));
    });
}
