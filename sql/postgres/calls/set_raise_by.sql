-- Sets whether writers may raise this scope's fence.
SELECT @schema@.set_raise_by($1, $2) AS raise_by
