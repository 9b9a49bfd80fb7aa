# SQLAlchemy: tables, CRUD, reflection, and Alembic's operations and autogenerate. Printed so that two runs can be compared; where to
# connect: libpq's environment.
import datetime
import decimal
import enum
import os
import uuid

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql as pg

UTC = datetime.timezone.utc
engine = sa.create_engine(
    "postgresql+psycopg2://", connect_args={"options": os.environ.get("PGOPTIONS", ""), "dbname": os.environ["PGDATABASE"]}, future=True
)
Base = orm.declarative_base()


def say(what, answer):
    try:
        answer = answer() if callable(answer) else answer
        print(what, "=", answer, flush=True)
    except Exception as error:  # noqa: BLE001
        print(what, "!", type(error).__name__, str(error).split("\n")[0], flush=True)


class Mood(enum.Enum):
    good = 1
    bad = 2


class User(Base):
    __tablename__ = "sa_user"
    id = sa.Column(sa.Integer, primary_key=True)
    name = sa.Column(sa.String(30), nullable=False, unique=True)
    mood = sa.Column(sa.Enum(Mood, native_enum=False, length=10))
    balance = sa.Column(sa.Numeric(10, 2), server_default="0")
    born = sa.Column(sa.Date)
    at = sa.Column(sa.DateTime(timezone=True), server_default=sa.func.now())
    seen = sa.Column(sa.DateTime)
    active = sa.Column(sa.Boolean, nullable=False, default=True)
    wait = sa.Column(sa.Interval)
    data = sa.Column(pg.JSONB)
    tags = sa.Column(pg.ARRAY(sa.Text))
    key = sa.Column(pg.UUID(as_uuid=True))
    raw = sa.Column(sa.LargeBinary)
    score = sa.Column(sa.Float)
    posts = orm.relationship("Post", back_populates="user", cascade="all, delete-orphan", order_by="Post.id")
    __table_args__ = (sa.CheckConstraint("balance >= 0", name="sa_balance"), sa.Index("ix_sa_mood_born", "mood", sa.text("born DESC")))


class Post(Base):
    __tablename__ = "sa_post"
    id = sa.Column(sa.BigInteger, primary_key=True)
    user_id = sa.Column(sa.ForeignKey("sa_user.id", ondelete="CASCADE"), nullable=False, index=True)
    title = sa.Column(sa.String(50))
    size = sa.Column(sa.SmallInteger)
    user = orm.relationship("User", back_populates="posts")


say("create_all", lambda: Base.metadata.create_all(engine))
say("again", lambda: Base.metadata.create_all(engine))
Session = orm.sessionmaker(engine, future=True)
session = Session()
ann = User(
    name="ann",
    mood=Mood.good,
    balance=decimal.Decimal("12.50"),
    born=datetime.date(1970, 1, 1),
    at=datetime.datetime(2024, 1, 1, 10, tzinfo=UTC),
    seen=datetime.datetime(2024, 2, 2, 3, 4, 5, 678),
    wait=datetime.timedelta(days=2, seconds=3),
    data={"a": [1, {"b": None}], "k": "v"},
    tags=["x", "y z", 'q"'],
    key=uuid.UUID(int=7),
    raw=b"\x00\xff",
    score=0.1,
)
bob = User(name="bob", data={"k": 2}, tags=[], balance=3)
ann.posts = [Post(title=f"p{i}", size=i) for i in range(3)]


def stored():
    session.add_all([ann, bob])
    session.commit()
    return ann.id, bob.id, [p.id for p in ann.posts]


say("insert", stored)
say("defaults", lambda: (bob.balance, bob.active, bob.at is not None))


def rows(query):
    return [tuple(row) for row in session.execute(query)]


def scalars(query):
    return list(session.execute(query).scalars())


U, P = User, Post
say(
    "all",
    lambda: rows(
        sa.select(U.id, U.name, U.mood, U.balance, U.born, U.seen, U.active, U.wait, U.data, U.tags, U.key, U.raw, U.score).order_by(U.id)
    ),
)
say("where", lambda: scalars(sa.select(U.name).where(U.balance > decimal.Decimal("5"), U.active.is_(True))))
say("like", lambda: scalars(sa.select(U.name).where(U.name.ilike("A%"))))
say("in", lambda: scalars(sa.select(U.name).where(U.id.in_([1, 2, 9])).order_by(U.name)))
say("join", lambda: rows(sa.select(U.name, P.title).join(P).order_by(P.id)))
say("left", lambda: rows(sa.select(U.name, sa.func.count(P.id)).outerjoin(P).group_by(U.id).order_by(U.id)))
say("json", lambda: scalars(sa.select(U.name).where(U.data["k"].astext == "v")))
say("json int", lambda: scalars(sa.select(U.name).where(U.data["k"].as_integer() == 2).where(U.name == "bob")))
say("json contains", lambda: scalars(sa.select(U.name).where(U.data.contains({"k": "v"}))))
say("json key", lambda: scalars(sa.select(U.name).where(U.data.has_key("a"))))
say("json path", lambda: scalars(sa.select(U.data[("a", 0)].astext)))
say("array", lambda: scalars(sa.select(U.name).where(U.tags.any("x"))))
say("array contains", lambda: scalars(sa.select(U.name).where(U.tags.contains(["x"]))))
say("array overlap", lambda: scalars(sa.select(U.name).where(U.tags.overlap(["x", "n"]))))
say("array agg", lambda: scalars(sa.select(sa.func.array_agg(pg.aggregate_order_by(P.title, P.id.desc())))))
say("string agg", lambda: scalars(sa.select(sa.func.string_agg(P.title, pg.aggregate_order_by(sa.literal(","), P.id.desc())))))
say("decimal", lambda: scalars(sa.select(U.balance / 3).order_by(U.id)))
say("sum", lambda: rows(sa.select(sa.func.sum(U.balance), sa.func.avg(P.size), sa.func.max(U.born)).outerjoin(P)))
say("case", lambda: scalars(sa.select(sa.case((U.balance > 5, "rich"), else_="poor")).order_by(U.id)))
say("cast", lambda: scalars(sa.select(sa.cast(U.balance, sa.String)).order_by(U.id)))
say("coalesce", lambda: scalars(sa.select(sa.func.coalesce(U.born, datetime.date(2000, 1, 1))).order_by(U.id)))
say("extract", lambda: scalars(sa.select(sa.extract("year", U.born)).order_by(U.id)))
say("interval", lambda: scalars(sa.select(U.at + U.wait).order_by(U.id)))
say("distinct on", lambda: rows(sa.select(P.user_id, P.title).distinct(P.user_id).order_by(P.user_id, P.id.desc())))
say("window", lambda: rows(sa.select(P.title, sa.func.row_number().over(order_by=P.size.desc())).order_by(P.id)))
say("exists", lambda: scalars(sa.select(U.name).where(U.posts.any(P.size > 1))))
totals = sa.select(P.user_id, sa.func.sum(P.size).label("s")).group_by(P.user_id).cte("totals")
say("cte", lambda: rows(sa.select(U.name, totals.c.s).join(totals, totals.c.user_id == U.id)))
last = sa.select(P.title).where(P.user_id == U.id).order_by(P.id.desc()).limit(1).lateral("last")
say("lateral", lambda: rows(sa.select(U.name, last.c.title).join(last, sa.true())))
say("union", lambda: rows(sa.union(sa.select(U.name), sa.select(P.title)).order_by("name")))
say("limit", lambda: scalars(sa.select(P.title).order_by(P.id).limit(1).offset(1)))
say("insert returning", lambda: rows(sa.insert(P).values(user_id=1, title="r", size=9).returning(P.id, P.title)))
say("insert many", lambda: session.execute(sa.insert(P), [{"user_id": 1, "title": f"m{i}", "size": i} for i in range(5)]).rowcount)
say(
    "update returning",
    lambda: rows(sa.update(P).where(P.title == "r").values(size=P.size + 1).returning(P.size).execution_options(synchronize_session=False)),
)
upsert = pg.insert(U).values(name="ann", balance=99)
say(
    "upsert",
    lambda: rows(
        upsert.on_conflict_do_update(index_elements=[U.name], set_={"balance": upsert.excluded.balance + U.balance}).returning(
            U.id, U.balance
        )
    ),
)
say(
    "upsert constraint",
    lambda: rows(upsert.on_conflict_do_update(constraint="sa_user_name_key", set_={"score": 2.5}).returning(U.id, U.score)),
)
say("ignore", lambda: session.execute(upsert.on_conflict_do_nothing()).rowcount)
moved = sa.delete(P).where(P.size > 3).returning(P.id, P.title).cte("gone")
say("delete cte", lambda: rows(sa.select(sa.func.count()).select_from(moved)))
say("commit", lambda: session.commit())


def failing(act):
    try:
        with session.begin_nested():
            act()
    except sa.exc.DBAPIError as error:
        diag = error.orig.diag
        return type(error.orig).__name__, diag.sqlstate, diag.table_name, diag.column_name, diag.constraint_name, diag.message_primary
    return "nothing"


say("unique", lambda: failing(lambda: session.execute(sa.insert(U).values(name="ann"))))
say("null", lambda: failing(lambda: session.execute(sa.insert(U).values(name=None))))
say("check", lambda: failing(lambda: session.execute(sa.update(U).values(balance=-1))))
say("foreign", lambda: failing(lambda: session.execute(sa.insert(P).values(user_id=77))))
say("too long", lambda: failing(lambda: session.execute(sa.insert(U).values(name="x" * 31))))
say("after", lambda: session.execute(sa.select(sa.func.count(U.id))).scalar())
say("object", lambda: (setattr(session.get(U, 1), "balance", decimal.Decimal("1.01")), session.commit(), session.get(U, 1).balance)[2])
say("locked", lambda: session.execute(sa.select(U.id).with_for_update(skip_locked=True).order_by(U.id)).scalars().all())
say(
    "stream",
    lambda: [
        r for r in session.execute(sa.select(P.id).order_by(P.id), execution_options={"stream_results": True, "yield_per": 2}).scalars()
    ],
)
say("cascade", lambda: (session.delete(session.get(U, 1)), session.commit(), session.execute(sa.select(sa.func.count(P.id))).scalar())[2])
session.close()

inspector = sa.inspect(engine)
for table in ("sa_user", "sa_post"):
    say(
        "columns " + table,
        lambda t=table: [
            (c["name"], str(c["type"]), c["nullable"], c["default"], c.get("autoincrement")) for c in inspector.get_columns(t)
        ],
    )
    say("key", lambda t=table: inspector.get_pk_constraint(t))
    say("foreign keys", lambda t=table: inspector.get_foreign_keys(t))
    say("indexes", lambda t=table: sorted((i["name"], i["unique"], i["column_names"]) for i in inspector.get_indexes(t)))
    say("unique", lambda t=table: sorted((c["name"], c["column_names"]) for c in inspector.get_unique_constraints(t)))
    say("checks", lambda t=table: sorted(c["name"] for c in inspector.get_check_constraints(t)))
say("tables", lambda: sorted(t for t in inspector.get_table_names() if t.startswith("sa_")))
reflected = sa.MetaData()
say("reflect", lambda: reflected.reflect(engine, only=["sa_user", "sa_post"]))
say("reflected", lambda: [(c.name, str(c.type), c.nullable) for t in reflected.sorted_tables for c in t.columns])
say("reflected insert", lambda: [engine.connect().execute(sa.select(reflected.tables["sa_user"].c.name)).all()])


def compared(metadata):
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "include_object": lambda o, n, k, r, c: k != "table" or n.startswith("sa_")}
        )
        return sorted(str(d[0] if isinstance(d, tuple) else d[0][0]) for d in compare_metadata(context, metadata))


say("autogenerate", lambda: compared(Base.metadata))


def altered(act):
    with engine.begin() as connection:
        act(Operations(MigrationContext.configure(connection)))


for what, act in {
    "add column": lambda op: op.add_column("sa_user", sa.Column("nick", sa.String(10), server_default="n", nullable=False)),
    "alter type": lambda op: op.alter_column("sa_user", "nick", type_=sa.String(20), existing_type=sa.String(10)),
    "alter null": lambda op: op.alter_column("sa_user", "nick", nullable=True),
    "alter default": lambda op: op.alter_column("sa_user", "nick", server_default=None),
    "using": lambda op: op.alter_column("sa_post", "size", type_=sa.Integer, postgresql_using="size::integer"),
    "rename column": lambda op: op.alter_column("sa_user", "nick", new_column_name="alias"),
    "unique": lambda op: op.create_unique_constraint("uq_alias", "sa_user", ["alias", "name"]),
    "drop unique": lambda op: op.drop_constraint("uq_alias", "sa_user", type_="unique"),
    "check": lambda op: op.create_check_constraint("ck_size", "sa_post", "size < 1000"),
    "drop foreign key": lambda op: op.drop_constraint("sa_post_user_id_fkey", "sa_post", type_="foreignkey"),
    "foreign key": lambda op: op.create_foreign_key("fk_user", "sa_post", "sa_user", ["user_id"], ["id"], ondelete="SET NULL"),
    "index": lambda op: op.create_index("ix_title", "sa_post", ["title", "size"], unique=False),
    "drop index": lambda op: op.drop_index("ix_title", table_name="sa_post"),
    "table": lambda op: op.create_table(
        "sa_new", sa.Column("id", sa.Integer, primary_key=True), sa.Column("p", sa.ForeignKey("sa_post.id"))
    ),
    "rename table": lambda op: op.rename_table("sa_new", "sa_newer"),
    "bulk": lambda op: op.bulk_insert(sa.table("sa_newer", sa.column("id")), [{"id": 1}, {"id": 2}]),
    "drop column": lambda op: op.drop_column("sa_user", "alias"),
    "drop table": lambda op: op.drop_table("sa_newer"),
}.items():
    say("alembic " + what, lambda a=act: altered(a))
say("after it", lambda: [(c["name"], str(c["type"]), c["nullable"], c["default"]) for c in sa.inspect(engine).get_columns("sa_post")])
say("autogenerate", lambda: compared(Base.metadata))
say("drop_all", lambda: Base.metadata.drop_all(engine))
