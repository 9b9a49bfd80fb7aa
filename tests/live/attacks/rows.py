# Long: the table of attacks.
"""The attacks that a single session makes: findings 1, 2, 3, 8, 9, 11, 12, 13 and S2, S3, S4, each with its whole kind of variants."""
import itertools
from functools import partial

from rig import ALONE, B, D, E, FENCE, FORMS, H, OTHER, P, PLAIN, Q, Row, S, STALE, copy_in, group, one, pick

BAD = "INSERT INTO app.t (n, v) VALUES (@N@, 'bad')"
GOOD = "INSERT INTO app.t (n, v) VALUES (@N@, 'good')"
ANY = ("none", "read", "write", "lead", "operate", "maker")
EVERY = ("reject", "read-only", "allow")
# Answered as a direct connection answers it.
works = partial(Row, expect="works", claim="current", same=True)
# Attacks of a session that declares B, a stale term of A, a term of A that passes.
of_b, of_stale = partial(Row, claim="other"), partial(Row, claim="stale")
of_current = partial(Row, claim="current")

SET_A = ["SET LOCAL termgate.scope = '@A@'", f"SET LOCAL termgate.term = {STALE}"]
SET_B = ["SET LOCAL termgate.scope = '@B@'", f"SET LOCAL termgate.term = {OTHER}"]
NAMES_A, NAMES_B = (f"/*termgate.scope='{scope}',termgate.term='{term}'*/ " for scope, term in (("@A@", STALE), ("@B@", OTHER)))


def each(*sqls):
    return [[Q(sql)] for sql in sqls]


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
                        yield Row(
                            "1",
                            f"{name} {where} of {writer}, {form}, {claim}",
                            FORMS[form](order(call, WRITERS[writer])),
                            claim=claim,
                            roles=roles,
                        )
    # The forms of the review, each with every call.
    for name, call in {**CALLS, **LEAD_CALLS}.items():
        roles = ("lead", "operate") if name in LEAD_CALLS else ("write", "maker")
        for form in ("text", "text with BEGIN", "group", "flushed"):
            for claim in ("none", "stale"):
                yield Row(
                    "1", f"{name} beside a function, {form}, {claim}", FORMS[form](["SELECT app.wr(@N@)", call]), claim=claim, roles=roles
                )
    inside = "SELECT app.wr(@N@) FROM (SELECT termgate.job_finish(0, 'failed')) x"
    for form in ALONE:
        yield Row("1", f"in one statement, {form}", ALONE[form](inside))
        yield Row("1", f"an argument that writes, {form}", ALONE[form]("SELECT termgate.job_finish(app.wr(@N@), 'failed')"))


def finding_13():
    for name, call in {**CHECKS, **LEAD_CHECKS}.items():
        roles = ("lead", "operate") if name in LEAD_CHECKS else ("write", "lead", "operate", "maker")
        for writer in pick(WRITERS, f"13 {name}", 3):
            for form in pick(PLAIN, f"13 {name} {writer}", 3):
                if usable(form, writer):
                    yield of_stale("13", f"{name}, then {writer}, {form}", FORMS[form]([call, WRITERS[writer]]), roles=roles)
        for form in ("block", "group", "flushed", "text"):
            yield of_stale("13", f"{name}, then INSERT, {form}", FORMS[form]([call, BAD]), roles=roles)
            yield of_stale("13", f"{name} after INSERT, {form}", FORMS[form]([BAD, call]), roles=roles)


# --- declaring inside of a transaction, everywhere that a client can ---
def pair(scope, term, local="true"):
    return f"set_config('termgate.scope', '{scope}', {local}), set_config('termgate.term', '{term}', {local})"


def declarers(scope, term):
    both = pair(scope, term)
    by_scope, by_term = f"set_config('termgate.scope', '{scope}', true)", f"set_config('termgate.term', '{term}', true)"
    return {
        "set_config": [f"SELECT {both}"],
        "set_config, term first": [f"SELECT {by_term}, {by_scope}"],
        "set_config for the session": [f"SELECT {pair(scope, term, 'false')}"],
        "set_config twice": [f"SELECT {by_scope}", f"SELECT {by_term}"],
        "set_config, qualified": [f"SELECT pg_catalog.{by_scope}, \"pg_catalog\".\"set_config\"('termgate.term', '{term}', true)"],
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
        "set_config of a term by arithmetic": [f"SELECT {by_scope}, set_config('termgate.term', ({term} + 0)::text, true)"],
        "set_config, FROM": [f"SELECT * FROM {by_scope} a, {by_term} b"],
        "set_config, VALUES": [f"VALUES ({both})"],
        "set_config, row by row": [
            f"SELECT set_config(k, x, true) FROM (VALUES ('termgate.scope', '{scope}'), ('termgate.term', '{term}')) v(k, x)"
        ],
        "set_config, subselect": [f"SELECT 1 WHERE (SELECT {by_scope}) IS NOT NULL AND (SELECT {by_term}) <> ''"],
        "set_config, CTE": [f"WITH x AS MATERIALIZED (SELECT {both}) SELECT * FROM x"],
        "set_config, CASE": [f"SELECT CASE WHEN true THEN {by_scope} || {by_term} END"],
        "set_config, ORDER BY": [f"SELECT 1 FROM (VALUES (1), (2)) v(i) ORDER BY {both}"],
        "set_config, UNION": [f"SELECT {by_scope} UNION ALL SELECT {by_term}"],
        "INSERT of set_config": [f"INSERT INTO app.scratch (v) SELECT {by_scope} || {by_term}"],
        "INSERT VALUES of set_config": [f"INSERT INTO app.scratch (v) VALUES ({by_scope}), ({by_term})"],
        "RETURNING set_config": [f"INSERT INTO app.scratch (v) VALUES ('x') RETURNING {both}"],
        "UPDATE with set_config": [
            f"UPDATE app.secure SET n = n WHERE {by_scope} <> {by_term}",
            f"DELETE FROM app.scratch WHERE false OR (SELECT {by_scope} = {by_term})",
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
        "SELECT INTO": [f"SELECT {by_scope} AS a, {by_term} AS b INTO TEMP d@N@"],
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
        "the term alone": [f"SET LOCAL termgate.scope = '{scope}'", f"SELECT {by_term}"],
        "the scope alone by set_config": [f"SET LOCAL termgate.term = '{term}'", f"SELECT {by_scope}"],
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
    for name, declare in declarers("@A@", STALE).items():
        for form in ("block", "text", "group", *pick([f for f in FORMS if f not in ("block", "text", "group")], f"2 {name}", 5)):
            if declarable(form, name):
                for before in ((), (GOOD,)):
                    writer = "INSERT" if form in ("block", "text") else pick(WRITERS, f"2 {name} {form} {before}", 1)[0]
                    if usable(form, writer):
                        yield of_b(
                            "2",
                            f"{name}, {form}, {writer}{', after a write' if before else ''}",
                            FORMS[form]([*before, *declare, WRITERS[writer]]),
                        )
        # Without a default of the session's.
        for form in pick(PLAIN, f"2 none {name}", 3):
            if declarable(form, name):
                yield Row("2", f"{name}, {form}, no default", FORMS[form]([*declare, BAD]), modes=EVERY)
    for form in ALONE:  # declares and writes in one statement
        yield of_b("2", f"declares and writes in one function, {form}", ALONE[form](f"SELECT app.declare_and_write('@A@', '{STALE}', @N@)"))
        yield of_b("2", f"declares and writes in one statement, {form}", ALONE[form](f"SELECT {pair('@A@', STALE)}, app.wr(@N@)"))
        yield of_b("2", f"writes and declares in one statement, {form}", ALONE[form](f"SELECT app.wr(@N@), {pair('@A@', STALE)}"))
        yield of_b("2", f"RETURNING declares, {form}", ALONE[form](BAD + f" RETURNING {pair('@A@', STALE)}"))
        yield of_b(
            "2",
            f"a CTE writes, the rest declares, {form}",
            ALONE[form](f"WITH x AS ({BAD} RETURNING 1) SELECT {pair('@A@', STALE)} FROM x"),
        )
    # Declares after the write, in the same transaction: the last claim in force counts.
    for name, declare in declarers("@A@", STALE).items():
        form = pick([f for f in PLAIN if declarable(f, name)], f"2 last {name}", 1)[0]
        yield of_b("2", f"{name} after the write, {form}", FORMS[form]([BAD, *declare]))
    # With parameters of the protocol.
    sql = "SELECT set_config('termgate.scope', $1, true), set_config('termgate.term', $2, true)"
    values = ("@A@", str(STALE))
    yield of_b("2", "parameters, block", [[Q("BEGIN")], [*one(sql, values), S], *each(BAD, "COMMIT")])
    yield of_b("2", "parameters, one group", [[*one(sql, values), *one(BAD), S]])
    yield of_b(
        "2",
        "parameters, named, after a write",
        [[P("d", sql), S], *each("BEGIN", GOOD), [B("", "d", values), E(), S], group(BAD), [Q("COMMIT")]],
    )
    yield of_b(
        "2",
        "parameters for the name too",
        [
            [Q("BEGIN")],
            [
                *one("SELECT set_config($1, $2, true)", ("termgate.scope", "@A@")),
                *one("SELECT set_config($1, $2, true)", ("termgate.term", str(STALE))),
                S,
            ],
            *each(BAD, "COMMIT"),
        ],
    )
    yield of_b("2", "parameters, Flush, portal", [[P("d", sql), B("p", "d", values), E("p", 1), H], [*one(BAD), S]])
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
                yield of_b("2", f"{name}, {form}{', after a write' if before else ''}", FORMS[form]([*before, declare, BAD]))


def rightful():
    """What must work: a current term, declared as documented; judged by the rows and, where marked, by the answers of a direct
    connection."""
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
                yield works(
                    "2 rightful",
                    f"{name} term {term}, {form}",
                    FORMS[form]([*declare, GOOD]),
                    claim="none",
                    same=form not in ("named", "two-phase"),
                    modes=modes,
                )
    for name in RIGHTFUL[:6]:
        declare = declarers("@A@", FENCE)[name]
        for form in ("block", "group", "text", "extended block", "savepoint"):
            yield works("2 rightful", f"from B to A by {name}, {form}", FORMS[form]([GOOD, *declare, GOOD]), claim="other", good=2)
            yield works(
                "2 rightful",
                f"A in place of a stale default by {name}, {form}",
                FORMS[form]([*declarers("@B@", OTHER)[name], GOOD]),
                claim="stale",
            )
    sql = "SELECT set_config('termgate.scope', $1, true), set_config('termgate.term', $2, true)"
    for claim, scope, term in (("none", "@A@", FENCE), ("none", "@A@", FENCE + 1), ("stale", "@B@", OTHER), ("other", "@A@", FENCE)):
        values = (scope, str(term))
        yield works(
            "2 rightful",
            f"JDBC's way, {claim} to {scope} {term}",
            [[P("", "BEGIN"), B(), E(), *one(sql, values), S], group(GOOD), group("COMMIT")],
            claim=claim,
        )
        yield works(
            "2 rightful",
            f"parameters, block, {claim} to {scope} {term}",
            [[Q("BEGIN")], [*one(sql, values), S], *each(GOOD, "COMMIT")],
            claim=claim,
        )
        yield works("2 rightful", f"parameters, one group, {claim} to {scope} {term}", [[*one(sql, values), *one(GOOD), S]], claim=claim)
        yield works(
            "2 rightful",
            f"parameters, named statement, twice, {claim} to {scope} {term}",
            [
                [P("d", sql), S],
                *[step for _ in range(2) for step in ([Q("BEGIN")], [B("", "d", values), E(), S], group(GOOD), [Q("COMMIT")])],
            ],
            claim=claim,
            good=2,
        )
        yield works(
            "2 rightful",
            f"parameters, pipelined, {claim} to {scope} {term}",
            [[*group("BEGIN"), *one(sql, values), S, *group(GOOD), *group("COMMIT")]],
            claim=claim,
        )
        yield works(
            "2 rightful",
            f"parameters, flushed, {claim} to {scope} {term}",
            [[*one("BEGIN"), H], [*one(sql, values), H], [*one(GOOD), H], [*one("COMMIT"), H], [S]],
            claim=claim,
            same=False,
        )
    # For the session, outside of a block; and a function that declares: the next transaction has it.
    for name, declare in {
        "set_config": f"SELECT {pair('@A@', FENCE, 'false')}",
        "function": f"SELECT app.declare('@A@', '{FENCE}', false)",
        "DO": f"DO $d$ BEGIN PERFORM {pair('@A@', FENCE, 'false')}; END $d$",
        "subselect": f"SELECT (SELECT set_config('termgate.scope', '@A@', false)), (SELECT set_config('termgate.term', '{FENCE}', false))",
    }.items():
        for form in ("simple", "extended"):
            modes = ("read-only", "allow") if name == "function" else ("allow",) if name == "DO" else None  # READ ONLY does not stop DO
            yield works(
                "2 rightful",
                f"session by {name}, {form}",
                [*ALONE[form](declare), *ALONE[form](GOOD), *each("BEGIN", GOOD, "COMMIT")],
                claim="none",
                good=2,
                same=name != "DO" or None,
                modes=modes,
            )
    # The comment counts for its own statement.
    for form in ("simple", "extended", "extended, flushed"):
        for place in ("front", "end"):
            comment = f"/*termgate.scope='@B@',termgate.term='{OTHER}'*/"
            sql = f"{comment} {GOOD}" if place == "front" else f"{GOOD} {comment}"
            yield works("3 rightful", f"a valid comment at the {place}, {form}, no default", ALONE[form](sql), claim="none")
            yield works("3 rightful", f"a valid comment at the {place}, {form}, stale default", ALONE[form](sql), claim="stale")
    # The function's own arguments declare.
    for form in ("block", "text with BEGIN", "extended block", "group with BEGIN", "pipelined", "savepoint"):
        yield works(
            "13 rightful",
            f"check_term, then a write, {form}",
            FORMS[form]([f"SELECT termgate.check_term('@A@', {FENCE})", GOOD]),
            claim="none",
        )


def transparent():
    """Findings 11 and 12, and what else a client sees: nothing twice, nothing missing. Each against a direct connection."""
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
            yield works("11", f"{name}, {form}", ALONE[form](sql), learned=name == "NOTICE in a view")
        for form in pick(PLAIN, f"11 {name}", 6):
            if usable(form, "COPY TO" if "COPY" in name else "DO" if name.endswith("DO") else "INSERT"):
                yield works("11", f"{name}, {form}", FORMS[form]([sql, "SELECT 1"]), learned=name == "NOTICE in a view")
        yield works(
            "11",
            f"{name}, after a read of its kind",
            [*each("SELECT app.notice_only()", sql), group("SELECT 1")],
            learned=name == "NOTICE in a view",
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
            yield works("11", f"{name}, {form}", [*ALONE[form](sql), *each(counting, undo, undo, counting)])
        yield works("11", f"{name}, in a block", each("BEGIN", sql, "COMMIT", counting, undo, undo))
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
            yield works("12", f"{name}, {form}", ALONE[form](sql), good=good)
        for form in ("text", "text with BEGIN", "block", "group", "pipelined", "PREPARE", "comments", "mixed"):
            yield works("12", f"{name}, {form}", FORMS[form](["SELECT 'before'", sql, "SELECT 'after'"]), good=good)
        yield works("12", f"{name}, two in a text", [[Q(f"{sql}; {sql}")]], good=2 * good)
    yield works(
        "12",
        "COPY in between",
        [
            [Q("BEGIN")],
            [Q("COPY app.t (n, v) FROM STDIN"), copy_in("@N@\tgood\n")],
            *each("INSERT INTO app.also VALUES (@N@, 'x')", "COMMIT"),
        ],
    )


# --- comments ---
def comments(sql, scope="@A@", term=STALE):
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
    }


def commented(sql, place, *claim):
    return comments(sql, *claim)[place]


PLACES = tuple(comments(""))


def finding_3():
    """The session declares B, which is valid; the statement's comment names A, which is stale."""
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
            yield of_b("3", f"{writer}, comment {place}, {form}", ALONE[form](commented(sql, place)))
        for form in ("block", "group", *pick([f for f in PLAIN if f not in ("block", "group")], f"3 forms {writer}", 3)):
            if usable(form, writer) and form not in ("comments",):
                place = pick([p for p in PLACES if ";" not in p and "semicolon" not in p], f"3 {writer} {form}", 1)[0]
                yield of_b("3", f"{writer} after a write, comment {place}, {form}", FORMS[form]([GOOD, commented(sql, place)]))
    wr = commented("SELECT app.wr(@N@)", "front")
    yield of_b(
        "3",
        "a named statement, in a later transaction",
        [[P("n", wr), S], group("SELECT 1"), [B("", "n"), E(), S], *each("BEGIN", GOOD), [B("", "n"), E(), S], [Q("COMMIT")]],
    )
    yield of_b(
        "3",
        "a named statement, refused once, in a group with another",
        [[P("n", wr), S], [B("", "n"), E(), S], [*one(GOOD), B("", "n"), E(), S]],
    )
    yield of_b(
        "3",
        "a portal bound in front of another's check",
        [[Q("BEGIN")], [P("n", wr), B("p", "n"), H], [*one(GOOD), H], [E("p"), S], [Q("COMMIT")]],
    )
    yield of_b(
        "3",
        "a suspended portal",
        [
            [Q("BEGIN")],
            [P("n", commented("SELECT * FROM app.rows(@N@, 'bad')", "end")), B("p", "n"), E("p", 1), H],
            [E("p", 0), S],
            [Q("COMMIT")],
        ],
    )
    yield of_b("3", "PREPARE with the comment", each(commented("PREPARE p AS SELECT app.wr(@N@)", "front"), commented("EXECUTE p", "end")))
    yield of_b(
        "3",
        "a cursor with the comment on FETCH",
        each("BEGIN", GOOD, commented("DECLARE c CURSOR FOR SELECT app.wr(@N@)", "front"), commented("FETCH c", "front"), "COMMIT"),
    )
    yield of_b("3", "two commented ones in one group", [[*one(commented("SELECT app.wr(@N@)", "end", "@B@", OTHER)), *one(wr), S]])
    yield of_b("3", "a stale one, Flush, a valid one", [[*one(wr), H], [*one(GOOD), S]])
    yield of_b("3", "BEGIN with the comment", each("BEGIN", commented(BAD, "after a comment"), "COMMIT"))
    yield of_b("3", "COPY with the comment", [[Q(commented("COPY app.t (n, v) FROM STDIN", "front")), copy_in("@N@\tbad\n")]])
    yield of_b(
        "3",
        "COPY with the comment, after a write",
        [*each("BEGIN", GOOD), [Q(commented("COPY app.t (n, v) FROM STDIN", "end")), copy_in("@N@\tbad\n")], [Q("COMMIT")]],
    )
    for place in PLACES:
        for form in ("extended", "extended, flushed", "extended, twice"):
            yield of_b("3", f"function, comment {place}, {form}", ALONE[form](commented("SELECT app.wr(@N@)", place)))
        # no default at all: the comment is the only claim, and stale
        yield Row("3", f"function, comment {place}, no default", ALONE["extended"](commented("SELECT app.wr(@N@)", place)), modes=EVERY)


def finding_s2():
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
            yield of_b("S2", f"{name}, then {writer} in a block after a write", each(call, "BEGIN", GOOD, bad, "COMMIT"))
            yield of_b("S2", f"{name} extended, then {writer} in a group after a write", [group(call), [*one(GOOD), *one(bad), S]])
            yield of_b("S2", f"{name} in the block, then {writer}", [*each("BEGIN", call, GOOD), group(bad), [Q("COMMIT")]])
            yield of_b("S2", f"{name} after the write, then {writer}", each("BEGIN", GOOD, call, bad, "COMMIT"))


def finding_s4():
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
            yield of_b("S4", f"{name}, {writer}", [[Q(text)]])
        yield of_b("S4", f"between in a block, {writer}", each("BEGIN", f"{GOOD}; {comment} {bad}", "COMMIT"))


def undeclared():
    """A declaration that is taken back: nothing commits without one."""
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
                yield Row("5.4", f"{name}, then {writer}, {form}", [*each(declare, GOOD, *back), *ALONE[form](WRITERS[writer])])
        yield Row(
            "5.4",
            f"SET LOCAL ends with its transaction, {name}",
            [
                *each("BEGIN", f"SELECT {pair('@A@', FENCE)}", GOOD, "COMMIT AND CHAIN"),
                *[[Q(sql)] for sql in back if sql != "DISCARD ALL"],
                *each(BAD, "COMMIT", BAD),
            ],
        )
    # The claim became stale, in a session that passed with it.
    for name, seal in (("between transactions", lambda bench, n: bench.ask(f"SELECT termgate.seal('a{n}', 7, '50 ms')")),):
        for writer in WRITERS:
            yield of_current("5.4", f"stale {name}, {writer}", [[Q(GOOD)], seal, [Q(WRITERS[writer])], group(WRITERS[writer])])
    # application_name at run time, ALTER ROLE: what a session may have as its start.
    start = f"termgate.scope=@A@;termgate.term={STALE};"
    for form in ("simple", "extended", "extended, flushed", "twice"):
        for writer in ("INSERT", "function"):
            yield Row(
                "5.2", f"application_name, {writer}, {form}", ALONE[form](WRITERS[writer]), start=[("application_name", start)], modes=EVERY
            )


def alone_in_a_pipeline():
    """What must run alone takes a lock in front of its pipeline: what stands there already, in a transaction that has ended,
    has no part in it."""
    claims = {"no claim": "", "a stale comment": NAMES_A}
    alone = {
        "CALL": NAMES_B + "CALL app.execute('SELECT 1')",
        "CALL without a comment": "CALL app.execute('SELECT 1')",
        "DO": NAMES_B + "DO $x$ BEGIN PERFORM 1; END $x$",
        "VACUUM": NAMES_B + "VACUUM app.t",
        "INSERT": NAMES_B + GOOD,
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
            yield Row("2", f"{writer} under {how}, {end}, {name} in one pipeline", [group(*sqls)], claim="other" if claim else "none")
            yield Row(
                "2",
                f"{writer} under {how}, {end}, {name} in one pipeline, prepared before",
                [
                    [m for i, sql in enumerate(sqls) for m in (P(f"a{i}", sql),)] + [S],
                    [m for i in range(len(sqls)) for m in (B("", f"a{i}"), E())] + [S],
                ],
                claim="other" if claim else "none",
            )


# Ways into a transaction that can write although no check has passed in it, or none that still counts.
BEHIND = {
    "SAVEPOINT": each("BEGIN", "SAVEPOINT a"),
    "SAVEPOINT in a text": [[Q("BEGIN; SAVEPOINT a")]],
    "COMMIT AND CHAIN": each("BEGIN", "SAVEPOINT a", "COMMIT AND CHAIN"),
    "ROLLBACK AND CHAIN": each("BEGIN", "SAVEPOINT a", "SELECT 1", "ROLLBACK AND CHAIN"),
    "ROLLBACK TO": each("BEGIN", "SAVEPOINT a", "SELECT 1", "ROLLBACK TO a"),
    "RELEASE": each("BEGIN", "SAVEPOINT a", "SELECT 1", "RELEASE a"),
    "an error and ROLLBACK TO": each("BEGIN", "SAVEPOINT a", "SELECT 1/0", "ROLLBACK TO a"),
    "nothing": [[Q("BEGIN")]],
    "a group": [group("BEGIN", "SAVEPOINT a")],
}


def planning():
    """A Bind runs code without an Execute: the planner calls immutable functions, and a parameter of a domain runs its CHECK."""
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
                yield Row("1", f"{end}Bind of {name} behind {behind}, {claim}", [*steps, [*bind, *last], [Q("COMMIT")]], claim=claim)
    planned = [P("", NAMES_A + "SELECT app.planned(@N@)"), B("", "")]
    for name, group_of in {
        "alone": [*planned, S],
        "before SET": [*planned, *one("SET work_mem = '4MB'"), S],
        "before SET, flushed": [*planned, H, *one("SET work_mem = '4MB'"), H, S],
        "before a write of another claim": [*planned, *one(NAMES_B + GOOD), S],
    }.items():
        for claim in ("none", "other"):
            yield Row("1", f"Bind with a stale comment, {name}, {claim}", [group_of], claim=claim, modes=EVERY)
    for name, bind in binds.items():
        yield of_b("1", f"Bind of {name} between two claims", [*each("BEGIN", "SELECT 1", *SET_A), [*bind, S], *each(*SET_B, "COMMIT")])
        yield Row(
            "1",
            f"Bind of {name} behind SET LOCAL in its group",
            [[*[message for sql in SET_A for message in one(sql)], *bind, S]],
            modes=EVERY,
        )


def parsing():
    """A Parse runs code: a literal of an array, a composite or a range type runs the CHECK of a domain in it."""
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
                yield Row(
                    "1", f"{end} of a literal, {name}, behind {behind}, {claim}", [*steps, [P("", sql), *last], [Q("COMMIT")]], claim=claim
                )
    for name, sql in texts.items():
        if name in runs:
            continue
        yield of_b(
            "1",
            f"Parse of a literal between two claims, {name}",
            [*each("BEGIN", "SELECT 1", *SET_A), [P("", sql), S], *each(*SET_B, "COMMIT")],
        )
        yield Row(
            "1",
            f"Parse of a literal behind SET LOCAL in its group, {name}",
            [[*[message for sql in SET_A for message in one(sql)], P("", sql), S]],
            modes=EVERY,
        )
        yield of_b("1", f"Parse of a literal with a stale comment before a write, {name}", [[P("s", NAMES_A + sql), *one(GOOD), S]])
        yield Row("1", f"Parse of a literal with a stale comment, {name}", [[P("s", NAMES_A + sql), S]], modes=EVERY)
        yield of_current(
            "1",
            f"Parse of a literal in a chained block of a claim that has become stale, {name}",
            [*each("BEGIN", "SELECT 1", "COMMIT AND CHAIN"), sealed, [P("", sql), S], [Q("COMMIT")]],
        )
    for name in literals:
        for alone in ("CALL app.execute('SELECT 1')", "DO $x$ BEGIN PERFORM 1; END $x$", "VACUUM app.t"):
            # DO runs in the pipeline's own transaction, where its claim stands for a session that declares nothing.
            for claim in ("stale",) if alone.startswith("DO") else ("none", "stale"):
                yield Row(
                    "1",
                    f"Parse of a literal, {name}, before {alone.split()[0]} of another claim in one pipeline, {claim}",
                    [[P("s", texts[name]), *one(NAMES_B + alone), S]],
                    claim=claim,
                )
    # What a Parse, a Bind or a PREPARE has declared is in force until something else is.
    declares = f"app.declare_and_write('@A@', '{STALE}', @N@)"
    for name, steps in {
        "SET LOCAL by simple queries between a Bind and its Execute": [[P("s", BAD), B("p", "s"), S], *each(*SET_A), [E("p"), S]],
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
            *each(*SET_B),
        ],
    }.items():
        yield of_b("2", name, [[Q("BEGIN")], *steps, [Q("COMMIT")]])


def sealed(bench, n):
    bench.ask(f"SELECT termgate.seal('a{n}', 7, '50 ms')")


def left_over():
    """What runs READ ONLY inside a savepoint may leave something for the COMMIT, when no savepoint keeps it so any more."""
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
        "RELEASE": each("RELEASE a", "COMMIT"),
        "AND CHAIN": each("COMMIT AND CHAIN", "COMMIT"),
        "a savepoint more": each("SAVEPOINT b", "SELECT 1", "RELEASE b", "COMMIT"),
        "ROLLBACK TO of an inner one": each("SAVEPOINT b", "ROLLBACK TO b", "COMMIT"),
        "a text": [[Q("SELECT 1; RELEASE a; COMMIT")]],
        "a group": [group("SELECT 1", "COMMIT")],
    }
    for (name, sql), (end, last) in itertools.product(leaves.items(), ends.items()):
        for how, step in {"simple": [Q(sql)], "extended": group(sql)}.items():
            for claim in ("none", "stale"):
                yield Row("1", f"{name}, {how}, ended by {end}, {claim}", [*each("BEGIN", "SAVEPOINT a"), step, *last], claim=claim)
            yield of_current(
                "1",
                f"{name}, {how}, ended by {end}, a claim that has become stale",
                [[Q(GOOD)], sealed, *each("BEGIN", "SAVEPOINT a"), step, *last],
            )
    for name, sql in leaves.items():
        yield of_stale(
            "1",
            f"{name}, then a write of another claim by a comment",
            each("BEGIN", "SAVEPOINT a", sql, "RELEASE a", NAMES_B + GOOD, "COMMIT"),
        )
        yield Row("1", f"{name} in one text", [[Q(f"BEGIN; SAVEPOINT a; {sql}; COMMIT")]])
    late = each(
        "CREATE TEMP TABLE kept (n bigint)",
        "CREATE FUNCTION pg_temp.writes() RETURNS trigger LANGUAGE plpgsql AS $x$ BEGIN PERFORM app.wr(NEW.n); RETURN NULL; END $x$",
        "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON kept DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pg_temp.writes()",
    )
    for name, steps in {
        "COMMIT": [[Q("COMMIT")]],
        "RELEASE": each("RELEASE a", "COMMIT"),
        "SET CONSTRAINTS": each("RELEASE a", "SET CONSTRAINTS ALL IMMEDIATE", "COMMIT"),
        "a group": [group("SET CONSTRAINTS ALL IMMEDIATE", "COMMIT")],
    }.items():
        yield of_current(
            "1",
            f"a deferred trigger of a temporary table, {name}",
            [*late, sealed, *each("BEGIN", "SAVEPOINT a", "SELECT app.run('INSERT INTO kept VALUES (@N@)')"), *steps],
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
                start = each("BEGIN", "SAVEPOINT a")
                yield Row(
                    "1",
                    f"{name} behind an error, then {writer}, {claim}",
                    [*start, group("SELEC", *skipped), *each("ROLLBACK TO a", WRITERS[writer], "COMMIT")],
                    claim=claim,
                )
                yield Row(
                    "1",
                    f"{name} behind an error, then {writer}, all at once, {claim}",
                    [*start, [*group("SELEC", *skipped), *group("ROLLBACK TO a"), *group(WRITERS[writer]), *group("COMMIT")]],
                    claim=claim,
                )
                yield Row(
                    "1",
                    f"{name} behind an error, then a cursor WITH HOLD, {claim}",
                    [*start, group("SELEC", *skipped), *each("ROLLBACK TO a", "SAVEPOINT b", f"SELECT {held}", "COMMIT")],
                    claim=claim,
                )
                yield Row(
                    "1",
                    f"{name} behind an error, then a cursor WITH HOLD behind RELEASE, {claim}",
                    [
                        *start,
                        group("SELEC", *skipped),
                        *each("ROLLBACK TO a", "RELEASE a", "SELECT 1", "SAVEPOINT a", f"SELECT {held}", "COMMIT"),
                    ],
                    claim=claim,
                )
    # Who only reads commits as without us; and who chains a block in the middle of a text goes on.
    read = "SELECT count(*) FROM app.scratch"
    for name, steps in {
        "a read": [[Q(read)]],
        "two savepoints": each(read, "SAVEPOINT b", read, "RELEASE b"),
        "RELEASE and a read": each(read, "RELEASE a", read),
        "ROLLBACK TO and a read": each(read, "ROLLBACK TO a", read, "RELEASE a", read),
        "a cursor WITH HOLD": each("DECLARE held CURSOR WITH HOLD FOR SELECT n FROM app.ids LIMIT 2", "COMMIT", "FETCH ALL FROM held"),
        "functions": [*each("SELECT app.run('SELECT 1')", "RELEASE a"), group("SELECT app.run('SELECT 1')")],
        "one after the other": each(read, "RELEASE a", read, "SAVEPOINT b", "SELECT 1/0", "ROLLBACK TO b", read, "RELEASE b", read),
        "SET between them": each("RELEASE a", "SET work_mem = '4MB'", "SAVEPOINT b", read, "RELEASE b"),
        "SET between them, open at the end": each(
            "RELEASE a", "SET work_mem = '4MB'", "SAVEPOINT b", read, "SAVEPOINT c", "SELECT 1/0", "ROLLBACK TO c", read
        ),
        "equal names": each("SAVEPOINT a", read, "RELEASE a", read, "RELEASE a", read),
        "an error in it": [*each(read, "SELECT 1/0", "ROLLBACK TO a"), group(read)],
        "pipelined": [[*group(read), *group("SELECT app.run('SELECT 1')"), *group("RELEASE a"), *group(read)]],
        "an error in a pipeline": [[*group("SELECT 1/0"), *group(read), *group("ROLLBACK TO a"), *group(read)]],
    }.items():
        # Under `allow` whoever calls functions needs the right to be checked.
        roles = ("write", "lead", "operate") if name in ("functions", "pipelined", "an error in a pipeline") else ("none", "read", "write")
        yield works(
            "6 rightful",
            f"reads behind a savepoint, {name}",
            [*each("BEGIN", "SAVEPOINT a"), *steps, *each("COMMIT", read)],
            claim="none",
            roles=roles,
            modes=("read-only", "allow"),
            good=0,
        )
    for name, steps in {
        "a failed block": each("BEGIN", GOOD, "SELECT 1/0", f"ROLLBACK AND CHAIN; {GOOD}; COMMIT"),
        "a failed block by COMMIT": each("BEGIN", GOOD, "SELECT 1/0", f"COMMIT AND CHAIN; SELECT app.wr(@N@, 'good'); COMMIT"),
        "a failed block, then a read": each("BEGIN", GOOD, "SELECT 1/0", f"ROLLBACK AND CHAIN; SELECT 1; {GOOD}; COMMIT"),
        "a failed block, then a savepoint": each("BEGIN", GOOD, "SELECT 1/0", f"ROLLBACK AND CHAIN; SAVEPOINT s; {GOOD}; COMMIT"),
    }.items():
        yield works("2 rightful", f"a text that chains out of {name}", steps)


def read_before():
    """What was read in a pipeline before something else made it writable: its own claim must pass too."""
    argument = f"SELECT termgate.check_term('@B@', {OTHER})"
    behind = {
        "a comment": [NAMES_B + GOOD],
        "check_term": [argument],
        "check_term and a write": [argument, GOOD],
        "a read with a comment": [NAMES_B + "SELECT 1", NAMES_B + GOOD],
        "a comment on a call that declares": [NAMES_B + f"SELECT app.declare('@B@', '{OTHER}')"],
        "set_config": [f"SELECT {pair('@B@', OTHER)}", GOOD],
        "a savepoint": ["BEGIN", "SAVEPOINT a", NAMES_B + GOOD, "COMMIT"],
        "COMMIT": ["COMMIT", NAMES_B + GOOD],
    }
    for name, writes in behind.items():
        then = [message for sql in writes for message in one(sql)]
        ends = name in ("a savepoint", "COMMIT")
        for writer in ("view", "policy", "function", "domain"):
            yield of_stale("3", f"{writer} read before {name}", [[*one(HIDDEN[writer]), *then, S]])
            if not ends:
                yield of_stale(
                    "3", f"{writer} bound before {name}, executed behind it", [[P("", HIDDEN[writer]), B("q"), *then, E("q"), S]]
                )
        for how, first in {
            "literal parsed": [P("", "SELECT '{@N@}'::app.checked[]")],
            "immutable function bound": [P("", "SELECT app.planned(@N@)"), B("q")],
            "literal of a column's type parsed": [P("", "SELECT 1 FROM app.arrays WHERE a = '{@N@}'")],
        }.items():
            yield of_stale("3", f"{how} before {name}", [[*first, *then, S]])


def skipped_ends():
    """An end of the block that stands behind an error in its pipeline: the server does not look at it, and the block goes on."""
    for end in ("COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "PREPARE TRANSACTION 'attack @N@'"):
        for error in ("SHOW no.such", "SELEC", "SELECT 1/0"):
            for writer in ("function", "view", "INSERT"):
                for claim in ("none", "stale"):
                    yield Row(
                        "1",
                        f"{end} behind {error}, then {writer}, {claim}",
                        [*each("BEGIN", "SAVEPOINT a"), group(error, end), *each("ROLLBACK TO a", WRITERS[writer], "COMMIT")],
                        claim=claim,
                    )
                yield Row(
                    "1",
                    f"{end} behind {error}, then {writer}, all at once",
                    [
                        *each("BEGIN", "SAVEPOINT a"),
                        [*group(error, end), *group("ROLLBACK TO a"), *group(WRITERS[writer]), *group("COMMIT")],
                    ],
                )
                yield of_current(
                    "1",
                    f"{end} behind {error}, then {writer}, a claim that has become stale",
                    [
                        *each("BEGIN", "SAVEPOINT a", GOOD),
                        group(error, end),
                        [Q("ROLLBACK TO a")],
                        sealed,
                        *each(WRITERS[writer], "COMMIT"),
                    ],
                )
            yield of_b(
                "2",
                f"{end} behind {error}, after code that declares",
                [*each("BEGIN", "SELECT app.claims(@N@)", "SAVEPOINT a"), group(error, end), *each("ROLLBACK TO a", "COMMIT")],
            )


def own_names():
    """Types and functions of a user's own under names that look like the server's, and constants of them where the text shows no call."""
    path, first = [Q("SET search_path = own, public")], [Q("SET search_path = own, pg_catalog")]
    calls = {
        "release_lease": ("SELECT termgate.release_lease(writing '@N@', 'o', 5)", ("lead",)),
        "append": (f"SELECT termgate.append(writing '@N@', {FENCE}, 'x')", ("write", "lead")),
    }
    for name, (sql, roles) in calls.items():
        for form in ("simple", "extended"):
            for claim in ("none", "stale"):
                yield Row("1", f"{name} with a constant of a domain, {form}, {claim}", [path, *ALONE[form](sql)], claim=claim, roles=roles)
        yield Row("1", f"{name} with a constant of a domain in a block", [path, *each("BEGIN", sql, "COMMIT")], roles=roles)
    for sql in (
        "SELECT termgate.check_term(writing '@N@', 5)",
        "SELECT termgate.check_term('@N@'::own.writing, 5)",
        "SELECT termgate.check_term('@N@'::writing, 5)",
    ):
        yield of_stale("1", f"{sql.replace('@N@', 'N')} beside a stale claim", [path, [Q(sql)]])
    for name, steps in {
        "qualified md5": each("BEGIN", "SELECT own.md5(@N@)"),
        "qualified date": each("BEGIN", "SELECT own.date(@N@)"),
        "qualified in quotes": each("BEGIN", 'SELECT own."md5"(@N@)'),
        "termgate_fence": each("BEGIN", "SELECT own.termgate_fence(@N@)"),
        "a type named zone": [path, *each("BEGIN", "SELECT zone '@N@'")],
        "length by search_path": [first, *each("BEGIN", "SELECT length('@N@')")],
        "search_path by set_config": each("SELECT set_config('search_path', 'own, pg_catalog', false)", "BEGIN", "SELECT length('@N@')"),
        "search_path twice in a text": each(
            "SET search_path TO pg_catalog; SET search_path TO own, pg_catalog", "BEGIN", "SELECT length('@N@')"
        ),
        "search_path after a comment": each(
            "/* search_path = pg_catalog */ SET search_path TO own, pg_catalog", "BEGIN", "SELECT length('@N@')"
        ),
        "search_path in the same text": each("BEGIN", "SET search_path TO own, pg_catalog; SELECT length('@N@')"),
        "search_path of two pieces": each(
            "SELECT set_config('search_path', 'own, pg_' || 'catalog', false)", "BEGIN", "SELECT length('@N@')"
        ),
        "length prepared before the search_path": [
            *each("PREPARE p AS SELECT 1 WHERE length('@N@') IS NOT NULL"),
            first,
            *each("BEGIN", "EXECUTE p"),
        ],
        "length parsed before the search_path": [
            [P("p", "SELECT 1 WHERE length('@N@') IS NOT NULL"), S],
            first,
            *each("BEGIN"),
            [B("", "p"), E(), S],
        ],
        "PREPARE of a domain": each("BEGIN", "PREPARE p (app.claiming) AS SELECT 1", "EXECUTE p('@N@')"),
        "PREPARE before the block": each("PREPARE p (app.claiming) AS SELECT 1", "BEGIN", "EXECUTE p(@N@)"),
    }.items():
        yield of_b("2", f"{name} declares and writes", [*steps, [Q("COMMIT")]])
        yield of_b("2", f"{name} declares, then a write", [*steps, *each(BAD, "COMMIT")])
    for scope, term in (
        ('SET "termgate"."scope" = \'@A@\'', f'SET "termgate"."term" = {STALE}'),
        ("SET termgate . scope = '@A@'", f"SET termgate . term = {STALE}"),
        ("SET termgate/**/./**/scope = '@A@'", f"SET termgate/* x */.term = {STALE}"),
    ):
        for form in ("block", "text", "group", "text with BEGIN"):
            yield Row("5.2", f"{scope.replace('@A@', 'A')}, {form}", FORMS[form]([scope, term, BAD]), modes=EVERY)
        yield Row("5.2", f"{scope.replace('@A@', 'A')} for the session", each(scope, term, BAD), modes=EVERY)


def portals_and_texts():
    """A portal, a cursor or a prepared text is something else by the time that it is used."""
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
                yield Row(
                    "9",
                    f"portal of {harmless} replaced after {close}, {claim}",
                    [
                        *each("BEGIN", "SAVEPOINT a", "SAVEPOINT b"),
                        bound(harmless),
                        *each(close, "DECLARE p CURSOR FOR SELECT app.wr(@N@)", "RELEASE b"),
                        [E("p"), S],
                        [Q("COMMIT")],
                    ],
                    claim=claim,
                )
        yield of_b(
            "9",
            f"portal of {harmless} replaced by code",
            [
                *each("BEGIN", "SELECT 1"),
                bound(harmless),
                [Q("SELECT app.run('CLOSE p; DECLARE p CURSOR FOR SELECT app.claims(@N@)')")],
                [E("p"), S],
                [Q("COMMIT")],
            ],
        )
        yield of_b(
            "9",
            f"portal of {harmless} replaced by one that declares",
            [
                [Q("BEGIN")],
                bound(harmless),
                *each("CLOSE p", "DECLARE p CURSOR FOR SELECT app.claims(@N@)", "SELECT count(*) FROM pg_type"),
                [E("p"), S],
                [Q("COMMIT")],
            ],
        )
    for name, steps in {
        "a bound portal": [bound("SELECT app.claims(@N@)"), [Q("FETCH 1 FROM p")]],
        "a cursor of a function": each("SELECT app.run('DECLARE c CURSOR FOR SELECT app.claims(@N@)')", "FETCH 1 FROM c"),
        "a portal of EXPLAIN": [bound("EXPLAIN ANALYZE SELECT app.claims(@N@)"), [Q("FETCH 1 FROM p")]],
        "MOVE": [bound("SELECT app.claims(@N@)"), [Q("MOVE 1 FROM p")]],
    }.items():
        yield of_b("2", f"FETCH of {name} that declares and writes", [[Q("BEGIN")], *steps, [Q("COMMIT")]])
        yield of_b("2", f"FETCH of {name} that declares, then a write", [[Q("BEGIN")], *steps, *each(BAD, "COMMIT")])
    # Describe reads the literals of a text anew, where the path has changed since.
    text = [[P("s", "SELECT '{@N@}'::app.checked_later[]"), S], *each("SET app.go = '1'", "SET search_path = app, public")]
    described = [[D("S", "s"), S]]
    for (behind, steps), claim in itertools.product(BEHIND.items(), ("none", "stale")):
        yield Row("1", f"Describe behind {behind}, {claim}", [*text, *steps, *described, [Q("COMMIT")]], claim=claim)
    yield of_current(
        "1",
        "Describe in a chained block of a claim that has become stale",
        [*text, *each("BEGIN", "SELECT 1", "COMMIT AND CHAIN"), sealed, *described, [Q("COMMIT")]],
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
            yield Row(
                "5.4",
                f"taken back in its block by {name}, {writer}",
                each("BEGIN", *declare, GOOD, *back, WRITERS["function" if writer == "view" else writer], "COMMIT"),
                modes=("reject", "read-only"),
            )
    leader = {
        "a Parse before BEGIN in its pipeline": [[P("q", "SELECT 2"), *one("BEGIN"), *one(GOOD), S], [Q("COMMIT")]],
        "its Parse before BEGIN": [[P("q", GOOD), *one("BEGIN"), B("", "q"), E(), S], [Q("COMMIT")]],
        "extended SET TRANSACTION READ WRITE": [*each("BEGIN", "SELECT 1"), group("SET TRANSACTION READ WRITE"), *each(GOOD, "COMMIT")],
        "the same behind a savepoint": [*each("BEGIN", "SAVEPOINT a"), group("SET TRANSACTION READ WRITE"), *each(GOOD, "COMMIT")],
        "isolation behind RELEASE": each(
            "BEGIN", "SAVEPOINT a", "RELEASE a", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", GOOD, "COMMIT"
        ),
        "its own transaction id behind RELEASE": each(
            "BEGIN", "SAVEPOINT a", "RELEASE a", GOOD + " RETURNING xmin::text::bigint = txid_current()", "COMMIT"
        ),
    }
    for name, steps in leader.items():
        yield works("2 rightful", f"{name}", steps, same=name != "extended SET TRANSACTION READ WRITE")
    reader = {
        "an error, one statement more, ROLLBACK TO": each(
            "BEGIN", "SAVEPOINT a", "SHOW no.such", "SELECT 1", "ROLLBACK TO a", "SELECT 2", "COMMIT"
        ),
        "it prepares a write and reads": [
            [Q("BEGIN")],
            [P("w", "INSERT INTO app.scratch VALUES ($1, $2)"), D("S", "w"), S],
            *each("SELECT 1", "COMMIT"),
        ],
        "chains and savepoints": each(
            "BEGIN",
            "SAVEPOINT a",
            "SELECT 1",
            "COMMIT AND CHAIN",
            "SELECT 1",
            "SAVEPOINT a",
            "ROLLBACK TO a",
            "SAVEPOINT b",
            "ROLLBACK TO a",
            "SELECT 1",
            "COMMIT",
            "SELECT 5",
        ),
        "isolation behind RELEASE": each(
            "BEGIN", "SAVEPOINT a", "RELEASE a", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT 1", "COMMIT"
        ),
    }
    for name, steps in reader.items():
        yield works(
            "6 rightful", f"a reader: {name}", steps, claim="none", roles=("none", "read", "write"), modes=("read-only", "allow"), good=0
        )
    for form in ("simple", "extended"):
        yield works(
            "2 rightful",
            f"what a CALL declares stays, {form}",
            [*ALONE[form](f"CALL app.execute('SET termgate.scope = ''@B@''; SET termgate.term = {OTHER}')"), sealed, [Q(GOOD)]],
            same=False,
        )


def read_otherwise():
    """The server reads a text, or compares a name, by settings other than those by which the proxy has read it."""
    strings = "standard_conforming_strings"
    off = {"start": [(strings, "off")]}
    # As one SET where a backslash is a letter; else as a transaction of its own.
    two_ways = "SET search_path = '\\', ';COMMIT;BEGIN READ WRITE; INSERT INTO app.t (n, v) VALUES (@N@, $$bad$$); COMMIT; --'"
    for claim in ("none", "stale"):
        for end in ("COMMIT", "ROLLBACK", "ROLLBACK TO a", "COMMIT AND CHAIN"):
            steps = each("BEGIN", "SAVEPOINT a", f"SET LOCAL {strings} = on", f"{end}; {two_ways}")
            yield Row("1", f"a text behind {end} that brings back how strings are read, {claim}", steps, claim=claim, guarded=True, **off)
        for end in ("RESET ALL", "DISCARD ALL"):
            yield Row(
                "1",
                f"a text behind {end} that brings back how strings are read, {claim}",
                each(f"SET {strings} = on", f"{end}; {two_ways}"),
                claim=claim,
                guarded=True,
                **off,
            )
        for begin in (
            f"SET {strings} = off; BEGIN; COMMIT",
            f"BEGIN; SET {strings} = off; SAVEPOINT a",
            f"BEGIN; SET LOCAL {strings} = off; SAVEPOINT a",
        ):
            yield Row("1", f"a text behind {begin}, {claim}", [[Q(f"{begin}; {two_ways}")]], claim=claim, guarded=True)
        # The name of a portal, of a statement, in UTF-8 and in LATIN1.
        latin = [Q("SET client_encoding = LATIN1")]
        portals = [
            *each("BEGIN", "SAVEPOINT a", "SAVEPOINT b"),
            [P("", "SHOW work_mem"), B("\u00e9"), P("", "SELECT app.wr(@N@)"), B("\u00c3\u00a9"), S],
            latin,
            [Q("RELEASE b")],
            [E("\u00e9"), S],
            [Q("COMMIT")],
        ]
        yield Row("9", f"a portal under another's name in another encoding, {claim}", portals, claim=claim)
        statements = [
            [P("\u00e9", "SELECT 1"), P("\u00c3\u00a9", "RELEASE b"), S],
            latin,
            *each("BEGIN", "SAVEPOINT a", "SAVEPOINT b", "SELECT 1"),
            [B("", "\u00e9"), E(), S],
            *each("SELECT app.wr(@N@)", "COMMIT"),
        ]
        yield Row("9", f"a statement under another's name in another encoding, {claim}", statements, claim=claim)
        for name in ("transaction_read_only", "default_transaction_read_only"):
            yield Row(
                "1",
                f"SHOW {name} where text is a domain, {claim}",
                [*each("SET search_path = words, pg_catalog", "BEGIN", "SAVEPOINT a"), group(f"SHOW {name}"), [Q("COMMIT")]],
                claim=claim,
                roles=ANY,
                guarded=True,
            )
        calls = {
            "release_lease": ("SELECT termgate.release_lease(\"integer\" '@N@', 'o', 5)", ("lead",)),
            "append": (f"SELECT termgate.append(\"integer\" '@N@', {FENCE}, 'x')", ("write", "lead")),
            "check_term": ("SELECT termgate.check_term(\"integer\" '@N@', 5)", ("write", "lead")),
        }
        for name, (sql, roles) in calls.items():
            yield Row(
                "1",
                f"{name} with a type in quotes, {claim}",
                [*each("SET search_path = words, public", sql), group(sql)],
                claim=claim,
                roles=roles,
            )
    hidden = f"SELECT '\\', ', set_config($$termgate.scope$$, $$@A@$$, true), set_config($$termgate.term$$, $${STALE}$$, true) --'"
    for end in ("COMMIT AND CHAIN", "ROLLBACK TO a"):
        yield of_b(
            "2",
            f"a claim in what was a string before {end}, in a group",
            [*each("BEGIN", "SAVEPOINT a", f"SET LOCAL {strings} = on"), group(end, hidden, BAD), [Q("COMMIT")]],
            **off,
        )
    long = "a" * 62
    swap = each(f'DEALLOCATE "{long}\u00e9"', f'PREPARE "{long}\u00e9" AS SELECT app.claims(@N@)', "BEGIN", "SELECT 1")
    for name, steps in {
        "EXECUTE": [[Q(f'PREPARE "{long}" AS SELECT 1')], *swap, [Q(f'EXECUTE "{long}"')]],
        "Bind": [[P(long, "SELECT 1"), S], *swap, [B("", long), E(), S]],
        "EXECUTE in LATIN1": each(
            'PREPARE "\u00e9" AS SELECT 1',
            'PREPARE "\u00c3\u00a9" AS SELECT app.claims(@N@)',
            "SET client_encoding = LATIN1",
            "BEGIN",
            "SELECT 1",
            'EXECUTE "\u00e9"',
        ),
    }.items():
        yield of_b("9", f"{name} of a name that is not the same letters to the server", [*steps, [Q("COMMIT")]])
    path = [Q("SET search_path = words, public")]
    for word in ("by", "set", "escape", "varying", "is", "like", "ilike", "similar", "uescape"):
        yield of_b("2", f"a constant of a type named {word} declares and writes", [path, *each("BEGIN", f"SELECT {word} '@N@'", "COMMIT")])
    for word in "by of over filter sets partition recursive rollup cube within materialized explain varying is like similar join".split():
        yield of_b("2", f"a function named {word} declares and writes", [path, *each("BEGIN", f"SELECT {word}('@N@')", "COMMIT")])
    yield works("2 rightful", "Execute without a Bind, then a write", [[E(), *one(GOOD), S]], good=0)
    escaped = (
        "DO E'BEGIN INSERT INTO app.t (n, v) VALUES (@N@, ''good''); COM\\115IT; INSERT INTO app.t (n, v) VALUES (@N@, ''good''); END'"
    )
    yield works("2 rightful", "DO whose COMMIT is spelt by an escape", [[Q(escaped)]], good=2, same=False)


def renamed():
    """Code drops a prepared statement that is known to be harmless, and gives its name to one that writes."""
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
                yield Row(
                    "9",
                    f"{name} renamed, {how} behind {behind}, {claim}",
                    [[P("s", sql), S], [Q(swaps["function"])], *steps, *uses, [Q("COMMIT")]],
                    claim=claim,
                )
        yield Row("9", f"{name} renamed, Bind alone, {behind}", [[P("s", sql), S], [Q(swaps["function"])], [B("", "s"), E(), S]])
        yield of_stale(
            "9",
            f"{name} renamed in DO, Bind behind {behind}",
            [[P("s", sql), S], *each("BEGIN", swaps["DO"], "ROLLBACK"), *steps, [B("", "s"), E(), S], [Q("COMMIT")]],
        )
    declares = "PREPARE s AS SELECT set_config('termgate.scope', '@B@', true)"
    for (behind, steps), use in itertools.product(BEHIND.items(), ([[Q("EXECUTE s")]], [[B("", "s"), E(), S]])):
        yield Row(
            "9",
            f"PREPARE of set_config renamed, {'EXECUTE' if len(use[0]) == 1 else 'Bind'} behind {behind}",
            [*each(declares, swaps["function"]), *steps, *use, [Q("COMMIT")]],
        )


def at_once():
    """SET CONSTRAINTS IMMEDIATE runs the triggers of what was written before, under the claim that is in force then."""
    write, now = "INSERT INTO app.late VALUES (@N@)", "SET CONSTRAINTS ALL IMMEDIATE"
    for name, form in {
        "simple": lambda ss: [[Q(sql)] for sql in ss],
        "extended": lambda ss: [group(sql) for sql in ss],
        "one group": lambda ss: [group(*ss)],
        "one text": lambda ss: [[Q("; ".join(ss))]],
    }.items():
        yield of_b("2", f"SET CONSTRAINTS between two claims, {name}", form(["BEGIN", write, *SET_A, now, *SET_B, "COMMIT"]))
        yield of_b("2", f"SET CONSTRAINTS with a stale comment, {name}", form(["BEGIN", write, NAMES_A + now, "COMMIT"]))


# --- finding 8: holes of READ ONLY ---
def finding_8():
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
        "SET TRANSACTION": each("BEGIN", "SET TRANSACTION READ ONLY"),
        "SET default": each("SET default_transaction_read_only = on", "BEGIN"),
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
            yield Row(
                "8", f"{name} in {body}, {begin}", [*steps, *each(sql, "COMMIT")], modes=("reject", "read-only"), majors=majors, state=True
            )
            yield of_stale(
                "8",
                f"{name} in {body}, {begin}, in a group",
                [*steps, [*one(sql), S], group("COMMIT")],
                modes=("read-only",),
                majors=majors,
                state=True,
            )
    for body, sql in {
        "DO": "DO $x$ BEGIN NOTIFY attack, 'x@N@'; END $x$",
        "DO, dynamic": "DO $x$ BEGIN EXECUTE 'NOTIFY attack, ''x@N@'''; END $x$",
        "CALL": "CALL app.execute('NOTIFY attack, ''x@N@''')",
    }.items():
        yield Row("8", f"NOTIFY in {body}", each("BEGIN READ ONLY", sql, "COMMIT"), modes=("reject", "read-only"), state=True)
    for name, hole in holes.items():
        majors = (13, 15) if name.startswith("lo_") else None
        yield Row(
            "8",
            f"{name} in DO, autocommit under the default",
            each("SET default_transaction_read_only = on", f"DO $x$ BEGIN PERFORM {hole}; END $x$"),
            modes=("reject", "read-only"),
            majors=majors,
            state=True,
        )
        yield Row(
            "8",
            f"{name} in DO, one text",
            [[Q(f"BEGIN READ ONLY; DO $x$ BEGIN PERFORM {hole}; END $x$; COMMIT")]],
            modes=("reject", "read-only"),
            majors=majors,
            state=True,
        )
        yield Row(
            "8",
            f"{name} in DO, start-up option",
            [[Q(f"DO $x$ BEGIN PERFORM {hole}; END $x$")]],
            modes=("reject", "read-only"),
            majors=majors,
            state=True,
            start=[("default_transaction_read_only", "on")],
        )


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
            trick = each("BEGIN", "DECLARE c CURSOR FOR SELECT lower(1)", "FETCH c", "COMMIT")
        elif sql == "domain parameter":
            trick = [[P("", "SELECT $1::made.dom", ()), B("", "", ("x",)), E(), S]]
        else:
            trick = [[Q(sql)]]
        for claim in ("none", "stale"):
            path = [[Q("SET search_path = made, pg_catalog")]]
            warm = [[Q(BAD)], group(BAD)]
            for after, steps in {
                "autocommit": [[Q(BAD)], group(BAD)],
                "block": each("BEGIN", BAD, "COMMIT"),
                "group": [group("BEGIN", BAD, "COMMIT"), [*one(BAD), H], [S]],
                "function": [[Q("SELECT app.wr(@N@)")], group("SELECT app.wr(@N@)")],
            }.items():
                yield Row(
                    "9",
                    f"{name}, {claim}, then {after}",
                    [*path, *warm, *trick, *steps, *trick, *steps],
                    claim=claim,
                    roles=("maker", "write"),
                    setup=made,
                )
            yield Row(
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
    # By its own cancel key and process number, by a guess: everything is deallocated by name in one DO.
    yield Row(
        "9",
        "all names by SQL",
        [*each(BAD, "SELECT name FROM pg_prepared_statements", "DEALLOCATE ALL", BAD), group(BAD)],
        roles=("maker", "write"),
    )
    yield Row(
        "9",
        "search_path hides termgate",
        [*each("CREATE TEMP TABLE x (i int)", "SET search_path = made, pg_temp", BAD), group(BAD)],
        roles=("maker", "write"),
    )


def rows():
    parts = (
        finding_1,
        finding_2,
        finding_3,
        finding_8,
        finding_9,
        finding_13,
        finding_s2,
        finding_s4,
        undeclared,
        alone_in_a_pipeline,
        planning,
        parsing,
        left_over,
        read_before,
        skipped_ends,
        own_names,
        portals_and_texts,
        read_otherwise,
        renamed,
        at_once,
        rightful,
        transparent,
    )
    return [row for part in parts for row in part()]
