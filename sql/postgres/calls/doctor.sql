-- What is not covered.
SELECT severity, object, problem, remedy FROM @schema@.doctor()
