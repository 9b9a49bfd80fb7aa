"""What the tests of the pages share: the code of a page, and how it is run, with the command that is tested first in PATH."""
import os
import re
from pathlib import Path

from checks import captured
from given import ROOT, TERMGATE
from plain_server import server

SERVER = server()
PLACE = re.search(r"(?:@|//)([^@/]+)/[^/]*$", SERVER).group(1)
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("TERMGATE_DB", "PGOPTIONS")}
ENVIRONMENT["PATH"] = f"{Path(TERMGATE).parent}:{ENVIRONMENT['PATH']}"


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def block(path, beginning, language=r"\w*"):
    """The one block of code on the page that begins so."""
    found = re.findall(rf"^```{language}\n(.*?)\n^```$", text_of(path), re.S | re.M)
    found = [code for code in found if code.startswith(beginning)]
    assert len(found) == 1, f"{path} has {len(found)} blocks that begin with {beginning!r}"
    return found[0]


def shell(text, cwd=None, **more):
    done = captured(["bash", "-e", "-c", text], cwd=cwd, env=dict(ENVIRONMENT, **more), timeout=120)
    assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
    return done.stdout


def psql(target, *statements, fails=None):
    """What it prints; `fails`: what its error must contain."""
    text = "\n".join(statements)
    done = captured(["psql", "-qXAt", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", target], input=text, env=ENVIRONMENT)
    if fails is None:
        assert done.returncode == 0, text + done.stderr
    else:
        assert done.returncode != 0 and fails in done.stderr, f"{text}: expected {fails}: {done.stdout}{done.stderr}"
    return done.stdout.strip()
