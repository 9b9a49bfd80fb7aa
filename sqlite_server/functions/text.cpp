// Text: patterns, parts, padding, quoting, encodings.
// Long: a family of SQL functions, one after the other, and the table of them.
#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <limits>
#include <locale>
#include <memory>
#include <unordered_map>

#include <boost/regex.hpp>

#include "values/forms.hpp"
#include "functions/functions.hpp"
#include "session/search.hpp"
#include "values/unicode.hpp"

namespace termgate::sqlite_server {
namespace {

// ------------------------------------------------------------------------------------------------ regular expressions

// PostgreSQL's escapes that Perl's syntax has otherwise: \m \M are the ends of words, \y any of them, \Y none.
std::string perl_pattern(std::string_view pattern) {
  std::string out;
  // Embedded options at the front: ***= takes the rest literally.
  if (pattern.starts_with("***=")) {
    for (const char c : pattern.substr(4)) {
      if (std::string_view(".[]{}()\\*+?|^$").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
    return out;
  }
  if (pattern.starts_with("***:")) pattern.remove_prefix(4);
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 >= pattern.size()) {
      out += pattern[i];
      continue;
    }
    const char next = pattern[++i];
    out += next == 'm'   ? "\\<"
           : next == 'M' ? "\\>"
           : next == 'y' ? "\\b"
           : next == 'Y' ? "\\B"
           : next == 'Z' ? "\\z"
                         : std::string("\\") + next;
  }
  return out;
}

// Texts of ASCII are matched by their bytes, all others by their characters.
struct Expression {
  std::string pattern;
  bool ignore_case = false;
  boost::regex bytes;
  boost::wregex characters;
  bool by_bytes = false, by_characters = false;  // which of them are compiled
  bool lazy = false;                             // has *? or its kin
};

constexpr std::size_t regex_bytes_max = 64 * 1024;

[[noreturn]] void unspoken(std::string_view what) {
  fail("0A000", std::string(what) + " in a regular expression is not supported on SQLite");
}

// What means something else to Boost: refused. Whether a quantifier takes as little as it can.
bool check_pattern(std::string_view pattern) {
  if (pattern.starts_with("***")) return false;
  bool lazy = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      ++i;
    } else if (pattern[i] == '[') {
      // A ] right after the beginning is one of the set.
      for (i += pattern.substr(i + 1, 1) == "^" ? 2 : 1; ++i < pattern.size() && pattern[i] != ']';) {
        if (pattern[i] == '[' && i + 1 < pattern.size() && (pattern[i + 1] == ':' || pattern[i + 1] == '.' || pattern[i + 1] == '='))
          i = std::min(pattern.find(']', i + 2), pattern.size());
      }
    } else if (pattern[i] == '(' && pattern.substr(i + 1, 1) == "?") {
      const char next = i + 2 < pattern.size() ? pattern[i + 2] : '\0';
      const auto end = pattern.find(')', i);
      if (next >= 'a' && next <= 'z' &&
          pattern.substr(i + 2, std::min(end, pattern.size()) - i - 2).find_first_not_of("ics") != std::string_view::npos)
        unspoken("an embedded option other than i");
      ++i;
    } else if (pattern[i] == '?' && i > 0 && std::string_view("*+?}").find(pattern[i - 1]) != std::string_view::npos &&
               !(i > 1 && pattern[i - 2] == '\\')) {
      lazy = true;
    }
  }
  return lazy;
}

template <class Regex, class Pattern>
void compile(Regex& regex, const Pattern& pattern, bool ignore_case) {
  try {
    regex.assign(pattern, boost::regex::perl | (ignore_case ? boost::regex::icase : boost::regex::normal));
  } catch (const boost::regex_error& error) { fail("2201B", std::string("invalid regular expression: ") + error.what()); }
}

const std::locale& letters_of_regex() {
  static const std::locale made = [] {
    try {
      return std::locale("C.UTF-8");
    } catch (const std::runtime_error&) {
      fail("0A000", "regular expressions beyond ASCII need the locale C.UTF-8, which this system does not have");
    }
  }();
  return made;
}

// Compiled once a statement where the pattern stays the same.
const Expression& expression_of(Call& call, int argument, bool ignore_case, bool by_bytes) {
  const std::string pattern = call.text(argument);
  auto* held = static_cast<Expression*>(sqlite3_get_auxdata(call.context, argument));
  if (held != nullptr && held->pattern == pattern && held->ignore_case == ignore_case && (by_bytes ? held->by_bytes : held->by_characters))
    return *held;
  if (pattern.size() > regex_bytes_max) fail("2201B", "invalid regular expression: regular expression is too complex");
  auto made = std::make_unique<Expression>();
  made->pattern = pattern;
  made->ignore_case = ignore_case;
  made->lazy = check_pattern(pattern);
  made->by_bytes = by_bytes;
  made->by_characters = !by_bytes;
  if (by_bytes) {
    compile(made->bytes, perl_pattern(pattern), ignore_case);
  } else {
    made->characters.imbue(letters_of_regex());
    compile(made->characters, wide(perl_pattern(pattern)), ignore_case);
  }
  // SQLite may drop it at once; the call under way needs it.
  static thread_local Expression current;
  current = *made;
  sqlite3_set_auxdata(call.context, argument, made.release(), [](void* old) { delete static_cast<Expression*>(old); });
  return current;
}

// ^ and $ are the ends of the text, and . is any character, as in PostgreSQL.
const auto matching = boost::match_default | boost::match_single_line;
// Where it matters which text matches, it is the longest, as POSIX and PostgreSQL have it.
const auto longest = matching | boost::match_posix;

// Between two matches: each of them is bounded, their number is not.
class Questions {
 public:
  void ask(const Call& call) {
    const auto now = std::chrono::steady_clock::now();
    if (now - looked_ < std::chrono::milliseconds(5)) return;
    looked_ = now;
    if (call.state.session().cancelled()) fail("57014", "canceling statement due to user request");
  }

 private:
  std::chrono::steady_clock::time_point looked_ = std::chrono::steady_clock::now();
};

// Boost ends a match that would take for ever with an exception.
template <class Work>
auto bounded(const Work& work) {
  try {
    return work();
  } catch (const CallError&) { throw; } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::runtime_error&) { fail("2201B", "regular expression failed: it would take too long on this text"); }
}

std::string utf8(std::string text) { return text; }
std::string utf8(const std::wstring& text) { return narrow(text); }

template <class Iterator>
auto piece(Iterator from, Iterator to) {
  return std::basic_string<typename std::iterator_traits<Iterator>::value_type>(from, to);
}

// work(text, regex) in bytes or in characters. `parts`: what matches is wanted, not only whether.
template <class Work>
void with_regex(Call& call, bool ignore_case, bool parts, const Work& work) {
  const std::string text = call.text(0);
  const bool by_bytes = is_ascii(text) && is_ascii(call.text(1));
  const Expression& expression = expression_of(call, 1, ignore_case, by_bytes);
  if (parts && expression.lazy) unspoken("a quantifier that takes as little as it can (*?)");
  bounded([&] {
    if (by_bytes) work(text, expression.bytes);
    else work(wide(text), expression.characters);
  });
}

// Of the flags those that change nothing else: g, i, c, s.
bool ignore_case_of(Call& call, int argument) {
  if (call.count <= argument) return false;
  const std::string flags = call.text(argument);
  for (const char c : flags) {
    if (std::string_view("nmpwxqeb").find(c) != std::string_view::npos)
      fail("0A000", "the option \"" + std::string(1, c) + "\" of a regular expression is not supported on SQLite");
    if (std::string_view("gics").find(c) == std::string_view::npos)
      fail("22023", "invalid regular expression option: \"" + std::string(1, c) + "\"");
  }
  const auto last = flags.find_last_of("ic");
  return last != std::string::npos && flags[last] == 'i';
}

template <bool ignore_case>
void regexp(Call& call) {
  with_regex(call, ignore_case, false,
             [&](const auto& text, const auto& regex) { call.answer(boost::regex_search(text, regex, matching)); });
}

void substring_regexp(Call& call) {
  with_regex(call, false, true, [&](const auto& text, const auto& regex) {
    boost::match_results<typename std::decay_t<decltype(text)>::const_iterator> match;
    if (!boost::regex_search(text, match, regex, longest)) return call.answer_null();
    // The first group, where there is one.
    const auto& part = match.size() > 1 ? match[1] : match[0];
    part.matched ? call.answer(utf8(part.str())) : call.answer_null();
  });
}

void regexp_match(Call& call) {
  if (call.count > 2 && call.text(2).find('g') != std::string::npos) fail("22023", "regexp_match() does not support the \"global\" option");
  with_regex(call, ignore_case_of(call, 2), true, [&](const auto& text, const auto& regex) {
    boost::match_results<typename std::decay_t<decltype(text)>::const_iterator> match;
    if (!boost::regex_search(text, match, regex, longest)) return call.answer_null();
    Elements groups;
    for (std::size_t i = match.size() > 1 ? 1 : 0; i < match.size(); ++i)
      groups.push_back(match[i].matched ? std::optional(utf8(match[i].str())) : std::nullopt);
    call.answer(array_literal(groups));
  });
}

// What \1 to \9, \& and \\ stand for.
template <class Match>
void append_replacement(std::string& out, const std::string& replacement, const Match& match) {
  for (std::size_t i = 0; i < replacement.size(); ++i) {
    if (replacement[i] != '\\' || i + 1 >= replacement.size()) {
      out += replacement[i];
      continue;
    }
    const char next = replacement[++i];
    if (next == '&') out += utf8(match[0].str());
    else if (next >= '1' && next <= '9') out += utf8(match[next - '0'].str());
    else if (next == '\\') out += '\\';
    else (out += '\\') += next;
  }
}

void regexp_replace(Call& call) {
  const std::string replacement = call.text(2);
  const bool all = call.count > 3 && call.text(3).find('g') != std::string::npos;
  with_regex(call, ignore_case_of(call, 3), true, [&](const auto& text, const auto& regex) {
    using Iterator = typename std::decay_t<decltype(text)>::const_iterator;
    std::string out;
    auto from = text.begin();
    Questions questions;
    for (boost::regex_iterator<Iterator> match(text.begin(), text.end(), regex, longest), none; match != none; ++match) {
      questions.ask(call);
      out += utf8(piece(from, (*match)[0].first));
      append_replacement(out, replacement, *match);
      from = (*match)[0].second;
      if (!all) break;
    }
    call.answer(out + utf8(piece(from, text.end())));
  });
}

void regexp_split(Call& call) {
  with_regex(call, ignore_case_of(call, 2), true, [&](const auto& text, const auto& regex) {
    using Iterator = typename std::decay_t<decltype(text)>::const_iterator;
    Elements parts;
    auto from = text.begin();
    Questions questions;
    for (boost::regex_iterator<Iterator> match(text.begin(), text.end(), regex, longest), none; match != none; ++match) {
      questions.ask(call);
      // An empty match splits between characters, not at the ends.
      if ((*match)[0].first == (*match)[0].second && ((*match)[0].first == text.begin() || (*match)[0].first == text.end())) continue;
      parts.emplace_back(utf8(piece(from, (*match)[0].first)));
      from = (*match)[0].second;
    }
    parts.emplace_back(utf8(piece(from, text.end())));
    call.answer(array_literal(parts));
  });
}

// SIMILAR TO: % and _ as in LIKE, | * + ? {} () [] as in regular expressions, the rest literally.
void similar(Call& call) {
  const std::string text = call.text(0), pattern = call.text(1);
  const std::string escape = call.count > 2 ? call.text(2) : "\\";
  std::string perl = "\\A(?:";
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (!escape.empty() && c == escape[0] && i + 1 < pattern.size()) (perl += '\\') += pattern[++i];
    else if (c == '%') perl += "[\\s\\S]*";
    else if (c == '_') perl += "[\\s\\S]";
    else if (c == '.' || c == '^' || c == '$' || c == '\\') (perl += '\\') += c;
    else if (c == '[') {
      const auto end = pattern.find(']', i + 2);
      const std::string set = pattern.substr(i, end == std::string::npos ? end : end - i + 1);
      perl += set;
      i += set.size() - 1;
    } else perl += c;
  }
  perl += ")\\z";
  bounded([&] {
    if (is_ascii(text) && is_ascii(perl)) {
      boost::regex regex;
      compile(regex, perl, false);
      return call.answer(boost::regex_search(text, regex, matching));
    }
    boost::wregex regex;
    regex.imbue(letters_of_regex());
    compile(regex, wide(perl), false);
    call.answer(boost::regex_search(wide(text), regex, matching));
  });
}

// ------------------------------------------------------------------------------------------------ LIKE

std::size_t step_of(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  return std::min(size, text.size() - at);
}

// Goes back to the last % only, so it takes no more steps than text times pattern; between them it asks whether to go on.
bool like(Call& call, std::string_view text, std::string_view pattern, std::string_view escape) {
  constexpr std::size_t steps_before_asking = 1 << 20;
  std::size_t t = 0, p = 0, star = std::string_view::npos, again = 0, steps = 0;
  while (t < text.size()) {
    if (++steps % steps_before_asking == 0 && call.state.session().cancelled()) fail("57014", "canceling statement due to user request");
    if (p < pattern.size() && !escape.empty() && pattern.substr(p, escape.size()) == escape) {
      const std::size_t literal = p + escape.size();
      if (literal >= pattern.size()) fail("22025", "LIKE pattern must not end with escape character");
      const std::size_t size = step_of(pattern, literal);
      if (text.substr(t, size) == pattern.substr(literal, size)) {
        t += size;
        p = literal + size;
        continue;
      }
    } else if (p < pattern.size() && pattern[p] == '%') {
      star = ++p;
      again = t;
      continue;
    } else if (p < pattern.size() && pattern[p] == '_') {
      t += step_of(text, t);
      ++p;
      continue;
    } else if (p < pattern.size()) {
      const std::size_t size = step_of(pattern, p);
      if (text.substr(t, size) == pattern.substr(p, size)) {
        t += size;
        p += size;
        continue;
      }
    }
    if (star == std::string_view::npos) return false;
    again += step_of(text, again);
    t = again;
    p = star;
  }
  while (p < pattern.size() && pattern[p] == '%') ++p;
  return p == pattern.size();
}

template <bool ignore_case>
void like_call(Call& call) {
  std::string text = call.text(0), pattern = call.text(1);
  const std::string escape = call.count > 2 ? call.text(2) : "\\";
  if (characters(escape).size() > 1) fail("22019", "invalid escape string");
  if (ignore_case) text = lower_text(text), pattern = lower_text(pattern);
  call.answer(like(call, text, pattern, ignore_case ? lower_text(escape) : escape));
}

// LIKE reads a backslash as the escape: what escapes in `pattern` becomes one, and its own backslashes are doubled. An empty escape: none.
void like_escape(Call& call) {
  const std::string pattern = call.text(0), escape = call.text(1);
  if (characters(escape).size() > 1) fail("22025", "invalid escape string");
  if (escape == "\\") return call.answer(pattern);
  std::string out;
  bool escaped = false;
  for (const std::string_view each : characters(pattern)) {
    if (each == escape && !escaped) {
      out += '\\';
      escaped = true;
      continue;
    }
    if (each == "\\" && !escaped) out += '\\';
    out += each;
    escaped = false;
  }
  call.answer(out);
}

// ------------------------------------------------------------------------------------------------ parts

std::string joined(const std::vector<std::string_view>& characters, std::size_t from, std::size_t to) {
  std::string out;
  for (std::size_t i = from; i < to && i < characters.size(); ++i) out += characters[i];
  return out;
}

void left(Call& call) {
  const std::string text = call.text(0);
  const auto all = characters(text);
  const std::int64_t count = call.whole(1), size = static_cast<std::int64_t>(all.size());
  call.answer(
      joined(all, 0, static_cast<std::size_t>(std::clamp<std::int64_t>(count < 0 ? size + std::max(count, -size) : count, 0, size))));
}
void right(Call& call) {
  const std::string text = call.text(0);
  const auto all = characters(text);
  const std::int64_t count = call.whole(1), size = static_cast<std::int64_t>(all.size());
  const std::int64_t from = count < 0 ? std::min(-std::max(count, -size), size) : size - std::min(count, size);
  call.answer(joined(all, static_cast<std::size_t>(from), all.size()));
}

constexpr std::int64_t made_characters_max = 1 << 26;

template <bool before>
void pad(Call& call) {
  const std::string text = call.text(0), fill_text = call.count > 2 ? call.text(2) : " ";
  const auto all = characters(text), fill = characters(fill_text);
  const std::int64_t wanted = std::max<std::int64_t>(call.whole(1), 0), size = static_cast<std::int64_t>(all.size());
  if (wanted > made_characters_max) fail("54000", "requested length too large");
  if (size >= wanted || fill.empty()) return call.answer(joined(all, 0, static_cast<std::size_t>(std::min(wanted, size))));
  std::string padding;
  for (std::int64_t i = 0; i < wanted - size; ++i) padding += fill[static_cast<std::size_t>(i) % fill.size()];
  call.answer(before ? padding + text : text + padding);
}

void repeat(Call& call) {
  const std::string text = call.text(0);
  const std::int64_t times = std::max<std::int64_t>(call.whole(1), 0);
  if (!text.empty() && times > made_characters_max / static_cast<std::int64_t>(text.size())) fail("54000", "requested length too large");
  std::string out;
  if (!text.empty()) {
    out.reserve(text.size() * static_cast<std::size_t>(times));
    for (std::int64_t i = 0; i < times; ++i) out += text;
  }
  call.answer(out);
}

void reverse(Call& call) {
  const std::string text = call.text(0);
  const auto all = characters(text);
  std::string out;
  for (auto each = all.rbegin(); each != all.rend(); ++each) out += *each;
  call.answer(out);
}

void split_part(Call& call) {
  const std::string text = call.text(0), separator = call.text(1);
  const std::int64_t wanted = call.whole(2);
  if (wanted == 0) fail("22023", "field position must not be zero");
  std::vector<std::string_view> parts;
  std::string_view rest = text;
  for (;;) {
    const auto at = separator.empty() ? std::string_view::npos : find_text(rest, separator);
    parts.push_back(rest.substr(0, at));
    if (at == std::string_view::npos) break;
    rest.remove_prefix(at + separator.size());
  }
  const auto size = static_cast<std::int64_t>(parts.size());
  const std::int64_t place = wanted > 0 ? wanted - 1 : wanted < -size ? -1 : size + wanted;
  call.answer(place >= 0 && place < size ? parts[static_cast<std::size_t>(place)] : std::string_view());
}

void translate_characters(Call& call) {
  const std::string text = call.text(0), from_text = call.text(1), to_text = call.text(2);
  const auto from = characters(from_text), to = characters(to_text);
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < from.size(); ++i) places.emplace(from[i], i);  // the first of a character counts
  std::string out;
  for (const std::string_view each : characters(text)) {
    const auto found = places.find(each);
    if (found == places.end()) out += each;
    else if (found->second < to.size()) out += to[found->second];
  }
  call.answer(out);
}

// From 1; what lies before cuts the count.
void substr_call(Call& call) {
  const bool bytes = call.type(0) == SQLITE_BLOB;
  const std::string text = bytes ? std::string(call.blob(0)) : call.text(0);
  std::vector<std::string_view> all;
  if (bytes) {
    for (std::size_t i = 0; i < text.size(); ++i) all.push_back(std::string_view(text).substr(i, 1));
  } else {
    all = characters(text);
  }
  const std::int64_t size = static_cast<std::int64_t>(all.size()), start = call.whole(1);
  std::int64_t end = size + 1;
  if (call.count > 2) {
    if (call.whole(2) < 0) fail("22011", "negative substring length not allowed");
    if (__builtin_add_overflow(start, call.whole(2), &end)) end = size + 1;
  }
  const std::int64_t first = std::clamp<std::int64_t>(start, 1, size + 1), last = std::clamp<std::int64_t>(end, first, size + 1);
  const std::string part = joined(all, static_cast<std::size_t>(first - 1), static_cast<std::size_t>(last - 1));
  bytes ? call.answer_blob(part) : call.answer(part);
}

void overlay(Call& call) {
  const std::string text = call.text(0), put = call.text(1);
  const auto all = characters(text);
  const std::int64_t size = static_cast<std::int64_t>(all.size()), from = call.whole(2);
  if (from < 1) fail("22011", "negative substring length not allowed");
  const std::int64_t count = call.count > 3 ? call.whole(3) : static_cast<std::int64_t>(characters(put).size());
  std::int64_t rest = 0;
  if (__builtin_add_overflow(from - 1, count, &rest)) rest = size;
  call.answer(joined(all, 0, static_cast<std::size_t>(std::min(from - 1, size))) + put +
              joined(all, static_cast<std::size_t>(std::clamp<std::int64_t>(rest, 0, size)), all.size()));
}

void concat(Call& call) {
  std::string out;
  for (int i = 0; i < call.count; ++i) {
    if (!call.null(i)) out += call.text(i);
  }
  call.answer(out);
}
void concat_ws(Call& call) {
  if (call.null(0)) return call.answer_null();
  const std::string separator = call.text(0);
  std::string out;
  bool first = true;
  for (int i = 1; i < call.count; ++i) {
    if (call.null(i)) continue;
    if (!first) out += separator;
    out += call.text(i);
    first = false;
  }
  call.answer(out);
}

// ------------------------------------------------------------------------------------------------ quoting, encoding

std::string literal(std::string_view text) {
  const bool escapes = text.find('\\') != std::string_view::npos;
  std::string out = escapes ? "E'" : "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += c;
    out += c;
  }
  return out + "'";
}

// %s %I %L with n$, a width and -.
void format(Call& call) {
  if (call.null(0)) return call.answer_null();
  const std::string pattern = call.text(0);
  std::string out;
  int next = 1;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      out += pattern[i];
      continue;
    }
    if (++i >= pattern.size()) fail("22023", "unterminated format() type specifier");
    if (pattern[i] == '%') {
      out += '%';
      continue;
    }
    const auto number = [&] {
      std::int64_t value = 0;
      while (i < pattern.size() && pattern[i] >= '0' && pattern[i] <= '9')
        value = std::min<std::int64_t>(value * 10 + (pattern[i++] - '0'), made_characters_max);
      return value;
    };
    std::int64_t width = 0;
    bool left_aligned = false;
    const std::size_t begin = i;
    if (const std::int64_t place = number(); i < pattern.size() && pattern[i] == '$' && i > begin) {
      if (place < 1) fail("22023", "format specifies argument 0, but arguments are numbered from 1");
      next = static_cast<int>(std::min<std::int64_t>(place, 1000));
      ++i;
    } else {
      i = begin;
    }
    if (i < pattern.size() && pattern[i] == '-') {
      left_aligned = true;
      ++i;
    }
    width = number();
    if (i >= pattern.size()) fail("22023", "unterminated format() type specifier");
    if (next >= call.count) fail("22023", "too few arguments for format()");
    const int argument = next++;
    std::string value;
    if (pattern[i] == 's') value = call.null(argument) ? "" : call.text(argument);
    else if (pattern[i] == 'I') {
      if (call.null(argument)) fail("22004", "null values cannot be formatted as an SQL identifier");
      value = quoted_identifier(call.text(argument));
    } else if (pattern[i] == 'L') value = call.null(argument) ? "NULL" : literal(call.text(argument));
    else fail("22023", "unrecognized format() type specifier \"" + pattern.substr(i, 1) + "\"");
    const auto size = static_cast<std::int64_t>(characters(value).size());
    const std::string padding(size < width ? static_cast<std::size_t>(width - size) : 0, ' ');
    out += left_aligned ? value + padding : padding + value;
  }
  call.answer(out);
}

constexpr std::string_view base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void encode(Call& call) {
  const std::string bytes = call.type(0) == SQLITE_BLOB ? std::string(call.blob(0)) : call.text(0), how = lower(call.text(1));
  std::string out;
  if (how == "hex") {
    (void)append_bytea(out, Stored(Blob{bytes}), Format::text);
    return call.answer(std::string_view(out).substr(2));
  }
  if (how == "base64") {
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
      std::uint32_t group = 0;
      const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
      for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0);
      for (std::size_t k = 0; k < 4; ++k) out += k <= count ? base64[group >> (18 - 6 * k) & 63] : '=';
      // Lines of 76, as MIME has them.
      if (i % 57 == 54 && i + 3 < bytes.size()) out += '\n';
    }
    return call.answer(out);
  }
  if (how == "escape") {
    for (const char c : bytes) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '\\') out += "\\\\";
      else if (byte == 0 || byte >= 0x80) {
        out += '\\';
        for (const int shift : {6, 3, 0}) out += static_cast<char>('0' + (byte >> shift & 7));
      } else out += c;
    }
    return call.answer(out);
  }
  fail("22023", "unrecognized encoding: \"" + call.text(1) + "\"");
}

void decode(Call& call) {
  const std::string text = call.text(0), how = lower(call.text(1));
  if (how == "hex" || how == "escape") {
    auto parsed = parse_bytea((how == "hex" ? "\\x" : "") + text);
    if (auto* problem = std::get_if<SqlError>(&parsed)) throw CallError{std::move(*problem)};
    return call.answer_stored(std::get<Stored>(parsed));
  }
  if (how != "base64") fail("22023", "unrecognized encoding: \"" + call.text(1) + "\"");
  std::string out;
  std::uint32_t group = 0;
  int held = 0, padding = 0;
  for (const char c : text) {
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
    const auto value = base64.find(c);
    if (c == '=') ++padding;
    else if (value == std::string_view::npos || padding > 0)
      fail("22023", "invalid symbol \"" + std::string(1, c) + "\" found while decoding base64 sequence");
    group = group << 6 | (c == '=' ? 0 : static_cast<std::uint32_t>(value));
    if (++held == 4) {
      for (int k = 0; k < 3 - padding; ++k) out += static_cast<char>(group >> (16 - 8 * k) & 0xff);
      group = 0;
      held = 0;
    }
  }
  if (held != 0 || padding > 2) fail("22023", "invalid base64 end sequence");
  call.answer_blob(out);
}

void to_hex(Call& call) {
  auto value = static_cast<std::uint64_t>(call.whole(0));
  if (call.whole(0) < 0 && call.whole(0) >= std::numeric_limits<std::int32_t>::min()) value &= 0xffff'ffffU;
  std::string out;
  do {
    out.insert(out.begin(), "0123456789abcdef"[value & 15]);
    value >>= 4;
  } while (value != 0);
  call.answer(out);
}

// clang-format off
constexpr Body text_bodies[] = {
    {"pg_regexp", regexp<false>}, {"pg_iregexp", regexp<true>}, {"pg_similar", similar}, {"pg_like", like_call<false>}, {"pg_ilike", like_call<true>}, {"pg_like_escape", like_escape}, {"pg_substring_regexp", substring_regexp},
    {"regexp_replace", regexp_replace}, {"regexp_match", regexp_match}, {"regexp_split_to_array", regexp_split}, {"pg_substr", substr_call}, {"pg_overlay", overlay},
    {"pg_quote_literal", [](Call& call) { call.answer(literal(call.text(0))); }}, {"quote_nullable", [](Call& call) { call.answer(call.null(0) ? "NULL" : literal(call.text(0))); }, true},
    {"quote_ident", [](Call& call) { call.answer(quoted_identifier(call.text(0))); }}, {"pg_format", format, true}, {"concat", concat, true}, {"concat_ws", concat_ws, true}, {"left", left}, {"right", right},
    {"lpad", pad<true>}, {"rpad", pad<false>}, {"repeat", repeat}, {"reverse", reverse}, {"initcap", [](Call& call) { call.answer(initcap_text(call.text(0))); }}, {"pg_lower", [](Call& call) { call.answer(lower_text(call.text(0))); }},
    {"pg_upper", [](Call& call) { call.answer(upper_text(call.text(0))); }}, {"split_part", split_part}, {"translate", translate_characters},
    {"starts_with", [](Call& call) { call.answer(call.text(0).starts_with(call.text(1))); }}, {"md5", [](Call& call) { call.answer(md5_hex(call.type(0) == SQLITE_BLOB ? std::string(call.blob(0)) : call.text(0))); }},
    {"encode", encode}, {"decode", decode}, {"octet_length", [](Call& call) { call.answer(static_cast<std::int64_t>(call.type(0) == SQLITE_BLOB ? call.blob(0).size() : call.text(0).size())); }},
    {"bit_length", [](Call& call) { call.answer(static_cast<std::int64_t>(call.type(0) == SQLITE_BLOB ? call.blob(0).size() : call.text(0).size()) * 8); }}, {"to_hex", to_hex},
};
// clang-format on

}  // namespace

std::span<const Body> text_functions() { return text_bodies; }

// RFC 1321.
std::string md5_hex(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 64> sines = {
      0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501, 0x698098d8, 0x8b44f7af, 0xffff5bb1,
      0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453,
      0xd8a1e681, 0xe7d3fbc8, 0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a, 0xfffa3942,
      0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70, 0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05,
      0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665, 0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d,
      0x85845dd1, 0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};
  static constexpr std::array<int, 16> turns = {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};
  std::string padded(bytes);
  padded += '\x80';
  while (padded.size() % 64 != 56) padded += '\0';
  const std::uint64_t bits = static_cast<std::uint64_t>(bytes.size()) * 8;
  for (int i = 0; i < 8; ++i) padded += static_cast<char>(bits >> (8 * i) & 0xff);
  std::array<std::uint32_t, 4> sum = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  for (std::size_t block = 0; block < padded.size(); block += 64) {
    std::array<std::uint32_t, 16> words{};
    for (std::size_t i = 0; i < 64; ++i)
      words[i / 4] |= static_cast<std::uint32_t>(static_cast<unsigned char>(padded[block + i])) << (8 * (i % 4));
    auto [a, b, c, d] = sum;
    for (std::uint32_t i = 0; i < 64; ++i) {
      std::uint32_t mixed = 0, word = 0;
      if (i < 16) mixed = (b & c) | (~b & d), word = i;
      else if (i < 32) mixed = (d & b) | (~d & c), word = (5 * i + 1) % 16;
      else if (i < 48) mixed = b ^ c ^ d, word = (3 * i + 5) % 16;
      else mixed = c ^ (b | ~d), word = 7 * i % 16;
      const std::uint32_t turned = a + mixed + sines[i] + words[word];
      const int turn = turns[i / 16 * 4 + i % 4];
      a = d;
      d = c;
      c = b;
      b += turned << turn | turned >> (32 - turn);
    }
    sum[0] += a;
    sum[1] += b;
    sum[2] += c;
    sum[3] += d;
  }
  std::string out;
  for (const std::uint32_t word : sum) {
    for (int i = 0; i < 4; ++i) {
      const auto byte = word >> (8 * i) & 0xff;
      (out += "0123456789abcdef"[byte >> 4]) += "0123456789abcdef"[byte & 15];
    }
  }
  return out;
}

}  // namespace termgate::sqlite_server
