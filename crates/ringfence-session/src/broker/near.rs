//! A caller is kept on this processor while a descriptor is put into its table.
//!
//! The caller itself does that: the kernel wakes it, it sleeps again, and this thread is woken. For each of the two the kernel
//! looks for a processor that has nothing to do. Such a one sleeps, and in a virtual machine it takes longer to wake it than
//! all the rest of the call. Both wait for each other anyway, so both stay here meanwhile.
//!
//! That has its own price, and where every processor is busy it gains nothing. So now and then it is looked how long it takes
//! without; and where it takes long with it too, others want this processor, and it is left. Of several threads only one stays on
//! a processor: all of them on one would leave the others without work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// What takes longer than this was done by a processor that had to be woken.
const FAR: Duration = Duration::from_micros(20);
/// And this long it takes where somebody else has the processor.
const TAKEN: Duration = Duration::from_micros(500);
/// So often both stay on one processor, before it is looked again.
const STAYS: u32 = 64;

/// The processors that some thread stays on, a bit for each.
#[derive(Debug)]
pub(super) struct Kept(AtomicU64);

impl Kept {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// On machines with more processors two may count as one, and one of two threads stays on neither.
    fn bit(processor: usize) -> u64 {
        1 << (processor % 64)
    }

    /// Does nobody else stay there?
    fn take(&self, processor: usize) -> bool {
        let bit = Self::bit(processor);
        self.0.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    fn give_back(&self, processor: usize) {
        self.0.fetch_and(!Self::bit(processor), Ordering::Relaxed);
    }
}

/// Whether callers are kept where this thread is, as it was found lately.
#[derive(Debug)]
pub(super) struct Near<'b> {
    /// How often they still are.
    left: u32,
    /// The processor that this thread stays on from one call to the next, and those where it may run otherwise. To go and to come back
    /// each time would take a third of what the call takes.
    stays: Option<(usize, CpuSet)>,
    kept: &'b Kept,
}

impl<'b> Near<'b> {
    pub(super) fn new(kept: &'b Kept) -> Self {
        Self { left: 0, stays: None, kept }
    }

    /// Does something that needs a thread which waits.
    pub(super) fn with<T>(&mut self, caller: Pid, does: impl FnOnce() -> T) -> T {
        let is_kept = self.left > 0;
        let start = Instant::now();
        let done = if is_kept { self.together(caller, does) } else { does() };
        let took = start.elapsed();
        self.left = match is_kept {
            true if took > TAKEN => 0,
            true => self.left - 1,
            false if took > FAR => STAYS,
            false => 0,
        };
        if self.left == 0 {
            self.leave();
        }
        done
    }

    /// With both on this processor. What cannot be had is done without.
    fn together<T>(&mut self, caller: Pid, does: impl FnOnce() -> T) -> T {
        let Ok(its) = sched_getaffinity(Some(caller)) else { return does() };
        let processor = sched_getcpu();
        if its.count() < 2 || !its.is_set(processor) {
            return does();
        }
        let mut here = CpuSet::new();
        here.set(processor);
        let is_kept = self.stay(processor, &here) && sched_setaffinity(Some(caller), &here).is_ok();
        let done = does();
        if is_kept {
            // It waits still: nobody but another thread could have seen it.
            let _ = sched_setaffinity(Some(caller), &its);
        }
        done
    }

    fn stay(&mut self, processor: usize, here: &CpuSet) -> bool {
        if let Some((stays, _)) = &self.stays {
            return *stays == processor;
        }
        if !self.kept.take(processor) {
            return false;
        }
        match sched_getaffinity(None).and_then(|own| sched_setaffinity(None, here).map(|()| own)) {
            Ok(own) => self.stays = Some((processor, own)),
            Err(_) => self.kept.give_back(processor),
        }
        self.stays.is_some()
    }

    fn leave(&mut self) {
        if let Some((processor, own)) = self.stays.take() {
            // Without it everything works, here only.
            let _ = sched_setaffinity(None, &own);
            self.kept.give_back(processor);
        }
    }
}

impl Drop for Near<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many processors this thread may run on, seen from within.
    fn room(near: &mut Near<'_>, meanwhile: impl FnOnce()) -> u32 {
        near.with(rustix::thread::gettid(), || {
            meanwhile();
            sched_getaffinity(None).unwrap().count()
        })
    }

    #[test]
    fn whoever_was_kept_may_run_where_it_could_before() {
        let (own, kept) = (sched_getaffinity(None).unwrap(), Kept::new());
        let mut near = Near::new(&kept);
        let slow = || std::thread::sleep(TAKEN);
        assert_eq!(room(&mut near, slow), own.count());
        assert_eq!(near.left, STAYS);
        // Here the caller is this thread, which is given back what it had.
        assert_eq!(room(&mut near, || {}), 1);
        // Also on a busy machine, where that may have taken long too.
        near.left = STAYS;
        assert_eq!(room(&mut near, slow), 1);
        // That took long though nobody had to be woken.
        assert_eq!((near.left, sched_getaffinity(None).unwrap()), (0, own));
        // Somebody else stays on each of them.
        (0..64).for_each(|processor| assert!(kept.take(processor)));
        assert_eq!(room(&mut near, slow), own.count());
        assert_eq!(room(&mut near, || {}), own.count());
    }
}
