use super::*;
use serde_json::{Value, json};
use std::fs;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("from-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Puts a blob of a layout there.
    fn blob(&self, bytes: &[u8]) -> Value {
        let digest = Digest::of(bytes);
        self.write(&blob_name(&digest), bytes);
        json!({"mediaType": "", "digest": digest.to_string(), "size": bytes.len()})
    }

    /// All of it as an archive.
    fn archive(&self, name: &str) -> PathBuf {
        let path = self.0.with_extension(name);
        let mut builder = tar::Builder::new(File::create(&path).unwrap());
        builder.append_dir_all(".", &self.0).unwrap();
        builder.into_inner().unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        let _ = fs::remove_file(self.0.with_extension("tar"));
    }
}

fn open(path: &Path, wanted: &ImageReference) -> Result<FromFile, SourceError> {
    FromFile::open(path, wanted, Meant::Only)
}

fn image(text: &str) -> ImageReference {
    ImageReference::parse(text).unwrap()
}

fn descriptor(digest: &Digest, size: u64) -> Descriptor {
    serde_json::from_value(json!({"digest": digest.to_string(), "size": size})).unwrap()
}

fn named(mut entry: Value, name: &str) -> Value {
    entry["annotations"] = json!({(NAMES[1]): name});
    entry
}

/// A layout with two images, of which one can be asked for by its name alone.
fn layout(name: &str) -> (Folder, Digest) {
    let folder = Folder::new(name);
    let manifest = br#"{"config": {}, "layers": []}"#;
    let one = named(folder.blob(manifest), "one");
    let two = named(folder.blob(b"{}"), "two");
    folder.write("index.json", json!({"manifests": [one, two]}).to_string().as_bytes());
    folder.write("oci-layout", br#"{"imageLayoutVersion": "1.0.0"}"#);
    (folder, Digest::of(manifest))
}

fn read(opened: Opened) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut opened = opened;
    opened.bytes.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_layout_is_read_as_a_folder_and_as_an_archive() {
    let (folder, digest) = layout("layout");
    for path in [folder.0.clone(), folder.archive("tar")] {
        let source = open(&path, &image("one")).unwrap();
        assert!(digest.names(&source.manifest(Some(&digest)).unwrap()));
        assert!(digest.names(&source.manifest(None).unwrap()), "by its name");
        let whole = source.blob(&descriptor(&digest, 28), 0).unwrap();
        assert!(digest.names(&read(whole)));
        let rest = source.blob(&descriptor(&digest, 28), 20).unwrap();
        assert_eq!((rest.offset, read(rest).as_slice()), (20, b"rs\": []}".as_slice()));
        let short = source.blob(&descriptor(&digest, 29), 0).err().unwrap();
        assert!(short.what.contains("28 bytes in place of 29"), "{short}");
        let none = source.manifest(Some(&Digest::of(b"none"))).unwrap_err();
        assert!(none.what.contains("has no sha256:") && none.fix.contains("skopeo"), "{none:?}");
        let other = open(&path, &image("three")).unwrap().manifest(None).unwrap_err();
        assert!(other.what.contains("none of that name (one, two)"), "{other}");
    }
}

#[test]
fn a_manifest_that_is_not_what_its_digest_names_is_damaged() {
    let (folder, digest) = layout("damaged");
    folder.write(&blob_name(&digest), b"{}");
    let source = open(&folder.0, &image("one")).unwrap();
    assert!(source.manifest(Some(&digest)).unwrap_err().what.contains("damaged"));
}

/// What `docker save` of Docker 20.10 writes, with a layer that is a link to another.
fn saved(name: &str) -> (Folder, PathBuf) {
    let folder = Folder::new(name);
    folder.write("c.json", b"{}");
    folder.write("a/layer.tar", b"layer");
    let images = json!([{
        "Config": "c.json",
        "RepoTags": ["python:3"],
        "Layers": ["a/layer.tar", "b/layer.tar"],
    }]);
    folder.write("manifest.json", images.to_string().as_bytes());
    fs::create_dir(folder.0.join("b")).unwrap();
    std::os::unix::fs::symlink("../a/layer.tar", folder.0.join("b/layer.tar")).unwrap();
    let path = folder.0.with_extension("tar");
    let mut builder = tar::Builder::new(File::create(&path).unwrap());
    builder.follow_symlinks(false);
    builder.append_dir_all(".", &folder.0).unwrap();
    builder.into_inner().unwrap();
    (folder, path)
}

#[test]
fn what_older_dockers_save_is_taken_by_its_name_and_never_by_a_pin() {
    let (_folder, path) = saved("classic");
    for name in ["docker.io/library/python:3", "python:3"] {
        let source = open(&path, &image(name)).unwrap();
        let manifest = source.manifest(None).unwrap();
        let Ok(super::super::oci::Document::Manifest(manifest)) =
            super::super::oci::Document::parse(&manifest)
        else {
            panic!("{}", String::from_utf8_lossy(&manifest))
        };
        assert_eq!(manifest.layers.len(), 2);
        for layer in &manifest.layers {
            assert_eq!(read(source.blob(layer, 0).unwrap()), b"layer");
        }
        assert_eq!(read(source.blob(&manifest.config, 0).unwrap()), b"{}");
    }
    let other = open(&path, &image("other")).unwrap().manifest(None).unwrap_err();
    assert!(other.what.contains("has one image, and not of that name (python:3)"), "{other}");
    let pinned = image(&format!("python@sha256:{}", "1".repeat(64)));
    let source = open(&path, &pinned).unwrap();
    let refused = source.manifest(crate::store::pin(&pinned).as_ref()).unwrap_err();
    assert!(refused.what.contains("before 25") && refused.fix.contains("skopeo"), "{refused:?}");
}

#[test]
fn a_configuration_that_is_too_long_is_not_hashed_first() {
    let folder = Folder::new("long");
    let images = json!([{"Config": "c.json", "RepoTags": ["python:3"], "Layers": []}]);
    folder.write("manifest.json", images.to_string().as_bytes());
    folder.write("c.json", b"");
    // Of holes alone; to hash it would take hours.
    File::options().write(true).open(folder.0.join("c.json")).unwrap().set_len(1 << 42).unwrap();
    let error = open(&folder.0, &image("python:3")).unwrap().manifest(None).unwrap_err();
    assert!(error.what.contains("c.json has more than 4194304 bytes"), "{error}");
}

#[test]
fn a_tag_beside_a_whole_name_is_no_name() {
    let folder = Folder::new("tagged");
    let as_docker_does = |mut entry: Value, name: &str, tag: &str| {
        entry["annotations"] = json!({(NAMES[0]): name, (NAMES[1]): tag});
        entry
    };
    let (other, wanted) = (folder.blob(b"other"), folder.blob(b"wanted"));
    let other = as_docker_does(other, "docker.io/acme/tools:node", "node");
    let wanted = as_docker_does(wanted, "docker.io/library/node:latest", "latest");
    let index = json!({"manifests": [other, wanted]}).to_string();
    folder.write("index.json", index.as_bytes());
    for name in ["node", "docker.io/library/node:latest"] {
        let source = open(&folder.0, &image(name)).unwrap();
        assert_eq!(source.manifest(None).unwrap(), b"wanted", "{name}");
    }
    let source = open(&folder.0, &image("acme/tools:node")).unwrap();
    assert_eq!(source.manifest(None).unwrap(), b"other");
    let error = open(&folder.0, &image("latest")).unwrap().manifest(None).unwrap_err();
    assert!(error.what.contains("none of that name"), "{error}");
}

#[test]
fn a_pipe_or_a_device_is_no_file_and_is_not_waited_for() {
    let (folder, digest) = layout("pipe");
    let blob = folder.0.join(blob_name(&digest));
    fs::remove_file(&blob).unwrap();
    nix::unistd::mkfifo(&blob, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let source = open(&folder.0, &image("one")).unwrap();
    for error in [
        source.manifest(Some(&digest)).unwrap_err(),
        source.blob(&descriptor(&digest, 1), 0).err().unwrap(),
        open(&blob, &image("one")).err().unwrap(),
        open(Path::new("/dev/zero"), &image("one")).err().unwrap(),
    ] {
        assert!(error.what.contains("no plain file"), "{error}");
    }
}

#[test]
fn what_holds_no_images_is_told_as_that() {
    let folder = Folder::new("none");
    folder.write("plain", b"not a tar");
    folder.write("zipped", &[0x1f, 0x8b, 8, 0, 0]);
    let said = |name: &str| {
        let error = open(&folder.0.join(name), &image("one")).err().unwrap();
        format!("{} Fix: {}", error.what, error.fix)
    };
    assert!(said("").contains("neither index.json nor manifest.json"), "{}", said(""));
    assert!(said("plain").contains("no archive that can be read"), "{}", said("plain"));
    assert!(said("zipped").contains("gunzip"), "{}", said("zipped"));
    assert!(said("missing").contains("cannot be read"), "{}", said("missing"));
}

#[test]
fn an_archives_links_lead_to_its_own_members_alone() {
    let folder = Folder::new("links");
    let path = folder.0.with_extension("tar");
    let mut builder = tar::Builder::new(File::create(&path).unwrap());
    for (name, target) in [("index.json", "/etc/passwd"), ("loop", "loop"), ("up", "../../x")] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        builder.append_link(&mut header, name, target).unwrap();
    }
    builder.into_inner().unwrap();
    let error = open(&path, &image("one")).err().unwrap();
    assert!(error.what.contains("neither index.json nor"), "{error}");
}

#[test]
fn nothing_of_a_broken_archive_reaches_the_terminal_as_it_is() {
    let folder = Folder::new("broken");
    // The library quotes name and number of a header that it cannot read.
    let mut header = tar::Header::new_ustar();
    header.as_old_mut().name[..9].copy_from_slice(b"\x1b[2Jready");
    header.as_old_mut().cksum = *b"\x1b[1m\xff\xff\xff\xff";
    folder.write("broken", &[header.as_bytes().as_slice(), &[0; 1024]].concat());
    let error = open(&folder.0.join("broken"), &image("one")).err().unwrap();
    let quoted = error.what.contains('\x1b') || error.what.contains("ready");
    assert!(!quoted && error.what.contains("a header in it"), "{error:?}");
    // As a link can have it lead to a file of the user's.
    folder.write("index.json", b"\"hunter2\"");
    let source = open(&folder.0, &image("one")).unwrap();
    let error = source.manifest(None).unwrap_err();
    assert!(!error.what.contains("hunter2") && error.what.contains("line 1"), "{error:?}");
}

/// The headers of an archive, each of a kind and with what follows it.
fn headers(entries: &[(tar::EntryType, &[u8])]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (kind, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_path("a").unwrap();
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        header.set_cksum();
        archive.extend_from_slice(header.as_bytes());
        archive.extend_from_slice(content);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive
}

#[test]
fn an_extended_header_of_an_archive_has_a_limit() {
    use tar::EntryType::{GNULongLink, GNULongName, XHeader};
    let folder = Folder::new("extended");
    let refusal = || open(&folder.0.join("a"), &image("one")).err().unwrap().what;
    for (kind, words) in
        [(GNULongName, "4095 bytes"), (GNULongLink, "4095 bytes"), (XHeader, "extended header")]
    {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(1 << 40);
        header.set_cksum();
        folder.write("a", header.as_bytes());
        let file = OpenOptions::new().write(true).open(folder.0.join("a")).unwrap();
        file.set_len(1 << 40).unwrap();
        let error = refusal();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn the_names_of_an_archive_are_names_and_have_a_limit_together() {
    use tar::EntryType::{GNULongLink, GNULongName, Regular, Symlink, XHeader};
    let folder = Folder::new("names");
    let refusal = |entries: &[(tar::EntryType, &[u8])]| {
        folder.write("a", &headers(entries));
        open(&folder.0.join("a"), &image("one")).err().unwrap().what
    };
    // Of 4095 bytes with the NUL at its end, and of one more.
    let name = |length: usize| [&b"n".repeat(length)[..], b"\0"].concat();
    let good = [(GNULongName, name(4095)), (GNULongLink, name(4095))];
    let good: Vec<_> = good.iter().map(|(kind, text)| (*kind, text.as_slice())).collect();
    let whole = refusal(&[&good[..], &[(Symlink, b"")]].concat());
    assert!(whole.contains("neither index.json nor manifest.json"), "{whole}");
    let record = |key: &str| format!("5010 {key}={}\n", "n".repeat(5003 - key.len())).into_bytes();
    let bad = [
        (GNULongName, name(4096)),
        (GNULongLink, name(4096)),
        (XHeader, record("path")),
        (XHeader, record("linkpath")),
    ];
    for (kind, text) in &bad {
        let error = refusal(&[(*kind, text), (Symlink, b"")]);
        assert!(error.contains("a name in it has more than 4095 bytes"), "{kind:?}: {error}");
    }
    let long = name(4095);
    let many = [(GNULongName, long.as_slice()), (Regular, b"")].repeat(2050);
    let error = refusal(&many);
    assert!(error.contains("its names have more than 8388608 bytes"), "{error}");
}

#[test]
fn a_saved_image_with_too_many_layers_is_not_read() {
    let folder = Folder::new("layers");
    folder.write("c.json", b"{}");
    folder.write("layer", b"");
    for (count, words) in [(512, None), (513, Some("513 layers, 512 is the most"))] {
        let layers = vec!["layer"; count];
        let images = json!([{"Config": "c.json", "RepoTags": ["one"], "Layers": layers}]);
        folder.write("manifest.json", images.to_string().as_bytes());
        let read = open(&folder.0, &image("one")).unwrap().manifest(None);
        match words {
            None => assert!(read.is_ok(), "{read:?}"),
            Some(words) => assert!(read.unwrap_err().what.contains(words)),
        }
    }
}

#[test]
fn nothing_but_plain_files_of_a_folder_is_read() {
    let folder = Folder::new("devices");
    nix::unistd::mkfifo(&folder.0.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = open(&folder.0.join("fifo"), &image("one")).err().unwrap();
    assert!(error.what.contains("no plain file"), "{error:?}");
    std::os::unix::fs::symlink("/dev/zero", folder.0.join("zero")).unwrap();
    for layer in ["fifo", "zero", "../x", "/etc/passwd/../../.."] {
        let saved = json!([{"Config": "manifest.json", "RepoTags": ["one"], "Layers": [layer]}]);
        folder.write("manifest.json", saved.to_string().as_bytes());
        let source = open(&folder.0, &image("one")).unwrap();
        source.manifest(None).unwrap_err();
    }
}

#[test]
fn a_part_that_is_not_what_its_digest_names_is_blamed_on_the_file() {
    use crate::setup::fetch::{FetchError, Retry, Wanted, blob, document};
    use crate::setup::progress::Progress;
    let (folder, digest) = layout("parts");
    folder.write(&blob_name(&digest), &[b'x'; 28]);
    let path = folder.archive("tar");
    let wanted = descriptor(&digest, 28);
    let source = open(&path, &image("one")).unwrap();
    let mut progress = Progress::new(io::sink(), false);
    let downloads = Folder::new("parts-downloads");
    let retry = Retry::default();
    let layer = blob(&source, &wanted, &downloads.0, &retry, &mut progress).unwrap_err();
    let configuration = Wanted::Configuration(&wanted);
    let configuration = document(&source, configuration, &retry, &mut progress).unwrap_err();
    for error in [layer, configuration] {
        assert!(matches!(error, FetchError::Digest { .. }), "{error}");
        let (what, fix) = (error.to_string(), error.fix());
        let name = shown(&path);
        assert!(what.contains(&format!("{name} is damaged")), "{what}");
        assert!(fix.contains(&name) && !fix.contains("registry"), "{fix}");
    }
}
