//! The process between a supervisor and a command that somebody asked it for: it takes the order, and sees the call to its end.
//!
//! Its standard input is the channel to whoever asked. When that end is let go of, by whatever cause, the call ends.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use ringfence_plan::Rung;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::alive::Found;
use crate::call::Call;
use crate::desk::{CallAnswer, CallOrder, CallReply, PAUSE, RESUME, VERSION};
use crate::hold::{GO_ON, HOLD};
use crate::launch::{Ended, StartError};
use crate::terminal::Signals;
use crate::ways;

/// The longest order, with its end.
const MOST_ORDER: usize = 64 << 10;

/// Neither of the other two words.
const END: u8 = b'e';

/// An order that does not end is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// A call that was asked for.
#[derive(Debug)]
pub struct Called {
    channel: UnixStream,
    /// What is to be done.
    pub order: CallOrder,
    /// Its input, its output and its errors.
    pub streams: [OwnedFd; 3],
}

impl Called {
    /// Takes the order from the standard input.
    ///
    /// # Errors
    /// When there is none: then this was not started by a supervisor.
    pub fn take() -> io::Result<Self> {
        let channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let mut bytes = vec![0; MOST_ORDER];
        // It was sent in one go before this process was started; the descriptors come with the first part of it.
        let fds = ways::receive(&channel, &mut bytes)?;
        let mut end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        channel.set_read_timeout(Some(PATIENCE))?;
        while !bytes[..end].ends_with(b"\n") {
            match (&mut &channel).read(&mut bytes[end..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                more => end += more,
            }
        }
        let order = serde_json::from_slice(&bytes[..end])?;
        let streams = <[OwnedFd; 3]>::try_from(fds).map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(Self { channel, order, streams })
    }

    /// Says something to whoever asked. Nobody may be there any more.
    ///
    /// # Errors
    /// When it could not be said.
    pub fn say(channel: &UnixStream, answer: CallAnswer) -> io::Result<()> {
        let mut line = serde_json::to_vec(&CallReply { v: VERSION, answer })?;
        line.push(b'\n');
        let mut channel = channel;
        channel.write_all(&line)
    }

    /// The order, the streams and the channel.
    #[must_use]
    pub fn into_parts(self) -> (CallOrder, [OwnedFd; 3], UnixStream) {
        (self.order, self.streams, self.channel)
    }
}

/// What a call is attended to with.
pub struct Attention<'a> {
    /// To whoever asked.
    pub channel: &'a UnixStream,
    /// Blocked before the call was started: some of them say that the session is paused, or goes on.
    pub signals: &'a Signals,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// The session that it ends with.
    pub session: &'a Found,
    /// How its fence is built.
    pub rung: Rung,
}

/// Waits for the end of a call, which is also that of the session, of its time, and of whoever holds the channel.
///
/// # Errors
/// When somebody else has waited for it, or waiting failed.
pub fn attend(call: Call, attention: &Attention<'_>) -> Result<Ended, StartError> {
    let Attention { channel, signals, timeout, session, rung } = *attention;
    let failed = |what: &'static str| move |source: io::Error| StartError::Prepare { what, source };
    let deadline = timeout.and_then(|limit| Instant::now().checked_add(limit));
    let lifeline = call.running().lifeline();
    let watch = session.watched().map_err(failed("dup"))?.watch(lifeline.clone());
    let (mut is_held, mut out_of_time) = (true, false);
    loop {
        let left = deadline.filter(|_| !out_of_time).map(|until| until.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            out_of_time = true;
            lifeline.cut();
            continue;
        }
        let left = left.map(|left| Timespec::try_from(left.min(Duration::from_secs(3_600))).unwrap_or_default());
        let mut fds = vec![
            PollFd::from_borrowed_fd(call.running().pidfd(), PollFlags::IN),
            PollFd::new(signals.fd(), PollFlags::IN),
        ];
        if is_held {
            // Nothing more is read of it: only that it was let go of counts.
            fds.push(PollFd::new(channel, PollFlags::RDHUP));
        }
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(failed("poll")(errno.into())),
        }
        let is_done = !fds[0].revents().is_empty();
        if fds.get(2).is_some_and(|channel| !channel.revents().is_empty()) {
            is_held = false;
            lifeline.cut();
        }
        if is_done {
            break;
        }
        while let Ok(Some(signal)) = signals.next() {
            let word = match signal {
                PAUSE => HOLD,
                RESUME => GO_ON,
                Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT => END,
                _ => continue,
            };
            // Without a process namespace there is no telling whom one would stop: then it does not go on.
            if word == END || rung != Rung::Native || !lifeline.say(word) {
                lifeline.cut();
            }
        }
    }
    let ended = call.wait()?;
    Ok(Ended { out_of_time, session_over: watch.is_over(), ..ended })
}
