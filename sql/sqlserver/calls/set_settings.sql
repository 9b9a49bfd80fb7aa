-- Several settings, all or none. Parameters: settings, a JSON array of {name, value}. Rows: one, with how many.
DECLARE @changed bigint;
EXEC @schema@.set_settings @settings = $1, @changed = @changed OUTPUT;
SELECT @changed AS changed
