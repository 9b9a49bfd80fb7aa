"""What the live tests of the command share that play on PostgreSQL and on SQLite.

    class Storm(BothDatabases):
        termgate, pg_server, folder, name = …      the command, pg_server.sh, a folder of its own, the SQLite file's name

`self.postgres` and `self.sqlite` are URLs of databases of its own, layer 1 installed.
"""
import os
import subprocess
import unittest
from pathlib import Path

from checks import captured
from given import TERMGATE

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("TERMGATE_", "PG"))}


def command(url, *words):
    """The command on that database; nothing else of the environment reaches it."""
    return captured([TERMGATE, *words], env=dict(CLEAN, TERMGATE_DB=url), timeout=60, stdin=subprocess.DEVNULL)


def sh(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


class BothDatabases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Path(cls.folder) / "pg"
        cls.server.mkdir()
        os.chmod(cls.server, 0o755)
        cls.postgres = sh(cls.pg_server, "start", "15", cls.server, "fsync=off")
        cls.addClassCleanup(sh, cls.pg_server, "stop", cls.server, "immediate")
        cls.sqlite = f"sqlite:{cls.folder}/{cls.name}.db"
        for url in (cls.postgres, cls.sqlite):
            sh(cls.termgate, "init", "--db", url)
