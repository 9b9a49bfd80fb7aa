"""pytest: the service survives a stale leader.   pytest test_stale_leader.py

`termgate` is in the PATH. TEST_DATABASE is a database for tests; without it an SQLite file is made for each test.
"""
import json
import os
import shlex
import subprocess
import sys

import pytest

COMMAND = shlex.split(os.environ.get("SERVICE_COMMAND", f"{sys.executable} service.py"))


@pytest.fixture
def database(tmp_path):
    url = os.environ.get("TEST_DATABASE", f"sqlite:{tmp_path}/test.db")
    subprocess.run(["termgate", "init", "--db", url], check=True)  # safe to run again
    create = "CREATE TABLE IF NOT EXISTS entries (scope text, term bigint, instance text)"
    subprocess.run(["termgate", "exec", "--db", url, "--scope", "test-setup", "--term", "1", create], check=True)
    # From here on a write needs a term, from check_term or declared with set_config.
    subprocess.run(["termgate", "protect", "--db", url, "entries", "--scope-column", "scope"], check=True)
    return url


def test_a_stale_leader_is_refused(database, tmp_path):
    options = ["--db", database, "--scope", "billing", "--timeout", "20s", "--json", "--quiet", "--output", str(tmp_path)]
    evidence = ["--evidence", "SELECT count(*) FROM entries WHERE term = $1 AND scope = $2"]
    done = subprocess.run(["termgate", "drill", *options, *evidence, "--", *COMMAND], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    result = json.loads(done.stdout)
    run = result.get("runs", [{}])[0]
    lines = [str(run.get("detail")), *run.get("evidence", []), *run.get("output", []), done.stderr]
    assert result.get("verdict") == "passed", "\n".join(lines)
