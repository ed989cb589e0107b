//! What a sandbox sees as its system files: an image that `setup` has unpacked, or this machine's `/usr`.

use crate::config::{Config, ImageReference, RootfsChoice, table};
use crate::store::{Found, Store, bytecode};
use protocol::{Cause, Language, Refusal, Retry, Rootfs, Sandbox};
use std::path::Path;

/// The images that the settings name, and whether they are wanted.
pub struct Images {
    choice: RootfsChoice,
    store: Store,
    python: ImageReference,
    node: ImageReference,
}

/// A sandbox for a language, and the image that it is of.
pub struct Chosen<'a> {
    /// What is asked of the helper.
    pub sandbox: Sandbox,
    /// The image; `None` where it is this machine's `/usr`.
    pub image: Option<&'a ImageReference>,
}

impl Images {
    /// The images of these settings. Touches no file.
    pub fn new(config: &Config) -> Images {
        Images {
            choice: config.rootfs,
            store: Store::new(&config.rootfs_dir),
            python: config.image_python.clone(),
            node: config.image_node.clone(),
        }
    }

    /// The image of a language, and the name of its setting.
    fn of(&self, language: Language) -> (&ImageReference, &'static str) {
        match language {
            Language::Python | Language::Bash => (&self.python, table::IMAGE_PYTHON.name),
            Language::Node => (&self.node, table::IMAGE_NODE.name),
        }
    }

    /// Gives a sandbox the root file system that `language` runs in. Looked up each time: what `setup`
    /// has put there since counts without a restart.
    ///
    /// # Errors
    /// A refusal if an image is wanted and not there, or there and not usable.
    pub fn choose(&self, sandbox: &Sandbox, language: Language) -> Result<Chosen<'_>, Refusal> {
        let (image, setting) = self.of(language);
        let found = match self.choice {
            RootfsChoice::Host => None,
            RootfsChoice::Auto | RootfsChoice::Image => self.store.find(image)?,
        };
        match found {
            Some(found) => {
                Ok(Chosen { sandbox: in_image(sandbox, found, language), image: Some(image) })
            }
            None if self.choice == RootfsChoice::Image => Err(self.missing(image, setting)),
            None => Ok(Chosen { sandbox: sandbox.clone(), image: None }),
        }
    }

    /// Whether the compiled modules of a sandbox, if it has any, are still those that were made. A tree that
    /// is not is left out from then on.
    pub async fn bytecode_holds(&self, sandbox: &Sandbox) -> bool {
        let Some(tree) = sandbox.bytecode.clone() else { return true };
        let image = tree.parent().map(Path::to_owned).unwrap_or_default();
        match tokio::task::spawn_blocking(move || bytecode::check(&image)).await {
            Ok(Ok(())) => true,
            Ok(Err(why)) => {
                self.store.leave_bytecode_out(&tree, &why);
                false
            }
            // It panicked: nothing is known.
            Err(_) => false,
        }
    }

    /// A language that is missing, told for where it was looked for.
    pub fn without(&self, language: Language, chosen: &Chosen<'_>, refusal: Refusal) -> Refusal {
        let (program, package) = (language.program(), language.package());
        let mut what = refusal.what.clone();
        let (fix, retry) = match chosen.image {
            Some(image) => {
                what.push_str(&format!(" of the image {}", image.as_str()));
                (
                    format!(
                        "set {} to an image that has {program} on its PATH",
                        self.of(language).1
                    ),
                    Retry::AfterRestart,
                )
            }
            None if self.choice == RootfsChoice::Auto => (
                format!(
                    "run `vestibule-mcp setup`, which fetches an image that has it, or install \
                     {package} from the distribution, so that there is a /usr/bin/{program}"
                ),
                Retry::AfterFix,
            ),
            None => return refusal,
        };
        Refusal { what, fix, retry, ..refusal }
    }

    fn missing(&self, image: &ImageReference, setting: &str) -> Refusal {
        let place = crate::backend::locate::shown(self.store.folder());
        Refusal {
            what: format!(
                "VESTIBULE_ROOTFS is image, and {} ({setting}) is not in {place}",
                image.as_str()
            ),
            cause: Cause::Rootfs,
            fix: "run `vestibule-mcp setup` with the same settings, or remove VESTIBULE_ROOTFS"
                .to_owned(),
            retry: Retry::AfterFixOrRestart,
            at: None,
        }
    }
}

fn in_image(sandbox: &Sandbox, found: Found, language: Language) -> Sandbox {
    Sandbox {
        rootfs: Rootfs::Image(found.root),
        environment: found.environment,
        // Nothing but python reads it.
        bytecode: found.bytecode.filter(|_| language == Language::Python),
        ..sandbox.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{RECORD, ROOT};
    use std::fs;
    use std::path::PathBuf;

    fn config(folder: &Path, rootfs: &str) -> Config {
        let folder = folder.to_str().unwrap();
        let variables = [
            ("HOME", "/home/ada"),
            ("VESTIBULE_ROOTFS_DIR", folder),
            ("VESTIBULE_ROOTFS", rootfs),
            ("VESTIBULE_IMAGE_NODE", "node:22"),
        ];
        Config::from_env(variables.map(|(name, value)| (name.into(), value.into())))
    }

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("images-{name}-{}", std::process::id()))
    }

    #[test]
    fn an_image_is_taken_where_it_is_there_and_wanted() {
        let folder = folder("there");
        let sandbox = super::super::tests::sandbox();
        let auto = Images::new(&config(&folder, "auto"));
        let place = auto.store.place(&auto.python);
        fs::create_dir_all(place.join(ROOT)).unwrap();
        crate::store::Record::example().write(&place.join(RECORD)).unwrap();

        let root = |images: &Images, language| {
            images.choose(&sandbox, language).map(|chosen| chosen.sandbox.rootfs)
        };
        for language in [Language::Python, Language::Bash] {
            assert!(matches!(root(&auto, language), Ok(Rootfs::Image(_))), "{language}");
        }
        assert_eq!(root(&auto, Language::Node), Ok(Rootfs::Host));
        let host = Images::new(&config(&folder, "host"));
        assert_eq!(root(&host, Language::Python), Ok(Rootfs::Host));
        let image = Images::new(&config(&folder, "image"));
        let refusal = root(&image, Language::Node).unwrap_err().to_string();
        assert!(refusal.contains("node:22 (VESTIBULE_IMAGE_NODE) is not in"), "{refusal}");
        assert!(refusal.contains("vestibule-mcp setup"), "{refusal}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_language_that_is_missing_is_told_for_where_it_was_looked_for() {
        let sandbox = super::super::tests::sandbox();
        let nothing = protocol::Interpreters::default();
        let fix = |choice: &str, image: bool| {
            let images = Images::new(&config(&folder("none"), choice));
            let image = image.then(|| images.node.clone());
            let chosen = Chosen { sandbox: sandbox.clone(), image: image.as_ref() };
            let refusal = nothing.path(Language::Node).unwrap_err();
            images.without(Language::Node, &chosen, refusal).to_string()
        };
        assert!(fix("auto", false).contains("vestibule-mcp setup"), "{}", fix("auto", false));
        assert!(!fix("host", false).contains("vestibule-mcp setup"), "{}", fix("host", false));
        let image = fix("image", true);
        assert!(image.contains("of the image node:22"), "{image}");
        assert!(image.contains("set VESTIBULE_IMAGE_NODE to an image"), "{image}");
    }
}
