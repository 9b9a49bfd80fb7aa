# Long: one grammar.
"""Reads the T-SQL that layer 1 is written in: text to a tree. A construct that is not known here is an error with its
line, never skipped: what the model and the lint (tests/unit/sql/) do not read they cannot judge.

Expressions and statements are tuples: the first member says what they are. Queries and sources are small classes,
for the planner looks into them.
"""
import functools
import re

TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*|/\*.*?\*/)
  | (?P<string>N?'(?:[^']|'')*')
  | (?P<bracket>\[(?:[^\]]|\]\])*\])
  | (?P<schema>@schema@|@schema_lit@|@own_objects@)
  | (?P<variable>@@?\w+|\$\d+)
  | (?P<number>0x[0-9A-Fa-f]*|\d+(?:\.\d+)?)
  | (?P<word>%%\w+%%|[A-Za-z_\#][\w\#$]*)
  | (?P<sign><>|!=|<=|>=|[-+*/%=<>(),.;:&|])
""",
    re.X | re.S,
)

RESERVED = set(
    "SELECT FROM WHERE ORDER GROUP UNION FOR ON JOIN LEFT INNER CROSS OUTER WITH AND OR NOT SET INSERT UPDATE DELETE EXEC EXECUTE IF ELSE"
    " BEGIN END WHILE RETURN THROW DECLARE BREAK CONTINUE COMMIT ROLLBACK CREATE DROP GRANT VALUES OUTPUT AS THEN WHEN IS IN BETWEEN LIKE"
    " EXISTS NULL CASE OPTION HAVING ALTER SAVE OFFSET".split()
)
AGGREGATES = {"COUNT", "MAX", "MIN", "SUM", "COUNT_BIG", "STRING_AGG"}


class Unread(Exception):
    """A construct that this reader does not know."""


class Source:
    """A table in FROM: its name, its alias, its hints, and the condition that joins it."""

    def __init__(self, name, alias, hints, on=None, outer=False, query=None):
        self.name, self.alias, self.hints, self.on, self.outer, self.query = name, alias, hints, on, outer, query


class Query:
    """A SELECT. items: (expression, name, variable); union: the queries joined to it by UNION ALL."""

    def __init__(self):
        self.items, self.sources, self.where, self.order, self.top, self.json, self.distinct, self.group, self.union = (
            [],
            [],
            None,
            [],
            None,
            False,
            False,
            [],
            [],
        )
        self.known = {}  # what was found out about it (interpret.py)


def batches_of(text):
    return [(part, text.count("\n", 0, at) + 1) for at, part in _parts(text) if re.sub(r"--[^\n]*", "", part).strip()]


def _parts(text):
    at = 0
    for match in re.finditer(r"(?m)^GO\r?$", text):
        yield at, text[at : match.start()]
        at = match.end()
    yield at, text[at:]


class Reader:
    keeps_collations = False  # ("collate", expression), for a reader that judges them

    def __init__(self, text, line=1):
        self.tokens, at = [], 0
        while at < len(text):
            match = TOKEN.match(text, at)
            if not match:
                raise Unread(f"line {line}: cannot be read: {text[at:at + 40]!r}")
            if match.lastgroup != "blank":
                self.tokens.append((match.lastgroup, match.group(), line))
            line += match.group().count("\n")
            at = match.end()
        self.at = 0

    # --- tokens ---
    def peek(self, ahead=0):
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ("end", "", self.tokens[-1][2] if self.tokens else 0)

    def line(self):
        return self.peek()[2]

    def sees(self, *words):
        """Whether the next tokens are these words or signs."""
        return all(self.peek(i)[0] in ("word", "sign") and self.peek(i)[1].upper() == word for i, word in enumerate(words))

    def takes(self, *words):
        if not self.sees(*words):
            return False
        self.at += len(words)
        return True

    def need(self, *words):
        if not self.takes(*words):
            self.fail(f"{' '.join(words)} expected")

    def fail(self, why):
        raise Unread(f"line {self.line()}: {why}, at {' '.join(self.peek(i)[1] for i in range(6))!r}")

    def next(self):
        token = self.peek()
        self.at += 1
        return token

    def name(self):
        kind, text, _ = self.peek()
        if kind == "bracket":
            self.at += 1
            return text[1:-1].replace("]]", "]").lower()
        if text == "@schema@":
            self.at += 1
            return "termgate"
        if kind != "word":
            self.fail("a name expected")
        self.at += 1
        return text.lower()

    def path(self):
        """a.b.c: the schema of layer 1 is left out, another one is kept."""
        parts = [self.name()]
        while self.takes("."):
            parts.append(self.name())
        if parts[0] == "termgate" and len(parts) > 1:
            parts = parts[1:]
        return ".".join(parts)

    # --- expressions ---
    def expression(self):
        left = self.conjunction()
        while self.takes("OR"):
            left = ("or", left, self.conjunction())
        return left

    def conjunction(self):
        left = self.negation()
        while self.takes("AND"):
            left = ("and", left, self.negation())
        return left

    def negation(self):
        return ("not", self.negation()) if self.takes("NOT") else self.comparison()

    def comparison(self):
        left = self.sum()
        while True:
            negated = self.sees("NOT") and self.peek(1)[1].upper() in ("IN", "BETWEEN", "LIKE")
            if negated:
                self.at += 1
            if self.takes("IS"):
                inverted = self.takes("NOT")
                self.need("NULL")
                left = ("isnull", left, inverted)
            elif self.takes("IN"):
                self.need("(")
                values = [("scalar", self.query()) if self.sees("SELECT") else self.expression()]
                while self.takes(","):
                    values.append(self.expression())
                self.need(")")
                left = ("in", left, values, negated)
            elif self.takes("BETWEEN"):
                low = self.sum()
                self.need("AND")
                left = ("between", left, low, self.sum(), negated)
            elif self.takes("LIKE"):
                left = ("like", left, self.sum(), negated)
            elif self.peek()[0] == "sign" and self.peek()[1] in ("=", "<>", "!=", "<", ">", "<=", ">="):
                left = ("compare", self.next()[1].replace("!=", "<>"), left, self.sum())
            else:
                return left

    def sum(self):
        left = self.product()
        while self.peek()[0] == "sign" and self.peek()[1] in ("+", "-", "&", "|"):
            left = ("arithmetic", self.next()[1], left, self.product())
        return left

    def product(self):
        left = self.unary()
        while self.peek()[0] == "sign" and self.peek()[1] in ("*", "/", "%"):
            left = ("arithmetic", self.next()[1], left, self.unary())
        return left

    def unary(self):
        if self.takes("-"):
            return ("negative", self.unary())
        found = self.primary()
        while self.takes("COLLATE"):
            self.name()
            found = ("collate", found) if self.keeps_collations else found
        return found

    def primary(self):
        kind, text, _ = self.peek()
        if kind == "string":
            self.at += 1
            return ("literal", text[text.index("'") + 1 : -1].replace("''", "'"))
        if kind == "number":
            self.at += 1
            return ("literal", bytes.fromhex(text[2:]) if text.startswith("0x") else float(text) if "." in text else int(text))
        if kind == "variable":
            self.at += 1
            return ("global" if text.startswith("@@") else "variable", text.lower())
        if self.takes("("):
            found = ("scalar", self.query()) if self.sees("SELECT") else self.expression()
            self.need(")")
            return found
        if self.takes("NULL"):
            return ("literal", None)
        if self.takes("CASE"):
            return self.case()
        if self.takes("EXISTS"):
            self.need("(")
            found = ("exists", self.query())
            self.need(")")
            return found
        if self.takes("NEXT", "VALUE", "FOR"):
            return ("function", "nextvalue", [("literal", self.path())])
        if self.takes("*"):
            return ("star",)
        if kind == "schema" and text != "@schema@":
            self.at += 1
            return ("literal", text)
        if kind in ("word", "bracket", "schema"):
            return self.named()
        return self.fail("an expression expected")

    def case(self):
        operand = None if self.sees("WHEN") else self.expression()
        arms, other = [], ("literal", None)
        while self.takes("WHEN"):
            condition = self.expression()
            self.need("THEN")
            arms.append((condition if operand is None else ("compare", "=", operand, condition), self.expression()))
        if self.takes("ELSE"):
            other = self.expression()
        self.need("END")
        return ("case", arms, other)

    def named(self):
        """A column, or a call."""
        if self.peek()[0] == "word" and self.peek()[1].upper() in ("CAST", "CONVERT", "TRY_CAST", "TRY_CONVERT") and self.peek(1)[1] == "(":
            return self.cast()
        start = self.at
        parts = [self.name()]
        while self.sees(".") and self.peek(1)[0] in ("word", "bracket"):
            self.at += 1
            parts.append(self.name())
        if not self.takes("("):
            if len(parts) == 1 and self.tokens[start][0] == "word" and self.tokens[start][1].upper() in RESERVED:
                self.at = start
                self.fail("an expression expected")
            return ("column", parts[-2] if len(parts) > 1 else None, parts[-1])
        distinct, arguments = self.takes("DISTINCT"), []
        while not self.takes(")"):
            arguments.append(self.expression())
            self.takes(",")
        function = parts[-1]
        if function.upper() in AGGREGATES and len(parts) == 1:
            if self.takes("WITHIN"):
                self.fail("WITHIN GROUP")
            if self.takes("OVER"):
                self.skip_one()
            return ("aggregate", function.upper(), arguments, distinct)
        if self.takes("OVER"):
            self.skip_one()
        return ("call", function, arguments) if parts[0] == "termgate" else ("function", function, arguments)

    def cast(self):
        function = self.name().upper()
        self.need("(")
        if function.endswith("CAST"):
            value = self.expression()
            self.need("AS")
            kind = self.type()
        else:
            kind = self.type()
            self.need(",")
            value = self.expression()
            if self.takes(","):
                self.expression()
        self.need(")")
        return ("cast", value, kind, function.startswith("TRY_"))

    def type(self):
        """The name of a type with its length: ('varbinary', 800)."""
        kind, length = self.path(), None
        if self.takes("("):
            length = self.next()[1]
            while not self.takes(")"):
                self.at += 1
        return (kind, int(length) if length and length.isdigit() else None)

    # --- queries ---
    def query(self):
        self.need("SELECT")
        query = Query()
        query.distinct = self.takes("DISTINCT")
        if self.takes("TOP"):
            self.need("(")
            query.top = self.expression()
            self.need(")")
        while True:
            query.items.append(self.item())
            if not self.takes(","):
                break
        if self.takes("FROM"):
            self.sources(query)
        if self.takes("WHERE"):
            query.where = self.expression()
        if self.takes("GROUP", "BY"):
            query.group = [self.expression()]
            while self.takes(","):
                query.group.append(self.expression())
        if self.takes("ORDER", "BY"):
            while True:
                expression = self.expression()
                query.order.append((expression, self.takes("DESC")))
                self.takes("ASC")
                if not self.takes(","):
                    break
        if self.takes("UNION"):
            self.need("ALL")
            query.union.append(self.query())
        if self.takes("FOR", "JSON", "PATH"):
            query.json = True
            if self.takes(","):
                self.name()
        return query

    def item(self):
        variable = None
        if self.peek()[0] == "variable" and self.peek(1)[1] == "=":
            variable = self.next()[1].lower()
            self.at += 1
        value = self.expression()
        name = value[2] if value[0] == "column" else None
        if self.takes("AS"):
            name = self.name() if self.peek()[0] != "string" else self.next()[1]
        elif self.peek()[0] in ("word", "bracket") and self.peek()[1].upper() not in RESERVED:
            name = self.name()
        return (value, name, variable)

    def sources(self, query):
        query.sources.append(self.source())
        while True:
            outer = self.sees("LEFT")
            if self.takes("LEFT"):
                self.takes("OUTER")
                self.need("JOIN")
            elif self.takes("CROSS", "JOIN") or self.takes(","):
                query.sources.append(self.source())
                continue
            elif not (self.takes("JOIN") or self.takes("INNER", "JOIN")):
                return
            source = self.source()
            self.need("ON")
            source.on, source.outer = self.expression(), outer
            query.sources.append(source)

    def source(self):
        inner = None
        if self.takes("("):
            inner, name = self.query(), None
            self.need(")")
        elif self.peek()[0] == "variable":
            name = self.next()[1].lower()
        else:
            name = self.path()
        alias, hints = name, {}
        self.takes("AS")
        if self.peek()[0] in ("word", "bracket") and self.peek()[1].upper() not in RESERVED:
            alias = self.name()
        if self.takes("WITH"):
            hints = self.hints()
        return Source(name, alias, hints, query=inner)

    def hints(self):
        found = {}
        self.need("(")
        while not self.takes(")"):
            hint = self.name().upper()
            found[hint] = True
            if hint == "INDEX":
                self.need("(")
                found[hint] = self.name()
                self.need(")")
            self.takes(",")
        return found

    # --- statements ---
    def statements(self, *until):
        found = []
        while self.peek()[0] != "end" and not any(self.sees(*word.split()) for word in until):
            if self.takes(";"):
                continue
            found.append(self.statement())
        return found

    def statement(self):
        line = self.line()
        word = self.peek()[1].upper() if self.peek()[0] == "word" else ""
        read = getattr(self, "read_" + word.lower(), None)
        if read is None:
            self.fail("a statement expected")
        found = read()
        self.takes(";")
        return (found[0], line, *found[1:])

    def read_begin(self):
        self.at += 1
        if self.takes("TRANSACTION") or self.takes("TRAN"):
            return ("begin",)
        if self.takes("TRY"):
            body = self.statements("END TRY")
            self.need("END", "TRY")
            self.takes(";")
            self.need("BEGIN", "CATCH")
            handler = self.statements("END CATCH")
            self.need("END", "CATCH")
            return ("try", body, handler)
        body = self.statements("END")
        self.need("END")
        return ("block", body)

    def read_commit(self):
        self.at += 1
        self.takes("TRANSACTION")
        return ("commit",)

    def read_rollback(self):
        self.at += 1
        self.takes("TRANSACTION")
        savepoint = self.peek()[0] == "word" and self.peek(1)[1] == ";" and self.peek()[1].upper() not in RESERVED
        return ("rollback_to", self.name()) if savepoint else ("rollback",)

    def read_if(self):
        self.at += 1
        condition = self.expression()
        then = self.statement()
        return ("if", condition, then, self.statement() if self.takes("ELSE") else None)

    def read_while(self):
        self.at += 1
        condition = self.expression()
        return ("while", condition, self.statement())

    def read_break(self):
        self.at += 1
        return ("break",)

    def read_continue(self):
        self.at += 1
        return ("continue",)

    def read_return(self):
        self.at += 1
        ends = (
            self.peek()[0] == "end"
            or (self.peek()[0] == "word" and self.peek()[1].upper() in RESERVED - {"CASE", "NULL"})
            or self.sees(";")
        )
        return ("return", None if ends else self.expression())

    def read_throw(self):
        self.at += 1
        if self.peek()[0] not in ("number", "variable"):
            return ("throw", None, None)
        number = self.expression()
        self.need(",")
        message = self.expression()
        self.need(",")
        self.expression()
        return ("throw", number, message)

    def read_declare(self):
        self.at += 1
        found = []
        while True:
            name = self.next()[1].lower()
            self.takes("AS")
            if self.takes("TABLE"):
                found.append((name, ("table", self.columns()), None))
            else:
                kind = self.type()
                found.append((name, kind, self.expression() if self.takes("=") else None))
            if not self.takes(","):
                return ("declare", found)

    def read_set(self):
        self.at += 1
        if self.peek()[0] == "variable":
            name = self.next()[1].lower()
            self.need("=")
            return ("set", name, self.expression())
        if self.takes("TRANSACTION", "ISOLATION", "LEVEL"):
            words = [self.name().upper()]
            if words[0] in ("READ", "REPEATABLE"):
                words.append(self.name().upper())
            return ("isolation", " ".join(words))
        option = self.name().upper()
        value = self.next()[1].upper()
        if value == "-":
            value += self.next()[1]
        return ("option", option, value)

    def read_select(self):
        return ("select", self.query())

    def read_insert(self):
        self.at += 1
        self.takes("INTO")
        table = self.next()[1].lower() if self.peek()[0] == "variable" else self.path()
        columns = self.name_list() if self.sees("(") else None
        if self.takes("VALUES"):
            rows = []
            while True:
                self.need("(")
                row = [self.expression()]
                while self.takes(","):
                    row.append(self.expression())
                self.need(")")
                rows.append(row)
                if not self.takes(","):
                    return ("insert", table, columns, rows, None)
        return ("insert", table, columns, None, self.query())

    def name_list(self):
        self.need("(")
        names = [self.name()]
        while self.takes(","):
            names.append(self.name())
        self.need(")")
        return names

    def read_update(self):
        self.at += 1
        source = self.source()
        self.need("SET")
        changes = []
        while True:
            column = self.next()[1].lower() if self.peek()[0] == "variable" else self.path().split(".")[-1]
            self.need("=")
            changes.append((column, self.expression()))
            if not self.takes(","):
                break
        return ("update", source, changes, self.expression() if self.takes("WHERE") else None)

    def read_delete(self):
        self.at += 1
        top = None
        if self.takes("TOP"):
            self.need("(")
            top = self.expression()
            self.need(")")
        self.takes("FROM")
        source = self.source()
        return ("delete", source, self.expression() if self.takes("WHERE") else None, top)

    def read_exec(self):
        self.at += 1
        if self.takes("("):
            text = self.expression()
            self.need(")")
            return ("dynamic", text)
        code = None
        if self.peek()[0] == "variable" and self.peek(1)[1] == "=":
            code = self.next()[1].lower()
            self.at += 1
        procedure = self.path()
        arguments = []
        while self.peek()[0] in ("string", "number", "variable") or self.sees("NULL") or self.sees("-"):
            name = None
            if self.peek()[0] == "variable" and self.peek(1)[1] == "=":
                name = self.next()[1].lower()
                self.at += 1
            value = self.expression()
            arguments.append((name, value, self.takes("OUTPUT")))
            if not self.takes(","):
                break
        return ("exec", procedure, arguments, code)

    # --- definitions ---
    def read_create(self):
        self.at += 1
        if self.takes("OR"):
            self.need("ALTER")
        if self.takes("UNIQUE", "INDEX") or self.takes("INDEX"):
            unique = self.tokens[self.at - 2][1].upper() == "UNIQUE"
            name = self.name()
            self.need("ON")
            table, keys = self.path(), self.key_list()
            return ("create_index", name, table, keys, self.name_list() if self.takes("INCLUDE") else [], unique)
        kind = self.name().upper()
        name = self.path()
        if kind == "TABLE":
            return ("create_table", name, self.columns())
        if kind == "TYPE" and self.takes("AS", "TABLE"):
            return ("create_type", name, self.columns())
        if kind in ("PROCEDURE", "FUNCTION", "TRIGGER"):
            return self.module(kind, name)
        if kind == "VIEW":
            self.need("AS")
            return ("view", name, self.query())
        while self.peek()[0] != "end" and not self.sees(";"):  # roles, schemas: none of them takes part
            self.at += 1
        return ("nothing",)

    def key_list(self):
        self.need("(")
        names = [self.name()]
        self.takes("DESC") or self.takes("ASC")
        while self.takes(","):
            names.append(self.name())
            self.takes("DESC") or self.takes("ASC")
        self.need(")")
        return names

    def module(self, kind, name):
        parameters, returns, table, options = [], None, None, set()
        if kind == "TRIGGER":
            self.need("ON")
            table = self.path()
            self.need("AFTER")
            actions = [self.name().upper()]
            while self.takes(","):
                actions.append(self.name().upper())
            returns = actions
        else:
            bracket = self.takes("(")
            while self.peek()[0] == "variable":
                parameter = self.next()[1].lower()
                kind_of = self.type()
                default = self.expression() if self.takes("=") else None
                output = self.takes("OUTPUT")
                self.takes("READONLY")
                parameters.append((parameter, kind_of, default, output))
                self.takes(",")
            if bracket:
                self.need(")")
            if kind == "FUNCTION":
                self.need("RETURNS")
                returns = self.type()
        if self.takes("WITH"):
            while not self.sees("AS", "BEGIN") and not (
                self.sees("AS") and self.peek(1)[0] != "string" and self.peek(1)[1].upper() != "OWNER"
            ):
                options.add(self.next()[1].upper())
        self.need("AS")
        return ("module", kind, name, parameters, returns, table, self.statements(), options)

    def columns(self):
        """(columns, keys): columns are (name, type, default, identity, collation); keys (kind, columns)."""
        self.need("(")
        columns, keys = [], []
        while True:
            if self.takes("CONSTRAINT"):
                self.name()
            if self.takes("PRIMARY", "KEY"):
                self.takes("CLUSTERED")
                keys.append(("primary", self.key_list()))
            elif self.takes("UNIQUE"):
                keys.append(("unique", self.key_list()))
            elif self.takes("INDEX"):
                self.name()
                keys.append(("index", self.key_list()))
            elif self.sees("CHECK") or self.sees("FOREIGN"):
                self.skip_balanced()
            else:
                columns.append(self.column(keys))
            if not self.takes(","):
                self.need(")")
                return (columns, keys)

    def skip_balanced(self):
        depth = 0
        while depth or not (self.sees(",") or self.sees(")")):
            depth += {"(": 1, ")": -1}.get(self.next()[1], 0)

    def column(self, keys):
        name, kind, default, identity, collation = self.name(), self.type(), None, False, None
        while not (self.sees(",") or self.sees(")")):
            if self.takes("PRIMARY", "KEY"):
                keys.append(("primary", [name]))
            elif self.takes("DEFAULT"):
                default = self.unary()
            elif self.takes("IDENTITY"):
                identity = True
                if self.sees("("):
                    self.skip_one()
            elif self.takes("COLLATE"):
                collation = self.name()
            elif self.takes("CONSTRAINT"):
                self.name()
            elif self.takes("CHECK"):
                self.skip_one()
            elif self.takes("REFERENCES"):
                self.path()
                self.skip_one()
                self.takes("ON", "DELETE", "CASCADE")
            else:
                self.need("NOT", "NULL") if self.sees("NOT") else self.need("NULL")
        return (name, kind, default, identity, collation)

    def skip_one(self):
        self.need("(")
        depth = 1
        while depth:
            depth += {"(": 1, ")": -1}.get(self.next()[1], 0)

    def read_drop(self):
        self.at += 1
        self.name()
        self.takes("IF", "EXISTS")
        self.path()
        while self.takes(","):
            self.path()
        return ("nothing",)

    def read_alter(self):
        return self.skipped()

    def read_grant(self):
        return self.skipped()

    def skipped(self):
        """A definition that takes no part in the model: to its end, which is where the next statement begins."""
        self.at += 1
        while (
            self.peek()[0] != "end"
            and not self.sees(";")
            and (
                self.sees("SET", "(")
                or self.peek()[1].upper() not in ("DROP", "CREATE", "GRANT", "ALTER", "INSERT", "EXEC", "END", "IF", "ELSE", "SET")
            )
        ):
            self.at += 1
        return ("nothing",)

    def read_print(self):
        self.at += 1
        return ("print", self.expression())

    def read_truncate(self):
        self.need("TRUNCATE", "TABLE")
        return ("truncate", self.path())

    def read_save(self):
        self.need("SAVE", "TRANSACTION")
        return ("save", self.name())

    def read_execute(self):
        self.need("EXECUTE", "AS", "USER", "=")
        return ("execute_as", self.expression())

    def read_revert(self):
        self.at += 1
        return ("revert",)

    def read_kill(self):
        self.at += 1
        return ("kill", self.expression())


@functools.lru_cache(maxsize=None)
def read(text, line=1):
    """The statements of a text."""
    reader = Reader(text, line)
    found = reader.statements()
    if reader.peek()[0] != "end":
        reader.fail("a statement expected")
    return found
