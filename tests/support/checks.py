"""Checks after which a test goes on.

A scenario with one server and one proxy often looks at twenty facts, and the tenth is worth knowing although the third
is wrong. `check` remembers what is wrong; tests/live/conftest.py fails the test at its end with all of it, each with its
line. `note` keeps a figure that was measured; it is printed at the end of the run.
"""
import os
import subprocess
import sys
import time

made = 0
failures = []
reported = 0  # of the failures, those that are in a test's report
notes = []


def check(name, condition, detail=""):
    """Returns the condition, so that a test may leave out what makes no sense without it."""
    global made
    made += 1
    if not condition:
        caller = sys._getframe(1)
        while os.path.basename(caller.f_code.co_filename) in ("checks.py", "proxy_lab.py"):
            caller = caller.f_back
        place = f"{os.path.basename(caller.f_code.co_filename)}:{caller.f_lineno}"
        failures.append(f"{place}: {name}" + (f": {detail}" if detail else ""))
        print("FAIL " + failures[-1], flush=True)
    return condition


def note(text):
    notes.append(text)


def eventually(condition, seconds=5.0, step=0.01):
    """Waits until the condition holds; whether it did in time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(step)
    return True


def stays(condition, seconds, step=0.02):
    """Whether the condition holds now and all the time for so long: for what must not happen."""
    until = time.monotonic() + seconds
    while condition():
        if time.monotonic() > until:
            return True
        time.sleep(step)
    return False


def captured(words, **more):
    """The process when it has ended, and what it said as text."""
    return subprocess.run(words, capture_output=True, text=True, **more)
