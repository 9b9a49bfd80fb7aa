-- Adds one piece. Parameters: position (from 0), piece, the length that it was sent with.
INSERT INTO #termgate_pieces (position, piece, bytes) VALUES ($1, $2, $3)
