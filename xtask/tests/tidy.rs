//! The rules of the repository, over the real tree, and the command line of xtask itself.

use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().expect("xtask is built and starts")
}

#[test]
fn the_tree_is_tidy() {
    let output = xtask(&["tidy"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_unknown_command_gets_the_usage_and_exit_code_2() {
    for unknown in [&["nonsense"][..], &[], &["test", "--fast"]] {
        let output = xtask(unknown);
        assert_eq!(output.status.code(), Some(2), "{unknown:?}");
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("usage: cargo xtask COMMAND"), "{unknown:?}");
        assert!(output.stdout.is_empty(), "{unknown:?}");
    }
}
