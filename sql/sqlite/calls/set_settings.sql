-- Several settings, all or none. Parameters: settings, a JSON array of {name, value}. Rows: one, with how many. Locks: the write lock.
SELECT count(termgate_set_setting(j.value ->> 'name', j.value ->> 'value')) AS changed FROM json_each($1) j
