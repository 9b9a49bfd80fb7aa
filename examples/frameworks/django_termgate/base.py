"""A database engine for Django: PostgreSQL's own, which declares scope and term at the start of every transaction.

In the settings: DATABASES = {"default": {"ENGINE": "django_termgate", …}}
"""
import os

from django.db.backends.postgresql import base


class DatabaseWrapper(base.DatabaseWrapper):
    # Where the term comes from. Bind it when the work begins: a request that was admitted under term 5 ends under term 5.
    @staticmethod
    def declared():
        return os.environ.get("TERMGATE_SCOPE"), os.environ.get("TERMGATE_TERM")

    def _set_autocommit(self, autocommit):
        super()._set_autocommit(autocommit)
        scope, term = self.declared()
        if not autocommit and term:  # atomic() begins here
            with self.connection.cursor() as cursor:
                cursor.execute("SELECT set_config('termgate.scope', %s, true), set_config('termgate.term', %s, true)", (scope, term))
