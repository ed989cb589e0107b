//! Which limits are in force in a container, by the files of its cgroup.

use super::probe::Seen;
use protocol::{Limit, Limits};

/// The limits that are not.
pub fn not_applied(seen: &Seen, limits: &Limits) -> Vec<Limit> {
    let pids = number(seen, &["pids.max", "pids/pids.max"]);
    let states = [
        (Limit::Cpu, cpu_is_capped(seen, limits)),
        (Limit::Memory, memory_is_capped(seen, limits)),
        (Limit::Pids, pids.is_some_and(|pids| pids <= u64::from(limits.pids_max.get()))),
    ];
    states.into_iter().filter(|(_, holds)| !holds).map(|(limit, _)| limit).collect()
}

fn memory_is_capped(seen: &Seen, limits: &Limits) -> bool {
    let cap = u64::from(limits.memory_mib.get()) * 1024 * 1024;
    let memory = number(seen, &["memory.max", "memory/memory.limit_in_bytes"]);
    let no_swap = match (
        number(seen, &["memory.swap.max"]),
        number(seen, &["memory/memory.memsw.limit_in_bytes"]),
    ) {
        (Some(swap), _) => swap == 0,
        (None, Some(together)) => together <= cap,
        // A kernel that does not count swap; without any there is none to use.
        (None, None) => !seen.swap,
    };
    memory.is_some_and(|memory| memory <= cap) && no_swap
}

fn cpu_is_capped(seen: &Seen, limits: &Limits) -> bool {
    let (quota, period) = match seen.cgroup.get("cpu.max").and_then(|text| text.split_once(' ')) {
        Some((quota, period)) => (quota.parse().ok(), period.parse().ok()),
        None => (number(seen, &["cpu/cpu.cfs_quota_us"]), number(seen, &["cpu/cpu.cfs_period_us"])),
    };
    let (Some(quota), Some(period)): (Option<u64>, Option<u64>) = (quota, period) else {
        return false;
    };
    // Engines round the quota to whole microseconds.
    u128::from(quota) * 100 <= (u128::from(limits.cpu_percent.get()) + 1) * u128::from(period)
}

/// The number in the first of these files that is there; `max` and -1 are none.
fn number(seen: &Seen, files: &[&str]) -> Option<u64> {
    files.iter().find_map(|file| seen.cgroup.get(*file))?.parse().ok()
}
