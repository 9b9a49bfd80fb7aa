# Run by other_release.sh inside the other release: the tests of /build.
bin=$(echo /usr/lib/postgresql/*/bin)
major=$(basename "$(dirname "$bin")")
as_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups env HOME=/tmp "$@"; }
rm -rf /tmp/pg
as_postgres "$bin/initdb" -A trust -U postgres -D /tmp/pg >/dev/null
as_postgres "$bin/pg_ctl" -w -D /tmp/pg -l /tmp/pg.log -o "-c listen_addresses=127.0.0.1 -c unix_socket_directories=/tmp -c fsync=off -c max_connections=300" start >/dev/null
trap 'as_postgres "$bin/pg_ctl" -w -m immediate -D /tmp/pg stop >/dev/null' EXIT
export TERMGATE_TEST_POSTGRESQL=postgresql://postgres@127.0.0.1:5432/postgres
export "TERMGATE_TEST_POSTGRESQL_$major=$TERMGATE_TEST_POSTGRESQL"
"$bin/postgres" --version
ctest --test-dir /build -R "^(unit_postgres|conformance_(sqlite_.*|postgresql_$major))$" --parallel 2 --output-on-failure
/build/termgate demo --db "$TERMGATE_TEST_POSTGRESQL"
