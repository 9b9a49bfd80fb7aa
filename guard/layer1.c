// Long: its parts only make sense together: where layer 1 is, the last row, and the plans of its
// functions.
//
// It finds layer 1 in this database and calls its functions. The schema is that of the extension's
// entry in pg_extension, which only a superuser can have made; a schema with the right name proves
// nothing. The rules are layer 1's: this file only recognises a fence that is trusted, and calls
// layer 1 for any other.
#include "guard.h"

typedef struct Layer1 {
  bool valid;
  Oid schema_oid;
  char schema[NAMEDATALEN];
  Oid fences;
  Oid primary_key;
  Oid owner;
  // Columns of fences.
  AttrNumber scope, term, generation, vouched, raised;
  // The seeds of the advisory keys.
  int64 queue_seed, turnstile_seed;
  // Functions that check their own arguments: the hashes of their OIDs.
  uint32 passing[8];
  int passing_count;
} Layer1;

// The functions that the guard calls, from sql/postgres/install/0016_guard.sql and
// 0025_require.sql.
static Layer1Call declared = {"_guard_declared", false, 2, {TEXTOID, TEXTOID}, NULL, 0};
static Layer1Call wait_for_raise = {"_guard_wait", false, 1, {TEXTOID}, NULL, 0};
static Layer1Call verdict = {
    "_guard_verdict", false, 6, {TEXTOID, INT8OID, INT8OID, INT8OID, BOOLOID, INT8OID}, NULL, 0};
static Layer1Call by_row = {"_guard_by_row", false, 2, {TEXTOID, INT8OID}, NULL, 0};
static Layer1Call would_refuse = {
    "_guard_would_refuse", false, 5, {TEXTOID, INT8OID, INT8OID, INT8OID, BOOLOID}, NULL, 0};
static Layer1Call required_leases = {"_guard_required", false, 1, {TEXTOID}, NULL, 0};
static Layer1Call prepared = {"check_prepared", false, 0, {InvalidOid}, NULL, 0};
static const Layer1Call* const functions[] = {&declared,     &wait_for_raise,  &verdict, &by_row,
                                              &would_refuse, &required_leases, &prepared};

static Layer1 here;
// Learned from layer 1 by this session: in this database, fences of this generation or a later one
// are trusted.
static bool trust_known = false;
static int64 trusted_since = 0;
static int busy = 0;
// Counts schema changes, because the plans of our calls contain the schema's name.
static uint32 plans_epoch = 0;

bool layer1_is_busy(void) { return busy > 0; }
const char* layer1_schema(void) { return here.schema; }
Oid layer1_owner(void) { return here.owner; }
Oid layer1_schema_oid(void) { return here.schema_oid; }

// Whether layer 1 was looked for and not found. Valid until a function or a schema changes, as it
// does by CREATE EXTENSION and init.
static bool known_missing = false;

static void last_row_is_gone(void);

// Counts invalidations that may have made `here` outdated.
static uint32 news = 0;

static void forget(void) {
  ++news;
  here.valid = false;
  known_missing = false;
  trust_known = false;
  last_row_is_gone();
}

static void relation_changed(Datum argument pg_attribute_unused(), Oid relation) {
  if (relation == InvalidOid || relation == here.fences || relation == here.primary_key) {
    forget();
  }
}

static void catalog_changed(Datum argument pg_attribute_unused(), int cache pg_attribute_unused(),
                            uint32 hash pg_attribute_unused()) {
  ++news;
  here.valid = false;
  known_missing = false;
}

void layer1_watch(void) {
  CacheRegisterRelcacheCallback(relation_changed, (Datum)0);
  CacheRegisterSyscacheCallback(PROCOID, catalog_changed, (Datum)0);
  CacheRegisterSyscacheCallback(NAMESPACEOID, catalog_changed, (Datum)0);
}

// The schema of the extension, or InvalidOid.
static Oid schema_of_extension(void) {
  Oid schema = InvalidOid;
  Relation extensions = table_open(ExtensionRelationId, AccessShareLock);
  ScanKeyData key;
  SysScanDesc scan;
  HeapTuple row;
  ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ,
              CStringGetDatum("termgate_guard"));
  scan = systable_beginscan(extensions, ExtensionNameIndexId, true, NULL, 1, &key);
  row = systable_getnext(scan);
  if (HeapTupleIsValid(row)) { schema = ((Form_pg_extension)GETSTRUCT(row))->extnamespace; }
  systable_endscan(scan);
  table_close(extensions, AccessShareLock);
  return schema;
}

// Why layer 1 cannot be used; empty otherwise.
static char problem[256];
static const char* remedy = "";
static const char other_version[] =
    "Layer 1 is of another version than the guard: run termgate init, or build the extension anew.";

static bool not_usable(const char* next_step, const char* format, ...) pg_attribute_printf(2, 3);
static bool not_usable(const char* next_step, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(problem, sizeof problem, format, arguments);
  va_end(arguments);
  remedy = next_step;
  return false;
}

static void refuse(void) {
  ereport(
      ERROR,
      (errcode(ERRCODE_FENCE_UNTRUSTED),
       errmsg(
           "TG004 this session is guarded, and its writes cannot be checked in database \"%s\": %s",
           get_database_name(MyDatabaseId), problem),
       errhint("%s", remedy)));
}

static bool find_column(AttrNumber* number, Oid fences, const char* name, Oid type) {
  *number = get_attnum(fences, name);
  if (*number == InvalidAttrNumber || get_atttype(fences, *number) != type) {
    return not_usable(other_version, "table fences has no column %s of type %s", name,
                      format_type_be(type));
  }
  return true;
}

static Oid function_of(const char* schema, const char* name, int arguments, const Oid* types) {
  List* names = list_make2(makeString(pstrdup(schema)), makeString(pstrdup(name)));
  return LookupFuncName(names, arguments, types, true);
}

static Oid owner_of_function(Oid function) {
  HeapTuple row = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
  Oid owner = InvalidOid;
  if (HeapTupleIsValid(row)) {
    owner = ((Form_pg_proc)GETSTRUCT(row))->proowner;
    ReleaseSysCache(row);
  }
  return owner;
}

static bool find_functions(const Layer1* found) {
  int i;
  for (i = 0; i < (int)lengthof(functions); ++i) {
    const Layer1Call* call = functions[i];
    Oid function = function_of(found->schema, call->text, call->arguments, call->types);
    if (!OidIsValid(function)) {
      return not_usable(other_version, "schema \"%s\" has no function %s", found->schema,
                        call->text);
    }
    if (owner_of_function(function) != found->owner) {
      return not_usable("All of layer 1 belongs to one role: run termgate init as that role.",
                        "function %s and table fences belong to two roles", call->text);
    }
  }
  return true;
}

static int64 seed(const char* schema, int64 kind) {
  return DatumGetInt64(DirectFunctionCall2Coll(hashtextextended, C_COLLATION_OID,
                                               CStringGetTextDatum(schema), Int64GetDatum(kind)));
}

static void find_passing(Layer1* found) {
  static const char* const names[] = {"check_term",       "check_session", "check_claim",
                                      "check_claim_text", "append",        "append_many",
                                      "claim_write"};
  Oid none = InvalidOid;
  size_t i;
  found->passing_count = 0;
  for (i = 0; i < lengthof(names); ++i) {
    // -1: any number of arguments.
    Oid function = function_of(found->schema, names[i], -1, &none);
    if (OidIsValid(function)) {
      found->passing[found->passing_count++] =
          GetSysCacheHashValue1(PROCOID, ObjectIdGetDatum(function));
    }
  }
}

// Locks the table of fences. It waits only for ACCESS EXCLUSIVE, which somebody has taken by hand
// or an upgrade needs. At COMMIT statement_timeout is off already, so this wait has its own: the
// default of check_wait_ms, because that setting is in a table as well.
static void lock_fences(Oid table, const char* schema) {
  enum { WAIT_MS = 5000 };
  MemoryContext caller = CurrentMemoryContext;
  int own = LockTimeout;
  if (ConditionalLockRelationOid(table, AccessShareLock)) { return; }
  LockTimeout = own > 0 ? Min(own, WAIT_MS) : WAIT_MS;
  PG_TRY();
  { LockRelationOid(table, AccessShareLock); }
  PG_CATCH();
  {
    VirtualTransactionId* holder;
    PGPROC* process;
    LOCKTAG tag;
    LockTimeout = own;
    if (geterrcode() != ERRCODE_LOCK_NOT_AVAILABLE) { PG_RE_THROW(); }
    MemoryContextSwitchTo(caller);
    FlushErrorState();
    SET_LOCKTAG_RELATION(tag, MyDatabaseId, table);
    holder = GetLockConflicts(&tag, AccessShareLock, NULL);
    process = VirtualTransactionIdIsValid(*holder) ? PROCESS_OF(*holder) : NULL;
    ereport(
        ERROR,
        (errcode(ERRCODE_BLOCKED),
         errmsg("TG006 table fences in schema \"%s\" is locked by pid %d, so no check can read it",
                schema, process == NULL ? 0 : process->pid),
         errhint("Somebody has locked the whole table. Its session ends by COMMIT, ROLLBACK or "
                 "pg_terminate_backend.")));
  }
  PG_END_TRY();
  LockTimeout = own;
}

static bool find_table(Layer1* found) {
  Relation fences = NULL;
  bool plain;
  found->fences = get_relname_relid("fences", found->schema_oid);
  if (OidIsValid(found->fences)) {
    lock_fences(found->fences, found->schema);
    fences = try_relation_open(found->fences, AccessShareLock);
    UnlockRelationOid(found->fences, AccessShareLock);
  }
  if (fences == NULL) {
    return not_usable("Run termgate init for this database.", "schema \"%s\" holds no layer 1",
                      found->schema);
  }
  plain = fences->rd_rel->relkind == RELKIND_RELATION &&
          fences->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT;
  found->owner = fences->rd_rel->relowner;
  list_free(RelationGetIndexList(fences));
  found->primary_key = fences->rd_pkindex;
  relation_close(fences, AccessShareLock);
  if (!plain || !OidIsValid(found->primary_key)) {
    return not_usable("Run termgate init for this database.",
                      "fences in schema \"%s\" is not layer 1's table", found->schema);
  }
  // A user who may act as the owner of the fences could change them.
  if (!superuser_arg(found->owner) && is_member_of_role_nosuper(GetSessionUserId(), found->owner)) {
    return not_usable("Let applications connect as another role than the owner of layer 1.",
                      "its fences belong to role \"%s\", as which this session may act",
                      GetUserNameFromId(found->owner, false));
  }
  return find_column(&found->scope, found->fences, "scope", TEXTOID) &&
         find_column(&found->term, found->fences, "term", INT8OID) &&
         find_column(&found->generation, found->fences, "generation", INT8OID) &&
         find_column(&found->vouched, found->fences, "vouched", OIDOID) &&
         find_column(&found->raised, found->fences, "raised_xid", XID8OID);
}

static bool find(Layer1* found) {
  char* schema;
  Oid user;
  int security;
  bool complete;
  found->schema_oid = schema_of_extension();
  schema = OidIsValid(found->schema_oid) ? get_namespace_name(found->schema_oid) : NULL;
  if (schema == NULL) {
    return not_usable("As a superuser: CREATE EXTENSION termgate_guard SCHEMA termgate;",
                      "extension termgate_guard was not created there");
  }
  memcpy(found->schema, schema, Min(strlen(schema) + 1, sizeof found->schema));
  if (!find_table(found)) { return false; }
  // A guarded role may lack the right to use the schema. After an error the server restores the
  // user when it ends the transaction or the savepoint.
  GetUserIdAndSecContext(&user, &security);
  SetUserIdAndSecContext(found->owner, security | SECURITY_LOCAL_USERID_CHANGE);
  complete = find_functions(found);
  if (complete) { find_passing(found); }
  SetUserIdAndSecContext(user, security);
  if (!complete) { return false; }
  found->queue_seed = seed(found->schema, 1);
  found->turnstile_seed = seed(found->schema, 2);
  return true;
}

bool layer1_usable(void) {
  Layer1 found;
  uint32 before = news;
  if (here.valid) { return true; }
  memset(&found, 0, sizeof found);
  if (!find(&found)) { return false; }
  if (found.schema_oid != here.schema_oid || strcmp(found.schema, here.schema) != 0 ||
      found.fences != here.fences) {
    trust_known = false;
    ++plans_epoch;
    claim_forget_keys();
    last_row_is_gone();
  }
  // If anything changes during the search, the next caller searches again.
  found.valid = before == news;
  here = found;
  return true;
}

// Like layer1_usable(), but also remembers that there is none, because sessions that are not
// guarded call it for every statement.
bool layer1_found(void) {
  uint32 before = news;
  if (here.valid) { return true; }
  if (known_missing || layer1_usable()) { return !known_missing; }
  known_missing = before == news;
  return false;
}

// Raises TG004 if this database has no layer 1 that the guard can use.
void layer1_need(void) {
  if (!layer1_usable()) { refuse(); }
}

// Whether this is one of layer 1's own tables, which no application may write to.
bool layer1_owns(Oid relation) {
  HeapTuple row;
  bool owned = false;
  if (!layer1_usable()) { return false; }
  row = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
  if (HeapTupleIsValid(row)) {
    Form_pg_class class = (Form_pg_class)GETSTRUCT(row);
    owned = class->relnamespace == here.schema_oid && class->relowner == here.owner &&
            class->relkind == RELKIND_RELATION;
    ReleaseSysCache(row);
  }
  return owned;
}

bool layer1_passes_by(uint32 function) {
  int i;
  for (i = 0; i < here.passing_count; ++i) {
    if (here.passing[i] == function) { return true; }
  }
  return false;
}

// The row that was read last, as stored in the table. While the scope's lock is held its fence
// cannot be raised. If the same bytes are still there, and nobody has updated or deleted them, they
// are the fence, without an index or a snapshot.
static struct {
  bool valid;
  ScopeName scope;
  ItemPointerData place;
  RelationFile file;
  Buffer buffer;  // where the block was last
  uint32 length;
  char bytes[1200];
  Fence fence;
  bool has_keys;
  ScopeKeys keys;
} last_row;

static void last_row_is_gone(void) { last_row.valid = false; }

static bool is_same_scope(const ScopeName* one, const ScopeName* other) {
  return VARSIZE(&one->text.header) == VARSIZE(&other->text.header) &&
         memcmp(&one->text, &other->text, VARSIZE(&one->text.header)) == 0;
}

// Computes the same as _queue_key() and _turnstile_key(). layer1_verdict() has layer 1 compare the
// queue's key.
void layer1_keys(const ScopeName* scope, ScopeKeys* keys) {
  if (last_row.valid && last_row.has_keys && is_same_scope(scope, &last_row.scope)) {
    *keys = last_row.keys;
    return;
  }
  keys->queue = DatumGetInt64(DirectFunctionCall2Coll(
      hashtextextended, C_COLLATION_OID, SCOPE_DATUM(scope), Int64GetDatum(here.queue_seed)));
  keys->turnstile = DatumGetInt64(DirectFunctionCall2Coll(
      hashtextextended, C_COLLATION_OID, SCOPE_DATUM(scope), Int64GetDatum(here.turnstile_seed)));
  if (last_row.valid && is_same_scope(scope, &last_row.scope)) {
    last_row.keys = *keys;
    last_row.has_keys = true;
  }
}

static Relation open_fences(void) {
  for (;;) {
    Relation fences;
    Oid table;
    layer1_need();
    table = here.fences;
    lock_fences(table, here.schema);
    fences = try_relation_open(table, AccessShareLock);
    UnlockRelationOid(table, AccessShareLock);
    if (fences == NULL) {
      here.valid = false;
      continue;
    }
    // Locking has processed invalidations, so the table may be another one now.
    layer1_need();
    if (here.fences == table) { return fences; }
    relation_close(fences, AccessShareLock);
  }
}

// Not by heap_getattr(), which in newer minor versions calls functions that older ones lack.
static void read_row(HeapTuple row, TupleDesc description, Fence* fence) {
  Datum* values = palloc(sizeof(Datum) * (Size)description->natts);
  bool* absent = palloc(sizeof(bool) * (Size)description->natts);
  int term = here.term - 1;
  int generation = here.generation - 1;
  int vouched = here.vouched - 1;
  int raised = here.raised - 1;
  heap_deform_tuple(row, description, values, absent);
  fence->found = !absent[term] && !absent[generation] && !absent[vouched];
  if (fence->found) {
    fence->term = DatumGetInt64(values[term]);
    fence->generation = DatumGetInt64(values[generation]);
    fence->vouched = DatumGetObjectId(values[vouched]) == here.fences;
    if (!absent[raised]) {
      fence->raised = FullTransactionIdFromU64(DatumGetUInt64(values[raised]));
    }
  }
  pfree(values);
  pfree(absent);
}

static void remember_row(const ScopeName* scope, HeapTuple row, const Fence* fence,
                         Relation fences) {
  last_row.valid = false;
  if (row->t_len <= sizeof last_row.bytes && fence->found) {
    memcpy(&last_row.scope, scope, VARSIZE(&scope->text.header) + 1);
    memcpy(last_row.bytes, row->t_data, row->t_len);
    last_row.length = row->t_len;
    last_row.place = row->t_self;
    last_row.fence = *fence;
    last_row.file = RELATION_FILE(fences);
    last_row.buffer = InvalidBuffer;
    last_row.has_keys = false;
    last_row.valid = true;
  }
}

// Compares who wrote the row, and its data. The flags differ, because hint bits come and go. A lock
// alone is no change: a raise locks the row before it updates it, so the new row carries that lock.
static bool is_unchanged(HeapTupleHeader there) {
  HeapTupleHeader seen = (HeapTupleHeader)last_row.bytes;
  size_t data = offsetof(HeapTupleHeaderData, t_bits);
  return there->t_hoff == seen->t_hoff &&
         HeapTupleHeaderGetRawXmin(there) == HeapTupleHeaderGetRawXmin(seen) &&
         HeapTupleHeaderXminCommitted(there) && !HeapTupleHeaderXminInvalid(there) &&
         ((there->t_infomask & HEAP_XMAX_INVALID) != 0 ||
          HEAP_XMAX_IS_LOCKED_ONLY(there->t_infomask)) &&
         memcmp((char*)there + data, last_row.bytes + data, last_row.length - data) == 0;
}

// Whether the buffer has the row that was read last. It is pinned; this function releases it.
static bool last_row_is_in(Buffer buffer) {
  OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(&last_row.place);
  Page page;
  bool same = false;
  LockBuffer(buffer, BUFFER_LOCK_SHARE);
  page = BufferGetPage(buffer);
  if (offset <= PageGetMaxOffsetNumber(page)) {
    ItemId item = PageGetItemId(page, offset);
    same = ItemIdIsNormal(item) && ItemIdGetLength(item) == last_row.length &&
           is_unchanged((HeapTupleHeader)PageGetItem(page, item));
  }
  UnlockReleaseBuffer(buffer);
  return same;
}

static bool last_row_is_there(Relation fences, const ScopeName* scope) {
  BlockNumber block = ItemPointerGetBlockNumberNoCheck(&last_row.place);
  if (!last_row.valid || !is_same_scope(scope, &last_row.scope) ||
      RelationGetNumberOfBlocks(fences) <= block) {
    return false;
  }
  last_row.buffer = ReadBuffer(fences, block);
  return last_row_is_in(last_row.buffer);
}

// Like last_row_is_there(), but does not open the table: works if its block is still in the same
// place of the server's memory. False proves nothing.
static bool last_row_is_where_it_was(const ScopeName* scope) {
  return here.valid && last_row.valid && BufferIsValid(last_row.buffer) &&
         is_same_scope(scope, &last_row.scope) &&
         READ_RECENT_BUFFER(last_row.file, ItemPointerGetBlockNumberNoCheck(&last_row.place),
                            last_row.buffer) &&
         last_row_is_in(last_row.buffer);
}

// Uses its own snapshot, made after the lock: for a table that is not a catalogue, each scan takes
// a new one. The transaction's snapshot is not fixed by it.
static void scan_for_row(Relation fences, const ScopeName* scope, Fence* fence) {
  ScanKeyData key;
  SysScanDesc scan;
  HeapTuple row;
  memset(fence, 0, sizeof *fence);
  ScanKeyInit(&key, here.scope, BTEqualStrategyNumber, F_TEXTEQ, SCOPE_DATUM(scope));
  scan = systable_beginscan(fences, here.primary_key, true, NULL, 1, &key);
  row = systable_getnext(scan);
  if (HeapTupleIsValid(row)) {
    read_row(row, RelationGetDescr(fences), fence);
    remember_row(scope, row, fence, fences);
  }
  systable_endscan(scan);
}

// Whether the row that was read last has this fence for the scope. It may have changed since.
bool layer1_remembers(const ScopeName* scope, int64 term) {
  return here.valid && last_row.valid && last_row.fence.term == term &&
         is_same_scope(scope, &last_row.scope);
}

void layer1_read_fence(const ScopeName* scope, Fence* fence) {
  Relation fences;
  // Whoever moved or dropped the row's file has sent an invalidation before anybody could change
  // the fence in its new place.
  AcceptInvalidationMessages();
  if (last_row_is_where_it_was(scope)) {
    *fence = last_row.fence;
    return;
  }
  fences = open_fences();
  if (last_row_is_there(fences, scope)) {
    *fence = last_row.fence;
  } else {
    scan_for_row(fences, scope, fence);
  }
  relation_close(fences, AccessShareLock);
}

bool layer1_trusts(const Fence* fence) {
  return fence->found && trust_known && fence->vouched && fence->generation >= trusted_since;
}

static const char* call_text(const Layer1Call* call) {
  StringInfoData text;
  int i;
  if (call->is_statement) { return psprintf(call->text, quote_identifier(here.schema)); }
  initStringInfo(&text);
  appendStringInfo(&text, "SELECT * FROM %s.%s(", quote_identifier(here.schema), call->text);
  for (i = 0; i < call->arguments; ++i) {
    appendStringInfo(&text, "%s$%d", i == 0 ? "" : ", ", i + 1);
  }
  appendStringInfoChar(&text, ')');
  return text.data;
}

// Returns how many rows the call has returned or changed.
static uint64 execute(Layer1Call* call, Datum* values, const char* nulls) {
  int done;
  if (call->plan == NULL) {
    SPIPlanPtr plan = SPI_prepare(call_text(call), call->arguments, call->types);
    if (plan == NULL || SPI_keepplan(plan) != 0) {
      elog(ERROR, "termgate_guard cannot prepare %s: %s", call->text,
           SPI_result_code_string(SPI_result));
    }
    call->plan = plan;
    call->plan_epoch = plans_epoch;
  }
  done =
      SPI_execute_plan(call->plan, values, nulls, IsInParallelMode(), call->is_statement ? 0 : 1);
  if (done < 0 || (!call->is_statement && (done != SPI_OK_SELECT || SPI_processed != 1))) {
    elog(ERROR, "termgate_guard: %s gave no answer", call->text);
  }
  return SPI_processed;
}

// Frees a plan that was made for another schema, unless a call runs, which may be using it.
static void forget_outdated_plan(Layer1Call* call) {
  if (busy > 0 || call->plan == NULL || call->plan_epoch == plans_epoch) { return; }
  SPI_freeplan(call->plan);
  call->plan = NULL;
}

// Runs a function or statement of layer 1 as its owner, so that a guarded role needs no privileges
// on it. Our hooks ignore it. Stores `columns` values of the only row in `answer`, those that are
// not plain in the caller's memory; returns how many rows were returned or changed.
static uint64 call_layer1(Layer1Call* call, Datum* values, const char* nulls, int columns,
                          Datum* answer, bool* absent) {
  MemoryContext caller = CurrentMemoryContext;
  Oid user;
  int security;
  bool own_snapshot = !ActiveSnapshotSet();
  volatile uint64 rows = 0;
  layer1_need();
  forget_outdated_plan(call);
  GetUserIdAndSecContext(&user, &security);
  ++busy;
  PG_TRY();
  {
    SetUserIdAndSecContext(here.owner, security | SECURITY_LOCAL_USERID_CHANGE);
    if (own_snapshot) { PushActiveSnapshot(GetTransactionSnapshot()); }
    if (SPI_connect() != SPI_OK_CONNECT) {
      elog(ERROR, "termgate_guard cannot reach the SQL interface");
    }
    rows = execute(call, values, nulls);
    for (int i = 0; i < columns; ++i) {
      Form_pg_attribute column = TupleDescAttr(SPI_tuptable->tupdesc, i);
      answer[i] = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, i + 1, &absent[i]);
      if (!absent[i] && !column->attbyval) {
        MemoryContext here_before = MemoryContextSwitchTo(caller);
        answer[i] = PointerGetDatum(PG_DETOAST_DATUM_COPY(answer[i]));
        MemoryContextSwitchTo(here_before);
      }
    }
    SPI_finish();
    if (own_snapshot) { PopActiveSnapshot(); }
  }
  PG_FINALLY();
  {
    --busy;
    SetUserIdAndSecContext(user, security);
  }
  PG_END_TRY();
  return rows;
}

// Reads the session's declaration with layer 1; raises TG002 or TG005.
void layer1_declared(ScopeName* scope, int64* term) {
  Datum values[2] = {CStringGetTextDatum(claim_scope_text()),
                     CStringGetTextDatum(claim_term_text())};
  Datum answer[2];
  bool absent[2];
  text* name;
  call_layer1(&declared, values, NULL, 2, answer, absent);
  if (absent[0] || absent[1]) { elog(ERROR, "termgate_guard: layer 1 read no claim"); }
  name = DatumGetTextPP(answer[0]);
  if (!claim_set_name(scope, VARDATA_ANY(name), (size_t)VARSIZE_ANY_EXHDR(name))) {
    elog(ERROR, "termgate_guard: layer 1 read no scope");
  }
  *term = DatumGetInt64(answer[1]);
}

// Raises TG007 if a lease that require_lease() has named is over. `required`: the setting
// termgate.required_leases, in which it has noted them.
void layer1_require_leases(const char* required) {
  Datum values[1] = {CStringGetTextDatum(required)};
  call_layer1(&required_leases, values, NULL, 0, NULL, NULL);
}

// Raises TG004 if a prepared transaction holds an untrusted scope.
void layer1_check_prepared(void) { call_layer1(&prepared, NULL, NULL, 0, NULL, NULL); }

void layer1_wait(const ScopeName* scope) {
  Datum values[1] = {SCOPE_DATUM(scope)};
  call_layer1(&wait_for_raise, values, NULL, 0, NULL, NULL);
}

void layer1_check_by_row(const ScopeName* scope, int64 term) {
  Datum values[2] = {SCOPE_DATUM(scope), Int64GetDatum(term)};
  call_layer1(&by_row, values, NULL, 0, NULL, NULL);
}

// Layer 1 refuses, or reports since when fences are trusted. It also confirms that both compute the
// same queue key.
void layer1_verdict(const ScopeName* scope, int64 term, const Fence* fence, bool too_early) {
  ScopeKeys keys;
  Datum values[6];
  char nulls[7] = "      ";
  Datum answer[1];
  bool absent[1];
  layer1_keys(scope, &keys);
  values[0] = SCOPE_DATUM(scope);
  values[1] = Int64GetDatum(term);
  values[2] = Int64GetDatum(fence->term);
  values[3] = Int64GetDatum(fence->generation);
  values[4] = BoolGetDatum(too_early);
  values[5] = Int64GetDatum(keys.queue);
  if (!fence->found) { nulls[2] = nulls[3] = 'n'; }
  call_layer1(&verdict, values, nulls, 1, answer, absent);
  if (absent[0]) {
    (void)not_usable(other_version, "layer 1 locks scopes by other keys than the guard");
    refuse();
  }
  trusted_since = DatumGetInt64(answer[0]);
  // A standby's session may still exist after a promotion, which makes all fences untrusted.
  trust_known = !RecoveryInProgress();
}

// Learns since when fences are trusted, unless that is known, from a scope whose fence is at
// `term`.
void layer1_learn_trust(const ScopeName* scope, int64 term) {
  Fence fence;
  if (trust_known) { return; }
  layer1_read_fence(scope, &fence);
  if (fence.found && fence.term == term) { layer1_verdict(scope, term, &fence, false); }
}

// The message of the refusal, or NULL. It refuses nothing, takes no lock of the scope and changes
// no fence; the first call after a restart notes the restart in `incarnation`. `scope` NULL: uses
// what is declared.
char* layer1_would_refuse(const ScopeName* scope, int64 term, const Fence* fence, bool too_early) {
  Datum values[5];
  char nulls[6] = "     ";
  Datum answer[1];
  bool absent[1];
  memset(values, 0, sizeof values);
  if (scope == NULL) {
    nulls[0] = nulls[1] = 'n';
  } else {
    values[0] = SCOPE_DATUM(scope);
    values[1] = Int64GetDatum(term);
  }
  if (fence == NULL || !fence->found) {
    nulls[2] = nulls[3] = 'n';
  } else {
    values[2] = Int64GetDatum(fence->term);
    values[3] = Int64GetDatum(fence->generation);
  }
  values[4] = BoolGetDatum(too_early);
  call_layer1(&would_refuse, values, nulls, 1, answer, absent);
  return absent[0] ? NULL : text_to_cstring(DatumGetTextPP(answer[0]));
}

uint64 layer1_execute(Layer1Call* statement, Datum* values) {
  return call_layer1(statement, values, NULL, 0, NULL, NULL);
}
