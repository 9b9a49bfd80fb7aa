-- Check, and record a write id for a write that is no append; fresh is false if the id was recorded before (F5).
SELECT fresh, fence FROM @schema@.claim_write($1, $2::bigint, $3::uuid)
