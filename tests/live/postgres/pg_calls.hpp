// What the tests of raises and checks need again and again: scopes of their own, calls of layer 1
// as text, and how long something takes.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "support/pg_session.hpp"

namespace termgate::test {

inline std::string fresh_scope() {
  static int number = 0;
  return "scope " + std::to_string(++number);
}

inline std::string call(const std::string& function, const std::string& scope,
                        const std::string& rest) {
  return "SELECT * FROM termgate." + function + "('" + scope + "', " + rest + ")";
}
inline std::string seal(const std::string& scope, int term, const std::string& grace = "1 s") {
  return call("seal", scope, std::to_string(term) + ", '" + grace + "'");
}
inline std::string check(const std::string& scope, int term) {
  return "SELECT termgate.check_term('" + scope + "', " + std::to_string(term) + ")";
}

// `text` with each name in it replaced by its value.
inline std::string filled(std::string text, const std::map<std::string, std::string>& values) {
  for (const auto& [name, value] : values) {
    for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += value.size())
      text.replace(at, name.size(), value);
  }
  return text;
}

// Two cores may be shared with a compiler; an idle machine stays within 100 ms, which `termgate
// bench` measures.
constexpr std::chrono::milliseconds slack{1500};

template <class Work>
std::chrono::milliseconds time_of(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               start);
}

}  // namespace termgate::test
