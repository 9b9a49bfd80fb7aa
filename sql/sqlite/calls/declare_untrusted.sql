-- The operator declares that an older copy was put back (F3). Parameters: actor, reason. Locks: the write lock.
SELECT termgate_declare_untrusted($1, $2) AS scopes
