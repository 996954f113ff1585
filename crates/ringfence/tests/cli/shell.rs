//! `shell-install` and `shell-uninstall`: the lines do in each shell what they say, and nothing of them is left.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use ringfence_testkit::{World, report_skip};

use crate::world;

/// Start files by shell, as the world has them.
const FILES: [(&str, &str); 3] = [("bash", ".bashrc"), ("zsh", ".zshrc"), ("fish", ".config/fish/config.fish")];

fn home(world: &World) -> std::path::PathBuf {
    let home = world.variables().into_iter().find(|(name, _)| *name == "HOME");
    home.expect("the world has a home").1
}

fn installed(world: &World, shell: &str) -> String {
    world.ringfence(&["shell-install", "--shell", shell, "--yes", "claude", "codex"]).expect_code(0).stderr
}

#[test]
fn the_start_file_is_restored_byte_for_byte() {
    let world = world();
    for (shell, name) in FILES {
        let path = home(&world).join(name);
        for before in [None, Some(&b""[..]), Some(b"export A=1\n"), Some(b"\xff no newline")] {
            if let Some(bytes) = before {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, bytes).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            }
            let shown = installed(&world, shell);
            assert!(shown.contains("+ ") && shown.contains("claude"), "the lines are shown: {shown}");
            let once = fs::read(&path).unwrap();
            installed(&world, shell);
            assert_eq!(fs::read(&path).unwrap(), once, "{shell}: twice is once");
            world.ringfence(&["shell-uninstall", "--shell", shell]).expect_code(0);
            assert_eq!(fs::read(&path).ok().as_deref(), before, "{shell}");
            if before.is_some() {
                assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "{shell}");
                fs::remove_file(&path).unwrap();
            }
            world.ringfence(&["shell-uninstall", "--shell", shell]).expect_code(0);
            assert!(!path.exists(), "{shell}: removing what is not there makes nothing");
        }
        if shell == "fish" {
            fs::remove_dir(path.parent().unwrap()).unwrap();
            installed(&world, shell);
            world.ringfence(&["shell-uninstall", "--shell", shell]).expect_code(0);
            assert!(!path.parent().unwrap().exists(), "its directory was ours");
        }
    }
}

/// A second call with other names does not take the fence off the first ones.
#[test]
fn names_of_an_earlier_call_stay() {
    let world = world();
    for (shell, name) in FILES {
        let path = home(&world).join(name);
        installed(&world, shell);
        world.ringfence(&["shell-install", "--shell", shell, "--yes", "gemini"]).expect_code(0);
        let text = fs::read_to_string(&path).unwrap();
        for name in ["claude", "codex", "gemini"] {
            assert_eq!(text.matches(&format!("function {name}")).count(), 1, "{shell}: {text}");
        }
        world.ringfence(&["shell-uninstall", "--shell", shell, "codex"]).expect_code(0);
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("codex") && text.contains("claude") && text.contains("gemini"), "{shell}: {text}");
        let run = world.ringfence(&["shell-uninstall", "--shell", shell, "codex"]).expect_code(2);
        assert!(run.stderr.contains("claude, gemini"), "{}", run.stderr);
        world.ringfence(&["shell-uninstall", "--shell", shell, "gemini", "claude"]).expect_code(0);
        assert!(!path.exists(), "{shell}: the last one takes the block with it");
    }
}

/// Dotfile managers keep links: what they lead to changes, and the link stays.
#[test]
fn a_link_stays_a_link() {
    let world = world();
    let (path, real) = (home(&world).join(".bashrc"), world.write("dotfiles/bashrc", "a=1\n"));
    std::os::unix::fs::symlink(&real, &path).unwrap();
    installed(&world, "bash");
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink() && fs::read_to_string(&real).unwrap().contains("claude"));
    world.ringfence(&["shell-uninstall", "--shell", "bash"]).expect_code(0);
    assert_eq!(fs::read_to_string(&real).unwrap(), "a=1\n");
}

#[test]
fn nothing_is_written_without_a_yes_or_with_a_bad_name() {
    let world = world();
    let run = world.ringfence(&["shell-install", "--shell", "bash"]).expect_code(125);
    assert!(run.stderr.contains("there is no terminal to ask on") && run.stderr.contains("+ "), "{}", run.stderr);
    for name in ["a;b", "$(id)", "if", "command", "a\nb", ""] {
        world.ringfence(&["shell-install", "--shell", "bash", "--yes", "--", name]).expect_code(2);
    }
    assert!(!home(&world).join(".bashrc").exists());
    let edited = "# >>> ringfence shell-install >>>\nmine\n";
    fs::write(home(&world).join(".bashrc"), edited).unwrap();
    for command in [&["shell-install", "--shell", "bash", "--yes"][..], &["shell-uninstall", "--shell", "bash"]] {
        let run = world.ringfence(command).expect_code(125);
        assert!(run.stderr.contains("edited at their edges"), "{}", run.stderr);
    }
    assert_eq!(fs::read_to_string(home(&world).join(".bashrc")).unwrap(), edited);
}

/// The name starts the fenced program, with its arguments, and also where there was an alias; `command` starts the bare one.
#[test]
fn the_name_starts_the_fenced_one() {
    let world = world();
    let tool = "#!/bin/sh\necho \"fenced=${RINGFENCE-no} $*\"\n";
    // The project's own files are visible inside; the name is no agent's, which would get arguments of its own.
    let bin = world.write("project/bin/mytool", tool);
    fs::set_permissions(&bin, fs::Permissions::from_mode(0o755)).unwrap();
    for (shell, name) in FILES {
        let program = Path::new("/usr/bin").join(shell);
        if !program.exists() {
            report_skip(&format!("shell-install in {shell} (it is not installed)"));
            continue;
        }
        let path = home(&world).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let alias = if shell == "fish" { "" } else { "alias mytool='echo alias'\n" };
        fs::write(&path, alias).unwrap();
        world.ringfence(&["shell-install", "--shell", shell, "--yes", "mytool"]).expect_code(0);
        let script = format!(". {}\nmytool 'a  b' -c\ncommand mytool bare\n", path.display());
        let script = if shell == "bash" { format!("shopt -s expand_aliases\n{script}") } else { script };
        let mut command = Command::new(program);
        if shell == "zsh" {
            command.arg("-f");
        }
        command.envs(world.variables()).current_dir(world.path("project"));
        command.env("PATH", format!("{}:/usr/bin:/bin", world.path("project/bin").display()));
        let output = command.arg("-c").arg(script).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text, "fenced=1 a  b -c\nfenced=no bare\n", "{shell}: {said}");
    }
}
