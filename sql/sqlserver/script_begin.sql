-- The beginning of what `termgate init --print` writes for SQL Server: what the library sets for its sessions, and the installers' lock.
-- Parameters: none. Locks: the application lock of installers, so that two of them take turns.
SET XACT_ABORT ON; SET IMPLICIT_TRANSACTIONS OFF; SET QUOTED_IDENTIFIER ON; SET ANSI_NULLS ON; SET ANSI_PADDING ON; SET ANSI_WARNINGS ON; SET CONCAT_NULL_YIELDS_NULL ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
GO
BEGIN TRANSACTION;
GO
IF SERVERPROPERTY('Babelfish') IS NOT NULL THROW 50005, 'TG005 on Babelfish use termgate init: procedures there run as their caller', 1;
DECLARE @rc int;
EXEC @rc = sp_getapplock @Resource = N'termgate migrations', @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = 60000, @DbPrincipal = N'public';
IF @rc < 0 THROW 50006, 'TG006 another installer is at work', 1;
