"""What the live tests of the proxy share: throw-away servers, proxies, and a client that speaks the wire itself.

    lab = Lab("name")                           a folder of its own; lab.close() stops what was started
    server = lab.server("15")                   a PostgreSQL, layer 1 installed
    proxy = lab.proxy(server.url)               a proxy in front of it

In a test `lab` is a fixture (tests/live/conftest.py). `Wire` sends what no driver would, in the messages of pgraw.py.
`lab.check` goes on after a failure (checks.py).
"""
import itertools
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import checks
import given
import pgraw
from checks import eventually
from pgraw import describe, execute, fields, parse, query  # noqa: F401
from pgraw import frame as message  # noqa: F401


class Refused(Exception):
    """The other side ended the conversation; args[0] is its error as a dictionary, or a text."""


def startup(user="postgres", database="postgres", version=3 << 16, **parameters):
    return pgraw.startup(dict(user=user, database=database, **parameters).items(), version)


def declared(scope, term):
    """The startup option that declares scope and term."""
    return {"options": f"-c termgate.scope={scope} -c termgate.term={term}"}


def bind(portal, statement, *values):
    return pgraw.bind(portal, statement, values)


SYNC, FLUSH, TERMINATE = pgraw.sync(), pgraw.flush(), pgraw.terminate()


class Wire:
    """One connection. `login=False` sends nothing at all; `path`: of a Unix socket; `before`: bytes ahead of all, a PROXY header."""

    def __init__(
        self, port, login=True, host="127.0.0.1", source=None, timeout=20, receive_buffer=None, path=None, before=b"", **parameters
    ):
        self.socket = socket.socket(socket.AF_UNIX if path else socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.socket.settimeout(timeout)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source:
            self.socket.bind((source, 0))
        self.socket.connect(path or (host, port))
        if not path:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(before)
        self.pid = None
        if login:
            self.send(startup(**parameters))
            self.until("Z")

    def send(self, *pieces):
        self.socket.sendall(b"".join(pieces))

    def exactly(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise Refused("closed")
            data += piece
        return data

    def message(self):
        kind = self.exactly(1).decode("latin-1")
        return kind, self.exactly(struct.unpack("!I", self.exactly(4))[0] - 4)

    def until(self, wanted):
        """Reads up to a message of that kind: (first columns of the rows, the last error)."""
        rows, error = [], None
        while True:
            kind, body = self.message()
            if kind == "K":
                self.pid, self.key = struct.unpack("!I", body[:4])[0], body[4:]
            if kind == "D":
                length = struct.unpack("!i", body[2:6])[0]
                rows.append(None if length < 0 else body[6 : 6 + length].decode())
            if kind == "E":
                error = fields(body)
                if error["S"] in ("FATAL", "PANIC"):
                    raise Refused(error)
            if kind == wanted:
                self.status = body.decode("latin-1") if kind == "Z" else None
                return rows, error

    def ask(self, sql):
        self.send(query(sql))
        return self.until("Z")

    def rest(self):
        """All that comes until the other side closes."""
        data = b""
        try:
            for piece in iter(lambda: self.socket.recv(65536), b""):
                data += piece
        except ConnectionError:
            pass
        return data

    def close(self):
        self.socket.close()


def errors_in(data):
    """The ErrorResponses of a stretch of bytes that begins at a message."""
    found, at = [], 0
    while at + 5 <= len(data):
        length = struct.unpack("!I", data[at + 1 : at + 5])[0]
        if data[at : at + 1] == b"E":
            found.append(fields(data[at + 5 : at + 1 + length]))
        at += 1 + length
    return found


class Server:
    """A PostgreSQL; with layer 1, if not `layer1=False`."""

    def __init__(self, lab, major, *settings, layer1=True):
        self.lab, self.major, self.folder = lab, major, f"{lab.folder}/pg{major}-{next(lab.numbers)}"
        self.url = lab.run(lab.pg_server, "start", major, self.folder, "fsync=off", *settings)
        self.port = int(re.search(r":(\d+)/", self.url).group(1))
        lab.servers.append(self)
        if layer1:
            lab.run(lab.termgate, "init", "--db", self.url)

    def sql(self, text):
        """Runs SQL as the superuser; the first column of the rows."""
        client = Wire(self.port)
        try:
            rows, error = client.ask(text)
            if error:
                raise AssertionError(f"{text}: {error}")
            return rows
        finally:
            client.close()

    def stop(self):
        subprocess.run([self.lab.pg_server, "stop", self.folder, "immediate"], capture_output=True)


class Proxy:
    """`listen` takes the place of 127.0.0.1:PORT; `before`: words that start the command, a shell's perhaps; `more`: for Popen."""

    def __init__(self, lab, backend, *options, port=0, listen=None, before=(), **more):
        self.lab = lab
        self.log_path = f"{lab.folder}/proxy{next(lab.numbers)}.log"
        if given.option("seats") and "--seats" not in options:
            options = (*options, "--seats", given.option("seats"))
        where = [f"127.0.0.1:{port}"] if listen is None else listen
        words = [
            *before,
            lab.termgate,
            "proxy",
            *(word for one in where for word in ("--listen", one)),
            "--backend",
            backend,
            "--http",
            "127.0.0.1:0",
            *options,
        ]
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, **more)
        lab.proxies.append(self)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            found = re.findall(r"(listening|serving_http) address=\S*?:?(\d*)\n", self.log())
            if any(kind == "serving_http" for kind, _ in found):
                break
            if self.process.poll() is not None:
                raise AssertionError(f"the proxy ended with {self.process.returncode}: {self.log()}")
            time.sleep(0.02)
        self.ports = [int(port or 0) for kind, port in found if kind == "listening"]  # 0: a Unix socket
        self.port, self.http = self.ports[0], int(dict(found)["serving_http"])

    def log(self):
        with open(self.log_path) as file:
            return file.read()

    def logged(self, pattern, seconds=5.0):
        return eventually(lambda: re.search(pattern, self.log()), seconds)

    def get(self, path, host=None, timeout=15):
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}{path}", headers={"Host": host} if host else {})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name):
        """A series with labels appears with its first event: until then it is 0. Its family is always there."""
        page = self.get("/metrics")[1]
        family = name.split("{")[0]
        assert re.search(rf"^# TYPE {re.escape(family)} ", page, re.M), f"/metrics has no {family}"
        found = re.search(rf"^{re.escape(name)} (\S+)$", page, re.M)
        assert found or "{" in name, f"/metrics has no value of {name}"
        return int(float(found.group(1))) if found else 0

    def reload(self):
        """SIGHUP; the line that says what came of it."""
        before = len(self.log())
        self.process.send_signal(signal.SIGHUP)
        eventually(lambda: re.search(r" (reloaded|reload_failed)\b.*\n", self.log()[before:]))
        return self.log()[before:]

    def resident_kb(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode


class Lab:
    def __init__(self, name, termgate=None, pg_server=given.PG_SERVER):
        self.termgate, self.pg_server = termgate or given.TERMGATE, pg_server
        self.folder = tempfile.mkdtemp(prefix=f"termgate-{name}-")
        os.chmod(self.folder, 0o755)
        self.servers, self.proxies, self.others = [], [], []
        self.numbers = itertools.count()

    def run(self, *words, **more):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **more)
        if done.returncode != 0:
            raise AssertionError(f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def server(self, major="15", *settings, **more):
        return Server(self, major, *settings, **more)

    def proxy(self, backend, *options, **more):
        return Proxy(self, backend, *options, **more)

    def certificate(self, name, san=None, ca=None, days="2", *more):
        """A key and a certificate, signed by `ca` or by itself: paths of both."""
        key, certificate, request, extensions = (f"{self.folder}/{name}.{end}" for end in ("key", "crt", "csr", "ext"))
        new = (*"openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj".split(), f"/CN={name}", "-keyout", key)
        if ca is None:
            self.run(*new, "-x509", "-days", days, "-out", certificate)
        else:
            self.run(*new, "-out", request)
            with open(extensions, "w") as file:
                file.write(f"subjectAltName={san}\n" if san else "")
            self.run(
                *"openssl x509 -req -in".split(),
                request,
                "-CA",
                ca[1],
                "-CAkey",
                ca[0],
                "-CAcreateserial",
                "-days",
                days,
                "-extfile",
                extensions,
                "-out",
                certificate,
                *more,
            )
        return key, certificate

    def program(self, *words, **more):
        """A process that is ended with the lab."""
        process = subprocess.Popen([str(word) for word in words], **more)
        self.others.append(process)
        return process

    def check(self, name, condition, detail=""):
        return checks.check(name, condition, detail)

    def close(self, keep=False):
        """Stops all; removes the folder unless the logs are to be kept."""
        for process in self.others:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
        for proxy in self.proxies:
            if proxy.process.poll() is None:
                proxy.process.kill()
                proxy.process.wait()
        for server in self.servers:
            server.stop()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def refusal(action):
    """The error that `action` ends with, by its fields; None where it does not fail."""
    try:
        action()
    except Refused as refused:
        return refused.args[0] if isinstance(refused.args[0], dict) else {"C": "", "M": str(refused)}
    except OSError as error:
        return {"C": "", "M": repr(error)}
    return None
