// The rules file:
//
//   [rule NAME]          a section for each rule; the first one that fits a connection counts
//   key = value          a list has commas; "a, b" in quotes is one item, "" in it one quote
//   # comment            or ;
//
// Everything unknown is an error with file and line: a rule that is misread could let a stale
// writer in.
#include <termgate/authority/rules.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include <termgate/error.hpp>

namespace termgate::authority {

using std::chrono::milliseconds;

namespace {

// Whether the pattern matches the whole text. `*` matches any characters.
bool glob(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return std::all_of(pattern.begin() + static_cast<std::ptrdiff_t>(p), pattern.end(),
                     [](char character) { return character == '*'; });
}

bool any_of(const std::vector<std::string>& patterns, std::string_view text) {
  return patterns.empty() ||
         std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return glob(pattern, text); });
}

std::string_view trim(std::string_view text) {
  const auto blank = [](char character) {
    return character == ' ' || character == '\t' || character == '\r';
  };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Rules run() {
    if (text_.size() > rules_bytes_max)
      throw WrongRules(fmt::format("{}: the file has {} bytes, at most {} are read", file_,
                                   text_.size(), rules_bytes_max));
    if (text_.find('\0') != std::string_view::npos)
      throw WrongRules(fmt::format("{}: the file holds a NUL", file_));
    std::size_t at = 0;
    while (at < text_.size()) {
      ++line_;
      const auto end = std::min(text_.find('\n', at), text_.size());
      take(trim(text_.substr(at, end - at)));
      at = end + 1;
    }
    finish();
    return std::move(rules_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { fail(line_, why); }
  [[noreturn]] void fail(std::size_t line, const std::string& why) const {
    throw WrongRules(fmt::format("{}:{}: {}", file_, line, why));
  }

  void take(std::string_view line) {
    if (line.empty() || line.front() == '#' || line.front() == ';') return;
    if (line.front() == '[') {
      finish();
      if (line.back() != ']' || !line.starts_with("[rule "))
        fail("a section is written [rule NAME]");
      const std::string name(trim(line.substr(6, line.size() - 7)));
      if (name.empty()) fail("the rule has no name: [rule NAME]");
      if (!names_.insert(name).second) fail(fmt::format("there is a rule \"{}\" already", name));
      if (rules_.all.size() >= rules_max) fail(fmt::format("at most {} rules are read", rules_max));
      rule_.emplace();
      rule_->name = name;
      rule_->line = line_;
      keys_.clear();
      return;
    }
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) fail("a line is KEY = VALUE, [rule NAME] or a # comment");
    if (!rule_) fail("this is before the first [rule NAME]");
    const std::string key(trim(line.substr(0, equals)));
    const std::string_view value = trim(line.substr(equals + 1));
    if (!keys_.insert(key).second)
      fail(fmt::format("\"{}\" is given twice; a list has commas: {} = a, b", key, key));
    if (value.empty()) fail(fmt::format("\"{}\" has no value", key));
    put(key, value);
  }

  void put(const std::string& key, std::string_view value) {
    Rule& rule = *rule_;
    if (key == "listener") {
      rule.listeners = list(value);
    } else if (key == "user") {
      rule.users = list(value);
    } else if (key == "database") {
      rule.databases = list(value);
    } else if (key == "application") {
      rule.applications = list(value);
    } else if (key == "client") {
      for (const auto& item : list(value)) {
        std::string problem;
        const auto range = AddressRange::parse(item, problem);
        if (!range) fail(problem);
        rule.clients.push_back(*range);
      }
    } else if (key == "scope") {
      scope_ = scope(value);
    } else if (key == "term") {
      term_ = term(value);
    } else if (key == "file") {
      path_ = one(value);
      if (path_.front() != '/')
        fail("\"file\" is a path from / on: the proxy may run in another folder than you think");
    } else if (key == "lease") {
      lease_ = scope(value);
    } else if (key == "source") {
      url_ = one(value);
    } else if (key == "ttl") {
      ttl_ = duration(value);
    } else if (key == "holder") {
      holder_ = holder(one(value));
    } else if (key == "takeover") {
      takeover_ =
          choice<Takeover>(key, value, {{"wait", Takeover::wait}, {"newest", Takeover::newest}});
    } else if (key == "overridable") {
      rule.overridable = yes_or_no(key, value);
    } else if (key == "without-term") {
      using conversation::WithoutTerm;
      rule.without_term = choice<WithoutTerm>(key, value,
                                              {{"reject", WithoutTerm::reject},
                                               {"read-only", WithoutTerm::read_only},
                                               {"allow", WithoutTerm::allow}});
    } else if (key == "enforce") {
      rule.enforce = choice<conversation::Enforce>(
          key, value,
          {{"on", conversation::Enforce::on}, {"observe", conversation::Enforce::observe}});
    } else if (key == "replication") {
      rule.replication = yes_or_no(key, value);
    } else if (key == "on-stale") {
      using conversation::OnStale;
      rule.on_stale = choice<OnStale>(
          key, value, {{"disconnect", OnStale::disconnect}, {"error", OnStale::error}});
    } else if (key == "refuse") {
      rule.refuse = one(value);
    } else {
      fail(
          fmt::format("there is no key \"{}\": listener, user, database, application, client; "
                      "scope, term, file, lease, "
                      "source, ttl, holder, takeover; overridable, without-term, enforce, "
                      "replication, on-stale, refuse",
                      key));
    }
  }

  // Checks that need the complete rule.
  void finish() {
    if (!rule_) return;
    const int sources = (scope_ ? 1 : 0) + (path_.empty() ? 0 : 1) + (lease_ ? 1 : 0);
    if (sources > 1)
      fail(rule_->line,
           fmt::format("rule \"{}\" names more than one of scope, file and lease", rule_->name));
    if (term_ && !scope_)
      fail(rule_->line, fmt::format("rule \"{}\" has a term and no scope", rule_->name));
    if (scope_ && !term_ && !rule_->overridable) {
      fail(rule_->line, fmt::format("rule \"{}\" has a scope and no term, so no session could "
                                    "write: give a term, or overridable = yes and "
                                    "let clients declare it",
                                    rule_->name));
    }
    if (!lease_ && (!url_.empty() || ttl_ || !holder_.empty() || takeover_))
      fail(rule_->line, fmt::format("rule \"{}\": source, ttl, holder and takeover go with a lease",
                                    rule_->name));
    if (!url_.empty() && takeover_ == Takeover::newest) {
      fail(rule_->line, fmt::format("rule \"{}\": takeover = newest is only for the database's own "
                                    "leases: a lock service ends nobody's lease",
                                    rule_->name));
    }
    // The terms of a file are not a lease.
    if (url_.starts_with("file:"))
      fail(rule_->line, fmt::format("rule \"{}\": for a file write file = PATH", rule_->name));
    if (!rule_->refuse.empty() && sources > 0)
      fail(rule_->line,
           fmt::format("rule \"{}\" refuses, so it has no scope, file or lease", rule_->name));
    if (scope_) {
      rule_->source = FixedTerm{*scope_, term_};
    } else if (!path_.empty()) {
      rule_->source = FileTerm{path_};
    } else if (lease_) {
      LeaseTerm made{*lease_};
      made.url = url_;
      if (ttl_) made.ttl = *ttl_;
      if (!holder_.empty()) made.holder = holder_;
      if (takeover_) made.takeover = *takeover_;
      rule_->source = std::move(made);
    }
    rules_.all.push_back(std::move(*rule_));
    rule_.reset();
    scope_.reset();
    term_.reset();
    path_.clear();
    lease_.reset();
    url_.clear();
    ttl_.reset();
    holder_.clear();
    takeover_.reset();
  }

  // Returns the text in the double quotes at `at`, with "" as one quote, and moves `at` past them.
  std::string quoted(std::string_view text, std::size_t& at) const {
    std::string value;
    for (++at; at < text.size(); ++at) {
      if (text[at] != '"') {
        value += text[at];
      } else if (at + 1 < text.size() && text[at + 1] == '"') {
        value += text[at++];
      } else {
        ++at;
        return value;
      }
    }
    fail("a value has no closing quote");
  }

  std::vector<std::string> list(std::string_view text) const {
    std::vector<std::string> items;
    std::size_t at = 0;
    for (;;) {
      while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
      std::string value;
      if (at < text.size() && text[at] == '"') {
        value = quoted(text, at);
        while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
        if (at < text.size() && text[at] != ',')
          fail("after a closing quote comes a comma or the end of the line");
      } else {
        const auto end = std::min(text.find(',', at), text.size());
        value = std::string(trim(text.substr(at, end - at)));
        if (value.empty()) fail("a list has an empty item");
        at = end;
      }
      items.push_back(std::move(value));
      if (at >= text.size()) return items;
      ++at;
    }
  }

  std::string one(std::string_view text) const {
    if (text.front() != '"') return std::string(text);
    std::size_t at = 0;
    std::string value = quoted(text, at);
    if (at < text.size()) fail("after the closing quote the line ends");
    if (value.empty()) fail("the value is empty");
    return value;
  }

  Scope scope(std::string_view text) const {
    const std::string name = one(text);
    if (const char* problem = name_problem(name)) fail(fmt::format("malformed scope: {}", problem));
    return Scope(name);
  }

  Term term(std::string_view text) const {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 1 ||
        number > Term::max_value) {
      fail(fmt::format("\"{}\" is not a term: a whole number from 1 to {}", text, Term::max_value));
    }
    return Term(number);
  }

  milliseconds duration(std::string_view text) const {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::string_view unit = trim(text.substr(static_cast<std::size_t>(end - text.data())));
    std::int64_t factor = unit == "ms"    ? 1
                          : unit == "s"   ? 1000
                          : unit == "min" ? 60'000
                          : unit == "h"   ? 3'600'000
                                          : 0;
    if (error != std::errc() || factor == 0 || number < 1 || number > 86'400'000)
      fail(fmt::format("\"{}\" is not a duration: a whole number with ms, s, min or h", text));
    const milliseconds time(number * factor);
    if (time < milliseconds(1000) || time > milliseconds(86'400'000))
      fail("the ttl is from 1 s to 24 h");
    return time;
  }

  std::string holder(const std::string& pattern) const {
    for (std::size_t at = pattern.find('%'); at != std::string::npos; at = pattern.find('%', at)) {
      if (pattern[at + 1] == '%') {
        at += 2;
        continue;
      }
      const auto known = {"%client_host", "%user", "%database", "%application_name", "%listener"};
      if (std::none_of(known.begin(), known.end(), [&](std::string_view name) {
            return std::string_view(pattern).substr(at).starts_with(name);
          })) {
        fail(
            "in \"holder\" a % begins %client_host, %user, %database, %application_name, %listener "
            "or %%");
      }
      ++at;
    }
    return pattern;
  }

  template <class Choice>
  Choice choice(const std::string& key, std::string_view value,
                std::initializer_list<std::pair<std::string_view, Choice>> choices) const {
    std::string words;
    for (const auto& [word, meaning] : choices) {
      if (word == value) return meaning;
      words += (words.empty() ? "" : ", ") + std::string(word);
    }
    fail(fmt::format("\"{}\" is one of: {}", key, words));
  }
  bool yes_or_no(const std::string& key, std::string_view value) const {
    return choice<bool>(key, value, {{"yes", true}, {"no", false}});
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t line_ = 0;
  Rules rules_;
  std::set<std::string> names_, keys_;
  std::optional<Rule> rule_;
  std::optional<Scope> scope_, lease_;
  std::optional<Term> term_;
  std::string path_, url_, holder_;
  std::optional<milliseconds> ttl_;
  std::optional<Takeover> takeover_;
};

}  // namespace

bool Rule::matches(const ConnectRequest& request) const {
  return any_of(listeners, request.listener) && any_of(users, request.login.user) &&
         any_of(databases, request.login.database) &&
         any_of(applications, request.login.application_name) &&
         (clients.empty() ||
          std::any_of(clients.begin(), clients.end(), [&](const AddressRange& range) {
            return range.contains(request.client_host);
          }));
}

const Rule* Rules::of(const ConnectRequest& request) const {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Rule& rule) { return rule.matches(request); });
  return found == all.end() ? nullptr : &*found;
}

Rules parse_rules(std::string_view text, const std::string& file) {
  return Parser(text, file).run();
}

Rules read_rules(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    throw WrongRules(
        fmt::format("{}: the file of rules cannot be read: {}", path, std::strerror(errno)));
  // Reads one byte more than is allowed, to detect a file that is too long.
  std::string text(rules_bytes_max + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad())
    throw WrongRules(
        fmt::format("{}: the file of rules cannot be read: {}", path, std::strerror(errno)));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return parse_rules(text, path);
}

std::string holder_of(std::string_view pattern, const ConnectRequest& request,
                      std::string_view machine) {
  std::string host = request.client_host;
  if (const auto address = Address::parse(host)) {
    host = address->text();
    if (address->of_this_machine()) host += "@" + std::string(machine);
  } else if (host == "local") {
    host += "@" + std::string(machine);
  }
  const std::pair<std::string_view, std::string_view> names[] = {
      {"%client_host", host},
      {"%user", request.login.user},
      {"%database", request.login.database},
      {"%application_name", request.login.application_name},
      {"%listener", request.listener},
      {"%%", "%"}};
  std::string holder;
  for (std::size_t at = 0; at < pattern.size();) {
    const auto found = std::find_if(std::begin(names), std::end(names), [&](const auto& name) {
      return pattern.substr(at).starts_with(name.first);
    });
    if (found == std::end(names)) {
      holder += pattern[at++];
    } else {
      holder += found->second;
      at += found->first.size();
    }
  }
  return holder;
}

}  // namespace termgate::authority
