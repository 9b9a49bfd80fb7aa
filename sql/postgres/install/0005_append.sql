-- Streams: the check and the insert in one transaction. Locks: the check's, then the stream's row to the end of the transaction, so that
-- numbers are consecutive and in commit order. Keeps F1, F2, F5. COMMIT notifies those who follow the stream (0018).

CREATE OR REPLACE FUNCTION @schema@._declared_scope() RETURNS text LANGUAGE sql STABLE AS
$$ SELECT CASE WHEN pg_catalog.current_setting('termgate.scope', true) OPERATOR(pg_catalog.<>) '' THEN pg_catalog.current_setting('termgate.scope', true) END $$;

-- The one scope that this transaction has passed, by the locks that it holds, or else by the session's seat. NULL if there is none, or more
-- than one. TG005 if it holds no such lock and the session has several seats: nothing shows under which of them it writes. Needed only for
-- the first write of a stream whose scope nobody names.
CREATE OR REPLACE FUNCTION @schema@._only_scope_passed() RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_keys bigint[] := ARRAY(SELECT (l.classid::bigint << 32) | l.objid::bigint FROM pg_locks l
                            WHERE l.locktype = 'advisory' AND l.pid = pg_backend_pid() AND l.granted AND l.objsubid = 1);
  v_scopes text[];
BEGIN
  IF v_keys <> '{}' THEN
    v_scopes := ARRAY(SELECT f.scope FROM @schema@.fences f WHERE @schema@._queue_key(f.scope) = ANY (v_keys) LIMIT 2);
  END IF;
  IF coalesce(v_scopes, '{}') = '{}' AND current_setting('termgate.seat', true) = 'on' THEN
    v_scopes := ARRAY(SELECT s.scope FROM @schema@.seats s WHERE s.pid = pg_backend_pid() AND @schema@._seated(s.scope, NULL) LIMIT 2);
    IF cardinality(v_scopes) = 2 THEN
      RAISE EXCEPTION 'TG005 this session has seats in several scopes: name the scope of the new stream' USING ERRCODE = 'TG005';
    END IF;
  END IF;
  RETURN CASE WHEN cardinality(v_scopes) = 1 THEN v_scopes[1] END;
END $$;

-- The scope of a stream, which its first write fixes: the one named, else the one that the session declares, else the one that the
-- transaction has passed, else the stream's own name.
CREATE OR REPLACE FUNCTION @schema@._stream_scope(p_stream text, p_named text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_scope text := (SELECT s.scope FROM @schema@.streams s WHERE s.stream_id = p_stream);
BEGIN
  IF v_scope IS NULL THEN
    v_scope := coalesce(p_named, @schema@._declared_scope(), @schema@._only_scope_passed(), p_stream);
    PERFORM @schema@._need_scope(v_scope);
  ELSIF p_named <> v_scope THEN
    RAISE EXCEPTION 'TG005 stream "%" belongs to scope "%", not "%"', p_stream, v_scope, p_named
      USING ERRCODE = 'TG005', HINT = 'The scope of a stream is fixed by its first write; an operator moves it: stream_move(stream, scope, actor, reason).';
  END IF;
  RETURN v_scope;
END $$;

-- The check of an append: as check_term, but a term below what the rows show is stale too (one index probe). The write id is looked up
-- first, so that a repeated write is recognised although its term is stale by now; under the shared lock, unless a raise, a pass by row or
-- a seat forbids that. done: the write has happened, and sequence_no is its number.
CREATE OR REPLACE FUNCTION @schema@._check_append(p_stream text, p_scope text, p_term bigint, p_write_id uuid, OUT done boolean, OUT sequence_no bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  w @schema@.write_ids;
  v_fence bigint;
BEGIN
  IF p_write_id IS NOT NULL THEN
    PERFORM @schema@._need_term(p_term);
    -- A term above the fence needs the exclusive lock; after very many scopes it is the row's. Neither may follow a shared lock.
    SELECT f.term INTO v_fence FROM @schema@.fences f WHERE f.scope = p_scope;
    -- A session that has a seat must not wait for a raise, which waits for the session.
    IF v_fence >= p_term AND NOT @schema@._many_scopes(p_scope) AND NOT (coalesce(current_setting('termgate.seat', true), '') = 'on' AND @schema@._seated(p_scope, p_term)) THEN
      PERFORM @schema@._share(p_scope);
    END IF;
    SELECT * INTO w FROM @schema@.write_ids i WHERE i.write_id = p_write_id;
  END IF;
  IF w.write_id IS NULL THEN
    PERFORM @schema@.check_term(p_scope, p_term);
    SELECT max(r.term) INTO v_fence FROM @schema@.stream_writes r WHERE r.scope = p_scope;
    IF v_fence > p_term THEN
      v_fence := @schema@._stored_max(p_scope);
      IF v_fence > p_term THEN
        PERFORM @schema@._stale(p_scope, p_term, v_fence);
      END IF;
    END IF;
    IF p_write_id IS NOT NULL THEN
      SELECT * INTO w FROM @schema@.write_ids i WHERE i.write_id = p_write_id;
    END IF;
  END IF;
  done := w.write_id IS NOT NULL;
  IF done THEN
    sequence_no := @schema@._same_write(w, p_stream);
  END IF;
END $$;

CREATE OR REPLACE FUNCTION @schema@._same_write(w @schema@.write_ids, p_stream text) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF w.stream_id IS DISTINCT FROM p_stream THEN
    RAISE EXCEPTION 'TG005 write id % was used for % before', w.write_id, coalesce('stream "' || w.stream_id || '"', 'a write outside streams')
      USING ERRCODE = 'TG005';
  END IF;
  RETURN w.sequence_no;
END $$;

CREATE OR REPLACE FUNCTION @schema@._need_payload(p_payload bytea) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_max bigint;
BEGIN
  IF p_payload IS NULL THEN
    RAISE EXCEPTION 'TG005 the payload is NULL: an empty one is allowed' USING ERRCODE = 'TG005';
  ELSIF octet_length(p_payload) > 1048576 THEN
    v_max := @schema@._setting('payload_bytes_max')::bigint;
    IF octet_length(p_payload) > v_max THEN
      RAISE EXCEPTION 'TG005 the payload has % bytes: the setting payload_bytes_max allows %', octet_length(p_payload), v_max USING ERRCODE = 'TG005';
    END IF;
  END IF;
END $$;

-- Takes the next p_count numbers of the stream; returns the last number before them.
CREATE OR REPLACE FUNCTION @schema@._advance(p_stream text, p_scope text, p_count bigint, p_expected bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_last bigint;
  v_scope text;
BEGIN
  UPDATE @schema@.streams s SET last_no = s.last_no + p_count WHERE s.stream_id = p_stream RETURNING s.last_no - p_count, s.scope INTO v_last, v_scope;
  IF NOT FOUND THEN
    INSERT INTO @schema@.streams (stream_id, scope) VALUES (p_stream, p_scope) ON CONFLICT DO NOTHING;
    UPDATE @schema@.streams s SET last_no = s.last_no + p_count WHERE s.stream_id = p_stream RETURNING s.last_no - p_count, s.scope INTO v_last, v_scope;
  END IF;
  IF v_scope <> p_scope THEN
    RAISE EXCEPTION 'TG005 stream "%" belongs to scope "%", not "%"', p_stream, v_scope, p_scope
      USING ERRCODE = 'TG005', HINT = 'Another session made or moved the stream meanwhile.';
  END IF;
  IF p_expected <> v_last THEN
    RAISE EXCEPTION 'TG003 stream "%" stands at %, not at the expected %', p_stream, v_last, p_expected
      USING ERRCODE = 'TG003', HINT = 'Another writer of this term was first: read on from what you saw, then append again.';
  END IF;
  RETURN v_last;
END $$;

-- Everything about an append that is not the common case.
CREATE OR REPLACE FUNCTION @schema@._append(stream text, term bigint, payload bytea, expected bigint, scope text, write_id uuid) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_scope text;
  v_no bigint;
  c record;
BEGIN
  PERFORM @schema@._need_scope(stream, 'stream');
  IF scope IS NOT NULL THEN
    PERFORM @schema@._need_scope(scope);
  END IF;
  IF expected < 0 THEN
    RAISE EXCEPTION 'TG005 the expected number % is negative: 0 stands for an empty stream', expected USING ERRCODE = 'TG005';
  END IF;
  PERFORM @schema@._need_payload(payload);
  v_scope := @schema@._stream_scope(stream, scope);
  c := @schema@._check_append(stream, v_scope, term, write_id);
  IF c.done THEN
    RETURN c.sequence_no;
  END IF;
  v_no := @schema@._advance(stream, v_scope, 1, CASE WHEN write_id IS NULL THEN expected END) + 1;
  IF write_id IS NOT NULL THEN
    -- This transaction holds the stream's row. So an earlier attempt on this stream has ended, and the primary key detects one on another
    -- stream.
    INSERT INTO @schema@.write_ids (write_id, stream_id, sequence_no, scope, term) VALUES (_append.write_id, _append.stream, v_no, v_scope, _append.term)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
      UPDATE @schema@.streams s SET last_no = s.last_no - 1 WHERE s.stream_id = _append.stream;
      RETURN (SELECT @schema@._same_write(i, _append.stream) FROM @schema@.write_ids i WHERE i.write_id = _append.write_id);
    END IF;
    IF expected <> v_no - 1 THEN
      PERFORM @schema@._sequence_conflict(stream, v_no - 1, expected);
    END IF;
  END IF;
  INSERT INTO @schema@.stream_writes (stream_id, sequence_no, scope, term, payload, write_id)
  VALUES (_append.stream, v_no, v_scope, _append.term, _append.payload, _append.write_id);
  IF EXISTS (SELECT FROM @schema@.followers f WHERE f.stream_id = _append.stream OR f.scope = v_scope) THEN
    PERFORM @schema@._notify_followers(_append.stream);
  END IF;
  RETURN v_no;
END $$;

-- append(stream, term, payload, expected, scope, write_id) → sequence number. Qualified names instead of SET search_path, as in check_term.
-- The planner's settings: see _check(). A bitmap scan costs more than reading the one row that it finds.
CREATE OR REPLACE FUNCTION @schema@.append(stream text, term bigint, payload bytea, expected bigint DEFAULT NULL,
                                           scope text DEFAULT NULL, write_id uuid DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
<<append>>
DECLARE
  stream pg_catalog.text COLLATE pg_catalog."C" := stream;
  scope pg_catalog.text COLLATE pg_catalog."C" := scope;
  v_scope pg_catalog.text := scope;
  v_no pg_catalog.int8;
  v_followed pg_catalog.bool;
BEGIN
  -- If the library of guard/shortcuts/ is loaded, it runs the common case without SQL. NULL: nothing is appended yet.
  IF pg_catalog.current_setting('termgate.guard_appends', true) OPERATOR(pg_catalog.=) @schema_lit@ THEN
    v_no := @schema@.guard_append(stream, term, payload, expected, scope, write_id);
    IF v_no IS NOT NULL THEN
      IF EXISTS (SELECT FROM @schema@.followers f WHERE f.stream_id OPERATOR(pg_catalog.=) append.stream OR f.scope OPERATOR(pg_catalog.=)
                   coalesce(v_scope, (SELECT s.scope FROM @schema@.streams s WHERE s.stream_id OPERATOR(pg_catalog.=) append.stream))) THEN
        PERFORM @schema@._notify_followers(append.stream);
      END IF;
      RETURN v_no;
    END IF;
  END IF;
  -- The common case: the stream's scope is named or it exists, there is no write id, and the payload is of ordinary size. Whatever this
  -- cannot settle goes to _append(), under the lock that is held by then.
  IF write_id IS NULL AND pg_catalog.octet_length(payload) OPERATOR(pg_catalog.<=) 1048576 THEN
    IF v_scope IS NULL THEN
      SELECT s.scope INTO v_scope FROM @schema@.streams s WHERE s.stream_id OPERATOR(pg_catalog.=) append.stream;
    END IF;
    IF v_scope IS NOT NULL THEN
      v_no := @schema@.check_term(v_scope, term);
      -- The last condition looks for rows with a higher term, because the fence may have been lowered or lost. MAX() would have to step
      -- over the rows that others are writing at that moment. `|| ''` keeps the planner off the index of scopes, which would lead to all
      -- streams of the scope.
      UPDATE @schema@.streams s SET last_no = s.last_no OPERATOR(pg_catalog.+) 1
       WHERE s.stream_id OPERATOR(pg_catalog.=) append.stream AND s.scope OPERATOR(pg_catalog.||) '' OPERATOR(pg_catalog.=) v_scope
         AND (append.expected IS NULL OR s.last_no OPERATOR(pg_catalog.=) append.expected)
         AND (SELECT w.term FROM @schema@.stream_writes w WHERE w.scope OPERATOR(pg_catalog.=) v_scope AND w.term OPERATOR(pg_catalog.>) append.term
               ORDER BY w.scope, w.term LIMIT 1) IS NULL
      RETURNING s.last_no, EXISTS (SELECT FROM @schema@.followers f WHERE f.stream_id OPERATOR(pg_catalog.=) append.stream)
                           OR EXISTS (SELECT FROM @schema@.followers f WHERE f.scope OPERATOR(pg_catalog.=) v_scope) INTO v_no, v_followed;
      IF FOUND THEN
        INSERT INTO @schema@.stream_writes (stream_id, sequence_no, scope, term, payload)
        VALUES (append.stream, v_no, v_scope, append.term, append.payload);
        IF v_followed THEN
          PERFORM @schema@._notify_followers(append.stream);
        END IF;
        RETURN v_no;
      END IF;
      -- A new stream. If it exists, or is being created, the primary key detects that.
      INSERT INTO @schema@.streams (stream_id, scope, last_no)
      SELECT append.stream, v_scope, 1
       WHERE pg_catalog.char_length(append.stream) OPERATOR(pg_catalog.>=) 1 AND pg_catalog.char_length(append.stream) OPERATOR(pg_catalog.<=) 200
         AND (append.expected IS NULL OR append.expected OPERATOR(pg_catalog.=) 0)
         AND (SELECT w.term FROM @schema@.stream_writes w WHERE w.scope OPERATOR(pg_catalog.=) v_scope AND w.term OPERATOR(pg_catalog.>) append.term
               ORDER BY w.scope, w.term LIMIT 1) IS NULL
      ON CONFLICT DO NOTHING;
      IF FOUND THEN
        INSERT INTO @schema@.stream_writes (stream_id, sequence_no, scope, term, payload)
        VALUES (append.stream, 1, v_scope, append.term, append.payload);
        IF EXISTS (SELECT FROM @schema@.followers f WHERE f.stream_id OPERATOR(pg_catalog.=) append.stream OR f.scope OPERATOR(pg_catalog.=)
                   coalesce(v_scope, (SELECT s.scope FROM @schema@.streams s WHERE s.stream_id OPERATOR(pg_catalog.=) append.stream))) THEN
          PERFORM @schema@._notify_followers(append.stream);
        END IF;
        RETURN 1;
      END IF;
    END IF;
  END IF;
  RETURN @schema@._append(stream, term, payload, expected, scope, write_id);
END $$;

-- Everything about a batch that is not the common case.
CREATE OR REPLACE FUNCTION @schema@._append_many(stream text, term bigint, payloads bytea[], expected bigint, scope text, write_ids uuid[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_scope text;
  v_last bigint;
  v_count integer := cardinality(payloads);
  v_known integer;
  c record;
BEGIN
  PERFORM @schema@._need_scope(stream, 'stream');
  IF scope IS NOT NULL THEN
    PERFORM @schema@._need_scope(scope);
  END IF;
  IF coalesce(v_count, 0) = 0 OR array_ndims(payloads) <> 1 THEN
    RAISE EXCEPTION 'TG005 a batch needs at least one payload, in an array of one dimension' USING ERRCODE = 'TG005';
  ELSIF write_ids IS NOT NULL AND (cardinality(write_ids) <> v_count OR array_ndims(write_ids) <> 1 OR array_position(write_ids, NULL) IS NOT NULL) THEN
    RAISE EXCEPTION 'TG005 a batch of % needs as many write ids, none of them NULL', v_count USING ERRCODE = 'TG005';
  ELSIF (SELECT count(DISTINCT u) FROM unnest(write_ids) u) <> cardinality(write_ids) THEN
    RAISE EXCEPTION 'TG005 a write id stands twice in the batch' USING ERRCODE = 'TG005';
  ELSIF expected < 0 THEN
    RAISE EXCEPTION 'TG005 the expected number % is negative: 0 stands for an empty stream', expected USING ERRCODE = 'TG005';
  END IF;
  PERFORM @schema@._need_payload(p) FROM unnest(payloads) p WHERE p IS NULL OR octet_length(p) > 1048576;
  v_scope := @schema@._stream_scope(stream, scope);
  c := @schema@._check_append(stream, v_scope, term, write_ids[1]);
  IF NOT c.done THEN
    v_last := @schema@._advance(stream, v_scope, v_count, CASE WHEN write_ids IS NULL THEN expected END);
  END IF;
  IF write_ids IS NOT NULL THEN
    IF NOT c.done THEN
      INSERT INTO @schema@.write_ids (write_id, stream_id, sequence_no, scope, term)
      SELECT u.id, _append_many.stream, v_last + u.n, v_scope, _append_many.term FROM unnest(_append_many.write_ids) WITH ORDINALITY u(id, n)
      ON CONFLICT DO NOTHING;
      GET DIAGNOSTICS v_known = ROW_COUNT;
      v_known := v_count - v_known;
    ELSE
      v_known := v_count;
    END IF;
    IF v_known > 0 THEN
      -- Written before, all of them and in this order, or not at all.
      SELECT max(i.sequence_no) INTO v_last
        FROM unnest(_append_many.write_ids) WITH ORDINALITY u(id, n) JOIN @schema@.write_ids i ON i.write_id = u.id AND i.stream_id = _append_many.stream
      HAVING count(*) = v_count AND max(i.sequence_no - u.n) = min(i.sequence_no - u.n);
      IF v_last IS NULL OR v_known <> v_count THEN
        RAISE EXCEPTION 'TG005 % of the % write ids of this batch were used before, and not for this same batch', v_known, v_count USING ERRCODE = 'TG005';
      END IF;
      IF NOT c.done THEN
        UPDATE @schema@.streams s SET last_no = s.last_no - v_count WHERE s.stream_id = _append_many.stream;
      END IF;
      RETURN v_last;
    END IF;
    IF expected <> v_last THEN
      PERFORM @schema@._sequence_conflict(stream, v_last, expected);
    END IF;
  END IF;
  INSERT INTO @schema@.stream_writes (stream_id, sequence_no, scope, term, payload, write_id)
  SELECT _append_many.stream, v_last + u.n, v_scope, _append_many.term, u.payload, _append_many.write_ids[u.n::integer]
    FROM unnest(_append_many.payloads) WITH ORDINALITY u(payload, n);
  IF EXISTS (SELECT FROM @schema@.followers f WHERE f.stream_id = _append_many.stream OR f.scope = v_scope) THEN
    PERFORM @schema@._notify_followers(_append_many.stream);
  END IF;
  RETURN v_last + v_count;
END $$;

-- append_many(stream, term, payloads, expected, scope, write_ids) → last sequence number. All or nothing: with write ids, either all of
-- them were written before or none. Otherwise as append().
CREATE OR REPLACE FUNCTION @schema@.append_many(stream text, term bigint, payloads bytea[], expected bigint DEFAULT NULL,
                                                scope text DEFAULT NULL, write_ids uuid[] DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
<<append_many>>
DECLARE
  stream pg_catalog.text COLLATE pg_catalog."C" := stream;
  scope pg_catalog.text COLLATE pg_catalog."C" := scope;
  v_scope pg_catalog.text := scope;
  v_count pg_catalog.int8 := pg_catalog.cardinality(payloads);
  v_last pg_catalog.int8;
  v_followed pg_catalog.bool;
BEGIN
  IF pg_catalog.current_setting('termgate.guard_appends', true) OPERATOR(pg_catalog.=) @schema_lit@ THEN
    v_last := @schema@.guard_append_many(stream, term, payloads, expected, scope, write_ids);
    IF v_last IS NOT NULL THEN
      IF EXISTS (SELECT FROM @schema@.followers f WHERE f.stream_id OPERATOR(pg_catalog.=) append_many.stream OR f.scope OPERATOR(pg_catalog.=)
                   coalesce(v_scope, (SELECT s.scope FROM @schema@.streams s WHERE s.stream_id OPERATOR(pg_catalog.=) append_many.stream))) THEN
        PERFORM @schema@._notify_followers(append_many.stream);
      END IF;
      RETURN v_last;
    END IF;
  END IF;
  IF write_ids IS NULL AND v_count OPERATOR(pg_catalog.>) 0 AND pg_catalog.array_ndims(payloads) OPERATOR(pg_catalog.=) 1
     AND pg_catalog.octet_length(pg_catalog.array_send(payloads)) OPERATOR(pg_catalog.<=) 1048576
     AND pg_catalog.array_position(payloads, NULL::pg_catalog.bytea) IS NULL THEN
    IF v_scope IS NULL THEN
      SELECT s.scope INTO v_scope FROM @schema@.streams s WHERE s.stream_id OPERATOR(pg_catalog.=) append_many.stream;
    END IF;
    IF v_scope IS NOT NULL THEN
      v_last := @schema@.check_term(v_scope, term);
      UPDATE @schema@.streams s SET last_no = s.last_no OPERATOR(pg_catalog.+) v_count
       WHERE s.stream_id OPERATOR(pg_catalog.=) append_many.stream AND s.scope OPERATOR(pg_catalog.||) '' OPERATOR(pg_catalog.=) v_scope
         AND (append_many.expected IS NULL OR s.last_no OPERATOR(pg_catalog.=) append_many.expected)
         AND (SELECT w.term FROM @schema@.stream_writes w WHERE w.scope OPERATOR(pg_catalog.=) v_scope AND w.term OPERATOR(pg_catalog.>) append_many.term
               ORDER BY w.scope, w.term LIMIT 1) IS NULL
      RETURNING s.last_no, EXISTS (SELECT FROM @schema@.followers f WHERE f.stream_id OPERATOR(pg_catalog.=) append_many.stream)
                           OR EXISTS (SELECT FROM @schema@.followers f WHERE f.scope OPERATOR(pg_catalog.=) v_scope) INTO v_last, v_followed;
      IF FOUND THEN
        INSERT INTO @schema@.stream_writes (stream_id, sequence_no, scope, term, payload)
        SELECT append_many.stream, v_last OPERATOR(pg_catalog.-) v_count OPERATOR(pg_catalog.+) u.n, v_scope, append_many.term, u.payload
          FROM pg_catalog.unnest(append_many.payloads) WITH ORDINALITY u(payload, n);
        IF v_followed THEN
          PERFORM @schema@._notify_followers(append_many.stream);
        END IF;
        RETURN v_last;
      END IF;
      INSERT INTO @schema@.streams (stream_id, scope, last_no)
      SELECT append_many.stream, v_scope, v_count
       WHERE pg_catalog.char_length(append_many.stream) OPERATOR(pg_catalog.>=) 1 AND pg_catalog.char_length(append_many.stream) OPERATOR(pg_catalog.<=) 200
         AND (append_many.expected IS NULL OR append_many.expected OPERATOR(pg_catalog.=) 0)
         AND (SELECT w.term FROM @schema@.stream_writes w WHERE w.scope OPERATOR(pg_catalog.=) v_scope AND w.term OPERATOR(pg_catalog.>) append_many.term
               ORDER BY w.scope, w.term LIMIT 1) IS NULL
      ON CONFLICT DO NOTHING;
      IF FOUND THEN
        INSERT INTO @schema@.stream_writes (stream_id, sequence_no, scope, term, payload)
        SELECT append_many.stream, u.n, v_scope, append_many.term, u.payload
          FROM pg_catalog.unnest(append_many.payloads) WITH ORDINALITY u(payload, n);
        IF EXISTS (SELECT FROM @schema@.followers f WHERE f.stream_id OPERATOR(pg_catalog.=) append_many.stream OR f.scope OPERATOR(pg_catalog.=)
                   coalesce(v_scope, (SELECT s.scope FROM @schema@.streams s WHERE s.stream_id OPERATOR(pg_catalog.=) append_many.stream))) THEN
          PERFORM @schema@._notify_followers(append_many.stream);
        END IF;
        RETURN v_count;
      END IF;
    END IF;
  END IF;
  RETURN @schema@._append_many(stream, term, payloads, expected, scope, write_ids);
END $$;

CREATE OR REPLACE FUNCTION @schema@._sequence_conflict(p_stream text, p_last bigint, p_expected bigint) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'TG003 stream "%" stands at %, not at the expected %', p_stream, p_last, p_expected
    USING ERRCODE = 'TG003', HINT = 'Another writer of this term was first: read on from what you saw, then append again.';
END $$;

-- claim_write(scope, term, write_id) → (fresh, fence): the check for a write outside streams that may be sent twice. fresh is false if the
-- write was claimed before.
CREATE OR REPLACE FUNCTION @schema@.claim_write(scope text, term bigint, write_id uuid, OUT fresh boolean, OUT fence bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<claim_write>>
DECLARE
  scope pg_catalog.text COLLATE pg_catalog."C" := scope;
  c record;
  w @schema@.write_ids;
BEGIN
  PERFORM @schema@._need_scope(scope);
  IF write_id IS NULL THEN
    RAISE EXCEPTION 'TG005 the write id is NULL' USING ERRCODE = 'TG005';
  END IF;
  c := @schema@._check_append(NULL, scope, term, write_id);
  fence := (SELECT f.term FROM @schema@.fences f WHERE f.scope = claim_write.scope);
  fresh := NOT c.done;
  IF fresh THEN
    INSERT INTO @schema@.write_ids (write_id, scope, term) VALUES (claim_write.write_id, claim_write.scope, claim_write.term) ON CONFLICT DO NOTHING;
    fresh := FOUND;
  END IF;
  IF NOT fresh THEN
    SELECT * INTO w FROM @schema@.write_ids i WHERE i.write_id = claim_write.write_id;
    PERFORM @schema@._same_write(w, NULL);
    IF w.scope <> scope THEN
      RAISE EXCEPTION 'TG005 write id % was used for scope "%" before', write_id, w.scope USING ERRCODE = 'TG005';
    END IF;
  END IF;
END $$;

-- outcome(write_id) → whether that write was committed, and as what. No lock: an attempt that is still in progress is not found.
CREATE OR REPLACE FUNCTION @schema@.outcome(write_id uuid, OUT found boolean, OUT stream_id text, OUT sequence_no bigint, OUT scope text,
                                            OUT term bigint, OUT created_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT i.write_id IS NOT NULL, i.stream_id, i.sequence_no, i.scope, i.term, i.created_at
    FROM (SELECT outcome.write_id AS id) q LEFT JOIN @schema@.write_ids i ON i.write_id = q.id
$$;
