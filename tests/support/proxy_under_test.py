"""Servers and proxies of proxy_lab.py for tests that have no fixture `lab`: they end with the program."""
import atexit
import threading
from pathlib import Path

import proxy_lab


_one_at_a_time, _labs = threading.Lock(), []


def lab():
    with _one_at_a_time:
        if not _labs:
            _labs.append(proxy_lab.Lab("proxy"))
            atexit.register(_labs[0].close)
    return _labs[0]


class Server(proxy_lab.Server):
    def __init__(self, major, *settings):
        super().__init__(lab(), str(major), *settings)
        self.major, self.folder = major, Path(self.folder)

    def url_of(self, database):
        return f"{self.url.rsplit('/', 1)[0]}/{database}"

    def install(self, url):
        self.lab.run(self.lab.termgate, "init", "--db", url)


def proxy(server, scope=None, term=None, options=(), database="postgres"):
    """Starts a proxy in front of `server` and returns its port. `scope` and `term`: a rule gives them to every session. `database`: which
    the proxy watches."""
    if scope:
        rules = server.folder / f"rules-{next(server.lab.numbers)}"
        rules.write_text(f'[rule everybody]\nscope = "{scope}"\nterm = {term}\n')
        options = [*options, "--rules", rules]
    return server.lab.proxy(server.url_of(database), *options).port
