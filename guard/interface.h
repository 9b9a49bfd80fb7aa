// The part of the guard that guard/shortcuts/ uses. Both libraries are built from one source, find
// each other when the server loads them, and run on the one thread of a backend. The shortcuts
// compare no terms themselves: the three checks below are the guard's.
#pragma once

#include "server.h"

#define GUARD_VERSION "1.0"
// A scope has 1 to 200 code points, so at most 800 bytes of UTF-8.
#define SCOPE_BYTES_MAX 800

// A scope as a value of type text that is also NUL-terminated.
typedef struct ScopeName {
  union {
    struct varlena header;
    char bytes[VARHDRSZ + SCOPE_BYTES_MAX + 1];
  } text;
} ScopeName;
#define SCOPE_DATUM(name) PointerGetDatum(&(name)->text.header)
#define SCOPE_STRING(name) ((name)->text.bytes + VARHDRSZ)

// A function of layer 1 by its name, or a statement with %s in place of the schema.
typedef struct Layer1Call {
  const char* text;
  bool is_statement;
  int arguments;
  Oid types[6];
  // Cached between calls, for the schema that layer 1 had when it was made.
  SPIPlanPtr plan;
  uint32 plan_epoch;
} Layer1Call;

// An append that layer 1 delegates; false, without a new write, if layer 1 has to run it in SQL.
typedef bool (*CarriedAppend)(FunctionCallInfo fcinfo, Datum* last);

typedef struct GuardInterface {
  const char* version;
  Size size;

  // Set by the shortcuts.
  CarriedAppend append;
  CarriedAppend append_many;

  // Whether the guard leaves this process alone: a worker of autovacuum or of logical replication,
  // or any process of a server in recovery, for example.
  bool (*exempt)(void);
  bool (*argument_scope)(FunctionCallInfo fcinfo, int number, ScopeName* name);
  bool (*claim_set_name)(ScopeName* name, const char* text, size_t length);

  // layer1_usable() and layer1_found() return whether there is a layer 1 that the guard can use.
  // The members after them are valid only if one of them has returned true.
  bool (*layer1_usable)(void);
  bool (*layer1_found)(void);
  const char* (*layer1_schema)(void);
  Oid (*layer1_schema_oid)(void);
  Oid (*layer1_owner)(void);
  // Whether one of layer 1's functions or statements runs now.
  bool (*layer1_is_busy)(void);
  // Runs a statement as the owner of layer 1, with bound values; returns how many rows it has
  // changed.
  uint64 (*layer1_execute)(Layer1Call* statement, Datum* values);
  // A write that touches only layer 1's tables is about to begin.
  void (*hooks_layer1_writes)(void);

  // Whether the transaction passes a check, at once and without a raise. False: layer 1 has to
  // run the check in SQL.
  bool (*check_by_arguments)(const ScopeName* scope, int64 term);
  bool (*check_for_protect)(const ScopeName* scope, Snapshot snapshot);
  bool (*check_any_for_protect)(Snapshot snapshot);

  int (*passes_count)(void);
  void (*passes_drop)(int since);
} GuardInterface;

// The name under which libraries that are loaded later find the guard's interface.
#define GUARD_RENDEZVOUS "termgate_guard"
