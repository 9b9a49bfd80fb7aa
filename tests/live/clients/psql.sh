#!/bin/sh
# psql and its script; PGHOST, PGPORT, PGOPTIONS come from the caller. Numbers that differ by nature are covered up.
cd "$(dirname "$0")" || exit 1
psql -X -a -f psql.sql 2>&1 | sed -E 's/server process with PID [0-9]+/server process with PID N/; s/^(psql:psql\.sql:[0-9]+: )/\1/; s/pg_temp_[0-9]+/pg_temp_N/g; s/pg_toast_[0-9]+/pg_toast_N/g'
