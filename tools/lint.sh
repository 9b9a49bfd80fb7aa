# !/usr/bin/env bash clang-tidy on C++ sources that changed, and on nothing else: older sources are checked when they change. Fails on what
# .clang-tidy lists as errors; the rest are warnings.
#
#   tools/lint.sh [COMMIT]         since COMMIT; default: since main, or since the last commit on main itself
#   tools/lint.sh --files FILE …   these sources
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-tidy >/dev/null || { echo "lint: clang-tidy is missing (Debian: clang-tidy)" >&2; exit 2; }
if [ "${1:-}" = --files ]; then
  files=("${@:2}")
else
  since=${1:-}
  if [ -z "$since" ]; then
    since=$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)
    [ "$since" != "$(git rev-parse HEAD)" ] || since=$(git rev-parse HEAD~1)
  fi
  changed=$(git diff --name-only --diff-filter=d "$since" -- '*.cpp')
  [ -n "$changed" ] || { echo "lint: no C++ source changed since $since"; exit 0; }
  mapfile -t files <<<"$changed"
fi
[ -f build/debug/compile_commands.json ] || cmake --preset debug >/dev/null
cmake --build --preset debug --target termgate_sql >/dev/null  # sources include what it generates
# A source that is part of no target here is left out.
for file in "${files[@]}"; do
  if grep -qF "$PWD/$file\"" build/debug/compile_commands.json; then printf '%s\0' "$file"; fi
done | xargs -0 -r -n 1 -P "$(nproc)" clang-tidy --quiet -p build/debug || { echo "lint: see the errors above" >&2; exit 1; }
