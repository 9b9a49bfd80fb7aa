#!/usr/bin/env bash
# What protect() costs a partitioned table of one scope: 20,000 rows in one INSERT over four partitions, and single rows, into an unprotected table and into one protected by this
# tree's layer 1 and by that of each commit that is named, taking turns in one session. Each layer 1 has a schema of its own.
#
#   protect_partitions.sh URL [COMMIT…]      URL: a database that may be written to; role: who may CREATE there
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
url=$1; shift
cd "$(dirname "$0")/../.."

psql_() { PGOPTIONS='-c client_min_messages=warning' psql -qX -v ON_ERROR_STOP=1 "$url" "$@"; }
layers="cost_plain cost_tree"
drop() { psql_ -c "DROP SCHEMA IF EXISTS cost_tables CASCADE" >/dev/null; for one in $layers; do psql_ -c "DROP SCHEMA IF EXISTS $one CASCADE" >/dev/null; done; }
trap drop EXIT
install() { sed "s/@schema_lit@/'$1'/g; s/@schema@/\"$1\"/g" | psql_ -1 >/dev/null; }

for commit in "$@"; do layers="$layers cost_$(git rev-parse --short "$commit")"; done
drop
cat sql/postgres/install/*.sql | install cost_tree
for commit in "$@"; do
  git ls-tree --name-only "$commit" sql/postgres/install/ | sort | while read -r file; do git show "$commit:$file"; done | install "cost_$(git rev-parse --short "$commit")"
done

psql_ -v layers="$layers" <<'SQL'
SELECT set_config('cost.layers', :'layers', false) AS layers;
CREATE SCHEMA cost_tables;
DO $$
DECLARE
  l text; many boolean; round integer; i integer; begun timestamptz;
BEGIN
  CREATE TEMP TABLE result (layer text, what text, ms numeric);
  FOREACH l IN ARRAY string_to_array(current_setting('cost.layers'), ' ') LOOP
    EXECUTE format('CREATE TABLE cost_tables.%I (id bigint, v text) PARTITION BY RANGE (id)', l);
    FOR i IN 0..3 LOOP
      EXECUTE format('CREATE TABLE cost_tables.%I PARTITION OF cost_tables.%I FOR VALUES FROM (%s) TO (%s)', l || i, l, i * 5000, (i + 1) * 5000);
    END LOOP;
    CONTINUE WHEN l = 'cost_plain';
    EXECUTE format('SELECT %I.seal(''cost'', 5)', l);
    EXECUTE format('SELECT %I.protect(%L, scope => ''cost'')', l, 'cost_tables.' || l);
  END LOOP;
END $$;
DO $$
DECLARE
  l text; many boolean; round integer; i integer; begun timestamptz;
BEGIN
  PERFORM set_config('termgate.scope', 'cost', true), set_config('termgate.term', '5', true);
  FOR round IN 1..9 LOOP
    FOREACH many IN ARRAY ARRAY[true, false] LOOP
      FOREACH l IN ARRAY string_to_array(current_setting('cost.layers'), ' ') LOOP
        begun := clock_timestamp();
        IF many THEN
          EXECUTE format('INSERT INTO cost_tables.%I SELECT n, ''x'' FROM generate_series(0, 19999) n', l);
        ELSE
          FOR i IN 1..500 LOOP EXECUTE format('INSERT INTO cost_tables.%I VALUES (%s, ''x'')', l, i * 39); END LOOP;
        END IF;
        INSERT INTO result VALUES (l, CASE WHEN many THEN '20,000 rows at once' ELSE '500 rows one by one' END, extract(epoch FROM clock_timestamp() - begun) * 1000);
        EXECUTE format('DELETE FROM cost_tables.%I', l);
      END LOOP;
    END LOOP;
  END LOOP;
END $$;
SELECT what, layer, round(min(ms), 1) AS "least ms", round(percentile_cont(0.5) WITHIN GROUP (ORDER BY ms)::numeric, 1) AS "median ms" FROM result GROUP BY what, layer ORDER BY what, 3;
SQL
