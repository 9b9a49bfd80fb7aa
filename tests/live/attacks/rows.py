# Long: the table of attacks.
"""The attacks that a single session makes, each finding of a review with its kind of variants. What tests/unit/proxy shows of one
decision is here in front of a real server, which says what was committed."""
import itertools
from functools import partial

from rig import ALONE, B, D, E, FENCE, FORMS, H, OTHER, P, PLAIN, Q, Row, S, STALE, copy_in, group, one, pick

BAD = "INSERT INTO app.t (n, v) VALUES (@N@, 'bad')"
GOOD = "INSERT INTO app.t (n, v) VALUES (@N@, 'good')"
EVERY = ("reject", "read-only", "allow")
# Answered as a direct connection answers it.
works = partial(Row, expect="works", claim="current", same=True)
# Attacks of a session that declares B, a stale term of A, a term of A that passes.
of_b, of_stale, of_current = (partial(Row, claim=claim) for claim in ("other", "stale", "current"))

SET_A = ["SET LOCAL termgate.scope = '@A@'", f"SET LOCAL termgate.term = {STALE}"]
SET_B = ["SET LOCAL termgate.scope = '@B@'", f"SET LOCAL termgate.term = {OTHER}"]
NAMES_A, NAMES_B = (f"/*termgate.scope='{scope}',termgate.term='{term}'*/ " for scope, term in (("@A@", STALE), ("@B@", OTHER)))


def each(*sqls):
    return [[Q(sql)] for sql in sqls]


def without(finding, name, steps, **more):
    """An attack without a claim, and the same under a stale one."""
    for claim in ("none", "stale"):
        yield Row(finding, f"{name}, {claim}", steps, claim=claim, **more)


def sealed(bench, n):
    """A step: from here on the session's claim is stale."""
    bench.ask(f"SELECT termgate.seal('a{n}', 7, '50 ms')")


# --- ways to write: those that look like reads, and the plain ones ---
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
INSIDE = ("functions", "one function", "DO", "CALL")


def usable(forms, *names):
    """Those of the forms in which these statements can be sent."""
    unfit = ("PREPARE", "portals", "two-phase", "named", "a portal, row by row", "extended, described and flushed", *INSIDE)
    return [form for form in forms if not (NOT_PREPARED & set(names) and form in unfit)]


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
    "check_term, quoted": f'SELECT "termgate"."check_term"(scope => \'@B@\', term => {OTHER})',
    "check_session": f"SELECT termgate.check_session('@B@', {OTHER})",
    "append": f"SELECT termgate.append('stream@N@', {OTHER}, 'x', scope => '@B@')",
    "append_many": f"SELECT termgate.append_many('stream@N@', {OTHER}, ARRAY['x'::bytea], scope => '@B@')",
}
LEAD_CHECKS = {
    "seal": f"SELECT termgate.seal('@B@', {OTHER})",
    "seal that raises": f"SELECT termgate.seal('@B@', {OTHER + 1})",
    "acquire_lease": "SELECT termgate.acquire_lease('lease@N@', 'me', interval '1 min')",
}


def beside_calls():
    """1 and 13: what a call of layer 1 stands beside is checked by itself."""
    orders = {
        "in front": lambda call, write: [call, write],
        "after": lambda call, write: [write, call],
        "around": lambda call, write: [call, write, call],
    }
    calls = {**CALLS, **LEAD_CALLS, **CHECKS, **LEAD_CHECKS}
    for (name, call), (where, order) in itertools.product(calls.items(), orders.items()):
        checks, leads = name in CHECKS or name in LEAD_CHECKS, name in LEAD_CALLS or name in LEAD_CHECKS
        roles = ("lead", "operate") if leads else ("write", "lead", "operate", "maker")
        for writer in pick(WRITERS, f"{name} {where}", 2):
            for form in pick(usable(PLAIN, writer), f"{name} {where} {writer}", 2):
                title, steps = f"{name} {where} of {writer}, {form}", FORMS[form](order(call, WRITERS[writer]))
                if checks:
                    yield of_stale("13", title, steps, roles=roles)
                else:
                    yield from without("1", title, steps, roles=roles)
    for form in ALONE:
        yield Row("1", f"in one statement, {form}", ALONE[form]("SELECT app.wr(@N@) FROM (SELECT termgate.job_finish(0, 'failed')) x"))
        yield Row("1", f"an argument that writes, {form}", ALONE[form]("SELECT termgate.job_finish(app.wr(@N@), 'failed')"))


# --- declaring inside of a transaction, everywhere that a client can; how each is spelt is in tests/unit/proxy/statements ---
def pair(scope, term, local="true"):
    return f"set_config('termgate.scope', '{scope}', {local}), set_config('termgate.term', '{term}', {local})"


def declarers(scope, term):
    both = pair(scope, term)
    by_scope, by_term = f"set_config('termgate.scope', '{scope}', true)", f"set_config('termgate.term', '{term}', true)"
    return {
        "set_config": [f"SELECT {both}"],
        "set_config for the session": [f"SELECT {pair(scope, term, 'false')}"],
        "set_config twice": [f"SELECT {by_scope}", f"SELECT {by_term}"],
        "set_config, qualified": [f"SELECT pg_catalog.{by_scope}, \"pg_catalog\".\"set_config\"('termgate.term', '{term}', true)"],
        "SET LOCAL": [f"SET LOCAL termgate.scope = '{scope}'", f"SET LOCAL termgate.term = '{term}'"],
        "SET": [f"SET termgate.scope TO '{scope}'", f"SET termgate.term TO {term}"],
        "SET with comments": [f"SET /* x */ LOCAL termgate /* y */ . scope = '{scope}'", f"SET LOCAL -- x\n termgate.term = '{term}'"],
        "the term alone": [f"SET LOCAL termgate.scope = '{scope}'", f"SELECT {by_term}"],
        # From here on no text says what is declared.
        "set_config, escapes": [
            f"SELECT set_config(E'termgate.\\x73cope', '{scope}', true), set_config(U&'termgate.\\0074erm', '{term}', true)"
        ],
        "set_config, put together": [
            f"SELECT set_config('termgate.' || 'scope', '{scope}', true), set_config(concat('term', 'gate.term'), '{term}', true)"
        ],
        "set_config, row by row": [
            f"SELECT set_config(k, x, true) FROM (VALUES ('termgate.scope', '{scope}'), ('termgate.term', '{term}')) v(k, x)"
        ],
        "set_config, subselect": [f"SELECT 1 WHERE (SELECT {by_scope}) IS NOT NULL AND (SELECT {by_term}) <> ''"],
        "set_config, CTE": [f"WITH x AS MATERIALIZED (SELECT {both}) SELECT * FROM x"],
        "set_config, ORDER BY": [f"SELECT 1 FROM (VALUES (1), (2)) v(i) ORDER BY {both}"],
        "INSERT of set_config": [f"INSERT INTO app.scratch (v) SELECT {by_scope} || {by_term}"],
        "RETURNING set_config": [f"INSERT INTO app.scratch (v) VALUES ('x') RETURNING {both}"],
        "COPY of set_config": [f"COPY (SELECT {both}) TO STDOUT"],
        "EXPLAIN ANALYZE of set_config": [f"EXPLAIN ANALYZE SELECT {both} FROM generate_series(1, 2)"],
        "cursor": [f"DECLARE c CURSOR FOR SELECT {both}", "FETCH c"],
        "EXECUTE with parameters": [
            "PREPARE d@N@(text, text) AS SELECT set_config('termgate.scope', $1, true), set_config('termgate.term', $2, true)",
            f"EXECUTE d@N@('{scope}', '{term}')",
        ],
        "CREATE TEMP TABLE AS": [f"CREATE TEMP TABLE d@N@ AS SELECT {both.replace('), set', ') AS a, set')} AS b"],
        "DO": [f"DO $d$ BEGIN PERFORM {both}; END $d$"],
        "DO with SET": [f"DO $d$ BEGIN SET LOCAL termgate.scope = '{scope}'; SET LOCAL termgate.term = '{term}'; END $d$"],
        "function": [f"SELECT app.declare('{scope}', '{term}')"],
        "function for the session": [f"SELECT app.declare('{scope}', '{term}', false)"],
        "dynamic function": [f"SELECT app.run('SET LOCAL termgate.scope = ''{scope}''; SET LOCAL termgate.term = ''{term}''')"],
        "CALL": [f"CALL app.declaring('{scope}', '{term}')"],
    }


# These can be read off the text, so they must also work for the rightful one.
RIGHTFUL = tuple(itertools.takewhile(lambda name: name != "set_config, escapes", declarers("", "")))


def declarable(forms, name):
    """PREPARE takes what it can plan, a function what it may do, an atomic form no cursor of another statement."""
    unfit = {
        "PREPARE": ("cursor", "EXECUTE", "EXPLAIN", "COPY", "CREATE", "DO", "CALL", "SET", "the term"),
        "two-phase": ("CREATE", "cursor"),
        **dict.fromkeys(INSIDE, ("COPY of", "EXPLAIN")),
        **dict.fromkeys(("portals", "named", "group, described"), ("EXECUTE with", "cursor")),
        **dict.fromkeys(("group", "flushed"), ("cursor",)),
    }
    return [form for form in forms if not name.startswith(unfit.get(form, ("-",)))]


BOTH_BY_PARAMETERS = "SELECT set_config('termgate.scope', $1, true), set_config('termgate.term', $2, true)"


def declared_anew():
    """2: the session declares B, which is valid; the transaction declares A, which is stale."""
    for name, declare in declarers("@A@", STALE).items():
        for form in dict.fromkeys([*declarable(("block", "text", "group"), name), *pick(declarable(FORMS, name), f"2 {name}", 4)]):
            for before in ((), (GOOD,)):
                writer = "INSERT" if form in ("block", "text") else pick(WRITERS, f"2 {name} {form} {before}", 1)[0]
                if usable([form], writer):
                    title = f"{name}, {form}, {writer}{', after a write' if before else ''}"
                    yield of_b("2", title, FORMS[form]([*before, *declare, WRITERS[writer]]))
        for form in pick(declarable(PLAIN, name), f"2 none {name}", 2):
            yield Row("2", f"{name}, {form}, no default", FORMS[form]([*declare, BAD]), modes=EVERY)
        form = pick(declarable(PLAIN, name), f"2 last {name}", 1)[0]  # the last claim in force counts
        yield of_b("2", f"{name} after the write, {form}", FORMS[form]([BAD, *declare]))
    stale = pair("@A@", STALE)
    for name, sql in {
        "declares and writes in one function": f"SELECT app.declare_and_write('@A@', '{STALE}', @N@)",
        "declares and writes in one statement": f"SELECT {stale}, app.wr(@N@)",
        "writes and declares in one statement": f"SELECT app.wr(@N@), {stale}",
        "RETURNING declares": f"{BAD} RETURNING {stale}",
        "a CTE writes, the rest declares": f"WITH x AS ({BAD} RETURNING 1) SELECT {stale} FROM x",
    }.items():
        for form in ALONE:
            yield of_b("2", f"{name}, {form}", ALONE[form](sql))
    values, sql = ("@A@", str(STALE)), BOTH_BY_PARAMETERS
    by_name = [
        message
        for pair_of in zip(("termgate.scope", "termgate.term"), values)
        for message in one("SELECT set_config($1, $2, true)", pair_of)
    ]
    for name, steps in {
        "block": [[Q("BEGIN")], [*one(sql, values), S], *each(BAD, "COMMIT")],
        "one group": [[*one(sql, values), *one(BAD), S]],
        "named, after a write": [[P("d", sql), S], *each("BEGIN", GOOD), [B("", "d", values), E(), S], group(BAD), [Q("COMMIT")]],
        "for the name too": [[Q("BEGIN")], [*by_name, S], *each(BAD, "COMMIT")],
        "Flush, portal": [[P("d", sql), B("p", "d", values), E("p", 1), H], [*one(BAD), S]],
    }.items():
        yield of_b("2", f"parameters, {name}", steps)
    for term in ("x", 0, 2**62 + 1, -9, "9.0"):
        for form, before in itertools.product(("block", "text", "group", "flushed", "chain"), ((), (GOOD,))):
            title = f"malformed term {term}, {form}{', after a write' if before else ''}"
            yield of_b("2", title, FORMS[form]([*before, f"SELECT {pair('@B@', term)}", BAD]))
    # A triggers' moment: SET CONSTRAINTS runs what was written before, under the claim that is in force then.
    write, now = "INSERT INTO app.late VALUES (@N@)", "SET CONSTRAINTS ALL IMMEDIATE"
    for form in ("block", "extended block", "group with BEGIN", "text with BEGIN"):
        yield of_b("2", f"SET CONSTRAINTS between two claims, {form}", FORMS[form]([write, *SET_A, now, *SET_B]))
        yield of_b("2", f"SET CONSTRAINTS with a stale comment, {form}", FORMS[form]([write, NAMES_A + now]))


def rightful():
    """What must work: a current term, declared as documented, answered as a direct connection answers it."""
    outside = ("group", "flushed", "named", "group, described")  # SET LOCAL warns and is gone, on the server too
    chained = ("chain", "chained out of a savepoint", "chained out of a failed block", "PREPARE")
    for name, term in itertools.product(RIGHTFUL, (FENCE, FENCE + 1)):
        forms = [form for form in declarable(PLAIN, name) if form != "savepoint rolled back"]
        if name in ("SET LOCAL", "SET with comments", "the term alone"):
            forms = [form for form in forms if form not in outside]
        if term > FENCE:
            # A raise that is newer than the snapshot is a serialization error, and what has notified cannot be prepared.
            forms = [form for form in forms if form not in ("block, repeatable read", "block, serializable", "two-phase")]
        first = [form for form in ("block", "text", "text with BEGIN", "group") if form in forms]
        for form in dict.fromkeys([*first, *pick(forms, f"right {name} {term}", 4)]):
            # COMMIT PREPARED is a write behind the end of the declaration; under `reject` nothing runs before it either.
            modes = ("allow",) if form == "two-phase" else ("read-only", "allow") if form in chained else None
            steps, same = FORMS[form]([*declarers("@A@", term)[name], GOOD]), form not in ("named", "two-phase")
            yield works("2 rightful", f"{name} term {term}, {form}", steps, claim="none", same=same, modes=modes)
    for name, form in itertools.product(RIGHTFUL[:4], ("block", "group", "text", "extended block", "savepoint")):
        a, b = declarers("@A@", FENCE)[name], declarers("@B@", OTHER)[name]
        yield works("2 rightful", f"from B to A by {name}, {form}", FORMS[form]([GOOD, *a, GOOD]), claim="other", good=2)
        yield works("2 rightful", f"A in place of a stale default by {name}, {form}", FORMS[form]([*b, GOOD]), claim="stale")
    sql = BOTH_BY_PARAMETERS
    for claim, scope, term in (("none", "@A@", FENCE), ("none", "@A@", FENCE + 1), ("stale", "@B@", OTHER), ("other", "@A@", FENCE)):
        values = (scope, str(term))
        twice = [step for _ in range(2) for step in ([Q("BEGIN")], [B("", "d", values), E(), S], group(GOOD), [Q("COMMIT")])]
        for name, steps in {
            "JDBC's way": [[*one("BEGIN"), *one(sql, values), S], group(GOOD), group("COMMIT")],
            "one group": [[*one(sql, values), *one(GOOD), S]],
            "named statement, twice": [[P("d", sql), S], *twice],
            "pipelined": [[*group("BEGIN"), *one(sql, values), S, *group(GOOD), *group("COMMIT")]],
            "flushed": [[*one("BEGIN"), H], [*one(sql, values), H], [*one(GOOD), H], [*one("COMMIT"), H], [S]],
        }.items():
            good, same = 2 if "twice" in name else 1, name != "flushed"
            yield works("2 rightful", f"parameters, {name}, {claim} to {scope} {term}", steps, claim=claim, good=good, same=same)
    # For the session, outside of a block: the next transaction has it.
    for (name, declare, modes), form in itertools.product(
        (
            ("set_config", f"SELECT {pair('@A@', FENCE, 'false')}", None),
            ("function", f"SELECT app.declare('@A@', '{FENCE}', false)", ("read-only", "allow")),
            ("DO", f"DO $d$ BEGIN PERFORM {pair('@A@', FENCE, 'false')}; END $d$", ("allow",)),  # READ ONLY does not stop DO
        ),
        ("simple", "extended"),
    ):
        steps = [*ALONE[form](declare), *ALONE[form](GOOD), *each("BEGIN", GOOD, "COMMIT")]
        yield works("2 rightful", f"session by {name}, {form}", steps, claim="none", good=2, same=name != "DO", modes=modes)
    for form, place, claim in itertools.product(("simple", "extended", "extended, flushed"), ("front", "end"), ("none", "stale")):
        sql = commented(GOOD, place, "@B@", OTHER)
        yield works("3 rightful", f"a valid comment at the {place}, {form}, {claim}", ALONE[form](sql), claim=claim)
    for form in ("block", "text with BEGIN", "extended block", "group with BEGIN", "pipelined", "savepoint"):
        steps = FORMS[form]([f"SELECT termgate.check_term('@A@', {FENCE})", GOOD])
        yield works("13 rightful", f"check_term, then a write, {form}", steps, claim="none")


def transparent():
    """11 and 12: what a client sees, nothing twice and nothing missing, each against a direct connection."""
    announcing = {
        "NOTICE": "SELECT app.noticed(@N@)",
        "WARNING and INFO": "SELECT app.warned(@N@)",
        "NOTICE in a view": "SELECT n FROM app.noticing",
        "NOTICE in a domain": "SELECT (@N@::bigint)::app.noticed_domain",
        "NOTICE in a CTE": "WITH x AS (SELECT app.noticed(@N@) AS a) SELECT a FROM x",
        "NOTICE in COPY": "COPY (SELECT app.noticed(@N@)) TO STDOUT",
        "NOTICE in DO": "DO $x$ BEGIN RAISE NOTICE 'do'; PERFORM app.noticed(@N@); END $x$",
        "INSERT RETURNING": GOOD + " RETURNING n, v",
        "CTE that inserts": "WITH x AS (" + GOOD + " RETURNING v) SELECT v FROM x",
    }
    for name, sql in announcing.items():
        kind, learned = {"NOTICE in COPY": "COPY TO", "NOTICE in DO": "DO"}.get(name, "INSERT"), name == "NOTICE in a view"
        for form in usable(("simple", "extended", "extended, flushed", "extended, described and flushed"), kind):
            yield works("11", f"{name}, {form}", ALONE[form](sql), learned=learned)
        for form in pick(usable(PLAIN, kind), f"11 {name}", 5):
            yield works("11", f"{name}, {form}", FORMS[form]([sql, "SELECT 1"]), learned=learned)
    counting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND pid = pg_backend_pid() AND objid = @N@"
    undo = "SELECT pg_advisory_unlock(@N@)"
    for name, sql in {
        "lock": "SELECT app.locked(@N@)",
        "lock in a subselect": "SELECT (SELECT app.locked(@N@))",
        "lock in a CTE": "WITH x AS MATERIALIZED (SELECT app.locked(@N@) AS l) SELECT l FROM x",
    }.items():
        # After one unlock it is free: the second one is answered with a warning, once.
        for form in ("simple", "extended", "extended, flushed"):
            yield works("11", f"{name}, {form}", [*ALONE[form](sql), *each(counting, undo, undo, counting)])
        yield works("11", f"{name}, in a block", each("BEGIN", sql, "COMMIT", counting, undo, undo))
    for name, sql, good in (
        ("DO ALSO SELECT", "INSERT INTO app.also VALUES (@N@, 'x')", 0),
        ("DO INSTEAD SELECT", "INSERT INTO app.instead VALUES (@N@, 'x')", 0),
        ("DO ALSO SELECT, update", "UPDATE app.also_all SET v = 'kept'", 0),
        ("DO ALSO of several", "INSERT INTO app.two VALUES (@N@, 'x')", 1),
        ("DO INSTEAD of several", "INSERT INTO app.instead_two VALUES (@N@, 'x')", 1),
        ("DO INSTEAD with RETURNING", "INSERT INTO app.instead_two VALUES (@N@, 'x') RETURNING n, v", 1),
    ):
        for form in ("simple", "extended", "extended, described and flushed", "a portal, row by row"):
            yield works("12", f"{name}, {form}", ALONE[form](sql), good=good)
        for form in ("text", "text with BEGIN", "block", "group", "pipelined", "PREPARE", "comments", "mixed"):
            yield works("12", f"{name}, {form}", FORMS[form](["SELECT 'before'", sql, "SELECT 'after'"]), good=good)


# --- comments ---
def comments(sql, scope="@A@", term=STALE):
    comment = f"/*termgate.scope='{scope}',termgate.term='{term}'*/"
    return {
        "front": f"{comment} {sql}",
        "end": f"{sql} {comment}",
        "after a comment": f"/* x */ -- y\n {comment} {sql}",
        "in front of a semicolon": f"{sql}{comment};",
        "among others": f"/*app='x',termgate.term='{term}',termgate.scope='{scope}',z='1'*/ {sql}",
    }


def commented(sql, place, *claim):
    return comments(sql, *claim)[place]


PLACES = tuple(comments(""))


def in_comments():
    """3 and S4: the session declares B, which is valid; the statement's comment names A, which is stale."""
    for writer, sql in WRITERS.items():
        for form in dict.fromkeys(["extended", "extended, flushed", "simple", *pick(usable(ALONE, writer), f"3 {writer}", 2)]):
            place = pick(PLACES, f"3 {writer} {form}", 1)[0]
            yield of_b("3", f"{writer}, comment {place}, {form}", ALONE[form](commented(sql, place)))
        for form in dict.fromkeys(["block", "group", *pick(usable(PLAIN, writer), f"3 forms {writer}", 3)]):
            if form != "comments":
                place = pick([p for p in PLACES if "semicolon" not in p], f"3 {writer} {form}", 1)[0]
                yield of_b("3", f"{writer} after a write, comment {place}, {form}", FORMS[form]([GOOD, commented(sql, place)]))
    wr = commented("SELECT app.wr(@N@)", "front")
    stream = [P("n", commented("SELECT * FROM app.rows(@N@, 'bad')", "end")), B("p", "n"), E("p", 1), H]
    copied = [copy_in("@N@\tbad\n")]
    for name, steps in {
        "a named statement, in a later transaction": [
            [P("n", wr), S],
            group("SELECT 1"),
            [B("", "n"), E(), S],
            *each("BEGIN", GOOD),
            [B("", "n"), E(), S],
            [Q("COMMIT")],
        ],
        "a named statement, refused once": [[P("n", wr), S], [B("", "n"), E(), S], [*one(GOOD), B("", "n"), E(), S]],
        "a portal bound in front of another's check": [
            [Q("BEGIN")],
            [P("n", wr), B("p", "n"), H],
            [*one(GOOD), H],
            [E("p"), S],
            [Q("COMMIT")],
        ],
        "a suspended portal": [[Q("BEGIN")], stream, [E("p", 0), S], [Q("COMMIT")]],
        "PREPARE with the comment": each(NAMES_A + "PREPARE p AS SELECT app.wr(@N@)", NAMES_A + "EXECUTE p"),
        "a cursor with the comment on FETCH": each(
            "BEGIN", GOOD, NAMES_A + "DECLARE c CURSOR FOR SELECT app.wr(@N@)", NAMES_A + "FETCH c", "COMMIT"
        ),
        "two commented ones in one group": [[*one(NAMES_B + "SELECT app.wr(@N@)"), *one(wr), S]],
        "a stale one, Flush, a valid one": [[*one(wr), H], [*one(GOOD), S]],
        "COPY with the comment": [[Q(NAMES_A + "COPY app.t (n, v) FROM STDIN"), *copied]],
        "COPY with the comment, after a write": [
            *each("BEGIN", GOOD),
            [Q(commented("COPY app.t (n, v) FROM STDIN", "end")), *copied],
            [Q("COMMIT")],
        ],
    }.items():
        yield of_b("3", name, steps)
    for place in PLACES:  # no default at all: the comment is the only claim, and stale
        yield Row("3", f"function, comment {place}, no default", ALONE["extended"](commented("SELECT app.wr(@N@)", place)), modes=EVERY)
    for writer in ("INSERT", "function", *pick(WRITERS, "s4", 4)):
        bad = WRITERS[writer]
        for name, text in {
            "between": f"{GOOD}; {NAMES_A} {bad}",
            "between, as the end of the first": f"{bad} {NAMES_A}; {GOOD}",
            "after the last": f"{GOOD}; {bad} {NAMES_A}",
            "in BEGIN and COMMIT": f"BEGIN; {GOOD}; {NAMES_A} {bad}; COMMIT",
            "after an empty one": f"{GOOD}; ; {NAMES_A} ; {NAMES_A} {bad}",
            "after SET": f"SET work_mem = '4MB'; {NAMES_A} {bad}",
            "on the first of two": f"{NAMES_A} {bad}; {GOOD}",
            "after a read": f"SELECT 1; {NAMES_A} {bad}",
            "both differ": f"{NAMES_B} {GOOD}; {NAMES_A} {bad}",
        }.items():
            yield of_b("S4", f"{name}, {writer}", [[Q(text)]])


def beside_others():
    """S2: what else a session does before and between makes a stale comment no better."""
    for call in (
        "SELECT setval('app.t_id_seq', nextval('app.t_id_seq'))",
        "SELECT app.notice_only()",
        "SELECT current_setting('termgate.term')",
        "DO $x$ BEGIN PERFORM 1; END $x$",
        "SELECT set_config('work_mem', '4MB', false)",
        "SET work_mem = '5MB'",
        "DISCARD PLANS",
        "SELECT count(*) FROM app.ids WHERE n < 3",
        "RESET ALL",
    ):
        for writer in ("INSERT", *pick(WRITERS, f"s2 {call}", 1)):
            bad = NAMES_A + WRITERS[writer]
            yield of_b("S2", f"{call}, then {writer} in a block after a write", each(call, "BEGIN", GOOD, bad, "COMMIT"))
            yield of_b("S2", f"{call} extended, then {writer} in a group after a write", [group(call), [*one(GOOD), *one(bad), S]])
            yield of_b("S2", f"{call} in the block, then {writer}", [*each("BEGIN", call, GOOD), group(bad), [Q("COMMIT")]])
            yield of_b("S2", f"{call} after the write, then {writer}", each("BEGIN", GOOD, call, bad, "COMMIT"))


def undeclared():
    """5.4: a declaration that is taken back, or has become stale, or was made by ALTER ROLE and DATABASE. 5.2: by the start."""
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
    }.items():
        for form in ALONE:
            writer = pick(WRITERS, f"u {name} {form}", 1)[0]
            if usable([form], writer):
                yield Row("5.4", f"{name}, then {writer}, {form}", [*each(declare, GOOD, *back), *ALONE[form](WRITERS[writer])])
        if name != "DISCARD ALL":
            ends = each("BEGIN", f"SELECT {pair('@A@', FENCE)}", GOOD, "COMMIT AND CHAIN", *back, BAD, "COMMIT", BAD)
            yield Row("5.4", f"SET LOCAL ends with its transaction, {name}", ends)
            local = ["SET LOCAL termgate.scope = '@A@'", f"SET LOCAL termgate.term = {FENCE}"]
            for writer in ("INSERT", "function"):
                steps = each("BEGIN", *local, GOOD, *back, WRITERS[writer], "COMMIT")
                yield Row("5.4", f"taken back in its block by {name}, {writer}", steps)
    for writer in WRITERS:
        yield of_current("5.4", f"stale between transactions, {writer}", [[Q(GOOD)], sealed, [Q(WRITERS[writer])], group(WRITERS[writer])])
    start = [("application_name", f"termgate.scope=@A@;termgate.term={STALE};")]
    for form, writer in itertools.product(("simple", "extended", "extended, flushed", "twice"), ("INSERT", "function")):
        yield Row("5.2", f"application_name, {writer}, {form}", ALONE[form](WRITERS[writer]), start=start, modes=EVERY)
    for scope, term in (
        ('SET "termgate"."scope" = \'@A@\'', f'SET "termgate"."term" = {STALE}'),
        ("SET termgate . scope = '@A@'", f"SET termgate/* x */.term = {STALE}"),
    ):
        for form in ("block", "text", "group", "text with BEGIN"):
            yield Row("5.2", f"{scope.replace('@A@', 'A')}, {form}", FORMS[form]([scope, term, BAD]), modes=EVERY)
    for target in ("ROLE a_write", "DATABASE postgres", "ROLE a_write IN DATABASE postgres"):
        back = lambda bench, n, target=target: bench.ask(f"ALTER {target} RESET termgate.scope; ALTER {target} RESET termgate.term")
        for term, form in itertools.product((FENCE, STALE, FENCE + 1, "x"), ("simple", "extended", "twice")):
            setup = [f"ALTER {target} SET termgate.scope = '@A@'; ALTER {target} SET termgate.term = '{term}'"]
            right = term in (FENCE, FENCE + 1)
            steps, kind = [back, *ALONE[form](GOOD if right else BAD)], "works" if right else "refused"
            good = 2 if form == "twice" else 1
            yield Row("5.4", f"ALTER {target}, {term}, {form}", steps, kind, roles=("write",), modes=EVERY, good=good, setup=setup)


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
# Code that runs without an Execute: a Parse reads literals, whose domains have a CHECK; a Bind plans, and reads parameters.
EARLY = {
    "Parse of an array's literal": ("SELECT '{@N@}'::app.checked[]", []),
    "Parse of a composite's literal": ("SELECT '(@N@)'::app.composed", []),
    "Parse of a range's literal": ("SELECT '[@N@,@N@]'::app.ranged", []),
    "Parse of a column's type": ("INSERT INTO app.arrays VALUES ('{@N@}')", []),
    "Parse of what is compared with a column": ("SELECT 1 FROM app.arrays WHERE a = '{@N@}'", []),
    "Parse of set_config": ("SELECT set_config('termgate.scope', ('{@N@}'::app.checked[])[1]::text, true)", []),
    "Parse of check_term": ("SELECT termgate.check_term('@B@', ('{@N@}'::app.checked[])[1]::bigint)", []),
    "Parse and Describe of a literal": ("SELECT '{@N@}'::app.checked[]", [D("S")]),
    "Bind of an immutable function": ("SELECT app.planned(@N@)", [B()]),
    "Bind of an immutable function in WHERE": ("SELECT 1 FROM app.ids WHERE n = app.planned(@N@)", [B()]),
    "Bind of a domain": ("SELECT $1::app.checked", [B("", "", ("@N@",))]),
    "Bind of an INSERT of a domain": ("INSERT INTO app.scratch SELECT $1::app.checked, 'x'", [B("", "", ("@N@",))]),
    "Bind and Describe": ("SELECT app.planned(@N@)", [D("S"), B(), D("P")]),
}


def early():
    for (name, (sql, after)), (behind, steps) in itertools.product(EARLY.items(), BEHIND.items()):
        run = [P("", sql), *after]
        executes = [E()] if name.startswith("Bind") else [B(), E()]
        for end, last in {"": [S], "flushed ": [H, S], "executed ": [*executes, S]}.items():
            yield from without("1", f"{end}{name} behind {behind}", [*steps, [*run, *last], [Q("COMMIT")]])
    for name, (sql, after) in EARLY.items():
        run, stale = [P("", sql), *after], [P("", NAMES_A + sql), *after]
        yield of_b("1", f"{name} between two claims", [*each("BEGIN", "SELECT 1", *SET_A), [*run, S], *each(*SET_B, "COMMIT")])
        yield Row("1", f"{name} behind SET LOCAL in its group", [group(*SET_A)[:-1] + [*run, S]], modes=EVERY)
        yield Row("1", f"{name} with a stale comment", [[*stale, S]], modes=EVERY)
        yield of_b("1", f"{name} with a stale comment before SET", [[*stale, *one("SET work_mem = '4MB'"), S]])
        yield of_b("1", f"{name} with a stale comment before a write", [[*stale, *one(NAMES_B + GOOD), S]])
        chained = each("BEGIN", "SELECT 1", "COMMIT AND CHAIN")
        yield of_current("1", f"{name} in a chained block of a claim that has become stale", [*chained, sealed, [*run, S], [Q("COMMIT")]])
        for alone in ("CALL app.execute('SELECT 1')", "VACUUM app.t"):
            yield from without(
                "1", f"{name} before {alone.split()[0]} of another claim in one pipeline", [[*run, *one(NAMES_B + alone), S]]
            )
    # What must run alone takes a lock in front of its pipeline: what stands there already, in a transaction that has ended, has no part
    # in it.
    alone = ("CALL app.execute('SELECT 1')", "DO $x$ BEGIN PERFORM 1; END $x$", "VACUUM app.t", GOOD)
    ends = (["COMMIT"], ["ROLLBACK"], ["BEGIN", "COMMIT"], ["COMMIT", "COMMIT"], [], ["SET work_mem = '4MB'", "COMMIT"])
    for claim, last, between in itertools.product(("none", "other"), alone, ends):
        writer = pick(usable_reads(), f"alone {claim} {last} {between}", 1)[0]
        sqls = [(NAMES_A if claim == "other" else "") + HIDDEN[writer], *between, NAMES_B + last]
        title = f"{writer}, {' and '.join(between) or 'nothing'}, {last.split()[0]} in one pipeline, {claim}"
        yield Row("2", title, [group(*sqls)], claim=claim)
        parsed = [P(f"a{i}", sql) for i, sql in enumerate(sqls)]
        bound = [message for i in range(len(sqls)) for message in (B("", f"a{i}"), E())]
        yield Row("2", f"{title}, prepared before", [[*parsed, S], [*bound, S]], claim=claim)
    # What code declares between a Parse and its Bind, or a Bind and its Execute, is in force.
    declares = [Q(f"SELECT app.run('SELECT app.declare_and_write(''@A@'', ''{STALE}'', @N@)')")]
    for name, steps in {
        "SET LOCAL between a Bind and its Execute": [[P("s", BAD), B("p", "s"), S], *each(*SET_A), [E("p"), S]],
        "code between a Bind and its Execute": [[P("s", "SELECT $1::text"), B("p", "s", ("1",)), S], declares, [E("p"), S]],
        "code between a Parse and its Bind": [[P("s", "SELECT app.run('SELECT 1')"), S], declares, [B("", "s"), E(), S]],
    }.items():
        yield of_b("2", name, [[Q("BEGIN")], *steps, [Q("COMMIT")]])


def usable_reads():
    return [name for name in HIDDEN if name not in NOT_PREPARED]


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
        "a write of another claim": each("RELEASE a", NAMES_B + GOOD, "COMMIT"),
    }
    for (name, sql), (end, last) in itertools.product(leaves.items(), ends.items()):
        for how, step in {"simple": [Q(sql)], "extended": group(sql)}.items():
            steps = [*each("BEGIN", "SAVEPOINT a"), step, *last]
            if end == "a write of another claim":
                yield of_stale("1", f"{name}, {how}, then {end}", steps)
                continue
            yield from without("1", f"{name}, {how}, ended by {end}", steps)
            yield of_current("1", f"{name}, {how}, ended by {end}, a claim that has become stale", [[Q(GOOD)], sealed, *steps])
    late = each(
        "CREATE TEMP TABLE kept (n bigint)",
        "CREATE FUNCTION pg_temp.writes() RETURNS trigger LANGUAGE plpgsql AS $x$ BEGIN PERFORM app.wr(NEW.n); RETURN NULL; END $x$",
        "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON kept DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pg_temp.writes()",
    )
    for last in (["COMMIT"], ["RELEASE a", "COMMIT"], ["RELEASE a", "SET CONSTRAINTS ALL IMMEDIATE", "COMMIT"]):
        steps = [*late, sealed, *each("BEGIN", "SAVEPOINT a", "SELECT app.run('INSERT INTO kept VALUES (@N@)')", *last)]
        yield of_current("1", f"a deferred trigger of a temporary table, {' and '.join(last)}", steps)


def skipped():
    """What stands behind an error in its pipeline was not even read: neither an end of the block or of a savepoint, nor READ ONLY."""
    behind = {
        **{end: [end] for end in ("COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "PREPARE TRANSACTION 'attack @N@'")},
        "RELEASE": ["RELEASE a", "SELECT 1"],
        "RELEASE and a savepoint": ["RELEASE a", "SELECT 1", "SAVEPOINT b"],
        "a read": ["SELECT 1"],
        "two savepoints": ["SAVEPOINT b", "SELECT 1", "RELEASE b"],
        "ROLLBACK TO": ["ROLLBACK TO a", "SELECT 1"],
    }
    start, held = each("BEGIN", "SAVEPOINT a"), "SELECT app.run('DECLARE held CURSOR WITH HOLD FOR SELECT app.wr(@N@)')"
    for (name, texts), error in itertools.product(behind.items(), ("SHOW no.such", "SELEC", "SELECT 1/0")):
        failed, title = group(error, *texts), f"{name} behind {error}"
        for writer in ("function", "view", "INSERT"):
            sql = WRITERS[writer]
            yield from without("1", f"{title}, then {writer}", [*start, failed, *each("ROLLBACK TO a", sql, "COMMIT")])
            at_once = [*failed, *group("ROLLBACK TO a"), *group(sql), *group("COMMIT")]
            yield Row("1", f"{title}, then {writer}, all at once", [*start, at_once])
            steps = [*each("BEGIN", "SAVEPOINT a", GOOD), failed, [Q("ROLLBACK TO a")], sealed, *each(sql, "COMMIT")]
            yield of_current("1", f"{title}, then {writer}, a claim that has become stale", steps)
        cursor = each("ROLLBACK TO a", "RELEASE a", "SELECT 1", "SAVEPOINT a", held, "COMMIT")
        yield from without("1", f"{title}, then a cursor WITH HOLD behind RELEASE", [*start, failed, *cursor])
        steps = [*each("BEGIN", "SELECT app.claims(@N@)", "SAVEPOINT a"), failed, *each("ROLLBACK TO a", "COMMIT")]
        yield of_b("2", f"{title}, after code that declares", steps)


def readers():
    """6: who only reads commits as without us; and a leader's block in unusual order."""
    read = "SELECT count(*) FROM app.scratch"
    inside = {
        "a read": each(read),
        "two savepoints": each(read, "SAVEPOINT b", read, "RELEASE b"),
        "RELEASE and a read": each(read, "RELEASE a", read),
        "ROLLBACK TO and a read": each(read, "ROLLBACK TO a", read, "RELEASE a", read),
        "a cursor WITH HOLD": each("DECLARE held CURSOR WITH HOLD FOR SELECT n FROM app.ids LIMIT 2", "COMMIT", "FETCH ALL FROM held"),
        "functions": [*each("SELECT app.run('SELECT 1')", "RELEASE a"), group("SELECT app.run('SELECT 1')")],
        "one after the other": each(read, "RELEASE a", read, "SAVEPOINT b", "SELECT 1/0", "ROLLBACK TO b", read, "RELEASE b", read),
        "SET between them": each("RELEASE a", "SET work_mem = '4MB'", "SAVEPOINT b", read, "RELEASE b"),
        "equal names": each("SAVEPOINT a", read, "RELEASE a", read, "RELEASE a", read),
        "an error in it": [*each(read, "SELECT 1/0", "ROLLBACK TO a"), group(read)],
        "an error and one statement more": each("SHOW no.such", "SELECT 1", "ROLLBACK TO a", "SELECT 2"),
        "pipelined": [[*group(read), *group("SELECT app.run('SELECT 1')"), *group("RELEASE a"), *group(read)]],
        "an error in a pipeline": [[*group("SELECT 1/0"), *group(read), *group("ROLLBACK TO a"), *group(read)]],
        "it prepares a write": [[P("w", "INSERT INTO app.scratch VALUES ($1, $2)"), D("S", "w"), S], *each("SELECT 1")],
        "chains": each("SELECT 1", "COMMIT AND CHAIN", "SELECT 1", "SAVEPOINT a", "ROLLBACK TO a", "SAVEPOINT b", "ROLLBACK TO a", read),
        "isolation behind RELEASE": each("RELEASE a", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", read),
    }
    for name, steps in inside.items():
        # Under `allow` whoever calls functions needs the right to be checked.
        roles = ("write", "lead", "operate") if name in ("functions", "pipelined", "an error in a pipeline") else ("none", "read", "write")
        steps = [*each("BEGIN", "SAVEPOINT a"), *steps, *each("COMMIT", read)]
        title, modes = f"reads behind a savepoint, {name}", ("read-only", "allow")
        yield works("6 rightful", title, steps, claim="none", roles=roles, modes=modes, good=0)
    escaped = (
        "DO E'BEGIN INSERT INTO app.t (n, v) VALUES (@N@, ''good''); COM\\115IT; INSERT INTO app.t (n, v) VALUES (@N@, ''good''); END'"
    )
    begun = each("BEGIN", "SAVEPOINT a")
    leader = {
        "a text that chains out of a failed block": each("BEGIN", GOOD, "SELECT 1/0", f"ROLLBACK AND CHAIN; SAVEPOINT s; {GOOD}; COMMIT"),
        "a Parse before BEGIN in its pipeline": [[P("q", "SELECT 2"), *one("BEGIN"), *one(GOOD), S], [Q("COMMIT")]],
        "its Parse before BEGIN": [[P("q", GOOD), *one("BEGIN"), B("", "q"), E(), S], [Q("COMMIT")]],
        "SET TRANSACTION READ WRITE behind a savepoint": [*begun, group("SET TRANSACTION READ WRITE"), *each(GOOD, "COMMIT")],
        "isolation behind RELEASE": [*begun, *each("RELEASE a", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", GOOD, "COMMIT")],
        "its own transaction id": [*begun, *each("RELEASE a", GOOD + " RETURNING xmin::text::bigint = txid_current()", "COMMIT")],
        "Execute without a Bind, then a write": [[E(), *one(GOOD), S]],
        "DO whose COMMIT is spelt by an escape": each(escaped),
        "what a CALL declares stays": [
            [Q(f"CALL app.execute('SET termgate.scope = ''@B@''; SET termgate.term = {OTHER}')")],
            sealed,
            [Q(GOOD)],
        ],
    }
    for name, steps in leader.items():
        good = {"Execute without a Bind, then a write": 0, "DO whose COMMIT is spelt by an escape": 2}.get(name, 1)
        yield works("2 rightful", name, steps, good=good, same=not name.startswith(("DO", "what a CALL")))


def read_before():
    """3: what was read in a pipeline before something else made it writable: its own claim must pass too."""
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
    first = {
        **{f"{writer} read": one(HIDDEN[writer]) for writer in ("view", "policy", "function", "domain")},
        "literal parsed": [P("", "SELECT '{@N@}'::app.checked[]")],
        "immutable function bound": [P("", "SELECT app.planned(@N@)"), B("q")],
    }
    for name, writes in behind.items():
        then = group(*writes)
        for how, messages in first.items():
            yield of_stale("3", f"{how} before {name}", [[*messages, *then]])
        for writer in ("view", "function") if name not in ("a savepoint", "COMMIT") else ():
            steps = [[P("", HIDDEN[writer]), B("q"), *then[:-1], E("q"), S]]
            yield of_stale("3", f"{writer} bound before {name}, executed behind it", steps)


def own_names():
    """Types and functions of a user's own under names that look like the server's, and constants of them where the text shows no call."""
    path, first = [Q("SET search_path = own, public")], [Q("SET search_path = own, pg_catalog")]
    for name, sql, roles in (
        ("release_lease", "SELECT termgate.release_lease(writing '@N@', 'o', 5)", ("lead",)),
        ("append", f"SELECT termgate.append(writing '@N@', {FENCE}, 'x')", ("write", "lead")),
        ("check_term", "SELECT termgate.check_term('@N@'::writing, 5)", ("write", "lead")),
    ):
        for form in ("simple", "extended"):
            yield from without("1", f"{name} with a constant of a domain, {form}", [path, *ALONE[form](sql)], roles=roles)
        quoted = sql.replace("writing '@N@'", "\"integer\" '@N@'").replace("'@N@'::writing", "\"integer\" '@N@'")
        steps = [*each("SET search_path = words, public", quoted), group(quoted)]
        yield from without("1", f"{name} with a type in quotes", steps, roles=roles)
    for name, steps in {
        "qualified md5": each("BEGIN", "SELECT own.md5(@N@)"),
        "qualified in quotes": each("BEGIN", 'SELECT own."md5"(@N@)'),
        "termgate_fence": each("BEGIN", "SELECT own.termgate_fence(@N@)"),
        "a type named zone": [path, *each("BEGIN", "SELECT zone '@N@'")],
        "length by search_path": [first, *each("BEGIN", "SELECT length('@N@')")],
        "search_path by set_config": each(
            "SELECT set_config('search_path', 'own, pg_' || 'catalog', false)", "BEGIN", "SELECT length('@N@')"
        ),
        "search_path twice in a text": each(
            "SET search_path TO pg_catalog; SET search_path TO own, pg_catalog", "BEGIN", "SELECT length('@N@')"
        ),
        "search_path after a comment": each(
            "/* search_path = pg_catalog */ SET search_path TO own, pg_catalog", "BEGIN", "SELECT length('@N@')"
        ),
        "search_path in the same text": each("BEGIN", "SET search_path TO own, pg_catalog; SELECT length('@N@')"),
        "length prepared before the search_path": [
            *each("PREPARE p AS SELECT 1 WHERE length('@N@') IS NOT NULL"),
            first,
            *each("BEGIN", "EXECUTE p"),
        ],
        "PREPARE of a domain": each("BEGIN", "PREPARE p (app.claiming) AS SELECT 1", "EXECUTE p('@N@')"),
        **{f"FETCH of {name}": [[Q("BEGIN")], *steps] for name, steps in FETCHED.items()},
    }.items():
        yield of_b("2", f"{name} declares and writes", [*steps, [Q("COMMIT")]])
        yield of_b("2", f"{name} declares, then a write", [*steps, *each(BAD, "COMMIT")])
    words = [Q("SET search_path = words, public")]
    for word in ("by", "set", "escape", "varying", "is", "like", "uescape"):
        yield of_b("2", f"a constant of a type named {word} declares and writes", [words, *each("BEGIN", f"SELECT {word} '@N@'", "COMMIT")])
    for word in ("by", "over", "filter", "sets", "recursive", "rollup", "within", "varying", "like", "join"):
        yield of_b("2", f"a function named {word} declares and writes", [words, *each("BEGIN", f"SELECT {word}('@N@')", "COMMIT")])


def bound(sql):
    return [P("", sql), B("p"), S]


FETCHED = {
    "a bound portal": [bound("SELECT app.claims(@N@)"), [Q("FETCH 1 FROM p")]],
    "a cursor of a function": each("SELECT app.run('DECLARE c CURSOR FOR SELECT app.claims(@N@)')", "FETCH 1 FROM c"),
    "a portal of EXPLAIN": [bound("EXPLAIN ANALYZE SELECT app.claims(@N@)"), [Q("FETCH 1 FROM p")]],
    "a portal, by MOVE": [bound("SELECT app.claims(@N@)"), [Q("MOVE 1 FROM p")]],
}
HARMLESS = {
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


def renamed():
    """9: a statement, a portal or a text that was harmless when it was prepared is something else by the time that it is used."""
    swap = [Q("SELECT app.run('DEALLOCATE s; PREPARE s AS SELECT app.wr(@N@)')")]
    in_do = "DO $x$ BEGIN DEALLOCATE s; PREPARE s AS SELECT app.wr(@N@); END $x$"
    for (name, sql), (behind, steps) in itertools.product(HARMLESS.items(), BEHIND.items()):
        parsed, use = [P("s", sql), S], [B("", "s"), E(), S]
        for how, uses in {"EXECUTE": [[Q("EXECUTE s")]], "Bind": [use], "Bind, flushed": [[*use[:2], H], [S]]}.items():
            yield from without("9", f"{name} renamed, {how} behind {behind}", [parsed, swap, *steps, *uses, [Q("COMMIT")]])
        yield of_stale(
            "9", f"{name} renamed in DO, Bind behind {behind}", [parsed, *each("BEGIN", in_do, "ROLLBACK"), *steps, use, [Q("COMMIT")]]
        )
    writes, claims = ("DECLARE p CURSOR FOR SELECT app.wr(@N@)", "DECLARE p CURSOR FOR SELECT app.claims(@N@)")
    for name, sql in HARMLESS.items():
        for close in ("CLOSE p", "ROLLBACK TO b"):
            replaced = [
                *each("BEGIN", "SAVEPOINT a", "SAVEPOINT b"),
                bound(sql),
                *each(close, writes, "RELEASE b"),
                [E("p"), S],
                [Q("COMMIT")],
            ]
            yield from without("9", f"portal of {name} replaced after {close}", replaced)
        by_code = [*each("BEGIN", "SELECT 1"), bound(sql), [Q(f"SELECT app.run('CLOSE p; {claims}')")], [E("p"), S], [Q("COMMIT")]]
        yield of_b("9", f"portal of {name} replaced by code", by_code)
    # Describe reads the literals of a text anew, where the path has changed since.
    text = [[P("s", "SELECT '{@N@}'::app.checked_later[]"), S], *each("SET app.go = '1'", "SET search_path = app, public")]
    for behind, steps in BEHIND.items():
        yield from without("1", f"Describe behind {behind}", [*text, *steps, [D("S", "s"), S], [Q("COMMIT")]])


def read_otherwise():
    """The server reads a text, or compares a name, by settings other than those by which the proxy has read it."""
    strings = "standard_conforming_strings"
    off = {"start": [(strings, "off")]}
    # As one SET where a backslash is a letter; else as a transaction of its own.
    two_ways = "SET search_path = '\\', ';COMMIT;BEGIN READ WRITE; INSERT INTO app.t (n, v) VALUES (@N@, $$bad$$); COMMIT; --'"
    for end in ("COMMIT", "ROLLBACK", "ROLLBACK TO a", "COMMIT AND CHAIN"):
        steps = each("BEGIN", "SAVEPOINT a", f"SET LOCAL {strings} = on", f"{end}; {two_ways}")
        yield from without("1", f"a text behind {end} that brings back how strings are read", steps, guarded=True, **off)
    for end in ("RESET ALL", "DISCARD ALL"):
        steps = each(f"SET {strings} = on", f"{end}; {two_ways}")
        yield from without("1", f"a text behind {end} that brings back how strings are read", steps, guarded=True, **off)
    for begin in (f"SET {strings} = off; BEGIN; COMMIT", f"BEGIN; SET LOCAL {strings} = off; SAVEPOINT a"):
        yield from without("1", f"a text behind {begin}", [[Q(f"{begin}; {two_ways}")]], guarded=True)
    hidden = f"SELECT '\\', ', set_config($$termgate.scope$$, $$@A@$$, true), set_config($$termgate.term$$, $${STALE}$$, true) --'"
    for end in ("COMMIT AND CHAIN", "ROLLBACK TO a"):
        steps = [*each("BEGIN", "SAVEPOINT a", f"SET LOCAL {strings} = on"), group(end, hidden, BAD), [Q("COMMIT")]]
        yield of_b("2", f"a claim in what was a string before {end}, in a group", steps, **off)
    # Names in UTF-8 and in LATIN1, and names that the server cuts.
    latin, begun = [Q("SET client_encoding = LATIN1")], each("BEGIN", "SAVEPOINT a", "SAVEPOINT b")
    portals = [P("", "SHOW work_mem"), B("\u00e9"), P("", "SELECT app.wr(@N@)"), B("\u00c3\u00a9"), S]
    steps = [*begun, portals, latin, [Q("RELEASE b")], [E("\u00e9"), S], [Q("COMMIT")]]
    yield from without("9", "a portal under another's name in another encoding", steps)
    statements = [P("\u00e9", "SELECT 1"), P("\u00c3\u00a9", "RELEASE b"), S]
    steps = [statements, latin, *begun, [Q("SELECT 1")], [B("", "\u00e9"), E(), S], *each("SELECT app.wr(@N@)", "COMMIT")]
    yield from without("9", "a statement under another's name in another encoding", steps)
    long = "a" * 62
    swap = each(f'DEALLOCATE "{long}\u00e9"', f'PREPARE "{long}\u00e9" AS SELECT app.claims(@N@)', "BEGIN", "SELECT 1")
    for name, steps in {
        "EXECUTE": [[Q(f'PREPARE "{long}" AS SELECT 1')], *swap, [Q(f'EXECUTE "{long}"')]],
        "Bind": [[P(long, "SELECT 1"), S], *swap, [B("", long), E(), S]],
    }.items():
        yield of_b("9", f"{name} of a name that is not the same letters to the server", [*steps, [Q("COMMIT")]])


def holes():
    """8: what READ ONLY does not stop."""
    calls = {
        "lo_create": "lo_create(0)",
        "lo_from_bytea": "lo_from_bytea(0, 'x')",
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
    for (name, hole), (begin, steps) in itertools.product(calls.items(), beginnings.items()):
        majors = (13, 15) if name.startswith("lo_") else None
        for body, sql in {
            "DO": f"DO $x$ BEGIN PERFORM {hole}; END $x$",
            "DO, put together": f"DO $x$ BEGIN EXECUTE 'SEL' || $y$ECT {hole}$y$; END $x$",
            "CALL": f"CALL app.execute($y$SELECT {hole}$y$)",
            "DO, assigned": f"DO $x$ DECLARE z text; BEGIN z := {hole}; END $x$",
        }.items():
            yield Row("8", f"{name} in {body}, {begin}", [*steps, *each(sql, "COMMIT")], majors=majors, state=True)
            in_group = [*steps, group(sql), group("COMMIT")]
            yield of_stale("8", f"{name} in {body}, {begin}, in a group", in_group, modes=("read-only",), majors=majors, state=True)
    for body, sql in {"DO": "DO $x$ BEGIN NOTIFY attack, 'x@N@'; END $x$", "CALL": "CALL app.execute('NOTIFY attack, ''x@N@''')"}.items():
        yield Row("8", f"NOTIFY in {body}", each("BEGIN READ ONLY", sql, "COMMIT"), state=True)
        yield Row("8", f"NOTIFY in {body}, one text", [[Q(f"BEGIN READ ONLY; {sql}; COMMIT")]], state=True)
        yield Row("8", f"NOTIFY in {body}, start-up option", [[Q(sql)]], state=True, start=[("default_transaction_read_only", "on")])


PARTS = (
    *(beside_calls, declared_anew, in_comments, holes, beside_others, undeclared, early, left_over, skipped, read_before, own_names),
    *(renamed, read_otherwise, rightful, readers, transparent),
)


def rows():
    return [row for part in PARTS for row in part()]
