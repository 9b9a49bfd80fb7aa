-- Checks and stores one setting.
DECLARE @name nvarchar(100) = $1, @value nvarchar(100) = $2;
EXEC @schema@.set_setting @name = @name, @value = @value;
SELECT @name AS name, @value AS value
