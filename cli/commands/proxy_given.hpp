// The options of `termgate proxy`, from the command line and the file of --config. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include <termgate/http/tls.hpp>
#include <termgate/net/log.hpp>
#include <termgate/net/options.hpp>
#include <termgate/conversation/admission.hpp>

#include "command.hpp"

namespace termgate::cli {

void proxy_options(boost::program_options::options_description& options);

// An option from the command line, or else from the file.
class Given {
 public:
  explicit Given(const Arguments& line);

  bool has(const char* name) const { return line_.has(name) || (file_ && file_->has(name)); }
  bool flag(const char* name) const { return from(name).flag(name); }

  // The options among `names` whose values differ in `other`.
  std::vector<std::string> changed(const Given& other,
                                   std::initializer_list<const char*> names) const {
    std::vector<std::string> all;
    for (const char* name : names) {
      if (from(name).written(name) != other.from(name).written(name)) all.emplace_back(name);
    }
    return all;
  }
  std::optional<std::string> maybe(const char* name) const { return from(name).maybe(name); }
  std::vector<std::string> list(const char* name) const { return from(name).list(name); }
  std::size_t size(const char* name, std::size_t fallback, std::int64_t low,
                   std::int64_t high) const {
    return static_cast<std::size_t>(
        from(name).integer_or(name, static_cast<std::int64_t>(fallback), low, high));
  }
  std::chrono::milliseconds duration(const char* name, std::chrono::milliseconds fallback) const {
    return from(name).duration_or(name, fallback);
  }

  template <typename Value>
  Value one_of(const char* name, std::initializer_list<std::pair<const char*, Value>> words,
               Value fallback) const {
    const auto given = maybe(name);
    if (!given) return fallback;
    std::string all;
    for (const auto& [word, value] : words) {
      if (*given == word) return value;
      all += fmt::format("{}{}", all.empty() ? "" : ", ", word);
    }
    throw UsageError(fmt::format("--{} {}: must be one of {}", name, *given, all));
  }

  // Options that several kinds of backend have.
  http::ClientTls client_tls() const;
  std::vector<http::Network> trusted_proxies() const;
  conversation::WithoutTerm without_term() const;
  conversation::Enforce enforce() const;
  net::LogFormat log_format() const;
  net::LogLevel log_level() const;

 private:
  const Arguments& from(const char* name) const {
    return !line_.has(name) && file_ && file_->has(name) ? *file_ : line_;
  }

  const Arguments& line_;
  std::optional<Arguments> file_;
};

// The URL of --backend, or else of --backend-file. Throws UsageError if there is none, or the file
// cannot be read.
std::string backend_url(const Given& given);
inline bool is_sqlite(std::string_view url) { return url.starts_with("sqlite:"); }
bool is_loopback(const std::string& host);

}  // namespace termgate::cli
