// Which sessions are guarded: the settings, and what SQL can call. See guard.h for the other parts,
// and docs/use/guard.md for how to use it.
#include "guard.h"

PG_MODULE_MAGIC;

void _PG_init(void);

static const struct config_enum_entry modes[] = {{"off", GUARD_OFF, false},
                                                 {"observe", GUARD_OBSERVE, false},
                                                 {"enforce", GUARD_ENFORCE, false},
                                                 {NULL, 0, false}};

static int mode_setting = GUARD_OFF;
static bool session_setting = false;
static bool foreign_setting = false;
// Whether the session has requested to be guarded, which cannot be undone. This counts even if a
// RESET or a rollback changes the setting.
static bool session_guarded = false;
static bool preloaded = false;

bool guard_is_preloaded(void) { return preloaded; }
bool guard_checks_foreign_reads(void) { return foreign_setting; }

GuardMode guard_mode(void) {
  if (session_guarded || (session_setting && IsParallelWorker())) { return GUARD_ENFORCE; }
  return mode_setting == GUARD_OFF && IsParallelWorker() && sessions_leader_is_guarded()
             ? GUARD_ENFORCE
             : (GuardMode)mode_setting;
}

// A parallel worker starts with its leader's value, which is always allowed.
static bool check_session_setting(bool* value, void** extra pg_attribute_unused(),
                                  GucSource source) {
  if (session_guarded && !*value && !IsParallelWorker()) {
    if (source >= PGC_S_INTERACTIVE) {
      GUC_check_errmsg("a session that has asked to be guarded stays so");
      GUC_check_errhint("Connect anew for one that is not.");
      return false;
    }
    *value = true;
  }
  return true;
}

static void assign_session_setting(bool value, void* extra pg_attribute_unused()) {
  if (value && !session_guarded) {
    session_guarded = true;
    // ROLLBACK TO may release the locks of earlier passes, which were taken unguarded.
    passes_forget();
    check_forget();
    sessions_show_guarded();
  }
}

static const char* show_session_setting(void) { return session_guarded ? "on" : "off"; }

// Layer 1's SQL reads this setting before it calls the guard.
static const char* show_guarded(void) { return guard_mode() == GUARD_OFF ? "off" : "on"; }

static const char* show_checks(void) {
  return IsTransactionState() && !IsInParallelMode() && OidIsValid(MyDatabaseId) && layer1_found()
             ? layer1_schema()
             : "";
}

static bool guarded_placeholder = false;
static char* checks_placeholder = NULL;

static void assign_mode(int value, void* extra pg_attribute_unused()) {
  if (value == GUARD_ENFORCE && mode_setting != GUARD_ENFORCE) { passes_forget(); }
  check_forget();
}

// The position of this library in a list of names or paths, from 0; -1 if it is not in the list.
static int place_in_list(const char* list) {
  List* libraries = NIL;
  ListCell* cell;
  int place = 0;
  if (list == NULL || !SplitDirectoriesString(pstrdup(list), ',', &libraries)) { return -1; }
  foreach (cell, libraries) {
    const char* name = lfirst(cell);
    const char* base = strrchr(name, '/');
    if (strncmp(base == NULL ? name : base + 1, "termgate_guard", 14) == 0) { return place; }
    ++place;
  }
  return -1;
}

static void define_settings(void) {
  // A library of session_preload_libraries is loaded after the start-up packet, whose value for our
  // setting may be refused; then this default applies.
  int boot = !preloaded && place_in_list(session_preload_libraries_string) >= 0 ? GUARD_ENFORCE
                                                                                : GUARD_OFF;
  mode_setting = boot;
  DefineCustomEnumVariable(
      "termgate.guard",
      "Whether this session's writes need a passed check: off, observe or enforce.",
      "Set it for a role or a database: ALTER ROLE app SET termgate.guard = enforce.",
      &mode_setting, boot, modes, PGC_SUSET, GUC_NO_RESET_ALL, NULL, assign_mode, NULL);
  DefineCustomBoolVariable("termgate.guard_session",
                           "Guards this session from now on. Nothing takes it back.", NULL,
                           &session_setting, false, PGC_USERSET, GUC_NO_RESET_ALL,
                           check_session_setting, assign_session_setting, show_session_setting);
  DefineCustomBoolVariable("termgate.guard_foreign",
                           "Whether reading a foreign table needs a passed check too.", NULL,
                           &foreign_setting, false, PGC_SUSET, GUC_NO_RESET_ALL, NULL, NULL, NULL);
  DefineCustomBoolVariable("termgate.guarded", "Whether this session is guarded.", NULL,
                           &guarded_placeholder, false, PGC_INTERNAL,
                           GUC_NOT_IN_SAMPLE | GUC_DISALLOW_IN_FILE, NULL, NULL, show_guarded);
  DefineCustomStringVariable(
      "termgate.guard_checks",
      "The schema of the layer 1 whose functions may ask this session what it has passed.", NULL,
      &checks_placeholder, "", PGC_INTERNAL, GUC_NOT_IN_SAMPLE | GUC_DISALLOW_IN_FILE, NULL, NULL,
      show_checks);
  claim_define_settings();
}

static GuardInterface interface = {
    GUARD_VERSION,
    sizeof(GuardInterface),
    NULL,
    NULL,
    hooks_exempt,
    argument_scope,
    claim_set_name,
    layer1_usable,
    layer1_found,
    layer1_schema,
    layer1_schema_oid,
    layer1_owner,
    layer1_is_busy,
    layer1_execute,
    hooks_layer1_writes,
    check_by_arguments,
    check_for_protect,
    check_any_for_protect,
    passes_count,
    passes_drop,
};

void _PG_init(void) {
  static bool done = false;
  if (done) { return; }
  done = true;
  preloaded = process_shared_preload_libraries_in_progress;
  define_settings();
  sessions_install();
  hooks_install();
  *find_rendezvous_variable(GUARD_RENDEZVOUS) = &interface;
}

PG_FUNCTION_INFO_V1(termgate_guard_session);
// Guards the session and confirms it. The call loads the library or fails, so whoever gets an
// answer is guarded.
Datum termgate_guard_session(PG_FUNCTION_ARGS) {
  TupleDesc description;
  Datum values[4];
  bool nulls[4] = {false, false, false, false};
  if (get_call_result_type(fcinfo, NULL, &description) != TYPEFUNC_COMPOSITE) {
    elog(ERROR, "guard_session() returns a row");
  }
  layer1_need();
  if (!session_guarded) {
    SetConfigOption("termgate.guard_session", "on", PGC_USERSET, PGC_S_SESSION);
  }
  values[0] = CStringGetTextDatum(GUARD_VERSION);
  values[1] = CStringGetTextDatum(layer1_schema());
  values[2] = BoolGetDatum(preloaded);
  values[3] = CStringGetTextDatum(get_database_name(MyDatabaseId));
  PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(description), values, nulls)));
}

// For functions that only layer 1 may call; raises an error for another caller. False if the guard
// cannot use this layer 1: a guarded session's next write then fails and says why.
static bool from_layer1(void) {
  if (!layer1_usable()) { return false; }
  if (GetUserId() != layer1_owner()) {
    ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                    errmsg("only functions of layer 1 may call this")));
  }
  return true;
}

// Reads a scope argument; false if it is not a valid scope.
bool argument_scope(FunctionCallInfo fcinfo, int number, ScopeName* name) {
  text* scope;
  if (PG_ARGISNULL(number)) { return false; }
  scope = PG_GETARG_TEXT_PP(number);
  return claim_set_name(name, VARDATA_ANY(scope), (size_t)VARSIZE_ANY_EXHDR(scope));
}

PG_FUNCTION_INFO_V1(termgate_guard_check);
// For layer 1: returns "passed" if this transaction passes the check of the scope with that term at
// once and without a raise, in mode enforce; else NULL, after which every version of layer 1 runs
// the check in SQL.
Datum termgate_guard_check(PG_FUNCTION_ARGS) {
  ScopeName scope;
  if (from_layer1() && !PG_ARGISNULL(1) && guard_mode() == GUARD_ENFORCE && !RecoveryInProgress() &&
      !IsInParallelMode() && argument_scope(fcinfo, 0, &scope) &&
      check_by_arguments(&scope, PG_GETARG_INT64(1))) {
    PG_RETURN_TEXT_P(cstring_to_text("passed"));
  }
  PG_RETURN_NULL();
}

PG_FUNCTION_INFO_V1(termgate_guard_has_passed);
// For layer 1: whether a write of this transaction has passed the check of the scope; NULL: of any
// scope. If so, the transaction holds the scope's lock.
Datum termgate_guard_has_passed(PG_FUNCTION_ARGS) {
  ScopeName scope;
  if (!from_layer1()) { PG_RETURN_BOOL(false); }
  PG_RETURN_BOOL(PG_ARGISNULL(0) ? passes_has_scope(NULL)
                                 : argument_scope(fcinfo, 0, &scope) && passes_has_scope(&scope));
}

PG_FUNCTION_INFO_V1(termgate_guard_last_pass);
// For layer 1: the scope and term of the latest pass of that scope, or, with NULL, of any; NULLs if
// the guard knows of none. The statement's snapshot has not been compared, and ROLLBACK TO may have
// released the lock unless the session is guarded in mode enforce.
Datum termgate_guard_last_pass(PG_FUNCTION_ARGS) {
  ScopeName scope;
  TupleDesc description;
  Datum values[2];
  bool nulls[2] = {false, false};
  Pass* pass = NULL;
  if (get_call_result_type(fcinfo, NULL, &description) != TYPEFUNC_COMPOSITE) {
    elog(ERROR, "guard_last_pass() returns a row");
  }
  if (from_layer1() && (PG_ARGISNULL(0) || argument_scope(fcinfo, 0, &scope))) {
    pass = passes_of_scope(PG_ARGISNULL(0) ? NULL : &scope);
  }
  nulls[0] = nulls[1] = pass == NULL;
  values[0] = pass == NULL ? (Datum)0 : SCOPE_DATUM(pass->scope);
  values[1] = pass == NULL ? (Datum)0 : Int64GetDatum(pass->term);
  PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(description), values, nulls)));
}

PG_FUNCTION_INFO_V1(termgate_guard_passed);
// For layer 1: reports that this transaction has passed the check of the scope with that term, and
// holds its lock.
Datum termgate_guard_passed(PG_FUNCTION_ARGS) {
  ScopeName scope;
  ScopeKeys keys;
  int64 term;
  if (!from_layer1() || PG_ARGISNULL(1) || !argument_scope(fcinfo, 0, &scope)) { PG_RETURN_VOID(); }
  term = PG_GETARG_INT64(1);
  layer1_keys(&scope, &keys);
  if (passes_find(&keys, &scope, term) == NULL) {
    (void)passes_add(&keys, &scope, term, passes_count() >= LOCKED_SCOPES_MAX);
    sessions_show_pass(&scope, term);
  }
  layer1_learn_trust(&scope, term);
  PG_RETURN_VOID();
}

static Datum carry_append(CarriedAppend append, FunctionCallInfo fcinfo) {
  Datum last;
  if (!from_layer1() || append == NULL || !append(fcinfo, &last)) { PG_RETURN_NULL(); }
  PG_RETURN_DATUM(last);
}

// For layer 1: append() and append_many() by the library of guard/shortcuts/. NULL, without a new
// write, if it is not loaded or layer 1 has to run them in SQL.
PG_FUNCTION_INFO_V1(termgate_guard_append);
Datum termgate_guard_append(PG_FUNCTION_ARGS) { return carry_append(interface.append, fcinfo); }
PG_FUNCTION_INFO_V1(termgate_guard_append_many);
Datum termgate_guard_append_many(PG_FUNCTION_ARGS) {
  return carry_append(interface.append_many, fcinfo);
}

PG_FUNCTION_INFO_V1(termgate_guard_layer1_call);
// For layer 1: from a call with true to a call with false it notifies, or moves a sequence of its
// own (it counts a refusal, for example). Neither needs a check.
Datum termgate_guard_layer1_call(PG_FUNCTION_ARGS) {
  if (from_layer1()) { hooks_layer1_call(!PG_ARGISNULL(0) && PG_GETARG_BOOL(0)); }
  PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(termgate_guard_state);
// Whether the server has loaded the library, and whether shared_preload_libraries names it first.
// The rest of that list is not shown, because not everybody may see it.
Datum termgate_guard_state(PG_FUNCTION_ARGS) {
  TupleDesc description;
  Datum values[2];
  bool nulls[2] = {false, false};
  if (get_call_result_type(fcinfo, NULL, &description) != TYPEFUNC_COMPOSITE) {
    elog(ERROR, "guard_state() returns a row");
  }
  values[0] = BoolGetDatum(preloaded);
  values[1] = BoolGetDatum(preloaded && place_in_list(shared_preload_libraries_string) == 0);
  PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(description), values, nulls)));
}
