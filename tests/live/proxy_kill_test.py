#!/usr/bin/env python3
"""[F2] [F5] The proxy is killed at random under load and started again: nothing refused is in the table, nothing acknowledged is missing.

  proxy_kill_test.py TERMGATE PG_SERVER_SH [--long] [--seed N]

Writers of term 5, each a process on psycopg 3, and one of term 4 write through the proxy in every way that a driver
has; each notes what it was told: committed, refused, or unknown (the connection went). In the middle of it term 6 is
sealed, its writers begin, and the writers of 5 go on as stale ones. Needs psycopg 3.
"""
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from proxy_lab import LONG, PYTHON, SANITIZED, Lab  # noqa: E402


def writer(port, number, term, seed, path):
    """Writes until it is killed or its input ends; a line for each key: what became of it."""
    import select

    import logging

    import psycopg

    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # it tells of every pipeline that was cut
    random.seed(int(seed))
    connection = None
    key = 0
    with open(path, "w", buffering=1) as notes:
        while not select.select([sys.stdin], [], [], 0)[0]:
            key += 1
            keys = [key]
            try:
                if connection is None or connection.closed:
                    connection = psycopg.connect(
                        f"host=127.0.0.1 port={port} user=postgres dbname=postgres sslmode=disable connect_timeout=5",
                        autocommit=True,
                        options=f"-c termgate.scope=killed -c termgate.term={term}",
                    )
            except psycopg.OperationalError:
                key -= 1
                time.sleep(0.01)
                continue
            text = f"INSERT INTO kept VALUES ({number}, %s, {term})"
            try:
                way = random.randrange(6)
                if way == 0:
                    connection.execute(text, (key,))
                elif way == 1:
                    connection.execute(text % key)
                elif way == 2:
                    with connection.transaction():
                        connection.execute(text, (key,), prepare=True)
                elif way == 3:
                    keys = list(range(key, key + 5))
                    with connection.pipeline():
                        with connection.transaction():
                            for one in keys:
                                connection.execute(text, (one,))
                elif way == 4:
                    keys = list(range(key, key + 20))
                    with connection.cursor() as cursor, cursor.copy("COPY kept FROM STDIN") as copy:
                        for one in keys:
                            copy.write_row((number, one, term))
                else:
                    keys = [key, key + 1]
                    connection.execute(f"BEGIN; {text % key}; SAVEPOINT s; {text % (key + 1)}; COMMIT")
                fate = "committed"
            except psycopg.Error as error:
                if error.sqlstate and error.sqlstate.startswith("TG"):
                    fate = "refused"
                elif error.sqlstate is None or error.sqlstate[:2] in ("57", "08"):
                    fate = "unknown"
                else:
                    fate = f"failed-{error.sqlstate}-{str(error).splitlines()[0]}"
                if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                    try:
                        connection.rollback()
                    except psycopg.Error:
                        connection.close()
            key = keys[-1]
            for one in keys:
                notes.write(f"{fate}-by-way-{way} {one}\n")


if sys.argv[1] == "--writer":
    writer(*sys.argv[2:7])
    sys.exit(0)
if subprocess.run([PYTHON, "-c", "import psycopg"], capture_output=True).returncode != 0:
    print("psycopg 3 is missing")
    sys.exit(77)

lab = Lab("kill", os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else int(time.time())
print(f"     seed {seed}")
random.seed(seed)


def main():
    server = lab.server("15", "track_commit_timestamp=on")
    server.sql("CREATE TABLE kept (writer int, key int, term int, PRIMARY KEY (writer, key))")
    server.sql("SELECT termgate.seal('killed', 5)")
    proxy = lab.proxy(server.url)
    port = proxy.port
    notes = {}
    processes = []

    def start(term):
        number = len(notes)
        notes[number] = (term, f"{lab.folder}/writer{number}")
        processes.append(
            lab.program(
                PYTHON, os.path.abspath(__file__), "--writer", port, number, term, seed + number, notes[number][1], stdin=subprocess.PIPE
            )
        )

    for term in (5, 5, 5, 4):
        start(term)
    kills = 0
    seconds = 30 if LONG else 16
    began = time.monotonic()
    sealed = None
    while time.monotonic() - began < seconds:
        time.sleep(random.uniform(0.05, 1.2))
        if sealed is None and time.monotonic() - began > seconds / 2:
            sealed = server.sql("SELECT sealed_at FROM termgate.seal('killed', 6)")[0]
            start(6)
            start(6)
        proxy.process.send_signal(signal.SIGKILL)
        proxy.process.wait()
        kills += 1
        time.sleep(random.choice((0, 0.05)))
        proxy = lab.proxy(server.url, port=port)
    time.sleep(0.5)
    for process in processes:
        process.stdin.close()
    for process in processes:
        process.wait(20)
    lab.check("the writers ended well", all(process.returncode == 0 for process in processes))
    # A server session whose proxy was killed may still be finishing what it was sent.
    server.sql(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> pg_backend_pid() AND"
        " backend_type = 'client backend' AND query LIKE '%kept%'"
    )
    time.sleep(0.2)

    table = {}
    for row in server.sql("SELECT writer || ' ' || key || ' ' || term FROM kept"):
        number, key, term = map(int, row.split())
        table[number, key] = term
    counts = {"committed": 0, "refused": 0, "unknown": 0, "failed": 0}
    missing, present, failed, noted = [], [], [], set()
    for number, (term, path) in notes.items():
        for line in open(path):
            fate, key = line.rsplit(" ", 1)
            place = number, int(key)
            noted.add(place)
            kind = fate.split("-")[0]
            counts[kind] += 1
            if kind == "committed" and place not in table:
                missing.append((place, fate))
            if kind in ("refused", "failed") and place in table:
                present.append((place, fate))
            if kind == "failed":
                failed.append(fate)
    print(f"     {kills} kills, {counts}")
    lab.check("nothing acknowledged is missing", not missing, missing[:5])
    lab.check("nothing refused is in the table", not present, present[:5])
    lab.check("nobody was told anything else", not failed, sorted(set(failed))[:5])
    lab.check("no row of term 4 is in the table", 4 not in table.values())
    lab.check("no row is in the table that nobody wrote", set(table) <= noted, sorted(set(table) - noted)[:5])
    late = server.sql(f"SELECT count(*) FROM kept WHERE term = 5 AND pg_xact_commit_timestamp(xmin) > '{sealed}'")
    lab.check("[F2] no row of term 5 was committed after the seal of 6", late == ["0"], late)
    early = server.sql(f"SELECT count(*) FROM kept WHERE term = 6 AND pg_xact_commit_timestamp(xmin) < '{sealed}'")
    lab.check("and none of 6 before it", early == ["0"], early)
    share = 10 if SANITIZED else 100
    lab.check(
        "there was something to see",
        kills >= seconds / 3 and counts["committed"] > share and counts["refused"] > share and counts["unknown"] > 0,
        (kills, counts),
    )
    lab.run(lab.termgate, "verify", "--db", server.url)


try:
    main()
except BaseException:
    lab.failures.append("broken off")
    lab.close()
    raise
sys.exit(lab.conclude())
