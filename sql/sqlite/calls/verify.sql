-- Every breach that verify() finds in the stored rows (F1, F2, F3, F5). Parameters: since_ms. Locks: none.
SELECT json_extract(e.value, '$.kind') AS kind, json_extract(e.value, '$.scope') AS scope, json_extract(e.value, '$.object') AS object, json_extract(e.value, '$.detail') AS detail
FROM json_each(termgate_verify($1)) e
