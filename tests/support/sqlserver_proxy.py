"""The proxy in front of the SQL Server that TERMGATE_TEST_SQLSERVER names, for sqlserver_proxy_test.py and what measures it."""
import http.client
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.parse
from pathlib import Path

from given import TERMGATE, free_port
from tdsraw import Tds

URL = os.environ.get("TERMGATE_TEST_SQLSERVER", "")
DATABASE = f"termgate_proxy_{os.getpid()}"
scratch = tempfile.TemporaryDirectory(prefix="termgate-sqlserver-proxy-test.")


def filled(text, mark):
    return text.replace("%M", mark).replace("%D", DATABASE)


def url_of(database, port=None):
    url = re.sub(r"(sqlserver://[^/]*)/[^?]*", rf"\g<1>/{database}", URL)
    return url if port is None else re.sub(r":\d+/", f":{port}/", url)


def parts():
    found = urllib.parse.urlsplit(URL)
    return urllib.parse.unquote(found.username), urllib.parse.unquote(found.password), found.hostname, found.port or 1433


def connect(port, application="plain", host="127.0.0.1", source=None):
    user, password, _, _ = parts()
    return Tds(port, user, password, DATABASE, application, host, source=source)


def direct():
    _, _, host, port = parts()
    return connect(port, "direct", host)


class Proxy:
    def __init__(self, *options, backend=None):
        self.port, self.http = free_port(), free_port()
        self.log = open(Path(scratch.name) / f"proxy-{self.port}.log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [
                TERMGATE,
                "proxy",
                "--listen",
                f"127.0.0.1:{self.port}",
                "--http",
                f"127.0.0.1:{self.http}",
                "--backend",
                backend or url_of(DATABASE),
                *options,
            ],
            stderr=self.log,
            env={name: value for name, value in os.environ.items() if name != "TERMGATE_DB"},
        )
        for _ in range(100):
            try:
                if self.get("/readyz")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError("the proxy did not get ready: " + self.told())

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=5)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def told(self):
        return Path(self.log.name).read_text(encoding="utf-8")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


def termgate(*words):
    return subprocess.run([TERMGATE, *words, "--db", url_of(DATABASE)], capture_output=True, text=True, timeout=600, check=False)


def make_database():
    """An empty one with layer 1; returns a session of its own in it."""
    user, password, host, port = parts()
    Tds(port, user, password, "master", host=host).batch(f"CREATE DATABASE {DATABASE}")
    done = termgate("init")
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return direct()


def drop_database():
    user, password, host, port = parts()
    Tds(port, user, password, "master", host=host).batch(f"DROP DATABASE {DATABASE}")
