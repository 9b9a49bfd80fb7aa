-- Several settings, all or none. Parameters: settings, a JSON array of {name, value}. Rows: one, with how many.
SELECT count(s.name) AS changed FROM json_array_elements($1::json) j, @schema@.set_setting(j ->> 'name', j ->> 'value') s
