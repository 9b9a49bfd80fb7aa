#!/usr/bin/env python3
"""A real PostgreSQL 15 still answers what tests/unit/sqlite_server/catalog.txt says it does: the file that the
catalog over SQLite is compared with is PostgreSQL's word, not ours.

    sqlite_server_catalog_test.py SOURCE PG_SERVER
"""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

source, pg_server = Path(sys.argv[1]), sys.argv[2]
python = next(
    (
        each
        for each in (sys.executable, "/usr/bin/python3")
        if subprocess.run([each, "-c", "import psycopg2"], capture_output=True).returncode == 0
    ),
    None,
)
if python is None:
    print("psycopg2 is not here")
    sys.exit(77)
directory = tempfile.mkdtemp(prefix="sqlite_server_catalog.")
Path(directory).chmod(0o755)
server = directory + "/server"
subprocess.run([pg_server, "start", "15", server], check=True, stdout=subprocess.DEVNULL)
try:
    url = subprocess.run([pg_server, "url", server], check=True, capture_output=True, text=True).stdout.strip()
    result = subprocess.run([python, source / "tools/catalog_oracle.py", "--check", url, source / "tests/unit/sqlite_server/catalog.txt"])
finally:
    subprocess.run([pg_server, "stop", server, "immediate"], check=False, stdout=subprocess.DEVNULL)
    shutil.rmtree(directory, ignore_errors=True)
sys.exit(result.returncode)
