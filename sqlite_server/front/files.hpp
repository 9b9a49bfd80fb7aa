// Files: the served file as an engine, which is replaced when the file is moved or replaced; and
// the sessions of its streams.
//
// Its sessions add to sqlite_file::Session what a server needs: calls of several threads take
// turns, an eviction ends the transaction of an idle stream on a worker, open transactions are
// counted and bounded, none begins during a drain, and the end of a client's connection stops its
// statement.
//
// Owner: the front. Any thread, except that look() is for the housekeeper's. The sessions must be
// gone before it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "file/connection.hpp"
#include "file/engine.hpp"
#include "file/session.hpp"
#include "front/counts.hpp"
#include "front/running.hpp"
#include "front/workers.hpp"
#include "hrana/port.hpp"

namespace termgate::sqlite_front {

struct FileSettings {
  std::string path;
  std::chrono::milliseconds idle_holder_max{3000};
  std::size_t transactions_max = 128;
  sqlite_file::SessionOptions session;  // without on_lost
  // For the log: a refusal with one of Termgate's codes (TG001 …), or the loss of a transaction.
  // Called on any thread with locks held; must not block.
  std::function<void(std::string_view event, const Whose& whose, std::string_view code,
                     std::string_view message)>
      happened;
};

class Files {
 public:
  // Opens the file. Throws what storage/sqlite throws.
  Files(FileSettings settings, Workers& workers, Counts& counts);

  // Makes a session on the current file. Throws hrana::Busy if there is none.
  std::unique_ptr<hrana::FileSession> make();

  // Tries to open the file at the path again if it was moved, at most once a second. True: it was
  // moved since the last call, and older sessions are lost.
  bool look();
  // Why no session can be made; empty if one can.
  std::string obstacle() const;
  void drain() noexcept { draining_ = true; }
  bool draining() const noexcept { return draining_; }
  std::size_t transactions() const noexcept { return transactions_; }
  sqlite_file::Counters counters() const;
  std::size_t waiting() const;

 private:
  class Watched;
  std::shared_ptr<sqlite_file::Engine> open();

  const FileSettings settings_;
  Workers& workers_;
  Counts& counts_;
  const std::shared_ptr<detail::FenceMemory> memory_;
  std::atomic<bool> moved_{false}, draining_{false};
  std::atomic<std::size_t> transactions_{0};

  mutable std::mutex mutex_;  // guards the next three members
  std::shared_ptr<sqlite_file::Engine> engine_;
  sqlite_file::Counters before_;  // sums of the engines that are gone
  std::string obstacle_;
  std::chrono::steady_clock::time_point open_again_{};  // for the housekeeper
};

}  // namespace termgate::sqlite_front
