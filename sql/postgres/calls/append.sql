-- Check and append in one transaction (F5); the stream's row stays locked until the transaction ends.
SELECT @schema@.append($1, $2::bigint, $3::bytea, $4::bigint, $5::text, $6::uuid) AS sequence_no
