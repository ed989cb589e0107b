//! The container images: whether they are pinned, and how old the pins are.

use super::{Check, State};
use crate::config::table::{IMAGE_PYTHON, PINNED_ON};
use crate::config::{Config, unpinned};
use chrono::NaiveDate;
use protocol::Language;
use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// From how many days on a pin is old: by then a distribution has fixed a good deal.
const OLD: i64 = 90;
/// How much of a digest is shown to a person, in hexadecimal digits.
const DIGITS: usize = 12;
/// The seconds of a day.
const DAY: u64 = 24 * 60 * 60;

/// An image that code may run in.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Image {
    setting: String,
    languages: Vec<String>,
    reference: String,
    pinned: bool,
    /// Whether it is this version's own pin.
    default: bool,
    /// How long ago it was pinned, where that is known.
    age_days: Option<i64>,
    /// When `setup` unpacked it, in UTC; `None` where it is not unpacked.
    unpacked: Option<String>,
}

/// The images of the settings, and a row for each.
pub fn look(config: &Config, now: SystemTime) -> (Vec<Image>, Vec<Check>) {
    let mut images = Vec::new();
    let mut checks = Vec::new();
    for (setting, reference) in config.images() {
        let default = reference.as_str() == setting.default;
        let languages = match setting.name {
            name if name == IMAGE_PYTHON.name => [Language::Python, Language::Bash].as_slice(),
            _ => &[Language::Node],
        };
        let languages: Vec<String> = languages.iter().map(ToString::to_string).collect();
        let unpacked = unpacked(config, setting, reference);
        let image = Image {
            setting: setting.name.to_owned(),
            reference: reference.as_str().to_owned(),
            pinned: reference.is_pinned(),
            default,
            age_days: if default { age(now) } else { None },
            unpacked: unpacked.as_ref().and_then(|(_, moment)| moment.clone()),
            languages,
        };
        let name = format!("image of {}", image.languages.join(", "));
        checks.push(if image.pinned {
            check(&name, &image)
        } else {
            let (doubt, fix) = unpinned(setting, reference);
            Check::note(&name, doubt, fix)
        });
        checks.extend(unpacked.map(|(check, _)| check));
        images.push(image);
    }
    (images, checks)
}

/// The row of an image that `setup` has unpacked, and when.
#[cfg(target_os = "linux")]
use super::unpacked::look as unpacked;

/// Elsewhere none is.
#[cfg(not(target_os = "linux"))]
fn unpacked(
    _: &Config,
    _: &crate::config::table::Setting,
    _: &crate::config::ImageReference,
) -> Option<(Check, Option<String>)> {
    None
}

fn check(name: &str, image: &Image) -> Check {
    let short = shortened(&image.reference);
    let (year, month, day) = PINNED_ON;
    let pinned = format!("{short}, pinned on {year}-{month:02}-{day:02}");
    match (image.default, image.age_days) {
        (false, _) => Check::new(
            name,
            State::Ok,
            format!("{short}, pinned by {}; its age is not known", image.setting),
        ),
        (true, None) => Check::note(
            name,
            format!("{pinned}, which this machine's clock says is still to come"),
            "set the clock",
        ),
        (true, Some(days)) if days >= OLD => Check::note(
            name,
            format!("{pinned}, {days} days ago: what was fixed in it since is missing"),
            format!("update Vestibule, or set {} to a newer image with its digest", image.setting),
        ),
        (true, Some(days)) => Check::new(name, State::Ok, format!("{pinned}, {days} days ago")),
    }
}

/// How many days ago the default images were pinned; `None` for a clock that is before that day.
fn age(now: SystemTime) -> Option<i64> {
    let (year, month, day) = PINNED_ON;
    let epoch = NaiveDate::default();
    let pinned = NaiveDate::from_ymd_opt(year, month, day)?.signed_duration_since(epoch).num_days();
    let today = i64::try_from(now.duration_since(UNIX_EPOCH).ok()?.as_secs() / DAY).ok()?;
    Some(today - pinned).filter(|days| *days >= 0)
}

/// A reference with the first digits of its digest.
pub fn shortened(reference: &str) -> String {
    match reference.split_once("@sha256:") {
        Some((name, digest)) => {
            format!("{name}@sha256:{}…", digest.chars().take(DIGITS).collect::<String>())
        }
        None => reference.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Noon of the day of the pins, and some days more.
    fn days_later(days: i64) -> SystemTime {
        let (year, month, day) = PINNED_ON;
        let date = NaiveDate::from_ymd_opt(year, month, day).unwrap();
        let pinned = date.signed_duration_since(NaiveDate::default()).num_days();
        UNIX_EPOCH + Duration::from_secs((pinned + days) as u64 * DAY + DAY / 2)
    }

    fn rows(variables: &[(&str, &str)], now: SystemTime) -> Vec<Check> {
        // Without the rows of the unpacked ones, which have tests of their own.
        let base = [("HOME", "/home/ada"), ("VESTIBULE_ROOTFS", "host")];
        let all = base.iter().chain(variables);
        let config = Config::from_env(all.map(|(name, value)| (name.into(), value.into())));
        look(&config, now).1
    }

    #[test]
    fn the_age_is_in_whole_days_and_a_wrong_clock_has_none() {
        for (days, expected) in [(0, Some(0)), (1, Some(1)), (400, Some(400)), (-1, None)] {
            assert_eq!(age(days_later(days)), expected);
        }
        assert_eq!(age(UNIX_EPOCH - Duration::from_secs(1)), None);
        let last = UNIX_EPOCH.checked_add(Duration::from_secs(i64::MAX as u64));
        assert!(last.is_none_or(|last| age(last).is_some()));
    }

    #[test]
    fn a_pin_is_old_after_ninety_days_and_then_has_a_fix() {
        for (days, state) in [(0, State::Ok), (89, State::Ok), (90, State::Note), (-9, State::Note)]
        {
            for row in rows(&[], days_later(days)) {
                assert_eq!((row.state, row.fix.is_some()), (state, state != State::Ok), "{row:?}");
                let whole =
                    row.detail.contains("pinned on 2026-11-09") && !row.detail.contains("a4fa5b");
                assert!(whole, "{row:?}");
            }
        }
        assert!(rows(&[], days_later(100))[1].detail.contains(", 100 days ago"));
    }

    #[test]
    fn an_image_of_the_users_own_has_no_age() {
        let own = format!("example.org/p@sha256:{}", "a".repeat(64));
        let settings =
            [("VESTIBULE_IMAGE_PYTHON", own.as_str()), ("VESTIBULE_IMAGE_NODE", "node:22")];
        let rows = rows(&settings, days_later(400));
        assert_eq!(rows[0].state, State::Ok);
        let detail =
            "example.org/p@sha256:aaaaaaaaaaaa…, pinned by VESTIBULE_IMAGE_PYTHON; its age";
        assert!(rows[0].detail.starts_with(detail), "{rows:?}");
        assert_eq!(
            (rows[0].name.as_str(), rows[1].name.as_str()),
            ("image of python, bash", "image of node")
        );
        assert!(rows[1].state == State::Note && rows[1].detail.contains("without a digest"));
    }
}
