//! The first new process of a session: it makes the view, gives up its rights, starts the payload and waits for it.
//!
//! It is a copy of the supervisor, which may have other threads: nothing in here allocates or takes a lock.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use ringfence_sys::process;
use ringfence_sys::{ns, pty};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};

use crate::arguments::Arguments;
use crate::descendants;
use crate::hold::{Hold, Word};
use crate::launch::{Identity, Shape};
use crate::live::LiveView;
use crate::payload::{Payload, SeatAt, map_oneself, open_proc};
use crate::steps::{
    CAPABILITIES, DESCRIPTORS, FORK, IDENTITY, LOOPBACK, MAPS, STANDARD, TERMINAL, WAYS, failed, report,
};
use crate::terminal;
use crate::view::{Failed, View};
use crate::ways;

/// The new process's ends of what it shares with the supervisor.
pub(crate) struct Ends {
    /// Says which step failed; closed by success.
    pub(crate) errors: OwnedFd,
    /// Ends when the supervisor does.
    pub(crate) alive: OwnedFd,
    /// Hands sockets out.
    pub(crate) ways: Option<OwnedFd>,
    /// Takes the number of the signal that ended the payload, which an exit code does not tell apart from itself.
    pub(crate) signal: OwnedFd,
}

/// A terminal for the first process to pass on.
#[derive(Clone, Copy)]
pub(crate) enum Seat<'s> {
    None,
    Made(BorrowedFd<'s>, pty::Seats),
    /// To be made, and handed out by this.
    ToBeMade(BorrowedFd<'s>, pty::Seats),
}

/// The first new process.
pub(crate) struct First<'p> {
    pub(crate) shape: &'p Shape,
    /// Where the kernel reads this program's own arguments, which would show inside.
    pub(crate) arguments: Option<Arguments>,
    pub(crate) identity: Identity,
    pub(crate) payload: &'p Payload,
    /// Where it listens from the start, for the supervisor.
    pub(crate) listeners: &'p [SocketAddr],
    /// What takes the place of the caller's own three.
    pub(crate) streams: Option<[OwnedFd; 3]>,
    /// The session's lock: it is held as long as anything of the session runs.
    pub(crate) lock: OwnedFd,
}

impl First<'_> {
    /// Allocates nothing.
    pub(crate) fn run(&self, ends: Ends, seat: Seat<'_>, others: [Option<i32>; 3]) -> u8 {
        let Ends { errors, alive, ways, signal } = ends;
        // Ours would keep the supervisor's ends open.
        others.into_iter().flatten().for_each(process::close);
        if let Err(failed) =
            self.take_streams().and_then(|()| self.let_go([&errors, &alive, &signal], ways.as_ref(), seat))
        {
            return report(&errors, failed);
        }
        if let (Shape::Native(_), Some(place)) = (self.shape, self.arguments) {
            place.wipe();
        }
        // The view's own cannot be written.
        let needs_proc = self.payload.pids.is_some_and(|pids| pids.needs_namespace.is_some());
        let proc = if needs_proc { open_proc().ok() } else { None };
        if let Err(failed) = self.enter(&alive, ways.as_ref()) {
            return report(&errors, failed);
        }
        let made;
        let seat: SeatAt<'_> = match seat {
            Seat::None => None,
            Seat::Made(slave, seats) => Some((slave, seats)),
            Seat::ToBeMade(inside, seats) => match terminal::make_inside(inside) {
                Ok(slave) => {
                    made = slave;
                    Some((made.as_fd(), seats))
                }
                Err(errno) => return report(&errors, Failed { step: TERMINAL, errno }),
            },
        };
        let Ok(signals) = pty::signalfd(&FORWARDED) else { return 125 };
        if pty::block(&FORWARDED).is_err() {
            return 125;
        }
        // Nothing of the payload runs before the supervisor has written down that it does.
        if !matches!(rustix::io::retry_on_intr(|| rustix::io::read(&alive, &mut [0])), Ok(1)) {
            return 125;
        }
        let program = || match self.shape {
            Shape::Bwrap(bubble) => bubble.become_program(seat, errors.as_fd()),
            Shape::Native(_) | Shape::Walls => self.payload.become_program(seat, proc.as_ref().map(OwnedFd::as_fd)),
        };
        let payload = match process::fork_in_copy(|| report(&errors, program())) {
            Ok(pid) => pid,
            Err(error) => return report(&errors, failed(FORK, &error)),
        };
        // Now only the payload holds it, until it becomes its program.
        drop(errors);
        let (code, number) = wait_for(payload, &signals, &alive, ways.as_ref());
        if number != 0 {
            // Whoever does not listen does not need to know.
            let _ = rustix::io::write(&signal, &[number]);
        }
        if matches!(self.shape, Shape::Walls) && descendants::end_all().is_err() {
            return 125;
        }
        code
    }

    fn take_streams(&self) -> Result<(), Failed> {
        for (number, stream) in (0..).zip(self.streams.iter().flatten()) {
            process::put_at(stream.as_fd(), number).map_err(|e| failed(STANDARD, &e))?;
        }
        Ok(())
    }

    /// Whoever starts several at once has ends of the others' pipes, and this copy of them would keep those from ever being
    /// closed. Bubblewrap is handed some of them.
    fn let_go(&self, ends: [&OwnedFd; 3], ways: Option<&OwnedFd>, seat: Seat<'_>) -> Result<(), Failed> {
        let view = match self.shape {
            Shape::Bwrap(_) => return Ok(()),
            Shape::Native(view) => view.idmap.as_ref().map(OwnedFd::as_raw_fd),
            Shape::Walls => None,
        };
        let seat = match seat {
            Seat::None => None,
            Seat::Made(fd, _) | Seat::ToBeMade(fd, _) => Some(fd.as_raw_fd()),
        };
        let lock = self.lock.as_raw_fd();
        let one = |fd: Option<i32>| fd.unwrap_or(lock);
        let ways = ways.map(OwnedFd::as_raw_fd);
        let [errors, alive, signal] = ends.map(OwnedFd::as_raw_fd);
        let mut keep = [errors, alive, signal, lock, one(view), one(seat), one(ways)];
        process::close_all_but(&mut keep).map_err(|e| failed(DESCRIPTORS, &e))
    }

    /// Makes the view, and gives up the rights over it.
    fn enter(&self, alive: &OwnedFd, ways: Option<&OwnedFd>) -> Result<(), Failed> {
        let identity = |e: &io::Error| failed(IDENTITY, e);
        // Without a namespace nobody ends the others if this one is killed: it must outlive the supervisor to do so.
        let dies_at_once = !matches!(self.shape, Shape::Walls);
        let bind_to_parent = || if dies_at_once { process::die_with_parent() } else { Ok(()) };
        bind_to_parent().map_err(|e| identity(&e))?;
        // The parent may have died before it was asked for; then nobody holds the other end any more.
        if is_closed(alive) {
            return Err(Failed { step: IDENTITY, errno: Errno::PIPE });
        }
        match self.shape {
            Shape::Native(view) => {
                self.enter_view(view, ways)?;
                // Without it nothing can be given later, which whoever asks is told.
                let _ = LiveView::hand_out(alive, self.identity);
            }
            Shape::Walls => {
                rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
                    .map_err(|errno| Failed { step: IDENTITY, errno })?;
            }
            Shape::Bwrap(_) => {}
        }
        let quiet = DumpableBehavior::NotDumpable;
        rustix::process::set_dumpable_behavior(quiet).map_err(|errno| Failed { step: IDENTITY, errno })?;
        rustix::thread::set_no_new_privs(true).map_err(|errno| Failed { step: CAPABILITIES, errno })?;
        if matches!(self.shape, Shape::Bwrap(_)) {
            // It mounts with the rights of whoever started us; the payload gives them up.
            return Ok(());
        }
        // An ordinary user without a namespace has no right to this, and nothing to give up.
        let has_rights = matches!((self.shape, self.identity), (Shape::Native(_), _) | (_, Identity::Other { .. }));
        if has_rights {
            process::drop_bounding_set().map_err(|e| failed(CAPABILITIES, &e))?;
        }
        if let Identity::Other { uid, gid } = self.identity {
            process::become_user(uid, gid).map_err(|e| identity(&e))?;
            // Changing who we are undid both.
            bind_to_parent().map_err(|e| identity(&e))?;
            rustix::process::set_dumpable_behavior(quiet).map_err(|errno| Failed { step: IDENTITY, errno })?;
        }
        process::drop_capabilities().map_err(|e| failed(CAPABILITIES, &e))
    }

    fn enter_view(&self, view: &View, ways: Option<&OwnedFd>) -> Result<(), Failed> {
        if let Identity::Caller { uid, gid } = self.identity {
            map_oneself(uid, gid).map_err(|e| failed(MAPS, &e))?;
        }
        ns::loopback_up().map_err(|e| failed(LOOPBACK, &e))?;
        if let Some(ways) = ways {
            ways::open(ways, self.listeners).map_err(|e| failed(WAYS, &e))?;
        }
        // The directories of the view are for whoever works in it, whatever mask the caller has for new files.
        let mask = rustix::process::umask(Mode::from_raw_mode(0o022));
        view.enter()?;
        rustix::process::umask(mask);
        Ok(())
    }
}

/// Has the other end been closed? That is told without being asked for; a message that waits is not meant. Allocates nothing.
fn is_closed(end: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(end, PollFlags::empty())];
    rustix::event::poll(&mut fds, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0)
}

const FORWARDED: [Signal; 7] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::CHILD];

/// Waits for the payload, collects what others leave behind, and passes signals on, until the payload or the supervisor ends.
/// Returns its code, and the signal that ended it or 0. Allocates nothing.
fn wait_for(payload: Pid, signals: &OwnedFd, alive: &OwnedFd, ways: Option<&OwnedFd>) -> (u8, u8) {
    // Asking for nothing makes an empty slot.
    let (ways, wanted) = ways.map_or((signals, PollFlags::empty()), |ways| (ways, PollFlags::IN));
    let mut hold = Hold::new();
    loop {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == payload => {
                    let small = |number: i32| u8::try_from(number).ok();
                    let signal = status.terminating_signal().and_then(small).unwrap_or(0);
                    let code = status.exit_status().and_then(small).or(Some(128 + (signal & 127)));
                    return (code.unwrap_or(125), signal);
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) | Err(_) => break,
            }
        }
        let mut fds =
            [PollFd::new(signals, PollFlags::IN), PollFd::new(alive, PollFlags::IN), PollFd::new(ways, wanted)];
        let _ = rustix::event::poll(&mut fds, hold.wait().as_ref());
        if !fds[1].revents().is_empty() && hold.hear(alive) == Word::End {
            return (125, 0);
        }
        hold.again();
        if fds[2].revents().contains(PollFlags::IN) {
            // It fails when the supervisor has gone, which the other pipe tells.
            let _ = ways::answer(ways);
        }
        while let Ok(Some(signal)) = pty::next_signal(signals.as_fd()) {
            if signal != Signal::CHILD {
                // The payload leads a group of its own; what has ended needs no signal.
                let _ = rustix::process::kill_process_group(payload, signal);
                // One that is stopped would not hear of it. In a session that is held it hears of it later, or never.
                if !hold.is_held() {
                    let _ = rustix::process::kill_process_group(payload, Signal::CONT);
                }
            }
        }
    }
}
