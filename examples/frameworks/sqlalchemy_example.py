"""SQLAlchemy: one listener declares scope and term at the start of every transaction, of Core and of sessions. No statement
changes."""
import os
import sys

from sqlalchemy import BigInteger, Column, Integer, create_engine, event, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import declarative_base, sessionmaker

Base = declarative_base()


class Account(Base):
    __tablename__ = "accounts"
    id = Column(Integer, primary_key=True)
    balance = Column(BigInteger)


def under(engine, scope, term):
    """The same engine and pool for work under `term`, which is bound here, when the work begins. A new term gets an engine of its own."""
    engine = engine.execution_options()

    @event.listens_for(engine, "begin")
    def begin(connection):
        connection.execute(
            text("SELECT set_config('termgate.scope', :scope, true), set_config('termgate.term', :term, true)"),
            {"scope": scope, "term": str(term)},
        )

    return engine


def raise_fence(engine, scope, term):
    """A new leader's first act, in a transaction of its own."""
    with engine.begin() as connection:
        connection.execute(text("SELECT termgate.check_term(:scope, :term)"), {"scope": scope, "term": int(term)})


def main():
    engine = create_engine(os.environ["EXAMPLE_URL"], future=True)  # `future` is how SQLAlchemy 2 always works
    scope, term = os.environ["TERMGATE_SCOPE"], os.environ.get("TERMGATE_TERM")
    try:
        if os.environ.get("EXAMPLE_WON"):
            raise_fence(engine, scope, term)
        if term:
            engine = under(engine, scope, term)
        if os.environ.get("EXAMPLE_CORE"):
            with engine.begin() as connection:
                connection.execute(update(Account).where(Account.id == 42).values(balance=Account.balance - 30))
        else:
            with sessionmaker(engine).begin() as session:
                session.get(Account, 42).balance -= 30
        print("written")
    except DBAPIError as error:
        print("refused", error.orig.pgcode)
        sys.exit(3)


if __name__ == "__main__":
    main()
