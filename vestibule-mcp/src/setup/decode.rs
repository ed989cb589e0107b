//! Taking the compression off a layer, as its media type says.

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

/// The largest window of a zstd frame, in bytes, which is what decoding takes in memory. That of the
/// `zstd` command as well; what `zstd` makes without `--long` needs no more.
const WINDOW_MAX: u64 = 128 << 20;

/// How much of the file is read at a time, in bytes.
const BUFFER: usize = 64 << 10;

/// Why a layer cannot be decoded.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// It is encrypted.
    #[error("a layer is encrypted ({0})")]
    Encrypted(String),
    /// It is one that its registry need not have.
    #[error("a layer is one that may not be handed on ({0})")]
    Foreign(String),
    /// It is something else.
    #[error("a layer is of a kind that is not known here ({0})")]
    Unknown(String),
}

impl DecodeError {
    /// What to do about it, as one clause.
    pub fn fix(&self) -> String {
        let fix = match self {
            DecodeError::Encrypted(_) => "take an image that is not encrypted",
            DecodeError::Foreign(_) => {
                "take an image whose layers are all in its registry, such as one for Linux"
            }
            DecodeError::Unknown(_) => {
                "take an image whose layers are tar archives, plain or compressed by gzip or zstd"
            }
        };
        fix.to_owned()
    }
}

#[derive(Clone, Copy)]
enum Compression {
    None,
    Gzip,
    Zstd,
}

/// The bytes of a layer without its compression. The file is read from where it stands.
///
/// What is no such stream shows while it is read: a cut one, a wrong checksum of gzip's, and anything
/// after gzip's last member or zstd's last frame are errors, as they are to Docker and containerd.
///
/// # Errors
/// [`DecodeError`] when `media_type` names no layer that can be decoded.
pub fn open(media_type: &str, file: File) -> Result<Box<dyn Read>, DecodeError> {
    let file = BufReader::with_capacity(BUFFER, file);
    Ok(match compression(media_type)? {
        Compression::None => Box::new(file),
        Compression::Gzip => Box::new(MultiGzDecoder::new(file)),
        Compression::Zstd => Box::new(Frames::new(file)),
    })
}

fn compression(media_type: &str) -> Result<Compression, DecodeError> {
    // Media types are compared without regard to case, and parameters may follow: RFC 9110, 8.3.1.
    let plain = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let shown = || crate::escape::for_display(media_type, 100);
    if plain.ends_with("+encrypted") {
        return Err(DecodeError::Encrypted(shown()));
    }
    if plain.contains(".nondistributable.") || plain.contains(".foreign.") {
        return Err(DecodeError::Foreign(shown()));
    }
    match plain.as_str() {
        "application/vnd.oci.image.layer.v1.tar"
        | "application/vnd.docker.image.rootfs.diff.tar" => Ok(Compression::None),
        "application/vnd.oci.image.layer.v1.tar+gzip"
        | "application/vnd.docker.image.rootfs.diff.tar.gzip" => Ok(Compression::Gzip),
        "application/vnd.oci.image.layer.v1.tar+zstd"
        | "application/vnd.docker.image.rootfs.diff.tar.zstd" => Ok(Compression::Zstd),
        _ => Err(DecodeError::Unknown(shown())),
    }
}

/// All frames of a zstd stream: ruzstd stops after one, and there may be several, with some between
/// them that are to be skipped (RFC 8878, 3.1).
struct Frames {
    file: BufReader<File>,
    decoder: FrameDecoder,
    /// Whether the decoder is in the middle of a frame.
    within: bool,
}

impl Frames {
    fn new(file: BufReader<File>) -> Frames {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_MAX);
        Frames { file, decoder, within: false }
    }

    /// Begins the next frame, or skips one.
    fn begin(&mut self) -> io::Result<()> {
        match self.decoder.init(&mut self.file) {
            Ok(()) => self.within = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let length = u64::from(length);
                if io::copy(&mut self.file.by_ref().take(length), &mut io::sink())? < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(error) => return Err(damaged(&error)),
        }
        Ok(())
    }
}

impl Read for Frames {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.within {
                if self.file.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                self.begin()?;
                continue;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.file, one).map_err(|error| damaged(&error))?;
            }
            match self.decoder.read(into)? {
                0 => self.within = false,
                count => return Ok(count),
            }
        }
    }
}

fn damaged(error: &FrameDecoderError) -> io::Error {
    let text = match error {
        FrameDecoderError::WindowSizeTooBig { requested, max } => {
            format!("its zstd window of {requested} bytes is above the limit of {max}")
        }
        other => format!("its zstd stream is damaged: {other}"),
    };
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
