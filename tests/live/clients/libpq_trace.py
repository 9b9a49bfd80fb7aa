#!/usr/bin/env python3
"""Every message that libpq sends and gets (PQtrace), over the pipelines and the corners that drivers do not reach.
Where to connect: libpq's environment. Two runs must be the same to the byte, but for what PQTRACE_REGRESS_MODE
hides."""
import os
import tempfile

import psycopg
from psycopg import pq

connection = psycopg.connect("", autocommit=True)
raw = connection.pgconn
raw.exec_(b"drop table if exists lp")
raw.exec_(b"create table lp(i int primary key, v text)")
trace = tempfile.TemporaryFile("w+b")
raw.trace(trace.fileno())
raw.set_trace_flags(pq.Trace.SUPPRESS_TIMESTAMPS | pq.Trace.REGRESS_MODE)


def mark(text):
    raw.untrace()
    os.write(trace.fileno(), f"-- {text}\n".encode())
    raw.trace(trace.fileno())
    raw.set_trace_flags(pq.Trace.SUPPRESS_TIMESTAMPS | pq.Trace.REGRESS_MODE)


def results(until):
    """Reads results up to so many that are Sync's or the end of a query."""
    seen = 0
    while seen < until:
        raw.flush()
        while raw.is_busy():
            import select

            select.select([raw.socket], [], [], 10)
            raw.consume_input()
        result = raw.get_result()
        if result is not None and result.status == pq.ExecStatus.PIPELINE_SYNC:
            seen += 1


def pipeline(name, *steps):
    mark(name)
    raw.enter_pipeline_mode()
    syncs = 0
    for step in steps:
        if step == "sync":
            raw.pipeline_sync()
            syncs += 1
        else:
            step()
    results(syncs)
    raw.exit_pipeline_mode()


def send(sql, *values):
    return lambda: raw.send_query_params(sql.encode(), [str(value).encode() for value in values])


def prepare(name, sql):
    return lambda: raw.send_prepare(name.encode(), sql.encode())


def prepared(name, *values):
    return lambda: raw.send_query_prepared(name.encode(), [str(value).encode() for value in values])


raw.nonblocking = 1
pipeline("reads", send("select 1"), send("select $1::text", "x"), "sync")
pipeline("one write", send("insert into lp values ($1, 'a')", 1), "sync")
pipeline("read, write, read", send("select count(*) from lp"), send("insert into lp values (2)"), send("select count(*) from lp"), "sync")
pipeline("several syncs", send("insert into lp values (3)"), "sync", send("select 1"), "sync", send("insert into lp values (4)"), "sync")
pipeline("syncs alone", "sync", "sync")
pipeline(
    "an error is skipped over",
    send("insert into lp values (5)"),
    send("select 1/0"),
    send("insert into lp values (6)"),
    "sync",
    send("select count(*) from lp"),
    "sync",
)
pipeline("an error in the first", send("insert into lp values (1)"), send("insert into lp values (7)"), "sync")
pipeline(
    "prepared",
    prepare("p", "insert into lp values ($1) returning i"),
    prepared("p", 8),
    prepared("p", 9),
    "sync",
    prepared("p", 8),
    "sync",
    prepared("p", 10),
    "sync",
)
pipeline(
    "a block",
    send("begin"),
    send("insert into lp values (11)"),
    send("savepoint s"),
    send("insert into lp values (12)"),
    send("rollback to s"),
    send("insert into lp values (13)"),
    send("commit"),
    "sync",
)
pipeline(
    "a block over syncs",
    send("begin"),
    "sync",
    send("insert into lp values (14)"),
    "sync",
    send("select 1/0"),
    "sync",
    send("select 2"),
    "sync",
    send("rollback"),
    "sync",
)
pipeline(
    "settings and reads", send("set statement_timeout = 1000"), send("show statement_timeout"), send("reset statement_timeout"), "sync"
)
pipeline("nothing", send(""), "sync")
pipeline("many", *[send("insert into lp values ($1)", 1000 + i) for i in range(200)], "sync")
pipeline("many syncs", *[step for i in range(100) for step in (send("insert into lp values ($1)", 2000 + i), "sync")])
raw.nonblocking = 0
for name, sql in [
    ("one statement", "insert into lp values (20) returning *"),
    ("several", "select 1; insert into lp values (21); select 2"),
    ("several, one wrong", "insert into lp values (22); select 1/0; select 2"),
    ("empty", ""),
    ("semicolons", " ;; "),
    ("comment", "/* nothing */"),
    ("no such table", "select * from  nowhere"),
    ("syntax", "insrt into lp"),
    ("begin", "begin"),
    ("in it", "insert into lp values (23)"),
    ("failing in it", "select 1/0"),
    ("failed", "select 1"),
    ("commit of it", "commit"),
    ("all in one", "begin; insert into lp values (24); commit; select 3"),
    ("left open", "begin; insert into lp values (25)"),
    ("closed", "commit; select 4"),
    ("notice", "do $$ begin raise notice 'n'; end $$"),
    ("set", "set datestyle = 'german'"),
    ("reset", "reset datestyle"),
    ("drop if exists", "drop table if exists lp_nothing"),
]:
    mark(f"simple: {name}")
    raw.exec_(sql.encode())
mark("COPY in")
raw.exec_(b"copy lp from stdin")
raw.put_copy_data(b"30\tx\n31\ty\n")
raw.put_copy_end()
while raw.get_result():
    pass
mark("COPY in, wrong")
raw.exec_(b"copy lp from stdin")
raw.put_copy_data(b"32\tx\n30\ty\n")
raw.put_copy_end()
while raw.get_result():
    pass
mark("COPY in, given up")
raw.exec_(b"copy lp from stdin")
raw.put_copy_data(b"33\tx\n")
raw.put_copy_end(b"no more")
while raw.get_result():
    pass
mark("COPY out")
raw.exec_(b"copy (select 1) to stdout")
while raw.get_copy_data(0)[0] > 0:
    pass
while raw.get_result():
    pass
mark("described")
raw.prepare(b"d", b"insert into lp values ($1, $2) returning i")
raw.describe_prepared(b"d")
raw.exec_prepared(b"d", [b"40", None])
raw.exec_prepared(b"d", [b"x", None])
raw.describe_prepared(b"nothing")
raw.exec_(b"deallocate all")
raw.exec_prepared(b"d", [b"41", None])
mark("single rows")
raw.send_query(b"select i from generate_series(1, 4) i")
raw.set_single_row_mode()
while raw.get_result():
    pass
mark("end")
raw.exec_(b"select count(*), sum(i) from lp")
raw.exec_(b"drop table lp")
raw.untrace()
trace.seek(0)
print(trace.read().decode())
