-- A scope is trusted again: the operator declares how high its terms had come (F3).
DECLARE @fence bigint;
EXEC @schema@.declare_restored @scope = $1, @above = $2, @actor = $3, @reason = $4, @fence = @fence OUTPUT;
SELECT @fence AS fence
