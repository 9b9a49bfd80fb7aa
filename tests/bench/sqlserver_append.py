#!/usr/bin/env python3
"""What `append` costs on the server that TERMGATE_TEST_SQLSERVER names, without a client: T-SQL loops around each procedure, one
transaction each turn, in a scratch database. Beside it two other designs, and an INSERT by a procedure without a fence:

  flat       one procedure for the common case (a known stream, an equal term, no write id), in place of six that call each other
  flat-named the same, and the caller brings the lock's name, so that nothing is hashed

Neither has what the whole of `append` has: trust after a restore, marks for protected tables, waits that evict, raises, write ids.

  TERMGATE=build/dev/termgate TERMGATE_TEST_SQLSERVER=sqlserver://… tests/bench/sqlserver_append.py [TURNS] [ROUNDS]
"""
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from sqlserver_proxy import drop_database, make_database  # noqa: E402

FLAT = """CREATE PROCEDURE dbo.%NAME @stream nvarchar(400), @term bigint, @payload varbinary(8000), @lock nvarchar(64),
  @sequence_no bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  DECLARE @key varbinary(800) = CONVERT(varbinary(800), @stream), @scope_key varbinary(800), @scope nvarchar(400), @fence bigint, @rc int;
  BEGIN TRANSACTION;
  SELECT @scope_key = s.scope_key, @scope = s.scope FROM termgate.streams s WHERE s.stream_key = @key;
  %LOCK
  IF APPLOCK_TEST(N'termgate_lock', STUFF(@lock, 3, 1, N't'), N'Shared', N'Transaction') <> 1 THROW 50006, 'a raise', 1;
  EXEC @rc = sp_getapplock @Resource = @lock, @LockMode = N'Shared', @LockOwner = N'Transaction', @LockTimeout = 1,
    @DbPrincipal = N'termgate_lock';
  IF @rc < 0 THROW 50006, 'a raise', 1;
  SELECT @fence = f.term FROM termgate.fences f WHERE f.scope_key = @scope_key;
  IF @fence <> @term OR @fence IS NULL THROW 50001, 'TG001 stale', 1;
  IF EXISTS (SELECT 1 FROM termgate.stream_writes w WHERE w.scope_key = @scope_key AND w.term > @term) THROW 50001, 'TG001 stale', 1;
  UPDATE termgate.streams SET last_no = last_no + 1 WHERE stream_key = @key;
  SELECT @sequence_no = s.last_no FROM termgate.streams s WHERE s.stream_key = @key;
  INSERT INTO termgate.stream_writes (stream_key, sequence_no, stream_id, scope_key, scope, term, payload)
  VALUES (@key, @sequence_no, @stream, @scope_key, @scope, @term, @payload);
  COMMIT TRANSACTION;
END"""
HASHED = "SET @lock = termgate._resource(N'q', @scope_key);"
UNFENCED = """CREATE PROCEDURE dbo.unfenced @n bigint, @payload varbinary(8000) AS
BEGIN
  SET NOCOUNT ON;
  INSERT INTO dbo.plain (stream_id, sequence_no, payload) VALUES (N's', @n, @payload);
END"""
CALLS = {
    "unfenced": "EXEC dbo.unfenced @i, @p",
    "append": "EXEC termgate.append @stream = N's', @term = 1, @payload = @p, @scope = N'b', @sequence_no = @no OUTPUT",
    "flat": "EXEC dbo.flat N's', 1, @p, N'', @no OUTPUT",
    "flat-named": "EXEC dbo.flat_named N's', 1, @p, @lock, @no OUTPUT",
}


def microseconds(session, name, turns):
    text = (
        "DECLARE @i int = 0, @no bigint, @p varbinary(100) = CONVERT(varbinary(100), REPLICATE('x', 100)), @begun datetime2, @key"
        " varbinary(800) = CONVERT(varbinary(800), N'b'), @lock nvarchar(64); SET @lock = termgate._resource(N'q', @key); SET NOCOUNT ON;"
        f" {CALLS[name].replace('@i', '-1')}; SET @begun = SYSUTCDATETIME(); WHILE @i < {turns} BEGIN {CALLS[name]}; SET @i = @i + 1 END;"
        " DECLARE @said nvarchar(100) = CONCAT(N'took ', DATEDIFF(microsecond, @begun, SYSUTCDATETIME())); THROW 50077, @said, 1"
    )
    errors = session.batch(text).errors
    if errors[-1][0] != 50077:
        raise RuntimeError(errors)
    return int(errors[-1][1].split()[-1]) / turns


def main():
    turns, rounds = (int(one) for one in (sys.argv[1:] + ["500", "5"][len(sys.argv) - 1 :]))
    session = make_database()
    try:
        for text in (
            "CREATE TABLE dbo.plain (stream_id nvarchar(400) NOT NULL, sequence_no bigint NOT NULL, payload varbinary(8000) NOT NULL)",
            UNFENCED,
            FLAT.replace("%NAME", "flat").replace("%LOCK", HASHED),
            FLAT.replace("%NAME", "flat_named").replace("%LOCK", ""),
            "DECLARE @n bigint; EXEC termgate.append @stream = N's', @term = 1, @payload = 0x01, @scope = N'b', @sequence_no = @n OUTPUT",
        ):
            errors = session.batch(text).errors
            if errors:
                raise RuntimeError(f"{text}: {errors}")
        found = {name: [microseconds(session, name, turns) for _ in range(rounds)] for name in CALLS}
        for name, all_of in found.items():
            print(f"{name}: median {statistics.median(all_of):.0f} us, from {min(all_of):.0f} to {max(all_of):.0f}")
    finally:
        session.close()
        drop_database()


if __name__ == "__main__":
    main()
