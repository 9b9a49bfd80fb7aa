-- The settings and what each is for.
SELECT name, value, what FROM @schema@.settings ORDER BY name
