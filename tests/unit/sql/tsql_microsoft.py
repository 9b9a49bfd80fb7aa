"""What only Microsoft's server would refuse, or would do otherwise, read without it: collations that meet, functions that need a
compatibility level, procedures that need the owner's login, decisions that rest on what a client can write."""
from tsql_reading import Problem, Query, is_word, nodes

# What a database of an older program does not have: such databases are at compatibility level 100 to 120, whatever the server
# ("ALTER DATABASE compatibility level (Transact-SQL)", "OPENJSON (Transact-SQL)" and the page of each function). What SQL Server 2016
# lacks is here as well.
LEVELS = {
    "OPENJSON": 130,
    "STRING_SPLIT": 130,
    "TRY_CONVERT": 110,
    "PERCENTILE_CONT": 110,
    "PERCENTILE_DISC": 110,
    "CUME_DIST": 110,
    "PERCENT_RANK": 110,
    "WITHIN": 110,
    "STRING_AGG": 140,
    "CONCAT_WS": 140,
    "TRANSLATE": 140,
    "TRIM": 140,
    "APPROX_COUNT_DISTINCT": 150,
    "GENERATE_SERIES": 160,
    "DATE_BUCKET": 160,
    "DATETRUNC": 160,
    "GREATEST": 160,
    "LEAST": 160,
    "JSON_OBJECT": 160,
    "JSON_ARRAY": 160,
    "JSON_PATH_EXISTS": 160,
    "WINDOW": 160,
}

# Collations ("Collation Precedence (Transact-SQL)"): two columns of different ones in one string expression are an error when it is
# compiled (451, 457, 468), whatever rows there are. A literal, a variable and COLLATE give way or decide.
BINARY, DEFAULT, CATALOG, CONSTANT, SESSION = "binary", "the database's", "the catalogue's", "that of system constants", "the server's"
SYSTEM_CONSTANTS = set(
    "permission_name state state_desc type type_desc class_desc resource_type resource_description resource_subtype request_mode"
    " request_status lock_name delayed_durability_desc snapshot_isolation_state_desc authentication_type_desc".split()
)
SESSION_COLUMNS = {"login_name", "original_login_name", "program_name", "host_name", "client_interface_name", "nt_user_name"}
SESSION_VIEWS = {"dm_exec_sessions", "dm_exec_requests", "dm_exec_connections", "databases", "server_principals", "configurations"}
EXPRESSIONS = set(
    "or and not compare isnull in between like arithmetic negative collate scalar exists case cast column aggregate call function".split()
)
# What mixes its arguments into one string, and what gives the collation of its argument on.
MIXING = {"CONCAT", "ISNULL", "COALESCE", "IIF", "NULLIF", "REPLACE", "CHARINDEX", "PATINDEX", "STUFF", "CHOOSE"}
KEEPING = set("QUOTENAME LEFT RIGHT SUBSTRING UPPER LOWER LTRIM RTRIM MAX MIN CONVERT CAST TRY_CAST REVERSE REPLICATE".split())


class Collations:
    """Of the columns of our own tables, and of the server's views."""

    def __init__(self, batches):
        self.own = {}
        for batch in batches:
            for node in nodes(batch.statements):
                if isinstance(node, tuple) and node[:1] == ("create_table",):
                    self.own[node[2]] = {
                        name: BINARY if "bin2" in (collation or "") else DEFAULT
                        for name, kind, _, _, collation in node[3][0]
                        if kind[0] in ("nvarchar", "varchar", "nchar", "char", "sysname")
                    }

    def of(self, source, column):
        if source.startswith("sys."):
            view = source[4:]
            if view in SESSION_VIEWS and column == "status":
                return CONSTANT
            if view in SESSION_VIEWS:
                return SESSION if column in SESSION_COLUMNS or column == "name" else None
            if column in SYSTEM_CONSTANTS:
                return CONSTANT
            return CATALOG if column == "name" or column.endswith("_name") and column != "database_name" else None
        return self.own.get(source, {}).get(column)


def check_mix(found, where):
    if len(found) > 1:
        raise Problem(f"{' and '.join(sorted(found))} collation in one string expression, and no COLLATE: {str(where)[:120]}")
    return found


class Judge:
    """Walks over a batch, and raises where two collations meet."""

    def __init__(self, collations):
        self.collations = collations

    def statement(self, tree):
        if isinstance(tree, Query):
            self.query(tree, {})
        elif isinstance(tree, list):
            for part in tree:
                self.statement(part)
        elif isinstance(tree, tuple) and tree[:1] in (("update",), ("delete",)):
            self.expression(tree[2:], {tree[2].alias: tree[2].name})
        elif isinstance(tree, tuple) and tree[:1] and isinstance(tree[0], str) and tree[0] in EXPRESSIONS:
            self.expression(tree, {})
        elif isinstance(tree, tuple) and tree[:1] not in (("create_table",), ("create_type",)):
            self.statement(list(tree))

    def query(self, query, outer):
        """The collations of each column that it selects."""
        sources = {**outer, **{source.alias: source.name for source in query.sources}}
        for source in query.sources:
            if source.query:
                self.query(source.query, sources)
        self.expression(([source.on for source in query.sources], query.where, query.group, query.order), sources)
        columns = [self.expression(value, sources) for value, _, _ in query.items]
        for other in query.union:
            for one, two in zip(columns, self.query(other, outer)):
                check_mix(one | two, query.items)
        return columns

    def expression(self, tree, sources):
        """The collations of its columns, those that COLLATE decides left out."""
        if not isinstance(tree, (tuple, list)):
            return set()
        kind = tree[0] if tree and isinstance(tree[0], str) else ""
        if kind == "column":
            return {self.collations.of(sources.get(tree[1]) or "", tree[2])} - {None}
        if kind in ("scalar", "exists"):
            columns = self.query(tree[1], sources)
            return columns[0] if kind == "scalar" else set()
        if kind == "case":
            self.expression([condition for condition, _ in tree[1]], sources)
            return check_mix(self.union([result for _, result in tree[1]] + [tree[2]], sources), tree)
        if kind in ("compare", "like", "between", "in", "arithmetic"):
            operands = [part for part in tree[1:] if isinstance(part, tuple)] + (tree[2] if kind == "in" else [])
            found = check_mix(self.union(operands, sources), tree)
            return found if kind == "arithmetic" else set()
        if kind in ("function", "aggregate"):
            if tree[1].upper() in MIXING:
                return check_mix(self.union(tree[2], sources), tree)
            parts = [self.expression(part, sources) for part in tree[2]]
            return parts[0] if tree[1].upper() in KEEPING and parts else set()
        if kind == "cast":
            found = self.expression(tree[1], sources)
            return set() if "binary" in tree[2][0] else found
        for part in tree:
            self.expression(part, sources)
        return set()

    def union(self, parts, sources):
        return set().union(*(self.expression(part, sources) for part in parts))


def check_levels(tokens):
    for at, token in enumerate(tokens):
        called = at + 1 < len(tokens) and tokens[at + 1][1] == "("
        if token[0] == "word" and token[1].upper() in LEVELS and (called or token[1].upper() == "WITHIN") and tokens[at - 1][1] != ".":
            raise Problem(
                f"{token[1]} needs compatibility level {LEVELS[token[1].upper()]}, and databases of older programs are at 100 to 120"
            )
        if is_word(token, "CREATE") and at + 2 < len(tokens) and is_word(tokens[at + 1], "OR"):
            raise Problem("CREATE OR ALTER: DROP … IF EXISTS and CREATE")
        if is_word(token, "AT") and at + 1 < len(tokens) and is_word(tokens[at + 1], "TIME"):
            raise Problem("AT TIME ZONE: times are UTC")
        if is_word(token, "IS") and is_word(tokens[min(at + 1, len(tokens) - 1)], "DISTINCT"):
            raise Problem("IS DISTINCT FROM needs compatibility level 160")


def check_owner(tokens):
    for at, token in enumerate(tokens):
        if is_word(token, "EXECUTE") and [one[1].upper() for one in tokens[at + 1 : at + 3]] in (["AS", "OWNER"], ["AS", "SELF"]):
            raise Problem("EXECUTE AS OWNER needs the owner's login, which may not be there (15517, 15404): EXECUTE AS 'termgate_guard'")


def check_context(batch):
    """What a session notes of itself its client can write as well: nothing may rest on it but what the client may say anyway."""
    for node in nodes(batch.statements):
        if isinstance(node, tuple) and node[:2] == ("function", "session_context"):
            if node[2][0][1] not in ("termgate.scope", "termgate.term", "termgate.announced"):
                raise Problem(f"SESSION_CONTEXT({node[2][0][1]}): a client can write it, and so decide what rests on it")


def problems_of(batch, collations):
    """What Babelfish would not show."""
    found = []
    for check in (
        lambda: Judge(collations).statement(batch.statements),
        lambda: check_levels(batch.tokens),
        lambda: check_owner(batch.tokens),
        lambda: check_context(batch),
    ):
        try:
            check()
        except Problem as problem:
            found.append(problem)
    return found
