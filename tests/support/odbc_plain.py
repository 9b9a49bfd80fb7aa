"""A database behind ODBC as any client sees it, by ctypes on unixODBC, which needs no package of
Python's. For setting up and looking, not for speed.

    with Plain(url_of(sqlserver_url, database="scratch")) as server: server.rows("SELECT name FROM sys.tables")
"""
import ctypes
import ctypes.util
import urllib.parse
import uuid

SQL_HANDLE_ENV, SQL_HANDLE_DBC, SQL_HANDLE_STMT, SQL_NO_DATA, SQL_C_CHAR, SQL_NTS, SQL_NULL_DATA = 1, 2, 3, 100, 1, -3, -1
odbc = ctypes.CDLL(ctypes.util.find_library("odbc") or "libodbc.so.2")


class Refused(Exception):
    pass


def url_of(url, database):
    """The same server, another database. `url`: sqlserver://USER:PASSWORD@HOST:PORT/DB?driver=NAME&…"""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(path="/" + database))


def string_of(url):
    if url.startswith("odbc:"):
        return url[5:]
    parts = urllib.parse.urlsplit(url)
    further = dict(urllib.parse.parse_qsl(parts.query))
    driver = further.pop("driver", "FreeTDS")
    unquote = urllib.parse.unquote
    place = (
        {"SERVER": f"tcp:{parts.hostname},{parts.port or 1433}"}
        if driver.startswith("ODBC Driver")
        else {"SERVER": parts.hostname, "PORT": str(parts.port or 1433), "TDS_Version": "7.4"}
    )
    words = {
        "DRIVER": "{" + driver + "}",
        **place,
        "DATABASE": unquote(parts.path[1:]),
        "UID": unquote(parts.username),
        "PWD": unquote(parts.password or ""),
        **further,
    }
    return ";".join(f"{key}={value}" for key, value in words.items() if value)


class Plain:
    def __init__(self, url):
        self.environment, self.connection = ctypes.c_void_p(), ctypes.c_void_p()
        odbc.SQLAllocHandle(SQL_HANDLE_ENV, None, ctypes.byref(self.environment))
        odbc.SQLSetEnvAttr(self.environment, 200, ctypes.c_void_p(3), 0)  # SQL_ATTR_ODBC_VERSION
        odbc.SQLAllocHandle(SQL_HANDLE_DBC, self.environment, ctypes.byref(self.connection))
        text = string_of(url).encode()
        self.check(odbc.SQLDriverConnect(self.connection, None, text, SQL_NTS, None, 0, None, 0), SQL_HANDLE_DBC, self.connection)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        odbc.SQLDisconnect(self.connection)
        odbc.SQLFreeHandle(SQL_HANDLE_DBC, self.connection)
        odbc.SQLFreeHandle(SQL_HANDLE_ENV, self.environment)

    def check(self, code, kind, handle):
        if code in (0, 1, SQL_NO_DATA):
            return
        state, native, text, length = ctypes.create_string_buffer(6), ctypes.c_int(), ctypes.create_string_buffer(2000), ctypes.c_short()
        odbc.SQLGetDiagRec(kind, handle, 1, state, ctypes.byref(native), text, len(text), ctypes.byref(length))
        raise Refused(f"{state.value.decode()} {native.value} {text.value.decode(errors='replace')}")

    def rows(self, statement):
        """Runs it; the rows of its first result that has columns, as text. Refused carries SQLSTATE, number and message."""
        return (self.results(statement) or [[]])[0]

    def results(self, statement):
        """The rows of each of its results that has columns."""
        handle = ctypes.c_void_p()
        odbc.SQLAllocHandle(SQL_HANDLE_STMT, self.connection, ctypes.byref(handle))
        try:
            code, found = odbc.SQLExecDirect(handle, statement.encode(), SQL_NTS), []
            while True:
                self.check(code, SQL_HANDLE_STMT, handle)
                columns = ctypes.c_short()
                odbc.SQLNumResultCols(handle, ctypes.byref(columns))
                if columns.value > 0:
                    found.append(self.fetch(handle, columns.value))
                code = odbc.SQLMoreResults(handle)
                if code == SQL_NO_DATA:
                    return found
        finally:
            odbc.SQLFreeHandle(SQL_HANDLE_STMT, handle)

    def fetch(self, handle, columns):
        rows, text, length = [], ctypes.create_string_buffer(65536), ctypes.c_ssize_t()
        while True:
            code = odbc.SQLFetch(handle)
            if code == SQL_NO_DATA:
                return rows
            self.check(code, SQL_HANDLE_STMT, handle)
            row = []
            for column in range(1, columns + 1):
                self.check(odbc.SQLGetData(handle, column, SQL_C_CHAR, text, len(text), ctypes.byref(length)), SQL_HANDLE_STMT, handle)
                row.append(None if length.value == SQL_NULL_DATA else text.value.decode(errors="replace"))
            rows.append(row)


def on(url, sql):
    with Plain(url) as plain:
        plain.rows(sql)


def own_database(case, server, prefix):
    """The URL of a new database, which lives as long as this class of tests."""
    name = prefix + uuid.uuid4().hex[:8]
    on(server, f"CREATE DATABASE {name}")
    case.addClassCleanup(on, server, f"DROP DATABASE {name}")
    return url_of(server, name)
