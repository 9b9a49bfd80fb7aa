#!/usr/bin/env python3
"""What programs on psycopg 3 do, printed so that two runs can be compared. Where to connect: libpq's environment."""
import asyncio
import decimal
import logging

import psycopg

logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # whether it tells of a pipeline that was aborted is a matter of time


def say(*words):
    print(words, flush=True)


def tell(name, action):
    try:
        say(name, action())
    except Exception as error:
        say(name, type(error).__name__, getattr(error, "sqlstate", None), str(error).split("\n")[0])


connection = psycopg.connect("")


def run(sql, *values, **how):
    cursor = connection.execute(sql, *values, **how)
    return cursor.statusmessage, cursor.fetchall() if cursor.description else None


tell("drop", lambda: run("drop table if exists py3"))
tell("make", lambda: run("create table py3(i int primary key, v text, n numeric, b bytea)"))
tell("insert", lambda: run("insert into py3 values (%s, %s, %s, %s) returning *", (1, "a", decimal.Decimal("1.5"), b"\0\1")))
connection.commit()
tell("duplicate", lambda: run("insert into py3 (i) values (1)"))
tell("in a failed transaction", lambda: run("select 1"))
connection.rollback()
tell("binary", lambda: run("select * from py3", binary=True))
connection.commit()
for number in range(8):
    tell("prepared", lambda: run("insert into py3 (i, v) values (%s, %s)", (10 + number, "x"), prepare=True))
tell("what is prepared", lambda: run("select statement from pg_prepared_statements where name not like '\\_termgate%' order by 1"))
connection.commit()


def copy_in(first, stop=None):
    with connection.cursor() as cursor:
        with cursor.copy("copy py3 (i, v) from stdin") as copy:
            for i in range(first, first + 3000):
                if i == stop:
                    raise ValueError("stop")
                copy.write_row((i, "r" * 100))
        return cursor.statusmessage


def copy_out():
    with connection.cursor() as cursor:
        with cursor.copy("copy py3 to stdout (format binary)") as copy:
            return sum(len(piece) for piece in copy)


tell("copy in", lambda: copy_in(100))
tell("copy out", copy_out)
connection.commit()
tell("copy fails", lambda: copy_in(100))
connection.rollback()
tell("copy is broken off", lambda: copy_in(9000, 9100))
connection.rollback()


def pipeline(key):
    with connection.pipeline():
        a = connection.execute("select count(*) from py3")
        b = connection.execute("insert into py3 (i) values (%s) returning i", (key,))
        c = connection.execute("select count(*) from py3")
        return a.fetchall(), b.fetchall(), c.fetchall()


def pipeline_with_syncs(key):
    with connection.pipeline() as pipe:
        a = connection.execute("select 1")
        pipe.sync()
        connection.execute("insert into py3 (i) values (%s)", (key,))
        pipe.sync()
        c = connection.execute("select 2")
        return a.fetchall(), c.fetchall()


def pipeline_by_turns(key):
    with connection.pipeline():
        a = connection.execute("select 1").fetchall()
        return a, connection.execute("insert into py3 (i) values (%s) returning i", (key,)).fetchall()


tell("pipeline", lambda: pipeline(6000))
connection.commit()
tell("pipeline that fails", lambda: pipeline_with_syncs(6000))
connection.rollback()
connection.autocommit = True
tell("pipeline in autocommit", lambda: pipeline(6001))
tell("pipeline in autocommit that fails", lambda: pipeline(6001))
tell("pipeline by turns", lambda: pipeline_by_turns(6002))
tell("pipeline with syncs", lambda: pipeline_with_syncs(6003))
tell("pipeline with syncs that fails", lambda: pipeline_with_syncs(6003))


def named_cursor():
    with connection.transaction():
        with connection.cursor("server_side") as cursor:
            cursor.execute("select i from py3 order by i")
            return cursor.fetchmany(3), cursor.fetchmany(2)


tell("named cursor", named_cursor)


def nested():
    with connection.transaction():
        run("insert into py3 (i) values (7000)")
        try:
            with connection.transaction():
                run("insert into py3 (i) values (7001)")
                run("insert into py3 (i) values (7001)")
        except psycopg.Error as error:
            say("in the inner one", error.sqlstate)
        run("insert into py3 (i) values (7002)")
    return run("select i from py3 where i >= 7000 and i < 7010 order by i")


tell("nested transactions", nested)
tell("executemany", lambda: connection.cursor().executemany("insert into py3 (i) values (%s)", [(8000 + i,) for i in range(50)]))


def executemany_returning():
    cursor = connection.cursor()
    cursor.executemany("insert into py3 (i) values (%s) returning i", [(8100 + i,) for i in range(3)], returning=True)
    rows = []
    while True:
        rows.append(cursor.fetchone())
        if not cursor.nextset():
            return rows


tell("executemany returning", executemany_returning)
tell("executemany fails", lambda: connection.cursor().executemany("insert into py3 (i) values (%s)", [(8200,), (8201,), (8200,)]))
tell("and left nothing", lambda: run("select count(*) from py3 where i between 8200 and 8299"))
connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
connection.autocommit = False
tell("serializable", lambda: (run("show transaction_isolation"), run("insert into py3 (i) values (8300)")))
connection.commit()
connection.isolation_level = None
connection.read_only = True
tell("read only", lambda: run("insert into py3 (i) values (8301)"))
connection.rollback()
connection.read_only = None
connection.autocommit = True


def notified():
    found = []
    connection.add_notify_handler(lambda one: found.append((one.channel, one.payload, one.pid == connection.info.backend_pid)))
    run("listen py3")
    with psycopg.connect("", autocommit=True) as other:
        other.execute("notify py3, 'from another'")
    run("notify py3, 'hey'")
    for _ in range(100):
        run("select 1")
        if len(found) == 2:
            break
    return sorted(found)


tell("notified", notified)


async def at_once():
    async def one(number):
        async with await psycopg.AsyncConnection.connect("") as mine:
            await mine.execute("insert into py3 (i) values (%s)", (8400 + number,))
            cursor = await mine.execute("select i from py3 where i = %s", (8400 + number,))
            return await cursor.fetchone()

    return await asyncio.gather(*(one(number) for number in range(8)))


tell("async", lambda: asyncio.run(at_once()))
tell("end", lambda: run("select count(*), sum(i) from py3"))
tell("drop", lambda: run("drop table py3"))
