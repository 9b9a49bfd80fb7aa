// What a server that has loaded this library does without SQL, in every session, guarded or not:
// calls of check_term(), append() and append_many() in a statement, and the triggers of protect().
// It handles the common case only; in every other case layer 1's function runs as if this library
// did not exist. The catalogs are not changed: when a statement is ready to run, the executor has
// looked up each function and has checked the privilege to execute it. This library replaces the
// address that the executor will call, in that statement's own memory.
#include "shortcuts.h"

PG_MODULE_MAGIC;

void _PG_init(void);

GuardInterface* guard = NULL;
static ExecutorStart_hook_type next_executor_start = NULL;

typedef enum Kind { KIND_OTHER, KIND_STATEMENT, KIND_ROW } Kind;

// What is known about a trigger function. A small cache by OID, emptied whenever a function or a
// schema changes.
typedef struct TriggerFunction {
  Oid function;
  Kind kind;
  char name[NAMEDATALEN];    // for KIND_ROW
  char column[NAMEDATALEN];  // the column whose hash is in the name, once it has been compared
} TriggerFunction;
static TriggerFunction trigger_functions[16];

// Tables that are listed in `protected`, by OID. The server announces when a table's triggers are
// dropped, as any change of the table; then it is removed here.
static Oid covered[64];

// A trigger that this library runs, allocated in its statement's memory.
typedef struct Carried {
  FmgrInfo sql;
  bool sql_is_ready;
  AttrNumber column;  // for a row trigger
  Oid type;
} Carried;

static bool functions_known = false;
static bool known_rules = false;
static Oid check_term_oid, append_oid, append_many_oid;
static uint32 hashes[3];
static Oid protected_table, protected_key;

static void relation_changed(Datum argument pg_attribute_unused(), Oid relation) {
  if (relation == InvalidOid || relation == protected_table) {
    memset(covered, 0, sizeof covered);
    functions_known = false;
  } else if (covered[relation % lengthof(covered)] == relation) {
    covered[relation % lengthof(covered)] = InvalidOid;
  }
}

static void catalog_changed(Datum argument pg_attribute_unused(), int cache pg_attribute_unused(),
                            uint32 hash pg_attribute_unused()) {
  functions_known = false;
  memset(trigger_functions, 0, sizeof trigger_functions);
}

// Must only be called if layer1_usable().
Oid layer1_relation(const char* name) {
  return get_relname_relid(name, guard->layer1_schema_oid());
}

// Finds a function of layer 1's schema with exactly these arguments, and its owner; InvalidOid if
// there is none.
Oid layer1_function(const char* name, int arguments, const Oid* types, Oid* owner) {
  Datum schema = ObjectIdGetDatum(guard->layer1_schema_oid());
  HeapTuple row = SearchSysCache3(PROCNAMEARGSNSP, CStringGetDatum(name),
                                  PointerGetDatum(buildoidvector(types, arguments)), schema);
  Oid function = InvalidOid;
  if (HeapTupleIsValid(row)) {
    function = ((Form_pg_proc)GETSTRUCT(row))->oid;
    *owner = ((Form_pg_proc)GETSTRUCT(row))->proowner;
    ReleaseSysCache(row);
  }
  return function;
}

// Finds a function that belongs to layer 1's owner.
static Oid own_function(const char* name, int arguments, const Oid* types, uint32* hash) {
  Oid owner = InvalidOid;
  Oid function = layer1_function(name, arguments, types, &owner);
  if (owner != guard->layer1_owner()) { function = InvalidOid; }
  *hash = OidIsValid(function) ? GetSysCacheHashValue1(PROCOID, ObjectIdGetDatum(function)) : 0;
  return function;
}

static void know_functions(void) {
  // These OIDs are the same from 13 to 18; the headers of 13 do not name them.
  enum { BYTEA_ARRAY = 1001, UUID_ARRAY = 2951 };
  static const Oid check_term[] = {TEXTOID, INT8OID};
  static const Oid append[] = {TEXTOID, INT8OID, BYTEAOID, INT8OID, TEXTOID, UUIDOID};
  static const Oid append_many[] = {TEXTOID, INT8OID, BYTEA_ARRAY, INT8OID, TEXTOID, UUID_ARRAY};
  Relation table;
  uint32 unused;
  // If something changes during the search, the next statement searches again.
  functions_known = true;
  // A later version of layer 1's rules has no function of this name; then SQL runs.
  known_rules = OidIsValid(own_function("_library_1", 0, check_term, &unused));
  check_term_oid = own_function("check_term", lengthof(check_term), check_term, &hashes[0]);
  append_oid = own_function("append", lengthof(append), append, &hashes[1]);
  append_many_oid = own_function("append_many", lengthof(append_many), append_many, &hashes[2]);
  protected_key = InvalidOid;
  protected_table = layer1_relation("protected");
  table = OidIsValid(protected_table) ? try_relation_open(protected_table, AccessShareLock) : NULL;
  if (table != NULL) {
    list_free(RelationGetIndexList(table));
    if (table->rd_rel->relowner == guard->layer1_owner() &&
        table->rd_rel->relkind == RELKIND_RELATION) {
      protected_key = table->rd_pkindex;
    }
    relation_close(table, AccessShareLock);
  }
}

static bool ready(void) {
  if (!guard->layer1_found()) { return false; }
  if (!functions_known) { know_functions(); }
  return known_rules;
}

// ---- calls

// The original function's address is still in fcinfo->flinfo.
static Datum call_by_sql(FunctionCallInfo fcinfo) { return FunctionCallInvoke(fcinfo); }

static Datum call_check_term(FunctionCallInfo fcinfo) {
  ScopeName scope;
  if (!fcinfo->args[1].isnull && guard->layer1_found() &&
      guard->argument_scope(fcinfo, 0, &scope) &&
      guard->check_by_arguments(&scope, PG_GETARG_INT64(1))) {
    PG_RETURN_DATUM(PG_GETARG_DATUM(1));
  }
  return call_by_sql(fcinfo);
}

static Datum call_append(FunctionCallInfo fcinfo) {
  Datum answer;
  return append_has_no_follower() && append_one(fcinfo, &answer) ? answer : call_by_sql(fcinfo);
}

static Datum call_append_many(FunctionCallInfo fcinfo) {
  Datum answer;
  return append_has_no_follower() && append_array(fcinfo, &answer) ? answer : call_by_sql(fcinfo);
}

static void carry_calls(ExprState* state) {
  int i;
  if (state == NULL) { return; }
  for (i = 0; i < state->steps_len; ++i) {
    ExprEvalStep* step = &state->steps[i];
    ExprEvalOp what = ExecEvalStepOp(state, step);
    Oid function;
    if (what != EEOP_FUNCEXPR && what != EEOP_FUNCEXPR_FUSAGE) { continue; }
    function = step->d.func.finfo->fn_oid;
    if (function == check_term_oid) {
      step->d.func.fn_addr = call_check_term;
    } else if (function == append_oid) {
      step->d.func.fn_addr = call_append;
    } else if (function == append_many_oid) {
      step->d.func.fn_addr = call_append_many;
    }
  }
}

static bool carry_calls_below(PlanState* node, void* context) {
  if (node == NULL) { return false; }
  carry_calls(node->qual);
  if (node->ps_ProjInfo != NULL) { carry_calls(&node->ps_ProjInfo->pi_state); }
  if (IsA(node, ResultState)) { carry_calls(((ResultState*)node)->resconstantqual); }
  return planstate_tree_walker(node, carry_calls_below, context);
}

// Whether the statement calls one of our functions: a plan lists the functions that it calls, by
// hash.
static bool names_ours(const PlannedStmt* plan) {
  ListCell* cell;
  foreach (cell, plan->invalItems) {
    const PlanInvalItem* item = lfirst(cell);
    if (item->cacheId == PROCOID && (item->hashValue == hashes[0] || item->hashValue == hashes[1] ||
                                     item->hashValue == hashes[2])) {
      return true;
    }
  }
  return false;
}

// ---- triggers of protect()

// Returns a copy: every catalog lookup may process an invalidation that clears the table of
// functions.
static TriggerFunction know_trigger_function(Oid function) {
  TriggerFunction* place = &trigger_functions[function % lengthof(trigger_functions)];
  TriggerFunction known;
  HeapTuple row;
  if (place->function == function) { return *place; }
  memset(&known, 0, sizeof known);
  known.function = function;
  *place = known;  // should the lookup fail, it counts as not one of ours
  row = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
  if (HeapTupleIsValid(row)) {
    Form_pg_proc form = (Form_pg_proc)GETSTRUCT(row);
    static const char prefix[] = "_protected_row_";
    if (form->pronamespace == guard->layer1_schema_oid() &&
        form->proowner == guard->layer1_owner()) {
      if (strcmp(NameStr(form->proname), "_protect_statement") == 0) {
        known.kind = KIND_STATEMENT;
      } else if (strncmp(NameStr(form->proname), prefix, sizeof prefix - 1) == 0) {
        known.kind = KIND_ROW;
        memcpy(known.name, NameStr(form->proname), sizeof known.name);
      }
    }
    ReleaseSysCache(row);
  }
  // Not remembered if something has changed meanwhile.
  if (place->function == function) { *place = known; }
  return known;
}

static Datum trigger_by_sql(FunctionCallInfo fcinfo) {
  FmgrInfo* ours = fcinfo->flinfo;
  Carried* carried = ours->fn_extra;
  Datum answer;
  if (!carried->sql_is_ready) {
    fmgr_info_cxt(ours->fn_oid, &carried->sql, ours->fn_mcxt);
    carried->sql_is_ready = true;
  }
  fcinfo->flinfo = &carried->sql;
  answer = FunctionCallInvoke(fcinfo);
  fcinfo->flinfo = ours;
  return answer;
}

// Whether `protected` lists the table now. If this transaction made the entry and rolls it back to
// a savepoint, the trigger goes too, which removes the table from `covered`.
static bool is_covered(Relation table) {
  Oid* known = &covered[RelationGetRelid(table) % lengthof(covered)];
  Relation list;
  if (*known == RelationGetRelid(table)) { return true; }
  if (!OidIsValid(protected_key)) { return false; }
  list = try_relation_open(protected_table, AccessShareLock);
  if (list != NULL) {
    ScanKeyData key;
    SysScanDesc scan;
    bool found;
    ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(RelationGetRelid(table)));
    scan = systable_beginscan(list, protected_key, true, NULL, 1, &key);
    found = HeapTupleIsValid(systable_getnext(scan));
    systable_endscan(scan);
    relation_close(list, AccessShareLock);
    if (found) { *known = RelationGetRelid(table); }
    return found;
  }
  return false;
}

static bool passes_table(const Trigger* trigger) {
  const char* text = trigger->tgargs[2];
  ScopeName scope;
  if (*text == '\0') { return true; }
  if (strcmp(text, "*") == 0) { return guard->check_any_for_protect(GetActiveSnapshot()); }
  return guard->claim_set_name(&scope, text, strlen(text)) &&
         guard->check_for_protect(&scope, GetActiveSnapshot());
}

static Datum statement_trigger(FunctionCallInfo fcinfo) {
  const TriggerData* data = (const TriggerData*)fcinfo->context;
  Form_pg_class class = data->tg_relation->rd_rel;
  if (!TRIGGER_FIRED_FOR_ROW(data->tg_event) && ready() && ActiveSnapshotSet() &&
      !(class->relkind == RELKIND_RELATION && class->relhassubclass) &&
      is_covered(data->tg_relation) && passes_table(data->tg_trigger)) {
    return PointerGetDatum(NULL);
  }
  return trigger_by_sql(fcinfo);
}

// The column's value as text; false if it is not a valid scope.
static bool scope_of_row(const Carried* carried, TupleTableSlot* slot, ScopeName* scope) {
  bool absent;
  Datum value;
  char number[32];
  if (slot == NULL) { return false; }
  value = slot_getattr(slot, carried->column, &absent);
  if (absent) { return false; }
  switch (carried->type) {
    case TEXTOID:
    case VARCHAROID: {
      text* name = DatumGetTextPP(value);
      return guard->claim_set_name(scope, VARDATA_ANY(name), (size_t)VARSIZE_ANY_EXHDR(name));
    }
    case INT2OID: snprintf(number, sizeof number, "%d", DatumGetInt16(value)); break;
    case INT4OID: snprintf(number, sizeof number, "%d", DatumGetInt32(value)); break;
    case INT8OID: snprintf(number, sizeof number, INT64_FORMAT, DatumGetInt64(value)); break;
    case UUIDOID: {
      const char* name = DatumGetCString(DirectFunctionCall1(uuid_out, value));
      return guard->claim_set_name(scope, name, strlen(name));
    }
    default: return false;
  }
  return guard->claim_set_name(scope, number, strlen(number));
}

static bool passes_row(const Carried* carried, TupleTableSlot* slot) {
  ScopeName scope;
  return scope_of_row(carried, slot, &scope) &&
         guard->check_for_protect(&scope, GetActiveSnapshot());
}

static Datum row_trigger(FunctionCallInfo fcinfo) {
  const TriggerData* data = (const TriggerData*)fcinfo->context;
  const Carried* carried = fcinfo->flinfo->fn_extra;
  if (ready() && ActiveSnapshotSet() && passes_row(carried, data->tg_trigslot) &&
      (!TRIGGER_FIRED_BY_UPDATE(data->tg_event) || passes_row(carried, data->tg_newslot))) {
    return PointerGetDatum(NULL);
  }
  return trigger_by_sql(fcinfo);
}

// The name of the trigger function that _make_protected_row() makes for a column; `name` has room
// for NAMEDATALEN bytes.
static void row_function(const char* column, char* name) {
  const char* quoted = quote_identifier(column);
  bytea* hash = DatumGetByteaPP(DirectFunctionCall1(sha256_bytea, CStringGetTextDatum(quoted)));
  const unsigned char* bytes = (const unsigned char*)VARDATA_ANY(hash);
  int i;
  strcpy(name, "_protected_row_");
  for (i = 0; i < 16; ++i) { snprintf(name + 15 + 2 * i, 3, "%02x", bytes[i]); }
}

// A row function is made for one column, and its name contains a hash of that column's name
// (_make_protected_row). The trigger names the column, too.
static bool is_function_of(const TriggerFunction* function, const char* column) {
  TriggerFunction* place = &trigger_functions[function->function % lengthof(trigger_functions)];
  char name[NAMEDATALEN];
  if (strcmp(function->column, column) == 0) { return true; }
  if (quote_all_identifiers || strlen(column) >= NAMEDATALEN) { return false; }
  row_function(column, name);
  if (strcmp(name, function->name) != 0) { return false; }
  if (place->function == function->function) { memcpy(place->column, column, strlen(column) + 1); }
  return true;
}

static bool find_column(Relation table, const Trigger* trigger, const TriggerFunction* function,
                        Carried* carried) {
  if (!TRIGGER_FOR_ROW(trigger->tgtype) || !TRIGGER_FOR_AFTER(trigger->tgtype) ||
      !is_function_of(function, trigger->tgargs[1])) {
    return false;
  }
  carried->column = get_attnum(RelationGetRelid(table), trigger->tgargs[1]);
  if (carried->column <= 0) { return false; }
  carried->type = TupleDescAttr(RelationGetDescr(table), carried->column - 1)->atttypid;
  return carried->type == TEXTOID || carried->type == VARCHAROID || carried->type == INT2OID ||
         carried->type == INT4OID || carried->type == INT8OID || carried->type == UUIDOID;
}

static void carry_triggers(const EState* estate, ResultRelInfo* result) {
  const TriggerDesc* triggers = result->ri_TrigDesc;
  int i;
  if (triggers == NULL || result->ri_TrigFunctions == NULL) { return; }
  for (i = 0; i < triggers->numtriggers; ++i) {
    const Trigger* trigger = &triggers->triggers[i];
    FmgrInfo* call = &result->ri_TrigFunctions[i];
    TriggerFunction function;
    Carried* carried;
    if (OidIsValid(call->fn_oid) || trigger->tgisinternal || trigger->tgdeferrable ||
        trigger->tgnargs != 3) {
      continue;
    }
    function = know_trigger_function(trigger->tgfoid);
    if (function.kind == KIND_OTHER ||
        TRIGGER_FOR_ROW(trigger->tgtype) != (function.kind == KIND_ROW) ||
        strcmp(trigger->tgargs[0], "enforce") != 0) {
      continue;
    }
    carried = MemoryContextAllocZero(estate->es_query_cxt, sizeof *carried);
    if (function.kind == KIND_ROW &&
        !find_column(result->ri_RelationDesc, trigger, &function, carried)) {
      continue;
    }
    call->fn_addr = function.kind == KIND_ROW ? row_trigger : statement_trigger;
    call->fn_oid = trigger->tgfoid;
    call->fn_nargs = 0;
    call->fn_stats = TRACK_FUNC_ALL;  // layer 1's function counts itself if it runs
    call->fn_mcxt = estate->es_query_cxt;
    call->fn_extra = carried;
  }
}

// Called when the executor has prepared a statement.
static void carry(QueryDesc* query, int flags) {
  const PlannedStmt* plan = query->plannedstmt;
  bool modifies = plan->commandType != CMD_SELECT || plan->hasModifyingCTE;
  if ((!modifies && plan->invalItems == NIL) || (flags & EXEC_FLAG_EXPLAIN_ONLY) != 0 ||
      IsInParallelMode() || plan->parallelModeNeeded || guard->layer1_is_busy() || !ready()) {
    return;
  }
  if (modifies) {
    ResultRelInfo* result;
    RESULT_RELATIONS_BEGIN(query->estate, result) { carry_triggers(query->estate, result); }
    RESULT_RELATIONS_END
  }
  if (plan->invalItems != NIL && names_ours(plan)) {
    (void)carry_calls_below(query->planstate, NULL);
  }
}

static void executor_start(QueryDesc* query, int flags) {
  if (next_executor_start != NULL) {
    next_executor_start(query, flags);
  } else {
    standard_ExecutorStart(query, flags);
  }
  if (!IsParallelWorker() && !guard->exempt()) { carry(query, flags); }
}

void _PG_init(void) {
  static char* appends_placeholder = NULL;
  GuardInterface* found = *find_rendezvous_variable(GUARD_RENDEZVOUS);
  if (guard != NULL) { return; }
  if (found == NULL) {
    ereport(
        ERROR,
        (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
         errmsg("termgate_shortcuts needs termgate_guard"),
         errhint(
             "Name it first: shared_preload_libraries = 'termgate_guard, termgate_shortcuts'.")));
  }
  if (found->size != sizeof *found || strcmp(found->version, GUARD_VERSION) != 0) {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("termgate_shortcuts and termgate_guard are of two versions"),
                    errhint("Build and install both: ./run extension.")));
  }
  guard = found;
  DefineCustomStringVariable(
      "termgate.guard_appends",
      "The schema whose append() and append_many() this session carries out without SQL.", NULL,
      &appends_placeholder, "", PGC_INTERNAL, GUC_NOT_IN_SAMPLE | GUC_DISALLOW_IN_FILE, NULL, NULL,
      append_schema);
  append_watch();
  CacheRegisterRelcacheCallback(relation_changed, (Datum)0);
  CacheRegisterSyscacheCallback(PROCOID, catalog_changed, (Datum)0);
  CacheRegisterSyscacheCallback(NAMESPACEOID, catalog_changed, (Datum)0);
  next_executor_start = ExecutorStart_hook;
  ExecutorStart_hook = executor_start;
  found->append = append_one;
  found->append_many = append_array;
}
