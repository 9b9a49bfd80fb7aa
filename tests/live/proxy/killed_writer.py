#!/usr/bin/env python3
"""A writer of proxy_kill_test.py, a process of its own: writes with psycopg 3 in every way that a driver has.

  killed_writer.py PORT NUMBER TERM SEED PATH

It ends when its input ends. For each key it writes a line into PATH: what became of it, by which way.
"""
import logging
import random
import select
import sys
import time

import psycopg


def writer(port, number, term, seed, path):
    """Writes until it is killed or its input ends; a line for each key: what became of it."""
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


if __name__ == "__main__":
    writer(*sys.argv[1:6])
