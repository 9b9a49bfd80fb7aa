"""What the tests of the examples share: a service on a free port, and a database of their own on the server of TERMGATE_TEST_POSTGRESQL."""
import contextlib
import os
import re
import subprocess
import urllib.parse


@contextlib.contextmanager
def served(*words, environment=None):
    """Runs a service that prints "listening on 127.0.0.1:PORT"; PORT in its arguments becomes 0, which is any free one."""
    process = subprocess.Popen(
        ["0" if word == "PORT" else word for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        line = process.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        if not found:
            process.kill()
            raise AssertionError(f"{words} did not start: {line}{process.communicate(timeout=20)}")
        yield int(found.group(1))
    finally:
        process.kill()
        process.communicate(timeout=20)


@contextlib.contextmanager
def database(test, name):
    """The URL of a new database, dropped afterwards. Skips the test where there is no server."""
    server = os.environ.get("TERMGATE_TEST_POSTGRESQL")
    if not server:
        test.skipTest("TERMGATE_TEST_POSTGRESQL names no server")
    name = f"{name}_{os.getpid()}"
    subprocess.run(["psql", "-qX", server, "-c", f"CREATE DATABASE {name}"], check=True, timeout=60)
    try:
        yield urllib.parse.urlsplit(server)._replace(path="/" + name).geturl()
    finally:
        subprocess.run(["psql", "-qX", server, "-c", f"DROP DATABASE {name} WITH (FORCE)"], check=True, timeout=60)
