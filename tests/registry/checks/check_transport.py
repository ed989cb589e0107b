"""A registry that lies, breaks off, refuses, or sends elsewhere."""

import json
import socket
import threading
import time

from checking import Skip, expect

import daemons
import oci
import stand
import tars
from front import Tokens, flipped
from points import proves
from stand import front, home, is_tiny

# Not the tiny image that is everywhere: its blobs must come from the registry at hand.
LARGE = b"".join(i.to_bytes(4, "big") for i in range(100_000))


def image(text=b"transport"):
    return stand.tiny(text)


def large():
    """One layer that does not compress to nothing, so that there is a middle to break off in."""
    lower = [tars.folder("etc"), tars.file("etc/kept", LARGE), tars.file("etc/name", LARGE)]
    return oci.for_both(oci.image([oci.layer(tars.layer(lower), "plain")]))


def manifest_of(index):
    """The image in the index that is for this machine."""
    return index.manifests[1]


def part(index, which):
    """The digest of one of its parts."""
    inner = manifest_of(index)
    described = json.loads(inner.bytes)
    return {
        "index": index.digest,
        "manifest": inner.digest,
        "config": described["config"]["digest"],
        "layer": described["layers"][-1]["digest"],
    }[which]


def changing(digest, change):
    """A rule that serves something else under this digest."""

    def rule(asked, handler):
        if asked.reference != digest:
            return False
        return handler.server.front.serve(asked, handler, change(handler.server.front.content(digest)))

    return rule


def refused(rule, *words, made=None, **more):
    made = made or image()
    with front(rule, **more) as registry, home() as place:
        done = place.setup(IMAGE_PYTHON=registry.pin(made)).is_error(*words)
        expect(not place.has(made), "an image all the same")
        return registry, done


def accepted(rule, made=None, **more):
    made = made or image()
    with front(rule, **more) as registry, home() as place:
        done = place.setup(IMAGE_PYTHON=registry.pin(made)).is_blocked()
        is_tiny(place, made, LARGE if made.digest == large().digest else b"transport")
        return registry, done


def tampered(which):
    registry, _ = refused(changing(part(image(), which), flipped), "tampered")
    # What is wrong is wrong again: few attempts, not many.
    expect(len(registry.asked(digest=part(image(), which))) <= 6, "asked over and over")


def shorter(which):
    refused(changing(part(image(), which), lambda body: body[:-9]), "tampered|ended too early")


def longer(which):
    refused(changing(part(image(), which), lambda body: body + b" " * 9), "tampered")


for name in ("index", "manifest", "config", "layer"):
    proves(f"transport-tampered-{name}", 15, arguments=(name,))(tampered)
    proves(f"transport-short-{name}", 15, 10, arguments=(name,), early=True)(shorter)
    proves(f"transport-long-{name}", 15, 10, arguments=(name,))(longer)


@proves("transport-endless", 10, 15)
def endless():
    """A document and a blob with no end are given up, and not kept."""
    for which in ("index", "layer"):
        digest, sent = part(image(), which), []

        def rule(asked, handler, digest=digest, sent=sent):
            if asked.reference != digest:
                return False
            handler.send_response(200)
            handler.send_header("Connection", "close")
            handler.end_headers()
            handler.close_connection = True
            sent.append(0)
            for _ in range(4096):
                handler.wfile.write(b" " * (1 << 16))
                sent[-1] += 1 << 16
            return True

        refused(rule, "larger than|longer than")
        expect(sent and max(sent) < 64 << 20, f"{which}: {max(sent)} bytes were taken")


@proves("transport-trailers-without-end", 15, 10)
def trailers():
    """What follows the last byte of a blob is not waited for."""

    def rule(asked, handler):
        if asked.kind != "blobs":
            return False
        body = handler.server.front.content(asked.reference)
        chunks = b"%x\r\n%s\r\n0\r\n" % (len(body), body)
        handler.reply(200, chunks, Transfer_Encoding="chunked", **{"Content-Length": None})
        while handler.wfile.write(b"X: y\r\n" * 100):
            time.sleep(0.1)

    expect(accepted(rule)[1].seconds < 60, "it was waited for")


@proves("transport-blob-while-loading", 15)
def never_decoded():
    """A blob that is wrong never reaches what decodes it: it says digest, and not gzip or tar."""
    digest = part(image(), "layer")
    _, done = refused(changing(digest, lambda body: b"\xff" * len(body)), "tampered")
    expect("gzip" not in done.err and "archive" not in done.err, done.err)


@proves("transport-rate-limit-passes", 15, early=True)
def rate_limit():
    once, lock = [], threading.Lock()

    def rule(asked, handler):
        with lock:
            if asked.reference != part(image(), "manifest") or once:
                return False
            once.append(time.monotonic())
        return handler.reply(429, b'{"errors":[{"code":"TOOMANYREQUESTS"}]}', Retry_After=2)

    registry, _ = accepted(rule)
    later = [one.at for one in registry.asked(digest=part(image(), "manifest"))][1]
    expect(later - once[0] >= 1.9, f"asked again after {later - once[0]:.1f} s of 2")


@proves("transport-rate-limit-stays", 15)
def rate_limit_for_long():
    rule = lambda asked, handler: (
        asked.kind == "manifests"
        and handler.reply(  # noqa: E731
            429, b'{"errors":[{"code":"TOOMANYREQUESTS"}]}', Retry_After=21600
        )
    )
    registry, done = refused(rule, "too many requests", "21600 s", "docker login", "VESTIBULE_REGISTRY_MIRROR")
    expect(done.seconds < 60, f"it waited {done.seconds:.0f} s")
    expect(len(registry.asked("manifests")) <= 4, "it kept asking")


@proves("transport-server-error-passes", 15, early=True)
def server_error():
    seen = []

    def rule(asked, handler):
        seen.append(asked.reference)
        return seen.count(asked.reference) == 1 and asked.kind in ("manifests", "blobs") and handler.reply(503, b"busy")

    accepted(rule)


@proves("transport-server-error-stays", 15, early=True)
def server_error_for_ever():
    rule = lambda asked, handler: asked.kind == "blobs" and handler.reply(500, b"\x1b[31mbroken")  # noqa: E731
    registry, done = refused(rule, "answered 500")
    expect(len(registry.asked("blobs")) <= 30, f"asked {len(registry.asked('blobs'))} times")


@proves("transport-missing", 15)
def missing():
    for which, words in (("index", "does not have the manifest"), ("layer", "does not have the blob")):
        digest = part(image(), which)
        rule = lambda asked, handler: (
            asked.reference == digest
            and handler.reply(  # noqa: E731
                404, b'{"errors":[{"code":"BLOB_UNKNOWN"}]}'
            )
        )
        refused(rule, words)


@proves("transport-401-for-ever", 15)
def refused_for_ever():
    tokens = Tokens(uses=0)
    registry, done = refused(tokens, "no access", "docker login")
    expect(len(tokens.left) <= 6, f"{len(tokens.left)} tokens were fetched")
    expect(done.seconds < 60, f"{done.seconds:.0f} s")


@proves("transport-token", 15)
def token():
    tokens = Tokens()
    accepted(tokens)
    expect(set(tokens.scopes) == {"repository:library/image:pull"}, f"scopes: {tokens.scopes}")
    expect(len(tokens.left) <= 2, f"{len(tokens.left)} tokens")


@proves("transport-token-expires", 15)
def expires():
    tokens = Tokens(uses=2)
    accepted(tokens)
    expect(len(tokens.left) >= 2, "no token expired")


@proves("transport-dropped", 15, early=True)
def dropped():
    """Broken off in the middle, it goes on where it was."""
    digest, cuts = part(large(), "layer"), []

    def rule(asked, handler):
        if asked.reference != digest or len(cuts) == 2:
            return False
        body = handler.server.front.content(digest)
        cuts.append(asked.offset)
        status, more = (
            (206, {"Content_Range": f"bytes {asked.offset}-{len(body) - 1}/{len(body)}"}) if asked.offset else (200, {})
        )
        return handler.reply(status, body[asked.offset :], cut=300_000, **more)

    registry, _ = accepted(rule, large())
    offsets = [one.offset for one in registry.asked("blobs", digest)]
    expect(len(offsets) == 3 and offsets == sorted(set(offsets)), f"offsets: {offsets}")


@proves("transport-dropped-without-ranges", 15, early=True)
def no_ranges():
    """What refuses ranges gives all of it again, and that is not taken for the rest."""
    digest, cuts = part(large(), "layer"), []

    def rule(asked, handler):
        if asked.reference != digest:
            return False
        body = handler.server.front.content(digest)
        cuts.append(asked.offset)
        return handler.reply(200, body, cut=300_000 if len(cuts) == 1 else None)

    accepted(rule, large())
    expect(len(cuts) == 2, f"offsets: {cuts}")


@proves("transport-range-is-wrong", 15, early=True)
def wrong_range():
    """A rest that begins elsewhere than was asked makes no image of wrong bytes."""
    digest, cuts = part(large(), "layer"), []

    def rule(asked, handler):
        if asked.reference != digest:
            return False
        body = handler.server.front.content(digest)
        cuts.append(asked.offset)
        if not asked.offset:
            return handler.reply(200, body, cut=300_000)
        return handler.reply(206, body[7:], Content_Range=f"bytes 7-{len(body) - 1}/{len(body)}")

    with front(rule) as registry, home() as place:
        done = place.setup(IMAGE_PYTHON=registry.pin(large()))
        expect(done.code == 1, done.text)
        if place.has(large()):
            is_tiny(place, large(), LARGE)
    expect(len(cuts) <= 12, f"asked {len(cuts)} times")


@proves("transport-dropped-for-ever", 15, early=True)
def dropped_for_ever():
    digest = part(large(), "layer")
    rule = lambda asked, handler: asked.reference == digest and handler.reply(200, b"x" * 1000, cut=0)  # noqa: E731
    registry, done = refused(rule, "broke off", made=large())
    expect(2 <= len(registry.asked("blobs", digest)) <= 12, f"asked {len(registry.asked('blobs', digest))} times")


@proves("transport-nobody-there", 15, early=True)
def nobody():
    registry = front()
    pin = registry.pin(image())
    registry.server.server_close()
    with home() as place:
        place.setup(IMAGE_PYTHON=pin).is_error("does not answer", registry.address)


@proves("transport-after-an-error", 12, 15)
def after_an_error():
    """What was loaded before the error need not be loaded again."""
    digest, broken = part(large(), "config"), [True]
    rule = lambda asked, handler: asked.reference == digest and broken[0] and handler.reply(404, b"{}")  # noqa: E731
    with front(rule) as registry, home(IMAGE_PYTHON=registry.pin(large())) as place:
        place.setup().is_error()
        broken[0] = False
        place.setup().is_blocked()
        is_tiny(place, large(), LARGE)


@proves("transport-other-origin", 15)
def other_origin():
    """Blobs from another origin; the token and the password stay behind."""
    with front() as away:
        made = image()
        away.pin(made)
        move = lambda asked, handler: (
            asked.kind == "blobs"
            and handler.reply(  # noqa: E731
                307, b"", Location=f"http://localhost:{away.port}{asked.path}"
            )
        )
        accepted(Tokens(then=move))
        expect(away.asked("blobs"), "nothing came from there")
        leaked = [one.authorization for one in away.requests if one.authorization]
        expect(not leaked, f"it was sent along: {leaked}")


@proves("transport-redirect-loop", 15)
def loop():
    rule = lambda asked, handler: asked.kind == "blobs" and handler.reply(302, b"", Location=asked.target)  # noqa: E731
    registry, _ = refused(rule, "redirects more than")
    expect(len(registry.requests) < 100, f"{len(registry.requests)} requests")


@proves("transport-redirect-to-a-file", 15)
def elsewhere():
    for place in ("file:///etc/passwd", "ftp://127.0.0.1/x", "http://192.0.2.1/x", "//", "http://127.0.0.1:1:2/"):
        rule = lambda asked, handler: (
            asked.kind == "blobs"
            and handler.reply(  # noqa: E731
                302, b"", Location=place
            )
        )
        _, done = refused(rule, "redirects")
        expect(done.seconds < 30, f"{place}: {done.seconds:.0f} s")


@proves("transport-redirect-to-http", 15)
def to_http():
    """From HTTPS to plain HTTP is refused, even to this machine."""
    made = image()
    with front() as away:
        away.pin(made)
        move = lambda asked, handler: (
            asked.kind == "blobs"
            and handler.reply(  # noqa: E731
                307, b"", Location=f"http://127.0.0.1:{away.port}{asked.path}"
            )
        )
        with front(move, certificate=daemons.tls()) as registry, home() as place:
            done = place.setup(IMAGE_PYTHON=registry.pin(made), _SSL_CERT_FILE=daemons.authority()[0])
            done.is_error("plain HTTP")
            expect(not place.has(made), "an image all the same")
        expect(not away.requests, "it went there")


@proves("transport-plain-http-elsewhere", 15, early=True)
def not_loopback():
    """Plain HTTP is for loopback alone; elsewhere it is HTTPS or nothing."""
    made = image()
    with front(host=own_address()) as registry, home() as place:
        place.setup(IMAGE_PYTHON=registry.pin(made), bound=90).is_error(registry.address)
        expect(not place.has(made), "an image all the same")
        expect(not registry.requests, "it spoke plain HTTP")


def own_address():
    """An address of this machine that is not loopback. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            raise Skip("this machine has no address but loopback") from None
        return probe.getsockname()[0]


@proves("transport-header-of-another-digest", 14, 15)
def other_header():
    """A registry may name content by another algorithm in its header: the pin decides."""

    def rule(asked, handler):
        body = handler.server.front.content(asked.reference or "")
        if body is None or asked.kind != "manifests":
            return False
        return handler.server.front.serve(asked, handler, body, Docker_Content_Digest=oci.digest_of(body, "sha512"))

    accepted(rule)
