//! The calls that no rule names.

/// Names of the calls that the kernel has on one of the architectures and that no rule names: they get
/// [`UNLISTED`](super::UNLISTED). libseccomp, which compiles the helper's own filter, knows them by
/// itself; a profile for a container engine has to name them, or they would be taken for unknown.
/// From libseccomp 2.5.4 and 2.6.0 and, for the newest, the kernel's tables of Linux 7.1.
#[rustfmt::skip] // one call per line would make a page of it
pub const UNLISTED_NAMES: &[&str] = &[
    "_sysctl", "afs_syscall", "create_module", "file_getattr", "file_setattr", "get_kernel_syms",
    "get_mempolicy", "getpmsg", "kcmp", "listns", "lookup_dcookie", "lsm_get_self_attr",
    "lsm_list_modules", "lsm_set_self_attr", "mbind", "migrate_pages", "move_pages", "nfsservctl",
    "open_tree_attr", "pidfd_getfd", "process_madvise", "putpmsg", "query_module",
    "rseq_slice_yield", "security", "set_mempolicy", "set_mempolicy_home_node", "sysfs", "tuxcall",
    "uprobe", "uselib", "ustat", "vhangup", "vserver",
];
