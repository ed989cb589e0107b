"""Looks at the machine from outside: what a case left behind, and what its server holds."""

import json
import os
import signal
import stat
import time

from fixtures import vestibule_cgroups
from result import as_list, short


def marked_processes(marker):
    """Processes other than this one whose command line holds the marker."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if marker.encode() in f.read() and int(pid) != os.getpid():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def end_marked_processes(marker):
    """Ends what a broken server left of one case."""
    for pid in marked_processes(marker):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def process_cap(pid):
    """The smallest pids.max on the way from a process's cgroup to the root, None without one."""
    try:
        with open(f"/proc/{pid}/cgroup") as f:
            entries = [line.rstrip("\n").split(":", 2) for line in f]
    except OSError:
        return None
    roots = {"": ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"), "pids": ("/sys/fs/cgroup/pids",)}
    caps = []
    for _, controllers, path in entries:
        for root in roots.get(controllers, ()):
            folder = os.path.normpath(root + path)
            while folder.startswith(root):
                try:
                    with open(os.path.join(folder, "pids.max")) as f:
                        caps.append(f.read().strip())
                except OSError:
                    pass
                folder = os.path.dirname(folder)
    return min((int(cap) for cap in caps if cap != "max"), default=None)


def until_empty(look, end):
    """What `look` still finds at the end of the time; empty as soon as it finds nothing."""
    while (found := look()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


class HostChecks:
    """The `host` steps, by name. Each gives a list of messages, empty if all is well."""

    def __init__(self, fixtures, server, marker, step):
        self.fx, self.server, self.marker, self.step = fixtures, server, marker, step
        self.end = time.monotonic() + step.get("within_s", 5)

    def run(self):
        name = self.step["host"].replace("-", "_")
        test = getattr(self, "check_" + name, None)
        return test() if test else [f"unknown host check {self.step['host']}"]

    def check_no_marker_processes(self):
        left = until_empty(lambda: marked_processes(self.marker), self.end)
        return [f"processes left behind: {left}"] if left else []

    def check_server_alive(self):
        return [] if self.server.alive() else [f"the server ended ({self.server.proc.poll()})"]

    def check_server_exits(self):
        running = until_empty(lambda: self.server.proc.poll() is None, self.end)
        return ["the server is still running"] if running else []

    def check_server_rss_below(self):
        peak = self.server.peak_rss_mib()
        return [f"server peak RSS {peak:.0f} MiB"] if peak > self.step["mb"] else []

    def check_server_fds_below(self):
        count = len(os.listdir(f"/proc/{self.server.proc.pid}/fd"))
        return [f"the server holds {count} descriptors"] if count > self.step["count"] else []

    def check_stdout_clean(self):
        junk = self.server.junk
        return [f"not JSON-RPC on stdout: {short(repr(junk[0]))}"] if junk else []

    def check_listeners_untouched(self):
        contacts = self.fx.contacts
        return [f"reached from the sandbox: {contacts}"] if contacts else []

    def check_secret_intact(self):
        with open(self.fx.secret_path) as f:
            return [] if f.read() == self.fx.secret + "\n" else ["the host secret was changed"]

    def check_no_leftovers(self):
        def left():
            cgroups = sorted(vestibule_cgroups() - self.fx.cgroups_before)
            files = [name for name in os.listdir(self.fx.tmp) if "vestibule" in name]
            with open("/proc/self/mountinfo") as f:
                mounts = [line.split()[4] for line in f if self.fx.work in line]
            return cgroups + files + mounts

        found = until_empty(left, self.end)
        return [f"left behind: {short(str(found))}"] if found else []

    def check_ws_absent(self):
        path = os.path.join(self.fx.ws, self.step["path"])
        return [f"{self.step['path']} exists"] if os.path.lexists(path) else []

    def check_ws_contains(self):
        path = os.path.join(self.fx.ws, self.step["path"])
        try:
            with open(path, encoding="utf-8") as f:
                got = f.read()
        except (OSError, ValueError) as error:
            return [f"{self.step['path']}: {error}"]
        wanted = self.step["content"]
        return [] if wanted in got else [f"{self.step['path']} holds {short(got)}"]

    def check_audit(self):
        wanted = as_list(self.step.get("contains", []))
        until_empty(lambda: [w for w in wanted if w not in self._audit_text()], self.end)
        text = self._audit_text()
        bad = [f"audit lacks {short(w)}" for w in wanted if w not in text]
        unwanted = as_list(self.step.get("not_contains", []))
        bad += [f"audit holds {short(w)}" for w in unwanted if w in text]
        for line in text.splitlines() if self.step.get("valid_json") else []:
            try:
                json.loads(line)
            except ValueError:
                bad.append(f"audit line is not JSON: {short(line)}")
        for path in self._audit_files() if "file_mode" in self.step else []:
            mode = stat.S_IMODE(os.stat(path).st_mode)
            if mode != int(self.step["file_mode"], 8):
                bad.append(f"{path} has mode {mode:o}")
        return bad

    def _audit_files(self):
        if not os.path.isdir(self.fx.audit):
            return []
        return [os.path.join(self.fx.audit, name) for name in sorted(os.listdir(self.fx.audit))]

    def _audit_text(self):
        text = ""
        for path in self._audit_files():
            with open(path, encoding="utf-8", errors="replace") as f:
                text += f.read()
        return text
