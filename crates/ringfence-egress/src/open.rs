//! The table of relayed connections, and a way to close one early.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use ringfence_surface::HostTarget;
use tokio::sync::Notify;

/// The target of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meant {
    /// A host outside.
    Host(HostTarget),
    /// A port of the host's own loopback.
    HostPort(u16),
}

/// The table of all relayed connections.
#[derive(Debug, Clone)]
pub(crate) struct Open(Rc<RefCell<Table>>);

#[derive(Debug)]
struct Table {
    next: u64,
    carried: HashMap<u64, (Meant, Rc<Notify>)>,
}

/// An entry of the table; dropping it removes the entry.
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

    /// Adds a connection.
    pub(crate) fn enter(&self, meant: Meant) -> Ticket {
        let cut = Rc::new(Notify::new());
        let mut table = self.0.borrow_mut();
        let number = table.next;
        table.next += 1;
        table.carried.insert(number, (meant, Rc::clone(&cut)));
        Ticket { open: self.clone(), number, cut }
    }

    /// The number of connections.
    pub(crate) fn count(&self) -> usize {
        self.0.borrow().carried.len()
    }

    /// Closes the connections that match, and returns their number.
    pub(crate) fn cut(&self, is_unwanted: impl Fn(&Meant) -> bool) -> u64 {
        let table = self.0.borrow();
        let unwanted = table.carried.values().filter(|(meant, _)| is_unwanted(meant));
        // `notify_one` keeps a permit: a task that is not waiting yet is notified when it waits.
        unwanted.map(|(_, cut)| cut.notify_one()).count() as u64
    }

    /// Whether a connection matches.
    pub(crate) fn any(&self, is_meant: impl Fn(&Meant) -> bool) -> bool {
        self.0.borrow().carried.values().any(|(meant, _)| is_meant(meant))
    }
}

impl Ticket {
    /// Completes when the connection is to be closed.
    pub(crate) fn cut(&self) -> impl Future<Output = ()> {
        self.cut.notified()
    }

    /// Runs `work`; `None` if the connection is closed before that completes.
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
        // Notified before it waits.
        assert_eq!(open.cut(|meant| *meant == Meant::HostPort(1)), 1);
        assert_eq!(runtime.block_on(one.unless_cut(std::future::pending::<()>())), None);
        assert_eq!(runtime.block_on(other.unless_cut(async { 7 })), Some(7));
        drop((one, other));
        assert!(!open.any(|_| true));
    }
}
