"""Random typed statements over a random schema, for sqlite_server_expressions_test.py.

A statement is made from its type down: `RULES` says which expressions have a type, and of which types their parts are,
so most statements are well typed. `STRAY` of the parts are of another type, which is how what must fail is tried.

    maker = Maker(seed)
    maker.schema()       statements that make three tables, r, s and w, and fill them
    maker.statement()    (SQL, parameters as text)
"""
import random
import re

COLUMNS = {
    "i2": "smallint",
    "i4": "int",
    "i8": "bigint",
    "f4": "real",
    "f8": "double precision",
    "n": "numeric",
    "n2": "numeric(12,2)",
    "t": "text",
    "v": "varchar(8)",
    "c": "char(4)",
    "b": "boolean",
    "d": "date",
    "ti": "time",
    "ts": "timestamp",
    "tz": "timestamptz",
    "iv": "interval",
    "u": "uuid",
    "j": "jsonb",
    "ar": "int[]",
    "ta": "text[]",
    "by": "bytea",
}
# Values as literals without a type, by the type of the column.
VALUES = {
    "i2": ["0", "1", "-1", "7", "32767", "-32768", "12"],
    "i4": ["0", "1", "-1", "2147483647", "-2147483648", "42", "3"],
    "i8": ["0", "5", "-7", "9223372036854775807", "3000000000", "-9223372036854775808"],
    "f4": ["0", "1.5", "-2.25", "0.1", "3e10", "NaN"],
    "f8": ["0", "0.1", "-1e300", "1e-300", "2.5", "Infinity", "NaN", "123456.789"],
    "n": ["0", "1.5", "-0.001", "12345678.9", "100", "2", "99999999999"],
    "n2": ["0", "1.50", "-3.335", "1000", "0.05", "7"],
    "t": ["", "abc", "Abc", "12", "a b", "-3", "2024-01-05", "%x_", "true", "Ünï", "a,b"],
    "v": ["", "v", "vwx", "7"],
    "c": ["", "c", "cc", "abcd"],
    "b": ["t", "f"],
    "d": ["2024-02-29", "1999-12-31", "2024-01-05", "0001-01-01"],
    "ti": ["00:00", "10:11:12", "23:59:59.5"],
    "ts": ["2024-02-29 12:00", "1999-12-31 23:59:59.999999", "2024-01-05"],
    "tz": ["2024-02-29 12:00+00", "2024-01-05 10:00+02"],
    "iv": ["1 day", "24 hours", "1 mon", "30 days", "-01:30", "1 year 2 days 03:04:05.6"],
    "u": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "j": ['{"a": 1, "b": [1, 2.50, "x"]}', "[]", '"s"', "null", "3", '[1, "a", {"k": null}]'],
    "ar": ["{}", "{1,2,3}", "{7,NULL}"],
    "ta": ["{a,b}", '{"a b",""}', "{12}"],
    "by": ["\\x", "\\xdead", "abc"],
}
NUMBERS = ("i2", "i4", "i8", "f4", "f8", "n", "n2")
TEXTS = ("t", "v", "c")
TIMES = ("d", "ti", "ts", "tz", "iv")
# Of which other type an operand may be, as people mix them.
NEAR = {
    "i2": ["i4", "i8"],
    "i4": ["i8", "n", "f8", "i2"],
    "i8": ["i4", "n"],
    "n": ["i4", "n2", "i8"],
    "n2": ["n", "i4"],
    "f8": ["i4", "f4", "n"],
    "f4": ["f8", "i4"],
    "d": ["ts", "tz"],
    "ts": ["d", "tz"],
    "tz": ["ts", "d"],
    "t": ["v", "c"],
    "v": ["t"],
    "c": ["t", "v"],
}
# {x}: a part of the type x; {=}, {~}: of the type itself, of one near to it; {#}: a small number; {unit}: a unit of time.
ANY = [
    "coalesce({=}, {=})",
    "nullif({=}, {=})",
    "case when {b} then {=} else {=} end",
    "case when {b} then {=} end",
    "(select {col} from s order by id limit 1)",
]
EACH_NUMBER = [
    "({=} + {=})",
    "({=} - {=})",
    "({=} * {=})",
    "({=} / {=})",
    "-{=}",
    "abs({=})",
    "greatest({=}, {=})",
    "least({=}, {=})",
    "(select max({col}) from s)",
]
WHOLE = ["({=} % {=})", "mod({=}, {=})", "({=} & {=})", "({=} | {=})", "({=} # {=})", "~{=}"]
EACH_TEXT = [
    "lower({t})",
    "upper({t})",
    "({t} || {=})",
    "({t} || {i4})",
    "({t} || {any})",
    "btrim({t})",
    "left({t}, {#})",
    "right({t}, {#})",
    "substr({t}, {#})",
    "substr({t}, {#}, {#})",
]
RULES = {
    "i2": EACH_NUMBER + WHOLE + ["{i4}::smallint", "{t}::smallint"],
    "i4": (
        EACH_NUMBER
        + WHOLE
        + [
            "length({t})",
            "char_length({v})",
            "octet_length({t})",
            "strpos({t}, {t})",
            "({d} - {d})",
            "{n}::int",
            "{f8}::int",
            "{b}::int",
            "{t}::int",
        ]
        + [
            "array_length({ar}, 1)",
            "cardinality({ar})",
            "({ar})[{#}]",
            "ascii({t})",
            "({j} ->> 'a')::int",
            "jsonb_array_length({j})",
            "length({by})",
        ]
        + ["extract({unit} from {ts})::int", "({i4} + {i2})", "({i2} * {i4})", "position({t} in {t})", "sign({f8})::int", "({i4} << {#})"]
    ),
    "i8": (
        EACH_NUMBER
        + WHOLE
        + ["(select count(*) from s where {cond})", "({i4} + {i8})", "{i4}::bigint", "(select sum(i4) from s)", "{n}::bigint"]
    ),
    "f4": EACH_NUMBER + ["{f8}::real", "{i4}::real", "{n}::real"],
    "f8": (
        EACH_NUMBER
        + [
            "sqrt({f8})",
            "power({f8}, {#})",
            "round({f8})",
            "trunc({f8})",
            "floor({f8})",
            "ceil({f8})",
            "exp({#}::float8)",
            "ln({f8})",
            "sign({f8})",
        ]
        + [
            "{f4}::float8",
            "{n}::float8",
            "{i8}::float8",
            "({f4} + {f8})",
            "({i4} * {f8})",
            "date_part({'unit'}, {ts})",
            "(select avg(f8) from s)",
        ]
    ),
    "n": (
        EACH_NUMBER
        + [
            "({=} % {=})",
            "round({n}, {#})",
            "trunc({n}, {#})",
            "round({n})",
            "floor({n})",
            "ceil({n})",
            "sign({n})",
            "div({n}, {n})",
            "mod({n}, {n2})",
        ]
        + [
            "({i4} * {n})",
            "({n2} + {n})",
            "({n} / {i4})",
            "{f8}::numeric",
            "{i8}::numeric",
            "extract({unit} from {ts})",
            "extract(epoch from {iv})",
        ]
        + ["(select avg(i4) from s)", "(select sum(n2) from s)", "{t}::numeric"]
    ),
    "n2": [
        "{n}::numeric(12,2)",
        "coalesce({n2}, {n2})",
        "{i4}::numeric(12,2)",
        "{f8}::numeric(12,2)",
        "case when {b} then {n2} else {n2} end",
    ],
    "t": (
        EACH_TEXT
        + [
            "initcap({t})",
            "repeat({t}, {#})",
            "reverse({t})",
            "replace({t}, {t}, {t})",
            "lpad({t}, {#})",
            "rpad({t}, {#}, {t})",
            "md5({t})",
        ]
        + ["split_part({t}, {t}, {#})", "translate({t}, 'ab', 'x')", "{any}::text", "concat({any}, {any})", "concat_ws(',', {any}, {any})"]
        + [
            "({j} ->> 'a')",
            "({j} ->> {#})",
            "({j} #>> '{b,0}')",
            "to_char({ts}, 'YYYY-MM-DD HH24:MI:SS')",
            "array_to_string({ar}, ',')",
            "({ta})[{#}]",
        ]
        + [
            "string_agg_of_s",
            "overlay({t} placing {t} from 1 + {#})",
            "ltrim({t}, {t})",
            "encode({by}, 'hex')",
            "regexp_replace({t}, 'a', {t})",
            "min_text",
        ]
    ),
    "v": ["{t}::varchar(3)", "{i4}::varchar", "coalesce({v}, {v})", "case when {b} then {v} else {v} end"],
    "c": ["{t}::char(3)", "coalesce({c}, {c})", "case when {b} then {c} else {c} end", "{v}::char(4)"],
    "b": [
        "({k} {cmp} {k~})",
        "({k} {cmp} {k~})",
        "({k} {cmp} {k~})",
        "({b} and {b})",
        "({b} or {b})",
        "(not {b})",
        "({any} is null)",
        "({any} is not null)",
        "({k} between {k} and {k})",
        "({k} in ({k}, {k}))",
        "({k} not in ({k}, {k}))",
        "({k} is distinct from {k})",
        "({b} is true)",
        "({b} is not false)",
        "({b} is unknown)",
        "({t} like {t})",
        "({t} like 'a%')",
        "({t} ilike '%A%')",
        "({t} ~ 'a')",
        "({i4} = any({ar}))",
        "({i4} <> all({ar}))",
        "({t} = any({ta}))",
        "({j} @> {j})",
        "({j} ? 'a')",
        "({ar} @> {ar})",
        "({ar} && {ar})",
        "({ar} = {ar})",
        "({i4} in (select i4 from s where {cond}))",
        "(exists (select 1 from s where {cond}))",
        "({i4} > all (select i2 from s))",
        "starts_with({t}, {t})",
        "(({i4}, {t}) = ({i4}, {t}))",
        "{i4}::boolean",
        "{t}::boolean",
    ],
    "d": [
        "({d} + {i4})",
        "({d} - {i4})",
        "{ts}::date",
        "{tz}::date",
        "{t}::date",
        "greatest({d}, {d})",
        "make_date(2024, {#}, {#})",
        "(select max(d) from s)",
    ],
    "ti": ["({ti} + {iv})", "({ti} - {iv})", "{ts}::time", "greatest({ti}, {ti})", "least({ti}, {ti})"],
    "ts": [
        "({ts} + {iv})",
        "({ts} - {iv})",
        "({d} + {iv})",
        "({d} + {ti})",
        "date_trunc({'unit'}, {ts})",
        "{d}::timestamp",
        "({tz} at time zone 'UTC')",
        "(select min(ts) from s)",
    ],
    "tz": [
        "({tz} + {iv})",
        "({tz} - {iv})",
        "date_trunc({'unit'}, {tz})",
        "{ts}::timestamptz",
        "{d}::timestamptz",
        "({ts} at time zone 'UTC')",
    ],
    "iv": [
        "({iv} + {iv})",
        "({iv} - {iv})",
        "({iv} * {#})",
        "({iv} * {f8})",
        "({iv} / {#})",
        "-{iv}",
        "({ts} - {ts})",
        "({ti} - {ti})",
        "age({ts}, {ts})",
        "date_trunc({'unit'}, {iv})",
        "{ti}::interval",
    ],
    "u": ["coalesce({u}, {u})", "case when {b} then {u} else {u} end"],
    "j": [
        "({j} -> 'a')",
        "({j} -> {#})",
        "({j} #> '{b}')",
        "({j} || {j})",
        "({j} - 'a')",
        "({j} - {#})",
        "to_jsonb({any})",
        "jsonb_build_object('k', {any})",
        "jsonb_build_array({any}, {any})",
        "jsonb_set({j}, '{a}', {j})",
    ],
    "ar": ["array[{i4}, {i4}]", "coalesce({ar}, {ar})", "case when {b} then {ar} else {ar} end", "array(select i4 from s order by id)"],
    "ta": ["array[{t}, {t}]", "string_to_array({t}, ',')", "coalesce({ta}, {ta})", "array(select t from s order by id)"],
    "by": ["({by} || {by})", "coalesce({by}, {by})", "decode(md5({t}), 'hex')"],
}
SPECIAL = {"string_agg_of_s": "(select string_agg(t, ',' order by id) from s)", "min_text": "(select min(t) from s)"}
UNITS = ["year", "month", "day", "hour", "minute", "second", "week", "quarter", "dow", "epoch", "decade"]
CAST = [
    "smallint",
    "int",
    "bigint",
    "real",
    "float8",
    "numeric",
    "numeric(8,3)",
    "text",
    "varchar(3)",
    "char(3)",
    "boolean",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "interval",
    "uuid",
    "jsonb",
    "int[]",
    "bytea",
]
AGGREGATES = {
    "count({any})": "i8",
    "count(distinct {k})": "i8",
    "count(*)": "i8",
    "sum({num})": "n",
    "avg({num})": "n",
    "min({k})": "k",
    "max({k})": "k",
    "bool_and({b})": "b",
    "bool_or({b})": "b",
    "array_agg({k} order by id)": "ar",
    "string_agg({t}, ',' order by id)": "t",
    "jsonb_agg({k} order by id)": "j",
    "sum({num}) filter (where {b})": "n",
    "count(*) filter (where {b})": "i8",
    "sum({iv})": "iv",
}
WINDOWS = [
    "row_number()",
    "rank()",
    "dense_rank()",
    "lag({k})",
    "lead({k}, 2)",
    "lag({i4}, 1, {i4})",
    "first_value({k})",
    "last_value({k})",
    "nth_value({k}, 2)",
]
WINDOWS += [
    "sum({num})",
    "avg({num})",
    "count({any})",
    "min({k})",
    "max({k})",
    "ntile(3)",
    "percent_rank()",
    "cume_dist()",
    "bool_or({b})",
    "count(*)",
]
FRAMES = [
    "",
    "",
    "",
    " rows between 1 preceding and 1 following",
    " rows unbounded preceding",
    " rows between unbounded preceding and unbounded following",
    " range between unbounded preceding and current row",
]
STRAY = 0.03


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.relations = [""]  # how the columns of the statement's tables are qualified

    def chance(self, part):
        return self.random.random() < part

    def kind(self, of=None):
        return self.random.choice(of or list(COLUMNS))

    def stored(self):
        # A numeric without a scale keeps no zeros at its end when it is stored: docs/reference/sqlite-types.md.
        return self.random.choice([kind for kind in COLUMNS if kind != "n"])

    def literal(self, kind):
        value = self.random.choice(VALUES[kind])
        if self.chance(STRAY):
            value = self.random.choice(VALUES[self.kind()])
        quoted = "'" + value.replace("'", "''") + "'"
        if kind in NUMBERS and re.fullmatch(r"-?\d+(\.\d+)?", value) and self.chance(0.7):
            return f"({value})" if value.startswith("-") else value
        if self.chance(0.6):
            return f"{quoted}::{COLUMNS[kind]}"
        return quoted

    def leaf(self, kind):
        if kind == "#":
            return self.random.choice(["0", "1", "2", "3", "-1"])
        roll = self.random.random()
        if roll < 0.65:
            return self.random.choice(self.relations) + kind
        if roll < 0.96:
            return self.literal(kind)
        return "NULL" if self.chance(0.5) else f"NULL::{COLUMNS[kind]}"

    def expression(self, depth, kind=None):
        """An expression of that type, or now and then of another."""
        kind = kind or self.kind()
        if kind != "#" and self.chance(STRAY):
            kind = self.kind()
        if depth <= 0 or kind == "#" or self.chance(0.15):
            return self.leaf(kind)
        roll = self.random.random()
        if roll < 0.12:
            rule = self.random.choice(ANY)
        elif roll < 0.15:
            return f"CAST({self.expression(depth - 1)} AS {self.random.choice(CAST)})"
        else:
            rule = self.random.choice(RULES[kind])
        return self.filled(rule, kind, depth - 1)

    def filled(self, rule, kind, depth):
        if rule in SPECIAL:
            return SPECIAL[rule]
        same = self.kind()
        fills = {
            "=": lambda: self.expression(depth, kind),
            "~": lambda: self.expression(depth, self.random.choice(NEAR.get(kind, [kind]))),
            "k": lambda: self.expression(depth, same),
            "k~": lambda: self.expression(depth, same if self.chance(0.6) else self.random.choice(NEAR.get(same, [same]))),
            "any": lambda: self.expression(depth),
            "num": lambda: self.expression(depth, self.kind(NUMBERS)),
            "cmp": lambda: self.random.choice(["=", "<>", "<", "<=", ">", ">="]),
            "col": lambda: kind,
            "cond": lambda: f"s.{self.kind(NUMBERS)} {self.random.choice(['=', '<', '>'])} {self.leaf(self.kind(NUMBERS))}",
            "unit": lambda: self.random.choice(UNITS),
            "'unit'": lambda: "'" + self.random.choice(UNITS[:8]) + "'",
        }
        return re.sub(
            r"\{([a-z0-9=~#']+)\}",
            lambda m: (
                fills[m.group(1)]()
                if m.group(1) in fills
                else self.expression(depth, m.group(1)) if m.group(1) in COLUMNS or m.group(1) == "#" else m.group(0)
            ),
            rule,
        )

    def condition(self, depth):
        return self.expression(depth, "b")

    def statement(self):
        """(SQL, parameters as text); rows in an order that both sides have."""
        self.relations = [""]
        depth = self.random.choice([1, 1, 2, 2, 3])
        shapes = [
            (24, self.plain),
            (8, self.where),
            (10, self.joined),
            (10, self.windowed),
            (7, self.aggregated),
            (7, self.grouped),
            (5, self.united),
            (4, self.distinct),
            (4, self.derived),
            (6, self.inserted),
            (6, self.updated),
            (2, self.deleted),
            (3, self.upserted),
        ]
        shape = self.random.choices([each for _, each in shapes], [weight for weight, _ in shapes])[0]
        sql = shape(depth)
        parameters = []
        if self.chance(0.25):
            # Constants without a type become parameters without one.
            def parameter(match):
                if match.group(0).startswith("'") and not sql[match.end() :].startswith("::") and self.chance(0.7):
                    parameters.append(match.group(0)[1:-1].replace("''", "'"))
                    return f"${len(parameters)}"
                return match.group(0)

            sql = re.sub(r"'(?:[^']|'')*'", parameter, sql)
        return sql, parameters

    def plain(self, depth):
        return f"SELECT {self.expression(depth)} AS x FROM r ORDER BY id"

    def where(self, depth):
        return f"SELECT id FROM r WHERE {self.condition(depth)} ORDER BY id"

    def joined(self, depth):
        self.relations = ["a.", "b."]
        key = self.kind([kind for kind in COLUMNS if kind not in ("j", "iv", "n", "f4", "f8", "c")])
        kind = self.random.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "JOIN"])
        on = self.random.choice(
            [f"ON a.{key} = b.{key}", "ON a.id = b.id", f"ON {self.condition(1)}" if "FULL" not in kind else "ON a.id = b.id", "USING (id)"]
        )
        where = f" WHERE {self.condition(1)}" if self.chance(0.3) else ""
        return f"SELECT a.id AS m, b.id AS o, {self.expression(depth - 1)} AS x FROM r a {kind} s b {on}{where} ORDER BY 1, 2"

    def windowed(self, depth):
        call = self.filled(self.random.choice(WINDOWS), None, depth - 1)
        partition = f"PARTITION BY {self.leaf(self.kind(['b', 'i2', 't', 'd']))} " if self.chance(0.5) else ""
        frame = self.random.choice(FRAMES)
        order = (
            "ORDER BY "
            + (
                f"{self.random.choice(['i4', 't', 'd', 'n2'])}{self.random.choice(['', ' DESC', ' NULLS FIRST'])}, "
                if self.chance(0.3)
                else ""
            )
            + "id"
        )
        return f"SELECT id, {call} OVER ({partition}{order}{frame}) AS x FROM r ORDER BY id"

    def aggregated(self, depth):
        call = self.filled(self.random.choice(list(AGGREGATES)), None, depth - 1)
        where = f" WHERE {self.condition(1)}" if self.chance(0.3) else ""
        return f"SELECT {call} AS x, count(*) FROM r{where}"

    def grouped(self, depth):
        key = self.expression(1, self.kind([kind for kind in COLUMNS if kind not in ("j", "c")]))
        if re.fullmatch(r"[-(]*[0-9.]+[)]*|\$\d+|'[^']*'|NULL", key):
            key = "i4"
        call = self.filled(self.random.choice([each for each in AGGREGATES if "order by" not in each]), None, 1)
        having = f" HAVING count(*) {self.random.choice(['>', '>=', '<'])} 1" if self.chance(0.3) else ""
        return f"SELECT {key} AS k, {call} AS x FROM r GROUP BY {key}{having} ORDER BY 1, 2"

    def united(self, depth):
        kind = self.kind()
        other = kind if self.chance(0.6) else self.random.choice(NEAR.get(kind, [kind]))
        op = self.random.choice(["UNION", "UNION ALL", "EXCEPT", "INTERSECT"])
        return f"SELECT {self.expression(1, kind)} AS x FROM r {op} SELECT {self.expression(1, other)} FROM s ORDER BY 1"

    def distinct(self, depth):
        return f"SELECT DISTINCT {self.expression(1)} AS x FROM r ORDER BY 1"

    def derived(self, depth):
        kind = self.kind()
        inner = f"SELECT id, {self.expression(depth - 1, kind)} AS {kind} FROM r"
        if self.chance(0.5):
            return (
                f"SELECT {self.filled(self.random.choice(RULES[kind]), kind, 0) if kind in RULES else kind} AS x FROM ({inner}) q ORDER"
                " BY id".replace("AS x FROM", "AS x, id FROM")
            )
        return f"WITH q AS ({inner}) SELECT id, {kind} AS x FROM q WHERE {kind} IS NOT NULL ORDER BY id"

    def inserted(self, depth):
        kind = self.stored()
        if self.chance(0.4):
            return (
                f"INSERT INTO w (id, {kind}) VALUES (100, {self.expression(depth - 1, kind) if self.chance(0.3) else self.literal(kind)})"
                f" RETURNING {kind}"
            )
        return f"INSERT INTO w (id, {kind}) SELECT id + 100, {self.expression(depth, kind)} FROM r ORDER BY id"

    def updated(self, depth):
        kind = self.stored()
        if self.chance(0.3):
            self.relations = ["w.", "s."]
            return f"UPDATE w SET {kind} = {self.expression(depth - 1, kind)} FROM s WHERE s.id = w.id RETURNING w.{kind}"
        return f"UPDATE w SET {kind} = {self.expression(depth, kind)} RETURNING {kind}"

    def deleted(self, depth):
        return f"DELETE FROM w WHERE {self.condition(depth)} RETURNING id"

    def upserted(self, depth):
        kind = self.stored()
        return (
            f"INSERT INTO w (id, {kind}) SELECT id, {self.leaf(kind)} FROM r ORDER BY id ON CONFLICT (id) DO UPDATE SET"
            f" {kind} = {self.random.choice(['excluded.', 'w.'])}{kind} RETURNING id, {kind}"
        )

    def schema(self):
        """Statements that make the tables and fill them; the same on both sides."""
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        made = [f"CREATE TABLE {table} (id int PRIMARY KEY, {columns})" for table in ("r", "s", "w")]
        for table, rows in (("r", 6), ("s", 3), ("w", 2)):
            for row in range(rows):
                cells = []
                for kind in COLUMNS:
                    value = self.random.choice(VALUES[kind])
                    cells.append("NULL" if row and self.chance(0.2) else "'" + value.replace("'", "''") + "'")
                made.append(f"INSERT INTO {table} VALUES ({row}, {', '.join(cells)})")
        return made
