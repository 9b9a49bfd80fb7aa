// SQLite's own functions that can take hours within one instruction, where nothing can stop them: a text in a text, a pattern with many
// wildcards, a long set of characters, one big object merged into another. Here they give the same answers in linear time, or ask
// whether to go on. Indexes and CHECKs of the file may use them, so the answers must be SQLite's, to the byte.
#include <algorithm>
#include <cstring>
#include <new>
#include <set>
#include <unordered_set>

#include "functions/functions.hpp"
#include "session/search.hpp"

namespace termgate::sqlite_server {
namespace {

constexpr std::size_t small_bytes = 64 * 1024;
constexpr std::size_t steps_between_questions = 1 << 20;
constexpr std::size_t made_bytes_max = std::size_t{1} << 26;

void ask(const Call& call) {
  if (call.state.session().cancelled()) fail("57014", "canceling statement due to user request");
}

// SQLite's text of a value, not PostgreSQL's.
std::string_view plain(const Call& call, int i) {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_value_text(call.values[i]));
  return bytes == nullptr ? std::string_view() : std::string_view(bytes, static_cast<std::size_t>(sqlite3_value_bytes(call.values[i])));
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// As SQLITE_SKIP_UTF8: a lead byte takes every continuation byte after it along.
std::size_t next_character(std::string_view text, std::size_t at) {
  if (static_cast<unsigned char>(text[at++]) < 0xC0) return at;
  while (at < text.size() && continues(text[at])) ++at;
  return at;
}

void instr(Call& call) {
  const bool bytes = call.type(0) == SQLITE_BLOB && call.type(1) == SQLITE_BLOB;
  const std::string_view text = bytes ? call.blob(0) : plain(call, 0), wanted = bytes ? call.blob(1) : plain(call, 1);
  if (wanted.empty()) return call.answer(std::int64_t{1});
  if (text.size() > small_bytes) ask(call);
  std::size_t at = find_text(text, wanted);
  // SQLite compares where a character begins, and counts characters: a byte that continues one is none of its own.
  while (!bytes && at != std::string_view::npos && at > 0 && continues(text[at])) {
    if (text.size() > small_bytes) ask(call);
    at = find_text(text, wanted, at + 1);
  }
  if (at == std::string_view::npos) return call.answer(std::int64_t{0});
  const std::string_view before = text.substr(0, at);
  call.answer(1 + static_cast<std::int64_t>(bytes || before.empty() ? at : 1 + std::count_if(before.begin() + 1, before.end(), [](char c) {
                                                                             return !continues(c);
                                                                           })));
}

void replace(Call& call) {
  const std::string_view text = plain(call, 0), wanted = plain(call, 1), put = plain(call, 2);
  if (wanted.empty()) return call.answer(text);
  if (text.size() > small_bytes) ask(call);
  std::string out;
  std::size_t from = 0, copied = 0;
  for (std::size_t at; (at = find_text(text, wanted, from)) != std::string_view::npos; from = at + wanted.size()) {
    out += text.substr(from, at - from);
    out += put;
    if (out.size() > made_bytes_max) fail("54000", "a value of more than " + std::to_string(made_bytes_max) + " bytes is too long");
    copied += at - from + put.size() + 1;
    if (copied > steps_between_questions) ask(call), copied = 0;
  }
  out += text.substr(from);
  call.answer(out);
}

// The characters of a set; SQLite takes the first of the set that fits, so only malformed UTF-8 could tell the order.
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
  // How many bytes at the beginning, or at the end, are one of them; 0: none.
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
void trim(Call& call) {
  std::string_view text = plain(call, 0);
  const std::string_view characters = plain(call, 1);
  if (text.size() + characters.size() > small_bytes) ask(call);
  const CharacterSet set(characters);
  std::size_t steps = 0;
  const auto on = [&](std::size_t size) {
    if (++steps % steps_between_questions == 0) ask(call);
    return size != 0;
  };
  for (std::size_t size; left && !text.empty() && on(size = set.first(text));) text.remove_prefix(size);
  for (std::size_t size; right && !text.empty() && on(size = set.last(text));) text.remove_suffix(size);
  call.answer(text);
}

// LIKE and GLOB. Both go back to the last wildcard only, so they take no more steps than text times pattern, and ask in between.
struct Wildcards {
  char all, one;
  bool sets, ignore_case;
  std::string_view escape;
};

char small_letter(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

bool same(std::string_view a, std::string_view b, bool ignore_case) {
  return a.size() == b.size() &&
         (ignore_case ? std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return small_letter(x) == small_letter(y); })
                      : a == b);
}

// "[a-z]" at `p`: whether it has the character; `p` after it. False with `p` at the end where it is not closed.
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
    // UTF-8 in the order of its code points.
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

// How many bytes of the pattern, which begins with an ASCII letter, digit or sign that is no wildcard, or with a set of two such ("[0-9]"),
// fit the ASCII character: what CHECKs of stored forms are made of. 0: it does not, or it takes more to tell.
std::size_t fits_plainly(char here, std::string_view pattern, const Wildcards& how) {
  const char first = pattern[0];
  if (!is_plain(here) || !is_plain(first) || first == how.all || first == how.one || !how.escape.empty()) return 0;
  if (!how.sets || first != '[') return first == here || (how.ignore_case && small_letter(first) == small_letter(here)) ? 1 : 0;
  if (pattern.size() < 5 || pattern[2] != '-' || pattern[4] != ']' || pattern[1] == '^' || pattern[1] == ']' || pattern[3] == ']' ||
      !is_plain(pattern[1]) || !is_plain(pattern[3]))
    return 0;
  return here >= pattern[1] && here <= pattern[3] ? 5 : 0;
}

bool matches(const Call& call, std::string_view text, std::string_view pattern, const Wildcards& how) {
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

constexpr std::size_t pattern_bytes_max = 50'000;  // SQLite's

std::string_view until_nul(std::string_view text) { return text.substr(0, text.find('\0')); }

void pattern_call(Call& call, const Wildcards& how) {
  // As this SQLite was built.
  static const bool blobs_never = sqlite3_compileoption_used("LIKE_DOESNT_MATCH_BLOBS") != 0;
  if (blobs_never && (call.type(0) == SQLITE_BLOB || call.type(1) == SQLITE_BLOB)) return call.answer(false);
  const std::string_view pattern = plain(call, 0), text = plain(call, 1);
  if (pattern.size() > pattern_bytes_max) fail("54000", "LIKE or GLOB pattern too complex");
  // SQLite ends both at a NUL.
  call.answer(matches(call, until_nul(text), until_nul(pattern), how));
}

void like(Call& call) {
  std::string_view escape;
  if (call.count > 2) {
    escape = plain(call, 2);
    if (escape.empty() || next_character(escape, 0) != escape.size()) fail("22019", "ESCAPE expression must be a single character");
  }
  pattern_call(call, {'%', '_', false, true, escape});
}

void glob(Call& call) { pattern_call(call, {'*', '?', true, false, {}}); }

// SQLite's own, on a connection without any table: it compares each key with each, and cannot be stopped.
void json_patch(Call& call) {
  constexpr double work_max = 16e9;  // bytes times bytes: about two seconds of short keys
  const std::string_view target = plain(call, 0), patch = plain(call, 1);
  if (static_cast<double>(target.size()) * static_cast<double>(patch.size()) > work_max)
    fail("54000", "json_patch() of values this long is not supported here");
  struct Aside {
    sqlite3* db = nullptr;
    sqlite3_stmt* statement = nullptr;
    Aside() {
      if (sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX, nullptr) != SQLITE_OK ||
          sqlite3_prepare_v3(db, "SELECT json_patch(?1, ?2)", -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr) != SQLITE_OK) {
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
  if (sqlite3_step(aside.statement) != SQLITE_ROW) return sqlite3_result_error(call.context, sqlite3_errmsg(aside.db), -1);
  sqlite3_result_value(call.context, sqlite3_column_value(aside.statement, 0));
  constexpr unsigned json_subtype = 'J';
  if (sqlite3_column_type(aside.statement, 0) == SQLITE_TEXT) sqlite3_result_subtype(call.context, json_subtype);
}

constexpr Body plain_bodies[] = {
    {"instr", instr}, {"replace", replace}, {"trim", trim<true, true>}, {"ltrim", trim<true, false>}, {"rtrim", trim<false, true>},
    {"like", like},   {"glob", glob},       {"json_patch", json_patch},
};

}  // namespace

std::span<const Body> plain_functions() { return plain_bodies; }

}  // namespace termgate::sqlite_server
