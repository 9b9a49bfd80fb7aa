#!/usr/bin/env python3
"""Reads every T-SQL file of sql/sqlserver/ as a compiler would that knows no tables: tokens, blocks, names,
variables, arguments. What it can show without a server: quotes, parentheses and BEGIN … END are balanced; a file may
be run again; every object, variable and parameter that is named exists; a code and its number belong together; each
call binds what the driver sends (sql/README.md) and answers with the columns that it reads; no string expression mixes
collations; nothing needs a higher compatibility level than the lowest, or the login of the database's owner; what a
branch hides from Babelfish is in facts.sql, which Microsoft's server runs. Texts in strings that run are read, too.

    tsql_lint.py ROOT            prints each finding; exit 1 if there is one
    tsql_lint.py ROOT --self     shows that planted mistakes are found
"""
import re
import sys
from pathlib import Path

from tsql_microsoft import BY_HAND, Collations, check_hidden, check_variants, problems_of
from tsql_tokens import Problem, batches_of, is_word, split_top, text_of, texts_in, tokens_of

# A server without these would not run the file, or the guarantees would not hold: key-range locks, and what has an equal form everywhere.
FORBIDDEN = {
    "MERGE": "has an equal form",
    "WAITFOR": "has an equal form",
    "HOLDLOCK": "takes key-range locks, and stops the scope next to this one",
    "SERIALIZABLE": "takes key-range locks",
    "READUNCOMMITTED": "written as NOLOCK",
    "RAISERROR": "does not honour XACT_ABORT: THROW",
    "GOTO": "use a block",
    "GETDATE": "local time: SYSUTCDATETIME",
}

# "Table Hints (Transact-SQL)", Remarks: no more than one of each group.
HINT_GROUPS = (
    {"PAGLOCK", "NOLOCK", "READCOMMITTEDLOCK", "ROWLOCK", "TABLOCK", "TABLOCKX"},
    {"HOLDLOCK", "NOLOCK", "READCOMMITTED", "REPEATABLEREAD", "SERIALIZABLE"},
)

LOCK_LINE = re.compile(
    r"-- Locks: (turnstile|gate|queue|lease|stream|announcement|mark|key|row \w+) (shared|exclusive|test|none|S|U|X)"
    r" (statement|transaction|raise|session|owner)$"
)

# Files whose procedures stand between a client and its write: each read of a table says how it locks.
DECIDING = ("0002", "0003", "0004", "0005", "0007", "0010")


def check_blocks(tokens):
    depth, blocks = 0, []
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else ("", "")
        if token[1] == "(":
            depth += 1
        elif token[1] == ")":
            depth -= 1
            if depth < 0:
                raise Problem("a closing parenthesis too many")
        elif is_word(token, "BEGIN") and not is_word(following, "TRANSACTION", "TRAN"):
            blocks.append("TRY" if is_word(following, "TRY") else "CATCH" if is_word(following, "CATCH") else "BEGIN")
        elif is_word(token, "CASE"):
            blocks.append("CASE")
        elif is_word(token, "END"):
            if not blocks:
                raise Problem("END without BEGIN or CASE")
            opened = blocks.pop()
            if opened in ("TRY", "CATCH") and not is_word(following, opened):
                raise Problem(f"BEGIN {opened} ends without END {opened}")
            if opened in ("BEGIN", "CASE") and is_word(following, "TRY", "CATCH"):
                raise Problem(f"END {following[1]} closes a {opened}")
    if depth:
        raise Problem("a parenthesis does not close")
    if blocks:
        raise Problem(f"{blocks[-1]} does not end")


class Database:
    def __init__(self):
        self.objects = {}  # name -> kind
        self.parameters = {}  # procedure or function -> [(name, has default, is output)]
        self.bodies = {}  # procedure -> tokens

    def define(self, tokens):
        for at in range(len(tokens) - 4):
            if not is_word(tokens[at], "CREATE"):
                continue
            kind = tokens[at + 1][1].upper()
            if kind not in ("TABLE", "PROCEDURE", "FUNCTION", "VIEW", "TRIGGER", "TYPE", "SEQUENCE") or tokens[at + 2][1] != "@schema@":
                continue
            name = tokens[at + 4][1].strip("[]")
            if kind in ("PROCEDURE", "FUNCTION", "VIEW", "TRIGGER") and at != 0:
                raise Problem(f"CREATE {kind} {name} is not the first of its batch")
            if name in self.objects:
                raise Problem(f"{name} is made twice")
            self.objects[name] = kind
            if kind in ("PROCEDURE", "FUNCTION"):
                rest = tokens[at + 5 :]
                end = next(
                    i
                    for i, token in enumerate(rest)
                    if is_word(token, "RETURNS" if kind == "FUNCTION" else "AS")
                    and not (i + 1 < len(rest) and kind == "PROCEDURE" and not is_word(rest[i + 1], "BEGIN"))
                )
                listed = rest[1 : end - 1] if kind == "FUNCTION" else rest[:end]
                listed = listed[: next((i for i, token in enumerate(listed) if is_word(token, "WITH")), len(listed))]
                self.parameters[name] = [
                    (part[0][1], any(token[1] == "=" for token in part), any(is_word(token, "OUTPUT") for token in part))
                    for part in split_top(listed)
                ]
                self.bodies[name] = tokens


def declared_in(tokens):
    """Variables that a batch declares: parameters of what it creates, and DECLARE, up to the end of each statement."""
    names = set()
    if is_word(tokens[0], "CREATE"):
        for token in tokens:
            if is_word(token, "BEGIN"):
                break
            if token[0] == "variable":
                names.add(token[1].lower())
    at = 0
    while at < len(tokens):
        if is_word(tokens[at], "DECLARE"):
            end = at
            while end < len(tokens) and tokens[end][1] != ";":
                end += 1
            if end == len(tokens):
                raise Problem("a DECLARE without a semicolon")
            for part in split_top(tokens[at + 1 : end]):
                if part[0][0] != "variable" or len(part) < 2 or part[1][0] == "variable":
                    raise Problem(f"DECLARE of {text_of(part)}")
                if part[0][1].lower() in names:
                    raise Problem(f"{part[0][1]} is declared twice")
                names.add(part[0][1].lower())
            at = end
        at += 1
    return names


def check_variables(tokens):
    names = declared_in(tokens)
    named_arguments = set()
    # After the name of a called procedure, `@name =` is its parameter and no variable of ours.
    at = 0
    while at < len(tokens):
        if is_word(tokens[at], "EXEC") and not (at + 1 < len(tokens) and tokens[at + 1][1] == "("):
            end = at
            while end < len(tokens) and tokens[end][1] != ";":
                end += 1
            start = at + 1
            if tokens[start][0] == "variable" and tokens[start + 1][1] == "=":
                start += 2
            for i in range(start, end - 1):
                if (
                    tokens[i][0] == "variable"
                    and tokens[i + 1][1] == "="
                    and (tokens[i - 1][1] == "," or tokens[i - 1][0] in ("word", "bracket", "string"))
                ):
                    named_arguments.add(i)
        at += 1
    for i, token in enumerate(tokens):
        if token[0] == "variable" and not token[1].startswith("@@") and i not in named_arguments and token[1].lower() not in names:
            raise Problem(f"{token[1]} is not declared")


def check_calls(tokens, database):
    for at, token in enumerate(tokens):
        if not is_word(token, "EXEC") or at + 1 >= len(tokens) or tokens[at + 1][1] == "(":
            continue
        start = at + 1
        if tokens[start][0] == "variable":
            start += 2
        end = start
        while end < len(tokens) and tokens[end][1] != ";" and not is_word(tokens[end], "ELSE"):
            end += 1
        if end == len(tokens) and token is not tokens[0] and not is_word(tokens[0], "DECLARE", "EXEC"):
            raise Problem(f"EXEC {text_of(tokens[start:start + 4])} without a semicolon")
        ours = tokens[start][1] == "@schema@"
        name = tokens[start + 2][1].strip("[]") if ours else tokens[start][1]
        arguments = split_top(tokens[start + (3 if ours else 1) : end])
        for argument in arguments:
            value = argument[2:] if len(argument) > 2 and argument[1][1] == "=" else argument
            if len(value) > 2 or (len(value) == 2 and not is_word(value[1], "OUTPUT") and value[0][1] != "-"):
                raise Problem(f"EXEC {name}: {text_of(argument)} is an expression, which EXEC does not take")
        if not ours:
            if name == "sp_getapplock":
                given = {argument[0][1] for argument in arguments}
                for needed in ("@Resource", "@LockMode", "@LockOwner", "@LockTimeout", "@DbPrincipal"):
                    if needed not in given:
                        raise Problem(f"sp_getapplock without {needed}")
            continue
        if database.objects.get(name) != "PROCEDURE":
            raise Problem(f"EXEC {name}: there is no such procedure")
        parameters = database.parameters[name]
        given = set()
        for position, argument in enumerate(arguments):
            named = len(argument) > 2 and argument[1][1] == "="
            if not named and position >= len(parameters):
                raise Problem(f"EXEC {name}: more arguments than it has parameters")
            parameter = (
                next((each for each in parameters if each[0].lower() == argument[0][1].lower()), None) if named else parameters[position]
            )
            if parameter is None:
                raise Problem(f"EXEC {name}: it has no parameter {argument[0][1]}")
            if parameter[2] != is_word(argument[-1], "OUTPUT"):
                raise Problem(f"EXEC {name}: {parameter[0]} {'is' if parameter[2] else 'is no'} OUTPUT")
            given.add(parameter[0].lower())
        for parameter in parameters:
            if parameter[0].lower() not in given and not parameter[1]:
                raise Problem(f"EXEC {name}: {parameter[0]} is not given")


def check_names(tokens, database):
    for at, token in enumerate(tokens):
        if token[1] == "@schema@" and at + 2 < len(tokens) and tokens[at + 1][1] == ".":
            name = tokens[at + 2][1].strip("[]")
            # DROP … IF EXISTS may name what an earlier version has made; a name that is made and not dropped first is found by check_made.
            dropped = at > 0 and is_word(tokens[at - 1], "EXISTS")
            if tokens[at + 2][0] in ("word", "bracket") and name not in database.objects and not dropped:
                raise Problem(f"@schema@.{name} does not exist")
            if database.objects.get(name) == "FUNCTION" and at + 3 < len(tokens) and tokens[at + 3][1] == "(":
                depth, end = 0, at + 3
                while end < len(tokens):
                    depth += tokens[end][1] == "("
                    depth -= tokens[end][1] == ")"
                    if depth == 0:
                        break
                    end += 1
                if len(split_top(tokens[at + 4 : end])) != len(database.parameters[name]):
                    raise Problem(f"@schema@.{name} is called with another number of arguments")


def check_throws(tokens):
    for at, token in enumerate(tokens):
        if not is_word(token, "THROW"):
            continue
        if tokens[at + 1][1] == ";":
            continue  # inside CATCH: the same error again
        before = tokens[at - 1]
        # After a word it would be taken for its name, as in ROLLBACK TRANSACTION THROW.
        if is_word(before, "TRANSACTION", "TRAN"):
            raise Problem("THROW after a statement without a semicolon")
        number = tokens[at + 1][1]
        if tokens[at + 1][0] == "variable" and is_word(tokens[1], "PROCEDURE") and tokens[4][1] == "_throw":
            continue  # the one that writes a percent sign twice
        if (
            number == "50000"
            and [one[1] for one in tokens[at + 2 : at + 7]] == [",", "@message", ",", "1", ";"]
            and "TG00" not in text_of(tokens)
        ):
            continue  # no refusal of the contract's: the uninstaller's
        if not re.fullmatch(r"5000[1-7]", number):
            raise Problem(f"THROW {number}: codes are 50001 to 50007")
        if tokens[at + 3][0] == "string" and not tokens[at + 3][1].lstrip("N").startswith(f"'TG00{number[-1]} "):
            raise Problem(f"THROW {number} with {tokens[at + 3][1]}")
        if (
            tokens[at + 2][1] != ","
            or tokens[at + 4][1] != ","
            or tokens[at + 3][0] not in ("string", "variable")
            or tokens[at + 6][1] != ";"
        ):
            raise Problem(f"THROW {number} is malformed")
        if tokens[at + 3][0] == "variable":
            raise Problem(f"THROW {number} of a variable: a % in it would be lost, EXEC _throw writes it twice")
        if "%" in tokens[at + 3][1]:
            raise Problem(f"THROW {number}: a % in a message is written by EXEC _throw")


def check_thrown(tokens):
    """EXEC _throw: the message was put together right before, in this block, and its code must be the number's."""
    for at, token in enumerate(tokens):
        if not is_word(token, "EXEC") or [one[1] for one in tokens[at + 1 : at + 4]] != ["@schema@", ".", "_throw"]:
            continue
        number, variable = tokens[at + 4][1], tokens[at + 6][1]
        if not re.fullmatch(r"5000[1-7]", number):
            raise Problem(f"_throw {number}: codes are 50001 to 50007")
        for back in range(at - 1, -1, -1):
            if (
                tokens[back][0] == "variable"
                and tokens[back][1] == variable
                and tokens[back + 1][1] == "="
                or (is_word(tokens[back], "DECLARE") and tokens[back + 1][1] == variable)
            ):
                break
        codes = set(re.findall(r"'(TG00\d)", text_of(tokens[back:at])))
        if len(codes) == 1 and codes.pop()[-1] != number[-1] and "@code" not in text_of(tokens):
            raise Problem(f"_throw {number} with a message of another code")


def check_hints(tokens, database, file):
    deciding = any(f"/install/{number}" in file for number in DECIDING)
    for at, token in enumerate(tokens):
        if is_word(token, "WITH") and tokens[at + 1][1] == "(":
            depth, end = 1, at + 2
            while depth and end < len(tokens):
                depth += (tokens[end][1] == "(") - (tokens[end][1] == ")")
                end += 1
            words = {one[1].upper() for one in tokens[at:end] if one[0] == "word"}
            for group in HINT_GROUPS:
                if len(words & group) > 1:
                    raise Problem(f"WITH ({', '.join(sorted(words & group))}): the server takes one of them at most")
        if (
            not deciding
            or not is_word(token, "FROM", "JOIN")
            or at + 3 >= len(tokens)
            or tokens[at + 1][1] != "@schema@"
            or is_word(tokens[0], "SELECT")
        ):
            continue
        name = tokens[at + 3][1]
        if database.objects.get(name) != "TABLE" or name == "first_read" or is_word(tokens[at - 1], "DELETE"):
            continue
        rest = [one[1].upper() for one in tokens[at + 4 : at + 7]]
        if "WITH" not in rest:
            raise Problem(f"{name} is read without a hint: NOLOCK for a look, READCOMMITTEDLOCK or UPDLOCK for what decides")


def check_settings(tokens):
    """What a public procedure sets, so that neither its caller's settings nor a frozen session change what it does."""
    if not is_word(tokens[0], "CREATE") or not is_word(tokens[1], "PROCEDURE") or tokens[4][1].startswith("_"):
        return
    body = text_of(tokens)
    if "SET LOCK_TIMEOUT" not in body:
        raise Problem("a public procedure without SET LOCK_TIMEOUT: it could wait for ever")
    if "SET XACT_ABORT ON" in body and "SET ROWCOUNT 0" not in body:
        raise Problem("a public procedure without SET ROWCOUNT 0: the caller's would cut its statements")
    if "SET XACT_ABORT ON" in body and "first_read" not in body and "SET IMPLICIT_TRANSACTIONS OFF" not in body:
        raise Problem("a public procedure that does not say what it does under IMPLICIT_TRANSACTIONS")
    if "BEGIN CATCH" in body and "SET XACT_ABORT ON" in body and "_late" not in body:
        raise Problem("a row that was waited for in vain is not told as TG006: EXEC _late in CATCH")


def check_lock_lines(text):
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("-- Locks: ") and not line.startswith("-- Locks: those of") and not LOCK_LINE.match(line):
            raise Problem(f"line {number}: not of the form -- Locks: <resource> <mode> <until>")


def check_procedure(tokens):
    """Procedures: NOCOUNT first; who begins a transaction has XACT_ABORT on, and commits only its own."""
    if not is_word(tokens[0], "CREATE") or not is_word(tokens[1], "PROCEDURE", "TRIGGER"):
        return
    body = text_of(tokens)
    start = body.upper().find("BEGIN SET NOCOUNT ON")
    if start < 0:
        raise Problem("does not begin with SET NOCOUNT ON")
    begins, commits = len(re.findall(r"BEGIN TRANSACTION", body)), len(re.findall(r"COMMIT TRANSACTION", body))
    if begins and ("SET XACT_ABORT ON" not in body or commits != begins):
        raise Problem("begins a transaction without XACT_ABORT, or without its one COMMIT")
    if len(re.findall(r"IF @own = 1 BEGIN TRANSACTION", body)) != begins:
        raise Problem("begins a transaction that may not be its own")
    if (
        "_exclude @" in body
        and "@own ," in body
        and begins
        and ("BEGIN CATCH" not in body or "_release" not in body.split("BEGIN CATCH")[1])
    ):
        raise Problem("takes the exclusive lock for its session and does not give it back on an error")


def check_again(file, batches):
    """Idempotent: what is made is dropped before, or made only where it is not there."""
    seen = ""
    for tokens in batches:
        body = text_of(tokens)
        for kind, name in re.findall(r"CREATE (PROCEDURE|FUNCTION|VIEW|TRIGGER) @schema@ \. (\w+)", body):
            if f"DROP {kind} IF EXISTS @schema@ . {name} ;" not in seen:
                raise Problem(f"{kind} {name} is made without DROP … IF EXISTS before it")
        outside = text_of([token for token in tokens if token[0] != "string"])
        if (
            re.search(r"CREATE (TABLE @schema@|INDEX|TYPE|SCHEMA|ROLE)", outside)
            and "IF" not in (tokens[0][1].upper(), *[token[1].upper() for token in tokens[:12]])
            and "DATABASE_PRINCIPAL_ID" not in body
        ):
            raise Problem(f"made without a look whether it is there: {body[:60]}")
        if re.match(r"INSERT INTO", body) and "NOT EXISTS" not in body:
            raise Problem("rows are inserted again on a second run")
        seen += body + " "


def rows_of_readme(root):
    calls = {}
    for name, parameters, columns in re.findall(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \|", (root / "sql/README.md").read_text(), re.M):
        bare = re.sub(r"\([^()]*\)", "", parameters)
        count = 0 if bare.strip() == "none" else len([part for part in bare.split(",") if part.strip()])
        named = re.sub(r"\([^()]*\)|;.*", "", columns)
        calls[name] = (
            count,
            (
                [part.strip().rstrip("?") for part in named.split(",")]
                if not named.strip().startswith("as `")
                else named.strip()[4:].split("`")[0]
            ),
        )
    return calls


def check_call(name, tokens, database, readme):
    count, columns = readme[name]
    while isinstance(columns, str):
        columns = readme[columns][1]
    used = {int(token[1][1:]) for token in tokens if token[0] == "parameter"}
    # The arrays of a batch travel in a temporary table.
    wanted = set(range(1, count + 1)) - ({3, 6} if name == "append_many" else set())
    if used != wanted:
        raise Problem(f"binds {sorted(used)}, the driver sends {sorted(wanted)}")
    source = tokens
    if not any(is_word(token, "SELECT") for token in tokens):
        source = database.bodies[tokens[[i for i, token in enumerate(tokens) if is_word(token, "EXEC")][-1] + 3][1]]
    last = max(
        i for i, token in enumerate(source) if is_word(token, "SELECT") and sum((t[1] == "(") - (t[1] == ")") for t in source[:i]) == 0
    )
    listed = source[last + 1 :]
    if is_word(listed[0], "TOP"):
        depth, end = 0, 1
        while True:
            depth += (listed[end][1] == "(") - (listed[end][1] == ")")
            end += 1
            if depth == 0:
                break
        listed = listed[end:]
    depth = 0
    for end, token in enumerate(listed + [("sign", ";")]):
        depth += (token[1] == "(") - (token[1] == ")")
        if depth == 0 and (token[1] == ";" or is_word(token, "FROM")):
            break
    found = [part[-1][1].strip("[]") for part in split_top(listed[:end])]
    if found[: len(columns)] != columns:
        raise Problem(f"answers {found}, the library reads {columns}")


# In the uninstaller: what is dropped by a list of the schema's objects is dropped by our own names only.
def check_uninstall(batches):
    for tokens in batches:
        text = text_of(tokens)
        if (
            "DROP" in text
            and re.search(r"FROM sys ?\. ?(objects|tables) ", text)
            and "THROW" not in text
            and "IN ( @own_objects@ )" not in text
        ):
            raise Problem(f"drops what is not its own: {text[:80]}")


def check_all(root, files, report):
    database = Database()
    parsed = []
    for file, text in files:
        try:
            batches = [tokens_of(part) for part in batches_of(text)]
            for tokens in batches:
                if "/install/" in file:
                    database.define(tokens)
            check_lock_lines(text)
        except Problem as problem:
            report(file, problem)
            continue
        parsed.append((file, batches))
    readme = rows_of_readme(root)
    collations = Collations([tokens for file, batches in parsed if not file.endswith(BY_HAND) for tokens in batches])
    check_hidden(parsed, report)
    for file, batches in parsed:
        for tokens in batches:
            for text in [tokens, *texts_in(tokens)]:
                for problem in [] if file.endswith(BY_HAND) else problems_of(text, collations):
                    report(file, f"{text_of(tokens[:5])} …: {problem}")
            checks = (
                [lambda: check_blocks(tokens)]
                if file.endswith(BY_HAND)
                else [
                    lambda: check_blocks(tokens),
                    lambda: check_variables(tokens),
                    lambda: check_calls(tokens, database),
                    lambda: check_names(tokens, database),
                    lambda: check_throws(tokens),
                    lambda: check_thrown(tokens),
                    lambda: check_procedure(tokens),
                    lambda: check_hints(tokens, database, file),
                    lambda: check_settings(tokens),
                ]
            )
            for check in checks:
                try:
                    check()
                except Problem as problem:
                    report(file, f"{text_of(tokens[:5])} …: {problem}")
            for token in tokens:
                if not file.endswith(BY_HAND) and token[0] == "word" and token[1].upper() in FORBIDDEN:
                    report(file, f"{token[1]}: {FORBIDDEN[token[1].upper()]}")
        try:
            if "/install/" in file:
                check_again(file, batches)
            if file.endswith("/uninstall.sql"):
                check_uninstall(batches)
            if "/calls/" in file:
                if len(batches) != 1:
                    raise Problem("a call is one batch")
                check_call(Path(file).stem, batches[0], database, readme)
        except Problem as problem:
            report(file, problem)
    return database


def read_files(root):
    folder = root / "sql/sqlserver"
    return [(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")) for path in sorted(folder.glob("**/*.sql"))]


PLANTED = [
    ("an unbalanced quote", "/install/0002", "N'q', @scope_key)", "N'q, @scope_key)"),
    ("a missing END", "/install/0004", "  END CATCH\nEND\nGO", "  END CATCH\nGO"),
    ("a procedure that does not exist", "/install/0003", "EXEC @schema@._advance", "EXEC @schema@._advanced"),
    ("a table that does not exist", "/install/0003", "@schema@.stream_writes (stream_key", "@schema@.stream_write (stream_key"),
    ("a variable that is not declared", "/install/0005", "SET @deleted = @@ROWCOUNT", "SET @deletes = @@ROWCOUNT"),
    ("a missing argument", "/install/0002", "EXEC @schema@._stale @scope, @term, @fence;", "EXEC @schema@._stale @scope, @term;"),
    ("a missing OUTPUT", "/install/0002", "@evicted, @previous OUTPUT;", "@evicted, @previous;"),
    ("another code's number", "/install/0002", "EXEC @schema@._throw 50001, @message", "EXEC @schema@._throw 50002, @message"),
    ("a name in a message of THROW", "/install/0002", "EXEC @schema@._throw 50001, @message", "THROW 50001, @message, 1"),
    (
        "a look that waits",
        "/install/0002",
        "FROM @schema@.fences f WITH (NOLOCK) WHERE f.scope_key = @scope_key;\n  SET @raise",
        "FROM @schema@.fences f WHERE f.scope_key = @scope_key;\n  SET @raise",
    ),
    ("a key-range lock", "/install/0004", "l WITH (UPDLOCK, ROWLOCK)", "l WITH (UPDLOCK, HOLDLOCK)"),
    ("two hints of one group", "/install/0003", "READPAST, READCOMMITTEDLOCK)", "READPAST, READCOMMITTEDLOCK, ROWLOCK)"),
    ("a wait without an end", "/install/0004", "  SET LOCK_TIMEOUT 5000;\n", ""),
    ("a batch that the caller's ROWCOUNT cuts", "/install/0003", "  SET ROWCOUNT 0;\n", ""),
    ("a lock that is written otherwise", "/install/0003", "-- Locks: stream exclusive transaction", "-- Locks: the stream, exclusively"),
    (
        "an expression as an argument",
        "/install/0002",
        "EXEC @schema@._share @scope, @key;",
        "EXEC @schema@._share @scope, CONVERT(varbinary(800), @scope);",
    ),
    ("a lock without its principal", "/install/0002", "@LockTimeout = 1, @DbPrincipal = @role", "@LockTimeout = 1"),
    ("a procedure made twice", "/install/0006", "DROP PROCEDURE IF EXISTS @schema@.job_start;\n", ""),
    (
        "an exclusive lock that is not given back",
        "/install/0004",
        "    IF @own = 1 EXEC @schema@._release @key, @announced;\n    EXEC @schema@._late @scope;\n    THROW;",
        "    THROW;",
    ),
    (
        "a gate's lock without its timeout",
        "/install/0002",
        "@LockMode = N'Shared', @LockOwner = @owner, @LockTimeout = @left, ",
        "@LockMode = N'Shared', @LockOwner = @owner, ",
    ),
    ("a gate that throws another code's number", "/install/0010", "THROW 50006, 'TG006 the gate", "THROW 50005, 'TG006 the gate"),
    ("a gate that calls what is not there", "/install/0010", "EXEC @schema@._leave @key;", "EXEC @schema@._left @key;"),
    ("a call that forgets a parameter", "/calls/seal", ", @grace_ms = $3", ""),
    ("a call that answers another column", "/calls/check_term", "AS fence", "AS term"),
    (
        "two collations in a concatenation",
        "/before_install",
        "g.permission_name COLLATE DATABASE_DEFAULT + N' ON",
        "g.permission_name + N' ON",
    ),
    (
        "two collations in a text that runs",
        "/install/0002",
        "s.host_name COLLATE DATABASE_DEFAULT, N'', '', s.status COLLATE DATABASE_DEFAULT, N'' since",
        "s.host_name, N'', '', s.status, N'' since",
    ),
    ("a procedure that needs the owner's login", "/install/0010", "WITH EXECUTE AS 'termgate_guard'", "WITH EXECUTE AS OWNER"),
    (
        "a function of a higher level",
        "/install/0010",
        "VALUES (@count, JSON_VALUE(CONCAT(N'[', @element, N']'), '$[0]'))",
        "SELECT @count, j.value FROM OPENJSON(@scopes) j",
    ),
    (
        "a look that its client can switch off",
        "/install/0002",
        "  EXEC @schema@._need_trusted @scope, @generation;\n  IF @fence > @term",
        "  IF SESSION_CONTEXT(N'looked') IS NULL EXEC @schema@._need_trusted @scope, @generation;\n  IF @fence > @term",
    ),
    ("a text that Babelfish does not see and facts.sql does not have", "/facts", "t.is_filetable = 1", "t.is_filetable = 2"),
    (
        "an uninstaller that drops others' tables",
        "/uninstall",
        "AND t.object_id < @id AND t.name IN (@own_objects@)",
        "AND t.object_id < @id",
    ),
]


def main():
    root = Path(sys.argv[1])
    files = read_files(root)
    findings = []
    database = check_all(root, files, lambda file, problem: findings.append(f"{file}: {problem}"))
    for finding in findings:
        print(finding)
    print(f"{len(files)} files, {len(database.objects)} objects, {len(findings)} findings")
    missed = 0
    if "--self" in sys.argv:
        for what, where, old, new in PLANTED:
            changed = [(file, text.replace(old, new, 1) if where in "/" + file else text) for file, text in files]
            if changed == files:
                print(f"planted mistake cannot be planted: {what}")
                missed += 1
                continue
            found = []
            try:
                check_all(root, changed, lambda file, problem: found.append(problem))
            except (KeyError, IndexError, StopIteration, ValueError):
                found.append("cannot be read")
            if not found:
                print(f"planted mistake not found: {what}")
                missed += 1
        print(f"{len(PLANTED) - missed} of {len(PLANTED)} planted mistakes found")
        batches = [tokens_of(part) for file, text in files if "/install/" in file for part in batches_of(text)]
        for variant in check_variants(Collations(batches)):
            print(f"variant of a mistake is taken for another thing: {variant}")
            missed += 1
    sys.exit(1 if findings or missed or not files else 0)


if __name__ == "__main__":
    main()
