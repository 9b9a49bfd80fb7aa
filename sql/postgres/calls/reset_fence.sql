-- Lowers a fence, audited; nothing else can (F3).
SELECT @schema@.reset_fence($1, $2::bigint, $3, $4) AS previous
