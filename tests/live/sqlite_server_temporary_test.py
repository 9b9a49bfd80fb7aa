#!/usr/bin/env python3
"""[F6][F7] Temporary tables of several sessions of an SQLite file behind the proxy, beside a PostgreSQL 15.

  pytest tests/live/sqlite_server_temporary_test.py [--show]

Each script is acts of sessions a and b, which are the same on both servers: what each act answers (values, tag, SQLSTATE) must be the same,
but for the SQLSTATE that the act names as the front's own. Nothing temporary may be in the file afterwards.
"""
import sqlite3

import pgraw
import pytest
from checks import check

import given
from sqlite_server_statements_test import answer_of

# (session, SQL [, what the front refuses it with])
SCRIPTS = {
    "each session has its own": [
        ("a", "create temp table own (x int)"),
        ("b", "select * from own"),
        ("b", "create temp table own (x text, y int)"),
        ("a", "insert into own values (1), (2)"),
        ("b", "insert into own values ('one', 1)"),
        ("a", "select x from own order by x"),
        ("b", "select * from own"),
        ("a", "drop table own"),
        ("b", "select count(*) from own"),
        ("a", "select * from own"),
    ],
    "ON COMMIT outside of a block": [
        ("a", "create temp table gone (x int) on commit drop"),
        ("a", "select * from gone"),
        ("a", "create temp table emptied (x int) on commit delete rows"),
        ("a", "insert into emptied values (1)"),
        ("a", "select count(*) from emptied"),
        ("a", "create temp table kept (x int) on commit preserve rows"),
        ("a", "insert into kept values (1)"),
        ("a", "select count(*) from kept"),
    ],
    "ON COMMIT at the end of a block": [
        ("a", "begin"),
        ("a", "create temp table gone (x int) on commit drop"),
        ("a", "create temp table emptied (x int) on commit delete rows"),
        ("a", "insert into gone values (1)"),
        ("a", "insert into emptied values (1)"),
        ("a", "select count(*) from emptied"),
        ("a", "commit"),
        ("a", "select * from gone"),
        ("a", "select count(*) from emptied"),
        ("a", "begin"),
        ("a", "insert into emptied values (2)"),
        ("a", "savepoint s"),
        ("a", "insert into emptied values (3)"),
        ("a", "rollback to s"),
        ("a", "select x from emptied"),
        ("a", "commit"),
        ("a", "select count(*) from emptied"),
        ("a", "drop table emptied"),
        ("a", "create temp table emptied (x int)"),
        ("a", "insert into emptied values (4)"),
        ("a", "select x from emptied"),
    ],
    "a rollback takes it along": [
        ("a", "begin"),
        ("a", "create temp table undone (x int) on commit delete rows"),
        ("a", "rollback"),
        ("a", "select * from undone"),
        ("a", "create temp table undone (x int)"),
        ("a", "insert into undone values (1)"),
        ("a", "select * from undone"),
        ("a", "begin"),
        ("a", "drop table undone"),
        ("a", "rollback"),
        ("a", "select * from undone"),
        ("a", "begin"),
        ("a", "insert into undone values (2)"),
        ("a", "select nope"),
        ("a", "commit"),
        ("a", "select * from undone"),
    ],
    "ON COMMIT goes back with its table": [
        ("a", "create temp table back (x int) on commit delete rows"),
        ("a", "begin"),
        ("a", "drop table back"),
        ("a", "create temp table back (x int)"),
        ("a", "rollback"),
        ("a", "insert into back values (1)"),
        ("a", "select count(*) from back"),
        ("a", "drop table termgate_on_commit"),
        ("a", "select relname from pg_class where relname like 'termgate%commit'"),
    ],
    "with the file's tables, in one transaction": [
        ("a", "create temp table loaded (id int, v text)"),
        ("a", "insert into loaded values (1, 'x'), (2, 'y')"),
        ("a", "begin"),
        ("a", "insert into shared select id, v from loaded"),
        ("a", "delete from loaded where id = 1"),
        ("b", "select count(*) from shared"),
        ("a", "rollback"),
        ("a", "select count(*) from loaded"),
        ("a", "insert into shared select id, v from loaded"),
        ("b", "select * from shared order by id"),
        ("b", "update shared set v = 'z' where id = 1"),
        ("a", "select s.v, l.v from shared s join loaded l using (id) order by 1"),
        ("a", "with gone as (delete from loaded returning id) delete from shared where id in (select id from gone)"),
        ("b", "select count(*) from shared"),
    ],
    "what another session changes meanwhile": [
        ("a", "create temp table early (x int)"),
        ("b", "alter table shared add column w int default 5"),
        ("a", "select * from shared"),
        ("a", "insert into shared (id, v) values (9, 'n')"),
        ("b", "select * from shared"),
        ("b", "alter table shared drop column w"),
        ("a", "select * from shared"),
        ("a", "delete from shared"),
    ],
    "DISCARD": [
        ("a", "create temp table first (x int)"),
        ("a", "discard temp"),
        ("a", "select * from first"),
        ("a", "create temp table first (x int)"),
        ("a", "discard all"),
        ("a", "select * from first"),
        ("a", "create temp table first (x int)"),
        ("a", "select count(*) from first"),
    ],
    "at the other levels": [
        ("a", "begin isolation level repeatable read"),
        ("a", "create temp table stable (x int)"),
        ("a", "insert into stable values (1)"),
        ("a", "select x from stable"),
        ("a", "commit"),
        ("a", "begin isolation level serializable"),
        ("a", "select x from stable"),
        ("a", "update stable set x = 2"),
        ("a", "commit"),
        ("a", "select x from stable"),
        ("a", "begin read only"),
        ("a", "select x from stable"),
        ("a", "create temp table other (x int)"),
        ("a", "rollback"),
    ],
    "a cursor on it": [
        ("a", "create temp table many (x int)"),
        ("a", "insert into many select generate_series(1, 10)"),
        ("a", "begin"),
        ("a", "declare c cursor for select x from many order by x"),
        ("a", "fetch 3 from c"),
        ("a", "delete from many where x > 5"),
        ("a", "fetch 4 from c"),
        ("a", "commit"),
        ("a", "select count(*) from many"),
    ],
    "names of the file's, which stay the file's here": [
        ("a", "create temp table shared (x int)", "0A000"),
        ("a", "create temp table mine (x int)"),
        ("b", "create table mine (y int)"),
        ("a", "select * from mine"),
        ("a", "insert into mine values (1)", "0A000"),
        ("b", "drop table mine"),
        ("a", "insert into mine values (2)"),
    ],
}


def ask(wire, sql):
    wire.send(pgraw.query(sql))
    return answer_of(wire.until("Z"))


@pytest.fixture(scope="module")
def ports(lab):
    lab.run(lab.termgate, "init", "--db", f"sqlite:{lab.folder}/app.db")
    server, front = lab.server("15", "fsync=off"), lab.proxy(f"sqlite:{lab.folder}/app.db")
    server.sql("create database app")
    return server.port, front.port


def connect(port):
    options = "-c termgate.scope=temporary -c termgate.term=1 -c TimeZone=UTC -c lock_timeout=5s"
    return pgraw.Connection(port, user="postgres", database="app", parameters=[("options", options)], wait=30)


@pytest.mark.parametrize("name", SCRIPTS)
def test_sessions_see_what_postgresql_shows_them(name, ports, lab):
    sides = [{each: connect(port) for each in "ab"} for port in ports]
    for side in sides:
        assert "error" not in ask(side["a"], "create table shared (id int primary key, v text)")
    for number, (who, sql, *refusal) in enumerate(SCRIPTS[name], 1):
        wanted, got = (ask(side[who], sql) for side in sides)
        if given.option("show"):
            print(f"{who}: {sql}: {wanted} | {got}")
        if refusal:
            check(f"{number}. {who}: {sql}: refused", got.get("error") == refusal[0], f"PostgreSQL {wanted}, front {got}")
            continue
        same = all(wanted.get(part) == got.get(part) for part in ("rows", "tag", "error"))
        check(f"{number}. {who}: {sql}: the same", same, f"PostgreSQL {wanted}, front {got}")
    for side in sides:
        for wire in side.values():
            wire.end()
        last = connect(ports[sides.index(side)])
        ask(last, "drop table shared")
        last.end()
    file = sqlite3.connect(f"{lab.folder}/app.db")
    names = [row[0] for row in file.execute("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'termgate%' AND name NOT LIKE 'sqlite%'")]
    check("nothing temporary is in the file", not names, str(names))
