//! The connections that are carried, and what ends one of them before its time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use ringfence_surface::HostTarget;
use tokio::sync::Notify;

/// Whom a connection is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meant {
    /// A host outside.
    Host(HostTarget),
    /// A port of the host's own loopback.
    HostPort(u16),
}

/// All of them.
#[derive(Debug, Clone)]
pub(crate) struct Open(Rc<RefCell<Table>>);

#[derive(Debug)]
struct Table {
    next: u64,
    carried: HashMap<u64, (Meant, Rc<Notify>)>,
}

/// One of them, as long as it lives.
#[derive(Debug)]
pub(crate) struct Ticket {
    open: Open,
    number: u64,
    cut: Rc<Notify>,
}

impl Open {
    pub(crate) fn new() -> Self {
        Self(Rc::new(RefCell::new(Table { next: 0, carried: HashMap::new() })))
    }

    /// Notes one more.
    pub(crate) fn enter(&self, meant: Meant) -> Ticket {
        let cut = Rc::new(Notify::new());
        let mut table = self.0.borrow_mut();
        let number = table.next;
        table.next += 1;
        table.carried.insert(number, (meant, Rc::clone(&cut)));
        Ticket { open: self.clone(), number, cut }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.borrow().carried.len()
    }

    /// Ends those that nobody wants any more. Says how many.
    pub(crate) fn cut(&self, is_unwanted: impl Fn(&Meant) -> bool) -> u64 {
        let table = self.0.borrow();
        let unwanted = table.carried.values().filter(|(meant, _)| is_unwanted(meant));
        // What is told before it waits is told when it does.
        unwanted.map(|(_, cut)| cut.notify_one()).count() as u64
    }

    /// Are there such?
    pub(crate) fn any(&self, is_meant: impl Fn(&Meant) -> bool) -> bool {
        self.0.borrow().carried.values().any(|(meant, _)| is_meant(meant))
    }
}

impl Ticket {
    /// Comes when it is to end.
    pub(crate) fn cut(&self) -> impl Future<Output = ()> {
        self.cut.notified()
    }

    /// Does something for it; `None` where it is to end before that is done.
    pub(crate) async fn unless_cut<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.cut() => None,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.open.0.borrow_mut().carried.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_meant_ends_and_nothing_stays() {
        let open = Open::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (one, other) = (open.enter(Meant::HostPort(1)), open.enter(Meant::HostPort(2)));
        // Told before it waits.
        assert_eq!(open.cut(|meant| *meant == Meant::HostPort(1)), 1);
        assert_eq!(runtime.block_on(one.unless_cut(std::future::pending::<()>())), None);
        assert_eq!(runtime.block_on(other.unless_cut(async { 7 })), Some(7));
        drop((one, other));
        assert!(!open.any(|_| true));
    }
}
