"""docker-registry, as it comes, with a password, and behaving like Docker Hub; and certificates."""

import atexit
import base64
import json
import os
import ssl
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

from front import Front, Tokens
from host import WORK

STORAGE = os.path.join(WORK, "registry")
PERSON, SECRET = "tester", "right-horse"
# Of that secret, by bcrypt; nothing that every machine has makes one.
HASHED = "$2y$05$abcdefghijklmnopqrstuukAGqk1114ICnhl6dLOh9a3Ti/e0h/ma"
BASIC = "Basic " + base64.b64encode(f"{PERSON}:{SECRET}".encode()).decode()
ISSUER, SERVICE = "vestibule-test", "registry.test"


class Daemon:
    """One docker-registry over the common storage, on a port of its choice."""

    def __init__(self, name, more="", tls=None):
        self.scheme = "https" if tls else "http"
        self.configuration = os.path.join(WORK, f"{name}.yml")
        self.log = os.path.join(WORK, f"{name}.log")
        secure = f", tls: {{certificate: {tls[0]}, key: {tls[1]}}}" if tls else ""
        # It takes any free port, and we read from its log which one.
        with open(self.configuration, "w") as out:
            out.write(
                f"version: 0.1\nlog: {{level: info, formatter: json, accesslog: {{disabled: true}}}}\n"
                f"storage: {{filesystem: {{rootdirectory: {STORAGE}}}}}\n"
                f'http: {{addr: "127.0.0.1:0", secret: test{secure}}}\n{more}'
            )
        self.process = None

    def start(self):
        with open(self.log, "w") as log:
            command = ["docker-registry", "serve", self.configuration]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        atexit.register(self.stop)
        self.port = until(self.listening, 30, f"docker-registry does not start: {self.log}")
        self.address = f"{'localhost' if self.scheme == 'https' else '127.0.0.1'}:{self.port}"
        return self

    def restart(self):
        """On the port that it had: the pins name it."""
        with open(self.configuration) as known:
            text = known.read().replace("127.0.0.1:0", f"127.0.0.1:{self.port}")
        with open(self.configuration, "w") as out:
            out.write(text)
        self.start()

    def listening(self):
        if self.process.poll() is not None:
            with open(self.log) as log:
                raise OSError(f"docker-registry ended: {log.read()[-600:]}")
        with open(self.log) as log:
            for line in log:
                if "listening on 127.0.0.1:" in line:
                    return int(json.loads(line)["msg"].partition("127.0.0.1:")[2].partition(",")[0])
        return None

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def until(found, seconds, why):
    end = time.monotonic() + seconds
    while not (value := found()):
        if time.monotonic() > end:
            raise OSError(why)
        time.sleep(0.05)
    return value


def plain():
    return Daemon("plain").start()


def with_password():
    path = os.path.join(WORK, "htpasswd")
    with open(path, "w") as out:
        out.write(f"{PERSON}:{HASHED}\n")
    return Daemon("password", f"auth: {{htpasswd: {{realm: test, path: {path}}}}}\n").start()


class HubLike:
    """HTTPS, a token for everyone, and every blob redirected to another origin."""

    def __init__(self):
        self.tokens = Tokens()
        self.behind = Front(STORAGE, self.beyond, tls())
        self.behind.server.front = self.behind
        signing = certificate("token", None)
        auth = (
            f"auth: {{token: {{realm: '{self.behind.url}/token', service: {SERVICE}, issuer: {ISSUER}, "
            f"rootcertbundle: {signing[0]}}}}}\n"
        )
        # By another name than the registry's, so that it is another origin for certain.
        base = f"https://127.0.0.1:{self.behind.port}/"
        away = f"middleware: {{storage: [{{name: redirect, options: {{baseurl: '{base}'}}}}]}}\n"
        self.signing, self.daemon = signing, Daemon("hublike", auth + away, tls())
        self.leaked, self.blobs = [], 0

    def start(self):
        self.behind.__enter__()
        self.daemon.start()
        self.address = self.daemon.address
        return self

    def stop(self):
        self.daemon.stop()
        self.behind.close()

    def beyond(self, asked, handler):
        """The token service and the place of the blobs, which refuses the registry's token as such do."""
        if asked.kind == "token":
            token = self.token(asked.query)
            return handler.reply(200, json.dumps({"token": token, "expires_in": 300}).encode())
        if asked.authorization:
            self.leaked.append(asked.path)
            return handler.reply(400, b"unexpected Authorization")
        self.blobs += 1
        path = os.path.normpath(asked.path).lstrip("/")
        with open(os.path.join(STORAGE, path), "rb") as data:
            return self.behind.serve(asked, handler, data.read(), Docker_Content_Digest=None)

    def token(self, query):
        """A signed token, as docker-registry wants them."""
        asked = urllib.parse.parse_qs(query)
        access = []
        for scope in asked.get("scope", []):
            kind, name, actions = scope.split(":")
            allowed = [action for action in actions.split(",") if action == "pull"]
            access.append({"type": kind, "name": name, "actions": allowed})
        now = int(time.time())
        with open(self.signing[0]) as pem:
            chain = base64.b64encode(ssl.PEM_cert_to_DER_cert(pem.read())).decode()
        claims = {"iss": ISSUER, "sub": "", "aud": asked["service"][0], "exp": now + 300, "nbf": now - 10}
        parts = [{"typ": "JWT", "alg": "RS256", "x5c": [chain]}, {**claims, "iat": now, "jti": "1", "access": access}]
        message = ".".join(url64(json.dumps(part).encode()) for part in parts)
        command = ["openssl", "dgst", "-sha256", "-sign", self.signing[1]]
        signed = subprocess.run(command, input=message.encode(), stdout=subprocess.PIPE, check=True).stdout
        return f"{message}.{url64(signed)}"


def url64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def certificate(name, issuer, names="DNS:localhost,IP:127.0.0.1"):
    """(certificate, key), made once; signed by `issuer`, else by itself."""
    pem, key, request, extra = (os.path.join(WORK, f"{name}.{end}") for end in ("pem", "key", "csr", "ext"))
    if os.path.exists(pem):
        return pem, key
    new = ["-newkey", "rsa:2048", "-nodes", "-keyout", key]
    if not issuer:
        openssl("req", "-x509", *new, "-days", "30", "-subj", f"/CN=vestibule-test-{name}", "-out", pem)
    else:
        openssl("req", *new, "-subj", f"/CN=vestibule-test-{name}", "-out", request)
        with open(extra, "w") as out:
            out.write(f"subjectAltName={names}\nbasicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\n")
        signing = ["-CA", issuer[0], "-CAkey", issuer[1], "-CAcreateserial"]
        openssl("x509", "-req", "-in", request, *signing, "-days", "30", "-extfile", extra, "-out", pem)
    os.chmod(pem, 0o644)
    return pem, key


def authority():
    return certificate("authority", None)


def tls():
    return certificate("server", authority())


def answers(url):
    """Whether something speaks HTTP there."""
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
