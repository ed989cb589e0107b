"""A registry of our own on this machine, over plain HTTP: docker-registry, and images put into it."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request

from checking import Skip, Wrong
from host import SLOW, WORK

PROGRAM = "/usr/bin/docker-registry"
TYPE = "application/vnd.oci.image."


class Registry:
    """To be used in a `with` block. Its storage goes with it."""

    def __enter__(self):
        if not os.path.exists(PROGRAM):
            raise Skip("needs the package docker-registry")
        self.folder = tempfile.mkdtemp(prefix="registry.", dir=WORK)
        settings, self.log = os.path.join(self.folder, "settings.yml"), os.path.join(self.folder, "log")
        # It takes any free port, and we read from its log which one.
        with open(settings, "w") as out:
            out.write(
                "version: 0.1\nlog: {level: info, formatter: json, accesslog: {disabled: true}}\n"
                f"storage: {{filesystem: {{rootdirectory: {self.folder}/storage}}}}\n"
                'http: {addr: "127.0.0.1:0", secret: test}\n'
            )
        with open(self.log, "w") as log:
            command = [PROGRAM, "serve", settings]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self.address = self.listening()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder)

    def listening(self):
        end = time.monotonic() + 30 * SLOW
        while time.monotonic() < end and self.process.poll() is None:
            with open(self.log) as log:
                for line in log:
                    if "listening on 127.0.0.1:" in line:
                        port = json.loads(line)["msg"].partition("127.0.0.1:")[2].partition(",")[0]
                        return f"127.0.0.1:{port}"
            time.sleep(0.05)
        with open(self.log) as log:
            raise Wrong(f"docker-registry does not start: {log.read()[-600:]}")

    def ask(self, method, path, data=None, **headers):
        url = path if path.startswith("http") else f"http://{self.address}/v2/{path}"
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(url, data, headers, method=method)
        # Not through a proxy that this machine may need for others.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as answer:
            return answer.headers

    def blob(self, name, kind, data):
        """Puts a part of an image there, and describes it."""
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        place = self.ask("POST", f"{name}/blobs/uploads/", b"")["Location"]
        self.ask("PUT", f"{place}&digest={digest}", data, Content_Type="application/octet-stream")
        return {"mediaType": TYPE + kind, "digest": digest, "size": len(data)}

    def manifest(self, name, kind, content, tag):
        """The same for what names the parts."""
        data = json.dumps({"schemaVersion": 2, "mediaType": TYPE + kind, **content}).encode()
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        self.ask("PUT", f"{name}/manifests/{tag or digest}", data, Content_Type=TYPE + kind)
        return {"mediaType": TYPE + kind, "digest": digest, "size": len(data)}

    def push(self, name, archive, in_index, tag=None):
        """An image of one layer; with an index, as the official ones have it. The digest that names it."""
        with open(os.path.join(WORK, "images", archive), "rb") as file:
            layer = self.blob(name, "layer.v1.tar", file.read())
        architecture = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
        platform = {"os": "linux", "architecture": architecture}
        config = {
            **platform,
            "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin", f"PUSHED={self.address}"]},
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
        }
        config = self.blob(name, "config.v1+json", json.dumps(config).encode())
        content = {"config": config, "layers": [layer]}
        found = self.manifest(name, "manifest.v1+json", content, tag)
        if in_index:
            content = {"manifests": [{**found, "platform": platform}]}
            found = self.manifest(name, "index.v1+json", content, tag)
        return found["digest"]
