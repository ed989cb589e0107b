//! The guest's environment: composed from nothing, never inherited.

/// The name of the sandbox's user.
pub const USER: &str = "sandbox";

/// The guest's variables but `PATH`, which depends on the root file system.
pub const VARIABLES: [(&str, &str); 8] = [
    ("HOME", "/tmp"),
    ("TMPDIR", "/tmp"),
    ("USER", USER),
    ("LOGNAME", USER),
    ("SHELL", "/bin/bash"),
    ("LANG", "C.UTF-8"),
    ("TERM", "dumb"),
    // Without it, what python printed before a timeout is lost in its buffer. What unbuffered
    // writes cost is bounded by the output cap.
    ("PYTHONUNBUFFERED", "1"),
];
