//! What the hook tells the supervisor: how it judged each tool call, to be written down.
//!
//! The hook runs inside, as the agent does, so whoever works there can say the same: these lines are what was said by the hook's
//! socket, not what was seen. Nobody waits for them, they are short, and no more of them are taken than a person would read:
//! the audit keeps a bounded past, which a flood would wash away. How many were not taken is said.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Instant;

use ringfence_surface::AbsPath;
use ringfence_sys::net;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::{AtFlags, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

use crate::approvals;
use crate::given;
use crate::text::Bytes;

/// Longer messages are not taken.
const LONGEST: usize = 8 << 10;

/// So many of each verdict at once, and one more for each second: calls that may run leave room for those that may not.
const AT_ONCE: u64 = 100;

/// So many may have connected and said nothing. The first of them makes room for the next.
const MOST_SILENT: usize = 32;

/// A tool call that was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Said {
    /// Which tool, as far as it is known.
    pub tool: String,
    /// May it run?
    pub allowed: bool,
    /// What kind of verdict.
    pub kind: String,
    /// Why.
    pub why: String,
    /// Which path, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<Bytes>,
    /// What would allow it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub remedy: Option<String>,
    /// The line of shell that waits for an answer, where one does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ask: Option<String>,
}

/// Asks the user of the session whose given directory this is, and waits for the answer. Silence is a no.
///
/// # Errors
/// When it could not be asked.
pub fn ask(dir: &AbsPath, said: &Said) -> io::Result<bool> {
    let socket = socket(SocketType::SEQPACKET, SocketFlags::empty())?;
    let place = open(dir)?;
    rustix::net::connect(&socket, &address(&place, given::ASKS)?)?;
    rustix::net::send(&socket, &serde_json::to_vec(said)?, SendFlags::NOSIGNAL)?;
    let mut answer = [0];
    let heard = rustix::io::retry_on_intr(|| rustix::net::recv(&socket, &mut answer, RecvFlags::empty()))?;
    Ok(heard.0 == 1 && answer == [approvals::YES])
}

/// Tells the supervisor of the session whose given directory this is. Where nobody listens, nobody hears it.
///
/// # Errors
/// When it could not be said; nothing waits.
pub fn tell(dir: &AbsPath, said: &Said) -> io::Result<()> {
    // By a datagram: a connection is carried out by the broker, which every tool call would wait for.
    let socket = socket(SocketType::DGRAM, SocketFlags::NONBLOCK)?;
    let place = open(dir)?;
    let to = address(&place, given::VERDICTS)?;
    rustix::net::sendto(&socket, &serde_json::to_vec(said)?, SendFlags::NOSIGNAL, &to)?;
    Ok(())
}

/// The supervisor's end.
#[derive(Debug)]
pub(crate) struct Verdicts {
    /// Wakes for all of them.
    epoll: OwnedFd,
    /// What waits for no answer.
    told: OwnedFd,
    listener: OwnedFd,
    /// Who has connected and said nothing yet.
    silent: VecDeque<OwnedFd>,
    since: Instant,
    /// Of those that may not run, and of those that may.
    taken: [u64; 2],
    dropped: u64,
}

impl Verdicts {
    /// Listens in a session's directory, for whoever works inside.
    pub(crate) fn listen(session: &AbsPath, user: Option<u32>) -> io::Result<Self> {
        let place = open(&given::dir(session))?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bound = |kind, name: &str| -> io::Result<OwnedFd> {
            let socket = socket(kind, SocketFlags::NONBLOCK)?;
            net::take_no_descriptors(socket.as_fd())?;
            rustix::net::bind(&socket, &address(&place, name)?)?;
            rustix::fs::chmodat(&place, name, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
            rustix::fs::chownat(&place, name, user.map(Uid::from_raw), None, AtFlags::SYMLINK_NOFOLLOW)?;
            epoll::add(&epoll, &socket, EventData::new_u64(0), EventFlags::IN)?;
            Ok(socket)
        };
        let (told, listener) = (bound(SocketType::DGRAM, given::VERDICTS)?, bound(SocketType::SEQPACKET, given::ASKS)?);
        rustix::net::listen(&listener, 128)?;
        Ok(Self { epoll, told, listener, silent: VecDeque::new(), since: Instant::now(), taken: [0; 2], dropped: 0 })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// What was said next, with where the answer goes if one is waited for; what is no verdict is passed over. A flood
    /// ends for now, too.
    pub(crate) fn next(&mut self) -> Option<(Said, Option<OwnedFd>)> {
        // One byte more than is taken, so that what is longer is seen to be.
        let mut text = [0; LONGEST + 1];
        for _ in 0..AT_ONCE {
            let (length, end) = self.receive(&mut text)?;
            let most = AT_ONCE + self.since.elapsed().as_secs();
            let said = serde_json::from_slice::<Said>(&text[..length]).ok().filter(|_| length <= LONGEST);
            match said {
                Some(said) if self.taken[usize::from(said.allowed)] < most => {
                    self.taken[usize::from(said.allowed)] += 1;
                    return Some((said, end));
                }
                _ => self.dropped += 1,
            }
        }
        None
    }

    fn receive(&mut self, text: &mut [u8]) -> Option<(usize, Option<OwnedFd>)> {
        if let Some((length, end)) = self.asked(text) {
            return Some((length, Some(end)));
        }
        rustix::net::recv(&self.told, &mut *text, RecvFlags::DONTWAIT).ok().map(|(length, _)| (length, None))
    }

    /// Each who connects says one thing.
    fn asked(&mut self, text: &mut [u8]) -> Option<(usize, OwnedFd)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        for _ in 0..MOST_SILENT {
            let Ok(stream) = rustix::net::accept_with(&self.listener, flags) else { break };
            if self.silent.len() == MOST_SILENT {
                self.silent.pop_front();
            }
            if epoll::add(&self.epoll, &stream, EventData::new_u64(0), EventFlags::IN).is_ok() {
                self.silent.push_back(stream);
            }
        }
        let mut at = 0;
        while let Some(stream) = self.silent.get(at) {
            match rustix::net::recv(stream, &mut *text, RecvFlags::DONTWAIT).map(|(got, _)| got) {
                Err(Errno::AGAIN | Errno::INTR) => at += 1,
                Ok(0) | Err(_) => drop(self.silent.remove(at)),
                Ok(length) => {
                    let end = self.silent.remove(at)?;
                    // Who waits for an answer may go away, and nobody is to be woken by it again and again.
                    epoll::delete(&self.epoll, &end).ok()?;
                    return Some((length, end));
                }
            }
        }
        None
    }

    /// How many were passed over since this was last asked.
    pub(crate) fn dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

fn open(dir: &AbsPath) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(dir.as_bytes(), flags, Mode::empty())?)
}

fn socket(kind: SocketType, flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::UNIX, kind, flags | SocketFlags::CLOEXEC, None)?)
}

/// By a descriptor: the path may be longer than an address can be.
fn address(dir: &OwnedFd, name: &str) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::event::{PollFd, PollFlags};

    use super::*;

    fn said(tool: &str) -> Said {
        Said {
            tool: tool.to_owned(),
            allowed: false,
            kind: "k".to_owned(),
            why: "w".to_owned(),
            path: Some(Bytes::new(b"/x")),
            remedy: None,
            ask: None,
        }
    }

    #[test]
    fn what_is_said_arrives_and_a_flood_does_not() {
        let place = tempfile::tempdir().unwrap();
        let session = AbsPath::lexical(place.path().as_os_str().as_bytes()).unwrap();
        let dir = given::dir(&session);
        assert!(tell(&dir, &said("nobody is there")).is_err());
        std::fs::create_dir(crate::walk::os_path(&dir)).unwrap();
        let mut verdicts = Verdicts::listen(&session, None).unwrap();
        tell(&dir, &said("Read")).unwrap();
        let next = |verdicts: &mut Verdicts| verdicts.next().map(|(said, _)| said);
        assert_eq!(next(&mut verdicts), Some(said("Read")));
        assert_eq!(next(&mut verdicts), None);
        // Nothing waits, whatever was not taken; what is too long or no verdict is passed over.
        let garbage = socket(SocketType::DGRAM, SocketFlags::empty()).unwrap();
        let place = open(&dir).unwrap();
        let to = address(&place, given::VERDICTS).unwrap();
        rustix::net::sendto(&garbage, b"garbage", SendFlags::NOSIGNAL, &to).unwrap();
        let _ = tell(&dir, &said(&"x".repeat(LONGEST)));
        assert_eq!((next(&mut verdicts), verdicts.dropped(), verdicts.dropped()), (None, 2, 0));
        let mut heard = 0;
        for _ in 0..10 * AT_ONCE {
            let _ = tell(&dir, &said("Read"));
            heard += u64::from(verdicts.next().is_some());
        }
        assert!((AT_ONCE - 1..AT_ONCE + 60).contains(&heard), "{heard}");
        assert_eq!(heard + verdicts.dropped(), 10 * AT_ONCE);
        // Those that may run are counted by themselves.
        let other = Said { allowed: true, ..said("Read") };
        tell(&dir, &other).unwrap();
        assert_eq!(next(&mut verdicts), Some(other));
    }

    /// K12: who asks hears the answer, and the end of whoever was asked is a no.
    #[test]
    fn k12_an_answer_arrives() {
        let place = tempfile::tempdir().unwrap();
        let session = AbsPath::lexical(place.path().as_os_str().as_bytes()).unwrap();
        std::fs::create_dir(crate::walk::os_path(&given::dir(&session))).unwrap();
        let mut verdicts = Verdicts::listen(&session, None).unwrap();
        let mut asked = |answer: Option<bool>| {
            let dir = given::dir(&session);
            let asks =
                std::thread::spawn(move || ask(&dir, &Said { ask: Some("make".to_owned()), ..said("Bash") }).unwrap());
            // Whoever has connected may not have said it yet.
            let (said, end) = loop {
                let mut fds = [PollFd::from_borrowed_fd(verdicts.fd(), PollFlags::IN)];
                rustix::event::poll(&mut fds, None).unwrap();
                if let Some(heard) = verdicts.next() {
                    break heard;
                }
            };
            assert_eq!(said.ask.as_deref(), Some("make"));
            let end = end.unwrap();
            if let Some(answer) = answer {
                approvals::tell(&end, answer);
            }
            drop(end);
            asks.join().unwrap()
        };
        assert!(asked(Some(true)));
        assert!(!asked(Some(false)));
        assert!(!asked(None));
    }
}
