//! An interpreter for filters.

use ringfence_sys::bpf::Instruction;

/// One call as a filter sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) number: u32,
    pub(crate) arch: u32,
    pub(crate) args: [u64; 6],
}

/// What a program answers to a call, and in how many steps.
pub(crate) fn interpret(program: &[Instruction], call: &Call) -> (u32, usize) {
    let word = |offset: u32| match offset {
        0 => call.number,
        4 => call.arch,
        16.. if offset.is_multiple_of(4) => {
            let arg = call.args[(offset as usize - 16) / 8];
            if offset.is_multiple_of(8) { arg as u32 } else { (arg >> 32) as u32 }
        }
        _ => panic!("load of {offset}"),
    };
    let (mut at, mut accumulator, mut steps) = (0_usize, 0_u32, 0);
    loop {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        steps += 1;
        let mut jump = |holds: bool| at += usize::from(if holds { jt } else { jf });
        match code {
            0x20 => accumulator = word(k),
            0x54 => accumulator &= k,
            0x05 => at += k as usize,
            0x15 => jump(accumulator == k),
            0x25 => jump(accumulator > k),
            0x35 => jump(accumulator >= k),
            0x45 => jump(accumulator & k != 0),
            0x06 => return (k, steps),
            other => panic!("instruction {other:#x}"),
        }
    }
}
