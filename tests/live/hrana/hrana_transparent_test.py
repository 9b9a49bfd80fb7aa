"""[F7] Random statements and transactions mean on a served SQLite file what they mean to SQLite itself.

  pytest tests/live/hrana/hrana_transparent_test.py [--count N] [--seed S] [--show]

The same statements (tests/support/random_sqlite.py) go to the proxy, by all of Hrana's ways, and to Python's sqlite3 on a copy of the
file. Compared are the names of the columns, the rows with the types of their values, the rows that were changed, the last rowid, the
text of an error, and whether a transaction is open. In the end the files' contents are compared.

A difference is a fault. A refusal is one too, unless REFUSALS names it; at least 95 % of the statements must run. 10,000 statements of
one seed in a plain run; with --long 100,000 of a new one. And values at their limits, in columns of every kind.
"""
import base64
import http.client
import json
import math
import random
import re
import sqlite3
from collections import Counter

from checks import check, note
from given import LONG, option
from hrana import Failed, execute
from hrana_served import File, Served, Stream, token
from random_sqlite import Maker

COUNT = 100_000 if LONG else 10_000
CHANGES = re.compile(r"(INSERT|REPLACE|UPDATE|DELETE)\b")
# What a served file refuses of what SQLite would do, or refuses in other words: the code, and what the statement looks like.
REFUSALS = [
    (
        "SQLITE_AUTH",
        r"ATTACH|DETACH|CREATE TEMP |" r"VACUUM INTO|SELECT load_extension|PRAGMA (writable_schema|database_list|temp_store_directory)",
    ),
    ("ARGS_INVALID", r"SELECT \?, \?$"),
    # Text that is no UTF-8 cannot be written in JSON.
    ("SQLITE_MISMATCH", r"CAST\(|RETURNING|SELECT|\bx'"),
]


class NotText(Exception):
    pass


def value_of(value):
    """A value as Hrana writes it."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None  # JSON has no infinity: docs/use/sqlite-proxy.md
    if isinstance(value, bytes):
        return ("blob", value)
    return ("float" if isinstance(value, float) else "integer" if isinstance(value, int) else "text", value)


def text_of(raw):
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotText from error


class Local:
    """SQLite itself, set as the proxy's connections are: the page says so of foreign keys, layer 1 of triggers."""

    def __init__(self, path):
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.text_factory = text_of
        self.db.execute("PRAGMA foreign_keys = ON")
        self.db.execute("PRAGMA recursive_triggers = ON")
        self.db.execute("PRAGMA synchronous = OFF")
        self.known, self.rowid = None, 0

    def names(self):
        if self.known is None:
            found = self.db.execute(
                "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%' AND name NOT LIKE 'termgate%'"
            ).fetchall()
            self.known = {}
            for (name,) in found:
                try:
                    self.known[name] = [row[1] for row in self.db.execute(f"PRAGMA table_info({name})")]
                except sqlite3.Error:
                    pass  # a view of a table that is gone
        return self.known

    def run(self, sql, parameters):
        self.known = None
        answer = self.answer(sql, parameters)
        changed, rowid = self.db.execute("SELECT changes(), last_insert_rowid()").fetchone()
        if "error" not in answer and "not text" not in answer and CHANGES.match(sql):
            # A rowid of an earlier statement, a failed one too, is remembered by a connection, and not by a file that is served.
            answer.update(changed=changed, rowid=None if rowid == self.rowid else rowid)
        self.rowid = rowid
        return answer

    def answer(self, sql, parameters):
        try:
            cursor = self.db.execute(sql, parameters)
            answer = {"columns": [column[0] for column in cursor.description or []]}
            answer["rows"] = [[value_of(value) for value in row] for row in cursor.fetchall()]
            return answer
        except NotText:
            return {"not text": True}
        except sqlite3.ProgrammingError as error:
            return {"error": str(error), "bindings": True}
        except sqlite3.Error as error:
            return {"error": str(error)}

    def in_transaction(self):
        return self.db.in_transaction


class OverHttp:
    """The proxy: one stream, whose statements take turns among the ways to send them."""

    def __init__(self, port, seed):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.random = random.Random(seed)
        self.baton = None
        self.open = False
        self.ways = Counter()

    def post(self, path, body):
        headers = {"Termgate-Scope": "random", "Termgate-Term": "1"}
        self.connection.request("POST", path, json.dumps({"baton": self.baton, **body}), headers)
        answered = self.connection.getresponse()
        text = answered.read().decode("utf-8")
        if answered.status != 200:
            self.baton, self.open = None, False
            refused = json.loads(text)
            return None, {"error": f"status {answered.status}: {refused['message']}", "code": refused.get("code")}
        return text, None

    def pipeline(self, *requests):
        text, lost = self.post("/v3/pipeline", {"requests": [*requests, {"type": "get_autocommit"}]})
        if lost:
            return [{"type": "error", "error": {"message": lost["error"], "code": lost["code"]}}]
        answer = json.loads(text)
        self.baton = answer["baton"]
        self.open = not answer["results"][-1]["response"]["is_autocommit"]
        return answer["results"][:-1]

    def run(self, sql, parameters):
        statement = {"sql": sql, "args": [sent(value) for value in parameters], "want_rows": True}
        way = self.random.choices([self.execute, self.batch, self.cursor, self.described], [65, 15, 15, 5])[0]
        self.ways[way.__name__] += 1
        return way(statement)

    def execute(self, statement):
        return self.result(self.pipeline({"type": "execute", "stmt": statement})[0])

    def described(self, statement):
        return self.result(self.pipeline({"type": "describe", "sql": statement["sql"]}, {"type": "execute", "stmt": statement})[-1])

    def batch(self, statement):
        steps = [
            {"stmt": statement},
            {
                "stmt": {"sql": "SELECT 'never'"},
                "condition": {"type": "not", "cond": {"type": "or", "conds": [{"type": "ok", "step": 0}, {"type": "error", "step": 0}]}},
            },
        ]
        answer = self.pipeline({"type": "batch", "batch": {"steps": steps}})[0]
        if answer["type"] == "error":
            return self.result(answer)
        done = answer["response"]["result"]
        assert done["step_results"][1] is None, done
        if done["step_errors"][0]:
            return self.result({"type": "error", "error": done["step_errors"][0]})
        return self.result({"type": "ok", "response": {"result": done["step_results"][0]}})

    def cursor(self, statement):
        text, lost = self.post("/v3/cursor", {"batch": {"steps": [{"stmt": statement}]}})
        if lost:
            return lost
        head, *entries = [json.loads(line) for line in text.splitlines()]
        self.baton = head["baton"]
        result = {"cols": [], "rows": [], "affected_row_count": 0, "last_insert_rowid": None}
        failed = None
        for entry in entries:
            if entry["type"] == "step_begin":
                result["cols"] = entry["cols"]
            elif entry["type"] == "row":
                result["rows"].append(entry["row"])
            elif entry["type"] == "step_end":
                result.update(affected_row_count=entry["affected_row_count"], last_insert_rowid=entry["last_insert_rowid"])
            elif entry["type"] in ("step_error", "error"):
                failed = entry["error"]
        assert entries and entries[-1]["type"] in ("replication_index", "error"), text[-300:]
        self.pipeline()
        return self.result({"type": "error", "error": failed} if failed else {"type": "ok", "response": {"result": result}})

    def result(self, answer):
        if answer["type"] == "error":
            return {"error": answer["error"]["message"], "code": answer["error"].get("code")}
        result = answer["response"]["result"]
        rowid = result["last_insert_rowid"]
        return {
            "columns": [column["name"] for column in result["cols"]],
            "rows": [[received(value) for value in row] for row in result["rows"]],
            "changed": result["affected_row_count"],
            "rowid": None if rowid is None else int(rowid),
        }

    def in_transaction(self):
        return self.open


def sent(value):
    if value is None:
        return {"type": "null"}
    if isinstance(value, bytes):
        return {"type": "blob", "base64": base64.b64encode(value).decode().rstrip("=")}
    kind = "float" if isinstance(value, float) else "integer" if isinstance(value, int) else "text"
    return {"type": kind, "value": str(value) if kind == "integer" else value}


def received(value):
    kind = value["type"]
    if kind == "null" or (kind == "float" and value["value"] is None):
        return None
    if kind == "blob":
        return ("blob", base64.b64decode(value["base64"] + "=="))
    if kind == "float":
        assert isinstance(value["value"], float), value
    return (kind, int(value["value"]) if kind == "integer" else value["value"])


def differs(sql, local, served):
    """None, "refused", or what differs."""
    if "code" in served:
        for code, looks in REFUSALS:
            if served["code"] == code and re.search(looks, sql):
                if code == "SQLITE_MISMATCH" and "not text" not in local:
                    continue
                if code == "ARGS_INVALID" and "bindings" not in local:
                    continue
                return "refused"
    if ("error" in local) != ("error" in served) or "not text" in local:
        return f"local {str(local)[:500]}\n  served {str(served)[:500]}"
    if "error" in local:
        # With a view in the schema that is broken, the error that ALTER meets first depends on what the connection has read.
        if sql.startswith("ALTER") and "error in view" in local["error"] + served["error"]:
            return None
        return None if local["error"] == served["error"] else f"local {local['error']}\n  served {served['error']} ({served['code']})"
    if local["columns"] != served["columns"]:
        return f"columns: local {local['columns']}\n  served {served['columns']}"
    if local["rows"] != served["rows"]:
        # The planner's choice: a connection reads the figures of ANALYZE with the schema, so some time after they were written.
        if sql.startswith("EXPLAIN QUERY PLAN"):
            return None
        # Some of the rows, in whatever order: which ones is the planner's choice.
        if re.search(r"\bLIMIT\b", sql) and len(local["rows"]) == len(served["rows"]):
            return None
        # Which of equal rows comes first is the planner's choice too, and so is what a window function without a whole order gives them.
        if re.search(r"\bOVER \(", sql) and len(local["rows"]) == len(served["rows"]):
            return None
        # Rows come in any order where none is asked for, and so do those that are equal in what is asked for (ORDER BY 1).
        same_order = [row[:1] for row in local["rows"]] == [row[:1] for row in served["rows"]]
        if ("ORDER BY" in sql and not same_order) or sorted(map(repr, local["rows"])) != sorted(map(repr, served["rows"])):
            return f"rows: local {str(local['rows'])[:500]}\n  served {str(served['rows'])[:500]}"
    if "changed" in local:
        if local["changed"] != served["changed"]:
            return f"changed: local {local['changed']}, served {served['changed']}"
        # Across requests the served file remembers no rowid: 0 where this statement has made none.
        if served["rowid"] and local["rowid"] and local["rowid"] != served["rowid"]:
            return f"rowid: local {local['rowid']}, served {served['rowid']}"
    return None


def leave_rowids(local, served, sql):
    """Once a table has the largest rowid SQLite makes random ones."""
    table = re.search(r"\b(?:INTO|UPDATE(?: OR \w+)?) (\w+)", sql)
    try:
        top = local.db.execute(f"SELECT max(rowid) FROM {table[1]}").fetchone()[0] if table else None
    except sqlite3.Error:
        return
    if top == 2**63 - 1:
        for side in (local, served):
            side.run(f"DELETE FROM {table[1]} WHERE rowid = {top}", [])


def contents(path):
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    db.text_factory = bytes
    tables = [row[0].decode() for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'termgate%'")]
    schema = db.execute("SELECT type, name, sql FROM sqlite_schema WHERE tbl_name NOT LIKE 'termgate%' ORDER BY name").fetchall()
    rows = {table: sorted(map(repr, db.execute(f"SELECT * FROM {table}"))) for table in tables if not table.startswith("sqlite_stat")}
    return schema, rows, db.execute("PRAGMA user_version").fetchone(), db.execute("PRAGMA integrity_check").fetchone()


def set_up(path):
    db = sqlite3.connect(path)
    db.executescript(
        """
        CREATE TABLE parent (id INTEGER PRIMARY KEY, a TEXT, b REAL);
        CREATE TABLE child (id INTEGER PRIMARY KEY, p INTEGER REFERENCES parent(id) ON DELETE CASCADE, t TEXT UNIQUE, n NUMERIC);
        CREATE TABLE log (a, b DEFAULT 'x', at INTEGER);
        CREATE TABLE strict (a INTEGER, b TEXT, c ANY) STRICT;
        CREATE TABLE without (a TEXT PRIMARY KEY, b) WITHOUT ROWID;
        INSERT INTO parent VALUES (1, 'one', 1.5), (2, 'two', NULL), (3, 'Ünï', -1e300);
        INSERT INTO child VALUES (1, 1, 'a', 5), (2, 1, 'b', '7'), (3, 3, NULL, x'00');
        INSERT INTO log VALUES (1, 2, 3), ('x', x'ff', NULL);
        """
    )
    db.close()


def test_random_statements_mean_what_they_mean_to_sqlite(lab):
    seed = option("seed", random.randrange(1 << 30) if LONG else 20)
    count = option("count", COUNT)
    here, there = f"{lab.folder}/local.db", f"{lab.folder}/served.db"
    for path in (here, there):
        lab.run(lab.termgate, "init", "--db", f"sqlite:{path}")
        set_up(path)
    proxy = Served(lab, there)
    local, served = Local(here), OverHttp(proxy.port, seed)
    maker = Maker(seed, local.names)
    found, kinds, wrong = Counter(), Counter(), []
    for at in range(count):
        sql, parameters = maker.statement(local.in_transaction())
        if re.match("(INSERT|REPLACE|WITH)", sql) and ("), (" in sql or "SELECT" in sql):
            # The rows after the largest rowid would get random ones (leave_rowids).
            sql = sql.replace(str(2**63 - 1), "42")
        theirs = served.run(sql, parameters)
        # A refused statement is done by neither.
        refused = theirs.get("code") == "SQLITE_AUTH" and re.search(REFUSALS[0][1], sql)
        refused = refused or (theirs.get("code") == "SQLITE_MISMATCH" and "not UTF-8" in theirs["error"] and CHANGES.match(sql))
        ours = {"error": "refused there", "not text": True} if refused else local.run(sql, parameters)
        problem = differs(sql, ours, theirs)
        found["refused" if problem == "refused" else "failed" if "error" in ours else "ran"] += 1
        kinds[sql.split()[0]] += 1
        if problem not in (None, "refused"):
            wrong.append(f"{at}: {sql[:600]} {parameters}\n  {problem}")
        leave_rowids(local, served, sql)
        if local.in_transaction() != served.in_transaction():
            wrong.append(f"{at}: {sql[:300]}: a transaction is open on one side only ({theirs})")
        if len(wrong) > 20 or local.in_transaction() != served.in_transaction():
            break
    for side in (local, served):
        if side.in_transaction():
            side.run("COMMIT", [])
    local.db.close()
    note(f"seed {seed}: {dict(found)}, by {dict(served.ways)}, {dict(kinds.most_common(12))}")
    check(f"seed {seed}: no difference", not wrong, "\n" + "\n".join(wrong[:20]))
    check("at least 95 % were executed", found["ran"] + found["failed"] >= 0.95 * count, str(found))
    check("most of them succeeded", found["ran"] >= 0.75 * count, str(found))
    check("the proxy ends cleanly", proxy.stop() == 0, proxy.log()[-2000:])
    check("the files hold the same", wrong or contents(here) == contents(there))


LIMITS = [None, 0, -1, 1 << 53, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63), 0.0, 42.0, -1.5, 1e308, 5e-324]
LIMITS += ["", "text", "é\U0001f512", "a\nb\"c\\d", "1", "0x10", b"", b"\x00\xff", bytes(range(256))]


def test_values_at_their_limits_are_stored_and_read_as_by_sqlite(lab):
    file = File(lab, name="limits.db")
    stream, twin = Stream(Served(lab, file.path).url, token("store", 1)), sqlite3.connect(":memory:", isolation_level=None)
    for number, kind in enumerate(("", "INTEGER", "TEXT", "REAL", "NUMERIC", "BLOB", "DATE", "VARCHAR(3)")):
        table, select = f"CREATE TABLE k{number} (id INTEGER PRIMARY KEY, c {kind})", f"SELECT c, typeof(c) FROM k{number} ORDER BY id"
        stream.execute(table)
        twin.execute(table)
        for each in LIMITS:
            stream.execute(f"INSERT INTO k{number} (c) VALUES (?)", each)
            twin.execute(f"INSERT INTO k{number} (c) VALUES (?)", (each,))
        for value, *found in zip(LIMITS, twin.execute(select).fetchall(), file.rows(select), stream.execute(select)):
            wanted, stored, read = ((type(one[0]), *one) for one in found)
            check(f"{kind or 'no type'}: {value!r} is stored as by SQLite", stored == wanted, found)
            check(f"{kind or 'no type'}: {value!r} is read as it is stored", read == stored, found)
    told = stream.ask(execute("SELECT 9e999, -9e999"))[0]["result"]["rows"]
    check("infinity is null, which JSON can carry", [cell.get("value") for cell in told[0]] == [None, None], told)
    file.rows("CREATE TABLE bytes (c TEXT)")
    file.rows("INSERT INTO bytes VALUES (CAST(x'ff41' AS TEXT))")
    try:
        stream.execute("SELECT c FROM bytes")
        check("text that is no UTF-8 fails", False)
    except Failed as failure:
        check("text that is no UTF-8 fails, and says what to do", "c" in failure.message and "CAST" in failure.message, failure)
    check("as a blob it is read", stream.execute("SELECT CAST(c AS BLOB) FROM bytes") == [(b"\xffA",)])
