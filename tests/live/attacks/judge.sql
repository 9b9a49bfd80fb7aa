-- What the random attacker writes to, and its judge. Run by a superuser on a server with track_commit_timestamp = on and layer 1.
--
-- Each row that the attacker commits says in its columns what was in force when it was written: cs, ct from the comment of its
-- statement (the attacker puts in both), ws, wt from the settings. A deferred trigger adds, at the commit, what the settings
-- say then and which scopes' locks the session holds. The history of the fences is written by a trigger on them.
-- Commit times decide what was current: whoever holds a scope's lock commits before its fence is raised.
DROP SCHEMA IF EXISTS attack CASCADE;
CREATE SCHEMA attack;
CREATE TABLE attack.rows (id bigserial PRIMARY KEY, label bigint, way text, cs text, ct text, ws text DEFAULT current_setting('termgate.scope', true), wt text DEFAULT current_setting('termgate.term', true));
CREATE TABLE attack.verdicts (id bigint PRIMARY KEY, xid xid, gs text, gt text, held text[]);
CREATE TABLE attack.keys (scope text, classid oid, objid oid, objsubid smallint, PRIMARY KEY (scope, classid, objid, objsubid));
CREATE TABLE attack.raises (scope text, term bigint, xid xid);
CREATE INDEX ON attack.raises (scope, term);
CREATE TABLE attack.scratch (v text);
CREATE TABLE attack.target (worker int, v text); INSERT INTO attack.target SELECT i, 'x' FROM generate_series(0, 16) i;
CREATE SEQUENCE attack.seq;

-- In layer 1's schema, or the database would have code of its own that speaks of terms, and so no seats. A seat in a scope is as good as
-- its lock: a raise waits for both.
CREATE OR REPLACE FUNCTION termgate.attack_at_commit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
  INSERT INTO attack.verdicts VALUES (NEW.id, pg_current_xact_id()::xid, current_setting('termgate.scope', true), current_setting('termgate.term', true),
    (SELECT array_agg(held.scope) FROM (
      SELECT k.scope FROM pg_locks l JOIN attack.keys k ON k.classid = l.classid AND k.objid = l.objid AND k.objsubid = l.objsubid
       WHERE l.locktype = 'advisory' AND l.pid = pg_backend_pid() AND l.granted
      UNION SELECT s.scope FROM termgate.seats s WHERE s.pid = pg_backend_pid()) held));
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON attack.rows DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION termgate.attack_at_commit();

CREATE FUNCTION attack.on_raise() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
  INSERT INTO attack.raises VALUES (NEW.scope, NEW.term, pg_current_xact_id()::xid);
  RETURN NULL;
END $$;
CREATE TRIGGER attack_on_raise AFTER INSERT OR UPDATE ON termgate.fences FOR EACH ROW EXECUTE FUNCTION attack.on_raise();
ALTER TABLE termgate.fences ENABLE ALWAYS TRIGGER attack_on_raise;
INSERT INTO attack.raises SELECT scope, term, pg_current_xact_id()::xid FROM termgate.fences;

-- Takes what was committed and says what should not have been.
CREATE FUNCTION attack.judge(mode text) RETURNS TABLE (label bigint, way text, reason text, detail text) LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
  RETURN QUERY
  WITH taken AS (DELETE FROM attack.rows RETURNING *), seen AS (DELETE FROM attack.verdicts v USING taken t WHERE v.id = t.id RETURNING v.*),
  claims AS (
    SELECT t.id, t.label, t.way, s.xid, s.held, 'written' AS at, coalesce(nullif(t.cs, ''), t.ws) AS scope, CASE WHEN nullif(t.cs, '') IS NULL THEN t.wt ELSE t.ct END AS term FROM taken t JOIN seen s USING (id)
    UNION ALL
    SELECT t.id, t.label, t.way, s.xid, s.held, 'committed', s.gs, s.gt FROM taken t JOIN seen s USING (id) WHERE nullif(t.cs, '') IS NULL AND (s.gs, s.gt) IS DISTINCT FROM (t.ws, t.wt)
  ), judged AS (
    SELECT c.*, pg_xact_commit_timestamp(c.xid) AS moment, coalesce(c.scope, '') = '' OR coalesce(c.term, '') = '' AS undeclared,
      c.term ~ '^[1-9][0-9]{0,18}$' AND c.term::numeric <= 4611686018427387904 AS well_formed FROM claims c
  ), named AS (
    SELECT j.*, CASE
      WHEN j.undeclared AND (j.at = 'committed' OR judge.mode = 'allow' OR j.held IS NOT NULL) THEN NULL
      WHEN j.undeclared THEN 'no claim and no check'
      WHEN NOT j.well_formed THEN 'a malformed claim'
      WHEN EXISTS (SELECT 1 FROM attack.raises r WHERE r.scope = j.scope AND r.term > j.term::bigint AND r.xid <> j.xid AND pg_xact_commit_timestamp(r.xid) < j.moment) THEN 'a stale claim'
      WHEN EXISTS (SELECT 1 FROM attack.keys k WHERE k.scope = j.scope) AND NOT (j.scope = ANY (coalesce(j.held, '{}'))) THEN 'a claim that was not checked'
      WHEN NOT EXISTS (SELECT 1 FROM attack.raises r WHERE r.scope = j.scope AND r.term >= j.term::bigint AND (r.xid = j.xid OR pg_xact_commit_timestamp(r.xid) <= j.moment)) THEN 'a claim above the fence'
      END AS why FROM judged j
  )
  SELECT n.label, n.way, n.why || ' when ' || n.at, format('%s/%s, fence %s, held %s, at %s', n.scope, n.term, (SELECT max(r.term) FROM attack.raises r WHERE r.scope = n.scope AND pg_xact_commit_timestamp(r.xid) <= n.moment), n.held, n.moment)
  FROM named n WHERE n.why IS NOT NULL
  UNION ALL
  SELECT t.label, t.way, 'a row without a verdict', '' FROM taken t WHERE NOT EXISTS (SELECT 1 FROM seen s WHERE s.id = t.id);
END $$;

-- Ways to write.
CREATE FUNCTION attack.w(label bigint, way text, cs text, ct text) RETURNS bigint LANGUAGE sql VOLATILE AS 'INSERT INTO attack.rows (label, way, cs, ct) VALUES ($1, $2, $3, $4) RETURNING id';
CREATE FUNCTION attack.folded(label bigint, way text, cs text, ct text) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RETURN attack.w($1, $2, $3, $4); END$$;  -- by the planner
CREATE FUNCTION attack.many(label bigint, way text, cs text, ct text) RETURNS SETOF bigint LANGUAGE plpgsql AS $$BEGIN FOR i IN 1..3 LOOP RETURN NEXT attack.w($1, $2, $3, $4); END LOOP; END$$;
CREATE FUNCTION attack.caught(label bigint, way text, cs text, ct text) RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RETURN attack.w($1, $2, $3, $4); EXCEPTION WHEN OTHERS THEN RETURN 0; END$$;
CREATE FUNCTION attack.packed(packed text, i int DEFAULT 0) RETURNS text LANGUAGE plpgsql AS $$
BEGIN PERFORM attack.w(split_part(packed, '|', 1)::bigint, split_part(packed, '|', 2), split_part(packed, '|', 3), split_part(packed, '|', 4)); RETURN packed; END$$;
CREATE FUNCTION attack.packed_true(packed text) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN PERFORM attack.packed(packed); RETURN true; END$$;
CREATE FUNCTION attack.sum(state text, packed text) RETURNS text LANGUAGE sql AS 'SELECT attack.packed($2)';
CREATE OPERATOR attack.<<% (LEFTARG = text, RIGHTARG = int, FUNCTION = attack.packed);
CREATE DOMAIN attack.dom AS text CHECK (attack.packed_true(VALUE));
CREATE VIEW attack.viewed AS SELECT attack.packed(p) FROM (SELECT current_setting('attack.packed') AS p) s;  -- writes, and its text does not show it
CREATE TYPE attack.boxed AS (d attack.dom);  -- its literals run the CHECK when they are parsed
CREATE AGGREGATE attack.agg (text) (SFUNC = attack.sum, STYPE = text, INITCOND = '');
CREATE TYPE attack.cell AS (v text);
CREATE FUNCTION attack.to_cell(packed text) RETURNS attack.cell LANGUAGE sql AS 'SELECT ROW(attack.packed($1))::attack.cell';
CREATE CAST (text AS attack.cell) WITH FUNCTION attack.to_cell(text);
CREATE FUNCTION attack.run(sql text) RETURNS int LANGUAGE plpgsql AS 'BEGIN EXECUTE sql; RETURN 1; END';
CREATE PROCEDURE attack.execute(sql text) LANGUAGE plpgsql AS 'BEGIN EXECUTE sql; END';
CREATE FUNCTION attack.harmless() RETURNS int LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE 'x'; RETURN 1; END$$;
CREATE FUNCTION attack.declare(scope text, term text, local boolean) RETURNS text LANGUAGE sql AS $$SELECT set_config('termgate.scope', $1, $3) || set_config('termgate.term', $2, $3)$$;
CREATE PROCEDURE attack.declaring(scope text, term text, local boolean) LANGUAGE plpgsql AS $$BEGIN PERFORM attack.declare(scope, term, local); END$$;
CREATE FUNCTION attack.declare_and_write(scope text, term text, label bigint) RETURNS bigint LANGUAGE plpgsql AS $$BEGIN PERFORM attack.declare(scope, term, true); RETURN attack.w(label, 'declares and writes in a function', NULL, NULL); END$$;
-- What the proxy prepared in the session is replaced by what always passes.
CREATE FUNCTION attack.forge() RETURNS int LANGUAGE plpgsql AS $f$
DECLARE s record; types text; BEGIN
  FOR s IN SELECT name, statement, parameter_types FROM pg_prepared_statements WHERE statement ~ 'check_|hold_' AND statement !~ '^PREPARE' AND name NOT IN ('p', 's1', 's2') LOOP
    EXECUTE format('DEALLOCATE %I', s.name);
    types := array_to_string(s.parameter_types, ',');
    EXECUTE format('PREPARE %I %s AS SELECT %s', s.name, CASE WHEN types = '' THEN '' ELSE '(' || types || ')' END,
      CASE WHEN s.statement ~ '_session' THEN '''forged''::text, 9::bigint, 9::bigint' ELSE '9::bigint' END);
  END LOOP;
  RETURN 1;
EXCEPTION WHEN OTHERS THEN RETURN 0; END $f$;
CREATE FUNCTION attack.lower(int) RETURNS int LANGUAGE sql AS 'SELECT attack.forge()';
CREATE FUNCTION attack.forged(text) RETURNS boolean LANGUAGE sql AS 'SELECT attack.forge() >= 0';
CREATE DOMAIN attack.forging AS text CHECK (attack.forged(VALUE));
CREATE VIEW attack.forger AS SELECT attack.forge();
GRANT SELECT ON attack.forger TO PUBLIC;
CREATE VIEW attack.ruled AS SELECT label, way, cs, ct FROM attack.rows;
CREATE RULE r AS ON INSERT TO attack.ruled DO INSTEAD INSERT INTO attack.rows (label, way, cs, ct) VALUES (NEW.label, NEW.way, NEW.cs, NEW.ct);
CREATE TABLE attack.triggered (label bigint, way text, cs text, ct text);
CREATE TABLE attack.late (label bigint, way text, cs text, ct text);
CREATE FUNCTION attack.on_triggered() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM attack.w(NEW.label, NEW.way, NEW.cs, NEW.ct); RETURN NULL; END$$;
CREATE TRIGGER t AFTER INSERT ON attack.triggered FOR EACH ROW EXECUTE FUNCTION attack.on_triggered();
CREATE CONSTRAINT TRIGGER t AFTER INSERT ON attack.late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION attack.on_triggered();
GRANT USAGE ON SCHEMA attack TO PUBLIC;
GRANT ALL ON attack.rows, attack.scratch, attack.target, attack.triggered, attack.late, attack.ruled TO PUBLIC;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA attack TO PUBLIC;
