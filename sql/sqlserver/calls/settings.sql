-- The settings and what each is for.
SELECT s.name, s.value, s.what FROM @schema@.setting_list s ORDER BY s.name
