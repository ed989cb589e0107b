//! An interpreter of classic BPF, as far as seccomp programs use it (`linux/filter.h`,
//! `linux/seccomp.h`). It knows nothing of the policy and shares nothing with libseccomp.

/// `struct sock_filter`.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    pub code: u16,
    pub jt: u8,
    pub jf: u8,
    pub k: u32,
}

/// Reads `struct sock_filter[]` in little-endian byte order.
pub fn parse(bytes: &[u8]) -> Vec<Instruction> {
    let (instructions, rest) = bytes.as_chunks::<8>();
    assert!(rest.is_empty(), "{} bytes are no whole number of instructions", bytes.len());
    instructions
        .iter()
        .map(|&[c0, c1, jt, jf, k0, k1, k2, k3]| Instruction {
            code: u16::from_le_bytes([c0, c1]),
            jt,
            jf,
            k: u32::from_le_bytes([k0, k1, k2, k3]),
        })
        .collect()
}

/// `struct seccomp_data` without the instruction pointer, which is taken as 0.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub number: i32,
    /// An `AUDIT_ARCH_*`.
    pub audit_arch: u32,
    pub args: [u64; 6],
}

impl Call {
    /// The 32-bit word at a byte offset of `struct seccomp_data`.
    fn word(&self, offset: u32) -> u32 {
        match offset {
            0 => self.number as u32,
            4 => self.audit_arch,
            8 | 12 => 0,
            16..64 if offset & 3 == 0 => {
                let arg = self.args[(offset as usize - 16) / 8];
                (if offset & 4 == 0 { arg } else { arg >> 32 }) as u32
            }
            _ => panic!("load of offset {offset}: the kernel would not have taken the program"),
        }
    }
}

/// What a program makes of a call.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The `SECCOMP_RET_*` value.
    pub result: u32,
    /// Instructions executed.
    pub executed: usize,
}

/// Runs a program. Panics on what the kernel's checker would refuse.
pub fn run(program: &[Instruction], call: &Call) -> Run {
    let mut accumulator = 0;
    let mut next = 0;
    let mut executed = 0;
    loop {
        let Instruction { code, jt, jf, k } = program[next];
        next += 1;
        executed += 1;
        let branch = |taken: bool| usize::from(if taken { jt } else { jf });
        match code {
            0x20 => accumulator = call.word(k), // BPF_LD | BPF_W | BPF_ABS
            0x54 => accumulator &= k,           // BPF_ALU | BPF_AND | BPF_K
            0x05 => next += k as usize,         // BPF_JMP | BPF_JA
            0x15 => next += branch(accumulator == k), // BPF_JMP | BPF_JEQ | BPF_K
            0x25 => next += branch(accumulator > k), // BPF_JMP | BPF_JGT | BPF_K
            0x35 => next += branch(accumulator >= k), // BPF_JMP | BPF_JGE | BPF_K
            0x45 => next += branch(accumulator & k != 0), // BPF_JMP | BPF_JSET | BPF_K
            0x06 => return Run { result: k, executed }, // BPF_RET | BPF_K
            _ => panic!("instruction {} has code {code:#x}, which the interpreter lacks", next - 1),
        }
    }
}
