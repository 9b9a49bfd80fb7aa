-- Check, and record a write id for a write that is no append; fresh is false if the id was recorded before (F5).
DECLARE @fresh bit, @fence bigint;
EXEC @schema@.claim_write @scope = $1, @term = $2, @write_id = $3, @fresh = @fresh OUTPUT, @fence = @fence OUTPUT;
SELECT @fresh AS fresh, @fence AS fence
