#!/usr/bin/env python3
"""[F1] [F4] Programs that write without a pause under seats, two proxies, and takeovers in the middle of it: nothing of an old term
is committed after the raise.

  pytest tests/live/proxy/proxy_seats_stress_test.py [--majors 13,15,17,18] [--long]

A leader is a pgbench with two sessions that declares its term and goes on until it is refused; the next one raises the fence and
writes beside it. Meanwhile old leaders, proxies and sessions are stopped, cut and killed. The server keeps the time of each commit,
so it says itself which came first. A plain run plays some takeovers, --long a thousand and a million writes without a check, over
all majors.
"""
import os
import random
import signal
import subprocess
import threading
import time

import given
import proxy_lab
import pytest
from checks import note
from proxy_under_test import Server, lab

SCOPES = 4
TAKEOVERS, SEATED = (1000, 1_000_000) if given.LONG else (24, 2_000)
MINUTES_MAX = 40 if given.LONG else 3
SCRIPTS = {
    "one": (6, "INSERT INTO w (scope, term) VALUES (:scope, :term);"),
    "block": (3, "BEGIN;\nSELECT count(*) FROM w WHERE false;\nINSERT INTO w (scope, term) VALUES (:scope, :term);\nCOMMIT;"),
    "read": (1, "SELECT 1;"),
    # Both take away what a session holds, and a proxy must not believe in a seat that is gone.
    "unlock": (1, "SELECT pg_advisory_unlock_all();"),
    "discard": (1, "DISCARD ALL;"),
}
SCHEMA = """
CREATE TABLE w (scope int, term bigint);
CREATE TABLE raises (scope int, term bigint);
CREATE ROLE client LOGIN; GRANT INSERT, SELECT ON w TO client;
"""
STALE = """
WITH written AS (SELECT scope, term, max(pg_xact_commit_timestamp(xmin)) AS last FROM w GROUP BY 1, 2)
SELECT w.scope, w.term, w.last, r.term, pg_xact_commit_timestamp(r.xmin)
FROM written w JOIN raises r ON r.scope = w.scope AND r.term > w.term WHERE w.last >= pg_xact_commit_timestamp(r.xmin)
"""
CHECKS = "SELECT coalesce(sum(calls), 0) FROM pg_stat_user_functions WHERE schemaname = 'termgate' AND funcname ~ '^(check|hold)_'"


class Storm:
    def __init__(self, major, seed):
        self.server = Server(
            major, "track_commit_timestamp=on", "track_functions=all", "autovacuum=off", "max_connections=200", "shared_buffers=128MB"
        )
        self.direct(SCHEMA)
        lab().run(given.TERMGATE, "init", "--db", self.server.url, "--grant", "client=write")
        self.pgbench = os.path.join(lab().run(given.PG_SERVER, "bin", "15"), "pgbench")
        self.files = []
        for name, (weight, text) in SCRIPTS.items():
            path = self.server.folder / f"{name}.sql"
            path.write_text(text + "\n")
            path.chmod(0o644)
            self.files.append((name, f"{path}@{weight}"))
        self.proxies = [self.start_proxy(0), self.start_proxy(0)]
        self.changing = threading.Lock()
        self.random, self.problems, self.took, self.faults = random.Random(seed), [], [], {}
        self.ends_at = float("inf")

    def start_proxy(self, port):
        return proxy_lab.Proxy(lab(), self.server.url, "--seats", "eager", "--threads", "2", port=port)

    def direct(self, sql):
        return self.server.sql(sql)

    def leader(self, scope, term, proxy, choice):
        protocol = choice.choice(("simple", "prepared", "extended"))
        # A statement that is prepared does not outlive DISCARD ALL.
        files = [file for name, file in self.files if name != "discard" or protocol == "simple"]
        words = [self.pgbench, "-n", "-c", "2", "-j", "1", "-T", "600", "-M", protocol, "-D", f"scope={scope}", "-D", f"term={term}"]
        return subprocess.Popen(
            [
                *words,
                *(word for file in files for word in ("-f", file)),
                *"-h 127.0.0.1 -p".split(),
                str(proxy.port),
                *"-U client postgres".split(),
            ],
            env=dict(os.environ, PGOPTIONS=f"-c termgate.scope=s{scope} -c termgate.term={term}"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def fault(self, choice, old, proxy):
        """Before the raise; what must be undone after it."""
        kind = choice.choices(("none", "stop", "kill", "cut", "own", "stop-proxy", "kill-proxy"), (8, 4, 2, 2, 2, 1, 1))[0]
        self.faults[kind] = self.faults.get(kind, 0) + 1
        if kind == "stop":
            old.send_signal(signal.SIGSTOP)
            return lambda: old.send_signal(signal.SIGCONT)
        if kind == "kill":
            old.kill()
        elif kind == "cut":
            self.direct("SELECT pg_terminate_backend(pid) FROM termgate.seats WHERE random() < 0.5")
        elif kind == "own":
            self.direct("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ '^termgate'")
        elif kind == "stop-proxy":
            proxy.process.send_signal(signal.SIGSTOP)
            return lambda: proxy.process.send_signal(signal.SIGCONT)
        elif kind == "kill-proxy":
            proxy.process.kill()
            proxy.process.wait()
        return lambda: None

    def play(self, index, takeovers, seed):
        choice, scope, which = random.Random(seed), index, index % 2
        term, leaders = 1, []
        try:
            self.raise_to(scope, term)
            leaders.append(self.leader(scope, term, self.proxies[which], choice))
            while (len(self.took) < takeovers or self.more()) and time.monotonic() < self.ends_at:
                time.sleep(choice.uniform(0.1, 1.2))
                with self.changing:  # one fault at a time, so that one of a proxy meets a proxy that runs
                    undo = self.fault(choice, leaders[-1], self.proxies[which])
                    term += 1
                    begun = time.monotonic()
                    self.raise_to(scope, term)
                    self.took.append(time.monotonic() - begun)
                    undo()
                    if self.proxies[which].process.poll() is not None:
                        self.proxies[which] = self.start_proxy(self.proxies[which].port)
                leaders.append(self.leader(scope, term, self.proxies[which], choice))
                while len(leaders) > 2:
                    self.ended(leaders.pop(0))
        except Exception as error:  # in a thread of its own, where pytest would not see it
            self.problems.append(f"s{scope}: {error!r}")
            self.ends_at = 0
        for leader in leaders:
            leader.kill()
            leader.wait()

    def ended(self, leader):
        """Two terms later every session of it has been refused or cut."""
        try:
            leader.wait(20)
        except subprocess.TimeoutExpired:
            leader.kill()
            leader.wait()
            raise AssertionError("a leader of two terms ago still writes")

    def raise_to(self, scope, term):
        client = proxy_lab.Wire(self.server.port)
        try:
            for sql in ("BEGIN", f"SELECT termgate.seal('s{scope}', {term})", f"INSERT INTO raises VALUES ({scope}, {term})", "COMMIT"):
                _, error = client.ask(sql)
                assert not error, f"{sql}: {error}"
        finally:
            client.close()

    def seated(self):
        """At least so many rows were written without a check. Each row is a transaction of its own, and a check is a call."""
        rows = int(self.direct("SELECT count(*) FROM w")[0])
        return rows, rows - int(self.direct(CHECKS)[0])

    def more(self):
        return self.wanted and self.seated()[1] < self.wanted

    def run(self, takeovers, seated, seed):
        self.wanted, self.ends_at = seated, time.monotonic() + MINUTES_MAX * 60
        threads = [threading.Thread(target=self.play, args=(index, takeovers, seed * 100 + index)) for index in range(SCOPES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.seated()


@pytest.mark.parametrize("major", given.majors("15", "13,15,17,18"))
def test_nothing_of_an_old_term_commits_after_the_raise(major):
    share = len(given.majors("15", "13,15,17,18"))
    seed = int(given.option("seed", random.SystemRandom().randrange(1 << 31)))
    begun = time.monotonic()
    storm = Storm(major, seed)
    rows, seated = storm.run(-(-TAKEOVERS // share), -(-SEATED // share), seed)
    took = sorted(storm.took)
    assert not storm.problems, f"--seed {seed}: {storm.problems}"
    stale = storm.direct(STALE)
    assert stale == [], f"--seed {seed}: written after the raise: {stale}"
    note(
        f"PostgreSQL {major}, --seed {seed}: {rows} rows, at least {seated} of them without a check; {len(took)} takeovers,"
        f" p50 {took[len(took) // 2] * 1000:.0f} ms, max {took[-1] * 1000:.0f} ms; {storm.faults}; {time.monotonic() - begun:.0f} s"
    )
    assert len(took) >= TAKEOVERS // share and seated >= SEATED // share, f"--seed {seed}: too little was tried in {MINUTES_MAX} minutes"


def test_a_stale_row_is_found():
    """The judge itself: a row of an old term behind the raise, by one who needs no check."""
    server = Server("15", "track_commit_timestamp=on")
    server.sql(SCHEMA)
    server.sql("INSERT INTO w VALUES (0, 1)")
    server.sql("INSERT INTO raises VALUES (0, 2)")
    assert server.sql(STALE) == []
    server.sql("INSERT INTO w VALUES (0, 1)")
    assert server.sql(STALE) != []
