"""Starts the proxy that a test in Python looks at, before a throw-away server of a given major (tests/support/pg_server.sh).

The proxy is `given.TERMGATE proxy --listen … --backend …`, or, where TERMGATE_RELAY is set, the program that it names,
called as `RELAY LISTEN_PORT SERVER_PORT`: a session without the rest of the proxy, for trying. Servers:
TERMGATE_TEST_SERVERS may name a folder whose pg13, pg15 … hold servers that run already; else they are started in a
folder that is removed at the end.
"""
import atexit
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import given
from given import PG_SERVER

_processes, _servers, _folders = [], [], []
_one_at_a_time = threading.Lock()


def _end():
    for process in _processes:
        process.terminate()
    for process in _processes:
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
    for folder in _servers:
        subprocess.run([PG_SERVER, "stop", folder, "immediate"], check=False)
    for folder in _folders:
        shutil.rmtree(folder, ignore_errors=True)


atexit.register(_end)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _folder():
    with _one_at_a_time:
        if not _folders:
            _folders.append(tempfile.mkdtemp(prefix="termgate-proxy."))
            os.chmod(_folders[0], 0o755)
    return Path(_folders[0])


class Server:
    """A PostgreSQL server of `major`: port, url; layer 1 is installed in database postgres where `installed`. `number`: of several at a
    time."""

    def __init__(self, major, installed=True, number=0):
        self.major = major
        running = os.environ.get("TERMGATE_TEST_SERVERS")
        if running:
            self.folder = Path(running) / f"pg{major}"
            done = subprocess.run([PG_SERVER, "url", self.folder], check=True, capture_output=True, text=True)
        else:
            self.folder = _folder() / f"pg{major}{f'-{number}' if number else ''}"
            done = subprocess.run([PG_SERVER, "start", str(major), self.folder, "fsync=off"], check=True, capture_output=True, text=True)
            _servers.append(self.folder)
        self.url = done.stdout.strip()
        self.port = int(self.url.rsplit(":", 1)[1].split("/")[0])
        if installed:
            self.install(self.url)

    def url_of(self, database):
        return f"{self.url.rsplit('/', 1)[0]}/{database}"

    def install(self, url):
        subprocess.run([given.TERMGATE, "init", "--db", url], check=True, capture_output=True, text=True)


def proxy(server, scope=None, term=None, options=(), database="postgres"):
    """Starts the proxy before `server` and returns its port. `scope` and `term`: a rule gives them to every session. `database`: which
    the proxy watches."""
    port, environment = free_port(), {}
    relay = os.environ.get("TERMGATE_RELAY")
    command = (
        [relay, str(port), str(server.port)]
        if relay
        else [given.TERMGATE, "proxy", "--listen", f"127.0.0.1:{port}", "--backend", server.url_of(database), *options]
    )
    if scope and relay:
        environment = {"SCOPE": scope, "TERM_": str(term)}
    elif scope:
        rules = _folder() / f"rules-{port}"
        rules.write_text(f'[rule everybody]\nscope = "{scope}"\nterm = {term}\n')
        command += ["--rules", str(rules)]
    log = open(server.folder / f"proxy-{port}.log", "w") if os.access(server.folder, os.W_OK) else subprocess.DEVNULL
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log)
    _processes.append(process)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"{command} ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return port
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"{command} does not listen")
