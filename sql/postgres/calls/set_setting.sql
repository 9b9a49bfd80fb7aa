-- Checks and stores one setting.
SELECT $1::text AS name, $2::text AS value FROM (SELECT @schema@.set_setting($1, $2, session_user::text)) done
