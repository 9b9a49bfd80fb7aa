-- Who may raise this scope's fence: any writer, or seal alone.
SELECT $2::text AS raise_by FROM (SELECT @schema@.set_raise_by($1, $2, session_user::text)) done
