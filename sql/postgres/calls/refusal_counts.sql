-- How many refusals each code has had, plain SQL's included. Rows: one for each code.
SELECT code, count FROM @schema@.refusal_counts ORDER BY code
