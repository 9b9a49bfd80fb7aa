#!/usr/bin/env bash
# A project that adds Termgate's sources as docs/use/install.md shows it, in place of find_package: its own test is the only one that it gets, and
# neither Termgate's tests nor the command are built with it. With --long it is built, on SQLite alone, and its test is run.   subproject_test.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/termgate-subproject.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
fail() { echo "subproject_test: $*" >&2; exit 1; }

cp "$here/stale_leader_test.cpp" "$scratch"
ln -s "$root" "$scratch/termgate"
sed -n '/^```cmake$/,/^```$/p' "$root/docs/use/install.md" | sed '/^```/d' >"$scratch/added.cmake"
grep -q FetchContent_MakeAvailable "$scratch/added.cmake" || fail "docs/use/install.md does not show FetchContent"
sed "/^find_package(Termgate /{r $scratch/added.cmake
d}" "$root/docs/use/recipes/CMakeLists.txt" >"$scratch/CMakeLists.txt"
options=(-G Ninja -DCMAKE_BUILD_TYPE=Debug -DTERMGATE_UNITY=ON)
[ -z "${TERMGATE_TEST_LONG:-}" ] || options+=(-DTERMGATE_POSTGRESQL=OFF -DTERMGATE_ODBC=OFF)
cmake -S "$scratch" -B "$scratch/build" "${options[@]}" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "it does not configure"; }
ninja -C "$scratch/build" -t targets all >"$scratch/targets"
grep -q '^stale_leader_test: ' "$scratch/targets" || fail "its own program is missing"
! grep -E 'termgate_catch|/tests/|termgate_command|conformance' "$scratch/targets" || fail "it builds what is Termgate's own"
ctest --test-dir "$scratch/build" -N | grep -q '^Total Tests: 1$' || fail "it has tests of Termgate's"
ninja -C "$scratch/build" -n stale_leader_test >/dev/null || fail "something that its program needs cannot be built"
[ -z "${TERMGATE_TEST_LONG:-}" ] && exit 0
cmake --build "$scratch/build" --target stale_leader_test >/dev/null
TERMGATE_TEST_POSTGRESQL='' ctest --test-dir "$scratch/build" --output-on-failure
