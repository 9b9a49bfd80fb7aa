-- The scopes whose gate a raise waits for. Parameters: scopes, a JSON array of at most 500. Rows: scope. For a proxy whose sessions hold
-- their gates until a raise wants them.
EXEC @schema@.gates_wanted @scopes = $1
