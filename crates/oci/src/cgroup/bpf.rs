//! The device filter of cgroup version 2: a small BPF program, made here instruction by instruction.
//!
//! The kernel calls it for every open or mknod of a device with a context of three words: access and kind (access in
//! the upper 16 bits, kind in the lower), major, minor. It answers 1 (allow) or 0.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use super::CgroupError;
use super::devices::{DeviceAccess, DeviceKind, DeviceRule};

/// One instruction of BPF, as the kernel lays it out.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instruction {
    code: u8,
    /// Destination in the lower four bits, source in the upper.
    registers: u8,
    offset: i16,
    immediate: i32,
}

const LOAD_WORD: u8 = 0x61;
const AND_32: u8 = 0x54;
const SHIFT_RIGHT_32: u8 = 0x74;
const MOVE_32: u8 = 0xbc;
const MOVE_IMMEDIATE: u8 = 0xb7;
const JUMP_IF_NOT_EQUAL: u8 = 0x55;
const EXIT: u8 = 0x95;

const KIND_BLOCK: i32 = 1;
const KIND_CHAR: i32 = 2;

fn instruction(code: u8, destination: u8, source: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: destination | (source << 4), offset, immediate }
}

fn access_bits(access: DeviceAccess) -> i32 {
    i32::from(access.mknod) | (i32::from(access.read) << 1) | (i32::from(access.write) << 2)
}

/// The program for these rules. r2 kind, r3 access, r4 major, r5 minor.
pub(super) fn program(rules: &[DeviceRule]) -> Vec<Instruction> {
    let mut code = vec![
        instruction(LOAD_WORD, 2, 1, 0, 0),
        instruction(AND_32, 2, 0, 0, 0xffff),
        instruction(LOAD_WORD, 3, 1, 0, 0),
        instruction(SHIFT_RIGHT_32, 3, 0, 0, 16),
        instruction(LOAD_WORD, 4, 1, 4, 0),
        instruction(LOAD_WORD, 5, 1, 8, 0),
    ];
    for rule in rules {
        // Each test that fails jumps over the rest of its rule.
        let mut tests: Vec<Vec<Instruction>> = Vec::new();
        match rule.kind {
            DeviceKind::Char => tests.push(vec![instruction(JUMP_IF_NOT_EQUAL, 2, 0, 0, KIND_CHAR)]),
            DeviceKind::Block => tests.push(vec![instruction(JUMP_IF_NOT_EQUAL, 2, 0, 0, KIND_BLOCK)]),
        }
        let forbidden = !access_bits(rule.access) & 0b111;
        if forbidden != 0 {
            tests.push(vec![
                instruction(MOVE_32, 1, 3, 0, 0),
                instruction(AND_32, 1, 0, 0, forbidden),
                instruction(JUMP_IF_NOT_EQUAL, 1, 0, 0, 0),
            ]);
        }
        for (register, number) in [(4, rule.major), (5, rule.minor)] {
            if let Some(number) = number {
                tests.push(vec![instruction(JUMP_IF_NOT_EQUAL, register, 0, 0, number.cast_signed())]);
            }
        }
        let mut body: Vec<Instruction> = tests.into_iter().flatten().collect();
        body.push(instruction(MOVE_IMMEDIATE, 0, 0, 0, 1));
        body.push(instruction(EXIT, 0, 0, 0, 0));
        let length = body.len();
        for (at, instruction) in body.iter_mut().enumerate() {
            if instruction.code == JUMP_IF_NOT_EQUAL {
                instruction.offset = i16::try_from(length - at - 1).unwrap_or(i16::MAX);
            }
        }
        code.extend(body);
    }
    code.push(instruction(MOVE_IMMEDIATE, 0, 0, 0, 0));
    code.push(instruction(EXIT, 0, 0, 0, 0));
    code
}

/// Loads the filter and attaches it to a cgroup directory. The cgroup keeps it alive.
pub(super) fn restrict(dir: &Path, rules: &[DeviceRule]) -> Result<(), CgroupError> {
    let error = |action| move |source| CgroupError::DeviceFilter { action, path: dir.to_owned(), source };
    let cgroup = File::open(dir).map_err(|source| CgroupError::Io { action: "read", path: dir.to_owned(), source })?;
    let program = load(&program(rules)).map_err(error("load"))?;
    attach(&cgroup, &program).map_err(error("attach"))
}

const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_ATTACH: libc::c_int = 8;
const PROGRAM_TYPE_CGROUP_DEVICE: u32 = 15;
const ATTACH_CGROUP_DEVICE: u32 = 6;
/// Several filters on one cgroup: all must allow.
const FLAG_ALLOW_MULTI: u32 = 2;

#[repr(C)]
struct LoadAttributes {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buffer: u64,
    kernel_version: u32,
    flags: u32,
}

#[repr(C)]
struct AttachAttributes {
    target_fd: u32,
    program_fd: u32,
    attach_type: u32,
    flags: u32,
    replace_fd: u32,
}

fn load(code: &[Instruction]) -> io::Result<OwnedFd> {
    let attributes = LoadAttributes {
        program_type: PROGRAM_TYPE_CGROUP_DEVICE,
        instruction_count: u32::try_from(code.len()).unwrap_or(u32::MAX),
        instructions: code.as_ptr() as u64,
        license: c"Apache".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log_buffer: 0,
        kernel_version: 0,
        flags: 0,
    };
    #[expect(unsafe_code, reason = "bpf(2) has no safe wrapper")]
    // SAFETY: the attributes and all that they point to live until the call returns; the size is theirs.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const attributes, size_of::<LoadAttributes>()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    #[expect(unsafe_code, reason = "bpf(2) has no safe wrapper")]
    // SAFETY: the kernel just made this descriptor for us and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn attach(cgroup: &File, program: &OwnedFd) -> io::Result<()> {
    let attributes = AttachAttributes {
        target_fd: cgroup.as_raw_fd().cast_unsigned(),
        program_fd: program.as_raw_fd().cast_unsigned(),
        attach_type: ATTACH_CGROUP_DEVICE,
        flags: FLAG_ALLOW_MULTI,
        replace_fd: 0,
    };
    #[expect(unsafe_code, reason = "bpf(2) has no safe wrapper")]
    // SAFETY: the attributes live until the call returns; the size is theirs.
    let done =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_ATTACH, &raw const attributes, size_of::<AttachAttributes>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::container_device_rules;
    use super::*;

    /// Runs the program as the kernel would.
    fn run(code: &[Instruction], kind: i32, access: i32, major: u32, minor: u32) -> bool {
        let mut registers = [0_u64; 11];
        let context = [(access << 16 | kind).cast_unsigned(), major, minor];
        let mut at = 0;
        loop {
            let i = code[at];
            let (destination, source) = (usize::from(i.registers & 15), usize::from(i.registers >> 4));
            at += 1;
            match i.code {
                LOAD_WORD => registers[destination] = u64::from(context[usize::try_from(i.offset).unwrap() / 4]),
                AND_32 => registers[destination] &= u64::from(i.immediate.cast_unsigned()),
                SHIFT_RIGHT_32 => registers[destination] >>= i.immediate,
                MOVE_32 => registers[destination] = registers[source] & 0xffff_ffff,
                MOVE_IMMEDIATE => registers[destination] = u64::from(i.immediate.cast_unsigned()),
                JUMP_IF_NOT_EQUAL => {
                    if registers[destination] != i64::from(i.immediate).cast_unsigned() {
                        at += usize::try_from(i.offset).unwrap();
                    }
                }
                EXIT => return registers[0] == 1,
                other => panic!("unknown instruction {other:#x}"),
            }
        }
    }

    /// What the rules say, in words of their own.
    fn allowed(rules: &[DeviceRule], kind: i32, access: i32, major: u32, minor: u32) -> bool {
        rules.iter().any(|r| {
            let kind_fits = match r.kind {
                DeviceKind::Char => kind == KIND_CHAR,
                DeviceKind::Block => kind == KIND_BLOCK,
            };
            kind_fits
                && access & !access_bits(r.access) == 0
                && r.major.is_none_or(|m| m == major)
                && r.minor.is_none_or(|m| m == minor)
        })
    }

    #[test]
    fn null_may_be_opened_a_disk_only_made() {
        let code = program(&container_device_rules(false, &[]).unwrap());
        assert!(run(&code, KIND_CHAR, 0b110, 1, 3));
        assert!(!run(&code, KIND_BLOCK, 0b010, 8, 0));
        assert!(run(&code, KIND_BLOCK, 0b001, 8, 0));
        assert!(!run(&code, KIND_CHAR, 0b110, 10, 200));
    }

    fn rule() -> impl Strategy<Value = DeviceRule> {
        let kind = prop_oneof![Just(DeviceKind::Char), Just(DeviceKind::Block)];
        (kind, proptest::option::of(0_u32..4), proptest::option::of(0_u32..4), 0_u8..8).prop_map(
            |(kind, major, minor, bits)| DeviceRule {
                kind,
                major,
                minor,
                access: DeviceAccess { mknod: bits & 1 != 0, read: bits & 2 != 0, write: bits & 4 != 0 },
            },
        )
    }

    proptest! {
        #[test]
        fn the_program_says_what_the_rules_say(
            rules in proptest::collection::vec(rule(), 0..8),
            kind in 1_i32..3,
            access in 1_i32..8,
            major in 0_u32..5,
            minor in 0_u32..5,
        ) {
            prop_assert_eq!(run(&program(&rules), kind, access, major, minor), allowed(&rules, kind, access, major, minor));
        }
    }
}
