-- The items of a batch given as a JSON array. Parameters: the text. Rows: type, value as text, hex of {"hex":"..."}.
-- Locks: none.
SELECT j.type, j.value, CASE WHEN j.type = 'object' THEN json_extract(j.value, '$.hex') END
FROM json_each(?1) j ORDER BY j.key
