#!/usr/bin/env python3
"""What programs on psycopg2 do, printed so that two runs can be compared. Where to connect: libpq's environment."""
import threading

import psycopg2
import psycopg2.extras


def say(*words):
    print(words, flush=True)


def tell(name, action):
    try:
        say(name, action())
    except Exception as error:
        position = getattr(getattr(error, "diag", None), "statement_position", None)
        say(name, type(error).__name__, getattr(error, "pgcode", None), str(error).split("\n")[0], position)


connection = psycopg2.connect("")
cursor = connection.cursor()


def run(sql, values=None):
    connection.notices.clear()
    cursor.execute(sql, values)
    return (
        cursor.statusmessage,
        cursor.rowcount,
        [tuple(bytes(v) if isinstance(v, memoryview) else v for v in row) for row in cursor.fetchall()] if cursor.description else None,
        list(connection.notices),
    )


tell("make", lambda: run("drop table if exists py2; create table py2(i int primary key, v text, n numeric, b bytea, a int[])"))
connection.commit()
tell("insert", lambda: run("insert into py2 values (%s, %s, %s, %s, %s) returning *", (1, "ü'x", 1.5, psycopg2.Binary(b"\0\1"), [1, 2])))
connection.commit()
tell("duplicate", lambda: run("insert into py2 (i) values (1)"))
tell("in a failed transaction", lambda: run("select 1"))
tell("status", lambda: connection.get_transaction_status())
connection.rollback()
tell("position", lambda: run("select *\nfrom nowhere"))
connection.rollback()
connection.set_session(autocommit=True)
tell("notice", lambda: run("do $$ begin raise notice 'hi'; insert into py2 (i) values (3); end $$"))
tell("many", lambda: psycopg2.extras.execute_values(cursor, "insert into py2 (i, v) values %s", [(100 + i, "q") for i in range(300)]))
connection.set_session(readonly=True)
tell("read only", lambda: run("insert into py2 (i) values (4)"))
tell("a read", lambda: run("select 1"))
connection.set_session(readonly=False)
tell("writing again", lambda: run("insert into py2 (i) values (4)"))
connection.set_session(isolation_level="SERIALIZABLE", autocommit=False)
tell("isolation", lambda: run("show transaction_isolation"))
tell("serializable", lambda: run("insert into py2 (i) values (5)"))
connection.commit()
connection.set_session(isolation_level="DEFAULT")


def with_savepoint():
    with connection:
        run("insert into py2 (i) values (6)")
        run("savepoint s")
        try:
            run("insert into py2 (i) values (6)")
        except psycopg2.Error as error:
            say("in the savepoint", error.pgcode)
        run("rollback to s")
        run("insert into py2 (i) values (7)")
    return run("select i from py2 where i in (6, 7) order by i")


tell("savepoint", with_savepoint)
connection.commit()


def named_cursor():
    with connection.cursor("server_side") as server_side:
        server_side.itersize = 50
        server_side.execute("select i from py2 order by i")
        return sum(row[0] for row in server_side)


tell("named cursor", named_cursor)
connection.commit()


def large_object():
    large = connection.lobject(0, "rw")
    large.write(b"hello, large object")
    large.seek(7)
    text = large.read()
    large.truncate(5)
    size = large.seek(0, 2)
    large.close()
    large.unlink()
    return text, size


tell("large object", large_object)
connection.commit()


def copies():
    import io

    source = io.StringIO("".join(f"{i}\tcopied\n" for i in range(1000, 4000)))
    cursor.copy_from(source, "py2", columns=("i", "v"))
    connection.commit()
    out = io.StringIO()
    cursor.copy_expert("copy (select i, v from py2 order by i) to stdout with csv", out)
    return cursor.rowcount, len(out.getvalue())


tell("copy", copies)
tell("copy fails", copies)
connection.rollback()


def two_phase():
    connection.tpc_begin(connection.xid(1, "py2", "branch"))
    run("insert into py2 (i) values (8)")
    connection.tpc_prepare()
    connection.reset()
    found = [xid for xid in connection.tpc_recover() if xid.gtrid == "py2"]
    connection.rollback()
    connection.tpc_commit(found[0])
    return len(found), found[0].bqual


tell("two phases", two_phase)
connection.rollback()


def cancelled():
    timer = threading.Timer(0.2, connection.cancel)
    timer.start()
    try:
        return run("select pg_sleep(20)")
    finally:
        timer.join()


tell("cancelled", cancelled)
connection.rollback()


connection.set_session(autocommit=True)


def notified():
    run("listen py2")
    run("notify py2, 'hey'")
    connection.poll()
    return [(one.channel, one.payload, one.pid == connection.info.backend_pid) for one in connection.notifies]


tell("notified", notified)
tell("end", lambda: run("select count(*), sum(i) from py2"))
tell("drop", lambda: run("drop table py2"))
PARAMETERS = "client_encoding is_superuser DateStyle standard_conforming_strings default_transaction_read_only in_hot_standby"
tell("parameters", lambda: [connection.get_parameter_status(name) for name in PARAMETERS.split()])
