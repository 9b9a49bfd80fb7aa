-- Records a lowering, and so which stored terms are no longer evidence (F3). Parameters: scope, old term, new term,
-- moment, actor, reason. Rows: one. Locks: write lock held.
INSERT INTO main.termgate_resets (scope, old_term, new_term, at, actor, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
