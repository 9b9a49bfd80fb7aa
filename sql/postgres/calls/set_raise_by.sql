-- Which raises of this scope are allowed: by any writer, or only by a seal.
SELECT @schema@.set_raise_by($1, $2) AS raise_by
