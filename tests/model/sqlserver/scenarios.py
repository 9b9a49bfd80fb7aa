"""Who meets whom. Scopes: a and b have leases (of A and B, term 1), x and y have terms from elsewhere (5); aa is new,
and falls between a and b. In the order of keys each has a neighbour behind it, for key-range locks."""
from search import Program

SETUP = [
    "EXEC termgate.set_setting N'eviction_grace_ms', N'100'",
    "EXEC termgate.set_setting N'check_wait_ms', N'100'",
    "EXEC termgate.acquire_lease N'a', N'A', 1000",
    "EXEC termgate.acquire_lease N'b', N'B', 1000",
    "EXEC termgate.seal N'x', 5",
    "EXEC termgate.seal N'y', 5",
    "DECLARE @n bigint; EXEC termgate.append N'a-events', 1, 0x01, NULL, N'a', NULL, @n OUTPUT",
    "DECLARE @n bigint; EXEC termgate.append N'b-events', 1, 0x01, NULL, N'b', NULL, @n OUTPUT",
    "DECLARE @n bigint; EXEC termgate.append N'x-events', 5, 0x01, NULL, N'x', NULL, @n OUTPUT",
    "DECLARE @n bigint; EXEC termgate.append N'y-events', 5, 0x01, NULL, N'y', NULL, @n OUTPUT",
    (
        "CREATE TABLE dbo.work (id int PRIMARY KEY, scope_key varbinary(800), term bigint); CREATE TABLE dbo.guarded (id int PRIMARY KEY,"
        " scope_key varbinary(800), term bigint)"
    ),
    "DECLARE @n bigint; EXEC termgate.protect @target = N'dbo.guarded', @scope = N'x', @protected = @n OUTPUT",
    "DECLARE @r bigint; EXEC termgate.follower_start N'reader', NULL, N'x', 0, @r OUTPUT",
]


def key(scope):
    return "0x" + scope.encode("utf-16-le").hex()


def append(stream, term, scope="NULL", write_id="NULL"):
    named = "NULL" if scope == "NULL" else f"N'{scope}'"
    return f"DECLARE @n bigint; EXEC termgate.append N'{stream}', {term}, 0x02, NULL, {named}, {write_id}, @n OUTPUT"


def append_many(stream, term):
    return (
        "DECLARE @b termgate.payload_batch, @n bigint; INSERT INTO @b (position, payload, write_id) VALUES (0, 0x02, N'w1'), (1, 0x03,"
        f" N'w2'); EXEC termgate.append_many N'{stream}', {term}, @b, NULL, NULL, @n OUTPUT"
    )


def check(scope, term):
    return f"DECLARE @f bigint; EXEC termgate.check_term N'{scope}', {term}, @f OUTPUT"


def work(scope, term, number, table="dbo.work"):
    return f"INSERT INTO {table} (id, scope_key, term) VALUES ({number}, {key(scope)}, {term})"


def claim(scope, term):
    return f"DECLARE @fresh bit, @f bigint; EXEC termgate.claim_write N'{scope}', {term}, N'claim {term}', @fresh OUTPUT, @f OUTPUT"


def enter(scope, term):
    return f"EXEC termgate.enter N'{scope}', {term}, 77"


def gate(scope, term):
    """As a proxy calls it, with a secret and a number that proves the answer. Without a proof that it passed, nothing more is sent."""
    return (
        "DECLARE @p bigint, @c bigint, @f bigint, @r bigint, @t bigint, @x bigint, @m nvarchar(2048); SET @p = 7; EXEC"
        f" termgate.gate_enter @scope = N'{scope}', @term = {term}, @secret = 0x73, @proof = @p OUTPUT, @code = @c OUTPUT, @fence = @f"
        " OUTPUT, @raise = @r OUTPUT, @trancount = @t OUTPUT, @xact_state = @x OUTPUT, @message = @m OUTPUT;"
        " IF @c <> 0 OR @p <> -8 THROW 50001, 'the gate refused', 1"
    )


def gate_leave(scope):
    return (
        "DECLARE @p bigint, @c bigint, @t bigint, @m nvarchar(2048); SET @p = 8; EXEC termgate.gate_leave"
        f" @scope = N'{scope}', @secret = 0x73, @proof = @p OUTPUT, @code = @c OUTPUT, @trancount = @t OUTPUT, @message = @m OUTPUT"
    )


LOOK = f"DECLARE @one bigint; SELECT @one = f.term FROM termgate.fences f WITH (READCOMMITTEDLOCK) WHERE f.scope_key = {key('x')}"
HELLO = "DECLARE @p bigint, @g bigint; SET @p = 6; EXEC termgate.gate_hello @proof = @p OUTPUT, @grace_ms = @g OUTPUT"


def declared(scope, term):
    return (
        f"EXEC sp_set_session_context @key = N'termgate.scope', @value = N'{scope}'; EXEC sp_set_session_context @key = N'termgate.term',"
        f" @value = N'{term}'"
    )


def acquire(scope, owner):
    return f"EXEC termgate.acquire_lease N'{scope}', N'{owner}', 1000"


def follow(name, scope, from_end=0):
    return f"DECLARE @r bigint; EXEC termgate.follower_start N'{name}', NULL, N'{scope}', {from_end}, @r OUTPUT"


def advance(run=1):
    return f"DECLARE @o nvarchar(20); EXEC termgate.follower_advance N'reader', {run}, N'x-events', 0, 1, @o OUTPUT"


def handle(run, number):
    """What a follower does with a write, in the transaction of its advance: its run stands for a term, so a row of an old run behind one of
    a new run breaks F1."""
    return advance(run) + f"; IF @o = N'moved' {work('reader', run, number)}"


UNFOLLOW = "DECLARE @gone bit; EXEC termgate.follower_remove N'reader', @gone OUTPUT"


def in_transaction(*texts):
    return ["BEGIN TRANSACTION", *texts, "COMMIT TRANSACTION"]


RELEASED = "DECLARE @r bit; "
# What a client may be doing when it freezes: (name, scope, batches). In a transaction of its own unless the name says otherwise.
FROZEN = [
    ("append", "a", in_transaction(append("a-events", 1))),
    ("append to a new stream", "a", in_transaction(append("a-new", 1, "a"))),
    ("append with a write id", "a", in_transaction(append("a-events", 1, write_id="N'w5'"))),
    ("append_many", "a", in_transaction(append_many("a-events", 1))),
    ("check_term and a write", "a", in_transaction(check("a", 1), work("a", 1, 1))),
    ("claim_write", "a", in_transaction(claim("a", 1))),
    ("acquire_lease", "a", in_transaction(acquire("a", "A"))),
    ("acquire_lease of a new scope", "aa", in_transaction(acquire("aa", "A"))),
    ("renew_lease", "a", in_transaction("EXEC termgate.renew_lease N'a', N'A', 1, 1000")),
    ("release_lease", "a", in_transaction(RELEASED + "EXEC termgate.release_lease N'a', N'A', 1, @r OUTPUT")),
    ("request_hand_over", "a", in_transaction("EXEC termgate.request_hand_over N'a', N'B*', 1000")),
    ("force_release", "a", in_transaction(RELEASED + "EXEC termgate.force_release N'a', N'ops', N'why', @r OUTPUT")),
    ("append of x", "x", in_transaction(append("x-events", 5))),
    ("check_term of x and a write", "x", in_transaction(check("x", 5), work("x", 5, 1))),
    ("check_term above the fence", "x", in_transaction(check("x", 7), work("x", 7, 1))),
    ("check_term of a new scope", "xx", in_transaction(check("xx", 7), work("xx", 7, 1))),
    ("append above the fence", "x", in_transaction(append("x-events", 7))),
    ("seal", "x", in_transaction("EXEC termgate.seal N'x', 7")),
    ("a protected write", "x", [declared("x", 5), *in_transaction(work("x", 5, 1, "dbo.guarded"))]),
    ("the gate, outside a transaction", "x", [enter("x", 5), work("x", 5, 1, "dbo.guarded"), "EXEC termgate.leave N'x', 78"]),
    ("the gate, in a transaction", "x", [enter("x", 5), *in_transaction(work("x", 5, 1, "dbo.guarded")), "EXEC termgate.leave N'x', 78"]),
    ("a proxy's gate, outside a transaction", "x", [HELLO, gate("x", 5), work("x", 5, 1, "dbo.guarded"), gate_leave("x")]),
    ("a proxy's gate, in a transaction", "x", [gate("x", 5), *in_transaction(work("x", 5, 1, "dbo.guarded")), gate_leave("x")]),
    # gate_leave does nothing while the transaction is open: what comes behind it is still fenced.
    (
        "a proxy's gate, left in a transaction",
        "x",
        [gate("x", 5), *in_transaction(work("x", 5, 1), gate_leave("x"), work("x", 5, 2)), gate_leave("x")],
    ),
    ("a proxy's gate, entered in a transaction", "x", [*in_transaction(gate("x", 5), work("x", 5, 1)), gate_leave("x")]),
    ("reset_fence", "x", in_transaction("DECLARE @p bigint; EXEC termgate.reset_fence N'x', 3, N'ops', N'why', @p OUTPUT")),
    ("set_raise_by", "x", in_transaction("EXEC termgate.set_raise_by N'x', N'writer'")),
    ("stream_move", "a", in_transaction("DECLARE @m bit; EXEC termgate.stream_move N'a-events', N'x', N'ops', N'why', @m OUTPUT")),
    ("prune", "a", in_transaction("DECLARE @p bigint; EXEC termgate.prune N'a-events', 1, @p OUTPUT")),
    ("declare_restored", "x", in_transaction("DECLARE @f bigint; EXEC termgate.declare_restored N'x', 6, N'ops', N'why', @f OUTPUT")),
    # Refused inside a transaction, for nobody could end whoever froze there.
    (
        "declare_nothing_lost, in a transaction",
        "x",
        in_transaction("DECLARE @s bigint; EXEC termgate.declare_nothing_lost N'ops', N'why', @s OUTPUT"),
    ),
    (
        "declare_untrusted, in a transaction",
        "x",
        in_transaction("DECLARE @s bigint; EXEC termgate.declare_untrusted N'ops', N'why', @s OUTPUT"),
    ),
    ("set_setting, in a transaction", "x", in_transaction("EXEC termgate.set_setting N'payload_bytes_max', N'1000000'")),
    (
        "protect, in a transaction",
        "x",
        in_transaction("DECLARE @n bigint; EXEC termgate.protect @target = N'dbo.work', @scope = N'y', @protected = @n OUTPUT"),
    ),
    ("follower_start", "x", in_transaction(follow("reader", "x"))),
    ("follower_start at the end", "x", in_transaction(follow("other", "x", 1))),
    ("follower_advance", "x", in_transaction(advance())),
    ("follower_advance and a write", "x", in_transaction(advance(), check("x", 5), work("x", 5, 1))),
    ("follower_remove", "x", in_transaction(UNFOLLOW)),
    ("declare_nothing_lost", "x", ["DECLARE @s bigint; EXEC termgate.declare_nothing_lost N'ops', N'why', @s OUTPUT"]),
    ("set_setting", "x", ["EXEC termgate.set_setting N'payload_bytes_max', N'1000000'"]),
]
# Raises, each a statement of its own: (name, scope, term or None, text).
RAISES = [
    ("acquire_lease", "a", None, acquire("a", "C")),
    ("force_release", "a", None, RELEASED + "EXEC termgate.force_release N'a', N'ops', N'why', @r OUTPUT"),
    ("acquire_lease", "aa", None, acquire("aa", "C")),
    ("seal", "x", 9, "EXEC termgate.seal N'x', 9"),
    ("check_term above the fence", "x", 9, check("x", 9)),
    ("append above the fence", "x", 9, append("x-events", 9)),
    ("claim_write above the fence", "x", 9, claim("x", 9)),
    ("the gate above the fence", "x", 9, enter("x", 9)),
    ("seal", "xx", 9, "EXEC termgate.seal N'xx', 9"),
]
# What goes on in scopes that the frozen client has nothing to do with.
NEIGHBOURS = [
    ("append", "b", append("b-events", 1)),
    ("append to a new stream", "b", append("b-new", 1, "b")),
    ("renew_lease", "b", "EXEC termgate.renew_lease N'b', N'B', 1, 1000"),
    ("acquire_lease", "b", acquire("b", "D")),
    ("append", "y", append("y-events", 5)),
    ("check_term", "y", check("y", 5)),
    ("seal", "y", "EXEC termgate.seal N'y', 9"),
    ("acquire_lease of a new scope", "c", acquire("c", "D")),
]
LEVELS = ["RC", "RR", "SER", "SNAP", "RU"]


# Whom the level SNAPSHOT might hurt: what begins a transaction with a call of layer 1.
SNAPSHOTS = {"append", "check_term and a write", "claim_write", "the gate, in a transaction", "a protected write"}


def program(entry, level):
    """A program of (name, scope, batches), and of its term where a raise to that term must not end it."""
    found = Program(entry[0], entry[2], level)
    found.scope = entry[1]
    found.term = entry[3] if len(entry) > 3 else None
    return found


# Pairs that meet freely, every order of their steps: (name, programs). Each program is (name, scope, batches), or these and
# its term.
LEADER_A = ("leader A appends", "a", in_transaction(append("a-events", 1)))
LEADER_X = ("leader of 5 writes", "x", in_transaction(check("x", 5), work("x", 5, 1)))
# Raises and then writes slowly, while another one that has its term may have seen the lower fence.
LEADER_9 = ("leader of 9 raises and writes", "x", ["EXEC termgate.seal N'x', 9", *in_transaction(check("x", 9), work("x", 9, 1))], 9)
MEETINGS = [
    ("a write and a check of its own term", [LEADER_9, ("another of 9 checks", "x", [check("x", 9)], 9)]),
    ("a write and a seal of its own term", [LEADER_9, ("another of 9 seals", "x", ["EXEC termgate.seal N'x', 9"], 9)]),
    ("a write and an append of its own term", [LEADER_9, ("another of 9 appends", "x", [append("x-events", 9)], 9)]),
    ("a write and a claim of its own term", [LEADER_9, ("another of 9 claims", "x", [claim("x", 9)], 9)]),
    ("a write and the gate of its own term", [LEADER_9, ("another of 9 enters", "x", [enter("x", 9)], 9)]),
    ("a follower and its next start", [("it advances", "x", in_transaction(advance())), ("it starts again", "x", [follow("reader", "x")])]),
    (
        "a follower that has come far and its removal",
        [("it advances", "x", [advance(), *in_transaction(advance().replace(", 0, 1, ", ", 1, 1, "))]), ("it is removed", "x", [UNFOLLOW])],
    ),
    (
        "two runs of a follower",
        [
            ("the old one", "x", in_transaction(handle(1, 1))),
            ("the new one", "x", [follow("reader", "x"), work("reader", 2, 2), handle(2, 3)]),
        ],
    ),
    (
        "a follower and an append",
        [
            ("it advances", "x", in_transaction(advance(), append("x-events", 5))),
            ("leader of 5 appends", "x", in_transaction(append("x-events", 5))),
        ],
    ),
    (
        "a follower's start and an append",
        [("it starts", "x", [follow("late", "x", 1)]), ("leader of 5 appends", "x", in_transaction(append("x-events", 5)))],
    ),
    ("an append and a takeover", [LEADER_A, ("leader B takes over", "a", [acquire("a", "B"), append("a-events", "{term}")])]),
    ("two acquisitions", [("leader A acquires", "a", [acquire("a", "A")]), ("leader B acquires", "a", [acquire("a", "B")])]),
    (
        "a renewal and a takeover",
        [("leader A renews", "a", ["EXEC termgate.renew_lease N'a', N'A', 1, 1000"]), ("leader B takes over", "a", [acquire("a", "B")])],
    ),
    ("a write and a seal", [LEADER_X, ("a seal", "x", ["EXEC termgate.seal N'x', 9"])]),
    ("a write and an append above the fence", [LEADER_X, ("leader of 9 appends", "x", [append("x-events", 9)])]),
    (
        "two raises by a write",
        [
            ("leader of 7 writes", "x", in_transaction(check("x", 7), work("x", 7, 1))),
            ("leader of 9 writes", "x", in_transaction(check("x", 9), work("x", 9, 2))),
        ],
    ),
    (
        "a protected write and a seal",
        [("leader of 5 writes", "x", [declared("x", 5), work("x", 5, 1, "dbo.guarded")]), ("a seal", "x", ["EXEC termgate.seal N'x', 9"])],
    ),
    (
        "a proxy's gate and a seal",
        [("a client in the gate", "x", [gate("x", 5), work("x", 5, 1), gate_leave("x")]), ("a seal", "x", ["EXEC termgate.seal N'x', 9"])],
    ),
    (
        "a proxy's gate, left in a transaction, and a seal",
        [
            # It reads the fence, for the search tries an order of two steps only if both touch the same.
            (
                "a client in the gate",
                "x",
                [gate("x", 5), *in_transaction(work("x", 5, 1), gate_leave("x"), LOOK, work("x", 5, 2)), gate_leave("x")],
            ),
            ("a seal", "x", ["EXEC termgate.seal N'x', 9"]),
        ],
    ),
    (
        "a proxy's gate, entered in a transaction, and a seal",
        [
            ("a client in the gate", "x", [*in_transaction(gate("x", 5), work("x", 5, 1)), gate_leave("x")]),
            ("a seal", "x", ["EXEC termgate.seal N'x', 9"]),
        ],
    ),
    (
        "two writers of one stream",
        [("writer 1", "a", in_transaction(append("a-events", 1))), ("writer 2", "a", in_transaction(append("a-events", 1)))],
    ),
    (
        "two first writers of one stream",
        [("writer 1", "a", in_transaction(append("a-new", 1, "a"))), ("writer 2", "a", in_transaction(append("a-new", 1, "a")))],
    ),
    (
        "one write id twice",
        [
            ("writer 1", "a", in_transaction(append("a-events", 1, write_id="N'w5'"))),
            ("writer 2", "a", in_transaction(append("a-events", 1, write_id="N'w5'"))),
        ],
    ),
    ("two new scopes side by side", [("leader of aa", "aa", [acquire("aa", "A")]), ("leader of ab", "ab", [acquire("ab", "B")])]),
    (
        "a release by force and a takeover",
        [
            ("an operator", "a", [RELEASED + "EXEC termgate.force_release N'a', N'ops', N'why', @r OUTPUT"]),
            ("leader B takes over", "a", [acquire("a", "B"), append("a-events", "{term}")]),
        ],
    ),
]
# With row versions these are searches of minutes: a plain run makes them without.
LARGE = {"two acquisitions", "a renewal and a takeover", "a release by force and a takeover"}
