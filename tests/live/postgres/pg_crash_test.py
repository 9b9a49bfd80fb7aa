#!/usr/bin/env python3
"""[F3] A raise is on disk before its COMMIT returns, whatever synchronous_commit the session chose.

  pytest tests/live/postgres/pg_crash_test.py

A server whose WAL writer sleeps is killed (SIGKILL, every process) right after a COMMIT. A plain row written with
synchronous_commit = off just before is the control: where it survives too, the experiment has shown nothing.
"""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from both_databases import sh
from given import PG_SERVER, ROOT

scratch = tempfile.TemporaryDirectory(prefix="termgate-crash.")
os.chmod(scratch.name, 0o755)


def sql(url, statements):
    return sh("psql", "-qXAt", "-v", "ON_ERROR_STOP=1", url, "-c", statements)


def install(url):
    """Layer 1 with psql alone, as sql/postgres/README.md describes it."""
    with open(Path(scratch.name) / "install.sql", "w", encoding="utf-8") as script:
        for file in sorted((ROOT / "sql/postgres/install").glob("*.sql")):
            script.write(file.read_text(encoding="utf-8").replace("@schema_lit@", "'termgate'").replace("@schema@", '"termgate"'))
    sh("psql", "-qXAt", "-1", "-v", "ON_ERROR_STOP=1", url, "-f", script.name)


class Crash(unittest.TestCase):
    def survived(self, raise_statement, level):
        # The WAL writer flushes whole pages, so the control survives where it ends one; then the run has shown nothing.
        for attempt in range(5):
            fence, control = self.survived_once(raise_statement, level, 1000 * attempt)
            if control == "0" or level != "off":
                break
        return fence, control

    def survived_once(self, raise_statement, level, shift):
        server = Path(tempfile.mkdtemp(dir=scratch.name))
        os.chmod(server, 0o755)
        url = sh(PG_SERVER, "start", "15", server, "wal_writer_delay=10s", "fsync=on")
        self.addCleanup(sh, PG_SERVER, "stop", server, "immediate")
        install(url)
        sql(url, "SELECT termgate.seal('s', 5); CREATE TABLE control (v int); CHECKPOINT;")
        sql(url, f"SELECT pg_logical_emit_message(false, 'shift', repeat('x', {shift}))")
        # In one session: the WAL writer must not be woken in between. The raise flushes what stands before it, so the control comes after.
        script = Path(server) / "session.sql"
        script.write_text(
            f"SET synchronous_commit = {level};\n{raise_statement};\nINSERT INTO control VALUES (1);\n\\! {PG_SERVER} kill {server}\n",
            encoding="utf-8",
        )
        subprocess.run(["psql", "-qXAt", url, "-f", str(script)], capture_output=True, check=False)
        sh(PG_SERVER, "start", "15", server)
        return sql(url, "SELECT term FROM termgate.fences WHERE scope = 's'"), sql(url, "SELECT count(*) FROM control")

    def test_a_seal_survives_although_a_plain_write_after_it_does_not(self):
        fence, control = self.survived("SELECT termgate.seal('s', 9)", "off")
        assert fence == "9"
        assert control == "0", "the control survived as well: this run has shown nothing"

    def test_a_raise_in_the_middle_of_a_transaction_survives(self):
        fence, control = self.survived(
            "BEGIN; SELECT termgate.check_term('s', 9); SET LOCAL synchronous_commit = off; CREATE TABLE other (v int); COMMIT", "off"
        )
        assert (fence, control) == ("9", "0")

    def test_an_acquisition_survives(self):
        fence, control = self.survived("SELECT termgate.acquire_lease('s', 'a', '10 s')", "off")
        assert (fence, control) == ("6", "0")
