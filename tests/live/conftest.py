"""What the live tests in Python share: options, fixtures, and how a run ends.

  pytest tests/live/proxy/proxy_net_test.py                 one file, with what `cmake --preset dev` built
  pytest tests/live/proxy/proxy_service_test.py -k drain    the tests with this in their names
  pytest tests/live/proxy/proxy_kill_test.py --long --seed 7

A test with `check` (tests/support/checks.py) or `lab.check` goes on after a failure and fails at its end with all of
them. A run in which every test was skipped ends with 77, which CTest shows as Skipped.
"""
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import checks  # noqa: E402

SKIPPED = 77


def pytest_addoption(parser):
    group = parser.getgroup("termgate", "Termgate's live tests")
    group.addoption("--long", action="store_true", help="more of everything, as ./test --long does")
    group.addoption("--majors", metavar="13,18", help="the majors of PostgreSQL to run on, where a test has a choice")
    group.addoption("--seed", type=int, metavar="N", help="play one random run again: its seed is in the message of a failure")
    group.addoption("--seats", metavar="eager", help="give this to every proxy for PostgreSQL whose test does not say it itself")
    group.addoption("--show", action="store_true", help="the conversations, where a test compares some")
    group.addoption("--only", action="append", metavar="PART", help="what has this in it; a test says of what. May be repeated")
    group.addoption("--count", type=int, metavar="N", help="so many random statements (hrana_transparent_test.py)")
    group.addoption("--chunk", type=int, metavar="N", help="send N bytes at a time (proxy_difference_test.py)")
    group.addoption("--screenshots", metavar="FOLDER", help="keep pictures of the admin page there")
    group.addoption("--list", action="store_true", help="the catalogue of sqlserver_proxy_test.py, instead of its tests")
    group.addoption("--write", action="store_true", help="renew what a test compares with: docs/reference/command.md, tds_recorded")


def pytest_configure(config):
    if config.getoption("--long"):
        os.environ["TERMGATE_TEST_LONG"] = "1"
    import given  # reads the environment

    given.options = config.option


def pytest_collection_modifyitems(config, items):
    """In a plain run, every n-th case of each test in a file with PLAIN_SHARE = n. All of them with --long, and of a test that -k names."""
    import given

    if given.LONG or config.getoption("--majors") or config.getoption("keyword"):
        return
    played, left_out = [], []
    seen = Counter()
    for item in items:
        test = (item.module.__name__, item.originalname)
        of = getattr(item.module, "PLAIN_SHARE", 1) if hasattr(item, "callspec") else 1
        (left_out if seen[test] % of else played).append(item)
        seen[test] += 1
    items[:] = played
    config.hook.pytest_deselected(items=left_out)


def unreported():
    """The checks that failed and were in no report yet; those of a fixture or of a thread count for the test that runs then."""
    failed = checks.failures[checks.reported :]
    checks.reported = len(checks.failures)
    return failed


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Calls the test, then fails it with the checks that failed in it."""
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    try:
        pyfuncitem.obj(**arguments)
    except Exception:
        failed = unreported()
        if failed:
            pyfuncitem.add_report_section("call", "checks that failed before", "\n".join(failed))
        raise
    failed = unreported()
    if failed:
        pytest.fail("\n".join([f"{len(failed)} failed:", *failed]), pytrace=False)
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_sessionfinish(session):
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    seen = {outcome for outcome in ("passed", "failed", "error", "xfailed", "xpassed") if reporter.stats.get(outcome)}
    if reporter.stats.get("skipped") and not seen and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = SKIPPED
    if checks.reported < len(checks.failures) and session.exitstatus in (pytest.ExitCode.OK, SKIPPED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED  # a check at the end of a fixture, after the last test


def pytest_terminal_summary(terminalreporter):
    for text in checks.failures[checks.reported :]:
        terminalreporter.write_line(f"FAILED after the last test: {text}")
    for text in checks.notes:
        terminalreporter.write_line(text)
    if checks.made:
        terminalreporter.write_line(f"{checks.made} checks, {len(checks.failures)} of them failed")


@pytest.fixture(scope="module")
def lab(request):
    """A folder, servers and proxies of the module's own, all stopped at its end. The logs are kept where a test failed."""
    import proxy_lab

    failed = request.session.testsfailed
    made = proxy_lab.Lab(request.module.__name__.removesuffix("_test").replace("_", "-"))
    yield made
    made.close(keep=request.session.testsfailed > failed)
    if request.session.testsfailed > failed:
        checks.note(f"{request.module.__name__}: the logs are in {made.folder}")


@pytest.fixture(scope="module")
def server(lab):
    """A PostgreSQL 15 of the module's own, layer 1 installed."""
    return lab.server("15")
