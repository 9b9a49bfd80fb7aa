#!/usr/bin/env bash
# A fuzzing campaign over all targets, one after the other, on copies of the corpora, and what came of it as a table. Needs the preset fuzz:
#   cmake --preset fuzz && cmake --build --preset fuzz
#
#   tests/fuzz/campaign.sh EXECUTIONS SECONDS [FOLDER]     each target ends with so many executions, or after so many seconds
#
# FOLDER (default: build/campaign) holds the grown corpora, logs, and whatever was found (crash-*, leak-*, timeout-*). Ends with 1 if something was.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)

[ $# -ge 2 ] || { sed -n '5p' "$0" >&2; exit 2; }
executions=$1 seconds=$2
mkdir -p "${3:-$root/build/campaign}"
folder=$(cd "${3:-$root/build/campaign}" && pwd)
status=0 total=0
printf '%-26s %12s %10s %9s %10s %s\n' target executions each/s edges features found
for corpus in "$root"/tests/fuzz/corpus/*/; do
  name=$(basename "$corpus") program="$root/build/fuzz/tests/fuzz_$(basename "$corpus")" found=none
  python3 "$root/tests/fuzz/corpus.py" unpack "$corpus" "$folder/corpus/$name"
  "$program" -runs="$executions" -max_total_time="$seconds" -print_final_stats=1 -timeout=20 -rss_limit_mb=2048 -artifact_prefix="$folder/$name-" "$folder/corpus/$name" >"$folder/$name.log" 2>&1 || { found="see $folder/$name.log"; status=1; }
  done=$(awk '/number_of_executed_units/ { print $2 }' "$folder/$name.log")
  total=$((total + ${done:-0}))
  printf '%-26s %12s %10s %9s %10s %s\n' "$name" "${done:-?}" "$(awk '/average_exec_per_sec/ { print $2 }' "$folder/$name.log")" "$(grep -oE 'cov: [0-9]+' "$folder/$name.log" | tail -1 | cut -d' ' -f2)" \
    "$(grep -oE 'ft: [0-9]+' "$folder/$name.log" | tail -1 | cut -d' ' -f2)" "$found"
done
echo "executions: $total"
exit $status
