-- Every breach that the stored rows show; since: milliseconds since 1970, or NULL for all of them.
SELECT kind, scope, object, detail
FROM @schema@.verify_findings(to_timestamp($1::bigint / 1000.0))
