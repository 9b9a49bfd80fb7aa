"""What the tests of `termgate storm` share: how one is started, and how one that has kept all guarantees ends."""
import json
import os
import subprocess
import tempfile

from checks import captured
from given import TERMGATE

scratch = tempfile.TemporaryDirectory(prefix="termgate-storm-test.")
os.chmod(scratch.name, 0o755)
environment = {name: value for name, value in os.environ.items() if name not in ("TERMGATE_DB", "TERMGATE_PLANTED")}
environment["TMPDIR"] = scratch.name  # a storm's logs go with it


def storm(url, *words, timeout=600, **more):
    return captured([TERMGATE, "storm", *words], env=dict(environment, TERMGATE_DB=url, **more), timeout=timeout)


def kept(done):
    """The document of a storm that has kept all guarantees."""
    assert done.stdout, done
    document = json.loads(done.stdout)
    found = done.returncode, document["verdict"], document["breaches"], document["unjudged"]
    assert found == (0, "kept", [], []), done.stdout + done.stderr
    # What had no answer was settled by its write id or by the rows: each of them had committed, or had not.
    settled = document["unanswered_settled"] + document["unknown_committed"] + document["unknown_absent"]
    assert document["unanswered"] == settled, document
    assert document["leaders_ended_by_themselves"] == 0, done.stdout + done.stderr
    return document


def started(url, *words):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([TERMGATE, "storm", *words], env=dict(environment, TERMGATE_DB=url), **pipes)
