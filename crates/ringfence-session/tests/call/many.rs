//! Many calls at once.

use std::fs;

use crate::world::world;

/// K10: from several threads that allocate all the time, many at once: each call starts, and hears the end of its own streams.
#[test]
fn k10_many_calls_from_many_threads() {
    let world = world("");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    drop((0..64).map(|size| vec![0_u8; size * 97]).collect::<Vec<_>>());
                }
            });
        }
        let calls: Vec<_> = (0..4)
            .map(|thread| {
                let world = &world;
                scope.spawn(move || {
                    for number in 0..12 {
                        let script = format!("echo {thread} {number}; cat; exit {number}");
                        let (ended, said) = world.call(&world.tools(), &script);
                        assert_eq!((i32::from(ended.code), said), (number, format!("{thread} {number}\n")));
                    }
                })
            })
            .collect();
        // One that lasts must not keep the others' streams open.
        let long = scope.spawn(|| world.call(&world.tools(), "while ! test -e stop; do sleep 0.05; done; echo long"));
        calls.into_iter().for_each(|call| call.join().unwrap());
        fs::write(world.project.join("stop"), "").unwrap();
        assert_eq!(long.join().unwrap().1, "long\n");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
