-- What the guarantees do not cover, or who could get round them; a row each.
SELECT severity, object, problem, remedy FROM @schema@.doctor()
