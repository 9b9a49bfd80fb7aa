// One cancel request on its way to the server: connects, with TLS if the session has it, sends, and
// waits for the server to close. Limited in time. Runs on a worker's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "stream.hpp"
#include "worker.hpp"

namespace termgate::net {

class CancelTask final : public Pollable {
 public:
  CancelTask(Worker& worker, const CancelRegistry::Target& target,
             std::shared_ptr<const Settings> settings, std::function<void()> done);

  void begin();
  void ready(std::uint32_t events) override;
  void look_at_clock(conversation::Instant now);
  void end();

 private:
  enum class Stage { connecting, tls_answer, handshake, sending, closing, over };

  void connected();
  void go_on();
  void send_some();

  Worker& worker_;
  const CancelRegistry::Target target_;
  std::shared_ptr<const Settings> settings_;
  std::function<void()> done_;
  Stream stream_;
  Stage stage_ = Stage::connecting;
  std::string out_;
  std::uint32_t watched_ = 0;
  conversation::Instant deadline_;
};

}  // namespace termgate::net
