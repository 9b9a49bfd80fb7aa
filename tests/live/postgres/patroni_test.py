#!/usr/bin/env python3
"""[F1] [F2] [F3] A Patroni cluster in which primaries are killed, stopped, cut off and switched over: tests/cluster/patroni_storm.py.

  pytest tests/live/postgres/patroni_test.py --long

100 failovers, half of them in each mode, which takes half an hour; only with --long. By hand, in about a minute:
tests/cluster/patroni_storm.py build/dev/termgate --failovers 3
"""
import shutil
import subprocess

import pytest
from given import LONG, PYTHON, ROOT, TERMGATE

missing = [name for name in ("patroni", "etcd", "setpriv") if shutil.which(name) is None]


@pytest.mark.skipif(not LONG, reason="only with --long")
@pytest.mark.skipif(bool(missing), reason=f"not installed: {missing}")
def test_fences_are_kept_or_shut():
    storm = [PYTHON, str(ROOT / "tests" / "cluster" / "patroni_storm.py"), TERMGATE, "--failovers", "100"]
    done = subprocess.run(storm, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
