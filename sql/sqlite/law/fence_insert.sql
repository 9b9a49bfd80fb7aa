-- A scope's first fence. Parameters: scope, term, moment, by whom, in doubt. Rows: one. Locks: write lock held. F2, F3.
INSERT INTO main.termgate_fences (scope, term, raised_at, raised_by, in_doubt)
VALUES (?1, ?2, ?3, ?4, ?5)
