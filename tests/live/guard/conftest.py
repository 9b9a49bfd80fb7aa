"""Options of the guard's tests, beside those of tests/live/conftest.py, and the server of a module."""
import pytest


def pytest_addoption(parser):
    group = parser.getgroup("guard", "the guard in a server")
    group.addoption("--library", metavar="FILE", help="termgate_guard.so, built for that major; TERMGATE_GUARD names the one for 15")
    group.addoption("--programs", metavar="FOLDER", help="instead: the programs of a server in which the extension is installed")
    group.addoption("--major", metavar="18", help="of that server; 15")
    group.addoption("--upgrade-to", metavar="FOLDER", help="the programs of the server that pg_upgrade goes to")
    group.addoption("--setting", action="append", metavar="NAME=VALUE", help="of that server; may be repeated")


@pytest.fixture(scope="module")
def rig():
    import guard_rig  # after the options are known

    one = guard_rig.made()
    yield one
    one.close()
