//! Compiles the system call policy of `protocol::policy` with libseccomp, for the target
//! architecture, into `filter.rs` in `OUT_DIR`. A run then needs no libseccomp.

#[cfg(target_os = "linux")]
#[path = "src/filter/compile.rs"]
mod compile;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/filter/compile.rs");
    // The sandbox is Linux only; elsewhere the crate is empty.
    if std::env::var("CARGO_CFG_TARGET_OS")? == "linux" {
        generate::filter()?;
        link_unwinder_statically()?;
    }
    Ok(())
}

/// Takes the unwinder from gcc's static library instead of `libgcc_s.so.1`, which Rust asks for by
/// name: one shared library less to find, map and relocate at the start of every run. The linker
/// finds this script under that name first, and reads the other library in its place, and after it
/// the one that has the atomic operations which the unwinder calls on aarch64.
fn link_unwinder_statically() -> Result<(), Box<dyn Error>> {
    if std::env::var("CARGO_CFG_TARGET_ENV")? != "gnu" {
        return Ok(());
    }
    let out = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: build with cargo")?;
    let folder = std::path::Path::new(&out).join("link");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("libgcc_s.so"), "INPUT(-lgcc_eh -lgcc)\n")?;
    println!("cargo:rustc-link-search=native={}", folder.display());
    Ok(())
}

#[cfg(not(target_os = "linux"))]
mod generate {
    /// Fails: libseccomp exists on Linux only.
    pub fn filter() -> Result<(), Box<dyn std::error::Error>> {
        Err("vestibule-jail can only be built on Linux: its filter is compiled by libseccomp"
            .into())
    }
}

#[cfg(target_os = "linux")]
mod generate {
    use super::compile::{Compiled, INSTRUCTION_BYTES, compile};
    use protocol::policy::Arch;
    use std::error::Error;
    use std::fmt::Write;
    use std::path::Path;

    /// Writes `filter.rs` and passes the version of libseccomp on.
    pub fn filter() -> Result<(), Box<dyn Error>> {
        let target = std::env::var("CARGO_CFG_TARGET_ARCH")?;
        let arch = Arch::from_name(&target).ok_or_else(|| {
            format!(
                "vestibule-jail has no system call policy for {target}: build for x86_64 or aarch64"
            )
        })?;
        rerun_if_library_changes();
        let compiled = compile(arch)?;
        let out = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: build with cargo")?;
        std::fs::write(Path::new(&out).join("filter.rs"), source(arch, &compiled)?)?;
        println!("cargo:rustc-env=VESTIBULE_LIBSECCOMP={}", compiled.libseccomp);
        Ok(())
    }

    fn source(arch: Arch, compiled: &Compiled) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        writeln!(text, "const ARCH: Arch = Arch::{arch:?};")?;
        let instructions = compiled.bytes.as_chunks::<INSTRUCTION_BYTES>().0;
        writeln!(text, "static PROGRAM: [Instruction; {}] = [", instructions.len())?;
        for &[code0, code1, jt, jf, k0, k1, k2, k3] in instructions {
            // Both targets are little endian.
            let code = u16::from_le_bytes([code0, code1]);
            let k = u32::from_le_bytes([k0, k1, k2, k3]);
            writeln!(text, "    Instruction {{ code: {code}, jt: {jt}, jf: {jf}, k: {k} }},")?;
        }
        let reported = &compiled.reported;
        writeln!(text, "];\nstatic REPORTED: [(i32, &str); {}] = [", reported.len())?;
        for (number, name) in reported {
            writeln!(text, "    ({number}, {name:?}),")?;
        }
        let unknown = Vec::from_iter(&compiled.unknown);
        writeln!(text, "];\nstatic UNKNOWN_NAMES: &[&str] = &{unknown:?};")?;
        Ok(text)
    }

    /// Runs this again after libseccomp was upgraded. A statically linked one can't be seen here;
    /// the test that compiles once more and compares notices it.
    fn rerun_if_library_changes() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let library = maps
            .lines()
            .filter_map(|line| line.find('/').and_then(|start| line.get(start..)))
            .find(|path| path.contains("/libseccomp.so"));
        if let Some(path) = library {
            println!("cargo:rerun-if-changed={path}");
        }
    }
}
