"""A Patroni cluster on loopback: one etcd and three PostgreSQL 15 nodes, as an ordinary user, in a folder that is
removed afterwards.
"""
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from given import free_port  # noqa: E402

BIN = "/usr/lib/postgresql/15/bin"


def within(seconds, condition, what):
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.05)


class Node:
    def __init__(self, cluster, index):
        self.cluster, self.name = cluster, f"n{index}"
        self.port, self.rest = free_port(), free_port()
        self.folder = cluster.folder / self.name
        self.folder.mkdir()
        self.patroni = None

    def configure(self):
        where = {"listen": f"127.0.0.1:{self.rest}", "connect_address": f"127.0.0.1:{self.rest}"}
        one = {"username": "postgres"}
        config = {
            "scope": "fenced",
            "name": self.name,
            "restapi": where,
            # The v2 API. With etcd3, Patroni 3.0.2 kept a watch that had died while it was stopped, and never found a
            # synchronous standby again.
            "etcd": {"host": f"127.0.0.1:{self.cluster.etcd_port}"},
            "bootstrap": {
                "dcs": {
                    # As quick as Patroni can be here, so that a hundred failovers take minutes.
                    **{"ttl": 5, "loop_wait": 1, "retry_timeout": 2, "master_start_timeout": 0, "maximum_lag_on_failover": 1 << 30},
                    "synchronous_mode": self.cluster.synchronous,
                    "synchronous_mode_strict": self.cluster.strict,
                    "postgresql": {"use_pg_rewind": True},
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{self.port}",
                "connect_address": f"127.0.0.1:{self.port}",
                "data_dir": str(self.folder / "data"),
                "bin_dir": BIN,
                "pgpass": str(self.folder / "pgpass"),
                "authentication": {"superuser": one, "replication": one, "rewind": one},
                "parameters": {
                    "unix_socket_directories": str(self.folder),
                    "max_connections": 60,
                    "shared_buffers": "16MB",
                    "fsync": "off",
                },
                # The end of recovery needs no checkpoint, and a rewind must see the new timeline: Patroni takes care of both.
                "pg_hba": ["local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
            },
        }
        (self.folder / "patroni.yml").write_text(yaml.safe_dump(config))

    def start(self):
        log = open(self.folder / "log", "ab")
        self.patroni = self.cluster.popen(["patroni", str(self.folder / "patroni.yml")], log)
        log.close()

    def answers(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.rest}{path}", timeout=1) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def postgres(self):
        """All processes of this node's server: of the postmaster's session."""
        try:
            first = int((self.folder / "data" / "postmaster.pid").read_text().split("\n")[0])
        except (FileNotFoundError, ValueError):
            return []
        found = [first]
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                    if parent == first:
                        found.append(int(entry.name))
                except (FileNotFoundError, ProcessLookupError):
                    pass
        return found

    def processes(self, title):
        """Those of its server with this in their titles."""
        found = []
        for pid in self.postgres():
            try:
                if title in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
            except (FileNotFoundError, ProcessLookupError):
                pass
        return found

    def receivers(self):
        return self.processes(b"walreceiver")

    def signal(self, number, patroni=True):
        pids = self.postgres() + ([self.patroni.pid] if patroni else [])
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        return pids

    def kill(self, patroni):
        self.signal(signal.SIGKILL, patroni)
        if patroni:
            self.patroni.wait()


class Cluster:
    def __init__(self, synchronous, strict=False):
        self.synchronous, self.strict = synchronous, strict
        self.folder = Path(tempfile.mkdtemp(prefix="termgate-patroni."))
        self.user = pwd.getpwnam("postgres") if os.getuid() == 0 else None
        self.etcd_port, peer = free_port(), free_port()
        self.nodes = [Node(self, index) for index in range(3)]
        if self.user:
            for path in (self.folder, *(node.folder for node in self.nodes)):
                os.chown(path, self.user.pw_uid, self.user.pw_gid)
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{peer}"
        with open(self.folder / "etcd.log", "wb") as log:
            self.etcd = self.popen(
                f"etcd --data-dir {self.folder}/etcd --listen-client-urls {client} --advertise-client-urls {client} --unsafe-no-fsync"
                f" --enable-v2 --listen-peer-urls {peer} --initial-advertise-peer-urls {peer} --initial-cluster default={peer}".split(),
                log,
            )
        try:
            for node in self.nodes:
                node.configure()
                node.start()
            self.leader(90)
            self.settle(90)
        except BaseException:
            self.stop()
            raise

    def popen(self, command, log):
        if self.user:
            command = ["setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups", *command]
        env = {"HOME": str(self.folder), "PATH": "/usr/bin:/bin:/usr/sbin", "LANG": "C.UTF-8"}
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env=env)

    def leader(self, seconds=60, other_than=None):
        def find():
            return next((node for node in self.nodes if node is not other_than and node.answers("/primary")), None)

        return within(seconds, find, "a primary")

    def settle(self, seconds=90):
        """Three nodes that follow one primary, and in synchronous mode one of them as the synchronous standby."""

        def settled():
            for node in self.nodes:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{node.rest}/cluster", timeout=1) as answer:
                        members = json.load(answer)["members"]
                except (urllib.error.URLError, OSError, ValueError):
                    return False
                break
            leaders = [member for member in members if member["role"] == "leader"]
            standbys = [member for member in members if member["role"] in ("replica", "sync_standby")]
            running = (
                all(member["state"] in ("running", "streaming") for member in members) and len({m.get("timeline") for m in members}) == 1
            )
            synchronous = not self.synchronous or any(member["role"] == "sync_standby" for member in members)
            ready = all(node.answers("/primary") or node.answers("/replica") for node in self.nodes)
            return running and len(leaders) == 1 and len(standbys) == 2 and synchronous and ready

        within(seconds, settled, "three nodes that follow one primary")

    def switch_over(self, node):
        body = json.dumps({"leader": node.name}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{node.rest}/switchover", data=body, method="POST")
        request.add_header("Content-Type", "application/json")
        urllib.request.urlopen(request, timeout=60).read()

    def hosts(self):
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def url(self, user, more="target_session_attrs=primary&connect_timeout=2"):
        return f"postgresql://{user}@{self.hosts()}/postgres?{more}"

    def stop(self):
        for node in self.nodes:
            if node.patroni:
                node.signal(signal.SIGKILL)
                node.patroni.wait()
        self.etcd.kill()
        self.etcd.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
