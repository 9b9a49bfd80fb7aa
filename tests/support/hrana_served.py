"""An SQLite file behind the proxy, for the live tests: the file as its owner sees it, the proxy that serves it, and streams
that declare a scope and a term. The client is hrana.py's: nothing retries, and nothing hides an answer.

    file = File(lab, "t(k INTEGER PRIMARY KEY, v)")
    served = Served(lab, file.path, "--without-term", "allow")
    served.client("tg.5.billing.").sql("SELECT 1")
    stream = Stream(served.url, token("billing", 5))
    stream.execute("INSERT INTO t VALUES (?)", 1)       # rows, or Failed
"""
import base64
import http.client
import json
import os
import re
import signal
import sqlite3
import subprocess
import time
import urllib.parse

import hrana
import proxy_lab
from checks import captured, eventually
from hrana import Failed, execute, rows, statement


def failed(status, error):
    """The failure that a body or a result tells of. `status` is HTTP's; 200 where one request of several has failed."""
    known = error if isinstance(error, dict) else {"message": str(error)}
    return Failed(status, known.get("code"), known.get("message") or known.get("error") or "")


def client(url, headers=None, timeout=30):
    return hrana.Client(urllib.parse.urlsplit(url).port, headers=headers, timeout=timeout)


def post(url, path, document, headers=None, timeout=30):
    """(status, body): a document where the body is one, else its text. A new connection each time."""
    one = client(url, headers, timeout)
    try:
        status, text = one.raw("POST", path, json.dumps(document))
    finally:
        one.connection.close()
    try:
        return status, json.loads(text)
    except ValueError:
        return status, text.decode("utf-8", "replace")


def pipeline(url, requests, headers=None, baton=None, version=2):
    """(status, document) of one pipeline."""
    return post(url, f"/v{version}/pipeline", {"baton": baton, "requests": requests}, headers)


def cursor(url, steps, headers=None, baton=None):
    """(status, [entries]) of one cursor; the first entry has the baton."""
    status, body = post(url, "/v3/cursor", {"baton": baton, "batch": {"steps": steps}}, headers)
    if isinstance(body, str):
        try:
            body = [json.loads(line) for line in body.splitlines() if line]
        except ValueError:
            pass
    return status, body if isinstance(body, list) else [body]


def step(sql, *values, after=None):
    """A step of a batch; `after`: the number of the step that must have succeeded."""
    made = {"stmt": statement(sql, *values)}
    if after is not None:
        made["condition"] = {"type": "ok", "step": after}
    return made


# --- who writes ---


def token(scope, term, secret=""):
    """Headers with a bearer token that carries scope and term."""
    if not re.fullmatch(r"[A-Za-z0-9_-]+", scope):
        scope = "~" + base64.urlsafe_b64encode(scope.encode()).decode().rstrip("=")
    return {"Authorization": f"Bearer tg.{term}.{scope}.{secret}"}


def named(scope, term):
    """Headers of their own."""
    return {"Termgate-Scope": urllib.parse.quote(scope, safe=""), "Termgate-Term": str(term)}


class Stream:
    """One stream over HTTP: its baton is sent on. `declared`: scope and term by SQL, ahead of each request that begins a stream."""

    def __init__(self, url, headers=None, declared=None, version=2):
        self.url, self.headers, self.declared, self.version, self.baton = url, dict(headers or {}), declared, version, None

    def send(self, *requests):
        """The results of the requests, errors as they are: {"type": "ok" | "error", …}."""
        ahead = [execute("SELECT termgate_declare(?, ?)", *self.declared)] if self.declared and self.baton is None else []
        status, document = pipeline(self.url, [*ahead, *requests], self.headers, self.baton, self.version)
        if status != 200:
            self.baton = None
            raise failed(status, document)
        self.baton = document["baton"]
        results = document["results"]
        if ahead and results[0]["type"] == "error":
            raise failed(200, results[0]["error"])
        return results[len(ahead) :]

    def ask(self, *requests):
        """The responses; Failed with the first error."""
        results = self.send(*requests)
        for one in results:
            if one["type"] == "error":
                raise failed(200, one["error"])
        return [one["response"] for one in results]

    def execute(self, sql, *values):
        return rows(self.ask(execute(sql, *values))[0]["result"])

    def batch(self, *steps):
        return results_of(self.ask({"type": "batch", "batch": {"steps": list(steps)}})[0]["result"])

    def sequence(self, sql):
        self.ask({"type": "sequence", "sql": sql})

    def is_autocommit(self):
        return self.ask({"type": "get_autocommit"})[0]["is_autocommit"]

    def close(self):
        if self.baton is not None:
            self.send({"type": "close"})
            self.baton = None


def results_of(batch):
    """The results of the steps; Failed with the first error."""
    for error in batch["step_errors"]:
        if error is not None:
            raise failed(200, error)
    return batch["step_results"]


class Socket:
    """A WebSocket of Hrana 3 with one stream open."""

    def __init__(self, url, headers=None, timeout=30):
        given = dict(headers or {})
        bearer = given.pop("Authorization", "").removeprefix("Bearer ") or None
        self.socket = hrana.WebSocket(urllib.parse.urlsplit(url).port, headers=given, timeout=timeout)
        if self.socket.status != 101:
            raise failed(self.socket.status, {"message": self.socket.head.decode("latin-1")})
        self.socket.send({"type": "hello", "jwt": bearer})
        self.expect("hello_ok", self.socket.receive())
        self.ask({"type": "open_stream", "stream_id": 1})

    def expect(self, wanted, answer):
        if answer is None:
            raise failed(0, {"code": "closed", "message": f"closed with {self.socket.closed}"})
        if answer["type"] != wanted:
            raise failed(200, answer.get("error", {"message": str(answer)}))
        return answer

    def ask(self, request):
        """The response; Failed with its error."""
        return self.expect("response_ok", self.socket.ask(request))["response"]

    def execute(self, sql, *values):
        return rows(self.ask({"type": "execute", "stream_id": 1, "stmt": statement(sql, *values)})["result"])

    def batch(self, *steps):
        return results_of(self.ask({"type": "batch", "stream_id": 1, "batch": {"steps": list(steps)}})["result"])

    def sequence(self, sql):
        self.ask({"type": "sequence", "stream_id": 1, "sql": sql})

    def close(self):
        self.socket.socket.close()


# --- the file and the proxy ---


class File:
    """The file as its owner sees it, without the proxy."""

    def __init__(self, lab, *tables, name="app.db"):
        self.lab, self.path = lab, f"{lab.folder}/{name}"
        lab.run(lab.termgate, "init", "--db", f"sqlite:{self.path}")
        self.file = sqlite3.connect(self.path, isolation_level=None, timeout=10, check_same_thread=False)
        for table in tables:
            self.rows(f"CREATE TABLE {table}")

    def rows(self, sql, *values):
        return self.file.execute(sql, values).fetchall()

    def fence(self, scope):
        found = self.rows("SELECT term FROM termgate_fences WHERE scope = ?", scope)
        return found[0][0] if found else None

    def command(self, *words):
        return captured([self.lab.termgate, words[0], "--db", f"sqlite:{self.path}", *map(str, words[1:])])

    def seal(self, scope, term):
        done = self.command("seal", "--scope", scope, "--term", term)
        if done.returncode != 0:
            raise AssertionError(done)

    def open(self):
        return sqlite3.connect(self.path, timeout=10)

    def locked(self):
        """Whether somebody has the file's write lock."""
        other = sqlite3.connect(self.path, isolation_level=None, timeout=0)
        try:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
            return False
        except sqlite3.OperationalError:
            return True
        finally:
            other.close()


class Served(proxy_lab.Proxy):
    """`termgate proxy` in front of a file, on a port of this machine."""

    def __init__(self, lab, path, *options, port=0):
        self.lab, self.log_path = lab, f"{lab.folder}/served{len(lab.proxies)}.log"
        words = [lab.termgate, "proxy", "--listen", f"127.0.0.1:{port}", "--backend", f"sqlite:{path}", *options]
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        lab.proxies.append(self)
        port_of = lambda: re.search(r"listening address=\S*?:(\d+)\n", self.log())  # noqa: E731
        eventually(lambda: port_of() or self.process.poll() is not None, 20, 0.02)
        found = port_of()
        if not found:
            raise AssertionError(f"the proxy did not start ({self.process.poll()}): {self.log()}")
        self.port = int(found.group(1))
        self.url = f"http://127.0.0.1:{self.port}"

    def client(self, token=None, headers=None, **more):
        return hrana.Client(self.port, token, headers, **more)

    def get(self, path, headers=None, timeout=15):
        one = self.client(headers=headers, timeout=timeout)
        try:
            status, text = one.raw("GET", path)
            return status, text.decode("utf-8", "replace")
        finally:
            one.connection.close()

    def stop(self, kind=signal.SIGTERM, patience=15):
        """The status with which it ended; it is killed where it does not end in time."""
        if self.process.poll() is None:
            self.process.send_signal(kind)
            try:
                self.process.wait(patience)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()


def code_of(action, *arguments):
    """The code with which it failed; None where it did not. A connection that was lost is "closed"."""
    try:
        action(*arguments)
    except Failed as failure:
        return failure.code
    except (OSError, http.client.HTTPException):
        return "closed"
    return None


def idle(process, seconds=15):
    """Whether the process stops working within some seconds."""

    def used():
        with open(f"/proc/{process.pid}/stat") as file:
            return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")

    def still():
        before = used()
        time.sleep(0.5)
        return used() - before < 0.1

    return eventually(still, seconds)
