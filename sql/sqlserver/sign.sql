-- The right to evict, without giving it to anybody. To see who holds a lock and to end a session a login needs VIEW SERVER STATE and ALTER
-- ANY CONNECTION, which are good for every database of the server: no application should have them. This script signs the two procedures
-- that need them with a certificate. While one of them runs, its caller has the rights of the certificate's login, as which nobody can log
-- in ("ADD SIGNATURE (Transact-SQL)", "CREATE LOGIN (Transact-SQL)", FROM CERTIFICATE).
--
-- For a member of sysadmin, after `termgate init` and again after each upgrade, which creates the procedures again without their signatures
-- (`termgate doctor` reports that):
--
--   sqlcmd -b -I -S HOST -d DATABASE -v SCHEMA=termgate -i sql/sqlserver/sign.sql
--
-- Not for Azure SQL Database, which has no rights of a server: GRANT VIEW DATABASE STATE and KILL DATABASE CONNECTION to the users that
-- raise. In an availability group the login must be on every replica: run this there too, with the same certificate (BACKUP CERTIFICATE
-- TermgateEvict …, CREATE CERTIFICATE … FROM FILE).
-- It can run again. At the end the private key is removed from the database, so that nobody can sign anything else with it.
SET NOCOUNT ON;
SET XACT_ABORT ON;
GO
IF CAST(SERVERPROPERTY('EngineEdition') AS int) = 5 THROW 50000, 'Azure SQL Database has no rights of a server: GRANT VIEW DATABASE STATE and KILL DATABASE CONNECTION to the users that raise', 1;
IF OBJECT_ID(N'[$(SCHEMA)]._kill', N'P') IS NULL OR OBJECT_ID(N'[$(SCHEMA)]._holder', N'P') IS NULL THROW 50000, 'layer 1 is not installed in this database, or is of an older version: termgate init', 1;
GO
-- A new certificate each time, because the private key of the last one is gone. First removes what the last run left.
DECLARE @database sysname = DB_NAME(), @name sysname, @text nvarchar(max), @password nvarchar(100) = CONCAT(N'Tg1!', NEWID(), NEWID());
SET @name = CONCAT(N'TermgateEvict_', CONVERT(nvarchar(40), HASHBYTES('MD5', @database), 2));
IF EXISTS (SELECT 1 FROM sys.crypt_properties x JOIN sys.certificates c ON c.thumbprint = x.thumbprint WHERE c.name = @name AND x.major_id = OBJECT_ID(N'[$(SCHEMA)]._holder'))
  EXEC(N'DROP SIGNATURE FROM [$(SCHEMA)]._holder BY CERTIFICATE ' + @name);
IF EXISTS (SELECT 1 FROM sys.crypt_properties x JOIN sys.certificates c ON c.thumbprint = x.thumbprint WHERE c.name = @name AND x.major_id = OBJECT_ID(N'[$(SCHEMA)]._kill'))
  EXEC(N'DROP SIGNATURE FROM [$(SCHEMA)]._kill BY CERTIFICATE ' + @name);
IF EXISTS (SELECT 1 FROM sys.certificates c WHERE c.name = @name) EXEC(N'DROP CERTIFICATE ' + @name);
SET @text = N'CREATE CERTIFICATE ' + @name + N' ENCRYPTION BY PASSWORD = ''' + @password + N''' WITH SUBJECT = ''Termgate: may see locks and end sessions in its own procedures'', EXPIRY_DATE = ''20991231''';
EXEC(@text);
EXEC(N'ADD SIGNATURE TO [$(SCHEMA)]._holder BY CERTIFICATE ' + @name + N' WITH PASSWORD = ''' + @password + N'''');
EXEC(N'ADD SIGNATURE TO [$(SCHEMA)]._kill BY CERTIFICATE ' + @name + N' WITH PASSWORD = ''' + @password + N'''');
EXEC(N'ALTER CERTIFICATE ' + @name + N' REMOVE PRIVATE KEY');
-- The public key goes to master, where its login has the rights.
SET @text = N'USE [master];
IF SUSER_ID(N''' + @name + N''') IS NOT NULL DROP LOGIN ' + @name + N';
IF EXISTS (SELECT 1 FROM sys.certificates c WHERE c.name = N''' + @name + N''') DROP CERTIFICATE ' + @name + N';
CREATE CERTIFICATE ' + @name + N' FROM BINARY = ' + CONVERT(nvarchar(max), CERTENCODED(CERT_ID(@name)), 1) + N';
CREATE LOGIN ' + @name + N' FROM CERTIFICATE ' + @name + N';
GRANT VIEW SERVER STATE TO ' + @name + N';
GRANT ALTER ANY CONNECTION TO ' + @name + N';';
EXEC(@text);
PRINT 'signed: _holder and _kill, by ' + @name;
GO
