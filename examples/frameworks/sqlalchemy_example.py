"""SQLAlchemy: one listener declares scope and term at the start of every transaction. No statement changes."""
import os
import sys

from sqlalchemy import BigInteger, Column, Integer, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import declarative_base, sessionmaker

Base = declarative_base()


class Account(Base):
    __tablename__ = "accounts"
    id = Column(Integer, primary_key=True)
    balance = Column(BigInteger)


def declare(sessions, scope, term):
    """Every transaction of these sessions runs under `term`, which is bound here, when the work begins."""

    @event.listens_for(sessions, "after_begin")
    def after_begin(_session, _transaction, connection):
        connection.execute(
            text("SELECT set_config('termgate.scope', :scope, true), set_config('termgate.term', :term, true)"),
            {"scope": scope, "term": str(term)},
        )


def main():
    sessions = sessionmaker(create_engine(os.environ["EXAMPLE_URL"]))
    if os.environ.get("TERMGATE_TERM"):
        declare(sessions, os.environ["TERMGATE_SCOPE"], os.environ["TERMGATE_TERM"])
    try:
        with sessions.begin() as session:
            session.get(Account, 42).balance -= 30
        print("written")
    except DBAPIError as error:
        print("refused", error.orig.pgcode)
        sys.exit(3)


if __name__ == "__main__":
    main()
