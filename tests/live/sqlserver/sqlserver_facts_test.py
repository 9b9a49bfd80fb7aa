#!/usr/bin/env python3
"""What Termgate believes of SQL Server, asked of the server that TERMGATE_TEST_SQLSERVER names (else skipped): the facts of
sql/sqlserver/facts.sql, and those for which two sessions, or packets that no driver sends, are needed. Prints a line for each, ok or WRONG
or info. On Microsoft's server a WRONG fails; what Babelfish answers says nothing of it, and is printed only.

  TERMGATE_TEST_SQLSERVER=sqlserver://sa:PASSWORD@HOST:1433/master pytest -s tests/live/sqlserver/sqlserver_facts_test.py

The login must be able to create databases. The raw packets go in clear text: a server that forces encryption answers them not.
"""
import os
import re
import struct
import urllib.parse
from pathlib import Path

import pytest

from checks import note
from odbc_plain import Plain, Refused, url_of
from tdsraw import ATTENTION, BATCH, RESET, RESET_KEEP, Closed, Tds, call, headers, integer, packets, wide

URL = os.environ.get("TERMGATE_TEST_SQLSERVER", "")
FILE = Path(__file__).resolve().parents[3] / "sql/sqlserver/facts.sql"
DATABASE = f"termgate_facts_{os.getpid()}"
if not URL.startswith("sqlserver://"):
    pytest.skip("TERMGATE_TEST_SQLSERVER names no server", allow_module_level=True)


def connect():
    found = urllib.parse.urlsplit(URL)
    unquote = urllib.parse.unquote
    return Tds(found.port or 1433, unquote(found.username), unquote(found.password), DATABASE, "facts", found.hostname)


class Verdicts:
    def __init__(self, strict):
        self.strict, self.wrong = strict, []

    def say(self, verdict, fact):
        note(f"{verdict:8} {fact}")
        if verdict == "WRONG":
            self.wrong.append(fact)

    def fact(self, holds, fact):
        self.say("ok" if holds else "WRONG", fact)

    def end(self):
        if self.strict:
            assert self.wrong == []
        elif self.wrong:
            note(f"{len(self.wrong)} of them are otherwise on this server, which is not Microsoft's")


@pytest.fixture(name="server", scope="module")
def scratch_database():
    with Plain(URL) as master:
        babelfish = master.rows("SELECT CAST(SERVERPROPERTY('Babelfish') AS nvarchar(10))")[0][0]
        master.rows(f"CREATE DATABASE {DATABASE}")
    yield not babelfish
    with Plain(URL) as master:
        master.rows(f"DROP DATABASE {DATABASE}")


@pytest.fixture(name="verdicts")
def verdicts_of(server):
    verdicts = Verdicts(server)
    yield verdicts
    verdicts.end()


def test_the_facts_of_one_session(verdicts):
    batches = re.split(r"(?mi)^GO\s*$", FILE.read_text(encoding="utf-8"))
    said = 0
    with Plain(url_of(URL, DATABASE)) as one:
        for batch in batches:
            if not re.sub(r"(?m)^\s*--.*$", "", batch).strip():
                continue
            try:
                for rows in one.results(batch):
                    for row in rows:
                        if len(row) == 2:
                            verdicts.say(row[0], row[1])
                            said += 1
            except Refused as refused:
                note(f"         (a batch ended with {refused})")
    assert said >= 20


def held(client, name):
    """How a session of its own holds the lock, by its mode."""
    text = f"DECLARE @m nvarchar(60) = N'is ' + APPLOCK_MODE(N'public', N'{name}', N'Session'); THROW 50077, @m, 1"
    return client.batch(text).errors[-1][1][3:]


def free(client, name):
    """Whether another session could have it."""
    text = f"DECLARE @m nvarchar(60) = CONCAT(N'is ', APPLOCK_TEST(N'public', N'{name}', N'Exclusive', N'Session')); THROW 50077, @m, 1"
    return client.batch(text).errors[-1][1] == "is 1"


TAKE = (
    "EXEC sp_getapplock @Resource = N'facts', @LockMode = N'Exclusive', @LockOwner = N'Session', @LockTimeout = 1000, @DbPrincipal ="
    " N'public'"
)


def test_rows_of_two_sessions(verdicts):
    one, two = connect(), connect()
    one.batch("CREATE TABLE dbo.facts (id int NOT NULL PRIMARY KEY, n int NOT NULL)")
    one.batch("INSERT INTO dbo.facts VALUES (1, 1)")
    versions = two.batch(
        "IF EXISTS (SELECT 1 FROM sys.databases WHERE database_id = DB_ID() AND is_read_committed_snapshot_on = 1) THROW 50077, 'on', 1"
    ).errors
    one.batch("BEGIN TRANSACTION; UPDATE dbo.facts SET n = 2 WHERE id = 1")
    answer = two.batch("SET LOCK_TIMEOUT 100; SELECT n FROM dbo.facts WHERE id = 1")
    if versions:
        verdicts.fact(not answer.errors, "51 with READ_COMMITTED_SNAPSHOT ON a look does not wait for an open UPDATE")
    else:
        verdicts.fact(
            answer.number == 1222, "51 with READ_COMMITTED_SNAPSHOT OFF a look waits for an open UPDATE (1222 after LOCK_TIMEOUT)"
        )
    verdicts.fact(not two.batch("SELECT n FROM dbo.facts WITH (NOLOCK) WHERE id = 1").errors, "52 NOLOCK does not wait for it")
    answer = two.batch("SELECT n FROM dbo.facts WITH (READCOMMITTEDLOCK) WHERE id = 1")
    verdicts.fact(answer.number == 1222, "53 READCOMMITTEDLOCK waits for it whatever the setting")
    two.batch("SET LOCK_TIMEOUT -1")
    one.close()
    two.batch("UPDATE dbo.facts SET n = 3 WHERE id = 1")
    verdicts.say("ok", "54 a session that is closed lets its row go")
    two.close()


def test_locks_of_the_session(verdicts):
    one, two = connect(), connect()
    one.batch(TAKE)
    verdicts.fact(held(one, "facts") == "Exclusive" and not free(two, "facts"), "55 a lock of the session is held, and others see it")
    one.batch("BEGIN TRANSACTION; ROLLBACK TRANSACTION")
    verdicts.fact(held(one, "facts") == "Exclusive", "56 it outlives a ROLLBACK")
    one.batch("USE master")
    one.batch(f"USE {DATABASE}")
    verdicts.fact(held(one, "facts") == "Exclusive", "57 it outlives USE of another database")
    one.send(packets(ATTENTION, b""))
    one.answer()
    verdicts.fact(held(one, "facts") == "Exclusive", "58 it outlives an attention")
    one.batch("EXEC sp_set_session_context N'facts', N'x', @read_only = 1")
    one.batch("SET NOCOUNT ON", RESET)
    verdicts.fact(free(two, "facts"), "59 a reset of the connection gives it back")
    answer = one.batch("IF SESSION_CONTEXT(N'facts') IS NOT NULL THROW 50077, 'there', 1")
    verdicts.fact(not answer.errors, "60 and clears SESSION_CONTEXT, keys that are read-only among it")
    one.batch(TAKE)
    answer = one.rpc(call("sp_reset_connection"))
    verdicts.say(
        "info",
        (
            f"61 sp_reset_connection by RPC answers {answer.errors or 'without an error'}; the lock is"
            f" {'free' if free(two, 'facts') else 'held'}"
        ),
    )
    answer = one.batch("EXEC sp_reset_connection")
    verdicts.say("info", f"62 EXEC sp_reset_connection in a batch answers {answer.errors or 'without an error'}")
    one.close()
    two.close()


def test_a_reset_that_keeps_the_transaction(verdicts):
    one, two = connect(), connect()
    try:
        one.begin()
        one.batch(TAKE)
        one.batch("SET NOCOUNT ON", RESET_KEEP)
        answer = one.batch("IF @@TRANCOUNT = 0 THROW 50077, 'none', 1")
        verdicts.fact(not answer.errors, "63 RESETCONNECTIONSKIPTRAN keeps the transaction")
        verdicts.say("info", f"64 and its session's lock is {'free' if free(two, 'facts') else 'held'} afterwards")
    except Closed as closed:
        verdicts.say("info", f"63 RESETCONNECTIONSKIPTRAN closes the connection: {closed}")
    two.close()


def test_answers_of_calls(verdicts):
    one = connect()
    one.batch("CREATE PROCEDURE dbo.facts_proof @proof int OUTPUT AS SET @proof = -@proof - 1")
    proof = call("dbo.facts_proof", integer("@proof", 41, True))
    verdicts.fact(one.rpc(proof).integers()[-1:] == [-42], "65 an OUTPUT parameter brings the proof back")
    for number, option in enumerate(("NOEXEC", "FMTONLY", "PARSEONLY"), 66):
        one.batch(f"SET {option} ON")
        found = one.rpc(proof).integers()
        one.batch(f"SET {option} OFF")
        verdicts.say("info", f"{number} under {option} ON a call answers {found or 'without a value'} (a proof is -42)")
    announced = b"\xe3\x0b\0\x08" in one.batch("BEGIN TRANSACTION").payload
    verdicts.say("info", f"69 BEGIN TRANSACTION in a batch is {'announced' if announced else 'not announced'} by ENVCHANGE 8")
    one.batch("ROLLBACK TRANSACTION")
    one.begin()
    one.send(packets(BATCH, headers(0x7777) + wide("CREATE TABLE dbo.facts_wrong (a int)")))
    answer = one.answer()
    verdicts.fact(
        answer.number in (3989, 3988), f"70 a request in a transaction that is not this session's is refused: {answer.errors[:1]}"
    )
    two = connect()
    there = two.batch("IF OBJECT_ID(N'dbo.facts_wrong') IS NOT NULL THROW 50077, 'there', 1").errors
    verdicts.fact(not there, "71 and nothing of it is done")
    one.close()
    two.close()


def test_attentions(verdicts):
    one = connect()
    one.batch(
        "CREATE PROCEDURE dbo.facts_waits AS BEGIN SET XACT_ABORT OFF; BEGIN TRY WAITFOR DELAY '00:00:05' END TRY BEGIN CATCH EXEC"
        " sp_getapplock @Resource = N'caught', @LockMode = N'Shared', @LockOwner = N'Session' END CATCH END"
    )
    one.batch("SET XACT_ABORT ON")
    one.begin()
    one.send(packets(BATCH, headers(one.descriptor) + wide("EXEC dbo.facts_waits")))
    one.send(packets(ATTENTION, b""))
    answer = one.answer()
    if not re.search(rb"\xfd\x20\0", answer.payload) and struct.unpack("<H", answer.payload[-12:-10])[0] & 0x20 == 0:
        one.answer()
    inside = one.batch("IF @@TRANCOUNT > 0 THROW 50077, 'inside', 1").errors
    verdicts.say(
        "info",
        f"72 an attention in a procedure of XACT_ABORT OFF called under ON leaves the transaction {'open' if inside else 'rolled back'}",
    )
    verdicts.fact(held(one, "caught") == "NoLock", "73 an attention runs no CATCH")
    one.close()
