//! The program that the kernel runs before each system call.
//!
//! A binary search over the call's number, about eight steps, instead of one test per call that the profile names.

use serde::{Deserialize, Serialize};

use super::policy::{Decision, Policy};
use super::profile::{Action, ArgTest, Comparison, SeccompError};

/// One instruction of classic BPF, as the kernel lays it out (`struct sock_filter`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Instruction {
    /// Operation.
    pub(crate) code: u16,
    /// How many instructions to skip if the test holds.
    pub(crate) if_true: u8,
    /// How many if it does not.
    pub(crate) if_false: u8,
    /// Operand.
    pub(crate) operand: u32,
}

/// A whole filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Program {
    /// Its instructions; 4096 at most.
    pub(crate) instructions: Vec<Instruction>,
    /// Flags of seccomp(2).
    pub(crate) flags: u32,
}

pub(super) const LOAD: u16 = 0x20;
pub(super) const AND: u16 = 0x54;
pub(super) const JUMP: u16 = 0x05;
pub(super) const JUMP_EQUAL: u16 = 0x15;
pub(super) const JUMP_GREATER: u16 = 0x25;
pub(super) const JUMP_GREATER_EQUAL: u16 = 0x35;
pub(super) const RETURN: u16 = 0x06;

const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCH: u32 = 4;
const OFFSET_ARGS: u32 = 16;
const LONGEST: usize = 4096;
const AUDIT_X86_64: u32 = 0xc000_003e;
/// Numbers of the x32 ABI have this bit. They reach the same calls by other numbers, so none may pass.
const X32_BIT: u32 = 0x4000_0000;
const ENOSYS: u16 = 38;

fn plain(code: u16, operand: u32) -> Instruction {
    Instruction { code, if_true: 0, if_false: 0, operand }
}

fn give(action: Action) -> Instruction {
    plain(RETURN, action.value())
}

/// The program for a policy. Another architecture's calls end the process: their numbers mean something else.
pub(super) fn assemble(policy: &Policy, flags: u32) -> Result<Program, SeccompError> {
    let mut code = vec![
        plain(LOAD, OFFSET_ARCH),
        Instruction { code: JUMP_EQUAL, if_true: 1, if_false: 0, operand: policy.audit },
        give(Action::KillProcess),
        plain(LOAD, OFFSET_NUMBER),
    ];
    if policy.audit == AUDIT_X86_64 {
        code.push(Instruction { code: JUMP_GREATER_EQUAL, if_true: 0, if_false: 1, operand: X32_BIT });
        code.push(give(Action::Errno(ENOSYS)));
    }
    code.extend(search(&ranges(policy), policy.default));
    if code.len() > LONGEST {
        return Err(SeccompError::TooLong { length: code.len() });
    }
    Ok(Program { instructions: code, flags })
}

/// The whole range of numbers as runs with one decision each, by their first number.
fn ranges(policy: &Policy) -> Vec<(u32, Decision)> {
    let simple = |action| Decision { cases: Vec::new(), otherwise: Some(action) };
    let mut runs: Vec<(u32, Decision)> = Vec::new();
    let mut push = |start: u32, decision: Decision| {
        if runs.last().is_none_or(|last| last.1 != decision) {
            runs.push((start, decision));
        }
    };
    let mut next = 0;
    for (number, decision) in &policy.decisions {
        if *number > next {
            push(next, simple(policy.default));
        }
        push(*number, decision.clone());
        next = number + 1;
    }
    if next < policy.unknown_from {
        push(next, simple(policy.default));
    }
    push(policy.unknown_from.max(next), simple(policy.unknown));
    runs
}

fn search(runs: &[(u32, Decision)], default: Action) -> Vec<Instruction> {
    match runs {
        [] => vec![give(default)],
        [(_, decision)] => decide(decision, default),
        _ => {
            let (left, right) = runs.split_at(runs.len() / 2);
            let pivot = right[0].0;
            let left = search(left, default);
            let right = search(right, default);
            let mut code = Vec::with_capacity(left.len() + right.len() + 2);
            match u8::try_from(left.len()) {
                Ok(skip) => {
                    code.push(Instruction { code: JUMP_GREATER_EQUAL, if_true: skip, if_false: 0, operand: pivot });
                }
                Err(_) => {
                    code.push(Instruction { code: JUMP_GREATER_EQUAL, if_true: 0, if_false: 1, operand: pivot });
                    code.push(plain(JUMP, u32::try_from(left.len()).unwrap_or(u32::MAX)));
                }
            }
            code.extend(left);
            code.extend(right);
            code
        }
    }
}

fn decide(decision: &Decision, default: Action) -> Vec<Instruction> {
    let mut code = Vec::new();
    for (tests, action) in &decision.cases {
        code.extend(case(tests, *action));
    }
    code.push(give(decision.otherwise.unwrap_or(default)));
    code
}

/// Where a jump inside a case goes.
#[derive(Clone, Copy)]
enum Target {
    /// The next instruction.
    Next,
    /// The next condition.
    Pass,
    /// The end of the case.
    Fail,
}

/// Code that returns `action` if all conditions hold and falls through to its end if not.
fn case(tests: &[ArgTest], action: Action) -> Vec<Instruction> {
    let mut steps: Vec<(u16, u32, Target, Target)> = Vec::new();
    let mut ends = Vec::new();
    for test in tests {
        condition(test, &mut steps);
        ends.push(steps.len());
    }
    let length = steps.len() + 1;
    let mut code = Vec::with_capacity(length);
    for (at, (operation, operand, yes, no)) in steps.iter().enumerate() {
        let pass = ends.iter().find(|end| **end > at).copied().unwrap_or(length);
        let distance = |target: &Target| match target {
            Target::Next => 0,
            Target::Pass => u8::try_from(pass - at - 1).unwrap_or(u8::MAX),
            Target::Fail => u8::try_from(length - at - 1).unwrap_or(u8::MAX),
        };
        code.push(Instruction { code: *operation, if_true: distance(yes), if_false: distance(no), operand: *operand });
    }
    code.push(give(action));
    code
}

/// One condition on a 64-bit argument, as two 32-bit halves, the upper first.
fn condition(test: &ArgTest, steps: &mut Vec<(u16, u32, Target, Target)>) {
    use Target::{Fail, Next, Pass};
    let low = OFFSET_ARGS + 8 * u32::from(test.index);
    let high = low + 4;
    let half = |value: u64| ((value >> 32) as u32, (value & 0xffff_ffff) as u32);
    let (value_high, value_low) = half(test.value);
    let load = |offset| (LOAD, offset, Next, Next);
    match test.comparison {
        Comparison::Eq => steps.extend([
            load(high),
            (JUMP_EQUAL, value_high, Next, Fail),
            load(low),
            (JUMP_EQUAL, value_low, Pass, Fail),
        ]),
        Comparison::Ne => steps.extend([
            load(high),
            (JUMP_EQUAL, value_high, Next, Pass),
            load(low),
            (JUMP_EQUAL, value_low, Fail, Pass),
        ]),
        Comparison::MaskedEq { mask } => {
            let (mask_high, mask_low) = half(mask);
            steps.extend([
                load(high),
                (AND, mask_high, Next, Next),
                (JUMP_EQUAL, value_high & mask_high, Next, Fail),
                load(low),
                (AND, mask_low, Next, Next),
                (JUMP_EQUAL, value_low & mask_low, Pass, Fail),
            ]);
        }
        Comparison::Gt | Comparison::Ge => {
            let last = if test.comparison == Comparison::Gt { JUMP_GREATER } else { JUMP_GREATER_EQUAL };
            steps.extend([
                load(high),
                (JUMP_GREATER, value_high, Pass, Next),
                (JUMP_EQUAL, value_high, Next, Fail),
                load(low),
                (last, value_low, Pass, Fail),
            ]);
        }
        Comparison::Lt | Comparison::Le => {
            let last = if test.comparison == Comparison::Le { JUMP_GREATER } else { JUMP_GREATER_EQUAL };
            steps.extend([
                load(high),
                (JUMP_GREATER, value_high, Fail, Next),
                (JUMP_EQUAL, value_high, Next, Pass),
                load(low),
                (last, value_low, Fail, Pass),
            ]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::policy::{Arch, compile, policy};
    use super::super::{Profile, Rule, default_profile};
    use super::*;

    /// Runs a program as the kernel would.
    fn run(code: &[Instruction], arch: u32, number: u32, args: [u64; 6]) -> u32 {
        let word = |offset: u32| match offset {
            0 => number,
            4 => arch,
            _ => {
                let arg = args[usize::try_from((offset - 16) / 8).unwrap()];
                if offset.is_multiple_of(8) { (arg & 0xffff_ffff) as u32 } else { (arg >> 32) as u32 }
            }
        };
        let (mut at, mut a) = (0_usize, 0_u32);
        loop {
            let i = code[at];
            at += 1;
            let branch = |holds: bool| usize::from(if holds { i.if_true } else { i.if_false });
            match i.code {
                LOAD => a = word(i.operand),
                AND => a &= i.operand,
                JUMP => at += i.operand as usize,
                JUMP_EQUAL => at += branch(a == i.operand),
                JUMP_GREATER => at += branch(a > i.operand),
                JUMP_GREATER_EQUAL => at += branch(a >= i.operand),
                RETURN => return i.operand,
                other => panic!("unknown instruction {other:#x}"),
            }
        }
    }

    fn holds(test: &ArgTest, args: [u64; 6]) -> bool {
        let arg = args[usize::from(test.index)];
        match test.comparison {
            Comparison::Ne => arg != test.value,
            Comparison::Lt => arg < test.value,
            Comparison::Le => arg <= test.value,
            Comparison::Eq => arg == test.value,
            Comparison::Ge => arg >= test.value,
            Comparison::Gt => arg > test.value,
            Comparison::MaskedEq { mask } => arg & mask == test.value & mask,
        }
    }

    /// What a profile says, read from top to bottom.
    fn model(profile: &Profile, number: u32, args: [u64; 6]) -> Action {
        let named =
            |r: &Rule| r.names.iter().any(|n| Arch::X86_64.table().iter().any(|(name, nr)| name == n && *nr == number));
        if number > 467 && matches!(profile.default, Action::Errno(_)) {
            return Action::Errno(ENOSYS);
        }
        let rule = profile.rules.iter().find(|r| named(r) && r.args.iter().all(|a| holds(a, args)));
        rule.map_or(profile.default, |r| r.action)
    }

    fn default_says(capabilities: &[&str], name: &str, args: [u64; 6]) -> u32 {
        let capabilities: BTreeSet<String> = capabilities.iter().map(|c| (*c).to_owned()).collect();
        let program = compile(&default_profile(&capabilities), Arch::X86_64).unwrap();
        let number = Arch::X86_64.table().iter().find(|e| e.0 == name).unwrap().1;
        run(&program.instructions, Arch::X86_64.audit(), number, args)
    }

    #[test]
    fn the_default_profile_forbids_what_upstreams_forbids() {
        let (allow, eperm, enosys) = (Action::Allow.value(), Action::Errno(1).value(), Action::Errno(38).value());
        let none = [0; 6];
        for name in [
            "mount",
            "setns",
            "unshare",
            "bpf",
            "reboot",
            "io_uring_setup",
            "keyctl",
            "add_key",
            "kexec_load",
            "userfaultfd",
            "swapon",
            "open_by_handle_at",
            "syslog",
            "personality_x",
            "chroot",
            "pivot_root",
        ] {
            if name != "personality_x" {
                assert_eq!(default_says(&[], name, none), eperm, "{name}");
            }
        }
        assert_eq!(default_says(&[], "clone3", none), enosys);
        assert_eq!(default_says(&["CAP_SYS_ADMIN"], "clone3", none), allow);
        assert_eq!(default_says(&["CAP_SYS_ADMIN"], "mount", none), allow);
        assert_eq!(default_says(&["CAP_SYS_CHROOT"], "chroot", none), allow);
        assert_eq!(default_says(&[], "clone", [0x1_2011, 0, 0, 0, 0, 0]), allow);
        assert_eq!(default_says(&[], "clone", [0x1000_0000, 0, 0, 0, 0, 0]), eperm); // a new user namespace
        assert_eq!(default_says(&[], "socket", [40, 0, 0, 0, 0, 0]), eperm); // AF_VSOCK
        assert_eq!(default_says(&[], "socket", [2, 0, 0, 0, 0, 0]), allow);
        assert_eq!(default_says(&[], "personality", [0xffff_ffff, 0, 0, 0, 0, 0]), allow);
        assert_eq!(default_says(&[], "personality", [0x40000, 0, 0, 0, 0, 0]), eperm); // ADDR_NO_RANDOMIZE
        assert_eq!(default_says(&[], "read", none), allow);
    }

    #[test]
    fn other_architectures_and_abis_never_pass() {
        let allow_all = Profile { default: Action::Allow, rules: Vec::new(), flags: 0 };
        let program = compile(&allow_all, Arch::X86_64).unwrap().instructions;
        assert_eq!(run(&program, 0x4000_0003, 0, [0; 6]), Action::KillProcess.value());
        assert_eq!(run(&program, Arch::X86_64.audit(), X32_BIT, [0; 6]), Action::Errno(38).value());
        assert_eq!(run(&program, Arch::X86_64.audit(), 1_000, [0; 6]), Action::Allow.value());
    }

    fn a_test() -> impl Strategy<Value = ArgTest> {
        // Values close together, and on both sides of the 32-bit border, so that all branches are met.
        let value = prop_oneof![0_u64..4, (1_u64 << 32)..((1 << 32) + 4), Just(u64::MAX)];
        let comparison = prop_oneof![
            Just(Comparison::Ne),
            Just(Comparison::Lt),
            Just(Comparison::Le),
            Just(Comparison::Eq),
            Just(Comparison::Ge),
            Just(Comparison::Gt),
            (0_u64..8).prop_map(|mask| Comparison::MaskedEq { mask: mask | (1 << 33) }),
        ];
        (0_u8..6, value, comparison).prop_map(|(index, value, comparison)| ArgTest { index, value, comparison })
    }

    fn a_rule() -> impl Strategy<Value = Rule> {
        let names = Arch::X86_64.table().iter().map(|e| e.0.to_owned()).collect::<Vec<_>>();
        let action = prop_oneof![
            Just(Action::Allow),
            (1_u16..200).prop_map(Action::Errno),
            Just(Action::Log),
            Just(Action::Trap)
        ];
        (proptest::sample::subsequence(names, 0..60), action, proptest::collection::vec(a_test(), 0..3))
            .prop_map(|(names, action, args)| Rule { names, action, args })
    }

    proptest! {
        #[test]
        fn the_program_says_what_the_profile_says(
            default in prop_oneof![Just(Action::Allow), Just(Action::Errno(1)), Just(Action::KillProcess)],
            rules in proptest::collection::vec(a_rule(), 0..8),
            number in 0_u32..480,
            seed in proptest::collection::vec(prop_oneof![0_u64..4, (1_u64 << 32)..((1 << 32) + 4), Just(u64::MAX)], 6),
        ) {
            let profile = Profile { default, rules, flags: 0 };
            let args: [u64; 6] = seed.try_into().unwrap();
            let program = assemble(&policy(&profile, Arch::X86_64), 0).unwrap();
            let said = run(&program.instructions, Arch::X86_64.audit(), number, args);
            prop_assert_eq!(said, model(&profile, number, args).value());
        }
    }
}
