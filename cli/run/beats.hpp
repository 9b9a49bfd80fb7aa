// The heartbeats of `termgate run --job`: a thread that records that the run is alive, and notices
// when somebody has cancelled it.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include <termgate/database.hpp>

namespace termgate::cli::run {

class Beats {
 public:
  // Sends a beat every `every`, minus a random part of up to a quarter, until the run has ended or
  // its term is stale. Throws std::system_error if there is no descriptor.
  Beats(Database database, std::string run_id, std::chrono::milliseconds every);
  ~Beats();  // calls stop()
  Beats(const Beats&) = delete;
  Beats& operator=(const Beats&) = delete;

  // Becomes readable when the run is cancelled.
  int descriptor() const noexcept { return cancelled_; }
  // Stops the beats and returns when none is under way.
  void stop();

 private:
  void beat(const std::stop_token& stop, std::chrono::milliseconds every);

  Database database_;
  const std::string run_id_;
  const int cancelled_;
  std::jthread thread_;
};

}  // namespace termgate::cli::run
