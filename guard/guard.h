// The guard: a guarded session commits nothing that it has written without a passed check. This
// header has what the parts of this folder share.
//
//   guard.c       settings, which sessions are guarded, what SQL can call
//   claim.c       the claim in the settings, and those that are owed a check
//   comments.c    what the comment of the client's statement declares
//   passes.c      what this transaction has passed, by savepoint
//   layer1.c      finds layer 1 in this database; reads a fence; calls layer 1's functions, which decide nearly every refusal
//   check.c       locks the scope, compares, remembers
//   statements.c  which statements write
//   hooks.c       where the server calls the guard: executor, utility statements, functions, the end of a transaction
//   sessions.c    what all sessions publish: termgate.guarded_sessions, termgate.guard_observed
//
//   interface.h   what the separate library in guard/shortcuts/ uses of all this
//
// Words: a claim is the scope and term that are declared, by settings or by a comment. A pass is a
// check that this transaction has passed. A function leaves no trace if the end of the transaction
// cannot see that it wrote. A claim is owed a check if it ended when something may have written
// under it.
//
// One backend is one thread. All state here belongs to the backend, except in sessions.c.
#pragma once

#include "interface.h"

// A transaction that has passed this many scopes takes no further advisory locks; layer 1 then
// locks fence rows instead (sql/postgres/install/0004_escalation.sql).
#define LOCKED_SCOPES_MAX 60

#define ERRCODE_TERM_REQUIRED MAKE_SQLSTATE('T', 'G', '0', '0', '2')
#define ERRCODE_INPUT_INVALID MAKE_SQLSTATE('T', 'G', '0', '0', '5')
#define ERRCODE_FENCE_UNTRUSTED MAKE_SQLSTATE('T', 'G', '0', '0', '4')
#define ERRCODE_BLOCKED MAKE_SQLSTATE('T', 'G', '0', '0', '6')

typedef enum GuardMode { GUARD_OFF, GUARD_OBSERVE, GUARD_ENFORCE } GuardMode;

// The advisory keys of a scope: docs/reference/lock-protocol.md.
typedef struct ScopeKeys {
  int64 queue;
  int64 turnstile;
} ScopeKeys;

// The two settings of a claim, which are set one after the other.
typedef enum ClaimSetting { SETTING_SCOPE = 1, SETTING_TERM = 2 } ClaimSetting;

// CLAIM_HALF: a scope without a term, or a term without a scope. CLAIM_ODD: any other claim, which
// only layer 1 can read or refuse.
typedef enum ClaimKind { CLAIM_NONE, CLAIM_WHOLE, CLAIM_HALF, CLAIM_ODD } ClaimKind;

typedef struct Claim {
  ClaimKind kind;
  ScopeName scope;  // for CLAIM_WHOLE
  int64 term;
  bool has_keys;
  ScopeKeys keys;
} Claim;

// A row of fences in its current version, whatever the transaction's snapshot shows.
typedef struct Fence {
  bool found;
  int64 term;
  int64 generation;
  bool vouched;  // the row names the OID of this table, so no restored dump brought it
  FullTransactionId raised;
} Fence;

// guard.c
extern GuardMode guard_mode(void);
extern bool guard_is_preloaded(void);
extern bool guard_checks_foreign_reads(void);
extern bool argument_scope(FunctionCallInfo fcinfo, int number, ScopeName* name);

// claim.c
extern void claim_define_settings(void);
extern Claim* claim_now(void);
extern Claim* claim_of_statement(void);
extern bool claim_is_a_comments(void);
extern void claim_note_owed(ClaimSetting next);
extern bool claim_next_owed(Claim* owed);
extern void claim_is_checked(void);
extern void claim_forget_owed(void);
extern void claim_forget_keys(void);
extern const char* claim_scope_text(void);
extern const char* claim_term_text(void);
extern bool claim_set_name(ScopeName* name, const char* text, size_t length);
extern bool claim_is_of(const ScopeName* scope);

// comments.c
extern bool comments_read(void);
extern const char* comments_scope(void);
extern const char* comments_term(void);

// passes.c
typedef struct Pass {
  ScopeKeys keys;
  int64 term;
  int level;     // nesting level of the savepoint that it belongs to
  uint32 epoch;  // passes_epoch() when the fence was last read for it
  // Whether the last raise was compared with the snapshot of a statement that writes. A check by
  // arguments does not know that snapshot.
  bool compared;
  bool by_row;  // layer 1 holds the fence's row instead of an advisory lock (LOCKED_SCOPES_MAX)
  ScopeName* scope;
} Pass;
extern int passes_count(void);
extern uint32 passes_epoch(void);
extern Pass* passes_find(const ScopeKeys* keys, const ScopeName* scope, int64 term);
extern Pass* passes_last(void);
extern bool passes_has_claim(const char* scope, const char* term);
extern bool passes_has_scope(const ScopeName* scope);
extern Pass* passes_of_scope(const ScopeName* scope);
extern Pass* passes_add(const ScopeKeys* keys, const ScopeName* scope, int64 term, bool by_row);
extern void passes_forget(void);
extern void passes_drop(int since);
void passes_savepoint_released(int level);
extern void passes_savepoint_rolled_back(int level);

// layer1.c
extern void layer1_watch(void);
extern bool layer1_usable(void);
extern bool layer1_found(void);
extern void layer1_need(void);
extern const char* layer1_schema(void);
extern Oid layer1_owner(void);
extern Oid layer1_schema_oid(void);
extern bool layer1_owns(Oid relation);
extern bool layer1_remembers(const ScopeName* scope, int64 term);
extern bool layer1_passes_by(uint32 function);
extern void layer1_keys(const ScopeName* scope, ScopeKeys* keys);
extern void layer1_read_fence(const ScopeName* scope, Fence* fence);
extern void layer1_learn_trust(const ScopeName* scope, int64 term);
extern bool layer1_trusts(const Fence* fence);
extern void layer1_declared(ScopeName* scope, int64* term);
extern void layer1_require_leases(const char* required);
extern void layer1_check_prepared(void);
extern void layer1_wait(const ScopeName* scope);
extern void layer1_verdict(const ScopeName* scope, int64 term, const Fence* fence, bool too_early);
extern void layer1_check_by_row(const ScopeName* scope, int64 term);
extern char* layer1_would_refuse(const ScopeName* scope, int64 term, const Fence* fence,
                                 bool too_early);
extern bool layer1_is_busy(void);
extern uint64 layer1_execute(Layer1Call* statement, Datum* values);

// check.c
extern void check_require(Snapshot snapshot);
extern void check_before_commit(void);
extern void check_owed(Snapshot snapshot);
extern bool check_by_arguments(const ScopeName* scope, int64 term);
extern bool check_for_protect(const ScopeName* scope, Snapshot snapshot);
extern bool check_any_for_protect(Snapshot snapshot);
extern void check_claim_changed(ClaimSetting setting);
extern void check_statement_runs(void);
extern void check_statement_goes_on(void);
extern void check_forget(void);

// statements.c
extern bool statement_writes(const QueryDesc* query, int flags);
extern bool statement_writes_layer1_alone(const PlannedStmt* plan);
extern bool statement_touches_foreign(const PlannedStmt* plan);
extern bool statement_passes_by_itself(const PlannedStmt* plan);
extern bool utility_is_free(const Node* statement);
extern bool function_leaves_no_trace(Oid function);
extern bool function_is_nextval(Oid function);
extern bool function_is_notify(Oid function);

// hooks.c
extern void hooks_install(void);
extern bool hooks_exempt(void);
extern void hooks_layer1_call(bool begins);
extern void hooks_layer1_writes(void);
extern bool hooks_may_write(bool ran);

// sessions.c

extern void sessions_install(void);
extern void sessions_show_pass(const ScopeName* scope, int64 term);
extern void sessions_show_end(void);
extern void sessions_count_observed(const char* message);
extern bool sessions_leader_is_guarded(void);
extern void sessions_show_guarded(void);
