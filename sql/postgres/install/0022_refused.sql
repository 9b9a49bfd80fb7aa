-- Who was refused as stale. A refusal rolls back everything that its transaction wrote, but a sequence keeps the value that it was set to.
-- So the last eight refused clients are kept in eight places of twelve sequences each, and the next session that reads audit_log writes
-- them to the audit. A refused session takes no lock that a check or a raise waits for.
-- The sequences (words) of a place: 0: in the upper bits a mark that identifies who is refused, in the lower 40 how often; 1: when last, in
-- milliseconds since 1970; 2: hash of the scope; 3: the refused term; 4: OID of the role; 5 to 11: client address and application_name,
-- eight characters each.

-- What the audit has already: word 0 of each place, and in the row of place 0 how many refusals there were in all.
CREATE TABLE IF NOT EXISTS @schema@.refused_known (place integer PRIMARY KEY, word bigint NOT NULL);
INSERT INTO @schema@.refused_known (place, word)
  SELECT p.place, CASE p.place WHEN 0 THEN (SELECT r.count FROM @schema@.refusal_counts r WHERE r.code = 'TG001') ELSE 0 END FROM generate_series(0, 8) p(place)
ON CONFLICT DO NOTHING;

DO $$
BEGIN
  IF to_regclass(format('%I.refused_8_11', @schema_lit@)) IS NULL THEN
    FOR place IN 1..8 LOOP
      FOR word IN 0..11 LOOP
        EXECUTE format('CREATE SEQUENCE IF NOT EXISTS @schema@.refused_%s_%s MINVALUE -9223372036854775808 START 0 OWNED BY @schema@.refused_known.place', place, word);
      END LOOP;
    END LOOP;
  END IF;
END $$;

CREATE OR REPLACE FUNCTION @schema@._refused_at(p_place integer, p_word integer) RETURNS regclass LANGUAGE sql STABLE AS
$$ SELECT pg_catalog.to_regclass(pg_catalog.format('%I.refused_%s_%s', @schema_lit@, p_place, p_word)) $$;
CREATE OR REPLACE FUNCTION @schema@._refused_word(p_place integer, p_word integer) RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT pg_catalog.pg_sequence_last_value(@schema@._refused_at(p_place, p_word)) $$;

-- The mark: 22 bits that identify scope, term, role and client, above the 40 bits of the count; never 0.
CREATE OR REPLACE FUNCTION @schema@._refused_mark(p_scope text, p_term bigint, p_role oid, p_client text) RETURNS bigint
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT (1 + (hashtextextended(concat_ws('|', p_term::text, p_role::text, p_client, p_scope) COLLATE pg_catalog."C", 4) & 4194303) % 4194303) << 40
$$;

-- Records who is refused: in the place that is theirs already, or else in the one that was not used for the longest time.
CREATE OR REPLACE FUNCTION @schema@._note_refused(p_scope text, p_term bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_role oid := to_regrole(quote_ident(session_user));
  v_client text := left(concat_ws(' ', host(inet_client_addr()), nullif(current_setting('application_name'), '')), 56);
  v_mark bigint := @schema@._refused_mark(p_scope, p_term, v_role, v_client);
  v_now bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
  v_place integer;
BEGIN
  IF current_setting('transaction_read_only') = 'on' THEN
    RETURN;
  END IF;
  PERFORM @schema@._guard_own_call(true);
  v_place := (SELECT i FROM generate_series(1, 8) i WHERE @schema@._refused_word(i, 0) >> 40 = v_mark >> 40 LIMIT 1);
  IF v_place IS NULL THEN
    v_place := (SELECT i FROM generate_series(1, 8) i ORDER BY coalesce(@schema@._refused_word(i, 1), 0) LIMIT 1);
    -- Without a mark until the other words are complete.
    PERFORM setval(@schema@._refused_at(v_place, 0), 0), setval(@schema@._refused_at(v_place, 1), v_now),
            setval(@schema@._refused_at(v_place, 2), hashtextextended(p_scope COLLATE pg_catalog."C", 4)),
            setval(@schema@._refused_at(v_place, 3), p_term), setval(@schema@._refused_at(v_place, 4), v_role::bigint);
    -- Address and application_name are ASCII: PostgreSQL makes them so.
    PERFORM setval(@schema@._refused_at(v_place, 5 + i), ('x' || encode(convert_to(substr(rpad(v_client, 56), 1 + 8 * i, 8), 'UTF8'), 'hex'))::bit(64)::bigint)
       FROM generate_series(0, 6) i;
    PERFORM setval(@schema@._refused_at(v_place, 0), v_mark + 1);
  ELSE
    PERFORM nextval(@schema@._refused_at(v_place, 0)), setval(@schema@._refused_at(v_place, 1), v_now);
  END IF;
  PERFORM @schema@._guard_own_call(false);
END $$;

-- What was refused since this was last called: writes it to the audit, and returns it. If this transaction may not write (a standby, READ
-- ONLY, an older snapshot), or if another is writing the same now, the rows are only returned, without an id. Refusals that are in no place
-- any more are returned as a sum without a scope.
CREATE OR REPLACE FUNCTION @schema@._refused_since() RETURNS SETOF @schema@.audit
LANGUAGE plpgsql SECURITY DEFINER ROWS 9 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_all bigint := (SELECT r.count FROM @schema@.refusal_counts r WHERE r.code = 'TG001') - (SELECT k.word FROM @schema@.refused_known k WHERE k.place = 0);
  v_named bigint := 0;
  v_writes boolean := current_setting('transaction_read_only') = 'off' AND current_setting('transaction_isolation') = 'read committed';
  r record;
  a @schema@.audit;
BEGIN
  IF v_all = 0 THEN
    RETURN;
  END IF;
  IF v_writes THEN
    PERFORM FROM @schema@.refused_known k WHERE k.place = 0 FOR UPDATE SKIP LOCKED;
    v_writes := FOUND;
    -- Again under the lock: another session may have written them meanwhile.
    v_all := (SELECT c.count FROM @schema@.refusal_counts c WHERE c.code = 'TG001') - (SELECT k.word FROM @schema@.refused_known k WHERE k.place = 0);
  END IF;
  FOR r IN
    SELECT p.place, p.word, p.word >> 40 AS mark, (p.word & 1099511627775) - CASE WHEN k.word >> 40 = p.word >> 40 THEN k.word & 1099511627775 ELSE 0 END AS count,
           f.scope, p.term, p.role, p.client, p.last
      FROM (SELECT i AS place, @schema@._refused_word(i, 0) AS word, @schema@._refused_word(i, 1) AS last, @schema@._refused_word(i, 2) AS hash,
                   @schema@._refused_word(i, 3) AS term, @schema@._refused_word(i, 4)::oid AS role,
                   (SELECT rtrim(string_agg(convert_from(decode(lpad(to_hex(@schema@._refused_word(i, 5 + w)), 16, '0'), 'hex'), 'UTF8'), '' ORDER BY w)) FROM generate_series(0, 6) w) AS client
              FROM generate_series(1, 8) i WHERE @schema@._refused_word(i, 0) > 0) p
      JOIN @schema@.refused_known k ON k.place = p.place AND k.word <> p.word
      JOIN @schema@.fences f ON hashtextextended(f.scope COLLATE pg_catalog."C", 4) = p.hash
     ORDER BY p.last
  LOOP
    -- Two sessions that took one place at the same moment may have left a mixture.
    CONTINUE WHEN r.count < 1 OR r.mark <> @schema@._refused_mark(r.scope, r.term, r.role, r.client) >> 40;
    a.actor := coalesce((SELECT o.rolname FROM pg_roles o WHERE o.oid = r.role), 'role ' || r.role);
    a."session_user" := a.actor;
    a.client := nullif(r.client, '');
    a.scope := r.scope;
    a.detail := jsonb_build_object('term', r.term, 'count', r.count, 'last', to_timestamp(r.last / 1000.0), 'from', 'database');
    IF v_writes THEN
      UPDATE @schema@.refused_known k SET word = r.word WHERE k.place = r.place;
    END IF;
    v_named := v_named + r.count;
    RETURN NEXT @schema@._refused_row(a, v_writes);
  END LOOP;
  IF v_all > v_named THEN
    a.actor := 'others';
    a."session_user" := a.actor;
    a.client := NULL;
    a.scope := NULL;
    a.detail := jsonb_build_object('count', v_all - v_named, 'from', 'database');
    RETURN NEXT @schema@._refused_row(a, v_writes);
  END IF;
  IF v_writes THEN
    UPDATE @schema@.refused_known k SET word = k.word + greatest(v_all, v_named) WHERE k.place = 0;
  END IF;
END $$;
CREATE OR REPLACE FUNCTION @schema@._refused_row(p_row @schema@.audit, p_writes boolean) RETURNS @schema@.audit
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  a @schema@.audit := p_row;
BEGIN
  a.at := clock_timestamp();
  a.action := 'refuse';
  IF p_writes THEN
    INSERT INTO @schema@.audit (at, actor, "session_user", client, action, scope, detail)
    VALUES (a.at, a.actor, a."session_user", a.client, a.action, a.scope, a.detail) RETURNING id INTO a.id;
  END IF;
  RETURN a;
END $$;

CREATE OR REPLACE VIEW @schema@.audit_log AS
  SELECT a.id, a.at, a.actor, a."session_user", a.client, a.action, a.scope, a.detail FROM @schema@.audit a
  UNION ALL
  SELECT r.id, r.at, r.actor, r."session_user", r.client, r.action, r.scope, r.detail FROM @schema@._refused_since() r;
