//! How many descriptors there are, and for what: whoever has none left can neither accept a connection nor refuse it.

use crate::pool::Addresses;
use ringfence_sys::process::getrlimit;
use rustix::process::{Resource, Rlimit, setrlimit};

/// Connections at once, however many descriptors there are.
const MOST_CONNECTIONS: u64 = 4_096;
/// As many as these connections and the names for them need.
const ENOUGH: u64 = 16_384;
/// For questions about names, and addresses that are tried side by side.
const SPARE: u64 = 16;
/// Listeners of one name, where it has its own: two ports for each family, mostly.
const FOR_A_NAME: u64 = 4;
/// Both ends of a connection.
const FOR_A_CONNECTION: u64 = 2;

/// What there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) connections: usize,
    pub(crate) names: usize,
}

impl Room {
    /// Takes as many descriptors as this process may have. What it started before keeps the limit that it had.
    pub(crate) fn take(addresses: Addresses) -> Self {
        // What a kernel gives unless it is changed.
        let limit = getrlimit(Resource::Nofile).unwrap_or(Rlimit { current: Some(1024), maximum: Some(1024) });
        let wanted = limit.maximum.map_or(ENOUGH, |most| most.min(ENOUGH));
        let now = limit.current.unwrap_or(u64::MAX);
        let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
        let most = if now < wanted && setrlimit(Resource::Nofile, raised).is_ok() { wanted } else { now };
        // Where it cannot be told, somewhat more than is open when a session starts.
        let open = std::fs::read_dir("/proc/self/fd").map_or(64, |entries| entries.count() as u64);
        Self::within(most, open, addresses)
    }

    fn within(most: u64, open: u64, addresses: Addresses) -> Self {
        let for_names = most / 4;
        let kept = match addresses {
            // Listeners at every address are there before any name.
            Addresses::Everywhere => 0,
            Addresses::Loopback => for_names,
        };
        let left = most.saturating_sub(open + SPARE + kept);
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        // With one of each there is at least a way to try.
        let connections = (left / FOR_A_CONNECTION).clamp(1, MOST_CONNECTIONS);
        Self { connections: count(connections), names: count((for_names / FOR_A_NAME).max(1)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_together_fits() {
        for (most, open) in [(64, 20), (100, 20), (1_024, 30), (4_096, 30), (ENOUGH, 30), (1 << 20, 30)] {
            let room = Room::within(most, open, Addresses::Loopback);
            let used = room.connections as u64 * FOR_A_CONNECTION + room.names as u64 * FOR_A_NAME;
            assert!(used + SPARE + open <= most, "{most}: {room:?}");
        }
        assert_eq!(Room::within(ENOUGH, 30, Addresses::Loopback), Room { connections: 4_096, names: 1_024 });
        let gateway = Room::within(200, 60, Addresses::Everywhere);
        assert_eq!(gateway, Room { connections: 62, names: 12 });
        assert_eq!(Room::within(10, 30, Addresses::Loopback), Room { connections: 1, names: 1 });
    }
}
