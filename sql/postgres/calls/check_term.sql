-- Parameters and columns: sql/README.md. Takes the fence's lock until the transaction ends (F1, F5).
SELECT @schema@.check_term($1, $2::bigint) AS fence
