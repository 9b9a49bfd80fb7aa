"""Layer 1's text as a catalog: the install files run by the interpreter, in one session."""
import re
from pathlib import Path

import tsql
from catalog import Catalog
from search import Program, Search, Touched, Tree, World

# What the model leaves aside: views for people, doctor, grants, positions of readers.
LEFT_ASIDE = {"0006_reading.sql", "0008_doctor.sql", "0009_grants.sql", "0014_heartbeat.sql"}
# Procedures that the model cannot read. renew_leases takes, for one lease after the other, what renew_lease takes, and waits for no lease's
# lock; its argument is JSON. set_settings takes what set_setting takes; JSON again. gates_wanted has JSON too; it takes no lock and waits
# for nothing. follower_behind only reads, holds no lock to the end of a transaction, and waits 2 s at most.
NOT_READ = re.compile(r"^\s*(--[^\n]*\n\s*)*CREATE PROCEDURE termgate\.(renew_leases|set_settings|gates_wanted|follower_behind)\b")


INSTALL = Path(__file__).resolve().parents[3] / "sql/sqlserver/install"


def text_of(path):
    return path.read_text(encoding="utf-8").replace("@schema_lit@", "N'termgate'").replace("@schema@", "termgate")


def load(change=None):
    """(catalog, rows): what is installed. change(file name, text) may put another text in place of a file's."""
    catalog = Catalog()
    catalog.computed, catalog.plans = {}, {}
    world = World(catalog, False)
    rows = {}
    for path in sorted(INSTALL.glob("*.sql")):
        if path.name in LEFT_ASIDE:
            continue
        text = text_of(path)
        if change is not None:
            text = change(path.name, text)
        for batch, line in tsql.batches_of(text):
            if NOT_READ.match(batch):
                continue
            try:
                statements = tsql.read(batch, line)
                if all(statement[0] in ("module", "view", "nothing") for statement in statements):
                    for statement in statements:
                        if statement[0] == "module":
                            catalog.define(statement, path.name)
                else:
                    rows = run_alone(catalog, world, rows, ["\n" * (line - 1) + batch])
            except tsql.Unread as problem:
                raise tsql.Unread(f"{path.name}: {problem}") from None
    return catalog, rows


def run_alone(catalog, world, rows, texts, level="RC"):
    """The rows after one session has run these batches with nobody else there."""
    search = Search(world, {level: Tree(catalog, world.rcsi, level)}, [Program("setup", texts, level)], Touched(all_of_them=True))
    state = search.start(rows)
    while True:
        steps = search.steps(state)
        if not steps:
            break
        state = steps[-1].state
    session = world.draft(state).sessions[0]
    failed = dict(session.memory).get("error")
    if session.status != "done" or failed:
        raise RuntimeError(f"{texts[session.step - 1][:200]}: {failed}, {session.status}, {session.wait}")
    return world.draft(state).rows
