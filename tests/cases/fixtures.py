"""What is planted on the machine around the sandbox, for cases to look for from inside.

A secret file outside the workspace, secrets in the server's environment, a leaked directory
descriptor, listeners on TCP, on an abstract and on a path Unix socket, a SysV shared-memory
segment, and a sleeping process.
"""

import ctypes
import os
import random
import shutil
import socket
import stat
import subprocess
import threading

from tally import Tally


def random_hex(digits):
    return f"{random.SystemRandom().getrandbits(4 * digits):0{digits}x}"


class Fixtures:
    """Everything planted, below one work folder; `placeholders` gives the names."""

    def __init__(self, work):
        self.work = work
        self.ws = os.path.join(work, "ws")
        self.tmp = os.path.join(work, "tmp")
        self.home = os.path.join(work, "home")
        self.audit = os.path.join(work, "audit")
        self.tally = Tally(self.audit)
        self.secret_dir = os.path.join(work, "outside")
        for folder in (self.ws, self.tmp, self.home, self.secret_dir):
            os.makedirs(folder, 0o700, exist_ok=True)
        self._plant_secrets()
        self._plant_listeners()
        self._plant_process()
        self._plant_shared_memory()
        self.cgroups_before = vestibule_cgroups()

    def _plant_secrets(self):
        self.canary = "VCASE-CANARY-" + random_hex(16)
        self.secret = "VCASE-SECRET-" + random_hex(16)
        self.secret_path = os.path.join(self.secret_dir, f"id_{random_hex(8)}.key")
        with open(self.secret_path, "w") as f:
            f.write(self.secret + "\n")
        self.leak_fd = os.open(self.secret_dir, os.O_RDONLY | os.O_DIRECTORY)

    def _plant_listeners(self):
        self.contacts = []
        self.listeners = []
        self.abstract = "vcase-" + random_hex(12)
        self.unix_path = os.path.join(self.work, "h.sock")
        for name, family, address in (
            ("tcp", socket.AF_INET, ("127.0.0.1", 0)),
            ("abstract", socket.AF_UNIX, "\0" + self.abstract),
            ("unix", socket.AF_UNIX, self.unix_path),
        ):
            listener = socket.socket(family)
            listener.bind(address)
            listener.listen(16)
            self.listeners.append(listener)
            threading.Thread(target=self._accept, args=(listener, name), daemon=True).start()
        self.port = self.listeners[0].getsockname()[1]

    def _accept(self, listener, name):
        while True:
            try:
                contact, _ = listener.accept()
            except OSError:
                return
            self.contacts.append(name)
            contact.close()

    def _plant_process(self):
        self.sleeper_mark = "vcase-host-" + random_hex(12)
        self.sleeper = subprocess.Popen(
            ["/bin/bash", "-c", f"exec -a {self.sleeper_mark} sleep 86400"],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _plant_shared_memory(self):
        self.shm_key = random.SystemRandom().randrange(1 << 20, 1 << 30)
        self.shm_id = ctypes.CDLL(None).shmget(self.shm_key, 4096, 0o1666)  # IPC_CREAT | 0666

    def placeholders(self, marker):
        """What {{NAME}} in a case stands for."""
        return {
            "MARKER": marker,
            "MARKER_REV": marker[::-1],
            "CANARY": self.canary,
            "SECRET": self.secret,
            "SECRET_PATH": self.secret_path,
            "SECRET_DIR": self.secret_dir,
            "SECRET_NAME": os.path.basename(self.secret_path),
            "HOST_PORT": str(self.port),
            "HOST_ABSTRACT": self.abstract,
            "HOST_UNIX": self.unix_path,
            "HOST_PROC": self.sleeper_mark,
            "SHM_KEY": str(self.shm_key),
            "UID": str(os.getuid()),
            "GID": str(os.getgid()),
            "HOSTNAME": socket.gethostname(),
            "AUDIT_DIR": self.audit,
            "WS": self.ws,
        }

    def tally_of(self, env):
        """The count of the calls of a server that keeps its audit log here."""
        return self.tally if env.get("VESTIBULE_AUDIT_DIR") == self.audit else None

    def env(self, extra):
        """The server's environment: what a client passes on, the secrets, and the settings."""
        env = {
            "HOME": self.home,
            "LOGNAME": "tester",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "SHELL": "/bin/bash",
            "TERM": "dumb",
            "USER": "tester",
            "VESTIBULE_WORKSPACE": self.ws,
            "VESTIBULE_AUDIT_DIR": self.audit,
            "TMPDIR": self.tmp,
            "VCASE_API_KEY": self.canary,
            "ANTHROPIC_API_KEY": self.canary,
            "AWS_SECRET_ACCESS_KEY": self.canary,
            **extra,
        }
        return {name: value for name, value in env.items() if value is not None}

    def clean_workspace(self):
        """Empties the workspace, whatever a case left in it."""
        for name in os.listdir(os.fsencode(self.ws)):
            path = os.path.join(os.fsencode(self.ws), name)
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                os.unlink(path)
                continue
            os.chmod(path, 0o700)
            for _ in range(2):  # folders that only the first round opens
                for root, folders, _files in os.walk(path):
                    for folder in (os.path.join(root, f) for f in folders):
                        if not os.path.islink(folder):
                            os.chmod(folder, 0o700)
            shutil.rmtree(path, ignore_errors=True)

    def close(self):
        self.sleeper.kill()
        self.sleeper.wait(5)
        if self.shm_id >= 0:
            ctypes.CDLL(None).shmctl(self.shm_id, 0, None)  # IPC_RMID
        for listener in self.listeners:
            listener.close()
        os.close(self.leak_fd)


def vestibule_cgroups():
    """Cgroups whose name says that they are Vestibule's."""
    found = set()
    for root, folders, _ in os.walk("/sys/fs/cgroup"):
        if root.count("/") > 12:
            folders[:] = []
        found.update(os.path.join(root, f) for f in folders if "vestibule" in f)
    return found
