"""The proxy in front of the SQL Server that TERMGATE_TEST_SQLSERVER names, for sqlserver_proxy_test.py and what measures it."""
import http.client
import os
import subprocess
import urllib.parse

import tds_proxy
from checks import eventually
from given import TERMGATE, free_port
from odbc_plain import url_of
from tdsraw import Tds

URL = os.environ.get("TERMGATE_TEST_SQLSERVER", "")
DATABASE = f"termgate_proxy_{os.getpid()}"


def filled(text, mark):
    return text.replace("%M", mark).replace("%D", DATABASE)


def parts():
    found = urllib.parse.urlsplit(URL)
    return urllib.parse.unquote(found.username), urllib.parse.unquote(found.password), found.hostname, found.port or 1433


def connect(port, application="plain", host="127.0.0.1", source=None):
    user, password, _, _ = parts()
    return Tds(port, user, password, DATABASE, application, host, source=source)


def direct():
    _, _, host, port = parts()
    return connect(port, "direct", host)


class Proxy(tds_proxy.Proxy):
    """In front of that server, and ready."""

    def __init__(self, *options):
        self.http = free_port()
        super().__init__(0, "--http", f"127.0.0.1:{self.http}", *options, url=url_of(URL, DATABASE))
        if not eventually(self.is_ready, 10, 0.1):
            raise AssertionError("the proxy did not get ready: " + self.log.read_text(encoding="utf-8"))

    def is_ready(self):
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            return False

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=5)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def termgate(*words):
    return subprocess.run([TERMGATE, *words, "--db", url_of(URL, DATABASE)], capture_output=True, text=True, timeout=600, check=False)


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
