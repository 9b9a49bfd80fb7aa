#include "pqxx_versions.hpp"

#include <utility>

namespace termgate::inline v0::detail {

// 7.10 gave exec() and listen() the work of exec_params(), exec_prepared() and notification_receiver.
#define TERMGATE_PQXX_EXEC (PQXX_VERSION_MAJOR > 7 || (PQXX_VERSION_MAJOR == 7 && PQXX_VERSION_MINOR >= 10))

#if PQXX_VERSION_MAJOR >= 7

void Parameters::add_null() { values_.append(); }
void Parameters::add_text(const std::string& text) { values_.append(pqxx::zview(text.c_str(), text.size())); }
void Parameters::add_binary(std::string_view bytes) { values_.append(pqxx::binary_cast(bytes)); }

pqxx::result Parameters::run(pqxx::transaction_base& transaction, const std::string& sql) const {
#if TERMGATE_PQXX_EXEC
  return transaction.exec(sql, values_);
#else
  return transaction.exec_params(sql, values_);
#endif
}

pqxx::result Parameters::run_prepared(pqxx::transaction_base& transaction, const std::string& name) const {
#if TERMGATE_PQXX_EXEC
  return transaction.exec(pqxx::prepped(name), values_);
#else
  return transaction.exec_prepared(name, values_);
#endif
}

QuietConnection::QuietConnection(const std::string& conninfo) : connection(conninfo) {}

void prepare_now(pqxx::connection& connection, const std::string& name, const std::string& sql) { connection.prepare(name, sql); }

#else

void Parameters::add_null() { texts_.push_back(nullptr); }
void Parameters::add_text(const std::string& text) { texts_.push_back(text.c_str()); }
void Parameters::add_binary(std::string_view bytes) {
  binary_at_ = texts_.size();
  binary_ = bytes;
}

template <class Run>
pqxx::result Parameters::passed_to(Run run) const {
  using pqxx::prepare::make_dynamic_params;
  if (!binary_at_) return run(make_dynamic_params(texts_));
  const auto at = texts_.begin() + static_cast<std::ptrdiff_t>(*binary_at_);
  return run(make_dynamic_params(texts_.begin(), at), pqxx::binarystring(binary_.data(), binary_.size()),
             make_dynamic_params(at, texts_.end()));
}

pqxx::result Parameters::run(pqxx::transaction_base& transaction, const std::string& sql) const {
  return passed_to([&](const auto&... values) { return transaction.exec_params(sql, values...); });
}

pqxx::result Parameters::run_prepared(pqxx::transaction_base& transaction, const std::string& name) const {
  return passed_to([&](const auto&... values) { return transaction.exec_prepared(name, values...); });
}

QuietConnection::QuietConnection(const std::string& conninfo) : connection(conninfo) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  connection.inhibit_reactivation(true);
#pragma GCC diagnostic pop
}

void prepare_now(pqxx::connection& connection, const std::string& name, const std::string& sql) {
  connection.prepare(name, sql);
  connection.prepare_now(name);
}

#endif

#if TERMGATE_PQXX_EXEC

struct Listener::Receiver {};

Listener::Listener(pqxx::connection& connection, const std::string& channel, std::function<void(std::string)> notified) {
  connection.listen(
      channel, [notified = std::move(notified)](const pqxx::notification& notification) { notified(std::string(notification.payload)); });
}

#else

struct Listener::Receiver final : pqxx::notification_receiver {
  Receiver(pqxx::connection& connection, const std::string& channel, std::function<void(std::string)> callback)
      : pqxx::notification_receiver(connection, channel), notified(std::move(callback)) {}
  void operator()(const std::string& payload, int) override { notified(payload); }
  std::function<void(std::string)> notified;
};

Listener::Listener(pqxx::connection& connection, const std::string& channel, std::function<void(std::string)> notified)
    : receiver_(std::make_unique<Receiver>(connection, channel, std::move(notified))) {}

#endif

Listener::~Listener() = default;

}  // namespace termgate::inline v0::detail
