-- A stream's writes in order, a page at a time. A payload of more than $4 bytes is returned as NULL, beside its length; read_payload reads
-- it in parts.
EXEC @schema@.read_stream @stream = $1, @after = $2, @limit = $3, @payload_max = $4
