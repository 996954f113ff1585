//! A caller is kept on this processor while a descriptor is put into its table.
//!
//! The caller itself does that: the kernel wakes it, it sleeps again, and this thread is woken. For each of the two the kernel
//! looks for a processor that has nothing to do. Such a one sleeps, and in a virtual machine it takes longer to wake it than
//! all the rest of the call. Both wait for each other anyway, so both stay here meanwhile.
//!
//! That has its own price, and where every processor is busy it gains nothing. So now and then it is looked how long it takes
//! without.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// What takes longer than this was done by a processor that had to be woken.
const FAR: Duration = Duration::from_micros(20);
/// So often both stay on one processor, before it is looked again.
const STAYS: u32 = 64;

/// Whether callers are kept here, as it was found lately.
#[derive(Debug)]
pub(super) struct Near {
    /// How often they still are.
    left: AtomicU32,
}

impl Near {
    pub(super) fn new() -> Self {
        Self { left: AtomicU32::new(0) }
    }

    /// Does something that needs a thread which waits.
    pub(super) fn with<T>(&self, caller: Pid, does: impl FnOnce() -> T) -> T {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
            return together(caller, does);
        }
        let start = Instant::now();
        let done = does();
        if start.elapsed() > FAR {
            self.left.store(STAYS, Ordering::Relaxed);
        }
        done
    }
}

/// With both on this processor. What cannot be had is done without.
fn together<T>(caller: Pid, does: impl FnOnce() -> T) -> T {
    let (Ok(its), Ok(own)) = (sched_getaffinity(Some(caller)), sched_getaffinity(None)) else { return does() };
    let processor = sched_getcpu();
    if its.count() < 2 || !its.is_set(processor) {
        return does();
    }
    let mut here = CpuSet::new();
    here.set(processor);
    let is_kept = sched_setaffinity(None, &here).and_then(|()| sched_setaffinity(Some(caller), &here));
    let done = does();
    if is_kept.is_ok() {
        // It waits still: nobody but another thread could have seen it.
        let _ = sched_setaffinity(Some(caller), &its);
    }
    let _ = sched_setaffinity(None, &own);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_was_kept_may_run_where_it_could_before() {
        let (own, near) = (sched_getaffinity(None).unwrap(), Near::new());
        let thread = rustix::thread::gettid();
        let slow = || std::thread::sleep(FAR * 2);
        near.with(thread, slow);
        assert_eq!(near.left.load(Ordering::Relaxed), STAYS);
        let kept = near.with(thread, || sched_getaffinity(None).unwrap().count());
        assert_eq!(kept, 1);
        assert_eq!(sched_getaffinity(None).unwrap(), own);
        near.left.store(0, Ordering::Relaxed);
        // What is done at once is done wherever it may.
        assert_eq!(near.with(thread, || sched_getaffinity(None).unwrap()), own);
    }
}
