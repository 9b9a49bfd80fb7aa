-- What the guarantees do not cover, or who could get round them; a row each. Parameters: none. Locks: none.
SELECT json_extract(e.value, '$.severity') AS severity, json_extract(e.value, '$.object') AS object, json_extract(e.value, '$.problem') AS problem, json_extract(e.value, '$.remedy') AS remedy
FROM json_each(termgate_doctor()) e
