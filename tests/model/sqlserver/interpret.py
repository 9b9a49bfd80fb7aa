# Long: one case for each kind of T-SQL statement.
"""Runs T-SQL (tsql.py) as a session does: a generator that asks the server (server.py) for all that others can see or
change, and computes the rest. It yields (place, lock timeout, isolation level, request, arguments) and is sent the
response.

Time is the session's own: it goes on only while the session waits, by the whole of a wait that was in vain. A time
that is stored in a row has no value; to compare it with another is a choice, and the search goes both ways.
"""
import hashlib

import functions
import tsql
from catalog import columns_of, conjuncts, locking, plan
from engine import Err

LEVELS = {"READ UNCOMMITTED": "RU", "READ COMMITTED": "RC", "REPEATABLE READ": "RR", "SERIALIZABLE": "SER", "SNAPSHOT": "SNAP"}
# Rows are written there under keys that nobody else has, and read by no procedure of the model: who holds them keeps nobody.
LOGS = {"audit", "observed"}
STORED = ("time", None)
# Looks up a name for a message, and decides nothing.
NAMES_ONLY = {"_row_holder"}


class SqlError(Exception):
    def __init__(self, number, message, abort=False):
        super().__init__(f"{number} {message}")
        self.number, self.message, self.abort = number, message, abort


class Break(Exception):
    pass


class Continue(Exception):
    pass


class Return(Exception):
    def __init__(self, value):
        super().__init__()
        self.value = value


class LocalTable:
    """A table variable, a temporary table, inserted and deleted."""

    def __init__(self, columns, rows=()):
        self.columns, self.rows = list(columns), list(rows)
        self.at = {column: place for place, column in enumerate(self.columns)}


class Frame:
    def __init__(self, module):
        self.module, self.variables, self.tables = module, {}, {}


def walk(tree, queries=True):
    """Every tuple of an expression or statement; with `queries` those of the queries inside, too."""
    if isinstance(tree, (tuple, list)):
        if isinstance(tree, tuple):
            yield tree
        for part in tree:
            yield from walk(part, queries)
    elif isinstance(tree, tsql.Query) and queries:
        yield ("query", len(tree.sources))
        for part in (tree.items, tree.where, tree.order, tree.top, tree.group, tree.union):
            yield from walk(part)
        for source in tree.sources:
            yield from walk((source.on, source.query))


class Interpreter:
    def __init__(self, catalog, rcsi, level="RC"):
        self.catalog, self.rcsi, self.level = catalog, rcsi, level
        self.lock_timeout, self.xact_abort, self.rowcount = None, False, 0
        self.stack, self.errors, self.results, self.group, self.line = [], [], [], None, 0
        self.wrote = False

    # --- talking to the server ---
    def ask(self, request, *arguments):
        module = self.stack[-1].module if self.stack else None
        response = yield ((module.name if module else "the client's batch", self.line), self.lock_timeout, self.level, request, arguments)
        if isinstance(response, Err):
            raise SqlError(response[0], response[1], self.xact_abort)
        return response

    def batch(self, text):
        """The whole of what a client sends at once. Returns its result sets, or the error it ended with."""
        self.stack.append(Frame(None))
        try:
            yield from self.run(tsql.read(text))
        except Return:
            pass
        except SqlError as error:
            doomed = yield from self.ask("env", "doomed")
            count = yield from self.ask("env", "trancount")
            if count and (error.abort or doomed):
                yield from self.ask("rollback")
            return ("error", error.number, error.message)
        if (yield from self.ask("env", "doomed")):
            yield from self.ask("rollback")
            return ("error", 3998, "an uncommittable transaction was rolled back at the end of the batch")
        return ("done", tuple(self.results))

    # --- statements ---
    def run(self, statements):
        for statement in statements:
            yield from self.execute(statement)

    def execute(self, statement):
        kind = statement[0]
        if kind in ("nothing", "option") and kind == "nothing":
            return
        self.line = statement[1]
        handler = getattr(self, "do_" + kind, None)
        if handler is None:
            self.catalog.define(statement, self.stack[-1].module.file if self.stack[-1].module else "")
            return
        if kind not in ("block", "try", "while"):
            yield from self.ask("statement")
        if (
            kind in ("insert", "update", "delete")
            and self.is_stored(statement[2])
            and not (yield from self.ask("env", "trancount"))
            and not (yield from self.ask("env", "implicit"))
        ):
            yield from self.autocommit(handler, statement)
        else:
            yield from handler(*statement[2:])

    def is_stored(self, target):
        name = target if isinstance(target, str) else target.name
        return name in self.catalog.tables and name not in LOGS and self.find_local(name) is None

    def autocommit(self, handler, statement):
        """A statement outside a transaction is one of its own, its triggers in it."""
        self.wrote = False
        yield from self.ask("begin")
        try:
            yield from handler(*statement[2:])
        except SqlError:
            yield from self.ask("rollback")
            raise
        yield from self.ask("commit" if self.wrote else "end_of_nothing")

    def do_block(self, body):
        yield from self.run(body)

    def do_if(self, condition, then, other):
        if (yield from self.value(condition)) is True:
            yield from self.execute(then)
        elif other is not None:
            yield from self.execute(other)

    def do_while(self, condition, body):
        while (yield from self.value(condition)) is True:
            try:
                yield from self.execute(body)
            except Break:
                break
            except Continue:
                continue

    def do_break(self):
        raise Break
        yield

    def do_continue(self):
        raise Continue
        yield

    def do_return(self, value):
        raise Return((yield from self.value(value)) if value is not None else 0)

    def do_try(self, body, handler):
        depth = len(self.stack)
        kept = (self.level, self.lock_timeout, self.xact_abort)
        try:
            yield from self.run(body)
        except SqlError as error:
            del self.stack[depth:]
            self.level, self.lock_timeout, self.xact_abort = kept
            if error.abort or error.number == 1205:
                yield from self.ask("doom")
            self.errors.append(error)
            yield from self.run(handler)
            self.errors.pop()

    def do_throw(self, number, message):
        if number is None:
            raise self.errors[-1]
        number, message = (yield from self.value(number)), (yield from self.value(message))
        raise SqlError(number, message, self.xact_abort)

    def do_declare(self, found):
        frame = self.stack[-1]
        for name, kind, default in found:
            if kind[0] in self.catalog.types:
                frame.tables[name] = LocalTable([column[0] for column in self.catalog.types[kind[0]][0]])
            else:
                frame.variables[name] = functions.convert((yield from self.value(default)), kind) if default is not None else None

    def do_set(self, name, value):
        self.assign(name, (yield from self.value(value)))

    def assign(self, name, value):
        if name not in self.stack[-1].variables:
            raise KeyError(f"{name} is not declared (line {self.line})")
        self.stack[-1].variables[name] = value

    def do_isolation(self, level):
        self.level = LEVELS[level]
        return
        yield

    def do_option(self, option, value):
        if option == "XACT_ABORT":
            self.xact_abort = value == "ON"
        elif option == "LOCK_TIMEOUT":
            self.lock_timeout = None if value == "-1" else int(value)
        elif option == "IMPLICIT_TRANSACTIONS":
            yield from self.ask("set_implicit", value == "ON")

    def do_begin(self):
        yield from self.ask("begin")

    def do_commit(self):
        yield from self.ask("commit")

    def do_rollback(self):
        yield from self.ask("rollback")

    def do_kill(self, session):
        yield from self.ask("kill", (yield from self.value(session)))

    def do_dynamic(self, text):
        text = yield from self.value(text)
        yield from self.run(tsql.read(text, self.line))

    # --- calls ---
    def do_exec(self, procedure, arguments, code):
        values = []
        for name, value, output in arguments:
            table = value[0] == "variable" and value[1] in self.stack[-1].tables
            values.append(
                (name, self.stack[-1].tables[value[1]] if table else (yield from self.value(value)), value[1] if output else None)
            )
        if procedure.startswith("sp_"):
            answer = yield from getattr(self, "call_" + procedure)(values)
        else:
            answer = yield from self.call(self.catalog.modules[procedure], values)
        if code is not None:
            self.assign(code, answer)

    def call(self, module, values, tables=None):
        frame = Frame(module)
        frame.tables.update(tables or {})
        outputs = []
        for at, (name, kind, default, _) in enumerate(module.parameters):
            given = next((value for value in values if value[0] == name), None) or (
                values[at] if at < len(values) and values[at][0] is None else None
            )
            if given is None:
                frame.variables[name] = (yield from self.value(default)) if default is not None else None
                continue
            if isinstance(given[1], LocalTable):
                frame.tables[name] = given[1]
                continue
            frame.variables[name] = functions.convert(given[1], kind)
            if given[2] is not None:
                outputs.append((name, given[2]))
        if module.name in NAMES_ONLY:
            return 0
        kept = (self.level, self.lock_timeout, self.xact_abort, self.line)
        answer = 0
        self.stack.append(frame)
        try:
            yield from self.run(module.body)
        except Return as back:
            answer = back.value
        self.stack.pop()
        self.level, self.lock_timeout, self.xact_abort, self.line = kept
        for inner, outer in outputs:
            self.assign(outer, frame.variables[inner])
        return answer

    def call_sp_executesql(self, values):
        text = values[0][1]
        frame = Frame(self.stack[-1].module)
        declared = [
            declaration.strip().split()
            for declaration in (values[1][1] if len(values) > 1 else "").split(",")
            if declaration.strip().startswith("@")
        ]
        for at, (name, value, _) in enumerate(values[2:]):
            frame.variables[name or declared[at][0].lower()] = value
        self.stack.append(frame)
        yield from self.run(tsql.read(text, self.line))
        self.stack.pop()
        for at, (name, _, output) in enumerate(values[2:]):
            if output is not None:
                self.assign(output, frame.variables[name or declared[at][0].lower()])
        return 0

    def call_sp_settriggerorder(self, values):
        return 0
        yield

    def call_sp_set_session_context(self, values):
        named = {name: value for name, value, _ in values if name}
        key = named.get("@key", values[0][1])
        yield from self.ask("context_set", key, named.get("@value", values[1][1] if len(values) > 1 else None))
        return 0

    def call_sp_getapplock(self, values):
        named = {name: value for name, value, _ in values}
        owner = "S" if named.get("@lockowner", "Transaction").lower() == "session" else "T"
        return (
            yield from self.ask(
                "getapplock", named["@resource"], named["@lockmode"].capitalize(), owner, int(named.get("@locktimeout", -1))
            )
        )

    def call_sp_releaseapplock(self, values):
        named = {name: value for name, value, _ in values}
        owner = "S" if named.get("@lockowner", "Transaction").lower() == "session" else "T"
        return (yield from self.ask("releaseapplock", named["@resource"], owner))

    # --- reading ---
    def find_local(self, name):
        frames = reversed(self.stack) if name.startswith("#") else self.stack[-1:]
        return next((frame.tables[name] for frame in frames if name in frame.tables), None)

    def joined(self, query, scope, limit=None, backward=False):
        """The rows of FROM and WHERE: scopes, each a list of (alias, columns, row)."""
        found = []
        yield from self.join(query, 0, scope, found, limit, backward)
        return found

    def join(self, query, at, scope, found, limit, backward):
        if at == len(query.sources):
            if query.where is None or (yield from self.value(query.where, scope)) is True:
                found.append(scope)
            return
        source, matched = query.sources[at], False
        if ("conditions", at) not in query.known:
            later = {other.alias for other in query.sources[at + 1 :]}
            query.known[("conditions", at)] = [
                condition for condition in conjuncts(query.where) + conjuncts(source.on) if not aliases_of(condition) & later
            ]
        rows = self.rows_of(source, query.known[("conditions", at)], query, scope, backward)
        answer = None
        while True:
            try:
                step = rows.send(answer)
            except StopIteration:
                break
            if step[0] != "row":
                answer = yield step
                continue
            answer = None
            inner = [(source.alias, step[1], step[2])] + scope
            if source.on is not None and (yield from self.value(source.on, inner)) is not True:
                continue
            matched = True
            yield from self.join(query, at + 1, inner, found, limit, backward)
            if limit is not None and len(found) >= limit:
                return
        if source.outer and not matched:
            yield from self.join(query, at + 1, [(source.alias, {}, None)] + scope, found, limit, backward)

    def rows_of(self, source, conditions, query, scope, backward, writes=False):
        """Yields ("row", columns, row) for each row of a source, and the requests in between. Under `writes` the entry of the index
        stands behind the row."""
        if source.query is not None:
            names = [name for _, name, _ in source.query.items]
            for row in (yield from self.select(source.query, scope)):
                yield ("row", {name: place for place, name in enumerate(names)}, row)
            return
        local = self.find_local(source.name)
        if local is not None:
            for row in list(local.rows):
                yield ("row", local.at, row)
            return
        if source.name.startswith("sys."):
            for row in (yield from functions.virtual(self, source.name)):
                yield ("row", None, row)
            return
        table = self.catalog.tables[source.name]
        chosen = self.plan(table, source, conditions, query)
        version, mode, hold, ranged = locking(self.level, self.rcsi, source.hints, writes)
        prefix = []
        for value in chosen.prefix:
            prefix.append((yield from self.value(value, scope)))
        if None in prefix:
            return
        low = ((yield from self.value(chosen.low[0], scope)), chosen.low[1]) if chosen.low else None
        high = ((yield from self.value(chosen.high[0], scope)), chosen.high[1]) if chosen.high else None
        after = None
        while True:
            met = yield from self.ask(
                "fetch",
                table,
                chosen.index,
                tuple(prefix),
                low,
                high,
                after,
                backward,
                (version, mode, hold, ranged, chosen.lookup, bool(source.hints.get("READPAST"))),
            )
            if met is None:
                return
            after, row = met
            yield ("row", table.at, row) if not writes else ("row", table.at, row, chosen.index, after)
            if chosen.index.unique and len(prefix) == len(chosen.index.keys):
                return

    def plan(self, table, source, conditions, query):
        """How a source is read; found out once for each catalog. query None: the search of an UPDATE or DELETE."""
        memory = (id(source), id(table))
        if memory not in self.catalog.plans:
            needed = table.columns if query is None else columns_of(query, source.alias, set(), table)
            self.catalog.plans[memory] = (plan(table, source.alias, conditions, needed, source.hints), source)
        return self.catalog.plans[memory][0]

    def select(self, query, scope=()):
        """The rows of a query, as tuples."""
        scope = list(scope)
        limit = (yield from self.value(query.top, scope)) if query.top is not None else None
        if "aggregates" not in query.known:
            query.known["aggregates"] = [
                tree for item in query.items for tree in walk(item[0], queries=False) if tree[:1] == ("aggregate",)
            ]
        aggregates = query.known["aggregates"]
        if not query.sources:
            rows = []
            if query.where is None or (yield from self.value(query.where, scope)) is True:
                rows = [(yield from self.items(query, scope))]
        elif aggregates or query.group:
            rows = yield from self.aggregate(query, scope, aggregates)
        else:
            ordered = not query.order or self.in_order(query)
            backward = bool(query.order) and query.order[0][1] and ordered
            scopes = yield from self.joined(query, scope, limit if ordered else None, backward)
            if not ordered:
                scopes = yield from self.sorted(query.order, scopes)
            rows = []
            for one in scopes[:limit]:
                rows.append((yield from self.items(query, one)))
        if query.distinct:
            rows = list(dict.fromkeys(rows))
        for other in query.union:
            rows = rows + (yield from self.select(other, scope))
        return [("{}",)] if query.json else rows

    def items(self, query, scope):
        values = []
        for value, _, variable in query.items:
            values.append((yield from self.value(value, scope)))
            if variable is not None:
                self.assign(variable, values[-1])
        return tuple(values)

    def in_order(self, query):
        """Whether the index that will be read gives the order that is asked for."""
        source = query.sources[0]
        if (
            len(query.sources) > 1
            or source.name not in self.catalog.tables
            or any(term[0][0] != "column" for term in query.order)
            or len({down for _, down in query.order}) > 1
        ):
            return False
        table = self.catalog.tables[source.name]
        chosen = self.plan(table, source, conjuncts(query.where), query)
        wanted = [term[0][2] for term in query.order]
        return chosen.index.keys[len(chosen.prefix) : len(chosen.prefix) + len(wanted)] == wanted

    def sorted(self, terms, scopes):
        keyed = []
        for scope in scopes:
            key = []
            for term, down in terms:
                value = yield from self.value(term, scope)
                key.append(functions.Descending(value) if down else functions.Ascending(value))
            keyed.append((key, scope))
        return [scope for _, scope in sorted(keyed, key=lambda pair: pair[0])]

    def aggregate(self, query, scope, aggregates):
        limit, backward = None, False
        # MAX and MIN of the next column of the index read one row, from its end.
        if (
            len({repr(tree) for tree in aggregates}) == 1
            and aggregates[0][1] in ("MAX", "MIN")
            and aggregates[0][2][0][0] == "column"
            and len(query.sources) == 1
            and query.sources[0].name in self.catalog.tables
        ):
            source, table = query.sources[0], self.catalog.tables[query.sources[0].name]
            chosen = self.plan(table, source, conjuncts(query.where), query)
            if chosen.index.keys[len(chosen.prefix) : len(chosen.prefix) + 1] == [aggregates[0][2][0][2]]:
                limit, backward = 1, aggregates[0][1] == "MAX"
        scopes = yield from self.joined(query, scope, limit, backward)
        groups = {}
        for one in scopes:
            key = []
            for term in query.group:
                key.append((yield from self.value(term, one)))
            groups.setdefault(tuple(key), []).append(one)
        if not query.group:
            groups = {(): scopes}
        rows = []
        for group in groups.values():
            kept, self.group = self.group, group
            rows.append((yield from self.items(query, group[0] if group else scope)))
            self.group = kept
        return rows

    def do_select(self, query):
        if looks_at_views(query):
            rows = list((yield from self.ask("views", self.aside(query)))[1])
            for row in rows:
                for (_, _, variable), value in zip(query.items, row):
                    if variable is not None:
                        self.assign(variable, value)
        else:
            rows = yield from self.select(query)
        self.rowcount = len(rows)
        if query.items[0][2] is None:
            self.results.append((tuple(name for _, name, _ in query.items), tuple(rows)))

    # --- writing ---
    def do_insert(self, table, columns, rows, query):
        found = []
        if query is not None and looks_at_views(query):
            # One look: what it finds is remembered, not all that the views showed.
            found = list((yield from self.ask("views", self.aside(query)))[1])
        elif query is not None:
            found = yield from self.select(query)
        for row in rows or []:
            values = []
            for value in row:
                values.append((yield from self.value(value)))
            found.append(tuple(values))
        self.rowcount = len(found)
        local = self.find_local(table)
        if local is not None:
            names = columns or local.columns
            for row in found:
                local.rows.append(tuple(row[names.index(column)] if column in names else None for column in local.columns))
            return
        if table in LOGS:
            return
        target, inserted = self.catalog.tables[table], []
        for row in found:
            whole = []
            for column in target.columns:
                if column in (columns or target.columns):
                    whole.append(functions.convert(row[(columns or target.columns).index(column)], target.types[column]))
                elif column in target.identity:
                    whole.append((yield from self.ask("env", "clock")) * 0 + len(inserted) + 1000 * len(self.results) + self.line)
                else:
                    whole.append((yield from self.value(target.defaults[column])) if target.defaults[column] is not None else None)
            whole = tuple(STORED if isinstance(value, tuple) and value[:1] == ("time",) else value for value in whole)
            yield from self.ask("insert", target, whole)
            inserted.append(whole)
        self.wrote = True
        yield from self.fire(target, "INSERT", [], inserted)

    def aside(self, query):
        """A query that may be run later, and more than once, with the variables as they are now."""
        kept = [(frame.module, dict(frame.variables), frame.tables) for frame in self.stack]
        level, line = self.level, self.line

        def run():
            other = Interpreter(self.catalog, self.rcsi, level)
            other.line = line
            for module, variables, tables in kept:
                other.stack.append(Frame(module))
                other.stack[-1].variables, other.stack[-1].tables = dict(variables), tables
            return other.select(query)

        return run

    def affected(self, source, where):
        """The rows of an UPDATE or DELETE, each locked: (table, key, row)."""
        table, found = self.catalog.tables[source.name], []
        rows = self.rows_of(source, conjuncts(where), None, [], False, writes=True)
        answer = None
        while True:
            try:
                step = rows.send(answer)
            except StopIteration:
                return found
            if step[0] != "row":
                answer = yield step
                continue
            answer = None
            if where is None or (yield from self.value(where, [(source.alias, table.at, step[2])])) is True:
                found.append((table, table.key(step[2]), step[2]))
            else:
                yield from self.ask("drop_row", table, step[3], step[4])

    def do_update(self, source, changes, where):
        found = yield from self.affected(source, where)
        deleted, inserted = [], []
        for table, key, row in found:
            new = list(row)
            for column, value in changes:
                computed = functions.convert((yield from self.value(value, [(source.alias, table.at, row)])), table.types[column])
                new[table.at[column]] = STORED if isinstance(computed, tuple) and computed[:1] == ("time",) else computed
            if table.key(new) != key:
                raise tsql.Unread(f"line {self.line}: an UPDATE of a primary key")
            yield from self.ask("change", table, key, tuple(new), self.level == "SNAP")
            deleted.append(row)
            inserted.append(tuple(new))
        self.rowcount = len(found)
        self.wrote = True
        if source.name in self.catalog.tables:
            yield from self.fire(self.catalog.tables[source.name], "UPDATE", deleted, inserted)
        self.rowcount = len(found)

    def do_delete(self, source, where, top):
        found = yield from self.affected(source, where)
        for table, key, _ in found:
            yield from self.ask("change", table, key, None, self.level == "SNAP")
        self.rowcount = len(found)
        self.wrote = True
        yield from self.fire(self.catalog.tables[source.name], "DELETE", [row for _, _, row in found], [])
        self.rowcount = len(found)

    def fire(self, table, action, deleted, inserted):
        for trigger in table.triggers:
            if action in trigger.returns:
                kept = (self.xact_abort, self.rowcount)
                self.xact_abort = True
                yield from self.call(
                    trigger, [], {"inserted": LocalTable(table.columns, inserted), "deleted": LocalTable(table.columns, deleted)}
                )
                self.xact_abort, self.rowcount = kept

    def do_create_table(self, name, columns):
        if name.startswith("#"):
            self.stack[-1].tables[name] = LocalTable([column[0] for column in columns[0]])
        else:
            self.catalog.define(("create_table", self.line, name, columns), "")
        return
        yield

    # --- expressions ---
    def value(self, tree, scope=()):
        return (yield from getattr(self, "value_" + tree[0])(tree, scope))

    def value_literal(self, tree, scope):
        return tree[1]
        yield

    def value_variable(self, tree, scope):
        variables = self.stack[-1].variables
        if tree[1] not in variables:
            raise KeyError(f"{tree[1]} is not declared (line {self.line})")
        return variables[tree[1]]
        yield

    def value_global(self, tree, scope):
        name = tree[1]
        if name == "@@rowcount":
            return self.rowcount
        if name == "@@trancount":
            return (yield from self.ask("env", "trancount"))
        if name == "@@spid":
            return (yield from self.ask("own_id"))
        if name == "@@options":
            return 2 if (yield from self.ask("env", "implicit")) else 0
        raise tsql.Unread(f"line {self.line}: {name}")

    def value_column(self, tree, scope):
        _, alias, name = tree
        for source, columns, row in scope:
            if alias in (None, source):
                if row is None:
                    return None
                if columns is None:
                    if name in row:
                        return row[name]
                elif name in columns:
                    return row[columns[name]]
        raise KeyError(f"there is no column {alias}.{name} (line {self.line})")
        yield

    def value_not(self, tree, scope):
        found = yield from self.value(tree[1], scope)
        return None if found is None else not found

    def value_and(self, tree, scope):
        first = yield from self.value(tree[1], scope)
        if first is False:
            return False
        second = yield from self.value(tree[2], scope)
        return False if second is False else None if None in (first, second) else True

    def value_or(self, tree, scope):
        first = yield from self.value(tree[1], scope)
        if first is True:
            return True
        second = yield from self.value(tree[2], scope)
        return True if second is True else None if None in (first, second) else False

    def value_compare(self, tree, scope):
        left, right = (yield from self.value(tree[2], scope)), (yield from self.value(tree[3], scope))
        if left is None or right is None:
            return None
        if isinstance(left, tuple) and isinstance(right, tuple) and None in (left[1], right[1]):
            return bool((yield from self.ask("choose", 2)))
        return functions.compare(tree[1], left, right)

    def value_in(self, tree, scope):
        found = yield from self.value(tree[1], scope)
        unknown = found is None
        for other in tree[2]:
            value = yield from self.value(other, scope)
            if value is None:
                unknown = True
            elif found is not None and functions.compare("=", found, value):
                return not tree[3]
        return None if unknown else tree[3]

    def value_between(self, tree, scope):
        value, low, high = (
            (yield from self.value(tree[1], scope)),
            (yield from self.value(tree[2], scope)),
            (yield from self.value(tree[3], scope)),
        )
        if None in (value, low, high):
            return None
        return (functions.compare(">=", value, low) and functions.compare("<=", value, high)) != tree[4]

    def value_isnull(self, tree, scope):
        return ((yield from self.value(tree[1], scope)) is None) != tree[2]

    def value_like(self, tree, scope):
        value, pattern = (yield from self.value(tree[1], scope)), (yield from self.value(tree[2], scope))
        return None if None in (value, pattern) else functions.like(value, pattern) != tree[3]

    def value_arithmetic(self, tree, scope):
        left, right = (yield from self.value(tree[2], scope)), (yield from self.value(tree[3], scope))
        return functions.arithmetic(tree[1], left, right)

    def value_negative(self, tree, scope):
        found = yield from self.value(tree[1], scope)
        return None if found is None else -found

    def value_case(self, tree, scope):
        for condition, result in tree[1]:
            if (yield from self.value(condition, scope)) is True:
                return (yield from self.value(result, scope))
        return (yield from self.value(tree[2], scope))

    def value_cast(self, tree, scope):
        return functions.convert((yield from self.value(tree[1], scope)), tree[2], tree[3])

    def value_exists(self, tree, scope):
        query = tree[1]
        if looks_at_views(query):
            return bool((yield from self.ask("views", self.aside(query)))[1])
        if query.union:
            return bool((yield from self.select(query, scope)))
        return bool((yield from self.joined(query, list(scope), 1))) if query.sources else True

    def value_scalar(self, tree, scope):
        rows = yield from self.select(tree[1], scope)
        return rows[0][0] if rows else None

    def value_aggregate(self, tree, scope):
        _, name, arguments, distinct = tree
        values = []
        for one in self.group:
            if arguments[0] == ("star",):
                values.append(1)
            else:
                kept, self.group = self.group, None
                values.append((yield from self.value(arguments[0], one)))
                self.group = kept
        values = [value for value in values if value is not None]
        if distinct:
            values = list(dict.fromkeys(values))
        return functions.aggregate(name, values)

    def value_call(self, tree, scope):
        """A function of layer 1. Those that look at nothing but their arguments are computed once."""
        module, arguments = self.catalog.modules[tree[1]], []
        for argument in tree[2]:
            arguments.append((yield from self.value(argument, scope)))
        plain = self.plain(module)
        memory = (module.name, tuple(arguments))
        if plain and memory in self.catalog.computed:
            return self.catalog.computed[memory]
        call = self.call(module, [(None, argument, None) for argument in arguments])
        found = functions.convert(self.by_itself(call) if plain else (yield from call), module.returns)
        if plain:
            self.catalog.computed[memory] = found
        return found

    @staticmethod
    def by_itself(call):
        """Runs what asks the server nothing: the same batch may be run again when the answer is known already."""
        try:
            while True:
                asks = call.send(None)
                if asks[3] != "statement":
                    raise RuntimeError(f"a function that was thought to look at its arguments only: {asks}")
        except StopIteration as end:
            return end.value

    def plain(self, module):
        if not hasattr(module, "plain"):
            module.plain = not any(
                (tree[0] == "query" and tree[1])
                or tree[0] == "global"
                or (tree[0] == "function" and tree[1] in functions.NOT_PLAIN)
                or (tree[0] == "call" and not self.plain(self.catalog.modules[tree[1]]))
                for tree in walk(module.body)
                if tree
            )
        return module.plain

    def value_function(self, tree, scope):
        name, arguments = tree[1], []
        if name == "hashbytes":
            data = yield from self.value(tree[2][1], scope)
            return None if data is None else hashlib.sha256(data).digest()
        for at, argument in enumerate(tree[2]):
            unit = at == 0 and name in ("dateadd", "datediff", "datediff_big", "datepart") and argument[0] == "column"
            arguments.append(argument[2] if unit else (yield from self.value(argument, scope)))
        if name in functions.OF_THE_SERVER:
            return (yield from functions.OF_THE_SERVER[name](self, *arguments))
        if name not in functions.PLAIN:
            raise tsql.Unread(f"line {self.line}: the function {name}")
        return functions.PLAIN[name](*arguments)


def looks_at_views(query):
    return any(source.name is not None and source.name.startswith("sys.dm_") for source in query.sources)


def aliases_of(tree):
    return {part[1] for part in walk(tree) if part[:1] == ("column",) and part[1] is not None}
