#!/usr/bin/env python3
"""A client of proxy_f4_test.py, a process of its own, so that SIGSTOP can stop it.

  host_client.py PORT SOURCE_ADDRESS SCOPE

It writes in a transaction, and commits when it gets a line on its input. It prints what became of both.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from proxy_lab import Refused, Wire  # noqa: E402


def client_of_a_host(port, source, scope):
    wire = Wire(int(port), source=source)
    wire.ask("BEGIN")
    error = wire.ask(f"INSERT INTO guarded VALUES ('{scope}', 'frozen')")[1]
    print(f"ready {error}", flush=True)
    sys.stdin.readline()
    try:
        print("committed" if wire.ask("COMMIT")[1] is None and wire.status == "I" else "refused", flush=True)
    except (Refused, OSError) as refused:
        print(f"refused {refused}", flush=True)


if __name__ == "__main__":
    client_of_a_host(*sys.argv[1:4])
