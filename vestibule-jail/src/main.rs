//! `vestibule-jail`: see the library of the same name.
#![cfg_attr(target_os = "linux", no_main)]

#[cfg(target_os = "linux")]
vestibule_jail::entry!(vestibule_jail::main);

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("vestibule-jail: native isolation needs Linux");
    std::process::exit(1);
}
