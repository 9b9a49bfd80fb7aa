# Long: the table of attacks.
"""The attacks that a single session makes: findings 1, 2, 3, 8, 9, 11, 12, 13 and S2, S3, S4, each with its whole kind of variants."""
import itertools

from rig import ALONE, B, C, D, E, F, FENCE, FORMS, H, OTHER, P, PLAIN, Q, Row, S, STALE, copy_in, group, one, pick

BAD = "INSERT INTO app.t (n, v) VALUES (@N@, 'bad')"
GOOD = "INSERT INTO app.t (n, v) VALUES (@N@, 'good')"
ANY = ("none", "read", "write", "lead", "operate", "maker")

# --- ways to write: the plain ones, and those that look like reads ---
HIDDEN = {
    "function": "SELECT app.wr(@N@)",
    "function in FROM": "SELECT * FROM app.wr(@N@)",
    "function in VALUES": "VALUES (app.wr(@N@))",
    "function in a subselect": "SELECT (SELECT app.wr(@N@))",
    "function in a CTE": "WITH x AS MATERIALIZED (SELECT app.wr(@N@) AS w) SELECT w FROM x",
    "function in WHERE": "SELECT 1 WHERE app.wr(@N@) > 0",
    "function of rows": "SELECT * FROM app.rows(@N@, 'bad')",
    "view": "SELECT w FROM app.writing",
    "operator": "SELECT @N@::bigint OPERATOR(app.<<%) 1::bigint",
    "cast": "SELECT (@N@::bigint)::app.wrapped",
    "domain": "SELECT (@N@::bigint)::app.checked",
    "aggregate": "SELECT app.sums(1) FROM (SELECT app.wr(@N@)) x",
    "policy": "SELECT * FROM app.secure",
    "COPY TO": "COPY (SELECT app.wr(@N@)) TO STDOUT",
    "EXPLAIN ANALYZE": "EXPLAIN (ANALYZE) SELECT app.wr(@N@)",
}
PLAINLY = {
    "INSERT": BAD,
    "INSERT RETURNING": BAD + " RETURNING v",
    "CTE that inserts": "WITH x AS (" + BAD + " RETURNING v) SELECT v FROM x",
    "INSERT of a SELECT": "INSERT INTO app.t (n, v) SELECT @N@, 'bad' FROM generate_series(1, 2)",
    "rule": "INSERT INTO app.ruled VALUES (@N@)",
    "trigger": "INSERT INTO app.triggered VALUES (@N@)",
    "deferred trigger": "INSERT INTO app.late VALUES (@N@)",
    "default": "INSERT INTO app.defaulted (n, v, w) VALUES (@N@, 'x', app.wr(@N@))",
    "DO": "DO $x$ BEGIN INSERT INTO app.t (n, v) VALUES (@N@, 'bad'); END $x$",
    "DO that calls": "DO $x$ BEGIN PERFORM app.wr(@N@); END $x$",
    "CALL": "CALL app.execute('INSERT INTO app.t (n, v) VALUES (@N@, ''bad'')')",
    "UPDATE": "UPDATE app.updated SET v = 'x' WHERE n = 0 RETURNING app.wr(@N@)",
}
WRITERS = {**HIDDEN, **PLAINLY}
# What EXECUTE, EXPLAIN, a portal or a function cannot hold.
NOT_PREPARED = {"COPY TO", "EXPLAIN ANALYZE", "DO", "DO that calls", "CALL"}


def usable(form, *names):
    return not (
        form in ("PREPARE", "functions", "one function", "DO", "DO in a block", "CALL", "portals", "two-phase", "named")
        and NOT_PREPARED & set(names)
    )


# --- calls of layer 1 that refuse nothing, and of other scopes ---
CALLS = {
    "job_finish": "SELECT termgate.job_finish(0, 'failed')",
    "job_finish FROM": "SELECT * FROM termgate.job_finish(0, 'failed')",
    "job_heartbeat": "SELECT termgate.job_heartbeat(0)",
    "append that happened": "SELECT termgate.append('known', 1, 'x', write_id => '11111111-1111-1111-1111-111111111111')",
    "fence": "SELECT termgate.fence('@A@')",
    "outcome": "SELECT termgate.outcome('11111111-1111-1111-1111-111111111111')",
    "read_stream": "SELECT * FROM termgate.read_stream('known')",
    "schema_version": "SELECT termgate.schema_version()",
    "release_session": "SELECT termgate.release_session('@A@')",
}
LEAD_CALLS = {
    "release_lease": "SELECT termgate.release_lease('no', 'no', 1)",
    "renew_lease": "SELECT termgate.renew_lease('no', 'no', 1, interval '1 s')",
    "lease": "SELECT termgate.lease('@A@')",
}
# These check, but another scope than the declared one.
CHECKS = {
    "check_term": f"SELECT termgate.check_term('@B@', {OTHER})",
    "check_term, quoted": f"SELECT \"termgate\".\"check_term\"(scope => '@B@', term => {OTHER})",
    "check_session": f"SELECT termgate.check_session('@B@', {OTHER})",
    "append": f"SELECT termgate.append('stream@N@', {OTHER}, 'x', scope => '@B@')",
    "append_many": f"SELECT termgate.append_many('stream@N@', {OTHER}, ARRAY['x'::bytea], scope => '@B@')",
}
LEAD_CHECKS = {
    "seal": f"SELECT termgate.seal('@B@', {OTHER})",
    "seal that raises": f"SELECT termgate.seal('@B@', {OTHER + 1})",
    "acquire_lease": "SELECT termgate.acquire_lease('lease@N@', 'me', interval '1 min')",
}


def finding_1():
    rows = []
    orders = {
        "in front": lambda call, write: [call, write],
        "after": lambda call, write: [write, call],
        "around": lambda call, write: [call, write, call],
    }
    for (name, call), (where, order) in itertools.product({**CALLS, **LEAD_CALLS}.items(), orders.items()):
        roles = ("lead", "operate") if name in LEAD_CALLS else ("write", "lead", "operate", "maker")
        for writer in pick(WRITERS, f"{name} {where}", 2):
            for form in pick(PLAIN, f"1 {name} {where} {writer}", 2):
                if usable(form, writer):
                    for claim in ("none", "stale"):
                        rows.append(
                            Row(
                                "1",
                                f"{name} {where} of {writer}, {form}, {claim}",
                                FORMS[form](order(call, WRITERS[writer])),
                                claim=claim,
                                roles=roles,
                            )
                        )
    # The forms of the review, each with every call.
    for name, call in {**CALLS, **LEAD_CALLS}.items():
        roles = ("lead", "operate") if name in LEAD_CALLS else ("write", "maker")
        for form in ("text", "text with BEGIN", "group", "flushed"):
            for claim in ("none", "stale"):
                rows.append(
                    Row(
                        "1",
                        f"{name} beside a function, {form}, {claim}",
                        FORMS[form](["SELECT app.wr(@N@)", call]),
                        claim=claim,
                        roles=roles,
                    )
                )
    inside = "SELECT app.wr(@N@) FROM (SELECT termgate.job_finish(0, 'failed')) x"
    for form in ALONE:
        rows.append(Row("1", f"in one statement, {form}", ALONE[form](inside)))
        rows.append(Row("1", f"an argument that writes, {form}", ALONE[form]("SELECT termgate.job_finish(app.wr(@N@), 'failed')")))
    return rows


def finding_13():
    rows = []
    for name, call in {**CHECKS, **LEAD_CHECKS}.items():
        roles = ("lead", "operate") if name in LEAD_CHECKS else ("write", "lead", "operate", "maker")
        for writer in pick(WRITERS, f"13 {name}", 3):
            for form in pick(PLAIN, f"13 {name} {writer}", 3):
                if usable(form, writer):
                    rows.append(
                        Row("13", f"{name}, then {writer}, {form}", FORMS[form]([call, WRITERS[writer]]), claim="stale", roles=roles)
                    )
        for form in ("block", "group", "flushed", "text"):
            rows.append(Row("13", f"{name}, then INSERT, {form}", FORMS[form]([call, BAD]), claim="stale", roles=roles))
            rows.append(Row("13", f"{name} after INSERT, {form}", FORMS[form]([BAD, call]), claim="stale", roles=roles))
    return rows


# --- declaring inside of a transaction, everywhere that a client can ---
def pair(scope, term, local="true"):
    return f"set_config('termgate.scope', '{scope}', {local}), set_config('termgate.term', '{term}', {local})"


def declarers(scope, term):
    both = pair(scope, term)
    return {
        "set_config": [f"SELECT {both}"],
        "set_config, term first": [f"SELECT set_config('termgate.term', '{term}', true), set_config('termgate.scope', '{scope}', true)"],
        "set_config for the session": [f"SELECT {pair(scope, term, 'false')}"],
        "set_config twice": [
            f"SELECT set_config('termgate.scope', '{scope}', true)",
            f"SELECT set_config('termgate.term', '{term}', true)",
        ],
        "set_config, qualified": [
            f"SELECT pg_catalog.set_config('termgate.scope', '{scope}', true), \"pg_catalog\".\"set_config\"('termgate.term', '{term}',"
            " true)"
        ],
        "set_config, names in capitals": [
            f"SELECT SET_CONFIG('TERMGATE.SCOPE', '{scope}', true), Set_Config('Termgate.Term', '{term}', true)"
        ],
        "set_config, escapes": [
            f"SELECT set_config(E'termgate.\\x73cope', '{scope}', true), set_config(U&'termgate.\\0074erm', '{term}', true)"
        ],
        "set_config, put together": [
            f"SELECT set_config('termgate.' || 'scope', '{scope}', true), set_config(concat('term', 'gate.term'), '{term}', true)"
        ],
        "set_config, dollar quotes": [
            f"SELECT set_config($$termgate.scope$$, $a${scope}$a$, true), set_config($$termgate.term$$, $${term}$$, true)"
        ],
        "set_config of a term by arithmetic": [
            f"SELECT set_config('termgate.scope', '{scope}', true), set_config('termgate.term', ({term} + 0)::text, true)"
        ],
        "set_config, FROM": [
            f"SELECT * FROM set_config('termgate.scope', '{scope}', true) a, set_config('termgate.term', '{term}', true) b"
        ],
        "set_config, VALUES": [f"VALUES ({both})"],
        "set_config, row by row": [
            f"SELECT set_config(k, x, true) FROM (VALUES ('termgate.scope', '{scope}'), ('termgate.term', '{term}')) v(k, x)"
        ],
        "set_config, subselect": [
            f"SELECT 1 WHERE (SELECT set_config('termgate.scope', '{scope}', true)) IS NOT NULL AND (SELECT set_config('termgate.term',"
            f" '{term}', true)) <> ''"
        ],
        "set_config, CTE": [f"WITH x AS MATERIALIZED (SELECT {both}) SELECT * FROM x"],
        "set_config, CASE": [
            f"SELECT CASE WHEN true THEN set_config('termgate.scope', '{scope}', true) || set_config('termgate.term', '{term}', true) END"
        ],
        "set_config, ORDER BY": [
            f"SELECT 1 FROM (VALUES (1), (2)) v(i) ORDER BY set_config('termgate.scope', '{scope}', true), set_config('termgate.term',"
            f" '{term}', true)"
        ],
        "set_config, UNION": [
            f"SELECT set_config('termgate.scope', '{scope}', true) UNION ALL SELECT set_config('termgate.term', '{term}', true)"
        ],
        "INSERT of set_config": [
            f"INSERT INTO app.scratch (v) SELECT set_config('termgate.scope', '{scope}', true) || set_config('termgate.term', '{term}',"
            " true)"
        ],
        "INSERT VALUES of set_config": [
            f"INSERT INTO app.scratch (v) VALUES (set_config('termgate.scope', '{scope}', true)), (set_config('termgate.term', '{term}',"
            " true))"
        ],
        "RETURNING set_config": [f"INSERT INTO app.scratch (v) VALUES ('x') RETURNING {both}"],
        "UPDATE with set_config": [
            (
                f"UPDATE app.secure SET n = n WHERE set_config('termgate.scope', '{scope}', true) <> set_config('termgate.term', '{term}',"
                " true)"
            ),
            (
                f"DELETE FROM app.scratch WHERE false OR (SELECT set_config('termgate.scope', '{scope}', true) ="
                f" set_config('termgate.term', '{term}', true))"
            ),
        ],
        "COPY of set_config": [f"COPY (SELECT {both}) TO STDOUT"],
        "EXPLAIN ANALYZE of set_config": [f"EXPLAIN ANALYZE SELECT {both} FROM generate_series(1, 2)"],
        "cursor": [f"DECLARE c CURSOR FOR SELECT {both}", "FETCH c"],
        "cursor, MOVE": [f"DECLARE c NO SCROLL CURSOR WITHOUT HOLD FOR SELECT {both} FROM generate_series(1, 3)", "MOVE ALL c", "CLOSE c"],
        "PREPARE and EXECUTE": [f"PREPARE d@N@ AS SELECT {both}", "EXECUTE d@N@"],
        "EXECUTE with parameters": [
            "PREPARE d@N@(text, text) AS SELECT set_config('termgate.scope', $1, true), set_config('termgate.term', $2, true)",
            f"EXECUTE d@N@('{scope}', '{term}')",
        ],
        "CREATE TEMP TABLE AS": [f"CREATE TEMP TABLE d@N@ AS SELECT {both.replace('), set', ') AS a, set')} AS b"],
        "SELECT INTO": [
            f"SELECT set_config('termgate.scope', '{scope}', true) AS a, set_config('termgate.term', '{term}', true) AS b INTO TEMP d@N@"
        ],
        "DO": [f"DO $d$ BEGIN PERFORM {both}; END $d$"],
        "DO with SET": [f"DO $d$ BEGIN SET LOCAL termgate.scope = '{scope}'; SET LOCAL termgate.term = '{term}'; END $d$"],
        "DO with EXECUTE": [
            f"DO $d$ BEGIN EXECUTE 'SET LOCAL termgate.scope = ''{scope}'''; EXECUTE format('SET LOCAL %s = %L', 'termgate.term',"
            f" '{term}'); END $d$"
        ],
        "function": [f"SELECT app.declare('{scope}', '{term}')"],
        "function with SET": [f"SELECT app.declare_set('{scope}', '{term}')"],
        "function for the session": [f"SELECT app.declare('{scope}', '{term}', false)"],
        "dynamic function": [f"SELECT app.run('SET LOCAL termgate.scope = ''{scope}''; SET LOCAL termgate.term = ''{term}''')"],
        "CALL": [f"CALL app.declaring('{scope}', '{term}')"],
        "SET LOCAL": [f"SET LOCAL termgate.scope = '{scope}'", f"SET LOCAL termgate.term = '{term}'"],
        "SET": [f"SET termgate.scope TO '{scope}'", f"SET termgate.term TO {term}"],
        "SET SESSION": [f"SET SESSION termgate.scope = {scope}", f"SET SESSION \"termgate\".\"term\" = '{term}'"],
        "SET in capitals": [f"set local TERMGATE.SCOPE = '{scope}'", f"Set Local Termgate.Term = '{term}'"],
        "SET with comments": [f"SET /* x */ LOCAL termgate /* y */ . scope = '{scope}'", f"SET LOCAL -- x\n termgate.term = '{term}'"],
        "the term alone": [f"SET LOCAL termgate.scope = '{scope}'", f"SELECT set_config('termgate.term', '{term}', true)"],
        "the scope alone by set_config": [f"SET LOCAL termgate.term = '{term}'", f"SELECT set_config('termgate.scope', '{scope}', true)"],
    }


# Declarations that are single statements and can be read off the text: these must also work for the rightful one.
RIGHTFUL = (
    "set_config",
    "set_config, term first",
    "set_config for the session",
    "set_config twice",
    "set_config, qualified",
    "set_config, names in capitals",
    "set_config, dollar quotes",
    "SET LOCAL",
    "SET",
    "SET SESSION",
    "SET in capitals",
    "SET with comments",
    "the term alone",
    "the scope alone by set_config",
)
UNPREPARED_DECLARERS = ("cursor", "PREPARE and", "EXECUTE with", "EXPLAIN", "COPY", "CREATE", "SELECT INTO", "DO", "CALL", "SET", "the ")


def declarable(form, name):
    """PREPARE takes what it can plan, a function what it may do, an atomic form no cursor of another statement."""
    if form in ("PREPARE",) and name.startswith(UNPREPARED_DECLARERS):
        return False
    if form in ("two-phase",) and name in ("CREATE TEMP TABLE AS", "SELECT INTO", "cursor"):
        return False
    if form in ("functions", "one function", "DO", "DO in a block", "CALL") and name in (
        "COPY of set_config",
        "EXPLAIN ANALYZE of set_config",
    ):
        return False
    if form in ("portals", "named", "group, described") and name.startswith(("EXECUTE with", "PREPARE and", "cursor")):
        return False
    if form in ("group", "flushed") and name.startswith("cursor"):
        return False
    return not (form in ("functions", "one function", "DO", "DO in a block", "CALL") and name == "SELECT INTO")


def finding_2():
    """The session declares B, which is valid; the transaction declares A, which is stale."""
    rows = []
    for name, declare in declarers("@A@", STALE).items():
        for form in ("block", "text", "group", *pick([f for f in FORMS if f not in ("block", "text", "group")], f"2 {name}", 5)):
            if declarable(form, name):
                for before in ((), (GOOD,)):
                    writer = "INSERT" if form in ("block", "text") else pick(WRITERS, f"2 {name} {form} {before}", 1)[0]
                    if usable(form, writer):
                        rows.append(
                            Row(
                                "2",
                                f"{name}, {form}, {writer}{', after a write' if before else ''}",
                                FORMS[form]([*before, *declare, WRITERS[writer]]),
                                claim="other",
                            )
                        )
        # Without a default of the session's.
        for form in pick(PLAIN, f"2 none {name}", 3):
            if declarable(form, name):
                rows.append(
                    Row(
                        "2",
                        f"{name}, {form}, no default",
                        FORMS[form]([*declare, BAD]),
                        claim="none",
                        modes=("reject", "read-only", "allow"),
                    )
                )
    for form in ALONE:  # declares and writes in one statement
        rows.append(
            Row(
                "2",
                f"declares and writes in one function, {form}",
                ALONE[form](f"SELECT app.declare_and_write('@A@', '{STALE}', @N@)"),
                claim="other",
            )
        )
        rows.append(
            Row(
                "2",
                f"declares and writes in one statement, {form}",
                ALONE[form](f"SELECT {pair('@A@', STALE)}, app.wr(@N@)"),
                claim="other",
            )
        )
        rows.append(
            Row(
                "2",
                f"writes and declares in one statement, {form}",
                ALONE[form](f"SELECT app.wr(@N@), {pair('@A@', STALE)}"),
                claim="other",
            )
        )
        rows.append(Row("2", f"RETURNING declares, {form}", ALONE[form](BAD + f" RETURNING {pair('@A@', STALE)}"), claim="other"))
        rows.append(
            Row(
                "2",
                f"a CTE writes, the rest declares, {form}",
                ALONE[form](f"WITH x AS ({BAD} RETURNING 1) SELECT {pair('@A@', STALE)} FROM x"),
                claim="other",
            )
        )
    for name, declare in declarers(
        "@A@", STALE
    ).items():  # declares after the write, in the same transaction: the last claim in force counts
        form = pick([f for f in PLAIN if declarable(f, name)], f"2 last {name}", 1)[0]
        rows.append(Row("2", f"{name} after the write, {form}", FORMS[form]([BAD, *declare]), claim="other"))
    # With parameters of the protocol.
    sql = "SELECT set_config('termgate.scope', $1, true), set_config('termgate.term', $2, true)"
    values = ("@A@", str(STALE))
    rows += [
        Row("2", "parameters, block", [[Q("BEGIN")], [*one(sql, values), S], [Q(BAD)], [Q("COMMIT")]], claim="other"),
        Row("2", "parameters, one group", [[*one(sql, values), *one(BAD), S]], claim="other"),
        Row(
            "2",
            "parameters, named, after a write",
            [[P("d", sql), S], [Q("BEGIN")], [Q(GOOD)], [B("", "d", values), E(), S], group(BAD), [Q("COMMIT")]],
            claim="other",
        ),
        Row(
            "2",
            "parameters for the name too",
            [
                [Q("BEGIN")],
                [
                    *one("SELECT set_config($1, $2, true)", ("termgate.scope", "@A@")),
                    *one("SELECT set_config($1, $2, true)", ("termgate.term", str(STALE))),
                    S,
                ],
                [Q(BAD)],
                [Q("COMMIT")],
            ],
            claim="other",
        ),
        Row("2", "parameters, Flush, portal", [[P("d", sql), B("p", "d", values), E("p", 1), H], [*one(BAD), S]], claim="other"),
    ]
    # A claim that is malformed, or none.
    for name, declare in {
        "malformed term": f"SELECT {pair('@B@', 'x')}",
        "term 0": f"SELECT {pair('@B@', 0)}",
        "term beyond 2^62": f"SELECT {pair('@B@', 2**62 + 1)}",
        "negative term": f"SELECT {pair('@B@', -9)}",
        "term with a point": f"SELECT {pair('@B@', '9.0')}",
        "scope too long": "SELECT set_config('termgate.scope', repeat('x', 201), true)",
    }.items():
        for form in ("block", "text", "group", "flushed", "chain"):
            for before in ((), (GOOD,)):
                rows.append(
                    Row("2", f"{name}, {form}{', after a write' if before else ''}", FORMS[form]([*before, declare, BAD]), claim="other")
                )
    return rows


def rightful():
    """What must work: a current term, declared as documented; judged by the rows and, where marked, by the answers of a direct
    connection."""
    rows = []
    roles = ("write", "lead", "operate", "maker")
    for name in RIGHTFUL:
        for term in (FENCE, FENCE + 1):
            declare = declarers("@A@", term)[name]
            forms = [form for form in PLAIN if declarable(form, name) and form not in ("savepoint rolled back",)]
            for form in (
                "block",
                "text",
                "text with BEGIN",
                "group",
                *pick([f for f in forms if f not in ("block", "text", "text with BEGIN", "group")], f"right {name} {term}", 5),
            ):
                # A raise that is newer than the transaction's snapshot is a serialization error.
                if not declarable(form, name) or (term > FENCE and form in ("block, repeatable read", "block, serializable")):
                    continue
                warns = name.startswith("SET ") and "SESSION" not in name or name.startswith(("SET LOCAL", "SET in", "SET with", "the "))
                # SET LOCAL outside of a block warns and is gone, on the server too.
                if warns and form in ("group", "flushed", "named", "group, described"):
                    continue
                # The check that raises the fence also notifies, and what has notified cannot be prepared: with or without a proxy.
                if term > FENCE and form == "two-phase":
                    continue
                # COMMIT PREPARED is a write behind the end of the declaration; under `reject` nothing runs before it either.
                modes = (
                    ("allow",)
                    if form == "two-phase"
                    else (
                        ("read-only", "allow") if form in ("chain", "rollback and chain", "PREPARE") or form.startswith("chained") else None
                    )
                )
                rows.append(
                    Row(
                        "2 rightful",
                        f"{name} term {term}, {form}",
                        FORMS[form]([*declare, GOOD]),
                        "works",
                        "none",
                        roles,
                        same=form not in ("named", "two-phase"),
                        modes=modes,
                    )
                )
    for name in RIGHTFUL[:6]:
        declare = declarers("@A@", FENCE)[name]
        for form in ("block", "group", "text", "extended block", "savepoint"):
            rows.append(
                Row(
                    "2 rightful",
                    f"from B to A by {name}, {form}",
                    FORMS[form]([GOOD, *declare, GOOD]),
                    "works",
                    "other",
                    roles,
                    good=2,
                    same=True,
                )
            )
            rows.append(
                Row(
                    "2 rightful",
                    f"A in place of a stale default by {name}, {form}",
                    FORMS[form]([*declarers("@B@", OTHER)[name], GOOD]),
                    "works",
                    "stale",
                    roles,
                    same=True,
                )
            )
    sql = "SELECT set_config('termgate.scope', $1, true), set_config('termgate.term', $2, true)"
    for claim, scope, term in (("none", "@A@", FENCE), ("none", "@A@", FENCE + 1), ("stale", "@B@", OTHER), ("other", "@A@", FENCE)):
        values = (scope, str(term))
        rows += [
            Row(
                "2 rightful",
                f"JDBC's way, {claim} to {scope} {term}",
                [[P("", "BEGIN"), B(), E(), *one(sql, values), S], group(GOOD), group("COMMIT")],
                "works",
                claim,
                roles,
                same=True,
            ),
            Row(
                "2 rightful",
                f"parameters, block, {claim} to {scope} {term}",
                [[Q("BEGIN")], [*one(sql, values), S], [Q(GOOD)], [Q("COMMIT")]],
                "works",
                claim,
                roles,
                same=True,
            ),
            Row(
                "2 rightful",
                f"parameters, one group, {claim} to {scope} {term}",
                [[*one(sql, values), *one(GOOD), S]],
                "works",
                claim,
                roles,
                same=True,
            ),
            Row(
                "2 rightful",
                f"parameters, named statement, twice, {claim} to {scope} {term}",
                [
                    [P("d", sql), S],
                    *[step for _ in range(2) for step in ([Q("BEGIN")], [B("", "d", values), E(), S], group(GOOD), [Q("COMMIT")])],
                ],
                "works",
                claim,
                roles,
                good=2,
                same=True,
            ),
            Row(
                "2 rightful",
                f"parameters, pipelined, {claim} to {scope} {term}",
                [[*group("BEGIN"), *one(sql, values), S, *group(GOOD), *group("COMMIT")]],
                "works",
                claim,
                roles,
                same=True,
            ),
            Row(
                "2 rightful",
                f"parameters, flushed, {claim} to {scope} {term}",
                [[*one("BEGIN"), H], [*one(sql, values), H], [*one(GOOD), H], [*one("COMMIT"), H], [S]],
                "works",
                claim,
                roles,
            ),
        ]
    # For the session, outside of a block; and a function that declares: the next transaction has it.
    for name, declare in {
        "set_config": f"SELECT {pair('@A@', FENCE, 'false')}",
        "function": f"SELECT app.declare('@A@', '{FENCE}', false)",
        "DO": f"DO $d$ BEGIN PERFORM {pair('@A@', FENCE, 'false')}; END $d$",
        "subselect": f"SELECT (SELECT set_config('termgate.scope', '@A@', false)), (SELECT set_config('termgate.term', '{FENCE}', false))",
    }.items():
        for form in ("simple", "extended"):
            modes = ("read-only", "allow") if name == "function" else ("allow",) if name == "DO" else None  # READ ONLY does not stop DO
            rows.append(
                Row(
                    "2 rightful",
                    f"session by {name}, {form}",
                    [*ALONE[form](declare), *ALONE[form](GOOD), [Q("BEGIN")], [Q(GOOD)], [Q("COMMIT")]],
                    "works",
                    "none",
                    roles,
                    good=2,
                    same=name != "DO" or None,
                    modes=modes,
                )
            )
    # The comment counts for its own statement.
    for form in ("simple", "extended", "extended, flushed"):
        for place in ("front", "end"):
            comment = f"/*termgate.scope='@B@',termgate.term='{OTHER}'*/"
            sql = f"{comment} {GOOD}" if place == "front" else f"{GOOD} {comment}"
            rows.append(
                Row(
                    "3 rightful", f"a valid comment at the {place}, {form}, no default", ALONE[form](sql), "works", "none", roles, same=True
                )
            )
            rows.append(
                Row(
                    "3 rightful",
                    f"a valid comment at the {place}, {form}, stale default",
                    ALONE[form](sql),
                    "works",
                    "stale",
                    roles,
                    same=True,
                )
            )
    # The function's own arguments declare.
    for form in ("block", "text with BEGIN", "extended block", "group with BEGIN", "pipelined", "savepoint"):
        rows.append(
            Row(
                "13 rightful",
                f"check_term, then a write, {form}",
                FORMS[form]([f"SELECT termgate.check_term('@A@', {FENCE})", GOOD]),
                "works",
                "none",
                roles,
                same=True,
            )
        )
    return rows


def transparent():
    """Findings 11 and 12, and what else a client sees: nothing twice, nothing missing. Each against a direct connection."""
    rows = []
    announcing = {
        "NOTICE": "SELECT app.noticed(@N@)",
        "NOTICE FROM": "SELECT * FROM app.noticed(@N@)",
        "WARNING and INFO": "SELECT app.warned(@N@)",
        "NOTICE in a view": "SELECT n FROM app.noticing",
        "NOTICE in a domain": "SELECT (@N@::bigint)::app.noticed_domain",
        "NOTICE in a CTE": "WITH x AS (SELECT app.noticed(@N@) AS a) SELECT a FROM x",
        "NOTICE in WHERE": "SELECT 5 WHERE app.noticed(@N@) = 7",
        "NOTICE in VALUES": "VALUES (app.noticed(@N@))",
        "NOTICE in COPY": "COPY (SELECT app.noticed(@N@)) TO STDOUT",
        "NOTICE in DO": "DO $x$ BEGIN RAISE NOTICE 'do'; PERFORM app.noticed(@N@); END $x$",
        "INSERT RETURNING": GOOD + " RETURNING n, v",
        "CTE that inserts": "WITH x AS (" + GOOD + " RETURNING v) SELECT v FROM x",
        "function": "SELECT app.wr(@N@, 'good')",
    }
    for name, sql in announcing.items():
        for form in ("simple", "extended", "extended, flushed", "extended, described and flushed"):
            if form != "simple" and (name.endswith("DO") or "COPY" in name) and "described" in form:
                continue
            rows.append(Row("11", f"{name}, {form}", ALONE[form](sql), "works", "current", same=True, learned=name == "NOTICE in a view"))
        for form in pick(PLAIN, f"11 {name}", 6):
            if usable(form, "COPY TO" if "COPY" in name else "DO" if name.endswith("DO") else "INSERT"):
                rows.append(
                    Row(
                        "11",
                        f"{name}, {form}",
                        FORMS[form]([sql, "SELECT 1"]),
                        "works",
                        "current",
                        same=True,
                        learned=name == "NOTICE in a view",
                    )
                )
        rows.append(
            Row(
                "11",
                f"{name}, after a read of its kind",
                [[Q("SELECT app.notice_only()")], [Q(sql)], group("SELECT 1")],
                "works",
                "current",
                same=True,
                learned=name == "NOTICE in a view",
            )
        )
    counting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND pid = pg_backend_pid() AND objid = @N@"
    for name, sql, undo in (
        ("lock", "SELECT app.locked(@N@)", "SELECT pg_advisory_unlock(@N@)"),
        ("shared lock", "SELECT app.locked_shared(@N@)", "SELECT pg_advisory_unlock_shared(@N@)"),
        ("lock in FROM", "SELECT * FROM app.locked(@N@)", "SELECT pg_advisory_unlock(@N@)"),
        ("lock in a subselect", "SELECT (SELECT app.locked(@N@))", "SELECT pg_advisory_unlock(@N@)"),
        ("lock in a CTE", "WITH x AS MATERIALIZED (SELECT app.locked(@N@) AS l) SELECT l FROM x", "SELECT pg_advisory_unlock(@N@)"),
    ):
        for form in ("simple", "extended", "extended, flushed"):
            # After one unlock the lock is free: the second unlock is refused by the server with a warning, once.
            rows.append(
                Row(
                    "11",
                    f"{name}, {form}",
                    [*ALONE[form](sql), [Q(counting)], [Q(undo)], [Q(undo)], [Q(counting)]],
                    "works",
                    "current",
                    same=True,
                )
            )
        rows.append(
            Row(
                "11",
                f"{name}, in a block",
                [[Q("BEGIN")], [Q(sql)], [Q("COMMIT")], [Q(counting)], [Q(undo)], [Q(undo)]],
                "works",
                "current",
                same=True,
            )
        )
    ruled = {
        "DO ALSO SELECT": ("INSERT INTO app.also VALUES (@N@, 'x')", 0),
        "DO INSTEAD SELECT": ("INSERT INTO app.instead VALUES (@N@, 'x')", 0),
        "DO ALSO SELECT, update": ("UPDATE app.also_all SET v = 'kept'", 0),
        "DO ALSO SELECT, delete": ("DELETE FROM app.also_all WHERE n = @N@", 0),
        "DO ALSO of several": ("INSERT INTO app.two VALUES (@N@, 'x')", 1),
        "DO INSTEAD of several": ("INSERT INTO app.instead_two VALUES (@N@, 'x')", 1),
        "DO INSTEAD with RETURNING": ("INSERT INTO app.instead_two VALUES (@N@, 'x') RETURNING n, v", 1),
        "DO ALSO, many rows": ("INSERT INTO app.also SELECT @N@, 'x' FROM generate_series(1, 3)", 0),
    }
    for name, (sql, good) in ruled.items():
        for form in ("simple", "extended", "extended, described and flushed", "a portal, row by row"):
            rows.append(Row("12", f"{name}, {form}", ALONE[form](sql), "works", "current", good=good, same=True))
        for form in ("text", "text with BEGIN", "block", "group", "pipelined", "PREPARE", "comments", "mixed"):
            rows.append(
                Row(
                    "12",
                    f"{name}, {form}",
                    FORMS[form](["SELECT 'before'", sql, "SELECT 'after'"]),
                    "works",
                    "current",
                    good=good,
                    same=True,
                )
            )
        rows.append(Row("12", f"{name}, two in a text", [[Q(f"{sql}; {sql}")]], "works", "current", good=2 * good, same=True))
    rows.append(
        Row(
            "12",
            "COPY in between",
            [
                [Q("BEGIN")],
                [Q("COPY app.t (n, v) FROM STDIN"), copy_in("@N@\tgood\n")],
                [Q("INSERT INTO app.also VALUES (@N@, 'x')")],
                [Q("COMMIT")],
            ],
            "works",
            "current",
            same=True,
        )
    )
    return rows


# --- comments ---
def commented(sql, place, scope="@A@", term=STALE):
    comment = f"/*termgate.scope='{scope}',termgate.term='{term}'*/"
    return {
        "front": f"{comment} {sql}",
        "end": f"{sql} {comment}",
        "after blanks": f" \n\t {comment}{sql}",
        "after a comment": f"/* x */ -- y\n {comment} {sql}",
        "in front of a semicolon": f"{sql}{comment};",
        "term first": f"/*termgate.term='{term}',termgate.scope='{scope}'*/ {sql}",
        "among others": f"/*app='x',termgate.scope='{scope}',termgate.term='{term}',z='1'*/ {sql}",
        "end, after a comment": f"{sql} /* x */ {comment}",
    }[place]


PLACES = (
    "front",
    "end",
    "after blanks",
    "after a comment",
    "in front of a semicolon",
    "term first",
    "among others",
    "end, after a comment",
)


def finding_3():
    """The session declares B, which is valid; the statement's comment names A, which is stale."""
    rows = []
    for writer, sql in WRITERS.items():
        for form in (
            "extended",
            "extended, flushed",
            "simple",
            *pick([f for f in ALONE if f not in ("extended", "extended, flushed", "simple")], f"3 {writer}", 2),
        ):
            if (
                form == "a portal, row by row"
                and writer in NOT_PREPARED
                or (writer in NOT_PREPARED and form.endswith("described and flushed"))
            ):
                continue
            place = pick(PLACES, f"3 {writer} {form}", 1)[0]
            rows.append(Row("3", f"{writer}, comment {place}, {form}", ALONE[form](commented(sql, place)), claim="other"))
        for form in ("block", "group", *pick([f for f in PLAIN if f not in ("block", "group")], f"3 forms {writer}", 3)):
            if usable(form, writer) and form not in ("comments",):
                place = pick([p for p in PLACES if ";" not in p and "semicolon" not in p], f"3 {writer} {form}", 1)[0]
                rows.append(
                    Row("3", f"{writer} after a write, comment {place}, {form}", FORMS[form]([GOOD, commented(sql, place)]), claim="other")
                )
    wr = commented("SELECT app.wr(@N@)", "front")
    rows += [
        Row(
            "3",
            "a named statement, in a later transaction",
            [[P("n", wr), S], group("SELECT 1"), [B("", "n"), E(), S], [Q("BEGIN")], [Q(GOOD)], [B("", "n"), E(), S], [Q("COMMIT")]],
            claim="other",
        ),
        Row(
            "3",
            "a named statement, refused once, in a group with another",
            [[P("n", wr), S], [B("", "n"), E(), S], [*one(GOOD), B("", "n"), E(), S]],
            claim="other",
        ),
        Row(
            "3",
            "a portal bound in front of another's check",
            [[Q("BEGIN")], [P("n", wr), B("p", "n"), H], [*one(GOOD), H], [E("p"), S], [Q("COMMIT")]],
            claim="other",
        ),
        Row(
            "3",
            "a suspended portal",
            [
                [Q("BEGIN")],
                [P("n", commented("SELECT * FROM app.rows(@N@, 'bad')", "end")), B("p", "n"), E("p", 1), H],
                [E("p", 0), S],
                [Q("COMMIT")],
            ],
            claim="other",
        ),
        Row(
            "3",
            "PREPARE with the comment",
            [[Q(commented("PREPARE p AS SELECT app.wr(@N@)", "front"))], [Q(commented("EXECUTE p", "end"))]],
            claim="other",
        ),
        Row(
            "3",
            "a cursor with the comment on FETCH",
            [
                [Q("BEGIN")],
                [Q(GOOD)],
                [Q(commented("DECLARE c CURSOR FOR SELECT app.wr(@N@)", "front"))],
                [Q(commented("FETCH c", "front"))],
                [Q("COMMIT")],
            ],
            claim="other",
        ),
        Row(
            "3",
            "two commented ones in one group",
            [[*one(commented("SELECT app.wr(@N@)", "end", "@B@", OTHER)), *one(wr), S]],
            claim="other",
        ),
        Row("3", "a stale one, Flush, a valid one", [[*one(wr), H], [*one(GOOD), S]], claim="other"),
        Row("3", "BEGIN with the comment", [[Q("BEGIN")], [Q(commented(BAD, "after a comment"))], [Q("COMMIT")]], claim="other"),
        Row("3", "COPY with the comment", [[Q(commented("COPY app.t (n, v) FROM STDIN", "front")), copy_in("@N@\tbad\n")]], claim="other"),
        Row(
            "3",
            "COPY with the comment, after a write",
            [[Q("BEGIN")], [Q(GOOD)], [Q(commented("COPY app.t (n, v) FROM STDIN", "end")), copy_in("@N@\tbad\n")], [Q("COMMIT")]],
            claim="other",
        ),
    ]
    for place in PLACES:
        for form in ("extended", "extended, flushed", "extended, twice"):
            rows.append(Row("3", f"function, comment {place}, {form}", ALONE[form](commented("SELECT app.wr(@N@)", place)), claim="other"))
        # no default at all: the comment is the only claim, and stale
        rows.append(
            Row(
                "3",
                f"function, comment {place}, no default",
                ALONE["extended"](commented("SELECT app.wr(@N@)", place)),
                claim="none",
                modes=("reject", "read-only", "allow"),
            )
        )
    return rows


def finding_s2():
    rows = []
    calls = {
        "nextval": "SELECT nextval('app.t_id_seq')",
        "setval": "SELECT setval('app.t_id_seq', nextval('app.t_id_seq'))",
        "function": "SELECT app.notice_only()",
        "version": "SELECT version()",
        "current_setting": "SELECT current_setting('termgate.term')",
        "lower": "SELECT lower('X')",
        "DO": "DO $x$ BEGIN PERFORM 1; END $x$",
        "set_config of another": "SELECT set_config('work_mem', '4MB', false)",
        "SET of another": "SET work_mem = '5MB'",
        "DISCARD": "DISCARD PLANS",
        "view": "SELECT count(*) FROM app.ids WHERE n < 3",
        "RESET ALL": "RESET ALL",
        "pg_sleep": "SELECT pg_sleep(0)",
    }
    for name, call in calls.items():
        for writer in ("INSERT", *pick(WRITERS, f"s2 {name}", 2)):
            bad = commented(WRITERS[writer], "front")
            rows.append(
                Row(
                    "S2",
                    f"{name}, then {writer} in a block after a write",
                    [[Q(call)], [Q("BEGIN")], [Q(GOOD)], [Q(bad)], [Q("COMMIT")]],
                    claim="other",
                )
            )
            rows.append(
                Row(
                    "S2",
                    f"{name} extended, then {writer} in a group after a write",
                    [group(call), [*one(GOOD), *one(bad), S]],
                    claim="other",
                )
            )
            rows.append(
                Row(
                    "S2",
                    f"{name} in the block, then {writer}",
                    [[Q("BEGIN")], [Q(call)], [Q(GOOD)], group(bad), [Q("COMMIT")]],
                    claim="other",
                )
            )
            rows.append(
                Row(
                    "S2",
                    f"{name} after the write, then {writer}",
                    [[Q("BEGIN")], [Q(GOOD)], [Q(call)], [Q(bad)], [Q("COMMIT")]],
                    claim="other",
                )
            )
    return rows


def finding_s4():
    rows = []
    comment = f"/*termgate.scope='@A@',termgate.term='{STALE}'*/"
    for writer in ("INSERT", "function", *pick(WRITERS, "s4", 6)):
        bad = WRITERS[writer]
        for name, text in {
            "between": f"{GOOD}; {comment} {bad}",
            "between, as the end of the first": f"{bad} {comment}; {GOOD}",
            "after the last": f"{GOOD}; {bad} {comment}",
            "in BEGIN and COMMIT": f"BEGIN; {GOOD}; {comment} {bad}; COMMIT",
            "after an empty one": f"{GOOD}; ; {comment} ; {comment} {bad}",
            "in front of a third": f"{GOOD}; SELECT 1; {comment} {bad}; SELECT 2",
            "after SET": f"SET work_mem = '4MB'; {comment} {bad}",
            "on the first of two": f"{comment} {bad}; {GOOD}",
            "after a read": f"SELECT 1; {comment} {bad}",
            "both differ": f"/*termgate.scope='@B@',termgate.term='{OTHER}'*/ {GOOD}; {comment} {bad}",
        }.items():
            rows.append(Row("S4", f"{name}, {writer}", [[Q(text)]], claim="other"))
        rows.append(
            Row("S4", f"between in a block, {writer}", [[Q("BEGIN")], [Q(f"{GOOD}; {comment} {bad}")], [Q("COMMIT")]], claim="other")
        )
    return rows


def undeclared():
    """A declaration that is taken back: nothing commits without one."""
    rows = []
    declare = f"SELECT {pair('@A@', FENCE, 'false')}"
    for name, back in {
        "RESET": ["RESET termgate.term"],
        "RESET ALL": ["RESET ALL"],
        "DISCARD ALL": ["DISCARD ALL"],
        "SET to nothing": ["SET termgate.term = ''"],
        "SET DEFAULT": ["SET termgate.scope TO DEFAULT"],
        "set_config to nothing": ["SELECT set_config('termgate.term', '', false)"],
        "both": ["RESET termgate.scope", "RESET termgate.term"],
        "function": ["SELECT app.run('RESET termgate.term')"],
        "DO": ["DO $x$ BEGIN RESET termgate.scope; END $x$"],
        "set_config of both": [f"SELECT {pair('', '', 'false')}"],
    }.items():
        for form in ALONE:
            for writer in pick(WRITERS, f"u {name} {form}", 1):
                if writer in NOT_PREPARED and (form.endswith("described and flushed") or form.startswith("a portal")):
                    continue
                rows.append(
                    Row(
                        "5.4",
                        f"{name}, then {writer}, {form}",
                        [[Q(declare)], [Q(GOOD)], *[[Q(sql)] for sql in back], *ALONE[form](WRITERS[writer])],
                        claim="none",
                    )
                )
        rows.append(
            Row(
                "5.4",
                f"SET LOCAL ends with its transaction, {name}",
                [
                    [Q("BEGIN")],
                    [Q(f"SELECT {pair('@A@', FENCE)}")],
                    [Q(GOOD)],
                    [Q("COMMIT AND CHAIN")],
                    *[[Q(sql)] for sql in back if sql != "DISCARD ALL"],
                    [Q(BAD)],
                    [Q("COMMIT")],
                    [Q(BAD)],
                ],
                claim="none",
            )
        )
    # The claim became stale, in a session that passed with it.
    for name, seal in (("between transactions", lambda bench, n: bench.ask(f"SELECT termgate.seal('a{n}', 7, '50 ms')")),):
        for writer in WRITERS:
            rows.append(
                Row("5.4", f"stale {name}, {writer}", [[Q(GOOD)], seal, [Q(WRITERS[writer])], group(WRITERS[writer])], claim="current")
            )
    # application_name at run time, ALTER ROLE: what a session may have as its start.
    start = f"termgate.scope=@A@;termgate.term={STALE};"
    for form in ("simple", "extended", "extended, flushed", "twice"):
        for writer in ("INSERT", "function", "view"):
            if writer != "view":
                rows.append(
                    Row(
                        "5.2",
                        f"application_name, {writer}, {form}",
                        ALONE[form](WRITERS[writer]),
                        start=[("application_name", start)],
                        modes=("reject", "read-only", "allow"),
                    )
                )
    return rows


def alone_in_a_pipeline():
    """What must run alone takes a lock in front of its pipeline: what stands there already, in a transaction that has ended,
    has no part in it."""
    rows = []
    current = f"/*termgate.scope='@B@',termgate.term='{OTHER}'*/ "
    claims = {"no claim": "", "a stale comment": f"/*termgate.scope='@A@',termgate.term='{STALE}'*/ "}
    alone = {
        "CALL": current + "CALL app.execute('SELECT 1')",
        "CALL without a comment": "CALL app.execute('SELECT 1')",
        "DO": current + "DO $x$ BEGIN PERFORM 1; END $x$",
        "VACUUM": current + "VACUUM app.t",
        "INSERT": current + GOOD,
    }
    ends = {
        "COMMIT": ["COMMIT"],
        "ROLLBACK": ["ROLLBACK"],
        "BEGIN and COMMIT": ["BEGIN", "COMMIT"],
        "COMMIT twice": ["COMMIT", "COMMIT"],
        "nothing": [],
        "SET": ["SET work_mem = '4MB'", "COMMIT"],
    }
    for (how, claim), (name, last), (end, between) in itertools.product(claims.items(), alone.items(), ends.items()):
        for writer in pick([name for name in HIDDEN if name not in NOT_PREPARED], f"alone {how} {name} {end}", 2):
            sqls = [claim + HIDDEN[writer], *between, last]
            rows.append(
                Row("2", f"{writer} under {how}, {end}, {name} in one pipeline", [group(*sqls)], claim="other" if claim else "none")
            )
            rows.append(
                Row(
                    "2",
                    f"{writer} under {how}, {end}, {name} in one pipeline, prepared before",
                    [
                        [m for i, sql in enumerate(sqls) for m in (P(f"a{i}", sql),)] + [S],
                        [m for i in range(len(sqls)) for m in (B("", f"a{i}"), E())] + [S],
                    ],
                    claim="other" if claim else "none",
                )
            )
    return rows


# Ways into a transaction that can write although no check has passed in it, or none that still counts.
BEHIND = {
    "SAVEPOINT": [[Q("BEGIN")], [Q("SAVEPOINT a")]],
    "SAVEPOINT in a text": [[Q("BEGIN; SAVEPOINT a")]],
    "COMMIT AND CHAIN": [[Q("BEGIN")], [Q("SAVEPOINT a")], [Q("COMMIT AND CHAIN")]],
    "ROLLBACK AND CHAIN": [[Q("BEGIN")], [Q("SAVEPOINT a")], [Q("SELECT 1")], [Q("ROLLBACK AND CHAIN")]],
    "ROLLBACK TO": [[Q("BEGIN")], [Q("SAVEPOINT a")], [Q("SELECT 1")], [Q("ROLLBACK TO a")]],
    "RELEASE": [[Q("BEGIN")], [Q("SAVEPOINT a")], [Q("SELECT 1")], [Q("RELEASE a")]],
    "an error and ROLLBACK TO": [[Q("BEGIN")], [Q("SAVEPOINT a")], [Q("SELECT 1/0")], [Q("ROLLBACK TO a")]],
    "nothing": [[Q("BEGIN")]],
    "a group": [group("BEGIN", "SAVEPOINT a")],
}


def planning():
    """A Bind runs code without an Execute: the planner calls immutable functions, and a parameter of a domain runs its CHECK."""
    rows = []
    binds = {
        "immutable function": [P("", "SELECT app.planned(@N@)"), B("", "")],
        "immutable function, named": [P("s", "SELECT app.planned(@N@)"), B("p", "s")],
        "domain": [P("", "SELECT $1::app.checked"), B("", "", ("@N@",))],
        "INSERT of a domain": [P("", "INSERT INTO app.scratch SELECT $1::app.checked, 'x'"), B("", "", ("@N@",))],
        "immutable function, described": [P("", "SELECT app.planned(@N@)"), D("S"), B("", ""), D("P")],
        "immutable function in WHERE": [P("", "SELECT 1 FROM app.ids WHERE n = app.planned(@N@)"), B("", "")],
    }
    for (name, bind), (behind, steps) in itertools.product(binds.items(), BEHIND.items()):
        for end, last in {"": [S], "executed ": [E("p" if "named" in name else ""), S], "flushed ": [H, S]}.items():
            for claim in ("none", "stale"):
                rows.append(Row("1", f"{end}Bind of {name} behind {behind}, {claim}", [*steps, [*bind, *last], [Q("COMMIT")]], claim=claim))
    stale = ["SET LOCAL termgate.scope = '@A@'", f"SET LOCAL termgate.term = {STALE}"]
    back = ["SET LOCAL termgate.scope = '@B@'", f"SET LOCAL termgate.term = {OTHER}"]
    comment = f"/*termgate.scope='@A@',termgate.term='{STALE}'*/ "
    planned = [P("", comment + "SELECT app.planned(@N@)"), B("", "")]
    for name, group_of in {
        "alone": [*planned, S],
        "before SET": [*planned, *one("SET work_mem = '4MB'"), S],
        "before SET, flushed": [*planned, H, *one("SET work_mem = '4MB'"), H, S],
        "before a write of another claim": [*planned, *one(f"/*termgate.scope='@B@',termgate.term='{OTHER}'*/ " + GOOD), S],
    }.items():
        for claim in ("none", "other"):
            rows.append(
                Row("1", f"Bind with a stale comment, {name}, {claim}", [group_of], claim=claim, modes=("reject", "read-only", "allow"))
            )
    for name, bind in binds.items():
        rows.append(
            Row(
                "1",
                f"Bind of {name} between two claims",
                [[Q("BEGIN")], [Q("SELECT 1")], *[[Q(sql)] for sql in stale], [*bind, S], *[[Q(sql)] for sql in back], [Q("COMMIT")]],
                claim="other",
            )
        )
        rows.append(
            Row(
                "1",
                f"Bind of {name} behind SET LOCAL in its group",
                [[*[message for sql in stale for message in one(sql)], *bind, S]],
                claim="none",
                modes=("reject", "read-only", "allow"),
            )
        )
    return rows


def parsing():
    """A Parse runs code: a literal of an array, a composite or a range type runs the CHECK of a domain in it."""
    rows = []
    literals = {
        "array": "'{@N@}'::app.checked[]",
        "composite": "'(@N@)'::app.composed",
        "array of composites": "'{(@N@)}'::app.composed[]",
        "range": "'[@N@,@N@]'::app.ranged",
    }
    texts = {
        **{name: "SELECT " + literal for name, literal in literals.items()},
        "a column's type": "INSERT INTO app.arrays VALUES ('{@N@}')",
        "compared with a column": "SELECT 1 FROM app.arrays WHERE a = '{@N@}'",
        "DECLARE": "DECLARE c CURSOR FOR SELECT '{@N@}'::app.checked[]",
        "EXPLAIN": "EXPLAIN SELECT '{@N@}'::app.checked[]",
        "PREPARE": "PREPARE x AS SELECT '{@N@}'::app.checked[]",
        "COPY": "COPY (SELECT '{@N@}'::app.checked[]) TO STDOUT",
        "set_config": "SELECT set_config('termgate.scope', ('{@N@}'::app.checked[])[1]::text, true)",
        "check_term": "SELECT termgate.check_term('@B@', ('{@N@}'::app.checked[])[1]::bigint)",
        "INSERT": "INSERT INTO app.scratch SELECT ('{@N@}'::app.checked[])[1], 'x'",
    }
    runs = {"DECLARE", "PREPARE", "EXPLAIN", "COPY"}  # they read their literals when they run
    for (name, sql), (behind, steps) in itertools.product(texts.items(), BEHIND.items()):
        for end, last in {
            "Parse": [S],
            "Parse, described": [D("S"), S],
            "Parse, flushed": [H, S],
            "Parse and Bind": [B(), S],
            "all": [B(), E(), S],
        }.items():
            if end != "all" and name in runs:
                continue
            for claim in ("none", "stale"):
                rows.append(
                    Row(
                        "1",
                        f"{end} of a literal, {name}, behind {behind}, {claim}",
                        [*steps, [P("", sql), *last], [Q("COMMIT")]],
                        claim=claim,
                    )
                )
    stale = ["SET LOCAL termgate.scope = '@A@'", f"SET LOCAL termgate.term = {STALE}"]
    back = ["SET LOCAL termgate.scope = '@B@'", f"SET LOCAL termgate.term = {OTHER}"]
    comment = f"/*termgate.scope='@A@',termgate.term='{STALE}'*/ "
    for name, sql in texts.items():
        if name in runs:
            continue
        rows.append(
            Row(
                "1",
                f"Parse of a literal between two claims, {name}",
                [[Q("BEGIN")], [Q("SELECT 1")], *[[Q(sql)] for sql in stale], [P("", sql), S], *[[Q(sql)] for sql in back], [Q("COMMIT")]],
                claim="other",
            )
        )
        rows.append(
            Row(
                "1",
                f"Parse of a literal behind SET LOCAL in its group, {name}",
                [[*[message for sql in stale for message in one(sql)], P("", sql), S]],
                claim="none",
                modes=("reject", "read-only", "allow"),
            )
        )
        rows.append(
            Row(
                "1",
                f"Parse of a literal with a stale comment before a write, {name}",
                [[P("s", comment + sql), *one(GOOD), S]],
                claim="other",
            )
        )
        rows.append(
            Row(
                "1",
                f"Parse of a literal with a stale comment, {name}",
                [[P("s", comment + sql), S]],
                claim="none",
                modes=("reject", "read-only", "allow"),
            )
        )
        rows.append(
            Row(
                "1",
                f"Parse of a literal in a chained block of a claim that has become stale, {name}",
                [[Q("BEGIN")], [Q("SELECT 1")], [Q("COMMIT AND CHAIN")], sealed, [P("", sql), S], [Q("COMMIT")]],
                claim="current",
            )
        )
    valid = f"/*termgate.scope='@B@',termgate.term='{OTHER}'*/ "
    for name in literals:
        for alone in ("CALL app.execute('SELECT 1')", "DO $x$ BEGIN PERFORM 1; END $x$", "VACUUM app.t"):
            # DO runs in the pipeline's own transaction, where its claim stands for a session that declares nothing.
            for claim in ("stale",) if alone.startswith("DO") else ("none", "stale"):
                rows.append(
                    Row(
                        "1",
                        f"Parse of a literal, {name}, before {alone.split()[0]} of another claim in one pipeline, {claim}",
                        [[P("s", texts[name]), *one(valid + alone), S]],
                        claim=claim,
                    )
                )
    # What a Parse, a Bind or a PREPARE has declared is in force until something else is.
    declares = f"app.declare_and_write('@A@', '{STALE}', @N@)"
    for name, steps in {
        "SET LOCAL by simple queries between a Bind and its Execute": [
            [P("s", BAD), B("p", "s"), S],
            *[[Q(sql)] for sql in stale],
            [E("p"), S],
        ],
        "a function that declares between a Bind and its Execute": [
            [P("s", "SELECT $1::text"), B("p", "s", ("1",)), S],
            [Q(f"SELECT app.run('SELECT {declares.replace(chr(39), chr(39) * 2)}')")],
            [E("p"), S],
        ],
        "a function that declares between a Parse and its Bind": [
            [P("s", "SELECT app.run('SELECT 1')"), S],
            [Q(f"SELECT app.run('SELECT {declares.replace(chr(39), chr(39) * 2)}')")],
            [B("", "s"), E(), S],
        ],
        "a Parse between": [
            [P("s", "SELECT app.run('SELECT 1')"), S],
            [P("", f"SELECT {declares}"), B(), E(), P("t", "SELECT 1"), S],
            [B("", "s"), E(), S],
            *[[Q(sql)] for sql in back],
        ],
    }.items():
        rows.append(Row("2", name, [[Q("BEGIN")], *steps, [Q("COMMIT")]], claim="other"))
    return rows


def sealed(bench, n):
    bench.ask(f"SELECT termgate.seal('a{n}', 7, '50 ms')")


def left_over():
    """What runs READ ONLY inside a savepoint may leave something for the COMMIT, when no savepoint keeps it so any more."""
    rows = []
    held = "app.run('DECLARE held CURSOR WITH HOLD FOR SELECT app.wr(@N@)')"
    leaves = {
        "a cursor WITH HOLD of a function": f"SELECT {held}",
        "the same in a subselect": f"SELECT (SELECT {held})",
        "a cursor WITH HOLD": "DECLARE held CURSOR WITH HOLD FOR SELECT app.wr(@N@)",
        "a cursor WITH HOLD over a view": "DECLARE held CURSOR WITH HOLD FOR TABLE app.writing",
    }
    ends = {
        "COMMIT": [[Q("COMMIT")]],
        "COMMIT by Parse": [group("COMMIT")],
        "RELEASE": [[Q("RELEASE a")], [Q("COMMIT")]],
        "AND CHAIN": [[Q("COMMIT AND CHAIN")], [Q("COMMIT")]],
        "a savepoint more": [[Q("SAVEPOINT b")], [Q("SELECT 1")], [Q("RELEASE b")], [Q("COMMIT")]],
        "ROLLBACK TO of an inner one": [[Q("SAVEPOINT b")], [Q("ROLLBACK TO b")], [Q("COMMIT")]],
        "a text": [[Q("SELECT 1; RELEASE a; COMMIT")]],
        "a group": [group("SELECT 1", "COMMIT")],
    }
    for (name, sql), (end, last) in itertools.product(leaves.items(), ends.items()):
        for how, step in {"simple": [Q(sql)], "extended": group(sql)}.items():
            for claim in ("none", "stale"):
                rows.append(
                    Row("1", f"{name}, {how}, ended by {end}, {claim}", [[Q("BEGIN")], [Q("SAVEPOINT a")], step, *last], claim=claim)
                )
            rows.append(
                Row(
                    "1",
                    f"{name}, {how}, ended by {end}, a claim that has become stale",
                    [[Q(GOOD)], sealed, [Q("BEGIN")], [Q("SAVEPOINT a")], step, *last],
                    claim="current",
                )
            )
    for name, sql in leaves.items():
        valid = f"/*termgate.scope='@B@',termgate.term='{OTHER}'*/ " + GOOD
        rows.append(
            Row(
                "1",
                f"{name}, then a write of another claim by a comment",
                [[Q("BEGIN")], [Q("SAVEPOINT a")], [Q(sql)], [Q("RELEASE a")], [Q(valid)], [Q("COMMIT")]],
                claim="stale",
            )
        )
        rows.append(Row("1", f"{name} in one text", [[Q(f"BEGIN; SAVEPOINT a; {sql}; COMMIT")]]))
    late = [
        [Q("CREATE TEMP TABLE kept (n bigint)")],
        [Q("CREATE FUNCTION pg_temp.writes() RETURNS trigger LANGUAGE plpgsql AS $x$ BEGIN PERFORM app.wr(NEW.n); RETURN NULL; END $x$")],
        [
            Q(
                "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON kept DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION"
                " pg_temp.writes()"
            )
        ],
    ]
    for name, steps in {
        "COMMIT": [[Q("COMMIT")]],
        "RELEASE": [[Q("RELEASE a")], [Q("COMMIT")]],
        "SET CONSTRAINTS": [[Q("RELEASE a")], [Q("SET CONSTRAINTS ALL IMMEDIATE")], [Q("COMMIT")]],
        "a group": [group("SET CONSTRAINTS ALL IMMEDIATE", "COMMIT")],
    }.items():
        rows.append(
            Row(
                "1",
                f"a deferred trigger of a temporary table, {name}",
                [*late, sealed, [Q("BEGIN")], [Q("SAVEPOINT a")], [Q("SELECT app.run('INSERT INTO kept VALUES (@N@)')")], *steps],
                claim="current",
            )
        )
    # What stands behind an error was not even read: neither the end of a savepoint, nor READ ONLY that was set there.
    for name, skipped in {
        "RELEASE": ["RELEASE a", "SELECT 1"],
        "RELEASE and a savepoint": ["RELEASE a", "SELECT 1", "SAVEPOINT b"],
        "a read": ["SELECT 1"],
        "two savepoints": ["SAVEPOINT b", "SELECT 1", "RELEASE b"],
        "ROLLBACK TO": ["ROLLBACK TO a", "SELECT 1"],
    }.items():
        for writer in ("function", "view", "INSERT"):
            for claim in ("none", "stale"):
                start = [[Q("BEGIN")], [Q("SAVEPOINT a")]]
                rows.append(
                    Row(
                        "1",
                        f"{name} behind an error, then {writer}, {claim}",
                        [*start, group("SELEC", *skipped), [Q("ROLLBACK TO a")], [Q(WRITERS[writer])], [Q("COMMIT")]],
                        claim=claim,
                    )
                )
                rows.append(
                    Row(
                        "1",
                        f"{name} behind an error, then {writer}, all at once, {claim}",
                        [*start, [*group("SELEC", *skipped), *group("ROLLBACK TO a"), *group(WRITERS[writer]), *group("COMMIT")]],
                        claim=claim,
                    )
                )
                rows.append(
                    Row(
                        "1",
                        f"{name} behind an error, then a cursor WITH HOLD, {claim}",
                        [*start, group("SELEC", *skipped), [Q("ROLLBACK TO a")], [Q("SAVEPOINT b")], [Q(f"SELECT {held}")], [Q("COMMIT")]],
                        claim=claim,
                    )
                )
                rows.append(
                    Row(
                        "1",
                        f"{name} behind an error, then a cursor WITH HOLD behind RELEASE, {claim}",
                        [
                            *start,
                            group("SELEC", *skipped),
                            [Q("ROLLBACK TO a")],
                            [Q("RELEASE a")],
                            [Q("SELECT 1")],
                            [Q("SAVEPOINT a")],
                            [Q(f"SELECT {held}")],
                            [Q("COMMIT")],
                        ],
                        claim=claim,
                    )
                )
    # Who only reads commits as without us; and who chains a block in the middle of a text goes on.
    read = "SELECT count(*) FROM app.scratch"
    for name, steps in {
        "a read": [[Q(read)]],
        "two savepoints": [[Q(read)], [Q("SAVEPOINT b")], [Q(read)], [Q("RELEASE b")]],
        "RELEASE and a read": [[Q(read)], [Q("RELEASE a")], [Q(read)]],
        "ROLLBACK TO and a read": [[Q(read)], [Q("ROLLBACK TO a")], [Q(read)], [Q("RELEASE a")], [Q(read)]],
        "a cursor WITH HOLD": [
            [Q("DECLARE held CURSOR WITH HOLD FOR SELECT n FROM app.ids LIMIT 2")],
            [Q("COMMIT")],
            [Q("FETCH ALL FROM held")],
        ],
        "functions": [[Q("SELECT app.run('SELECT 1')")], [Q("RELEASE a")], group("SELECT app.run('SELECT 1')")],
        "one after the other": [
            [Q(read)],
            [Q("RELEASE a")],
            [Q(read)],
            [Q("SAVEPOINT b")],
            [Q("SELECT 1/0")],
            [Q("ROLLBACK TO b")],
            [Q(read)],
            [Q("RELEASE b")],
            [Q(read)],
        ],
        "SET between them": [[Q("RELEASE a")], [Q("SET work_mem = '4MB'")], [Q("SAVEPOINT b")], [Q(read)], [Q("RELEASE b")]],
        "SET between them, open at the end": [
            [Q("RELEASE a")],
            [Q("SET work_mem = '4MB'")],
            [Q("SAVEPOINT b")],
            [Q(read)],
            [Q("SAVEPOINT c")],
            [Q("SELECT 1/0")],
            [Q("ROLLBACK TO c")],
            [Q(read)],
        ],
        "equal names": [[Q("SAVEPOINT a")], [Q(read)], [Q("RELEASE a")], [Q(read)], [Q("RELEASE a")], [Q(read)]],
        "an error in it": [[Q(read)], [Q("SELECT 1/0")], [Q("ROLLBACK TO a")], group(read)],
        "pipelined": [[*group(read), *group("SELECT app.run('SELECT 1')"), *group("RELEASE a"), *group(read)]],
        "an error in a pipeline": [[*group("SELECT 1/0"), *group(read), *group("ROLLBACK TO a"), *group(read)]],
    }.items():
        # Under `allow` whoever calls functions needs the right to be checked.
        roles = ("write", "lead", "operate") if name in ("functions", "pipelined", "an error in a pipeline") else ("none", "read", "write")
        rows.append(
            Row(
                "6 rightful",
                f"reads behind a savepoint, {name}",
                [[Q("BEGIN")], [Q("SAVEPOINT a")], *steps, [Q("COMMIT")], [Q(read)]],
                "works",
                "none",
                roles,
                modes=("read-only", "allow"),
                good=0,
                same=True,
            )
        )
    for name, steps in {
        "a failed block": [[Q("BEGIN")], [Q(GOOD)], [Q("SELECT 1/0")], [Q(f"ROLLBACK AND CHAIN; {GOOD}; COMMIT")]],
        "a failed block by COMMIT": [
            [Q("BEGIN")],
            [Q(GOOD)],
            [Q("SELECT 1/0")],
            [Q(f"COMMIT AND CHAIN; SELECT app.wr(@N@, 'good'); COMMIT")],
        ],
        "a failed block, then a read": [[Q("BEGIN")], [Q(GOOD)], [Q("SELECT 1/0")], [Q(f"ROLLBACK AND CHAIN; SELECT 1; {GOOD}; COMMIT")]],
        "a failed block, then a savepoint": [
            [Q("BEGIN")],
            [Q(GOOD)],
            [Q("SELECT 1/0")],
            [Q(f"ROLLBACK AND CHAIN; SAVEPOINT s; {GOOD}; COMMIT")],
        ],
    }.items():
        rows.append(
            Row(
                "2 rightful",
                f"a text that chains out of {name}",
                steps,
                "works",
                "current",
                ("write", "lead", "operate", "maker"),
                same=True,
            )
        )
    return rows


def read_before():
    """What was read in a pipeline before something else made it writable: its own claim must pass too."""
    rows = []
    valid = f"/*termgate.scope='@B@',termgate.term='{OTHER}'*/ "
    argument = f"SELECT termgate.check_term('@B@', {OTHER})"
    behind = {
        "a comment": [valid + GOOD],
        "check_term": [argument],
        "check_term and a write": [argument, GOOD],
        "a read with a comment": [valid + "SELECT 1", valid + GOOD],
        "a comment on a call that declares": [valid + f"SELECT app.declare('@B@', '{OTHER}')"],
        "set_config": [f"SELECT {pair('@B@', OTHER)}", GOOD],
        "a savepoint": ["BEGIN", "SAVEPOINT a", valid + GOOD, "COMMIT"],
        "COMMIT": ["COMMIT", valid + GOOD],
    }
    for name, writes in behind.items():
        then = [message for sql in writes for message in one(sql)]
        ends = name in ("a savepoint", "COMMIT")
        for writer in ("view", "policy", "function", "domain"):
            rows.append(Row("3", f"{writer} read before {name}", [[*one(HIDDEN[writer]), *then, S]], claim="stale"))
            if not ends:
                rows.append(
                    Row(
                        "3",
                        f"{writer} bound before {name}, executed behind it",
                        [[P("", HIDDEN[writer]), B("q"), *then, E("q"), S]],
                        claim="stale",
                    )
                )
        for how, first in {
            "literal parsed": [P("", "SELECT '{@N@}'::app.checked[]")],
            "immutable function bound": [P("", "SELECT app.planned(@N@)"), B("q")],
            "literal of a column's type parsed": [P("", "SELECT 1 FROM app.arrays WHERE a = '{@N@}'")],
        }.items():
            rows.append(Row("3", f"{how} before {name}", [[*first, *then, S]], claim="stale"))
    return rows


def skipped_ends():
    """An end of the block that stands behind an error in its pipeline: the server does not look at it, and the block goes on."""
    rows = []
    for end in ("COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "PREPARE TRANSACTION 'attack @N@'"):
        for error in ("SHOW no.such", "SELEC", "SELECT 1/0"):
            for writer in ("function", "view", "INSERT"):
                for claim in ("none", "stale"):
                    rows.append(
                        Row(
                            "1",
                            f"{end} behind {error}, then {writer}, {claim}",
                            [
                                [Q("BEGIN")],
                                [Q("SAVEPOINT a")],
                                group(error, end),
                                [Q("ROLLBACK TO a")],
                                [Q(WRITERS[writer])],
                                [Q("COMMIT")],
                            ],
                            claim=claim,
                        )
                    )
                rows.append(
                    Row(
                        "1",
                        f"{end} behind {error}, then {writer}, all at once",
                        [
                            [Q("BEGIN")],
                            [Q("SAVEPOINT a")],
                            [*group(error, end), *group("ROLLBACK TO a"), *group(WRITERS[writer]), *group("COMMIT")],
                        ],
                    )
                )
                rows.append(
                    Row(
                        "1",
                        f"{end} behind {error}, then {writer}, a claim that has become stale",
                        [
                            [Q("BEGIN")],
                            [Q("SAVEPOINT a")],
                            [Q(GOOD)],
                            group(error, end),
                            [Q("ROLLBACK TO a")],
                            sealed,
                            [Q(WRITERS[writer])],
                            [Q("COMMIT")],
                        ],
                        claim="current",
                    )
                )
            rows.append(
                Row(
                    "2",
                    f"{end} behind {error}, after code that declares",
                    [
                        [Q("BEGIN")],
                        [Q("SELECT app.claims(@N@)")],
                        [Q("SAVEPOINT a")],
                        group(error, end),
                        [Q("ROLLBACK TO a")],
                        [Q("COMMIT")],
                    ],
                    claim="other",
                )
            )
    return rows


def own_names():
    """Types and functions of a user's own under names that look like the server's, and constants of them where the text shows no call."""
    rows = []
    path, first = [Q("SET search_path = own, public")], [Q("SET search_path = own, pg_catalog")]
    calls = {
        "release_lease": ("SELECT termgate.release_lease(writing '@N@', 'o', 5)", ("lead",)),
        "append": (f"SELECT termgate.append(writing '@N@', {FENCE}, 'x')", ("write", "lead")),
    }
    for name, (sql, roles) in calls.items():
        for form in ("simple", "extended"):
            for claim in ("none", "stale"):
                rows.append(
                    Row("1", f"{name} with a constant of a domain, {form}, {claim}", [path, *ALONE[form](sql)], claim=claim, roles=roles)
                )
        rows.append(Row("1", f"{name} with a constant of a domain in a block", [path, [Q("BEGIN")], [Q(sql)], [Q("COMMIT")]], roles=roles))
    for sql in (
        "SELECT termgate.check_term(writing '@N@', 5)",
        "SELECT termgate.check_term('@N@'::own.writing, 5)",
        "SELECT termgate.check_term('@N@'::writing, 5)",
    ):
        rows.append(Row("1", f"{sql.replace('@N@', 'N')} beside a stale claim", [path, [Q(sql)]], claim="stale"))
    for name, steps in {
        "qualified md5": [[Q("BEGIN")], [Q("SELECT own.md5(@N@)")]],
        "qualified date": [[Q("BEGIN")], [Q("SELECT own.date(@N@)")]],
        "qualified in quotes": [[Q("BEGIN")], [Q('SELECT own."md5"(@N@)')]],
        "termgate_fence": [[Q("BEGIN")], [Q("SELECT own.termgate_fence(@N@)")]],
        "a type named zone": [path, [Q("BEGIN")], [Q("SELECT zone '@N@'")]],
        "length by search_path": [first, [Q("BEGIN")], [Q("SELECT length('@N@')")]],
        "search_path by set_config": [
            [Q("SELECT set_config('search_path', 'own, pg_catalog', false)")],
            [Q("BEGIN")],
            [Q("SELECT length('@N@')")],
        ],
        "search_path twice in a text": [
            [Q("SET search_path TO pg_catalog; SET search_path TO own, pg_catalog")],
            [Q("BEGIN")],
            [Q("SELECT length('@N@')")],
        ],
        "search_path after a comment": [
            [Q("/* search_path = pg_catalog */ SET search_path TO own, pg_catalog")],
            [Q("BEGIN")],
            [Q("SELECT length('@N@')")],
        ],
        "search_path in the same text": [[Q("BEGIN")], [Q("SET search_path TO own, pg_catalog; SELECT length('@N@')")]],
        "search_path of two pieces": [
            [Q("SELECT set_config('search_path', 'own, pg_' || 'catalog', false)")],
            [Q("BEGIN")],
            [Q("SELECT length('@N@')")],
        ],
        "length prepared before the search_path": [
            [Q("PREPARE p AS SELECT 1 WHERE length('@N@') IS NOT NULL")],
            first,
            [Q("BEGIN")],
            [Q("EXECUTE p")],
        ],
        "length parsed before the search_path": [
            [P("p", "SELECT 1 WHERE length('@N@') IS NOT NULL"), S],
            first,
            [Q("BEGIN")],
            [B("", "p"), E(), S],
        ],
        "PREPARE of a domain": [[Q("BEGIN")], [Q("PREPARE p (app.claiming) AS SELECT 1")], [Q("EXECUTE p('@N@')")]],
        "PREPARE before the block": [[Q("PREPARE p (app.claiming) AS SELECT 1")], [Q("BEGIN")], [Q("EXECUTE p(@N@)")]],
    }.items():
        rows.append(Row("2", f"{name} declares and writes", [*steps, [Q("COMMIT")]], claim="other"))
        rows.append(Row("2", f"{name} declares, then a write", [*steps, [Q(BAD)], [Q("COMMIT")]], claim="other"))
    for scope, term in (
        ('SET "termgate"."scope" = \'@A@\'', f'SET "termgate"."term" = {STALE}'),
        ("SET termgate . scope = '@A@'", f"SET termgate . term = {STALE}"),
        ("SET termgate/**/./**/scope = '@A@'", f"SET termgate/* x */.term = {STALE}"),
    ):
        for form in ("block", "text", "group", "text with BEGIN"):
            rows.append(
                Row("5.2", f"{scope.replace('@A@', 'A')}, {form}", FORMS[form]([scope, term, BAD]), modes=("reject", "read-only", "allow"))
            )
        rows.append(
            Row(
                "5.2",
                f"{scope.replace('@A@', 'A')} for the session",
                [[Q(scope)], [Q(term)], [Q(BAD)]],
                modes=("reject", "read-only", "allow"),
            )
        )
    return rows


def portals_and_texts():
    """A portal, a cursor or a prepared text is something else by the time that it is used."""
    rows = []
    bound = lambda sql: [P("", sql), B("p"), S]
    for harmless in (
        "SHOW work_mem",
        "SET work_mem = '4MB'",
        "LISTEN x",
        "SAVEPOINT z",
        "ROLLBACK TO b",
        "BEGIN",
        "ROLLBACK",
        "COMMIT",
        "SELECT set_config('termgate.scope', '@B@', true)",
    ):
        for claim in ("none", "stale"):
            for close in ("CLOSE p", "ROLLBACK TO b"):
                rows.append(
                    Row(
                        "9",
                        f"portal of {harmless} replaced after {close}, {claim}",
                        [
                            [Q("BEGIN")],
                            [Q("SAVEPOINT a")],
                            [Q("SAVEPOINT b")],
                            bound(harmless),
                            [Q(close)],
                            [Q("DECLARE p CURSOR FOR SELECT app.wr(@N@)")],
                            [Q("RELEASE b")],
                            [E("p"), S],
                            [Q("COMMIT")],
                        ],
                        claim=claim,
                    )
                )
        rows.append(
            Row(
                "9",
                f"portal of {harmless} replaced by code",
                [
                    [Q("BEGIN")],
                    [Q("SELECT 1")],
                    bound(harmless),
                    [Q("SELECT app.run('CLOSE p; DECLARE p CURSOR FOR SELECT app.claims(@N@)')")],
                    [E("p"), S],
                    [Q("COMMIT")],
                ],
                claim="other",
            )
        )
        rows.append(
            Row(
                "9",
                f"portal of {harmless} replaced by one that declares",
                [
                    [Q("BEGIN")],
                    bound(harmless),
                    [Q("CLOSE p")],
                    [Q("DECLARE p CURSOR FOR SELECT app.claims(@N@)")],
                    [Q("SELECT count(*) FROM pg_type")],
                    [E("p"), S],
                    [Q("COMMIT")],
                ],
                claim="other",
            )
        )
    for name, steps in {
        "a bound portal": [bound("SELECT app.claims(@N@)"), [Q("FETCH 1 FROM p")]],
        "a cursor of a function": [[Q("SELECT app.run('DECLARE c CURSOR FOR SELECT app.claims(@N@)')")], [Q("FETCH 1 FROM c")]],
        "a portal of EXPLAIN": [bound("EXPLAIN ANALYZE SELECT app.claims(@N@)"), [Q("FETCH 1 FROM p")]],
        "MOVE": [bound("SELECT app.claims(@N@)"), [Q("MOVE 1 FROM p")]],
    }.items():
        rows.append(Row("2", f"FETCH of {name} that declares and writes", [[Q("BEGIN")], *steps, [Q("COMMIT")]], claim="other"))
        rows.append(
            Row("2", f"FETCH of {name} that declares, then a write", [[Q("BEGIN")], *steps, [Q(BAD)], [Q("COMMIT")]], claim="other")
        )
    # Describe reads the literals of a text anew, where the path has changed since.
    text = [[P("s", "SELECT '{@N@}'::app.checked_later[]"), S], [Q("SET app.go = '1'")], [Q("SET search_path = app, public")]]
    described = [[D("S", "s"), S]]
    for (behind, steps), claim in itertools.product(BEHIND.items(), ("none", "stale")):
        rows.append(Row("1", f"Describe behind {behind}, {claim}", [*text, *steps, *described, [Q("COMMIT")]], claim=claim))
    rows.append(
        Row(
            "1",
            "Describe in a chained block of a claim that has become stale",
            [*text, [Q("BEGIN")], [Q("SELECT 1")], [Q("COMMIT AND CHAIN")], sealed, *described, [Q("COMMIT")]],
            claim="current",
        )
    )
    # What is declared is taken back: nothing is written under it any more.
    declare = ["SET LOCAL termgate.scope = '@A@'", f"SET LOCAL termgate.term = {FENCE}"]
    for name, back in {
        "both": ["SET LOCAL termgate.term = ''", "SET LOCAL termgate.scope = ''"],
        "half": ["SET LOCAL termgate.term = ''"],
        "RESET": ["RESET termgate.term", "RESET termgate.scope"],
        "set_config": [f"SELECT {pair('', '')}"],
        "code": ["SELECT app.declare('', '')"],
    }.items():
        for writer in ("INSERT", "function", "view"):
            rows.append(
                Row(
                    "5.4",
                    f"taken back in its block by {name}, {writer}",
                    (
                        [
                            [Q("BEGIN")],
                            *[[Q(sql)] for sql in declare],
                            [Q(GOOD)],
                            *[[Q(sql)] for sql in back],
                            [Q(WRITERS[writer])],
                            [Q("COMMIT")],
                        ]
                        if writer != "view"
                        else [
                            [Q("BEGIN")],
                            *[[Q(sql)] for sql in declare],
                            [Q(GOOD)],
                            *[[Q(sql)] for sql in back],
                            [Q("SELECT app.wr(@N@)")],
                            [Q("COMMIT")],
                        ]
                    ),
                    modes=("reject", "read-only"),
                )
            )
    roles = ("write", "lead", "operate", "maker")
    leader = {
        "a Parse before BEGIN in its pipeline": [[P("q", "SELECT 2"), *one("BEGIN"), *one(GOOD), S], [Q("COMMIT")]],
        "its Parse before BEGIN": [[P("q", GOOD), *one("BEGIN"), B("", "q"), E(), S], [Q("COMMIT")]],
        "extended SET TRANSACTION READ WRITE": [
            [Q("BEGIN")],
            [Q("SELECT 1")],
            group("SET TRANSACTION READ WRITE"),
            [Q(GOOD)],
            [Q("COMMIT")],
        ],
        "the same behind a savepoint": [[Q("BEGIN")], [Q("SAVEPOINT a")], group("SET TRANSACTION READ WRITE"), [Q(GOOD)], [Q("COMMIT")]],
        "isolation behind RELEASE": [
            [Q("BEGIN")],
            [Q("SAVEPOINT a")],
            [Q("RELEASE a")],
            [Q("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")],
            [Q(GOOD)],
            [Q("COMMIT")],
        ],
        "its own transaction id behind RELEASE": [
            [Q("BEGIN")],
            [Q("SAVEPOINT a")],
            [Q("RELEASE a")],
            [Q(GOOD + " RETURNING xmin::text::bigint = txid_current()")],
            [Q("COMMIT")],
        ],
    }
    for name, steps in leader.items():
        rows.append(Row("2 rightful", f"{name}", steps, "works", "current", roles, same=name != "extended SET TRANSACTION READ WRITE"))
    reader = {
        "an error, one statement more, ROLLBACK TO": [
            [Q("BEGIN")],
            [Q("SAVEPOINT a")],
            [Q("SHOW no.such")],
            [Q("SELECT 1")],
            [Q("ROLLBACK TO a")],
            [Q("SELECT 2")],
            [Q("COMMIT")],
        ],
        "it prepares a write and reads": [
            [Q("BEGIN")],
            [P("w", "INSERT INTO app.scratch VALUES ($1, $2)"), D("S", "w"), S],
            [Q("SELECT 1")],
            [Q("COMMIT")],
        ],
        "chains and savepoints": [
            [Q("BEGIN")],
            [Q("SAVEPOINT a")],
            [Q("SELECT 1")],
            [Q("COMMIT AND CHAIN")],
            [Q("SELECT 1")],
            [Q("SAVEPOINT a")],
            [Q("ROLLBACK TO a")],
            [Q("SAVEPOINT b")],
            [Q("ROLLBACK TO a")],
            [Q("SELECT 1")],
            [Q("COMMIT")],
            [Q("SELECT 5")],
        ],
        "isolation behind RELEASE": [
            [Q("BEGIN")],
            [Q("SAVEPOINT a")],
            [Q("RELEASE a")],
            [Q("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")],
            [Q("SELECT 1")],
            [Q("COMMIT")],
        ],
    }
    for name, steps in reader.items():
        rows.append(
            Row(
                "6 rightful",
                f"a reader: {name}",
                steps,
                "works",
                "none",
                ("none", "read", "write"),
                modes=("read-only", "allow"),
                good=0,
                same=True,
            )
        )
    for form in ("simple", "extended"):
        rows.append(
            Row(
                "2 rightful",
                f"what a CALL declares stays, {form}",
                [*ALONE[form](f"CALL app.execute('SET termgate.scope = ''@B@''; SET termgate.term = {OTHER}')"), sealed, [Q(GOOD)]],
                "works",
                "current",
                roles,
            )
        )
    return rows


def read_otherwise():
    """The server reads a text, or compares a name, by settings other than those by which the proxy has read it."""
    rows = []
    strings = "standard_conforming_strings"
    off = {"start": [(strings, "off")]}
    # As one SET where a backslash is a letter; else as a transaction of its own.
    two_ways = "SET search_path = '\\', ';COMMIT;BEGIN READ WRITE; INSERT INTO app.t (n, v) VALUES (@N@, $$bad$$); COMMIT; --'"
    for claim in ("none", "stale"):
        for end in ("COMMIT", "ROLLBACK", "ROLLBACK TO a", "COMMIT AND CHAIN"):
            steps = [[Q("BEGIN")], [Q("SAVEPOINT a")], [Q(f"SET LOCAL {strings} = on")], [Q(f"{end}; {two_ways}")]]
            rows.append(
                Row("1", f"a text behind {end} that brings back how strings are read, {claim}", steps, claim=claim, guarded=True, **off)
            )
        for end in ("RESET ALL", "DISCARD ALL"):
            rows.append(
                Row(
                    "1",
                    f"a text behind {end} that brings back how strings are read, {claim}",
                    [[Q(f"SET {strings} = on")], [Q(f"{end}; {two_ways}")]],
                    claim=claim,
                    guarded=True,
                    **off,
                )
            )
        for begin in (
            f"SET {strings} = off; BEGIN; COMMIT",
            f"BEGIN; SET {strings} = off; SAVEPOINT a",
            f"BEGIN; SET LOCAL {strings} = off; SAVEPOINT a",
        ):
            rows.append(Row("1", f"a text behind {begin}, {claim}", [[Q(f"{begin}; {two_ways}")]], claim=claim, guarded=True))
        # The name of a portal, of a statement, in UTF-8 and in LATIN1.
        latin = [Q("SET client_encoding = LATIN1")]
        portals = [
            [Q("BEGIN")],
            [Q("SAVEPOINT a")],
            [Q("SAVEPOINT b")],
            [P("", "SHOW work_mem"), B("\u00e9"), P("", "SELECT app.wr(@N@)"), B("\u00c3\u00a9"), S],
            latin,
            [Q("RELEASE b")],
            [E("\u00e9"), S],
            [Q("COMMIT")],
        ]
        rows.append(Row("9", f"a portal under another's name in another encoding, {claim}", portals, claim=claim))
        statements = [
            [P("\u00e9", "SELECT 1"), P("\u00c3\u00a9", "RELEASE b"), S],
            latin,
            [Q("BEGIN")],
            [Q("SAVEPOINT a")],
            [Q("SAVEPOINT b")],
            [Q("SELECT 1")],
            [B("", "\u00e9"), E(), S],
            [Q("SELECT app.wr(@N@)")],
            [Q("COMMIT")],
        ]
        rows.append(Row("9", f"a statement under another's name in another encoding, {claim}", statements, claim=claim))
        for name in ("transaction_read_only", "default_transaction_read_only"):
            rows.append(
                Row(
                    "1",
                    f"SHOW {name} where text is a domain, {claim}",
                    [[Q("SET search_path = words, pg_catalog")], [Q("BEGIN")], [Q("SAVEPOINT a")], group(f"SHOW {name}"), [Q("COMMIT")]],
                    claim=claim,
                    roles=ANY,
                    guarded=True,
                )
            )
        calls = {
            "release_lease": ("SELECT termgate.release_lease(\"integer\" '@N@', 'o', 5)", ("lead",)),
            "append": (f"SELECT termgate.append(\"integer\" '@N@', {FENCE}, 'x')", ("write", "lead")),
            "check_term": ("SELECT termgate.check_term(\"integer\" '@N@', 5)", ("write", "lead")),
        }
        for name, (sql, roles) in calls.items():
            rows.append(
                Row(
                    "1",
                    f"{name} with a type in quotes, {claim}",
                    [[Q("SET search_path = words, public")], [Q(sql)], group(sql)],
                    claim=claim,
                    roles=roles,
                )
            )
    hidden = f"SELECT '\\', ', set_config($$termgate.scope$$, $$@A@$$, true), set_config($$termgate.term$$, $${STALE}$$, true) --'"
    for end in ("COMMIT AND CHAIN", "ROLLBACK TO a"):
        rows.append(
            Row(
                "2",
                f"a claim in what was a string before {end}, in a group",
                [[Q("BEGIN")], [Q("SAVEPOINT a")], [Q(f"SET LOCAL {strings} = on")], group(end, hidden, BAD), [Q("COMMIT")]],
                claim="other",
                **off,
            )
        )
    long = "a" * 62
    swap = [[Q(f'DEALLOCATE "{long}\u00e9"')], [Q(f'PREPARE "{long}\u00e9" AS SELECT app.claims(@N@)')], [Q("BEGIN")], [Q("SELECT 1")]]
    for name, steps in {
        "EXECUTE": [[Q(f'PREPARE "{long}" AS SELECT 1')], *swap, [Q(f'EXECUTE "{long}"')]],
        "Bind": [[P(long, "SELECT 1"), S], *swap, [B("", long), E(), S]],
        "EXECUTE in LATIN1": [
            [Q('PREPARE "\u00e9" AS SELECT 1')],
            [Q('PREPARE "\u00c3\u00a9" AS SELECT app.claims(@N@)')],
            [Q("SET client_encoding = LATIN1")],
            [Q("BEGIN")],
            [Q("SELECT 1")],
            [Q('EXECUTE "\u00e9"')],
        ],
    }.items():
        rows.append(Row("9", f"{name} of a name that is not the same letters to the server", [*steps, [Q("COMMIT")]], claim="other"))
    path = [Q("SET search_path = words, public")]
    for word in ("by", "set", "escape", "varying", "is", "like", "ilike", "similar", "uescape"):
        rows.append(
            Row(
                "2",
                f"a constant of a type named {word} declares and writes",
                [path, [Q("BEGIN")], [Q(f"SELECT {word} '@N@'")], [Q("COMMIT")]],
                claim="other",
            )
        )
    for word in (
        "by",
        "of",
        "over",
        "filter",
        "sets",
        "partition",
        "recursive",
        "rollup",
        "cube",
        "within",
        "materialized",
        "explain",
        "varying",
        "is",
        "like",
        "similar",
        "join",
    ):
        rows.append(
            Row(
                "2",
                f"a function named {word} declares and writes",
                [path, [Q("BEGIN")], [Q(f"SELECT {word}('@N@')")], [Q("COMMIT")]],
                claim="other",
            )
        )
    rows.append(Row("2 rightful", "Execute without a Bind, then a write", [[E(), *one(GOOD), S]], "works", "current", good=0, same=True))
    escaped = (
        "DO E'BEGIN INSERT INTO app.t (n, v) VALUES (@N@, ''good''); COM\\115IT; INSERT INTO app.t (n, v) VALUES (@N@, ''good''); END'"
    )
    rows.append(
        Row(
            "2 rightful",
            "DO whose COMMIT is spelt by an escape",
            [[Q(escaped)]],
            "works",
            "current",
            ("write", "lead", "operate", "maker"),
            good=2,
        )
    )
    return rows


def renamed():
    """Code drops a prepared statement that is known to be harmless, and gives its name to one that writes."""
    rows = []
    first = {
        "SHOW": "SHOW work_mem",
        "an empty text": "",
        "SET": "SET work_mem = '4MB'",
        "SAVEPOINT": "SAVEPOINT z",
        "set_config": "SELECT set_config('termgate.scope', '@B@', true)",
        "LISTEN": "LISTEN x",
        "SET CONSTRAINTS": "SET CONSTRAINTS ALL DEFERRED",
        "DEALLOCATE": "DEALLOCATE ALL",
        "BEGIN": "BEGIN",
        "COMMIT": "COMMIT",
        "ROLLBACK TO": "ROLLBACK TO a",
        "a read": "SELECT 1",
        "FETCH": "FETCH c",
    }
    swaps = {
        "function": "SELECT app.run('DEALLOCATE s; PREPARE s AS SELECT app.wr(@N@)')",
        "DO": "DO $x$ BEGIN DEALLOCATE s; PREPARE s AS SELECT app.wr(@N@); END $x$",
    }
    for (name, sql), (behind, steps) in itertools.product(first.items(), BEHIND.items()):
        for how, uses in {
            "EXECUTE": [[Q("EXECUTE s")]],
            "Bind": [[B("", "s"), E(), S]],
            "Bind, flushed": [[B("", "s"), E(), H], [S]],
        }.items():
            for claim in ("none", "stale"):
                rows.append(
                    Row(
                        "9",
                        f"{name} renamed, {how} behind {behind}, {claim}",
                        [[P("s", sql), S], [Q(swaps["function"])], *steps, *uses, [Q("COMMIT")]],
                        claim=claim,
                    )
                )
        rows.append(
            Row(
                "9", f"{name} renamed, Bind alone, {behind}", [[P("s", sql), S], [Q(swaps["function"])], [B("", "s"), E(), S]], claim="none"
            )
        )
        rows.append(
            Row(
                "9",
                f"{name} renamed in DO, Bind behind {behind}",
                [[P("s", sql), S], [Q("BEGIN")], [Q(swaps["DO"])], [Q("ROLLBACK")], *steps, [B("", "s"), E(), S], [Q("COMMIT")]],
                claim="stale",
            )
        )
    declares = "PREPARE s AS SELECT set_config('termgate.scope', '@B@', true)"
    for (behind, steps), use in itertools.product(BEHIND.items(), ([[Q("EXECUTE s")]], [[B("", "s"), E(), S]])):
        rows.append(
            Row(
                "9",
                f"PREPARE of set_config renamed, {'EXECUTE' if len(use[0]) == 1 else 'Bind'} behind {behind}",
                [[Q(declares)], [Q(swaps["function"])], *steps, *use, [Q("COMMIT")]],
                claim="none",
            )
        )
    return rows


def at_once():
    """SET CONSTRAINTS IMMEDIATE runs the triggers of what was written before, under the claim that is in force then."""
    rows = []
    stale = ["SET LOCAL termgate.scope = '@A@'", f"SET LOCAL termgate.term = {STALE}"]
    back = ["SET LOCAL termgate.scope = '@B@'", f"SET LOCAL termgate.term = {OTHER}"]
    write, now = "INSERT INTO app.late VALUES (@N@)", "SET CONSTRAINTS ALL IMMEDIATE"
    comment = f"/*termgate.scope='@A@',termgate.term='{STALE}'*/ "
    for name, form in {
        "simple": lambda ss: [[Q(sql)] for sql in ss],
        "extended": lambda ss: [group(sql) for sql in ss],
        "one group": lambda ss: [group(*ss)],
        "one text": lambda ss: [[Q("; ".join(ss))]],
    }.items():
        rows.append(
            Row("2", f"SET CONSTRAINTS between two claims, {name}", form(["BEGIN", write, *stale, now, *back, "COMMIT"]), claim="other")
        )
        rows.append(
            Row("2", f"SET CONSTRAINTS with a stale comment, {name}", form(["BEGIN", write, comment + now, "COMMIT"]), claim="other")
        )
    return rows


# --- finding 8: holes of READ ONLY ---
def finding_8():
    rows = []
    holes = {
        "lo_create": "lo_create(0)",
        "lo_from_bytea": "lo_from_bytea(0, 'x')",
        "lo_creat": "lo_creat(-1)",
        "pg_notify": "pg_notify('attack', 'x@N@')",
        "logical message": "pg_logical_emit_message(true, 'attack', 'x@N@')",
    }
    beginnings = {
        "BEGIN READ ONLY": [[Q("BEGIN READ ONLY")]],
        "START TRANSACTION": [[Q("START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")]],
        "SET TRANSACTION": [[Q("BEGIN")], [Q("SET TRANSACTION READ ONLY")]],
        "SET default": [[Q("SET default_transaction_read_only = on")], [Q("BEGIN")]],
        "extended": [group("BEGIN READ ONLY")],
    }
    for (name, hole), (begin, steps) in itertools.product(holes.items(), beginnings.items()):
        majors = (13, 15) if name.startswith("lo_") else None
        for body, sql in {
            "DO": f"DO $x$ BEGIN PERFORM {hole}; END $x$",
            "DO, dynamic": f"DO $x$ BEGIN EXECUTE $y$SELECT {hole}$y$; END $x$",
            "DO, put together": f"DO $x$ BEGIN EXECUTE 'SEL' || $y$ECT {hole}$y$; END $x$",
            "CALL": f"CALL app.execute($y$SELECT {hole}$y$)",
            "DO, assigned": f"DO $x$ DECLARE z text; BEGIN z := {hole}; END $x$",
        }.items():
            rows.append(
                Row(
                    "8",
                    f"{name} in {body}, {begin}",
                    [*steps, [Q(sql)], [Q("COMMIT")]],
                    modes=("reject", "read-only"),
                    majors=majors,
                    state=True,
                )
            )
            rows.append(
                Row(
                    "8",
                    f"{name} in {body}, {begin}, in a group",
                    [*steps, [*one(sql), S], group("COMMIT")],
                    modes=("read-only",),
                    majors=majors,
                    state=True,
                    claim="stale",
                )
            )
    for body, sql in {
        "DO": "DO $x$ BEGIN NOTIFY attack, 'x@N@'; END $x$",
        "DO, dynamic": "DO $x$ BEGIN EXECUTE 'NOTIFY attack, ''x@N@'''; END $x$",
        "CALL": "CALL app.execute('NOTIFY attack, ''x@N@''')",
    }.items():
        rows.append(
            Row("8", f"NOTIFY in {body}", [[Q("BEGIN READ ONLY")], [Q(sql)], [Q("COMMIT")]], modes=("reject", "read-only"), state=True)
        )
    for name, hole in holes.items():
        majors = (13, 15) if name.startswith("lo_") else None
        rows.append(
            Row(
                "8",
                f"{name} in DO, autocommit under the default",
                [[Q("SET default_transaction_read_only = on")], [Q(f"DO $x$ BEGIN PERFORM {hole}; END $x$")]],
                modes=("reject", "read-only"),
                majors=majors,
                state=True,
            )
        )
        rows.append(
            Row(
                "8",
                f"{name} in DO, one text",
                [[Q(f"BEGIN READ ONLY; DO $x$ BEGIN PERFORM {hole}; END $x$; COMMIT")]],
                modes=("reject", "read-only"),
                majors=majors,
                state=True,
            )
        )
        rows.append(
            Row(
                "8",
                f"{name} in DO, start-up option",
                [[Q(f"DO $x$ BEGIN PERFORM {hole}; END $x$")]],
                modes=("reject", "read-only"),
                majors=majors,
                state=True,
                start=[("default_transaction_read_only", "on")],
            )
        )
    return rows


# --- finding 9: what the proxy prepared is replaced by code behind an everyday name ---
REPLACE = r"""CREATE OR REPLACE FUNCTION made.forge() RETURNS int LANGUAGE plpgsql AS $f$
DECLARE s record; types text; BEGIN
  FOR s IN SELECT name, statement, parameter_types FROM pg_prepared_statements WHERE statement ~ 'check_|hold_' AND statement !~
    '^PREPARE' LOOP
    EXECUTE format('DEALLOCATE %I', s.name);
    types := array_to_string(s.parameter_types, ',');
    EXECUTE format('PREPARE %I %s AS SELECT %s', s.name, CASE WHEN types = '' THEN '' ELSE '(' || types || ')' END,
      CASE WHEN s.statement ~ '_session' THEN '''forged''::text, 9::bigint, 9::bigint' WHEN s.statement ~ 'check_term' THEN '9::bigint'
        ELSE '1' END);
  END LOOP;
  RETURN 1;
EXCEPTION WHEN OTHERS THEN RETURN 0; END $f$"""
MADE = [
    REPLACE,
    "CREATE OR REPLACE FUNCTION made.lower(int) RETURNS text LANGUAGE plpgsql AS $f$BEGIN PERFORM made.forge(); RETURN 'x'; END$f$",
    "CREATE OR REPLACE FUNCTION made.count(int) RETURNS bigint LANGUAGE plpgsql AS $f$BEGIN RETURN made.forge(); END$f$",
    (
        "CREATE OR REPLACE FUNCTION made.now() RETURNS timestamptz LANGUAGE plpgsql AS $f$BEGIN PERFORM made.forge(); RETURN"
        " pg_catalog.now(); END$f$"
    ),
    "CREATE OR REPLACE FUNCTION made.yes(text) RETURNS boolean LANGUAGE plpgsql AS $f$BEGIN PERFORM made.forge(); RETURN true; END$f$",
    "CREATE OR REPLACE FUNCTION made.plus(int, int) RETURNS int LANGUAGE plpgsql AS $f$BEGIN PERFORM made.forge(); RETURN 1; END$f$",
    "CREATE OR REPLACE FUNCTION made.stable() RETURNS int LANGUAGE plpgsql STABLE AS $f$BEGIN PERFORM made.forge(); RETURN 1; END$f$",
    (
        "CREATE OR REPLACE FUNCTION made.immutable(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $f$BEGIN PERFORM made.forge(); RETURN 1;"
        " END$f$"
    ),
    (
        "DO $x$ BEGIN CREATE DOMAIN made.dom AS text CHECK (made.yes(VALUE)); CREATE OPERATOR made.+ (LEFTARG = int, RIGHTARG = int,"
        " FUNCTION = made.plus); CREATE VIEW made.looked AS SELECT made.forge() AS f; EXCEPTION WHEN duplicate_object THEN NULL; END $x$"
    ),
    (
        "DO $x$ BEGIN CREATE TABLE made.keyed (i int, CHECK (made.immutable(i) = 1)); CREATE INDEX ON made.keyed ((made.immutable(i)));"
        " INSERT INTO made.keyed VALUES (1); CREATE AGGREGATE made.agg (int) (SFUNC = made.plus, STYPE = int, INITCOND = '0'); EXCEPTION"
        " WHEN OTHERS THEN NULL; END $x$"
    ),
    "GRANT USAGE ON SCHEMA made TO PUBLIC; GRANT SELECT ON made.looked, made.keyed TO PUBLIC",
]


def finding_9():
    rows = []
    tricks = {
        "an everyday name": "SELECT lower(1)",
        "an everyday aggregate's name": "SELECT count(1)",
        "now()": "SELECT now()",
        "a domain": "SELECT 'x'::made.dom",
        "a domain by CAST": "SELECT CAST('x' AS made.dom)",
        "an operator": "SELECT 1 + 1",
        "an operator, qualified": "SELECT 1 OPERATOR(made.+) 1",
        "a view": "SELECT * FROM made.looked",
        "a stable function": "SELECT made.stable()",
        "at planning": "SELECT 1 WHERE made.immutable(1) = 1",
        "an aggregate": "SELECT made.agg(1)",
        "in DO": "DO $x$ BEGIN PERFORM made.forge(); END $x$",
        "in EXPLAIN": "EXPLAIN SELECT made.immutable(1)",
        "a domain's parameter": "domain parameter",
        "in COPY": "COPY (SELECT made.forge()) TO STDOUT",
        "a cursor": "cursor",
    }
    made = tuple(MADE)
    for name, sql in tricks.items():
        if sql == "cursor":
            trick = [[Q("BEGIN")], [Q("DECLARE c CURSOR FOR SELECT lower(1)")], [Q("FETCH c")], [Q("COMMIT")]]
        elif sql == "domain parameter":
            trick = [[P("", "SELECT $1::made.dom", ()), B("", "", ("x",)), E(), S]]
        else:
            trick = [[Q(sql)]]
        for claim in ("none", "stale"):
            path = [[Q("SET search_path = made, pg_catalog")]]
            warm = [[Q(BAD)], group(BAD)]
            for after, steps in {
                "autocommit": [[Q(BAD)], group(BAD)],
                "block": [[Q("BEGIN")], [Q(BAD)], [Q("COMMIT")]],
                "group": [group("BEGIN", BAD, "COMMIT"), [*one(BAD), H], [S]],
                "function": [[Q("SELECT app.wr(@N@)")], group("SELECT app.wr(@N@)")],
            }.items():
                rows.append(
                    Row(
                        "9",
                        f"{name}, {claim}, then {after}",
                        [*path, *warm, *trick, *steps, *trick, *steps],
                        claim=claim,
                        roles=("maker", "write"),
                        setup=made,
                    )
                )
            rows.append(
                Row(
                    "9",
                    f"{name}, {claim}, extended and pipelined",
                    [
                        *path,
                        *warm,
                        [
                            *group(sql if sql not in ("cursor", "domain parameter") else "SELECT lower(1)"),
                            *group(BAD),
                            *group("BEGIN"),
                            *group(BAD),
                            *group("COMMIT"),
                        ],
                    ],
                    claim=claim,
                    roles=("maker", "write"),
                    setup=made,
                )
            )
    # By its own cancel key and process number, by a guess: everything is deallocated by name in one DO.
    rows.append(
        Row(
            "9",
            "all names by SQL",
            [[Q(BAD)], [Q("SELECT name FROM pg_prepared_statements")], [Q("DEALLOCATE ALL")], [Q(BAD)], group(BAD)],
            roles=("maker", "write"),
        )
    )
    rows.append(
        Row(
            "9",
            "search_path hides termgate",
            [[Q("CREATE TEMP TABLE x (i int)")], [Q("SET search_path = made, pg_temp")], [Q(BAD)], group(BAD)],
            roles=("maker", "write"),
        )
    )
    return rows


def rows():
    return [
        *finding_1(),
        *finding_2(),
        *finding_3(),
        *finding_8(),
        *finding_9(),
        *finding_13(),
        *finding_s2(),
        *finding_s4(),
        *undeclared(),
        *alone_in_a_pipeline(),
        *planning(),
        *parsing(),
        *left_over(),
        *read_before(),
        *skipped_ends(),
        *own_names(),
        *portals_and_texts(),
        *read_otherwise(),
        *renamed(),
        *at_once(),
        *rightful(),
        *transparent(),
    ]
