"""Random statements of SQLite's own SQL, for hrana_transparent_test.py.

    maker = Maker(seed, names)      names() gives {table or view: [columns]}, as they are at the moment
    maker.statement(within)         (SQL, parameters); `within`: a transaction is open

Most statements succeed; some fail, as SQLite makes them fail. Nothing in them is left to chance or to the clock, so two files that were
equal stay equal.
"""
import random
import re


def listed(text):
    """What two blanks or a line's end separate."""
    return re.split(r"\n|  ", text)


INTEGERS = ["0", "1", "-1", "2", "7", "42", "-100", "9007199254740993", "9223372036854775807", "-9223372036854775808", "0x10"]
FLOATS = ["0.0", "0.5", "-2.25", "1e10", "1.5e300", "-1e-300", "123456789.125", "3.0", "0.1"]
TEXTS = listed("''  'a'  'Abc'  'abc'  '12'  '-3.5e1'  'Ünï'  'a b'  '%x_'  'it''s'  '2024-02-29'  '{\"a\": [1, null]}'  '\U0001f600'")
BLOBS = ["x''", "x'00ff'", "x'616263'"]
PARAMETERS = [None, 0, 5, -7, 2**62, 1.25, -0.5, "", "text", "ä\n", b"", b"\x00\x01\xff"]
TYPES = ["INTEGER", "INT", "TEXT", "REAL", "BLOB", "NUMERIC", "", "VARCHAR(10)", "BOOLEAN", "DATETIME", "ANY"]
# {}: an expression; {#}: a small integer; {l}: a literal.
PLAIN = listed(
    """abs({})  coalesce({},{})  ifnull({},{})  iif({},{},{})  nullif({},{})  hex({})  quote({})  typeof({})  length({})  lower({})
upper({})  trim({})  ltrim({},'a ')  rtrim({},'b')  substr({},{#},{#})  instr({},{})  replace({},'a',{l})  round({},2)
sign({})  unicode({})  char(65,{#},8364)  max({},{})  min({},{})  printf('%d|%s|%.3f',{#},{},{})  format('%q',{})
zeroblob({#})  likely({})  date({l},'+1 month')  time({l})  strftime('%Y-%j',{l})  julianday({l})  json_array({l},{l})
json_quote({l})  json_extract('[1,{"a":null},"x"]','$[1].a')  json_type('[1.5]','$[0]')  json_valid({l})  like({l},{})
glob('a*',{})  ({} + {})  ({} - {})  ({} * {})  ({} / {})  ({} % {})  ({} || {})  ({} & {})  ({} | {})  ({} << {#})
({} >> {#})  (-{})  (~{})  (NOT {})  (+{})  ({} = {})  ({} <> {})  ({} < {})  ({} >= {})  ({} IS {})  ({} IS NOT {})
({} IS NULL)  ({} AND {})  ({} OR {})  ({} BETWEEN {} AND {})  ({} NOT IN ({},{}))  ({} IN ({},{},{}))  ({} LIKE {l})
({} LIKE 'a%')  ({} GLOB '*b*')  ({} COLLATE NOCASE = {})  CAST({} AS INTEGER)  CAST({} AS TEXT)  CAST({} AS REAL)
CAST({} AS BLOB)  CAST({} AS NUMERIC)  CASE WHEN {} THEN {} ELSE {} END  CASE {} WHEN {} THEN {} END
({} IS DISTINCT FROM {})  sqlite_version()  printf('%5.1f',{})"""
)
AGGREGATES = listed(
    """count(*)  count({})  sum({})  total({})  avg({})  min({})  max({})  group_concat({},'-')  count(DISTINCT {})
json_group_array({l})"""
)
WINDOWS = listed(
    """row_number() OVER (ORDER BY {})  rank() OVER (ORDER BY {})  lag({}) OVER (ORDER BY {})
sum({}) OVER (PARTITION BY {} ORDER BY {})  ntile(3) OVER (ORDER BY {})
first_value({}) OVER (ORDER BY {} ROWS 1 PRECEDING)"""
)
TELLING = listed(
    """table_info({t})  table_xinfo({t})  index_list({t})  foreign_key_list({t})  user_version  page_size  encoding
foreign_keys  foreign_key_check  integrity_check"""
)
# What a served file refuses, and a local one does not: each beginning is on the page's list of what is closed.
CLOSED = listed(
    """ATTACH ':memory:' AS other  DETACH other  CREATE TEMP TABLE temporary (a)  CREATE TEMP VIEW seen AS SELECT 1
VACUUM INTO '/tmp/copy.db'  SELECT load_extension('x')  PRAGMA writable_schema = ON  PRAGMA database_list
PRAGMA temp_store_directory = '/tmp'"""
)


BROKEN = listed(
    """SELEC 1  SELECT * FROM nowhere  INSERT INTO log (nothing) VALUES (1)  SELECT 1 +  SELECT ?, ?  DROP TABLE nowhere  SELECT 'open
SELECT nosuch(1)  CREATE TABLE log (a)"""
)
OWN = ("parent", "child", "log", "strict", "without")  # stay as they were made


class Maker:
    def __init__(self, seed, names):
        self.random = random.Random(seed)
        self.names = names
        self.made = 0
        self.parameters = []

    def pick(self, of):
        return self.random.choice(of)

    def chance(self, share):
        return self.random.random() < share

    def name(self, prefix):
        self.made += 1
        return f"{prefix}{self.made}"

    def literal(self):
        return self.pick(self.pick([INTEGERS, FLOATS, TEXTS, TEXTS, BLOBS, ["NULL"]]))

    def parameter(self):
        self.parameters.append(self.pick(PARAMETERS))
        return "?"

    def expression(self, columns, depth=2):
        if depth <= 0 or self.chance(0.3):
            kind = self.random.random()
            if columns and kind < 0.6:
                return self.pick(columns)
            return self.parameter() if kind > 0.85 else self.literal()
        if self.chance(0.05):
            return self.subquery(columns)
        return self.fill(self.pick(PLAIN), columns, depth - 1)

    def fill(self, form, columns, depth):
        text = ""
        while form:
            for hole, act in (
                ("{}", lambda: self.expression(columns, depth)),
                ("{#}", lambda: str(self.random.randint(-2, 6))),
                ("{l}", self.literal),
            ):
                if form.startswith(hole):
                    text, form = text + act(), form[len(hole) :]
                    break
            else:
                text, form = text + form[0], form[1:]
        return text

    def table(self, written=False):
        """One of them; to be written to: rarely a view."""
        tables = {name: columns for name, columns in self.names().items() if columns}
        if written and self.chance(0.95):
            tables = {name: columns for name, columns in tables.items() if not name.startswith("v")}
        name = self.pick(sorted(tables)) if tables else "nowhere"
        return name, tables.get(name, ["a"])

    def subquery(self, columns):
        table, inner = self.table()
        within = [f"s.{column}" for column in inner] + list(columns)
        return self.pick(
            [
                lambda: f"(SELECT {self.fill(self.pick(AGGREGATES), within, 0)} FROM {table} AS s WHERE {self.expression(within, 1)})",
                lambda: f"EXISTS (SELECT 1 FROM {table} AS s WHERE {self.expression(within, 1)})",
                lambda: f"({self.expression(columns, 0)} IN (SELECT {self.pick(within)} FROM {table} AS s))",
            ]
        )()

    # ------------------------------------------------------------------------------------------------- statements

    def select(self):
        table, inner = self.table()
        columns = [f"x.{column}" for column in inner]
        source = f"{table} AS x"
        with_ = ""
        if self.chance(0.3):
            other, more = self.table()
            joined = f" {self.pick(['JOIN', 'LEFT JOIN', 'CROSS JOIN'])} {other} AS y ON x.{self.pick(inner)} = y.{self.pick(more)}"
            source += joined
            columns += [f"y.{column}" for column in more]
        if self.chance(0.1):
            with_ = f"WITH c AS (SELECT {self.literal()} AS k UNION ALL SELECT {self.literal()}) "
            source += ", c"
            columns.append("c.k")
        kind = self.random.random()
        grouped = kind < 0.2
        if grouped:
            shown = f"{self.pick(columns)} AS g, " + ", ".join(self.fill(self.pick(AGGREGATES), columns, 1) for _ in range(2))
        elif kind < 0.3:
            shown = f"{self.pick(columns)}, {self.fill(self.pick(WINDOWS), columns, 0)}"
        elif kind < 0.5:
            shown = "*"
        else:
            shown = self.pick(["", "", "DISTINCT "]) + ", ".join(self.expression(columns) for _ in range(self.random.randint(1, 4)))
        sql = f"{with_}SELECT {shown} FROM {source}"
        if self.chance(0.5):
            sql += f" WHERE {self.expression(columns)}"
        if grouped:
            sql += " GROUP BY 1" + (f" HAVING count(*) > {self.random.randint(0, 2)}" if self.chance(0.3) else "")
        if self.chance(0.02):
            sql += f" UNION SELECT {self.literal()}"
        if self.chance(0.6):
            sql += " ORDER BY 1" + self.pick(["", " DESC", " NULLS LAST"])
        if self.chance(0.2):
            sql += f" LIMIT {self.random.randint(0, 9)}" + (f" OFFSET {self.random.randint(0, 3)}" if self.chance(0.5) else "")
        return self.pick(["", "", "", "", "", "", "", "", "", "EXPLAIN QUERY PLAN "]) + sql

    def insert(self):
        table, inner = self.table(written=True)
        verb = self.pick(["INSERT", "INSERT", "INSERT", "INSERT OR IGNORE", "REPLACE", "INSERT OR ABORT", "INSERT OR FAIL"])
        some = [column for column in inner if self.chance(0.8)] or inner
        if self.chance(0.15):
            other, more = self.table()
            return (
                f"{verb} INTO {table} ({', '.join(some)}) SELECT {', '.join(self.expression(more, 1) for _ in some)} FROM {other} ORDER BY"
                " 1 LIMIT 5"
            )
        rows = ", ".join(
            "(" + ", ".join(self.pick([self.literal, self.parameter, lambda: self.expression([], 1)])() for _ in some) + ")"
            for _ in range(self.random.randint(1, 4))
        )
        sql = f"{verb} INTO {table} ({', '.join(some)}) VALUES {rows}"
        if verb == "INSERT" and self.chance(0.15):
            sql += f" ON CONFLICT DO {self.pick(['NOTHING', f'UPDATE SET {self.pick(some)} = excluded.{self.pick(some)}'])}"
        return sql + (f" RETURNING {self.pick(['*', 'rowid', inner[0]])}" if self.chance(0.2) else "")

    def update(self):
        table, inner = self.table(written=True)
        sets = ", ".join(
            f"{column} = {self.expression(inner, 1)}" for column in self.random.sample(inner, min(len(inner), self.random.randint(1, 2)))
        )
        where = f" WHERE {self.expression(inner)}" if self.chance(0.9) else ""
        return f"UPDATE {self.pick(['', '', '', 'OR IGNORE ', 'OR REPLACE '])}{table} SET {sets}{where}" + (
            " RETURNING *" if self.chance(0.15) else ""
        )

    def delete(self):
        table, inner = self.table(written=True)
        # So that no table grows without end.
        if self.chance(0.2):
            return f"DELETE FROM {table} WHERE rowid > 20"
        return f"DELETE FROM {table} WHERE {self.pick(inner)} {self.pick(['=', '<', 'IS'])} {self.literal()}" + (
            " RETURNING *" if self.chance(0.15) else ""
        )

    def create_table(self):
        table = self.name("t")
        columns = [f"{self.pick('abcdefgh')}{at} {self.pick(TYPES)}" for at in range(self.random.randint(1, 5))]
        for at, column in enumerate(columns):
            more = [f" DEFAULT {self.literal()}", " NOT NULL", " UNIQUE", " COLLATE NOCASE", f" CHECK ({column.split()[0]} IS NOT 42)"]
            columns[at] += self.pick(["", "", "", "", *more])
        if self.chance(0.5):
            columns.insert(0, self.pick(["id INTEGER PRIMARY KEY", "id INTEGER PRIMARY KEY AUTOINCREMENT", "k TEXT PRIMARY KEY"]))
        if self.chance(0.15):
            columns.append(f"gen AS ({columns[-1].split()[0]} || 'x') {self.pick(['', 'STORED'])}")
        if self.chance(0.15):
            columns.append("REFERENCED INTEGER REFERENCES parent(id) ON DELETE CASCADE".replace("REFERENCED", self.name("r")))
        return f"CREATE TABLE {table} ({', '.join(columns)})"

    def define(self):
        known = sorted(name for name in self.names() if name not in OWN)
        if len(known) > 12:
            gone = self.pick(known)
            return f"DROP {'VIEW' if gone.startswith('v') else 'TABLE'} {gone}"
        table, inner = self.table()
        if table in OWN:
            return self.create_table()
        return self.pick(
            [
                self.create_table,
                self.create_table,
                lambda: (
                    f"CREATE {self.pick(['', 'UNIQUE '])}INDEX {self.name('i')} ON"
                    f" {table} ({self.pick(inner)}{self.pick(['', ' DESC', ' COLLATE NOCASE'])})"
                ),
                lambda: (
                    f"CREATE VIEW {self.name('v')} AS SELECT {', '.join(inner)} FROM {table} WHERE {self.pick(inner)} IS NOT"
                    f" {self.literal()}"
                ),
                lambda: (
                    f"CREATE TRIGGER {self.name('g')} AFTER {self.pick(['INSERT', 'UPDATE', 'DELETE'])} ON {table} BEGIN INSERT INTO log"
                    f" (a) VALUES ({self.literal()}); END"
                ),
                lambda: f"ALTER TABLE {table} ADD COLUMN {self.name('n')} {self.pick(TYPES)} DEFAULT {self.literal()}",
                lambda: f"ALTER TABLE {table} RENAME COLUMN {self.pick(inner)} TO {self.name('m')}",
                lambda: f"ALTER TABLE {table} RENAME TO {self.name('t')}",
                lambda: f"ALTER TABLE {table} DROP COLUMN {self.pick(inner)}",
                lambda: "REINDEX",
                lambda: "ANALYZE",
                lambda: f"PRAGMA user_version = {self.random.randint(0, 99)}",
            ]
        )()

    def control(self, within):
        begins = ["BEGIN", "BEGIN IMMEDIATE", "BEGIN DEFERRED", "SAVEPOINT p"]
        ends = listed(
            "COMMIT  COMMIT  END  ROLLBACK  SAVEPOINT p  SAVEPOINT q  ROLLBACK TO p  RELEASE p  RELEASE SAVEPOINT q  ROLLBACK TO q"
        )
        right, wrong = (ends, begins) if within else (begins, ends)
        return self.pick(wrong if self.chance(0.05) else right)

    def statement(self, within):
        self.parameters = []
        kinds = [
            (self.select, 40),
            (self.insert, 22),
            (self.update, 10),
            (self.delete, 4),
            (self.define, 5),
            (lambda: self.control(within), 12 if within else 6),
            (lambda: self.pick(BROKEN), 1),
        ]
        kinds.append((lambda: "PRAGMA " + self.pick(TELLING).replace("{t}", self.table()[0]), 3))
        kinds.append((lambda: self.pick(CLOSED), 1))
        act = self.random.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
        sql = act()
        return sql, list(self.parameters)
