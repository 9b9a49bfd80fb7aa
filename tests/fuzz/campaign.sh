#!/usr/bin/env bash
# A fuzzing campaign over all targets, one after the other, on copies of the corpora, and what came of it as a table. Needs the preset fuzz:
#   cmake --preset fuzz && cmake --build --preset fuzz
#
#   tests/fuzz/campaign.sh EXECUTIONS SECONDS [FOLDER]     each target ends with so many executions, or after so many seconds; FUZZ_BUILD: another build than build/fuzz
#   tests/fuzz/campaign.sh --coverage FOLDER               which lines of the project the corpora of FOLDER reach, by folder of the source; builds with clang's coverage in FOLDER/build
#
# FOLDER (default: build/campaign) holds the grown corpora, logs, and whatever was found (crash-*, leak-*, timeout-*). Ends with 1 if something was.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)

coverage() {
  local folder=$1 llvm
  llvm=$(ls /usr/bin/llvm-cov-* 2>/dev/null | sort -V | tail -1)
  [ -n "$llvm" ] || { echo "campaign: llvm-cov is missing (Debian: llvm)" >&2; exit 2; }
  [ -f "$folder/build/build.ninja" ] || cmake -S "$root" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER="${CXX:-clang++}" -DTERMGATE_PCH=OFF -DTERMGATE_PROXY=ON \
    -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2 -g1 -fprofile-instr-generate -fcoverage-mapping" -DTERMGATE_SANITIZE=fuzzer-no-link >"$folder/configure.log"
  local targets=()
  for corpus in "$folder"/corpus/*/; do targets+=("fuzz_$(basename "$corpus")"); done
  cmake --build "$folder/build" --target "${targets[@]}" >"$folder/build.log"
  local objects=()
  for target in "${targets[@]}"; do
    (cd "$folder" && LLVM_PROFILE_FILE="$folder/$target.profraw" "$folder/build/tests/$target" -runs=0 "$folder/corpus/${target#fuzz_}" >"$folder/$target.coverage.log" 2>&1)
    objects+=(-object "$folder/build/tests/$target")
  done
  "${llvm/cov/profdata}" merge -sparse "$folder"/*.profraw -o "$folder/all.profdata"
  "$llvm" export -summary-only -instr-profile "$folder/all.profdata" "${objects[@]}" 2>/dev/null >"$folder/coverage.json"
  python3 - "$folder/coverage.json" "$root" <<'PY'
import collections, json, os, sys
lines = collections.defaultdict(lambda: [0, 0])
for file in json.load(open(sys.argv[1]))["data"][0]["files"]:
    path = os.path.relpath(file["filename"], sys.argv[2])
    if path.startswith("..") or path.startswith(("tests/", "build/")):
        continue
    folder = path.split("/src/")[0].split("/include/")[0] if "/src/" in path or "/include/" in path else path
    lines[folder][0] += file["summary"]["lines"]["covered"]
    lines[folder][1] += file["summary"]["lines"]["count"]
for folder, (covered, count) in sorted(lines.items()):
    print(f"{folder:40} {covered:6} of {count:6} lines  {100 * covered / max(count, 1):5.1f} %")
PY
}

if [ "${1:-}" = --coverage ]; then
  [ $# = 2 ] || { sed -n '5,6p' "$0" >&2; exit 2; }
  coverage "$(cd "$2" && pwd)"
  exit
fi
[ $# -ge 2 ] || { sed -n '5,6p' "$0" >&2; exit 2; }
executions=$1 seconds=$2
mkdir -p "${3:-$root/build/campaign}"
folder=$(cd "${3:-$root/build/campaign}" && pwd)
status=0 total=0
printf '%-26s %12s %10s %9s %10s %s\n' target executions each/s edges features found
for corpus in "$root"/tests/fuzz/corpus/*/; do
  name=$(basename "$corpus") program="${FUZZ_BUILD:-$root/build/fuzz}/tests/fuzz_$(basename "$corpus")" found=none
  python3 "$root/tests/fuzz/corpus.py" unpack "$corpus" "$folder/corpus/$name"
  "$program" -runs="$executions" -max_total_time="$seconds" -print_final_stats=1 -timeout=20 -rss_limit_mb=2048 -artifact_prefix="$folder/$name-" "$folder/corpus/$name" >"$folder/$name.log" 2>&1 || { found="see $folder/$name.log"; status=1; }
  done=$(awk '/number_of_executed_units/ { print $2 }' "$folder/$name.log")
  total=$((total + ${done:-0}))
  printf '%-26s %12s %10s %9s %10s %s\n' "$name" "${done:-?}" "$(awk '/average_exec_per_sec/ { print $2 }' "$folder/$name.log")" "$(grep -oE 'cov: [0-9]+' "$folder/$name.log" | tail -1 | cut -d' ' -f2)" \
    "$(grep -oE 'ft: [0-9]+' "$folder/$name.log" | tail -1 | cut -d' ' -f2)" "$found"
done
echo "executions: $total"
exit $status
