//! Tests of whether a workspace is taken for the one that was meant.

use super::super::probe::tests::sandbox;
use super::*;

fn seen(lines: &[&str]) -> Seen {
    let mut seen = Seen::default();
    for line in lines {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        seen.take(name, rest);
    }
    seen
}

fn temporary(read_only: bool) -> Sandbox {
    let workspace = std::env::temp_dir().canonicalize().unwrap();
    Sandbox { workspace, ..sandbox(read_only) }
}

#[test]
fn an_engine_on_a_machine_of_its_own_takes_a_round_trip() {
    let other = seen(&["boot 00000000-0000-0000-0000-000000000000", "workspace 1:2"]);
    assert_eq!(other.missing(&temporary(false), false, None), None);
    assert_eq!(Seen::default().missing(&temporary(false), false, None), None);
    let back = seen(&["boot x", "read token", "wrote"]);
    assert_eq!(back.missing(&temporary(false), false, Some("token")), Some(vec![]));
    let wrong = back.missing(&temporary(false), false, Some("another")).unwrap();
    assert!(wrong[0].contains("the workspace that was mounted"), "{wrong:?}");
    let deaf = seen(&["read token"]).missing(&temporary(false), false, Some("token")).unwrap();
    assert_eq!(deaf, ["a workspace that can be written"]);
}

#[cfg(target_os = "linux")]
#[test]
fn under_our_own_kernel_the_folder_is_known_by_its_numbers() {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let boot = format!("boot {}", boot.trim());
    let place = format!("workspace {}", numbers(&std::env::temp_dir()).unwrap());
    let right = seen(&[&boot, &place, "workspace-writable"]);
    assert_eq!(right.missing(&temporary(false), false, None), Some(vec![]));
    let other = seen(&[&boot, "workspace 1:2", "workspace-writable"]);
    assert_eq!(other.missing(&temporary(false), false, None).unwrap().len(), 1);
    // A folder that its owner may not write to, and that is not to be written.
    let locked = seen(&[&boot, &place]);
    assert_eq!(locked.missing(&temporary(true), true, None), Some(vec![]));
    let open = locked.missing(&temporary(true), false, None).unwrap();
    assert_eq!(open, ["a workspace that refuses writes"]);
    assert_eq!(locked.missing(&temporary(false), false, None).unwrap().len(), 1);
    // A link that leads to the same folder is another one tomorrow.
    let link = std::env::temp_dir().join(scratch::unique("vestibule-link"));
    std::os::unix::fs::symlink(std::env::temp_dir(), &link).unwrap();
    let through = Sandbox { workspace: link.clone(), ..sandbox(false) };
    assert_eq!(right.missing(&through, false, None).unwrap().len(), 1);
    std::fs::remove_file(link).unwrap();
}

#[test]
fn what_a_killed_probe_has_left_goes_when_it_is_old() {
    let folder = std::env::temp_dir().join(scratch::unique("vestibule-trip"));
    std::fs::create_dir(&folder).unwrap();
    let old = folder.join(".vestibule-probe-1");
    std::fs::write(&old, "").unwrap();
    let past = std::time::SystemTime::now() - STALE * 2;
    std::fs::File::options().write(true).open(&old).unwrap().set_modified(past).unwrap();
    std::fs::write(folder.join(".vestibule-probe-2"), "").unwrap();
    let trip = RoundTrip::new(&folder).unwrap();
    assert!(!old.exists() && folder.join(&trip.token).exists());
    drop(trip);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    std::fs::remove_dir_all(&folder).unwrap();
}
