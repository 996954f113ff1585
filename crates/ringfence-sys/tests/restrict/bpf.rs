//! The assembler, and the filter that rules become: interpreted here, and compared with what seccompiler makes of the same
//! rules.

use std::collections::BTreeMap;

use crate::interpret::{Call, interpret};
use ringfence_plan::{ArgTest, BROKERED, Errno, Fence, LOOKED_AT, SyscallAction, SyscallRule, syscalls};
use ringfence_sys::bpf::{self, Arch, AssembleError, Assembler, Instruction, MAX_INSTRUCTIONS, Rule, Test};
use ringfence_sys::seccomp::{self, NEWEST};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0000;
const ENOSYS: u32 = ERRNO | 38;
const FENCES: [Fence; 4] = [Fence::Namespaces, Fence::NestedNamespaces, Fence::LandlockOnly, Fence::SessionNamespaces];

fn native() -> Arch {
    Arch::NATIVE.expect("the tests run where filters are known")
}

fn call(number: u32, args: [u64; 6]) -> Call {
    Call { number, arch: native().audit(), args }
}

// The assembler.

#[test]
fn a_comparison_goes_both_ways() {
    let mut asm = Assembler::new();
    let (yes, no) = (asm.label(), asm.label());
    asm.load(0);
    asm.jump(Test::Equal, 7, yes, no);
    asm.place(no);
    asm.ret(1);
    asm.place(yes);
    asm.ret(2);
    let program = asm.assemble().unwrap();
    let expected = [(0x20, 0, 0, 0), (0x15, 1, 0, 7), (0x06, 0, 0, 1), (0x06, 0, 0, 2)];
    let expected = expected.map(|(code, jt, jf, k)| Instruction { code, jt, jf, k });
    assert_eq!(program.instructions(), expected);
}

/// A program with `between` instructions between a comparison and both of its targets.
fn far(between: usize) -> Result<bpf::Program, AssembleError> {
    let mut asm = Assembler::new();
    let (yes, no) = (asm.label(), asm.label());
    asm.load(0);
    asm.jump(Test::Greater, 9, yes, no);
    for _ in 0..between {
        asm.ret(0);
    }
    asm.place(no);
    asm.ret(1);
    asm.place(yes);
    asm.ret(2);
    asm.assemble()
}

/// Eight bits reach 255 instructions; what is further goes by a way station.
#[test]
fn far_jumps_at_the_boundary() {
    for (between, length) in [(0, 4), (253, 257), (254, 258), (255, 261), (256, 262), (1000, 1006), (4090, 4096)] {
        let program = far(between).unwrap();
        assert_eq!(program.instructions().len(), length, "{between} between");
        assert_eq!(interpret(program.instructions(), &call(9, [0; 6])).0, 1, "{between} between");
        assert_eq!(interpret(program.instructions(), &call(10, [0; 6])).0, 2, "{between} between");
    }
}

/// Each way station moves everything behind it, and may push another jump out of reach.
#[test]
fn far_jumps_that_push_each_other() {
    for width in 60..130_u32 {
        let mut asm = Assembler::new();
        let end = asm.label();
        let mut nexts = Vec::new();
        asm.load(0);
        for k in 0..width {
            let next = asm.label();
            asm.jump(Test::Equal, k, end, next);
            asm.place(next);
            nexts.push(next);
            asm.and(u32::MAX);
            asm.and(u32::MAX);
        }
        asm.ret(1);
        asm.place(end);
        asm.ret(2);
        let program = asm.assemble().unwrap();
        for number in 0..width + 3 {
            let expected = if number < width { 2 } else { 1 };
            assert_eq!(interpret(program.instructions(), &call(number, [0; 6])).0, expected, "{number} of {width}");
        }
    }
}

#[test]
fn what_is_no_program() {
    assert_eq!(Assembler::new().assemble(), Err(AssembleError::Empty));
    assert_eq!(far(4091), Err(AssembleError::TooLong { length: MAX_INSTRUCTIONS + 1 }));
    let mut asm = Assembler::new();
    asm.load(0);
    assert_eq!(asm.assemble(), Err(AssembleError::NoReturn));
    let mut asm = Assembler::new();
    let back = asm.label();
    asm.place(back);
    asm.load(0);
    asm.jump(Test::AnyBit, 1, back, back);
    asm.ret(0);
    assert_eq!(asm.assemble(), Err(AssembleError::Backward));
    let mut asm = Assembler::new();
    let nowhere = asm.label();
    asm.jump(Test::AnyBit, 1, nowhere, nowhere);
    asm.ret(0);
    assert_eq!(asm.assemble(), Err(AssembleError::NoTarget));
    asm.place(nowhere);
    assert_eq!(asm.assemble(), Err(AssembleError::NoTarget));
}

// Rules.

const USER_NOTIF: u32 = 0x7fc0_0000;
const EPERM: SyscallAction = SyscallAction::Errno(Errno::EPERM);

#[track_caller]
fn check(rules: &[Rule<'_>], number: u32, args: [u64; 6], expected: u32) {
    let program = bpf::filter(rules, 100, native()).expect("rules that compile");
    let got = interpret(program.instructions(), &call(number, args)).0;
    assert_eq!(got, expected, "call {number} with {args:x?}");
}

#[test]
fn numbers_without_conditions() {
    let deny = |number| Rule { number, when: &[], action: EPERM };
    for rules in [&[] as &[u32], &[0], &[0, 1, 2], &[5, 7, 8, 9, 50], &[99, 100], &[100, 3, 77, 2]] {
        let compiled: Vec<Rule<'_>> = rules.iter().copied().map(deny).collect();
        for number in 0..=100 {
            check(&compiled, number, [0; 6], if rules.contains(&number) { ERRNO | 1 } else { ALLOW });
        }
        for number in [101, 102, 512, 0x3fff_ffff, 0x4000_0000, 0x4000_0001, 0x7fff_ffff, u32::MAX] {
            check(&compiled, number, [0; 6], ENOSYS);
        }
    }
    // A rule about a call that is newer than the newest makes it known.
    check(&[deny(200)], 200, [0; 6], ERRNO | 1);
    check(&[deny(200)], 199, [0; 6], ALLOW);
    check(&[deny(200)], 201, [0; 6], ENOSYS);
    check(&[deny(u32::MAX)], u32::MAX, [0; 6], ERRNO | 1);
}

#[test]
fn conditions_look_at_both_halves() {
    let test = |mask, value| [ArgTest { arg: 5, mask, value }];
    for (mask, value, argument, matches) in [
        (u64::MAX, 0x1_0000_0002, 0x1_0000_0002, true),
        (u64::MAX, 0x1_0000_0002, 0x2, false),
        (u64::MAX, 0x1_0000_0002, 0x1_0000_0003, false),
        (0xffff_ffff, 2, 0x1_0000_0002, true),
        (0xffff_ffff_0000_0000, 1 << 32, 0x1_dead_beef, true),
        (0xffff_ffff_0000_0000, 1 << 32, 0x3_dead_beef, false),
        (0xf0, 0x30, 0xffff_ffff_ffff_ff3f, true),
        (0xf0, 0x30, 0x40, false),
        (0, 0, 99, true),
        // These bits do not count and must be set: no argument does that.
        (0xf0, 0x31, 0x31, false),
        (0, 1, 1, false),
    ] {
        let when = test(mask, value);
        let rules = [Rule { number: 7, when: &when, action: EPERM }];
        let args = [0, 0, 0, 0, 0, argument];
        check(&rules, 7, args, if matches { ERRNO | 1 } else { ALLOW });
        check(&rules, 8, args, ALLOW);
    }
}

#[test]
fn the_first_rule_that_matches_counts() {
    let is = |arg, value| ArgTest { arg, mask: u64::MAX, value };
    let both = [is(0, 1), is(1, 2)];
    let one = [is(0, 1)];
    let rules = [
        Rule { number: 7, when: &both, action: SyscallAction::Allow },
        Rule { number: 7, when: &one, action: SyscallAction::Errno(Errno::ENOSYS) },
        Rule { number: 7, when: &[], action: EPERM },
        Rule { number: 7, when: &[], action: SyscallAction::Allow },
    ];
    check(&rules, 7, [1, 2, 0, 0, 0, 0], ALLOW);
    check(&rules, 7, [1, 3, 0, 0, 0, 0], ENOSYS);
    check(&rules, 7, [2, 2, 0, 0, 0, 0], ERRNO | 1);
}

#[test]
fn impossible_rules_are_refused() {
    let when = [ArgTest { arg: 6, mask: 1, value: 1 }];
    let rule = |when, action| bpf::filter(&[Rule { number: 1, when, action }], 100, native());
    assert_eq!(rule(&when, EPERM), Err(AssembleError::NoSuchArgument { arg: 6 }));
    assert_eq!(rule(&[], SyscallAction::Errno(Errno(4096))), Err(AssembleError::NoSuchErrno { errno: 4096 }));
    assert_eq!(rule(&[], SyscallAction::Errno(Errno(0))), Err(AssembleError::NoSuchErrno { errno: 0 }));
    let many: Vec<Rule<'_>> = (0..5000).map(|i| Rule { number: 2 * i, when: &[], action: EPERM }).collect();
    assert!(matches!(bpf::filter(&many, 100, native()), Err(AssembleError::TooLong { .. })));
}

/// The 32-bit calls of AMD64 and ARM, and whatever else.
#[test]
fn other_architectures_have_no_calls() {
    for fence in FENCES {
        let filter = seccomp::compile(&syscalls(fence)).unwrap();
        for arch in [0x4000_0003, 0x4000_0028, 0xc000_003e, 0xc000_00b7, 0, u32::MAX] {
            for number in [0, 1, 59, 165, NEWEST, NEWEST + 1, 0x4000_0000] {
                let got = interpret(filter.program.instructions(), &Call { number, arch, args: [0; 6] }).0;
                if arch != native().audit() {
                    assert_eq!(got, ENOSYS, "call {number} of {arch:#x}");
                }
            }
        }
    }
}

// The real rules, and seccompiler's opinion of them.

/// One of our rules by seccompiler: what it matches fails with EPERM, what it does not is logged.
fn theirs(rule: &SyscallRule, number: u32) -> BpfProgram {
    let conditions: Vec<SeccompCondition> = rule
        .when
        .iter()
        .map(|test| {
            let op = SeccompCmpOp::MaskedEq(test.mask);
            SeccompCondition::new(test.arg, SeccompCmpArgLen::Qword, op, test.value).expect("an argument from 0 to 5")
        })
        .collect();
    let chain =
        if conditions.is_empty() { Vec::new() } else { vec![SeccompRule::new(conditions).expect("conditions")] };
    let arch = match native() {
        Arch::X86_64 => TargetArch::x86_64,
        Arch::Aarch64 => TargetArch::aarch64,
    };
    let rules = BTreeMap::from([(i64::from(number), chain)]);
    SeccompFilter::new(rules, SeccompAction::Log, SeccompAction::Errno(1), arch)
        .and_then(TryInto::try_into)
        .expect("a rule that seccompiler takes")
}

/// Arguments around everything that a rule compares with.
fn interesting(rules: &[SyscallRule]) -> Vec<u64> {
    let mut values = vec![0, 1, 2, 3, u64::MAX, 1 << 31, 1 << 32, 0xffff_ffff, 0x5412, 0x541b];
    for test in rules.iter().flat_map(|rule| rule.when) {
        let near =
            [test.value, test.value.wrapping_add(1), test.value.wrapping_sub(1), !test.value, test.mask, !test.mask];
        values.extend(near);
        values.extend(near.map(|value| value | 1 << 32));
        values.extend((0..64).map(|bit| test.value ^ (1 << bit)));
    }
    values.sort_unstable();
    values.dedup();
    values
}

/// A small generator (xorshift), so that each run tries the same calls.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[(self.next() % from.len() as u64) as usize]
    }
}

#[test]
fn seccompiler_says_the_same() {
    let brokered = |fence: &Fence| *fence == Fence::Namespaces;
    let plain = FENCES.map(|fence| (fence, syscalls(fence)));
    let with_broker = FENCES.into_iter().filter(brokered).map(|fence| (fence, [&syscalls(fence), BROKERED].concat()));
    let learning = [(Fence::Namespaces, [&syscalls(Fence::Namespaces), LOOKED_AT, BROKERED].concat())];
    for (fence, rules) in plain.into_iter().chain(with_broker).chain(learning) {
        let numbered: Vec<(SyscallRule, u32, Vec<Instruction>)> = rules
            .iter()
            .filter_map(|rule| Some((*rule, seccomp::number(rule.name)?)))
            .map(|(rule, number)| {
                let program = theirs(&rule, number);
                let same = program.iter().map(|i| Instruction { code: i.code, jt: i.jt, jf: i.jf, k: i.k });
                (rule, number, same.collect())
            })
            .collect();
        let expected = |call: &Call| {
            if call.number > NEWEST {
                return ENOSYS;
            }
            let first = numbered.iter().find(|(_, _, program)| interpret(program, call).0 == ERRNO | 1);
            match first.map(|(rule, ..)| rule.action) {
                None | Some(SyscallAction::Allow) => ALLOW,
                Some(SyscallAction::Errno(errno)) => ERRNO | u32::from(errno.0),
                Some(SyscallAction::Notify) => USER_NOTIF,
            }
        };
        let ours = seccomp::compile(&rules).unwrap();
        let check = |call: &Call| {
            let got = interpret(ours.program.instructions(), call).0;
            assert_eq!(got, expected(call), "{call:x?} in {fence:?}");
        };
        // Every number, also those above and the x32 calls.
        for number in (0..=NEWEST + 50).chain([0x3fff_ffff, 0x4000_0000, 0x4000_003b, u32::MAX - 1, u32::MAX]) {
            check(&call(number, [0; 6]));
            check(&call(number, [u64::MAX; 6]));
        }
        // Conditional calls with arguments near the boundaries.
        let conditional: Vec<u32> =
            numbered.iter().filter(|(rule, ..)| !rule.when.is_empty()).map(|(_, n, _)| *n).collect();
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for number in conditional {
            let own: Vec<SyscallRule> =
                numbered.iter().filter(|(_, n, _)| *n == number).map(|(rule, ..)| *rule).collect();
            let values = interesting(&own);
            for value in &values {
                check(&call(number, [*value; 6]));
            }
            for _ in 0..400 {
                check(&call(number, std::array::from_fn(|_| random.pick(&values))));
            }
        }
        for _ in 0..1000 {
            let number = (random.next() % u64::from(NEWEST + 10)) as u32;
            check(&call(number, std::array::from_fn(|_| random.next())));
        }
    }
}

/// Which names have no call on an architecture: a rule about them says nothing there.
#[test]
fn names_without_a_call() {
    for (arch, expected) in [(Arch::X86_64, &[][..]), (Arch::Aarch64, &["ioperm", "iopl", "uselib"])] {
        for fence in FENCES {
            let filter = seccomp::compile_for(arch, &syscalls(fence)).unwrap();
            assert_eq!(filter.skipped, expected, "{fence:?} on {arch:?}");
            // It begins with a look at the architecture, and refuses every other.
            let starts = |program: &[Instruction]| program.iter().take(3).any(|i| i.k == arch.audit());
            assert!(starts(filter.program.instructions()), "{fence:?} on {arch:?}");
        }
    }
}

/// Common calls are decided in a few steps, and the program leaves room for more rules.
#[test]
fn the_filter_is_short() {
    for fence in FENCES {
        let filter = seccomp::compile(&syscalls(fence)).unwrap();
        let program = filter.program.instructions();
        assert!(program.len() < 400, "{} instructions", program.len());
        let getppid = seccomp::number("getppid").expect("a call that every machine has");
        for number in [0, 1, 3, 9, getppid, 202, 257, 262] {
            let (_, steps) = interpret(program, &call(number, [0; 6]));
            assert!(steps <= 12, "call {number} takes {steps} steps");
        }
    }
}
