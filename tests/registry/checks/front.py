"""A registry of our own over the blobs that docker-registry keeps, which does whatever a check asks for.

It records every request. A check's `rule` sees each one first, and may answer it by itself.
"""

import http.server
import os
import re
import socket
import ssl
import threading
import time
import urllib.parse
from contextlib import suppress

import oci

PATH = re.compile(r"/v2/(?P<name>.+)/(?P<kind>manifests|blobs)/(?P<reference>[^/]+)$")


class Request:
    """What was asked."""

    def __init__(self, handler):
        self.method, self.headers, self.at = handler.command, handler.headers, time.monotonic()
        self.target = handler.path
        self.path, _, self.query = handler.path.partition("?")
        found = PATH.match(self.path)
        self.name, self.reference = (found["name"], found["reference"]) if found else (None, None)
        self.kind = found["kind"] if found else "token" if self.path == "/token" else "base"
        self.range, self.authorization = self.headers.get("Range"), self.headers.get("Authorization")

    @property
    def offset(self):
        return int(self.range.removeprefix("bytes=").partition("-")[0]) if self.range else 0


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        front, asked = self.server.front, Request(self)
        with front.lock:
            front.requests.append(asked)
        # A client that hangs up in the middle is what some checks are about.
        with suppress(OSError):
            if not (front.rule and front.rule(asked, self)):
                front.answer(asked, self)

    do_HEAD = do_POST = do_CONNECT = do_GET

    def reply(self, status, body=b"", promised=None, cut=None, **headers):
        """Answers. `promised` is the length to claim; with `cut`, the connection ends after so many bytes."""
        self.send_response(status)
        length = len(body) if promised is None else promised
        for name, value in {"Content-Length": length, **headers}.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body if cut is None else body[:cut])
            self.wfile.flush()
        if cut is not None or length != len(body):
            self.close_connection = True
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
        return True

    def log_message(self, *_):
        pass


class Quiet(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # A check closes it while its clients may still hold connections.
    block_on_close = False

    def handle_error(self, *_):
        pass


class Front:
    """To be used in a `with` block. `storage` is docker-registry's folder."""

    def __init__(self, storage, rule=None, certificate=None, host="127.0.0.1"):
        self.storage, self.rule, self.extra = storage, rule, {}
        self.requests, self.lock = [], threading.Lock()
        self.server = Quiet((host, 0), Handler)
        self.server.front = self
        self.port = self.server.server_port
        self.scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            # The handshake belongs to the connection's own thread.
            self.server.socket = context.wrap_socket(
                self.server.socket, server_side=True, do_handshake_on_connect=False
            )
            self.scheme = "https"
        self.address = f"{'localhost' if certificate else host}:{self.port}"
        self.url = f"{self.scheme}://{self.address}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def pin(self, image, name="library/image", digest=None):
        """A reference to the image through this front."""
        self.extra.update(image.everything())
        return f"{self.address}/{name}@{digest or image.digest}"

    def content(self, digest):
        if digest in self.extra:
            return self.extra[digest]
        algorithm, _, digits = digest.partition(":")
        path = os.path.join(self.storage, "docker/registry/v2/blobs", algorithm, digits[:2], digits, "data")
        with suppress(OSError), open(path, "rb") as data:
            return data.read()

    def asked(self, kind=None, digest=None):
        with self.lock:
            fits = lambda one: kind in (None, one.kind) and digest in (None, one.reference)  # noqa: E731
            return [one for one in self.requests if fits(one)]

    def answer(self, asked, handler):
        """As a registry should."""
        if asked.kind == "base":
            return handler.reply(200, b"{}")
        body = self.content(asked.reference) if asked.reference else None
        if body is None:
            return handler.reply(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"unknown"}]}')
        return self.serve(asked, handler, body)

    def serve(self, asked, handler, body, ranges=True, **more):
        """This body, under the digest that was asked for."""
        more = {"Docker_Content_Digest": asked.reference, "Content_Type": kind_of(asked, body), **more}
        if not (ranges and asked.offset):
            return handler.reply(200, body, **more)
        if asked.offset >= len(body):
            return handler.reply(416, b"")
        span = f"bytes {asked.offset}-{len(body) - 1}/{len(body)}"
        return handler.reply(206, body[asked.offset :], Content_Range=span, **more)


def kind_of(asked, body):
    if asked.kind != "manifests":
        return "application/octet-stream"
    for kind in (oci.INDEX, oci.DOCKER_LIST, oci.DOCKER_MANIFEST):
        # Its own, which stands before those of what it names.
        if kind.encode() in body[:120]:
            return kind
    return oci.MANIFEST


def flipped(body):
    """The same length, one bit changed in the middle."""
    changed = bytearray(body)
    changed[len(changed) // 2] ^= 1
    return bytes(changed)


def scope_of(asked):
    return urllib.parse.parse_qs(asked.query)


class Tokens:
    """A rule that wants tokens from this front's own token service, each good for so many requests."""

    def __init__(self, uses=10**9, basic=None, then=None):
        self.uses, self.basic, self.then = uses, basic, then
        self.left, self.scopes, self.lock = {}, [], threading.Lock()

    def __call__(self, asked, handler):
        if asked.kind == "token":
            return self.give(asked, handler)
        if asked.kind == "base" or not self.holds(asked.authorization):
            return challenge(handler, asked)
        return bool(self.then and self.then(asked, handler))

    def give(self, asked, handler):
        if self.basic and asked.authorization != self.basic:
            return handler.reply(401, b'{"details":"incorrect username or password"}')
        with self.lock:
            token = f"token-{len(self.left)}"
            self.left[token] = self.uses
            self.scopes.append(scope_of(asked).get("scope", [""])[0])
        return handler.reply(200, oci.to_json({"token": token, "expires_in": 300}), Content_Type="application/json")

    def holds(self, authorization):
        token = (authorization or "").removeprefix("Bearer ")
        with self.lock:
            if self.left.get(token, 0) <= 0:
                return False
            self.left[token] -= 1
            return True


def challenge(handler, asked):
    front = handler.server.front
    scope = f',scope="repository:{asked.name}:pull"' if asked.name else ""
    wanted = f'Bearer realm="{front.url}/token",service="test"{scope}'
    return handler.reply(401, b'{"errors":[{"code":"UNAUTHORIZED"}]}', WWW_Authenticate=wanted)


class Proxy(Front):
    """Passes CONNECT on, to the ports of this machine that stand for the names, and counts."""

    def __init__(self, ports):
        super().__init__("", rule=self.connect)
        self.ports = ports

    def connect(self, asked, handler):
        host = handler.path.rpartition(":")[0]
        with socket.create_connection(("127.0.0.1", self.ports[host]), 30) as there:
            handler.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=pump, args=(there, handler.connection), daemon=True)
            back.start()
            pump(handler.connection, there)
            back.join(30)
        handler.close_connection = True
        return True


def pump(source, sink):
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
