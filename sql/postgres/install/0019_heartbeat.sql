-- A heartbeat that renews the lease. With this version seal() (0003) takes an actor and a reason. Keeps F2, F3.

-- job_heartbeat(run_id, checkpoint, ttl) → (beaten, renewed, beat_before): a heartbeat and the renewal of the run's lease in one call.
-- beat_before: the next call must succeed before then, because the lease ends then. beaten false: the run is not open any more, and the
-- lease was not renewed. renewed false: the run's owner does not hold the lease under the run's term any more. In both cases stop. Runs as
-- its caller, who needs the privileges of both: level lead. Locks: those of the check, then those of renew_lease.
CREATE OR REPLACE FUNCTION @schema@.job_heartbeat(run_id bigint, checkpoint text, ttl interval, OUT beaten boolean, OUT renewed boolean, OUT beat_before timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
<<job_heartbeat>>
DECLARE
  checkpoint text COLLATE pg_catalog."C" := checkpoint;
  j record;
BEGIN
  renewed := false;
  beaten := @schema@.job_heartbeat(run_id, checkpoint);
  IF beaten THEN
    SELECT h.scope, h.owner_id, h.term INTO j FROM @schema@.job_history h WHERE h.run_id = job_heartbeat.run_id;
    SELECT l.renewed, l.expires_at INTO renewed, beat_before FROM @schema@.renew_lease(j.scope, j.owner_id, j.term, ttl) l;
    IF NOT renewed THEN
      beat_before := NULL;
    END IF;
  END IF;
END $$;
REVOKE ALL ON FUNCTION @schema@.job_heartbeat(bigint, text, interval) FROM PUBLIC;
