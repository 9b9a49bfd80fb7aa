#!/usr/bin/env python3
"""[F1] [F2] [F3] [F4] [F5] A million writes and a thousand takeovers in the storm, under every kind of fault: on
SQLite and PostgreSQL, there also through two proxies. No breach.

  pytest tests/live/storm/storm_million_test.py --long

Only with --long, as in ./test --long. Rounds of a minute, each a storm of its own with a seed of its own,
until both numbers and each fault have been seen; MINUTES_MAX at most.
The server flushes (fsync), and in two of the rounds it is killed hard and started again.
"""
import json
import time
from collections import Counter

import pytest

from both_databases import sh
from checks import note
from given import LONG, PG_SERVER, TERMGATE
from storms import kept, scratch, storm

WRITES, TAKEOVERS, MINUTES_MAX = 1_000_000, 1_000, 30
COUNTED = "writes_sent writes_committed takeovers refused_stale refused_after_stop evictions unanswered unknown_committed looks".split()
COMMON = ["--json", "--pace", "full", "--leaders", "3", "--scopes", "4", "--writers", "4", "--seconds", "60"]


def fault_names():
    """As the command itself lists them: a fault that is new is wanted here too."""
    lines = sh(TERMGATE, "storm", "--help").split("Faults:\n")[1].split("\n\n")[0].splitlines()
    return {line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "} | {"server-restart"}


@pytest.mark.skipif(not LONG, reason="./test --long")
def test_a_million_writes_and_a_thousand_takeovers_under_every_fault():
    begun = time.monotonic()
    server, sqlite = f"{scratch.name}/pg", f"sqlite:{scratch.name}/storm.db"
    postgres = sh(PG_SERVER, "start", "15", server, "max_connections=300")
    try:
        for url in (postgres, sqlite):
            sh(TERMGATE, "init", "--db", url)
        restart = ["--server-restart", f"'{PG_SERVER}' kill '{server}' && '{PG_SERVER}' start 15 '{server}' max_connections=300"]
        proxies = ["--proxies", "2"]
        three = [("SQLite", sqlite, []), ("PostgreSQL", postgres, []), ("PostgreSQL", postgres, proxies)]
        rounds = [*three, ("PostgreSQL", postgres, restart), ("PostgreSQL", postgres, [*proxies, *restart])]
        more = [three[2], three[0], three[0], three[0]]  # what is missing of the million comes fastest there
        wanted, seen, total, number = fault_names(), Counter(), Counter(), 0
        while rounds or total["writes_committed"] < WRITES or total["takeovers"] < TAKEOVERS or wanted - set(seen):
            if time.monotonic() - begun > MINUTES_MAX * 60:
                pytest.fail(f"not reached in {MINUTES_MAX} minutes: {dict(total)}, not seen: {sorted(wanted - set(seen))}")
            name, url, words = rounds.pop(0) if rounds else more[number % 4]
            number += 1
            document = kept(storm(url, *COMMON, *words, "--seed", str(1000 + number)))
            seen.update(document["faults"])
            total.update({what: document[what] for what in COUNTED})
            where = name + " through two proxies" * ("--proxies" in words) + ", server killed" * ("--server-restart" in words)
            note(
                f"round {number:2}: {where:45} {document['writes_committed']:7} writes, {document['takeovers']:4} takeovers,"
                f" {document['refused_stale']:4} refused, {document['unanswered']:4} without an answer; {document['seconds']:.0f} s"
            )
        note(f"all: {json.dumps(total)}\nfaults: {json.dumps(seen)}\n0 breaches in {(time.monotonic() - begun) / 60:.1f} min")
    finally:
        sh(PG_SERVER, "stop", server, "immediate")
