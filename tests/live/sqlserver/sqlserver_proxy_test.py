#!/usr/bin/env python3
"""[F1] [F2] [F4] [F7] `termgate proxy --backend sqlserver://…` in front of a real TDS server, which
TERMGATE_TEST_SQLSERVER names (else skipped).

  pytest tests/live/sqlserver/sqlserver_proxy_test.py [-k takeover] [--list]

The catalogue: ways to write, as texts in several channels and as tricks of the protocol. Each is tried by a session
without a term and by one with a stale term, and must write nothing; and through the same proxy that only observes it
must write, or it would prove nothing. Then what a rightful leader sees, and a takeover.
"""
import re
import time
import unittest
from pathlib import Path

import pytest

import given
from checks import eventually, note
from sqlserver_proxy import URL, Proxy, connect, drop_database, filled, make_database
from tds_attacks import CHANNELS, TEXTS, UNPROVEN_ON_BABELFISH
from tds_tricks import INSERT, TRICKS
from tds_proxy import scratch
from tdsraw import Closed, call, nvarchar, wide

if given.option("list"):
    for one in list(TEXTS) + list(TRICKS):
        note(one)
    pytest.skip("--list", allow_module_level=True)
if not URL.startswith("sqlserver://"):
    pytest.skip("TERMGATE_TEST_SQLSERVER names no server", allow_module_level=True)


def unproven(names):
    """These, but for those that Babelfish cannot prove."""
    return {name for name in names if name.rsplit(", as ", 1)[0] not in UNPROVEN_ON_BABELFISH}


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.eye = make_database()
        for text in (
            "CREATE TABLE dbo.victim (id int IDENTITY PRIMARY KEY, mark nvarchar(200))",
            "INSERT dbo.victim (mark) VALUES " + ", ".join(20 * ["(N'seed')"]),
            "CREATE TABLE dbo.front (mark nvarchar(200))",
            "CREATE TABLE dbo.spare (mark nvarchar(200))",
            "CREATE TABLE dbo.wide (a int)",
            "CREATE TYPE dbo.marks AS TABLE (mark nvarchar(200))",
            "CREATE TRIGGER dbo.front_fires ON dbo.front AFTER INSERT AS INSERT dbo.victim (mark) SELECT mark FROM inserted",
            "CREATE VIEW dbo.seen AS SELECT mark FROM dbo.front",
            "CREATE TRIGGER dbo.seen_fires ON dbo.seen INSTEAD OF INSERT AS INSERT dbo.victim (mark) SELECT mark FROM inserted",
            "CREATE PROCEDURE dbo.put @mark nvarchar(200) AS INSERT dbo.victim (mark) VALUES (@mark)",
            "CREATE PROCEDURE dbo.[sys.sp_server_info] @mark nvarchar(200) AS INSERT dbo.victim (mark) VALUES (@mark)",
            "CREATE PROCEDURE dbo.sp_server_info @mark nvarchar(200) AS INSERT dbo.victim (mark) VALUES (@mark)",
        ):
            answer = cls.eye.batch(text)
            if answer.errors:
                raise AssertionError(f"{text}: {answer.errors}")
        cls.eye.batch("EXEC termgate.seal @scope = N'attacked', @term = 10")
        cls.proxy = Proxy()

    @classmethod
    def tearDownClass(cls):
        cls.proxy.end()
        cls.eye.close()
        drop_database()

    def written(self, mark):
        for table in ("victim", "spare", "front"):
            answer = self.eye.batch(f"IF EXISTS (SELECT 1 FROM dbo.{table} WHERE mark = N'{mark}') THROW 50099, 'there', 1")
            if answer.number == 50099:
                return True
        return False

    def attacks(self):
        for channel, function in CHANNELS.items():
            for name, text in TEXTS.items():
                yield f"{name}, as {channel}", lambda client, mark, f=function, t=text: f(client, filled(t, mark))
        for name, function in TRICKS.items():
            yield name, function

    def play(self, port, application, prefix):
        """Which attacks have written, by name."""
        names, client, began = {}, None, time.monotonic()
        for number, (name, attack) in enumerate(self.attacks()):
            names[f"{prefix}{number}."] = name
            try:
                if client is None:
                    client = connect(port, application)
                attack(client, f"{prefix}{number}.")
                client.batch("IF @@TRANCOUNT > 0 ROLLBACK TRAN")
                if "term" in name or "declare" in name or "other kind" in name:
                    client.close()
                    client = None
            except Closed:
                client = None
        if client is not None:
            client.close()
        time.sleep(0.3)
        found = b"".join(
            self.eye.batch(f"SELECT mark FROM dbo.{table} WHERE mark LIKE N'{prefix}%'").payload for table in ("victim", "spare", "front")
        )
        for names_of in ("sys.objects", "sys.columns", "sys.schemas", "sys.types", "sys.indexes", "sys.database_principals"):
            found += self.eye.batch(f"SELECT CAST(name AS nvarchar(200)) FROM {names_of} WHERE name LIKE N'made{prefix}%'").payload
        harm = {name for mark, name in names.items() if wide(mark) in found}
        print(f"{application}: {len(names)} attacks in {time.monotonic() - began:.0f} s, {len(harm)} have written", flush=True)
        return harm

    def test_1_the_catalogue(self):
        names = [name for name, _ in self.attacks()]
        assert len(set(names)) >= 100
        assert len(set(names)) == len(names)
        watcher = Proxy("--enforce", "observe")
        does_harm = self.play(watcher.port, "plain", "o")
        assert watcher.end() == 0
        without = self.play(self.proxy.port, "plain", "p")
        stale = self.play(self.proxy.port, "termgate.scope=attacked;termgate.term=5;", "s")
        reader = Proxy("--without-term", "read-only")
        reads = self.play(reader.port, "plain", "r")
        client = connect(reader.port, "plain")
        assert client.batch("SELECT COUNT(*) FROM dbo.victim").errors == []
        assert client.rpc(call(10, nvarchar("", "SELECT mark FROM dbo.victim WHERE id = 1"))).errors == []
        assert client.batch(INSERT.replace("%M", "r")).number == 50002
        client.close()
        assert reader.end() == 0
        assert (without, stale, reads) == (set(), set(), set())
        assert unproven(set(names) - does_harm) == set()

    def test_2_a_leader_writes_as_directly(self):
        self.eye.batch("EXEC termgate.seal @scope = N'led', @term = 3")
        does = self.play(self.proxy.port, "termgate.scope=led;termgate.term=3;", "l")
        refused = {name for name, _ in self.attacks()} - does
        # What declares a stale term for itself is refused to a leader, too.
        assert unproven(name for name in refused if "stale term" not in name and "by hand" not in name) == set()

    def test_3_a_takeover(self):
        self.eye.batch("EXEC termgate.seal @scope = N'taken', @term = 1")
        leader = connect(self.proxy.port, "termgate.scope=taken;termgate.term=1;")
        assert leader.batch(INSERT.replace("%M", "t1")).errors == []
        # The gate of a session that is between two messages is given up: nobody is ended.
        time.sleep(0.5)
        began = time.monotonic()
        assert self.eye.batch("EXEC termgate.seal @scope = N'taken', @term = 2, @grace_ms = 5000").errors == []
        assert time.monotonic() - began < 4
        answer = leader.batch(INSERT.replace("%M", "t2"))
        assert answer.number == 50001
        assert not self.written("t2")
        # One that is in a transaction keeps it.
        leader = connect(self.proxy.port, "termgate.scope=taken;termgate.term=2;")
        leader.begin()
        assert leader.batch(INSERT.replace("%M", "t3")).errors == []
        time.sleep(0.5)
        answer = self.eye.batch(
            "BEGIN TRAN; DECLARE @f bigint; BEGIN TRY EXEC termgate.check_term @scope = N'taken', @term = 3, @fence = @f OUTPUT END TRY"
            " BEGIN CATCH IF @@TRANCOUNT > 0 ROLLBACK; THROW END CATCH"
        )
        assert answer.number == 50006
        # The raise gives up with the grace. On a machine that is busy it does so late, and the proxy has ended the leader for it.
        try:
            leader.commit()
            assert self.written("t3")
        except Closed:
            note("the leader was ended for a raise that gave up late")
            leader = connect(self.proxy.port, "termgate.scope=taken;termgate.term=2;")
        # A raise outside of one waits for it no longer than the grace, whether or not the server can tell who holds the gate.
        leader.begin()
        assert leader.batch(INSERT.replace("%M", "t3b")).errors == []
        time.sleep(0.5)
        began = time.monotonic()
        assert self.eye.batch("EXEC termgate.seal @scope = N'taken', @term = 4").errors == []
        took = time.monotonic() - began
        print(f"a takeover past a leader frozen in a transaction: {took * 1000:.0f} ms, with a grace of 1000 ms", flush=True)
        assert took < 3
        with pytest.raises(Closed):
            leader.batch("COMMIT TRAN")
            leader.batch("COMMIT TRAN")
        assert not self.written("t3b")
        # A proxy raises for its client where writers may.
        leader = connect(self.proxy.port, "termgate.scope=taken;termgate.term=7;")
        assert leader.batch(INSERT.replace("%M", "t4")).errors == []
        assert leader.batch("EXEC termgate.set_term N'taken', 6").errors == []
        assert leader.batch(INSERT.replace("%M", "t5")).number == 50001

    def test_3b_a_lease_for_a_program(self):
        """A program that knows nothing of terms, on two hosts: the proxy holds its lease."""
        rules = Path(scratch.name) / "leases.rules"
        rules.write_text(
            (
                "[rule waits]\napplication = waits\nlease = waits\nttl = 30 s\ntakeover = wait\n"
                "[rule newest]\napplication = newest\nlease = newest\nttl = 30 s\ntakeover = newest\n"
            ),
            encoding="utf-8",
        )
        proxy = Proxy("--rules", str(rules))
        write = lambda client, mark: client.batch(INSERT.replace("%M", mark))  # noqa: E731
        first = connect(proxy.port, "waits", source="127.0.0.1")
        # The lease is taken by the first statement, which does not wait for it.
        assert eventually(lambda: not write(first, "l1").errors, 20)
        second = connect(proxy.port, "waits", source="127.0.0.2")
        answer = write(second, "l2")
        assert answer.number == 50002
        assert "127.0.0.1" in answer.errors[0][1]
        again = connect(proxy.port, "waits", source="127.0.0.1")
        assert write(again, "l3").errors == []
        first.close()
        again.close()
        deadline = time.monotonic() + 20
        while write(second, "l4").errors and time.monotonic() < deadline:
            time.sleep(0.2)
        assert self.written("l4")
        assert not self.written("l2")
        # The newest host takes the lease of the one before, whose session holds the gate and is between two messages.
        first = connect(proxy.port, "newest", source="127.0.0.1")
        assert eventually(lambda: not write(first, "n1").errors, 20)
        began = time.monotonic()
        second = connect(proxy.port, "newest", source="127.0.0.2")
        assert eventually(lambda: not write(second, "n2").errors, 20)
        print(f"the newest host has taken the lease over and written after {(time.monotonic() - began) * 1000:.0f} ms", flush=True)
        try:
            assert write(first, "n3").number in (50001, 50002)
        except Closed:
            pass
        assert not self.written("n3")
        assert proxy.end() == 0

    def test_4_metrics_and_the_end(self):
        proxy = Proxy()
        client = connect(proxy.port, "termgate.scope=ended;termgate.term=1;")
        assert client.batch(INSERT.replace("%M", "e1")).errors == []
        assert connect(proxy.port).batch(INSERT.replace("%M", "e2")).number == 50002
        metrics = proxy.get("/metrics")[1]
        assert re.search(r"termgate_[a-z_]*refus[a-z_]*\{[^}]*TG002[^}]*\} [1-9]", metrics)
        assert proxy.end() == 0
        with pytest.raises(Closed):
            client.batch("SET NOCOUNT ON")
