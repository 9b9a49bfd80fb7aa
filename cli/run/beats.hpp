// The heartbeats of `termgate run --job`: a thread that records that the run is alive, and learns that somebody has cancelled it.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include <termgate/database.hpp>

namespace termgate::cli::run {

class Beats {
 public:
  // Beats every `every`, a quarter earlier at most, by chance.
  Beats(Database database, std::string run_id, std::chrono::milliseconds every);
  ~Beats();  // stop()
  Beats(const Beats&) = delete;
  Beats& operator=(const Beats&) = delete;

  int descriptor() const noexcept { return cancelled_; }  // readable: the run was cancelled
  // Returns when no beat is on its way.
  void stop();

 private:
  void beat(const std::stop_token& stop, std::chrono::milliseconds every);

  Database database_;
  const std::string run_id_;
  const int cancelled_;
  std::jthread thread_;
};

}  // namespace termgate::cli::run
