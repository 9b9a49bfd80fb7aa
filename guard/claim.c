// What the session declares in the settings termgate.scope and termgate.term, by SET, SET LOCAL,
// set_config, a start-up option, ALTER ROLE or a function's SET clause. Any text is accepted here;
// layer 1 reports a malformed one at the write (TG005). If a check hook refused it, the server
// would drop it at the start of a session with a mere warning, and "malformed" would become "not
// declared".
#include "guard.h"

static char* scope_setting = NULL;
static char* term_setting = NULL;

static Claim claim;
static bool claim_is_fresh = false;
// The texts that `claim` was read from. They need not be parsed again where SET LOCAL sets and
// restores the same two values in every transaction.
static char seen_scope[SCOPE_BYTES_MAX + 1];
static char seen_term[24];

// Called at the end of transactions too, where nothing may fail, so it only notes the change. The
// setting still has its previous value.
static void assigned(ClaimSetting setting) {
  claim_is_fresh = false;
  check_claim_changed(setting);
}
static void scope_assigned(const char* value pg_attribute_unused(),
                           void* extra pg_attribute_unused()) {
  assigned(SETTING_SCOPE);
}
static void term_assigned(const char* value pg_attribute_unused(),
                          void* extra pg_attribute_unused()) {
  assigned(SETTING_TERM);
}

void claim_define_settings(void) {
  DefineCustomStringVariable("termgate.scope", "The scope that this session writes for.", NULL,
                             &scope_setting, "", PGC_USERSET, 0, NULL, scope_assigned, NULL);
  DefineCustomStringVariable("termgate.term",
                             "The term (fencing token) that this session writes under.", NULL,
                             &term_setting, "", PGC_USERSET, 0, NULL, term_assigned, NULL);
}

// Scope keys depend on the schema of layer 1.
void claim_forget_keys(void) { claim.has_keys = false; }

// Whether the last result of claim_of_statement() came from a comment.
static bool by_comment = false;

bool claim_is_a_comments(void) { return by_comment; }

static const char* setting_of(const char* setting) { return setting == NULL ? "" : setting; }

const char* claim_scope_text(void) {
  return by_comment && comments_scope() != NULL ? comments_scope() : setting_of(scope_setting);
}
const char* claim_term_text(void) {
  return by_comment && comments_term() != NULL ? comments_term() : setting_of(term_setting);
}

// False unless the text is a valid scope.
bool claim_set_name(ScopeName* name, const char* text, size_t length) {
  if (length == 0 || length > SCOPE_BYTES_MAX || pg_mbstrlen_with_len(text, (int)length) > 200) {
    return false;
  }
  SET_VARSIZE(&name->text.header, VARHDRSZ + length);
  memcpy(SCOPE_STRING(name), text, length);
  SCOPE_STRING(name)[length] = '\0';
  return true;
}

// Accepts digits only, few enough not to overflow. Layer 1 judges every other spelling.
static bool plain_term(const char* text, int64* term) {
  int64 value = 0;
  int digits = 0;
  for (; text[digits] != '\0'; ++digits) {
    if (digits == 18 || text[digits] < '0' || text[digits] > '9') { return false; }
    value = value * 10 + (text[digits] - '0');
  }
  *term = value;
  return digits > 0 && value > 0;
}

static void read_claim(Claim* into, const char* scope, const char* term) {
  size_t length = strlen(scope);
  into->has_keys = false;
  if (*scope == '\0' && *term == '\0') {
    into->kind = CLAIM_NONE;
  } else if (claim_set_name(&into->scope, scope, length) && plain_term(term, &into->term)) {
    into->kind = CLAIM_WHOLE;
  } else if ((*term == '\0' && claim_set_name(&into->scope, scope, length)) ||
             (*scope == '\0' && plain_term(term, &into->term))) {
    into->kind = CLAIM_HALF;
  } else {
    into->kind = CLAIM_ODD;
  }
}

// Whether the claim that is declared now, which must be CLAIM_WHOLE, is for this scope.
bool claim_is_of(const ScopeName* scope) {
  const Claim* now = claim_now();
  return VARSIZE(&now->scope.text.header) == VARSIZE(&scope->text.header) &&
         memcmp(&now->scope.text, &scope->text, VARSIZE(&scope->text.header)) == 0;
}

// The claim in the settings.
Claim* claim_now(void) {
  const char* scope = setting_of(scope_setting);
  const char* term = setting_of(term_setting);
  if (claim_is_fresh) { return &claim; }
  if (claim.kind != CLAIM_WHOLE || strcmp(scope, seen_scope) != 0 || strcmp(term, seen_term) != 0) {
    read_claim(&claim, scope, term);
    if (claim.kind == CLAIM_WHOLE) {
      memcpy(seen_scope, scope, strlen(scope) + 1);
      memcpy(seen_term, term, strlen(term) + 1);  // at most 18 digits
    }
  }
  claim_is_fresh = true;
  return &claim;
}

// The claim in the comment of the client's statement; the settings supply what it does not declare.
// For guarded sessions.
Claim* claim_of_statement(void) {
  static Claim commented;
  by_comment = comments_read();
  if (!by_comment) { return claim_now(); }
  read_claim(&commented, claim_scope_text(), claim_term_text());
  return &commented;
}

// Claims that are owed a check: something may have written under them without any hook seeing it.
// A few places are enough, because every statement that begins checks them.
static struct {
  int count;
  bool too_many;
  struct {
    char scope[SCOPE_BYTES_MAX + 1];
    char term[24];
  } claims[8];
  int set;  // ClaimSettings that were set since the last complete claim
} owed;

// Notes the claim that was declared until now, unless it is half of a new one: scope and term are
// set one after the other. Nothing may fail here.
void claim_note_owed(ClaimSetting next) {
  const char* scope = setting_of(scope_setting);
  const char* term = setting_of(term_setting);
  int i;
  if (owed.set != 0 && (owed.set & next) == 0) {
    owed.set |= next;
    return;
  }
  owed.set = next;
  if (passes_has_claim(scope, term)) { return; }
  for (i = 0; i < owed.count; ++i) {
    if (strcmp(owed.claims[i].scope, scope) == 0 && strcmp(owed.claims[i].term, term) == 0) {
      return;
    }
  }
  if (owed.count == lengthof(owed.claims) || strlen(scope) > SCOPE_BYTES_MAX ||
      strlen(term) >= sizeof owed.claims[0].term) {
    owed.too_many = true;
    return;
  }
  strcpy(owed.claims[owed.count].scope, scope);
  strcpy(owed.claims[owed.count].term, term);
  ++owed.count;
}

// Takes one of the owed claims; false: there is none. CLAIM_ODD if there were too many to note.
bool claim_next_owed(Claim* claim_owed) {
  if (owed.too_many) {
    owed.too_many = false;
    claim_owed->kind = CLAIM_ODD;
    return true;
  }
  if (owed.count == 0) { return false; }
  --owed.count;
  read_claim(claim_owed, owed.claims[owed.count].scope, owed.claims[owed.count].term);
  return true;
}

void claim_is_checked(void) { owed.set = 0; }

void claim_forget_owed(void) {
  owed.count = 0;
  owed.too_many = false;
  owed.set = 0;
}
