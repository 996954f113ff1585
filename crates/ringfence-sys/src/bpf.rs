//! Classic BPF as seccomp takes it: a small assembler, and the filter that a list of rules becomes.
//!
//! The program sees one call as `struct seccomp_data`: the number, the architecture, six arguments of 64 bits. It can load a
//! word of that, compare and jump forward. A conditional jump reaches 255 instructions; further ones go by way of an
//! unconditional jump, which the assembler puts in by itself.

use std::collections::BTreeMap;
use std::fmt;

use ringfence_plan::{ArgTest, SyscallAction};

/// The kernel's BPF_MAXINSNS.
pub const MAX_INSTRUCTIONS: usize = 4096;

// `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

// linux/bpf_common.h.
const LD_W_ABS: u16 = 0x20;
const ALU_AND_K: u16 = 0x54;
const JMP_JA: u16 = 0x05;
const RET_K: u16 = 0x06;

// linux/seccomp.h.
const RET_ERRNO: u32 = 0x0005_0000;
const RET_ALLOW: u32 = 0x7fff_0000;
const RET_USER_NOTIF: u32 = 0x7fc0_0000;
/// The kernel's MAX_ERRNO: it cuts larger values down to this one, which is another error.
const MAX_ERRNO: u16 = 4095;

/// One instruction, laid out as the kernel's `struct sock_filter`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// How many instructions to skip if the comparison holds.
    pub jt: u8,
    /// How many to skip if it does not.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

const _: () = assert!(
    size_of::<Instruction>() == size_of::<libc::sock_filter>()
        && align_of::<Instruction>() == align_of::<libc::sock_filter>()
        && std::mem::offset_of!(Instruction, jt) == std::mem::offset_of!(libc::sock_filter, jt)
        && std::mem::offset_of!(Instruction, jf) == std::mem::offset_of!(libc::sock_filter, jf)
        && std::mem::offset_of!(Instruction, k) == std::mem::offset_of!(libc::sock_filter, k)
);

/// An assembled program: at least one instruction, at most [`MAX_INSTRUCTIONS`], every jump inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program(Vec<Instruction>);

impl Program {
    /// The instructions.
    pub fn instructions(&self) -> &[Instruction] {
        &self.0
    }
}

/// A place in a program that is being assembled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Label(usize);

/// A comparison of the accumulator with a constant, without sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Test {
    /// Equal.
    Equal,
    /// Greater.
    Greater,
    /// Greater or equal.
    AtLeast,
    /// At least one bit in common.
    AnyBit,
}

impl Test {
    fn code(self) -> u16 {
        match self {
            Self::Equal => 0x15,
            Self::Greater => 0x25,
            Self::AtLeast => 0x35,
            Self::AnyBit => 0x45,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Load(u32),
    And(u32),
    Return(u32),
    Jump { test: Test, k: u32, then: Label, otherwise: Label },
}

/// Why no program was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssembleError {
    /// More than [`MAX_INSTRUCTIONS`].
    TooLong {
        /// How many there are.
        length: usize,
    },
    /// There is no instruction at all.
    Empty,
    /// The last instruction is no return: the program would run past its end.
    NoReturn,
    /// A jump leads back, or to its own instruction; BPF goes forward only.
    Backward,
    /// A jump leads to a label that has no place, or one behind the last instruction.
    NoTarget,
    /// A call has six arguments.
    NoSuchArgument {
        /// The one that was named.
        arg: u8,
    },
    /// The kernel would return another error.
    NoSuchErrno {
        /// The one that was named.
        errno: u16,
    },
    /// Nobody has written down the numbers of this machine's calls.
    UnknownArchitecture,
}

impl fmt::Display for AssembleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { length } => {
                write!(f, "{length} instructions are more than the kernel's {MAX_INSTRUCTIONS}")
            }
            Self::Empty => f.write_str("a program without instructions"),
            Self::NoReturn => f.write_str("a program that runs past its end"),
            Self::Backward => f.write_str("a jump that does not lead forward"),
            Self::NoTarget => f.write_str("a jump that leads nowhere"),
            Self::NoSuchArgument { arg } => write!(f, "argument {arg}: a call has six, from 0"),
            Self::NoSuchErrno { errno } => write!(f, "error {errno} is none of the kernel's"),
            Self::UnknownArchitecture => f.write_str("no filter is known for this architecture"),
        }
    }
}

impl std::error::Error for AssembleError {}

/// Puts instructions together.
#[derive(Debug)]
pub struct Assembler {
    ops: Vec<Op>,
    /// For each label the index of the operation it stands before.
    places: Vec<Option<usize>>,
}

impl Assembler {
    /// Starts with nothing.
    #[expect(clippy::new_without_default, reason = "nothing needs an assembler that it did not ask for")]
    pub fn new() -> Self {
        Self { ops: Vec::new(), places: Vec::new() }
    }

    /// A label that has no place yet.
    pub fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// Puts a label before the next instruction.
    pub fn place(&mut self, label: Label) {
        self.places[label.0] = Some(self.ops.len());
    }

    /// Loads a word of `struct seccomp_data`.
    pub fn load(&mut self, offset: u32) {
        self.ops.push(Op::Load(offset));
    }

    /// Keeps these bits of the accumulator.
    pub fn and(&mut self, bits: u32) {
        self.ops.push(Op::And(bits));
    }

    /// Ends with this value.
    pub fn ret(&mut self, value: u32) {
        self.ops.push(Op::Return(value));
    }

    /// Compares and goes one way or the other.
    pub fn jump(&mut self, test: Test, k: u32, then: Label, otherwise: Label) {
        self.ops.push(Op::Jump { test, k, then, otherwise });
    }

    /// Resolves the jumps.
    ///
    /// # Errors
    /// When the program is too long, a jump has no target ahead of it, or the end can be run past.
    pub fn assemble(&self) -> Result<Program, AssembleError> {
        match self.ops.last() {
            None => return Err(AssembleError::Empty),
            Some(Op::Return(_)) => {}
            Some(_) => return Err(AssembleError::NoReturn),
        }
        // A far jump takes more room, which may push other targets out of reach: repeat until none is added. Far jumps never
        // become near again, so this ends.
        let mut far = vec![(false, false); self.ops.len()];
        loop {
            let at = self.addresses(&far);
            let mut changed = false;
            for (index, op) in self.ops.iter().enumerate() {
                let Op::Jump { then, otherwise, .. } = op else { continue };
                let (far_then, far_otherwise) = &mut far[index];
                for (label, is_far) in [(*then, far_then), (*otherwise, far_otherwise)] {
                    let distance = self.target(label, index, &at)? - at[index] - 1;
                    if !*is_far && distance > usize::from(u8::MAX) {
                        *is_far = true;
                        changed = true;
                    }
                }
            }
            if !changed {
                return self.encode(&at, &far);
            }
        }
    }

    /// Where each operation begins.
    fn addresses(&self, far: &[(bool, bool)]) -> Vec<usize> {
        let mut next = 0;
        far.iter()
            .map(|(then, otherwise)| {
                let here = next;
                next += 1 + usize::from(*then) + usize::from(*otherwise);
                here
            })
            .collect()
    }

    /// The address of a label, which must lie behind operation `from`.
    fn target(&self, label: Label, from: usize, at: &[usize]) -> Result<usize, AssembleError> {
        let index = self.places.get(label.0).copied().flatten().ok_or(AssembleError::NoTarget)?;
        if index <= from {
            return Err(AssembleError::Backward);
        }
        at.get(index).copied().ok_or(AssembleError::NoTarget)
    }

    fn encode(&self, at: &[usize], far: &[(bool, bool)]) -> Result<Program, AssembleError> {
        let mut out: Vec<Instruction> = Vec::new();
        let plain = |code, k| Instruction { code, jt: 0, jf: 0, k };
        for (index, op) in self.ops.iter().enumerate() {
            match *op {
                Op::Load(offset) => out.push(plain(LD_W_ABS, offset)),
                Op::And(bits) => out.push(plain(ALU_AND_K, bits)),
                Op::Return(value) => out.push(plain(RET_K, value)),
                Op::Jump { test, k, then, otherwise } => {
                    let (far_then, far_otherwise) = far[index];
                    let (then, otherwise) = (self.target(then, index, at)?, self.target(otherwise, index, at)?);
                    let here = out.len();
                    // The way stations follow the comparison: first the one for `then`, after it the one for `otherwise`.
                    let near = |target: usize, is_far: bool, station: u8| match is_far {
                        true => Ok(station),
                        false => u8::try_from(target - here - 1).map_err(|_| AssembleError::NoTarget),
                    };
                    let jt = near(then, far_then, 0)?;
                    let jf = near(otherwise, far_otherwise, u8::from(far_then))?;
                    out.push(Instruction { code: test.code(), jt, jf, k });
                    for (target, is_far) in [(then, far_then), (otherwise, far_otherwise)] {
                        if is_far {
                            let distance = target - out.len() - 1;
                            let k = u32::try_from(distance).map_err(|_| AssembleError::TooLong { length: distance })?;
                            out.push(plain(JMP_JA, k));
                        }
                    }
                }
            }
        }
        if out.len() > MAX_INSTRUCTIONS {
            return Err(AssembleError::TooLong { length: out.len() });
        }
        Ok(Program(out))
    }
}

/// The machines whose calls are known. Both are little-endian: an argument's low word comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// AMD64, without the x32 calls.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Arch {
    /// The one this program was built for, if it is known.
    pub const NATIVE: Option<Self> = if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
        Some(Self::X86_64)
    } else if cfg!(all(target_arch = "aarch64", target_endian = "little", target_pointer_width = "64")) {
        Some(Self::Aarch64)
    } else {
        None
    };

    /// The kernel's AUDIT_ARCH.
    pub fn audit(self) -> u32 {
        match self {
            Self::X86_64 => 0xc000_003e,
            Self::Aarch64 => 0xc000_00b7,
        }
    }
}

/// A rule about a call by its number. Of the rules for one number the first that matches counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule<'a> {
    /// The call.
    pub number: u32,
    /// All of these hold.
    pub when: &'a [ArgTest],
    /// What becomes of it.
    pub action: SyscallAction,
}

/// The filter that a list of rules becomes.
///
/// A call of another architecture is answered with ENOSYS, whatever it is. Numbers above `newest` are answered with ENOSYS; on AMD64 that includes every x32 call, since those
/// have bit 30 set. Whatever no rule names is allowed. The number is found by halving, so a call that is allowed without a
/// look at its arguments costs a handful of comparisons; the kernel finds such calls when the filter is installed and does
/// not run the program for them at all.
///
/// # Errors
/// When a rule names an argument or an error that does not exist, or the program is longer than the kernel takes.
pub fn filter(rules: &[Rule<'_>], newest: u32, arch: Arch) -> Result<Program, AssembleError> {
    let mut by_number: BTreeMap<u32, Vec<&Rule<'_>>> = BTreeMap::new();
    for rule in rules {
        by_number.entry(rule.number).or_default().push(rule);
    }
    let mut writer = Writer { asm: Assembler::new(), endings: BTreeMap::new(), chains: Vec::new() };
    let ranges = writer.ranges(&by_number, newest)?;
    let (native, foreign) = (writer.asm.label(), writer.ending(RET_ERRNO | libc::ENOSYS.unsigned_abs()));
    writer.asm.load(ARCHITECTURE);
    writer.asm.jump(Test::Equal, arch.audit(), native, foreign);
    writer.asm.place(native);
    writer.asm.load(NUMBER);
    writer.search(&ranges);
    for (label, chain) in std::mem::take(&mut writer.chains) {
        writer.asm.place(label);
        writer.chain(&chain)?;
    }
    for (value, label) in std::mem::take(&mut writer.endings) {
        writer.asm.place(label);
        writer.asm.ret(value);
    }
    writer.asm.assemble()
}

fn return_value(action: SyscallAction) -> Result<u32, AssembleError> {
    match action {
        SyscallAction::Allow => Ok(RET_ALLOW),
        SyscallAction::Notify => Ok(RET_USER_NOTIF),
        SyscallAction::Errno(errno) if (1..=MAX_ERRNO).contains(&errno.0) => Ok(RET_ERRNO | u32::from(errno.0)),
        SyscallAction::Errno(errno) => Err(AssembleError::NoSuchErrno { errno: errno.0 }),
    }
}

struct Writer<'a> {
    asm: Assembler,
    /// One return for each value, at the end of the program.
    endings: BTreeMap<u32, Label>,
    /// The rules of a number that has conditions, after the search.
    chains: Vec<(Label, Vec<&'a Rule<'a>>)>,
}

impl<'a> Writer<'a> {
    fn ending(&mut self, value: u32) -> Label {
        if let Some(label) = self.endings.get(&value) {
            return *label;
        }
        let label = self.asm.label();
        self.endings.insert(value, label);
        label
    }

    /// Every number belongs to one range; each has the number it starts with and where it leads.
    fn ranges(
        &mut self,
        rules: &BTreeMap<u32, Vec<&'a Rule<'a>>>,
        newest: u32,
    ) -> Result<Vec<(u32, Label)>, AssembleError> {
        let allow = self.ending(RET_ALLOW);
        let absent = self.ending(RET_ERRNO | libc::ENOSYS.unsigned_abs());
        let mut ranges = vec![(0, allow)];
        for (number, chain) in rules {
            let leads = match chain.first() {
                Some(rule) if rule.when.is_empty() => self.ending(return_value(rule.action)?),
                _ => {
                    let label = self.asm.label();
                    self.chains.push((label, chain.clone()));
                    label
                }
            };
            ranges.push((*number, leads));
            ranges.extend(number.checked_add(1).map(|next| (next, allow)));
        }
        let known = rules.keys().next_back().copied().unwrap_or(0).max(newest);
        ranges.extend(known.checked_add(1).map(|next| (next, absent)));
        // Of two ranges that start at one number the later one counts, and neighbours that lead to one place are one range.
        ranges.reverse();
        ranges.dedup_by_key(|(start, _)| *start);
        ranges.reverse();
        ranges.dedup_by_key(|(_, leads)| *leads);
        Ok(ranges)
    }

    /// Finds the range of the number in the accumulator by halving.
    fn search(&mut self, ranges: &[(u32, Label)]) {
        let (low, high) = ranges.split_at(ranges.len() / 2);
        let Some((pivot, _)) = high.first() else { return };
        if low.is_empty() {
            return;
        }
        let (above, below) = (self.entry(high), self.entry(low));
        self.asm.jump(Test::AtLeast, *pivot, above, below);
        for (half, label) in [(low, below), (high, above)] {
            if half.len() > 1 {
                self.asm.place(label);
                self.search(half);
            }
        }
    }

    /// Where to go for these ranges: to the end of the search if there is one only.
    fn entry(&mut self, ranges: &[(u32, Label)]) -> Label {
        match ranges {
            [(_, leads)] => *leads,
            _ => self.asm.label(),
        }
    }

    /// Tries the rules of one number in their order.
    fn chain(&mut self, rules: &[&Rule<'_>]) -> Result<(), AssembleError> {
        for rule in rules {
            let value = return_value(rule.action)?;
            let Some(words) = words(rule.when)? else { continue };
            if words.is_empty() {
                self.asm.ret(value);
                return Ok(());
            }
            let (ending, next) = (self.ending(value), self.asm.label());
            for (at, word) in words.iter().enumerate() {
                let passed = if at + 1 == words.len() { ending } else { self.asm.label() };
                self.asm.load(word.offset);
                if word.mask != u32::MAX {
                    self.asm.and(word.mask);
                }
                self.asm.jump(Test::Equal, word.value, passed, next);
                if at + 1 < words.len() {
                    self.asm.place(passed);
                }
            }
            self.asm.place(next);
        }
        self.asm.ret(RET_ALLOW);
        Ok(())
    }
}

/// A test of one half of an argument.
struct Word {
    offset: u32,
    mask: u32,
    value: u32,
}

/// The halves that a rule looks at; `None` if it can never match.
fn words(tests: &[ArgTest]) -> Result<Option<Vec<Word>>, AssembleError> {
    let mut words = Vec::new();
    for test in tests {
        if test.arg > 5 {
            return Err(AssembleError::NoSuchArgument { arg: test.arg });
        }
        if test.value & !test.mask != 0 {
            return Ok(None);
        }
        let offset = ARGUMENTS + 8 * u32::from(test.arg);
        for (offset, shift) in [(offset, 0), (offset + 4, 32)] {
            // Cutting off the other half is what is meant.
            let (mask, value) = ((test.mask >> shift) as u32, (test.value >> shift) as u32);
            if mask != 0 {
                words.push(Word { offset, mask, value });
            }
        }
    }
    Ok(Some(words))
}
