//! Reading `/proc/PID/status`, proc(5).

use crate::procfs;
use std::path::Path;

/// The lines of a status that say what a process may do.
#[derive(Debug, Default, PartialEq)]
pub struct Status {
    /// The inheritable, permitted, effective, bounding and ambient sets, as masks.
    pub capabilities: Vec<u64>,
    /// Whether `no_new_privs` is set.
    pub no_new_privs: bool,
    /// The filter mode: 0 none, 2 a filter.
    pub seccomp: u32,
    /// The ignored signals as a mask; the lowest bit is signal 1.
    pub ignored: u64,
}

impl Status {
    /// Whether all five sets were found and are empty.
    pub fn has_no_capability(&self) -> bool {
        self.capabilities.len() == 5 && self.capabilities.iter().all(|set| *set == 0)
    }
}

/// Reads a status file.
///
/// # Errors
/// The errno of reading the file.
pub fn read(path: &Path) -> nix::Result<Status> {
    procfs::read(path).map(|text| parse(&text))
}

fn parse(text: &str) -> Status {
    let mut status = Status::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match name {
            "CapInh" | "CapPrm" | "CapEff" | "CapBnd" | "CapAmb" => {
                status.capabilities.push(u64::from_str_radix(value, 16).unwrap_or(u64::MAX));
            }
            "NoNewPrivs" => status.no_new_privs = value == "1",
            // What cannot be read counts as ignored: resetting a signal too many does no harm.
            "SigIgn" => status.ignored = u64::from_str_radix(value, 16).unwrap_or(u64::MAX),
            "Seccomp" => status.seccomp = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Name:\tx\nSigIgn:\t0000000000001001\nCapInh:\t0\nCapPrm:\t0\nCapEff:\t0\n\
                        CapBnd:\t0000000000000000\nCapAmb:\t0\nNoNewPrivs:\t1\nSeccomp:\t2\n";

    #[test]
    fn a_status_is_read() {
        let status = parse(TEXT);
        assert!(status.has_no_capability() && status.no_new_privs);
        assert_eq!(status.seccomp, 2);
        assert_eq!(status.ignored, 1 << 12 | 1);
    }

    #[test]
    fn one_bit_in_any_set_and_one_missing_set_count() {
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            let with = TEXT.replace(&format!("{set}:\t0"), &format!("{set}:\t8"));
            assert!(!parse(&with).has_no_capability(), "{set}");
            let without = TEXT.replace(&format!("{set}:\t0\n"), "");
            assert!(!parse(&without).has_no_capability(), "{set}");
        }
    }
}
