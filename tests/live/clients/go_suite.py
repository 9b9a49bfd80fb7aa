#!/usr/bin/env python3
"""A Go driver's own tests against a server on loopback: how many pass, fail, are skipped, or hang.

  go_suite.py PORT PACKAGE [--show]      PACKAGE: github.com/lib/pq, github.com/jackc/pgx/v4 …

The packages are Debian's (golang-github-lib-pq-dev, golang-github-jackc-pgx-v4-dev). Each test is a process of its own, 20 seconds at most,
so that one that hangs costs no other. --show prints what those that failed printed. The server lets `postgres` in without a password.
"""
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter

SOURCES = "/usr/share/gocode"


def main(port, package, show):
    address = f"postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable"
    environment = os.environ | {
        **{"GO111MODULE": "off", "GOPATH": SOURCES, "GOFLAGS": "-p=1", "PGHOST": "127.0.0.1", "PGPORT": port, "PGUSER": "postgres"},
        **{"PGDATABASE": "postgres", "PGSSLMODE": "disable", "PGX_TEST_DATABASE": address, "PGX_TEST_CONN_STRING": address},
        "PGX_TEST_TCP_CONN_STRING": f"host=127.0.0.1 port={port} user=postgres database=postgres sslmode=disable",
    }
    folder = f"{SOURCES}/src/{package}"
    with tempfile.TemporaryDirectory() as scratch:
        program = f"{scratch}/suite"
        environment.setdefault("GOCACHE", f"{scratch}/cache")
        subprocess.run(["go", "test", "-vet=off", "-c", "-o", program, package], env=environment, check=True)
        names = subprocess.run([program, "-test.list", "."], env=environment, cwd=folder, capture_output=True, text=True, check=True).stdout
        count = Counter()
        for name in re.findall(r"^(?:Test|Example)\w*", names, re.M):
            try:
                run = [program, "-test.run", f"^{name}$", "-test.v", "-test.count=1"]
                done = subprocess.run(run, env=environment, cwd=folder, capture_output=True, text=True, errors="replace", timeout=20)
                skipped = re.search(rf"^--- SKIP: {name}\b", done.stdout, re.M)
                what, told = "failed" if done.returncode else "skipped" if skipped else "passed", done.stdout + done.stderr
            except subprocess.TimeoutExpired:
                what, told = "hung", ""
            count[what] += 1
            if show and what in ("failed", "hung"):
                print(f"##### {name} {what}\n{told}")
    print(package, " ".join(f"{what} {number}" for what, number in sorted(count.items())))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], "--show" in sys.argv)
