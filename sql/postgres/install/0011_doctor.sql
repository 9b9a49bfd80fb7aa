-- doctor() and verify_findings(): what is not covered, and every breach that the stored rows show. They read, and take no locks. Only
-- doctor() may record a restart in `incarnation`, if it is the first call after it.

-- What other parts of layer 1 add to doctor(). This one is empty; 0014 replaces it.
DO $$
BEGIN
  IF to_regprocedure(format('%I._doctor_layer1()', @schema_lit@)) IS NULL THEN
    CREATE FUNCTION @schema@._doctor_layer1() RETURNS TABLE (severity text, object text, problem text, remedy text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS 'SELECT NULL::text, NULL::text, NULL::text, NULL::text WHERE false';
  END IF;
END $$;

-- doctor() → rows. severity: error (the guarantees do not hold there), warning (somebody could get round them), info.
CREATE OR REPLACE FUNCTION @schema@.doctor() RETURNS TABLE (severity text, object text, problem text, remedy text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_why text := @schema@._changed_incarnation();
  v_since bigint := (SELECT i.trusted_since FROM @schema@.incarnation i);
  v_owner name := current_user;
BEGIN
  -- The fences themselves.
  IF v_why IS NOT NULL THEN
    RETURN QUERY SELECT 'error', 'database ' || quote_ident(current_database()), 'every fence is untrusted: ' || v_why,
      'termgate fence declare-restored --nothing-lost after a planned switchover or pg_upgrade; else acquire the leases anew, and declare-restored --scope … --above N';
  END IF;
  RETURN QUERY
    SELECT 'error', format('scope "%s"', f.scope), 'its fence is untrusted: this database was restored or promoted, and nobody has vouched for the scope since',
           'acquire its lease, or termgate fence declare-restored --scope … --above N'
      FROM @schema@.fences f WHERE v_why IS NULL AND f.generation < v_since ORDER BY f.scope COLLATE pg_catalog."C" LIMIT 100;
  -- A list names at most a hundred; here the next row counts the rest.
  RETURN QUERY SELECT 'error', 'scopes', format('%s more scopes are untrusted for the same reason', c.count - 100), 'termgate fence list shows all of them'
    FROM (SELECT count(*) FROM @schema@.fences f WHERE v_why IS NULL AND f.generation < v_since) c WHERE c.count > 100;
  RETURN QUERY
    SELECT 'error', format('trigger %I on fences', w.name), 'it is gone or not ENABLE ALWAYS: fences could be lowered by hand', 'termgate uninstall is the only way to remove it: run termgate init again'
      FROM unnest(ARRAY['fences_guard', 'fences_guard_truncate', 'fences_flush']) w(name)
     WHERE NOT EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = format('%I.fences', @schema_lit@)::regclass AND g.tgname = w.name AND g.tgenabled = 'A');
  RETURN QUERY
    SELECT 'error', 'schema @schema@', format('belongs to role %s, who may drop what is in it and put functions beside those of layer 1', quote_ident(r.rolname)), format('ALTER SCHEMA @schema@ OWNER TO %I', v_owner)
      FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner WHERE n.nspname = @schema_lit@ AND r.rolname <> v_owner AND NOT r.rolsuper;
  -- A REVOKE of these functions from PUBLIC takes them from the owner too, unless it is a superuser.
  RETURN QUERY
    SELECT 'error', 'function ' || f.name::text, format('role %s, which owns layer 1, may not call it: checks fail with 42501', quote_ident(v_owner)),
           format('GRANT EXECUTE ON FUNCTION %s TO %I', f.name, v_owner)
      FROM unnest(ARRAY['pg_advisory_lock_shared(bigint)', 'pg_advisory_unlock_shared(bigint)', 'pg_advisory_xact_lock(bigint)', 'pg_advisory_xact_lock_shared(bigint)',
                        'pg_try_advisory_lock_shared(bigint)', 'pg_try_advisory_xact_lock(bigint)', 'pg_try_advisory_xact_lock_shared(bigint)']::regprocedure[]) f(name)
     WHERE NOT has_function_privilege(v_owner, f.name, 'EXECUTE');
  RETURN QUERY
    SELECT 'info', format('scope "%s"', l.scope), format('the lease of %s ran out at %s, and nobody has taken over', l.owner_id, l.expires_at),
           'its holder may still write, for nobody overtook it; acquire the lease to take over'
      FROM @schema@.leases l WHERE l.released_at IS NULL AND l.expires_at < clock_timestamp() ORDER BY l.expires_at LIMIT 100;
  RETURN QUERY SELECT 'info', 'scopes', format('%s more leases ran out, and nobody has taken over', c.count - 100), 'termgate lease list --state expired shows all of them'
    FROM (SELECT count(*) FROM @schema@.leases l WHERE l.released_at IS NULL AND l.expires_at < clock_timestamp()) c WHERE c.count > 100;
  RETURN QUERY
    SELECT 'warning', format('scope "%s"', l.scope), format('the lease of %s was taken while the clock was ahead: it ends at %s', l.owner_id, l.expires_at),
           'set the clock right; the next attempt to acquire it limits it to its TTL'
      FROM @schema@.leases l WHERE l.released_at IS NULL AND l.renewed_at > clock_timestamp() ORDER BY l.renewed_at DESC LIMIT 100;

  -- Tables.
  RETURN QUERY
    SELECT 'warning', a.table_oid::regclass::text, 'adopted but not protected: a stale writer can change its rows',
           format('SELECT @schema@.protect(%L, %L%s), or protect the tables that its leaders write to', a.table_oid::regclass, a.scope_column, CASE a.scope_prefix WHEN '' THEN '' ELSE format(', prefix => %L', a.scope_prefix) END)
      FROM @schema@.adopted a JOIN pg_class c ON c.oid = a.table_oid
     WHERE NOT EXISTS (SELECT FROM @schema@.protected p WHERE p.table_oid = a.table_oid);
  RETURN QUERY
    SELECT 'error', a.table_oid::regclass::text, format('adopted, but its column "%s" is %s', w.name,
                                                   CASE WHEN x.atttypid IS NULL THEN 'gone: rows that would report a term are refused' WHEN x.attgenerated = 'v' THEN 'virtual now: its rows report nothing'
                                                        ELSE 'of type ' || x.atttypid::regtype || ': rows that would report a term are refused' END),
           format('put it back, or unadopt the table and adopt it anew: SELECT @schema@.unadopt(%L)', a.table_oid::regclass)
      FROM @schema@.adopted a JOIN pg_class c ON c.oid = a.table_oid
      CROSS JOIN LATERAL (VALUES (a.scope_column, '{text,varchar,smallint,integer,bigint,uuid}'::regtype[]), (a.term_column, '{smallint,integer,bigint}')) w(name, types)
      LEFT JOIN pg_attribute x ON x.attrelid = a.table_oid AND x.attname = w.name AND x.attnum > 0 AND NOT x.attisdropped
     WHERE coalesce(x.attgenerated = 'v' OR x.atttypid <> ALL (w.types), true);
  RETURN QUERY
    SELECT 'warning', 'role ' || quote_ident(v_owner), 'a superuser owns layer 1: its functions run with all rights',
           'install layer 1 as a role of its own, with GRANT pg_signal_backend'
     WHERE (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = v_owner);
  RETURN QUERY
    SELECT 'warning', a.table_name, 'adopted once, but the table is gone', 'nothing to do: the fences keep its terms'
      FROM @schema@.adopted a WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = a.table_oid);
  RETURN QUERY
    SELECT 'error', t.oid::regclass::text, CASE WHEN t.oid = a.table_oid THEN '' ELSE format('part of %s: ', a.table_oid::regclass) END || 'adopted, but the trigger that reports its terms is missing, disabled or changed',
           format('SELECT @schema@.adopt(%L, %L, %L%s); it also reads what the rows have shown since', a.table_oid::regclass, a.scope_column, a.term_column,
             CASE a.scope_prefix WHEN '' THEN '' ELSE format(', %L', a.scope_prefix) END)
      FROM @schema@.adopted a JOIN pg_class c ON c.oid = a.table_oid, LATERAL @schema@._tree(a.table_oid) t(oid) JOIN pg_class r ON r.oid = t.oid
     WHERE (r.relkind <> 'p' OR t.oid = a.table_oid)
       AND NOT EXISTS (SELECT FROM pg_trigger g JOIN pg_proc f ON f.oid = g.tgfoid JOIN pg_namespace n ON n.oid = f.pronamespace
                        WHERE g.tgrelid = t.oid AND g.tgname = 'termgate_adopted' AND n.nspname = @schema_lit@ AND f.proname = @schema@._adopted_function(a.scope_column, a.term_column)
                          AND g.tgenabled IN ('O', 'A') AND g.tgtype = 21 AND g.tgattr = '' AND g.tgqual IS NULL
                          AND (g.tgargs = @schema@._trigger_arguments(ARRAY[a.scope_prefix]) OR g.tgargs = '' AND a.scope_prefix = ''));
  RETURN QUERY
    SELECT 'error', g.tgrelid::regclass::text, 'bears the trigger of adopt() but is not adopted (restored from a dump, or copied): rows with a higher term are refused', format('SELECT @schema@.adopt(%L, …)', g.tgrelid::regclass)
      FROM pg_trigger g JOIN pg_proc f ON f.oid = g.tgfoid JOIN pg_namespace n ON n.oid = f.pronamespace
     WHERE n.nspname = @schema_lit@ AND starts_with(f.proname, '_adopted_row_') AND g.tgparentid = 0
       AND NOT EXISTS (SELECT FROM @schema@.adopted a, LATERAL @schema@._tree(a.table_oid) t WHERE t = g.tgrelid);
  RETURN QUERY
    SELECT 'error', p.table_oid::regclass::text, 'protected, but triggers are missing, disabled or changed: ' || array_to_string(m.missing, ', '), format('SELECT @schema@.protect(%L, …)', p.root_oid::regclass)
      FROM @schema@.protected p JOIN pg_class c ON c.oid = p.table_oid, LATERAL (SELECT @schema@._missing_triggers(p.table_oid, p.scope_column, p.scope, p.mode, p.scope_prefix) AS missing) m
     WHERE m.missing <> '{}';
  RETURN QUERY
    SELECT 'error', t.oid::regclass::text, format('partition or child of protected table %s, attached since: not covered', p.root_oid::regclass), format('SELECT @schema@.protect(%L, …)', p.root_oid::regclass)
      FROM (SELECT DISTINCT q.root_oid FROM @schema@.protected q JOIN pg_class c ON c.oid = q.root_oid) p, LATERAL @schema@._tree(p.root_oid) t(oid)
     WHERE NOT EXISTS (SELECT FROM @schema@.protected q WHERE q.table_oid = t.oid);
  RETURN QUERY
    SELECT 'error', g.tgrelid::regclass::text, 'bears triggers of protect() but is not covered (restored from a dump, or copied): every write is refused', format('SELECT @schema@.protect(%L, …)', g.tgrelid::regclass)
      FROM pg_trigger g JOIN pg_proc f ON f.oid = g.tgfoid JOIN pg_namespace n ON n.oid = f.pronamespace
     WHERE n.nspname = @schema_lit@ AND g.tgname = 'termgate_statement' AND NOT EXISTS (SELECT FROM @schema@.protected p WHERE p.table_oid = g.tgrelid);
  RETURN QUERY
    SELECT 'info', p.table_oid::regclass::text, 'mode observe: nothing is refused there', format('SELECT @schema@.protect(%L, %s)', p.table_oid::regclass,
             CASE WHEN p.scope_column IS NULL THEN format('scope => %L', p.scope) ELSE format('scope_column => %L', p.scope_column) END)
      FROM @schema@.protected p JOIN pg_class c ON c.oid = p.table_oid WHERE p.mode = 'observe' AND p.table_oid = p.root_oid;
  RETURN QUERY
    SELECT 'warning', o.table_oid::regclass::text, format('would have been refused %s with %s (scope "%s", role %s, client "%s", first at %s, last at %s): %s',
                                           CASE count(*) WHEN 1 THEN '1 time' ELSE count(*) || ' times' END, o.code, o.scope, o.role_name, o.client, min(o.at), max(o.at), max(o.reason)),
           CASE o.code
             WHEN 'TG001' THEN 'its term is below the fence: end that leader, or let it declare the current term'
             WHEN 'TG004' THEN 'settle the fence first: termgate fence declare-restored'
             WHEN 'TG005' THEN 'correct the declaration; a term above the fence takes check_term or seal first, which the proxy does by itself once it enforces'
             ELSE 'let it declare its scope and term before mode enforce' END
      -- Only what was recorded since protect() was last called for the table, in mode observe.
      FROM @schema@.observed o JOIN @schema@.protected p ON p.table_oid = o.table_oid AND p.mode = 'observe' AND o.at >= p.protected_at
      JOIN pg_class c ON c.oid = o.table_oid
     GROUP BY o.table_oid, o.code, o.scope, o.role_name, o.client ORDER BY count(*) DESC LIMIT 100;
  RETURN QUERY SELECT 'warning', 'tables in mode observe', format('%s more kinds of writes would have been refused', c.count - 100), 'SELECT * FROM @schema@.observed has all of them'
    FROM (SELECT count(DISTINCT (o.table_oid, o.code, o.scope, o.role_name, o.client))
            FROM @schema@.observed o JOIN @schema@.protected p ON p.table_oid = o.table_oid AND p.mode = 'observe' AND o.at >= p.protected_at) c WHERE c.count > 100;
  RETURN QUERY
    SELECT 'info', p.table_oid::regclass::text, 'its owner ' || quote_ident(pg_get_userbyid(c.relowner)) || ' can drop or disable the triggers', 'that is all right for a program that is trusted not to; else let it connect as a role that does not own the table'
      FROM @schema@.protected p JOIN pg_class c ON c.oid = p.table_oid WHERE p.table_oid = p.root_oid;
  RETURN QUERY
    SELECT 'warning', t.oid::regclass::text, format('%s may replace its triggers, or change rows after the check, by the privilege TRIGGER', string_agg(g.name, ', ' ORDER BY g.name)),
           format('REVOKE TRIGGER ON %s FROM %s', t.oid::regclass, string_agg(g.name, ', ' ORDER BY g.name))
      FROM (SELECT p.table_oid FROM @schema@.protected p UNION SELECT a.table_oid FROM @schema@.adopted a) t(oid) JOIN pg_class c ON c.oid = t.oid
      CROSS JOIN LATERAL (SELECT CASE e.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(e.grantee)) END AS name
                            FROM aclexplode(c.relacl) e WHERE e.privilege_type = 'TRIGGER' AND e.grantee <> c.relowner) g
     GROUP BY t.oid;
  RETURN QUERY
    SELECT 'warning', s.subname::text, 'logical replication applies its rows without triggers: protected tables that it writes to are outside', 'exclude protected tables from the subscription'
      FROM pg_subscription s WHERE s.subdbid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        AND EXISTS (SELECT FROM @schema@.protected);

  RETURN QUERY
    WITH bare AS (
      SELECT c.oid::regclass AS name
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
         AND n.nspname <> @schema_lit@ AND n.nspname <> 'information_schema' AND NOT starts_with(n.nspname, 'pg_')
         AND NOT EXISTS (SELECT FROM @schema@.protected p WHERE p.table_oid = c.oid) AND NOT EXISTS (SELECT FROM @schema@.adopted a WHERE a.table_oid = c.oid)
         AND NOT EXISTS (SELECT FROM pg_inherits i JOIN @schema@.protected p ON p.table_oid = i.inhparent WHERE i.inhrelid = c.oid)
         -- A table that has the triggers and is not registered refuses every write; it has its row above.
         AND NOT EXISTS (SELECT FROM pg_trigger g JOIN pg_proc f ON f.oid = g.tgfoid JOIN pg_namespace m ON m.oid = f.pronamespace
                          WHERE g.tgrelid = c.oid AND g.tgname = 'termgate_statement' AND m.nspname = @schema_lit@)
         AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
    )
    (SELECT 'info', b.name::text, 'neither protected nor adopted: whoever may write to it writes unfenced', format('SELECT @schema@.protect(%L, …), if a leader writes to it', b.name)
       FROM bare b ORDER BY b.name::text COLLATE pg_catalog."C" LIMIT 100)
    UNION ALL
    SELECT 'info', 'tables', format('%s more tables are neither protected nor adopted', count(*) - 100), 'termgate protect, where a leader writes' FROM bare HAVING count(*) > 100;

  -- Roles and settings that could get round it.
  RETURN QUERY
    SELECT 'info', 'role ' || quote_ident(r.rolname), CASE WHEN r.rolsuper THEN 'superuser: may switch triggers off (session_replication_role) and rewrite fences' ELSE 'REPLICATION: may stream and restore the database' END,
           'let applications connect as a plain role'
      FROM pg_roles r WHERE r.rolcanlogin AND (r.rolsuper OR r.rolreplication) ORDER BY r.rolname LIMIT 100;
  RETURN QUERY
    SELECT 'warning', concat_ws(' in ', 'role ' || quote_ident(pg_get_userbyid(nullif(s.setrole, 0))), 'database ' || quote_ident(d.datname)), 'its connections start with ' || c.setting, 'ALTER ROLE … RESET session_replication_role'
      FROM pg_db_role_setting s LEFT JOIN pg_database d ON d.oid = s.setdatabase, LATERAL unnest(s.setconfig) c(setting)
     WHERE c.setting LIKE 'session_replication_role=%' AND c.setting <> 'session_replication_role=origin';
  RETURN QUERY
    SELECT CASE WHEN o.writers IS NULL THEN 'info' ELSE 'warning' END, 'role ' || quote_ident(v_owner),
           'it owns the functions but may not end other roles'' sessions: a frozen writer of another role ends a raise with TG006' ||
             CASE WHEN o.writers IS NULL THEN '; of the roles that were granted level write or more it is a member, so it may end theirs' ELSE '' END,
           format('GRANT pg_signal_backend TO %I;', v_owner) ||
             CASE WHEN o.writers IS NULL THEN '' ELSE format(' where the server keeps that role back: GRANT %s TO %I; (its functions then run with the privileges of these roles too)', o.writers, v_owner) END
      FROM (SELECT string_agg(CASE l.role WHEN 'public' THEN 'each role that writes' ELSE quote_ident(l.role) END, ', ' ORDER BY l.role) AS writers FROM @schema@._levels() l
             WHERE l.level >= 2 AND (l.role = 'public' OR NOT pg_has_role(v_owner, l.role, 'USAGE'))) o
     WHERE NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = v_owner) AND NOT pg_has_role(v_owner, 'pg_signal_backend', 'USAGE');
  RETURN QUERY
    SELECT 'error', CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE 'role ' || quote_ident(pg_get_userbyid(x.grantee)) END, format('has %s on table %s.%s: it could change what layer 1 keeps', x.privilege_type, @schema_lit@, c.relname),
           format('REVOKE %s ON %I.%I FROM %s;', x.privilege_type, @schema_lit@, c.relname, CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END)
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, LATERAL aclexplode(c.relacl) x
     WHERE n.nspname = @schema_lit@ AND c.relkind = 'r' AND x.grantee <> c.relowner AND x.privilege_type IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER');

  RETURN QUERY
    SELECT 'warning', 'PUBLIC', 'has level write: every login can raise the fences of scopes that have no lease', 'termgate init --revoke PUBLIC, then --grant ROLE=write'
     WHERE EXISTS (SELECT FROM @schema@._levels() l WHERE l.role = 'public' AND l.level >= 2);
  RETURN QUERY
    SELECT 'warning', 'role ' || quote_ident(d.name), 'owns this database and may not read all tables of layer 1: its pg_dump fails', 'termgate init'
      FROM (SELECT b.datdba AS role, pg_get_userbyid(b.datdba) AS name FROM pg_database b WHERE b.datname = current_database()) d
     WHERE EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = @schema_lit@
                      AND CASE c.relkind WHEN 'S' THEN NOT has_sequence_privilege(d.role, c.oid, 'SELECT') WHEN 'r' THEN NOT has_table_privilege(d.role, c.oid, 'SELECT') ELSE false END);
  RETURN QUERY
    SELECT 'warning', 'role ' || quote_ident(r.rolname), format('is named like the schema of layer 1: by the usual search_path ("$user", public) the tables that it creates land in %s', quote_ident(@schema_lit@)),
           format('ALTER ROLE %I SET search_path = public;', r.rolname)
      FROM pg_roles r WHERE r.rolname = @schema_lit@ AND r.rolcanlogin
       AND NOT EXISTS (SELECT FROM pg_db_role_setting s, unnest(s.setconfig) c(setting) WHERE s.setrole = r.oid AND starts_with(c.setting, 'search_path='));
  RETURN QUERY
    SELECT 'error', 'materialized view ' || c.oid::regclass::text, 'it is empty: every check of a protected scope fails', format('REFRESH MATERIALIZED VIEW %s;', c.oid::regclass)
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = @schema_lit@ AND c.relname = 'pass_secret' AND NOT c.relispopulated;

  -- Sessions that a raise could not evict now. (The audit shows no raise that failed so: it was rolled back. The server's log has the
  -- TG006.)
  RETURN QUERY
    WITH here AS (
      SELECT d.oid FROM pg_database d WHERE d.datname = current_database()
    ), held AS MATERIALIZED (
      SELECT l.pid, (l.classid::bigint << 32) | l.objid::bigint AS key FROM pg_locks l, here
       WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted AND l.database = here.oid AND l.pid <> pg_backend_pid()
    )
    SELECT 'warning', format('pid %s', a.pid), format('user %s, application "%s", holds the lock of %s, and role %I may not end its session: a raise ends with TG006', r.rolname, a.application_name,
             CASE WHEN count(*) = 1 THEN format('scope "%s"', min(f.scope)) ELSE format('%s scopes, "%s" among them', count(*), min(f.scope)) END, v_owner),
           CASE WHEN r.rolsuper THEN 'let applications connect as a plain role'
                ELSE format('GRANT pg_signal_backend TO %I; where the server keeps that role back: GRANT %I TO %I;', v_owner, r.rolname, v_owner) END
      FROM held h JOIN @schema@.fences f ON @schema@._queue_key(f.scope) = h.key JOIN pg_stat_activity a ON a.pid = h.pid JOIN pg_roles r ON r.oid = a.usesysid
     WHERE NOT (SELECT o.rolsuper FROM pg_roles o WHERE o.rolname = v_owner)
       AND (r.rolsuper OR NOT (pg_has_role(v_owner, r.oid, 'USAGE') OR pg_has_role(v_owner, 'pg_signal_backend', 'USAGE')))
       AND coalesce(a.xact_start < clock_timestamp() - @schema@._wait('eviction_grace_ms'), true)
     GROUP BY a.pid, r.rolname, a.application_name, r.rolsuper LIMIT 100;

  -- The server.
  RETURN QUERY
    SELECT CASE s.name WHEN 'fsync' THEN 'error' ELSE 'info' END, 'setting ' || s.name, CASE s.name
             WHEN 'fsync' THEN 'fsync is off: a crash of the machine can take back a raise'
             WHEN 'full_page_writes' THEN 'full_page_writes is off: a crash of the machine can damage fences'
             ELSE 'commits are not flushed; raises are all the same' END,
           format('ALTER SYSTEM SET %I = on', s.name)
      FROM unnest(ARRAY['fsync', 'full_page_writes', 'synchronous_commit']) s(name) WHERE current_setting(s.name) = 'off';
  RETURN QUERY
    SELECT 'warning', 'setting max_locks_per_transaction', format('the lock table holds about %s locks; a transaction of ours keeps up to 70', l.locks), 'raise max_locks_per_transaction'
      FROM (SELECT current_setting('max_locks_per_transaction')::bigint * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint) AS locks) l
     WHERE l.locks < 2000;
  RETURN QUERY
    SELECT 'warning', format('prepared transaction "%s"', x.gid), format('of %s, prepared at %s, holds an advisory lock: if it is a fence''s, a raise of that scope ends with TG006', x.owner, x.prepared), format('COMMIT PREPARED %L or ROLLBACK PREPARED %L', x.gid, x.gid)
      FROM pg_prepared_xacts x
     WHERE EXISTS (SELECT FROM pg_locks t JOIN pg_locks l ON l.virtualtransaction = t.virtualtransaction AND l.pid IS NULL AND l.locktype = 'advisory'
                    WHERE t.pid IS NULL AND t.locktype = 'transactionid' AND t.transactionid = x.transaction);
  RETURN QUERY
    SELECT 'info', format('scope "%s"', a.scope), format('sessions were evicted at %s for a raise to %s', a.at, a.detail ->> 'term'), 'find out why its writers stalled'
      FROM @schema@.audit a WHERE a.action = 'evict' AND a.at > clock_timestamp() - interval '1 day' ORDER BY a.id DESC LIMIT 20;
  RETURN QUERY SELECT l.severity, l.object, l.problem, l.remedy FROM @schema@._doctor_layer1() l;
END $$;

-- verify_findings(since) → one row for each breach that the stored rows show, at most 1,000 from each query below; none: all guarantees
-- were kept in what it has read. kind 'not looked at': what could not be judged, and why. `since` leaves out older stream writes. For
-- adopted tables it judges what they have reported (0009), and reads none of them.
CREATE OR REPLACE FUNCTION @schema@.verify_findings(since timestamptz DEFAULT NULL) RETURNS TABLE (kind text, scope text, object text, detail text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
  v_reset_scopes text[] := ARRAY(SELECT DISTINCT t.scope FROM @schema@.resets t);
  -- What a pruning of the history may have deleted is not reported as missing. The prunings stay on record.
  v_known_from timestamptz := coalesce((SELECT max(h.at - (h.detail ->> 'older_than')::interval) FROM @schema@.audit h WHERE h.action = 'prune_history'), '-infinity');
  -- How far the clock has gone back at most. Times that are closer than that show no order.
  v_back interval := greatest(
    (SELECT max(h.before - h.at) FROM (SELECT t.at, max(t.at) OVER (ORDER BY t.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM @schema@.audit t) h),
    (SELECT max(h.before - h.at) FROM (SELECT w.created_at AS at, lag(w.created_at) OVER (PARTITION BY w.stream_id ORDER BY w.sequence_no) AS before FROM @schema@.stream_writes w) h),
    interval '1 microsecond');
BEGIN
  -- F1: along a stream the terms of a scope never decrease, except where an audited reset has lowered them in between.
  RETURN QUERY
    SELECT 'term decreases', w.scope, w.stream_id, format('write %s has term %s after term %s', w.sequence_no, w.term, w.before)
      FROM (SELECT s.stream_id, s.sequence_no, s.scope, s.term, s.created_at, lag(s.term) OVER o AS before, lag(s.created_at) OVER o AS before_at
              FROM @schema@.stream_writes s WINDOW o AS (PARTITION BY s.stream_id, s.scope ORDER BY s.sequence_no)) w
     WHERE w.term < w.before AND (since IS NULL OR w.created_at >= since)
       AND NOT EXISTS (SELECT FROM @schema@.resets t WHERE t.scope = w.scope AND t.to_term <= w.term AND w.before > t.to_term
                          AND t.at BETWEEN w.before_at - v_back AND w.created_at + v_back)
     LIMIT 1000;
  -- The same for all streams of a scope, by the times of their writes: each write was made under the scope's lock.
  IF v_back > interval '1 second' THEN
    RETURN QUERY SELECT 'not looked at', NULL::text, 'the order of writes in several streams of a scope', format('the server''s clock went back by %s, so their times show no order', v_back);
  ELSE
    RETURN QUERY
      SELECT 'term decreases', w.scope, w.stream_id, format('write %s has term %s, and was written when the scope had come to term %s', w.sequence_no, w.term, w.before)
        FROM (SELECT s.*, greatest(s.low, max(s.term) OVER (PARTITION BY s.scope, s.epoch ORDER BY s.created_at RANGE BETWEEN UNBOUNDED PRECEDING AND v_back PRECEDING)) AS before
                FROM (SELECT x.scope, x.stream_id, x.sequence_no, x.term, x.created_at,
                             CASE WHEN x.scope = ANY (v_reset_scopes) THEN (SELECT count(*) FROM @schema@.resets t WHERE t.scope = x.scope AND t.at < x.created_at) END AS epoch,
                             CASE WHEN x.scope = ANY (v_reset_scopes)
                                  THEN (SELECT t.to_term FROM @schema@.resets t WHERE t.scope = x.scope AND t.at < x.created_at ORDER BY t.at DESC, t.id DESC LIMIT 1) END AS low
                        FROM @schema@.stream_writes x) s) w
       WHERE w.term < w.before AND (since IS NULL OR w.created_at >= since)
         AND NOT EXISTS (SELECT FROM @schema@.resets t WHERE t.scope = w.scope AND t.at BETWEEN w.created_at - v_back AND w.created_at + v_back)
       LIMIT 1000;
  END IF;
  -- Numbers have no gap after the first that pruning has left, and end where the stream's row says.
  RETURN QUERY
    SELECT 'gap', w.scope, w.stream_id, format('write %s follows write %s', w.sequence_no, w.before)
      FROM (SELECT s.stream_id, s.sequence_no, s.scope, s.created_at, lag(s.sequence_no) OVER (PARTITION BY s.stream_id ORDER BY s.sequence_no) AS before
              FROM @schema@.stream_writes s) w
     WHERE w.sequence_no <> w.before + 1 AND (since IS NULL OR w.created_at >= since) LIMIT 1000;
  RETURN QUERY
    SELECT 'gap', s.scope, s.stream_id, format('the stream stands at %s, its last write is %s', s.last_no, m.last)
      FROM @schema@.streams s, LATERAL (SELECT max(w.sequence_no) AS last FROM @schema@.stream_writes w WHERE w.stream_id = s.stream_id) m
     WHERE m.last > s.last_no OR (m.last < s.last_no) LIMIT 1000;
  RETURN QUERY
    SELECT 'gap', s.scope, s.stream_id, format('the stream stands at %s, %s, and pruning is on record up to %s', s.last_no,
                                               coalesce('its first write is ' || m.first, 'none of its writes is there'), coalesce(p.before, 1) - 1)
      FROM @schema@.streams s
      LEFT JOIN (SELECT h.detail ->> 'stream' AS stream_id, max((h.detail ->> 'before')::bigint) AS before FROM @schema@.audit h WHERE h.action = 'prune' GROUP BY 1) p
        ON p.stream_id COLLATE pg_catalog."C" = s.stream_id,
      LATERAL (SELECT min(w.sequence_no) AS first FROM @schema@.stream_writes w WHERE w.stream_id = s.stream_id) m
     WHERE coalesce(m.first, s.last_no + 1) > coalesce(p.before, 1) AND s.created_at >= v_known_from LIMIT 1000;
  RETURN QUERY
    SELECT 'unknown stream', w.scope, w.stream_id, 'there are writes of a stream that is not in streams'
      FROM (SELECT DISTINCT x.stream_id, x.scope FROM @schema@.stream_writes x) w
     WHERE NOT EXISTS (SELECT FROM @schema@.streams s WHERE s.stream_id = w.stream_id) LIMIT 1000;
  -- F1: a write's scope is its stream's, or was before a move that is on record.
  RETURN QUERY
    SELECT 'another scope''s write', w.scope, w.stream_id, format('write %s is of this scope, and the stream is of "%s" and was never moved', min(w.sequence_no), s.scope)
      FROM @schema@.stream_writes w JOIN @schema@.streams s ON s.stream_id = w.stream_id
     WHERE w.scope <> s.scope AND w.created_at >= v_known_from
       AND NOT EXISTS (SELECT FROM @schema@.audit h WHERE h.action = 'stream_move' AND h.detail ->> 'stream' = w.stream_id AND (h.detail ->> 'from' = w.scope OR h.scope = w.scope))
     GROUP BY w.scope, w.stream_id, s.scope LIMIT 1000;
  -- F3: no fence is below a term that was stored under it. Loose index scan: one probe for each scope.
  RETURN QUERY
    WITH RECURSIVE scopes(name) AS (
      SELECT min(w.scope) FROM @schema@.stream_writes w
      UNION ALL
      SELECT (SELECT min(w.scope) FROM @schema@.stream_writes w WHERE w.scope > s.name) FROM scopes s WHERE s.name IS NOT NULL)
    SELECT 'fence below a stored term', s.name, NULL::text, format('the fence stands at %s, a stored write has term %s', coalesce(f.term, 0), m.term)
      FROM scopes s LEFT JOIN @schema@.fences f ON f.scope = s.name, LATERAL (SELECT @schema@._stored_max(s.name) AS term) m
     WHERE s.name IS NOT NULL AND m.term > coalesce(f.term, 0) LIMIT 1000;
  -- No fence is below what the audit shows since its last reset.
  RETURN QUERY
    SELECT 'fence below the audit', h.scope, NULL::text, format('the fence stands at %s, and was raised to %s', coalesce(f.term, 0), max((h.detail ->> 'term')::bigint))
      FROM @schema@.audit h LEFT JOIN @schema@.fences f ON f.scope = h.scope
      LEFT JOIN (SELECT r.scope, max(r.id) AS id FROM @schema@.audit r WHERE r.action = 'reset' GROUP BY r.scope) r ON r.scope = h.scope
     WHERE h.action IN ('raise', 'seal', 'acquire', 'adopt', 'force_release', 'declare_restored', 'reset') AND h.id >= coalesce(r.id, 0)
     GROUP BY h.scope, f.term HAVING max((h.detail ->> 'term')::bigint) > coalesce(f.term, 0) LIMIT 1000;
  -- Every stored term, every fence and every reset is on record.
  IF v_known_from = '-infinity' THEN
    RETURN QUERY
      SELECT 'term never raised', t.scope, NULL::text, format('%s has term %s, and no raise to it is on record', CASE WHEN bool_or(t.fence) THEN 'the fence' ELSE 'a stored write' END, t.term)
        FROM (SELECT DISTINCT w.scope, w.term, false AS fence FROM @schema@.stream_writes w UNION ALL SELECT f.scope, f.term, true FROM @schema@.fences f WHERE f.term > 0) t
       WHERE NOT EXISTS (SELECT FROM @schema@.audit h WHERE h.scope = t.scope AND h.action IN ('raise', 'seal', 'acquire', 'adopt', 'force_release', 'declare_restored', 'reset') AND (h.detail ->> 'term')::bigint = t.term)
       GROUP BY t.scope, t.term LIMIT 1000;
  END IF;
  RETURN QUERY
    SELECT 'reset not on record', t.scope, NULL::text, format('from %s to %s', t.from_term, t.to_term)
      FROM (SELECT r.scope, r.from_term, r.to_term, count(*) AS times FROM @schema@.resets r WHERE r.at >= v_known_from GROUP BY 1, 2, 3) t
     WHERE t.times > (SELECT count(*) FROM @schema@.audit h WHERE h.scope = t.scope AND h.action = 'reset' AND (h.detail ->> 'term')::bigint = t.to_term
                         AND t.from_term IN ((h.detail ->> 'previous')::bigint, (h.detail ->> 'evidence')::bigint)) LIMIT 1000;
  RETURN QUERY
    SELECT 'lease above its fence', l.scope, NULL::text, format('the lease of %s has term %s, the fence stands at %s', l.owner_id, l.term, coalesce(f.term, 0))
      FROM @schema@.leases l LEFT JOIN @schema@.fences f ON f.scope = l.scope WHERE l.term > coalesce(f.term, 0) LIMIT 1000;
  RETURN QUERY
    SELECT 'adopted row above the fence', a.scope, NULL::text, format('the fence stands at %s, a row of an adopted table had term %s', coalesce(f.term, 0), a.term)
      FROM @schema@.adopted_terms a LEFT JOIN @schema@.fences f ON f.scope = a.scope WHERE a.term > coalesce(f.term, 0) LIMIT 1000;
END $$;
