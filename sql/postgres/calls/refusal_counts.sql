-- How often each code was refused, plain SQL's refusals included. Rows: one for each code.
SELECT code, count FROM @schema@.refusal_counts ORDER BY code
