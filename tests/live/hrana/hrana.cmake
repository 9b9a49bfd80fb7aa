# front: the proxy in operation. [F6] bypasses: every row of docs/evidence/bypasses-sqlite.md. guarantees: [F1] to [F6]. [F4] patience: long
# reads, clients that go away or do not read. [F2] service: its file moved, removed or replaced under it, the drain. docs: the page.
# [F7] clients: libraries and ORMs from npm, and requests of others. transparent: random statements, values at their limits.
if(TARGET termgate AND TARGET termgate_sqlite_front)
  foreach(what bypasses front guarantees patience service docs clients transparent)
    termgate_pytest(live_hrana_${what} TIMEOUT 900)
  endforeach()
endif()
