-- Removes the trigger of adopt from a table; fences stay (F3).
SELECT @schema@.unadopt($1::text::regclass) AS unadopted
