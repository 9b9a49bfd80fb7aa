"""What a program with pyodbc does, one line for each result: HOST PORT DATABASE USERNAME PASSWORD
APPLICATION from the environment."""
import decimal
import os

import pyodbc

env = os.environ
application = env["APPLICATION"].replace("}", "}}")
connection = pyodbc.connect(
    f"DRIVER={{FreeTDS}};SERVER={env['HOST']};PORT={env['PORT']};DATABASE={env['DATABASE']};UID={env['USERNAME']};"
    f"PWD={env['PASSWORD']};APP={{{application}}};TDS_Version=7.4;ClientCharset=UTF-8"
)


def shown(error):
    return f"{type(error).__name__} " + " ".join(str(one) for one in error.args)


def step(name, function):
    try:
        print(f"{name}: {function()}")
    except pyodbc.Error as error:
        print(f"{name}: {shown(error)}")


def execute(text, *values):
    cursor = connection.cursor()
    cursor.execute(text, *([values] if values else []))
    return cursor


def rows(text, *values):
    return [tuple(row) for row in execute(text, *values).fetchall()]


def count(text, *values):
    return execute(text, *values).rowcount


def commit():
    connection.commit()
    return "done"


def rollback():
    connection.rollback()
    return "done"


def several():
    cursor, found = execute("SELECT 1 AS a; SELECT name FROM dbo.python_t ORDER BY id"), []
    while True:
        found.append([tuple(row) for row in cursor.fetchall()])
        if not cursor.nextset():
            return found


def many():
    cursor = connection.cursor()
    cursor.executemany("INSERT INTO dbo.python_t (id, name) VALUES (?, ?)", [(i, f"row {i}") for i in range(10, 30)])
    return "done"


step(
    "create",
    lambda: count("CREATE TABLE dbo.python_t (id int NOT NULL PRIMARY KEY, name nvarchar(100), amount decimal(12, 2), note nvarchar(max))"),
)
step("commit", commit)
INSERT = "INSERT INTO dbo.python_t (id, name, amount) VALUES (?, ?, ?)"
step("insert", lambda: count(INSERT, 1, "Ünïcødé", decimal.Decimal("12.50")))
step("insert null", lambda: count("INSERT INTO dbo.python_t (id, name) VALUES (?, NULL)", 2))
step("commit", commit)
step("select", lambda: rows("SELECT id, name, amount FROM dbo.python_t WHERE id <= ? ORDER BY id", 10))
step("insert twice", lambda: count("INSERT INTO dbo.python_t (id) VALUES (1)"))
step("rollback", rollback)
step("many", many)
step("commit", commit)
step("two results", several)
step("error", lambda: rows("SELECT * FROM dbo.no_such_table"))
step("rollback", rollback)
step("large in", lambda: count("UPDATE dbo.python_t SET note = ? WHERE id = 2", "ab" * 60000))
step("commit", commit)
step("large out", lambda: rows("SELECT DATALENGTH(note), RIGHT(note, 3) FROM dbo.python_t WHERE id = 2"))
step("delete", lambda: count("DELETE FROM dbo.python_t WHERE id >= 20"))
step("rollback", rollback)
step("still there", lambda: rows("SELECT COUNT(*) FROM dbo.python_t"))
step("drop", lambda: count("DROP TABLE dbo.python_t"))
step("commit", commit)
connection.close()
