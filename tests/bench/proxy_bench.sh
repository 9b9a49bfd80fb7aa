#!/usr/bin/env bash
# The proxy against PgBouncer in session mode, on one PostgreSQL 15 in this run; both with one server session a client, no TLS.
# Prints a line a scenario: what, termgate, pgbouncer, their ratio (medians of ROUNDS, taken in turn), direct for comparison.
#
#   tests/bench/proxy_bench.sh [SECONDS [ROUNDS [SCENARIO …]]]      default 3 5, all
#
# SETTINGS: of the server, "fsync=off" for instance; by default commits are durable. SOCKET=1: the proxy reaches the server by its Unix socket. OPTIONS: of the proxy, "--seats off" for instance. TERMGATE: the command (build/termgate). Needs pgbouncer and pgbench. Everything listens on loopback and is stopped at the end.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
seconds=${1:-3} rounds=${2:-5}
settings=${SETTINGS:-}
shift $(( $# > 2 ? 2 : $# ))
wanted=" ${*:-select_simple select_extended select_prepared insert insert_prepared update update_prepared copy_in copy_out rows refusals cpu idle} "
termgate=${TERMGATE:-$here/build/termgate}
work=$(mktemp -d)
chmod 755 "$work"
bin=$("$here/tests/support/pg_server.sh" bin 15)
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

cleanup() {
  set +e
  [ -n "${proxy_pid:-}" ] && kill "$proxy_pid" 2>/dev/null
  [ -n "${bouncer_pid:-}" ] && kill "$bouncer_pid" 2>/dev/null
  wait 2>/dev/null
  "$here/tests/support/pg_server.sh" stop "$work/server" fast >/dev/null 2>&1
  rm -rf "$work"
}
trap cleanup EXIT

url=$("$here/tests/support/pg_server.sh" start 15 "$work/server" max_connections=1200 shared_buffers=256MB $settings)
server_port=${url##*:}; server_port=${server_port%%/*}
"$termgate" init --db "$url" >/dev/null
proxy_port=$(port)
backend=$url
[ -z "${SOCKET:-}" ] || backend="postgresql://postgres@/postgres?host=$work/server&port=$server_port"
"$termgate" proxy --listen "127.0.0.1:$proxy_port" --backend "$backend" --max-connections 2000 --log-level warning ${OPTIONS:-} >"$work/proxy.log" 2>&1 &
proxy_pid=$!
bouncer_port=$(port)
cat >"$work/pgbouncer.ini" <<INI
[databases]
postgres = host=127.0.0.1 port=$server_port dbname=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $bouncer_port
unix_socket_dir =
auth_type = any
pool_mode = session
default_pool_size = 1100
max_client_conn = 2000
ignore_startup_parameters = extra_float_digits,options
log_connections = 0
log_disconnections = 0
INI
sed -i "s/^postgres = .*/& user=postgres/" "$work/pgbouncer.ini"
if [ "$(id -u)" = 0 ]; then
  chmod 644 "$work/pgbouncer.ini"
  setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups /usr/sbin/pgbouncer "$work/pgbouncer.ini" >"$work/pgbouncer.log" 2>&1 &
else
  /usr/sbin/pgbouncer "$work/pgbouncer.ini" >"$work/pgbouncer.log" 2>&1 &
fi
bouncer_pid=$!
export PGHOST=127.0.0.1 PGUSER=postgres PGDATABASE=postgres
for _ in $(seq 100); do
  PGPORT=$proxy_port psql -XAtc 'select 1' >/dev/null 2>&1 && PGPORT=$bouncer_port psql -XAtc 'select 1' >/dev/null 2>&1 && break
  sleep 0.1
done
PGPORT=$proxy_port psql -XAtc "select 1" >/dev/null || { cat "$work/proxy.log"; exit 1; }
PGPORT=$bouncer_port psql -XAtc "select 1" >/dev/null || { cat "$work/pgbouncer.log"; exit 1; }
declared='-c termgate.scope=bench -c termgate.term=7'
PGPORT=$server_port "$bin/pgbench" -i -q -s 10 >/dev/null 2>&1
PGPORT=$server_port psql -Xqc "create table bench (id bigint generated always as identity, v text)" -c "create table copied (i int, v text)" -c "create table wide as select i, repeat('x', 100) as v from generate_series(1, 200000) i"
echo "\\set aid random(1, 1000000)
INSERT INTO bench (v) VALUES ('row');" >"$work/insert.sql"
echo "\\set aid random(1, 1000000)
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;" >"$work/update.sql"
PGPORT=$server_port psql -Xqc '\copy wide to stdout' >"$work/wide.txt"

# One figure: transactions a second of pgbench, or runs a second of a command.
tps() { PGPORT=$1 PGOPTIONS=${declaration-$declared} "$bin/pgbench" -n -T "$seconds" -c 8 -j 2 "${@:2}" 2>/dev/null | sed -n 's/^tps = \([0-9.]*\).*/\1/p'; }
rate() { # port, psql arguments: one run, in runs a second
  local begin end
  begin=$(date +%s.%N); PGPORT=$1 PGOPTIONS=$declared psql -XAtq "${@:2}" >/dev/null; end=$(date +%s.%N)
  python3 -c "print(1 / ($end - $begin))"
}
median() { sort -g | awk '{ a[NR] = $1 } END { print (NR % 2) ? a[(NR + 1) / 2] : (a[NR / 2] + a[NR / 2 + 1]) / 2 }'; }
compare() { # name, function, its arguments after the port
  local name=$1 run=$2
  shift 2
  case "$wanted" in *" $name "*) ;; *) return 0 ;; esac
  : >"$work/t"; : >"$work/b"; : >"$work/d"
  for _ in $(seq "$rounds"); do
    "$run" "$proxy_port" "$@" >>"$work/t"
    "$run" "$bouncer_port" "$@" >>"$work/b"
    "$run" "$server_port" "$@" >>"$work/d"
  done
  local t b d
  t=$(median <"$work/t") b=$(median <"$work/b") d=$(median <"$work/d")
  printf '%-16s termgate %10.1f   pgbouncer %10.1f   ratio %.2f   direct %10.1f\n' "$name" "$t" "$b" "$(python3 -c "print($t / $b)")" "$d"
}

compare select_simple tps -S -M simple
compare select_extended tps -S -M extended
compare select_prepared tps -S -M prepared
compare insert tps -M simple -f "$work/insert.sql"
compare insert_prepared tps -M prepared -f "$work/insert.sql"
compare update tps -M simple -f "$work/update.sql"
compare update_prepared tps -M prepared -f "$work/update.sql"
compare copy_in rate -c "truncate copied" -c "\\copy copied from '$work/wide.txt'"
compare copy_out rate -c "\\copy wide to stdout"
compare rows rate -c "select * from wide"

# Refusals from memory against accepted writes, both through the proxy; 8 clients that ask again at once.
case "$wanted" in *" refusals "*)
  cat >"$work/refused.py" <<'PY'
import os, socket, struct, sys, threading, time
port, seconds, term = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
def client(counts, i):
    s = socket.create_connection(("127.0.0.1", port)); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    options = f"-c termgate.scope=bench -c termgate.term={term}"
    body = struct.pack("!i", 196608) + b"".join(x.encode() + b"\0" for x in ("user", "postgres", "database", "postgres", "options", options)) + b"\0"
    s.sendall(struct.pack("!i", len(body) + 4) + body)
    seen = b""
    while not (len(seen) >= 6 and seen[-6:-1] == b"Z\0\0\0\5"): seen += s.recv(65536)
    q = b"INSERT INTO bench (v) VALUES ('row')\0"; q = b"Q" + struct.pack("!i", len(q) + 4) + q
    end = time.time() + seconds
    while time.time() < end:
        s.sendall(q); seen = s.recv(65536)
        while seen[-6:-1] != b"Z\0\0\0\5": seen += s.recv(65536)
        counts[i] += 1
counts = [0] * 8
threads = [threading.Thread(target=client, args=(counts, i)) for i in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sum(counts) / seconds)
PY
  : >"$work/t"; : >"$work/b"
  for _ in $(seq "$rounds"); do
    python3 "$work/refused.py" "$proxy_port" "$seconds" 6 >>"$work/t"
    python3 "$work/refused.py" "$proxy_port" "$seconds" 7 >>"$work/b"
  done
  t=$(median <"$work/t") b=$(median <"$work/b")
  printf '%-16s refused  %10.1f   accepted  %10.1f   ratio %.2f\n' refusals "$t" "$b" "$(python3 -c "print($t / $b)")" ;;
esac

# Processor time of a single-row INSERT by process: fenced through the proxy, and unfenced on the server itself.
case "$wanted" in *" cpu "*)
  cat >"$work/cpu.py" <<'PY'
import os, subprocess, sys, time
proxy, postmaster, pgbench, script, seconds = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], float(sys.argv[5])
def spent(pids):
    total = 0
    for pid in pids:
        try:
            fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        except OSError:
            pass
    return total / os.sysconf("SC_CLK_TCK")
def children(parent):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1]) == parent: found.append(int(pid))
        except OSError:
            pass
    return found
for name, port in (("fenced, proxy", sys.argv[6]), ("plain, direct", sys.argv[7])):
    run = subprocess.Popen([pgbench, "-n", "-T", str(int(seconds) + 2), "-c", "8", "-j", "2", "-M", "prepared", "-f", script, "-p", port], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    time.sleep(1)
    who = {"server": children(postmaster), "proxy": [proxy], "pgbench": [run.pid]}
    before = {k: spent(v) for k, v in who.items()}
    time.sleep(seconds)
    after = {k: spent(v) for k, v in who.items()}
    tps = float(next(l for l in run.communicate()[0].splitlines() if l.startswith("tps")).split()[2])
    print(f"cpu              {name}: " + ", ".join(f"{k} {(after[k] - before[k]) / seconds / tps * 1e6:.0f} us" for k in who) + " a transaction")
PY
  PGOPTIONS=$declared python3 "$work/cpu.py" "$proxy_pid" "$(head -1 "$work/server/data/postmaster.pid")" "$bin/pgbench" "$work/insert.sql" "$seconds" "$proxy_port" "$server_port" ;;
esac

# What 1,000 idle clients cost the proxy.
case "$wanted" in *" idle "*)
  python3 - "$proxy_port" "$proxy_pid" <<'PY'
import socket, struct, sys
port, pid = int(sys.argv[1]), sys.argv[2]
rss = lambda: int(next(l for l in open(f"/proc/{pid}/status") if l.startswith("VmRSS")).split()[1])
before, held = rss(), []
for _ in range(1000):
    s = socket.create_connection(("127.0.0.1", port))
    body = struct.pack("!i", 196608) + b"user\0postgres\0database\0postgres\0\0"
    s.sendall(struct.pack("!i", len(body) + 4) + body)
    seen = b""
    while not (len(seen) >= 6 and seen[-6:-1] == b"Z\0\0\0\5"): seen += s.recv(65536)
    held.append(s)
print(f"idle             1000 clients: {(rss() - before) / 1024:.1f} MiB more than before")
PY
;;
esac
