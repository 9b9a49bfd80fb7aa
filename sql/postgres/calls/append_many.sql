-- As append, for a batch: all or nothing.
SELECT @schema@.append_many($1, $2::bigint, $3::bytea[], $4::bigint, $5::text, $6::uuid[]) AS sequence_no
