#!/usr/bin/env bash
# The guard under valgrind: its pg_regress script, then the shortcuts, refusals, savepoints and two-phase commit, in a server whose processes
# all run under valgrind. By hand: needs PostgreSQL's source and a server configured with CPPFLAGS=-DUSE_VALGRIND and --enable-cassert, with the
# extension installed (./run extension PG_CONFIG). Prints valgrind's complaints and exits 1 where there is one; some three minutes.
#
#   tests/live/guard/valgrind.sh SOURCE PG_CONFIG
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,6p' "$0" >&2; exit 2; }
source=$1 config=$2
here=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d)
mkdir -p "$work/bin" "$work/log"
chmod 755 "$work" "$work/bin"
chmod 777 "$work/log"
real=$("$config" --bindir)
for program in "$real"/*; do cp "$program" "$work/bin/"; done
ln -s "$("$config" --pkglibdir | sed 's|/postgresql$||')" "$work/lib"
ln -s "$("$config" --sharedir | sed 's|/postgresql$||')" "$work/share"
install -m 644 "$source/src/tools/valgrind.supp" "$work/valgrind.supp"
cat >"$work/bin/postgres" <<SH
#!/bin/sh
case "\$*" in *-V* | *--boot* | *--single* | *--check*) exec $real/postgres "\$@" ;; esac
exec valgrind -q --trace-children=yes --leak-check=no --suppressions=$work/valgrind.supp --log-file=$work/log/%p.log $real/postgres "\$@"
SH
export PG_SERVER_BIN="$work/bin"
trap '"$here/tests/support/pg_server.sh" stop "$work/server" immediate >/dev/null 2>&1; rm -rf "$work"' EXIT
url=$(PG_SERVER_INITDB=1 "$here/tests/support/pg_server.sh" start 15 "$work/server" "shared_preload_libraries=termgate_guard, termgate_shortcuts" fsync=off autovacuum=off)
port=${url##*:} port=${port%%/*}
export PGOPTIONS='-c client_min_messages=warning'
psql() { "$real/psql" -qXAt -h 127.0.0.1 -p "$port" "$@"; }

psql -U postgres -c "CREATE ROLE layer1_owner LOGIN" -c "CREATE ROLE app LOGIN" -c "CREATE DATABASE regression" \
  -c "GRANT CREATE ON DATABASE regression TO layer1_owner"
cat "$here"/sql/postgres/before_install.sql "$here"/sql/postgres/install/*.sql "$here"/sql/postgres/after_install.sql |
  sed -e "s/@schema_lit@/'termgate'/g" -e 's/@schema@/"termgate"/g' >"$work/layer1.sql"
psql -1 -v ON_ERROR_STOP=1 -U layer1_owner -d regression -f "$work/layer1.sql" >/dev/null
psql -U postgres -d regression -c "CREATE EXTENSION termgate_guard SCHEMA termgate" -c "ALTER ROLE app SET termgate.guard = enforce"
mkdir "$work/out"
"$source/src/test/regress/pg_regress" --use-existing --dbname=regression --host=127.0.0.1 --port="$port" --user=postgres --bindir="$real" \
  --inputdir="$here/guard" --outputdir="$work/out" guard || { cat "$work/out/regression.diffs"; exit 1; }
psql -U postgres -d regression -v ON_ERROR_STOP=1 >/dev/null <<'SQL'
SELECT termgate.seal('a', 5), termgate.seal('b', 5), termgate.grant_level('app', 'write');
CREATE TABLE one (id int); CREATE TABLE any_scope (id int); CREATE TABLE rows (scope text, id int);
SELECT termgate.protect('one', scope => 'a'), termgate.protect('any_scope', scope => '*'), termgate.protect('rows', 'scope');
GRANT ALL ON one, any_scope, rows TO app;
SQL
for role in postgres app; do
  psql -U "$role" -d regression >/dev/null 2>&1 <<'SQL'
SET termgate.scope = 'a'; SET termgate.term = 5;
INSERT INTO one VALUES (1); INSERT INTO any_scope VALUES (1); INSERT INTO rows SELECT 'a', g FROM generate_series(1, 50) g;
UPDATE rows SET id = id + 1; UPDATE rows SET scope = 'b'; DELETE FROM rows WHERE id > 40; TRUNCATE one;
SELECT termgate.check_term('a', 5), termgate.check_term('b', 5), termgate.check_term('a', 4);
SELECT termgate.append('s', 5, 'x', NULL, 'a') FROM generate_series(1, 300);
SELECT termgate.append('t' || g, 5, 'x', 0, 'a', gen_random_uuid()) FROM generate_series(1, 20) g;
SELECT termgate.append_many('s', 5, '{x,y}', NULL, 'a'), termgate.append('s', 4, 'x'), termgate.append('s', 5, 'x', 3);
BEGIN; SAVEPOINT p; INSERT INTO one VALUES (1); ROLLBACK TO p; INSERT INTO one VALUES (2); RELEASE p; COMMIT;
BEGIN; SELECT termgate.check_term('b', 5); INSERT INTO any_scope VALUES (2); PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p';
BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT termgate.check_term('a', 5); INSERT INTO one VALUES (3); COMMIT;
DO $$ BEGIN FOR i IN 1..100 LOOP BEGIN INSERT INTO one VALUES (i); RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$;
SET termgate.term = 4; INSERT INTO one VALUES (4); NOTIFY x; SET termgate.term = 'x'; INSERT INTO one VALUES (5);
SET termgate.scope = ''; INSERT INTO one SELECT 1 WHERE termgate.check_term('a', 5) IS NOT NULL; COPY one FROM PROGRAM 'true';
SET termgate.guard_session = on; DISCARD ALL; INSERT INTO rows VALUES ('a', 1);
SQL
done
"$here/tests/support/pg_server.sh" stop "$work/server" fast
if cat "$work"/log/*.log | grep -q .; then cat "$work"/log/*.log | head -100; exit 1; fi
echo "$(find "$work/log" -name '*.log' | wc -l) processes, no complaint"
