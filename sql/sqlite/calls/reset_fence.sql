-- Lowers a fence, audited; nothing else can (F3). Parameters: scope, term, actor, reason. Locks: the write lock.
SELECT termgate_reset_fence($1, $2, $3, $4) AS previous
