// Where the server calls the guard. There are two lines of defence. The first write of a
// transaction is checked before it begins. And no transaction that has an id, or has used something
// that leaves no trace, commits or is prepared without a passed check; writes of layer 1 alone need
// none. The second would be enough for what a rollback undoes; the first refuses early, and covers
// what it does not undo.
//
// The order at COMMIT (CommitTransaction, the same from 13 to 18) is: deferred triggers, our
// callback, NOTIFY, the commit record, visibility, and only then the release of locks.
#include "guard.h"

static ExecutorStart_hook_type next_executor_start = NULL;
static ExecutorRun_hook_type next_executor_run = NULL;
static ExecutorFinish_hook_type next_executor_finish = NULL;
static ProcessUtility_hook_type next_utility = NULL;
static object_access_hook_type next_object_access = NULL;

// Whether this transaction has run something that its end cannot detect.
static bool used_traceless = false;
// Whether a statement of layer 1 gave the transaction its id.
static bool id_is_layer1s = false;
// Set from hooks_layer1_call(true) to hooks_layer1_call(false): layer 1 notifies, or moves a
// sequence of its own.
static bool in_layer1_call = false;
// How many nested statements run, and how many of them write.
static int running = 0;
static int writing = 0;
// Whether a statement that includes its own check is being prepared, and nothing has passed yet.
static bool on_credit = false;

bool hooks_exempt(void) {
  return IsBinaryUpgrade || !IsUnderPostmaster || proc_exit_inprogress || IsAutoVacuumProcess() ||
         IsLogicalWorker() || RecoveryInProgress();
}

static bool guarding(void) {
  return guard_mode() != GUARD_OFF && !layer1_is_busy() && !hooks_exempt();
}

static Snapshot statement_snapshot(void) {
  if (ActiveSnapshotSet()) { return GetActiveSnapshot(); }
  return IsolationUsesXactSnapshot() && FirstSnapshotSet ? GetTransactionSnapshot() : NULL;
}

static bool has_id(void) { return TransactionIdIsValid(GetTopTransactionIdIfAny()); }

void hooks_layer1_call(bool begins) { in_layer1_call = begins; }

// Whether something may have written without any hook seeing it, or may do so from now on: a
// statement that writes is still running; or a function that leaves no trace was prepared, and
// something that may call it has run since the claim was declared (`ran`) or runs now.
bool hooks_may_write(bool ran) { return writing > 0 || (used_traceless && (ran || running > 0)); }

// A write that touches only layer 1's tables is about to begin.
void hooks_layer1_writes(void) {
  if (!has_id()) { id_is_layer1s = true; }
}

static void before_statement(QueryDesc* query, int flags) {
  const PlannedStmt* plan = query->plannedstmt;
  check_owed(query->snapshot);
  if (!statement_writes(query, flags)) {
    check_statement_runs();
    // Reads its comment now: a function that it calls may write when the text is not available.
    (void)claim_of_statement();
    // The earlier statement of layer 1 took no id after all.
    if (id_is_layer1s && !has_id()) { id_is_layer1s = false; }
    return;
  }
  if (statement_writes_layer1_alone(plan)) {
    hooks_layer1_writes();
    return;
  }
  check_statement_runs();
  if (passes_count() == 0 && guard_mode() == GUARD_ENFORCE &&
      (claim_of_statement()->kind == CLAIM_NONE || claim_of_statement()->kind == CLAIM_HALF)) {
    layer1_need();
    if (statement_passes_by_itself(plan)) {
      used_traceless = true;
      on_credit = true;
      return;
    }
  }
  used_traceless = used_traceless || statement_touches_foreign(plan);
  check_require(query->snapshot);
}

static void executor_start(QueryDesc* query, int flags) {
  if (guarding() && !IsParallelWorker()) { before_statement(query, flags); }
  if (next_executor_start != NULL) {
    next_executor_start(query, flags);
  } else {
    standard_ExecutorStart(query, flags);
  }
  on_credit = false;
}

static bool writes(const QueryDesc* query) {
  return guarding() && !IsParallelWorker() &&
         statement_writes(query, query->estate->es_top_eflags) &&
         !statement_writes_layer1_alone(query->plannedstmt);
}

static void executor_run(EXECUTOR_RUN_PARAMETERS) {
  bool is_writer = writes(query);
  if (guarding()) { check_statement_goes_on(); }
  ++running;
  writing += is_writer;
  PG_TRY();
  {
    if (next_executor_run != NULL) {
      next_executor_run(EXECUTOR_RUN_ARGUMENTS);
    } else {
      standard_ExecutorRun(EXECUTOR_RUN_ARGUMENTS);
    }
  }
  PG_FINALLY();
  {
    --running;
    writing -= is_writer;
  }
  PG_END_TRY();
}

// Runs the triggers that fire after the rows.
static void executor_finish(QueryDesc* query) {
  bool is_writer = writes(query);
  ++running;
  writing += is_writer;
  PG_TRY();
  {
    if (next_executor_finish != NULL) {
      next_executor_finish(query);
    } else {
      standard_ExecutorFinish(query);
    }
  }
  PG_FINALLY();
  {
    --running;
    writing -= is_writer;
  }
  PG_END_TRY();
}

static bool commits_prepared(const Node* statement) {
  return IsA(statement, TransactionStmt) &&
         ((const TransactionStmt*)statement)->kind == TRANS_STMT_COMMIT_PREPARED;
}

// Checks the utility statement if it writes; returns whether it does.
static bool before_utility(const Node* statement) {
  if (!IsA(statement, TransactionStmt)) { check_owed(statement_snapshot()); }
  if (IsA(statement, DiscardStmt) && !has_id()) {
    // DISCARD TEMP takes an id to drop what only this session could see.
    id_is_layer1s = true;
    return false;
  }
  if (utility_is_free(statement)) {
    if (!IsA(statement, VariableSetStmt) && !IsA(statement, VariableShowStmt) &&
        !IsA(statement, TransactionStmt)) {
      check_statement_runs();
    }
    return false;
  }
  check_statement_runs();
  used_traceless = true;
  check_require(statement_snapshot());
  // What was prepared holds scopes of its own, whatever this session declares.
  if (commits_prepared(statement) && guard_mode() == GUARD_ENFORCE) { layer1_check_prepared(); }
  return true;
}

// A statement that only changes a setting or the transaction's state cannot write.
static bool only_sets(const Node* statement) {
  return IsA(statement, VariableSetStmt) || IsA(statement, TransactionStmt);
}

static void process_utility(UTILITY_PARAMETERS) {
  bool is_writer = guarding() && !IsParallelWorker() && before_utility(planned->utilityStmt);
  bool runs = !only_sets(planned->utilityStmt);
  running += runs;
  writing += is_writer;
  PG_TRY();
  {
    if (next_utility != NULL) {
      next_utility(UTILITY_ARGUMENTS);
    } else {
      standard_ProcessUtility(UTILITY_ARGUMENTS);
    }
  }
  PG_FINALLY();
  {
    running -= runs;
    writing -= is_writer;
  }
  PG_END_TRY();
  // The statement took no id after all.
  if (id_is_layer1s && !has_id()) { id_is_layer1s = false; }
}

// Called when an expression is prepared instead of when the function is called. So a branch that is
// never taken counts as well, and so does EXPLAIN, which may run code at that moment (partitions
// are pruned, initial values of aggregates are read). A later call in the transaction under another
// claim is caught at the transaction's end.
static void before_function(Oid function) {
  if (!function_leaves_no_trace(function) || in_layer1_call || !guarding()) { return; }
  // Layer 1 itself notifies those who follow a stream, as its owner. No guarded session may act as
  // that role.
  if (function_is_notify(function) && layer1_usable() && GetUserId() == layer1_owner()) { return; }
  if (IsInParallelMode()) {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("%s cannot be checked in a parallel query of a guarded session",
                           format_procedure(function)),
                    errhint("The function that calls it is not PARALLEL SAFE: ALTER FUNCTION ... "
                            "PARALLEL UNSAFE.")));
  }
  check_statement_runs();
  used_traceless = true;
  // The default of a serial column: a number is not data, and the end of the transaction sees
  // whether the check has passed.
  if (!(on_credit && passes_count() == 0 && function_is_nextval(function))) {
    check_require(statement_snapshot());
  }
}

static void object_access(ObjectAccessType access, Oid class, Oid object, int sub, void* argument) {
  if (next_object_access != NULL) { next_object_access(access, class, object, sub, argument); }
  if (access == OAT_FUNCTION_EXECUTE && class == ProcedureRelationId) { before_function(object); }
}

// Called in every session, guarded or not, and after all deferred triggers: layer 1's own one has
// tested the leases earlier, and others may have run since.
static void leases_before_commit(void) {
  const char* required = GetConfigOption("termgate.required_leases", true, false);
  if (required != NULL && required[0] != '\0' && layer1_found()) {
    layer1_require_leases(required);
  }
}

static void before_commit(bool prepares) {
  leases_before_commit();
  if (!guarding()) { return; }
  if (prepares || used_traceless || (has_id() && !id_is_layer1s)) { check_before_commit(); }
}

// Nothing may fail here.
static void transaction_ended(void) {
  passes_forget();
  check_forget();
  claim_forget_owed();
  sessions_show_end();
  used_traceless = false;
  on_credit = false;
  id_is_layer1s = false;
  in_layer1_call = false;
}

static void on_transaction(XactEvent event, void* argument pg_attribute_unused()) {
  switch (event) {
    case XACT_EVENT_PRE_COMMIT: before_commit(false); break;
    case XACT_EVENT_PRE_PREPARE: before_commit(true); break;
    case XACT_EVENT_COMMIT:
    case XACT_EVENT_ABORT:
    case XACT_EVENT_PREPARE:
    case XACT_EVENT_PARALLEL_COMMIT:
    case XACT_EVENT_PARALLEL_ABORT: transaction_ended(); break;
    case XACT_EVENT_PARALLEL_PRE_COMMIT: break;
  }
}

static void on_savepoint(SubXactEvent event, SubTransactionId sub pg_attribute_unused(),
                         SubTransactionId parent pg_attribute_unused(),
                         void* argument pg_attribute_unused()) {
  if (event == SUBXACT_EVENT_COMMIT_SUB) {
    passes_savepoint_released(GetCurrentTransactionNestLevel());
  } else if (event == SUBXACT_EVENT_ABORT_SUB) {
    passes_savepoint_rolled_back(GetCurrentTransactionNestLevel());
    check_forget();
    in_layer1_call = false;
    on_credit = false;
  }
}

void hooks_install(void) {
  next_executor_start = ExecutorStart_hook;
  ExecutorStart_hook = executor_start;
  next_executor_run = ExecutorRun_hook;
  ExecutorRun_hook = executor_run;
  next_executor_finish = ExecutorFinish_hook;
  ExecutorFinish_hook = executor_finish;
  next_utility = ProcessUtility_hook;
  ProcessUtility_hook = process_utility;
  next_object_access = object_access_hook;
  object_access_hook = object_access;
  RegisterXactCallback(on_transaction, NULL);
  RegisterSubXactCallback(on_savepoint, NULL);
  layer1_watch();
}
