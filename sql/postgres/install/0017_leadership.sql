-- What holders of many leases call. Time is clock_timestamp(), read after the locks. Keeps F2, F3.

-- renew_leases(leases) → one row for each, in order. outcome: renewed; lost; busy (another session is working on that lease: try again at
-- once); or untrusted (F3). leave_before: as in renew_lease. `leases` is a JSON array of {"scope", "owner", "term", "ttl_ms"}, no scope
-- twice. One transaction for all of them. It waits for no acquisition and no other renewal: a lease whose key or row one of them holds is
-- busy. Locks: the key and the row of each lease, as in renew_lease, to the end of the transaction; so at most 500 in a call.
-- The settings make it find leases by their keys: the planner would read all leases and all fences once there are a few thousand. Arrays
-- are joined by the lease's place, because a join by scope would compare each with each.
DROP FUNCTION IF EXISTS @schema@.renew_leases(json);  -- up to version 23 without leave_before
CREATE FUNCTION @schema@.renew_leases(leases json, OUT place bigint, OUT outcome text, OUT expires_at timestamptz, OUT leave_before timestamptz) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  v_scopes text[];
  v_owners text[];
  v_terms bigint[];
  v_ttls bigint[];
  v_keyed boolean[];
  v_locked boolean[];
  v_untrusted bigint[];
  v_outcomes text[];
  v_expires timestamptz[];
  v_leave timestamptz[];
  v_place integer;
BEGIN
  IF leases IS NULL OR json_typeof(leases) <> 'array' THEN
    RAISE EXCEPTION 'TG005 the leases to renew must be a JSON array' USING ERRCODE = 'TG005';
  ELSIF json_array_length(leases) > 500 THEN
    RAISE EXCEPTION 'TG005 % leases in one call: at most 500 are allowed', json_array_length(leases) USING ERRCODE = 'TG005';
  END IF;
  SELECT array_agg(a.scope ORDER BY a.place), array_agg(a.owner ORDER BY a.place), array_agg(a.term ORDER BY a.place), array_agg(a.ttl_ms ORDER BY a.place)
    INTO v_scopes, v_owners, v_terms, v_ttls
    FROM ROWS FROM (json_to_recordset(leases) AS (scope text, owner text, term bigint, ttl_ms bigint)) WITH ORDINALITY AS a(scope, owner, term, ttl_ms, place);
  IF v_scopes IS NULL THEN
    RETURN;
  END IF;
  IF EXISTS (SELECT FROM unnest(v_scopes, v_owners, v_terms, v_ttls) AS a(scope, owner, term, ttl_ms)
              WHERE a.scope IS NULL OR a.owner IS NULL OR a.term IS NULL OR a.ttl_ms IS NULL OR a.ttl_ms NOT BETWEEN 100 AND 86400000) THEN
    RAISE EXCEPTION 'TG005 each lease needs scope, owner, term and a ttl_ms from 100 to 86400000' USING ERRCODE = 'TG005';
  ELSIF (SELECT count(DISTINCT a.scope) <> count(*) FROM unnest(v_scopes) AS a(scope)) THEN
    RAISE EXCEPTION 'TG005 a scope is named twice among the leases to renew' USING ERRCODE = 'TG005';
  END IF;
  v_keyed := @schema@._take_leases(v_scopes, (SELECT min(t) FROM unnest(v_ttls) t) * interval '0.1 ms');
  -- With the key, nobody can acquire or release the lease, nor limit it (0021, _bound_lease).
  v_locked := array_fill(false, ARRAY[cardinality(v_scopes)]);
  FOR v_place IN
    SELECT a.place FROM unnest(v_scopes, v_keyed) WITH ORDINALITY AS a(scope, keyed, place) JOIN @schema@.leases l ON l.scope = a.scope
     WHERE a.keyed FOR UPDATE OF l SKIP LOCKED
  LOOP
    v_locked[v_place] := true;
  END LOOP;
  SELECT coalesce(array_agg(g.generation), '{}') INTO v_untrusted
    FROM (SELECT DISTINCT coalesce(f.generation, 0) AS generation
            FROM unnest(v_scopes, v_locked) AS a(scope, locked) LEFT JOIN @schema@.fences f ON f.scope = a.scope WHERE a.locked) g
   WHERE @schema@._why_untrusted(g.generation) IS NOT NULL;
  v_outcomes := array_fill(NULL::text, ARRAY[cardinality(v_scopes)]);
  v_expires := array_fill(NULL::timestamptz, ARRAY[cardinality(v_scopes)]);
  v_leave := v_expires;
  FOR v_place, expires_at, leave_before IN
    UPDATE @schema@.leases l SET expires_at = n.now + a.ttl_ms * interval '1 ms', renewed_at = n.now
      FROM unnest(v_scopes, v_owners, v_terms, v_ttls, v_locked) WITH ORDINALITY AS a(scope, owner, term, ttl_ms, locked, place)
           LEFT JOIN @schema@.fences f ON f.scope = a.scope LEFT JOIN @schema@.hand_overs h ON h.scope = a.scope AND h.term = a.term, (SELECT clock_timestamp() AS now) n
     WHERE l.scope = a.scope AND a.locked AND coalesce(f.generation, 0) <> ALL (v_untrusted)
       AND l.owner_id = a.owner AND l.term = a.term AND l.released_at IS NULL AND l.expires_at > n.now AND coalesce(h.leave_before > n.now, true)
    RETURNING a.place, l.expires_at, h.leave_before
  LOOP
    v_outcomes[v_place] := 'renewed';
    v_expires[v_place] := expires_at;
    v_leave[v_place] := leave_before;
  END LOOP;
  FOR v_place IN SELECT a.place FROM unnest(v_outcomes) WITH ORDINALITY AS a(outcome, place) WHERE a.outcome IS NULL LOOP
    v_outcomes[v_place] :=
      CASE WHEN NOT v_keyed[v_place] THEN 'busy'
           WHEN v_locked[v_place] THEN
             CASE WHEN coalesce((SELECT f.generation FROM @schema@.fences f WHERE f.scope = v_scopes[v_place]), 0) = ANY (v_untrusted) THEN 'untrusted' ELSE 'lost' END
           WHEN EXISTS (SELECT FROM @schema@.leases l WHERE l.scope = v_scopes[v_place]) THEN 'busy'
           ELSE 'lost' END;
  END LOOP;
  RETURN QUERY SELECT a.place, a.outcome, a.expires_at, a.leave_before FROM unnest(v_outcomes, v_expires, v_leave) WITH ORDINALITY AS a(outcome, expires_at, leave_before, place) ORDER BY a.place;
END $$;
REVOKE ALL ON FUNCTION @schema@.renew_leases(json) FROM PUBLIC;
