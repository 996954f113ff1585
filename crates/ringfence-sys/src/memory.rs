//! The memory of the program itself.

use std::io;

// The linker knows where the program begins, and where its code ends; its constants lie in between.
unsafe extern "C" {
    static __executable_start: u8;
    static etext: u8;
}

/// Gives back the pages that hold the program's code and constants: clean copies of its file, which are mapped again where they
/// are used again. A start runs nearly all of a program once, and what waits afterwards is a small part of it.
///
/// # Errors
/// What madvise says; nothing is lost then.
pub fn let_go_of_program() -> io::Result<()> {
    // SAFETY: takes a number and reads nothing of ours.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let page = usize::try_from(page).map_err(|_| io::Error::last_os_error())?;
    let (start, end) = ((&raw const __executable_start).addr(), (&raw const etext).addr());
    let start = start.next_multiple_of(page);
    let length = (end & !(page - 1)).saturating_sub(start);
    let place = std::ptr::with_exposed_provenance_mut::<libc::c_void>(start);
    // SAFETY: nothing there is ever written, so what a page holds after it was read again is what it held before.
    if unsafe { libc::madvise(place, length, libc::MADV_DONTNEED) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Has the allocator take memory in large pieces and keep what is given back to it: a program that starts frees and takes the same
/// pages again and again otherwise, and the kernel clears them each time. [`let_go_of_heap`] gives them back.
pub fn keep_heap() {
    #[cfg(target_env = "gnu")]
    for (what, bytes) in
        [(libc::M_TOP_PAD, 1 << 20), (libc::M_TRIM_THRESHOLD, 64 << 20), (libc::M_MMAP_THRESHOLD, 8 << 20)]
    {
        // SAFETY: takes numbers; what is allocated stays where it is.
        unsafe { libc::mallopt(what, bytes) };
    }
}

/// Gives back the pages of the heap in which nothing is left. The allocator keeps them otherwise, unless they are its last.
pub fn let_go_of_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number; what is allocated stays where it is.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn the_program_goes_on_with_fewer_pages() {
        let before = resident();
        let_go_of_program().unwrap();
        let after = resident();
        assert!(after < before, "{before} and {after} kB");
        assert_eq!(format!("{:?}", [1, 2].iter().rev().collect::<Vec<_>>()), "[2, 1]");
    }

    #[test]
    fn what_is_allocated_outlives_what_is_given_back() {
        let mut all: Vec<Vec<u8>> = (0..4_000_u32).map(|n| vec![n as u8; 1_000]).collect();
        let mut n = 0;
        all.retain(|_| {
            n += 1;
            n % 100 == 0
        });
        let_go_of_heap();
        assert!(all.iter().all(|one| one.iter().all(|byte| *byte == one[0])));
    }
}
