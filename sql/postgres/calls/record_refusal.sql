-- Records refusals whose own transactions were rolled back, in a transaction of its own; false: too soon after the last record.
SELECT @schema@.record_refusal($1, $2::bigint, $3::bigint, to_timestamp($4::bigint / 1000.0), to_timestamp($5::bigint / 1000.0), $6) AS recorded
