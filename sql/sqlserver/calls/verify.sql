-- Every breach that the stored rows show; since: milliseconds since 1970, or NULL for all of them.
EXEC @schema@.verify_findings @since_ms = $1
