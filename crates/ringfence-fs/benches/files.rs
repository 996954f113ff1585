//! What files and commands cost here beside the bare calls. Prints one figure to a line; `cargo xtask bench` holds them to their
//! bars.

#![forbid(unsafe_code)]

/// Nothing is measured where nothing works.
#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::run()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::hint::black_box;
    use std::io::Write as _;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use ringfence_fs::{Environment as _, Exec, LocalEnvironment, Root, Writable};
    use rustix::fs::{Mode, OFlags};

    type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

    /// What a program would pass to stay out of trouble by itself.
    const FLAGS: OFlags = OFlags::WRONLY
        .union(OFlags::CREATE)
        .union(OFlags::NONBLOCK)
        .union(OFlags::NOCTTY)
        .union(OFlags::NOFOLLOW)
        .union(OFlags::CLOEXEC);

    pub(crate) fn run() -> Result<()> {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let has = |word: &str| words.iter().any(|other| other == word);
        // Whoever asks for tests is told that there are none.
        if has("--list") {
            return Ok(());
        }
        if has("memory") {
            return memory();
        }
        let rounds = if has("--quick") { 40 } else { 200 };
        for size in [0, 100] {
            let (ours, bare) = open(rounds, size)?;
            tell(&format!("open-{size}"), &[ours, bare])?;
        }
        let (ours, theirs) = exec(rounds * 5)?;
        tell("exec", &[ours, theirs])?;
        let own = Command::new(std::env::current_exe()?).arg("memory").output()?;
        std::io::stdout().write_all(&own.stdout)?;
        Ok(())
    }

    fn tell(name: &str, figures: &[f64]) -> Result<()> {
        let figures: Vec<String> = figures.iter().map(ToString::to_string).collect();
        Ok(writeln!(std::io::stdout(), "figure {name} {}", figures.join(" "))?)
    }

    /// Of many figures the one to tell.
    type Pick = fn(&[f64]) -> Option<&f64>;

    fn middle(sorted: &[f64]) -> Option<&f64> {
        sorted.get(sorted.len() / 2)
    }

    /// Takes turns, so that whatever else the machine does falls on both alike.
    fn in_turns(
        rounds: usize,
        pick: Pick,
        mut one: impl FnMut() -> Result<f64>,
        mut other: impl FnMut() -> Result<f64>,
    ) -> Result<(f64, f64)> {
        let (mut ones, mut others) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            if round % 2 == 0 {
                ones.push(one()?);
                others.push(other()?);
            } else {
                others.push(other()?);
                ones.push(one()?);
            }
        }
        let pick = |mut figures: Vec<f64>| {
            figures.sort_by(f64::total_cmp);
            pick(&figures).copied().unwrap_or(f64::NAN)
        };
        Ok((pick(ones), pick(others)))
    }

    /// Nanoseconds for opening a file of this size for a write and closing it: by a root with globs, and by a bare `openat`,
    /// which cuts short a file that is not empty. In memory: a disk would take a thousand times as long for that.
    fn open(rounds: usize, size: usize) -> Result<(f64, f64)> {
        const CALLS: u32 = 500;
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        let flags = if size > 0 { FLAGS | OFlags::TRUNC } else { FLAGS };
        let path = "src/some/module/file.rs";
        fs::create_dir_all(dir.path().join("src/some/module"))?;
        fs::write(dir.path().join(path), vec![b'x'; size])?;
        let globs = ["docs/**", "tests/**/*.rs", "*.md", "src/**"];
        let root = Root::open(dir.path(), Writable::globs(globs)?)?;
        let at = rustix::fs::open(dir.path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let content = vec![b'x'; size];
        // A file that holds something is filled again each time, outside of what is timed.
        let timed = |open: &dyn Fn() -> Result<fs::File>| -> Result<f64> {
            let mut taken = Duration::ZERO;
            for _ in 0..CALLS {
                let start = Instant::now();
                let mut file = black_box(open()?);
                taken += start.elapsed();
                if size > 0 {
                    file.write_all(&content)?;
                }
                let start = Instant::now();
                drop(file);
                taken += start.elapsed();
            }
            Ok(taken.as_nanos() as f64 / f64::from(CALLS))
        };
        let bare = || -> Result<fs::File> {
            Ok(rustix::fs::openat(&at, path, flags, Mode::from_raw_mode(0o666)).map(fs::File::from)?)
        };
        // To stay beneath a directory the kernel takes a lock that every mount on the machine takes as well: the least is what
        // the call costs, and the rest is what others do.
        in_turns(rounds, <[f64]>::first, || timed(&|| Ok(root.open_for_write(path)?)), || timed(&bare))
    }

    /// Nanoseconds for `true`: captured here, and by the standard library.
    fn exec(rounds: usize) -> Result<(f64, f64)> {
        let dir = tempfile::tempdir()?;
        let root = Root::open(dir.path(), Writable::nothing())?;
        let environment = LocalEnvironment::with_unfenced_exec(root);
        let exec = Exec::new("/bin/true", Duration::from_secs(60));
        let ours = || {
            let start = Instant::now();
            black_box(environment.exec(&exec)?);
            Ok(start.elapsed().as_nanos() as f64)
        };
        let theirs = || {
            let start = Instant::now();
            black_box(Command::new("/bin/true").env_clear().current_dir(dir.path()).output()?);
            Ok(start.elapsed().as_nanos() as f64)
        };
        in_turns(rounds, middle, ours, theirs)
    }

    /// KiB that this process had at most, after a child has printed a gigabyte of which a mebibyte is kept.
    fn memory() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let root = Root::open(dir.path(), Writable::nothing())?;
        let exec = Exec::new("/usr/bin/head", Duration::from_secs(600)).args(["-c", "1000000000", "/dev/zero"]);
        let start = Instant::now();
        let done = LocalEnvironment::with_unfenced_exec(root).exec(&exec.keep(1 << 20))?;
        let seconds = start.elapsed().as_secs_f64();
        if done.stdout.total() != 1_000_000_000 {
            return Err("not all of it was seen".into());
        }
        let status = fs::read_to_string("/proc/self/status")?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no VmHWM")?;
        let peak: f64 = line.split_whitespace().nth(1).ok_or("no figure")?.parse()?;
        tell("memory", &[peak / 1024.0, seconds])
    }
}
