#!/usr/bin/env bash
# The proxy before an SQLite file, in one run against what it is measured by. Prints a line a scenario: what, termgate, the other, the ratio (medians of ROUNDS, taken in turn; the least and the greatest ratio of a round).
#
#   tests/bench/sqlite_server_bench.sh [SECONDS [ROUNDS [SCENARIO …]]]      default 3 5, all
#
#   select_prepared, select_simple   pgbench -S, 8 clients; the other: a PostgreSQL 15 asked directly, the same rows
#   insert        durable fenced single-row INSERTs of 64 clients; the other: one SQLite connection that commits each (WAL, synchronous = FULL), with no fence and no network
#   tpcb          pgbench's own transactions, 8 clients, durable; the other: PostgreSQL 15, unfenced
#
# FLUSH_MS: what a flush takes at least (default 0: as the disk has it): a disk whose writes go to a cache that survives a power cut flushes in microseconds, a plain SSD in 1 to 10 ms. Done by a
# library before fdatasync and fsync of the proxy and of the other alike; needs cc.
# OTHER_TERMGATE: another build of the command, which serves a file of its own: every scenario is then compared with it (the order alternates).
# TERMGATE: the command (build/termgate). DIR: a folder on the disk that is meant (default: a new one in TMPDIR). Everything listens on loopback and is stopped at the end.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
seconds=${1:-3} rounds=${2:-5}
shift $(( $# > 2 ? 2 : $# ))
wanted=" ${*:-select_prepared select_simple insert tpcb} "
termgate=${TERMGATE:-$here/build/termgate}
work=$(mktemp -d ${DIR:+-p "$DIR"})
chmod 755 "$work"
bin=$("$here/tests/support/pg_server.sh" bin 15)

cleanup() {
  set +e
  [ -n "${proxy_pid:-}" ] && kill "$proxy_pid" 2>/dev/null
  [ -n "${other_pid:-}" ] && kill "$other_pid" 2>/dev/null
  wait 2>/dev/null
  "$here/tests/support/pg_server.sh" stop "$work/server" fast >/dev/null 2>&1
  rm -rf "$work"
}
trap cleanup EXIT

preload=
if [ "${FLUSH_MS:-0}" != 0 ]; then
  cat >"$work/flush.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
static int slow(const char* name, int descriptor) {
  const long us = (long)(atof(getenv("FLUSH_MS")) * 1000);
  const struct timespec wait = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&wait, 0);
  return ((int (*)(int))dlsym(RTLD_NEXT, name))(descriptor);
}
int fdatasync(int descriptor) { return slow("fdatasync", descriptor); }
int fsync(int descriptor) { return slow("fsync", descriptor); }
C
  cc -shared -fPIC -O2 -o "$work/flush.so" "$work/flush.c" -ldl
  preload=$work/flush.so
fi
url=$("$here/tests/support/pg_server.sh" start 15 "$work/server" shared_buffers=256MB)
server_port=${url##*:}; server_port=${server_port%%/*}
export PGHOST=127.0.0.1 PGUSER=postgres PGDATABASE=postgres PGOPTIONS='-c termgate.scope=bench -c termgate.term=7'
serve() { # command, file: sets port and pid
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  "$1" init --db "sqlite:$work/$2" >/dev/null
  LD_PRELOAD=$preload "$1" proxy --listen "127.0.0.1:$port" --backend "sqlite:$work/$2" --log-level warning >"$work/proxy.log" 2>&1 &
  pid=$!
  for _ in $(seq 100); do PGPORT=$port psql -XAtc 'select 1' >/dev/null 2>&1 && break; sleep 0.1; done
  PGPORT=$port psql -XAtc 'select 1' >/dev/null || { cat "$work/proxy.log"; exit 1; }
}
serve "$termgate" app.db
proxy_port=$port proxy_pid=$pid
if [ -n "${OTHER_TERMGATE:-}" ]; then
  serve "$OTHER_TERMGATE" other.db
  server_port=$port other_pid=$pid
fi
for port in $server_port $proxy_port; do
  PGPORT=$port "$bin/pgbench" -i -q -s 5 >/dev/null 2>&1
  PGPORT=$port psql -Xqc 'CREATE TABLE bench (id bigserial PRIMARY KEY, v text)'
done
echo "INSERT INTO bench (v) VALUES ('row');" >"$work/insert.sql"

tps() { PGPORT=$1 "$bin/pgbench" -n -T "$seconds" "${@:2}" 2>"$work/pgbench.log" | sed -n 's/^tps = \([0-9.]*\).*/\1/p' || { tail -3 "$work/pgbench.log" >&2; return 1; }; }
one_commit_each() {
  LD_PRELOAD=$preload python3 - "$work/plain.db" "$seconds" <<'PY'
import sqlite3, sys, time
file = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "CREATE TABLE IF NOT EXISTS bench (id integer PRIMARY KEY, v text)"):
    file.execute(statement)
count, begin = 0, time.monotonic()
while time.monotonic() - begin < float(sys.argv[2]):
    file.execute("INSERT INTO bench (v) VALUES (?)", ("row",))
    count += 1
print(f"{count / (time.monotonic() - begin):.1f}")
PY
}
median() { sort -n | awk '{ a[NR] = $1 } END { print NR % 2 ? a[(NR + 1) / 2] : (a[NR / 2] + a[NR / 2 + 1]) / 2 }'; }
compare() { # name, ours, the other: commands
  case $wanted in *" $1 "*) ;; *) return ;; esac
  local ours=() other=()
  for round in $(seq "$rounds"); do
    if ((round % 2)); then ours+=("$($2)"); other+=("$($3)"); else other+=("$($3)"); ours+=("$($2)"); fi
  done
  local a b
  a=$(printf '%s\n' "${ours[@]}" | median) b=$(printf '%s\n' "${other[@]}" | median)
  # Of the rounds: a machine that is slow for a while is slow for both sides of a round.
  local ratios
  ratios=$(paste <(printf '%s\n' "${ours[@]}") <(printf '%s\n' "${other[@]}") | awk '{ printf "%.3f\n", $1 / $2 }')
  printf '%-18s termgate %10.1f   other %10.1f   ratio %.2f (%.2f to %.2f)\n' "$1" "$a" "$b" "$(median <<<"$ratios")" "$(sort -n <<<"$ratios" | head -1)" "$(sort -n <<<"$ratios" | tail -1)"
}
prepared() { tps "$1" -S -M prepared -c 8 -j 2; }
simple() { tps "$1" -S -c 8 -j 2; }
tpcb() { tps "$1" -M prepared -c 8 -j 2; }
ours_prepared() { prepared "$proxy_port"; }; other_prepared() { prepared "$server_port"; }
ours_simple() { simple "$proxy_port"; }; other_simple() { simple "$server_port"; }
ours_tpcb() { tpcb "$proxy_port"; }; other_tpcb() { tpcb "$server_port"; }
inserts() { tps "$1" -f "$work/insert.sql" -M prepared -c 64 -j 2; }
ours_insert() { inserts "$proxy_port"; }; other_insert() { inserts "$server_port"; }
[ -n "${OTHER_TERMGATE:-}" ] || other_insert() { one_commit_each; }
compare select_prepared ours_prepared other_prepared
compare select_simple ours_simple other_simple
compare insert ours_insert other_insert
compare tpcb ours_tpcb other_tpcb
