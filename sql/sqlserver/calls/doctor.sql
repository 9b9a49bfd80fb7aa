-- What is not covered.
EXEC @schema@.doctor
