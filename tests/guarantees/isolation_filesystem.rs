//! What a run sees of the machine's files, and where it can write.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use tests::{Outcome, Place, Server};

tests::tests![
    the_hosts_files_are_absent,
    only_three_places_can_be_written,
    tmp_is_private_to_a_run_and_capped,
    shared_memory_is_capped,
    terminals_are_capped,
    every_tmpfs_has_an_inode_cap,
    the_workspace_persists,
    a_read_only_workspace_refuses_writes,
    etc_is_synthesized,
    usr_local_and_usr_src_are_masked,
    every_mount_is_nosuid_and_nodev,
    the_old_root_is_gone,
    proc_is_masked,
    no_setuid_file_can_be_made,
    the_usual_devices_work_and_no_other_exists,
];

/// Runs python code that must succeed.
#[track_caller]
fn python(server: &mut Server, code: &str) -> String {
    server.run("python", code).success()
}

fn the_hosts_files_are_absent() -> Outcome {
    let place = Place::new();
    let secret = place.file("secret.txt", "planted outside the workspace");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).expect("ours");
    let code = format!(
        "import os\n\
         print(os.path.lexists({:?}))\n\
         for path in '/home /root /var /opt /run /mnt /srv /sys /boot /media /lost+found'.split():\n    \
             print(path, os.listdir(path) if os.path.isdir(path) else 'absent')",
        secret.display().to_string()
    );
    let got = python(&mut place.server().start(), &code);
    let mut lines = got.lines();
    assert_eq!(lines.next(), Some("False"), "the secret is visible");
    for line in lines {
        assert!(line.ends_with(" absent") || line.ends_with(" []"), "of the host: {line}");
    }
    Ok(())
}

fn only_three_places_can_be_written() -> Outcome {
    let code = r"
import os
def writable(folder):
    try:
        with open(folder + '/probe', 'w') as f: f.write('x')
        os.unlink(folder + '/probe')
        return True
    except OSError:
        return False
seen = set()
for top, folders, files in os.walk('/'):
    folders[:] = [f for f in folders if not (top == '/' and f == 'proc')]
    if os.path.realpath(top) not in seen and writable(top): print(os.path.realpath(top))
    seen.add(os.path.realpath(top))
";
    let place = Place::new();
    let mut server = place.server().start();
    let got = server.run_for(60, "python", code).success();
    let mut writable: Vec<&str> = got.lines().collect();
    writable.sort_unstable();
    assert_eq!(writable, ["/dev/shm", "/tmp", "/workspace"]);
    Ok(())
}

fn tmp_is_private_to_a_run_and_capped() -> Outcome {
    let place = Place::new();
    let mut server = place.server().set("VESTIBULE_TMPFS_MB", "8").start();
    let fill = "import os\n\
                written = 0\n\
                try:\n    \
                    with open('/tmp/big', 'wb', buffering=0) as f:\n        \
                        while True: written += f.write(b'x' * 65536)\n\
                except OSError as e:\n    \
                    print(e.errno, written >> 20)";
    assert_eq!(python(&mut server, fill), "28 8", "ENOSPC at the cap of 8 MiB");
    assert_eq!(python(&mut server, "import os; print(os.listdir('/tmp'))"), "[]");
    Ok(())
}

fn shared_memory_is_capped() -> Outcome {
    let place = Place::new();
    let fill = "written = 0\n\
                try:\n    \
                    with open('/dev/shm/big', 'wb', buffering=0) as f:\n        \
                        while True: written += f.write(b'x' * 1048576)\n\
                except OSError as e:\n    \
                    print(e.errno, written >> 20)";
    assert_eq!(python(&mut place.server().start(), fill), "28 64");
    Ok(())
}

/// Their buffers are the kernel's memory, which no limit of a run counts.
fn terminals_are_capped() -> Outcome {
    let place = Place::new();
    let code = "import os\n\
                ends = []\n\
                try:\n    \
                    while True: ends.append(os.openpty())\n\
                except OSError: print(0 < len(ends) <= 64)";
    assert_eq!(python(&mut place.server().start(), code), "True");
    Ok(())
}

fn every_tmpfs_has_an_inode_cap() -> Outcome {
    let place = Place::new();
    let code = "import os\n\
                for line in open('/proc/self/mountinfo'):\n    \
                    left, right = line.split(' - ')\n    \
                    if right.split()[0] == 'tmpfs' and left.split()[4] != '/workspace':\n        \
                        print(left.split()[4], 'size=' in right, 'nr_inodes=' in right)";
    let got = python(&mut place.server().start(), code);
    assert!(got.contains("/tmp True True"), "{got}");
    for line in got.lines() {
        assert!(line.ends_with("True True"), "a tmpfs without caps: {line}");
    }
    Ok(())
}

fn the_workspace_persists() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    server.run("bash", "echo kept > /workspace/note").success();
    assert_eq!(
        server.run("node", "process.stdout.write(require('fs').readFileSync('note'))").success(),
        "kept"
    );
    let meta = fs::metadata(place.workspace().join("note")).expect("the file is on the host");
    assert_eq!(meta.uid(), place.uid(), "the file belongs to the server's user");
    let mode = fs::metadata(place.workspace()).expect("the workspace").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "the workspace is made private");
    Ok(())
}

fn a_read_only_workspace_refuses_writes() -> Outcome {
    let place = Place::new();
    let folder = place.folder("ws");
    place.file("ws/there", "readable");
    let mut server = place
        .server()
        .set("VESTIBULE_WORKSPACE", &folder)
        .set("VESTIBULE_WORKSPACE_RO", "1")
        .start();
    let reply = server.run("bash", "cat there; echo x > there; rm there; touch new");
    assert_eq!(reply.stdout(), "readable");
    assert_eq!(reply.stderr().matches("Read-only file system").count(), 3, "{}", reply.text);
    assert_eq!(fs::read_dir(&folder).expect("the workspace").count(), 1);
    Ok(())
}

fn etc_is_synthesized() -> Outcome {
    let place = Place::new();
    let code = "import os, pwd, socket\n\
                print(len(pwd.getpwall()), pwd.getpwuid(os.getuid()).pw_dir)\n\
                print(os.path.exists('/etc/shadow'), os.path.exists('/etc/fstab'))\n\
                print(repr(open('/etc/resolv.conf').read()), repr(open('/etc/machine-id').read()))\n\
                print(socket.gethostname(), socket.gethostbyname('localhost'))";
    let got = python(&mut place.server().start(), code);
    let lines: Vec<&str> = got.lines().collect();
    let (accounts, home) = lines[0].split_once(' ').expect("two words");
    assert!(accounts.parse::<usize>().expect("a number") <= 4, "the host's accounts: {got}");
    assert_eq!(home, "/tmp");
    assert_eq!(lines[1..], ["False False", "'' ''", "vestibule 127.0.0.1"]);
    Ok(())
}

fn usr_local_and_usr_src_are_masked() -> Outcome {
    let place = Place::new();
    let got = python(
        &mut place.server().start(),
        "import os\nprint(os.path.realpath('/usr/bin/python3'))\nfor p in ('/usr/src', '/usr/local'): print(os.listdir(p) if os.path.exists(p) else [])",
    );
    let lines: Vec<&str> = got.lines().collect();
    assert_eq!(lines[1], "[]", "/usr/src is of the host");
    if !lines[0].starts_with("/usr/local/") {
        assert_eq!(lines[2], "[]", "/usr/local is of the host");
    }
    Ok(())
}

/// The guest's mount table: mount point, options of the mount, file system, source.
fn mounts(server: &mut Server) -> Vec<[String; 4]> {
    let table = server.run("bash", "cat /proc/self/mountinfo").success();
    let row = |line: &str| {
        let (left, right) = line.split_once(" - ").expect("a mountinfo line");
        let (left, right): (Vec<&str>, Vec<&str>) =
            (left.split(' ').collect(), right.split(' ').collect());
        [left[4], left[5], right[0], right[1]].map(str::to_owned)
    };
    table.lines().map(row).collect()
}

fn every_mount_is_nosuid_and_nodev() -> Outcome {
    let place = Place::new();
    for [point, options, kind, _] in mounts(&mut place.server().start()) {
        let has = |option: &str| options.split(',').any(|o| o == option);
        assert!(has("nosuid"), "{point} allows setuid: {options}");
        // A device is a mount of its own, and /dev/null covers the files of /proc that are masked.
        let device = point.starts_with("/dev/") && point != "/dev/shm"
            || point.starts_with("/proc/") && has("ro");
        assert!(has("nodev") || device, "{point} allows devices: {options}");
        let writable = ["/workspace", "/tmp", "/dev/shm", "/proc"].contains(&point.as_str());
        assert!(has("ro") || writable || device, "{point} ({kind}) is writable: {options}");
    }
    Ok(())
}

fn the_old_root_is_gone() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let mounts = mounts(&mut server);
    let roots: Vec<_> = mounts.iter().filter(|[point, ..]| point == "/").collect();
    assert_eq!(roots.len(), 1, "one root only: {roots:?}");
    assert_eq!(roots[0][2], "tmpfs", "the root is ours");
    let code = "import os\n\
                os.chdir('/')\n\
                for _ in range(50): os.chdir('..')\n\
                print(os.stat('.').st_ino == os.stat('/').st_ino, sorted(os.listdir('/')))";
    let got = python(&mut server, code);
    assert!(got.starts_with("True "), "{got}");
    for name in ["home", "root", "var", "boot", "sys"] {
        assert!(!got.contains(&format!("'{name}'")), "{name} in the root: {got}");
    }
    Ok(())
}

fn proc_is_masked() -> Outcome {
    let place = Place::new();
    let code = r"
import os
for name in 'kcore keys timer_list sched_debug acpi scsi asound latency_stats interrupts'.split():
    path = '/proc/' + name
    try:
        seen = os.listdir(path) if os.path.isdir(path) else open(path, 'rb').read(1)
    except OSError:
        seen = None
    if seen: print('readable:', path)
for path in ('/proc/sysrq-trigger', '/proc/sys/kernel/hostname', '/proc/irq', '/proc/bus', '/proc/fs', '/proc/pressure/cpu'):
    if os.access(path, os.W_OK): print('writable:', path)
";
    assert_eq!(python(&mut place.server().start(), code), "");
    Ok(())
}

fn no_setuid_file_can_be_made() -> Outcome {
    let place = Place::new();
    let code = r"
import ctypes, os, stat
libc = ctypes.CDLL(None, use_errno=True)
os.chdir('/workspace')
open('plain', 'w').close()
attempts = {
    'chmod': lambda: os.chmod('plain', 0o4755),
    'fchmod': lambda: os.fchmod(os.open('plain', os.O_RDONLY), 0o2755),
    'fchmodat': lambda: os.chmod('plain', 0o6755, dir_fd=os.open('.', os.O_RDONLY)),
    'open': lambda: os.open('opened', os.O_CREAT | os.O_WRONLY, 0o4755),
    'mknod': lambda: os.mknod('made', 0o104755),
    'creat': lambda: libc.creat(b'created', 0o4755),
    'tmpfile': lambda: os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o4755),
}
for name, attempt in attempts.items():
    try:
        attempt()
    except OSError as e:
        assert e.errno == 1, (name, e)
for name in os.listdir('.'):
    if os.stat(name).st_mode & 0o6000: print('setuid:', name)
";
    let mut server = place.server().start();
    assert_eq!(python(&mut server, code), "");
    for entry in fs::read_dir(place.workspace()).expect("the workspace") {
        let entry = entry.expect("an entry");
        let mode = entry.metadata().expect("its mode").permissions().mode();
        assert_eq!(mode & 0o6000, 0, "{:?} is setuid on the host", entry.path());
    }
    Ok(())
}

fn the_usual_devices_work_and_no_other_exists() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let code = r"
import os, stat
assert open('/dev/zero', 'rb').read(4) == bytes(4)
assert len(open('/dev/urandom', 'rb').read(8)) == len(open('/dev/random', 'rb').read(8)) == 8
open('/dev/null', 'w').write('x')
try: open('/dev/full', 'w', buffering=1).write('x\n')
except OSError as e: assert e.errno == 28
print('through', file=open('/dev/stdout', 'w'), flush=True)
assert os.path.realpath('/dev/fd') == '/proc/%d/fd' % os.getpid(), os.path.realpath('/dev/fd')
found = []
for top, folders, files in os.walk('/dev'):
    for name in files:
        mode = os.lstat(top + '/' + name).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode): found.append(top[5:] + '/' + name)
print(*sorted(name.strip('/') for name in found))
try: os.mknod('/tmp/sda', 0o60600, os.makedev(8, 0))
except OSError as e: print(e.errno)
";
    let got = python(&mut server, code);
    let lines: Vec<&str> = got.lines().collect();
    assert_eq!(lines[0], "through");
    let allowed = ["full", "null", "random", "urandom", "zero", "pts/ptmx", "ptmx", "tty"];
    for device in lines[1].split(' ') {
        assert!(allowed.contains(&device), "a device of the host: {device}");
    }
    assert_eq!(lines[2], "1", "making a device is EPERM");
    Ok(())
}
