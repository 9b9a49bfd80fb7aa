// append() and append_many() without SQL, for the common case only: the same locks, the same
// comparisons and the same rows as in sql/postgres/install/0005_append.sql. It leaves everything
// else to layer 1, such as a stream of another scope, an unexpected number, a known write id, write
// ids of a batch, more than 1 MiB, a term that is not exactly at a trusted fence, a row with a
// higher term, and a table to which its owner has added triggers, rules, row security, constraints
// or columns. It also runs in sessions that are not guarded.
#include "shortcuts.h"

typedef struct AppendOf {
  Datum stream;  // of type text
  bool has_scope;
  ScopeName* scope;  // without has_scope: a buffer, into which append_to() reads the stream's scope
  int64 term;
  bool has_expected;
  int64 expected;
  bool has_write_id;
  Datum write_id;
  const Datum* payloads;
  int64 count;
} AppendOf;

static Layer1Call new_stream = {
    "INSERT INTO %s.streams (stream_id, scope, last_no) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    true,
    3,
    {TEXTOID, TEXTOID, INT8OID},
    NULL,
    0};
static Layer1Call new_write_id = {
    "INSERT INTO %s.write_ids (write_id, stream_id, sequence_no, scope, term) VALUES ($1, $2, $3, "
    "$4, $5) ON CONFLICT DO NOTHING",
    true,
    5,
    {UUIDOID, TEXTOID, INT8OID, TEXTOID, INT8OID},
    NULL,
    0};
static Layer1Call give_back = {
    "UPDATE %s.streams SET last_no = last_no OPERATOR(pg_catalog.-) $2 WHERE stream_id "
    "OPERATOR(pg_catalog.=) $1",
    true,
    2,
    {TEXTOID, INT8OID},
    NULL,
    0};

typedef struct Column {
  const char* name;
  Oid type;
} Column;

static const Column stream_columns[] = {{"stream_id", TEXTOID},
                                        {"scope", TEXTOID},
                                        {"last_no", INT8OID},
                                        {"created_at", TIMESTAMPTZOID}};
static const Column write_columns[] = {
    {"stream_id", TEXTOID}, {"sequence_no", INT8OID},       {"scope", TEXTOID},   {"term", INT8OID},
    {"payload", BYTEAOID},  {"created_at", TIMESTAMPTZOID}, {"write_id", UUIDOID}};
enum { STREAM_SCOPE = 1, STREAM_LAST = 2, STREAM_COLUMNS = 4 };
enum { WRITE_SCOPE = 2, WRITE_TERM = 3, WRITE_COLUMNS = 7 };

// The indexes of a table.
typedef struct Indexes {
  int count;
  Oid index[8];
  IndexInfo* how[8];
} Indexes;

// The tables, and whether they are as layer 1 has made them. Forgotten whenever the server reports
// that one of them has changed.
static struct {
  enum { NOT_KNOWN, USABLE, NOT_USABLE } state;
  Oid streams, streams_key, writes, writes_by_term, followers;
  Indexes stream_indexes, write_indexes;
  MemoryContext memory;  // for the description of the indexes
} here;

// The row of the stream that this session has last appended to, as it wrote it. If that version is
// still there and committed, and nobody has locked or replaced it, it is the stream's row, without
// an index or a snapshot.
static struct {
  bool valid;
  RelationFile file;
  Buffer buffer;
  ItemPointerData place;
  TransactionId writer;
  ScopeName scope;
  uint32 stream_length, length;
  char stream[SCOPE_BYTES_MAX];
  char bytes[2 * SCOPE_BYTES_MAX + 200];
} last_stream;

static void relation_changed(Datum argument pg_attribute_unused(), Oid relation) {
  if (relation == InvalidOid || relation == here.streams || relation == here.streams_key ||
      relation == here.writes || relation == here.writes_by_term || relation == here.followers) {
    here.state = NOT_KNOWN;
  }
}

static void catalog_changed(Datum argument pg_attribute_unused(), int cache pg_attribute_unused(),
                            uint32 hash pg_attribute_unused()) {
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
  if (description->natts != count ||
      (description->constr != NULL && description->constr->num_check > 0)) {
    return false;
  }
  for (i = 0; i < count; ++i) {
    Form_pg_attribute column = TupleDescAttr(description, i);
    if (column->attisdropped || column->attgenerated != '\0' || column->attidentity != '\0' ||
        column->atttypid != columns[i].type ||
        column->attcollation != (columns[i].type == TEXTOID ? C_COLLATION_OID : InvalidOid) ||
        strcmp(NameStr(column->attname), columns[i].name) != 0) {
      return false;
    }
  }
  return true;
}

// Whether all indexes are plain B-trees over columns, to which an entry can be added without an
// executor.
static bool has_plain_indexes(Relation table, Indexes* known) {
  List* indexes = RelationGetIndexList(table);
  ListCell* cell;
  bool plain = list_length(indexes) <= (int)lengthof(known->index);
  known->count = 0;
  foreach (cell, indexes) {
    Relation index;
    if (!plain) { break; }
    index = index_open(lfirst_oid(cell), AccessShareLock);
    plain = index->rd_rel->relam == BTREE_AM_OID && !index->rd_index->indisexclusion &&
            index->rd_index->indimmediate && RelationGetIndexExpressions(index) == NIL &&
            RelationGetIndexPredicate(index) == NIL;
    if (plain) {
      MemoryContext before = MemoryContextSwitchTo(here.memory);
      known->index[known->count] = RelationGetRelid(index);
      known->how[known->count++] = BuildIndexInfo(index);
      MemoryContextSwitchTo(before);
    }
    index_close(index, AccessShareLock);
  }
  list_free(indexes);
  return plain;
}

// Whether the owner of layer 1 has the privileges that the same statement would need in SQL: SELECT
// and `mode`. An owner has all of them unless they were revoked.
static bool may_be_written(Oid table, AclMode mode) {
  return pg_class_aclcheck(table, guard->layer1_owner(), ACL_SELECT) == ACLCHECK_OK &&
         pg_class_aclcheck(table, guard->layer1_owner(), mode) == ACLCHECK_OK;
}

static bool is_as_made(Oid table, const Column* columns, int count, Indexes* indexes) {
  Relation relation = OidIsValid(table) ? try_relation_open(table, AccessShareLock) : NULL;
  Form_pg_class class;
  bool as_made;
  if (relation == NULL) { return false; }
  class = relation->rd_rel;
  as_made = class->relkind == RELKIND_RELATION &&
            class->relpersistence == RELPERSISTENCE_PERMANENT &&
            class->relam == HEAP_TABLE_AM_OID && class->relowner == guard->layer1_owner() &&
            !class->relhastriggers && !class->relhasrules && !class->relrowsecurity &&
            !class->relhassubclass && !class->relispartition &&
            class->relreplident == REPLICA_IDENTITY_DEFAULT &&
            has_columns(relation, columns, count) && has_plain_indexes(relation, indexes);
  relation_close(relation, AccessShareLock);
  return as_made;
}

static bool find(void) {
  static const Oid arguments[] = {TEXTOID, INT8OID, BYTEAOID, INT8OID, TEXTOID, UUIDOID};
  Relation streams;
  Oid owner;
  if (here.memory == NULL) {
    here.memory = AllocSetContextCreate(TopMemoryContext, "termgate indexes", ALLOCSET_SMALL_SIZES);
  }
  MemoryContextReset(here.memory);
  here.streams = layer1_relation("streams");
  here.writes = layer1_relation("stream_writes");
  here.writes_by_term = layer1_relation("stream_writes_scope_term");
  here.followers = layer1_relation("followers");
  here.streams_key = InvalidOid;
  if (!OidIsValid(layer1_function("guard_append", lengthof(arguments), arguments, &owner)) ||
      !OidIsValid(here.writes_by_term) ||
      IndexGetRelation(here.writes_by_term, true) != here.writes ||
      !is_as_made(here.streams, stream_columns, STREAM_COLUMNS, &here.stream_indexes) ||
      !is_as_made(here.writes, write_columns, WRITE_COLUMNS, &here.write_indexes) ||
      !may_be_written(here.streams, ACL_UPDATE) || !may_be_written(here.writes, ACL_INSERT)) {
    return false;
  }
  streams = relation_open(here.streams, AccessShareLock);
  list_free(RelationGetIndexList(streams));
  here.streams_key = streams->rd_pkindex;
  relation_close(streams, AccessShareLock);
  return OidIsValid(here.streams_key);
}

// The schema of the layer 1 whose appends can run here, or "".
const char* append_schema(void) {
  int tries;
  // A session without a database (physical replication) has no catalogues.
  if (!IsTransactionState() || IsInParallelMode() || !OidIsValid(MyDatabaseId)) { return ""; }
  if (!guard->layer1_usable()) { return ""; }
  // An append that uses `here` may be calling layer 1 right now; then it must not be filled anew.
  if (here.state == NOT_KNOWN && guard->layer1_is_busy()) { return ""; }
  // If something changes during the search, it searches again. A server that is built to test its
  // caches always reports changes; then SQL runs.
  for (tries = 0; here.state == NOT_KNOWN && tries < 3; ++tries) {
    here.state = NOT_USABLE;
    if (find() && here.state == NOT_USABLE) { here.state = USABLE; }
  }
  return here.state == USABLE ? guard->layer1_schema() : "";
}

static bool is_last_stream(Datum stream) {
  const text* name = DatumGetTextPP(stream);
  return last_stream.valid && VARSIZE_ANY_EXHDR(name) == last_stream.stream_length &&
         memcmp(VARDATA_ANY(name), last_stream.stream, last_stream.stream_length) == 0;
}

// `row`: what the table contains now.
static void remember_stream(Relation streams, const AppendOf* what, HeapTuple row, Buffer buffer) {
  const text* name = DatumGetTextPP(what->stream);
  size_t size = VARSIZE_ANY_EXHDR(name);
  BlockNumber block = ItemPointerGetBlockNumber(&row->t_self);
  if (!BufferIsValid(buffer) || block != ItemPointerGetBlockNumberNoCheck(&last_stream.place)) {
    buffer = ReadBuffer(streams, block);
    ReleaseBuffer(buffer);
  }
  last_stream.valid = false;
  if (size > sizeof last_stream.stream || row->t_len > sizeof last_stream.bytes) { return; }
  memcpy(last_stream.stream, VARDATA_ANY(name), size);
  memcpy(last_stream.bytes, row->t_data, row->t_len);
  memcpy(&last_stream.scope, what->scope, VARSIZE(&what->scope->text.header) + 1);
  last_stream.stream_length = (uint32)size;
  last_stream.length = row->t_len;
  last_stream.file = RELATION_FILE(streams);
  last_stream.buffer = buffer;
  last_stream.place = row->t_self;
  last_stream.writer = HeapTupleHeaderGetRawXmin(row->t_data);
  last_stream.valid = true;
}

// Whether the locked page still has that version, and its writer is known to have committed.
static bool has_last_stream(Page page) {
  OffsetNumber offset = ItemPointerGetOffsetNumber(&last_stream.place);
  size_t data = offsetof(HeapTupleHeaderData, t_bits);
  HeapTupleHeader there;
  ItemId item;
  if (offset > PageGetMaxOffsetNumber(page)) { return false; }
  item = PageGetItemId(page, offset);
  if (!ItemIdIsNormal(item) || ItemIdGetLength(item) != last_stream.length) { return false; }
  there = (HeapTupleHeader)PageGetItem(page, item);
  return HeapTupleHeaderGetRawXmin(there) == last_stream.writer &&
         (there->t_infomask & HEAP_XMAX_INVALID) != 0 &&
         memcmp((char*)there + data, last_stream.bytes + data, last_stream.length - data) == 0 &&
         // Without the hint the row is not frozen, so the server still knows the outcome of its
         // writer.
         (HeapTupleHeaderXminCommitted(there) ||
          (!TransactionIdIsCurrentTransactionId(last_stream.writer) &&
           !HeapTupleHeaderXminInvalid(there) && TransactionIdDidCommit(last_stream.writer)));
}

// Finds the stream's row in its last place, and pins its buffer, so that the row cannot be removed.
// NULL does not prove that there is no such stream.
static HeapTuple stream_where_it_was(Relation streams, Datum stream, Buffer* buffer) {
  HeapTuple row = NULL;
  if (!is_last_stream(stream) ||
      memcmp(&last_stream.file, &RELATION_FILE(streams), sizeof last_stream.file) != 0 ||
      !READ_RECENT_BUFFER(last_stream.file, ItemPointerGetBlockNumberNoCheck(&last_stream.place),
                          last_stream.buffer)) {
    return NULL;
  }
  *buffer = last_stream.buffer;
  // Makes room for the next version, as a normal search would.
  heap_page_prune_opt(streams, *buffer);
  LockBuffer(*buffer, BUFFER_LOCK_SHARE);
  if (has_last_stream(BufferGetPage(*buffer))) {
    row = palloc(HEAPTUPLESIZE + last_stream.length);
    row->t_len = last_stream.length;
    row->t_self = last_stream.place;
    row->t_tableOid = here.streams;
    row->t_data = (HeapTupleHeader)((char*)row + HEAPTUPLESIZE);
    memcpy(row->t_data, last_stream.bytes, last_stream.length);
  }
  LockBuffer(*buffer, BUFFER_LOCK_UNLOCK);
  if (row == NULL) {
    ReleaseBuffer(*buffer);
    *buffer = InvalidBuffer;
  }
  return row;
}

// A copy of the stream's current row; NULL if there is none.
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

// Whether the scope's stream writes show a higher term, because the fence may have been lowered or
// lost. One index probe.
static bool shows_higher_term(Relation writes, const ScopeName* scope, int64 term) {
  ScanKeyData keys[2];
  SysScanDesc scan;
  bool higher;
  ScanKeyInit(&keys[0], WRITE_SCOPE + 1, BTEqualStrategyNumber, F_TEXTEQ, SCOPE_DATUM(scope));
  ScanKeyInit(&keys[1], WRITE_TERM + 1, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(term));
  // SnapshotSelf: rows that are committed now or are this transaction's own. It costs no snapshot.
  scan = systable_beginscan(writes, here.writes_by_term, true, SnapshotSelf, 2, keys);
  higher = HeapTupleIsValid(systable_getnext(scan));
  systable_endscan(scan);
  return higher;
}

static void index_row(Relation table, const Indexes* indexes, HeapTuple row, const Datum* values,
                      const bool* absent) {
  int i, k;
  for (i = 0; i < indexes->count; ++i) {
    IndexInfo* how = indexes->how[i];
    Relation index = index_open(indexes->index[i], RowExclusiveLock);
    Datum entry[INDEX_MAX_KEYS];
    bool entry_absent[INDEX_MAX_KEYS];
    for (k = 0; k < how->ii_NumIndexAttrs; ++k) {
      entry[k] = values[how->ii_IndexAttrNumbers[k] - 1];
      entry_absent[k] = absent[how->ii_IndexAttrNumbers[k] - 1];
    }
    if (how->ii_ReadyForInserts) {
      (void)INDEX_INSERT(index, entry, entry_absent, &row->t_self, table,
                         index->rd_index->indisunique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO, how);
    }
    index_close(index, NoLock);
  }
}

// Whether the stream may be created: the caller must have named its scope.
static bool may_be_new(const AppendOf* what) {
  const text* name = DatumGetTextPP(what->stream);
  int length = pg_mbstrlen_with_len(VARDATA_ANY(name), (int)VARSIZE_ANY_EXHDR(name));
  return what->has_scope && length >= 1 && length <= 200 &&
         (!what->has_expected || what->expected == 0);
}

static bool make_stream(const AppendOf* what) {
  Datum values[3] = {what->stream, SCOPE_DATUM(what->scope), Int64GetDatum(what->count)};
  return guard->layer1_execute(&new_stream, values) == 1;
}

// False if the id is known already.
static bool note_write_id(const AppendOf* what, int64 number) {
  Datum values[5] = {what->write_id, what->stream, Int64GetDatum(number), SCOPE_DATUM(what->scope),
                     Int64GetDatum(what->term)};
  return guard->layer1_execute(&new_write_id, values) == 1;
}

// Gives back the numbers that this transaction has taken.
static void give_numbers_back(const AppendOf* what) {
  Datum values[2] = {what->stream, Int64GetDatum(what->count)};
  (void)guard->layer1_execute(&give_back, values);
}

// Takes the next `count` numbers of the stream, and so locks its row until the end of the
// transaction; waits for another session that holds it. False, with nothing written, if layer 1 has
// to run the append in SQL.
static bool advance(Relation streams, const AppendOf* what, int64* last) {
  for (;;) {
    Datum values[STREAM_COLUMNS];
    bool absent[STREAM_COLUMNS];
    Buffer pinned = InvalidBuffer;
    HeapTuple row = stream_where_it_was(streams, what->stream, &pinned);
    HeapTuple next = NULL;
    TM_Result result = TM_Invisible;
    if (row == NULL) { row = read_stream(streams, what->stream); }
    if (row == NULL) {
      if (!may_be_new(what)) { return false; }
      *last = 0;
      // Another session may have created it meanwhile.
      if (make_stream(what)) { return true; }
      continue;
    }
    heap_deform_tuple(row, RelationGetDescr(streams), values, absent);
    *last = DatumGetInt64(values[STREAM_LAST]);
    if (is_scope(values[STREAM_SCOPE], what->scope) &&
        (!what->has_expected || *last == what->expected)) {
      values[STREAM_LAST] = Int64GetDatum(*last + what->count);
      next = heap_form_tuple(RelationGetDescr(streams), values, absent);
      result = heap_update_row(streams, &row->t_self, next);
    }
    if (BufferIsValid(pinned)) { ReleaseBuffer(pinned); }
    if (result == TM_Ok) {
      if (!HeapTupleIsHeapOnly(next)) {
        index_row(streams, &here.stream_indexes, next, values, absent);
      }
      remember_stream(streams, what, next, pinned);
      return true;
    }
    last_stream.valid = false;
    // TM_Updated: another session has committed first, and the row has a new version.
    if (result != TM_Updated) { return false; }
    CHECK_FOR_INTERRUPTS();
  }
}

static void write_rows(Relation writes, const AppendOf* what, int64 last) {
  Datum values[WRITE_COLUMNS];
  bool absent[WRITE_COLUMNS] = {false, false, false, false, false, false, !what->has_write_id};
  int64 i;
  values[0] = what->stream;
  values[WRITE_SCOPE] = SCOPE_DATUM(what->scope);
  values[WRITE_TERM] = Int64GetDatum(what->term);
  values[6] = what->has_write_id ? what->write_id : (Datum)0;
  for (i = 0; i < what->count; ++i) {
    HeapTuple row;
    CHECK_FOR_INTERRUPTS();
    values[1] = Int64GetDatum(last + i + 1);
    values[4] = what->payloads[i];
    values[5] = TimestampTzGetDatum(GetCurrentTimestamp());
    row = heap_form_tuple(RelationGetDescr(writes), values, absent);
    simple_heap_insert(writes, row);
    index_row(writes, &here.write_indexes, row, values, absent);
    heap_freetuple(row);
  }
}

// Reads the stream's own scope; false if there is no such stream. The code that takes a number
// verifies that it is still this scope.
static bool learn_scope(Relation streams, Datum stream, ScopeName* scope) {
  Datum values[STREAM_COLUMNS];
  bool absent[STREAM_COLUMNS];
  HeapTuple row;
  text* name;
  if (is_last_stream(stream)) {
    memcpy(scope, &last_stream.scope, VARSIZE(&last_stream.scope.text.header) + 1);
    return true;
  }
  row = read_stream(streams, stream);
  if (row == NULL) { return false; }
  heap_deform_tuple(row, RelationGetDescr(streams), values, absent);
  name = DatumGetTextPP(values[STREAM_SCOPE]);
  return guard->claim_set_name(scope, VARDATA_ANY(name), (size_t)VARSIZE_ANY_EXHDR(name));
}

static bool append_to(Relation streams, Relation writes, AppendOf* what, int64* last) {
  int passed = guard->passes_count();
  if (!what->has_scope && !learn_scope(streams, what->stream, what->scope)) { return false; }
  if (!guard->check_by_arguments(what->scope, what->term) ||
      shows_higher_term(writes, what->scope, what->term)) {
    return false;
  }
  guard->hooks_layer1_writes();
  if (!advance(streams, what, last)) { return false; }
  // This transaction holds the stream's row now, so an earlier attempt with this id on the stream
  // has ended. The primary key of write_ids finds one on another stream.
  if (what->has_write_id && !note_write_id(what, *last + 1)) {
    give_numbers_back(what);
    // Layer 1 answers a repeated write id without a check, so the check above must not count.
    guard->passes_drop(passed);
    return false;
  }
  write_rows(writes, what, *last);
  // Later commands of this transaction must see the rows.
  CommandCounterIncrement();
  return true;
}

// Sets `last` to the last number. False if layer 1 has to run the append in SQL: the scope may be
// locked by then, and the stream has no new write (but may itself be new).
static bool append_rows(AppendOf* what, int64* last) {
  Relation streams, writes;
  bool done = false;
  if (XactReadOnly || XactIsoLevel > XACT_READ_COMMITTED || RecoveryInProgress() ||
      append_schema()[0] == '\0') {
    return false;
  }
  streams = table_open(here.streams, RowExclusiveLock);
  writes = table_open(here.writes, RowExclusiveLock);
  // Fails as an UPDATE would, if the table is published and has no replica identity.
  CheckCmdReplicaIdentity(streams, CMD_UPDATE);
  // Opening the tables has processed invalidations, which may have reported a change.
  if (here.state == USABLE) { done = append_to(streams, writes, what, last); }
  table_close(writes, NoLock);
  table_close(streams, NoLock);
  if (done) { *last += what->count; }
  return done;
}

// What append_one() and append_array() have in common; `fcinfo` has append()'s arguments. False if
// layer 1 has to run the append in SQL: it judges large payloads, and the write ids of a batch.
static bool append_payloads(FunctionCallInfo fcinfo, const Datum* payloads, int count, bool one,
                            Datum* answer) {
  ScopeName scope;
  AppendOf what;
  int64 last;
  Size bytes = 0;
  int i;
  if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || (!PG_ARGISNULL(5) && !one)) { return false; }
  what.has_write_id = !PG_ARGISNULL(5);
  what.write_id = what.has_write_id ? PG_GETARG_DATUM(5) : (Datum)0;
  for (i = 0; i < count; ++i) {
    CHECK_FOR_INTERRUPTS();
    bytes += toast_raw_datum_size(payloads[i]) - VARHDRSZ;
  }
  if (bytes > 1048576) { return false; }
  what.stream = PointerGetDatum(PG_GETARG_TEXT_PP(0));
  what.term = PG_GETARG_INT64(1);
  what.payloads = payloads;
  what.count = count;
  what.has_expected = !PG_ARGISNULL(3);
  what.expected = what.has_expected ? PG_GETARG_INT64(3) : 0;
  what.has_scope = !PG_ARGISNULL(4);
  what.scope = &scope;
  if ((what.has_scope && !guard->argument_scope(fcinfo, 4, &scope)) || !append_rows(&what, &last)) {
    return false;
  }
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

// Whether there are no followers, so that nobody needs to be notified. False proves nothing: it
// only tests whether the table has pages.
bool append_has_no_follower(void) {
  Relation followers;
  bool none;
  if (append_schema()[0] == '\0') { return false; }
  followers =
      OidIsValid(here.followers) ? try_relation_open(here.followers, AccessShareLock) : NULL;
  if (followers == NULL) { return false; }
  none = RelationGetNumberOfBlocks(followers) == 0;
  relation_close(followers, AccessShareLock);
  return none;
}
