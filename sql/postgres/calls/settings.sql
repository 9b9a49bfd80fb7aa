-- The settings and what each is for.
SELECT name, value, what FROM @schema@.setting_list ORDER BY name
