//! An image with programs of its own and without the host's libraries: ringfence brings along what it needs.

use std::process::{Command, Stdio};

use ringfence_testkit::Starter;

use crate::ground::{Ground, each, text, with};

const NAME: &str = "localhost/ringfence-test-busybox:1";

/// An image of one program.
fn import(ground: &Ground, name: &str, more: &[&str]) {
    let dir = ground.mkdir("image");
    for name in ["bin", "etc", "tmp", "proc", "sys", "dev"] {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
    std::fs::copy("/usr/bin/busybox", dir.join("bin/busybox")).unwrap();
    for name in ["sh", "cat", "ls", "id", "grep", "echo", "touch", "wget"] {
        std::os::unix::fs::symlink("busybox", dir.join("bin").join(name)).unwrap();
    }
    std::fs::write(dir.join("etc/whose"), "the image's\n").unwrap();
    // A library that every program would begin with, which is none: ringfence would complain, or not start.
    std::fs::write(dir.join("etc/ld.so.preload"), "/etc/whose\n").unwrap();
    let mut tar =
        Command::new("tar").arg("-C").arg(&dir).args(["-cf", "-", "."]).stdout(Stdio::piped()).spawn().unwrap();
    let mut import = ground.command(format!("/usr/bin/{}", ground.engine()));
    import.args([
        "import",
        "--change",
        "ENV PATH=/bin",
        "--change",
        "ENV LD_PRELOAD=/etc/whose",
        "--change",
        "ENV OWN=image",
    ]);
    let output = import.args(more).args(["-", name]).stdin(tar.stdout.take().unwrap()).output().unwrap();
    assert!(tar.wait().unwrap().success() && output.status.success(), "{}", text(&output.stderr));
}

/// The programs are the image's, the project and the guards are the host's, and both walls stand.
#[test]
fn g6_an_image_with_programs_of_its_own() {
    each(|ground| {
        import(&ground, NAME, &[]);
        ground.write("project/.env", "SECRET\n");
        ground.write("project/open", "open\n");
        let policy = format!(
            "version = 1\n[files]\ndeny = [\"**/.env\"]\n[agent.a]\ncommand = [\"sh\"]\n[agent.a.container]\nimage = \"{NAME}\"\n"
        );
        ground.write("policy.toml", &policy);
        ground.hand_over();
        let file = ground.path("policy.toml");
        let script = "cat /etc/whose open; cat .env; echo new > new; ls /usr 2>&1; touch /etc/x; grep Seccomp: /proc/self/status; id -u; echo $OWN ${LD_PRELOAD-unset}; cat /etc/ld.so.preload";
        let output =
            ground.run(&["--receipt", "--policy", file.to_str().unwrap(), "--agent", "a"], &["sh", "-c", script]);
        let (out, said) = (text(&output.stdout), text(&output.stderr));
        assert!(out.contains("the image's\nopen\n") && !out.contains("SECRET"), "{out}{said}");
        assert!(out.contains("Seccomp:\t2") && out.contains("65534"), "{out}{said}");
        assert!(out.contains("image unset\n") && !out.contains("/etc/whose"), "{out}");
        assert!(!said.contains("preload"), "{said}");
        assert!(!out.contains("share"), "the host's programs are there: {out}");
        assert_eq!(std::fs::read(ground.path("project/new")).unwrap(), b"new\n");
        assert!(said.contains("holds     a second wall behind the first (landlock)"), "{said}");
        ground.ask(&["rmi", NAME]);
    });
}

/// G10: what an image names for the engine to start by itself, and again, would run outside our walls: it does not run.
#[test]
fn g10_nothing_runs_in_a_container_that_we_do_not_start() {
    with("docker", Starter::Ordinary, |ground| {
        let name = "localhost/ringfence-test-health:1";
        let dir = ground.path("project").to_str().unwrap().to_owned();
        let health = format!("HEALTHCHECK --interval=1s CMD touch {dir}/outside");
        import(&ground, name, &["--change", &health]);
        let policy = format!("version = 1\n[agent.a]\ncommand = [\"sh\"]\n[agent.a.container]\nimage = \"{name}\"\n");
        ground.write("policy.toml", &policy);
        ground.hand_over();
        let file = ground.path("policy.toml");
        let flags = ["--policy", file.to_str().unwrap(), "--agent", "a"];
        let output = ground.run(&flags, &["sh", "-c", "busybox sleep 3; echo slept"]);
        assert_eq!(text(&output.stdout), "slept\n", "{}", text(&output.stderr));
        assert!(!ground.path("project/outside").exists());
        ground.ask(&["rmi", name]);
    });
}

/// What is not there is not fetched.
#[test]
fn g10_an_image_that_is_not_there_is_not_fetched() {
    each(|ground| {
        ground.write(
            "policy.toml",
            "version = 1\n[agent.a]\ncommand = [\"sh\"]\n[agent.a.container]\nimage = \"localhost/nowhere:1\"\n",
        );
        let file = ground.path("policy.toml");
        let output = ground.run(&["--policy", file.to_str().unwrap(), "--agent", "a"], &["true"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains("did not start the container") && said.contains("nowhere"), "{said}");
    });
}
