// Which statements write. A statement needs the check unless it is known not to, so a new command
// of a new major needs one until somebody has examined it.
#include "guard.h"

#include <stdlib.h>

// OIDs in pg_proc of functions that write without a trace that the end of a transaction could see:
// they take no transaction id, or take it after the guard's last check, or have an effect that no
// rollback undoes. They are the same from 13 to 18, in ascending order;
// tests/live/guard/guard_test.py compares them with each server.
static const Oid traceless[] = {
    715,   // lo_create
    764,   // lo_import
    765,   // lo_export
    767,   // lo_import
    955,   // lowrite
    957,   // lo_creat
    964,   // lo_unlink
    1004,  // lo_truncate
    1574,  // nextval
    1576,  // setval
    1765,  // setval
    2848,  // pg_switch_wal
    3036,  // pg_notify
    3098,  // pg_create_restore_point
    3172,  // lo_truncate64
    3457,  // lo_from_bytea
    3460,  // lo_put
    3577,  // pg_logical_emit_message
    3578,  // pg_logical_emit_message
    3779,  // pg_create_physical_replication_slot
    3780,  // pg_drop_replication_slot
    3782,  // pg_logical_slot_get_changes
    3783,  // pg_logical_slot_get_binary_changes
    3786,  // pg_create_logical_replication_slot
    3878,  // pg_replication_slot_advance
    4220,  // pg_copy_physical_replication_slot
    4221,  // pg_copy_physical_replication_slot
    4222,  // pg_copy_logical_replication_slot
    4223,  // pg_copy_logical_replication_slot
    4224,  // pg_copy_logical_replication_slot
    6003,  // pg_replication_origin_create
    6004,  // pg_replication_origin_drop
    6012,  // pg_replication_origin_advance
};

static int compare_oids(const void* a, const void* b) {
  Oid left = *(const Oid*)a;
  Oid right = *(const Oid*)b;
  return left < right ? -1 : left > right;
}

bool function_leaves_no_trace(Oid function) {
  return function < FirstNormalObjectId && bsearch(&function, traceless, lengthof(traceless),
                                                   sizeof traceless[0], compare_oids) != NULL;
}

bool function_is_nextval(Oid function) { return function == 1574; }

bool function_is_notify(Oid function) { return function == 3036; }

// Whether the plan has SELECT ... FOR UPDATE or similar. Row marks that only remember rows are
// internal to a plan.
static bool locks_rows(const PlannedStmt* plan) {
  ListCell* cell;
  foreach (cell, plan->rowMarks) {
    if (RowMarkRequiresRowShareLock(lfirst_node(PlanRowMark, cell)->markType)) { return true; }
  }
  return false;
}

// A statement on a foreign table takes no transaction id here.
bool statement_touches_foreign(const PlannedStmt* plan) {
  ListCell* cell;
  foreach (cell, plan->rtable) {
    const RangeTblEntry* entry = lfirst_node(RangeTblEntry, cell);
    if (entry->rtekind == RTE_RELATION && entry->relkind == RELKIND_FOREIGN_TABLE) { return true; }
  }
  return false;
}

bool statement_writes(const QueryDesc* query, int flags) {
  const PlannedStmt* plan = query->plannedstmt;
  if ((flags & EXEC_FLAG_EXPLAIN_ONLY) != 0) { return false; }
  // EXPLAIN ANALYZE CREATE TABLE AS is a SELECT whose destination is a table.
  return plan->commandType != CMD_SELECT || plan->hasModifyingCTE ||
         (query->dest != NULL && query->dest->mydest == DestIntoRel) ||
         (plan->rowMarks != NIL && locks_rows(plan)) ||
         (guard_checks_foreign_reads() && statement_touches_foreign(plan));
}

// Decided by which tables are written: applications have no privileges on layer 1's tables, so only
// layer 1's functions can do this.
bool statement_writes_layer1_alone(const PlannedStmt* plan) {
  ListCell* cell;
  bool any = false;
  foreach (cell, plan->resultRelations) {
    if (!layer1_owns(rt_fetch(lfirst_int(cell), plan->rtable)->relid)) { return false; }
    any = true;
  }
  foreach (cell, plan->rowMarks) {
    const PlanRowMark* mark = lfirst_node(PlanRowMark, cell);
    const RangeTblEntry* entry = rt_fetch(mark->rti, plan->rtable);
    if (!RowMarkRequiresRowShareLock(mark->markType)) { continue; }
    if (entry->rtekind != RTE_RELATION || !layer1_owns(entry->relid)) { return false; }
    any = true;
  }
  return any;
}

static bool writes_foreign_table(const PlannedStmt* plan) {
  ListCell* cell;
  foreach (cell, plan->resultRelations) {
    if (rt_fetch(lfirst_int(cell), plan->rtable)->relkind == RELKIND_FOREIGN_TABLE) { return true; }
  }
  return false;
}

// INSERT ... WHERE check_term(scope, term) IS NOT NULL includes its own check: it may begin, and
// the end of the transaction sees whether the check passed. A plan lists the functions that it
// calls, by hash. False for foreign tables: rows that are written there may be committed before the
// transaction ends, and if reading one needs a check, the check must come first.
bool statement_passes_by_itself(const PlannedStmt* plan) {
  ListCell* cell;
  if (writes_foreign_table(plan) ||
      (guard_checks_foreign_reads() && statement_touches_foreign(plan))) {
    return false;
  }
  foreach (cell, plan->invalItems) {
    const PlanInvalItem* item = lfirst(cell);
    if (item->cacheId == PROCOID && layer1_passes_by(item->hashValue)) { return true; }
  }
  return false;
}

static bool transaction_statement_is_free(const TransactionStmt* statement) {
  // A transaction is checked when it is prepared. Ending a prepared one needs a check as well,
  // because another session may have prepared it.
  return statement->kind != TRANS_STMT_COMMIT_PREPARED &&
         statement->kind != TRANS_STMT_ROLLBACK_PREPARED;
}

static bool copy_is_free(const CopyStmt* statement) {
  return !statement->is_from && statement->filename == NULL && !statement->is_program;
}

// Statements that write nothing themselves. What they run in turn reaches the executor, or is a
// utility statement again.
bool utility_is_free(const Node* statement) {
  switch (nodeTag(statement)) {
    case T_TransactionStmt: return transaction_statement_is_free((const TransactionStmt*)statement);
    case T_CopyStmt: return copy_is_free((const CopyStmt*)statement);
    case T_LockStmt: return ((const LockStmt*)statement)->mode <= RowExclusiveLock;
    case T_VariableSetStmt:
    case T_VariableShowStmt:
    case T_ExplainStmt:
    case T_FetchStmt:
    case T_ClosePortalStmt:
    case T_DeclareCursorStmt:
    case T_PrepareStmt:
    case T_ExecuteStmt:
    case T_DeallocateStmt:
    case T_DiscardStmt:
    case T_ListenStmt:
    case T_UnlistenStmt:
    case T_ConstraintsSetStmt:
    case T_CallStmt:
    case T_DoStmt:
    case T_LoadStmt:
    case T_CheckPointStmt: return true;
    default: return false;
  }
}
