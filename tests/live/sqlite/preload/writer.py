"""A program that knows nothing of terms: each line of its input is a statement, and it prints what came of it."""
import sqlite3
import sys

connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for line in sys.stdin:
    try:
        print("ok", *connection.execute(line).fetchall(), flush=True)
    except sqlite3.Error as error:
        print(error, flush=True)
