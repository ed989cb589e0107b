//! The syscall filter: what is refused, what is reported, and what goes on working.

use tests::{Outcome, Place, Reply, skip};

tests::tests![
    an_ordinary_program_reports_nothing,
    dangerous_calls_are_refused_and_listed,
    clone_with_namespace_flags_is_refused_and_listed,
    socket_families_are_limited,
    unknown_numbers_and_clone3_are_enosys,
    foreign_abis_are_enosys,
    threads_and_child_processes_work,
    reports_stop_after_256,
    a_raised_core_limit_has_no_effect,
    a_filter_of_the_guests_own_can_be_added,
    a_listener_of_the_guests_own_is_refused_after_the_reports_have_stopped,
    btrfs_snapshots_are_refused,
    nobody_takes_a_lease,
    socket_filters_are_refused,
];

const CALL: &str = r"
import ctypes, errno, os, platform
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    ctypes.set_errno(0)
    result = libc.syscall(*(ctypes.c_long(a) for a in args))
    return 'allowed' if result >= 0 else errno.errorcode[ctypes.get_errno()]
";

fn denied(reply: &Reply) -> Vec<&str> {
    reply.line("blocked syscalls").map_or(Vec::new(), |line| line.split(", ").collect())
}

/// The call's number on this architecture: x86_64, and aarch64's generic table.
fn number(x86_64: u32, generic: u32) -> u32 {
    if cfg!(target_arch = "x86_64") { x86_64 } else { generic }
}

fn an_ordinary_program_reports_nothing() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let programs =
        [("python", "print('hello')"), ("bash", "echo hello"), ("node", "console.log('hello')")];
    for (language, code) in programs {
        let reply = server.run(language, code);
        assert_eq!(reply.success(), "hello", "{language}");
        assert_eq!(denied(&reply), [""; 0], "{language}");
    }
    Ok(())
}

fn dangerous_calls_are_refused_and_listed() -> Outcome {
    let place = Place::new();
    let calls = [
        ("mount", number(165, 40)),
        ("umount2", number(166, 39)),
        ("pivot_root", number(155, 41)),
        ("unshare", number(272, 97)),
        ("setns", number(308, 268)),
        ("bpf", number(321, 280)),
        ("keyctl", number(250, 219)),
        ("add_key", number(248, 217)),
        ("request_key", number(249, 218)),
        ("reboot", number(169, 142)),
        ("kexec_load", number(246, 104)),
        ("init_module", number(175, 105)),
        ("finit_module", number(313, 273)),
        ("delete_module", number(176, 106)),
        ("perf_event_open", number(298, 241)),
        ("userfaultfd", number(323, 282)),
        ("swapon", number(167, 224)),
        ("swapoff", number(168, 225)),
        ("open_by_handle_at", number(304, 265)),
    ];
    let list: Vec<String> = calls.iter().map(|(name, n)| format!("('{name}', {n})")).collect();
    let code = format!(
        "{CALL}\nfor name, n in [{}]: print(name, call(n, 0, 0, 0, 0, 0))",
        list.join(", ")
    );
    let reply = place.server().start().run("python", &code);
    let got = reply.success();
    for ((name, _), line) in calls.iter().zip(got.lines()) {
        assert_eq!(line, format!("{name} EPERM"));
    }
    let mut expected: Vec<&str> = calls.iter().map(|(name, _)| *name).collect();
    let mut listed = denied(&reply);
    expected.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, expected, "{}", reply.text);
    Ok(())
}

fn clone_with_namespace_flags_is_refused_and_listed() -> Outcome {
    let place = Place::new();
    let clone = number(56, 220);
    let code = format!(
        "{CALL}\nfor flag in (0x10000000, 0x20000000, 0x40000000, 0x00020000, 0x02000000, 0x04000000, 0x08000000):\n    \
         print(call({clone}, flag | 17, 0, 0, 0, 0))"
    );
    let reply = place.server().start().run("python", &code);
    assert_eq!(reply.success(), ["EPERM"; 7].join("\n"));
    assert_eq!(denied(&reply), ["clone"]);
    Ok(())
}

fn socket_families_are_limited() -> Outcome {
    let place = Place::new();
    let code = r"
import errno, socket
allowed = []
for family in range(1, 46):
    for kind in (1, 2, 3, 5):
        try: socket.socket(family, kind, 0).close(); allowed.append((family, kind))
        except OSError as e:
            if e.errno not in (errno.EPERM, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT, errno.EPROTOTYPE): print(family, kind, e)
print(allowed)
";
    let reply = place.server().start().run("python", code);
    // UNIX with streams, datagrams and sequences; INET, INET6 with streams and datagrams; NETLINK.
    let expected = "[(1, 1), (1, 2), (1, 5), (2, 1), (2, 2), (10, 1), (10, 2), (16, 2), (16, 3)]";
    assert_eq!(reply.success(), expected);
    assert_eq!(denied(&reply), ["socket"]);
    Ok(())
}

fn unknown_numbers_and_clone3_are_enosys() -> Outcome {
    let place = Place::new();
    let code = format!("{CALL}\nprint(call(435, 0, 0), call(9999), call(700), call(425, 1, 0))");
    let reply = place.server().start().run("python", &code);
    // The last is io_uring_setup, which node tries: refused, but not worth a report.
    let got = reply.success();
    assert!(got.starts_with("ENOSYS ENOSYS ENOSYS "), "{got}");
    assert!(!got.contains("allowed"), "{got}");
    assert_eq!(denied(&reply), [""; 0]);
    Ok(())
}

fn foreign_abis_are_enosys() -> Outcome {
    if cfg!(target_arch = "x86_64") { x86_calls_are_enosys() } else { arm_calls_are_enosys() }
}

fn x86_calls_are_enosys() -> Outcome {
    let place = Place::new();
    // mov eax, 20 (getpid of i386); int 0x80; ret - and getpid with x32's bit set.
    let code = format!(
        "{CALL}\nimport mmap\n\
         page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n\
         page.write(bytes.fromhex('b814000000cd80c3'))\n\
         address = ctypes.addressof(ctypes.c_char.from_buffer(page))\n\
         print(ctypes.CFUNCTYPE(ctypes.c_int)(address)())\n\
         print(call(0x40000000 + 39))"
    );
    let got = place.server().start().run("python", &code).success();
    assert_eq!(got, "-38\nENOSYS");
    Ok(())
}

/// A program of 32-bit ARM can tell what its calls get only by how it dies: by an illegal instruction
/// if `getpid` is ENOSYS, with exit code 42 if calls work, by a segmentation fault if neither.
const ARM_PROGRAM: &str = r"
import os, struct, subprocess
code = struct.pack('<10I',
    0xe3a07014, 0xef000000,  # mov r7, #20; svc #0: getpid
    0xe3700026, 0x1a000000,  # cmn r0, #38; bne over the next
    0xe7f000f0,              # udf #0
    0xe3a07001, 0xe3a0002a, 0xef000000,  # mov r7, #1; mov r0, #42; svc #0: exit
    0xe3a00000, 0xe5900000)  # mov r0, #0; ldr r0, [r0]
base, head = 0x10000, 52 + 32
elf = b'\x7fELF\x01\x01\x01'.ljust(16, b'\0')
elf += struct.pack('<HHIIIIIHHHHHH', 2, 40, 1, base + head, 52, 0, 0x05000000, 52, 32, 1, 0, 0, 0)
elf += struct.pack('<8I', 1, 0, base, base, head + len(code), head + len(code), 5, base)
with open('arm', 'wb') as file: file.write(elf + code)
os.chmod('arm', 0o755)
try: print(subprocess.run(['./arm']).returncode)
except OSError as error: print(error.strerror)
";

fn arm_calls_are_enosys() -> Outcome {
    let place = Place::new();
    let mut outside = place.command("/usr/bin/python3");
    let output = outside.args(["-c", ARM_PROGRAM]).output().expect("python starts");
    match String::from_utf8_lossy(&output.stdout).trim() {
        "42" => {}
        "Exec format error" => return skip("needs a machine that runs 32-bit programs"),
        other => panic!("outside of the sandbox: {other}"),
    }
    let got = place.server().start().run("python", ARM_PROGRAM).success();
    assert_eq!(got, "-4");
    Ok(())
}

fn threads_and_child_processes_work() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let python = "import subprocess, threading\n\
                  threads = [threading.Thread(target=print, args=('thread',)) for _ in range(8)]\n\
                  for t in threads: t.start()\n\
                  for t in threads: t.join()\n\
                  print(subprocess.run(['bash', '-c', 'echo child'], capture_output=True).stdout)\n\
                  import multiprocessing\n\
                  print(multiprocessing.Pool(2).map(abs, [-1, -2]))";
    let got = server.run("python", python).success();
    assert!(got.ends_with("b'child\\n'\n[1, 2]") && got.matches("thread").count() == 8, "{got}");
    let node = "const { Worker } = require('worker_threads');\n\
                const w = new Worker('require(\"worker_threads\").parentPort.postMessage(7)', { eval: true });\n\
                w.on('message', v => console.log(v, require('child_process').execSync('echo child') + ''));";
    assert_eq!(server.run("node", node).success().trim(), "7 child");
    Ok(())
}

fn reports_stop_after_256() -> Outcome {
    let place = Place::new();
    let unshare = number(272, 97);
    let code = format!(
        "{CALL}\nseen = [call({unshare}, 0x10000000) for _ in range(300)]\nprint(seen.count('EPERM'), seen.count('ENOSYS'))"
    );
    let reply = place.server().start().run("python", &code);
    assert_eq!(reply.success(), "256 44");
    assert_eq!(denied(&reply), ["unshare"]);
    assert!(reply.line("note").is_some_and(|note| note.contains("256")), "{}", reply.text);
    Ok(())
}

fn a_raised_core_limit_has_no_effect() -> Outcome {
    let place = Place::new();
    let code = "import os, resource\n\
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n\
                print(resource.getrlimit(resource.RLIMIT_CORE))\n\
                os.abort()";
    let reply = place.server().start().run("python", code);
    assert_eq!(reply.stdout(), "(1, 1)");
    assert_eq!(reply.exit_code(), 134);
    let left = std::fs::read_dir(place.workspace()).expect("the workspace").count();
    assert_eq!(left, 0, "a core file");
    Ok(())
}

fn a_filter_of_the_guests_own_can_be_added() -> Outcome {
    let place = Place::new();
    // SECCOMP_SET_MODE_FILTER with one instruction: allow.
    let seccomp = number(317, 277);
    let code = format!(
        "{CALL}\nimport struct\n\
         program = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))\n\
         head = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', 1, ctypes.addressof(program)))\n\
         print(call({seccomp}, 1, 0, ctypes.addressof(head)), call({}, 0x10000000))",
        number(272, 97)
    );
    assert_eq!(place.server().start().run("python", &code).success(), "allowed EPERM");
    Ok(())
}

/// A listener could answer reported calls with "continue" once ours is closed.
fn a_listener_of_the_guests_own_is_refused_after_the_reports_have_stopped() -> Outcome {
    let place = Place::new();
    let (unshare, seccomp) = (number(272, 97), number(317, 277));
    // A filter that reports every call of `socket` to a listener of its own.
    let code = format!(
        "{CALL}\nimport socket, struct\n\
         def load(flags):\n\
         \x20   rule = lambda *a: struct.pack('HBBI', *a)\n\
         \x20   text = rule(0x20, 0, 0, 0) + rule(0x15, 0, 1, {}) + rule(6, 0, 0, 0x7fc00000) + rule(6, 0, 0, 0x7fff0000)\n\
         \x20   program = ctypes.create_string_buffer(text)\n\
         \x20   head = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', 4, ctypes.addressof(program)))\n\
         \x20   return call({seccomp}, 1, flags, ctypes.addressof(head))\n\
         print(load(8), load(8 | 1 << 40))\n\
         while call({unshare}, 0) != 'ENOSYS': pass\n\
         print(load(8), load(8 | 1), load(8 | 16), load(8 | 1 << 40))\n\
         try: print(socket.socket(40, socket.SOCK_STREAM))\n\
         except OSError as e: print(errno.errorcode[e.errno])",
        number(41, 198)
    );
    let got = place.server().start().run("python", &code);
    assert_eq!(got.success(), "EPERM EPERM\nEPERM EPERM EPERM EPERM\nENOSYS");
    Ok(())
}

/// Before Linux 6.8 the owner of a folder may snapshot the whole subvolume that it lies in.
fn btrfs_snapshots_are_refused() -> Outcome {
    let place = Place::new();
    let ioctl = number(16, 29);
    let code = format!(
        "{CALL}\nfd = os.open('/workspace', os.O_RDONLY)\n\
         print([call({ioctl}, fd, request, 0) for request in \
         (0x50009401, 0x50009417, 0x50009401 | 1 << 32)], call({ioctl}, fd, 0x5421, 0))"
    );
    let got = place.server().start().run("python", &code);
    let got = got.success();
    assert!(got.starts_with("['EPERM', 'EPERM', 'EPERM'] ") && !got.ends_with(" EPERM"), "{got}");
    Ok(())
}

/// Its owner could make every other run, and every program of the machine, wait for a file.
fn nobody_takes_a_lease() -> Outcome {
    let place = Place::new();
    let code = "import errno, fcntl, os\n\
        fd = os.open('f', os.O_CREAT | os.O_RDWR)\n\
        folder = os.open('.', os.O_RDONLY)\n\
        def lease(fd, command, argument):\n\
        \x20   try: return fcntl.fcntl(fd, command, argument)\n\
        \x20   except OSError as e: return errno.errorcode[e.errno]\n\
        print(*[lease(fd, 1024, kind) for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK)])\n\
        print(lease(fd, 1040, 0), lease(folder, 1040, 0))\n\
        fcntl.fcntl(fd, fcntl.F_SETFD, fcntl.fcntl(fd, fcntl.F_GETFD))\n\
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK)\n\
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n\
        fcntl.fcntl(os.pipe()[0], fcntl.F_SETPIPE_SZ, 4096)\n\
        print(fcntl.fcntl(fd, fcntl.F_GETLEASE) == fcntl.F_UNLCK, fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 9) > 8)";
    let reply = place.server().start().run("python", code);
    assert_eq!(reply.success(), "EPERM EPERM EPERM\nEPERM EPERM\nTrue True");
    Ok(())
}

/// They are memory that no limit counts, and their room is the whole machine's.
fn socket_filters_are_refused() -> Outcome {
    let place = Place::new();
    let code = "import ctypes, errno, socket, struct\n\
        text = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0xffff))\n\
        program = struct.pack('HxxxxxxQ', 1, ctypes.addressof(text))\n\
        def attach(s, option):\n\
        \x20   try: s.setsockopt(socket.SOL_SOCKET, option, program); return 'attached'\n\
        \x20   except OSError as e: return errno.errorcode[e.errno]\n\
        for family in socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK:\n\
        \x20   s = socket.socket(family, socket.SOCK_DGRAM)\n\
        \x20   print(attach(s, 26), attach(s, 51))\n\
        \x20   for name in 'SO_RCVBUF', 'SO_SNDBUF', 'SO_REUSEADDR':\n\
        \x20       s.setsockopt(socket.SOL_SOCKET, getattr(socket, name), 1)\n\
        s = socket.socket()\n\
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n\
        s.settimeout(3)\n\
        a, b = socket.socketpair()\n\
        assert len(a.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)) == 12\n\
        print('others work')";
    let reply = place.server().start().run("python", code);
    assert_eq!(reply.success(), "EPERM EPERM\n".repeat(4) + "others work");
    assert!(denied(&reply).is_empty(), "{}", reply.text);
    Ok(())
}
