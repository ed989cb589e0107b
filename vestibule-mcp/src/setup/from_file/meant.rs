//! Which image of a file is meant by a setting without a digest.

/// What an image without a name counts as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Meant {
    /// The one that is wanted: there is one file, and one image is missing.
    Only,
    /// Any of several.
    Unclear,
}

impl Meant {
    /// The image of that name, or the only one if it has no name and nothing else can be meant.
    ///
    /// # Errors
    /// Why there is none, as the end of a sentence about the file.
    pub fn choose<'a, T>(
        self,
        images: &'a [T],
        names: impl Fn(&T) -> Vec<String>,
        wanted: &str,
    ) -> Result<&'a T, String> {
        let is_named = |image: &&T| names(image).iter().any(|name| same(name, wanted));
        if let Some(image) = images.iter().find(is_named) {
            return Ok(image);
        }
        match images {
            [only] if names(only).iter().any(|name| is_whole(name)) => {
                Err("has one image, and not of that name".to_owned())
            }
            [only] if self == Meant::Only => Ok(only),
            [_] => Err("has an image without a name, and several may be meant".to_owned()),
            _ => Err(format!("has {} images, none of that name", images.len())),
        }
    }
}

/// Whether it is more than a tag, which is all that some write.
fn is_whole(name: &str) -> bool {
    name.contains(['/', ':'])
}

/// Docker writes `python:3` for `docker.io/library/python:3`.
fn same(name: &str, wanted: &str) -> bool {
    let short = |name: &str| -> String {
        let name = name.strip_prefix("docker.io/").unwrap_or(name);
        let name = name.strip_prefix("library/").unwrap_or(name);
        match name.rsplit('/').next().is_some_and(|last| last.contains(':')) {
            true => name.to_owned(),
            false => format!("{name}:latest"),
        }
    };
    short(name) == short(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(meant: Meant, images: &[&[&str]], wanted: &str) -> Result<usize, String> {
        let all: Vec<(usize, &[&str])> = images.iter().copied().enumerate().collect();
        let names =
            |image: &(usize, &[&str])| image.1.iter().map(|name| name.to_string()).collect();
        meant.choose(&all, names, wanted).map(|image| image.0)
    }

    #[test]
    fn a_name_decides_and_without_one_only_what_cannot_be_another() {
        let (only, unclear) = (Meant::Only, Meant::Unclear);
        let both: &[&[&str]] = &[&["python:3"], &["docker.io/library/node:22"]];
        assert_eq!(choose(unclear, both, "node:22"), Ok(1));
        assert_eq!(choose(unclear, both, "docker.io/library/python:3"), Ok(0));
        assert!(choose(only, both, "deno:1").unwrap_err().contains("2 images, none of that name"));
        for nameless in [&[][..], &["3.12-slim"][..]] {
            assert_eq!(choose(only, &[nameless], "node:22"), Ok(0));
            assert!(
                choose(unclear, &[nameless], "node:22").unwrap_err().contains("without a name")
            );
        }
        for meant in [only, unclear] {
            assert!(
                choose(meant, &[&["python:3"]], "node:22").unwrap_err().contains("not of that")
            );
        }
    }
}
