//! Digests: the name of a blob by its content.

use sha2::{Digest as _, Sha256, Sha512};
use std::fmt;
use std::io::{self, Write};

/// The algorithms that the OCI image specification names.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Algorithm {
    /// SHA-256, which every registry speaks.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// `ALGORITHM:HEX`. Its text has been checked to the last digit, so it is safe in paths and addresses.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

impl Digest {
    /// Reads `sha256:…` with 64 or `sha512:…` with 128 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Digest> {
        let (algorithm, hex) = text.split_once(':')?;
        let (algorithm, digits) = match algorithm {
            "sha256" => (Algorithm::Sha256, 64),
            "sha512" => (Algorithm::Sha512, 128),
            _ => return None,
        };
        let is_hex = hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (hex.len() == digits && is_hex).then(|| Digest { algorithm, hex: hex.to_owned() })
    }

    /// The digest of these bytes by SHA-256.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest::of_with(Algorithm::Sha256, bytes)
    }

    /// Whether these bytes are the ones it names.
    pub fn names(&self, bytes: &[u8]) -> bool {
        *self == Digest::of_with(self.algorithm, bytes)
    }

    fn of_with(algorithm: Algorithm, bytes: &[u8]) -> Digest {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(bytes);
        hasher.finish()
    }

    /// A hasher of its algorithm.
    pub fn hasher(&self) -> Hasher {
        Hasher::new(self.algorithm)
    }

    /// Its name in a file system: `sha256-…`.
    pub fn file_name(&self) -> String {
        self.to_string().replacen(':', "-", 1)
    }

    /// Reads such a name.
    pub fn of_file_name(name: &str) -> Option<Digest> {
        let (algorithm, hex) = name.split_once('-')?;
        Digest::parse(&format!("{algorithm}:{hex}"))
    }

    /// The name of its algorithm.
    pub fn algorithm(&self) -> &'static str {
        match self.algorithm {
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
        }
    }

    /// The hexadecimal digits alone.
    pub fn hex(&self) -> &str {
        &self.hex
    }

    /// Enough of it to tell it from others in a text: `sha256:5e2bdb1b0d54`.
    pub fn short(&self) -> String {
        format!("{}:{}", self.algorithm(), self.hex.get(..12).unwrap_or(&self.hex))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm(), self.hex)
    }
}

/// Hashes what is written to it.
pub enum Hasher {
    /// By SHA-256.
    Sha256(Sha256),
    /// By SHA-512.
    Sha512(Sha512),
}

impl Hasher {
    /// A hasher that has seen nothing yet.
    pub fn new(algorithm: Algorithm) -> Hasher {
        match algorithm {
            Algorithm::Sha256 => Hasher::Sha256(Sha256::new()),
            Algorithm::Sha512 => Hasher::Sha512(Sha512::new()),
        }
    }

    /// Takes more bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256(hasher) => hasher.update(bytes),
            Hasher::Sha512(hasher) => hasher.update(bytes),
        }
    }

    /// The digest of all that it was given.
    pub fn finish(self) -> Digest {
        let (algorithm, bytes) = match self {
            Hasher::Sha256(hasher) => (Algorithm::Sha256, hasher.finalize().to_vec()),
            Hasher::Sha512(hasher) => (Algorithm::Sha512, hasher.finalize().to_vec()),
        };
        let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Digest { algorithm, hex }
    }
}

impl Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_to_the_last_digit() {
        let hex = "a".repeat(64);
        for good in [format!("sha256:{hex}"), format!("sha512:{hex}{hex}")] {
            let digest = Digest::parse(&good).unwrap();
            assert_eq!(digest.to_string(), good);
            assert_eq!(Digest::of_file_name(&good), None);
            assert_eq!(Digest::of_file_name(&digest.file_name()), Some(digest));
        }
        let bad = [
            String::new(),
            hex.clone(),
            format!("sha256:{}", &hex[1..]),
            format!("sha512:{hex}"),
            format!("sha256:{}", "A".repeat(64)),
            format!("sha256:{}/", &hex[1..]),
            format!("md5:{hex}"),
        ];
        for text in bad {
            assert_eq!(Digest::parse(&text), None, "{text}");
        }
    }

    #[test]
    fn both_algorithms_give_what_their_standard_says() {
        let sha256 = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").to_string(), sha256);
        let sha512 = format!("sha512:ddaf35a193617aba{}", "0".repeat(112));
        assert!(!Digest::parse(&sha512).unwrap().names(b"abc"));
        assert!(Digest::parse(sha256).unwrap().names(b"abc"));
        let mut hasher = Hasher::new(Algorithm::Sha512);
        hasher.write_all(b"a").unwrap();
        hasher.write_all(b"bc").unwrap();
        assert!(hasher.finish().hex().starts_with("ddaf35a193617abacc417349ae204131"));
    }
}
