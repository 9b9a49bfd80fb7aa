"""Ways to write on SQL Server without a valid term, for sqlserver_proxy_test.py: texts in several channels, and tricks of
the protocol. Each leaves its mark in a table or in a name, if it gets in."""
from tdsraw import ATTENTION, BATCH, BULK, RESET, call, headers, integer, nvarchar, packets, wide

# Each text writes one row, or makes one object, with the mark that stands for %M. %D is the database.
TEXTS = {
    "insert": "INSERT INTO dbo.victim (mark) VALUES (N'%M')",
    "insert select": "INSERT dbo.victim (mark) SELECT N'%M'",
    "letters of both cases": "iNsErT dbo.victim (mark) vAlUeS (N'%M')",
    "three-part name": "INSERT INTO %D.dbo.victim (mark) VALUES (N'%M')",
    "brackets": "INSERT INTO [dbo].[victim] ([mark]) VALUES (N'%M')",
    "double quotes": "SET QUOTED_IDENTIFIER ON; INSERT INTO \"dbo\".\"victim\" (\"mark\") VALUES (N'%M')",
    "comment first": "/* SELECT */ INSERT dbo.victim (mark) VALUES (N'%M')",
    "nested comment": "/* /* */ SELECT 1 */ INSERT dbo.victim (mark) VALUES (N'%M')",
    "line comment": "-- SELECT 1\nINSERT dbo.victim (mark) VALUES (N'%M')",
    "quote in a comment": "/* ' */ INSERT dbo.victim (mark) VALUES (N'%M') -- '",
    "comment in a string": "SELECT '/*' INSERT dbo.victim (mark) VALUES (N'%M') SELECT '*/'",
    "line comment in a string": "SELECT '--' INSERT dbo.victim (mark) VALUES (N'%M')",
    "doubled quote": "SELECT 'a''' INSERT dbo.victim (mark) VALUES (N'%M') SELECT ''''",
    "after a setting": "SET NOCOUNT ON INSERT dbo.victim (mark) VALUES (N'%M')",
    "after settings": "SET NOCOUNT ON; SET XACT_ABORT ON; INSERT dbo.victim (mark) VALUES (N'%M')",
    "after an isolation level": "SET TRANSACTION ISOLATION LEVEL READ COMMITTED INSERT dbo.victim (mark) VALUES (N'%M')",
    "after a select": "SELECT 1 INSERT dbo.victim (mark) VALUES (N'%M')",
    "after a question": "SELECT @@SPID INSERT dbo.victim (mark) VALUES (N'%M')",
    "after print": "PRINT 'x' INSERT dbo.victim (mark) VALUES (N'%M')",
    "after use": "USE %D INSERT dbo.victim (mark) VALUES (N'%M')",
    "semicolons": ";;; INSERT dbo.victim (mark) VALUES (N'%M');;",
    "tabs and lines": "INSERT\tdbo.victim\r\n(mark)\nVALUES\r\n(N'%M')",
    "in a transaction": "BEGIN TRAN INSERT dbo.victim (mark) VALUES (N'%M') COMMIT",
    "after a transaction": "BEGIN TRAN; COMMIT TRAN; INSERT dbo.victim (mark) VALUES (N'%M')",
    "after a savepoint": "BEGIN TRAN; SAVE TRAN a; INSERT dbo.victim (mark) VALUES (N'%M'); COMMIT",
    "rollback and on": "BEGIN TRAN; ROLLBACK; INSERT dbo.victim (mark) VALUES (N'%M')",
    "behind a condition": "IF @@TRANCOUNT = 0 INSERT dbo.victim (mark) VALUES (N'%M')",
    "behind the allowed condition": "IF @@TRANCOUNT > 0 COMMIT TRAN ELSE INSERT dbo.victim (mark) VALUES (N'%M')",
    "in a loop": "DECLARE @i int = 0; WHILE @i < 1 BEGIN INSERT dbo.victim (mark) VALUES (N'%M'); SET @i = 1 END",
    "in a block": "BEGIN INSERT dbo.victim (mark) VALUES (N'%M') END",
    "in try": "BEGIN TRY INSERT dbo.victim (mark) VALUES (N'%M') END TRY BEGIN CATCH END CATCH",
    "in catch": "BEGIN TRY SELECT 1/0 END TRY BEGIN CATCH INSERT dbo.victim (mark) VALUES (N'%M') END CATCH",
    "exec of a text": "EXEC ('INSERT dbo.victim (mark) VALUES (N''%M'')')",
    "exec of a variable": "DECLARE @t nvarchar(max) = N'INSERT dbo.vic' + N'tim (mark) VALUES (N''%M'')'; EXEC (@t)",
    "sp_executesql": "EXEC sp_executesql N'INSERT dbo.victim (mark) VALUES (N''%M'')'",
    "sp_executesql with a parameter": "EXECUTE sp_executesql N'INSERT dbo.victim (mark) VALUES (@m)', N'@m nvarchar(200)', @m = N'%M'",
    "text in text": "EXEC (N'EXEC (N''INSERT dbo.victim (mark) VALUES (N''''%M'''')'')')",
    "procedure": "EXEC dbo.put N'%M'",
    "procedure without exec": "dbo.put N'%M'",
    "procedure by a named parameter": "EXECUTE dbo.put @mark = N'%M'",
    "procedure in a procedure": "EXEC dbo.put_deep N'%M'",
    "procedure of a harmless name": "EXEC dbo.sp_server_info N'%M'",
    "trigger": "INSERT dbo.front (mark) VALUES (N'%M')",
    "instead of a view's insert": "INSERT dbo.seen (mark) VALUES (N'%M')",
    "insert exec": "INSERT dbo.victim (mark) EXEC ('SELECT N''%M''')",
    "output": "INSERT dbo.victim (mark) OUTPUT inserted.mark VALUES (N'%M')",
    "output into": "INSERT dbo.spare (mark) OUTPUT inserted.mark INTO dbo.victim (mark) VALUES (N'%M')",
    "update": "UPDATE dbo.victim SET mark = N'%M' WHERE id = (SELECT MIN(id) FROM dbo.victim WHERE mark = N'seed')",
    "update of a common table": (
        "WITH a AS (SELECT * FROM dbo.victim WHERE id = (SELECT MIN(id) FROM dbo.victim WHERE mark = N'seed')) UPDATE a SET mark = N'%M'"
    ),
    "delete with output": (
        "INSERT dbo.spare (mark) VALUES (N'%M'); DELETE dbo.spare OUTPUT deleted.mark INTO dbo.victim (mark) WHERE mark = N'%M'"
    ),
    "table variable": "DECLARE @t table (mark nvarchar(200)); INSERT @t VALUES (N'%M'); INSERT dbo.victim (mark) SELECT mark FROM @t",
    "temporary table": (
        "CREATE TABLE #t (mark nvarchar(200)); INSERT #t VALUES (N'%M'); INSERT dbo.victim (mark) SELECT mark FROM #t; DROP TABLE #t"
    ),
    "implicit transaction": "SET IMPLICIT_TRANSACTIONS ON; INSERT dbo.victim (mark) VALUES (N'%M'); COMMIT; SET IMPLICIT_TRANSACTIONS OFF",
    "a term in the same batch": (
        "EXEC sp_set_session_context N'termgate.scope', N'attacked'; EXEC sp_set_session_context N'termgate.term', N'5'; INSERT dbo.victim"
        " (mark) VALUES (N'%M')"
    ),
    # Each begins like a read.
    "behind a table": "SELECT mark FROM dbo.spare INSERT dbo.victim (mark) VALUES (N'%M')",
    "glued to a number": "SELECT 1INSERT dbo.victim (mark) VALUES (N'%M')",
    "glued to a string": "SELECT 'a'INSERT dbo.victim (mark) VALUES (N'%M')",
    "glued to brackets": "SELECT mark AS [a]FROM dbo.spare INSERT dbo.victim (mark) VALUES (N'%M')",
    "exec behind a table": "SELECT mark FROM dbo.spare EXEC dbo.put N'%M'",
    "insert of a common table": "WITH a AS (SELECT N'%M' AS mark) INSERT dbo.victim (mark) SELECT mark FROM a",
    "a declaration, then a write": "DECLARE @m nvarchar(200) = N'%M' SELECT @m AS m INSERT dbo.victim (mark) VALUES (@m)",
    "brackets of a bracket": "SELECT mark AS [a]]] FROM dbo.spare INSERT dbo.victim (mark) VALUES (N'%M') SELECT 1 AS [b]]]",
    "quotes of a quote": "SET QUOTED_IDENTIFIER ON SELECT mark AS \"a\"\"\" FROM dbo.spare INSERT dbo.victim (mark) VALUES (N'%M')",
    "comment that never nests": "SELECT 1 /* /* */ */ INSERT dbo.victim (mark) VALUES (N'%M')",
    "a name with a dot and a call": "SELECT mark FROM dbo.spare; EXEC ..put N'%M'",
    # Quotes, comments and brackets that a lexer may confuse.
    "quote in brackets": "SELECT 1 AS [']; INSERT dbo.victim (mark) VALUES (N'%M') --']",
    "double quote in brackets": "SELECT 1 AS [\"]; INSERT dbo.victim (mark) VALUES (N'%M') --\"]",
    "bracket in a string": "SELECT '[' INSERT dbo.victim (mark) VALUES (N'%M') SELECT ']'",
    "comment in brackets": "SELECT 1 AS [/*] INSERT dbo.victim (mark) VALUES (N'%M') SELECT 1 AS [*/]",
    "line comment in brackets": "SELECT 1 AS [--] INSERT dbo.victim (mark) VALUES (N'%M')",
    "line comment in a comment": "/* -- */ INSERT dbo.victim (mark) VALUES (N'%M')",
    "comment in a line comment": "-- /*\nINSERT dbo.victim (mark) VALUES (N'%M') -- */",
    "string over two lines": "SELECT 'a\n' INSERT dbo.victim (mark) VALUES (N'%M')",
    "backslash at the end of a line": "SELECT 'a\\\nb' INSERT dbo.victim (mark) VALUES (N'%M')",
    "backslash in front of a quote": "SELECT 'a\\' INSERT dbo.victim (mark) VALUES (N'%M') SELECT '\\'",
    "carriage return after a line comment": "-- x\rINSERT dbo.victim (mark) VALUES (N'%M')",
    "form feed between": "SELECT 1\fINSERT dbo.victim (mark) VALUES (N'%M')",
    "no-break space between": "SELECT 1\u00a0INSERT dbo.victim (mark) VALUES (N'%M')",
    "line separator between": "SELECT 1 --\u2028INSERT dbo.victim (mark) VALUES (N'%M')",
    "byte order mark": "\ufeffINSERT dbo.victim (mark) VALUES (N'%M')",
    "surrogates in front": "SELECT N'\U0001f600' INSERT dbo.victim (mark) VALUES (N'%M')",
    "a string of the other kind": 'SET QUOTED_IDENTIFIER OFF; INSERT dbo.victim (mark) VALUES ("%M"); SET QUOTED_IDENTIFIER ON',
    "a name that begins like a string": "SELECT 1 AS N INSERT dbo.victim (mark) VALUES (N'%M')",
    "glued to a float": "SELECT 1.0INSERT dbo.victim (mark) VALUES (N'%M')",
    "glued to an exponent": "SELECT 1e1INSERT dbo.victim (mark) VALUES (N'%M')",
    "glued to money": "SELECT $1INSERT dbo.victim (mark) VALUES (N'%M')",
    "glued to a parenthesis": "SELECT (1)INSERT dbo.victim (mark) VALUES (N'%M')",
    "glued to a comment": "SELECT 1/**/INSERT/**/dbo.victim/**/(mark)/**/VALUES/**/(N'%M')",
    # Statements.
    "label": "there: INSERT dbo.victim (mark) VALUES (N'%M')",
    "goto": "GOTO there; SELECT 1; there: INSERT dbo.victim (mark) VALUES (N'%M')",
    "behind a return that is not taken": "IF 1 = 0 RETURN INSERT dbo.victim (mark) VALUES (N'%M')",
    "behind raiserror": "RAISERROR('x', 10, 1) INSERT dbo.victim (mark) VALUES (N'%M')",
    "blocks": 30 * "BEGIN " + "INSERT dbo.victim (mark) VALUES (N'%M')" + 30 * " END",
    "many reads in front": 300 * "SELECT 1; " + "INSERT dbo.victim (mark) VALUES (N'%M')",
    "exec of a name": "DECLARE @p nvarchar(100) = N'dbo.put'; EXEC @p N'%M'",
    "exec with a return code": "DECLARE @r int; EXEC @r = dbo.put N'%M'",
    "exec of a text in pieces": "DECLARE @a nvarchar(50) = N'INSERT dbo.victim (mark) '; EXEC (@a + N'VALUES (N''%M'')')",
    "sp_executesql in sp_executesql": "EXEC sp_executesql N'EXEC sp_executesql N''INSERT dbo.victim (mark) VALUES (N''''%M'''')'''",
    "sp_executesql of a text of another": (
        "EXEC sp_executesql N'EXEC (@t)', N'@t nvarchar(200)', @t = N'INSERT dbo.victim (mark) VALUES (N''%M'')'"
    ),
    "sp_executesql by its schema": "EXEC sys.sp_executesql N'INSERT dbo.victim (mark) VALUES (N''%M'')'",
    "sp_prepexec in a text": "DECLARE @h int; EXEC sp_prepexec @h OUTPUT, N'', N'INSERT dbo.victim (mark) VALUES (N''%M'')'",
    "sp_prepare and sp_execute in a text": (
        "DECLARE @h int; EXEC sp_prepare @h OUTPUT, N'', N'INSERT dbo.victim (mark) VALUES (N''%M'')'; EXEC sp_execute @h"
    ),
    "cursor": (
        "DECLARE @id int; DECLARE c CURSOR FOR SELECT TOP (1) id FROM dbo.victim WHERE mark = N'seed'; OPEN c; FETCH NEXT FROM c INTO @id;"
        " UPDATE dbo.victim SET mark = N'%M' WHERE id = @id; CLOSE c; DEALLOCATE c"
    ),
    "view": "INSERT dbo.pane (mark) VALUES (N'%M')",
    "top": "INSERT TOP (1) INTO dbo.victim (mark) SELECT N'%M'",
    "rows of JSON": "INSERT dbo.victim (mark) SELECT value FROM OPENJSON(N'[\"%M\"]')",
    "rows of a split text": "INSERT dbo.victim (mark) SELECT value FROM STRING_SPLIT(N'%M', N',')",
    "identity insert": (
        "SET IDENTITY_INSERT dbo.victim ON; INSERT dbo.victim (id, mark) SELECT MAX(id) + 1000, N'%M' FROM dbo.victim; SET IDENTITY_INSERT"
        " dbo.victim OFF"
    ),
    "merge": (
        "MERGE dbo.victim AS t USING (SELECT N'%M' AS mark) AS s ON t.mark = s.mark WHEN NOT MATCHED THEN INSERT (mark) VALUES (s.mark);"
    ),
    "a nested transaction": "BEGIN TRAN a; BEGIN TRAN b; INSERT dbo.victim (mark) VALUES (N'%M'); COMMIT; COMMIT",
    "a transaction rolled back to its savepoint": (
        "BEGIN TRAN; INSERT dbo.victim (mark) VALUES (N'%M'); SAVE TRAN s; DELETE dbo.wide; ROLLBACK TRAN s; COMMIT"
    ),
    "after an error that is caught": (
        "BEGIN TRY INSERT dbo.victim (mark, id) VALUES (N'x', 1) END TRY BEGIN CATCH INSERT dbo.victim (mark) VALUES (N'%M') END CATCH"
    ),
    "many options in front": (
        "SET ANSI_NULLS ON; SET ANSI_WARNINGS ON; SET ARITHABORT ON; SET DATEFORMAT mdy; SET LANGUAGE us_english; SET LOCK_TIMEOUT 5000;"
        " SET TEXTSIZE 100; SET ROWCOUNT 0; INSERT dbo.victim (mark) VALUES (N'%M')"
    ),
    "deeply": "EXEC (N'EXEC (N''EXEC (N''''EXEC dbo.put N''''''''%M'''''''''''')'')')",
    # What makes objects: their names have the mark.
    "select into": "SELECT mark INTO dbo.[made%M] FROM dbo.spare",
    "select into behind a common table": "WITH a AS (SELECT 1 AS n) SELECT n INTO dbo.[made%M] FROM a",
    "create table": "CREATE TABLE dbo.[made%M] (a int)",
    "create view": "CREATE VIEW dbo.[made%M] AS SELECT 1 AS a",
    "create procedure": "CREATE PROCEDURE dbo.[made%M] AS SELECT 1",
    "create function": "CREATE FUNCTION dbo.[made%M] () RETURNS int AS BEGIN RETURN 1 END",
    "create sequence": "CREATE SEQUENCE dbo.[made%M] AS bigint START WITH 1",
    "alter table": "ALTER TABLE dbo.wide ADD [made%M] int",
    "create trigger": "CREATE TRIGGER dbo.[made%M] ON dbo.wide AFTER INSERT AS SELECT 1",
    "rename": "CREATE TABLE dbo.[other%M] (a int); EXEC sp_rename N'dbo.other%M', N'made%M'",
    "long text in front": "/*" + 40000 * " " + "*/ INSERT dbo.victim (mark) VALUES (N'%M')",
    "settings in front": 2200 * "SET NOCOUNT ON; " + "INSERT dbo.victim (mark) VALUES (N'%M')",
}


def as_batch(client, text):
    return client.batch(text)


def as_small_packets(client, text):
    return client.batch(text, size=512)


def as_executesql(client, text):
    return client.rpc(call(10, nvarchar("", text)))


def as_named_executesql(client, text):
    return client.rpc(call("sp_executesql", nvarchar("@stmt", text)))


def as_prepexec(client, text):
    return client.rpc(call(13, integer("", None, True), nvarchar("", ""), nvarchar("", text)))


def in_a_transaction(client, text):
    client.begin()
    answer = client.batch(text)
    client.commit()
    return answer


# Every text in the first two; some in the others.
CHANNELS = {"batch": as_batch, "sp_executesql": as_executesql}
MORE_CHANNELS = {
    "small packets": as_small_packets,
    "sp_executesql by name": as_named_executesql,
    "sp_prepexec": as_prepexec,
    "a transaction of the driver": in_a_transaction,
}
MORE_TEXTS = ("insert", "exec of a text", "procedure", "trigger", "in a transaction", "after a setting")

INSERT = TEXTS["insert"]


def message(kind, body, client, status=0):
    return packets(kind, headers(client.descriptor) + body, status)


# Tricks: what is sent for a mark. They may end the connection.
def trick_reset(client, mark):
    client.batch(INSERT.replace("%M", mark), RESET)


def trick_two_at_once(client, mark):
    client.send(message(BATCH, wide("SET NOCOUNT ON"), client) + message(BATCH, wide(INSERT.replace("%M", mark)), client))
    client.answer()
    client.answer()


def trick_behind_an_attention(client, mark):
    client.send(packets(ATTENTION, b"") + message(BATCH, wide(INSERT.replace("%M", mark)), client))
    client.answer()
    client.answer()


def trick_attention_behind_it(client, mark):
    client.send(message(BATCH, wide(INSERT.replace("%M", mark)), client))
    client.answer()
    client.send(packets(ATTENTION, b""))
    client.answer()


def trick_attention_within(client, mark):
    whole = message(BATCH, wide("SET NOCOUNT ON"), client)
    client.send(whole + packets(ATTENTION, b"") + message(BATCH, wide(INSERT.replace("%M", mark)), client))
    for _ in range(3):
        client.answer()


def trick_two_calls(client, mark):
    client.rpc(call(15, integer("", 1)) + b"\xff" + call(10, nvarchar("", INSERT.replace("%M", mark))))


def trick_call_behind_settings(client, mark):
    client.rpc(call("sp_server_info") + b"\xff" + call(10, nvarchar("", INSERT.replace("%M", mark))))


def trick_procedure_call(client, mark):
    client.rpc(call("dbo.put", nvarchar("@mark", mark)))


def trick_procedure_in_brackets(client, mark):
    client.rpc(call("[dbo].[put]", nvarchar("", mark)))


def trick_harmless_name(client, mark):
    client.rpc(call("dbo.sp_server_info", nvarchar("", mark)))


def trick_prepare_then_execute(client, mark):
    prepared = client.rpc(call(11, integer("", None, True), nvarchar("", ""), nvarchar("", INSERT.replace("%M", mark)), integer("", 1)))
    client.rpc(call(12, integer("", (prepared.integers() or [1])[-1])))


def trick_text_as_a_transaction(client, mark):
    client.begin()
    client.batch("SET NOCOUNT ON")
    client.batch(INSERT.replace("%M", mark))
    client.commit()


def trick_set_a_stale_term(client, mark):
    client.batch("EXEC termgate.set_term N'attacked', 5")
    client.batch(INSERT.replace("%M", mark))


def trick_call_a_stale_term(client, mark):
    client.rpc(call("termgate.set_term", nvarchar("@scope", "attacked"), integer("@term", 5)))
    client.batch(INSERT.replace("%M", mark))


def trick_enter_by_hand(client, mark):
    client.batch(
        "DECLARE @p bigint = 1, @c bigint; EXEC termgate.gate_enter @scope = N'attacked', @term = 5, @secret = 0x01, @proof = @p OUTPUT,"
        " @code = @c OUTPUT"
    )
    client.batch(INSERT.replace("%M", mark))


def trick_declare_by_a_call(client, mark):
    client.rpc(call("sp_set_session_context", nvarchar("@key", "termgate.scope"), nvarchar("@value", "attacked")))
    client.rpc(call("sp_set_session_context", nvarchar("@key", "termgate.term"), nvarchar("@value", "5")))
    client.batch(INSERT.replace("%M", mark))


def trick_slowly(client, mark):
    for byte in message(BATCH, wide(INSERT.replace("%M", mark)), client):
        client.send(bytes([byte]))
    client.answer()


def trick_wrong_descriptor(client, mark):
    client.send(packets(BATCH, headers(77) + wide(INSERT.replace("%M", mark))))
    client.answer()


def trick_two_headers(client, mark):
    trace = b"\x1a\0\0\0\3\0" + bytes(20)
    body = headers()[4:] + trace
    client.send(packets(BATCH, (4 + len(body)).to_bytes(4, "little") + body + wide(INSERT.replace("%M", mark))))
    client.answer()


def trick_bulk(client, mark):
    client.batch("INSERT BULK dbo.spare (mark nvarchar(200))")
    client.send(packets(BULK, bulk_rows(mark)))
    client.answer()


def trick_insert_behind_no_exec(client, mark):
    client.batch("SET NOEXEC ON")
    client.batch("SET NOEXEC OFF")
    client.batch(INSERT.replace("%M", mark))


def text_parameter(kind, text, name=""):
    """A text as a parameter of another type than nvarchar."""
    head = bytes([len(name)]) + wide(name) + b"\0"
    narrow, data = text.encode("ascii"), wide(text)
    collation = b"\x09\x04\xd0\x00\x34"
    length = lambda value, size: len(value).to_bytes(size, "little")  # noqa: E731
    if kind == "varchar":
        return head + b"\xa7\x40\x1f" + collation + length(narrow, 2) + narrow
    if kind == "nchar":
        return head + b"\xef" + length(data, 2) + collation + length(data, 2) + data
    if kind == "ntext":
        return head + b"\x63\xff\xff\xff\x7f" + collation + length(data, 4) + data
    if kind == "text":
        return head + b"\x23\xff\xff\xff\x7f" + collation + length(narrow, 4) + narrow
    half = len(data) // 4 * 2
    chunks = b"".join(length(piece, 4) + piece for piece in (data[:half], data[half:]))
    return head + b"\xe7\xff\xff" + collation + b"\xfe" + 7 * b"\xff" + chunks + b"\0\0\0\0"


def trick_text_as_varchar(client, mark):
    client.rpc(call(10, text_parameter("varchar", INSERT.replace("%M", mark))))


def trick_text_as_nchar(client, mark):
    client.rpc(call(10, text_parameter("nchar", INSERT.replace("%M", mark))))


def trick_text_as_ntext(client, mark):
    client.rpc(call(10, text_parameter("ntext", INSERT.replace("%M", mark))))


def trick_text_as_text(client, mark):
    client.rpc(call(10, text_parameter("text", INSERT.replace("%M", mark))))


def trick_text_in_chunks(client, mark):
    client.rpc(call(10, text_parameter("chunks", INSERT.replace("%M", mark))))


def trick_text_of_a_parameter(client, mark):
    client.rpc(call(10, nvarchar("", "EXEC (@t)"), nvarchar("", "@t nvarchar(400)"), nvarchar("@t", INSERT.replace("%M", mark))))


def trick_mark_as_a_parameter(client, mark):
    insert = "INSERT dbo.victim (mark) VALUES (@m)"
    client.rpc(call(10, nvarchar("", insert), nvarchar("", "@m nvarchar(400)"), nvarchar("@m", mark)))


def trick_two_texts(client, mark):
    client.rpc(call(10, nvarchar("", "SELECT 1"), nvarchar("", ""), nvarchar("@STMT", INSERT.replace("%M", mark))))
    client.rpc(call(10, nvarchar("", INSERT.replace("%M", mark)), nvarchar("", "")))


def trick_named_in_capitals(client, mark):
    client.rpc(call("SP_EXECUTESQL", nvarchar("@STMT", INSERT.replace("%M", mark))))


def trick_executesql_in_brackets(client, mark):
    client.rpc(call("[sys].[sp_executesql]", nvarchar("", INSERT.replace("%M", mark))))


def trick_a_harmless_name_with_a_dot_in_it(client, mark):
    client.rpc(call("[sys.sp_server_info]", nvarchar("", mark)))


def trick_a_procedure_of_a_number(client, mark):
    client.rpc(call("dbo.put;1", nvarchar("", mark)))


def trick_cursor_of_a_call(client, mark):
    text = nvarchar("", f"EXEC dbo.put N'{mark}'")
    client.rpc(call(2, integer("", None, True), text, integer("", 1, True), integer("", 1, True), integer("", 0, True)))


def trick_prepexecrpc(client, mark):
    client.rpc(call(14, integer("", None, True), nvarchar("", "dbo.put"), nvarchar("@mark", mark)))


def trick_prepexec_a_read_then_a_write(client, mark):
    first = client.rpc(call(13, integer("", None, True), nvarchar("", ""), nvarchar("", "SELECT 1")))
    handle = (first.integers() or [1])[-1]
    client.rpc(call(13, integer("", handle, True), nvarchar("", ""), nvarchar("", INSERT.replace("%M", mark))))


def trick_execute_with_a_parameter(client, mark):
    insert = "INSERT dbo.victim (mark) VALUES (@m)"
    prepared = client.rpc(call(11, integer("", None, True), nvarchar("", "@m nvarchar(400)"), nvarchar("", insert), integer("", 1)))
    client.rpc(call(12, integer("", (prepared.integers() or [1])[-1]), nvarchar("@m", mark)))


def trick_reset_by_a_call(client, mark):
    client.rpc(call("sp_reset_connection"))
    client.batch(INSERT.replace("%M", mark))


def trick_reset_by_a_call_with_a_write(client, mark):
    client.rpc(call("sp_reset_connection") + b"\xff" + call(10, nvarchar("", INSERT.replace("%M", mark))))
    client.rpc(call(10, nvarchar("", INSERT.replace("%M", mark))))


def trick_reset_with_a_call(client, mark):
    client.rpc(call(10, nvarchar("", INSERT.replace("%M", mark))), RESET)


def trick_reset_with_a_transaction(client, mark):
    client.manage(b"\5\0\0\0", RESET)
    client.batch(INSERT.replace("%M", mark))
    client.commit()


def trick_reset_at_every_second_message(client, mark):
    for number in range(6):
        client.batch("SET NOCOUNT ON", RESET if number % 2 else 0)
    client.batch(INSERT.replace("%M", mark))


def trick_commit_that_begins_the_next(client, mark):
    client.begin()
    client.manage(b"\7\0\0\1\0\0")
    client.batch(INSERT.replace("%M", mark))
    client.commit()


def trick_savepoint_of_the_driver(client, mark):
    client.begin()
    client.manage(b"\x09\0\2" + wide("s"))
    client.batch(INSERT.replace("%M", mark))
    client.commit()


def trick_write_behind_half_an_attention(client, mark):
    client.send(packets(ATTENTION, b"")[:4])
    client.send(packets(ATTENTION, b"")[4:] + message(BATCH, wide(INSERT.replace("%M", mark)), client))
    client.answer()
    client.answer()


def trick_three_attentions(client, mark):
    client.send(3 * packets(ATTENTION, b"") + message(BATCH, wide(INSERT.replace("%M", mark)), client))
    for _ in range(4):
        client.answer()


def trick_packets_of_one_letter(client, mark):
    client.send(packets(BATCH, headers(client.descriptor) + wide(INSERT.replace("%M", mark)), size=10))
    client.answer()


def trick_packets_that_cut_letters(client, mark):
    client.send(packets(BATCH, headers(client.descriptor) + wide(INSERT.replace("%M", mark)), size=11))
    client.answer()


def trick_an_empty_packet_last(client, mark):
    client.send(packets(BATCH, headers(client.descriptor) + wide(INSERT.replace("%M", mark)), end=0) + packets(BATCH, b""))
    client.answer()


def trick_headers_that_hide_a_text(client, mark):
    hidden = wide("SET NOCOUNT ON")
    body = headers()[4:] + (6 + len(hidden)).to_bytes(4, "little") + b"\3\0" + hidden
    client.send(packets(BATCH, (4 + len(body)).to_bytes(4, "little") + body + wide(INSERT.replace("%M", mark))))
    client.answer()


def trick_outstanding_requests(client, mark):
    client.send(packets(BATCH, headers()[:18] + b"\7\0\0\0" + wide(INSERT.replace("%M", mark))))
    client.answer()


def trick_a_separator_behind_the_last_call(client, mark):
    client.rpc(call(10, nvarchar("", INSERT.replace("%M", mark))) + b"\xff")


def trick_options_of_a_call(client, mark):
    client.rpc(b"\xff\xff\x0a\0\3\0" + nvarchar("", INSERT.replace("%M", mark)))


def trick_a_long_name(client, mark):
    client.rpc(call("[" + "x" * 100 + "]", nvarchar("", mark)))
    client.rpc(call("put", nvarchar("", mark)))


def trick_a_stale_declaration_and_a_reset(client, mark):
    client.batch("EXEC sp_set_session_context N'termgate.scope', N'attacked'; EXEC sp_set_session_context N'termgate.term', N'5'")
    client.batch(INSERT.replace("%M", mark), RESET)


def trick_no_exec_and_back_in_one_batch(client, mark):
    client.batch("SET NOEXEC ON; SET NOEXEC OFF; " + INSERT.replace("%M", mark))


def trick_parse_only_and_back(client, mark):
    client.batch("SET PARSEONLY ON")
    client.batch("SET PARSEONLY OFF")
    client.batch(INSERT.replace("%M", mark))


def bulk_rows(mark):
    columns = b"\x81\1\0" + b"\0\0\0\0\5\0" + b"\xe7\x90\1\x09\4\xd0\0\x34" + b"\4" + wide("mark")
    return columns + b"\xd1" + (2 * len(mark)).to_bytes(2, "little") + wide(mark) + b"\xfd" + bytes(12)


def trick_bulk_behind_a_comment(client, mark):
    client.batch("/* */ INSERT /* */ BULK dbo.spare (mark nvarchar(200))")
    client.send(packets(BULK, bulk_rows(mark), size=40))
    client.answer()


def trick_bulk_in_a_transaction(client, mark):
    client.begin()
    trick_bulk(client, mark)
    client.commit()


TRICKS = {name[6:].replace("_", " "): function for name, function in list(globals().items()) if name.startswith("trick_")}
# What this server answers otherwise than SQL Server, and so proves nothing here.
UNPROVEN_ON_BABELFISH = {
    "two headers",
    "update of a common table, as batch",
    "update of a common table, as sp_executesql",
    "insert exec, as batch",
    "insert exec, as sp_executesql",
    "brackets of a bracket, as batch",
    "brackets of a bracket, as sp_executesql",
    "merge, as batch",
    "merge, as sp_executesql",
    "exec of a name, as batch",
    "exec of a name, as sp_executesql",
    "sp_prepexec in a text, as batch",
    "sp_prepexec in a text, as sp_executesql",
    "sp_prepare and sp_execute in a text, as batch",
    "sp_prepare and sp_execute in a text, as sp_executesql",
    "line separator between, as batch",
    "line separator between, as sp_executesql",
    "after an error that is caught, as batch",
    "after an error that is caught, as sp_executesql",
    "a string of the other kind, as batch",
    "a string of the other kind, as sp_executesql",
    "rename, as batch",
    "rename, as sp_executesql",
    "executesql in brackets",
    "text as varchar",
    "text as nchar",
    "text as text",
    "prepexecrpc",
    "a procedure of a number",
    "cursor of a call",
}
