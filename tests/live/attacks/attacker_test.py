#!/usr/bin/env python3
"""[F1][F2][F6] The random attacker against live servers: no commit without a passed claim, no session that hangs, no answers out of step.

  pytest tests/live/attacks/attacker_test.py [--majors 15] [--modes reject,read-only,allow] [--seconds 20] [--seed N]
                                             [--replay SEED] [--workers N]

The seconds are shared by the majors and modes. A breach is printed with its seed and its messages, made shorter;
--replay plays that seed alone, against a fresh server. What is judged, and how, is in judge.sql.
"""
import subprocess
from pathlib import Path

import pytest

import given
from checks import check, note
from pgraw import Connection
from rig import GUARD, Server

REPLAY = given.option("replay")
MAJORS = given.majors("15", "13,15,18")[: 1 if REPLAY else None]
MODES = given.option("modes", "reject,read-only,allow").split(",")[: 1 if REPLAY else None]


@pytest.fixture(scope="module", params=MAJORS)
def major(request):
    return request.param


@pytest.fixture(scope="module")
def attacked(lab, major):
    """A server with layer 1, a role for each level, and the judge."""
    server = Server(lab, major, "track_commit_timestamp=on", "max_prepared_transactions=40")
    with Connection(server.port, wait=60) as direct:
        direct.rows("SELECT termgate.append('attacked known', 1, 'x', write_id => '11111111-1111-1111-1111-111111111111')")
        # A prepared transaction of a session's own cannot be evicted: a raise shall not wait long for it.
        direct.rows("SELECT termgate.set_setting('check_wait_ms', '500')")
        direct.rows((Path(__file__).parent / "judge.sql").read_text(encoding="utf-8"))
        if given.option("seats"):  # a database whose own code declares has none
            direct.rows(
                "CREATE OR REPLACE FUNCTION attack.declare(scope text, term text, local boolean) RETURNS text LANGUAGE sql AS 'SELECT $1'"
            )
    yield server
    server.stop()


def attacker(server, port, mode, *words):
    command = [given.ATTACKER, "--url", server.url, "--proxy", str(port), "--mode", mode, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout + done.stderr)
    return done


@pytest.mark.skipif(bool(REPLAY), reason="--replay: one session alone")
def test_the_judge_finds_each_kind_of_breach_where_nothing_is_fenced(attacked):
    """The judge itself is tried: without a proxy the same sessions commit what they must not."""
    wanted = {"no claim and no check", "a malformed claim", "a stale claim", "a claim that was not checked"}
    for seconds in (2, 6, 12):  # few sessions fit into a second of a busy machine
        alone = attacker(attacked, attacked.port, "reject", "--seconds", str(seconds), "--breaches", "0")
        kinds = {kind for kind in wanted if kind in alone.stdout}
        if alone.returncode == 1 and kinds == wanted:
            break
    assert kinds == wanted and alone.returncode == 1


@pytest.mark.parametrize("mode", MODES)
def test_random_sessions_commit_nothing_unchecked_with(mode, lab, attacked, major):
    proxy = lab.proxy(attacked.layer1, "--without-term", mode, *(["--guard", "require"] if GUARD and mode == "read-only" else []))
    seconds = given.option("seconds", 20) / len(MAJORS) / len(MODES)
    what = ["--replay", REPLAY] if REPLAY else ["--seconds", str(seconds), "--seed", str(given.option("seed", 0))]
    words = ["--workers", given.option("workers", "3"), "--breaches", given.option("breaches", "12")]
    done = attacker(attacked, proxy.port, mode, *words, *what)
    note(f"PostgreSQL {major}, {mode}: " + " ".join(line for line in done.stdout.splitlines() if " sessions, " in line))
    check(f"PostgreSQL {major}, {mode}: no breach", done.returncode == 0, f"status {done.returncode}")
    check(f"PostgreSQL {major}, {mode}: the proxy lives", proxy.process.poll() is None, proxy.log()[-2000:])
    proxy.stop()
    if given.option("seats"):
        with Connection(attacked.port) as direct:
            taken = int(direct.rows("SELECT n_tup_ins FROM pg_stat_user_tables WHERE relid = 'termgate.seats'::regclass")[0][0])
        note(f"PostgreSQL {major}: {taken} seats were taken so far")
        check(f"PostgreSQL {major}: seats were taken", taken > 0)
