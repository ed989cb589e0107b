//! Reading `/proc/PID/mountinfo`, proc(5).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One mount.
#[derive(Debug, PartialEq)]
pub struct Mount<'a> {
    /// Where it is attached, seen from the reader's root.
    pub point: PathBuf,
    /// Its per-mount options, comma-separated.
    pub options: &'a str,
    /// The kind of its file system.
    pub filesystem: &'a str,
}

impl Mount<'_> {
    /// Whether the mount has this per-mount option.
    pub fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|given| given == option)
    }
}

/// The mounts of a mountinfo text, in its order. Lines that are none are left out.
pub fn parse(text: &str) -> impl Iterator<Item = Mount<'_>> {
    text.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut fields = left.split(' ').skip(4);
        let point = unescape(fields.next()?);
        let options = fields.next()?;
        let filesystem = right.split(' ').next()?;
        Some(Mount { point, options, filesystem })
    })
}

/// Blanks, tabs, newlines and backslashes stand as three octal digits.
fn unescape(field: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.first_chunk::<3>().and_then(octal);
        match code {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

fn octal(digits: &[u8; 3]) -> Option<u8> {
    let digit = |byte: &u8| (b'0'..=b'7').contains(byte).then(|| u16::from(byte - b'0'));
    let [a, b, c] = digits;
    u8::try_from(digit(a)? * 64 + digit(b)? * 8 + digit(c)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_with_its_escapes() {
        let text =
            "36 35 98:0 / /usr/a\\040b ro,nosuid master:1 - fuse.sshfs host:/x rw\nnonsense\n";
        let mounts: Vec<_> = parse(text).collect();
        assert_eq!(mounts.len(), 1);
        assert_eq!(mounts[0].point, PathBuf::from("/usr/a b"));
        assert_eq!(mounts[0].filesystem, "fuse.sshfs");
        assert!(mounts[0].has("ro") && mounts[0].has("nosuid") && !mounts[0].has("nodev"));
    }

    #[test]
    fn a_backslash_without_digits_stays() {
        assert_eq!(unescape("a\\9b\\"), PathBuf::from("a\\9b\\"));
    }
}
