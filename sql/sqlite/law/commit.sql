-- Parameters: none. Rows: none. Locks: gives all back; the flush of F3 happens here.
COMMIT
