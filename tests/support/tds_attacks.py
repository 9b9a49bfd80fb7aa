"""Ways to write on SQL Server without a valid term, for sqlserver_proxy_test.py: texts, each in several channels. Tricks of the protocol
are in tds_tricks.py. Each leaves its mark in a table or in a name, if it gets in."""
from tdsraw import call, nvarchar

# Each text writes one row, or makes one object, with the mark that stands for %M. %D is the database.
TEXTS = {
    "insert": "INSERT INTO dbo.victim (mark) VALUES (N'%M')",
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
    "in a transaction": "BEGIN TRAN INSERT dbo.victim (mark) VALUES (N'%M') COMMIT",
    "behind the allowed condition": "IF @@TRANCOUNT > 0 COMMIT TRAN ELSE INSERT dbo.victim (mark) VALUES (N'%M')",
    "exec of a text": "EXEC ('INSERT dbo.victim (mark) VALUES (N''%M'')')",
    "sp_executesql": "EXEC sp_executesql N'INSERT dbo.victim (mark) VALUES (N''%M'')'",
    "procedure": "EXEC dbo.put N'%M'",
    "procedure without exec": "dbo.put N'%M'",
    "procedure of a harmless name": "EXEC dbo.sp_server_info N'%M'",
    "trigger": "INSERT dbo.front (mark) VALUES (N'%M')",
    "instead of a view's insert": "INSERT dbo.seen (mark) VALUES (N'%M')",
    "insert exec": "INSERT dbo.victim (mark) EXEC ('SELECT N''%M''')",
    "a term in the same batch": (
        "EXEC sp_set_session_context N'termgate.scope', N'attacked'; EXEC sp_set_session_context N'termgate.term', N'5'; INSERT dbo.victim"
        " (mark) VALUES (N'%M')"
    ),
    # Each begins like a read.
    "glued to a number": "SELECT 1INSERT dbo.victim (mark) VALUES (N'%M')",
    "glued to a string": "SELECT 'a'INSERT dbo.victim (mark) VALUES (N'%M')",
    "glued to brackets": "SELECT mark AS [a]FROM dbo.spare INSERT dbo.victim (mark) VALUES (N'%M')",
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
    "exec of a name": "DECLARE @p nvarchar(100) = N'dbo.put'; EXEC @p N'%M'",
    "sp_executesql by its schema": "EXEC sys.sp_executesql N'INSERT dbo.victim (mark) VALUES (N''%M'')'",
    "merge": (
        "MERGE dbo.victim AS t USING (SELECT N'%M' AS mark) AS s ON t.mark = s.mark WHEN NOT MATCHED THEN INSERT (mark) VALUES (s.mark);"
    ),
    # What makes objects: their names have the mark.
    "select into": "SELECT mark INTO dbo.[made%M] FROM dbo.spare",
    "create table": "CREATE TABLE dbo.[made%M] (a int)",
    # Where the database, the schema and the procedure are named otherwise.
    "from another database": "USE master; INSERT %D.dbo.victim (mark) VALUES (N'%M'); USE %D",
    "procedure of three parts": "EXEC %D.dbo.put N'%M'",
    "sp_executesql of another database": "EXEC %D.sys.sp_executesql N'INSERT dbo.victim (mark) VALUES (N''%M'')'",
    "insert exec of sp_executesql": "INSERT dbo.victim (mark) EXEC sp_executesql N'SELECT N''%M'''",
    "exec at a linked server": "EXEC (N'INSERT dbo.victim (mark) VALUES (N''%M'')') AT loopback",
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
    # Other objects.
    "create schema": "CREATE SCHEMA [made%M]",
    "long text in front": "/*" + 40000 * " " + "*/ INSERT dbo.victim (mark) VALUES (N'%M')",
}


CHANNELS = {
    "batch": lambda client, text: client.batch(text),
    "sp_executesql": lambda client, text: client.rpc(call(10, nvarchar("", text))),
}

# What Babelfish answers otherwise than SQL Server, and so proves nothing there: names of texts and tricks.
UNPROVEN_ON_BABELFISH = set(
    "insert exec|brackets of a bracket|merge|exec of a name|line separator between|a string of the other kind|executesql in brackets"
    "|prepexecrpc|a procedure of a number|prepexec by name|insert exec of sp_executesql|sp_executesql of another database"
    "|a collation in front|next line between|call escape of ODBC".split("|")
)
