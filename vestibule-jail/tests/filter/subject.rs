//! A compiled program and the means to ask it.

use super::bpf::{self, Call, Instruction};
use super::compile::{Compiled, compile};
use super::oracle::{self, Verdict};
use libseccomp::{ScmpArch, ScmpSyscall};
use protocol::policy::Arch;
use std::collections::BTreeMap;
use std::sync::LazyLock;

pub const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
pub const AUDIT_ARCH_AARCH64: u32 = 0xc000_00b7;

/// Past every number that a kernel uses.
pub const NUMBERS: std::ops::RangeInclusive<i32> = 0..=600;

/// Bits that the kernel cuts off when it takes an `int` from a register.
pub const GARBAGE: u64 = 0xdead_beef << 32;

/// A compiled program and what is needed to ask it.
pub struct Subject {
    pub arch: Arch,
    pub compiled: Compiled,
    pub program: Vec<Instruction>,
    pub names: BTreeMap<i32, String>,
}

pub static SUBJECTS: LazyLock<Vec<Subject>> =
    LazyLock::new(|| Arch::ALL.into_iter().map(Subject::new).collect());

impl Subject {
    fn new(arch: Arch) -> Self {
        let compiled = compile(arch).expect("the policy compiles");
        let program = bpf::parse(&compiled.bytes);
        let scmp_arch = match arch {
            Arch::X86_64 => ScmpArch::X8664,
            Arch::Aarch64 => ScmpArch::Aarch64,
        };
        let named = |number| {
            ScmpSyscall::from_raw_syscall(number)
                .get_name_by_arch(scmp_arch)
                .ok()
                .map(|name| (number, name))
        };
        let names = NUMBERS.filter_map(named).collect();
        Subject { arch, compiled, program, names }
    }

    pub fn audit_arch(&self) -> u32 {
        match self.arch {
            Arch::X86_64 => AUDIT_ARCH_X86_64,
            Arch::Aarch64 => AUDIT_ARCH_AARCH64,
        }
    }

    pub fn run(&self, audit_arch: u32, number: i32, args: [u64; 6]) -> bpf::Run {
        bpf::run(&self.program, &Call { number, audit_arch, args })
    }

    pub fn number(&self, name: &str) -> Option<i32> {
        self.names.iter().find(|(_, known)| *known == name).map(|(&number, _)| number)
    }

    /// Compares program and oracle on one call of the native ABI.
    pub fn check(&self, number: i32, args: [u64; 6]) {
        let name = self.names.get(&number).map(String::as_str);
        let expected = oracle::verdict(self.arch, name, args);
        let found = Verdict::decode(self.run(self.audit_arch(), number, args).result);
        assert_eq!(found, expected, "{:?} {name:?} ({number}) with {args:x?}", self.arch);
    }

    /// [`Self::check`] by name, with and without garbage above an `int`. Returns whether the
    /// architecture has the call; if not, nothing was checked.
    pub fn check_int(&self, name: &str, int_arg: usize, args: [u64; 6]) -> bool {
        let Some(number) = self.number(name) else { return false };
        self.check(number, args);
        for garbage in [1 << 32, GARBAGE] {
            let mut args = args;
            args[int_arg] |= garbage;
            self.check(number, args);
        }
        true
    }
}
