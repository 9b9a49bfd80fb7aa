-- Only Termgate writes to Termgate's own tables (F1, F2, F3, F5).
--
-- Parameters: none. Rows: none. Locks: the installer's BEGIN IMMEDIATE. A fence that was lowered or trusted by hand, a reset, a lease or a
-- write that nobody checked, a deleted audit row: each would be taken for what layer 1 did. So a trigger of each table calls the guard,
-- which tests whether one of layer 1's own statements is running. Anybody may make a lease end earlier
-- (testkit/include/termgate/testkit/lease_clock.hpp), which gives nobody a term. A program that rewrites the schema (DROP TRIGGER,
-- writable_schema) is not stopped: docs/reference/security.md.

DROP TRIGGER IF EXISTS termgate_migrations_own_insert;
CREATE TRIGGER termgate_migrations_own_insert BEFORE INSERT ON termgate_migrations BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_migrations is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_migrations') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_migrations_own_update;
CREATE TRIGGER termgate_migrations_own_update BEFORE UPDATE ON termgate_migrations BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_migrations is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_migrations') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_migrations_own_delete;
CREATE TRIGGER termgate_migrations_own_delete BEFORE DELETE ON termgate_migrations BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_migrations is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_migrations') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_leases_own_insert;
CREATE TRIGGER termgate_leases_own_insert BEFORE INSERT ON termgate_leases BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_leases is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_leases') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_leases_own_update;
CREATE TRIGGER termgate_leases_own_update BEFORE UPDATE ON termgate_leases
  WHEN NEW.expires_at > OLD.expires_at OR NEW.scope IS NOT OLD.scope OR NEW.owner_id IS NOT OLD.owner_id OR NEW.term IS NOT OLD.term
    OR NEW.acquired_at IS NOT OLD.acquired_at OR NEW.renewed_at IS NOT OLD.renewed_at OR NEW.released_at IS NOT OLD.released_at
    OR NEW.endpoint IS NOT OLD.endpoint BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_leases is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_leases') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_leases_own_delete;
CREATE TRIGGER termgate_leases_own_delete BEFORE DELETE ON termgate_leases BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_leases is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_leases') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_streams_own_insert;
CREATE TRIGGER termgate_streams_own_insert BEFORE INSERT ON termgate_streams BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_streams is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_streams') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_streams_own_update;
CREATE TRIGGER termgate_streams_own_update BEFORE UPDATE ON termgate_streams BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_streams is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_streams') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_streams_own_delete;
CREATE TRIGGER termgate_streams_own_delete BEFORE DELETE ON termgate_streams BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_streams is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_streams') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_stream_writes_own_insert;
CREATE TRIGGER termgate_stream_writes_own_insert BEFORE INSERT ON termgate_stream_writes BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_stream_writes is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_stream_writes') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_stream_writes_own_update;
CREATE TRIGGER termgate_stream_writes_own_update BEFORE UPDATE ON termgate_stream_writes BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_stream_writes is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_stream_writes') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_stream_writes_own_delete;
CREATE TRIGGER termgate_stream_writes_own_delete BEFORE DELETE ON termgate_stream_writes BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_stream_writes is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_stream_writes') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_write_ids_own_insert;
CREATE TRIGGER termgate_write_ids_own_insert BEFORE INSERT ON termgate_write_ids BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_write_ids is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_write_ids') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_write_ids_own_update;
CREATE TRIGGER termgate_write_ids_own_update BEFORE UPDATE ON termgate_write_ids BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_write_ids is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_write_ids') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_write_ids_own_delete;
CREATE TRIGGER termgate_write_ids_own_delete BEFORE DELETE ON termgate_write_ids BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_write_ids is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_write_ids') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_adopted_own_insert;
CREATE TRIGGER termgate_adopted_own_insert BEFORE INSERT ON termgate_adopted BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_adopted is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_adopted') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_adopted_own_update;
CREATE TRIGGER termgate_adopted_own_update BEFORE UPDATE ON termgate_adopted BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_adopted is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_adopted') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_adopted_own_delete;
CREATE TRIGGER termgate_adopted_own_delete BEFORE DELETE ON termgate_adopted BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_adopted is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_adopted') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_protected_own_insert;
CREATE TRIGGER termgate_protected_own_insert BEFORE INSERT ON termgate_protected BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_protected is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_protected') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_protected_own_update;
CREATE TRIGGER termgate_protected_own_update BEFORE UPDATE ON termgate_protected BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_protected is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_protected') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_protected_own_delete;
CREATE TRIGGER termgate_protected_own_delete BEFORE DELETE ON termgate_protected BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_protected is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_protected') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_observed_own_insert;
CREATE TRIGGER termgate_observed_own_insert BEFORE INSERT ON termgate_observed BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_observed is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_observed') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_observed_own_update;
CREATE TRIGGER termgate_observed_own_update BEFORE UPDATE ON termgate_observed BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_observed is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_observed') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_observed_own_delete;
CREATE TRIGGER termgate_observed_own_delete BEFORE DELETE ON termgate_observed BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_observed is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_observed') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_job_runs_own_insert;
CREATE TRIGGER termgate_job_runs_own_insert BEFORE INSERT ON termgate_job_runs BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_job_runs is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_job_runs') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_job_runs_own_update;
CREATE TRIGGER termgate_job_runs_own_update BEFORE UPDATE ON termgate_job_runs BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_job_runs is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_job_runs') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_job_runs_own_delete;
CREATE TRIGGER termgate_job_runs_own_delete BEFORE DELETE ON termgate_job_runs BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_job_runs is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_job_runs') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_audit_own_insert;
CREATE TRIGGER termgate_audit_own_insert BEFORE INSERT ON termgate_audit BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_audit is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_audit') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_audit_own_update;
CREATE TRIGGER termgate_audit_own_update BEFORE UPDATE ON termgate_audit BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_audit is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_audit') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_audit_own_delete;
CREATE TRIGGER termgate_audit_own_delete BEFORE DELETE ON termgate_audit BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_audit is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_audit') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_resets_own_insert;
CREATE TRIGGER termgate_resets_own_insert BEFORE INSERT ON termgate_resets BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_resets is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_resets') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_resets_own_update;
CREATE TRIGGER termgate_resets_own_update BEFORE UPDATE ON termgate_resets BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_resets is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_resets') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_resets_own_delete;
CREATE TRIGGER termgate_resets_own_delete BEFORE DELETE ON termgate_resets BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_resets is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_resets') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_settings_own_insert;
CREATE TRIGGER termgate_settings_own_insert BEFORE INSERT ON termgate_settings BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_settings is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_settings') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_settings_own_update;
CREATE TRIGGER termgate_settings_own_update BEFORE UPDATE ON termgate_settings BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_settings is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_settings') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_settings_own_delete;
CREATE TRIGGER termgate_settings_own_delete BEFORE DELETE ON termgate_settings BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_settings is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_settings') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_incarnation_own_insert;
CREATE TRIGGER termgate_incarnation_own_insert BEFORE INSERT ON termgate_incarnation BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_incarnation is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_incarnation') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_incarnation_own_update;
CREATE TRIGGER termgate_incarnation_own_update BEFORE UPDATE ON termgate_incarnation BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_incarnation is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_incarnation') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_incarnation_own_delete;
CREATE TRIGGER termgate_incarnation_own_delete BEFORE DELETE ON termgate_incarnation BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_incarnation is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_incarnation') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_followers_own_insert;
CREATE TRIGGER termgate_followers_own_insert BEFORE INSERT ON termgate_followers BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_followers is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_followers') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_followers_own_update;
CREATE TRIGGER termgate_followers_own_update BEFORE UPDATE ON termgate_followers BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_followers is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_followers') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_followers_own_delete;
CREATE TRIGGER termgate_followers_own_delete BEFORE DELETE ON termgate_followers BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_followers is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_followers') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_follower_positions_own_insert;
CREATE TRIGGER termgate_follower_positions_own_insert BEFORE INSERT ON termgate_follower_positions BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_follower_positions is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_follower_positions') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_follower_positions_own_update;
CREATE TRIGGER termgate_follower_positions_own_update BEFORE UPDATE ON termgate_follower_positions BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_follower_positions is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_follower_positions') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_follower_positions_own_delete;
CREATE TRIGGER termgate_follower_positions_own_delete BEFORE DELETE ON termgate_follower_positions BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_follower_positions is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_follower_positions') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_fences_own_insert;
CREATE TRIGGER termgate_fences_own_insert BEFORE INSERT ON termgate_fences BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_fences is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_fences') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_fences_own_update;
CREATE TRIGGER termgate_fences_own_update BEFORE UPDATE ON termgate_fences BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_fences is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_fences') IS NULL;
END;

DROP TRIGGER IF EXISTS termgate_fences_own_delete;
CREATE TRIGGER termgate_fences_own_delete BEFORE DELETE ON termgate_fences BEGIN
  SELECT RAISE(ABORT, 'TG005 termgate_fences is written by Termgate alone') WHERE termgate_guard_load_termgate_extension_first('own', 'termgate_fences') IS NULL;
END;
