-- Followers: programs that read a stream, or all streams of a scope, one write after the other, and how far each has come. The numbers of a
-- stream are assigned under its row's lock, which a writer keeps to the end of its transaction. So a number becomes visible after all lower
-- ones, and a rollback leaves no gap. Therefore a position is one number for each stream, and no open transaction can still add a write
-- below it.
-- One run of a follower counts at a time: each start takes a higher number (run), and a lower one can move no position any more.

CREATE TABLE IF NOT EXISTS @schema@.followers (
  name       text COLLATE pg_catalog."C" PRIMARY KEY CHECK (char_length(name) BETWEEN 1 AND 200),
  stream_id  text COLLATE pg_catalog."C",  -- of a follower of one stream
  scope      text COLLATE pg_catalog."C",  -- of a follower of all streams of a scope
  run        bigint NOT NULL DEFAULT 1,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  started_by text NOT NULL DEFAULT session_user,
  CHECK ((stream_id IS NULL) <> (scope IS NULL))
);
-- No row: nothing of the stream has been handled yet.
CREATE TABLE IF NOT EXISTS @schema@.follower_positions (
  name      text COLLATE pg_catalog."C" NOT NULL,
  stream_id text COLLATE pg_catalog."C" NOT NULL,
  position  bigint NOT NULL CHECK (position >= 0),
  moved_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (name, stream_id)
) WITH (fillfactor = 50);
DO $$
BEGIN
  -- An append finds out by these indexes whether anybody follows its stream.
  IF to_regclass(format('%I.followers_stream', @schema_lit@)) IS NULL THEN
    CREATE INDEX followers_stream ON @schema@.followers (stream_id) WHERE stream_id IS NOT NULL;
  END IF;
  IF to_regclass(format('%I.followers_scope', @schema_lit@)) IS NULL THEN
    CREATE INDEX followers_scope ON @schema@.followers (scope) WHERE scope IS NOT NULL;
  END IF;
END $$;

-- Notifies the followers of a stream when this transaction commits. Does nothing if the server allows prepared transactions, because a
-- transaction that notifies cannot be prepared; or if the queue of notifications is filling up, because a full one makes COMMIT fail. Then
-- followers poll.
CREATE OR REPLACE FUNCTION @schema@._notify_followers(p_stream text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('max_prepared_transactions') = '0' AND pg_notification_queue_usage() < 0.25 THEN
    PERFORM pg_notify('termgate_streams', p_stream);
  END IF;
END $$;

-- 42501 unless the caller may act for the follower: as the role that last started it, as a member of that role, or with level operate.
-- Anybody may act for a follower that does not exist.
CREATE OR REPLACE FUNCTION @schema@._need_follower(p_name text) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_role name := @schema@._caller();
  v_by name := (SELECT f.started_by FROM @schema@.followers f WHERE f.name = p_name);
BEGIN
  IF v_by NOT IN (session_user, v_role) AND NOT has_function_privilege(v_role, '@schema@.reset_fence(text, bigint, text, text)', 'EXECUTE')
     AND NOT coalesce((SELECT pg_has_role(v_role, r.oid, 'MEMBER') FROM pg_roles r WHERE r.rolname = v_by), false) THEN
    RAISE EXCEPTION 'follower "%" is run by role %', p_name, quote_ident(v_by) USING ERRCODE = '42501',
      HINT = format('A member of that role, or a role of level operate, may take it over: GRANT %I TO %I; or follow under another name.', v_by, v_role);
  END IF;
END $$;

-- follower_start(name, stream, scope, from_end) → run: the follower's number from now on. A program with a lower number can move no
-- position any more. Give either stream or scope, and for one name always the same (TG005). from_end: the first start of a name begins
-- after what is committed now. Locks: the follower's row, to the end of the transaction.
CREATE OR REPLACE FUNCTION @schema@.follower_start(name text, stream text DEFAULT NULL, scope text DEFAULT NULL, from_end boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
<<follower_start>>
DECLARE
  name text COLLATE pg_catalog."C" := name;
  stream text COLLATE pg_catalog."C" := stream;
  scope text COLLATE pg_catalog."C" := scope;
  f @schema@.followers;
BEGIN
  PERFORM @schema@._need_scope(name, 'follower');
  PERFORM @schema@._need_follower(name);
  IF (stream IS NULL) = (scope IS NULL) THEN
    RAISE EXCEPTION 'TG005 a follower follows one stream or all streams of one scope: give one of the two' USING ERRCODE = 'TG005';
  ELSIF stream IS NOT NULL THEN
    PERFORM @schema@._need_scope(stream, 'stream');
  ELSE
    PERFORM @schema@._need_scope(scope);
  END IF;
  INSERT INTO @schema@.followers AS o (name, stream_id, scope) VALUES (follower_start.name, follower_start.stream, follower_start.scope)
  ON CONFLICT ON CONSTRAINT followers_pkey DO UPDATE SET run = o.run + 1, started_at = clock_timestamp(), started_by = session_user
  RETURNING * INTO f;
  IF f.stream_id IS DISTINCT FROM stream OR f.scope IS DISTINCT FROM scope THEN
    RAISE EXCEPTION 'TG005 follower "%" follows %', name, coalesce('stream "' || f.stream_id || '"', 'scope "' || f.scope || '"')
      USING ERRCODE = 'TG005', HINT = 'Give it another name, or remove it first: follower_remove(name).';
  END IF;
  IF f.run = 1 AND from_end THEN
    INSERT INTO @schema@.follower_positions (name, stream_id, position)
    SELECT follower_start.name, s.stream_id, s.last_no FROM @schema@.streams s
     WHERE (s.stream_id = follower_start.stream OR s.scope = follower_start.scope) AND s.last_no > 0;
  END IF;
  RETURN f.run;
END $$;

-- follower_behind(name, limit) → the streams of which the follower has not handled all writes, in the order of names, with its position and
-- the last number; behind: how many writes it has not handled, in all streams; run: its number. One row with NULLs if it has handled all;
-- none if there is no such follower. No locks.
CREATE OR REPLACE FUNCTION @schema@.follower_behind(name text, "limit" integer DEFAULT 1000)
RETURNS TABLE (run bigint, stream_id text, "position" bigint, last_no bigint, behind bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT f.run, d.stream_id, d.position, d.last_no, coalesce(d.behind, 0)
    FROM @schema@.followers f LEFT JOIN LATERAL (
      SELECT s.stream_id, coalesce(p.position, 0) AS position, s.last_no, (sum(s.last_no - coalesce(p.position, 0)) OVER ())::bigint AS behind
        FROM @schema@.streams s LEFT JOIN @schema@.follower_positions p ON p.name = f.name AND p.stream_id = s.stream_id
       WHERE (s.stream_id = f.stream_id OR s.scope = f.scope) AND s.last_no > coalesce(p.position, 0)
       ORDER BY s.stream_id LIMIT follower_behind."limit") d ON true
   WHERE f.name = follower_behind.name COLLATE pg_catalog."C"
   ORDER BY d.stream_id
$$;

-- follower_advance(name, run, stream, from_no, to_no) → moved; taken: a later start has taken the follower over; elsewhere: the position is
-- not from_no, or no start has had this run. Called in the transaction that handles the writes, it makes each of them count exactly once.
-- Locks: the follower's row, shared, and the position, to the end of the transaction; a start waits for them.
CREATE OR REPLACE FUNCTION @schema@.follower_advance(name text, run bigint, stream text, from_no bigint, to_no bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
<<follower_advance>>
DECLARE
  name text COLLATE pg_catalog."C" := name;
  stream text COLLATE pg_catalog."C" := stream;
  v_run bigint;
  v_last bigint;
BEGIN
  PERFORM @schema@._need_follower(name);
  SELECT f.run INTO v_run FROM @schema@.followers f WHERE f.name = follower_advance.name FOR SHARE;
  IF v_run IS NULL THEN
    RAISE EXCEPTION 'TG005 there is no follower "%"', name USING ERRCODE = 'TG005', HINT = 'follower_start(name, stream, scope) makes it.';
  ELSIF v_run <> run THEN
    RETURN CASE WHEN v_run > run THEN 'taken' ELSE 'elsewhere' END;
  END IF;
  SELECT s.last_no INTO v_last FROM @schema@.streams s WHERE s.stream_id = follower_advance.stream;
  IF from_no IS NULL OR to_no IS NULL OR from_no < 0 OR to_no < from_no OR to_no > coalesce(v_last, 0) THEN
    RAISE EXCEPTION 'TG005 a position of stream "%" moves forward, and to % at most, not from % to %', stream, coalesce(v_last, 0), from_no, to_no USING ERRCODE = 'TG005';
  END IF;
  IF from_no = 0 THEN
    INSERT INTO @schema@.follower_positions (name, stream_id, position) VALUES (follower_advance.name, follower_advance.stream, to_no)
    ON CONFLICT ON CONSTRAINT follower_positions_pkey DO NOTHING;
    IF FOUND THEN
      RETURN 'moved';
    END IF;
  END IF;
  UPDATE @schema@.follower_positions p SET position = to_no, moved_at = clock_timestamp()
   WHERE p.name = follower_advance.name AND p.stream_id = follower_advance.stream AND p.position = from_no;
  RETURN CASE WHEN FOUND THEN 'moved' ELSE 'elsewhere' END;
END $$;

-- follower_remove(name) → false if there was none. Its positions are deleted too: a later follower of that name begins from the start.
CREATE OR REPLACE FUNCTION @schema@.follower_remove(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
<<follower_remove>>
DECLARE
  name text COLLATE pg_catalog."C" := name;
  v_found boolean;
BEGIN
  PERFORM @schema@._need_follower(name);
  DELETE FROM @schema@.followers f WHERE f.name = follower_remove.name;
  v_found := FOUND;
  DELETE FROM @schema@.follower_positions p WHERE p.name = follower_remove.name;
  RETURN v_found;
END $$;

-- behind: the writes not handled yet; behind_since: when the oldest of them was written, NULL if there is none.
CREATE OR REPLACE VIEW @schema@.follower_status AS
  SELECT f.name, f.stream_id, f.scope, f.run, f.started_at, f.started_by, l.behind, l.behind_since,
         (SELECT max(p.moved_at) FROM @schema@.follower_positions p WHERE p.name = f.name) AS moved_at
    FROM @schema@.followers f CROSS JOIN LATERAL (
      SELECT coalesce(sum(s.last_no - coalesce(p.position, 0)), 0)::bigint AS behind, min(w.created_at) AS behind_since
        FROM @schema@.streams s LEFT JOIN @schema@.follower_positions p ON p.name = f.name AND p.stream_id = s.stream_id
        LEFT JOIN LATERAL (SELECT o.created_at FROM @schema@.stream_writes o WHERE o.stream_id = s.stream_id AND o.sequence_no > coalesce(p.position, 0)
                            ORDER BY o.sequence_no LIMIT 1) w ON true
       WHERE (s.stream_id = f.stream_id OR s.scope = f.scope) AND s.last_no > coalesce(p.position, 0)) l;
