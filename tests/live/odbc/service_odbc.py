#!/usr/bin/env python3
"""A service for `termgate drill` through ODBC, without Termgate's library:  service_odbc.py right|memory|declares

It leads TERMGATE_SCOPE by a lease of Termgate's procedures (SQL Server) or functions (PostgreSQL), and while it leads
it writes an entry every 50 ms.

  right    writes in one transaction with the check; leaves when it is refused
  memory   believes its own memory, and writes without the check
  declares writes through a proxy, which it tells its term; its lease is another connection's, to DRILL_LEASES (SQL Server)
"""
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from odbc_plain import Plain, Refused  # noqa: E402

MODE, URL, SCOPE = sys.argv[1], os.environ["TERMGATE_DB"], os.environ["TERMGATE_SCOPE"]
OWNER, TTL_MS = f"service-{os.getpid()}", int(os.environ.get("DRILL_TTL_MS", "2000"))
TSQL = not URL.lower().startswith("odbc:") or "postgres" not in URL.lower()


class Service:
    def __init__(self):
        self.plain = Plain(URL)
        self.leases = Plain(os.environ["DRILL_LEASES"]) if MODE == "declares" else self.plain
        if TSQL:
            self.plain.rows("SET XACT_ABORT ON")

    def acquire(self):
        if TSQL:
            row = self.leases.rows(f"EXEC termgate.acquire_lease @scope = N'{SCOPE}', @owner = N'{OWNER}', @ttl_ms = {TTL_MS}")[0]
        else:
            row = self.plain.rows(f"SELECT acquired, term FROM termgate.acquire_lease('{SCOPE}', '{OWNER}', {TTL_MS} * interval '1 ms')")[0]
        if row[0] != "1":
            return None
        if MODE == "declares":
            self.plain.rows(f"EXEC termgate.set_term N'{SCOPE}', {row[1]}")
        return int(row[1])

    def renew(self, term):
        if TSQL:
            self.leases.rows(f"EXEC termgate.renew_lease @scope = N'{SCOPE}', @owner = N'{OWNER}', @term = {term}, @ttl_ms = {TTL_MS}")
        else:
            self.plain.rows(f"SELECT renewed FROM termgate.renew_lease('{SCOPE}', '{OWNER}', {term}, {TTL_MS} * interval '1 ms')")

    def write(self, term):
        if MODE == "declares":
            self.plain.rows(f"INSERT INTO entries (scope, term) VALUES ('{SCOPE}', {term})")
            return
        begin, commit, roll_back = (
            ("BEGIN TRANSACTION", "COMMIT TRANSACTION", "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION")
            if TSQL
            else ("BEGIN", "COMMIT", "ROLLBACK")
        )
        check = (
            f"DECLARE @fence bigint; EXEC termgate.check_term @scope = N'{SCOPE}', @term = {term}, @fence = @fence OUTPUT"
            if TSQL
            else f"SELECT termgate.check_term('{SCOPE}', {term})"
        )
        insert = f"INSERT INTO entries (scope, term) VALUES ('{SCOPE}', {term})"
        try:
            for statement in [begin, check, insert, commit] if MODE == "right" else [begin, insert, commit]:
                self.plain.rows(statement)
        except Refused:
            self.plain.rows(roll_back)
            raise


signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
service, term = Service(), None
while True:
    if term is None:
        term = service.acquire()
        renewed = time.monotonic()
    else:
        try:
            service.write(term)
            if time.monotonic() - renewed > TTL_MS / 4000 and MODE != "memory":
                renewed = time.monotonic()
                service.renew(term)
        except Refused as error:
            print(f"refused: {error}", flush=True)
            if "TG001" in str(error):
                sys.exit(0)
            if "08S01" in str(error) and MODE != "declares":
                # Stopped in the middle of a transaction, it was evicted. It connects again and believes that it leads.
                service.plain = service.leases = Plain(URL)
    time.sleep(0.05)
