//! The names below every node of a tree, in one table.
//!
//! The tree of a Surface has thousands of nodes with a name or two below each, and is made at every start: a map in each
//! node would take longer to make than the whole session's questions. Here a name costs no allocation of its own.

/// From which node a name leads to which.
#[derive(Debug, Clone, Default)]
pub(crate) struct Edges {
    /// All names, one after the other.
    bytes: Vec<u8>,
    list: Vec<Edge>,
    /// Where in the list an edge is, by hash; one more than that, as zero is a free slot. The length is a power of two.
    slots: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Edge {
    from: u32,
    to: u32,
    hash: u32,
    start: u32,
    length: u32,
}

impl Edges {
    /// With room for so many.
    pub(crate) fn with_room(count: usize) -> Self {
        let slots = vec![0; (count + count / 2).next_power_of_two()];
        Self { bytes: Vec::with_capacity(count * 12), list: Vec::with_capacity(count), slots }
    }

    /// Where `name` leads from `from`.
    pub(crate) fn find(&self, from: u32, name: &[u8]) -> Option<u32> {
        self.found(from, name, hash(from, name))
    }

    /// Where names lead from `from`. It looks at all there are.
    pub(crate) fn from(&self, from: u32) -> impl Iterator<Item = u32> + '_ {
        self.list.iter().filter(move |edge| edge.from == from).map(|edge| edge.to)
    }

    fn found(&self, from: u32, name: &[u8], hash: u32) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        // There is always a free slot, so this ends.
        while let Some(edge) = self.list.get((self.slots[at] as usize).wrapping_sub(1)) {
            if edge.hash == hash && edge.from == from && self.name(edge) == name {
                return Some(edge.to);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Where `name` leads from `from`; to `fresh` from now on, where it led nowhere.
    pub(crate) fn find_or_add(&mut self, from: u32, name: &[u8], fresh: u32) -> u32 {
        let hash = hash(from, name);
        if let Some(to) = self.found(from, name, hash) {
            return to;
        }
        // A third stays free.
        if self.slots.len() * 2 < (self.list.len() + 1) * 3 {
            self.grow();
        }
        // A component is no longer than a path, which the kernel limits.
        let (start, length) = (self.bytes.len() as u32, name.len() as u32);
        self.bytes.extend_from_slice(name);
        self.list.push(Edge { from, to: fresh, hash, start, length });
        self.place(hash, self.list.len() as u32);
        fresh
    }

    fn name(&self, edge: &Edge) -> &[u8] {
        &self.bytes[edge.start as usize..][..edge.length as usize]
    }

    fn grow(&mut self) {
        self.slots.clear();
        self.slots.resize((self.list.len() + 1).next_power_of_two() * 4, 0);
        for number in 0..self.list.len() {
            self.place(self.list[number].hash, number as u32 + 1);
        }
    }

    fn place(&mut self, hash: u32, number: u32) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = number;
    }
}

/// Names are a few bytes long and come from a policy of bounded size: a keyed hash would cost more than the whole walk.
fn hash(from: u32, name: &[u8]) -> u32 {
    let mut state = u64::from(from);
    let mut mix = |word: u64| state = (state.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    let (words, rest) = name.as_chunks::<8>();
    for word in words {
        mix(u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(u64::from_le_bytes(last));
    // The slot is taken from the low bits, which a product mixes least.
    (state ^ (state >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_leads_from_its_node_only() {
        let mut edges = Edges::default();
        assert_eq!(edges.find(0, b"a"), None);
        assert_eq!(edges.find_or_add(0, b"a", 1), 1);
        assert_eq!(edges.find_or_add(0, b"a", 9), 1);
        assert_eq!(edges.find_or_add(1, b"a", 2), 2);
        assert_eq!(edges.find_or_add(0, b"", 3), 3);
        assert_eq!((edges.find(0, b"a"), edges.find(1, b"a"), edges.find(2, b"a")), (Some(1), Some(2), None));
        assert_eq!((edges.find(0, b""), edges.find(0, b"a\0")), (Some(3), None));
    }

    proptest! {
        #[test]
        fn finds_what_a_map_finds(
            room in 0_usize..8,
            names in prop::collection::btree_map((0_u32..4, "[ab\\PC]{0,20}"), any::<u32>(), 0..200),
            others in prop::collection::vec((0_u32..4, "[ab]{0,3}"), 0..50),
        ) {
            let mut edges = Edges::with_room(room);
            for ((from, name), to) in &names {
                edges.find_or_add(*from, name.as_bytes(), *to);
            }
            for ((from, name), to) in &names {
                prop_assert_eq!(edges.find(*from, name.as_bytes()), Some(*to));
            }
            for (from, name) in others {
                let expected = names.get(&(from, name.clone())).copied();
                prop_assert_eq!(edges.find(from, name.as_bytes()), expected);
            }
        }
    }
}
