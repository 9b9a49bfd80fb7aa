#!/usr/bin/env python3
# Long: a case for each naive boundary.
"""[F1] [F2] [F3] [F4] [F5] `termgate storm`: ours holds in it, and each naive boundary is found broken by it.

  pytest tests/live/storm/storm_test.py [--long] [-k naive]

Starts a PostgreSQL 15 of its own. A storm counts only if it was one: there must have been takeovers and refusals.
TERMGATE_TEST_LONG: all naive boundaries, mistakes planted in layer 1, and a server that is killed and started again
in the middle. Through proxies: each new fault and each way to declare must have been seen. Clocks are stepped by
Debian's libfaketime; where it is missing, or the command was built with a sanitizer, what hangs on it is left out.
"""
import concurrent.futures
import contextlib
import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from both_databases import BothDatabases, sh
from checks import captured, eventually
from given import LONG, PG_SERVER, TERMGATE
from storms import environment, kept, scratch, started, storm

SECONDS = "10"
HOLDS = ("hold-append", "hold-raise", "hold-truncate", "hold-lock", "hold-serializable")

# Mistakes in layer 1, as SQL, and how the storm goes that must find each.
CROWD = ["--writers", "8", "--faults", "stop,freeze"]  # many at the fence while a raise waits there
MISTAKES = {
    # A check that takes no lock.
    "unlocked": ("CREATE OR REPLACE FUNCTION termgate._try_share(p_scope text) RETURNS boolean LANGUAGE sql AS 'SELECT true'", CROWD),
    # A check that reads what its transaction's snapshot shows.
    "snapshot": ("DO $x$ BEGIN EXECUTE replace(pg_get_functiondef('termgate._share_row'::regproc), ' FOR SHARE', ''); END $x$", CROWD),
    # A check that is believed after a ROLLBACK TO has undone it: a trigger remembers it by a lock of the session, which stays.
    "believed": (
        """
        ALTER FUNCTION termgate._guard(oid, text, text, pg_snapshot) RENAME TO _guard_right;
        CREATE FUNCTION termgate._guard(p_table oid, p_scope text, p_mode text, p_snapshot pg_snapshot) RETURNS void LANGUAGE plpgsql
          SECURITY DEFINER AS $$
        DECLARE v_transaction int := mod(pg_current_xact_id()::text::bigint, 2000000000);
        BEGIN
          IF EXISTS (SELECT 1 FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory' AND l.classid = 4711 AND l.objid
            = v_transaction) THEN RETURN; END IF;
          PERFORM termgate._guard_right(p_table, p_scope, p_mode, p_snapshot);
          PERFORM pg_advisory_unlock(4711, l.objid::int) FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory' AND
            l.classid = 4711;
          PERFORM pg_advisory_lock(4711, v_transaction);
        END $$""",
        [],
    ),
    # A lease that issues a term and leaves the fence to the first write.
    "late": (
        """
        ALTER FUNCTION termgate._set_fence(text, bigint, text, text, jsonb, bigint) RENAME TO _set_fence_right;
        CREATE FUNCTION termgate._set_fence(p_scope text, p_term bigint, p_action text, p_actor text, p_detail jsonb,
          p_generation bigint DEFAULT NULL) RETURNS timestamptz
        LANGUAGE plpgsql SECURITY DEFINER AS $$
        BEGIN
          IF p_action = 'acquire' THEN RETURN clock_timestamp(); END IF;
          RETURN termgate._set_fence_right(p_scope, p_term, p_action, p_actor, p_detail, p_generation);
        END $$""",
        [],
    ),
    # A raise that goes on after its grace without the lock of who stands in its way.
    "blind": (
        """
        ALTER FUNCTION termgate._take(bigint, text, bigint, timestamptz, timestamptz) RENAME TO _take_right;
        CREATE FUNCTION termgate._take(p_key bigint, p_scope text, p_term bigint, p_grace_until timestamptz, p_until timestamptz)
          RETURNS integer[]
        LANGUAGE plpgsql SECURITY DEFINER AS $$
        BEGIN
          IF p_key IS NULL THEN
            RETURN termgate._take_right(p_key, p_scope, p_term, p_grace_until, p_until);
          END IF;
          WHILE NOT pg_try_advisory_xact_lock(p_key) AND clock_timestamp() < p_grace_until LOOP PERFORM pg_sleep(0.01); END LOOP;
          RETURN '{}';
        END $$""",
        CROWD,
    ),
    # An acquisition that reads the adopted tables, which others may have locked.
    "early": (
        """
        ALTER FUNCTION termgate._shown(text) RENAME TO _shown_right;
        CREATE FUNCTION termgate._shown(p_scope text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
        DECLARE t regclass;
        BEGIN
          FOR t IN SELECT a.table_oid FROM termgate.adopted a JOIN pg_class c ON c.oid = a.table_oid LOOP
            EXECUTE format('SELECT count(*) FROM %s', t);
          END LOOP;
          RETURN termgate._shown_right(p_scope);
        END $$""",
        ["--faults", "hold-truncate,hold-lock"],
    ),
    # A raise that ends nobody.
    "patient": (
        (
            "CREATE OR REPLACE FUNCTION termgate._evict(p_key bigint, p_scope text, p_pid integer, p_who text) RETURNS boolean"
            " LANGUAGE sql AS 'SELECT NULL::boolean'"
        ),
        ["--faults", ",".join(HOLDS)],
    ),
    # An acquisition that ends whoever has locked an adopted table, of whatever scope.
    "ruthless": (
        """
        ALTER FUNCTION termgate._evidence(text) RENAME TO _evidence_right;
        CREATE FUNCTION termgate._evidence(p_scope text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
        BEGIN
          PERFORM pg_terminate_backend(l.pid) FROM pg_locks l JOIN termgate.adopted a ON a.table_oid = l.relation WHERE l.mode =
            'AccessExclusiveLock' AND l.granted AND l.pid <> pg_backend_pid();
          RETURN termgate._evidence_right(p_scope);
        END $$""",
        ["--faults", "hold-lock"],
    ),
    # A write id that is not looked up.
    "forgetful": (
        (
            "DO $$ BEGIN EXECUTE replace(replace(pg_get_functiondef('termgate.claim_write'::regproc), "
            "'fresh := NOT c.done', 'fresh := true'), 'fresh := FOUND', 'fresh := true'); END $$"
        ),
        [],
    ),
}


def rows(url, statement):
    """The first column."""
    if url.startswith("sqlite:"):
        with contextlib.closing(sqlite3.connect(url[7:], timeout=10)) as file:
            return [str(row[0]) for row in file.execute(statement)]
    return sh("psql", "-qXAt", url, "-c", statement).split()


def tables_of(url, seed=""):
    sqlite, postgres = "sqlite_master WHERE type = 'table'", "(SELECT relname AS name, relkind FROM pg_class) c WHERE relkind = 'r'"
    catalog = sqlite if url.startswith("sqlite:") else postgres
    return [table for table in rows(url, f"SELECT name FROM {catalog} AND name LIKE 'storm%'") if f"storm_{seed}" in table]


def rows_of(url):
    """The rows of the largest table of a storm that is under way."""
    return max((int(rows(url, f"SELECT count(*) FROM {name}")[0]) for name in tables_of(url)), default=0)


def under_way(url, count=200, before=0):
    """Waits until a storm has written so many rows, above those that were there before it."""
    if not eventually(lambda: rows_of(url) >= before + count, 60, 0.1):
        raise AssertionError(f"the storm does not get under way: {rows_of(url)} rows")


# Storms of half a minute.
long = pytest.mark.skipif(not LONG, reason="./test --long")


class Storm(BothDatabases):
    termgate, pg_server, folder, name = TERMGATE, PG_SERVER, scratch.name, "storm"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tried = storm(cls.sqlite, "--faults", "clock", "--seconds", "1")
        cls.no_clock = (
            tried.stderr.strip()
            if tried.returncode == 2 and ("libfaketime was not found" in tried.stderr or "a sanitizer" in tried.stderr)
            else None
        )
        assert cls.no_clock or tried.returncode == 0, tried.stdout + tried.stderr

    def own_server(self, name, *settings, start=(PG_SERVER,)):
        """(its folder, its URL); layer 1 installed."""
        server = f"{scratch.name}/{name}"
        url = sh(*start, "start", "15", server, *settings)
        self.addCleanup(sh, PG_SERVER, "stop", server, "immediate")
        sh(TERMGATE, "init", "--db", url)
        return server, url

    def own_database(self, name):
        sh("psql", "-qX", self.postgres, "-c", f"CREATE DATABASE {name}")
        url = re.sub("/postgres$", f"/{name}", self.postgres)
        sh(TERMGATE, "init", "--db", url)
        return url

    def needs_clock(self):
        if self.no_clock:
            pytest.skip(self.no_clock)

    def kept_and_seen(self, url, *words, faults=("stop", "kill")):
        # A storm proves something only where stopped leaders did try and were refused. In a few seconds that may not
        # happen, so there is another storm, of another seed, until all of it has been seen; each must keep the guarantees.
        seen, wanted = Counter(), ("takeovers", "refused_stale", "refused_after_stop", "writes_committed", "looks", *faults)
        for _ in range(6):
            document = kept(storm(url, "--json", *words))
            assert tables_of(url, document["seed"]) == []
            seen.update({what: document.get(what, 0) for what in wanted} | {fault: document["faults"].get(fault, 0) for fault in faults})
            if all(seen[what] for what in wanted):
                return document
        pytest.fail(f"not all of it was seen in six storms: {seen}")

    def test_ours_on_sqlite(self):
        self.kept_and_seen(self.sqlite, "--seconds", SECONDS, faults={"stop", "kill"} | self.clock())

    def clock(self):
        return set() if self.no_clock else {"clock"}

    def test_ours_on_postgresql(self):
        document = self.kept_and_seen(self.postgres, "--seconds", SECONDS, faults={"stop", "kill", "delay"} | self.clock())
        # All faults together, for in ten seconds one of them may have had no turn.
        together = sum(document["faults"].get(name, 0) for name in ("cut", "freeze", "prepare", "lose", "half-open", "force", "prune"))
        assert together > 5, document
        assert rows(self.postgres, f"SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'storm-{document['seed']}%'") == []

    def test_ours_through_proxies(self):
        # The proxies' check is the only one. Every fault that is about them, every way to declare, refusals and
        # takeovers must have been seen.
        wanted = {"proxy-kill", "proxy-stop", "cut-front", "cut-back", "lose", "delay", "half-open", "stop", "kill"} | self.clock()
        wanted |= {"takeovers", "refused_stale", "unanswered"} | {f"{way} c" for way in ("options", "name", "set", "local", "comment")}
        seen = Counter()
        for run in range(6):
            folder = Path(scratch.name) / f"proxies{run}"
            folder.mkdir()
            document = kept(storm(self.postgres, "--proxies", "2", "--seconds", SECONDS, "--json", "--keep", TMPDIR=str(folder)))
            assert (document["proxies"], document["enforce"]) == (2, "on")
            seen.update({name: document[name] for name in ("takeovers", "refused_stale", "unanswered")} | document["faults"])
            for path in folder.glob("*/leader*.log"):
                ways = {}
                for words in map(str.split, path.read_text().splitlines()):
                    if words[0] == "B" and words[3] == "w":
                        ways[words[1]] = words[6].rpartition("-")[2]
                    elif words[0] == "E" and words[1] in ways:
                        seen[f"{ways[words[1]]} {words[3]}"] += 1
            assert list(folder.glob("*/*.backend")) == []  # a password may be in it
            if all(seen[what] for what in wanted):
                return
        pytest.fail(f"not all of it was seen in six storms: {[what for what in wanted if not seen[what]]} {seen}")

    def test_delayed_and_half_open_connections(self):
        # Little else, so that there is much of it. Pieces must really have been held back, and what was sent on one
        # connection have overtaken another's. Where a few seconds show too little there are more of them, and each must
        # keep the guarantees.
        wanted = {"delay": 3, "half-open": 1, "pieces_delayed": 100, "pieces_overtaken": 20, "takeovers": 1}
        for words in ([], ["--proxies", "2"]) if LONG else ([],):
            seen = Counter()
            for _ in range(7):
                seconds = "12" if LONG else "6"
                document = kept(storm(self.postgres, "--faults", "delay,half-open,kill", "--seconds", seconds, "--json", *words))
                assert document["pieces_overtaken"] <= document["pieces_delayed"]
                seen.update({what: document["faults"].get(what, 0) + document.get(what, 0) for what in wanted})
                if all(seen[what] >= least for what, least in wanted.items()):
                    break
            else:
                pytest.fail(f"not all of it was seen in seven storms: {words} {seen}")

    def test_frozen_holders_hold_up_no_takeover(self):
        # Nothing else, so that there is much of it in a few seconds. A hold is counted only where its takeover came
        # through, and one that was late is a breach.
        url = self.own_database("held")
        sh(TERMGATE, "settings", "--db", url, "check_wait_ms=2000")
        seen = Counter()
        for _ in range(8):
            words = "--ttl 200ms --scopes 4 --leaders 2 --writers 1 --json --seconds".split()
            document = kept(storm(url, "--faults", ",".join(HOLDS), *words, "12" if LONG else "3"))
            assert rows(url, "SELECT count(*) FROM termgate.adopted") == ["0"]
            seen.update({"evictions": document["evictions"]} | document["faults"])
            if seen["evictions"] and sum(seen[what] > 0 for what in HOLDS) >= (5 if LONG else 1):
                return
        pytest.fail(f"not all of it was seen: {seen}")

    def test_ctrl_c_ends_in_order(self):
        # With proxies, pieces are held back for up to 8 s and swallowed for up to 64: nobody waits for that. A machine
        # with much else to do has its time.
        delayed = ["--ttl", "8s", "--proxies", "2", "--faults", "delay,half-open"]
        for url, count, words in ((self.sqlite, 200, []), (self.postgres, 50, delayed)):
            before = rows_of(url)
            process = started(url, "--seconds", "180", "--json", *words)
            under_way(url, count, before)
            process.send_signal(signal.SIGINT)
            begun = time.monotonic()
            out, error = process.communicate(timeout=150)
            assert time.monotonic() - begun < 45, words
            assert (process.returncode, json.loads(out)["verdict"], json.loads(out)["unjudged"]) == (0, "kept", []), out + error

    def test_stepped_clocks(self):
        self.needs_clock()
        self.there_before = {path.name for path in Path("/dev/shm").glob("*faketime_*")}
        direct, proxied = ["--faults", "clock,kill"], ["--faults", "clock,kill,proxy-kill", "--proxies", "2"]
        both = (direct, proxied) if LONG else (direct,)
        runs = [(self.sqlite, direct), *((self.postgres, words) for words in both)]
        storms = lambda url, words: storm(url, "--seconds", "12" if LONG else "6", "--json", *words)
        # Both databases at once.
        with concurrent.futures.ThreadPoolExecutor(1 if LONG else 2) as pool:
            done_storms = [pool.submit(storms, *run) for run in runs]
        for (url, words), done in zip(runs, done_storms):
            with self.subTest(url.split(":")[0], words=words):
                document = kept(done.result())
                assert document["faults"].get("clock", 0) >= 3, document
                assert document["takeovers"] > 0
        assert self.left_in_shared_memory() == []

    def left_in_shared_memory(self):
        # The library's own traces of processes that are gone. Other programs may use it too, but not the storm's PIDs:
        # only what has come since this test began counts.
        return sorted(
            path.name
            for path in Path("/dev/shm").glob("*faketime_*")
            if path.name not in self.there_before and not Path("/proc/" + path.name.rpartition("_")[2]).exists()
        )

    @long
    def test_the_clients_clock_is_found_broken_by_steps_alone(self):
        # Without a step a client's own clock may be a moment late, for it is asked before the work and not after it. A
        # write that began more than a TTL after another leader's acquisition is the
        # step's doing: a lease that was renewed before it is over by then, on any clock that is right.
        self.needs_clock()
        urls = (self.sqlite, self.postgres)
        for url in urls:
            for run in range(6):
                folder = Path(scratch.name) / f"client-clock-{url.split(':')[0]}{run}"
                folder.mkdir()
                done = storm(
                    url,
                    *"--naive client-clock --faults clock --ttl 200ms --seconds 7 --judge-every 7s --json --keep".split(),
                    TMPDIR=str(folder),
                )
                document = json.loads(done.stdout)
                assert (done.returncode, document["verdict"], list(document["faults"])) == (1, "broken", ["clock"]), (
                    done.stdout + done.stderr
                )
                if self.latest_stale_write(folder) > 0.3:
                    break
            else:
                pytest.fail("in none of six storms did a clock that was set back let a stale leader write")

    def latest_stale_write(self, folder):
        # Seconds after another leader's acquisition of a higher term at which the latest committed write of a lower one
        # began, by the leaders' logs.
        acquired, writes, latest = [], [], 0
        for path in folder.glob("*/leader*.log"):
            begun = {}
            for words in map(str.split, path.read_text().splitlines()):
                if words[0] == "B":
                    begun[words[1]] = words
                elif words[3] != "c":
                    continue
                elif (first := begun[words[1]])[3] == "a":
                    acquired.append((first[4], int(words[4]), int(words[2]), path.name))
                elif first[3] == "w":
                    writes.append((first[4], int(first[5]), int(first[2]), path.name))
        for scope, term, at, name in writes:
            latest = max(
                [latest] + [at - raised for there, higher, raised, other in acquired if there == scope and higher > term and other != name]
            )
        return latest / 1e9

    @long
    def test_a_server_whose_clock_is_stepped(self):
        self.needs_clock()
        clock = Path(scratch.name) / "server.clock"
        clock.write_text("+0\n")
        clock.chmod(0o644)
        # For one thread: PostgreSQL looks at the clock in its handlers of signals, where the other library's lock may be held.
        library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
        settings = {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": clock,
            "FAKETIME_NO_CACHE": 1,
            "FAKETIME_DONT_FAKE_MONOTONIC": 1,
            "NO_FAKE_STAT": 1,
        }
        preload = "PG_SERVER_ENV=" + " ".join(f"{name}={value}" for name, value in settings.items())
        _, url = self.own_server("clock", "fsync=off", start=("env", preload, PG_SERVER))
        for words in ([], ["--proxies", "2"]):
            self.kept_and_seen(url, "--server-clock", str(clock), "--seconds", "12", *words, faults=("stop", "kill", "server-clock"))
            assert clock.read_text() == "+0\n"  # set right at the end
        done = storm(self.postgres, "--server-clock", str(clock), "--seconds", "4", "--faults", "none", "--json")
        document = json.loads(done.stdout)
        assert (done.returncode, document["verdict"]) == (1, "not judged"), done.stdout + done.stderr
        assert re.search(
            r"^--server-clock: the server's clock does not follow the file, which contained [+-]\d+ s$", document["unjudged"][0]
        )
        assert clock.read_text() == "+0\n"

    def test_clocks_that_cannot_be_stepped(self):
        self.needs_clock()
        for words, said in [
            (["--libfaketime", "/nowhere/libfaketimeMT.so.1"], "No such file"),
            (["--libfaketime", "/nowhere/libfaketimeMT.so.1", "--faults", "clock"], "No such file"),
            (["--libfaketime", __file__, "--faults", "clock"], "does not move a process's wall clock"),
            (["--libfaketime", "/two words.so", "--faults", "clock"], "cannot be preloaded"),
            (["--libfaketime", "/nowhere", "--faults", "stop"], "which is not among these"),
            (["--server-clock", "/nowhere"], "an SQLite file has no server"),
        ]:
            done = storm(self.sqlite, *words, "--seed", "4244")
            assert (done.returncode, said in done.stderr) == (2, True), (words, done.stdout, done.stderr)
        assert tables_of(self.sqlite, 4244) == []
        for words, said in [
            (["--server-clock", "/nowhere"], "no such file"),
            (["--server-clock", __file__, "--naive", "max-term"], "not with --naive"),
        ]:
            done = storm(self.postgres, *words)
            assert (done.returncode, said in done.stderr) == (2, True), (words, done.stdout, done.stderr)

    def test_without_the_library_its_fault_is_left_out(self):
        # Hidden by an empty folder in its place, in a mount namespace of its own.
        self.needs_clock()
        folder = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")).parent
        hidden = ["unshare", "--mount", "sh", "-c", f"mount -t tmpfs none '{folder}' && exec \"$@\"", "sh"]
        if subprocess.run([*hidden, "true"], capture_output=True).returncode != 0:
            pytest.skip("no mount namespace is to be had here")

        def run(*words):
            return captured([*hidden, TERMGATE, "storm", *words], env=dict(environment, TERMGATE_DB=self.sqlite), timeout=60)

        done = run("--seconds", "2", "--json")
        assert (done.returncode, "clock" in json.loads(done.stdout)["faults"]) == (0, False), done.stdout + done.stderr
        done = run("--faults", "clock")
        assert (done.returncode, "--faults clock: libfaketime was not found" in done.stderr) == (2, True), done.stdout + done.stderr

    def test_proxies_that_only_observe_are_found_broken(self):
        document = self.broken(self.postgres, "--proxies", "2", "--enforce", "observe")
        assert document["enforce"] == "observe" and document["breaches"][0]["guarantee"] in ("F1", "F2"), document
        assert len(document["breaches"][0]["history"].splitlines()) < 12  # the shortest, not the whole
        assert tables_of(self.postgres, document["seed"]) == []

    def test_a_proxy_that_does_not_come_up(self):
        done = storm(self.postgres + "?requirepeer=nobody", "--proxies", "2", "--seed", "4242")
        assert done.returncode == 1, done.stdout + done.stderr
        assert "proxy 1 did not start: " in done.stderr
        assert "requirepeer=nobody would hold for the proxy's own connection" in done.stderr
        assert tables_of(self.postgres, 4242) == []
        deep = Path(scratch.name) / ("d" * 100)
        deep.mkdir()
        done = storm(self.postgres, "--proxies", "1", "--seed", "4243", TMPDIR=str(deep))
        assert (done.returncode, "shorter TMPDIR" in done.stderr) == (2, True), done.stderr
        assert tables_of(self.postgres, 4243) == []

    def broken(self, url, *words):
        done = storm(url, *words, "--seconds", "60", "--json")
        document = json.loads(done.stdout)
        assert (done.returncode, document["verdict"]) == (1, "broken"), f"{words} on {url}: {done.stdout}{done.stderr}"
        assert document["seconds"] < 75
        assert document["breaches"][0]["guarantee"] in ("F1", "F2", "F3")
        assert re.search(r"acquires term \d+: acknowledged", document["breaches"][0]["history"])
        assert f"--seed {document['seed']}" in document["again"] and " ".join(words) in document["again"]
        return document

    def test_naive_boundaries_are_found_broken(self):
        if LONG:
            names = [one["name"] for one in json.loads(sh(TERMGATE, "storm", "--naive", "list", "--json"))]
            assert len(names) == 7
            pairs = [(self.postgres, name) for name in names] + [
                (self.sqlite, name) for name in names if name not in ("where-exists", "one-statement")
            ]
        else:
            pairs = [(self.postgres, "max-term"), (self.sqlite, "two-connections"), (self.postgres, "lock-only")]
        with concurrent.futures.ThreadPoolExecutor(2 if LONG else 3) as pool:
            for done in [pool.submit(self.broken, url, "--naive", name) for url, name in pairs]:
                done.result()

    def test_a_breach_is_told_for_people(self):
        done = storm(self.sqlite, "--naive", "deleted-row", "--seconds", "60", "--seed", "7", "--keep")
        assert done.returncode == 1, done.stdout + done.stderr
        assert "A GUARANTEE IS BROKEN." in done.stdout
        assert re.search(r"F[123] [a-z ]+, scope \"storm-7_", done.stdout)
        assert re.search(r"Again, by the same schedule: termgate storm --seed 7 .*--naive deleted-row --db …", done.stdout)
        kept = re.search(r"Kept: tables (\S+), (\S+), (\S+); logs (\S+)", done.stdout)
        assert kept, done.stdout
        assert {kept[1], kept[2], kept[3]} <= set(tables_of(self.sqlite))
        assert "B 1 " in (Path(kept[4]) / "leader1.1.log").read_text()
        sh("rm", "-rf", kept[4])

    @long
    def test_mistakes_planted_in_layer_1_are_found(self):
        for name, (mistake, words) in MISTAKES.items():
            with self.subTest(name):
                url = self.own_database(f"mistake_{name}")
                sh("psql", "-qX", "-v", "ON_ERROR_STOP=1", url, "-c", mistake)
                done = storm(url, "--seconds", "60", "--judge-every", "5s", "--json", *words)
                assert (done.returncode, json.loads(done.stdout)["verdict"]) == (1, "broken"), done.stdout
                print(f"\n  {name}: after {json.loads(done.stdout)['seconds']:.0f} s ", file=sys.stderr)

    def test_wrong_usage(self):
        for words, said in [
            (["--naive", "hope"], "unknown naive boundary \"hope\""),
            (["--naive", "one-statement"], "makes it right"),
            (["--faults", "stop,earthquake"], "unknown fault \"earthquake\""),
            (["--faults", "prepare"], "not on SQLite"),
            (["--faults", "delay"], "not on SQLite"),
            (["--faults", ""], "unknown fault \"\""),
            (["--leaders", "1"], "a whole number from 2 to 64"),
            (["--pace", "fast"], "must be usual or full"),
            (["--ttl", "10ms"], "from 100ms to 60s"),
            (["--proxies", "2"], "with postgresql://"),
            (["--enforce", "observe"], "about the proxies of --proxies"),
            (["--server-restart", "true"], "an SQLite file has no server"),
            (["--faults", "proxy-kill"], "not without --proxies"),
        ]:
            done = storm(self.sqlite, *words)
            assert done.returncode == 2, (words, done.stdout, done.stderr)
            assert said in done.stderr
        assert storm("sqlite::memory:").returncode == 2
        done = storm("postgresql://postgres@127.0.0.1/x", "--naive", "max-term", "--faults", "cut")
        assert (done.returncode, "not with --naive" in done.stderr) == (2, True), done.stderr
        for words, said in [
            (["--proxies", "0"], "a whole number from 1 to 8"),
            (["--proxies", "2", "--naive", "max-term"], "not with --naive"),
            (["--server-restart", "true", "--naive", "max-term"], "not with --naive"),
            (["--server-restart", ""], "which command?"),
            (["--proxies", "2", "--enforce", "off"], "must be on or observe"),
            (["--proxies", "2", "--faults", "prune"], "not with --proxies"),
            (["--proxies", "2", "--faults", "hold-raise"], "not with --proxies"),
            (["--server-clock", __file__, "--faults", "hold-raise"], "not with --server-clock"),
        ]:
            done = storm(self.postgres, *words)
            assert (done.returncode, said in done.stderr) == (2, True), (words, done.stderr)
        done = storm(self.postgres, "--leaders", "60", "--scopes", "10")
        assert (done.returncode, "the server has room for" in done.stderr) == (2, True), done.stderr

    def test_databases_that_cannot_be_used(self):
        bare = f"sqlite:{scratch.name}/bare.db"
        sqlite3.connect(bare[7:]).execute("CREATE TABLE t (v)")
        done = storm(bare, "--seconds", "1")
        assert (done.returncode, "termgate init" in done.stderr) == (1, True), done.stderr
        assert tables_of(bare) == []
        done = storm("postgresql://somebody:secret-word@127.0.0.1:1/nowhere", "--seconds", "1")
        assert done.returncode == 1, done.stderr
        assert "secret-word" not in done.stderr + done.stdout

    def test_its_processes_do_not_outlive_it(self):
        for url, words, count in ((self.sqlite, [], 3), (self.postgres, ["--proxies", "2"], 5)):
            with self.subTest(url):
                self.killed(url, words, count, 0.5)
        for later in range(10):  # while the leaders' programs are still being loaded
            self.killed(self.sqlite, [], 1, later / 1000)

    def killed(self, url, words, count, later):
        process = started(url, "--seconds", "60", "--json", "--faults", "stop", *words)
        deadline, children = time.monotonic() + 20, []
        while len(children) < count and time.monotonic() < deadline:
            time.sleep(0.001)
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        time.sleep(later)
        assert len(children) >= count
        process.kill()
        try:
            process.communicate(timeout=60)  # a process that outlived it would hold its output
        except subprocess.TimeoutExpired:
            pytest.fail(f"after {words}: some of {children} are still there")

        def gone(child):
            return not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]

        assert eventually(lambda: all(gone(child) for child in children), 5, 0.05), children

    @long
    def test_a_server_that_dies_in_the_middle(self):
        server, url = self.own_server("dying", "fsync=off")
        process = started(url, "--seconds", "12")
        under_way(url, 10)
        sh(PG_SERVER, "stop", server, "immediate")
        out, error = process.communicate(timeout=60)
        assert process.returncode == 1, out + error
        assert "NOT JUDGED    the rows" in out
        assert "No breach was seen, and not all could be judged." in out
        assert "Could not be taken away" in out
        assert "All guarantees kept" not in out
        sh(PG_SERVER, "start", "15", server)
        process = started(url, "--seconds", "30", "--json")
        under_way(url, 100)
        sh(PG_SERVER, "stop", server, "immediate")
        sh(PG_SERVER, "start", "15", server)
        out, error = process.communicate(timeout=90)
        assert process.returncode == 0, out + error

    @long
    def test_a_server_that_is_killed_and_started_again(self):
        server, url = self.own_server("restarted")  # with fsync
        command = f"'{PG_SERVER}' kill '{server}' && '{PG_SERVER}' start 15 '{server}'"
        for words in ([], ["--proxies", "2"]):
            document = kept(storm(url, "--server-restart", command, "--seconds", "20", "--json", *words))
            assert document["faults"]["server-restart"] >= 1, document  # a slow disk needs long for each
            assert document["unanswered"] > 0
            assert document["takeovers"] > 0
            assert rows(url, "SELECT gid FROM pg_prepared_xacts") == []
        for wrong, said in [
            ("true", "the server was not started again by it"),
            ("echo no such server; exit 3", "it ended with status 3: no such server"),
        ]:
            done = storm(url, "--server-restart", wrong, "--seconds", "6", "--faults", "none", "--json")
            document = json.loads(done.stdout)
            assert (done.returncode, document["verdict"], document["unjudged"]) == (1, "not judged", ["--server-restart: " + said]), (
                done.stdout + done.stderr
            )
            assert "server-restart" not in document["faults"]

    @long
    def test_a_server_that_is_killed_behind_the_proxies(self):
        server, url = self.own_server("killed", "fsync=off")
        process = started(url, "--proxies", "2", "--seconds", "30", "--json")
        for count in (100, 300):
            under_way(url, count)
            sh(PG_SERVER, "kill", server)
            sh(PG_SERVER, "start", "15", server)
        out, error = process.communicate(timeout=90)
        assert (process.returncode, json.loads(out)["verdict"]) == (0, "kept"), out + error
