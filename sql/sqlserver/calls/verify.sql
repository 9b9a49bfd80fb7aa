-- Every breach that the stored rows can show; since: milliseconds since 1970, or NULL for all of it.
EXEC @schema@.verify_findings @since_ms = $1
