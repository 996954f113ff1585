//! Who is connected. There is room for a few; somebody who has not shown the token makes room for the next.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::line::Line;

/// Connections at once.
pub(super) const MOST: usize = 128;
/// Streams of events among them.
pub(super) const MOST_STREAMS: usize = 32;

/// Everybody who is connected.
#[derive(Debug, Clone)]
pub(super) struct Crowd(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    next: u64,
    streams: usize,
    /// By number, so the oldest come first.
    seats: BTreeMap<u64, Seat>,
}

#[derive(Debug)]
struct Seat {
    line: Line,
    /// Has shown the token.
    is_known: bool,
}

/// A place among them. It is free again when this goes.
#[derive(Debug)]
pub(super) struct Place {
    crowd: Crowd,
    number: u64,
    is_stream: bool,
}

impl Crowd {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Inner { next: 0, streams: 0, seats: BTreeMap::new() })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes somebody in. Where it is full the oldest who has not shown the token goes; where there is none, nobody comes in.
    pub(super) fn admit(&self, line: &Line) -> Option<Place> {
        let mut inner = self.inner();
        if inner.seats.len() >= MOST {
            let oldest = inner.seats.iter().find(|(_, seat)| !seat.is_known).map(|(number, _)| *number)?;
            if let Some(seat) = inner.seats.remove(&oldest) {
                seat.line.cut();
            }
        }
        let number = inner.next;
        inner.next += 1;
        inner.seats.insert(number, Seat { line: line.clone(), is_known: false });
        Some(Place { crowd: self.clone(), number, is_stream: false })
    }
}

impl Place {
    /// It has shown the token.
    pub(super) fn is_known(&self) {
        if let Some(seat) = self.crowd.inner().seats.get_mut(&self.number) {
            seat.is_known = true;
        }
    }

    /// It stays for long. `false` where too many do.
    pub(super) fn stays(&mut self) -> bool {
        let mut inner = self.crowd.inner();
        if inner.streams >= MOST_STREAMS {
            return false;
        }
        inner.streams += 1;
        self.is_stream = true;
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.crowd.inner();
        inner.seats.remove(&self.number);
        inner.streams -= usize::from(self.is_stream);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_stranger_makes_room_and_somebody_known_does_not() {
        let crowd = Crowd::new();
        let line = || Line::new(UnixStream::pair().unwrap().0.into());
        let mut places: Vec<Place> = (0..MOST).map(|_| crowd.admit(&line()).unwrap()).collect();
        places[1..].iter().for_each(Place::is_known);
        let last = crowd.admit(&line()).unwrap();
        last.is_known();
        assert!(crowd.admit(&line()).is_none(), "everybody is known");
        drop(places.pop());
        assert!(crowd.admit(&line()).is_some());
        let streams = places.iter_mut().filter_map(|place| place.stays().then_some(())).count();
        assert_eq!(streams, MOST_STREAMS);
        places.clear();
        assert!(crowd.admit(&line()).unwrap().stays());
    }
}
