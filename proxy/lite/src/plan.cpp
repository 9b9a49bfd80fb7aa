#include "plan.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace termgate::lite {
namespace {

// Reads tokens of the few forms that a call of ours has; anything else ends it.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}
  void space() {
    for (;;) {
      while (!text_.empty() && std::isspace(static_cast<unsigned char>(text_.front())) != 0) text_.remove_prefix(1);
      if (text_.starts_with("--")) {
        text_.remove_prefix(std::min(text_.find('\n'), text_.size()));
      } else if (text_.starts_with("/*")) {
        const auto end = text_.find("*/", 2);
        text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 2);
      } else {
        return;
      }
    }
  }
  bool take(char letter) {
    space();
    if (text_.empty() || text_.front() != letter) return false;
    text_.remove_prefix(1);
    return true;
  }
  // Without case; "quoted" as it stands.
  std::string name() {
    space();
    std::string result;
    if (text_.starts_with('"')) {
      const auto end = text_.find('"', 1);
      if (end == std::string_view::npos) return {};
      result = text_.substr(1, end - 1);
      text_.remove_prefix(end + 1);
      return result;
    }
    while (!text_.empty() && (std::isalnum(static_cast<unsigned char>(text_.front())) != 0 || text_.front() == '_')) {
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(text_.front())));
      text_.remove_prefix(1);
    }
    return result;
  }
  bool word(std::string_view wanted) {
    const std::string_view before = text_;
    if (name() == wanted) return true;
    text_ = before;
    return false;
  }
  std::optional<OwnCall::Argument> argument() {
    space();
    OwnCall::Argument argument;
    if (take('$')) {
      const std::string number = name();
      if (number.empty() || number.size() > 5 || !std::all_of(number.begin(), number.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) return std::nullopt;
      argument.parameter = std::stoi(number);
      if (argument.parameter == 0) return std::nullopt;
    } else if (take('\'')) {
      std::string value;
      for (;;) {
        const auto end = text_.find('\'');
        if (end == std::string_view::npos) return std::nullopt;
        value += text_.substr(0, end);
        text_.remove_prefix(end + 1);
        if (!text_.starts_with('\'')) break;
        value += '\'';
        text_.remove_prefix(1);
      }
      argument.text = value;
    } else if (word("null")) {
    } else {
      std::string value = take('-') ? "-" : "";
      const std::string digits = name();
      if (digits.empty() || !std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) return std::nullopt;
      argument.text = value + digits;
    }
    // A cast says nothing that the function does not know.
    while (text_.starts_with("::")) {
      text_.remove_prefix(2);
      if (name().empty()) return std::nullopt;
    }
    return argument;
  }
  bool at_end() {
    while (take(';')) {
    }
    space();
    return text_.empty();
  }

 private:
  std::string_view text_;
};

std::optional<OwnCall> own_call(std::string_view text) {
  Words words(text);
  OwnCall call;
  if (!words.word("select")) return std::nullopt;
  if (words.take('*')) {
    if (!words.word("from")) return std::nullopt;
    call.from = true;
  }
  if (words.name() != "termgate" || !words.take('.')) return std::nullopt;
  call.name = words.name();
  if (call.name.empty() || !words.take('(')) return std::nullopt;
  if (!words.take(')')) {
    do {
      auto argument = words.argument();
      if (!argument) return std::nullopt;
      call.arguments.push_back(std::move(*argument));
    } while (words.take(','));
    if (!words.take(')')) return std::nullopt;
  }
  if (!words.at_end()) return std::nullopt;
  return call;
}

// Where SQLite would end each statement; triggers have semicolons of their own.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> pieces;
  std::size_t begin = 0;
  for (std::size_t at = text.find(';'); at != std::string::npos; at = text.find(';', at + 1)) {
    std::string piece = text.substr(begin, at + 1 - begin);
    if (sqlite3_complete(piece.c_str()) == 0) continue;
    pieces.push_back(std::move(piece));
    begin = at + 1;
  }
  if (begin < text.size()) pieces.push_back(text.substr(begin));
  std::erase_if(pieces, [](const std::string& piece) { return Words(piece).at_end(); });
  return pieces;
}

// What the statement's first words say, for its tag.
std::string tag_of(std::string_view text) {
  Words words(text);
  std::string first = words.name();
  const auto upper = [](std::string word) {
    std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return word;
  };
  if (first == "replace") return "INSERT";
  if (first == "with" || first == "values" || first == "pragma") return "SELECT";
  if (first == "create" || first == "drop" || first == "alter") {
    std::string second = words.name();
    if (second == "unique" || second == "virtual" || second == "temp" || second == "temporary") second = words.name();
    return upper(first) + " " + upper(second);
  }
  return upper(first);
}

bool names_pragma(std::string_view text) {
  static constexpr std::string_view wanted = "pragma_";
  return std::search(text.begin(), text.end(), wanted.begin(), wanted.end(), [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; }) != text.end();
}

std::optional<Plan> native_begin(std::string_view text) {
  Words words(text);
  if (!words.word("begin")) return std::nullopt;
  if (!words.word("immediate") && !words.word("exclusive") && !words.word("deferred")) return std::nullopt;
  words.word("transaction");
  if (!words.at_end()) return std::nullopt;
  Plan plan;
  plan.does.effect = dialect::Effect::utility;
  plan.does.tag = "BEGIN";
  plan.does.utility = dialect::TransactionControl{};
  return plan;
}

}  // namespace

Plans plan_text(const std::string& text) {
  auto plans = std::make_shared<std::vector<Plan>>();
  if (Words(text).at_end()) return plans;
  if (auto call = own_call(text)) {
    Plan plan;
    plan.own = std::move(*call);
    plan.does.tag = "SELECT";
    plan.does.returns_rows = true;
    plans->push_back(std::move(plan));
    return plans;
  }
  if (text.find("ermgate") != std::string::npos) {
    // Calls of ours among other statements: piece by piece.
    const std::vector<std::string> pieces = split(text);
    if (pieces.size() > 1 && std::any_of(pieces.begin(), pieces.end(), [](const std::string& piece) { return own_call(piece).has_value(); })) {
      for (const std::string& piece : pieces) {
        const Plans made = plan_text(piece);
        plans->insert(plans->end(), made->begin(), made->end());
      }
      return plans;
    }
  }
  auto translated = dialect::translate(text);
  // To PostgreSQL's grammar SQLite's table-valued pragmas are functions that it does not know.
  if (names_pragma(text)) translated = dialect::Problem{"42883", "there is no such function", 0};
  if (auto* all = std::get_if<std::vector<dialect::Translated>>(&translated)) {
    for (dialect::Translated& each : *all) {
      Plan plan;
      plan.does = std::move(each);
      plans->push_back(std::move(plan));
    }
    return plans;
  }
  const auto& problem = std::get<dialect::Problem>(translated);
  Fault better{problem.sqlstate, problem.message};
  if (problem.position > 0) {
    better.position = static_cast<std::size_t>(std::count_if(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(problem.position - 1, text.size())), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; })) + 1;
  }
  static constexpr std::array<std::string_view, 5> perhaps_sqlite = {"42601", "0A000", "42883", "54000", "54001"};
  if (std::find(perhaps_sqlite.begin(), perhaps_sqlite.end(), problem.sqlstate) == perhaps_sqlite.end() || text.find('\0') != std::string::npos) throw Failed(better);
  for (std::string& piece : split(text)) {
    if (auto begin = native_begin(piece)) {
      plans->push_back(std::move(*begin));
      continue;
    }
    Plan plan;
    plan.native = true;
    plan.better = better;
    plan.does.tag = tag_of(piece);
    if (plan.does.tag == "VACUUM") throw Failed("42501", "permission denied: VACUUM INTO names a file");
    plan.does.effect = dialect::Effect::read;
    plan.does.sql = {std::move(piece)};
    plans->push_back(std::move(plan));
  }
  return plans;
}

}  // namespace termgate::lite
