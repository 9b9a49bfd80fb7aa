// Reads the comment of the client's statement: /*termgate.scope='billing',termgate.term='42'*/ in
// front of its first token or after its last (docs/contract.md, section 5). It is valid for that
// statement and for what that statement runs. The server has already parsed the text. A mistake
// here could only find another claim than the intended one, and every claim is checked.
#include "guard.h"

#define VALUE_BYTES_MAX (3 * SCOPE_BYTES_MAX)
static const char scope_key[] = "termgate.scope";
static const char term_key[] = "termgate.term";

typedef struct Found {
  const char* problem;
  bool has_scope, has_term;
  char scope[SCOPE_BYTES_MAX + 1];
  char term[24];
} Found;

static Found found;

static void malformed(Found* into, const char* problem) {
  if (into->problem == NULL) { into->problem = problem; }
}

static int hex(char digit) {
  if (digit >= '0' && digit <= '9') { return digit - '0'; }
  digit = (char)pg_tolower((unsigned char)digit);
  return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

// Decodes %XX only. False: it is not URL-encoded, or contains a zero byte.
static bool url_decode(char* value) {
  char* to = value;
  for (; *value != '\0'; ++value) {
    if (*value == '%') {
      int high = hex(value[1]);
      int low = high < 0 ? -1 : hex(value[2]);
      if (low < 0 || (high == 0 && low == 0)) { return false; }
      *to++ = (char)(high << 4 | low);
      value += 2;
    } else {
      *to++ = *value;
    }
  }
  *to = '\0';
  return true;
}

static void put(Found* into, bool is_scope, const char* value) {
  char* place = is_scope ? into->scope : into->term;
  size_t room = is_scope ? sizeof into->scope : sizeof into->term;
  bool* has = is_scope ? &into->has_scope : &into->has_term;
  if (*value == '\0') { return; }
  if (strlen(value) >= room) {
    malformed(into,
              is_scope ? "the scope is too long" : "the term is not an integer from 1 to 2^62");
  } else if (!pg_verifymbstr(value, (int)strlen(value), true)) {
    malformed(into, "a value is not in the database's encoding");
  } else if (*has && strcmp(place, value) != 0) {
    malformed(into, is_scope ? "two scopes that differ" : "two terms that differ");
  } else {
    memcpy(place, value, strlen(value) + 1);
    *has = true;
  }
}

static const char* skip_space(const char* at, const char* end) {
  while (at < end && strchr(" \t\n\r\f\v", *at) != NULL) { ++at; }
  return at;
}

static bool names_ours(const char* at, const char* end) {
  for (; end - at >= (ptrdiff_t)sizeof term_key - 1; ++at) {
    if (pg_strncasecmp(at, term_key, sizeof term_key - 1) == 0 ||
        (end - at >= (ptrdiff_t)sizeof scope_key - 1 &&
         pg_strncasecmp(at, scope_key, sizeof scope_key - 1) == 0)) {
      return true;
    }
  }
  return false;
}

// Reads one key='value' and returns its end, or NULL if it is malformed.
static const char* read_pair(Found* into, const char* at, const char* end) {
  static const char form[] = "a comment must be key='value', separated by commas";
  char value[VALUE_BYTES_MAX + 1];
  size_t length = 0;
  const char* key = at = skip_space(at, end);
  size_t key_length;
  bool is_scope;
  while (at < end && strchr("'\" ,;=\t\n\r\f\v", *at) == NULL) { ++at; }
  key_length = (size_t)(at - key);
  at = skip_space(at, end);
  if (key_length == 0 || at >= end || *at != '=') { return malformed(into, form), NULL; }
  at = skip_space(at + 1, end);
  if (at >= end || *at != '\'') { return malformed(into, form), NULL; }
  for (++at; at < end && *at != '\''; ++at) {
    if (*at == '\\' && at + 1 < end && at[1] == '\'') { ++at; }
    if (length < VALUE_BYTES_MAX) { value[length] = *at; }
    ++length;
  }
  if (at >= end) { return malformed(into, "a value has no closing quote"), NULL; }
  is_scope = key_length == sizeof scope_key - 1 && memcmp(key, scope_key, key_length) == 0;
  if (is_scope || (key_length == sizeof term_key - 1 && memcmp(key, term_key, key_length) == 0)) {
    if (length > VALUE_BYTES_MAX) { return malformed(into, "a value is too long"), NULL; }
    value[length] = '\0';
    if (!url_decode(value)) { return malformed(into, "a value is not URL-encoded"), NULL; }
    put(into, is_scope, value);
  } else if ((key_length == sizeof scope_key - 1 &&
              pg_strncasecmp(key, scope_key, key_length) == 0) ||
             (key_length == sizeof term_key - 1 &&
              pg_strncasecmp(key, term_key, key_length) == 0)) {
    return malformed(into, "the keys are written in lower case"), NULL;
  }
  return skip_space(at + 1, end);
}

// Reads a comment's text, without its delimiters. Comments without one of Termgate's keys may
// contain anything.
static void read_comment(Found* into, const char* at, const char* end) {
  if (!names_ours(at, end)) { return; }
  while ((at = read_pair(into, at, end)) != NULL && at < end) {
    if (*at++ != ',') {
      malformed(into, "a comment must be key='value', separated by commas");
      return;
    }
  }
}

// Reads a comment that begins here and returns its end; NULL: there is none.
static const char* skip_comment(Found* into, const char* at, const char* end) {
  const char* begin = at + 2;
  int depth = 0;
  if (end - at < 2) { return NULL; }
  if (at[0] == '-' && at[1] == '-') {
    while (at < end && *at != '\n' && *at != '\r') { ++at; }
    return at;
  }
  if (at[0] != '/' || at[1] != '*') { return NULL; }
  do {
    if (end - at >= 2 && at[0] == '/' && at[1] == '*') {
      ++depth;
      at += 2;
    } else if (end - at >= 2 && at[0] == '*' && at[1] == '/') {
      --depth;
      at += 2;
    } else {
      ++at;
    }
  } while (depth > 0 && at < end);
  if (into != NULL && depth == 0) { read_comment(into, begin, at - 2); }
  return at;
}

static const char* skip_quoted(const char* at, const char* end, char quote, bool escapes) {
  for (++at; at < end && *at != quote; ++at) {
    if (escapes && *at == '\\') { ++at; }
  }
  return at < end ? at + 1 : end;
}

static bool is_word(char character) {
  return isalnum((unsigned char)character) || character == '_' || IS_HIGHBIT_SET(character);
}

// The end of a token, or of a part of one.
static const char* skip_token(const char* at, const char* end) {
  const char* tag = at + 1;
  if (*at == '"') { return skip_quoted(at, end, '"', false); }
  if (*at == '\'') { return skip_quoted(at, end, '\'', !standard_conforming_strings); }
  if ((*at == 'e' || *at == 'E') && at + 1 < end && at[1] == '\'') {
    return skip_quoted(at + 1, end, '\'', true);
  }
  if (*at == '$') {
    while (tag < end && is_word(*tag)) { ++tag; }
    if (tag < end && *tag == '$' && !isdigit((unsigned char)at[1])) {
      size_t length = (size_t)(tag + 1 - at);
      for (++tag; (size_t)(end - tag) >= length; ++tag) {
        if (memcmp(tag, at, length) == 0) { return tag + length; }
      }
      return end;
    }
  }
  if (!is_word(*at)) { return at + 1; }
  while (at < end && (is_word(*at) || *at == '$')) { ++at; }
  return at;
}

// Reads the comments in front of the first token and after the last.
static void read_around(const char* at, const char* end) {
  Found behind;
  bool any = false;
  memset(&behind, 0, sizeof behind);
  while ((at = skip_space(at, end)) < end) {
    const char* next = skip_comment(any ? &behind : &found, at, end);
    if (next == NULL) {
      if (any) { memset(&behind, 0, sizeof behind); }
      next = skip_token(at, end);
      any = true;
    }
    at = next;
  }
  if (behind.problem != NULL) { malformed(&found, behind.problem); }
  if (behind.has_scope) { put(&found, true, behind.scope); }
  if (behind.has_term) { put(&found, false, behind.term); }
}

// Comments after the semicolon of the last statement still belong to it.
static void read_rest(const char* at, const char* end) {
  const char* begin = at;
  const char* next;
  while ((at = skip_space(at, end)) < end) {
    next = *at == ';' ? at + 1 : skip_comment(NULL, at, end);
    if (next == NULL) { return; }
    at = next;
  }
  for (at = begin; (at = skip_space(at, end)) < end; at = next) {
    next = *at == ';' ? at + 1 : skip_comment(&found, at, end);
  }
}

// The end of the last token before `first`: there the statement begins whose location is `first`.
// From PostgreSQL 18 on, a location is that of the first token, so it excludes the comments in
// front.
static const char* begin_of(const char* text, const char* first) {
  const char* begin = text;
  const char* at = text;
  while ((at = skip_space(at, first)) < first) {
    const char* next = skip_comment(NULL, at, first);
    if (next == NULL) { begin = next = skip_token(at, first); }
    at = next;
  }
  return begin;
}

// The statement of the client's own portal, if that portal is the one that runs now.
static const PlannedStmt* clients_statement(void) {
  const char* text = ActivePortal != NULL ? ActivePortal->sourceText : NULL;
  if (text == NULL || ActivePortal->stmts == NIL ||
      (text != debug_query_string && strcmp(text, debug_query_string) != 0)) {
    return NULL;
  }
  return linitial_node(PlannedStmt, ActivePortal->stmts);
}

static bool has_comment(const char* text) {
  const char* slash = strchr(text, '/');
  while (slash != NULL && slash[1] != '*') { slash = strchr(slash + 1, '/'); }
  return slash != NULL;
}

// Reads the comments of the statement that the client has sent. False: they declare nothing.
bool comments_read(void) {
  static bool declares = false;
  const char* text = debug_query_string;
  const PlannedStmt* statement;
  size_t length, first;
  if (text == NULL || !has_comment(text)) { return declares = false; }
  length = strlen(text);
  if (!names_ours(text, text + length)) { return declares = false; }
  statement = clients_statement();
  // A function's cursor runs in a portal of its own, and belongs to the client's statement: what
  // that declares still counts.
  if (statement == NULL) { return declares; }
  first = statement->stmt_location > 0 ? Min((size_t)statement->stmt_location, length) : 0;
  memset(&found, 0, sizeof found);
  if (statement->stmt_len > 0) {
    size_t end = Min(first + (size_t)statement->stmt_len, length);
    read_around(begin_of(text, text + first), text + end);
    read_rest(text + end, text + length);
  } else {
    read_around(begin_of(text, text + first), text + length);
  }
  if (found.problem != NULL) {
    ereport(ERROR, (errcode(ERRCODE_INPUT_INVALID),
                    errmsg("TG005 the comment of this statement is malformed: %s", found.problem)));
  }
  return declares = found.has_scope || found.has_term;
}

// What the comment declares as scope and as term; NULL: it does not declare that one.
const char* comments_scope(void) { return found.has_scope ? found.scope : NULL; }
const char* comments_term(void) { return found.has_term ? found.term : NULL; }
