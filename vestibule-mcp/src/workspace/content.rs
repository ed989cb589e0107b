//! The content of a file: text, a picture, or what kind of other thing it is.

use crate::engine::Content;
use base64::Engine as _;
use std::io::{self, Read};

/// The largest picture that is returned, in bytes. In Base64 that is 4 MiB: models take pictures up
/// to 5 MB.
pub const MAX_IMAGE: u64 = 3 << 20;

/// Pictures that clients can show: how they begin, their media type and their name.
const IMAGES: [(&[u8], &str, &str); 4] = [
    (b"\x89PNG\r\n\x1a\n", "image/png", "PNG"),
    (b"\xff\xd8\xff", "image/jpeg", "JPEG"),
    (b"GIF8", "image/gif", "GIF"),
    (b"RIFF....WEBP", "image/webp", "WebP"),
];

/// Other kinds of files: how they begin and their name.
const BINARIES: [(&[u8], &str); 12] = [
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (or an Office document, a wheel, a jar)"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\x7fELF", "an ELF program or library"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"PAR1", "a Parquet file"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"BM", "a BMP picture"),
];

/// Reads a file of `size` bytes; of text at most `cap` bytes.
pub fn read(file: impl Read, size: u64, path: &str, cap: usize) -> io::Result<Content> {
    let room = MAX_IMAGE.max(cap as u64) + 4;
    let mut file = file.take(room);
    let mut bytes = vec![0; 16];
    let begin = fill(&mut file, &mut bytes)?;
    bytes.truncate(begin);
    if let Some((_, mime, name)) = IMAGES.into_iter().find(|(magic, ..)| begins(&bytes, magic)) {
        file.read_to_end(&mut bytes)?;
        return Ok(image(&bytes, size, mime, name, path));
    }
    // Three bytes more, so that a character that the cap cuts is seen to be whole.
    file.take((cap as u64 + 3).saturating_sub(begin as u64)).read_to_end(&mut bytes)?;
    Ok(Content::Text(match text(&bytes, size, cap) {
        Some(text) if text.is_empty() => format!("{path} is an empty file."),
        Some(text) => text,
        None => format!("{path} is {}, {size} bytes; it is not shown as text.", kind(&bytes)),
    }))
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn image(bytes: &[u8], size: u64, mime: &'static str, name: &str, path: &str) -> Content {
    if bytes.len() as u64 > MAX_IMAGE {
        return Content::Text(format!(
            "{path} is a {name} picture, {size} bytes; pictures over {MAX_IMAGE} bytes are not \
             shown. Save a smaller one."
        ));
    }
    let base64 = base64::engine::general_purpose::STANDARD.encode(bytes);
    Content::Image { mime, base64 }
}

/// The text of a file, cut at the cap on a character boundary; `None` if it is no UTF-8 text.
fn text(bytes: &[u8], size: u64, cap: usize) -> Option<String> {
    let valid = match std::str::from_utf8(bytes) {
        Ok(valid) => valid,
        // The rest of the last character lies beyond what was read.
        Err(error) if error.error_len().is_none() && bytes.len() > cap => {
            std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    let binary = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}' | '\u{1b}');
    if valid.contains(binary) {
        return None;
    }
    if valid.len() <= cap && bytes.len() <= cap {
        return Some(valid.to_owned());
    }
    let boundary = (0..=cap).rev().find(|at| valid.is_char_boundary(*at)).unwrap_or(0);
    let kept = &valid[..boundary];
    let left_out = size.max(bytes.len() as u64) - kept.len() as u64;
    let newline = if kept.ends_with('\n') { "" } else { "\n" };
    Some(format!("{kept}{newline}…[{left_out} bytes truncated]"))
}

fn kind(bytes: &[u8]) -> &'static str {
    let known = BINARIES.into_iter().find(|(magic, _)| begins(bytes, magic));
    match known {
        Some((_, name)) => name,
        None if bytes.contains(&0) => "a binary file",
        None => "a binary file or text in another encoding than UTF-8",
    }
}

/// Whether bytes begin like that; a `.` of the magic stands for any byte.
fn begins(bytes: &[u8], magic: &[u8]) -> bool {
    let pairs = bytes.iter().zip(magic);
    bytes.len() >= magic.len()
        && pairs.into_iter().all(|(byte, want)| *want == b'.' || byte == want)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(bytes: &[u8]) -> Content {
        read(bytes, bytes.len() as u64, "f", 10).unwrap()
    }

    fn shown(bytes: &[u8]) -> String {
        match content(bytes) {
            Content::Text(text) => text,
            Content::Image { mime, .. } => panic!("{mime}"),
        }
    }

    #[test]
    fn text_comes_as_it_is_up_to_the_cap() {
        assert_eq!(shown("zweite ä".as_bytes()), "zweite ä");
        assert_eq!(shown(b"0123456789"), "0123456789");
        assert_eq!(shown(b"0123456789a"), "0123456789\n…[1 bytes truncated]");
        assert_eq!(shown(&[b'x'; 50]), "xxxxxxxxxx\n…[40 bytes truncated]");
        assert_eq!(shown(b""), "f is an empty file.");
    }

    #[test]
    fn the_cap_falls_on_a_character_boundary() {
        assert_eq!(shown("x€€€€".as_bytes()), "x€€€\n…[3 bytes truncated]");
        let long = "é".repeat(30);
        assert_eq!(shown(format!("x{long}").as_bytes()), "xéééé\n…[52 bytes truncated]");
    }

    #[test]
    fn a_binary_file_is_named_not_shown() {
        assert_eq!(shown(b"a\0b"), "f is a binary file, 3 bytes; it is not shown as text.");
        assert!(shown(b"\x7fELF\x02\x01").contains("ELF"));
        assert!(shown(b"caf\xe9").contains("another encoding"));
        assert!(shown(&(0..=255).collect::<Vec<u8>>()).contains("256 bytes"));
    }

    #[test]
    fn pictures_are_told_by_how_they_begin() {
        let cases: [(&[u8], &str); 4] = [
            (b"\x89PNG\r\n\x1a\nx", "image/png"),
            (b"\xff\xd8\xff\xe0", "image/jpeg"),
            (b"GIF89a", "image/gif"),
            (b"RIFF\x01\x02\x03\x04WEBPVP8 ", "image/webp"),
        ];
        for (bytes, want) in cases {
            let Content::Image { mime, base64 } = content(bytes) else { panic!("{want}") };
            assert_eq!(mime, want);
            let decoded = base64::engine::general_purpose::STANDARD.decode(base64).unwrap();
            assert_eq!(decoded, bytes);
        }
        assert!(shown(b"\x89PNG\r\n\x1a").contains("binary"));
    }

    #[test]
    fn a_picture_over_the_limit_is_named_not_shown() {
        let mut large = b"\x89PNG\r\n\x1a\n".to_vec();
        large.resize(MAX_IMAGE as usize + 1, 0);
        assert!(shown(&large).contains("PNG picture, 3145729 bytes"));
        large.pop();
        assert!(matches!(content(&large), Content::Image { .. }));
    }
}
