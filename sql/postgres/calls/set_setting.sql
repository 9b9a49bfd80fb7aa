-- Checks and stores one setting.
SELECT name, value FROM @schema@.set_setting($1, $2)
