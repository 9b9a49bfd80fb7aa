// A session's settings: SET, SET LOCAL, RESET, SHOW, and what ROLLBACK undoes of them. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace termgate::sqlite_server {

// What SHOW calls its column: a few settings have capitals.
inline std::string shown_name(std::string_view name) {
  return std::string(name == "timezone"        ? "TimeZone"
                     : name == "datestyle"     ? "DateStyle"
                     : name == "intervalstyle" ? "IntervalStyle"
                                               : name);
}

class Settings {
 public:
  Settings();
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  // What the start-up message says: also what RESET goes back to. Names without regard to case. Throws PgException for a value that is
  // none.
  void start(std::string_view name, std::string_view value);
  // `value` none: RESET. Throws PgException: 42704 for an unknown name (one with a dot is known), 22023, 55P02.
  void set(std::string_view name, std::optional<std::string> value, bool local);
  void reset_all();
  // Zero: none. Without a search.
  std::chrono::milliseconds statement_timeout() const { return timeout(*statement_timeout_); }
  std::chrono::milliseconds lock_timeout() const { return timeout(*lock_timeout_); }
  std::chrono::milliseconds idle_in_transaction_timeout() const { return timeout(*idle_in_transaction_timeout_); }
  bool default_read_only() const { return default_read_only_->text == "on"; }
  bool default_deferrable() const { return default_deferrable_->text == "on"; }
  const std::string& default_isolation() const { return default_isolation_->text; }
  // nullopt: unknown.
  std::optional<std::string> get(std::string_view name) const;
  std::vector<std::pair<std::string, std::string>> all() const;

  void commit();
  void rollback();
  std::size_t mark() const noexcept { return changes_.size(); }
  void rollback_to(std::size_t mark);

  // ParameterStatus that is due: those of the reported ones that have changed since the last call.
  std::vector<std::pair<std::string, std::string>> take_reports();

 private:
  struct Value {
    std::string text;
    std::string initial;
    std::string name;  // as SHOW ALL writes it
    bool reported = false;
    bool fixed = false;
    bool known = false;
    std::optional<std::string> last_reported;
  };
  struct Change {
    std::string name;
    std::optional<std::string> before;
    bool local;
  };
  static std::chrono::milliseconds timeout(const Value& value);
  std::string checked(const std::string& name, std::string value) const;
  // A custom one, with a dot in its name; throws PgException of any other.
  std::map<std::string, Value, std::less<>>::iterator make(const std::string& name, std::string_view given);
  void put_back(const Change& change);

  std::map<std::string, Value, std::less<>> values_;
  const Value* statement_timeout_;  // of values_, where they stay
  const Value* lock_timeout_;
  const Value* idle_in_transaction_timeout_;
  const Value* default_read_only_;
  const Value* default_deferrable_;
  const Value* default_isolation_;
  std::vector<Change> changes_;
  bool changed_ = true;  // since take_reports()
};

}  // namespace termgate::sqlite_server
