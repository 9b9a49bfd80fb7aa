-- A scope is trusted again: the operator declares how high its terms had come (F3).
SELECT @schema@.declare_restored($1, $2::bigint, $3, $4) AS fence
