// How far a client has been admitted: by the limits, the rules, the server, and its lease.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>

#include <termgate/conversation/authority.hpp>

#include "liveness.hpp"
#include "worker.hpp"

namespace termgate::net {

// Owned by the client's Relay; runs on the worker's thread. A client goes through the values of
// Step in order. Other threads apply the rules and acquire the lease; they find the connection by
// its number, because it may be gone by then. leave() gives back once what was taken.
class Admittance {
 public:
  Admittance(Connection& connection, Worker& worker);

  bool admitted() const noexcept { return step_ == Step::admitted; }
  // The server has admitted it. Its first statement waits until the authority allows it.
  bool waits() const noexcept { return step_ == Step::established; }
  bool opened() const noexcept { return step_ >= Step::established; }

  // The client has sent its login, or its connection ends.
  void identified();
  // Takes a place in the limits and has another thread apply the rules; answered() follows. Returns
  // the refusal if a limit is reached.
  std::optional<conversation::Admission> request(const conversation::LoginRequest& who);
  // The rules' answer. False: it is refused.
  bool answered(const conversation::Admission& admission, const conversation::LoginRequest& who);
  void establish(const conversation::LoginRequest& who, bool tls);
  void set_ready() noexcept { step_ = Step::ready; }
  void leave(const conversation::LoginRequest& who);

 private:
  enum class Step : std::uint8_t {
    none,
    // The limits have a place for it.
    counted,
    // The rules admit it, and the authority knows of it.
    admitted,
    established,
    ready,
  };

  Connection& connection_;
  Worker& worker_;
  Step step_ = Step::none;
  std::optional<std::list<Connection*>::iterator> greeting_;
  std::shared_ptr<SocketLiveness> liveness_;
};

}  // namespace termgate::net
