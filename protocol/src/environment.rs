//! The guest's environment: composed from nothing, never inherited. And what it finds of users and hosts.

/// The name of the sandbox's user.
pub const USER: &str = "sandbox";

/// The sandbox's host name.
pub const HOST_NAME: &str = "vestibule";

/// Where compiled python modules appear, of a sandbox that has any. Not below `/sandbox`, where a script's
/// own imports are looked for.
pub const BYTECODE: &str = "/pycache";

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

/// The files in `/etc` that name users, hosts and name servers: those of the sandbox and none of the
/// machine's. `uid` and `gid` are the guest's inside.
pub fn files(uid: u32, gid: u32) -> [(&'static str, String); 4] {
    [
        (
            "passwd",
            format!(
                "root:x:0:0:root:/:/usr/sbin/nologin\n\
                 {USER}:x:{uid}:{gid}::/tmp:/bin/bash\n\
                 nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
            ),
        ),
        ("group", format!("root:x:0:\n{USER}:x:{gid}:\nnogroup:x:65534:\n")),
        ("hosts", format!("127.0.0.1 localhost {HOST_NAME}\n::1 localhost\n")),
        // Empty: there is no name server.
        ("resolv.conf", String::new()),
    ]
}
