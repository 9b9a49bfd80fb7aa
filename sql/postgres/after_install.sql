-- Runs after all files of install/, in their transaction. Parameters: none. Locks: those of GRANT.
-- Every role may do what it could before (before_install.sql), and no more, whatever ALTER DEFAULT PRIVILEGES or PostgreSQL itself gives to
-- new objects. A role that had a level keeps it, now with the functions that the files have added to that level. What was granted by hand
-- stays, also on a function that was dropped and created again.
DO $$
DECLARE
  v_noted jsonb := current_setting('termgate.grants')::jsonb;
  v_levels text[] := ARRAY['dump', 'read', 'write', 'lead', 'operate'];
  v_owner name := (SELECT pg_get_userbyid(d.datdba) FROM pg_database d WHERE d.datname = current_database());
  -- grant_level never gives level lead to PUBLIC. If PUBLIC may call such functions, nobody granted that: it is PostgreSQL's default for a
  -- new function, which nothing had revoked.
  v_open boolean := EXISTS (SELECT FROM jsonb_to_recordset(v_noted) AS n(kind text, name name, role oid) WHERE n.kind = 'FUNCTION' AND n.role = 0 AND n.name <> 'adopt' AND NOT starts_with(n.name, '_') AND @schema@._level_of(n.name) > 2);
  g record;
BEGIN
  -- Keeps the entries that count. Left out: roles that are gone; adopt() with three arguments, which until version 19 took only level
  -- write; PUBLIC's functions where v_open; functions that are at no level; functions that a role need not be granted, because PUBLIC has
  -- them; internal functions above level write.
  SELECT coalesce(jsonb_agg(n.entry), '[]') INTO v_noted FROM (
    SELECT e AS entry, x.kind, x.name, x.arguments, x.role FROM jsonb_array_elements(v_noted) e, jsonb_to_record(e) AS x(kind text, name name, arguments integer, role oid)) n
   WHERE (n.role = 0 OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = n.role))
     AND (n.kind <> 'FUNCTION' OR NOT (n.name = 'adopt' AND n.arguments = 3 OR n.role = 0 AND v_open OR @schema@._level_of(n.name) IS NULL
                                       OR n.role <> 0 AND @schema@._level_of(n.name) = 0
                                       OR starts_with(n.name, '_') AND @schema@._level_of(n.name) > 2));
  FOR g IN
    SELECT o.kind, o.target, o.name, a.privilege_type AS privilege, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role
      FROM (SELECT 'FUNCTION' AS kind, p.oid::regprocedure::text AS target, p.proname AS name, coalesce(p.proacl, acldefault('f', p.proowner)) AS acl, p.proowner AS owner FROM pg_proc p
              JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = @schema_lit@ AND NOT @schema@._of_extension('pg_proc'::regclass, p.oid)
            UNION ALL
            SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass::text, c.relname, c.relacl, c.relowner FROM pg_class c
              JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname = @schema_lit@ AND c.relkind IN ('r', 'p', 'v', 'm', 'S') AND NOT @schema@._of_extension('pg_class'::regclass, c.oid)
            UNION ALL
            SELECT 'SCHEMA', '@schema@', n.nspname, n.nspacl, n.nspowner FROM pg_namespace n WHERE n.nspname = @schema_lit@) o, LATERAL aclexplode(o.acl) a
     WHERE a.grantee <> o.owner
       AND NOT EXISTS (SELECT FROM jsonb_to_recordset(v_noted) AS n(kind text, name name, role oid, privilege text)
                        WHERE n.kind = o.kind AND n.name = o.name AND n.role = a.grantee AND n.privilege = a.privilege_type)
  LOOP
    EXECUTE format('REVOKE %s ON %s %s FROM %s CASCADE', g.privilege, g.kind, g.target, g.role);
  END LOOP;
  FOR g IN SELECT p.oid::regprocedure AS target FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = @schema_lit@ AND @schema@._level_of(p.proname) = 0 LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', g.target);
  END LOOP;
  FOR g IN SELECT l.role, l.level FROM @schema@._levels_in(v_noted) l LOOP
    PERFORM @schema@.grant_level(g.role, v_levels[g.level + 1]);
  END LOOP;
  FOR g IN
    WITH noted AS (
      SELECT n.* FROM jsonb_to_recordset(v_noted) AS n(kind text, name name, role oid, privilege text, grantable boolean)
    ), wanted AS (
      SELECT n.* FROM noted n
      UNION
      SELECT w.kind, w.new, n.role, CASE w.kind WHEN 'FUNCTION' THEN 'EXECUTE' ELSE n.privilege END, n.grantable
        FROM (VALUES ('FUNCTION', 'check_session'::name, 'check_term'::name), ('FUNCTION', 'hold_session', 'check_term'), ('FUNCTION', 'release_session', 'check_term'),
                     ('FUNCTION', 'check_claim', 'check_term'), ('FUNCTION', 'check_claim_text', 'check_term'), ('FUNCTION', 'check_again', 'check_term'), ('FUNCTION', 'check_prepared', 'check_term'), ('FUNCTION', 'hold_claim', 'check_term'),
                     ('FUNCTION', 'sit', 'check_term'), ('FUNCTION', 'stand', 'check_term'), ('FUNCTION', 'seats_wanted', 'check_term'),
                     ('TABLE', 'refusal_counts', 'audit_log'), ('FUNCTION', '_refused_since', 'audit_log')) w(kind, new, old)
        JOIN noted n ON n.name = w.old
    ), present AS (
      SELECT 'FUNCTION' AS kind, p.proname AS name, p.oid::regprocedure::text AS target, p.proacl AS acl FROM pg_proc p
        JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = @schema_lit@
      UNION ALL
      SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.relname, c.oid::regclass::text, c.relacl FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = @schema_lit@ AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
      UNION ALL
      SELECT 'SCHEMA', n.nspname, '@schema@', n.nspacl FROM pg_namespace n WHERE n.nspname = @schema_lit@
    )
    SELECT w.kind, w.privilege, p.target, w.grantable, CASE WHEN w.role = 0 THEN 'PUBLIC' ELSE w.role::regrole::text END AS role
      FROM wanted w JOIN present p ON p.kind = w.kind AND p.name = w.name
     WHERE NOT EXISTS (SELECT FROM aclexplode(p.acl) a WHERE a.grantee = w.role AND a.privilege_type = w.privilege AND a.is_grantable >= w.grantable)
  LOOP
    EXECUTE format('GRANT %s ON %s %s TO %s%s', g.privilege, g.kind, g.target, g.role, CASE WHEN g.grantable THEN ' WITH GRANT OPTION' ELSE '' END);
  END LOOP;
  IF NOT pg_has_role(v_owner, current_user, 'USAGE') THEN
    PERFORM @schema@._grant_dump(v_owner);
  END IF;
END $$;

-- The comments that \df+ and \dv+ show. They go by name, because signatures change; a name that does not exist is skipped.
-- tests/live/postgres/init_script_test.py fails on a public function or view without a comment.
DO $$
DECLARE
  f record;
BEGIN
  FOR f IN
    WITH comments (kind, name, text) AS (VALUES
    ('FUNCTION', 'check_term', 'The check: passes if the term is not below the fence of the scope, and holds the lock to the end' ||
     ' of the transaction. A higher term raises the fence, in a transaction that holds no lock on the ' ||
     'scope yet. Returns the fence.'),
    ('FUNCTION', 'sit', 'check_term, and a seat for this session: once the transaction has committed, it may write under scope and ' ||
     'term without a check until the seat is given back or the session ends. If nonce is NULL there is no seat, for the reason why.'),
    ('FUNCTION', 'stand', 'Gives seats back, by their nonces and the secret of their holder, for sessions that have nothing ' ||
     'outstanding. Returns the nonces of those that are gone by it. Safe to call again.'),
    ('FUNCTION', 'seats_wanted', 'What the holder of seats asks again and again: whether a raise of a scope in which it has seats ' ||
     'is under way. If place has changed, its seats are gone.'),
    ('FUNCTION', 'append', 'Checks the term and appends one write to a stream. Returns its sequence number. expected is the ' ||
     'last number that the writer saw; the same write_id again returns the number of the first write.'),
    ('FUNCTION', 'append_many', 'Appends a batch, all or nothing. Returns the last sequence number. With write ids, either all or' ||
     ' none of the batch were written before.'),
    ('FUNCTION', 'claim_write', 'The check for a write outside of streams that may be sent twice. If fresh is false, the write ' ||
     'with this id has committed before: do not repeat it.'),
    ('FUNCTION', 'record_refusal', 'Records refusals in the audit, after their own transactions were rolled back; library and proxy ' ||
     'call it. Returns false within a second of the previous record of the scope: add the count to the' ||
     ' next one.'),
    ('FUNCTION', 'seal', 'Raises the fence without writing. Waits for writers with lower terms up to the grace, then ' ||
     'evicts them. The same term again changes nothing.'),
    ('FUNCTION', 'acquire_lease', 'Takes a free or expired lease, or the lease of the same owner, under a new term, and seals that ' ||
     'term in the same transaction. Returns acquired = false at once if another owner holds the lease.' ||
     ' An untrusted scope is trusted again afterwards.'),
    ('FUNCTION', 'renew_lease', 'Extends a lease. Only its holder can, under the same term, before it expires; otherwise renewed ' ||
     'is false.'),
    ('FUNCTION', 'release_lease', 'Gives a lease up. Returns false if it did not belong to the caller. Term and fence stay.'),
    ('FUNCTION', 'request_hand_over', 'Asks the holder of a lease to leave. As long as the drain lasts the named successor alone may take the lease, or anybody but the holder; ' ||
     'afterwards the lease is renewed no more. Returns requested = false if nobody holds it. Audited.'),
    ('FUNCTION', 'require_lease', 'In a transaction that writes: its COMMIT fails with TG007 where the lease is not this owner''s then, or has ended by the clock of the database. ' ||
     'Returns when it ends.'),
    ('FUNCTION', 'fence', 'The fence of a scope: no row if it was never raised. untrusted says why writes fail with TG004; ' ||
     'it is NULL if they do not.'),
    ('FUNCTION', 'lease', 'The lease of a scope, or no row. live: neither released nor expired, by the clock of the ' ||
     'database.'),
    ('FUNCTION', 'read_stream', 'The writes of a stream after a sequence number, in order. Numbers become visible in order, so a ' ||
     'follower skips none.'),
    ('FUNCTION', 'outcome', 'Whether the write with this id has committed, and as what. Takes no lock: an attempt that is ' ||
     'still in progress is not found.'),
    ('FUNCTION', 'doctor', 'What the fences do not cover, a row each. error: the guarantees do not hold there; warning: ' ||
     'somebody could get round them; info.'),
    ('FUNCTION', 'verify_findings', 'One row for each breach of the guarantees that the stored rows show. since leaves out older ' ||
     'stream writes.'),
    ('FUNCTION', 'server_time', 'The moving clock of the database, to compare with the expiry of leases.'),
    ('FUNCTION', 'schema_version', 'The version of layer 1 in this schema.'),
    ('FUNCTION', 'job_start', 'Opens a run of a job after the check, and returns its id. Refused while a run of the same job, scope ' ||
     'and term is open; open runs of other terms become lost.'),
    ('FUNCTION', 'job_request', 'Asks for a run of a job: run, dry-run or resume. It stays until whoever leads the scope begins it, or somebody cancels it. ' ||
     'Returns requested = false, and the run, if one is asked for already. Audited.'),
    ('FUNCTION', 'job_take', 'Begins the run that is asked for, after the check, and returns it and what was asked for. NULL: none is.'),
    ('FUNCTION', 'job_heartbeat', 'Records that a run is alive, after the check, and with a TTL renews its lease. Returns false if the run is no longer ' ||
     'open. For the role that started it.'),
    ('FUNCTION', 'job_finish', 'Ends a run as completed, failed, cancelled or lost. completed passes the check first. Returns ' ||
     'false if the run is no longer open. For the role that started it; level operate cancels any run.'),
    ('FUNCTION', 'follower_start', 'Starts a follower of a stream, or of all streams of a scope, and returns its run. A later start ' ||
     'of the same name takes it over.'),
    ('FUNCTION', 'follower_behind', 'The streams of which a follower has not handled all writes, with its position in each.'),
    ('FUNCTION', 'follower_advance', 'Moves the position of a follower: moved, taken (by a later start) or elsewhere (the position is ' ||
     'not from_no).'),
    ('FUNCTION', 'follower_remove', 'Forgets a follower and its positions. Returns false if there was none.'),
    ('FUNCTION', 'protect', 'Installs triggers that refuse writes to a table unless the transaction has passed the check. ' ||
     'Give scope_column or scope; mode observe counts and lets pass. Run it again after ATTACH ' ||
     'PARTITION. Returns how many tables are covered.'),
    ('FUNCTION', 'unprotect', 'Removes the triggers of protect. Returns how many tables are no longer covered.'),
    ('FUNCTION', 'adopt', 'Counts the terms in a table of yours as evidence, and raises the fences to them. Its rows ' ||
     'report theirs by a trigger. Returns how many fences it raised.'),
    ('FUNCTION', 'unadopt', 'Ends adopt. Returns whether the table was adopted. Fences stay as they are.'),
    ('FUNCTION', 'force_release', 'Ends the lease of another owner and seals the next term, so that the holder is shut out at once.' ||
     ' Returns false if there was no lease to end. Audited.'),
    ('FUNCTION', 'reset_fence', 'Lowers a fence; nothing else can. A lease with a higher term ends. Returns the fence before. ' ||
     'Audited.'),
    ('FUNCTION', 'set_raise_by', 'Decides what raises the fence of a scope: writer (any write with a higher term) or seal (only ' ||
     'seal).'),
    ('FUNCTION', 'set_setting', 'Changes a setting of layer 1, for all sessions. The settings are in the view setting_list.'),
    ('FUNCTION', 'prune', 'Deletes the writes of a stream with lower sequence numbers. Fence, numbering and write ids stay.' ||
     ' Returns how many were deleted.'),
    ('FUNCTION', 'prune_history', 'Deletes audit rows, ended job runs and observations older than this, at least 1 hour. Returns ' ||
     'how many were deleted.'),
    ('FUNCTION', 'stream_move', 'Makes another scope guard a stream. Returns false if it did already. Audited.'),
    ('FUNCTION', 'declare_restored', 'After a restore: trusts one scope again, with a fence of at least above, which comes from the ' ||
     'authority that issues the terms. Returns the fence. Audited.'),
    ('FUNCTION', 'declare_nothing_lost', 'After a planned switchover or pg_upgrade: declares that no raise is missing, and trusts all ' ||
     'scopes again. Returns how many were untrusted. Audited.'),
    ('FUNCTION', 'declare_untrusted', 'After a restore that the database cannot detect (storage snapshot, bare base backup): makes all ' ||
     'scopes untrusted. Returns how many. Audited.'),
    ('FUNCTION', 'grant_level', 'Gives a role this level and no more than that: read, write, lead or operate, or dump, which is SELECT on the tables. For the owner of layer 1.'),
    ('FUNCTION', 'revoke_level', 'Takes every level from a role. Returns what it can do all the same, and through what. For the owner of layer 1.'),
    ('FUNCTION', 'check_session', 'check_term with the scope and term given, or else declared by the session.'),
    ('FUNCTION', 'check_claim', 'check_session, with a default for sessions that declare neither scope nor term.'),
    ('FUNCTION', 'check_claim_text', 'check_claim in one text: term, fence and scope with a blank between them. The proxy calls it ' ||
     'before a write that no passed check or seat covers.'),
    ('FUNCTION', 'check_again', 'The check with what the session declares by now, for a transaction that ran code since its first' ||
     ' check. If scope or term is not declared, fence is NULL and nothing is checked.'),
    ('FUNCTION', 'check_prepared', 'Fails if a prepared transaction holds an untrusted scope: COMMIT PREPARED checks no fence.'),
    ('FUNCTION', 'hold_session', 'check_session, and keeps the lock of the scope for the session until release_session: for ' ||
     'statements that cannot run in a transaction, such as VACUUM. Call it in a transaction of its ' ||
     'own.'),
    ('FUNCTION', 'hold_claim', 'hold_session with the default of check_claim. If required is false and nothing is declared, it ' ||
     'holds nothing and fence is NULL.'),
    ('FUNCTION', 'notify_raised', 'Tells proxies and waiters at once that the fence of the scope has risen, or its lease was given back or is asked for; without it they see it a little later. Call ' ||
      'it in a transaction of its own behind the COMMIT of the raise, and pass over its error: it fails with 55P03 where others notify for more than 50 ms.'),
    ('FUNCTION', 'renew_leases', 'renew_lease for many leases in one statement: up to 500, as a JSON array. One row for each, with ' ||
     'its place in the array and its outcome.'),
    ('FUNCTION', 'release_session', 'Gives back the lock of hold_session and restores the earlier declaration. Returns whether the ' ||
     'lock was held. Safe to call again.'),
    ('VIEW', 'fence_status', 'All fences, a row for each scope. reset_from: the highest fence that a reset took down.'),
    ('VIEW', 'lease_status', 'All leases. live: neither released nor expired, by the clock of the database.'),
    ('VIEW', 'hand_over_status', 'The last hand-over of each scope. state: asked, left, taken or over; gap_ms: how long nobody held the lease.'),
    ('VIEW', 'stream_status', 'All streams. first_no: the first write that pruning has left.'),
    ('VIEW', 'job_history', 'All runs of jobs. An open run whose lease has ended, or whose term is not the fence, is shown ' ||
     'as lost.'),
    ('VIEW', 'follower_status', 'All followers. behind: the writes that it has not handled yet; behind_since: when the oldest of ' ||
     'them was written.'),
    ('VIEW', 'audit_log', 'Acquisitions, releases, seals, raises, evictions, resets, operator actions and recorded ' ||
     'refusals.'),
    ('VIEW', 'setting_list', 'The settings of layer 1, each with its meaning. set_setting changes them.'),
    ('VIEW', 'protected_tables', 'Tables that protect covers.'),
    ('VIEW', 'adopted_tables', 'Tables whose terms count as evidence, by adopt.'),
    ('VIEW', 'refusal_counts', 'How often each code was refused, plain SQL included, although the refused transaction was rolled' ||
     ' back.')
    ), present AS (
      SELECT 'FUNCTION' AS kind, p.proname AS name, p.oid::regprocedure::text AS target FROM pg_proc p
        JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = @schema_lit@
      UNION ALL
      SELECT 'VIEW', v.relname, v.oid::regclass::text FROM pg_class v
        JOIN pg_namespace n ON n.oid = v.relnamespace WHERE n.nspname = @schema_lit@ AND v.relkind = 'v'
    )
    SELECT p.kind, p.target, c.text FROM comments c JOIN present p ON p.kind = c.kind AND p.name = c.name
  LOOP
    EXECUTE format('COMMENT ON %s %s IS %L', f.kind, f.target, f.text);
  END LOOP;
END $$;
