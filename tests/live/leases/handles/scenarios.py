"""The scenarios of the behaviour suite: what a handle on a lease does in every language.

Each is a function that gets a Game. `databases` says where it can be played, `own` that it needs a program of its own, which it may stop
or kill. A scenario fails by an AssertionError.
"""
import time
from pathlib import Path

from checks import eventually
from lab import Relay

SCENARIOS = {}
TTL = 3000  # milliseconds; the margin is 600, renewals are at most 1,000 apart


def scenario(databases=("postgresql", "sqlite"), own=False):
    def add(function):
        SCENARIOS[function.__name__] = function
        function.databases, function.own = databases, own
        return function

    return add


only_postgresql = scenario(databases=("postgresql",))


class Game:
    """One scenario in one language on one database."""

    def __init__(self, language, database, player, name):
        self.language, self.database, self.player, self.scope = language, database, player, f"{language.name} {name}"
        self.players, self.value = [player], abs(hash((language.name, name, time.time()))) % 10**12
        self.relays = []

    def own(self, **env):
        self.players.append(self.language.start(self.database, **env))
        return self.players[-1]

    def relay(self):
        self.relays.append(Relay(self.database.port))
        return self.relays[-1]

    def url(self, relay=None, role="leader"):
        return self.language.url(self.database, role, relay.port if relay else None)

    def ask_hold(self, ttl=TTL, wait=0, owner="", endpoint="", relay=None, player=None, scope=None, role="leader"):
        """Sends the command; returns the handle's name."""
        player = player or self.player
        name = player.name()
        scope = self.scope if scope is None else scope
        player.send("hold", name, self.url(relay, role), self.database.name, scope, ttl, wait, owner, endpoint)
        return name

    def hold(self, player=None, **more):
        """A handle that holds the lease: its name and its term."""
        player = player or self.player
        for _ in range(3):
            name = self.ask_hold(player=player, **more)
            words = player.answer(name)
            if not any(late in " ".join(words) for late in ("came too late", "did not answer")):
                break
            time.sleep(more.get("ttl", TTL) / 1000)  # the machine has much else to do
        assert words[0] == "held", words
        return name, int(words[1])

    def write(self, handle, how="declared", player=None):
        return (player or self.player).ask("write", handle, self.url(), self.value, how)

    def is_held(self, handle, player=None):
        return (player or self.player).ask("held", handle)[0] == "true"

    def lost(self, handle, seconds=15.0, player=None):
        """When the signal came, in seconds since 1970."""
        heard = (player or self.player).heard(handle, "lost", seconds)
        assert heard, f"no signal within {seconds} s"
        return heard[0]

    def not_lost(self, handle, player=None):
        assert (player or self.player).heard(handle, "lost", 0) is None, "the signal came although the lease was renewed"
        assert self.is_held(handle, player), "not held although it was renewed"

    def release(self, handle, player=None):
        return (player or self.player).ask("release", handle)[1] == "true"

    def renewed(self, times=1, seconds=15.0):
        before = self.database.lease(self.scope)[2]
        for _ in range(times):
            assert eventually(lambda: self.database.lease(self.scope)[2] > before, seconds, 0.05), "no renewal"
            before = self.database.lease(self.scope)[2]

    def lost_before_the_end(self, handle, player=None):
        """[F4] The signal comes before the lease ends in the database, where nobody has renewed or ended it meanwhile."""
        at = self.lost(handle, player=player)
        end = self.database.lease(self.scope)[2]
        assert at < end, f"the signal came {at - end:.3f} s after the end of the lease"
        return at, end


# ---- one holder -------------------------------------------------------------------------------------


@scenario()
def a_free_lease_is_held(game):
    handle, term = game.hold()
    owner, stored, end, released = game.database.lease(game.scope)
    assert (stored, released) == (term, False)
    assert owner == game.player.answer(handle)[2]
    assert 0 < end - time.time() <= TTL / 1000
    assert game.is_held(handle)


@only_postgresql
def renewals_come_within_a_third_of_the_ttl_with_jitter(game):
    ttl, third, wanted = 6.0, 2.0, 5
    scopes = [f"{game.scope} {number}" for number in range(4)]
    handles = {scope: game.hold(scope=scope, ttl=6000) for scope in scopes}
    assert eventually(lambda: all(len(game.database.renewals(scope)) > wanted for scope in scopes), 30, 0.1), "too few renewals within 30 s"
    between = []
    for scope, (handle, term) in handles.items():
        game.not_lost(handle)
        rows = game.database.renewals(scope)[1:]  # the first follows an acquisition that may have taken long
        assert all(abs(end - at - ttl) < 0.001 and stored == term for at, end, stored in rows), rows
        between += [later[0] - earlier[0] for earlier, later in zip(rows, rows[1:])]
    # A machine with much else to do makes some late, and with them the next ones early, but not by a tenth.
    assert max(between) < 2 * third, between
    assert min(between) > third * 0.5, between
    assert sum(each < third * 0.9 for each in between) >= 3, f"no jitter: {between}"


@scenario()
def a_release_is_seen_at_once(game):
    handle, term = game.hold(ttl=10_000)
    assert game.release(handle)
    game.lost(handle, 2)
    assert not game.is_held(handle)
    assert game.database.lease(game.scope)[3]
    assert not game.release(handle), "a second release gives nothing back"
    assert game.hold()[1] > term


@scenario(own=True)
def the_end_of_the_block_gives_the_lease_back(game):
    player = game.own()
    game.hold(player=player, ttl=30_000)
    player.quit()
    assert player.heard("player", "gone", 10)
    assert game.database.lease(game.scope)[3], "the lease is still held"
    assert player.process.wait(10) == 0


# ---- two holders ------------------------------------------------------------------------------------


@scenario()
def a_waiter_has_the_lease_soon_after_its_release(game):
    first, term = game.hold(ttl=30_000)
    second = game.ask_hold(wait=20_000)
    assert game.player.heard(second, "held", 0.7) is None
    assert game.release(first)
    released = time.time()
    heard = game.player.heard(second, "held")
    assert heard and heard[0] - released < 2.5, heard
    assert int(heard[1][0]) > term


@scenario()
def a_waiter_gives_up_in_time(game):
    first, term = game.hold(ttl=30_000)
    assert game.player.answer(game.ask_hold())[0] == "blocked"
    asked = time.time()
    second = game.ask_hold(wait=800)
    heard = game.player.heard(second, "blocked")
    assert heard and 0.75 < heard[0] - asked < 3, heard
    game.not_lost(first)
    assert game.database.lease(game.scope)[1] == term


@scenario(own=True)
def a_lease_of_a_killed_process_ends_by_itself(game):
    player = game.own()
    _, term = game.hold(player=player)
    end = game.database.lease(game.scope)[2]
    second = game.ask_hold(wait=20_000)
    player.kill()
    heard = game.player.heard(second, "held")
    assert heard and heard[0] >= end - 0.01 and int(heard[1][0]) > term, (heard, end)


@scenario()
def the_same_owner_takes_its_lease_again_and_the_first_handle_is_lost(game):
    first, term = game.hold(owner=f"{game.scope}: one")
    second, next_term = game.hold(owner=f"{game.scope}: one")
    assert next_term > term
    game.lost(first, 2.3)
    assert not game.is_held(first)
    game.not_lost(second)


@scenario()
def a_stale_owner_gives_nothing_back(game):
    first, _ = game.hold(owner=f"{game.scope}: one")
    second, term = game.hold(owner=f"{game.scope}: one")
    assert not game.release(first)
    assert game.database.lease(game.scope)[1:4:2] == (term, False)
    game.not_lost(second)


# ---- a lease that is taken away ---------------------------------------------------------------------


@scenario()
def a_forced_release_is_noticed_at_the_next_renewal(game):
    handle, _ = game.hold(ttl=6000)
    game.database.force_release(game.scope)
    forced = time.time()
    assert game.lost(handle) - forced < 4.0, "the next renewal did not notice it"


@only_postgresql
def a_refused_renewal_ends_it(game):
    handle, _ = game.hold(ttl=6000)
    game.database.rows("UPDATE termgate.leases SET expires_at = clock_timestamp() - interval '1 s' WHERE scope = %s", game.scope)
    ended = time.time()
    assert game.lost(handle) - ended < 4.0, "the next renewal did not notice it"
    assert not game.is_held(handle)


@scenario(own=True)
def a_process_that_was_stopped_for_too_long_knows_it(game):
    player = game.own()
    handle, term = game.hold(player=player)
    player.stop()
    second, next_term = game.hold(wait=20_000)
    assert next_term > term
    player.go_on()
    assert not game.is_held(handle, player)
    game.lost(handle, player=player)
    assert "TG001" in " ".join(game.write(handle, player=player))
    game.not_lost(second)


# ---- a lease that is asked for ----------------------------------------------------------------------


@scenario()
def a_holder_is_asked_to_leave_and_goes_in_order(game):
    handle, term = game.hold(ttl=6000)
    second = game.ask_hold(ttl=6000, wait=20_000)
    game.database.hand_over(game.scope)
    asked = time.time()
    assert game.player.heard(handle, "asked", 4.0), "the next renewal did not say so"
    assert game.write(handle) == ["written"]
    game.renewed(2)
    game.not_lost(handle)
    assert game.player.heard(second, "held", 0) is None
    assert game.release(handle)
    heard = game.player.heard(second, "held")
    assert heard and heard[0] - asked < 12 and int(heard[1][0]) == term + 1, heard


@scenario()
def a_lease_that_is_handed_over_is_kept_for_its_successor(game):
    handle, term = game.hold(owner=f"{game.scope}: old", ttl=6000)
    game.database.hand_over(game.scope, f"{game.scope}: new*")
    assert game.release(handle)
    for owner in (f"{game.scope}: old", f"{game.scope}: another"):
        assert game.player.answer(game.ask_hold(owner=owner))[0] == "blocked", owner
    _, next_term = game.hold(owner=f"{game.scope}: new 7")
    assert next_term == term + 1


@scenario()
def a_holder_that_does_not_leave_loses_it_before_another_can_have_it(game):
    handle, term = game.hold()
    game.database.hand_over(game.scope, drain_ms=1500)
    assert game.player.heard(handle, "asked"), "the holder was not asked"
    at, end = game.lost_before_the_end(handle)
    second, next_term = game.hold(wait=20_000)
    assert next_term == term + 1 and time.time() >= end


# ---- a database or a network that fails -------------------------------------------------------------


@only_postgresql
def a_frozen_database_ends_it_before_another_can_have_it(game):
    relay = game.relay()
    handle, _ = game.hold(relay=relay)
    game.renewed()
    relay.freeze()
    game.lost_before_the_end(handle)
    assert not game.is_held(handle)


@only_postgresql
def late_answers_count_from_when_the_renewal_was_sent(game):
    # The answer takes longer than the margin, 1.6 s: who counts from it believes in the lease for longer than the database does.
    relay = game.relay()
    handle, _ = game.hold(relay=relay, ttl=8000)
    game.renewed()
    relay.delay = 1.85
    game.renewed()
    relay.freeze("requests")
    game.lost_before_the_end(handle)


def survives(game, begins, ends):
    relay = game.relay()
    handle, term = game.hold(relay=relay, ttl=6000)
    game.renewed()
    begins(relay)
    time.sleep(2.5)  # a renewal is due meanwhile
    ends(relay)
    game.renewed(2)
    game.not_lost(handle)
    assert game.database.lease(game.scope)[1] == term


@only_postgresql
def a_short_freeze_is_survived(game):
    survives(game, Relay.freeze, Relay.thaw)


@only_postgresql
def a_killed_session_is_replaced(game):
    relay = game.relay()
    handle, term = game.hold(relay=relay, ttl=6000)
    for _ in range(2):
        game.database.end_sessions(relay.ports)
        game.renewed()
    game.not_lost(handle)
    assert game.database.lease(game.scope)[1] == term
    assert game.release(handle)


@only_postgresql
def a_database_that_is_gone_ends_it_before_another_can_have_it(game):
    relay = game.relay()
    handle, _ = game.hold(relay=relay)
    game.renewed()
    relay.refuse()
    game.lost_before_the_end(handle)


@only_postgresql
def a_short_absence_is_survived(game):
    survives(game, Relay.refuse, Relay.accept)


@only_postgresql
def a_connection_that_is_dead_does_not_end_it(game):
    # The first connection hangs for good; a new one works.
    relay = game.relay()
    handle, term = game.hold(relay=relay, ttl=6000)
    relay.forget()
    game.renewed(2)
    game.not_lost(handle)
    assert game.database.lease(game.scope)[1] == term


@only_postgresql
def a_release_does_not_wait_for_a_frozen_database(game):
    relay = game.relay()
    handle, _ = game.hold(relay=relay)
    relay.freeze()
    asked = time.time()
    game.player.ask("release", handle)
    assert time.time() - asked < 5


@scenario(databases=("postgresql",), own=True)
def a_stepped_clock_changes_nothing(game):
    folder = game.language.folder
    clock = folder / "clock"
    clock.write_text("0", encoding="utf-8")
    game.language.run("cc", "-shared", "-fPIC", "-o", folder / "stepped_clock.so", Path(__file__).with_name("stepped_clock.c"))
    player = game.own(LD_PRELOAD=str(folder / "stepped_clock.so"), STEPPED_CLOCK=str(clock))
    handle, term = game.hold(player=player)
    for step in ("3600", "-3600"):
        clock.write_text(step, encoding="utf-8")
        game.renewed(2)
        game.not_lost(handle, player)
    assert game.database.lease(game.scope)[1] == term


@only_postgresql
def a_declaration_ends_with_its_transaction(game):
    handle, _ = game.hold()
    assert "TG002" in " ".join(game.write(handle, "twice"))
    assert game.database.written(game.value) == 1


# ---- names, numbers, rights -------------------------------------------------------------------------


@scenario()
def hostile_names_are_only_names(game):
    names = [
        "'; DROP TABLE written; --",
        'a "quoted" \\ name',
        "$1 %s %% ? :1 @p1 {0}",
        "zwei\nZeilen\tTab",
        "\U0001f512 schloß",
        "x" * 150,
    ]
    for name in names:
        scope = f"{game.language.name} {name}"
        handle, term = game.hold(scope=scope, owner=f"{name}: owner")
        assert game.database.lease(scope)[:2] == (f"{name}: owner", term), name
        assert game.write(handle) == ["written"], name
        assert game.release(handle), name
        assert game.database.lease(scope)[3], name
    assert game.database.written(game.value) == len(names)


@scenario()
def a_term_of_2_to_the_62_is_exact(game):
    game.database.seal(game.scope, 2**62 - 1)
    handle, term = game.hold()
    assert term == 2**62
    assert reported(game, watch(game), 1)[1] == str(2**62)
    assert game.write(handle) == ["written"]
    game.renewed(2)
    game.not_lost(handle)
    assert game.release(handle)


@scenario()
def a_ttl_or_a_scope_out_of_range_is_refused(game):
    asked = [game.ask_hold(ttl=ttl) for ttl in (0, 99, 86_400_001)] + [game.ask_hold(scope=scope) for scope in ("", "x" * 201)]
    for words in map(game.player.answer, [*asked, lead(game, 99)]):
        assert words[0] == "error" and "TG005" in " ".join(words), words
    assert game.database.lease(game.scope)[0] is None


@only_postgresql
def a_role_without_the_right_gets_an_error(game):
    words = game.player.answer(game.ask_hold(role="writer", wait=5000))
    assert words[0] == "error" and ("42501" in words or "permission denied" in " ".join(words)), words


# ---- who leads --------------------------------------------------------------------------------------


def watch(game, poll=200, relay=None):
    name = game.player.name()
    game.player.send("watch", name, game.url(relay), game.database.name, game.scope, poll)
    return name


def reported(game, name, nth, seconds=15.0):
    """The nth report of a watch: owner, term and endpoint, or nothing where nobody leads."""
    heard = game.player.heard(name, "now", seconds, nth)
    assert heard, f"no report {nth} within {seconds} s: {game.player.heard(name, 'error', 0)}"
    return heard[1]


@scenario(own=True)
def a_watch_reports_who_leads_and_each_change(game):
    one, two, three = (f"{game.scope}: {name}" for name in ("one", "two", "three"))
    name = watch(game)
    assert reported(game, name, 1) == []
    # A renewal is no change; a new term of the same owner is one.
    _, term = game.hold(owner=one, endpoint="one:80", ttl=6000)
    assert reported(game, name, 2) == [one, str(term), "one:80"]
    game.renewed()
    handle, next_term = game.hold(owner=one, ttl=6000)
    assert reported(game, name, 3) == [one, str(next_term), ""]
    # A hand-over: its request is no change.
    game.database.hand_over(game.scope)
    assert game.player.heard(handle, "asked", 4.0), "the next renewal did not say so"
    assert game.release(handle)
    assert reported(game, name, 4) == []
    # A takeover by expiry.
    player = game.own()
    _, term = game.hold(owner=two, player=player)
    assert reported(game, name, 5) == [two, str(term), ""]
    player.kill()
    assert reported(game, name, 6) == []
    assert game.player.heard(name, "now", nth=6)[0] >= game.database.lease(game.scope)[2] - 0.01, "it reported the end too early"
    _, term = game.hold(owner=three)
    assert reported(game, name, 7) == [three, str(term), ""]
    game.player.ask("stop", name)
    assert game.player.heard(name, "done"), "the watch did not end"
    assert game.player.heard(name, "now", 0, nth=8) is None
    for poll in (9, 86_400_001):
        words = game.player.answer(watch(game, poll))
        assert words[0] == "error" and "TG005" in " ".join(words), words


@only_postgresql
def a_watch_without_an_answer_reports_no_change(game):
    _, term = game.hold(ttl=60_000)
    relays = [game.relay(), game.relay()]
    watches = [watch(game, relay=relay) for relay in relays]
    for name in watches:
        assert reported(game, name, 1)[1] == str(term)
    gone, frozen = relays
    gone.refuse()
    frozen.freeze()
    for name in watches:
        assert game.player.heard(name, "error"), "the caller was not told that no answer came"
        assert game.player.heard(name, "now", 0, nth=2) is None, "a lost connection is no change"


# ---- the leader loop --------------------------------------------------------------------------------


def lead(game, ttl=TTL):
    name = game.player.name()
    game.player.send("lead", name, game.url(), game.database.name, game.scope, ttl)
    return name


@scenario()
def a_loop_that_is_asked_to_leave_stops_its_work_and_another_leads(game):
    first = lead(game)
    heard = game.player.heard(first, "leading")
    assert heard
    second = lead(game)
    assert game.player.heard(second, "leading", 0.5) is None
    game.database.hand_over(game.scope)
    assert game.player.heard(first, "stopped", 4.0), "the work was not stopped"
    next_one = game.player.heard(second, "leading")
    assert next_one and int(next_one[1][0]) == int(heard[1][0]) + 1, "it did not leave, or came back itself"
    assert game.player.heard(first, "leading", 0.5, nth=2) is None and game.player.heard(first, "done", 0) is None
    for loop in (first, second):
        game.player.ask("stop", loop)
        assert game.player.heard(loop, "done")


@scenario()
def a_loop_whose_work_fails_gives_the_lease_back(game):
    name = lead(game, 30_000)
    assert game.player.heard(name, "leading")
    game.player.ask("fail", name)
    heard = game.player.heard(name, "error")
    assert heard and "the work failed" in " ".join(heard[1]), heard
    assert eventually(lambda: game.database.lease(game.scope)[3], 5), "the lease is still held"
