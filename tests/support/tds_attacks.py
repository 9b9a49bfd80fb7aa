"""Ways to write on SQL Server without a valid term, for sqlserver_proxy_test.py: texts, each in several channels. Tricks of the protocol
are in tds_tricks.py. Each leaves its mark in a table or in a name, if it gets in."""
from tdsraw import call, integer, nvarchar

# Each text writes one row, or makes one object, with the mark that stands for %M. %D is the database.
TEXTS = {
    "insert": "INSERT INTO dbo.victim (mark) VALUES (N'%M')",
    "insert select": "INSERT dbo.victim (mark) SELECT N'%M'",
    "letters of both cases": "iNsErT dbo.victim (mark) vAlUeS (N'%M')",
    "three-part name": "INSERT INTO %D.dbo.victim (mark) VALUES (N'%M')",
    "brackets": "INSERT INTO [dbo].[victim] ([mark]) VALUES (N'%M')",
    "double quotes": 'SET QUOTED_IDENTIFIER ON; INSERT INTO "dbo"."victim" ("mark") VALUES (N\'%M\')',
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
    "quotes of a quote": 'SET QUOTED_IDENTIFIER ON SELECT mark AS "a""" FROM dbo.spare INSERT dbo.victim (mark) VALUES (N\'%M\')',
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
    # Where the database, the schema and the procedure are named otherwise.
    "use another and back": "USE master; USE %D; INSERT dbo.victim (mark) VALUES (N'%M')",
    "from another database": "USE master; INSERT %D.dbo.victim (mark) VALUES (N'%M'); USE %D",
    "procedure of three parts": "EXEC %D.dbo.put N'%M'",
    "procedure without a schema": "EXEC %D..put N'%M'",
    "sp_executesql of another database": "EXEC %D.sys.sp_executesql N'INSERT dbo.victim (mark) VALUES (N''%M'')'",
    "insert exec of sp_executesql": "INSERT dbo.victim (mark) EXEC sp_executesql N'SELECT N''%M'''",
    "exec at a linked server": "EXEC (N'INSERT dbo.victim (mark) VALUES (N''%M'')') AT loopback",
    "openquery": "INSERT OPENQUERY(loopback, 'SELECT mark FROM dbo.victim') VALUES (N'%M')",
    "call escape of ODBC": "{call dbo.put(N'%M')}",
    # Numbers and names that end where a lexer may not.
    "glued to hexadecimal without digits": "SELECT 0xINSERT dbo.victim (mark) VALUES (N'%M')",
    "glued to a point": "SELECT 1.INSERT dbo.victim (mark) VALUES (N'%M')",
    "glued to a fraction": "SELECT .5INSERT dbo.victim (mark) VALUES (N'%M')",
    "glued to an exponent with a sign": "SELECT 1E+1INSERT dbo.victim (mark) VALUES (N'%M')",
    "glued to a name in brackets": "SELECT 1 AS [a]INSERT dbo.victim (mark) VALUES (N'%M')",
    "glued to an empty string": "SELECT ''INSERT dbo.victim (mark) VALUES (N'%M')",
    "glued to N and a string": "SELECT N'a'INSERT dbo.victim (mark) VALUES (N'%M')",
    "vertical tab between": "SELECT 1\vINSERT dbo.victim (mark) VALUES (N'%M')",
    "next line between": "SELECT 1\u0085INSERT dbo.victim (mark) VALUES (N'%M')",
    "ideographic space between": "SELECT 1\u3000INSERT dbo.victim (mark) VALUES (N'%M')",
    "a collation in front": "SELECT 'a' COLLATE Latin1_General_BIN INSERT dbo.victim (mark) VALUES (N'%M')",
    # Statements between which another hides.
    "where current of a cursor": (
        "DECLARE @id int; DECLARE c CURSOR FOR SELECT TOP (1) id FROM dbo.victim WHERE mark = N'seed' FOR UPDATE; OPEN c; FETCH NEXT FROM c"
        " INTO @id; UPDATE dbo.victim SET mark = N'%M' WHERE CURRENT OF c; CLOSE c; DEALLOCATE c"
    ),
    "a variable set by the update": (
        "DECLARE @m nvarchar(200) = N'%M'; UPDATE dbo.victim SET @m = mark = @m WHERE id = (SELECT MIN(id) FROM dbo.victim WHERE mark ="
        " N'seed')"
    ),
    "compound assignment": "INSERT dbo.spare (mark) VALUES (N''); UPDATE dbo.spare SET mark += N'%M' WHERE mark = N''",
    "from a join": (
        "UPDATE v SET mark = N'%M' FROM dbo.victim v JOIN (SELECT MIN(id) AS id FROM dbo.victim WHERE mark = N'seed') s ON s.id = v.id"
    ),
    "a type of a table": "DECLARE @t dbo.marks; INSERT @t VALUES (N'%M'); INSERT dbo.victim (mark) SELECT mark FROM @t",
    "values of two rows": "INSERT dbo.victim (mark) VALUES (N'seed'), (N'%M')",
    "default values, then an update": "INSERT dbo.victim DEFAULT VALUES; UPDATE dbo.victim SET mark = N'%M' WHERE id = SCOPE_IDENTITY()",
    "while with a break": "WHILE 1 = 1 BEGIN INSERT dbo.victim (mark) VALUES (N'%M'); BREAK END",
    "an else": "IF 1 = 0 SELECT 1 ELSE INSERT dbo.victim (mark) VALUES (N'%M')",
    "a wait in front": "WAITFOR DELAY '00:00:00' INSERT dbo.victim (mark) VALUES (N'%M')",
    "a named transaction in brackets": "BEGIN TRAN [insert] INSERT dbo.victim (mark) VALUES (N'%M') COMMIT TRAN [insert]",
    "commit, then a write": "BEGIN TRAN COMMIT INSERT dbo.victim (mark) VALUES (N'%M')",
    "a stale term in the transaction": (
        "BEGIN TRAN; EXEC sp_set_session_context N'termgate.scope', N'attacked'; EXEC sp_set_session_context N'termgate.term', N'5'; INSERT"
        " dbo.victim (mark) VALUES (N'%M'); COMMIT"
    ),
    # Other objects.
    "create schema": "CREATE SCHEMA [made%M]",
    "create type": "CREATE TYPE dbo.[made%M] FROM int",
    "create index": "CREATE INDEX [made%M] ON dbo.wide (a)",
    "create role": "CREATE ROLE [made%M]",
    "add a constraint": "ALTER TABLE dbo.wide ADD CONSTRAINT [made%M] CHECK (a > 0)",
    "create a table by a text": "EXEC sp_executesql N'CREATE TABLE dbo.[made%M] (a int)'",
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
    "compound assignment, as batch",
    "compound assignment, as sp_executesql",
    "prepare by name",
    "prepexec by name",
    "chunks that do not add up",
    "a null of chunks in front",
    "openquery, as batch",
    "openquery, as sp_executesql",
    "insert exec of sp_executesql, as batch",
    "insert exec of sp_executesql, as sp_executesql",
    "a wait in front, as batch",
    "a wait in front, as sp_executesql",
    "sp_executesql of another database, as batch",
    "sp_executesql of another database, as sp_executesql",
    "a collation in front, as batch",
    "a collation in front, as sp_executesql",
    "where current of a cursor, as batch",
    "where current of a cursor, as sp_executesql",
    "next line between, as batch",
    "next line between, as sp_executesql",
    "call escape of ODBC, as batch",
    "call escape of ODBC, as sp_executesql",
}
# These break the protocol: the proxy ends the connection, whether it enforces or observes.
ENDED_BY_THE_PROXY = {"an attention within a split batch", "a reset in a later packet", "another type in a later packet"}
