//! What takes rights away: filters and Landlock, on the kernel this runs on.

#![expect(unsafe_code, reason = "children are forked, and calls are made that no library offers")]

mod bpf;
mod child;
mod interpret;
mod landlock;
mod seccomp;
