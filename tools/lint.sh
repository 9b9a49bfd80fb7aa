#!/usr/bin/env bash
# clang-tidy on C++ sources that changed, and on nothing else: what is old is looked at when it is touched.
#
#   tools/lint.sh [COMMIT]    since COMMIT; default: since main, or since the last commit on main itself
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-tidy >/dev/null || { echo "lint: clang-tidy is missing (Debian: clang-tidy)" >&2; exit 2; }
since=${1:-}
if [ -z "$since" ]; then
  since=$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)
  [ "$since" != "$(git rev-parse HEAD)" ] || since=$(git rev-parse HEAD~1)
fi
mapfile -t files < <(git diff --name-only --diff-filter=d "$since" -- '*.cpp')
[ ${#files[@]} -gt 0 ] || { echo "lint: no C++ source changed since $since"; exit 0; }
[ -f build/debug/compile_commands.json ] || cmake --preset debug >/dev/null
status=0
for file in "${files[@]}"; do
  grep -qF "$PWD/$file\"" build/debug/compile_commands.json || continue  # part of no target here
  clang-tidy --quiet -p build/debug "$file" || status=1
done
exit "$status"
