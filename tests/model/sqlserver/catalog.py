"""What CREATE statements leave behind: tables with their indexes, modules, table types."""


class Index:
    def __init__(self, name, keys, include, unique):
        self.name, self.keys, self.include, self.unique = name, keys, include, unique


class Table:
    def __init__(self, name, columns, keys):
        self.name, self.columns = name, [column[0] for column in columns]
        self.types = {column[0]: column[1] for column in columns}
        self.defaults = {column[0]: column[2] for column in columns}
        self.identity = [column[0] for column in columns if column[3]]
        self.at = {column: place for place, column in enumerate(self.columns)}
        self.triggers = []
        primary = next((names for kind, names in keys if kind == "primary"), None)
        # A heap: a row is locked by its place, for which all of it stands.
        self.primary = Index("primary", primary or self.columns, [], primary is not None)
        self.indexes = [self.primary]
        for kind, names in keys:
            if kind != "primary":
                self.indexes.append(Index("_".join(names), names, [], kind == "unique"))

    def key(self, row):
        return tuple(row[self.at[column]] for column in self.primary.keys)

    def entry(self, index, row):
        """The key of an index's entry; behind that of an index besides the primary stands the row's own."""
        own = tuple(row[self.at[column]] for column in index.keys)
        return own if index is self.primary else own + self.key(row)

    def index(self, name):
        return next(index for index in self.indexes if index.name == name)

    def covers(self, index, columns):
        """Whether an index holds all of these columns."""
        return index is self.primary or set(columns) <= set(index.keys) | set(index.include) | set(self.primary.keys)


class Module:
    def __init__(self, kind, name, parameters, returns, table, body, file):
        self.kind, self.name, self.parameters, self.returns, self.table, self.body, self.file = (
            kind,
            name,
            parameters,
            returns,
            table,
            body,
            file,
        )


class Catalog:
    def __init__(self):
        self.tables, self.modules, self.types, self.sequences = {}, {}, {}, {}

    def define(self, statement, file):
        """Takes a CREATE statement in."""
        kind = statement[0]
        if kind == "create_table":
            self.tables[statement[2]] = Table(statement[2], *statement[3])
        elif kind == "create_type":
            self.types[statement[2]] = statement[3]
        elif kind == "create_index":
            _, _, name, table, keys, include, unique = statement
            if all(index.name != name for index in self.tables[table].indexes):
                self.tables[table].indexes.append(Index(name, keys, include, unique))
        elif kind == "module":
            _, _, what, name, parameters, returns, table, body, _ = statement
            module = Module(what, name, parameters, returns, table, body, file)
            self.modules[name] = module
            if what == "TRIGGER":
                triggers = self.tables[table].triggers
                triggers[:] = [trigger for trigger in triggers if trigger.name != name] + [module]


def conjuncts(condition):
    if condition is None:
        return []
    if condition[0] == "and":
        return conjuncts(condition[1]) + conjuncts(condition[2])
    return [condition]


def columns_of(tree, alias, found, table):
    """The columns of one table that an expression, or anything made of them, speaks of."""
    if isinstance(tree, tuple):
        if tree and tree[0] == "column":
            if tree[1] == alias or (tree[1] is None and tree[2] in table.at):
                found.add(tree[2])
            return found
        if tree and tree[0] == "star":
            return found
        for part in tree:
            columns_of(part, alias, found, table)
    elif isinstance(tree, list):
        for part in tree:
            columns_of(part, alias, found, table)
    elif hasattr(tree, "items") and not isinstance(tree, dict):  # a query inside
        columns_of(
            [tree.items, tree.where, [term for term, _ in tree.order], tree.group, [source.on for source in tree.sources], tree.union],
            alias,
            found,
            table,
        )
    return found


class Plan:
    """How a table is read: by which index, which columns are fixed (expressions), between which bounds (expression, inclusive),
    and whether the row itself is looked up besides."""

    def __init__(self, index, prefix, low, high, lookup):
        self.index, self.prefix, self.low, self.high, self.lookup = index, prefix, low, high, lookup


def plan(table, alias, conditions, needed, hints):
    """The index with the most columns fixed by equality, then with a bound;
    a unique one that is fixed whole wins. SQL Server's optimizer weighs more; for the statements of layer 1, which
    all ask by a key, it has no other choice but a scan of a table that is nearly empty."""
    fixed, bounds = {}, {}
    for condition in conditions:
        if condition[0] == "compare":
            for column, other, operator in [
                (condition[2], condition[3], condition[1]),
                (condition[3], condition[2], {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(condition[1], condition[1])),
            ]:
                if (
                    column[0] == "column"
                    and (column[1] == alias or (column[1] is None and column[2] in table.at))
                    and not columns_of(other, alias, set(), table)
                ):
                    if operator == "=":
                        fixed.setdefault(column[2], other)
                    elif operator != "<>":
                        bounds.setdefault(column[2], []).append((operator, other))
    best = None
    for index in table.indexes:
        if hints.get("INDEX", index.name) not in (index.name, 0):
            continue
        count = 0
        while count < len(index.keys) and index.keys[count] in fixed:
            count += 1
        bound = bounds.get(index.keys[count], []) if count < len(index.keys) else []
        covered = table.covers(index, needed)
        rank = (index.unique and count == len(index.keys), count, bool(bound), covered, index is table.primary)
        if best is None or rank > best[0]:
            best = (rank, index, count, bound, covered)
    if best is None:
        raise KeyError(f"{table.name} has no index {hints['INDEX']}")
    _, index, count, bound, covered = best
    low = next(((value, operator == ">=") for operator, value in bound if operator in (">", ">=")), None)
    high = next(((value, operator == "<=") for operator, value in bound if operator in ("<", "<=")), None)
    return Plan(index, [fixed[column] for column in index.keys[:count]], low, high, not covered)


def locking(level, rcsi, hints, writes):
    """What a read takes of each row: (version, mode, hold, ranged). READPAST is the
    caller's to look at. level: RU, RC, RR, SER, SNAP; writes: the search of an UPDATE or DELETE."""
    if hints.get("NOLOCK") or hints.get("READUNCOMMITTED"):
        return ("dirty", None, False, False)
    if hints.get("READCOMMITTEDLOCK") or hints.get("READCOMMITTED"):
        level = "RC"
    elif hints.get("REPEATABLEREAD"):
        level = "RR"
    if hints.get("HOLDLOCK") or hints.get("SERIALIZABLE"):
        level = "SER"
    mode = "X" if hints.get("XLOCK") else "U" if hints.get("UPDLOCK") or writes else "S"
    if mode == "S":
        if level == "RU":
            return ("dirty", None, False, False)
        if level == "SNAP":
            return ("snapshot", None, False, False)
        if level == "RC" and rcsi and not hints.get("READCOMMITTEDLOCK"):
            return ("statement", None, False, False)
    return ("locked", mode, mode != "S" or level in ("RR", "SER"), level == "SER")
