"""A file with layer 1, and the front that serves it, for tests of the SQLite front.

    file = hrana_file.File(lab, "t(k INTEGER PRIMARY KEY, v)")
    front = hrana_file.Front(lab, file, "--without-term", "allow")
"""
import re
import signal
import sqlite3
import subprocess
import time

import given
import hrana
from checks import eventually


class File:
    def __init__(self, lab, *tables, name="app.db"):
        self.path = f"{lab.folder}/{name}"
        lab.run(given.TERMGATE, "init", "--db", f"sqlite:{self.path}")
        with self.open() as db:
            for table in tables:
                db.execute(f"CREATE TABLE {table}")

    def open(self):
        return sqlite3.connect(self.path, timeout=10)

    def rows(self, sql):
        db = self.open()
        try:
            return db.execute(sql).fetchall()
        finally:
            db.close()


class Front:
    def __init__(self, lab, file, *options, listen="127.0.0.1:0"):
        path = file if isinstance(file, str) else file.path
        self.log_path = f"{lab.folder}/front{len(lab.others)}.log"
        words = [given.TERMGATE, "proxy", "--backend", f"sqlite:{path}", "--listen", listen, *options]
        with open(self.log_path, "w") as log:
            self.process = lab.program(*words, stdout=log, stderr=log)
        assert eventually(lambda: "listening" in self.log() or self.process.poll() is not None, 20), self.log()
        found = re.search(r"listening address=\S+:(\d+)\n", self.log())
        assert found, f"the front ended with {self.process.poll()}: {self.log()}"
        self.port = int(found.group(1))

    def log(self):
        with open(self.log_path) as file:
            return file.read()

    def client(self, token=None, headers=None, **more):
        return hrana.Client(self.port, token, headers, **more)

    def metric(self, name, token=None):
        page = self.client(token).raw("GET", "/metrics")[1].decode()
        return int(float(re.search(rf"^{re.escape(name)} (\S+)$", page, re.M).group(1)))

    def resident_kb(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))

    def reload(self):
        before = len(self.log())
        self.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: re.search(r" (reloaded|reload_failed)\b.*\n", self.log()[before:]))
        return self.log()[before:]

    def end(self, seconds=10):
        """SIGTERM; how long it took."""
        began = time.monotonic()
        self.process.terminate()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        return time.monotonic() - began
