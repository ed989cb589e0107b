//! Tests of which mounts a container may have.

use super::super::probe::tests::sandbox;
use super::*;

fn missing(lines: &[&str], read_only: bool) -> Vec<String> {
    let mut mounts = Mounts::default();
    for place in CAPPED {
        mounts.add(&format!("{place} rw tmpfs tmpfs rw,size=64k"));
    }
    for line in lines {
        match line.strip_prefix("writable ") {
            Some(place) => mounts.writable(place),
            None => mounts.add(line),
        }
    }
    mounts.missing(&sandbox(read_only))
}

#[test]
fn what_engines_mount_is_known() {
    let theirs = ["/ ro overlay", "/proc/kcore rw tmpfs tmpfs rw", "/sys/fs/cgroup/pids ro cgroup"];
    assert_eq!(missing(&theirs, false), Vec::<String>::new());
    assert_eq!(missing(&["/run/secrets ro tmpfs tmpfs ro,size=4k"], false), Vec::<String>::new());
    assert_eq!(missing(&["/run/secrets rw tmpfs tmpfs rw,size=4k"], false).len(), 1);
    for other in [
        "/usr/share/keys ro ext4",
        "/etc/localtime rw ext4",
        "/dev/shm/keys ro ext4",
        "/proc/keys ro ext4",
        "/sys/keys ro nfs",
        "/procs ro proc",
    ] {
        assert_eq!(missing(&[other], false).len(), 1, "{other}");
    }
}

#[test]
fn what_can_be_written_is_in_memory() {
    let theirs = ["/dev/mqueue rw mqueue", "writable /dev/mqueue", "writable /tmp"];
    assert_eq!(missing(&theirs, false), Vec::<String>::new());
    // Neither may it be there, nor be written.
    assert_eq!(missing(&["/etc/hosts rw ext4", "writable /etc/hosts"], false).len(), 2);
    assert_eq!(missing(&["writable /data"], false), ["a cap on /data"]);
}

#[test]
fn a_file_system_that_is_mounted_in_the_workspace_must_be_as_it_is_and_known() {
    // None is mounted below the folder of the tests' sandbox.
    assert!(missing(&["/workspace/a\\040b rw ext4"], false)[0].contains("there is /workspace/a"));
    assert!(missing(&["/workspace/a rw ext4"], true)[0].starts_with("a read-only /workspace/a"));
    assert_eq!(missing(&["/workspace/a ro ext4"], true).len(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn the_machines_own_mounts_are_found_and_written_as_the_kernel_writes_them() {
    let proc = below(Path::new(""));
    assert!(proc.iter().any(|place| place == "proc"), "{proc:?}");
    assert!(below(Path::new("/nonexistent")).is_empty());
    assert_eq!(escaped("/a b\\c"), "/a\\040b\\134c");
}
