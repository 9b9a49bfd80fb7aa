-- Every breach that the stored rows can show; since: milliseconds since 1970, or NULL for all of it.
SELECT kind, scope, object, detail
FROM @schema@.verify_findings(to_timestamp($1::bigint / 1000.0))
