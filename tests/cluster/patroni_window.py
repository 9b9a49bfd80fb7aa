#!/usr/bin/env python3
"""[F2] How an acknowledged write can be missing after a failover in Patroni's synchronous mode, without Termgate.

  patroni_window.py [--strict] [--checkpointer-runs]

Patroni sets synchronous_standby_names, reloads PostgreSQL, waits 100 ms, and then calls the standby synchronous as soon
as it has received what was written until then. But commits wait for a standby only once PostgreSQL's checkpointer has
read the new setting, and a checkpointer that is in a checkpoint, or gets no processor, may need longer. What is
acknowledged in between has not waited for anybody, and the standby may be promoted without it.

Here the checkpointer is stopped while that happens. Without --strict the setting goes through '' after both standbys
were gone, as it does after each promotion; with --strict (synchronous_mode_strict) it never does. The program ends with
0 if it saw what docs/evidence/patroni.md says: the write is lost without --strict, and is not acknowledged with it or
where the checkpointer runs.
"""
import argparse
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import psycopg2  # noqa: E402
from patroni_lab import Cluster, within  # noqa: E402


def connect(node):
    connection = psycopg2.connect(f"postgresql://postgres@127.0.0.1:{node.port}/postgres?connect_timeout=2")
    connection.autocommit = True
    return connection


def ask(node, statement):
    connection = connect(node)
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


def synchronous_standby(cluster):
    """As Patroni records it in its /sync key: whom it would promote."""
    return next((node for node in cluster.nodes if node.answers("/sync")), None)


def acknowledged_within(node, seconds):
    """A write that waits for its standby is acknowledged by nobody, unless Patroni gives the standby up."""
    done = []

    def write():
        try:
            ask(node, "INSERT INTO written VALUES ('acknowledged')")
            done.append(True)
        except psycopg2.Error:
            pass  # the node was killed

    threading.Thread(target=write, daemon=True).start()
    time.sleep(seconds)
    return bool(done)


def play(cluster):
    old = cluster.leader()
    ask(old, "CREATE TABLE written (what text)")
    standbys = [node for node in cluster.nodes if node is not old]
    for node in standbys:
        node.kill(patroni=True)
    if options.strict:
        time.sleep(10)  # until Patroni has noticed
        print(f"without standbys the setting is {ask(old, 'SHOW synchronous_standby_names')}")
    else:
        within(60, lambda: ask(old, "SHOW synchronous_standby_names") == [("",)], "an empty synchronous_standby_names")
    stopped = old.processes(b"checkpointer")
    assert len(stopped) == 1, stopped
    if not options.checkpointer_runs:
        os.kill(stopped[0], signal.SIGSTOP)
    standbys[0].start()
    new = within(90, lambda: synchronous_standby(cluster), "a synchronous standby")
    print(f"Patroni's synchronous standby is {new.name}, the setting {ask(old, 'SHOW synchronous_standby_names')}")
    receivers = new.receivers()
    assert receivers
    for pid in receivers:
        os.kill(pid, signal.SIGSTOP)
    acknowledged = acknowledged_within(old, 5)
    print("the write was acknowledged" if acknowledged else "the write was not acknowledged: it waits for the standby")
    old.kill(patroni=True)
    for pid in receivers:
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)
    promoted = cluster.leader(90, other_than=old)
    there = bool(ask(promoted, "SELECT FROM written"))
    print(f"{promoted.name} was promoted; the write is {'there' if there else 'missing'}")
    expected_loss = not options.strict and not options.checkpointer_runs
    return (acknowledged and not there) if expected_loss else not acknowledged


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--checkpointer-runs", action="store_true")
    options = parser.parse_args()
    lab = Cluster(True, strict=options.strict)
    try:
        as_expected = play(lab)
    finally:
        lab.stop()
    print("as expected" if as_expected else "NOT as expected")
    sys.exit(0 if as_expected else 1)
