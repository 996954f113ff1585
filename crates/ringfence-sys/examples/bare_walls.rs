//! What the kernel takes for its walls: restricts itself by one rule of seccomp and one of Landlock, neither of which is ever met,
//! and becomes the command.
//!
//! `bare_walls CMD ARG...`. No fence that has both walls can cost less than this does.

use std::convert::Infallible;
use std::env;
use std::error::Error;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use ringfence_plan::{Errno, SyscallAction, SyscallRule};
use ringfence_sys::landlock::{AccessFs, AccessNet, RestrictFlags, Ruleset, Scope};
use ringfence_sys::seccomp::{self, Flags};
use rustix::fs::{Mode, OFlags};

fn main() -> ExitCode {
    let Err(error) = run();
    // Nobody is left to tell when stderr is closed.
    let _ = writeln!(std::io::stderr(), "bare_walls: {error}");
    ExitCode::from(125)
}

fn run() -> Result<Infallible, Box<dyn Error>> {
    let mut words = env::args_os().skip(1);
    let program = words.next().ok_or("bare_walls CMD")?;
    rustix::thread::set_no_new_privs(true)?;
    // Everything may still be made everywhere.
    let ruleset = Ruleset::create(AccessFs::MAKE_REG, AccessNet::NONE, Scope::NONE)?;
    let root = rustix::fs::open(c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    ruleset.add_path(root.as_fd(), AccessFs::MAKE_REG)?;
    ruleset.restrict_self(RestrictFlags::NONE)?;
    let action = SyscallAction::Errno(Errno::EPERM);
    let rule = SyscallRule { name: "kexec_load", when: &[], action, reason: "nobody calls it" };
    let filter = seccomp::compile(&[rule]).map_err(|error| format!("{error:?}"))?;
    seccomp::install(&filter.program, Flags::NONE)?;
    Err(Command::new(program).args(words).exec().into())
}
