//! Those who work at the same time: no session moves a directory while another judges or makes something in it.
//!
//! Each broker keeps its own calls apart. Two sessions in one project, or a session and a call beside it, have two brokers: one
//! could look at all that is in `x` and move it to `.cargo`, while the other makes `x/config.toml`. So every session and call of
//! a user counts its calls in a number of its own in a file that all of them share, and whoever moves a directory says so
//! there and waits until every other number is zero. A call costs two additions in memory for that, and no system call.
//!
//! Whether somebody is still there a lock on a byte tells, which the kernel lets go of: the number of a session that was killed
//! counts for nobody. It is not asked who works in which project, since the same directory may be reached by many names.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringfence_surface::AbsPath;
use ringfence_sys::shared::{ByteLock, Numbers, is_locked, lock_byte};
use rustix::fs::{IFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::walk::os_path;

/// Its name says how it is laid out.
const FILE: &[u8] = b"moves-2";
/// More do not work at once; whoever comes then is told.
const MOST: usize = 1023;
/// Each number is on a line of the processor's own, and the first line is everybody's.
const LINE: usize = 16;
const NUMBERS: usize = (MOST + 1) * LINE;
const BYTES: usize = NUMBERS * 4;
/// In the first line: somebody moves a directory.
const MOVING: usize = 0;
/// And how many numbers were ever used.
const USED: usize = 1;
/// And how often directories were moved, or became git directories.
const GENERATION: usize = 2;
/// And whether git has put protected files into clones: see [`crate::clones`].
const CLONES: usize = 3;
/// And whether a link was made at a path that tools may trust, so that a clone could come to be at its end.
const REDIRECTS: usize = 4;
/// The bytes that are locked: by whoever moves, by whoever comes, and by those who are there.
const MOVER: u32 = 0;
const COMER: u32 = 1;
const FIRST: u32 = 16;
/// In each line: how many calls are carried out, and how many wait for somebody who moves.
const CALLS: usize = 0;
const WAITING: usize = 1;
/// How long somebody who moves waits for a call of somebody else's: a disk may be slow, and may never answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long somebody who moves lets those go first who wait already.
const COURTESY: Duration = Duration::from_millis(5);
/// A move that takes longer than this is long, and whoever makes one makes no other for so many times as long: nobody is kept from
/// working by somebody else who moves large directories without end.
const LONG: Duration = Duration::from_millis(1);
const REST: u32 = 4;
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_micros(500);

/// A place among those who work.
#[derive(Debug)]
pub(crate) struct Beside {
    file: OwnedFd,
    numbers: Numbers,
    own: usize,
    /// The locks are all of one process's, so one thread asks at a time.
    asking: Mutex<()>,
    /// Until when nothing is moved.
    rests: Mutex<Instant>,
}

/// A call is carried out: nobody else moves a directory. It is counted.
#[derive(Debug)]
pub(crate) struct Within<'b>(&'b AtomicU32);

impl<'b> Within<'b> {
    fn count(number: &'b AtomicU32) -> Self {
        number.fetch_add(1, Ordering::SeqCst);
        Self(number)
    }
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Nobody else carries out anything.
#[derive(Debug)]
pub(crate) struct Alone<'b> {
    beside: &'b Beside,
    since: Instant,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.beside.numbers.at(GENERATION).fetch_add(1, Ordering::SeqCst);
        self.beside.numbers.at(MOVING).store(0, Ordering::SeqCst);
        // It fails for nobody who has it.
        let _ = lock_byte(self.beside.file.as_fd(), MOVER, ByteLock::Open);
        let took = self.since.elapsed();
        if took > LONG {
            *self.beside.rests.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + took * REST;
        }
    }
}

impl Beside {
    /// Takes a place among those whose state is kept here.
    ///
    /// # Errors
    /// When the file cannot be made or shared, or too many are there already.
    pub(crate) fn join(state: &AbsPath) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(os_path(state))?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(state.child(FILE).as_bytes(), flags, Mode::RUSR | Mode::WUSR)?;
        let until = Instant::now() + PATIENCE;
        wait_for(|| lock_byte(file.as_fd(), COMER, ByteLock::Alone), || Instant::now() < until)?;
        fill(&file)?;
        let numbers = Numbers::map(file.as_fd(), NUMBERS)?;
        let is_free = |own: &u32| lock_byte(file.as_fd(), FIRST + own, ByteLock::Alone).is_ok();
        let own = (0..MOST as u32).find(is_free).ok_or_else(|| io::Error::other("too many sessions at once"))?;
        let beside =
            Self { own: own as usize, file, numbers, asking: Mutex::new(()), rests: Mutex::new(Instant::now()) };
        // Whoever was there before may have been killed in a call.
        [CALLS, WAITING].iter().for_each(|what| beside.of(beside.own, *what).store(0, Ordering::SeqCst));
        beside.numbers.at(USED).fetch_max(own + 1, Ordering::SeqCst);
        // The first one after all others have ended begins anew.
        let used = beside.numbers.at(USED).load(Ordering::SeqCst).min(MOST as u32);
        let is_other = |other: u32| other != own && is_locked(beside.file.as_fd(), FIRST + other).unwrap_or(true);
        if !(0..used).any(is_other) {
            [CLONES, REDIRECTS].iter().for_each(|what| beside.numbers.at(*what).store(0, Ordering::SeqCst));
        }
        lock_byte(beside.file.as_fd(), COMER, ByteLock::Open)?;
        Ok(beside)
    }

    /// The descriptor that keeps the place.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// A generation that changes with each exclusive lock, and invalidates what is cached of directories.
    pub(crate) fn generation(&self) -> u32 {
        self.numbers.at(GENERATION).load(Ordering::SeqCst)
    }

    /// Git puts protected files into a clone.
    pub(crate) fn note_clone(&self) {
        self.numbers.at(CLONES).store(1, Ordering::SeqCst);
    }

    /// Are there clones with protected files?
    pub(crate) fn has_clones(&self) -> bool {
        self.numbers.at(CLONES).load(Ordering::SeqCst) != 0
    }

    /// A link was made at a path that tools may trust.
    pub(crate) fn note_redirect(&self) {
        self.numbers.at(REDIRECTS).store(1, Ordering::SeqCst);
    }

    /// Are there such links?
    pub(crate) fn has_redirects(&self) -> bool {
        self.numbers.at(REDIRECTS).load(Ordering::SeqCst) != 0
    }

    /// A call begins. Nobody of this process is [`Beside::alone`] meanwhile. `is_wanted` says whether it is still waited for.
    ///
    /// # Errors
    /// EINTR where it is not.
    pub(crate) fn within(&self, is_wanted: impl Fn() -> bool) -> rustix::io::Result<Within<'_>> {
        let (calls, moving) = (self.of(self.own, CALLS), self.numbers.at(MOVING));
        let mut waiting = None;
        loop {
            // Whoever moves says so before it looks, and this is written before it is asked: one of the two sees the other.
            let within = Within::count(calls);
            if moving.load(Ordering::SeqCst) == 0 {
                return Ok(within);
            }
            drop(within);
            // Until this one is through.
            waiting.get_or_insert_with(|| Within::count(self.of(self.own, WAITING)));
            wait_for(|| if moving.load(Ordering::SeqCst) == 0 { Ok(()) } else { self.is_left() }, &is_wanted)?;
        }
    }

    /// Does nobody move, although it says so? One who was killed has left it then.
    fn is_left(&self) -> rustix::io::Result<()> {
        let _asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        lock_byte(self.file.as_fd(), MOVER, ByteLock::Shared)?;
        self.numbers.at(MOVING).store(0, Ordering::SeqCst);
        lock_byte(self.file.as_fd(), MOVER, ByteLock::Open)
    }

    /// Waits until nobody else carries out anything. Nobody of this process is [`Beside::within`] meanwhile.
    ///
    /// # Errors
    /// EINTR where it is not waited for any more, EBUSY where somebody else's call never ends.
    pub(crate) fn alone(&self, is_wanted: impl Fn() -> bool) -> rustix::io::Result<Alone<'_>> {
        let others = || {
            let used = self.numbers.at(USED).load(Ordering::SeqCst).min(MOST as u32);
            (0..used).filter(|other| *other as usize != self.own)
        };
        let has = |other: u32, what: usize| -> rustix::io::Result<bool> {
            let is_some = self.of(other as usize, what).load(Ordering::SeqCst) > 0;
            Ok(is_some && is_locked(self.file.as_fd(), FIRST + other)?)
        };
        let over = |is_over: bool| if is_over { Ok(()) } else { Err(Errno::AGAIN) };
        let rests = *self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        if rests > Instant::now() && others().any(|other| is_locked(self.file.as_fd(), FIRST + other).unwrap_or(true)) {
            wait_for(|| over(Instant::now() >= rests), &is_wanted)?;
        }
        wait_for(|| lock_byte(self.file.as_fd(), MOVER, ByteLock::Alone), &is_wanted)?;
        let alone = Alone { beside: self, since: Instant::now() };
        let until = alone.since + COURTESY;
        for other in others() {
            wait_for(|| over(Instant::now() >= until || !has(other, WAITING)?), &is_wanted)?;
        }
        self.numbers.at(MOVING).store(1, Ordering::SeqCst);
        let until = Instant::now() + PATIENCE;
        // Whoever comes from now on sees that somebody moves.
        for other in others() {
            wait_for(|| over(!has(other, CALLS)?), || Instant::now() < until && is_wanted()).map_err(|errno| {
                match errno {
                    Errno::INTR if is_wanted() => Errno::BUSY,
                    other => other,
                }
            })?;
        }
        Ok(alone)
    }

    /// A number of somebody who works.
    fn of(&self, whom: usize, what: usize) -> &AtomicU32 {
        self.numbers.at((whom + 1) * LINE + what)
    }
}

/// Everything in it is on the disk before it is mapped: a page for which there is no room would end whoever touches it.
fn fill(file: &OwnedFd) -> io::Result<()> {
    let length = usize::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or_default();
    if length == 0 {
        // Where what is changed is written elsewhere (btrfs) room is needed each time, unless this is said.
        let _ =
            rustix::fs::ioctl_getflags(file).and_then(|flags| rustix::fs::ioctl_setflags(file, flags | IFlags::NOCOW));
    }
    let zeros = vec![0; BYTES.saturating_sub(length)];
    let mut done = 0;
    while done < zeros.len() {
        match rustix::io::pwrite(file, &zeros[done..], (length + done) as u64)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => done += written,
        }
    }
    Ok(())
}

/// Asks again until it is answered, or nobody wants to know any more.
fn wait_for(mut ask: impl FnMut() -> rustix::io::Result<()>, is_wanted: impl Fn() -> bool) -> rustix::io::Result<()> {
    let mut pause = SHORTEST_PAUSE;
    loop {
        match ask() {
            Err(Errno::AGAIN) => {}
            other => return other,
        }
        if !is_wanted() {
            return Err(Errno::INTR);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn state() -> (tempfile::TempDir, AbsPath) {
        let dir = tempfile::tempdir().unwrap();
        let path = AbsPath::lexical(dir.path().as_os_str().as_encoded_bytes()).unwrap();
        (dir, path)
    }

    fn two() -> (tempfile::TempDir, Beside, Beside) {
        let (dir, path) = state();
        let (one, other) = (Beside::join(&path).unwrap(), Beside::join(&path).unwrap());
        assert_ne!(one.own, other.own);
        (dir, one, other)
    }

    #[test]
    fn whoever_moves_waits_for_calls_of_others() {
        let (_dir, one, other) = two();
        let (first, second) = (one.within(|| true).unwrap(), one.within(|| true).unwrap());
        assert_eq!(other.alone(|| false).map(drop), Err(Errno::INTR));
        drop(first);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _alone = other.alone(|| true).unwrap();
                assert!(is_over.load(Ordering::SeqCst), "a call was still carried out");
            });
            while one.numbers.at(MOVING).load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            is_over.store(true, Ordering::SeqCst);
            drop(second);
        });
        // It has let go of everything.
        drop(one.alone(|| false).unwrap());
        drop(other.within(|| false).unwrap());
    }

    #[test]
    fn calls_wait_for_whoever_moves() {
        let (_dir, one, other) = two();
        let alone = one.alone(|| true).unwrap();
        assert_eq!(other.within(|| false).map(drop), Err(Errno::INTR));
        assert_eq!(other.alone(|| false).map(drop), Err(Errno::INTR));
        drop(alone);
        drop(other.within(|| false).unwrap());
    }

    /// A call that never ends is not waited for without end.
    #[test]
    fn whoever_moves_gives_up() {
        let (_dir, one, other) = two();
        let within = one.within(|| true).unwrap();
        assert_eq!(other.alone(|| true).map(drop), Err(Errno::BUSY));
        drop(one.within(|| false).unwrap());
        drop(within);
    }

    /// However somebody ends, the others go on.
    #[test]
    fn the_dead_keep_nobody() {
        let (_dir, one, other) = two();
        std::mem::forget(one.within(|| true).unwrap());
        drop(one);
        drop(other.alone(|| false).unwrap());
        let (_dir, one, other) = two();
        let alone = one.alone(|| true).unwrap();
        std::mem::forget(alone);
        drop(one);
        drop(other.within(|| false).unwrap());
    }

    /// Whoever comes into the place of somebody who was killed in a call begins with none.
    #[test]
    fn a_place_is_taken_again() {
        let (_dir, path) = state();
        let one = Beside::join(&path).unwrap();
        let other = Beside::join(&path).unwrap();
        std::mem::forget(one.within(|| true).unwrap());
        let own = one.own;
        drop(one);
        let next = Beside::join(&path).unwrap();
        assert_eq!(next.own, own);
        drop(other.alone(|| false).unwrap());
    }

    #[test]
    fn too_many_are_told() {
        let (_dir, path) = state();
        let one = Beside::join(&path).unwrap();
        for at in 1..MOST as u32 {
            lock_byte(one.file.as_fd(), FIRST + at, ByteLock::Alone).unwrap();
        }
        assert!(Beside::join(&path).is_err());
        lock_byte(one.file.as_fd(), FIRST + 700, ByteLock::Open).unwrap();
        let last = Beside::join(&path).unwrap();
        assert_eq!(last.own, 700);
        let within = last.within(|| true).unwrap();
        assert_eq!(one.alone(|| false).map(drop), Err(Errno::INTR));
        drop(within);
    }

    /// Somebody who moves without end does not keep others from working.
    #[test]
    fn whoever_waits_comes_before_the_next_move() {
        let (_dir, one, other) = two();
        let (moves, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    let _alone = one.alone(|| true).unwrap();
                    moves.fetch_add(1, Ordering::SeqCst);
                    let until = Instant::now() + LONG * 5;
                    while Instant::now() < until {
                        std::thread::yield_now();
                    }
                }
            });
            for _ in 0..50 {
                let before = moves.load(Ordering::SeqCst);
                // In the middle of a move, or at its end.
                while moves.load(Ordering::SeqCst) == before {
                    std::thread::yield_now();
                }
                drop(other.within(|| true).unwrap());
            }
            is_over.store(true, Ordering::SeqCst);
        });
        let moves = moves.load(Ordering::SeqCst);
        // On a machine that does other things too a thread may miss some before it asks; without a rest there are hundreds for each.
        assert!(moves < 50 * 20, "{moves} moves for 50 calls");
    }

    /// Many at once: while somebody is alone nobody else is there.
    #[test]
    fn nobody_is_beside_whoever_moves() {
        let (_dir, path) = state();
        let (calls, moves) = (AtomicU32::new(0), AtomicU32::new(0));
        let work = |round: u32| {
            let beside = Beside::join(&path).unwrap();
            for turn in 0..300 {
                if (turn + round).is_multiple_of(7) {
                    let _alone = beside.alone(|| true).unwrap();
                    assert_eq!(moves.fetch_add(1, Ordering::SeqCst), 0, "somebody else moves");
                    assert_eq!(calls.load(Ordering::SeqCst), 0, "somebody else calls");
                    moves.fetch_sub(1, Ordering::SeqCst);
                } else {
                    let _within = beside.within(|| true).unwrap();
                    calls.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(moves.load(Ordering::SeqCst), 0, "somebody moves");
                    calls.fetch_sub(1, Ordering::SeqCst);
                }
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..6).map(|round| scope.spawn(move || work(round))).collect();
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
    }
}
