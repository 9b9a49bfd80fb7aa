#!/usr/bin/env bash
# PostgreSQL's own regression suite with every session guarded and no term [F6]: afterwards nothing may have changed. By hand, for it needs
# PostgreSQL's source, configured and built, and a server that was installed from it and has the extension (./run extension PG_CONFIG).
#
#   tests/live/guard/server_suite.sh SOURCE PG_CONFIG [SCHEDULE]        SCHEDULE: parallel_schedule
#
# What is compared: a dump of every database and of the roles, sequences, large objects and slots. Prints how many tests ran and exits 1
# where something has changed. With DISCARD=1 the server throws its caches away at every chance (a server built with --enable-cassert).
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,9p' "$0" >&2; exit 2; }
source=$1 config=$2 schedule=${3:-parallel_schedule}
here=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d)
chmod 755 "$work"
export PG_SERVER_BIN
PG_SERVER_BIN=$("$config" --bindir)
trap '"$here/tests/support/pg_server.sh" stop "$work/server" immediate >/dev/null 2>&1; rm -rf "$work"' EXIT

url=$(PG_SERVER_INITDB=1 "$here/tests/support/pg_server.sh" start "$("$config" --version | grep -o '[0-9]*' | head -1)" "$work/server" \
  "shared_preload_libraries=termgate_guard, termgate_shortcuts" fsync=off max_prepared_transactions=10 ${DISCARD:+debug_discard_caches=1})
port=${url##*:} port=${port%%/*}
psql() { "$PG_SERVER_BIN/psql" -qXAt -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$port" -U postgres "$@"; }
state() {
  PGOPTIONS='-c termgate.guard=off' "$PG_SERVER_BIN/pg_dumpall" -h 127.0.0.1 -p "$port" -U postgres | grep -v -E '^\\(un)?restrict'
  for database in postgres regression; do
    psql -d "$database" -c "SELECT schemaname, sequencename, last_value FROM pg_sequences ORDER BY 1, 2" \
      -c "SELECT oid FROM pg_largeobject_metadata ORDER BY 1" -c "SELECT slot_name FROM pg_replication_slots ORDER BY 1" \
      -c "SELECT gid FROM pg_prepared_xacts" -c "SELECT count(*) FROM pg_class" -c "SELECT count(*) FROM pg_proc"
  done
}

psql -c "CREATE ROLE layer1_owner LOGIN" -c "CREATE DATABASE regression TEMPLATE template0 LOCALE 'C'" \
  -c "GRANT CREATE ON DATABASE regression TO layer1_owner"
cat "$here"/sql/postgres/before_install.sql "$here"/sql/postgres/install/*.sql "$here"/sql/postgres/after_install.sql |
  sed -e "s/@schema_lit@/'termgate'/g" -e 's/@schema@/"termgate"/g' >"$work/layer1.sql"
PGOPTIONS="-c client_min_messages=warning" "$PG_SERVER_BIN/psql" -qX -1 -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$port" -U layer1_owner -d regression -f "$work/layer1.sql" >/dev/null
psql -d regression -c "CREATE EXTENSION termgate_guard SCHEMA termgate"
# Not databases and roles that the suite makes: it cannot make any. By the file, so that it holds for every login.
psql -c "ALTER SYSTEM SET termgate.guard = enforce" -c "SELECT pg_reload_conf()" >/dev/null
PGOPTIONS='-c termgate.guard=off' state >"$work/before"

mkdir "$work/out"
if [ "$(id -u)" = 0 ]; then chown -R "$(stat -c %U "$work/server")" "$work/out"; fi
"$source/src/test/regress/pg_regress" --use-existing --dbname=regression --host=127.0.0.1 --port="$port" --user=postgres \
  --bindir="$PG_SERVER_BIN" --inputdir="$source/src/test/regress" --outputdir="$work/out" --dlpath="$source/src/test/regress" \
  --schedule="$source/src/test/regress/$schedule" >"$work/log" 2>&1 || true
tail -3 "$work/log"
# Counts of refusals come from sequences of layer 1, which nothing takes back.
PGOPTIONS='-c termgate.guard=off' state >"$work/after"
refused='refused_tg00'
if ! diff <(grep -v "$refused" "$work/before") <(grep -v "$refused" "$work/after"); then echo "something has changed" >&2; exit 1; fi
grep -c -h TG002 "$work"/out/results/*.out | awk '{n += $1} END {print n " refusals for want of a term; nothing has changed"}'
if grep -E 'TRAP|PANIC|was terminated by signal' "$work/server/data/server.log"; then exit 1; fi
