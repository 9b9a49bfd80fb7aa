// Generated from sql/ by tools/client_statements.py: edit the .sql files.
export const STATEMENTS = {
  postgresql: {
    acquire_lease: "SELECT acquired, term, (extract(epoch FROM expires_at) * 1000)::bigint AS expires_at_ms, owner_id, (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint AS remaining_ms FROM @schema@.acquire_lease($1, $2, $3::bigint * interval '1 millisecond', $4, $5::bigint * interval '1 millisecond')",
    renew_lease: "SELECT renewed, (extract(epoch FROM expires_at) * 1000)::bigint AS expires_at_ms, (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint AS remaining_ms, (extract(epoch FROM (to_jsonb(r) ->> 'leave_before')::timestamptz - clock_timestamp()) * 1000)::bigint AS leave_in_ms FROM @schema@.renew_lease($1, $2, $3::bigint, $4::bigint * interval '1 millisecond') r",
    release_lease: "SELECT @schema@.release_lease($1, $2, $3::bigint) AS released",
    lease: "SELECT scope, owner_id, term, (extract(epoch FROM expires_at) * 1000)::bigint AS expires_at_ms, (extract(epoch FROM acquired_at) * 1000)::bigint AS acquired_at_ms, (extract(epoch FROM renewed_at) * 1000)::bigint AS renewed_at_ms, (extract(epoch FROM released_at) * 1000)::bigint AS released_at_ms, endpoint, CASE WHEN released_at IS NULL THEN (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint ELSE 0 END AS remaining_ms FROM @schema@.lease_status WHERE scope = $1",
    check_term: "SELECT @schema@.check_term($1, $2::bigint) AS fence",
  },
  sqlserver: {
    acquire_lease: "EXEC @schema@.acquire_lease @scope = $1, @owner = $2, @ttl_ms = $3, @endpoint = $4, @grace_ms = $5",
    renew_lease: "EXEC @schema@.renew_lease @scope = $1, @owner = $2, @term = $3, @ttl_ms = $4",
    release_lease: "DECLARE @released bit; EXEC @schema@.release_lease @scope = $1, @owner = $2, @term = $3, @released = @released OUTPUT; SELECT @released AS released",
    lease: "EXEC @schema@.lease @scope = $1",
    check_term: "DECLARE @fence bigint; EXEC @schema@.check_term @scope = $1, @term = $2, @fence = @fence OUTPUT; SELECT @fence AS fence",
  },
  sqlite: {
    acquire_lease: "WITH answer(j) AS MATERIALIZED (SELECT termgate_acquire_lease($1, $2, $3, $4, $5)) SELECT json_extract(j, '$.acquired') AS acquired, json_extract(j, '$.term') AS term, json_extract(j, '$.expires_at') AS expires_at_ms, json_extract(j, '$.owner_id') AS owner_id, json_extract(j, '$.remaining_ms') AS remaining_ms FROM answer",
    renew_lease: "WITH answer(j) AS MATERIALIZED (SELECT termgate_renew_lease($1, $2, $3, $4)) SELECT json_extract(j, '$.renewed') AS renewed, json_extract(j, '$.expires_at') AS expires_at_ms, json_extract(j, '$.remaining_ms') AS remaining_ms, json_extract(j, '$.leave_in_ms') AS leave_in_ms FROM answer",
    release_lease: "SELECT termgate_release_lease($1, $2, $3) AS released",
    lease: "SELECT scope, owner_id, term, expires_at AS expires_at_ms, acquired_at AS acquired_at_ms, renewed_at AS renewed_at_ms, released_at AS released_at_ms, endpoint, CASE WHEN released_at IS NULL THEN expires_at - termgate_now() ELSE 0 END AS remaining_ms FROM main.termgate_leases WHERE scope = $1",
    check_term: "SELECT termgate_check_term($1, $2) AS fence",
  },
};
