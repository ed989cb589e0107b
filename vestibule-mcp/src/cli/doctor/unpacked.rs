//! The images that `setup` has unpacked.

use super::{Check, State};
use crate::backend::locate::shown;
use crate::config::table::Setting;
use crate::config::{BackendChoice, Config, ImageReference, RootfsChoice};
use crate::store::{RECORD, Record, Store, bytecode};

/// The row of an image in the store, and when it was unpacked; none where images are not wanted.
pub fn look(
    config: &Config,
    setting: &Setting,
    image: &ImageReference,
) -> Option<(Check, Option<String>)> {
    let never = matches!(config.backend, BackendChoice::Container | BackendChoice::Naive);
    if never || config.rootfs == RootfsChoice::Host {
        return None;
    }
    let name =
        format!("unpacked {}", setting.name.trim_start_matches("VESTIBULE_IMAGE_").to_lowercase());
    let store = Store::new(&config.rootfs_dir);
    let found = match store.find(image) {
        Ok(found) => found,
        Err(refusal) => return Some((Check::missing(&name, &refusal), None)),
    };
    let place = shown(store.folder());
    if found.is_none() {
        let (state, detail) = match config.rootfs {
            RootfsChoice::Image => (State::Missing, format!("not in {place}")),
            _ => (State::Ok, format!("not in {place}: this machine's /usr is used")),
        };
        let fix = (state == State::Missing).then(|| "run `vestibule-mcp setup`".to_owned());
        return Some((Check { fix, ..Check::new(&name, state, detail) }, None));
    }
    let record = Record::read(&store.place(image).join(RECORD)).ok();
    let unpacked = record.map(|record| record.unpacked);
    let since = unpacked.as_ref().map_or_else(String::new, |moment| format!(" since {moment}"));
    let is_python = setting.name == crate::config::table::IMAGE_PYTHON.name;
    let check = match bytecode::check(&store.place(image)) {
        Err(_) if is_python => Check::note(
            &name,
            format!("in {place}{since}, without compiled modules: imports are slower"),
            "run `vestibule-mcp setup`, which compiles them",
        ),
        _ => Check::new(&name, State::Ok, format!("in {place}{since}")),
    };
    Some((check, unpacked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::table::{IMAGE_NODE, IMAGE_PYTHON};
    use crate::store::ROOT;

    #[test]
    fn an_image_is_there_or_not_and_a_damaged_one_has_its_fix() {
        let folder = std::env::temp_dir().join(format!("unpacked-{}", std::process::id()));
        let config = |rootfs: &str| {
            let folder = folder.to_str().unwrap();
            let variables = [
                ("HOME", "/home/ada"),
                ("VESTIBULE_ROOTFS_DIR", folder),
                ("VESTIBULE_ROOTFS", rootfs),
            ];
            Config::from_env(variables.map(|(name, value)| (name.into(), value.into())))
        };
        let row = |rootfs: &str, setting: &Setting| {
            let config = config(rootfs);
            let image = match setting.name {
                name if name == IMAGE_NODE.name => config.image_node.clone(),
                _ => config.image_python.clone(),
            };
            look(&config, setting, &image)
        };
        assert!(row("host", &IMAGE_PYTHON).is_none());
        assert_eq!(row("auto", &IMAGE_PYTHON).unwrap().0.state, State::Ok);
        let missing = row("image", &IMAGE_PYTHON).unwrap().0;
        assert!(missing.state == State::Missing && missing.fix.is_some(), "{missing:?}");

        let config = config("auto");
        let store = Store::new(&folder);
        for image in [&config.image_python, &config.image_node] {
            std::fs::create_dir_all(store.place(image).join(ROOT)).unwrap();
            Record::example().write(&store.place(image).join(RECORD)).unwrap();
        }
        let (python, when) = row("auto", &IMAGE_PYTHON).unwrap();
        assert_eq!((python.state, when.as_deref()), (State::Note, Some("2026-11-30T00:00:00Z")));
        assert!(python.detail.contains("without compiled modules"), "{python:?}");
        assert_eq!(row("image", &IMAGE_NODE).unwrap().0.state, State::Ok);
        std::fs::write(store.place(&config.image_node).join(RECORD), "{").unwrap();
        let damaged = row("auto", &IMAGE_NODE).unwrap().0;
        assert!(damaged.state == State::Missing && damaged.fix.is_some(), "{damaged:?}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
