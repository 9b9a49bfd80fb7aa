#!/usr/bin/env bash
# Peak memory of `termgate append --lines` and `termgate read` over many writes of 1 KiB: both go through them in pieces, so it must not grow
# with their number. Ends with status 1 when a peak is above the goal of 64 MiB.
#
#   memory.sh TERMGATE URL [WRITES]      WRITES: 1000000
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
termgate=$1 url=$2 writes=${3:-1000000}
goal_kib=65536
[ -x /usr/bin/time ] || { echo "memory.sh: /usr/bin/time is missing: apt install time" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stream="memory-$$-$RANDOM"
"$termgate" init --db "$url" >/dev/null

lines() { awk -v n="$writes" 'BEGIN { line = "x"; while (length(line) < 1015) line = line "x"; for (i = 1; i <= n; i++) printf "%08d %s\n", i, line }'; }
status=0
judge() {
  local peak; peak=$(cat "$work/peak")
  echo "$1: peak $((peak / 1024)) MiB over $writes writes of 1 KiB, $2 s"
  [ "$peak" -le "$goal_kib" ] || { echo "memory.sh: $1 took more than $((goal_kib / 1024)) MiB" >&2; status=1; }
}

started=$SECONDS
lines | /usr/bin/time -f %M -o "$work/peak" "$termgate" append --db "$url" --stream "$stream" --term 1 --lines >"$work/last"
[ "$(cat "$work/last")" = "$writes" ] || { echo "memory.sh: append ended at number $(cat "$work/last")" >&2; exit 1; }
judge "append --lines" $((SECONDS - started))

started=$SECONDS
/usr/bin/time -f %M -o "$work/peak" "$termgate" read --db "$url" --stream "$stream" --raw >"$work/read"
judge read $((SECONDS - started))
cmp <(lines) "$work/read" || { echo "memory.sh: what was read is not what was appended" >&2; status=1; }

"$termgate" prune --db "$url" --stream "$stream" --keep-last 0 >/dev/null
exit "$status"
