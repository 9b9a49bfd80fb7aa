#!/usr/bin/env python3
"""What the live tests rely on in their own house: a failed check fails its test and names its line, whatever comes after it;
what fails after the last test fails the run; a run in which all was skipped ends with 77.

  pytest tests/live/harness_test.py

Each case is a file of tests, run by a pytest of its own with tests/live/conftest.py.
"""
import os
import subprocess
import sys
from pathlib import Path

import pytest

LIVE = Path(__file__).resolve().parent


def run(folder, text):
    """The status and what was printed."""
    (folder / "a_test.py").write_text("import pytest\nfrom checks import check, eventually, note, stays\n" + text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "conftest", "a_test.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(LIVE)},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_test_goes_on_after_failed_checks_and_fails_with_all_of_them(tmp_path):
    status, said = run(
        tmp_path, "def test_two():\n    check('one', False, 'so')\n    check('two', True)\n    check('three', 0)\n    note('end')\n"
    )
    assert status == 1, said
    assert "2 failed:\na_test.py:4: one: so\na_test.py:6: three\n" in said and "\nend\n" in said, said
    assert "3 checks, 2 of them failed" in said and "1 failed" in said, said


def test_failed_checks_are_named_beside_an_exception(tmp_path):
    status, said = run(
        tmp_path, "def test_both():\n    check('first', False)\n    assert 1 == 2\n\ndef test_fine():\n    check('fine', 1)\n"
    )
    assert status == 1 and "a_test.py:4: first" in said and "assert 1 == 2" in said and "1 failed, 1 passed" in said, said


def test_a_check_that_fails_after_the_last_test_fails_the_run(tmp_path):
    fixture = "@pytest.fixture\ndef late():\n    yield\n    check('late', False)\n\ndef test_fine(late):\n    pass\n"
    status, said = run(tmp_path, fixture)
    assert status == 1 and "FAILED after the last test: a_test.py:6: late" in said, said


@pytest.mark.parametrize(
    "text, status",
    (
        ("pytest.importorskip('no_such_module')\n", 77),
        ("def test_skipped():\n    pytest.skip('no server')\n", 77),
        ("def test_skipped():\n    pytest.skip('no server')\n\ndef test_fine():\n    pass\n", 0),
        ("def test_skipped():\n    check('before', False)\n    pytest.skip('no server')\n", 1),
        ("", 5),
    ),
    ids=("a module that is skipped", "each test", "one of two", "with a failed check", "no test at all"),
)
def test_the_status_of_a_run_with(text, status, tmp_path):
    found, said = run(tmp_path, text)
    assert found == status, said


def test_waits_end_by_their_state_and_absence_is_looked_at_all_the_time(tmp_path):
    text = "import itertools, time\ndef test_waits():\n    numbers = itertools.count()\n    began = time.monotonic()\n"
    text += "    assert eventually(lambda: next(numbers) == 3, 60) and not eventually(lambda: False, 0.05)\n"
    text += "    assert stays(lambda: True, 0.05) and not stays(lambda: next(numbers) < 9, 60) and time.monotonic() - began < 30\n"
    status, said = run(tmp_path, text)
    assert status == 0, said
