//! The limits of a run in its cgroup: set, read back, and read once more in the end.

use super::folder::Folder;
use crate::procfs;
use nix::errno::Errno;
use protocol::{Limit, Limits};
use std::path::Path;

/// The period of the CPU limit, in microseconds: the kernel's default.
const PERIOD: u64 = 100_000;

const ALL: [Limit; 3] = [Limit::Cpu, Limit::Memory, Limit::Pids];

/// For each limit that is not in force, why.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitStates(Vec<(Limit, String)>);

impl LimitStates {
    /// Why a limit is not in force.
    pub fn missing(&self, limit: Limit) -> Option<&str> {
        self.0.iter().find(|(missing, _)| *missing == limit).map(|(_, why)| why.as_str())
    }
}

/// Sets the limits and reads them back.
pub fn set(folder: &Folder, limits: &Limits) -> LimitStates {
    let missing = ALL.into_iter().filter_map(|limit| {
        let failed = |(file, value): (&str, String)| write(folder, file, &value).err();
        let why = files(limit, limits).into_iter().find_map(failed)?;
        Some((limit, why))
    });
    LimitStates(missing.collect())
}

/// The limits that were in force and are not any more: whoever may write to the folder, which is any
/// program of the user's, can change them.
pub fn lost(folder: &Folder, limits: &Limits, states: &LimitStates) -> Vec<Limit> {
    let holds = |limit: &Limit| {
        files(*limit, limits).iter().all(|(file, value)| holds(folder, file, value).is_ok())
    };
    let was_in_force = |limit: &Limit| states.missing(*limit).is_none();
    ALL.into_iter().filter(was_in_force).filter(|limit| !holds(limit)).collect()
}

/// What makes up a limit. Of memory: no swap on top, and the first kill ends the whole sandbox.
fn files(limit: Limit, limits: &Limits) -> Vec<(&'static str, String)> {
    match limit {
        Limit::Cpu => {
            let quota = u64::from(limits.cpu_percent.get()) * PERIOD / 100;
            vec![("cpu.max", format!("{quota} {PERIOD}"))]
        }
        Limit::Memory => {
            let bytes = u64::from(limits.memory_mib.get()) << 20;
            vec![
                ("memory.max", bytes.to_string()),
                ("memory.oom.group", "1".to_owned()),
                (SWAP, "0".to_owned()),
            ]
        }
        Limit::Pids => vec![("pids.max", limits.pids_max.to_string())],
    }
}

/// The file that a kernel which does not count swap does not have.
const SWAP: &str = "memory.swap.max";

/// Without swap there need not be a limit on it.
fn may_be_absent(file: &str) -> bool {
    file == SWAP
        && procfs::read(Path::new("/proc/swaps")).is_ok_and(|text| text.lines().count() <= 1)
}

/// Writes a value and reads it back.
fn write(folder: &Folder, file: &str, value: &str) -> Result<(), String> {
    let controller = file.split('.').next().unwrap_or(file);
    match folder.write(file, value) {
        Ok(()) => holds(folder, file, value),
        Err(Errno::ENOENT) if may_be_absent(file) => Ok(()),
        Err(Errno::ENOENT) => Err(format!("{controller} is not delegated")),
        Err(errno) => Err(format!("{file} cannot be set: {}", errno.desc())),
    }
}

/// Reads a value back.
fn holds(folder: &Folder, file: &str, value: &str) -> Result<(), String> {
    match folder.read(file) {
        Ok(now) if now == value => Ok(()),
        Ok(now) => Err(format!("{file} is {now} instead of {value}")),
        Err(Errno::ENOENT) if may_be_absent(file) => Ok(()),
        Err(errno) => Err(format!("{file} cannot be read: {}", errno.desc())),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    /// The files of a memory limit, as if it had been set.
    pub const MEMORY: [(&str, &str); 3] =
        [("memory.max", "268435456"), ("memory.oom.group", "1"), ("memory.swap.max", "0")];

    /// A folder with these files in place of a cgroup, and the limits in it.
    pub fn limited(test: &str, files: &[(&str, &str)]) -> (PathBuf, Folder, Limits, LimitStates) {
        let place = std::env::temp_dir().join(format!("vestibule-{test}-{}", std::process::id()));
        fs::create_dir(&place).unwrap();
        for (name, text) in files {
            fs::write(place.join(name), text).unwrap();
        }
        let folder = Folder::open(&place).unwrap();
        let limits = r#"{"memory_mib": 256, "cpu_percent": 75, "pids_max": 128, "tmpfs_mib": 1}"#;
        let limits = serde_json::from_str(limits).unwrap();
        let states = set(&folder, &limits);
        (place, folder, limits, states)
    }

    #[test]
    fn limits_that_hold_are_not_missing_and_a_controller_that_vanished_is_named() {
        let files = [&MEMORY[..], &[("pids.max", "128")]].concat();
        let (place, folder, limits, states) = limited("vanished", &files);
        assert_eq!(states.missing(Limit::Memory), None);
        assert_eq!(states.missing(Limit::Pids), None);
        assert_eq!(states.missing(Limit::Cpu), Some("cpu is not delegated"));
        assert_eq!(lost(&folder, &limits, &states), []);
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_limit_that_reads_back_as_another_is_not_in_force() {
        // Writing to a longer file leaves its rest, as a kernel that took another value would.
        let (place, _, _, states) = limited("other-value", &[("pids.max", "99999")]);
        assert_eq!(states.missing(Limit::Pids), Some("pids.max is 12899 instead of 128"));
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_limit_that_was_raised_or_taken_away_since_is_lost() {
        let files = [&MEMORY[..], &[("pids.max", "128"), ("cpu.max", "75000 100000")]].concat();
        for (file, lost_one) in [
            ("memory.max", Limit::Memory),
            ("memory.oom.group", Limit::Memory),
            ("cpu.max", Limit::Cpu),
            ("pids.max", Limit::Pids),
        ] {
            let (place, folder, limits, states) = limited("lost", &files);
            assert_eq!(states, LimitStates::default());
            fs::write(place.join(file), "max").unwrap();
            assert_eq!(lost(&folder, &limits, &states), [lost_one], "{file} was raised");
            fs::remove_file(place.join(file)).unwrap();
            assert_eq!(lost(&folder, &limits, &states), [lost_one], "{file} is gone");
            fs::remove_dir_all(place).unwrap();
        }
    }
}
