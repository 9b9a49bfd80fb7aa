#!/usr/bin/env bash
# Installs the build into a scratch folder, builds tests/package and the C++ recipe of docs/use/testkit.md against it, and runs them on every database
# that is at hand.   package_test.sh BUILD_DIR TERMGATE_COMMAND
set -euo pipefail
build=$1 command=$2
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/termgate-package.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/installed" >/dev/null
flags=$(grep '^TERMGATE_SANITIZE:' "$build/CMakeCache.txt" | cut -d= -f2)
mkdir "$scratch/testkit"
cp "$here/stale_leader_test.cpp" "$here/../../docs/use/recipes/CMakeLists.txt" "$scratch/testkit"
for project in "$here" "$scratch/testkit"; do
  cmake -S "$project" -B "$scratch/build/$(basename "$project")" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/installed" -DCMAKE_BUILD_TYPE=Debug \
    ${flags:+-DCMAKE_CXX_FLAGS="-fsanitize=$flags" -DCMAKE_EXE_LINKER_FLAGS="-fsanitize=$flags"} >/dev/null
  cmake --build "$scratch/build/$(basename "$project")" >/dev/null
done

play() {
  export TERMGATE_DB=$1
  "$command" init
  "$command" exec --scope billing --term 1 'CREATE TABLE accounts (id integer PRIMARY KEY, balance bigint NOT NULL)' \
    'INSERT INTO accounts VALUES (42, 100)'
  "$scratch/build/package/billing"
  "$command" lease force-release --scope billing --actor package_test --reason "its leader has gone"
  "$scratch/build/package/handles"
  "$scratch/build/package/leader"
  "$scratch/build/package/follower"
  [ ! -x "$scratch/build/package/source" ] || ELECTED_FILE="$scratch/elected" "$scratch/build/package/source"
  "$command" verify
}
play "sqlite:$scratch/billing.db"
"$scratch/build/testkit/stale_leader_test"   # also on the server of TERMGATE_TEST_POSTGRESQL, where there is one
TERMGATE_TEST_POSTGRESQL='' "$scratch/build/testkit/stale_leader_test"
if [ -n "${TERMGATE_TEST_POSTGRESQL:-}" ]; then
  name=package_$$
  psql -qX "$TERMGATE_TEST_POSTGRESQL" -c "CREATE DATABASE $name"
  play "$(printf '%s' "$TERMGATE_TEST_POSTGRESQL" | sed -E "s#/[^/?]*(\\?|\$)#/$name\\1#")"
  if [ -x "$scratch/build/package/odbc_check" ]; then
    port=$(printf '%s' "$TERMGATE_TEST_POSTGRESQL" | sed -E 's#^[^/]*//[^/]*:([0-9]+).*#\1#')
    "$scratch/build/package/odbc_check" "Driver={PostgreSQL Unicode};Server=127.0.0.1;SSLmode=disable;UID=postgres;Port=$port;Database=$name"
    "$command" verify
  fi
  psql -qX "$TERMGATE_TEST_POSTGRESQL" -c "DROP DATABASE $name WITH (FORCE)"
fi
