#!/bin/sh
# pgbench, its own script and one with a pipeline, in all three modes; then what the tables hold, which does not depend on the order of the clients.
set -e
psql -Xq -c 'DROP TABLE IF EXISTS pgbench_accounts, pgbench_branches, pgbench_tellers, pgbench_history' 2>/dev/null
pgbench -i -q -s 1 2>&1 | grep -vE 'done in|of [0-9]+ tuples|NOTICE|^$' || true
for mode in simple extended prepared; do
  echo "mode $mode"
  pgbench -n -c 4 -j 2 -t 40 -M $mode 2>&1 | grep -E 'processed|failed|error|mode'
  pgbench -n -c 2 -t 40 -S -M $mode 2>&1 | grep -E 'processed|failed|error'
done
script=$(mktemp); trap 'rm -f "$script"' EXIT
cat >"$script" <<'SQL'
\startpipeline
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, 1, 1, '2026-01-01');
SELECT count(*) FROM pgbench_branches;
UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;
SELECT 1;
\endpipeline
\startpipeline
BEGIN;
UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 1;
SELECT tbalance FROM pgbench_tellers WHERE tid = 1;
COMMIT;
\endpipeline
SQL
for mode in extended prepared; do
  echo "pipeline, mode $mode"
  pgbench -n -c 2 -t 40 -M $mode -f "$script" 2>&1 | grep -E 'processed|failed|error'
done
psql -XAt -c "SELECT count(*), sum(delta) FILTER (WHERE mtime = '2026-01-01') FROM pgbench_history" \
  -c 'SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history WHERE mtime <> $$2026-01-01$$)' \
  -c 'SELECT (SELECT sum(bbalance) FROM pgbench_branches) - (SELECT sum(delta) FROM pgbench_history)'
