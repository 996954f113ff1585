//! With no hook and no setting of ours, and with every question of the client's own switched off, the kernel holds.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ringfence_testkit::report_skip;

use crate::client::{Client, programs};
use crate::deeds::{attempt, refused_by_itself};
use crate::ground::{Ground, Who};

#[test]
fn a14_claude_is_stopped_by_the_kernel_alone() {
    Client::Claude.when_installed(|| the_kernel_holds(Client::Claude, Who::Caller));
}

#[test]
fn a14_codex_is_stopped_by_the_kernel_alone() {
    Client::Codex.when_installed(|| the_kernel_holds(Client::Codex, Who::Caller));
}

#[test]
fn a14_gemini_is_stopped_by_the_kernel_alone() {
    Client::Gemini.when_installed(|| the_kernel_holds(Client::Gemini, Who::Caller));
}

#[test]
fn a14_an_ordinary_users_claude_is_stopped_by_the_kernel_alone() {
    Client::Claude.when_installed(|| {
        if !rustix::process::geteuid().is_root() {
            report_skip("as another user: the tests do not run as root");
        } else if !programs().ancestors().all(is_open) {
            report_skip("as another user: the clients lie where only their owner can go");
        } else {
            the_kernel_holds(Client::Claude, Who::Ordinary);
        }
    });
}

/// Whether everybody may enter.
fn is_open(dir: &Path) -> bool {
    fs::metadata(dir).is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0)
}

/// Without a fence everything is done, or the test would show nothing. Inside, what is ordinary is done and the rest is not.
fn the_kernel_holds(client: Client, who: Who) {
    let nothing: &[&str] = &[];
    let without = attempt(client, who, Ground::unfenced);
    assert_eq!(without.ordinary_not_done, nothing, "{client:?} without a fence: {without:#?}");
    assert_eq!(without.forbidden_not_done, refused_by_itself(client), "{client:?} without a fence: {without:#?}");
    let within = attempt(client, who, Ground::fenced);
    assert_eq!(within.ordinary_not_done, nothing, "{client:?}: {within:#?}");
    assert_eq!(within.forbidden_done, nothing, "{client:?}: {within:#?}");
}
