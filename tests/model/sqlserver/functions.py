"""T-SQL's functions and operators as far as layer 1 uses them, and the server's views."""
import fnmatch

import tsql
from engine import order


class Ascending:
    def __init__(self, value):
        self.value = order(value)

    def __lt__(self, other):
        return self.value < other.value

    def __eq__(self, other):
        return self.value == other.value


class Descending(Ascending):
    def __lt__(self, other):
        return self.value > other.value


def compare(operator, left, right):
    if isinstance(left, str) and isinstance(right, str):
        left, right = left.rstrip(" ").lower(), right.rstrip(" ").lower()
    elif isinstance(left, str) != isinstance(right, str) and not isinstance(left, (bytes, tuple)) and not isinstance(right, (bytes, tuple)):
        left, right = int(left), int(right)
    elif isinstance(left, bytes) != isinstance(right, bytes):
        raise tsql.Unread(f"a comparison of {left!r} with {right!r}")
    return (
        {"=": left == right, "<>": left != right, "<": left < right, ">": left > right, "<=": left <= right, ">=": left >= right}[operator]
        if isinstance(left, (int, float, bytes))
        else {
            "=": left == right,
            "<>": left != right,
            "<": order(left) < order(right),
            ">": order(left) > order(right),
            "<=": order(left) <= order(right),
            ">=": order(left) >= order(right),
        }[operator]
    )


def arithmetic(operator, left, right):
    if left is None or right is None:
        return None
    if operator == "+":
        return left + right if type(left) is type(right) else int(left) + int(right)
    if operator == "-":
        return left - right
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if operator == "/" else left - right * quotient


def convert(value, kind, attempt=False):
    """A value as a type holds it."""
    name, length = kind
    if value is None or isinstance(value, tuple):
        return value if value is None or not name.startswith(("nvarchar", "varchar")) else "a time"
    if name in ("bigint", "int", "smallint", "bit", "tinyint"):
        try:
            number = int.from_bytes(value, "big") if isinstance(value, bytes) else int(value)
            return (1 if number else 0) if name == "bit" else number
        except ValueError:
            if attempt:
                return None
            raise
    if name in ("nvarchar", "varchar", "nchar", "char", "sysname", "uniqueidentifier"):
        text = value.decode("utf-16-le") if isinstance(value, bytes) else str(value)
        return text[:length] if length else text
    if name in ("varbinary", "binary"):
        data = (
            value
            if isinstance(value, bytes)
            else str(value).encode("utf-16-le") if isinstance(value, str) else int(value).to_bytes(8, "big")
        )
        return data[:length] if length else data
    if name.startswith("date") and isinstance(value, str):
        return ("time", 0)
    return value


def text(value):
    return "" if value is None else "a time" if isinstance(value, tuple) else str(int(value)) if isinstance(value, bool) else str(value)


def like(value, pattern):
    return fnmatch.fnmatchcase(value.lower(), pattern.lower().replace("%", "*").replace("_", "?"))


def aggregate(name, values):
    if name in ("COUNT", "COUNT_BIG"):
        return len(values)
    if not values:
        return None
    return {
        "MAX": lambda: max(values, key=order),
        "MIN": lambda: min(values, key=order),
        "SUM": lambda: sum(values),
        "STRING_AGG": lambda: ",".join(map(text, values)),
    }[name]()


UNITS = {"millisecond": 1, "ms": 1, "second": 1000, "minute": 60000, "hour": 3600000, "day": 86400000}


def null_in(function):
    return lambda *arguments: None if any(argument is None for argument in arguments) else function(*arguments)


def date_add(unit, count, at):
    return at if at[1] is None else ("time", at[1] + UNITS[unit] * count)


def date_diff(unit, start, end):
    return 0 if None in (start[1], end[1]) else (end[1] - start[1]) // UNITS[unit]


def data_length(value):
    return len(value) if isinstance(value, bytes) else 2 * len(value) if isinstance(value, str) else 8


PLAIN = {
    "concat": lambda *parts: "".join(text(part) for part in parts),
    "isnull": lambda value, other: other if value is None else value,
    "nullif": lambda value, other: None if value == other else value,
    "len": null_in(lambda value: len(value.rstrip(" "))),
    "datalength": null_in(data_length),
    "substring": null_in(lambda value, at, count: value[max(at - 1, 0) : max(at - 1 + count, 0)]),
    "left": null_in(lambda value, count: value[:count]),
    "right": null_in(lambda value, count: value[-count:] if count else ""),
    "replace": null_in(lambda value, old, new: value.replace(old, new)),
    "stuff": null_in(lambda value, at, count, new: value[: at - 1] + new + value[at - 1 + count :]),
    "charindex": null_in(lambda part, value, at=1: value.find(part, at - 1) + 1),
    "unicode": null_in(lambda value: ord(value[0])),
    "nchar": null_in(chr),
    "ltrim": null_in(lambda value: value.lstrip(" ")),
    "rtrim": null_in(lambda value: value.rstrip(" ")),
    "quotename": null_in(lambda value: "[" + value.replace("]", "]]") + "]"),
    "dateadd": null_in(date_add),
    "datediff": null_in(date_diff),
    "datediff_big": null_in(date_diff),
    "newid": lambda: "0" * 36,
    "json_modify": lambda *_: "{}",
    "db_id": lambda *_: 5,
    "db_name": lambda *_: "app",
    "host_name": lambda: "host",
    "app_name": lambda: "model",
    "original_login": lambda: "login",
    "has_perms_by_name": lambda *_: 1,
    "serverproperty": lambda name: {"EngineEdition": 3}.get(name),
    "trigger_nestlevel": lambda *_: 1,
    "schema_id": lambda *_: 1,
    "columnproperty": lambda *_: 0,
    "type_id": lambda *_: None,
    "database_principal_id": lambda *_: 1,
    "nextvalue": lambda _: 1,
}
# What is not the same for the same arguments.
NOT_PLAIN = set(
    "newid sysutcdatetime session_context applock_mode applock_test error_number error_message xact_state object_id object_name"
    " object_schema_name".split()
)


def now(run):
    return ("time", (yield from run.ask("env", "clock")))


def session_context(run, key):
    return (yield from run.ask("context_get", key))


def applock_mode(run, role, name, owner):
    if name is None:
        return None
    return (yield from run.ask("applock_mode", name, "S" if owner.lower() == "session" else "T"))


def applock_test(run, role, name, mode, owner):
    return (yield from run.ask("applock_test", name, mode.capitalize(), "S" if owner.lower() == "session" else "T"))


def xact_state(run):
    return (yield from run.ask("env", "xact_state"))


def error_number(run):
    return run.errors[-1].number if run.errors else None
    yield


def error_message(run):
    return run.errors[-1].message if run.errors else None
    yield


def name_of(name):
    """A table's name as the catalog has it."""
    plain = name.replace("[", "").replace("]", "").lower()
    return plain[len("termgate.") :] if plain.startswith("termgate.") else plain


def object_id(run, name, kind=None):
    plain = name_of(name)
    if plain.startswith("sys."):
        return 1
    return list(run.catalog.tables).index(plain) + 1000 if plain in run.catalog.tables else None
    yield


def object_name(run, number):
    names = list(run.catalog.tables)
    return names[number - 1000].split(".")[-1] if number is not None and 0 <= number - 1000 < len(names) else None
    yield


def object_schema_name(run, number):
    names = list(run.catalog.tables)
    if number is None or not 0 <= number - 1000 < len(names):
        return None
    return names[number - 1000].split(".")[0] if "." in names[number - 1000] else "termgate"
    yield


OF_THE_SERVER = {
    "sysutcdatetime": now,
    "session_context": session_context,
    "applock_mode": applock_mode,
    "applock_test": applock_test,
    "xact_state": xact_state,
    "error_number": error_number,
    "error_message": error_message,
    "object_id": object_id,
    "object_name": object_name,
    "object_schema_name": object_schema_name,
}


def virtual(run, name):
    """The rows of a view of the server's. What is looked up for a message alone (_blocked) decides nothing, and is left out."""
    if name.startswith("sys.dm_") and any(frame.module is not None and frame.module.name == "_blocked" for frame in run.stack):
        return []
    if name == "sys.dm_tran_locks":
        rows = yield from run.ask("list_locks")
        return [
            {
                "resource_type": kind,
                "resource_associated_entity_id": entity,
                "resource_description": description,
                "request_mode": mode,
                "request_status": status,
                "request_session_id": session,
                "resource_database_id": 5,
                "request_owner_type": "SESSION",
                "request_owner_guid": None,
            }
            for kind, entity, description, mode, status, session in rows
        ]
    if name in ("sys.dm_exec_sessions", "sys.dm_exec_connections"):
        rows = yield from run.ask("list_sessions")
        own = yield from run.ask("own_id")
        level = {"RU": 1, "RC": 2, "RR": 3, "SER": 4, "SNAP": 5}[run.level]
        return [
            {
                "session_id": session,
                "login_name": "login",
                "program_name": "model",
                "host_name": "host",
                "last_request_end_time": ("time", None),
                "login_time": ("time", None),
                "status": status,
                "open_transaction_count": count,
                "transaction_isolation_level": level if session == own else 2,
            }
            for session, count, status in rows
        ]
    if name == "sys.databases":
        return [{"database_id": 5, "delayed_durability": 0, "is_read_committed_snapshot_on": int(run.rcsi), "name": "app"}]
    if name == "sys.database_recovery_status":
        return [{"database_id": 5, "recovery_fork_guid": "fork"}]
    if name == "sys.schemas":
        return [{"name": "termgate", "principal_id": 1}, {"name": "dbo", "principal_id": 1}]
    if name == "sys.configurations":
        return [{"name": "nested triggers", "value_in_use": 1, "value": 1}]
    tables = list(run.catalog.tables.values())
    if name == "sys.columns":
        return [
            {
                "object_id": 1000 + at,
                "name": column,
                "system_type_id": table.types[column][0],
                "user_type_id": table.types[column][0],
                "column_id": place,
                "is_computed": 0,
            }
            for at, table in enumerate(tables)
            for place, column in enumerate(table.columns)
        ]
    if name == "sys.types":
        return [
            {"name": kind, "user_type_id": kind, "system_type_id": kind}
            for kind in sorted({kind[0] for table in tables for kind in table.types.values()})
        ]
    if not name.startswith("sys.dm_"):
        return []  # the catalog's other views: the installation asks them what is there already
    raise tsql.Unread(f"line {run.line}: the view {name}")
