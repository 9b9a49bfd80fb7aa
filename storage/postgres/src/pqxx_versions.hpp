// What differs between libpqxx 6.4 (Debian 12) and 7.x (Debian 13), in one place.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pqxx/pqxx>

namespace termgate::inline v0::detail {

// The values of one statement, in order. Borrows them until the statement has run.
class Parameters {
 public:
  void add_null();
  void add_text(const std::string& text);
  void add_binary(std::string_view bytes);  // at most one

  pqxx::result run(pqxx::transaction_base& transaction, const std::string& sql) const;
  pqxx::result run_prepared(pqxx::transaction_base& transaction, const std::string& name) const;

 private:
#if PQXX_VERSION_MAJOR >= 7
  pqxx::params values_;
#else
  template <class Run>
  pqxx::result passed_to(Run run) const;

  std::vector<const char*> texts_;
  std::optional<std::size_t> binary_at_;
  std::string_view binary_;
#endif
};

// A connection that prints no notices, and is not made anew by libpqxx: 6.x does that by itself, and a statement sent on the new session
// would be outside its transaction.
struct QuietConnection {
  explicit QuietConnection(const std::string& conninfo);

  pqxx::connection connection;
#if PQXX_VERSION_MAJOR < 7
  pqxx::quiet_errorhandler quiet{connection};
#endif
};

// Prepares now; 6.x by itself would put it off to the first use.
void prepare_now(pqxx::connection& connection, const std::string& name, const std::string& sql);

// LISTEN on `channel`. `notified` gets each payload, inside connection.get_notifs().
class Listener {
 public:
  Listener(pqxx::connection& connection, const std::string& channel, std::function<void(std::string)> notified);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  struct Receiver;
  std::unique_ptr<Receiver> receiver_;
};

}  // namespace termgate::inline v0::detail
