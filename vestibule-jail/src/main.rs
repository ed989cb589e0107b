//! `vestibule-jail`: see the library of the same name.

#[cfg(target_os = "linux")]
fn main() {
    // A panic must never unwind into the other side of a clone.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("vestibule-jail: bug: {panic}");
        std::process::abort();
    }));
    std::process::exit(vestibule_jail::main());
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("vestibule-jail: native isolation needs Linux");
    std::process::exit(1);
}
