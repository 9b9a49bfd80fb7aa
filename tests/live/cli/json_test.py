#!/usr/bin/env python3
"""Every command that takes --json prints JSON with it: on an empty database and on a filled one, and for its errors.

  pytest tests/live/cli/json_test.py

The commands are those of `termgate --help --json`: one that is not in the table below fails the test.
"""
import json
import subprocess

import pytest

from both_databases import command
from given import TERMGATE


# Arguments; "lines": one document a line. None: why it is not called here.
HELD = ["--scope", "led", "--owner", "a", "--term", "1"]
COMMANDS = {
    "doctor": [],
    "verify": [],
    "settings": [],
    "status": [],
    "explain": ["--scope", "led"],
    "fence list": [],
    "fence show": ["--scope", "led"],
    "fence raise-by": ["--scope", "led", "--mode", "seal"],
    "fence reset": ["--scope", "led", "--term", "1", "--reason", "test"],
    "fence declare-restored": ["--nothing-lost", "--reason", "test"],
    "seal": ["--scope", "sealed", "--term", "7"],
    "lease list": [],
    "lease show": ["--scope", "led"],
    "lease renew": [*HELD, "--ttl", "1h"],
    "lease acquire": ["--scope", "led", "--owner", "b", "--ttl", "1h"],
    "lease release": [*HELD],
    "lease hand-over": ["--scope", "led", "--no-wait"],
    "lease watch": None,  # ends with its reader; live_cli
    "lease force-release": ["--scope", "led", "--reason", "test"],
    "job list": [],
    "job show": ["--run", "RUN"],
    "job request": ["--scope", "led", "--job", "asked"],
    "job start": ["--job", "other", *HELD],
    "job beat": ["--run", "RUN"],
    "job cancel": ["--run", "RUN", "--reason", "test"],
    "job finish": ["--run", "RUN", "--status", "failed"],
    "stream list": [],
    "stream move": ["--stream", "events", "--scope", "sealed", "--reason", "test"],
    "read": ["--stream", "events", "lines"],
    "append": ["--stream", "events", "--term", "1", "--payload", "x"],
    "outcome": ["--write-id", "11111111-2222-4333-8444-555555555555"],
    "exec": ["--scope", "plain", "--term", "1", "SELECT 1"],
    "prune": ["--stream", "events", "--before", "1"],
    "follow": ["--name", "projection", "--stream", "events", "--once", "lines"],
    "follower list": [],
    "follower remove": ["--name", "projection"],
    "protect": ["guarded", "--scope", "led"],
    "unprotect": ["guarded"],
    "adopt": ["guarded", "--scope-column", "scope", "--term-column", "term"],
    "unadopt": ["guarded"],
    "init": [],
    "uninstall": ["--yes"],
    "sql": None,  # a shell: .mode json
    "proxy": None,
    "admin": None,  # serves
    "run": None,  # what it prints is the command's; live_run has --dry-run --json
    "bench": None,  # live_bench, live_storm, live_drill
    "storm": None,
    "drill": None,
    "demo": None,  # a play for people
}


def described():
    return json.loads(subprocess.run([TERMGATE, "--help", "--json"], capture_output=True, text=True, check=True, timeout=60).stdout)


def play(url, run):
    for name, arguments in COMMANDS.items():
        if arguments is None:
            continue
        words = [run if word == "RUN" else word for word in arguments if word != "lines"]
        done = command(url, *name.split(), *words, "--json")
        where = f"{name}: status {done.returncode}, {done.stdout!r}, {done.stderr!r}"
        assert done.returncode in (0, 1, 3, 4, 5, 6, 7, 9), where
        if "lines" in arguments:
            documents = [json.loads(line) for line in done.stdout.splitlines()]
        else:
            documents = [json.loads(done.stdout)] if done.stdout or not done.stderr else []
            assert documents, f"{where}: nothing was printed"
        if name.endswith(" list"):
            assert isinstance(documents[0], list), where
        elif "lines" not in arguments:
            assert isinstance(documents[0], dict), where
        yield name, documents, done


def test_every_command_is_in_the_table():
    assert {one["name"] for one in described()["commands"]} == set(COMMANDS)


def test_on_an_empty_database(tmp_path):
    url = f"sqlite:{tmp_path}/empty.db"
    command(url, "init")
    subprocess.run(["sqlite3", f"{tmp_path}/empty.db", "CREATE TABLE guarded (scope TEXT NOT NULL, term INTEGER NOT NULL)"], check=True)
    lists = ["lease list", "job list", "stream list", "follower list", "fence list"]
    for name in lists:
        done = command(url, *name.split(), "--json")
        assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", ""), name
    assert [name for name, _, _ in play(url, "11111111-2222-4333-8444-555555555555")][-1] == "uninstall"


def test_on_a_filled_database(tmp_path):
    url = f"sqlite:{tmp_path}/filled.db"
    command(url, "init")
    subprocess.run(["sqlite3", f"{tmp_path}/filled.db", "CREATE TABLE guarded (scope TEXT NOT NULL, term INTEGER NOT NULL)"], check=True)
    for scope in ("led", "other", 'a "quoted"\nname'.replace("\n", " ")):
        assert command(url, "lease", "acquire", "--scope", scope, "--owner", "a", "--ttl", "1h").returncode == 0
    for payload in ("one", "two"):
        assert command(url, "append", "--stream", "events", "--scope", "led", "--term", "1", "--payload", payload).returncode == 0
    command(url, "follow", "--name", "projection", "--stream", "events", "--once")
    run = command(url, "job", "start", "--job", "export", *HELD).stdout.strip()
    answers = {name: (documents, done.returncode) for name, documents, done in play(url, run)}
    assert len(answers["lease list"][0][0]) == 3 and len(answers["fence list"][0][0]) >= 3
    assert len(answers["job list"][0][0]) == 1 and len(answers["stream list"][0][0]) == 1 and len(answers["follower list"][0][0]) == 1
    assert len(answers["read"][0]) >= 2
    for name in ("status", "doctor", "job show", "lease show", "seal", "settings"):
        assert answers[name][1] == 0, (name, answers[name])


@pytest.mark.parametrize("name", [name for name, arguments in COMMANDS.items() if arguments is not None])
def test_an_error_is_a_document(name, tmp_path):
    done = command(f"sqlite:{tmp_path}/no/such/folder/x.db", *name.split(), "--no-such-option", "--json")
    assert done.returncode == 2 and json.loads(done.stdout)["error"]["exit"] == 2, done.stdout
