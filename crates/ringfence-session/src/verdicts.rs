//! What the hook tells the supervisor: how it judged each tool call, to be written down.
//!
//! The hook runs inside, as the agent does, so whoever works there can say the same: these lines are what was said by the hook's
//! socket, not what was seen. Nobody waits for them, they are short, and no more of them are taken than a person would read:
//! the audit keeps a bounded past, which a flood would wash away. How many were not taken is said.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::time::Instant;

use ringfence_surface::AbsPath;
use rustix::fs::{AtFlags, Mode, OFlags, Uid};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use serde::{Deserialize, Serialize};

use crate::approvals;
use crate::given;
use crate::text::Bytes;
use crate::ways;

/// Longer messages are not taken.
const LONGEST: usize = 8 << 10;

/// So many of each verdict at once, and one more for each second: calls that may run leave room for those that may not.
const AT_ONCE: u64 = 100;

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
    let place = open(dir)?;
    let socket = UnixDatagram::unbound()?;
    socket.connect(address(&place))?;
    let (ours, theirs) = ways::channel()?;
    ways::send(&socket.into(), &serde_json::to_vec(said)?, &[theirs.as_fd()])?;
    drop(theirs);
    let mut answer = [0];
    let heard = rustix::io::retry_on_intr(|| rustix::net::recv(&ours, &mut answer, RecvFlags::empty()))?;
    Ok(heard.0 == 1 && answer == [approvals::YES])
}

/// Tells the supervisor of the session whose given directory this is. Where nobody listens, nobody hears it.
///
/// # Errors
/// When it could not be said; nothing waits.
pub fn tell(dir: &AbsPath, said: &Said) -> io::Result<()> {
    let place = open(dir)?;
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    let text = serde_json::to_vec(said)?;
    socket.send_to(&text, address(&place)).map(drop)
}

/// The supervisor's end.
#[derive(Debug)]
pub(crate) struct Verdicts {
    socket: UnixDatagram,
    since: Instant,
    /// Of those that may not run, and of those that may.
    taken: [u64; 2],
    dropped: u64,
}

impl Verdicts {
    /// Listens in a session's directory, for whoever works inside.
    pub(crate) fn listen(session: &AbsPath, user: Option<u32>) -> io::Result<Self> {
        let place = open(&given::dir(session))?;
        let socket = UnixDatagram::bind(address(&place))?;
        socket.set_nonblocking(true)?;
        rustix::fs::chmodat(&place, given::VERDICTS, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        rustix::fs::chownat(&place, given::VERDICTS, user.map(Uid::from_raw), None, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Self { socket, since: Instant::now(), taken: [0; 2], dropped: 0 })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What was said next, with where the answer goes if one is waited for; what is no verdict is passed over.
    pub(crate) fn next(&mut self) -> Option<(Said, Option<OwnedFd>)> {
        // One byte more than is taken, so that what is longer is seen to be.
        let mut text = [0; LONGEST + 1];
        loop {
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
    }

    /// Whoever is inside may send descriptors of anything. One is kept, and written to without waiting if it is a socket.
    fn receive(&self, text: &mut [u8]) -> Option<(usize, Option<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [io::IoSliceMut::new(text)];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let message = rustix::net::recvmsg(&self.socket, &mut parts, &mut ancillary, flags).ok()?;
        let fds = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let end = fds.flatten().last();
        Some((message.bytes, end))
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

/// By a descriptor: the path may be longer than an address can be.
fn address(dir: &OwnedFd) -> String {
    format!("/proc/self/fd/{}/{}", dir.as_raw_fd(), given::VERDICTS)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

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
        let socket = UnixDatagram::unbound().unwrap();
        let _ = socket.send_to(b"garbage", address(&open(&dir).unwrap()));
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
            rustix::event::poll(
                &mut [rustix::event::PollFd::new(&verdicts.socket, rustix::event::PollFlags::IN)],
                None,
            )
            .unwrap();
            let (said, end) = verdicts.next().unwrap();
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
