#!/usr/bin/env bash
# The proxy in front of an SQLite file beside PostgreSQL 15 over TCP, and 64 writers beside one, in turns of one run. Prints a line a
# scenario: operations a second (medians of ROUNDS) and the ratio.
#
#   tests/bench/hrana_bench.sh [SECONDS [ROUNDS]]      default 3 5
#
# reads: SELECT of one of a million rows by its key, 8 connections that are kept: `wrk` against /v2/pipeline, one execute with an argument
# and a close, and `pgbench -S -M prepared -s 10`. writes: a fenced INSERT, flushed before it is answered, by 64 connections and by one.
# TERMGATE: the command (build/termgate). FLUSH_MS: so long each flush of the proxy's takes at least (0). Needs wrk and pgbench. Everything listens on loopback and is stopped at the end.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
seconds=${1:-3} rounds=${2:-5}
termgate=${TERMGATE:-$here/build/termgate}
work=$(mktemp -d)
chmod 755 "$work"
cleanup() {
  set +e
  [ -n "${proxy_pid:-}" ] && kill "$proxy_pid" 2>/dev/null
  wait 2>/dev/null
  "$here/tests/support/pg_server.sh" stop "$work/server" fast >/dev/null 2>&1
  rm -rf "$work"
}
trap cleanup EXIT

url=$("$here/tests/support/pg_server.sh" start 15 "$work/server" shared_buffers=512MB)
export PGHOST=127.0.0.1 PGUSER=postgres PGDATABASE=postgres
PGPORT=${url##*:} PGPORT=${PGPORT%%/*}
export PGPORT
bin=$("$here/tests/support/pg_server.sh" bin 15)
"$bin/pgbench" -i -q -s 10 >"$work/init.log" 2>&1

file=$work/app.db
"$termgate" init --db "sqlite:$file" >/dev/null
sqlite3 "$file" >/dev/null <<'SQL'
CREATE TABLE accounts (aid INTEGER PRIMARY KEY, bid INTEGER, abalance INTEGER, filler TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000000)
INSERT INTO accounts SELECT i, i / 100000, 0, substr(hex(zeroblob(42)), 1, 84) FROM n;
CREATE TABLE written (id INTEGER PRIMARY KEY, v TEXT);
SQL
cat >"$work/flush.c" <<C
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
int fsync(int file) { usleep(${FLUSH_MS:-0} * 1000); return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file); }
int fdatasync(int file) { usleep(${FLUSH_MS:-0} * 1000); return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(file); }
C
cc -shared -fPIC -o "$work/flush.so" "$work/flush.c" -ldl
LD_PRELOAD="$work/flush.so" "$termgate" proxy --backend "sqlite:$file" --listen 127.0.0.1:0 --log-level info >"$work/proxy.log" 2>&1 &
proxy_pid=$!
for _ in $(seq 100); do grep -q listening "$work/proxy.log" && break || sleep 0.1; done
port=$(grep -oE 'listening address=\S+:[0-9]+' "$work/proxy.log" | grep -oE '[0-9]+$')

cat >"$work/read.lua" <<'LUA'
wrk.method = "POST"
request = function()
  local body = '{"requests":[{"type":"execute","stmt":{"sql":"SELECT abalance FROM accounts WHERE aid = ?","args":[{"type":"integer","value":"'
    .. math.random(1, 1000000) .. '"}]}},{"type":"close"}]}'
  return wrk.format(nil, nil, nil, body)
end
LUA
cat >"$work/write.lua" <<'LUA'
wrk.method = "POST"
wrk.headers["Authorization"] = "Bearer tg.1.bench."
wrk.body = '{"requests":[{"type":"execute","stmt":{"sql":"INSERT INTO written (v) VALUES (?)","args":[{"type":"text","value":"x"}]}},{"type":"close"}]}'
LUA
load() { # SCRIPT CONNECTIONS
  wrk -t "$(($2 > 1 ? 2 : 1))" -c "$2" -d "${seconds}s" -s "$work/$1.lua" "http://127.0.0.1:$port/v2/pipeline" >"$work/wrk.log"
  if grep -q 'Non-2xx' "$work/wrk.log"; then cat "$work/wrk.log" >&2; exit 1; fi
  awk '/Requests\/sec/ { print $2 }' "$work/wrk.log"
}
pgbench_reads() { "$bin/pgbench" -n -S -M prepared -c 8 -j 2 -T "$seconds" | awk '/^tps/ { print $3 }'; }
load write 1 >/dev/null
answer=$(curl -s "http://127.0.0.1:$port/v2/pipeline" -d '{"requests":[{"type":"execute","stmt":{"sql":"SELECT aid FROM accounts WHERE aid = 77"}}]}')
[[ $answer == *'"value":"77"'* ]] || { echo "the proxy answers $answer" >&2; exit 1; }
for _ in $(seq "$rounds"); do
  load read 8 >>"$work/reads"
  pgbench_reads >>"$work/pgbench"
  load write 64 >>"$work/many"
  load write 1 >>"$work/one"
done
median() { sort -g "$work/$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
echo "reads: 8 connections $(median reads)/s, pgbench -S $(median pgbench)/s, ratio $(ratio "$(median reads)" "$(median pgbench)")"
echo "writes: 64 connections $(median many)/s, one $(median one)/s, ratio $(ratio "$(median many)" "$(median one)")"
rows=$(sqlite3 "$file" 'SELECT count(*) FROM written')
echo "rows written: $rows"
