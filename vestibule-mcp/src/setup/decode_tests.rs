use super::*;
use flate2::Compression as Level;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::fs;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

const OCI: &str = "application/vnd.oci.image.layer.v1.tar";
const DOCKER: &str = "application/vnd.docker.image.rootfs.diff.tar";

/// A file with these bytes, which has no name any more.
fn file(bytes: &[u8]) -> File {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("decode-{}-{count}", std::process::id()));
    fs::write(&path, bytes).unwrap();
    let file = File::open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    file
}

fn decode(media_type: &str, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut decoded = Vec::new();
    let read = open(media_type, file(bytes)).unwrap().read_to_end(&mut decoded);
    read.map(|_| decoded).map_err(|error| error.to_string())
}

/// More than a buffer, and nothing that compresses to nothing.
fn text() -> Vec<u8> {
    (0..100_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Level::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

#[test]
fn every_kind_of_layer_decodes_to_what_went_in() {
    let text = text();
    let cases = [
        (OCI.to_owned(), text.clone()),
        (DOCKER.to_owned(), text.clone()),
        (format!("{OCI}+gzip"), gzip(&text)),
        (format!("{DOCKER}.gzip"), gzip(&text)),
        (format!("{OCI}+gzip; charset=x"), gzip(&text)),
        (format!("{OCI}+GZIP"), gzip(&text)),
        (format!("{OCI}+zstd"), zstd(&text)),
        (format!("{DOCKER}.zstd"), zstd(&text)),
    ];
    for (media_type, bytes) in cases {
        assert!(decode(&media_type, &bytes).unwrap() == text, "{media_type}");
    }
    assert_eq!(decode(OCI, b"").unwrap(), b"");
}

#[test]
fn streams_of_several_parts_decode_to_all_of_them() {
    let text = text();
    let (one, rest) = text.split_at(512);
    let members = [gzip(one), gzip(b""), gzip(rest)].concat();
    assert!(decode(&format!("{OCI}+gzip"), &members).unwrap() == text);
    // Magic number, length, and that many bytes, as `zstd:chunked` has them.
    let skipped = [&[0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"xyz"].concat();
    let frames = [skipped.clone(), zstd(one), zstd(b""), skipped.clone(), zstd(rest), skipped];
    assert!(decode(&format!("{OCI}+zstd"), &frames.concat()).unwrap() == text);
}

#[test]
fn a_stream_that_was_cut_is_an_error_and_not_an_end() {
    let text = text();
    for (suffix, whole) in [("+gzip", gzip(&text)), ("+zstd", zstd(&text))] {
        for length in [1, 5, 10, whole.len() / 2, whole.len() - 1] {
            let error = decode(&format!("{OCI}{suffix}"), &whole[..length]);
            assert!(error.is_err(), "{suffix} {length}");
        }
    }
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, b'x'];
    assert!(decode(&format!("{OCI}+zstd"), &skipped).is_err());
}

#[test]
fn what_follows_the_last_part_is_an_error() {
    for garbage in [&b"garbage, and more of it"[..], &[0; 512], b"\x1f"] {
        for (suffix, whole) in [("+gzip", gzip(b"layer")), ("+zstd", zstd(b"layer"))] {
            let bytes = [&whole, garbage].concat();
            let error = decode(&format!("{OCI}{suffix}"), &bytes);
            assert!(error.is_err(), "{suffix} {garbage:?}");
        }
    }
}

#[test]
fn a_damaged_stream_is_an_error() {
    let mut bytes = gzip(&text());
    let end = bytes.len() - 6;
    bytes[end] ^= 1;
    assert_eq!(
        decode(&format!("{OCI}+gzip"), &bytes).unwrap_err(),
        "corrupt gzip stream does not have a matching checksum"
    );
    let error = decode(&format!("{OCI}+zstd"), &gzip(b"x")).unwrap_err();
    assert!(error.starts_with("its zstd stream is damaged: "), "{error}");
}

#[test]
fn a_window_of_zstd_above_the_limit_takes_no_memory() {
    // Magic number, a descriptor without anything optional, and a window of 2 to the power of 10 + 31.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 31 << 3, 1, 0, 0];
    let error = decode(&format!("{OCI}+zstd"), &frame).unwrap_err();
    let limit = "its zstd window of 2199023255552 bytes is above the limit of 134217728";
    assert_eq!(error, limit);
    // At the limit, it is only the block that follows which counts: the last one, and empty.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 17 << 3, 1, 0, 0];
    assert_eq!(decode(&format!("{OCI}+zstd"), &frame).unwrap(), b"");
}

#[test]
fn layers_that_cannot_be_decoded_are_named() {
    let cases = [
        (format!("{OCI}+gzip+encrypted"), "a layer is encrypted"),
        (format!("{OCI}+encrypted"), "a layer is encrypted"),
        (
            "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip".to_owned(),
            "a layer is one that may not be handed on",
        ),
        (
            "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip".to_owned(),
            "a layer is one that may not be handed on",
        ),
        (format!("{OCI}+xz"), "a layer is of a kind that is not known here"),
        ("application/vnd.in-toto+json".to_owned(), "a layer is of a kind that is not known here"),
        (String::new(), "a layer is of a kind that is not known here"),
    ];
    for (media_type, what) in cases {
        let Err(error) = open(&media_type, file(b"")) else { panic!("{media_type} was opened") };
        assert_eq!(error.to_string(), format!("{what} ({media_type})"));
        assert!(error.fix().starts_with("take an image "), "{}", error.fix());
    }
}
