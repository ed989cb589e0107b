//! Comparing a tree with its listing.

use super::error::{Difference, InventoryError, shown};
use super::line::{Entry, Kind, VERSION, order, parse};
use super::walk::{Found, Walk};
use super::{LISTING_MAX, Totals, line};
use crate::store::digest::Digest;
use std::cmp::Ordering;
use std::io::{BufRead, Read as _};
use std::os::fd::BorrowedFd;

/// Compares the tree below `root` with its listing, every byte of it.
///
/// # Errors
/// [`InventoryError::Differs`] with the first difference by the order of names,
/// [`InventoryError::Damaged`] before anything is compared when the listing is not as it was written,
/// and the others.
pub fn check(root: BorrowedFd<'_>, listing: impl BufRead) -> Result<Totals, InventoryError> {
    let text = read(listing)?;
    let (entries, last) = intact(&text)?;
    let mut counted = Totals::default();
    let mut walk = Walk::new(root);
    let mut lines = entries.lines().enumerate().map(|(index, line)| {
        let damaged = || InventoryError::Damaged(format!("line {} is no entry", index + 2));
        parse(line).ok_or_else(damaged)
    });
    loop {
        let (listed, found) = (lines.next().transpose()?, walk.step()?);
        let missing = |entry: &Entry| InventoryError::differs(&entry.path, Difference::Missing);
        let extra = |found: &Found| InventoryError::differs(&found.path, Difference::Extra);
        match (listed, found) {
            (None, None) => break,
            (Some(entry), None) => return Err(missing(&entry)),
            (None, Some(found)) => return Err(extra(&found)),
            (Some(entry), Some(found)) => {
                match order(&entry.path, &found.path) {
                    Ordering::Less => return Err(missing(&entry)),
                    Ordering::Greater => return Err(extra(&found)),
                    Ordering::Equal => compare(&mut walk, &entry, &found)?,
                }
                counted.add(&entry);
            }
        }
    }
    if last.rsplit_once(' ').map(|(counts, _)| counts) != Some(line::totals(&counted).as_str()) {
        return Err(InventoryError::Damaged("its totals are not those of its lines".to_owned()));
    }
    Ok(counted)
}

fn read(listing: impl BufRead) -> Result<String, InventoryError> {
    let mut text = String::new();
    match listing.take(LISTING_MAX + 1).read_to_string(&mut text) {
        Ok(size) if size as u64 > LISTING_MAX => {
            Err(InventoryError::Damaged(format!("it has more than {LISTING_MAX} bytes")))
        }
        Ok(_) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(InventoryError::Damaged("it is no text".to_owned()))
        }
        Err(error) => Err(InventoryError::Read(error.to_string())),
    }
}

/// The lines of the entries, and the last one, which has told that all are there.
fn intact(text: &str) -> Result<(&str, &str), InventoryError> {
    let damaged = |why: &str| Err(InventoryError::Damaged(why.to_owned()));
    let Some(rest) = text.strip_prefix(VERSION) else {
        return damaged("its first line is not that of a listing of this version");
    };
    let Some(whole) = rest.strip_suffix('\n') else { return damaged("it was cut") };
    let (entries, last) = match whole.rfind('\n') {
        Some(end) => rest.split_at(end + 1),
        None => ("", rest),
    };
    let Some(digest) = last.trim_end().rsplit(' ').next().filter(|_| last.starts_with("total "))
    else {
        return damaged("it was cut");
    };
    let before = text.strip_suffix(last).unwrap_or_default();
    if digest != Digest::of(before.as_bytes()).to_string() {
        return damaged("its lines are not those that were written");
    }
    Ok((entries, last))
}

/// Compares what is cheap to compare first.
fn compare(walk: &mut Walk<'_>, entry: &Entry, found: &Found) -> Result<(), InventoryError> {
    let differs = |difference| Err(InventoryError::differs(&entry.path, difference));
    let is = found.kind();
    if std::mem::discriminant(&entry.kind) != std::mem::discriminant(&is) {
        return differs(Difference::Kind(entry.kind.words(), is.words()));
    }
    if entry.mode != found.mode() {
        return differs(Difference::Mode(entry.mode, found.mode()));
    }
    match (&entry.kind, is) {
        (Kind::File { size, time, content }, Kind::File { size: is_size, time: is_time, .. }) => {
            if *size != is_size {
                return differs(Difference::Size(*size, is_size));
            }
            if walk.hash(found)? != *content {
                return differs(Difference::Content);
            }
            if *time != is_time {
                return differs(Difference::Time(*time, is_time));
            }
        }
        (Kind::Link { target }, _) => {
            let is = walk.target(found)?;
            if *target != is {
                return differs(Difference::Target(shown(target), shown(&is)));
            }
        }
        _ => {}
    }
    Ok(())
}
