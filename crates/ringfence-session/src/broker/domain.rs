//! Callers that have given up rights by Landlock after the start: what is done for them is done with no more rights.
//!
//! A domain belongs to a thread and is inherited, and the kernel does not tell which one a thread is in. So a caller that enters
//! one is marked before it does, with a number that is inherited too and can only be lowered: the limit on file locks,
//! which the kernel has not looked at for twenty years. The rulesets are kept, and a thread of ours enters the same before
//! it does anything for a marked caller. The filter refuses to set the number inside; otherwise a process in a
//! domain could take the mark of a less restricted one, which it can read. An unknown number is refused as well.
//!
//! What runs in the domain: every call that changes a file or opens it, every read of content that the caller gets back or that is
//! put in another place for it (a file before it is moved, the copy that it writes to), and the attempt before the supervisor makes a
//! change ([`LandingRight`]). What runs with our rights: the walk to a place by O_PATH descriptors and the status of what is there,
//! which Landlock does not restrict, and what is read to judge a change: other files of a git directory (settings, the shared index, a
//! pack) and the names in a directory that is moved. Of that the caller learns whether the change is allowed.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_sys::landlock;
use ringfence_sys::notify;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdGetfdFlags};

use super::caller::Caller;

/// More are not kept.
const MOST: usize = 256;
/// No real limit is as large as these numbers.
const HIGHEST: u64 = 1 << 62;
/// Consecutive marks differ by at most this: an attacker who guesses another's number has so many to try.
const GAP: u64 = 1 << 48;

/// Of the flags only those about the log count here: another one would have all of our threads enter.
const LOGGING: u32 = 0b111;

/// The rulesets that a caller has entered, in their order.
#[derive(Debug, Clone)]
pub(super) struct Domain {
    rulesets: Arc<Vec<OwnedFd>>,
    flags: Arc<Vec<u32>>,
}

/// Every domain that was entered.
#[derive(Debug)]
pub(super) struct Domains {
    /// The limit of callers outside every domain.
    unmarked: u64,
    /// Has any caller entered one? It is written before the first is let in, and never taken back.
    any: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    lowest: u64,
    domains: BTreeMap<u64, Domain>,
}

impl Domains {
    pub(super) fn new() -> Self {
        let unmarked = notify::most_locks(rustix::process::getpid()).unwrap_or(u64::MAX);
        let known = Known { lowest: HIGHEST.min(unmarked), domains: BTreeMap::new() };
        Self { unmarked, any: AtomicBool::new(false), known: Mutex::new(known) }
    }

    /// The domain of a caller.
    ///
    /// # Errors
    /// EACCES where it is one that nobody knows.
    pub(super) fn of(&self, caller: &Caller<'_>) -> rustix::io::Result<Option<Domain>> {
        if !self.any.load(Ordering::SeqCst) {
            return Ok(None);
        }
        let mark = notify::most_locks(caller.thread)?;
        if mark == self.unmarked {
            return Ok(None);
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.domains.get(&mark).cloned().map(Some).ok_or(Errno::ACCESS)
    }

    /// Adds a rule to a ruleset of the caller's, unless a thread has entered it: the kernel restricts a thread to the rules of that
    /// moment, and what is done here enters the ruleset again. It is done here, with the ruleset and the place that were looked
    /// at: the caller may put another ruleset under the number meanwhile.
    pub(super) fn add_rule(
        &self,
        caller: &Caller<'_>,
        ruleset: i32,
        (kind, rule): (u32, u64),
        flags: u32,
    ) -> rustix::io::Result<()> {
        let mut attr = match kind {
            landlock::RULE_PATH_BENEATH => vec![0; 12],
            landlock::RULE_NET_PORT => vec![0; 16],
            _ => return Err(Errno::INVAL),
        };
        let pidfd = caller.pidfd()?;
        let get = |number: i32| rustix::process::pidfd_getfd(pidfd.as_fd(), number, PidfdGetfdFlags::empty());
        let held = get(ruleset)?;
        caller.bytes(rule, &mut attr)?;
        // Locked until the rule is added: no thread enters the ruleset meanwhile.
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entered = known.domains.values().flat_map(|domain| domain.rulesets.iter());
        if entered.any(|entered| notify::is_same_file(entered.as_fd(), held.as_fd()).unwrap_or(true)) {
            return Err(Errno::PERM);
        }
        let mut place = None;
        if kind == landlock::RULE_PATH_BENEATH
            && let Some(number) = attr.last_chunk::<4>()
        {
            let own = place.insert(get(i32::from_ne_bytes(*number))?);
            attr.truncate(8);
            attr.extend(own.as_raw_fd().to_ne_bytes());
        }
        landlock::add_rule(held.as_fd(), kind, &attr, flags)
    }

    /// Marks a caller that is about to enter a ruleset. It goes on to do so itself.
    pub(super) fn restrict(
        &self,
        caller: &Caller<'_>,
        inside: Option<&Domain>,
        ruleset: i32,
        flags: u32,
    ) -> rustix::io::Result<()> {
        if ruleset < 0 {
            // No ruleset: only what is logged changes, or it is an error.
            return Ok(());
        }
        let process = caller.process()?;
        let process = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        let pidfd = caller.pidfd()?;
        let held = rustix::process::pidfd_getfd(pidfd.as_fd(), ruleset, PidfdGetfdFlags::empty())?;
        let domain = Domain::after(inside, held, flags)?;
        // What the kernel says to us it would say to the caller.
        domain.within(|| Ok(()))?;
        self.any.store(true, Ordering::SeqCst);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.domains.len() >= MOST {
            known.forget_the_dead();
        }
        if known.domains.len() >= MOST {
            return Err(Errno::NOMEM);
        }
        let step = 1 + random() % GAP;
        let mark = known.lowest.checked_sub(step).ok_or(Errno::NOMEM)?;
        notify::lower_most_locks(process, mark)?;
        known.lowest = mark;
        known.domains.insert(mark, domain);
        Ok(())
    }
}

impl Known {
    /// Domains in which nobody is left.
    fn forget_the_dead(&mut self) {
        let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = numbers.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
        let marks: std::collections::BTreeSet<u64> = processes.filter_map(|pid| notify::most_locks(pid).ok()).collect();
        self.domains.retain(|mark, _| marks.contains(mark));
    }
}

impl Domain {
    fn after(inside: Option<&Self>, ruleset: OwnedFd, flags: u32) -> rustix::io::Result<Self> {
        let (mut rulesets, mut all_flags) = (Vec::new(), Vec::new());
        if let Some(inside) = inside {
            for held in inside.rulesets.iter() {
                rulesets.push(rustix::io::fcntl_dupfd_cloexec(held, 3)?);
            }
            all_flags.extend(inside.flags.iter().copied());
        }
        rulesets.push(ruleset);
        all_flags.push(flags);
        Ok(Self { rulesets: Arc::new(rulesets), flags: Arc::new(all_flags) })
    }

    /// Does something with the rights of this domain only, in a thread that ends with it.
    pub(super) fn within<T: Send>(
        &self,
        action: impl FnOnce() -> rustix::io::Result<T> + Send,
    ) -> rustix::io::Result<T> {
        std::thread::scope(|scope| {
            let inside = move || {
                for (ruleset, flags) in self.rulesets.iter().zip(self.flags.iter()) {
                    landlock::enter(ruleset.as_fd(), *flags & LOGGING)?;
                }
                action()
            };
            let thread = std::thread::Builder::new().stack_size(128 << 10).spawn_scoped(scope, inside);
            thread.map_err(|_| Errno::NOMEM)?.join().unwrap_or(Err(Errno::IO))
        })
    }
}

/// Does something for a caller with the rights that its domain leaves it.
pub(super) fn within<T: Send>(
    domain: Option<&Domain>,
    action: impl FnOnce() -> rustix::io::Result<T> + Send,
) -> rustix::io::Result<T> {
    match domain {
        None => action(),
        Some(domain) => domain.within(action),
    }
}

/// Shows that a caller has the right to a change that the supervisor is to make for it: but for a mount of ours, it could make the
/// change itself.
#[derive(Debug)]
pub(super) struct LandingRight(());

impl LandingRight {
    /// The right of a caller that is in no domain.
    pub(super) fn unrestricted(domain: Option<&Domain>) -> Option<Self> {
        domain.is_none().then_some(Self(()))
    }

    /// The right of a caller for which the same change was tried in its domain, with this error. rename(2) asks Landlock before it
    /// answers EBUSY for a mount point, but after it answers EROFS for a read-only directory.
    pub(super) fn after(domain: Option<&Domain>, tried: Errno) -> Option<Self> {
        let is_held_by_mount = match domain {
            None => matches!(tried, Errno::BUSY | Errno::ROFS),
            Some(_) => tried == Errno::BUSY,
        };
        is_held_by_mount.then_some(Self(()))
    }
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    // Where there is none yet the numbers are still told apart.
    let _ = rustix::rand::getrandom(bytes.as_mut_slice(), rustix::rand::GetRandomFlags::NONBLOCK);
    u64::from_ne_bytes(bytes)
}
