#!/bin/sh
# psycopg's own tests, of version 2 or 3, against a server on loopback: how many pass, fail, are skipped, or take longer than 20 seconds.
#
#   python_suite.sh PORT FOLDER      FOLDER: a checkout of psycopg2 or psycopg, at the tag of the version that is installed
#
# Needs python3-pytest-timeout. The server lets `postgres` in without a password. Of psycopg 3 the pool, CockroachDB and the types that
# mypy checks are left out.
set -eu
port=$1
cd "$2"
export PGHOST=127.0.0.1 PGPORT="$port" PGUSER=postgres PGDATABASE=postgres PSYCOPG2_TESTDB=postgres
export PSYCOPG_TEST_DSN="host=127.0.0.1 port=$port user=postgres dbname=postgres" PSYCOPG_IMPL=python
set -- tests -q --timeout 20 -rfE --no-header --tb=line
if [ -d psycopg ]; then
  set -- "$@" -W ignore --ignore tests/pool --ignore tests/crdb --ignore tests/test_typing.py
else
  set -- "$@" -p no:cacheprovider
fi
exec /usr/bin/python3 -m pytest "$@"
