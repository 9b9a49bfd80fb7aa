// What this transaction has passed: a list in order of time, and so of savepoints, because a later
// savepoint's passes come later. It is allocated in the transaction's memory and only forgotten at
// its end, where nothing may fail and nothing need be freed.
//
// ROLLBACK TO drops the passes since its savepoint, and keeps the earlier ones. But their fence is
// read again before the next write: the session itself may have raised it in the savepoint, which
// is undone. Outside of mode enforce the lock is taken again too, because it may be gone.
#include "guard.h"

// Up to this many passes a search reads the list; beyond that there is an index.
#define LISTED_MAX 24

typedef struct IndexEntry {
  ScopeKeys keys;
  int at;
} IndexEntry;

static Pass first_passes[4];
static ScopeName first_names[4];
static Pass* passes = first_passes;
static int count = 0;
static int capacity = lengthof(first_passes);
static uint32 epoch = 1;
static HTAB* by_keys = NULL;

int passes_count(void) { return count; }
uint32 passes_epoch(void) { return epoch; }
Pass* passes_last(void) { return count == 0 ? NULL : &passes[count - 1]; }

// The memory is freed at the end of the transaction.
void passes_forget(void) {
  passes = first_passes;
  capacity = lengthof(first_passes);
  count = 0;
  by_keys = NULL;
}

static bool is_pass_of(const Pass* pass, const ScopeKeys* keys, const ScopeName* scope,
                       int64 term) {
  return pass->term == term && pass->keys.queue == keys->queue &&
         pass->keys.turnstile == keys->turnstile &&
         VARSIZE(&pass->scope->text.header) == VARSIZE(&scope->text.header) &&
         memcmp(&pass->scope->text, &scope->text, VARSIZE(&scope->text.header)) == 0;
}

static void index_pass(int at) {
  bool found;
  IndexEntry* entry = hash_search(by_keys, &passes[at].keys, HASH_ENTER, &found);
  entry->at = at;
}

static void make_index(void) {
  HASHCTL control;
  int i;
  memset(&control, 0, sizeof control);
  control.keysize = sizeof(ScopeKeys);
  control.entrysize = sizeof(IndexEntry);
  control.hcxt = TopTransactionContext;
  by_keys = hash_create("termgate passes", 256, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
  for (i = 0; i < count; ++i) { index_pass(i); }
}

Pass* passes_find(const ScopeKeys* keys, const ScopeName* scope, int64 term) {
  int i;
  if (by_keys != NULL) {
    IndexEntry* entry = hash_search(by_keys, keys, HASH_FIND, NULL);
    // After a ROLLBACK TO the index still has entries of dropped passes.
    return entry != NULL && entry->at < count && is_pass_of(&passes[entry->at], keys, scope, term)
               ? &passes[entry->at]
               : NULL;
  }
  for (i = count - 1; i >= 0; --i) {
    if (is_pass_of(&passes[i], keys, scope, term)) { return &passes[i]; }
  }
  return NULL;
}

// Whether a statement that writes has passed the scope under any term, and its fence has been read
// since the last ROLLBACK TO. NULL: any scope. Searches only the latest passes: a transaction over
// many scopes uses layer 1.
bool passes_has_scope(const ScopeName* scope) {
  int i;
  for (i = count - 1; i >= 0 && i >= count - LISTED_MAX; --i) {
    const Pass* pass = &passes[i];
    if (pass->epoch == epoch && pass->compared &&
        (scope == NULL ||
         (VARSIZE(&pass->scope->text.header) == VARSIZE(&scope->text.header) &&
          memcmp(&pass->scope->text, &scope->text, VARSIZE(&scope->text.header)) == 0))) {
      return true;
    }
  }
  return false;
}

// The latest pass of the scope under any term, if its lock is an advisory one; NULL: there is none.
// `scope` NULL: any scope. Searches only the latest passes. The fence must be read again if epoch
// is not passes_epoch().
Pass* passes_of_scope(const ScopeName* scope) {
  int i;
  for (i = count - 1; i >= 0 && i >= count - LISTED_MAX; --i) {
    Pass* pass = &passes[i];
    if (!pass->by_row &&
        (scope == NULL ||
         (VARSIZE(&pass->scope->text.header) == VARSIZE(&scope->text.header) &&
          memcmp(&pass->scope->text, &scope->text, VARSIZE(&scope->text.header)) == 0))) {
      return pass;
    }
  }
  return NULL;
}

// Whether exactly this claim has passed, and its fence has been read since the last ROLLBACK TO.
// Searches only the latest passes. Called from setting hooks, so nothing may fail here.
bool passes_has_claim(const char* scope, const char* term) {
  char text[24];
  int i;
  for (i = count - 1; i >= 0 && i >= count - LISTED_MAX; --i) {
    if (passes[i].epoch != epoch || strcmp(SCOPE_STRING(passes[i].scope), scope) != 0) { continue; }
    snprintf(text, sizeof text, INT64_FORMAT, passes[i].term);
    if (strcmp(text, term) == 0) { return true; }
  }
  return false;
}

static void grow(void) {
  Pass* larger = MemoryContextAlloc(TopTransactionContext, sizeof(Pass) * (Size)capacity * 2);
  memcpy(larger, passes, sizeof(Pass) * (Size)count);
  if (passes != first_passes) { pfree(passes); }
  passes = larger;
  capacity *= 2;
}

Pass* passes_add(const ScopeKeys* keys, const ScopeName* scope, int64 term, bool by_row) {
  Size size = VARSIZE(&scope->text.header) + 1;
  Pass* pass;
  ScopeName* name;
  if (count == capacity) { grow(); }
  if (by_keys == NULL && count >= LISTED_MAX) { make_index(); }
  name = count < (int)lengthof(first_names) ? &first_names[count]
                                            : MemoryContextAlloc(TopTransactionContext, size);
  memcpy(name, scope, size);
  pass = &passes[count];
  pass->keys = *keys;
  pass->term = term;
  pass->level = GetCurrentTransactionNestLevel();
  pass->epoch = epoch;
  pass->compared = false;
  pass->by_row = by_row;
  pass->scope = name;
  ++count;
  if (by_keys != NULL) { index_pass(count - 1); }
  return pass;
}

// Forgets the passes beyond the first `since`. The locks stay.
void passes_drop(int since) { count = Min(count, since); }

void passes_savepoint_released(int level) {
  int i;
  for (i = count - 1; i >= 0 && passes[i].level >= level; --i) { passes[i].level = level - 1; }
}

void passes_savepoint_rolled_back(int level) {
  while (count > 0 && passes[count - 1].level >= level) { --count; }
  ++epoch;
}
