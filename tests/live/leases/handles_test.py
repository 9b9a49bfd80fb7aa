#!/usr/bin/env python3
"""A handle on a lease behaves alike in every language of clients/. The scenarios are in
handles/scenarios.py, the programs that play them beside them.

  pytest tests/live/leases/handles_test.py --long                PostgreSQL and SQLite, every language that this machine has
  pytest tests/live/leases/handles_test.py -k python-postgresql  one of them
  pytest tests/live/leases/handles_test.py -k planted --long     a mistake that is planted in each client is found

All languages are played at once, in one fixture; the tests read what came of it. A language whose tools are missing is skipped by name.
"""
import concurrent.futures
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import given
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "handles"))
from lab import DATABASES, LANGUAGES  # noqa: E402
from plants import FOUND_BY, PLANTS  # noqa: E402
from scenarios import SCENARIOS, Game  # noqa: E402

AT_ONCE = {"postgresql": 16, "sqlite": 8}  # scenarios of one language: most of them wait
CASES = [
    (language, database, name)
    for language, kind in LANGUAGES.items()
    for database in kind.databases
    for name, function in SCENARIOS.items()
    if database in function.databases and name not in kind.left_out
]


@pytest.fixture(scope="module")
def databases():
    with tempfile.TemporaryDirectory(prefix="termgate-handles.", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        made = {name: kind(folder) for name, kind in DATABASES.items()}
        yield folder, made
        for one in made.values():
            one.close()


def play(language, database, names):
    """What came of each scenario: None, or the error."""
    player = language.start(database)
    outcomes, players, lock = {}, [player], threading.Lock()

    begun = time.monotonic()

    def one(name, again=""):
        started = time.monotonic()
        game = Game(language, database, player, name + again)
        try:
            SCENARIOS[name](game)
            outcomes[name] = None
        except Exception:
            # Real time: a machine that starves a correct program for seconds makes it fail too. A mistake fails twice.
            outcomes[name] = traceback.format_exc()
            if not again:
                one(name, " again")
        for relay in game.relays:
            relay.thaw()
        if given.option("show"):
            print(f"{started - begun:5.1f} {time.monotonic() - started:5.1f} {language.name} {name}{again}", flush=True)
        with lock:
            players.extend(game.players[1:])

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE[database.name]) as pool:
        list(pool.map(one, names))
    for each in players:
        each.kill()
    return outcomes


@pytest.fixture(scope="module")
def outcomes(request, databases):
    folder, made = databases
    wanted = {}
    for item in request.session.items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")
        if case and not LANGUAGES[case[0]].missing():
            wanted.setdefault(case[:2], []).append(case[2])
    building = {}
    with concurrent.futures.ThreadPoolExecutor(len(wanted) + len(LANGUAGES)) as pool:
        for language, _ in wanted:
            if language not in building:
                building[language] = pool.submit(LANGUAGES[language], f"{folder}/{language}")
        built = {language: future.result() for language, future in building.items()}
        playing = {place: pool.submit(play, built[place[0]], made[place[1]], names) for place, names in wanted.items()}
        return {(*place, name): error for place, future in playing.items() for name, error in future.result().items()}


# Leases of some hundred milliseconds in five languages: a machine that is busy with other tests cannot play them.
@pytest.mark.skipif(not given.LONG, reason="with --long")
@pytest.mark.parametrize("case", CASES, ids=["-".join(case) for case in CASES])
def test_a_handle(case, outcomes):
    missing = LANGUAGES[case[0]].missing()
    if missing:
        pytest.skip(f"{case[0]} needs {', '.join(missing)}")
    if outcomes[case]:
        pytest.fail(outcomes[case], pytrace=False)


@pytest.mark.parametrize("language", PLANTS)
@pytest.mark.skipif(not given.LONG, reason="with --long")
def test_a_planted_mistake_is_found(language, databases):
    if LANGUAGES[language].missing():
        pytest.skip(f"{language} needs {', '.join(LANGUAGES[language].missing())}")
    planted = LANGUAGES[language](f"{databases[0]}/{language}-planted", PLANTS[language])
    outcome = play(planted, databases[1]["postgresql"], [FOUND_BY])[FOUND_BY]
    assert outcome and "AssertionError" in outcome, f"{FOUND_BY} did not find it"


def test_the_statements_are_those_of_sql():
    done = subprocess.run([sys.executable, given.ROOT / "tools" / "client_statements.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
