-- What a text given as JSON is; malformed text is an error. Parameters: the text. Rows: one, the type. Locks: none.
SELECT json_type(?1)
