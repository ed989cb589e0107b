"""Images: composed, pushed to a registry, and written to the archives that tools hand around."""

import hashlib
import http.client
import io
import json
import os
import tarfile

import tars

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
SUFFIX = {"gzip": "+gzip", "members": "+gzip", "zstd": "+zstd", "plain": ""}
PATH = "PATH=/usr/local/bin:/usr/bin:/bin"
MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
OTHER = "arm64" if MACHINE == "amd64" else "amd64"


def digest_of(data, algorithm="sha256"):
    return f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"


def to_json(value):
    return json.dumps(value, separators=(",", ":")).encode()


class Image:
    """A manifest or an index, with all that it names."""

    def __init__(self, kind, document, blobs, manifests=()):
        self.kind, self.bytes, self.blobs = kind, to_json(document), blobs
        # Of an index: the images in it.
        self.manifests = list(manifests)
        self.digest = digest_of(self.bytes)

    def descriptor(self, **more):
        return {"mediaType": self.kind, "digest": self.digest, "size": len(self.bytes), **more}

    def everything(self):
        """All bytes by their digest."""
        held = dict(self.blobs)
        for image in self.manifests:
            held.update(image.everything())
        held[self.digest] = self.bytes
        return held


def layer(archive, form="gzip", diff=None, stored=None, **more):
    """A layer: what it is stored as, its descriptor, and its diff id. `stored` spares compressing it."""
    stored = tars.pressed(archive, form) if stored is None else stored
    digest = digest_of(stored)
    described = {"mediaType": LAYER + SUFFIX[form], "digest": digest, "size": len(stored), **more}
    return stored, described, diff or (digest if stored is archive else digest_of(archive))


def image(layers, architecture=MACHINE, docker=False, environment=(PATH,), diffs=None, **more):
    """An image of layers that `layer` made, as OCI or as Docker's schema 2. `more` goes into its manifest."""
    config = to_json({
        "architecture": architecture,
        "os": "linux",
        "created": "2026-11-09T00:00:00Z",
        "config": {"Env": list(environment)},
        "rootfs": {"type": "layers", "diff_ids": diffs if diffs is not None else [diff for _, _, diff in layers]},
    })  # fmt: skip
    kinds = (DOCKER_MANIFEST, DOCKER_CONFIG) if docker else (MANIFEST, CONFIG)
    described = [dict(one, mediaType=DOCKER_LAYER) if docker else one for _, one, _ in layers]
    document = {
        "schemaVersion": 2,
        "mediaType": kinds[0],
        "config": {"mediaType": kinds[1], "digest": digest_of(config), "size": len(config)},
        "layers": described,
        **more,
    }
    blobs = {digest_of(config): config, **{digest_of(stored): stored for stored, _, _ in layers}}
    return Image(kinds[0], document, blobs)


def simple(*layers, form="gzip", **more):
    """An image of lists of entries."""
    return image([layer(tars.layer(entries), form) for entries in layers], **more)


def attestation(of):
    """What build tools lay beside an image: no file system, and no machine."""
    statement = layer(b"{}", "plain")
    made = image([statement], "unknown")
    more = {"platform": {"os": "unknown", "architecture": "unknown"}}
    notes = {"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": of.digest}
    return made, dict(more, annotations=notes)


def index(*entries, attested=True, docker=False):
    """An index of (image, architecture)."""
    images = [one for one, _ in entries]
    described = [
        one.descriptor(platform={"os": "linux", "architecture": architecture}) for one, architecture in entries
    ]
    if attested:
        made, more = attestation(images[0])
        images.append(made)
        # First, so that whoever takes the first entry takes the wrong one.
        described.insert(0, made.descriptor(**more))
    kind = DOCKER_LIST if docker else INDEX
    return Image(kind, {"schemaVersion": 2, "mediaType": kind, "manifests": described}, {}, images)


def for_both(this, docker=False):
    """An index in which `this` is for the machine at hand, and an empty image for the other one."""
    return index((simple([], architecture=OTHER, docker=docker), OTHER), (this, MACHINE), docker=docker)


class Registry:
    """Pushes to the registry at HOST:PORT."""

    def __init__(self, address, authorization=None):
        self.address = address
        self.fixed = {"Authorization": authorization} if authorization else {}

    def ask(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            connection.request(method, path, body, {**self.fixed, **headers})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= 300:
                raise OSError(f"{method} {path}: {answer.status} {text[:300]!r}")
            return answer.headers
        finally:
            connection.close()

    def blob(self, name, digest, data):
        place = self.ask("POST", f"/v2/{name}/blobs/uploads/", b"")["Location"]
        path = place.partition(self.address)[2] or place
        joint = "&" if "?" in path else "?"
        self.ask("PUT", f"{path}{joint}digest={digest}", data, **{"Content-Type": "application/octet-stream"})

    def push(self, name, image, tag=None):
        """Pushes all of it, under the tag too. The pin."""
        for digest, data in image.blobs.items():
            self.blob(name, digest, data)
        for one in image.manifests:
            self.push(name, one)
        for reference in filter(None, (image.digest, tag)):
            self.ask("PUT", f"/v2/{name}/manifests/{reference}", image.bytes, **{"Content-Type": image.kind})
        return f"{self.address}/{name}@{image.digest}"


def write_layout(path, *named):
    """An OCI layout folder with these (reference, image)."""
    os.makedirs(path)
    for name, data in layout_files(named).items():
        os.makedirs(os.path.dirname(os.path.join(path, name)), exist_ok=True)
        with open(os.path.join(path, name), "wb") as out:
            out.write(data)


def layout_files(named):
    files = {"oci-layout": to_json({"imageLayoutVersion": "1.0.0"})}
    entries = []
    for reference, image in named:
        entries.append(image.descriptor(annotations={"org.opencontainers.image.ref.name": reference}))
        for digest, data in image.everything().items():
            files["blobs/" + digest.replace(":", "/")] = data
    files["index.json"] = to_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})
    return files


def saved_files(named):
    """What `docker save` writes today: a layout, and beside it the file that older versions read."""
    files, entries = layout_files(named), []
    for reference, image in named:
        for one in image.manifests or [image]:
            document = json.loads(one.bytes)
            if json.loads(one.blobs[document["config"]["digest"]])["architecture"] != MACHINE:
                continue
            place = lambda described: "blobs/" + described["digest"].replace(":", "/")  # noqa: E731
            layers = [place(described) for described in document["layers"]]
            entries.append({"Config": place(document["config"]), "RepoTags": [reference], "Layers": layers})
    files["manifest.json"] = to_json(entries)
    return files


def write_archive(path, files):
    with tarfile.open(path, "w") as out:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
