# Run by other_release.sh inside the other release: the tests of /build. Each server that a test starts is that release's own PostgreSQL, whatever major it
# names: the other majors come from a registry, and there is no network here.
cd /src
PG_SERVER_BIN=$(echo /usr/lib/postgresql/*/bin)
export PG_SERVER_BIN PATH="$PG_SERVER_BIN:$PATH" TERMGATE_TEST_OWN_SERVERS=1
major=$(basename "$(dirname "$PG_SERVER_BIN")")
rm -rf /tmp/pg
TERMGATE_TEST_POSTGRESQL=$(tests/support/pg_server.sh start "$major" /tmp/pg fsync=off max_connections=300)
export TERMGATE_TEST_POSTGRESQL "TERMGATE_TEST_POSTGRESQL_$major=$TERMGATE_TEST_POSTGRESQL"
trap 'tests/support/pg_server.sh stop /tmp/pg immediate >/dev/null' EXIT
"$PG_SERVER_BIN/postgres" --version
live='harness|cli|json|refused|demo|drill|follow|followers|run|inherited|jobs|inside|handles|testkit|leader_loop|postgres|pg_.*|sqlite_.*|verify_history|storm'
ctest --test-dir /build -R "^(unit_.*|sim_.*|conformance_sqlite_.*|conformance_postgresql_$major|live_($live))$" --parallel 3 --output-on-failure
/build/termgate demo --db "$TERMGATE_TEST_POSTGRESQL"
