// The SQL functions that a served connection has in place of SQLite's. SQLite's own instr, replace,
// trim, LIKE, GLOB and json_patch can take hours within one instruction, where nothing can stop
// them. These run in linear time or ask whether to go on; json_patch refuses documents that are too
// long instead. Otherwise their results must equal SQLite's to the byte, because indexes and CHECKs
// of the file may use them. The functions that belong to a stream, such as changes(), are here too.
#include "file/functions.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>

#include <termgate/error.hpp>
#include <termgate/scope.hpp>
#include <termgate/term.hpp>
#include <termgate/text/ascii.hpp>

#include "file/control.hpp"

namespace termgate::sqlite_file {
namespace {

constexpr std::size_t small_bytes = 64 * 1024;
constexpr std::size_t steps_between_questions = 1 << 18;
constexpr std::size_t made_bytes_max = std::size_t{1} << 26;

struct Stopped {};
struct Failed {
  int code;
  const char* message;
};

class Call {
 public:
  Call(sqlite3_context* at, int arguments, sqlite3_value** first)
      : context(at),
        count(arguments),
        values(first),
        serving(*static_cast<Serving*>(sqlite3_user_data(at))) {}

  int type(int i) const { return sqlite3_value_type(values[i]); }
  std::string_view blob(int i) const {
    const auto* bytes = static_cast<const char*>(sqlite3_value_blob(values[i]));
    return bytes == nullptr
               ? std::string_view()
               : std::string_view(bytes, static_cast<std::size_t>(sqlite3_value_bytes(values[i])));
  }
  void answer(std::int64_t number) const { sqlite3_result_int64(context, number); }
  void answer(bool truth) const { sqlite3_result_int(context, truth ? 1 : 0); }
  void answer(std::string_view text) const {
    sqlite3_result_text64(context, text.data() != nullptr ? text.data() : "", text.size(),
                          SQLITE_TRANSIENT, SQLITE_UTF8);
  }

  sqlite3_context* context;
  int count;
  sqlite3_value** values;
  Serving& serving;
};

void ask(const Call& call) {
  if (call.serving.control != nullptr && call.serving.control->must_stop()) throw Stopped();
}

// Finds `wanted` in `text` from `from` on, in linear time: std::string_view::find compares anew at
// each position.
std::size_t find_text(std::string_view text, std::string_view wanted, std::size_t from = 0) {
  if (from > text.size()) return std::string_view::npos;
  if (wanted.empty()) return from;
  if (text.empty())
    return std::string_view::npos;  // an empty view may have no address, but memmem() requires one
  const void* found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::string_view plain(const Call& call, int i) {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_value_text(call.values[i]));
  return bytes == nullptr
             ? std::string_view()
             : std::string_view(bytes,
                                static_cast<std::size_t>(sqlite3_value_bytes(call.values[i])));
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Like SQLITE_SKIP_UTF8: a lead byte takes all following continuation bytes along.
std::size_t next_character(std::string_view text, std::size_t at) {
  if (static_cast<unsigned char>(text[at++]) < 0xC0) return at;
  while (at < text.size() && continues(text[at])) ++at;
  return at;
}

void instr(const Call& call) {
  const bool bytes = call.type(0) == SQLITE_BLOB && call.type(1) == SQLITE_BLOB;
  const std::string_view text = bytes ? call.blob(0) : plain(call, 0),
                         wanted = bytes ? call.blob(1) : plain(call, 1);
  if (wanted.empty()) return call.answer(std::int64_t{1});
  if (text.size() > small_bytes) ask(call);
  std::size_t at = find_text(text, wanted);
  // SQLite matches only where a character begins, and counts characters: a continuation byte does
  // not begin one.
  while (!bytes && at != std::string_view::npos && at > 0 && continues(text[at])) {
    if (text.size() > small_bytes) ask(call);
    at = find_text(text, wanted, at + 1);
  }
  if (at == std::string_view::npos) return call.answer(std::int64_t{0});
  const std::string_view before = text.substr(0, at);
  call.answer(
      1 + static_cast<std::int64_t>(bytes || before.empty()
                                        ? at
                                        : 1 + std::count_if(before.begin() + 1, before.end(),
                                                            [](char c) { return !continues(c); })));
}

void replace(const Call& call) {
  if (call.type(0) == SQLITE_NULL || call.type(1) == SQLITE_NULL)
    return sqlite3_result_null(call.context);
  const std::string_view text = plain(call, 0), wanted = plain(call, 1);
  // Checked before the third argument, which may then be NULL.
  if (wanted.empty() || wanted[0] == '\0')
    return sqlite3_result_value(call.context, call.values[0]);
  if (call.type(2) == SQLITE_NULL) return sqlite3_result_null(call.context);
  const std::string_view put = plain(call, 2);
  if (text.size() > small_bytes) ask(call);
  std::string out;
  std::size_t from = 0, copied = 0;
  for (std::size_t at; (at = find_text(text, wanted, from)) != std::string_view::npos;
       from = at + wanted.size()) {
    out += text.substr(from, at - from);
    out += put;
    if (out.size() > made_bytes_max) throw Failed{SQLITE_TOOBIG, "string or blob too big"};
    copied += at - from + put.size() + 1;
    if (copied > steps_between_questions) ask(call), copied = 0;
  }
  out += text.substr(from);
  call.answer(std::string_view(out));
}

// The characters of a set. SQLite takes the first one that matches, so the order would matter only
// for malformed UTF-8.
class CharacterSet {
 public:
  explicit CharacterSet(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = next_character(text, at);
      held_.insert(text.substr(at, end - at));
      sizes_.insert(end - at);
      at = end;
    }
  }
  // How many bytes at the beginning, or at the end, are a character of the set; 0: none.
  std::size_t first(std::string_view text) const {
    return fits([&](std::size_t size) { return text.substr(0, size); }, text.size());
  }
  std::size_t last(std::string_view text) const {
    return fits([&](std::size_t size) { return text.substr(text.size() - size); }, text.size());
  }

 private:
  template <class Part>
  std::size_t fits(const Part& part, std::size_t most) const {
    for (const std::size_t size : sizes_) {
      if (size <= most && held_.contains(part(size))) return size;
    }
    return 0;
  }
  std::unordered_set<std::string_view> held_;
  std::set<std::size_t> sizes_;
};

template <bool left, bool right>
void trim(const Call& call) {
  std::string_view text = plain(call, 0);
  const std::string_view characters = call.count > 1 ? plain(call, 1) : std::string_view(" ");
  if (text.size() + characters.size() > small_bytes) ask(call);
  const CharacterSet set(characters);
  std::size_t steps = 0;
  const auto on = [&](std::size_t size) {
    if (++steps % steps_between_questions == 0) ask(call);
    return size != 0;
  };
  for (std::size_t size; left && !text.empty() && on(size = set.first(text));)
    text.remove_prefix(size);
  for (std::size_t size; right && !text.empty() && on(size = set.last(text));)
    text.remove_suffix(size);
  call.answer(text);
}

// LIKE and GLOB. Both backtrack to the last wildcard only, so the number of steps is at most text
// times pattern, and they ask in between.
struct Wildcards {
  char all, one;
  bool sets, ignore_case;
  std::string_view escape;
};

bool same(std::string_view a, std::string_view b, bool ignore_case) {
  return ignore_case ? text::same(a, b) : a == b;
}

// Matches "[a-z]" at `p` and moves `p` past it. If it is not closed, the result is false and `p` is
// at the end.
bool in_set(std::string_view pattern, std::size_t& p, std::string_view character) {
  const auto take = [&] {
    const std::size_t at = p;
    p = next_character(pattern, p);
    return pattern.substr(at, p - at);
  };
  ++p;
  bool seen = false, invert = false;
  if (p < pattern.size() && pattern[p] == '^') invert = true, ++p;
  if (p < pattern.size() && pattern[p] == ']') {
    seen = character == "]";
    ++p;
  }
  std::string_view before;
  while (p < pattern.size() && pattern[p] != ']') {
    // Comparing UTF-8 bytes gives the order of code points.
    if (pattern[p] == '-' && p + 1 < pattern.size() && pattern[p + 1] != ']' && !before.empty()) {
      ++p;
      const std::string_view last = take();
      seen = seen || (character >= before && character <= last);
      before = {};
    } else {
      before = take();
      seen = seen || character == before;
    }
  }
  if (p >= pattern.size()) return false;
  ++p;
  return seen != invert;
}

bool is_plain(char c) { return static_cast<unsigned char>(c) < 0x80; }

// A fast path for CHECKs of stored formats. If the pattern begins with a plain ASCII character or a
// simple set such as "[0-9]" that matches the ASCII character, returns how many bytes of the
// pattern that takes. 0: no match, or the general code must decide.
std::size_t fits_plainly(char here, std::string_view pattern, const Wildcards& how) {
  const char first = pattern[0];
  if (!is_plain(here) || !is_plain(first) || first == how.all || first == how.one ||
      !how.escape.empty())
    return 0;
  if (!how.sets || first != '[')
    return first == here || (how.ignore_case && text::lower(first) == text::lower(here)) ? 1 : 0;
  if (pattern.size() < 5 || pattern[2] != '-' || pattern[4] != ']' || pattern[1] == '^' ||
      pattern[1] == ']' || pattern[3] == ']' || !is_plain(pattern[1]) || !is_plain(pattern[3]))
    return 0;
  return here >= pattern[1] && here <= pattern[3] ? 5 : 0;
}

bool matches(const Call& call, std::string_view text, std::string_view pattern,
             const Wildcards& how) {
  std::size_t t = 0, p = 0, star = std::string_view::npos, again = 0, steps = 0;
  while (t < text.size()) {
    if (p < pattern.size()) {
      if (const std::size_t size = fits_plainly(text[t], pattern.substr(p), how); size != 0) {
        ++t;
        p += size;
        if (++steps % steps_between_questions == 0) ask(call);
        continue;
      }
    }
    if (++steps % steps_between_questions == 0) ask(call);
    bool fits = false;
    if (p < pattern.size()) {
      const std::size_t size = next_character(text, t) - t;
      const std::string_view here = text.substr(t, size);
      const std::size_t end = next_character(pattern, p);
      const std::string_view wanted = pattern.substr(p, end - p);
      if (!how.escape.empty() && wanted == how.escape) {
        if (end >= pattern.size()) return false;
        const std::size_t last = next_character(pattern, end);
        fits = same(here, pattern.substr(end, last - end), how.ignore_case);
        if (fits) p = last;
      } else if (wanted.size() == 1 && wanted[0] == how.all) {
        star = p = end;
        again = t;
        continue;
      } else if (wanted.size() == 1 && wanted[0] == how.one) {
        fits = true;
        p = end;
      } else if (how.sets && wanted == "[") {
        std::size_t behind = p;
        fits = in_set(pattern, behind, here);
        if (fits) p = behind;
      } else {
        fits = same(here, wanted, how.ignore_case);
        if (fits) p = end;
      }
      if (fits) {
        t += size;
        continue;
      }
    }
    if (star == std::string_view::npos) return false;
    t = again = next_character(text, again);
    p = star;
  }
  while (p < pattern.size() && pattern[p] == how.all && pattern.substr(p, 1) != how.escape) ++p;
  return p == pattern.size();
}

constexpr std::size_t pattern_bytes_max = 1000;

std::string_view until_nul(std::string_view text) { return text.substr(0, text.find('\0')); }

void pattern_call(const Call& call, const Wildcards& how) {
  // Follows the options that this SQLite was built with.
  static const bool blobs_never = sqlite3_compileoption_used("LIKE_DOESNT_MATCH_BLOBS") != 0;
  if (blobs_never && (call.type(0) == SQLITE_BLOB || call.type(1) == SQLITE_BLOB))
    return call.answer(false);
  if (call.type(0) == SQLITE_NULL || call.type(1) == SQLITE_NULL)
    return sqlite3_result_null(call.context);
  const std::string_view pattern = plain(call, 0), text = plain(call, 1);
  if (pattern.size() > pattern_bytes_max)
    throw Failed{SQLITE_ERROR, "LIKE or GLOB pattern too complex"};
  // SQLite ends both texts at a NUL.
  call.answer(matches(call, until_nul(text), until_nul(pattern), how));
}

void like(const Call& call) {
  std::string_view escape;
  if (call.count > 2) {
    if (call.type(2) == SQLITE_NULL) return sqlite3_result_null(call.context);
    escape = plain(call, 2);
    if (escape.empty() || next_character(escape, 0) != escape.size())
      throw Failed{SQLITE_ERROR, "ESCAPE expression must be a single character"};
  }
  pattern_call(call, {'%', '_', false, true, escape});
}

void glob(const Call& call) { pattern_call(call, {'*', '?', true, false, {}}); }

// Runs SQLite's own json_patch on a connection without tables. It compares each key of one document
// with each of the other, and cannot be stopped, so its work is bounded.
void json_patch(const Call& call) {
  constexpr double work_max =
      16e9;  // product of both sizes in bytes: about two seconds for short keys
  const std::string_view target = plain(call, 0), patch = plain(call, 1);
  if (static_cast<double>(target.size()) * static_cast<double>(patch.size()) > work_max)
    throw Failed{SQLITE_TOOBIG, "json_patch() of values this long is not supported here"};
  struct Aside {
    sqlite3* db = nullptr;
    sqlite3_stmt* statement = nullptr;
    Aside() {
      if (sqlite3_open_v2(":memory:", &db,
                          SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX,
                          nullptr) != SQLITE_OK ||
          sqlite3_prepare_v3(db, "SELECT json_patch(?1, ?2)", -1, SQLITE_PREPARE_PERSISTENT,
                             &statement, nullptr) != SQLITE_OK) {
        sqlite3_close(db);
        throw std::bad_alloc();
      }
    }
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;
    ~Aside() {
      sqlite3_finalize(statement);
      sqlite3_close(db);
    }
  };
  static thread_local Aside aside;
  struct Reset {
    ~Reset() {
      sqlite3_reset(aside.statement);
      sqlite3_clear_bindings(aside.statement);
    }
  } reset;
  sqlite3_bind_value(aside.statement, 1, call.values[0]);
  sqlite3_bind_value(aside.statement, 2, call.values[1]);
  if (sqlite3_step(aside.statement) != SQLITE_ROW)
    return sqlite3_result_error(call.context, sqlite3_errmsg(aside.db), -1);
  sqlite3_result_value(call.context, sqlite3_column_value(aside.statement, 0));
  constexpr unsigned json_subtype = 'J';
  if (sqlite3_column_type(aside.statement, 0) == SQLITE_TEXT)
    sqlite3_result_subtype(call.context, json_subtype);
}

// --- functions about the stream

// While a statement changes rows, its triggers see what the statement itself has changed.
void changes(const Call& call) {
  sqlite3* db = sqlite3_context_db_handle(call.context);
  const bool moved = sqlite3_total_changes64(db) != call.serving.total_before;
  call.answer(moved ? static_cast<std::int64_t>(sqlite3_changes64(db)) : call.serving.changes);
}

void total_changes(const Call& call) {
  sqlite3* db = sqlite3_context_db_handle(call.context);
  call.answer(static_cast<std::int64_t>(call.serving.total_changes +
                                        (sqlite3_total_changes64(db) - call.serving.total_before)));
}

void declare(const Call& call) {
  std::optional<Want> claim;
  const bool scope_absent = call.type(0) == SQLITE_NULL, term_absent = call.type(1) == SQLITE_NULL;
  if (scope_absent != term_absent)
    throw InvalidInput("TG005 termgate_declare() takes a scope and a term, or NULL for both");
  if (!scope_absent) {
    if (call.type(0) != SQLITE_TEXT || call.type(1) != SQLITE_INTEGER)
      throw InvalidInput(
          "TG005 termgate_declare() takes a scope, which is a text, and a term, which is an "
          "integer");
    const Scope scope{std::string(plain(call, 0))};
    const Term term(sqlite3_value_int64(call.values[1]));
    claim = Want{scope.name(), term.value()};
  }
  if (!call.serving.declare) throw InvalidInput("TG005 termgate_declare() is for streams");
  call.serving.declare(std::move(claim));
  sqlite3_result_null(call.context);
}

void note_claim(const Call& call) {
  if (call.type(0) == SQLITE_TEXT && call.type(1) == SQLITE_INTEGER)
    call.serving.asked_for = Want{std::string(plain(call, 0)), sqlite3_value_int64(call.values[1])};
  throw Failed{SQLITE_ERROR, "a check is not made on a connection that reads"};
}

template <void (*run)(const Call&), bool nulls>
void call_it(sqlite3_context* context, int count, sqlite3_value** values) {
  for (int i = 0; !nulls && i < count; ++i) {
    if (sqlite3_value_type(values[i]) == SQLITE_NULL) return sqlite3_result_null(context);
  }
  try {
    run(Call(context, count, values));
  } catch (const Stopped&) {
    sqlite3_result_error_code(context, SQLITE_INTERRUPT);
  } catch (const Failed& failed) {
    sqlite3_result_error(context, failed.message, -1);
    sqlite3_result_error_code(context, failed.code);
    if (failed.code == SQLITE_ERROR) sqlite3_result_error(context, failed.message, -1);
  } catch (const std::bad_alloc&) {
    sqlite3_result_error_nomem(context);
  } catch (const std::exception& error) { sqlite3_result_error(context, error.what(), -1); }
}

using Run = void (*)(sqlite3_context*, int, sqlite3_value**);
constexpr int plainly = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
constexpr int directly = SQLITE_UTF8 | SQLITE_DIRECTONLY;
constexpr int of_stream = SQLITE_UTF8 | SQLITE_INNOCUOUS;

void add(sqlite3* db, const char* name, int arguments, int flags, Serving& serving, Run run) {
  if (sqlite3_create_function_v2(db, name, arguments, flags, &serving, run, nullptr, nullptr,
                                 nullptr) != SQLITE_OK)
    throw std::bad_alloc();
}

}  // namespace

void install_functions(sqlite3* db, Serving& serving, bool writes) {
  add(db, "instr", 2, plainly, serving, call_it<instr, false>);
  add(db, "replace", 3, plainly, serving, call_it<replace, true>);
  for (const int arguments : {1, 2}) {
    add(db, "trim", arguments, plainly, serving, call_it<trim<true, true>, false>);
    add(db, "ltrim", arguments, plainly, serving, call_it<trim<true, false>, false>);
    add(db, "rtrim", arguments, plainly, serving, call_it<trim<false, true>, false>);
  }
  add(db, "json_patch", 2, plainly | SQLITE_SUBTYPE, serving, call_it<json_patch, false>);
  add(db, "changes", 0, of_stream, serving, call_it<changes, true>);
  add(db, "total_changes", 0, of_stream, serving, call_it<total_changes, true>);
  add(db, "termgate_declare", 2, directly, serving, call_it<declare, true>);
  if (!writes) {
    add(db, "termgate_check_term", 2, directly, serving, call_it<note_claim, true>);
    for (const int arguments : {2, 3, 4, 5})
      add(db, "termgate_seal", arguments, directly, serving, call_it<note_claim, true>);
    add(db, "termgate_claim_write", 3, directly, serving, call_it<note_claim, true>);
    return;
  }
  // An index can only be used by SQLite's own LIKE and GLOB, so reading connections keep those.
  add(db, "like", 2, plainly, serving, call_it<like, true>);
  add(db, "like", 3, plainly, serving, call_it<like, true>);
  add(db, "glob", 2, plainly, serving, call_it<glob, true>);
}

}  // namespace termgate::sqlite_file
