-- Parameters and columns: sql/README.md. Takes the fence's lock until the transaction ends (F1, F5).
DECLARE @fence bigint;
EXEC @schema@.check_term @scope = $1, @term = $2, @fence = @fence OUTPUT;
SELECT @fence AS fence
