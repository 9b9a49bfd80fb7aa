"""Django: a database engine of ten lines declares scope and term (django_termgate/base.py). Models and views do not change."""
import os
import sys
from urllib.parse import urlsplit

import django
from django.conf import settings

place = urlsplit(os.environ["EXAMPLE_URL"])
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django_termgate",
            "HOST": place.hostname,
            "PORT": place.port,
            "USER": place.username,
            "PASSWORD": place.password or "",
            "NAME": place.path[1:],
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()

from django.db import DatabaseError, connection, models, transaction  # noqa: E402


class Account(models.Model):
    id = models.IntegerField(primary_key=True)
    balance = models.BigIntegerField()

    class Meta:
        app_label = "example"
        db_table = "accounts"


def raise_fence(scope, term):
    """A new leader's first act, in a transaction of its own: outside of atomic() each statement is one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT termgate.check_term(%s, %s)", (scope, int(term)))


def main():
    try:
        if os.environ.get("EXAMPLE_WON"):
            raise_fence(os.environ["TERMGATE_SCOPE"], os.environ["TERMGATE_TERM"])
        with transaction.atomic():
            account = Account.objects.get(id=42)
            account.balance -= 30
            account.save()
        print("written")
    except DatabaseError as error:
        print("refused", error.__cause__.pgcode)
        sys.exit(3)


if __name__ == "__main__":
    main()
