#!/usr/bin/env python3
"""Settles what docs/evidence/sqlserver.md says has not been run: on a Microsoft SQL Server, in one go. Not a test, but what a person runs
who has that server.

  TERMGATE_TEST_SQLSERVER=sqlserver://sa:PASSWORD@HOST:1433/SCRATCH tests/live/sqlserver/settle.py [REPORT] [--build build/dev]

The login must be able to create databases and to end sessions; SCRATCH is a database that nobody needs. A build of the preset `dev` must be
there. Writes all that is printed to REPORT (sqlserver-report.txt), without the password; attach it to an issue, with a WRONG or without.
"""
import argparse
import os
import subprocess
import sys
import urllib.parse
from pathlib import Path

root = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(root / "tests" / "support"))
from odbc_plain import Plain, Refused  # noqa: E402

SNAPSHOT = "ALTER DATABASE model SET READ_COMMITTED_SNAPSHOT {}"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("report", nargs="?", default="sqlserver-report.txt", type=Path)
    options.add_argument("--build", default=root / "build" / "dev", type=Path)
    options = options.parse_args()
    url = os.environ.get("TERMGATE_TEST_SQLSERVER", "")
    if not url.startswith("sqlserver://"):
        sys.exit(__doc__)
    secret = urllib.parse.urlsplit(url).password or ""
    command, failed = options.build / "termgate", []
    environment = dict(os.environ, TERMGATE=str(command))

    with options.report.open("w", encoding="utf-8") as report:

        def say(line):
            for password in {secret, urllib.parse.unquote(secret)} - {""}:
                line = line.replace(password, "***")
            print(line, flush=True)
            report.write(line + "\n")

        def run(what, *words):
            say(f"== {what}: {' '.join(map(str, words))}")
            with subprocess.Popen(
                list(map(str, words)), cwd=root, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            ) as process:
                for line in process.stdout:
                    say(line.rstrip())
            say(f"== {what}: {'passed' if process.returncode == 0 else f'FAILED with {process.returncode}'}")
            if process.returncode != 0:
                failed.append(what)

        def snapshots(setting):
            """Whether new databases begin with that setting, which they inherit from model."""
            try:
                with Plain(url) as server:
                    server.rows(SNAPSHOT.format(setting))
                return True
            except Refused as refused:
                say(f"== READ_COMMITTED_SNAPSHOT {setting} is left out: {refused}")
                return False

        try:
            with Plain(url) as server:
                say(str(server.rows("SELECT @@VERSION")[0][0]))
                before = server.rows("SELECT is_read_committed_snapshot_on FROM sys.databases WHERE name = N'model'")
        except Refused as refused:
            say(f"the server cannot be reached: {refused}")
            sys.exit(2)
        try:
            run("facts", sys.executable, "-m", "pytest", "-s", "-q", "tests/live/sqlserver/sqlserver_facts_test.py")
            tests = ["ctest", "--test-dir", options.build, "-R", "sqlserver", "--output-on-failure"]
            for setting in ("OFF", "ON"):
                if snapshots(setting):
                    run(f"tests, READ_COMMITTED_SNAPSHOT {setting}", *tests)
        finally:
            if before:
                snapshots("ON" if str(before[0][0]) in ("1", "True") else "OFF")
        run("init", command, "init", "--db", url)
        storm = [command, "storm", "--db", url, "--leaders", "4", "--seconds", "60", "--seed", "1"]
        run("storm", *storm)
        run("storm through two proxies", *storm, "--proxies", "2")
        run("doctor", command, "doctor", "--db", url)
        say(f"failed: {', '.join(failed)}" if failed else "all passed; what is left is by hand: the end of sql/sqlserver/facts.sql")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
