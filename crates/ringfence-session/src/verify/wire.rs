//! The deeds on their way into a layer, as bytes.

use ringfence_plan::verify::{Deed, One, Two};
use ringfence_surface::AbsPath;

use crate::bytes::{Reader, Writer};

/// What is tried, for whoever is inside.
pub(super) fn orders(deeds: &[&Deed]) -> Vec<u8> {
    let mut out = Writer::new();
    out.number(deeds.len() as u64);
    for deed in deeds {
        match deed {
            Deed::One(one, path) => {
                out.number(0);
                out.bytes(one.word().as_bytes());
                out.bytes(path.as_bytes());
            }
            Deed::Two(two, from, to) => {
                out.number(1);
                out.bytes(two.word().as_bytes());
                out.bytes(from.as_bytes());
                out.bytes(to.as_bytes());
            }
            Deed::Resolve(name) => {
                out.number(2);
                out.bytes(name.as_bytes());
            }
            Deed::Dial(port) => {
                out.number(3);
                out.number(u64::from(*port));
            }
            Deed::Abstract(name) => {
                out.number(4);
                out.bytes(name);
            }
            Deed::Signal(pid) => {
                out.number(5);
                out.number(u64::from(*pid));
            }
            Deed::Around { dir, to, file } => {
                out.number(6);
                out.bytes(dir.as_bytes());
                out.bytes(to.as_bytes());
                out.bytes(file);
            }
        }
    }
    out.finish()
}

/// What the bytes say; nothing where they are not exactly that.
pub(super) fn deeds(bytes: &[u8]) -> Option<Vec<Deed>> {
    let mut input = Reader::new(bytes);
    let count = input.number()?;
    let mut deeds = Vec::new();
    for _ in 0..count {
        deeds.push(deed(&mut input)?);
    }
    Some(deeds)
}

fn deed(input: &mut Reader<'_>) -> Option<Deed> {
    let path = |bytes: &[u8]| AbsPath::lexical(bytes).ok();
    Some(match input.number()? {
        0 => {
            let word = input.bytes()?;
            let one = One::ALL.into_iter().find(|one| one.word().as_bytes() == word)?;
            Deed::One(one, path(input.bytes()?)?)
        }
        1 => {
            let word = input.bytes()?;
            let two = Two::ALL.into_iter().find(|two| two.word().as_bytes() == word)?;
            Deed::Two(two, path(input.bytes()?)?, path(input.bytes()?)?)
        }
        2 => Deed::Resolve(String::from_utf8(input.bytes()?.to_vec()).ok()?),
        3 => Deed::Dial(u16::try_from(input.number()?).ok()?),
        4 => Deed::Abstract(input.bytes()?.to_vec()),
        5 => Deed::Signal(u32::try_from(input.number()?).ok()?),
        6 => Deed::Around { dir: path(input.bytes()?)?, to: path(input.bytes()?)?, file: input.bytes()?.to_vec() },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        let abs = |bytes: &[u8]| AbsPath::lexical(bytes).unwrap();
        let mut all: Vec<Deed> = One::ALL.into_iter().map(|one| Deed::One(one, abs(b"/a\n\xff"))).collect();
        all.extend(Two::ALL.into_iter().map(|two| Deed::Two(two, abs(b"/a"), abs(b"/b c"))));
        all.extend([Deed::Resolve("x.example".to_owned()), Deed::Dial(8080), Deed::Signal(77)]);
        all.push(Deed::Abstract(b"\xffname".to_vec()));
        all.push(Deed::Around { dir: abs(b"/a"), to: abs(b"/b"), file: b"c/\xff".to_vec() });
        let bytes = orders(&all.iter().collect::<Vec<_>>());
        assert_eq!(deeds(&bytes), Some(all));
        assert_eq!(deeds(&bytes[..bytes.len() - 1]), None);
    }
}
