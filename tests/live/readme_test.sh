#!/usr/bin/env bash
# The README's six lines, cut out of it and played by a plain role on a real PostgreSQL; then what it says of them.
#   readme_test.sh TERMGATE_COMMAND README
set -euo pipefail
termgate=$1 readme=$2
server=${TERMGATE_TEST_POSTGRESQL:-}
[ -n "$server" ] || { echo "skipped: TERMGATE_TEST_POSTGRESQL is not set"; exit 77; }
name=readme_$$
psql -qX "$server" -c "CREATE DATABASE $name" -c "CREATE ROLE $name LOGIN"
clean_up() { psql -qX "$server" -c "DROP DATABASE $name WITH (FORCE)" -c "DROP ROLE $name"; }
trap clean_up EXIT
admin=$(printf '%s' "$server" | sed -E "s#/[^/?]*(\\?|\$)#/$name\\1#")
app=$(printf '%s' "$admin" | sed -E "s#//[^@]*@#//$name@#")

psql -qX "$admin" -c "CREATE SCHEMA $name AUTHORIZATION $name"
"$termgate" init --db "$admin" --grant "$name=write"
psql -qX "$app" -v ON_ERROR_STOP=1 -c "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint)" -c "INSERT INTO accounts VALUES (42, 100)"
lines=$(awk '/^```sql/ { on = 1; next } /^```/ { if (on) exit } on' "$readme")
[ "$(printf '%s\n' "$lines" | wc -l)" -eq 6 ] || { echo "the README has no six lines of SQL"; exit 1; }
psql -qX "$app" -v ON_ERROR_STOP=1 <<<"$lines"

expect() {  # expect CODE STATEMENTS: psql must fail with this code
  local said
  if said=$(psql -qX "$app" -v ON_ERROR_STOP=1 -v VERBOSITY=verbose <<<"$2" 2>&1); then echo "not refused: $2"; exit 1; fi
  grep -q "$1" <<<"$said" || { echo "expected $1: $said"; exit 1; }
}
update='UPDATE accounts SET balance = 0;'
expect TG002 "$update"
psql -qX "$app" -c "SELECT termgate.check_term('billing', 6)" >/dev/null
expect TG001 "BEGIN; SET LOCAL termgate.scope = 'billing'; SET LOCAL termgate.term = '5'; $update COMMIT;"
expect 42501 "UPDATE termgate.fences SET term = 1;"
[ "$(psql -qXAt "$app" -c 'SELECT balance FROM accounts')" = 70 ] || { echo "the balance is wrong"; exit 1; }
echo "the six lines do what the README says"
