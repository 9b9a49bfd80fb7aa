-- Records refusals whose own transactions were rolled back, in a transaction of its own; false: too soon after the last record.
DECLARE @recorded bit;
EXEC @schema@.record_refusal @scope = $1, @term = $2, @count = $3, @first_ms = $4, @last_ms = $5, @client = $6, @recorded = @recorded OUTPUT;
SELECT @recorded AS recorded
