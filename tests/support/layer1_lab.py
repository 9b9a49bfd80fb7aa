"""Layer 1 on a PostgreSQL server of its own, with a role for each level, for tests that act as plain roles.

    lab.sql(role, statement, …)         runs them one after the other in a session of its own; returns the last one's rows
    lab.code(role, statement, …)        the SQLSTATE with which they end, "" where they do not fail
    lab.open(role)                      a session in autocommit
    lab.must(*words)                    a command of termgate, as the owner of layer 1; it must succeed

tg_owner owns layer 1 and is no superuser; reader, writer, leader and operator have the level of their names; owner has level write, owns
schema app and its tables, and is the role that operator is a member of; nobody has nothing. A lab is a database of its own; a Server makes
them.
"""
import os
import subprocess
import tempfile

import psycopg2
from checks import captured
from given import PG_SERVER, TERMGATE

LEVELS = {"reader": "read", "writer": "write", "owner": "write", "leader": "lead", "operator": "operate"}
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("TERMGATE_", "PG"))}


class Server:
    def __init__(self, major, *settings, library=None):
        self.folder = tempfile.TemporaryDirectory(prefix=f"termgate-lab-{major}.")
        os.chmod(self.folder.name, 0o755)  # the server runs as another user
        env = dict(os.environ, PG_SERVER_GUARD=library) if library else os.environ
        started = captured([PG_SERVER, "start", major, f"{self.folder.name}/server", "fsync=off", *settings], check=True, env=env)
        self.major, self.address, self.databases = int(major), started.stdout.strip().split("@")[1].split("/")[0], 0
        self.first = None
        self.admin("postgres", *(f"CREATE ROLE {role} LOGIN" for role in ("tg_owner", "nobody", *LEVELS)))
        self.admin("postgres", "GRANT pg_signal_backend TO tg_owner", "GRANT owner TO operator")

    def stop(self):
        subprocess.run([PG_SERVER, "stop", f"{self.folder.name}/server", "immediate"], check=True, capture_output=True)
        self.folder.cleanup()

    def admin(self, database, *statements):
        with Session(self.url("postgres", database)) as session:
            for statement in statements:
                session.run(statement)

    def url(self, role, database):
        return f"postgresql://{role}@{self.address}/{database}"

    def database(self, template="template1"):
        self.databases += 1
        name = f"lab{self.databases}"
        self.admin("postgres", f"CREATE DATABASE {name} TEMPLATE {template}", f"GRANT CREATE ON DATABASE {name} TO tg_owner")
        return Lab(self, name)

    def bare(self):
        """A database without layer 1."""
        lab = self.database()
        self.admin(lab.name, "CREATE SCHEMA app AUTHORIZATION owner", "GRANT USAGE ON SCHEMA app TO PUBLIC")
        return lab

    def fresh(self):
        """A database with layer 1: a copy of the first one, which is what `termgate init` has made."""
        if self.first is None:
            self.first = self.bare()
            self.first.must("init", *(word for role, level in LEVELS.items() for word in ("--grant", f"{role}={level}")))
        lab = self.database(self.first.name)
        lab.sql("tg_owner", "SELECT termgate.declare_nothing_lost('the lab', 'a copy of a database in which nothing was ever raised')")
        return lab


class Session:
    def __init__(self, url):
        self.connection = psycopg2.connect(url)
        self.connection.autocommit = True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.connection.close()

    @property
    def notices(self):
        return self.connection.notices

    @property
    def pid(self):
        return self.connection.info.backend_pid

    def run(self, statement, values=None):
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def value(self, statement, values=None):
        return self.run(statement, values)[0][0]

    def code(self, statement, values=None):
        try:
            self.run(statement, values)
        except psycopg2.Error as error:
            return error.pgcode or "connection"
        return ""


class Lab:
    def __init__(self, server, name):
        self.server, self.name = server, name

    def url(self, role):
        return self.server.url(role, self.name)

    def open(self, role):
        return Session(self.url(role))

    def sql(self, role, *statements):
        with self.open(role) as session:
            rows = []
            for statement in statements:
                rows = session.run(statement)
            return rows

    def value(self, role, *statements):
        return self.sql(role, *statements)[0][0]

    def code(self, role, *statements):
        try:
            self.sql(role, *statements)
        except psycopg2.Error as error:
            return error.pgcode
        return ""

    def termgate(self, role, *words):
        return subprocess.run([TERMGATE, *words, "--db", self.url(role)], capture_output=True, text=True, env=CLEAN, timeout=120)

    def must(self, *words, role="tg_owner"):
        done = self.termgate(role, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout
