// append() and append_many() without SQL: the same locks, the same comparisons and the same rows as 0005_append writes, for the common case
// alone. Whatever is not the common case is left to layer 1: a stream of another scope, a number
// that is not the expected one, a write id that is known already, write ids of a batch, a fence that layer 1 has to look at, a row with a
// higher term, a table that its owner has given triggers, rules, row security, constraints or columns of its own. Also in sessions that are
// not guarded.
#include "guard.h"

typedef struct Column {
  const char* name;
  Oid type;
} Column;

static const Column stream_columns[] = {{"stream_id", TEXTOID}, {"scope", TEXTOID}, {"last_no", INT8OID}, {"created_at", TIMESTAMPTZOID}};
static const Column write_columns[] = {{"stream_id", TEXTOID}, {"sequence_no", INT8OID},       {"scope", TEXTOID},   {"term", INT8OID},
                                       {"payload", BYTEAOID},  {"created_at", TIMESTAMPTZOID}, {"write_id", UUIDOID}};
enum { STREAM_SCOPE = 1, STREAM_LAST = 2, STREAM_COLUMNS = 4 };
enum { WRITE_SCOPE = 2, WRITE_TERM = 3, WRITE_COLUMNS = 7 };

// Where the tables are, and whether they are as layer 1 has made them. Forgotten whenever the server says that one of them has changed.
static struct {
  enum { NOT_KNOWN, USABLE, NOT_USABLE } state;
  Oid streams, streams_key, writes, writes_by_term, followers;
} here;

static void relation_changed(Datum argument pg_attribute_unused(), Oid relation) {
  if (relation == InvalidOid || relation == here.streams || relation == here.streams_key || relation == here.writes ||
      relation == here.writes_by_term || relation == here.followers) {
    here.state = NOT_KNOWN;
  }
}

static void catalog_changed(Datum argument pg_attribute_unused(), int cache pg_attribute_unused(), uint32 hash pg_attribute_unused()) {
  here.state = NOT_KNOWN;
}

void append_watch(void) {
  CacheRegisterRelcacheCallback(relation_changed, (Datum)0);
  CacheRegisterSyscacheCallback(PROCOID, catalog_changed, (Datum)0);
  CacheRegisterSyscacheCallback(NAMESPACEOID, catalog_changed, (Datum)0);
}

static bool has_columns(Relation table, const Column* columns, int count) {
  TupleDesc description = RelationGetDescr(table);
  int i;
  if (description->natts != count || (description->constr != NULL && description->constr->num_check > 0)) { return false; }
  for (i = 0; i < count; ++i) {
    Form_pg_attribute column = TupleDescAttr(description, i);
    if (column->attisdropped || column->attgenerated != '\0' || column->attidentity != '\0' || column->atttypid != columns[i].type ||
        strcmp(NameStr(column->attname), columns[i].name) != 0) {
      return false;
    }
  }
  return true;
}

// Ordinary B-trees over columns: an entry of theirs can be made without an executor.
static bool has_plain_indexes(Relation table) {
  List* indexes = RelationGetIndexList(table);
  ListCell* cell;
  bool plain = true;
  foreach (cell, indexes) {
    Relation index = index_open(lfirst_oid(cell), AccessShareLock);
    plain = plain && index->rd_rel->relam == BTREE_AM_OID && !index->rd_index->indisexclusion && index->rd_index->indimmediate &&
            RelationGetIndexExpressions(index) == NIL && RelationGetIndexPredicate(index) == NIL;
    index_close(index, AccessShareLock);
  }
  list_free(indexes);
  return plain;
}

static bool is_as_made(Oid table, const Column* columns, int count) {
  Relation relation = OidIsValid(table) ? try_relation_open(table, AccessShareLock) : NULL;
  Form_pg_class class;
  bool as_made;
  if (relation == NULL) { return false; }
  class = relation->rd_rel;
  as_made = class->relkind == RELKIND_RELATION && class->relpersistence == RELPERSISTENCE_PERMANENT && class->relam == HEAP_TABLE_AM_OID &&
            class->relowner == layer1_owner() && !class->relhastriggers && !class->relhasrules && !class->relrowsecurity &&
            !class->relhassubclass && !class->relispartition && class->relreplident == REPLICA_IDENTITY_DEFAULT &&
            has_columns(relation, columns, count) && has_plain_indexes(relation);
  relation_close(relation, AccessShareLock);
  return as_made;
}

static bool find(void) {
  Relation streams;
  here.streams = layer1_relation("streams");
  here.writes = layer1_relation("stream_writes");
  here.writes_by_term = layer1_relation("stream_writes_scope_term");
  here.followers = layer1_relation("followers");
  here.streams_key = InvalidOid;
  if (!OidIsValid(layer1_function("guard_append")) || !OidIsValid(here.writes_by_term) ||
      IndexGetRelation(here.writes_by_term, true) != here.writes || !is_as_made(here.streams, stream_columns, STREAM_COLUMNS) ||
      !is_as_made(here.writes, write_columns, WRITE_COLUMNS)) {
    return false;
  }
  streams = relation_open(here.streams, AccessShareLock);
  list_free(RelationGetIndexList(streams));
  here.streams_key = streams->rd_pkindex;
  relation_close(streams, AccessShareLock);
  return OidIsValid(here.streams_key);
}

// The schema of the layer 1 whose appends can be carried out here, or "".
const char* append_schema(void) {
  // Without a database there are no catalogues to look at: physical replication.
  if (!IsTransactionState() || IsInParallelMode() || !OidIsValid(MyDatabaseId)) { return ""; }
  if (!layer1_usable()) { return ""; }
  if (here.state == NOT_KNOWN) {
    bool usable = find();
    // What looking has brought to light is news of before: it cannot change any more what was found, under a lock, a moment ago.
    here.state = usable ? USABLE : NOT_USABLE;
  }
  return here.state == USABLE ? layer1_schema() : "";
}

// The stream's row as it is now, in this memory; NULL where there is none.
static HeapTuple read_stream(Relation streams, Datum stream) {
  ScanKeyData key;
  SysScanDesc scan;
  HeapTuple row;
  ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_TEXTEQ, stream);
  scan = systable_beginscan(streams, here.streams_key, true, NULL, 1, &key);
  row = systable_getnext(scan);
  row = HeapTupleIsValid(row) ? heap_copytuple(row) : NULL;
  systable_endscan(scan);
  return row;
}

static bool is_scope(Datum value, const ScopeName* scope) {
  text* name = DatumGetTextPP(value);
  return VARSIZE_ANY_EXHDR(name) == VARSIZE(&scope->text.header) - VARHDRSZ &&
         memcmp(VARDATA_ANY(name), SCOPE_STRING(scope), VARSIZE_ANY_EXHDR(name)) == 0;
}

// Whether rows show a higher term, where the fence may have been lowered or lost. One index probe.
static bool shows_higher_term(Relation writes, const ScopeName* scope, int64 term) {
  ScanKeyData keys[2];
  SysScanDesc scan;
  bool higher;
  ScanKeyInit(&keys[0], WRITE_SCOPE + 1, BTEqualStrategyNumber, F_TEXTEQ, SCOPE_DATUM(scope));
  ScanKeyInit(&keys[1], WRITE_TERM + 1, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(term));
  scan = systable_beginscan(writes, here.writes_by_term, true, NULL, 2, keys);
  higher = HeapTupleIsValid(systable_getnext(scan));
  systable_endscan(scan);
  return higher;
}

static void index_row(Relation table, HeapTuple row) {
  TupleTableSlot* slot = MakeSingleTupleTableSlot(RelationGetDescr(table), &TTSOpsHeapTuple);
  List* indexes = RelationGetIndexList(table);
  ListCell* cell;
  ExecStoreHeapTuple(row, slot, false);
  foreach (cell, indexes) {
    Relation index = index_open(lfirst_oid(cell), RowExclusiveLock);
    IndexInfo* how = BuildIndexInfo(index);
    Datum values[INDEX_MAX_KEYS];
    bool absent[INDEX_MAX_KEYS];
    if (how->ii_ReadyForInserts) {
      FormIndexDatum(how, slot, NULL, values, absent);
      (void)INDEX_INSERT(index, values, absent, &row->t_self, table, index->rd_index->indisunique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO,
                         how);
    }
    index_close(index, NoLock);
  }
  list_free(indexes);
  ExecDropSingleTupleTableSlot(slot);
}

// A stream in a scope that is named.
static bool may_be_new(const AppendOf* what) {
  const text* name = DatumGetTextPP(what->stream);
  int length = pg_mbstrlen_with_len(VARDATA_ANY(name), (int)VARSIZE_ANY_EXHDR(name));
  return what->has_scope && length >= 1 && length <= 200 && (!what->has_expected || what->expected == 0);
}

// Takes the next `count` numbers of the stream, and so its row to the end of the transaction; waits for whoever has it. False, and nothing
// is written, where layer 1 has to look.
static bool advance(Relation streams, const AppendOf* what, int64* last) {
  for (;;) {
    Datum values[STREAM_COLUMNS];
    bool absent[STREAM_COLUMNS];
    HeapTuple row = read_stream(streams, what->stream);
    HeapTuple next;
    TM_Result result;
    if (row == NULL) {
      if (!may_be_new(what)) { return false; }
      *last = 0;
      if (layer1_new_stream(what->stream, what->scope, what->count)) { return true; }
      continue;
    }
    heap_deform_tuple(row, RelationGetDescr(streams), values, absent);
    *last = DatumGetInt64(values[STREAM_LAST]);
    if (!is_scope(values[STREAM_SCOPE], what->scope) || (what->has_expected && *last != what->expected)) { return false; }
    values[STREAM_LAST] = Int64GetDatum(*last + what->count);
    next = heap_form_tuple(RelationGetDescr(streams), values, absent);
    result = heap_update_row(streams, &row->t_self, next);
    if (result == TM_Ok) {
      if (!HeapTupleIsHeapOnly(next)) { index_row(streams, next); }
      heap_freetuple(row);
      heap_freetuple(next);
      return true;
    }
    // TM_Updated: whoever was first has committed, and the row is another one now.
    if (result != TM_Updated) { return false; }
    heap_freetuple(row);
    heap_freetuple(next);
    CHECK_FOR_INTERRUPTS();
  }
}

static void write_rows(Relation writes, const AppendOf* what, int64 last) {
  CatalogIndexState indexes = CatalogOpenIndexes(writes);
  Datum values[WRITE_COLUMNS];
  bool absent[WRITE_COLUMNS] = {false, false, false, false, false, false, !what->has_write_id};
  int64 i;
  values[0] = what->stream;
  values[WRITE_SCOPE] = SCOPE_DATUM(what->scope);
  values[WRITE_TERM] = Int64GetDatum(what->term);
  values[6] = what->has_write_id ? what->write_id : (Datum)0;
  for (i = 0; i < what->count; ++i) {
    HeapTuple row;
    values[1] = Int64GetDatum(last + i + 1);
    values[4] = what->payloads[i];
    values[5] = TimestampTzGetDatum(GetCurrentTimestamp());
    row = heap_form_tuple(RelationGetDescr(writes), values, absent);
    CatalogTupleInsertWithInfo(writes, row, indexes);
    heap_freetuple(row);
  }
  CatalogCloseIndexes(indexes);
}

// The stream's own scope; false where there is no such stream.
static bool learn_scope(Relation streams, Datum stream, ScopeName* scope) {
  Datum values[STREAM_COLUMNS];
  bool absent[STREAM_COLUMNS];
  HeapTuple row = read_stream(streams, stream);
  text* name;
  if (row == NULL) { return false; }
  heap_deform_tuple(row, RelationGetDescr(streams), values, absent);
  name = DatumGetTextPP(values[STREAM_SCOPE]);
  return claim_set_name(scope, VARDATA_ANY(name), (size_t)VARSIZE_ANY_EXHDR(name));
}

static bool append_to(Relation streams, Relation writes, AppendOf* what, int64* last) {
  if (!what->has_scope && !learn_scope(streams, what->stream, what->scope)) { return false; }
  if (!check_by_arguments(what->scope, what->term) || shows_higher_term(writes, what->scope, what->term) || !advance(streams, what, last)) {
    return false;
  }
  // The stream's row is ours by now: an earlier attempt on it has ended, and one on another stream is met by the primary key.
  if (what->has_write_id && !layer1_new_write_id(what->write_id, what->stream, *last + 1, what->scope, what->term)) {
    layer1_give_back(what->stream, what->count);
    return false;
  }
  write_rows(writes, what, *last);
  // What comes next in this transaction sees it.
  CommandCounterIncrement();
  return true;
}

// The last number, or false: layer 1 has to look. Its lock on the scope may be held by then, and the stream stands where it stood.
bool append_rows(AppendOf* what, int64* last) {
  Relation streams, writes;
  bool done = false;
  if (XactReadOnly || XactIsoLevel > XACT_READ_COMMITTED || RecoveryInProgress() || append_schema()[0] == '\0') { return false; }
  streams = table_open(here.streams, RowExclusiveLock);
  writes = table_open(here.writes, RowExclusiveLock);
  // The locks have brought the news of what others have changed.
  if (here.state == USABLE) { done = append_to(streams, writes, what, last); }
  table_close(writes, NoLock);
  table_close(streams, NoLock);
  if (done) { *last += what->count; }
  return done;
}

// Of both functions below, with the arguments of append(); false where layer 1 has to look. The size of a large payload is layer 1's to
// judge, and so are the write ids of a batch.
static bool append_payloads(FunctionCallInfo fcinfo, const Datum* payloads, int count, bool one, Datum* answer) {
  ScopeName scope;
  AppendOf what;
  int64 last;
  Size bytes = 0;
  int i;
  if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || (!PG_ARGISNULL(5) && !one)) { return false; }
  what.has_write_id = !PG_ARGISNULL(5);
  what.write_id = what.has_write_id ? PG_GETARG_DATUM(5) : (Datum)0;
  for (i = 0; i < count; ++i) { bytes += toast_raw_datum_size(payloads[i]) - VARHDRSZ; }
  if (bytes > 1048576) { return false; }
  what.stream = PointerGetDatum(PG_GETARG_TEXT_PP(0));
  what.term = PG_GETARG_INT64(1);
  what.payloads = payloads;
  what.count = count;
  what.has_expected = !PG_ARGISNULL(3);
  what.expected = what.has_expected ? PG_GETARG_INT64(3) : 0;
  what.has_scope = !PG_ARGISNULL(4);
  what.scope = &scope;
  if ((what.has_scope && !argument_scope(fcinfo, 4, &scope)) || !append_rows(&what, &last)) { return false; }
  *answer = Int64GetDatum(last);
  return true;
}

bool append_one(FunctionCallInfo fcinfo, Datum* last) {
  Datum payload;
  if (PG_ARGISNULL(2)) { return false; }
  payload = PG_GETARG_DATUM(2);
  return append_payloads(fcinfo, &payload, 1, true, last);
}

bool append_array(FunctionCallInfo fcinfo, Datum* last) {
  ArrayType* array;
  Datum* payloads;
  bool* absent;
  int count, i;
  if (PG_ARGISNULL(2)) { return false; }
  array = PG_GETARG_ARRAYTYPE_P(2);
  if (ARR_NDIM(array) != 1 || VARSIZE(array) > 1048576) { return false; }
  deconstruct_array(array, BYTEAOID, -1, false, 'i', &payloads, &absent, &count);
  for (i = 0; i < count; ++i) {
    if (absent[i]) { return false; }
  }
  return append_payloads(fcinfo, payloads, count, false, last);
}

// Whether nobody follows anything: then there is nobody to wake.
bool append_has_no_follower(void) {
  Relation followers;
  bool none;
  if (append_schema()[0] == '\0') { return false; }
  followers = OidIsValid(here.followers) ? try_relation_open(here.followers, AccessShareLock) : NULL;
  if (followers == NULL) { return false; }
  none = RelationGetNumberOfBlocks(followers) == 0;
  relation_close(followers, AccessShareLock);
  return none;
}
