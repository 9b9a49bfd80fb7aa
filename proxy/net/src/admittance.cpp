#include "admittance.hpp"

#include <string>
#include <utility>

#include "connection.hpp"

namespace termgate::net {

Admittance::Admittance(Connection& connection, Worker& worker)
    : connection_(connection), worker_(worker), greeting_(worker.greets(connection)) {}

void Admittance::identified() {
  if (!greeting_) return;
  worker_.has_greeted(*greeting_);
  greeting_.reset();
}

std::optional<conversation::Admission> Admittance::request(const conversation::LoginRequest& who) {
  identified();
  Shared& shared = worker_.shared();
  const std::uint64_t id = connection_.id();
  const Endpoint& peer = connection_.peer();
  const auto verdict = shared.limits.enter(who.user, who.database, peer.host());
  if (verdict != LimitBook::Verdict::in) {
    Counters& counters = worker_.counters();
    const char* limit = "connections";
    switch (verdict) {
      case LimitBook::Verdict::user:
        limit = "user";
        counters.refused_limit_user.add();
        break;
      case LimitBook::Verdict::database:
        limit = "database";
        counters.refused_limit_database.add();
        break;
      case LimitBook::Verdict::address:
        limit = "address";
        counters.refused_limit_address.add();
        break;
      default: counters.refused_limit_connections.add(); break;
    }
    shared.log.say_seldom(std::string("limit/") + limit, LogLevel::warning, "limit_met",
                          {{"connection", id},
                           {"client", peer.text()},
                           {"limit", limit},
                           {"user", who.user},
                           {"database", who.database}});
    conversation::Admission refused;
    refused.refused_sqlstate = "53300";
    refused.refused_message = shared.limits.message(verdict);
    return refused;
  }
  step_ = Step::counted;
  liveness_ = std::make_shared<SocketLiveness>(connection_.client().stream().descriptor());
  conversation::ConnectRequest request{connection_.listener(), peer.host(), who, liveness_};
  // Rules may query a database.
  shared.blocking_pool.run([&shared, worker = &worker_, id, request = std::move(request)] {
    conversation::Admission admission;
    try {
      admission = shared.authority.admit(id, request);
    } catch (const std::exception& error) {
      // Unknown rules must not admit anyone.
      shared.log.say_seldom("admit", LogLevel::error, "rules_failed", {{"reason", error.what()}});
      admission.refused_sqlstate = "58000";
      admission.refused_message = "the proxy could not apply its rules; its log has the reason";
    }
    worker->post([&shared, worker, id, admission = std::move(admission)]() mutable {
      Connection* connection = worker->find(id);
      // The authority must be notified of the end of an admitted client that has gone meanwhile.
      if (connection != nullptr && connection->relay().running())
        connection->relay().admitted(std::move(admission));
      else if (admission.refused_sqlstate.empty()) shared.authority.ended(id);
    });
  });
  return std::nullopt;
}

bool Admittance::answered(const conversation::Admission& admission,
                          const conversation::LoginRequest& who) {
  if (admission.refused_sqlstate.empty()) {
    step_ = Step::admitted;
    return true;
  }
  worker_.shared().log.say(LogLevel::warning, "connection_refused",
                           {{"connection", connection_.id()},
                            {"client", connection_.peer().text()},
                            {"listener", connection_.listener()},
                            {"user", who.user},
                            {"database", who.database},
                            {"code", admission.refused_sqlstate},
                            {"message", admission.refused_message}});
  return false;
}

// The client's first statement waits in its socket until its lease is acquired, or has failed.
void Admittance::establish(const conversation::LoginRequest& who, bool tls) {
  if (!admitted()) return;
  step_ = Step::established;
  worker_.counters().opened.add();
  worker_.shared().log.say(LogLevel::info, "connection_opened",
                           {{"connection", connection_.id()},
                            {"client", connection_.peer().text()},
                            {"listener", connection_.listener()},
                            {"user", who.user},
                            {"database", who.database},
                            {"application_name", who.application_name},
                            {"tls", tls}});
  worker_.shared().authority.established(connection_.id(),
                                         [worker = &worker_, id = connection_.id()] {
                                           worker->post([worker, id] {
                                             if (Connection* connection = worker->find(id))
                                               connection->relay().allowed();
                                           });
                                         });
}

void Admittance::leave(const conversation::LoginRequest& who) {
  if (liveness_) liveness_->over();
  Shared& shared = worker_.shared();
  if (step_ >= Step::admitted) shared.authority.ended(connection_.id());
  if (step_ >= Step::counted)
    shared.limits.leave(who.user, who.database, connection_.peer().host());
}

}  // namespace termgate::net
