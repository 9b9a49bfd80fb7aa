#!/bin/sh
# psycopg's own tests against a server on loopback: how many pass, fail, are skipped, or take longer than 20 seconds.
#
#   python_suite.sh PORT FOLDER      FOLDER: a checkout of psycopg2 or psycopg, at the tag of the version that is installed
#
# Needs python3-pytest-timeout. The server lets `postgres` in without a password.
set -eu
port=$1
cd "$2"
export PGHOST=127.0.0.1 PGPORT="$port" PGUSER=postgres PGDATABASE=postgres
export PSYCOPG2_TESTDB=postgres PSYCOPG_TEST_DSN="host=127.0.0.1 port=$port user=postgres dbname=postgres"
# Not the tests of the source's own build (typing, C, pools), nor the slow ones.
exec /usr/bin/python3 -m pytest tests -p no:cacheprovider -q --timeout 20 -m "not slow" -rfE --no-header --tb=line \
  --ignore=tests/pool --ignore=tests/crdb --ignore=tests/scripts --ignore=tests/test_typing.py --ignore=tests/constraints.txt
