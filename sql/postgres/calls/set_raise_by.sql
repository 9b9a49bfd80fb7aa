-- Who may raise this scope's fence: any writer, or seal alone.
SELECT @schema@.set_raise_by($1, $2) AS raise_by
