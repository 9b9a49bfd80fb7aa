"""The PostgreSQL 15 of a test that needs an ordinary server and nothing else of it.

    plain_server.server()      its URL, as a superuser

TERMGATE_TEST_POSTGRESQL names one that runs already, as ./test does. Without it one is started at the first call, and
stopped when the program ends.
"""
import atexit
import functools
import os
import shutil
import subprocess
import tempfile

from given import PG_SERVER


@functools.cache
def server():
    if os.environ.get("TERMGATE_TEST_POSTGRESQL"):
        return os.environ["TERMGATE_TEST_POSTGRESQL"]
    folder = tempfile.mkdtemp(prefix="termgate-plain.")
    os.chmod(folder, 0o755)

    def stop():
        subprocess.run([PG_SERVER, "stop", f"{folder}/pg", "immediate"], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    done = subprocess.run([PG_SERVER, "start", "15", f"{folder}/pg", "fsync=off"], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"PostgreSQL 15 did not start in {folder}: {done.stderr}")
    return done.stdout.strip()
