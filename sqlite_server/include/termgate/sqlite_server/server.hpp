// Server: an SQLite file served as PostgreSQL serves, to this process only. It listens on a socket in the kernel's abstract namespace
// whose name the kernel chooses, and lets nobody in but its own process: whoever else connects is hung up on. The proxy's listeners
// are what the network sees.
//
// A thread a session. Thread-safe; stop() ends the sessions, and so does the destructor.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace termgate::sqlite_server {

struct ServerOptions {
  std::string path;                 // of the file, which must exist
  std::string users_path;           // accounts, see users.hpp; empty: everybody is let in
  std::size_t sessions_max = 2000;  // past it a login is refused with 53300
  // After so long without a word the holder of the only write lock is ended where another session waits for it.
  std::chrono::milliseconds idle_holder_max{3000};
};

class Server {
 public:
  // Throws what storage/sqlite throws where the file cannot be opened, std::runtime_error where the users cannot be read or no socket is
  // to be had.
  explicit Server(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // A way past the socket for what reads a little: `answer` is given what the session `pid` says to `bytes`, on the caller's thread, in
  // some tenths of a millisecond. False: nothing was done; send them. Order is the caller's to keep, by saying how many bytes it has sent
  // and heard on the session's connection so far: where some are on their way, it is false. One caller at a time; it may be called after
  // the session's end, and then says false. Empty: there is no session with that key.
  using Shortcut = std::function<bool(std::uint64_t sent, std::uint64_t heard, std::string_view bytes, std::string& answer)>;
  Shortcut shortcut(std::uint32_t pid, std::string_view key) const;

  // "@name", for a connect() within this process.
  const std::string& address() const noexcept;
  // Lets nobody in any more and ends the sessions. False: some are still at work after `patience`; then only the end of the process ends
  // them, which rolls back what they have not committed. The destructor waits for them.
  bool stop(std::chrono::milliseconds patience) noexcept;

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace termgate::sqlite_server
