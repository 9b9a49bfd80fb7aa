#!/usr/bin/env bash
# Measures this commit, and records what the docs quote: tests/bench/history/COMMIT.json, the table of docs/evidence/benchmarks.md and the plot.
# Some twenty minutes on a machine that does nothing else. Needs what ./test installs, and the command built of this commit.
#
#   tests/bench/track.sh [SET …]      sets: tests/bench/figures.py sets; default all. Those of a commit add up.
#
# TERMGATE: the command (build/termgate). Everything listens on loopback and is stopped at the end.
set -euo pipefail
cd "$(dirname "$0")/../.."
# A figure belongs to a commit. What track.sh itself has written may be there.
changed=$(git status --porcelain -- ':!tests/bench/history' ':!docs/evidence/benchmarks.md' ':!docs/images/figures.svg')
[ -z "$changed" ] || { echo "track.sh: this folder differs from its commit" >&2; exit 1; }
export TERMGATE=${TERMGATE:-$PWD/build/termgate}
[ -x "$TERMGATE" ] || { echo "track.sh: there is no $TERMGATE: ./run build" >&2; exit 1; }
mapfile -t known < <(tests/bench/figures.py sets)
for set in "$@"; do
  [[ " ${known[*]} " == *" $set "* ]] || { echo "track.sh: there is no set \"$set\": ${known[*]}" >&2; exit 2; }
done
[ $# -gt 0 ] || set -- "${known[@]}"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/termgate-track.XXXXXX")
chmod 755 "$scratch"
server=
stop_server() {
  [ -z "$server" ] || tests/support/pg_server.sh stop "$scratch/pg" immediate >/dev/null 2>&1 || true
  server=
}
trap 'stop_server; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
# A server of its own for each set, with layer 1: what one leaves behind slows no other.
postgresql() {
  stop_server
  rm -rf "$scratch/pg"
  server=$(tests/support/pg_server.sh start 15 "$scratch/pg" "$@")
  "$TERMGATE" init --db "$server" >/dev/null
}
measure() {
  local major=15
  case "$1" in
    library)
      postgresql fsync=off
      "$TERMGATE" bench --json --db "$server" --durable no --batches 1 --writers 1,8 --seconds 4 --rounds 5 --scenario unfenced --scenario library-execute
      ;;
    sqlite)
      "$TERMGATE" init --db "sqlite:$scratch/scratch.db" >/dev/null
      "$TERMGATE" bench --json --db "sqlite:$scratch/scratch.db" --writers 1,64 --batches 1 --rounds 5 --scenario unfenced --scenario textbook \
        --scenario check-insert --scenario append
      ;;
    takeover)
      postgresql
      "$TERMGATE" bench takeover --json --db "$server"
      ;;
    statement)
      postgresql fsync=off
      /usr/bin/python3 tests/bench/protected_statement.py "$server" --rounds 7 --count 200
      ;;
    guard)
      mkdir "$scratch/guard"
      for folder in guard guard/shortcuts; do
        [ ! -d "$folder" ] || make -s -C "$scratch/guard" -f "$PWD/$folder/Makefile" "VPATH=$PWD/$folder" "PG_CONFIG=/usr/lib/postgresql/$major/bin/pg_config" >&2
      done
      /usr/bin/python3 tests/bench/guard_goals.py --library "$scratch/guard/termgate_guard.so" --termgate "$TERMGATE" --rounds 7 --seconds 3 protected
      ;;
    proxy) tests/bench/proxy_bench.py 3 5 select_prepared insert_prepared ;;
  esac
}
mkdir "$scratch/printed"
for set in "$@"; do
  echo "== $set"
  # Not through a pipe: the server that is started has to be known here.
  measure "$set" >"$scratch/printed/$set"
  cat "$scratch/printed/$set"
done
tests/bench/figures.py record "$scratch/printed"
tests/bench/figures.py write
