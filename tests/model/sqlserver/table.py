"""The locks of each statement of layer 1, as a table: what the planner (catalog.py) finds for it under each setting."""
from catalog import columns_of, conjuncts, locking, plan
from interpret import LOGS
from tsql import Query


def queries_in(tree):
    """Every query of a statement, the inner ones too."""
    if isinstance(tree, Query):
        yield tree
        for part in (tree.items, tree.where, tree.union, [source.on for source in tree.sources], [source.query for source in tree.sources]):
            yield from queries_in(part)
    elif isinstance(tree, (tuple, list)):
        for part in tree:
            yield from queries_in(part)


def statements_in(tree):
    if isinstance(tree, tuple) and tree and isinstance(tree[0], str) and len(tree) > 1 and isinstance(tree[1], int):
        yield tree
    if isinstance(tree, (tuple, list)):
        for part in tree:
            yield from statements_in(part)


def words(spec):
    version, mode, hold, ranged = spec
    if version != "locked":
        return {"dirty": "none (dirty)", "statement": "none (version)", "snapshot": "none (snapshot)"}[version]
    return ("RangeS-" if ranged else "") + mode + (", to the end of the transaction" if hold else ", while it is read")


def read(catalog, module, line, source, conditions, query, writes):
    table = catalog.tables[source.name]
    needed = table.columns if writes else columns_of(query, source.alias, set(), table)
    chosen = plan(table, source.alias, conditions, needed, source.hints)
    off, on, serializable = (
        words(locking(level, rcsi, source.hints, writes)) + (", X where it changes" if writes else "")
        for level, rcsi in (("RC", False), ("RC", True), ("SER", False))
    )
    place = f"{table.name}.{chosen.index.name}({', '.join(chosen.index.keys[:len(chosen.prefix)]) or 'all'})"
    return (
        f"{module.file}:{line} {module.name}: {'changes' if writes else 'reads'} {place} | RC: {off} | RC with row versions: {on} |"
        f" SERIALIZABLE: {serializable}"
    )


def of(catalog):
    """The lines of the table."""
    lines = []
    for name in sorted(catalog.modules, key=lambda name: (catalog.modules[name].file, name)):
        module = catalog.modules[name]
        seen = set()
        for statement in statements_in(module.body):
            if statement[0] in ("update", "delete") and statement[2].name in catalog.tables and statement[2].name not in LOGS:
                where = statement[4] if statement[0] == "update" else statement[3]
                seen.add((statement[1], read(catalog, module, statement[1], statement[2], conjuncts(where), None, True)))
            if statement[0] == "insert" and statement[2] in catalog.tables and statement[2] not in LOGS:
                seen.add(
                    (
                        statement[1],
                        (
                            f"{module.file}:{statement[1]} {name}: inserts into {statement[2]} | RangeI-N for a moment, X to the end of the"
                            " transaction"
                        ),
                    )
                )
            if statement[0] in ("block", "try", "if", "while") and statement[0] != "if":
                continue
            parts = [statement[2]] if statement[0] in ("if", "while") else list(statement[2:])
            for query in queries_in(parts):
                for source in query.sources:
                    if source.name in catalog.tables:
                        seen.add(
                            (
                                statement[1],
                                read(catalog, module, statement[1], source, conjuncts(query.where) + conjuncts(source.on), query, False),
                            )
                        )
        lines += [line for _, line in sorted(seen)]
    return lines
