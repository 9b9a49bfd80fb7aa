"""What only Microsoft's server would refuse, or would do otherwise, read without it: collations that meet, functions that need a
compatibility level, procedures that need the owner's login, decisions that rest on what a client can write, and texts that a branch hides
from Babelfish (they must be in facts.sql)."""
from tsql_tokens import Problem, closing, is_word, split_top, text_of, texts_in, tokens_of

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

# For people with sqlcmd: tokens and blocks are read, and no more.
BY_HAND = ("/facts.sql", "/sign.sql")

# Collations ("Collation Precedence (Transact-SQL)"): two columns of different ones in one string expression are an error when it is
# compiled (451, 457, 468), whatever rows there are. A literal, a variable and COLLATE give way or decide.
BINARY, DEFAULT, CATALOG, CONSTANT, SESSION = "binary", "the database's", "the catalogue's", "that of system constants", "the server's"
SYSTEM_CONSTANTS = set(
    "permission_name state state_desc type type_desc class_desc resource_type resource_description resource_subtype request_mode"
    " request_status lock_name delayed_durability_desc snapshot_isolation_state_desc authentication_type_desc".split()
)
SESSION_COLUMNS = {"login_name", "original_login_name", "program_name", "host_name", "client_interface_name", "nt_user_name"}
SESSION_VIEWS = {"dm_exec_sessions", "dm_exec_requests", "dm_exec_connections", "databases", "server_principals", "configurations"}
# What mixes its arguments into one string, and what gives the collation of its argument on.
MIXING = {"CONCAT", "ISNULL", "COALESCE", "IIF", "NULLIF", "REPLACE", "CHARINDEX", "PATINDEX", "STUFF", "CHOOSE"}
KEEPING = set("QUOTENAME LEFT RIGHT SUBSTRING UPPER LOWER LTRIM RTRIM MAX MIN CONVERT CAST TRY_CAST REVERSE REPLICATE".split())
BOUNDARIES = (
    "AND OR NOT WHERE ON WHEN THEN ELSE END SELECT FROM JOIN GROUP ORDER BY HAVING UNION ALL EXCEPT INTERSECT SET VALUES INTO EXISTS IF"
    " WHILE BEGIN RETURN DISTINCT TOP INSERT UPDATE DELETE EXEC CASE INNER LEFT OUTER CROSS APPLY LIKE IN BETWEEN IS"
).split()


class Collations:
    """Of the columns of our own tables, and of the server's views."""

    def __init__(self, batches):
        self.own = {}
        for tokens in batches:
            for at in range(len(tokens) - 5):
                if is_word(tokens[at], "CREATE") and is_word(tokens[at + 1], "TABLE"):
                    opened = next(i for i in range(at, len(tokens)) if tokens[i][1] == "(")
                    name = tokens[opened - 1][1].strip("[]")
                    self.own[name] = {
                        column[0][1].strip("[]"): BINARY if any("BIN2" in token[1] for token in column) else DEFAULT
                        for column in split_top(tokens[opened + 1 : closing(tokens, opened)])
                        if len(column) > 1 and column[1][1].lower() in ("nvarchar", "varchar", "nchar", "char", "sysname")
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


def sources_of(tokens):
    """alias -> tables, of all queries of a statement."""
    found = {}
    for at, token in enumerate(tokens):
        if not is_word(token, "FROM", "JOIN") or at + 2 >= len(tokens):
            continue
        end, parts = at + 1, []
        while end < len(tokens) and tokens[end][0] in ("word", "bracket", "schema", "temporary", "variable"):
            parts.append(tokens[end][1].strip("[]"))
            end += 1
            if end < len(tokens) and tokens[end][1] == ".":
                end += 1
            else:
                break
        if not parts:
            continue
        source = "sys." + parts[-1] if parts[0] == "sys" else parts[-1]
        if end < len(tokens) and is_word(tokens[end], "AS"):
            end += 1
        if end < len(tokens) and tokens[end][0] == "word" and tokens[end][1].upper() not in BOUNDARIES + ["WITH"]:
            found.setdefault(tokens[end][1], set()).add(source)
    return found


def select_list(tokens, at):
    """What the SELECT at `at` selects, item by item."""
    end, depth = at + 1, 0
    while end < len(tokens) and not (depth == 0 and (is_word(tokens[end], "FROM", "UNION", "WHERE") or tokens[end][1] == ")")):
        depth += (tokens[end][1] == "(") - (tokens[end][1] == ")")
        end += 1
    return split_top(tokens[at + 1 : end])


def check_mix(found, tokens):
    if len(found) > 1:
        raise Problem(f"{' and '.join(sorted(found))} collation in one string expression, and no COLLATE: {text_of(tokens)[:120]}")


def collations_in(tokens, sources, collations):
    """The collations of an expression's columns, those that COLLATE decides left out. Raises where two meet."""
    current, at, cases = set(), 0, []
    while at < len(tokens):
        token = tokens[at]
        following = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        upper = token[1].upper()
        here, end = set(), at + 1
        if token[1] == "(" or (token[0] == "word" and following == "(" and (upper in KEEPING or upper not in BOUNDARIES)):
            opened = at if token[1] == "(" else at + 1
            end = closing(tokens, opened) + 1
            within = tokens[opened + 1 : end - 1]
            queries = within and is_word(within[0], "SELECT")
            parts = [collations_in(part, sources, collations) for part in ([within] if queries else split_top(within))]
            if upper in MIXING:
                here = set().union(*parts) if parts else set()
                check_mix(here, within)
            elif token[1] == "(" and queries:
                here = set().union(*(collations_in(part, sources, collations) for part in select_list(within, 0)))
            elif token[1] == "(":
                here = set().union(*parts) if parts else set()
            elif upper in KEEPING and not (within and "binary" in text_of(within[:1])):
                here = set().union(
                    *parts[-1:] if upper == "CONVERT" and len(parts) < 3 else parts[:1] if upper != "CONVERT" else parts[1:2]
                )
        elif token[0] in ("word", "bracket") and following == "." and at + 2 < len(tokens) and token[1].strip("[]") in sources:
            column = tokens[at + 2][1].strip("[]")
            here = {collations.of(source, column) for source in sources[token[1].strip("[]")]} - {None}
            end = at + 3
        elif token[0] == "word" and upper == "CASE":
            cases.append([current, set(), False])  # what stands in front of it, its results so far, whether one is being read
            current = set()
        elif token[0] == "word" and cases and upper in ("WHEN", "THEN", "ELSE", "END"):
            before, results, in_result = cases[-1]
            if in_result:
                results |= current
            current = set()
            cases[-1][2] = upper in ("THEN", "ELSE")
            if upper == "END":
                check_mix(results, tokens)
                here, current = results, cases.pop()[0]
        elif (token[0] == "word" and upper in BOUNDARIES and upper not in ("LIKE", "IN")) or token[1] in (",", ";"):
            current = set()
        if end < len(tokens) and is_word(tokens[end], "COLLATE"):
            here, end = set(), end + 2
        current |= here
        check_mix(current, tokens)
        at = end
    return current


def check_collations(tokens, collations):
    # A query is read alone, and so is each of a UNION's: their columns are compared one by one.
    statements, start = [], 0
    for at, token in enumerate(tokens + [("sign", ";")]):
        if token[1] == ";":
            statements.append(tokens[start:at])
            start = at + 1
    for statement in statements:
        sources = sources_of(statement)
        if sources:
            collations_in(statement, sources, collations)
            check_unions(statement, sources, collations)


def check_unions(tokens, sources, collations):
    lists, depth = {}, 0
    for at, token in enumerate(tokens):
        depth += (token[1] == "(") - (token[1] == ")")
        if not is_word(token, "SELECT"):
            continue
        united = at > 0 and is_word(tokens[at - 1], "UNION", "ALL")
        columns = [collations_in(part, sources, collations) for part in select_list(tokens, at)]
        if united and depth in lists:
            for one, other in zip(lists[depth], columns):
                check_mix(one | other, tokens[at:])
        lists[depth] = columns


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


def check_context(tokens):
    """What a session notes of itself its client can write as well: nothing may rest on it but what the client may say anyway."""
    for at, token in enumerate(tokens):
        if is_word(token, "SESSION_CONTEXT") and at + 2 < len(tokens):
            if tokens[at + 2][1] not in ("N'termgate.scope'", "N'termgate.term'", "N'termgate.announced'"):
                raise Problem(f"SESSION_CONTEXT({tokens[at + 2][1]}): a client can write it, and so decide what rests on it")


def statement_end(tokens, at):
    """Behind the statement that begins at `at`."""
    if is_word(tokens[at], "BEGIN") and not is_word(tokens[at + 1], "TRANSACTION"):
        depth = 0
        for end in range(at, len(tokens)):
            depth += is_word(tokens[end], "BEGIN", "CASE")
            depth -= is_word(tokens[end], "END")
            if depth == 0:
                return end + 1
    while at < len(tokens) and tokens[at][1] != ";":
        at += 1
    return at + 1


def hidden_from_babelfish(tokens):
    """The statements that Babelfish never compiles, each as tokens; of those that run a text that text."""
    for at, token in enumerate(tokens):
        if token[1].upper() != "SERVERPROPERTY" or "'Babelfish'" not in text_of(tokens[at : at + 3]):
            continue
        negated = is_word(tokens[at + 5], "NOT")
        here = at + (7 if negated else 6)
        while is_word(tokens[here], "AND", "OR"):
            depth = 0
            here += 1
            while depth or not (is_word(tokens[here], "BEGIN", "EXEC", "SET", "SELECT", "THROW", "RETURN", "IF", "INSERT", "AND", "OR")):
                depth += (tokens[here][1] == "(") - (tokens[here][1] == ")")
                here += 1
        end = statement_end(tokens, here)
        if negated and is_word(tokens[here], "RETURN"):
            here, end = end, len(tokens)
            yield from (text for text in texts_in(tokens[here:end]))
            return
        body = tokens[here:end]
        if is_word(body[0], "BEGIN"):
            body = body[1:-1]
        while body:
            end = statement_end(body, 0)
            one = body[:end]
            if not is_word(one[0], "IF", "THROW", "EXEC", "DECLARE"):
                yield one
            if is_word(one[0], "IF", "EXEC"):
                yield from texts_in(one)
            body = body[end:]


def as_fact(tokens):
    """As facts.sql writes it: with names of its own in the place of the schema's."""
    found, at = [], 0
    while at < len(tokens):
        kind, text = tokens[at]
        if text == "@schema@" and at + 2 < len(tokens) and tokens[at + 1][1] == ".":
            found += [("word", "dbo"), ("sign", "."), ("word", "termgate_facts_" + tokens[at + 2][1])]
            at += 3
            continue
        if text in ("@schema_lit@", "@own_objects@"):
            text = "N'termgate_facts'"
        text = (
            text.replace("@schema@.", "dbo.termgate_facts_")
            .replace("@schema@", "[termgate_facts]")
            .replace("@schema_lit@", "N'termgate_facts'")
        )
        found.append((kind, text))
        at += 1
    return [text.lower() if kind == "word" else text for kind, text in found if text != ";"]


def check_hidden(parsed, report):
    facts = []
    for file, batches in parsed:
        if file.endswith("/facts.sql"):
            for tokens in batches:
                facts += [as_fact(tokens)] + [as_fact(text) for text in texts_in(tokens)]
    joined = [" " + " ".join(one) + " " for one in facts]
    for file, batches in parsed:
        if file.endswith(BY_HAND):
            continue
        for tokens in batches:
            for hidden in hidden_from_babelfish(tokens):
                wanted = " " + " ".join(as_fact(hidden)) + " "
                if not any(wanted in one for one in joined):
                    report(file, f"hidden from Babelfish, and not in facts.sql: {wanted.strip()[:200]}")


def problems_of(tokens, collations):
    """What Babelfish would not show."""
    found = []
    for check in (
        lambda: check_collations(tokens, collations),
        lambda: check_levels(tokens),
        lambda: check_owner(tokens),
        lambda: check_context(tokens),
    ):
        try:
            check()
        except Problem as problem:
            found.append(problem)
    return found


COLUMNS = {
    "o.name": "sys.objects o",
    "g.permission_name": "sys.database_permissions g",
    "l.scope": "@schema@.leases l",
    "p.table_name": "@schema@.protected p",
    "s.login_name": "sys.dm_exec_sessions s",
    "s.status": "sys.dm_exec_sessions s",
}
SHAPES = (
    "SELECT N'x' + {0} + N' ' + {1} FROM {2} JOIN {3} ON 1 = 1;",
    "SELECT CONCAT(N'x', {0}, N' ', {1}) AS x FROM {2} JOIN {3} ON 1 = 1;",
    "SET @x = (SELECT QUOTENAME({0}) + LEFT({1}, 5) FROM {2} JOIN {3} ON 1 = 1);",
    "SELECT CASE WHEN 1 = 1 THEN {0} ELSE {1} END FROM {2}, {3};".replace("{2}, {3}", "{2} JOIN {3} ON 1 = 1"),
    "SELECT CASE o2.n WHEN 1 THEN N'a' ELSE CONCAT({0}, N'b', UPPER({1})) END FROM {2} JOIN {3} ON 1 = 1;",
    "SELECT 1 FROM {2} JOIN {3} ON {0} = {1};",
    "DELETE FROM {2} WHERE EXISTS (SELECT 1 FROM {3} WHERE {0} LIKE {1});",
    "SELECT ISNULL({0}, {1}) FROM {2} JOIN {3} ON 1 = 1;",
    "SELECT {0} AS x FROM {2} UNION ALL SELECT {1} FROM {3};",
    "IF EXISTS (SELECT 1 FROM {2} WHERE {0} IN (SELECT {1} FROM {3})) SET @x = 1;",
    "EXEC sp_executesql N'SELECT CONCAT({0}, N''x'', {1}) FROM {2} JOIN {3} ON 1 = 1';",
)


def check_variants(collations):
    """Each pair of collations in each shape is found, and with COLLATE is not; so is each function that needs a level.
    Returns what is missed."""
    missed = []
    for first, one in COLUMNS.items():
        for second, other in COLUMNS.items():
            columns = [
                collations.of(source.split(" ")[0].replace("@schema@.", ""), name.split(".")[1])
                for name, source in ((first, one), (second, other))
            ]
            for shape in SHAPES:
                for decided in (False, True):
                    names = [name + (" COLLATE DATABASE_DEFAULT" if decided else "") for name in (first, second)]
                    tokens = tokens_of(shape.format(*names, one, other))
                    found = any(problems_of(text, collations) for text in [tokens, *texts_in(tokens)])
                    if found != (columns[0] != columns[1] and not decided):
                        missed.append(shape.format(*names, one, other))
    for function in LEVELS:
        if not problems_of(tokens_of(f"SELECT {function}(a.x) FROM @schema@.leases a;"), collations):
            missed.append(function)
    return missed
