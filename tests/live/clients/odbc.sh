#!/bin/sh
# The ODBC program, compiled once a run of the tests into $CLIENT_BUILD; once with the driver's own cursors, once with the server's.
set -e
cd "$(dirname "$0")"
[ -x "$CLIENT_BUILD/odbc" ] || cc -o "$CLIENT_BUILD/odbc" odbc.c -lodbc
for driver in /usr/lib/*/odbc/psqlodbcw.so; do
  for more in "" "UseDeclareFetch=1;Fetch=2" "UseServerSidePrepare=0" "Protocol=7.4-1"; do
    echo "with: $more"
    "$CLIENT_BUILD/odbc" "Driver=$driver;Server=$PGHOST;Port=$PGPORT;Database=$PGDATABASE;UID=$PGUSER;SSLmode=disable;$more"
  done
done
