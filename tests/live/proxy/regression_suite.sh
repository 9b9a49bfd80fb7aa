#!/usr/bin/env bash
# PostgreSQL's own regression and isolation suites through the proxy [F7], every session with a current term: what they print must be the
# same as directly. By hand, for it needs PostgreSQL's source, configured and built, and a server of that major (for the guard one that has
# the extension: ./run extension PG_CONFIG).
#
#   tests/live/proxy/regression_suite.sh guard|seats SOURCE PG_CONFIG [regress|isolation] [SCHEDULE]
#
# TERMGATE: the command (build/termgate). Each suite runs on servers of its own that have layer 1 in the suite's database: directly; for
# `guard` directly and guarded; and through `termgate proxy`, with `--guard require` or with `--seats eager`. Prints how many files were
# compared and which differ, with the differences in files that KEEP names (a folder); exits 1 where what the proxy's run printed differs
# from the guarded run's, or for seats from the direct run's.
set -euo pipefail
[ $# -ge 3 ] && [[ "$1" = guard || "$1" = seats ]] || { sed -n '2,12p' "$0" >&2; exit 2; }
way=$1
shift
source=$1 config=$2 suites=${3:-regress isolation}
if [ "$way" = guard ]; then
  owner=LOGIN direct=(plain guarded) options=(--guard require) settings=("shared_preload_libraries=termgate_guard, termgate_shortcuts")
else
  direct=(plain) options=(--seats eager --guard off) settings=()
  # The suite logs in as superuser, and only a superuser may end such a session.
  owner=SUPERUSER
fi
here=$(cd "$(dirname "$0")/../../.." && pwd)
termgate=${TERMGATE:-$here/build/termgate}
work=$(mktemp -d)
chmod 755 "$work"
export PG_SERVER_BIN
PG_SERVER_BIN=$("$config" --bindir)
major=$("$config" --version | grep -o '[0-9]*' | head -1)
proxy=
stop() {
  [ -z "$proxy" ] || { kill "$proxy" 2>/dev/null; wait "$proxy" 2>/dev/null || true; proxy=; }
  "$here/tests/support/pg_server.sh" stop "$work/server" immediate >/dev/null 2>&1 || true
  rm -rf "$work/server"
}
trap 'stop; rm -rf "$work"' EXIT
cat "$here"/sql/postgres/before_install.sql "$here"/sql/postgres/install/*.sql "$here"/sql/postgres/after_install.sql |
  sed -e "s/@schema_lit@/'termgate'/g" -e 's/@schema@/"termgate"/g' >"$work/layer1.sql"

start() { # DATABASE
  local url
  url=$(PG_SERVER_INITDB=1 "$here/tests/support/pg_server.sh" start "$major" "$work/server" ${settings[@]+"${settings[@]}"} fsync=off \
    max_prepared_transactions=10 wal_level=logical)
  port=${url##*:} port=${port%%/*}
  psql=("$PG_SERVER_BIN/psql" -qXAt -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$port")
  "${psql[@]}" -U postgres -d postgres -c "CREATE ROLE layer1_owner LOGIN $owner" -c "CREATE DATABASE $1 TEMPLATE template0 LOCALE 'C'" \
    -c "GRANT CREATE ON DATABASE $1 TO layer1_owner" -c "ALTER DATABASE $1 SET lc_messages = 'C'"
  PGOPTIONS="-c client_min_messages=warning" "${psql[@]}" -1 -U layer1_owner -d "$1" -f "$work/layer1.sql" >/dev/null
  if [ "$way" = seats ]; then
    # Of each role that the suite makes.
    "${psql[@]}" -U postgres -d "$1" -c "GRANT USAGE ON SCHEMA termgate TO PUBLIC" -c "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA termgate TO PUBLIC"
  else
    "${psql[@]}" -U postgres -d "$1" -c "CREATE EXTENSION termgate_guard SCHEMA termgate"
  fi
  "${psql[@]}" -U postgres -d "$1" -c "SELECT termgate.seal('suite', 5)" >/dev/null
}

run() { # SUITE KIND SCHEDULE: the suite's output goes to $work/SUITE.KIND
  local database=regression words=("$source/src/test/regress/pg_regress" --dlpath="$source/src/test/regress") folder=$source/src/test/$1
  if [ "$1" = isolation ]; then
    database=isolation_regression
    words=("$source/src/test/isolation/pg_isolation_regress")
  fi
  start "$database"
  case $2 in
    plain) export PGOPTIONS="-c termgate.scope=suite -c termgate.term=5" ;;
    guarded) export PGOPTIONS="-c termgate.guard_session=on -c termgate.scope=suite -c termgate.term=5" ;;
    proxy)
      export PGOPTIONS="-c termgate.scope=suite -c termgate.term=5"
      local listen=127.0.0.1:0
      "$termgate" proxy --listen "$listen" --backend "postgresql://postgres@127.0.0.1:$port/$database" --http 127.0.0.1:0 "${options[@]}" >"$work/proxy.log" 2>&1 &
      proxy=$!
      local server=$port
      port=
      for ((i = 0; i < 600 && ${#port} == 0; ++i)); do
        sleep 0.1
        port=$(grep -oE 'listening address=127.0.0.1:[0-9]+' "$work/proxy.log" | grep -oE '[0-9]+$' | head -1 || true)
      done
      http=$(grep -oE 'serving_http address=127.0.0.1:[0-9]+' "$work/proxy.log" | grep -oE '[0-9]+$' || true)
      [ -n "$port" ] || { cat "$work/proxy.log" >&2; exit 1; }
      ;;
  esac
  # The same name in each run, for the suite prints it; and the server writes files there.
  mkdir -p "$work/out/results"
  chmod 1777 "$work/out/results"
  if [ "$(id -u)" = 0 ]; then chown "$(stat -c %U "$work/server")" "$work/out"; fi
  "${words[@]}" --use-existing --dbname="$database" --host=127.0.0.1 --port="$port" --user=postgres --bindir="$PG_SERVER_BIN" \
    --inputdir="$folder" --outputdir="$work/out" --schedule="$folder/$3" >"$work/out/log" 2>&1 || true
  mv "$work/out" "$work/$1.$2"
  [ -z "${KEEP:-}" ] || { mkdir -p "$KEEP"; cp "$work/proxy.log" "$KEEP/" 2>/dev/null || true; }
  unset PGOPTIONS
  if [ "$2" = proxy ] && [ "$way" = seats ]; then
    echo "transactions, and those that were checked: $(curl -s "http://127.0.0.1:$http/metrics" | sed -n 's/^termgate_\(fenced_\)\?transactions_total //p' | tr '\n' ' ')"
  fi
  echo "$1, $2: $(grep -E 'tests (passed|failed)|^# (All|[0-9]+ of)' "$work/$1.$2/log" | tr -s ' ' | tail -1)"
  if grep -E 'TRAP|PANIC|was terminated by signal' "$work/server/data/server.log"; then exit 1; fi
  stop
}

status=0
for suite in $suites; do
  for kind in "${direct[@]}" proxy; do
    run "$suite" "$kind" "${4:-$(if [ "$suite" = isolation ]; then echo isolation_schedule; else echo parallel_schedule; fi)}"
  done
  for other in "${direct[@]}"; do
    differ=()
    for file in "$work/$suite.$other"/results/*.out; do
      # Shows the advisory locks of all sessions, those of the checks of tests that run beside it among them.
      [ "$(basename "$file")" != advisory_lock.out ] || continue
      cmp -s "$file" "$work/$suite.proxy/results/$(basename "$file")" || differ+=("$(basename "$file" .out)")
    done
    echo "$suite: $(ls "$work/$suite.$other"/results/*.out | wc -l) files; through the proxy and $other differ: ${differ[*]:-none}"
    if [ "$other" = "${direct[-1]}" ] && [ ${#differ[@]} -gt 0 ]; then status=1; fi
    if [ -n "${KEEP:-}" ]; then
      mkdir -p "$KEEP"
      for name in "${differ[@]}"; do
        diff -u "$work/$suite.$other/results/$name.out" "$work/$suite.proxy/results/$name.out" >"$KEEP/$suite.$other.$name.diff" || true
      done
    fi
  done
done
exit $status
