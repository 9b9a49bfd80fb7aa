// Connects to the server: the addresses of --backend in turn, without blocking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "end.hpp"
#include "resolver.hpp"

namespace termgate::net {

// Owned by a Relay, whose server's end it opens; runs on the worker's thread. problem() collects
// one text for each address that failed.
class Dialer {
 public:
  // `busy`: a Unix socket whose queue was full is tried again at the next sweep.
  enum class State : std::uint8_t { idle, under_way, busy, connected, failed };

  Dialer(Worker& worker, End& server) : worker_(worker), server_(server) {}

  // Forgets all attempts.
  void begin();
  void use(Resolver::Addresses addresses, std::string problem = {});
  // Tries the addresses from the next one on. After `failed`, problem() says why.
  State next(const Options& options);
  void set_connected() noexcept { state_ = State::connected; }
  void stop() noexcept { state_ = State::idle; }
  // The address that was tried last cannot be connected to.
  void add_problem(std::string_view why);

  bool connecting() const noexcept { return state_ == State::under_way || busy(); }
  bool busy() const noexcept { return state_ == State::busy; }
  const std::string& problem() const noexcept { return problem_; }
  // The address in use, or the one that was tried last.
  const ServerAddress& address() const noexcept;

 private:
  Worker& worker_;
  End& server_;
  State state_ = State::idle;
  Resolver::Addresses addresses_;
  // The next address to try. After connecting, one past the address in use.
  std::size_t next_ = 0;
  std::string problem_;
};

}  // namespace termgate::net
