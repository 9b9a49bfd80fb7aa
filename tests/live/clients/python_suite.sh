#!/bin/sh
# psycopg2's own tests against a server on loopback: how many pass, fail, are skipped, or take longer than 20 seconds.
#
#   python_suite.sh PORT FOLDER      FOLDER: a checkout of psycopg2, at the tag of the version that is installed
#
# Needs python3-pytest-timeout. The server lets `postgres` in without a password.
set -eu
port=$1
cd "$2"
export PGHOST=127.0.0.1 PGPORT="$port" PGUSER=postgres PGDATABASE=postgres PSYCOPG2_TESTDB=postgres
exec /usr/bin/python3 -m pytest tests -p no:cacheprovider -q --timeout 20 -rfE --no-header --tb=line
