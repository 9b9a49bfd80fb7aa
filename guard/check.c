// The check. A write passes here if the declared term equals a trusted fence; in every other case
// this file calls layer 1, which refuses or lets the write pass. It never raises a fence: the
// user's row locks may be held, and an exclusive lock would last as long as the user's transaction.
//
// In mode enforce the lock belongs to the whole transaction instead of the savepoint in which it is
// taken, so ROLLBACK TO does not release it, and no SQL can. Mode observe takes none. A check just
// before COMMIT is as good as an earlier one: locks are released after the commit is visible.
#include "guard.h"

// Nothing has changed since the last write was checked, so the next one needs no check.
static bool passed_now = false;
// Whether the declaration has changed since the last check, and whether a statement has run since.
static bool claim_changed = false;
static bool ran_since = false;
// How often the declaration has changed: until now, and until the latest statement began or went
// on.
static uint32 changes = 0;
static uint32 changes_known = 0;

// Nothing may fail here, because settings are restored at the end of transactions too. A statement
// that is still writing when the claim changes writes under both claims, so both are checked: the
// previous one, now owed, by the next check; the new one as if a statement had run under it
// (ran_since).
void check_claim_changed(ClaimSetting setting) {
  bool may_write = hooks_may_write(ran_since);
  if (may_write && IsTransactionState()) { claim_note_owed(setting); }
  passed_now = false;
  claim_changed = true;
  ++changes;
  ran_since = hooks_may_write(false);
}

void check_statement_runs(void) {
  ran_since = true;
  changes_known = changes;
}

// A cursor that is read on may have begun under another claim.
void check_statement_goes_on(void) {
  if (changes_known != changes) { check_statement_runs(); }
}

// The next write is checked again: after ROLLBACK TO, a transaction's end or a change of mode.
void check_forget(void) { passed_now = false; }

// Outside of mode enforce locks behave as in SQL: ROLLBACK TO releases them.
static ResourceOwner owner_of_locks(void) {
  return guard_mode() == GUARD_ENFORCE ? TopTransactionResourceOwner : CurrentResourceOwner;
}

// Whether another session holds the turnstile exclusively; does not take it. GetLockConflicts()
// returns room for every session, so it gets a memory context that is kept for the next call: a
// statement's context would request that memory from the system each time.
static bool raise_is_under_way(const ScopeKeys* keys) {
  static MemoryContext context = NULL;
  MemoryContext caller;
  VirtualTransactionId* raising;
  LOCKTAG tag;
  bool found;
  if (context == NULL) {
    context =
        AllocSetContextCreate(TopMemoryContext, "termgate lock holders", ALLOCSET_DEFAULT_SIZES);
  }
  SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32)((uint64)keys->turnstile >> 32),
                       (uint32)keys->turnstile, 1);
  caller = MemoryContextSwitchTo(context);
  raising = GetLockConflicts(&tag, ShareLock, NULL);
  found = VirtualTransactionIdIsValid(*raising);
  pfree(raising);
  MemoryContextSwitchTo(caller);
  return found;
}

// Takes the queue's lock, shared, if that needs no wait; false: a raise is under way, or another
// session holds it exclusively.
static bool share(const ScopeKeys* keys) {
  ResourceOwner owner = CurrentResourceOwner;
  LockAcquireResult result = LOCKACQUIRE_NOT_AVAIL;
  LOCKTAG tag;
  if (raise_is_under_way(keys)) { return false; }
  SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32)((uint64)keys->queue >> 32), (uint32)keys->queue,
                       1);
  CurrentResourceOwner = owner_of_locks();
  PG_TRY();
  { result = LockAcquire(&tag, ShareLock, false, true); }
  PG_FINALLY();
  { CurrentResourceOwner = owner; }
  PG_END_TRY();
  return result != LOCKACQUIRE_NOT_AVAIL;
}

// Releases what share() has just taken.
static void give_back(const ScopeKeys* keys) {
  ResourceOwner owner = CurrentResourceOwner;
  LOCKTAG tag;
  SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32)((uint64)keys->queue >> 32), (uint32)keys->queue,
                       1);
  CurrentResourceOwner = owner_of_locks();
  (void)LockRelease(&tag, ShareLock, false);
  CurrentResourceOwner = owner;
}

// Takes the lock, which layer 1 has got by waiting, once more, for the whole transaction. This is
// granted at once: a holder of a lock gets it again.
static void share_after_waiting(const ScopeKeys* keys) {
  ResourceOwner owner = CurrentResourceOwner;
  LOCKTAG tag;
  SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32)((uint64)keys->queue >> 32), (uint32)keys->queue,
                       1);
  CurrentResourceOwner = TopTransactionResourceOwner;
  PG_TRY();
  { (void)LockAcquire(&tag, ShareLock, false, false); }
  PG_FINALLY();
  { CurrentResourceOwner = owner; }
  PG_END_TRY();
}

// Whether the snapshot is older than the raise. What was read with it may lack the last writes of
// the previous leader.
static bool hides(Snapshot snapshot, FullTransactionId raised) {
  TransactionId id = XidFromFullTransactionId(raised);
  FullTransactionId next;
  uint64 oldest;
  if (snapshot == NULL || !IsMVCCSnapshot(snapshot) || !TransactionIdIsNormal(id)) { return false; }
  if (TransactionIdPrecedes(id, snapshot->xmin)) { return false; }
  // Ids repeat after 2^32. This tells an old id from a new one, and from an id of another server
  // that this one has not reached yet.
  next = ReadNextFullTransactionId();
  if (!FullTransactionIdPrecedes(raised, next)) { return false; }
  oldest =
      U64FromFullTransactionId(next) - (uint32)(XidFromFullTransactionId(next) - snapshot->xmin);
  if (U64FromFullTransactionId(raised) < oldest) { return false; }
  return XidInMVCCSnapshot(id, snapshot) && id != GetTopTransactionIdIfAny();
}

// Checks the snapshot of the statement, and that of the client's statement, which may have called
// the function that writes.
static bool too_early(Snapshot snapshot, FullTransactionId raised) {
  Snapshot outer = ActivePortal != NULL && ActivePortal->queryDesc != NULL
                       ? ActivePortal->queryDesc->snapshot
                       : NULL;
  return hides(snapshot, raised) || (outer != snapshot && hides(outer, raised));
}

// For mode observe, which refuses nothing: counts what layer 1 would refuse. An error inside layer
// 1 counts as a refusal, but a cancelled statement stays cancelled.
static void count_refusal(const ScopeName* scope, int64 term, const Fence* fence, bool early) {
  MemoryContext context = CurrentMemoryContext;
  ResourceOwner owner = CurrentResourceOwner;
  char* message = NULL;
  if (IsInParallelMode()) {
    return;  // no savepoints are possible here, and no writes either
  }
  BeginInternalSubTransaction(NULL);
  PG_TRY();
  {
    MemoryContextSwitchTo(context);
    message = layer1_would_refuse(scope, term, fence, early);
    ReleaseCurrentSubTransaction();
  }
  PG_CATCH();
  {
    ErrorData* error;
    MemoryContextSwitchTo(context);
    error = CopyErrorData();
    if (error->sqlerrcode == ERRCODE_QUERY_CANCELED) { PG_RE_THROW(); }
    FlushErrorState();
    RollbackAndReleaseCurrentSubTransaction();
    message = error->message;
  }
  PG_END_TRY();
  MemoryContextSwitchTo(context);
  CurrentResourceOwner = owner;
  if (message != NULL) { sessions_count_observed(message); }
}

static bool is_sure(const Fence* fence, int64 term) {
  return fence->found && fence->term == term && layer1_trusts(fence);
}

static void observe(const ScopeName* scope, int64 term, Snapshot snapshot) {
  Fence fence;
  bool early;
  layer1_read_fence(scope, &fence);
  early = too_early(snapshot, fence.raised);
  if (early || !is_sure(&fence, term)) { count_refusal(scope, term, &fence, early); }
}

// Locks the scope and reads its fence. False, without the lock, unless the fence is trusted and at
// `term`.
static bool share_and_compare(const ScopeName* scope, int64 term, const ScopeKeys* keys,
                              Fence* fence) {
  layer1_learn_trust(scope, term);
  if (!share(keys)) { return false; }
  layer1_read_fence(scope, fence);
  if (is_sure(fence, term)) { return true; }
  give_back(keys);
  return false;
}

// The common case of check_term() and append(), without SQL, also in sessions that are not guarded.
// False: layer 1 has to run the check in SQL. The fence is read before it is locked, because a term
// above it is a raise, and a shared lock is never turned into an exclusive one. Only at READ
// COMMITTED: at other levels the snapshot could hide a raise.
bool check_by_arguments(const ScopeName* scope, int64 term) {
  ScopeKeys keys;
  Pass* pass;
  Fence fence;
  layer1_keys(scope, &keys);
  pass = passes_find(&keys, scope, term);
  if (pass != NULL && pass->epoch == passes_epoch()) { return true; }
  if (pass != NULL || passes_count() >= LOCKED_SCOPES_MAX || XactIsoLevel > XACT_READ_COMMITTED) {
    return false;
  }
  if (!layer1_remembers(scope, term)) {
    layer1_read_fence(scope, &fence);
    if (!fence.found || fence.term != term) { return false; }
  }
  if (!share_and_compare(scope, term, &keys, &fence)) { return false; }
  (void)passes_add(&keys, scope, term, false);
  if (guard_mode() != GUARD_OFF) { sessions_show_pass(scope, term); }
  return true;
}

// Whether layer 1 has marked a pass of its own.
static bool has_marks(void) {
  const char* marks = GetConfigOption("termgate.passed", true, false);
  return marks != NULL && *marks != '\0';
}

// For the triggers of protect(): whether the transaction has passed the scope's check, or passes it
// now with what is declared. False: layer 1 has to run the check in SQL. `snapshot` is that of the
// statement that writes.
bool check_for_protect(const ScopeName* scope, Snapshot snapshot) {
  Pass* pass;
  ScopeKeys keys;
  Fence fence;
  int64 term;
  if (passes_has_scope(scope)) { return true; }
  if (XactIsoLevel > XACT_READ_COMMITTED) { return false; }
  pass = passes_of_scope(scope);
  if (pass != NULL) {
    // The pass came by arguments, or before a ROLLBACK TO, so its raise may be newer than this
    // statement's snapshot. A rolled-back savepoint may have released the lock although the pass is
    // older, as with a cursor that failed in it. So the lock is taken again; whoever still holds it
    // gets it at once.
    if (pass->epoch == passes_epoch()) {
      layer1_read_fence(scope, &fence);
    } else if (!share_and_compare(scope, pass->term, &pass->keys, &fence)) {
      return false;
    }
    if (!is_sure(&fence, pass->term) || too_early(snapshot, fence.raised)) { return false; }
    pass->epoch = passes_epoch();
    pass->compared = true;
    return true;
  }
  if (claim_now()->kind != CLAIM_WHOLE || guard_mode() == GUARD_ENFORCE ||
      passes_count() >= LOCKED_SCOPES_MAX || has_marks() || !claim_is_of(scope)) {
    return false;
  }
  term = claim_now()->term;
  layer1_keys(scope, &keys);
  if (passes_find(&keys, scope, term) != NULL || !share_and_compare(scope, term, &keys, &fence) ||
      too_early(snapshot, fence.raised)) {
    return false;
  }
  pass = passes_add(&keys, scope, term, false);
  pass->compared = true;
  if (guard_mode() != GUARD_OFF) { sessions_show_pass(scope, term); }
  return true;
}

// Like check_for_protect(), for a table that any scope may write to.
bool check_any_for_protect(Snapshot snapshot) {
  Pass* last = passes_of_scope(NULL);
  ScopeName scope;
  if (passes_has_scope(NULL)) { return true; }
  if (last == NULL && claim_now()->kind != CLAIM_WHOLE) { return false; }
  memcpy(&scope, last != NULL ? last->scope : &claim_now()->scope,
         VARSIZE(last != NULL ? &last->scope->text.header : &claim_now()->scope.text.header) + 1);
  return check_for_protect(&scope, snapshot);
}

static void check(const ScopeName* scope, int64 term, const ScopeKeys* keys, Snapshot snapshot) {
  Pass* pass = passes_find(keys, scope, term);
  Fence fence;
  bool compared = false;
  if (pass != NULL && pass->epoch == passes_epoch()) { return; }
  if (guard_mode() == GUARD_OBSERVE) {
    observe(scope, term, snapshot);
    return;
  }
  if (pass != NULL ? pass->by_row : passes_count() >= LOCKED_SCOPES_MAX) {
    layer1_check_by_row(scope, term);
  } else {
    if (!share(keys)) {
      layer1_wait(scope);
      share_after_waiting(keys);
    }
    layer1_read_fence(scope, &fence);
    if (too_early(snapshot, fence.raised) || !is_sure(&fence, term)) {
      layer1_verdict(scope, term, &fence, too_early(snapshot, fence.raised));
    }
    compared = snapshot != NULL;
  }
  // Layer 1's functions may have reported passes meanwhile.
  pass = passes_find(keys, scope, term);
  if (pass == NULL) { pass = passes_add(keys, scope, term, passes_count() >= LOCKED_SCOPES_MAX); }
  pass->epoch = passes_epoch();
  pass->compared = compared;
  sessions_show_pass(scope, term);
}

// The session's declaration is missing, incomplete or no plain one. Layer 1 refuses it, or reads
// another spelling of the term.
static void check_odd(Snapshot snapshot) {
  ScopeName scope;
  ScopeKeys keys;
  int64 term;
  if (guard_mode() == GUARD_OBSERVE) {
    count_refusal(NULL, 0, NULL, false);
    return;
  }
  layer1_declared(&scope, &term);
  layer1_keys(&scope, &keys);
  check(&scope, term, &keys, snapshot);
}

// Checks the claims that are owed a check.
void check_owed(Snapshot snapshot) {
  Claim claim;
  while (claim_next_owed(&claim)) {
    if (guard_mode() == GUARD_OBSERVE ? claim.kind != CLAIM_WHOLE || !layer1_usable()
                                      : claim.kind == CLAIM_NONE && passes_count() > 0) {
      continue;
    }
    layer1_need();
    if (claim.kind != CLAIM_WHOLE) {
      ereport(ERROR, (errcode(ERRCODE_INPUT_INVALID),
                      errmsg("TG005 what was declared while a statement was writing is no scope "
                             "and term, or there were too many in one statement"),
                      errhint("Declare scope and term before the statement that writes.")));
    }
    layer1_keys(&claim.scope, &claim.keys);
    check(&claim.scope, claim.term, &claim.keys, snapshot);
  }
}

// A write is about to begin: it passes, or an error is raised (mode observe: counted). If nothing,
// or only half a claim, is declared, the transaction's latest pass counts.
void check_require(Snapshot snapshot) {
  Claim* claim;
  check_owed(snapshot);
  claim = claim_of_statement();
  if (passed_now && !claim_is_a_comments()) { return; }
  if (guard_mode() == GUARD_OBSERVE && !layer1_usable()) {
    sessions_count_observed("TG004 there is no layer 1 that the guard can use");
    passed_now = true;
    return;
  }
  layer1_need();
  if (claim->kind == CLAIM_WHOLE) {
    if (!claim->has_keys) {
      layer1_keys(&claim->scope, &claim->keys);
      claim->has_keys = true;
    }
    check(&claim->scope, claim->term, &claim->keys, snapshot);
  } else if (claim->kind != CLAIM_ODD && passes_count() > 0) {
    // check() may extend the list, so its argument is copied.
    Pass last = *passes_last();
    check(last.scope, last.term, &last.keys, snapshot);
  } else {
    check_odd(snapshot);
  }
  // A claim in a comment is valid for its own statement only.
  passed_now = !claim_is_a_comments();
  claim_changed = claim_changed && !passed_now;
  ran_since = ran_since && passed_now;
  if (passed_now) { claim_is_checked(); }
}

// The last resort: the transaction has written, or may have, and is about to commit or to be
// prepared.
void check_before_commit(void) {
  Snapshot snapshot =
      IsolationUsesXactSnapshot() && FirstSnapshotSet ? GetTransactionSnapshot() : NULL;
  check_owed(snapshot);
  if (passes_count() > 0 && !(claim_changed && ran_since)) {
    return;  // these locks are held, so nobody has raised those fences
  }
  if (guard_mode() == GUARD_ENFORCE) { passed_now = false; }
  check_require(snapshot);
}
