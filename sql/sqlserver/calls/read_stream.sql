-- A stream's writes in order, a page at a time; no lock. A payload of more than $4 bytes comes as NULL, beside its length: read_payload has it in parts.
EXEC @schema@.read_stream @stream = $1, @after = $2, @limit = $3, @payload_max = $4
