#!/usr/bin/env python3
"""[F1] [F2] [F3] A Patroni cluster in which primaries are killed, stopped, cut off and switched over: tests/cluster/patroni_storm.py.

  pytest tests/live/patroni_test.py [--long]

Three failovers in asynchronous mode; with --long 100, half of them in each mode.
"""
import shutil
import subprocess

import pytest
from given import LONG, PYTHON, ROOT, TERMGATE

missing = [name for name in ("patroni", "etcd", "setpriv") if shutil.which(name) is None]


@pytest.mark.skipif(bool(missing), reason=f"not installed: {missing}")
def test_fences_are_kept_or_shut():
    storm = [PYTHON, str(ROOT / "tests" / "cluster" / "patroni_storm.py"), TERMGATE, "--failovers", "100" if LONG else "3"]
    done = subprocess.run(storm, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
