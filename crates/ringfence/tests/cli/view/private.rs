//! Names that lead to private addresses: refused, unless a policy says that this name may.

use super::{Fence, each, text};

/// Fetches from two names of one private address, in a network of the test's own, where a host has that address.
fn fetch(fence: &Fence, policy: &str) -> String {
    fence.policy(policy);
    fence.write(&[("run/hosts", "10.9.8.7 internal.example.com other.example.com\n"), ("run/web/file", "served\n")]);
    let trusted = fence.ringfence().args(["trust", "--force"]).output().unwrap();
    assert!(trusted.status.success(), "{}", text(&trusted.stderr));
    let world = "mount --bind $W/run/hosts /etc/hosts; \
                 there python3 -m http.server -d $W/run/web -b 10.9.8.7 80 >/dev/null 2>&1 & \
                 for i in $(seq 1200); do python3 -c 'import socket; socket.create_connection((\"10.9.8.7\", 80))' 2>/dev/null && break; \
                 sleep 0.05; done";
    let one = |name: &str| {
        format!(
            "/usr/bin/python3 -c 'import urllib.request as u; \
             print(\"{name}\", u.urlopen(\"http://{name}.example.com/file\").read())' 2>/dev/null || echo no {name}; "
        )
    };
    let script = one("internal") + &one("other");
    let command = [fence.binary(), "run", "--", "/bin/sh", "-c", &script];
    let output = fence.beside_a_host("10.9.8.7", world, &command);
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn only_a_name_that_a_policy_calls_private_leads_to_a_private_address() {
    each(|fence| {
        let said = fetch(fence, "[network]\nallow = [\"*.example.com\"]\n");
        assert!(said.contains("no internal") && said.contains("no other"), "{said}");
        assert!(said.contains("its address 10.9.8.7 is a private address"), "{said}");
        let said = fetch(fence, "[network]\nallow = [\"*.example.com\"]\nprivate = [\"internal.example.com\"]\n");
        assert!(said.contains("internal b'served\\n'") && said.contains("no other"), "{said}");
    });
}
