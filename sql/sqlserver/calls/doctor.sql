-- What the guarantees do not cover, or who could get round them; a row each.
EXEC @schema@.doctor
