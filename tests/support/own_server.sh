#!/usr/bin/env bash
# Runs a command with a PostgreSQL 15 of its own in place of the one that ./test shares among tests, so that it can run beside others.
#
#   own_server.sh COMMAND …
#
# Only where TERMGATE_TEST_OWN_SERVERS is set, as ./test does; else the command meets the server that TERMGATE_TEST_POSTGRESQL names, or skips.
set -euo pipefail
if [ -z "${TERMGATE_TEST_OWN_SERVERS:-}" ]; then exec "$@"; fi
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/termgate-own.XXXXXX")
chmod 755 "$folder"
stop() {
  "$here/pg_server.sh" stop "$folder/pg" immediate >/dev/null 2>&1 || true
  rm -rf "$folder"
}
trap stop EXIT
trap 'exit 130' INT TERM
url=$("$here/pg_server.sh" start 15 "$folder/pg" fsync=off)
export TERMGATE_TEST_POSTGRESQL="$url" TERMGATE_TEST_POSTGRESQL_15="$url"
status=0
"$@" || status=$?
exit "$status"
