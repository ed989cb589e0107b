//! Whether a user's own group has nobody else in it, as distributions with a umask of 002 make it.

use nix::unistd::{Gid, Group, Uid, User};
use std::fs;

/// The user's primary group, where it has the user's name and nobody else. What cannot be told is `None`.
pub fn private(user: Uid) -> Option<u32> {
    let user = User::from_uid(user).ok().flatten()?;
    let group = Group::from_gid(user.gid).ok().flatten()?;
    let alone = group.mem.iter().all(|member| *member == user.name);
    if group.name != user.name || !alone || user.gid == Gid::from_raw(0) {
        return None;
    }
    // A group does not name those whose primary one it is.
    let users = fs::read("/etc/passwd").ok()?;
    let (user, group) = (user.uid.as_raw(), user.gid.as_raw());
    is_primary_of_one(&String::from_utf8_lossy(&users), user, group).then_some(group)
}

/// Whether `group` is the primary group of `user` and of nobody else but root. A user who is not in this list
/// comes from a directory that cannot be searched for others.
fn is_primary_of_one(passwd: &str, user: u32, group: u32) -> bool {
    let mut found = false;
    for line in passwd.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut fields = line.split(':').skip(2);
        let mut number = || fields.next()?.parse::<u32>().ok();
        let (Some(uid), Some(gid)) = (number(), number()) else {
            // `+` takes in a directory's users.
            return false;
        };
        if gid == group && uid != 0 && uid != user {
            return false;
        }
        found |= gid == group && uid == user;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_primary_group_is_private_where_no_other_user_has_it() {
        let own =
            "root:x:0:0::/root:/bin/sh\n# a comment\n\nana:x:1000:1000:Ana:/home/ana:/bin/sh\n";
        let with = |line: &str| is_primary_of_one(&format!("{own}{line}\n"), 1000, 1000);
        assert!(with("bob:x:1001:1001::/:/bin/sh"));
        assert!(with("ana2:x:1000:1000::/:/bin/sh"), "it is the same user");
        assert!(with("toor:x:0:1000::/:/bin/sh"), "root may write anyway");
        assert!(!with("bob:x:1001:1000::/:/bin/sh"));
        assert!(!with("+::::::"));
        assert!(!with("bob:x"));
        assert!(!is_primary_of_one(own, 1002, 1002), "a user from elsewhere");
    }
}
