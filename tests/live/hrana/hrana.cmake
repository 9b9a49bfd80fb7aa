# front: each endpoint, way to declare and code, lost transactions. [F6] bypasses: every row of docs/evidence/bypasses-sqlite.md. guarantees:
# [F1] to [F6], with local programs on the same file. [F5] kill: the proxy killed at random moments. [F4] patience: long reads, clients that go
# away or do not read. storage: what the file holds. [F2] service: its file moved, removed or replaced under it, the drain. docs: the page.
# [F7] clients: libraries and ORMs from npm, and requests of others. transparent: random statements.
if(TARGET termgate AND TARGET termgate_sqlite_front)
  foreach(what bypasses front guarantees kill patience storage service docs clients transparent)
    termgate_pytest(live_hrana_${what} TIMEOUT 900)
  endforeach()
endif()
