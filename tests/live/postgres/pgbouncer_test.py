#!/usr/bin/env python3
"""[F1] [F2] PgBouncer between programs and PostgreSQL, without the proxy: in session mode everything works, in
transaction mode what declares in its own transaction. (In front of and behind the proxy: proxy_clients_test.py.)

  pytest tests/live/postgres/pgbouncer_test.py
"""
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
import pytest
from given import PG_SERVER, TERMGATE, free_port

pytestmark = pytest.mark.skipif(shutil.which("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin") is None, reason="pgbouncer is missing")
ENV = {name: value for name, value in os.environ.items() if not name.startswith(("TERMGATE_", "PG"))}


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory(prefix="termgate-pgbouncer.", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        url = subprocess.run(
            [PG_SERVER, "start", "15", f"{folder}/pg", "fsync=off"], check=True, capture_output=True, text=True
        ).stdout.strip()
        try:
            with psycopg.connect(url, autocommit=True) as admin:
                admin.execute("CREATE ROLE app LOGIN")
                admin.execute("GRANT CREATE ON SCHEMA public TO app")
            subprocess.run([TERMGATE, "init", "--db", url, "--grant", "app=lead"], check=True, capture_output=True, env=ENV)
            with psycopg.connect(url.replace("postgres@", "app@"), autocommit=True) as app:
                app.execute("CREATE TABLE accounts (id int PRIMARY KEY, balance int)")
                app.execute("INSERT INTO accounts VALUES (1, 0)")
                app.execute("SELECT termgate.protect('accounts', scope => 'billing')")
                app.execute("SELECT termgate.check_term('billing', 5)")
            yield url, Path(folder)
        finally:
            subprocess.run([PG_SERVER, "stop", f"{folder}/pg", "immediate"], capture_output=True)


def pooled(server, mode):
    """Two sessions of the server for all clients."""
    url, folder = server
    behind = re.search(r":(\d+)/", url)[1]
    port = free_port()
    (folder / f"{mode}.ini").write_text(
        f"[databases]\npostgres = host=127.0.0.1 port={behind} user=app\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
        f"auth_type = any\npool_mode = {mode}\ndefault_pool_size = 4\nunix_socket_dir =\nlogfile = /dev/null\n"
    )
    words = ["pgbouncer", "-q", str(folder / f"{mode}.ini")]
    if os.getuid() == 0:
        words = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *words]
    process = subprocess.Popen(words, env={**ENV, "PATH": ENV["PATH"] + ":/usr/sbin"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pool = f"postgresql://app@127.0.0.1:{port}/postgres"
    for _ in range(100):
        try:
            psycopg.connect(pool).close()
            return process, pool
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise AssertionError("PgBouncer did not start")


@pytest.fixture(scope="module", params=["session", "transaction"])
def pool(request, server):
    process, url = pooled(server, request.param)
    yield request.param, url
    process.kill()
    process.wait()


def declared(url, term):
    with psycopg.connect(url, prepare_threshold=None) as client:
        client.execute("SET LOCAL termgate.scope = 'billing'")
        client.execute(f"SET LOCAL termgate.term = '{term}'")
        client.execute("UPDATE accounts SET balance = balance + 1")


def refused(code, call):
    with pytest.raises(psycopg.Error) as error:
        call()
    assert error.value.sqlstate == code, str(error.value)


def test_what_is_declared_or_checked_in_the_transaction_counts(pool):
    _, url = pool
    declared(url, 5)
    refused("TG001", lambda: declared(url, 4))
    with psycopg.connect(url, prepare_threshold=None) as client:
        client.execute("SELECT termgate.check_term('billing', 5)")
        client.execute("UPDATE accounts SET balance = balance + 1")
    # Nothing of it is left for the next client of the same session.
    for _ in range(4):
        with psycopg.connect(url, autocommit=True, prepare_threshold=None) as other:
            refused("TG002", lambda client=other: client.execute("UPDATE accounts SET balance = 0"))


def test_a_takeover_shuts_out_a_client_that_waits_in_the_pool(pool):
    mode, url = pool
    scope = f"takeover {mode}"
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as old, psycopg.connect(
        url, autocommit=True, prepare_threshold=None
    ) as new:
        old.execute("SELECT termgate.append(%s, 1, 'one'::bytea, NULL, %s)", (scope, scope))
        new.execute("SELECT termgate.seal(%s, 2)", (scope,))
        refused("TG001", lambda: old.execute("SELECT termgate.append(%s, 1, 'two'::bytea, NULL, %s)", (scope, scope)))


def test_run_and_verify(pool):
    mode, url = pool
    done = subprocess.run(
        [TERMGATE, "run", "--db", url, "--scope", f"run {mode}", "--ttl", "1s", "--no-pgoptions", "--", "sleep", "2"],
        capture_output=True,
        env=ENV,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    # PgBouncer refuses the start-up options that `run` adds without --no-pgoptions, and says so.
    words = [TERMGATE, "run", "--db", url, "--scope", f"run {mode}", "--", "psql", "-qX", url, "-c", "SELECT 1"]
    done = subprocess.run(words, capture_output=True, text=True, env=ENV, timeout=60)
    assert done.returncode == 2 and "options" in done.stderr
    assert subprocess.run([TERMGATE, "verify", "--db", url], capture_output=True, env=ENV).returncode == 0


def test_many_programs_of_the_library_at_once(pool):
    mode, url = pool
    words = [
        [TERMGATE, "append", "--db", url, "--scope", f"s{i} {mode}", "--stream", f"s{i} {mode}", "--term", "3", "--lines"] for i in range(4)
    ]
    lines = "".join(f"{i}\n" for i in range(2000))
    crowd = [
        subprocess.Popen(one, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV) for one in words
    ]
    ends = []
    for one in crowd:
        _, err = one.communicate(lines, timeout=120)
        ends.append((one.returncode, err))
    if mode == "session":
        assert all(code == 0 for code, _ in ends), ends
    # In transaction mode prepared statements do not survive: a clear error at most, and never another statement than the
    # one that was meant.
    for code, err in ends:
        assert code == 0 or re.search(r'prepared statement "termgate_[0-9a-f]{16}" (already exists|does not exist)', err), err
    assert subprocess.run([TERMGATE, "verify", "--db", url], capture_output=True, env=ENV).returncode == 0
