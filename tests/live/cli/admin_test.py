#!/usr/bin/env python3
"""`termgate admin` over real sockets, on PostgreSQL (a server of its own) and on an SQLite file: leases as a
resource, what is refused and changes nothing, and a thousand open event streams. admin_page_test.py has the page.

  pytest tests/live/cli/admin_test.py [-k streams]

Long: every test starts the same two servers.
"""
import http.client
import itertools
import json
import os
import re
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

import pytest

from both_databases import CLEAN, command, sh
from checks import check, eventually
from given import EXTENSION, PG_SERVER, ROOT, SANITIZED, TERMGATE

scratch = tempfile.TemporaryDirectory(prefix="termgate-admin.")
os.chmod(scratch.name, 0o755)  # the server runs as another user
TOKENS = {"read": "r" * 40, "lead": "l" * 40, "operate": "o" * 40}


class Served:
    """One `termgate admin`, for as long as the block lasts."""

    def __init__(self, url, *words):
        line = self.start("admin", "--http", "127.0.0.1:0", "--poll", "100ms", *words, url=url).stdout.readline()
        self.serves_at(line.split("http://")[-1].strip().rstrip("/") if "http://" in line else None)

    def start(self, *words, url=None):
        self.tokens, self.errors = (Path(scratch.name) / f"{what} {id(self)}" for what in ("tokens", "errors"))
        self.tokens.write_text("# who may what\n\n" + "".join(f"{level}-er {level} {token}\n" for level, token in TOKENS.items()))
        self.tokens.chmod(0o600)
        environment = dict(CLEAN, TERMGATE_DB=url) if url else CLEAN
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": self.errors.open("w"), "text": True}
        self.process = subprocess.Popen([TERMGATE, *words, "--tokens", str(self.tokens)], env=environment, **pipes)
        return self.process

    def serves_at(self, address):
        self.address = address
        self.host, self.port = (address.rsplit(":", 1)[0], int(address.rsplit(":", 1)[1])) if address else (None, 0)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.terminate()
        status = self.process.wait(20)
        self.process.stdout.close()
        # Also with connections and event streams that are still open.
        assert kind or status == 0, f"it ended with status {status}: {self.errors.read_text()}"

    def ask(self, method, path, level=None, body=None, headers=None, raw=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=20)
        sent = dict(headers or {})
        if level:
            sent["Authorization"] = "Bearer " + TOKENS.get(level, level)
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
            raw = json.dumps(body)
        connection.request(method, path, raw, sent)
        reply = connection.getresponse()
        text = reply.read().decode()
        connection.close()
        return reply.status, json.loads(text) if reply.headers.get("Content-Type") == "application/json" and text else text, reply.headers

    def events(self, token):
        """A connection that has requested the stream of events."""
        peer = socket.create_connection((self.host, self.port), timeout=20)
        peer.sendall(f"GET /api/v1/events HTTP/1.1\r\nHost: {self.address}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        return peer

    def memory_kib(self):
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text()).group(1))


class Proxied(Served):
    """The same, as a part of `termgate proxy`."""

    def __init__(self, backend):
        self.start("proxy", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--backend", backend)
        self.serves_at(re.search(r"serving_http.*?(127\.0\.0\.1:\d+)", self.wait_for("serving_http")).group(1))

    def wait_for(self, what):
        assert eventually(lambda: what in self.errors.read_text() or self.process.poll() is not None, 20)
        assert what in self.errors.read_text(), self.errors.read_text()
        return self.errors.read_text()


def quoted(scope):
    return urllib.parse.quote(scope, safe="")


@pytest.fixture(scope="module")
def urls():
    """Of both databases, layer 1 installed."""
    server = f"{scratch.name}/pg"
    made = {"postgresql": sh(PG_SERVER, "start", "15", server, "fsync=off"), "sqlite": f"sqlite:{scratch.name}/admin.db"}
    for url in made.values():
        sh(TERMGATE, "init", "--db", url)
    yield made
    sh(PG_SERVER, "stop", server, "immediate")


@pytest.fixture(params=("postgresql", "sqlite"))
def url(request, urls):
    return urls[request.param]


@pytest.fixture
def served(request, url):
    """A test may parametrize it by more words of the command."""
    with Served(url, *getattr(request, "param", ())) as made:
        yield made


@pytest.fixture
def scope(numbers=itertools.count()):
    return f"scope {next(numbers)}"


def test_a_lease_as_a_resource(served, url, scope):
    path = "/api/v1/leases/" + quoted(scope)
    status, lease, _ = served.ask(
        "POST", "/api/v1/leases", "lead", {"scope": scope, "owner": "me", "ttl_ms": 60000, "endpoint": "https://me.example/"}
    )
    assert (status, lease["term"], lease["owner"]) == (201, "1", "me"), lease
    assert served.ask("POST", "/api/v1/leases", "lead", {"scope": scope, "owner": "other", "ttl_ms": 60000})[0] == 409
    assert served.ask("GET", path, "read")[1]["state"] == "held"
    assert [one["scope"] for one in served.ask("GET", "/api/v1/leases?state=held", "read")[1]["leases"] if one["scope"] == scope] == [scope]
    assert served.ask("PUT", path, "lead", {"owner": "me", "term": "1", "ttl_ms": "90000"})[0] == 200
    assert served.ask("PUT", path, "lead", {"owner": "other", "term": "1", "ttl_ms": 90000})[0] == 409
    assert served.ask("DELETE", path, "lead", {"owner": "me", "term": "7"})[0] == 409
    assert served.ask("DELETE", path, "lead", {"owner": "me", "term": "1"})[:2] == (200, {"released": True})
    assert served.ask("GET", path, "read")[1]["state"] == "released"
    assert [one for one in served.ask("GET", "/api/v1/leases?state=held", "read")[1]["leases"] if one["scope"] == scope] == []
    # A term that no browser's number could hold.
    high = scope + " sealed"
    sealed = {"term": "4611686018427387904", "reason": "test", "confirm": high}
    assert served.ask("POST", f"/api/v1/fences/{quoted(high)}/seal", "operate", sealed)[1]["term"] == sealed["term"]
    assert served.ask("GET", "/api/v1/fences/" + quoted(high), "read")[1]["term"] == "4611686018427387904"
    entries = served.ask("GET", "/api/v1/audit?scope=" + quoted(scope), "read")[1]["audit"]
    assert [entry["action"] for entry in entries if entry["action"] in ("acquire", "release")] == ["release", "acquire"]


def test_a_hand_over(served, url, scope):
    path, listed = f"/api/v1/leases/{quoted(scope)}/hand-over", "/api/v1/hand-overs?scope=" + quoted(scope)
    assert served.ask("POST", path, "lead", {})[0] == 409
    served.ask("POST", "/api/v1/leases", "lead", {"scope": scope, "owner": "old", "ttl_ms": 60000})
    for level, body, status in ((None, {}, 401), ("read", {}, 403), ("lead", {"drain_ms": 5}, 400), ("lead", {"to": "old"}, 400)):
        assert served.ask("POST", path, level, body)[0] == status, (level, body)
    assert served.ask("GET", listed, "read")[1] == {"hand_overs": []}
    status, asked, _ = served.ask("POST", path, "lead", {"to": "new:*", "drain_ms": 20000, "reason": "a deploy"})
    assert (status, asked["state"], asked["requested_by"]) == (202, "asked", "admin lead-er"), asked
    renewed = served.ask("PUT", "/api/v1/leases/" + quoted(scope), "lead", {"owner": "old", "term": "1", "ttl_ms": 60000})
    assert renewed[1]["asked_to_leave"], renewed
    assert scope in [one["scope"] for one in served.ask("GET", "/api/v1/overview", "read")[1]["hand_overs"]]
    assert re.search(rf'termgate_hand_over{{scope="{scope}",state="asked"}} 1\n', served.ask("GET", "/metrics", "read")[1])
    served.ask("DELETE", "/api/v1/leases/" + quoted(scope), "lead", {"owner": "old", "term": "1"})
    assert served.ask("POST", "/api/v1/leases", "lead", {"scope": scope, "owner": "another", "ttl_ms": 60000})[0] == 409
    assert served.ask("POST", "/api/v1/leases", "lead", {"scope": scope, "owner": "new:1", "ttl_ms": 60000})[0] == 201
    receipt = served.ask("GET", listed, "read")[1]["hand_overs"][0]
    wanted = {"state": "taken", "owner": "old", "term": "1", "next_owner": "new:1", "next_term": "2", "reason": "a deploy"}
    assert receipt | wanted == receipt, receipt
    metrics = served.ask("GET", "/metrics", "read")[1]
    assert re.search(rf'termgate_hand_over_gap_seconds{{scope="{scope}"}} [0-9.]+\n', metrics)
    assert f'termgate_hand_over{{scope="{scope}"' not in metrics


def test_a_run_of_a_job_by_http(served, url, scope):
    lease = "/api/v1/leases/" + quoted(scope)
    served.ask("POST", "/api/v1/leases", "lead", {"scope": scope, "owner": "me", "ttl_ms": 60000})
    assert scope not in [one["scope"] for one in served.ask("GET", "/api/v1/leases?state=renewed", "read")[1]["leases"]]
    served.ask("PUT", lease, "lead", {"owner": "me", "term": "1", "ttl_ms": 60000})
    assert scope in [one["scope"] for one in served.ask("GET", "/api/v1/leases?state=renewed", "read")[1]["leases"]]
    begin = {"job": "nightly", "scope": scope, "owner": "me", "term": "1"}
    assert served.ask("POST", "/api/v1/jobs", "read", begin)[0] == 403
    status, run, _ = served.ask("POST", "/api/v1/jobs", "lead", begin)
    assert status == 201, run
    path = "/api/v1/jobs/" + run["run_id"]
    state = lambda: served.ask("GET", path, "read")[1]
    # A heartbeat, with the lease's renewal, and the word that its holder shall leave.
    going = {"renewed": True, "leave_before_ms": None}
    assert served.ask("PUT", path, "lead", {"checkpoint": "3", "ttl_ms": 60000})[:2] == (200, going)
    assert state()["checkpoint"] == "3"
    served.ask("POST", lease + "/hand-over", "lead", {"drain_ms": 20000})
    status, beaten, _ = served.ask("PUT", path, "lead", {})
    assert (status, beaten["renewed"], beaten["leave_before_ms"] > time.time() * 1000) == (202, False, True), beaten
    for method, to, body, expected in (
        ("PUT", path, {"ttl_ms": 5}, 400),
        ("POST", path + "/finish", {"status": "cancelled"}, 400),
        ("POST", path + "/finish", {}, 400),
        ("POST", path, {}, 405),
        ("POST", path + "/stop", {}, 404),
        ("PUT", "/api/v1/jobs/987654321", {}, 404 if url.startswith("postgres") else None),
        ("POST", path + "/cancel", {"reason": "r", "confirm": "nightly"}, 403),
    ):
        if expected:
            assert served.ask(method, to, "lead", body)[0] == expected, (method, to, body)
    assert served.ask("POST", path + "/finish", "lead", {"status": "completed", "exit_code": 0})[0] == 200
    assert (state()["status"], state()["exit_code"]) == ("completed", 0)
    for method, to, body in (("PUT", path, {}), ("POST", path + "/finish", {"status": "failed"})):
        assert served.ask(method, to, "lead", body)[0] == 409
    # Cancelled by an operator; the lease lost.
    path = "/api/v1/jobs/" + served.ask("POST", "/api/v1/jobs", "lead", begin)[1]["run_id"]
    assert served.ask("POST", path + "/cancel", "operate", {"reason": "r", "confirm": scope})[0] == 400
    assert served.ask("POST", path + "/cancel", "operate", {"reason": "wrong day", "confirm": "nightly"})[0] == 200
    assert (state()["status"], state()["detail"]) == ("cancelled", "cancelled by admin operate-er: wrong day")
    assert served.ask("PUT", path, "lead", {"ttl_ms": 60000})[0] == 409
    path = "/api/v1/jobs/" + served.ask("POST", "/api/v1/jobs", "lead", begin)[1]["run_id"]
    served.ask("POST", lease + "/force-release", "operate", {"reason": "r", "confirm": scope})
    for method, to, body in (("PUT", path, {"ttl_ms": 60000}), ("POST", path + "/finish", {"status": "completed"})):
        assert served.ask(method, to, "lead", body)[0] == 409
    assert served.ask("POST", "/api/v1/jobs", "lead", begin)[0] == 409


def test_a_run_is_requested(served, url, scope):
    want = {"job": "nightly", "scope": scope, "kind": "resume", "reason": "the disk is empty again"}
    ask = lambda who, body: served.ask("POST", "/api/v1/job-requests", who, body)
    assert ask(None, want)[0] == 401
    assert ask("read", want)[0] == 403
    assert served.ask("GET", "/api/v1/job-requests", "lead")[0] == 405
    for bad in ({**want, "kind": "stop"}, {**want, "kind": 1}, {"job": "nightly"}, {**want, "job": ""}, {**want, "job": "x" * 300}):
        assert ask("lead", bad)[0] == 400, bad
    status, made, _ = ask("lead", want)
    assert status == 202, made
    status, refused, _ = ask("operate", {"job": "nightly", "scope": scope})
    assert (status, made["run_id"] in refused["error"]["message"]) == (409, True), refused
    path = "/api/v1/jobs/" + made["run_id"]
    run = served.ask("GET", path, "read")[1]
    assert (run["status"], run["request"], run["term"], run["owner"]) == ("requested", "resume", "0", "")
    assert run["detail"] == "requested by admin lead-er: the disk is empty again"
    listed = served.ask("GET", "/api/v1/jobs?status=requested&scope=" + quoted(scope), "read")[1]["jobs"]
    assert [one["run_id"] for one in listed] == [made["run_id"]]
    for method, to, body in (("PUT", path, {}), ("POST", path + "/finish", {"status": "completed"})):
        assert served.ask(method, to, "lead", body)[0] == 409
    # A hostile name is text everywhere.
    odd = "'; DROP TABLE x; -- \n\u001b <b>"
    assert ask("lead", {"job": odd, "scope": scope})[0] == 202
    assert odd in [one["job"] for one in served.ask("GET", "/api/v1/jobs?status=requested", "read")[1]["jobs"]]
    # The gauges say how the job does, not that somebody asks.
    assert f'termgate_job_last_status{{scope="{scope}",job_name="nightly"' not in served.ask("GET", "/api/v1/metrics", "read")[1]
    assert served.ask("POST", path + "/cancel", "operate", {"reason": "no", "confirm": "nightly"})[0] == 200
    assert served.ask("POST", path + "/cancel", "operate", {"reason": "no", "confirm": "nightly"})[0] == 409
    assert ask("lead", want)[0] == 202


def test_runs_of_hosts_and_retries_are_counted(served, url, scope):
    lines = lambda name: sorted(
        line for line in served.ask("GET", "/api/v1/metrics", "read")[1].splitlines() if line.startswith(name + "{") and scope in line
    )
    for owner, ends in ((f"{scope}-a:1:x", ("failed", "failed", "completed")), (f"{scope}-b:2:y", ("completed", None))):
        for end in ends:
            words = ("--job", "nightly", "--scope", scope, "--term", "5", "--owner", owner)
            run = command(url, "job", "start", *words).stdout.strip()
            if end:
                command(url, "job", "finish", "--run", run, "--status", end)
    name = scope.replace(chr(92), chr(92) * 2)
    assert lines("termgate_job_runs") == [
        f'termgate_job_runs{{host="{name}-a",status="completed"}} 1',
        f'termgate_job_runs{{host="{name}-a",status="failed"}} 2',
        f'termgate_job_runs{{host="{name}-b",status="completed"}} 1',
        f'termgate_job_runs{{host="{name}-b",status="started"}} 1',
    ]
    # Two runs came after one that had failed; a job that never failed has no series.
    assert lines("termgate_job_retries") == [f'termgate_job_retries{{scope="{name}",job_name="nightly"}} 2']
    assert lines("termgate_job_requested_seconds") == []
    served.ask("POST", "/api/v1/job-requests", "lead", {"job": "nightly", "scope": scope})
    waits = lines("termgate_job_requested_seconds")
    assert len(waits) == 1, waits
    assert 0 <= float(waits[0].rsplit(" ", 1)[1]) < 60, waits


def test_leaders_followers_and_open_runs_have_numbers(served, url, scope):
    def value(name, **labels):
        series = name + "{" + ",".join(f'{label}="{of}"' for label, of in labels.items()) + "}"
        found = re.search(rf"^{re.escape(series)} (\S+)$", served.ask("GET", "/metrics", "read")[1], re.M)
        return found and float(found.group(1))

    def comes(number, name, **labels):  # scopes are not read anew for each request
        assert eventually(lambda: value(name, **labels) == number), (name, labels, value(name, **labels))

    lease = ("--scope", scope, "--owner", "me")
    served.ask("GET", "/metrics", "read")  # changes of leader are counted from the first look on
    for term in (1, 2):
        assert command(url, "lease", "acquire", *lease, "--ttl", "60s").returncode == 0
        comes(1, "termgate_lease_held", scope=scope)
        comes(term, "termgate_lease_term", scope=scope)
        comes(term, "termgate_fence_term", scope=scope)
        assert value("termgate_lease_remaining_seconds", scope=scope) > 30
        assert command(url, "lease", "release", *lease, "--term", str(term)).returncode == 0
        comes(0, "termgate_lease_held", scope=scope)
    assert value("termgate_lease_changes", scope=scope) == 2
    # A follower that has handled the first of three writes.
    append = ("append", "--stream", scope, "--scope", scope, "--term", "2", "--payload", "x")
    assert command(url, *append).returncode == 0
    assert command(url, "follow", "--name", scope, "--stream", scope, "--once").returncode == 0
    assert value("termgate_follower_behind", follower=scope) == 0
    assert value("termgate_follower_behind_seconds", follower=scope) == 0
    for _ in range(2):
        assert command(url, *append).returncode == 0
    time.sleep(0.1)
    assert value("termgate_follower_behind", follower=scope) == 2
    assert value("termgate_follower_behind_seconds", follower=scope) > 0.05
    # A run that is silent for a second, beats, and is over.
    job = {"scope": scope + " jobs", "job_name": "nightly"}
    run = command(url, "job", "start", "--job", "nightly", "--scope", job["scope"], "--term", "5").stdout.strip()
    time.sleep(1)
    silent = value("termgate_job_heartbeat_age_seconds", **job)
    assert silent >= 1
    assert command(url, "job", "beat", "--run", run).returncode == 0
    assert value("termgate_job_heartbeat_age_seconds", **job) < silent
    assert value("termgate_job_last_status", **job, status="started") == 1
    assert value("termgate_job_completed_age_seconds", **job) is None
    assert command(url, "job", "finish", "--run", run, "--exit-code", "0").returncode == 0
    assert value("termgate_job_last_status", **job, status="completed") == 1
    assert value("termgate_job_completed_age_seconds", **job) >= 1
    assert value("termgate_job_heartbeat_age_seconds", **job) is None


def test_forced_release(served, url, scope):
    served.ask("POST", "/api/v1/leases", "lead", {"scope": scope, "owner": "me", "ttl_ms": 60000})
    path = f"/api/v1/leases/{quoted(scope)}/force-release"
    for level, body, status in (
        (None, {"reason": "r", "confirm": scope}, 401),
        ("read", {"reason": "r", "confirm": scope}, 403),
        ("lead", {"reason": "r", "confirm": scope}, 403),
        ("operate", {"confirm": scope}, 400),
        ("operate", {"reason": " ", "confirm": scope}, 400),
        ("operate", {"reason": "r"}, 400),
        ("operate", {"reason": "r", "confirm": scope + "x"}, 400),
        ("operate", {"reason": "x" * 2000, "confirm": scope}, 400),
    ):
        assert served.ask("POST", path, level, body)[0] == status, (level, body)
        assert served.ask("GET", "/api/v1/leases/" + quoted(scope), "read")[1]["state"] == "held"
    assert served.ask("POST", path, "operate", {"reason": "the host burns", "confirm": scope})[:2] == (200, {"released": True})
    audit = served.ask("GET", "/api/v1/audit?scope=" + quoted(scope), "read")[1]["audit"]
    forced = [entry for entry in audit if entry["action"] == "force_release"]
    assert len(forced) == 1
    assert (forced[0]["actor"], forced[0]["detail"]["reason"]) == ("admin operate-er", "the host burns")
    assert command(url, "append", "--stream", scope, "--term", "1", "--payload", "late").returncode == 3
    assert "POST /api/v1/leases" in served.errors.read_text()


def test_what_operators_do_is_counted_from_the_first_time_on(served, url, scope):
    def count(action):
        text = served.ask("GET", "/metrics", "read")[1]
        return float(re.search(rf'^termgate_audit_total{{action="{action}"}} (\S+)$', text, re.M).group(1))

    before = {action: count(action) for action in ("acquire", "force_release", "reset", "seal")}
    for words in (
        ["lease", "acquire", "--scope", scope, "--owner", "me"],
        ["lease", "force-release", "--scope", scope, "--reason", "test"],
        ["seal", "--scope", scope + " sealed", "--term", "9"],
        ["fence", "reset", "--scope", scope + " sealed", "--term", "1", "--reason", "test"],
    ):
        done = command(url, *words)
        assert done.returncode == 0, done.stderr
    assert {action: count(action) for action in before} == {action: value + 1 for action, value in before.items()}


@pytest.mark.skipif(SANITIZED, reason="a Python without the runtime of the sanitizer cannot load the extension")
def test_ten_thousand_scopes():
    """What the page shows a part of is complete in API and metrics, and the last scope's alarm has a series as the first one's."""
    path = Path(scratch.name) / "many.db"
    assert command(f"sqlite:{path}", "init").returncode == 0
    file = sqlite3.connect(path, isolation_level=None)
    file.enable_load_extension(True)
    file.load_extension(EXTENSION)
    names = [f"scope {number:05}" for number in range(10_000)]
    leased = [f"leased {number:03}" for number in range(600)] + ["zz, the last"]
    file.execute("BEGIN IMMEDIATE")
    for name in names:
        file.execute("SELECT termgate_seal(?, 3)", (name,)).fetchone()
    for name in leased:
        file.execute("SELECT termgate_acquire_lease(?, 'me', ?)", (name, 1000 if name == leased[-1] else 3_600_000)).fetchone()
    for number in range(600):
        run = file.execute("SELECT termgate_job_start(?, ?, 'me', 1)", (f"job {number:03}", leased[number])).fetchone()[0]
        file.execute("SELECT termgate_job_finish(?, ?)", (run, "failed" if number == 599 else "completed")).fetchone()
    file.execute("COMMIT")
    file.close()
    time.sleep(1.1)
    with Served(f"sqlite:{path}") as served:

        def pages(path, of, key):
            seen, after = [], None
            while True:
                more = "" if after is None else "&after=" + quoted(after)
                page = served.ask("GET", f"/api/v1/{path}limit=1000{more}", "read")[1]
                seen += [key(row) for row in page[of]]
                after = page["next"]
                if after is None:
                    return seen

        began = time.monotonic()
        assert pages("scopes?", "scopes", lambda row: row["scope"]) == leased[:-1] + names + leased[-1:]
        assert pages("fences?", "fences", lambda row: row["scope"]) == leased[:-1] + names + leased[-1:]
        assert pages("leases?", "leases", lambda row: row["scope"]) == leased
        assert pages("scopes?state=expired&", "scopes", lambda row: row["scope"]) == leased[-1:]
        assert pages("scopes?search=SCOPE%20099&", "scopes", lambda row: row["scope"]) == names[9900:]
        failed = served.ask("GET", "/api/v1/jobs?status=failed", "read")[1]["jobs"]
        assert [run["job"] for run in failed] == ["job 599"]
        acquired = served.ask("GET", "/api/v1/audit?action=acquire&limit=1000", "read")[1]["audit"]
        assert [entry["scope"] for entry in acquired] == leased[::-1]
        text = served.ask("GET", "/metrics", "read")[1]
        assert 'termgate_scopes{state="held"} 600\n' in text
        assert 'termgate_scopes{state="no_lease"} 10000\n' in text
        assert 'termgate_lease_expired{scope="zz, the last"} 1\n' in text
        assert 'termgate_job_last_status{scope="leased 599",job_name="job 599",status="failed"} 1\n' in text
        assert text.count("\ntermgate_lease_held{") < 501
        assert time.monotonic() - began < 30


def test_a_seal_keeps_its_reason(served, url, scope):
    path = f"/api/v1/fences/{quoted(scope)}/seal"
    reason = 'the "host" burns \\ ü'
    assert served.ask("POST", path, "operate", {"term": "5", "reason": reason, "confirm": scope})[1]["term"] == "5"
    entry = served.ask("GET", "/api/v1/audit?scope=" + quoted(scope), "read")[1]["audit"][0]
    assert (entry["action"], entry["actor"]) == ("seal", "admin operate-er")
    assert (entry["detail"]["reason"], entry["detail"]["term"]) == (reason, "5")
    # By the command, with a reason and without one.
    done = command(url, "seal", "--scope", scope, "--term", "6", "--reason", reason, "--actor", "me")
    assert done.returncode == 0, done.stderr
    assert command(url, "seal", "--scope", scope, "--term", "7").returncode == 0
    assert command(url, "seal", "--scope", scope, "--term", "8", "--actor", "me").returncode == 2
    assert command(url, "seal", "--scope", scope, "--term", "8", "--reason", " ").returncode == 9
    entries = served.ask("GET", "/api/v1/audit?scope=" + quoted(scope), "read")[1]["audit"]
    sealed = [(entry["detail"]["term"], entry["detail"].get("reason")) for entry in entries if entry["action"] == "seal"]
    assert sealed == [("7", None), ("6", reason), ("5", reason)]
    assert [entry["actor"] for entry in entries if entry["detail"].get("term") == "6"] == ["me"]


def test_tokens_are_read_again(served, url, scope):
    events = served.events(TOKENS["lead"])
    assert b"200 OK" in events.recv(1000)
    before = served.tokens.read_text()

    def again(text, said, mode=0o600):
        served.tokens.write_text(text)
        served.tokens.chmod(mode)
        count = served.errors.read_text().count(said)
        served.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: served.errors.read_text().count(said) > count, 10)

    # What is wrong changes nothing.
    for text, mode in (("", 0o600), ("a operate short\n", 0o600), (before, 0o644)):
        again(text, "stay in force", mode)
        assert served.ask("GET", "/api/v1/leases", "lead")[0] == 200
    again("new read " + "n" * 40 + "\n", "were read again")
    assert served.ask("GET", "/api/v1/leases", "lead")[0] == 401
    assert served.ask("GET", "/api/v1/leases", "n" * 40)[0] == 200
    # The stream of a token that is gone ends with the next event.
    command(url, "seal", "--scope", scope, "--term", "1")
    events.settimeout(10)
    while events.recv(65536):
        pass
    events.close()
    # Left open: it ends in order all the same.
    served.left = [served.events("n" * 40), *(socket.create_connection((served.host, served.port)) for _ in range(2))]
    assert b"200 OK" in served.left[0].recv(1000)
    served.left[1].sendall(b"GET / HTTP/1.1\r\n")


def test_hold_times_and_refusals_of_plain_sql(served, url, scope):
    def value(name):
        text = served.ask("GET", "/metrics", "read")[1]
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M).group(1))

    for code in ("TG002", "TG004", "TG006"):
        assert value(f'termgate_database_refusals_total{{code="{code}"}}') >= 0, code
    before, stale_before = value('termgate_database_refusals_total{code="TG001"}'), value("termgate_stale_writes_total")
    count = value("termgate_lease_hold_seconds_count")
    one = json.loads(command(url, "lease", "acquire", "--scope", scope, "--owner", "me", "--ttl", "60s", "--json").stdout)
    time.sleep(0.2)
    assert command(url, "lease", "release", "--scope", scope, "--owner", "me", "--term", str(one["term"])).returncode == 0
    assert value("termgate_lease_hold_seconds_count") == count + 1
    assert value('termgate_lease_hold_seconds_bucket{le="+Inf"}') == count + 1
    assert value("termgate_lease_hold_seconds_sum") > 0.2
    assert command(url, "lease", "acquire", "--scope", scope, "--owner", "next").returncode == 0
    if url.startswith("postgresql:"):
        stale = ["psql", "-Xqd", url, "-c", f"SELECT termgate.check_term('{scope}', 1)"]
        assert "TG001" in subprocess.run(stale, capture_output=True, text=True).stderr
    elif SANITIZED:  # its Python cannot load the extension
        assert command(url, "append", "--stream", scope, "--term", "1", "--payload", "x").returncode == 3
    else:
        file = sqlite3.connect(url.removeprefix("sqlite:"), isolation_level=None)
        file.enable_load_extension(True)
        file.load_extension(EXTENSION)
        with pytest.raises(sqlite3.Error, match="TG001"):
            file.execute("SELECT termgate_check_term(?, 1)", (scope,))
        file.close()
    assert value('termgate_database_refusals_total{code="TG001"}') == before + 1
    assert value("termgate_stale_writes_total") == stale_before + 1
    assert served.ask("GET", "/api/v1/metrics", "read")[0] == 200
    assert served.ask("GET", "/api/v1/metrics")[0] == 401


def test_on_the_proxys_own_http(urls):
    # The proxy's paths stay open, all else needs a token, as in `termgate admin`.
    with Proxied(urls["postgresql"]) as served:
        assert served.ask("GET", "/healthz")[0] == 200
        assert served.ask("GET", "/readyz")[0] == 200
        assert "termgate_connections" in served.ask("GET", "/metrics")[1]
        assert served.ask("GET", "/leader?scope=x")[0] == 503
        assert served.ask("GET", "/")[0] == 200
        for path in ("/api/v1/leases", "/api/v1/metrics", "/api/v1/events"):
            assert served.ask("GET", path)[0] == 401
            assert served.ask("GET", path, headers={"Host": "evil.example"})[0] == 421
        assert served.ask("GET", "/healthz", headers={"Host": "evil.example"})[0] == 421
        scope = f"proxied {id(served)}"
        status, lease, _ = served.ask(
            "POST", "/api/v1/leases", "lead", {"scope": scope, "owner": "me", "ttl_ms": 60000, "endpoint": "https://me.example/"}
        )
        assert (status, lease["term"]) == (201, "1")
        # Not this proxy's lease: its own answer, and the database's.
        assert served.ask("GET", "/leader?scope=" + quoted(scope))[0] == 503
        assert served.ask("GET", "/leader?scope=" + quoted(scope), "read")[1]["endpoint"] == "https://me.example/"
        assert served.ask("DELETE", "/api/v1/leases/" + quoted(scope), "lead", {"owner": "me", "term": "1"})[0] == 200
        # The tokens are read again with all else, or nothing is.
        served.tokens.write_text("new read " + "n" * 40 + "\n")
        served.process.send_signal(signal.SIGHUP)
        served.wait_for("reloaded")
        assert served.ask("GET", "/api/v1/leases", "lead")[0] == 401
        assert served.ask("GET", "/api/v1/leases", "n" * 40)[0] == 200
        served.tokens.write_text("nonsense\n")
        served.process.send_signal(signal.SIGHUP)
        served.wait_for("reload_failed")
        assert served.ask("GET", "/api/v1/leases", "n" * 40)[0] == 200
    for words in (["--tokens", "x"], ["--http", "0.0.0.0:0", "--tokens", "x"]):
        done = command(urls["postgresql"], "proxy", "--listen", "127.0.0.1:0", "--backend", urls["postgresql"], *words)
        assert done.returncode == 2, done.stderr


def state(served):
    return served.ask("GET", "/api/v1/fences", "read")[1], len(served.ask("GET", "/api/v1/audit?limit=1000", "read")[1]["audit"])


def test_what_is_refused(served, url, scope):
    served.ask("POST", "/api/v1/leases", "lead", {"scope": scope, "owner": "me", "ttl_ms": 60000})
    before = state(served)
    take = {"scope": scope + " x", "owner": "evil", "ttl_ms": 60000}
    seal = f"/api/v1/fences/{quoted(scope)}/seal"
    words = {"term": "9", "reason": "r", "confirm": scope}
    cases = [
        # Unauthenticated, forged.
        (401, "GET", "/api/v1/overview", None, None, {}),
        (401, "GET", "/api/v1/events", None, None, {}),
        (401, "POST", "/api/v1/leases", None, take, {}),
        (401, "GET", "/metrics", None, None, {}),
        (401, "GET", "/leader?scope=x", None, None, {}),
        (401, "GET", "/api/v1/overview", "x" * 40, None, {}),
        (401, "GET", "/api/v1/overview", TOKENS["read"][:-1], None, {}),
        (401, "GET", "/api/v1/overview", TOKENS["read"] + "r", None, {}),
        (401, "GET", "/api/v1/overview", None, None, {"Authorization": "Basic " + TOKENS["operate"]}),
        (401, "GET", "/api/v1/overview", None, None, {"Authorization": "Bearer"}),
        (401, "GET", "/api/v1/overview?token=" + TOKENS["operate"], None, None, {}),
        (401, "GET", "/api/v1/overview?access_token=" + TOKENS["operate"], None, None, {}),
        # The level below.
        (403, "POST", "/api/v1/leases", "read", take, {}),
        (403, "POST", seal, "lead", words, {}),
        (403, "PUT", "/api/v1/leases/" + quoted(scope), "read", {"owner": "me", "term": "1", "ttl_ms": 1}, {}),
        (403, "DELETE", "/api/v1/leases/" + quoted(scope), "read", {"owner": "me", "term": "1"}, {}),
        # Cross-site, and a name that is led here by somebody's DNS.
        (403, "POST", seal, "operate", words, {"Origin": "https://evil.example"}),
        (403, "POST", seal, "operate", words, {"Sec-Fetch-Site": "cross-site"}),
        (403, "POST", seal, "operate", words, {"Origin": "null"}),
        (415, "POST", seal, "operate", words, {"Content-Type": "text/plain"}),
        (415, "POST", seal, "operate", words, {"Content-Type": "application/x-www-form-urlencoded"}),
        (421, "GET", "/", None, None, {"Host": "evil.example"}),
        (421, "POST", seal, "operate", words, {"Host": "evil.example:80"}),
        # Paths.
        (404, "GET", "/api/v1/../../etc/passwd", "operate", None, {}),
        (404, "GET", "/../../etc/passwd", None, None, {}),
        (404, "GET", "/%2e%2e/%2e%2e/etc/passwd", None, None, {}),
        (404, "GET", "//", None, None, {}),
        (404, "GET", "/api/v1/", "read", None, {}),
        (404, "GET", "/API/V1/overview", "read", None, {}),
        (404, "GET", "/api/v1/overview/", "read", None, {}),
        (400, "GET", "/api/v1/leases/%zz", "read", None, {}),
        (400, "GET", "/api/v1/leases/%00", "read", None, {}),
        (400, "GET", "/api/v1/leases/" + "a" * 900, "read", None, {}),
        (400, "GET", "/api/v1/leases?limit=1&limit=2", "read", None, {}),
        (400, "GET", "/api/v1/leases?limit=0", "read", None, {}),
        (400, "GET", "/api/v1/leases?limit=99999999999999999999", "read", None, {}),
        (400, "GET", "/api/v1/leases?state=open", "read", None, {}),
        (400, "GET", "/api/v1/audit?above=x", "read", None, {}),
        (400, "GET", "/api/v1/jobs?status=done", "read", None, {}),
        (400, "GET", "/api/v1/scopes?state=free", "read", None, {}),
        # What a path does not know is not ignored.
        *(
            (400, method, path + "?statu=held", "operate", body, {})
            for method, path, body in (
                *(
                    ("GET", "/api/v1/" + name, None)
                    for name in ("overview", "events", "scopes", "leases", "fences", "jobs", "followers", "audit", "metrics")
                ),
                ("GET", "/api/v1/leases/" + quoted(scope), None),
                ("GET", "/api/v1/scopes/" + quoted(scope), None),
                ("GET", "/api/v1/fences/" + quoted(scope), None),
                ("GET", "/api/v1/jobs/7", None),
                ("GET", "/leader", None),
                ("POST", "/api/v1/leases", take),
                ("POST", seal, words),
            )
        ),
        (400, "GET", "/healthz", None, None, {"Host": "user@localhost"}),
        (200, "GET", "/healthz", None, None, {"Host": "[::1]:80"}),
        # Bodies.
        (400, "POST", "/api/v1/leases", "lead", [], {}),
        (400, "POST", "/api/v1/leases", "lead", {"scope": scope}, {}),
        (400, "POST", "/api/v1/leases", "lead", {**take, "ttl_ms": -1}, {}),
        (400, "POST", "/api/v1/leases", "lead", {**take, "ttl_ms": 31536000000}, {}),
        (400, "POST", "/api/v1/leases", "lead", {**take, "owner": ""}, {}),
        (400, "POST", "/api/v1/leases", "lead", {**take, "ttl_ms": 1.5}, {}),
        (400, "POST", "/api/v1/leases", "lead", {**take, "scope": "a\0b"}, {}),
        (400, "POST", seal, "operate", {**words, "term": "-1"}, {}),
        (400, "POST", seal, "operate", {**words, "term": "9x"}, {}),
        (413, "POST", "/api/v1/leases", "lead", {**take, "owner": "x" * 20000}, {}),
        (431, "GET", "/healthz", None, None, {"X-Long": "x" * 20000}),
        # Methods.
        (405, "DELETE", "/", None, None, {}),
        (405, "POST", "/api/v1/overview", "operate", {}, {}),
        (405, "PATCH", "/api/v1/leases/" + quoted(scope), "operate", {}, {}),
        (405, "OPTIONS", "/api/v1/leases", "operate", None, {}),
    ]
    for status, method, path, level, body, headers in cases:
        found = served.ask(method, path, level, body, headers)[0]
        check(f"{method} {path[:60]} {headers}", found == status, f"{found}, not {status}")
    assert state(served) == before
    log = served.errors.read_text()
    for line in ("401 GET /api/v1/overview nobody", "403 POST", "421 "):
        assert line in log
    for token in TOKENS.values():
        # One that is given in an address is its sender's fault; it is printed with the path, but never by us.
        assert token not in re.sub(r"\?\S*", "", log)


@pytest.mark.parametrize("served", [("--open-leader", "--redirect-leader")], indirect=True)
def test_the_leader(served, url, scope):
    path = "/leader?scope=" + quoted(scope)
    assert served.ask("GET", path)[0] == 503
    for endpoint, status in (
        ("https://me.example/", 307),
        ("javascript:alert(1)", 200),
        ("//evil.example", 200),
        ("http://a\\b", 200),
        ("", 200),
        ("host:80", 200),
    ):
        words = ["--endpoint", endpoint] if endpoint else []
        assert command(url, "lease", "acquire", "--scope", scope, "--owner", "me", "--ttl", "60s", *words).returncode == 0
        answer = served.ask("GET", path)
        assert (answer[0], answer[1]["endpoint"]) == (status, endpoint), answer
        assert answer[2].get("Location") == (endpoint if status == 307 else None)


@pytest.mark.parametrize("served", [["--open-metrics"]], indirect=True)
def test_open_metrics(served, scope):
    served.ask("POST", "/api/v1/leases", "lead", {"scope": scope, "owner": "me", "ttl_ms": 60000})
    assert "termgate_lease_held{" in served.ask("GET", "/metrics")[1]


def test_events(served, url, scope):
    connection = http.client.HTTPConnection(served.host, served.port, timeout=20)
    connection.request("GET", "/api/v1/events", headers={"Authorization": "Bearer " + TOKENS["read"]})
    reply = connection.getresponse()
    assert reply.headers["Content-Type"] == "text/event-stream"

    def until(condition):
        while True:
            line = reply.readline().decode()
            assert line != ""
            if line.startswith("data: ") and condition(json.loads(line[6:])):
                return

    until(lambda state: "leases" in state)
    served.ask("POST", "/api/v1/leases", "lead", {"scope": scope, "owner": "me", "ttl_ms": 60000})
    until(lambda state: any(lease["scope"] == scope and lease["owner"] == "me" for lease in state["leases"]))
    connection.close()


def test_a_thousand_open_streams(urls):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    try:
        with Served(urls["postgresql"]) as served:
            streams = []
            for _ in range(1000):
                streams.append(served.events(TOKENS["read"]))
            served.ask("POST", "/api/v1/leases", "lead", {"scope": "of a thousand", "owner": "me", "ttl_ms": 60000})
            for peer in streams:
                peer.settimeout(20)
                text = b""
                while b"of a thousand" not in text:
                    part = peer.recv(65536)
                    assert part
                    text = text[-100:] + part
            kib = served.memory_kib()
            print(f"1,000 open streams: {kib / 1024:.1f} MiB ", end="", file=sys.stderr)
            assert kib < 64 * 1024
            for peer in streams:
                peer.close()
            assert served.ask("GET", "/healthz")[0] == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_description_names_what_there_is(urls):
    text = (ROOT / "docs/reference/admin-api.yaml").read_text()
    paths = re.findall(r"(?m)^  (/\S*):", text[text.index("\npaths:") :])
    assert len(paths) > 14
    with Served(urls["sqlite"]) as served:
        for path in paths:
            if path == "/api/v1/events":
                continue  # it does not end
            status, body, _ = served.ask("GET", path.replace("{scope}", "s").replace("{run}", "r"), "operate")
            assert not (status == 404 and body["error"]["message"] == "there is nothing here"), path


def test_bad_words(urls):
    def tokens(name, text, mode=0o600):
        path = Path(scratch.name) / name
        path.write_text(text)
        path.chmod(mode)
        return ["--tokens", str(path)]

    good = tokens("good", "a read " + "a" * 30 + "\n")
    for words in (
        [],
        ["--tokens", "/no/such"],
        tokens("short", "a read abc\n"),
        tokens("open", "a read " + "a" * 30 + "\n", 0o644),
        [*good, "--http", "0.0.0.0:0"],
        [*good, "--http", "9091"],
        [*good, "--http", "127.0.0.1:99999"],
        [*good, "--poll", "1ms"],
    ):
        done = command(urls["sqlite"], "admin", *words)
        assert done.returncode == 2, (words, done.stderr)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert command(urls["sqlite"], "admin", *good, "--http", f"127.0.0.1:{taken.getsockname()[1]}").returncode == 1
