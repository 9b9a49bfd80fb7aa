# Django: its own migrations (auth, contenttypes, sessions, admin) and those of two models, then what programs do with them. Printed so that
# two runs can be compared; where to connect: libpq's environment.
import datetime
import decimal
import io
import os
import uuid

import django
from django.conf import settings

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": os.environ["PGDATABASE"],
            "USER": os.environ["PGUSER"],
            "HOST": os.environ["PGHOST"],
            "PORT": os.environ["PGPORT"],
            "OPTIONS": {"options": os.environ.get("PGOPTIONS", "")},
        }
    },
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "django.contrib.admin"],
    MIDDLEWARE=[],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
    TIME_ZONE="UTC",
    SECRET_KEY="x",
)
django.setup()
from django.contrib.auth.models import Group, User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, DataError, connection, migrations, models, transaction  # noqa: E402
from django.db.migrations.executor import MigrationExecutor  # noqa: E402
from django.db.models import Avg, Case, Count, Exists, F, Max, OuterRef, Q, Subquery, Sum, Value, When, Window  # noqa: E402
from django.db.models.functions import Coalesce, Concat, ExtractYear, Length, Lower, Rank, TruncMonth, Upper  # noqa: E402


def say(what, answer):
    try:
        answer = answer() if callable(answer) else answer
        print(what, "=", answer, flush=True)
    except Exception as error:  # noqa: BLE001
        print(what, "!", type(error).__name__, str(error).split("\n")[0], flush=True)


class Author(models.Model):
    name = models.CharField(max_length=40, unique=True)
    born = models.DateField(null=True)
    score = models.FloatField(default=0.5)

    class Meta:
        app_label = "lab"


class Book(models.Model):
    key = models.UUIDField(default=uuid.uuid4)
    title = models.CharField(max_length=60, db_index=True)
    author = models.ForeignKey(Author, models.CASCADE, related_name="books")
    price = models.DecimalField(max_digits=8, decimal_places=2)
    sold = models.IntegerField(default=0)
    at = models.DateTimeField()
    length = models.DurationField(null=True)
    data = models.JSONField(default=dict)
    raw = models.BinaryField(default=b"")
    open = models.BooleanField(default=True)
    tags = models.ManyToManyField(Group)

    class Meta:
        app_label = "lab"
        constraints = [
            models.CheckConstraint(check=Q(price__gte=0), name="price_not_negative"),
            models.UniqueConstraint(fields=["author", "title"], name="one_title"),
        ]


def migrated():
    call_command("migrate", verbosity=0)
    for _ in range(2):
        executor = MigrationExecutor(connection)
    return sorted((app, name) for app, name in executor.loader.applied_migrations)


say("migrate", lambda: len(migrated()))
say("migrations", lambda: migrated()[-5:])
say("groups", lambda: User.objects.count())
for model in (Author, Book):

    def create(of=model):
        with connection.schema_editor() as editor:
            editor.create_model(of)

    say("create " + model.__name__, create)


def changed(act):
    with connection.schema_editor() as editor:
        act(editor)


def field(kind, name, model):
    kind.set_attributes_from_name(name)
    kind.model = model
    return kind


say("user", lambda: User.objects.create_user("ann", "a@b.c", "secret").id)
say("login", lambda: User.objects.get(username="ann").check_password("secret"))
ann, bob = Author(name="Ann", born=datetime.date(1970, 1, 2)), Author(name="Bob")
for each in (ann, bob):
    say("save", lambda one=each: one.save())
UTC = datetime.timezone.utc
for i in range(6):
    say(
        "book",
        lambda n=i: Book.objects.create(
            key=uuid.UUID(int=n),
            title=f"Title {n}",
            author=ann if n % 2 else bob,
            price=decimal.Decimal("10.50") + n,
            sold=n * 3,
            at=datetime.datetime(2024, 1 + n, 5, 10, 30, tzinfo=UTC),
            length=datetime.timedelta(hours=30 * n, microseconds=5),
            data={"n": n, "list": [1, "x", None], "deep": {"a": n / 2}},
            raw=bytes([0, n, 255]),
        ).pk,
    )
books = Book.objects.order_by("pk")
say("all", lambda: list(books.values_list("pk", "key", "title", "author__name", "price", "sold", "at", "length", "data", "open")))
say("raw", lambda: [bytes(b.raw) for b in books])
say("filter", lambda: list(books.filter(price__gt=decimal.Decimal("12.5"), author__name__startswith="A").values_list("title", flat=True)))
say("icontains", lambda: list(books.filter(title__icontains="TITLE 3").values_list("title", flat=True)))
say("regex", lambda: list(books.filter(title__regex=r"[2-4]$").values_list("title", flat=True)))
say("in", lambda: list(books.filter(sold__in=[3, 9, 100]).values_list("sold", flat=True)))
say("date", lambda: list(books.filter(at__year=2024, at__month__gte=4).values_list("at__date", flat=True)))
say("range", lambda: books.filter(at__range=(datetime.datetime(2024, 2, 1, tzinfo=UTC), datetime.datetime(2024, 4, 1, tzinfo=UTC))).count())
say("json key", lambda: list(books.filter(data__n=3).values_list("title", flat=True)))
say("json deep", lambda: list(books.filter(data__deep__a__gt=1).values_list("title", flat=True)))
say("json contains", lambda: list(books.filter(data__contains={"n": 2}).values_list("title", flat=True)))
say("json has key", lambda: books.filter(data__has_key="list").count())
say("length", lambda: list(books.filter(length__gt=datetime.timedelta(hours=50)).values_list("length", flat=True)))
say("aggregate", lambda: books.aggregate(Count("pk"), Sum("price"), Avg("price"), Max("at"), Avg("sold"), Sum("length")))
say("group", lambda: list(Author.objects.annotate(n=Count("books"), s=Sum("books__price")).order_by("name").values_list("name", "n", "s")))
say("having", lambda: list(Author.objects.annotate(n=Count("books")).filter(n__gt=2).order_by("name").values_list("name", flat=True)))
say("f", lambda: books.filter(pk__gt=0).update(price=F("price") / decimal.Decimal(4), sold=F("sold") + 1))
say("after f", lambda: list(books.values_list("price", "sold")))
say("expression", lambda: list(books.annotate(t=F("price") * F("sold")).values_list("t", flat=True)))
say("case", lambda: list(books.annotate(k=Case(When(sold__gt=7, then=Value("much")), default=Value("little"))).values_list("k", flat=True)))
say(
    "coalesce",
    lambda: list(Author.objects.order_by("pk").annotate(b=Coalesce("born", datetime.date(2000, 1, 1))).values_list("b", flat=True)),
)
say(
    "functions",
    lambda: list(
        books.annotate(
            u=Upper("title"), l=Lower("title"), n=Length("title"), c=Concat("title", Value("-"), "author__name"), y=ExtractYear("at")
        ).values_list("u", "l", "n", "c", "y")[:2]
    ),
)
say("trunc", lambda: list(books.annotate(m=TruncMonth("at")).values("m").annotate(n=Count("pk")).order_by("m").values_list("m", "n")))
say(
    "window",
    lambda: list(
        books.annotate(r=Window(Rank(), partition_by=F("author"), order_by=F("sold").desc())).values_list("pk", "r").order_by("pk")
    ),
)
say(
    "exists",
    lambda: list(Author.objects.filter(Exists(Book.objects.filter(author=OuterRef("pk"), sold__gt=15))).values_list("name", flat=True)),
)
say(
    "subquery",
    lambda: list(
        Author.objects.order_by("name")
        .annotate(last=Subquery(Book.objects.filter(author=OuterRef("pk")).order_by("-at").values("title")[:1]))
        .values_list("name", "last")
    ),
)
say("distinct", lambda: list(Book.objects.values_list("author__name", flat=True).distinct().order_by("author__name")))
say("distinct on", lambda: list(Book.objects.order_by("author", "-sold").distinct("author").values_list("title", flat=True)))
say("union", lambda: sorted(books.filter(sold=1).values_list("title").union(books.filter(sold=4).values_list("title"))))
say("slice", lambda: [b.title for b in books[1:3]])
say("reverse", lambda: list(books.reverse().values_list("pk", flat=True)[:2]))
say("select_related", lambda: [b.author.name for b in books.select_related("author")[:3]])
group = Group.objects.create(name="g")
say("many", lambda: [b.tags.add(group) for b in books[:3]])
say("prefetch", lambda: [[t.name for t in b.tags.all()] for b in books.prefetch_related("tags")])
say("bulk", lambda: len(Author.objects.bulk_create([Author(name=f"bulk{i}") for i in range(5)])))
say("bulk ids", lambda: [a.pk for a in Author.objects.filter(name__startswith="bulk").order_by("pk")])
say("ignore", lambda: len(Author.objects.bulk_create([Author(name="bulk1"), Author(name="bulk9")], ignore_conflicts=True)))
say("bulk update", lambda: Author.objects.bulk_update([Author(pk=ann.pk, score=3.25), Author(pk=bob.pk, score=4)], ["score"]))
say("scores", lambda: list(Author.objects.order_by("pk").values_list("score", flat=True)))
say("get_or_create", lambda: Author.objects.get_or_create(name="Cy")[1])
say("update_or_create", lambda: Author.objects.update_or_create(name="Cy", defaults={"born": datetime.date(1999, 9, 9)})[1])
say("in_bulk", lambda: sorted(Author.objects.in_bulk([ann.pk, bob.pk])))
say("iterator", lambda: [b.pk for b in books.iterator(chunk_size=2)])


def failing(act):
    with transaction.atomic():
        act()


say("unique", lambda: failing(lambda: Author.objects.create(name="Ann")))
say("check", lambda: failing(lambda: Book.objects.filter(pk=1).update(price=-1)))
say("null", lambda: failing(lambda: Author.objects.create(name=None)))
say("too long", lambda: failing(lambda: Author.objects.create(name="x" * 41)))
say("overflow", lambda: failing(lambda: Book.objects.filter(pk=1).update(sold=2**31)))
try:
    with transaction.atomic():
        Book.objects.filter(pk=1).update(sold=77)
        try:
            with transaction.atomic():
                Author.objects.create(name="Bob")
        except IntegrityError:
            print("inner rolled back")
        say("seen", lambda: Book.objects.get(pk=1).sold)
        raise DataError("out")
except DataError:
    pass
say("rolled back", lambda: Book.objects.get(pk=1).sold)
say("select for update", lambda: failing(lambda: list(books.select_for_update().values_list("pk", flat=True)[:2])))
say("late foreign key", lambda: failing(lambda: Book.objects.filter(pk=1).update(author_id=9999)))
say("delete", lambda: bob.delete()[0])
say("left", lambda: Book.objects.count())
# What makemigrations writes of changed models.
say(
    "alter length",
    lambda: changed(
        lambda e: e.alter_field(Author, Author._meta.get_field("name"), field(models.CharField(max_length=80, unique=True), "name", Author))
    ),
)
say(
    "alter null",
    lambda: changed(
        lambda e: e.alter_field(
            Author, Author._meta.get_field("born"), field(models.DateField(default=datetime.date(2001, 1, 1)), "born", Author)
        )
    ),
)
say(
    "alter type",
    lambda: changed(lambda e: e.alter_field(Book, Book._meta.get_field("sold"), field(models.BigIntegerField(default=0), "sold", Book))),
)
say("add field", lambda: changed(lambda e: e.add_field(Author, field(models.TextField(default="note"), "note", Author))))
say("add indexed", lambda: changed(lambda e: e.add_field(Author, field(models.IntegerField(null=True, db_index=True), "rank", Author))))
say(
    "add reference",
    lambda: changed(lambda e: e.add_field(Author, field(models.ForeignKey(Group, models.SET_NULL, null=True), "circle", Author))),
)
say("remove field", lambda: changed(lambda e: e.remove_field(Book, Book._meta.get_field("open"))))
say("remove check", lambda: changed(lambda e: e.remove_constraint(Book, Book._meta.constraints[0])))
say("remove unique", lambda: changed(lambda e: e.remove_constraint(Book, Book._meta.constraints[1])))
say("unique together", lambda: changed(lambda e: e.alter_unique_together(Book, [], [("title", "at")])))
say("index", lambda: changed(lambda e: e.add_index(Book, models.Index(fields=["-at", "title"], name="at_title"))))
say("rename table", lambda: changed(lambda e: e.alter_db_table(Book, "lab_book", "lab_work")))
say("rename back", lambda: changed(lambda e: e.alter_db_table(Book, "lab_work", "lab_book")))
say(
    "rename field",
    lambda: changed(
        lambda e: e.alter_field(Book, Book._meta.get_field("title"), field(models.CharField(max_length=60, db_index=True), "heading", Book))
    ),
)
with connection.cursor() as cursor:
    introspection = connection.introspection
    say("tables", lambda: sorted(t.name for t in introspection.get_table_list(cursor) if t.name.startswith(("auth", "lab", "django"))))
    say("columns", lambda: [tuple(c[:2]) + tuple(c[3:8]) for c in introspection.get_table_description(cursor, "lab_author")])
    say("relations", lambda: sorted(introspection.get_relations(cursor, "lab_book").items()))
    say("sequences", lambda: introspection.get_sequences(cursor, "lab_author"))
    say(
        "constraints",
        lambda: sorted(
            (
                k if not k.startswith("lab_") else k[:12],
                v["columns"],
                v["primary_key"],
                v["unique"],
                v["foreign_key"] or (),
                v["check"],
                v["index"],
            )
            for k, v in introspection.get_constraints(cursor, "lab_book").items()
        ),
    )
    say("raw sql", lambda: [cursor.execute("select count(*), max(id) from lab_author where id > %s", [0]), cursor.fetchall()][1])


def inspected():
    out = io.StringIO()
    call_command("inspectdb", "lab_author", stdout=out)
    return [line.strip() for line in out.getvalue().splitlines() if "=" in line]


say("inspectdb", inspected)
say("sequence reset", lambda: call_command("sqlsequencereset", "auth", no_color=True))
say("flush", lambda: call_command("flush", verbosity=0, interactive=False))
say("back", lambda: call_command("migrate", "auth", "0005", verbosity=0))
say("forth", lambda: call_command("migrate", verbosity=0))
for model in (Book, Author):

    def drop(of=model):
        with connection.schema_editor() as editor:
            editor.delete_model(of)

    say("drop " + model.__name__, drop)
