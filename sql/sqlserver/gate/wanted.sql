-- Scopes whose gate a raise waits for. Parameters: scopes, a JSON array of at most 500. Rows: scope. Sent by a proxy whose sessions hold their gates until somebody wants them.
EXEC @schema@.gates_wanted @scopes = $1
