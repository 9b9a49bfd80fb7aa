"""Mistakes that must be found: single changes of the text as it is. The first four were in layer 1 until the model found them."""
import layer
import scenarios


def frozen(name):
    return next(entry for entry in scenarios.FROZEN if entry[0] == name)


def meeting(name):
    return next(entry for entry in scenarios.MEETINGS if entry[0] == name)


# (name, file, what stands there, what is put there, what is found, how, entry).
MISTAKES = [
    (
        "an unlocked look that is none",
        "0002_check.sql",
        "termgate.stream_writes w WITH (NOLOCK) WHERE w.scope_key = @scope_key;",
        "termgate.stream_writes w WHERE w.scope_key = @scope_key;",
        r"acquire_lease of a (waits S on stream_writes|ends with error 50006).*behind append of a",
        "frozen",
        frozen("append"),
    ),
    (
        "HOLDLOCK at a new stream",
        "0003_append.sql",
        "SELECT @known = 1 FROM termgate.streams s WITH (INDEX (streams_identity), READCOMMITTEDLOCK)",
        "SELECT @known = 1 FROM termgate.streams s WITH (UPDLOCK, HOLDLOCK)",
        r"the neighbour's append of b (waits|ends).*behind append to a new stream",
        "frozen",
        frozen("append to a new stream"),
    ),
    (
        "HOLDLOCK at a new scope: a key range of the neighbour's lease",
        "0004_leases.sql",
        "FROM termgate.leases l WITH (UPDLOCK, ROWLOCK) WHERE l.scope_key = @key;",
        "FROM termgate.leases l WITH (UPDLOCK, HOLDLOCK) WHERE l.scope_key = @key;",
        r"the neighbour's renew_lease of b (waits|ends).*behind acquire_lease of a new scope",
        "frozen",
        frozen("acquire_lease of a new scope"),
    ),
    (
        "a first look at the fence that waits for a raise that is not committed",
        "0002_check.sql",
        "@raise_by = f.raise_by FROM termgate.fences f WITH (NOLOCK) WHERE f.scope_key = @scope_key;",
        "@raise_by = f.raise_by FROM termgate.fences f WHERE f.scope_key = @scope_key;",
        r"seal of x (waits S on fences|ends with error 50006).*behind check_term above the fence",
        "frozen",
        frozen("check_term above the fence"),
    ),
    (
        "a gate that is given back inside a transaction",
        "0010_gate.sql",
        "IF @@TRANCOUNT > 0 SET @code = 1;",
        "IF @@TRANCOUNT > 9 SET @code = 1;",
        r"^F2",
        "meeting",
        meeting("a proxy's gate, left in a transaction, and a seal"),
    ),
    (
        "a gate without its lock",
        "0010_gate.sql",
        "EXEC termgate._share @scope, @key, N'Session';",
        "SET @rc = 0;",
        r"^F2",
        "meeting",
        meeting("a proxy's gate and a seal"),
    ),
    (
        "a gate that compares before it has the lock",
        "0010_gate.sql",
        """    EXEC termgate._share @scope, @key, N'Session';
    SELECT @fence = f.term FROM termgate.fences f WITH (READCOMMITTEDLOCK) WHERE f.scope_key = @key;
    EXEC termgate._compare @scope, @key, @term, N'Session', 1;
""",
        """    EXEC termgate._compare @scope, @key, @term, N'Session', 1;
    EXEC termgate._share @scope, @key, N'Session';
""",
        r"^F2",
        "meeting",
        meeting("a proxy's gate and a seal"),
    ),
    (
        "a check without its lock",
        "0002_check.sql",
        "EXEC termgate._share @scope, @key;",
        "SET @raise = 0;",
        r"^F2",
        "meeting",
        meeting("a write and a seal"),
    ),
    (
        "a follower whose run is not locked while it handles a write",
        "0013_follower.sql",
        "FROM termgate.followers f WITH (REPEATABLEREAD, ROWLOCK) WHERE",
        "FROM termgate.followers f WHERE",
        r"^F1: the old one",
        "meeting",
        meeting("two runs of a follower"),
    ),
    (
        "a follower that locks its position first",
        "0013_follower.sql",
        "  SELECT @current = f.run FROM termgate.followers f WITH (REPEATABLEREAD, ROWLOCK)",
        (
            "  UPDATE termgate.follower_positions WITH (ROWLOCK) SET moved_at = SYSUTCDATETIME() WHERE name_key = @key AND stream_key ="
            " @stream_key;\n  SELECT @current = f.run FROM termgate.followers f WITH (REPEATABLEREAD, ROWLOCK)"
        ),
        r"^deadlock",
        "meeting",
        meeting("a follower that has come far and its removal"),
    ),
    (
        "a check that does not look again under the turnstile",
        "0002_check.sql",
        "EXEC termgate._exclude @scope, @key, @term, NULL, @own, @evicted OUTPUT, 0, @raise OUTPUT;",
        "EXEC termgate._exclude @scope, @key, @term, NULL, @own, @evicted OUTPUT;",
        r"^F4: another of 9 checks ends a writer of its own term",
        "meeting",
        meeting("a write and a check of its own term"),
    ),
    (
        "a seal that does not look again under the turnstile",
        "0002_check.sql",
        "EXEC termgate._exclude @scope, @key, @term, @grace_ms, @own, @evicted OUTPUT, 0, @raise OUTPUT;",
        "EXEC termgate._exclude @scope, @key, @term, @grace_ms, @own, @evicted OUTPUT;",
        r"^F4: another of 9 seals ends a writer of its own term",
        "meeting",
        meeting("a write and a seal of its own term"),
    ),
    (
        "an append that does not look again under the turnstile",
        "0003_append.sql",
        "EXEC termgate._exclude @of, @key, @term, NULL, @own, @evicted OUTPUT, 0, @raise OUTPUT;",
        "EXEC termgate._exclude @of, @key, @term, NULL, @own, @evicted OUTPUT;",
        r"^F4: another of 9 appends ends a writer of its own term",
        "meeting",
        meeting("a write and an append of its own term"),
    ),
    (
        "an announcement that is given back before the locks",
        "0002_check.sql",
        "  IF @term IS NULL SET @announced = CAST(SESSION_CONTEXT(N'termgate.announced') AS nvarchar(32));\n",
        (
            "  IF @term IS NULL SET @announced = CAST(SESSION_CONTEXT(N'termgate.announced') AS nvarchar(32));\n"
            "  IF @announced IS NOT NULL AND APPLOCK_MODE(@role, @announced, N'Session') <> N'NoLock'\n"
            "    EXEC @rc = sp_releaseapplock @Resource = @announced, @LockOwner = N'Session', @DbPrincipal = @role;\n"
        ),
        r"^F4: another of 9 checks ends a writer of its own term",
        "meeting",
        meeting("a write and a check of its own term"),
    ),
    (
        "no eviction",
        "0002_check.sql",
        "EXEC termgate._kill @session, @login, @ended OUTPUT;",
        "SET @ended = 0;",
        r"seal of x ends with error 50006",
        "frozen",
        frozen("check_term of x and a write"),
    ),
]


def changed(name):
    """What layer.load asks for: a file's text, with the mistake in it."""
    _, file, before, after, *_ = next(mistake for mistake in MISTAKES if mistake[0] == name)

    def change(of, text):
        if of == file:
            if before not in text:
                raise AssertionError(f"the mistake '{name}' has no place in {file} any more: {before}")
            return text.replace(before, after)
        return text

    return change


def check_places():
    """Each must have its place in the text, also where they are not searched."""
    for name, file, *_ in MISTAKES:
        changed(name)(file, layer.text_of(layer.INSTALL / file))


def tasks():
    """(name, pattern, task) of each, as a plain run searches them."""
    return [(name, pattern, (how == "meeting", name, how, entry, "RC")) for name, _, _, _, pattern, how, entry in MISTAKES]
