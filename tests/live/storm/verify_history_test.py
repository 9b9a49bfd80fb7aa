#!/usr/bin/env python3
"""[F1] [F2] [F3] [F5] `termgate verify --history`: what clients in another language wrote down, judged by what the
database holds, on PostgreSQL and SQLite.

  pytest tests/live/storm/verify_history_test.py

The clients are threads with psycopg on PostgreSQL and the command itself on SQLite. Then each kind of breach is made:
in the database, without layer 1's knowledge, or in the history.
"""
import json
import os
import sqlite3
import subprocess
import tempfile
import threading
import time
import uuid
from pathlib import Path

import pytest

from checks import captured
from both_databases import BothDatabases, sh
from given import PG_SERVER, TERMGATE

psycopg = pytest.importorskip("psycopg")
scratch = tempfile.TemporaryDirectory(prefix="termgate-verify-history.")
os.chmod(scratch.name, 0o755)
ROWS = "SELECT id, scope, term, 'orders', place FROM orders ORDER BY place"


class Recorder:
    """As docs/evidence/correctness.md shows it: a line before it is sent, a line after it was answered, each written by one write."""

    def __init__(self, path, client):
        self.file, self.client, self.op = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), client, 0

    def __call__(self, **operation):
        self.op += 1
        self.put(begun_ns=time.monotonic_ns(), **operation)

    def ended(self, outcome, **more):
        self.put(ended_ns=time.monotonic_ns(), outcome=outcome, **more)

    def put(self, **members):
        os.write(self.file, (json.dumps({"client": self.client, "op": self.op, **members}) + "\n").encode())


def verify(url, history, *words):
    done = captured([TERMGATE, "verify", "--json", "--history", history, *words], env=dict(os.environ, TERMGATE_DB=url))
    document = json.loads(done.stdout)
    return done.returncode, document["error"]["message"] if "error" in document else document


class VerifyHistory(BothDatabases):
    termgate, pg_server, folder, name = TERMGATE, PG_SERVER, scratch.name, "history"

    def client(self, path, number):
        """Takes over again and again and writes until it is refused, with stale terms too."""
        record = Recorder(path, f"client {number}")
        with psycopg.connect(self.postgres, autocommit=True) as session:
            terms = []
            for turn in range(12):
                record(kind="acquire", scope="orders")
                acquired, term = session.execute(
                    "SELECT acquired, term FROM termgate.acquire_lease('orders', %s, interval '100 ms')", [f"client {number}"]
                ).fetchone()
                record.ended("committed" if acquired else "refused", **({"term": term} if acquired else {}))
                if acquired:
                    terms.append(term)
                for write in range(6):
                    if not terms:
                        break
                    name, term = f"{number}.{turn}.{write}", terms[-1]
                    record(kind="write", scope="orders", term=term, id=name, rows=2)
                    try:
                        with session.transaction():
                            session.execute("SELECT termgate.check_term('orders', %s)", [term])
                            for _ in range(2):
                                session.execute(
                                    "INSERT INTO orders (id, scope, term, place) SELECT %s, 'orders', %s, n FROM next_place()", [name, term]
                                )
                        record.ended("committed")
                    except psycopg.Error as error:
                        assert error.sqlstate == "TG001", error
                        record.ended("refused")
                    time.sleep(0.005)
                time.sleep(0.13 if acquired else 0.02)  # past its lease

    def test_clients_with_psycopg(self):
        sh(
            "psql",
            "-qX",
            self.postgres,
            "-c",
            """CREATE TABLE orders (id text, scope text, term bigint, place bigint); CREATE TABLE places (n bigint);
              INSERT INTO places VALUES (0);
           CREATE FUNCTION next_place() RETURNS TABLE (n bigint) LANGUAGE sql AS 'UPDATE places SET n = n + 1 RETURNING n'""",
        )
        path = f"{scratch.name}/psycopg.jsonl"
        threads = [threading.Thread(target=self.client, args=(path, number)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        status, document = verify(self.postgres, path, "--rows", ROWS)
        history = document["history"]
        kept = status, document["kept"], history["breaches"], history["clients"], history["rows_of_others"]
        assert kept == (0, True, [], 3, 0), document
        assert min(history["committed"], history["refused"], history["raises"]) > 1, history
        assert str(2 * history["committed"]) == sh("psql", "-qXAt", self.postgres, "-c", "SELECT count(*) FROM orders")
        done = captured([TERMGATE, "verify", "--db", self.postgres, "--history", path, "--rows", ROWS])
        kept = "all guarantees kept: no breach in the history, none in the stored rows"
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, kept), done.stdout

        # Without layer 1's knowledge, each undone again.
        lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
        whole = {}
        for line in lines:
            whole.setdefault((line["client"], line["op"]), {}).update(line)
        writes = [one for one in whole.values() if one["kind"] == "write"]
        there, refused = (next(one for one in writes if one["outcome"] == outcome) for outcome in ("committed", "refused"))
        for made, kind in [
            (f"DELETE FROM orders WHERE id = '{there['id']}'", "lost"),
            (f"DELETE FROM orders WHERE ctid IN (SELECT ctid FROM orders WHERE id = '{there['id']}' LIMIT 1)", "torn"),
            (f"INSERT INTO orders SELECT id, scope, term, max(place) OVER () + 1 FROM orders WHERE id = '{there['id']}' LIMIT 1", "twice"),
            (f"UPDATE orders SET term = term + 1 WHERE id = '{there['id']}'", "altered"),
            (
                f"INSERT INTO orders SELECT '{refused['id']}', 'orders', {refused['term']}, max(place) + generate_series(1, 2) FROM orders",
                "leaked",
            ),
            (f"INSERT INTO orders SELECT 'a stranger', 'orders', 1, max(place) + 1 FROM orders", "order"),
            ("UPDATE orders SET place = place + 1 WHERE place = (SELECT max(place) FROM orders)", "numbering"),
        ]:
            with self.subTest(made):
                sh("psql", "-qX", self.postgres, "-c", f"CREATE TABLE was AS SELECT * FROM orders; {made}")
                status, document = verify(self.postgres, path, "--rows", ROWS)
                sh("psql", "-qX", self.postgres, "-c", "TRUNCATE orders; INSERT INTO orders SELECT * FROM was; DROP TABLE was")
                assert (status, document["kept"]) == (1, False)
                assert kind in {breach["kind"] for breach in document["history"]["breaches"]}, document

        # In what clients saw.
        raises = [one for one in whole.values() if one["kind"] == "acquire" and one["outcome"] == "committed"]
        raises.sort(key=lambda one: one["term"])

        def told(change, kind):
            changed = {name: dict(one) for name, one in whole.items()}
            change(changed)
            other = f"{scratch.name}/changed.jsonl"
            Path(other).write_text("".join(json.dumps(one) + "\n" for one in changed.values()))
            status, document = verify(self.postgres, other, "--rows", ROWS)
            assert status == 1
            assert kind in {breach["kind"] for breach in document["history"]["breaches"]}, document

        def same_term(changed):
            changed[raises[1]["client"], raises[1]["op"]]["term"] = raises[0]["term"]

        def late_write(changed):  # the first term's write begins after the last one was acknowledged
            first = min((one for one in writes if one["outcome"] == "committed"), key=lambda one: one["term"])
            one = changed[first["client"], first["op"]]
            one["begun_ns"], one["ended_ns"] = raises[-1]["ended_ns"] + 1, raises[-1]["ended_ns"] + 2

        def lowered(changed):
            began = raises[-1]["ended_ns"] + 1
            one = {"client": "looker", "op": 1, "kind": "look", "scope": "orders", "term": 1, "outcome": "committed"}
            changed["looker", 1] = one | {"begun_ns": began, "ended_ns": began + 1}

        for change, kind in [(same_term, "issued twice"), (late_write, "seal"), (lowered, "lowered")]:
            with self.subTest(kind):
                told(change, kind)

    def test_streams(self):
        for url in (self.postgres, self.sqlite):
            with self.subTest(url.split(":")[0]):
                self.streams(url)

    def streams(self, url):
        path = f"{scratch.name}/{url.split(':')[0]}.jsonl"
        record = Recorder(path, "appender\n\x1b[31m")  # nobody's name may steer a terminal
        sh(TERMGATE, "append", "--db", url, "--stream", "s", "--scope", "a", "--term", "3", "--payload", "somebody else's")
        for term, outcome in ((3, "committed"), (4, "committed"), (3, "refused")):
            name = str(uuid.uuid4())
            record(kind="write", scope="a", term=term, id=name, stream="s")
            done = captured(
                [TERMGATE, "append", "--db", url, *"--stream s --scope a --term".split(), str(term), "--write-id", name, "--payload", "x"]
            )
            assert done.returncode == (0 if outcome == "committed" else 3), done.stderr
            record.ended(outcome, **({"place": int(done.stdout)} if outcome == "committed" else {}))
        record(kind="write", scope="a", term=4, id=str(uuid.uuid4()), stream="s")  # and then it was killed
        status, document = verify(url, path)
        history = document["history"]
        assert (status, history["breaches"], history["rows_of_others"]) == (0, [], 1), document
        assert (history["operations"], history["committed"], history["refused"], history["unknown_absent"]) == (4, 2, 1, 1)
        lines = Path(path).read_text().splitlines()
        forged = [line.replace('"refused"', '"committed"') for line in lines]
        Path(path).write_text("\n".join(forged))
        done = subprocess.run([TERMGATE, "verify", "--db", url, "--history", path], capture_output=True, text=True)
        assert done.returncode == 1
        assert "BREACH F5 lost" in done.stdout
        assert "\x1b" not in done.stdout

    def test_wrong_usage(self):
        sqlite3.connect(self.sqlite[7:]).execute("CREATE TABLE IF NOT EXISTS own (id text, scope text, term bigint)").connection.commit()
        path = f"{scratch.name}/wrong.jsonl"
        good = {"client": "a", "op": 1, "kind": "write", "scope": "s", "term": 5, "id": "w", "begun_ns": 10, "ended_ns": 20}
        good["outcome"] = "unknown"
        rows = ["--rows", "SELECT id, scope, term FROM own"]
        Path(path).write_text(json.dumps(good) + "\n\n")
        assert verify(self.sqlite, path, *rows)[0] == 0
        for change, said in [
            ({"op": None}, '"op", a text or a whole number, is missing'),
            ({"client": 5}, '"client", a text, is missing'),
            ({"kind": "read"}, "one of write, acquire, seal, look"),
            ({"outcome": "ok"}, "one of committed, refused, unknown"),
            ({"term": 0}, "the term of a write is from 1"),
            ({"term": 2**62 + 1}, "a term is at most"),
            ({"term": "5"}, '"term" is a whole number'),
            ({"rows": -1}, '"rows" is a whole number from 0'),
            ({"ended_ns": 9}, "ended before it began"),
            ({"scope": ""}, '"scope" is a text'),
            ({"colour": "red"}, 'unknown key "colour"'),
        ]:
            with self.subTest(change):
                Path(path).write_text(json.dumps(good | change) + "\n")
                status, error = verify(self.sqlite, path, *rows)
                assert (status, "line 1: " in error and said in error) == (2, True), error
        for text, said in [
            ("{", "line 1: no JSON object"),
            ("[]", "line 1: no JSON object"),
            (json.dumps(good) + '\n{"client": "a", "op": 1, "scope": "t"}', 'line 2: "scope" of this operation was another one on line 1'),
            (json.dumps({name: value for name, value in good.items() if name != "begun_ns"}), 'has no "begun_ns"'),
            (json.dumps({name: value for name, value in good.items() if name != "outcome"}), 'has no "outcome"'),
            ("[" * 100_000, "line 1: no JSON object"),
            ("x" * (2 << 20), "line 1: longer than 1048576 bytes"),
        ]:
            with self.subTest(text[:60]):
                Path(path).write_text(text)
                status, error = verify(self.sqlite, path, *rows)
                assert (status, said in error) == (2, True), error[:300]
        Path(path).write_text(json.dumps(good))
        with sqlite3.connect(self.sqlite[7:]) as file:
            file.execute("INSERT INTO own VALUES ('w', 's', 5)")  # what --rows returns is seen only where there is a row
        for words, said, wanted in [
            ([], 'neither a "stream" in it nor --rows', 2),
            (["--rows", "SELECT id FROM own"], "must return three columns", 2),
            (["--rows", "SELECT id, scope, 'x' FROM own"], "a whole number, not", 2),
            (["--rows", "DELETE FROM own"], "readonly", 1),
            (["--rows", "SELECT a, b, c FROM nowhere"], "nowhere", 1),
        ]:
            with self.subTest(words):
                status, error = verify(self.sqlite, path, *words)
                assert (status, said in error) == (wanted, True), error
        status, error = verify(self.postgres, path, "--rows", "DELETE FROM termgate.fences")
        assert (status, "read-only" in error) == (1, True), error
        for words, said in [
            (["--rows", "SELECT 1"], "--rows goes with --history"),
            (["--history", scratch.name + "/nowhere"], "nowhere"),
            (["--history", scratch.name], "directory"),
        ]:
            done = subprocess.run([TERMGATE, "verify", "--db", self.sqlite, *words], capture_output=True, text=True)
            assert (done.returncode, said in done.stderr) == (2, True), done.stderr
