// What all sessions publish about themselves: one place for each backend in shared memory, and a
// few counters. They exist only if the library is in shared_preload_libraries. Only its own backend
// writes to a place, and makes its change count odd meanwhile; readers try again if the count has
// changed. So a write takes no lock.
#include "guard.h"

typedef struct Place {
  pg_atomic_uint32 changes;  // odd: being written
  int pid;                   // 0: not guarded, or not in use
  Oid database;
  Oid role;
  bool ratchet;  // guarded by termgate.guard_session, which nothing takes back
  bool passed;   // in the current transaction
  int64 term;
  TimestampTz since;
  char scope[SCOPE_BYTES_MAX + 1];
} Place;

typedef struct Count {
  char code[6];
  pg_atomic_uint64 observed;
} Count;

typedef struct Shared {
  int places;
  Count counts[6];
  Place place[FLEXIBLE_ARRAY_MEMBER];
} Shared;

static const char* const codes[] = {"TG001", "TG002", "TG004", "TG005", "TG006", "40001"};

static Shared* shared = NULL;
static Place* mine = NULL;
static shmem_startup_hook_type next_startup = NULL;
#if PG_VERSION_NUM >= 150000
static shmem_request_hook_type next_request = NULL;
#endif

static int places_wanted(void) {
#if PG_VERSION_NUM >= 150000
  return MaxBackends;
#else
  // The total is not computed yet when libraries are loaded.
  return MaxConnections + autovacuum_max_workers + 1 + max_worker_processes + max_wal_senders;
#endif
}

static Size shared_size(int places) {
  return add_size(offsetof(Shared, place), mul_size((Size)places, sizeof(Place)));
}

static void request(void) {
#if PG_VERSION_NUM >= 150000
  if (next_request != NULL) { next_request(); }
#endif
  RequestAddinShmemSpace(shared_size(places_wanted()));
}

static void startup(void) {
  bool found;
  int places = places_wanted();
  if (next_startup != NULL) { next_startup(); }
  LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
  shared = ShmemInitStruct("termgate_guard", shared_size(places), &found);
  if (!found) {
    size_t i;
    memset(shared, 0, shared_size(places));
    shared->places = places;
    for (i = 0; i < lengthof(codes); ++i) {
      memcpy(shared->counts[i].code, codes[i], sizeof shared->counts[i].code);
      pg_atomic_init_u64(&shared->counts[i].observed, 0);
    }
    for (i = 0; i < (size_t)places; ++i) { pg_atomic_init_u32(&shared->place[i].changes, 0); }
  }
  LWLockRelease(AddinShmemInitLock);
}

void sessions_install(void) {
  if (!guard_is_preloaded()) { return; }
#if PG_VERSION_NUM >= 150000
  next_request = shmem_request_hook;
  shmem_request_hook = request;
#else
  request();
#endif
  next_startup = shmem_startup_hook;
  shmem_startup_hook = startup;
}

static void begin_change(void) {
  (void)pg_atomic_fetch_add_u32(&mine->changes, 1);
  pg_write_barrier();
}

static void end_change(void) {
  pg_write_barrier();
  (void)pg_atomic_fetch_add_u32(&mine->changes, 1);
}

static void leave(int status pg_attribute_unused(), Datum argument pg_attribute_unused()) {
  if (mine != NULL) {
    begin_change();
    mine->pid = 0;
    end_change();
    mine = NULL;
  }
}

// False if there is no place to publish in.
static bool have_place(void) {
  int index = BACKEND_INDEX;
  if (mine != NULL) { return true; }
  if (shared == NULL || IsParallelWorker() || index < 0 || index >= shared->places) {
    return false;
  }
  mine = &shared->place[index];
  begin_change();
  mine->pid = MyProcPid;
  mine->database = MyDatabaseId;
  mine->role = GetSessionUserId();
  mine->ratchet = false;
  mine->passed = false;
  mine->term = 0;
  mine->since = 0;
  mine->scope[0] = '\0';
  end_change();
  before_shmem_exit(leave, (Datum)0);
  return true;
}

void sessions_show_guarded(void) {
  // The setting may come with the start-up packet, before everything that a place shows is known.
  if (OidIsValid(MyDatabaseId) && IsTransactionState() && have_place()) {
    begin_change();
    mine->ratchet = true;
    end_change();
  }
}

void sessions_show_pass(const ScopeName* scope, int64 term) {
  if (!have_place()) { return; }
  begin_change();
  mine->passed = true;
  mine->role = GetSessionUserId();
  mine->term = term;
  mine->since = GetCurrentStatementStartTimestamp();
  memcpy(mine->scope, SCOPE_STRING(scope), VARSIZE(&scope->text.header) - VARHDRSZ + 1);
  end_change();
}

// Nothing may fail here.
void sessions_show_end(void) {
  if (mine != NULL && mine->passed) {
    begin_change();
    mine->passed = false;
    end_change();
  }
}

bool sessions_leader_is_guarded(void) {
  int index = LEADER_INDEX;
  return shared != NULL && index >= 0 && index < shared->places && shared->place[index].pid != 0 &&
         shared->place[index].ratchet;
}

// A refusal that mode observe has only observed: it is counted, and logged by each session at most
// once a second.
void sessions_count_observed(const char* message) {
  static TimestampTz logged = 0;
  TimestampTz now = GetCurrentTimestamp();
  size_t i;
  for (i = 0; shared != NULL && i < lengthof(codes); ++i) {
    if (strncmp(message, codes[i], 5) == 0) {
      (void)pg_atomic_fetch_add_u64(&shared->counts[i].observed, 1);
    }
  }
  if (TimestampDifferenceExceeds(logged, now, 1000)) {
    logged = now;
    ereport(LOG, (errmsg("termgate_guard observes what it would have refused: %s", message)));
  }
}

// Copies a place consistently; false if it is not in use.
static bool read_place(const Place* place, Place* copy) {
  for (;;) {
    uint32 before = pg_atomic_read_u32((pg_atomic_uint32*)&place->changes);
    pg_read_barrier();
    memcpy(copy, place, sizeof *copy);
    pg_read_barrier();
    if ((before & 1) == 0 && before == pg_atomic_read_u32((pg_atomic_uint32*)&place->changes)) {
      return copy->pid != 0;
    }
    CHECK_FOR_INTERRUPTS();
  }
}

static Tuplestorestate* begin_rows(FunctionCallInfo fcinfo, TupleDesc* description) {
  ReturnSetInfo* result = (ReturnSetInfo*)fcinfo->resultinfo;
  MemoryContext before;
  Tuplestorestate* rows;
  if (result == NULL || !IsA(result, ReturnSetInfo) ||
      (result->allowedModes & SFRM_Materialize) == 0 ||
      get_call_result_type(fcinfo, NULL, description) != TYPEFUNC_COMPOSITE) {
    elog(ERROR, "this function returns rows, and belongs in FROM");
  }
  before = MemoryContextSwitchTo(result->econtext->ecxt_per_query_memory);
  *description = CreateTupleDescCopy(*description);
  rows = tuplestore_begin_heap(true, false, work_mem);
  result->returnMode = SFRM_Materialize;
  result->setResult = rows;
  result->setDesc = *description;
  MemoryContextSwitchTo(before);
  return rows;
}

PG_FUNCTION_INFO_V1(termgate_guarded_sessions);
// Returns rows of this database: pid, role, scope, term, passed, since.
Datum termgate_guarded_sessions(PG_FUNCTION_ARGS) {
  TupleDesc description;
  Tuplestorestate* rows = begin_rows(fcinfo, &description);
  Place* copy = palloc(sizeof *copy);
  int i;
  for (i = 0; shared != NULL && i < shared->places; ++i) {
    Datum values[6];
    bool nulls[6] = {false, false, false, false, false, false};
    if (!read_place(&shared->place[i], copy) || copy->database != MyDatabaseId) { continue; }
    values[0] = Int32GetDatum(copy->pid);
    values[1] = ObjectIdGetDatum(copy->role);
    values[2] = CStringGetTextDatum(copy->scope);
    values[3] = Int64GetDatum(copy->term);
    values[4] = BoolGetDatum(copy->passed);
    values[5] = TimestampTzGetDatum(copy->since);
    nulls[2] = nulls[3] = nulls[5] = copy->since == 0;
    tuplestore_putvalues(rows, description, values, nulls);
  }
  return (Datum)0;
}

PG_FUNCTION_INFO_V1(termgate_guard_observed);
// Returns rows of code and count, for the whole server since it started.
Datum termgate_guard_observed(PG_FUNCTION_ARGS) {
  TupleDesc description;
  Tuplestorestate* rows = begin_rows(fcinfo, &description);
  size_t i;
  for (i = 0; shared != NULL && i < lengthof(codes); ++i) {
    Datum values[2] = {CStringGetTextDatum(shared->counts[i].code),
                       Int64GetDatum((int64)pg_atomic_read_u64(&shared->counts[i].observed))};
    bool nulls[2] = {false, false};
    tuplestore_putvalues(rows, description, values, nulls);
  }
  return (Datum)0;
}
