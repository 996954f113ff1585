//! M7: what is rendered for AppArmor and SELinux is read by their own compilers.

use std::fs;
use std::path::Path;
use std::process::Command;

use ringfence_testkit::{World, report_skip};

/// Policies that say much, with strange names, and little.
const POLICIES: [&str; 2] = [
    "version = 1\n[files]\nwrite = [\".\"]\nread = [\"/srv\"]\nprotect = [\"infra/**\"]\n\
     deny = [\"**/.env\", \"!**/.env.example\", 'a b', 'c,d', 'e\"f', 'g\\{h\\}', 'i\\*j', 'k^l', 'm@n', 'o#p', 'q[r-t]u', 'v?w', \
     'x*/y', 'ü(ö)+ä.|', 'back\\\\slash', \"new\\nline\"]\n\
     [network]\nallow = [\"example.com:443\"]\n[limits]\npids = 99\n",
    "version = 1\n[files]\nwrite = []\n",
];

fn world(policy: &str) -> World {
    let world = World::new(env!("CARGO_BIN_EXE_ringfence"));
    world.write("project/ringfence.toml", policy);
    world
}

/// Where a missing compiler would pass unseen, it fails.
fn is_there(program: &str) -> bool {
    let there = Path::new(program).exists();
    assert!(there || std::env::var_os("CI").is_none(), "{program} is missing");
    if !there {
        report_skip(&format!("{program} is not installed"));
    }
    there
}

/// M7: AppArmor's compiler takes every profile.
#[test]
fn m7_apparmor_takes_what_is_rendered() {
    const COMPILER: &str = "/usr/sbin/apparmor_parser";
    if !is_there(COMPILER) {
        return;
    }
    for policy in POLICIES {
        let world = world(policy);
        let rendered = world.ringfence(&["render", "apparmor", "--policy", "ringfence.toml"]).expect_code(0);
        assert!(rendered.stderr.contains("not held: nobody else can be seen"), "{}", rendered.stderr);
        let path = world.write("profile", &rendered.stdout);
        // The whole way to what the kernel would be given; nothing is loaded.
        let output = Command::new(COMPILER).args(["-Q", "-K", "-S"]).arg(&path).output().unwrap();
        let said = output.stderr.escape_ascii().to_string();
        assert!(output.status.success() && output.stdout.len() > 1000, "{policy}\n{said}\n{}", rendered.stdout);
    }
}

/// M7: SELinux's compiler takes every module, and labels what is denied as that, also below what is given.
#[test]
fn m7_selinux_takes_what_is_rendered() {
    const COMPILER: &str = "/usr/bin/secilc";
    const LOOKUP: &str = "/usr/sbin/selabel_lookup";
    if !is_there(COMPILER) || !is_there(LOOKUP) {
        return;
    }
    for (number, policy) in POLICIES.iter().enumerate() {
        let world = world(policy);
        let rendered = world.ringfence(&["render", "selinux", "--policy", "ringfence.toml"]).expect_code(0);
        assert!(rendered.stderr.contains("not held: deny names that appear later"), "{}", rendered.stderr);
        let module = world.write("module.cil", &rendered.stdout);
        let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/roots/base.cil");
        let (policy_file, contexts) = (world.path("policy"), world.path("contexts"));
        let mut compiler = Command::new(COMPILER);
        compiler.arg("-o").arg(&policy_file).arg("-f").arg(&contexts).arg(base).arg(module);
        let output = compiler.output().unwrap();
        assert!(output.status.success(), "{policy}\n{}\n{}", output.stderr.escape_ascii(), rendered.stdout);
        if number > 0 {
            assert!(fs::metadata(&contexts).unwrap().len() > 0);
            continue;
        }
        for (path, label) in [
            ("src/main.rs", "write"),
            (".env", "denied"),
            ("a/b/.env", "denied"),
            (".env/x", "denied"),
            ("infra/main.tf", "protected"),
            ("a/.vscode/tasks.json", "protected"),
            (".git/hooks/pre-commit", "protected"),
        ] {
            let path = world.path("project").join(path);
            let mut lookup = Command::new(LOOKUP);
            let found = lookup.args(["-b", "file", "-f"]).arg(&contexts).arg("-k").arg(&path).output().unwrap();
            let found = found.stdout.escape_ascii().to_string();
            assert!(found.contains(&format!("ringfence_session.{label}:")), "{}: {found}", path.display());
        }
    }
}

/// M7: a name that cannot be said is said not to be held.
#[test]
fn m7_what_cannot_be_said_is_named() {
    let world = world(POLICIES[0]);
    let aa = world.ringfence(&["render", "apparmor", "--policy", "ringfence.toml"]).expect_code(0);
    assert!(aa.stderr.contains("not held: deny") && aa.stderr.contains("no such character"), "{}", aa.stderr);
    let se = world.ringfence(&["render", "selinux", "--policy", "ringfence.toml"]).expect_code(0);
    assert!(se.stderr.contains("no blanks and no quotes"), "{}", se.stderr);
    for text in [&aa.stdout, &se.stdout] {
        assert!(!text.contains("new\nline"), "{text}");
    }
}
