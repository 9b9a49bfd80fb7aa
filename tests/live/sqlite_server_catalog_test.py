#!/usr/bin/env python3
"""A real PostgreSQL 15 still answers what tests/unit/sqlite_server/catalog.txt says it does: the file that the
catalog over SQLite is compared with is PostgreSQL's word, not ours.

  pytest tests/live/sqlite_server_catalog_test.py
"""
import subprocess

import pytest

from given import PYTHON, ROOT


def test_postgresql_15_answers_what_the_catalogs_file_contains(lab):
    pytest.importorskip("psycopg2")
    server = lab.server("15", layer1=False)  # which would be in its catalog
    oracle, file = ROOT / "tools/catalog_oracle.py", ROOT / "tests/unit/sqlite_server/catalog.txt"
    done = subprocess.run([PYTHON, oracle, "--check", server.url, file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
