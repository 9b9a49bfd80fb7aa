-- The operator declares that an old copy was put back, which the database cannot detect (F3).
SELECT @schema@.declare_untrusted($1, $2) AS scopes
