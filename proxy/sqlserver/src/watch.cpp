#include "watch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <termgate/tds/text.hpp>
#include <termgate/tds/types.hpp>
#include <termgate/tds_session/text.hpp>
#include <termgate/text/ascii.hpp>

#include "lexer.hpp"
#include "read.hpp"

namespace termgate::tds_session {
namespace {

constexpr std::size_t name_max = 140;  // SQL Server's names have at most 128 characters
constexpr std::size_t parentheses_max = 4000;
// Stand-ins in the name being read: for letters that a collation may take for ASCII letters, and
// for letters that it takes for none.
constexpr char some_letters = '\x01', other_letter = '\x02';

constexpr const char* release_problem =
    "TG005 sp_releaseapplock is refused in a fenced session: it could give the gate away";
constexpr const char* reset_problem =
    "TG005 sp_reset_connection is refused inside a text: it would give the gate away. A driver "
    "calls it by RPC, alone";
constexpr const char* reset_beside_problem =
    "TG005 sp_reset_connection is refused beside other calls: it would give the gate away in their "
    "midst";
constexpr const char* bound_problem =
    "TG005 a bound session's transaction can be committed after this session has ended, and its "
    "gate with it: it is refused in a fenced "
    "session";
constexpr const char* distributed_problem =
    "TG005 a distributed transaction can be committed after its session has ended, and its gate "
    "with it: it is refused in a fenced session";
constexpr const char* linked_problem =
    "TG005 a linked server (a name of four parts, OPENQUERY, OPENROWSET, OPENDATASOURCE, EXEC … "
    "AT) is refused in a fenced session: it "
    "makes a transaction distributed, which can be committed after its session has ended";
constexpr const char* unreadable_problem =
    "TG005 this proxy cannot read all of this request, and so cannot tell whether it gives the "
    "gate away: send texts as nvarchar, and "
    "parameters of the server's own types";
static_assert(tds::CallReader::table_columns_max == 1024);
constexpr const char* columns_problem =
    "TG005 a table parameter has more than 1024 columns, the most that a table type has";
constexpr const char* nested_problem =
    "TG005 this text has too many parentheses within each other to be read";

constexpr std::array<std::pair<std::string_view, const char*>, 5> refused_names{
    {{"sp_reset_connection", reset_problem},
     {"sp_releaseapplock", release_problem},
     {"xp_userlock", release_problem},
     {"sp_bindsession", bound_problem},
     {"sp_getbindtoken", bound_problem}}};
constexpr std::array table_words{"from", "join", "apply"};
constexpr std::array object_words{"insert", "update", "delete", "merge",
                                  "into",   "using",  "exec",   "execute"};
// Words that end a list of tables.
constexpr std::array ending_words{"select", "where",  "having", "group",  "order",     "set",
                                  "values", "output", "union",  "except", "intersect", "declare",
                                  "return", "print",  "create", "alter",  "drop",      "while"};
constexpr std::array other_keywords{"top",         "percent",   "synonym",    "begin",
                                    "distributed", "openquery", "openrowset", "at",
                                    "for",         "bulk",      "on",         "opendatasource"};

bool is_in(std::uint32_t c, std::uint32_t first, std::uint32_t last) noexcept {
  return c >= first && c <= last;
}

bool is_blank(std::uint32_t c) noexcept {
  return c <= ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 || is_in(c, 0x2000, 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}
// Characters that a comparison ignores.
bool is_nothing(std::uint32_t c) noexcept {
  return c == 0xAD || is_in(c, 0x0300, 0x036F) || is_in(c, 0x200B, 0x200F) ||
         is_in(c, 0x202A, 0x202E) || is_in(c, 0x2060, 0x2064) || is_in(c, 0xFE00, 0xFE0F) ||
         c == 0xFEFF;
}
// UTF-16 units that a collation may compare as equal to one or more of a to z: letters with
// accents, raised, in circles, ligatures. A surrogate pair is seen as two units, so 0xD835
// (mathematical letters) and every low surrogate count too.
bool is_like_latin(std::uint32_t c) noexcept {
  return is_in(c, 0xA1, 0x24F) || is_in(c, 0x1D00, 0x1EFF) || is_in(c, 0x2070, 0x218F) ||
         is_in(c, 0x2460, 0x24FF) || is_in(c, 0xFB00, 0xFB06) || c == 0xD835 ||
         is_in(c, 0xDC00, 0xDFFF);
}
// Full-width forms of ASCII characters.
bool is_full_width(std::uint32_t c) noexcept { return is_in(c, 0xFF01, 0xFF5E); }
bool is_ascii(std::uint32_t c) noexcept { return c < 0x80; }
bool is_ascii_word(std::uint32_t c) noexcept {
  return is_ascii(c) && in_word(static_cast<char>(c));
}

// Whether a name may compare as equal to the target. `reached`: bit n is set if its letters so far
// may match the first n of the target.
bool may_be(std::string_view name, std::string_view target) noexcept {
  std::uint32_t reached = 1;
  const auto step = [&](std::uint32_t from, auto fits) {
    std::uint32_t to = 0;
    for (std::size_t i = 0; i < target.size(); ++i) {
      if (fits(target[i])) to |= (from & std::uint32_t{1} << i) << 1;
    }
    return to;
  };
  for (const char c : name) {
    if (c == some_letters) {
      constexpr int letters_in_one = 3;
      for (std::uint32_t from = reached, count = 0; count < letters_in_one; ++count) {
        from = step(from, [](char one) { return one >= 'a' && one <= 'z'; });
        reached |= from;
      }
    } else {
      reached = step(reached, [c](char one) { return one == c; });
    }
    if (reached == 0) return false;
  }
  return (reached & std::uint32_t{1} << target.size()) != 0;
}

bool runs_texts(std::string_view name) noexcept {
  return name == "sp_executesql" || name == "sp_execute" || name.starts_with("sp_prep") ||
         name.starts_with("sp_cursor");
}

bool is_wide(std::uint8_t of) noexcept {
  return of == tds::type::nvarchar || of == tds::type::nchar || of == tds::type::ntext;
}
bool is_narrow(std::uint8_t of) noexcept {
  return of == tds::type::varchar || of == tds::type::character || of == tds::type::text ||
         of == tds::type::varchar_old || of == tds::type::char_old;
}

}  // namespace

const char* Watch::problem() const noexcept {
  if (named_ != nullptr) return named_;
  if (linked_ != nullptr) return linked_;
  if (dynamic_ && value_named_ != nullptr) return value_named_;
  return unreadable_ ? unreadable_problem : nullptr;
}

void Watch::begin() {
  dynamic_ = false;
  value_named_ = nullptr;
}

Watch& Watch::inner() {
  if (!inner_) {
    inner_ = std::make_unique<Watch>();
    inner_->loose_ = inner_->loose_for_good_ = true;
  }
  return *inner_;
}

// --- characters ---

void Watch::text(std::string_view bytes, Letters letters) {
  for (const char one : bytes) {
    const auto byte = static_cast<unsigned char>(one);
    if (letters == Letters::narrow) {
      if (byte >= 0x80) unreadable_ = true;
      if (byte != 0) unit(byte < 0x80 ? byte : ' ');
    } else if (half_ < 0) {
      half_ = byte;
    } else {
      unit(static_cast<std::uint32_t>(half_) | static_cast<std::uint32_t>(byte) << 8);
      half_ = -1;
    }
  }
}

void Watch::text_ends() {
  switch (in_) {
    case In::word: word_ends(); break;
    case In::number: number_ends(); break;
    case In::string: string_ends(); break;
    case In::quoted:
      inner_ends();
      name(Kind::name);
      break;
    case In::bracket: name(Kind::name); break;
    default: break;
  }
  chain_ends();
  in_ = In::plain;
  half_ = -1;
  sign_ = 0;
  closing_ = return_ = false;
  held_.clear();
  last_ = {};
  clauses_ = "e";
  rowset_ = 0;
  synonym_ = begun_ = run_next_ = false;
  loose_ = loose_for_good_;
}

// In a value its words count, wherever they are.
void Watch::value(std::string_view bytes, Letters letters) { inner().text(bytes, letters); }

void Watch::value_ends() {
  runs_ = false;
  inner_ends();
}

void Watch::unit(std::uint32_t c) {
  switch (in_) {
    case In::plain: return plain(c);
    case In::word:
      if (is_ascii_word(c) || (!is_ascii(c) && !is_blank(c))) return add(c);
      in_ = In::plain;
      if (c == '\'' && name_ == "n" && !loose_) return plain(c);
      word_ends();
      return plain(c);
    case In::number:
      if (is_ascii_word(c) || c == '.') return add(c);
      in_ = In::plain;
      number_ends();
      return plain(c);
    case In::string: return in_string(c, '\'');
    case In::quoted: return in_string(c, '"');
    case In::bracket:
      if (closing_ && c != ']') {
        in_ = In::plain;
        closing_ = false;
        name(Kind::name);
        return plain(c);
      }
      if (c != ']' || closing_) add(c);
      closing_ = c == ']' && !closing_;
      return;
    case In::line_comment: return in_line_comment(c);
    case In::comment: return in_comment(c);
  }
}

void Watch::plain(std::uint32_t c) {
  if (const char before = std::exchange(sign_, '\0'); before != 0) {
    if (!loose_ && before == '-' && c == '-') {
      in_ = In::line_comment;
      return_ = false;
      return;
    }
    if (!loose_ && before == '/' && c == '*') {
      in_ = In::comment;
      depth_ = 1;
      edge_ = 0;
      return;
    }
    sign(before);
  }
  const bool mark = c == '\'' || c == '"' || c == '[' || c == ']';
  if (is_blank(c) || (loose_ && mark)) return;
  name_.clear();
  if (mark && c != ']') {
    closing_ = false;
    in_ = c == '[' ? In::bracket : c == '"' ? In::quoted : In::string;
    if (c != '[') runs_ = clause() == 'x' || run_next_;
  } else if (c == '-' || c == '/') {
    sign_ = static_cast<char>(c);
  } else if (is_in(c, '0', '9') || c == '$') {
    in_ = In::number;
    add(c);
  } else if (!is_ascii(c) || begins_word(static_cast<char>(c))) {
    in_ = In::word;
    add(c);
  } else {
    sign(static_cast<char>(c));
  }
}

void Watch::add(std::uint32_t c) {
  if (is_nothing(c)) return;
  char folded = other_letter;
  if (is_ascii(c)) folded = lower(static_cast<char>(c));
  else if (is_full_width(c)) folded = lower(static_cast<char>(c - 0xFEE0));
  else if (is_like_latin(c)) folded = some_letters;
  if (name_.size() >= name_max) name_ = other_letter;
  else name_ += folded;
}

// Whether "…" is a name or a string depends on QUOTED_IDENTIFIER, so it is treated as both.
void Watch::in_string(std::uint32_t c, std::uint32_t close) {
  const bool quoted = in_ == In::quoted;
  if (closing_) {
    closing_ = false;
    if (c != close) {
      in_ = In::plain;
      if (quoted) {
        inner_ends();
        name(Kind::name);
      } else {
        string_ends();
      }
      return plain(c);
    }
  } else if (c == close) {
    closing_ = true;
    return;
  }
  // A backslash at the end of a line continues the string on the next line; neither the backslash
  // nor the line end belongs to it.
  if (c == '\\' || (c == '\r' && held_ == "\\")) {
    held_ += static_cast<char>(c);
    return;
  }
  if (c == '\n' && held_.starts_with('\\')) {
    held_.clear();
    return;
  }
  if (!held_.empty()) {
    held_.clear();
    inner().unit(' ');
  }
  inner().unit(c);
  if (quoted) add(c);
}

void Watch::inner_ends() {
  held_.clear();
  closing_ = false;
  if (!inner_) return;
  inner_->text_ends();
  if (inner_->named_ != nullptr) value_named_ = inner_->named_;
  if (runs_ && inner_->linked_ != nullptr) linked_ = inner_->linked_;
  inner_->named_ = inner_->linked_ = nullptr;
  inner_->dynamic_ = inner_->unreadable_ = false;
}

void Watch::string_ends() {
  inner_ends();
  literal(Kind::string);
}

void Watch::literal(Kind kind) {
  chain_ends();
  if (rowset_ != 0) linked_ = linked_problem;
  rowset_ = 0;
  begun_ = true;
  last_ = {kind, {}};
}

// It is not documented whether anything other than a line feed ends such a comment. After a
// character that might, every word counts.
void Watch::in_line_comment(std::uint32_t c) {
  if (c == '\n') {
    in_ = In::plain;
    return;
  }
  const bool odd = c == '\v' || c == '\f' || c == 0x85 || c == 0x2028 || c == 0x2029;
  if (odd || return_) {
    in_ = In::plain;
    loose_ = true;
    return plain(c);
  }
  return_ = c == '\r';
}

void Watch::in_comment(std::uint32_t c) {
  const char before = std::exchange(edge_, '\0');
  if (before == '/' && c == '*') ++depth_;
  else if (before == '*' && c == '/') --depth_;
  else if (c == '/' || c == '*') edge_ = static_cast<char>(c);
  if (depth_ == 0) in_ = In::plain;
}

// --- words ---

void Watch::word_ends() { name(Kind::word); }

// SQL Server ends a number at the first character that cannot belong to it and continues: 1BEGIN is
// a number and a word.
void Watch::number_ends() {
  std::string_view glued;
  const auto look = [&](const auto& words) {
    for (const std::string_view word : words) {
      if (name_.ends_with(word) && word.size() > glued.size()) glued = word;
    }
  };
  look(table_words);
  look(object_words);
  look(ending_words);
  look(other_keywords);
  if (!glued.empty()) {
    name_ = glued;
    begun_ = true;
    return name(Kind::word);
  }
  literal(Kind::number);
}

void Watch::named() {
  std::string_view plain = name_;
  while (plain.ends_with(' ')) plain.remove_suffix(1);
  while (plain.starts_with(' ')) plain.remove_prefix(1);
  for (const auto& [target, why] : refused_names) {
    if (may_be(plain, target)) named_ = why;
  }
  if (plain.find("releaseapplock") != std::string_view::npos) named_ = release_problem;
  if (!runs_texts(plain)) return;
  dynamic_ = true;
  run_next_ = true;
  prepares_ = prepares_ || plain.starts_with("sp_prep") || plain.starts_with("sp_cursorprep");
}

void Watch::name(Kind kind) {
  if (rowset_ != 0 && (rowset_ == 1 || kind != Kind::word || name_ != "bulk"))
    linked_ = linked_problem;
  rowset_ = 0;
  const bool goes_on = chain_ && last_.is(".");
  if (!goes_on) {
    chain_ends();
    before_chain_ = last_;
    dots_ = 0;
    chain_ = true;
  }
  ends_in_nodes_ = name_ == "nodes";
  // A text may begin with the name of a procedure, without EXEC.
  if (!begun_ && !name_.starts_with('@') && (kind == Kind::name || !is_reserved(name_)))
    dynamic_ = true;
  begun_ = true;
  last_ = {kind, name_};
  if (kind == Kind::word && !goes_on) keyword();
  named();
}

void Watch::keyword() {
  const std::string_view word = last_.text;
  if (contains(table_words, word)) clause() = 'f';
  else if (contains(object_words, word)) clause() = 'o';
  else if (contains(ending_words, word)) clause() = 'e';
  else if (!contains(other_keywords, word) && !word.starts_with('@')) return;
  chain_ = false;
  if (word == "exec" || word == "execute") dynamic_ = true;
  if (word == "synonym") synonym_ = true;
  if (word == "distributed" && before_chain_.is("begin")) named_ = distributed_problem;
  if (word == "at" && before_chain_.kind == Kind::executed) linked_ = linked_problem;
  if (word == "openquery" || word == "opendatasource") linked_ = linked_problem;
  if (word == "openrowset") rowset_ = 1;
}

void Watch::sign(char c) {
  const bool rowset = rowset_ == 1 && c == '(';
  if (rowset_ != 0 && !rowset) linked_ = linked_problem;
  rowset_ = rowset ? 2 : 0;
  begun_ = true;
  if (c == '.') {
    if (!chain_) {
      before_chain_ = last_;
      dots_ = 0;
      chain_ = true;
      ends_in_nodes_ = false;
    }
    ++dots_;
    last_ = {Kind::sign, "."};
    return;
  }
  chain_ends();
  if (c == ',' || c == ';') run_next_ = false;
  Last next{Kind::sign, std::string(1, c)};
  if (c == '(') {
    char within = 'e';
    if (last_.is("exec") || last_.is("execute")) within = 'x';
    else if (clause() == 'f' && (last_.is("from") || last_.is("join") || last_.is("apply") ||
                                 last_.is(",") || last_.is("(")))
      within = 'f';
    if (clauses_.size() >= parentheses_max) named_ = nested_problem;
    else clauses_ += within;
  } else if (c == ')' && clauses_.size() > 1) {
    if (clause() == 'x') next = {Kind::executed, {}};
    clauses_.pop_back();
  } else if (c == ';') {
    clause() = 'e';
    synonym_ = false;
  }
  last_ = std::move(next);
}

void Watch::chain_ends() {
  if (!chain_) return;
  chain_ = false;
  if (dots_ >= 3 && !ends_in_nodes_ && object_may_stand()) linked_ = linked_problem;
  if (clause() == 'o') clause() = 'e';
}

// Whether the name that has just been read can be that of an object. A column's name may have four
// parts, too.
bool Watch::object_may_stand() const noexcept {
  const Last& before = before_chain_;
  if (before.kind == Kind::none || clauses_.back() == 'o' || (synonym_ && before.is("for")))
    return true;
  return clauses_.back() == 'f' && (before.is("from") || before.is("join") || before.is("apply") ||
                                    before.is(",") || before.is("("));
}

char& Watch::clause() { return clauses_.back(); }

// --- requests ---

TextPlaces places_of_text(std::uint16_t id, std::string_view name) {
  switch (id) {
    case tds::procedure::none: break;
    case tds::procedure::execute_sql: return {0, 1, true};
    case tds::procedure::cursor_open: return {1, 5, true};
    case tds::procedure::prepare_execute_rpc: return {1, -1, true};
    case tds::procedure::cursor_prepare:
    case tds::procedure::prepare:
    case tds::procedure::prepare_execute: return {2, 1, true};
    case tds::procedure::cursor_prepare_execute: return {3, 2, true};
    case tds::procedure::execute:
    case tds::procedure::cursor_execute:
    case tds::procedure::unprepare:
    case tds::procedure::cursor_unprepare:
    case tds::procedure::cursor_fetch:
    case tds::procedure::cursor_option:
    case tds::procedure::cursor_close: return {-1, -1, true};
    default: return {};
  }
  static constexpr std::array<std::pair<std::string_view, std::uint16_t>, 8> by_name{{
      {"sp_executesql", tds::procedure::execute_sql},
      {"sp_cursoropen", tds::procedure::cursor_open},
      {"sp_prepexecrpc", tds::procedure::prepare_execute_rpc},
      {"sp_cursorprepare", tds::procedure::cursor_prepare},
      {"sp_prepare", tds::procedure::prepare},
      {"sp_prepexec", tds::procedure::prepare_execute},
      {"sp_cursorprepexec", tds::procedure::cursor_prepare_execute},
      {"sp_execute", tds::procedure::execute},
  }};
  std::string last =
      lower(name.substr(name.rfind('.') == std::string_view::npos ? 0 : name.rfind('.') + 1));
  last.erase(std::min(last.find(';'), last.size()));
  std::erase_if(last, [](char c) { return c == '[' || c == ']' || c == '"' || c == ' '; });
  for (const auto& [procedure, number] : by_name) {
    if (last == procedure) return places_of_text(number, {});
  }
  return {};
}

void Judge::begin(std::uint8_t packet_type, std::uint32_t tds_version) {
  watch_ = Watch();
  reader_ = tds::CallReader(tds_version);
  packet_type_ = packet_type;
  problem_ = nullptr;
  calls_ = 0;
  resets_ = false;
}

const char* Judge::take(std::string_view body, bool ends) {
  if (packet_type_ == tds::packet::sql_batch) {
    watch_.text(body, Watch::Letters::wide);
    if (ends) watch_.text_ends();
    prepared_runs_ = prepared_runs_ || watch_.prepares();
  } else if (packet_type_ == tds::packet::rpc) {
    const bool read = reader_.take(body, *this) && (!ends || reader_.may_end());
    if (problem_ == nullptr && watch_.problem() == nullptr && !read)
      problem_ = reader_.too_many_columns() ? columns_problem : unreadable_problem;
    // A reset call that is alone and complete is carried out by a packet's reset bit.
    if (problem_ == nullptr && resets_ && !ends) problem_ = reset_beside_problem;
  }
  return problem_ != nullptr ? problem_ : watch_.problem();
}

void Judge::call(std::uint16_t id, std::string_view name, std::uint16_t) {
  // The values of the previous call do not count for this one.
  if (problem_ == nullptr) problem_ = watch_.problem();
  watch_.begin();
  ++calls_;
  parameter_ = 0;
  const std::string called = tds::utf8_of(name);
  const bool resets = id == tds::procedure::none && resets_session(called);
  if (problem_ == nullptr && (resets_ || (resets && calls_ > 1))) problem_ = reset_beside_problem;
  resets_ = resets_ || resets;
  const TextPlaces places = places_of_text(id, called);
  text_at_ = places.text;
  declared_at_ = places.declared;
  if (id == tds::procedure::none && !resets) {
    watch_.text("exec ", Watch::Letters::narrow);
    watch_.text(name, Watch::Letters::wide);
    watch_.text_ends();
    watch_.begin();
  }
  text_read_ = false;
  prepared_runs_ = prepared_runs_ || watch_.prepares();
  if (!places.known || (places.text < 0 && prepared_runs_)) watch_.runs_values();
}

void Judge::parameter(std::string_view name, std::uint8_t, const tds::TypeInfo& type, bool null) {
  const int at = static_cast<int>(parameter_++);
  as_ = As::nothing;
  if (null) return;
  const bool wide = is_wide(type.type), narrow = is_narrow(type.type);
  letters_ = wide ? Watch::Letters::wide : Watch::Letters::narrow;
  const std::string called = tds::utf8_of(name);
  const bool strange = std::any_of(called.begin(), called.end(),
                                   [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  const bool is_text =
      at == text_at_ || (text_at_ >= 0 && (strange || text::same(called, "@stmt") ||
                                           text::same(called, "@statement")));
  if (is_text && !wide && !narrow && at == text_at_) {
    // The server accepts no text of another type. A number may be a handle that has come too early,
    // which the server reports itself.
    const bool number = type.form == tds::ValueForm::fixed || type.form == tds::ValueForm::length_1;
    if (!number && problem_ == nullptr) problem_ = unreadable_problem;
    return;
  }
  // A parameter at the text's position but with another name: the text is still to come.
  reads_text_ = is_text && (called.empty() || at != text_at_ || text::same(called, "@stmt") ||
                            text::same(called, "@statement"));
  if ((is_text || at == declared_at_) && (wide || narrow)) as_ = As::text;
  else if ((wide || narrow || type.form == tds::ValueForm::variant ||
            type.type == tds::type::xml) &&
           (watch_.runs() || (text_at_ >= 0 && !text_read_)))
    as_ = As::value;
}

void Judge::data(std::string_view bytes) {
  if (as_ == As::text) watch_.text(bytes, letters_);
  if (as_ == As::value) watch_.value(bytes, letters_);
}

void Judge::parameter_ends() {
  if (as_ == As::text) {
    watch_.text_ends();
    text_read_ = text_read_ || reads_text_;
    prepared_runs_ = prepared_runs_ || (reads_text_ && watch_.runs());
  }
  if (as_ == As::value) watch_.value_ends();
  as_ = As::nothing;
}

}  // namespace termgate::tds_session
