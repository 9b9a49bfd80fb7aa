// The lock service that the suite runs against: a real server of its own on loopback, or a double
// that replays a protocol. TERMGATE_SOURCE says which. One thread at a time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace termgate::test {

// A process that is ended with this object.
class Process {
 public:
  Process(std::vector<std::string> command, const std::filesystem::path& log);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  void pause();
  void resume();
  void end(int signal);  // and waits for its end

 private:
  pid_t pid_ = -1;
};

class Server {
 public:
  virtual ~Server() = default;

  // Starts it where it is not running, and returns once it grants leases.
  void start();
  void stop();  // as an operator does
  void kill();  // as a crash does
  void pause() { process_->pause(); }
  void resume() { process_->resume(); }
  // Everything is lost.
  void wipe();
  // A copy of its data, and back to that copy.
  void back_up();
  void restore();
  // What this service's terms come from is deleted by an operator, while the server runs.
  virtual void delete_counter(const std::string& scope) = 0;

  // An operator takes a lease away while it is held. Where the lease has the counter in it, that is
  // lost as well.
  virtual void take_away(const std::string& scope) { delete_counter(scope); }

  virtual std::string url() const = 0;
  std::string url_with(const std::string& option) const {
    return url() + (url().find('?') == std::string::npos ? "?" : "&") + option;
  }
  // The shortest TTL whose end it keeps to, and how much later than that a lease may end.
  virtual std::chrono::milliseconds ttl() const { return std::chrono::milliseconds(1000); }
  virtual std::chrono::milliseconds late() const { return std::chrono::milliseconds(1000); }
  // A deleted counter makes it issue terms again.
  virtual bool counts() const { return counts_in_the_lease(); }
  // The lease has the counter in it: who takes one away deletes the other.
  virtual bool counts_in_the_lease() const { return false; }
  // Its client library keeps a lease alive for as long as the process runs.
  virtual bool renews_itself() const { return false; }
  // Its client library does not connect again to a server that has lost data.
  virtual bool client_refuses() const { return false; }

 protected:
  Server();
  virtual std::vector<std::string> command() const = 0;
  virtual void prepare() {}  // before a start: its configuration
  std::filesystem::path home() const { return home_; }
  std::filesystem::path data() const { return home_ / "data"; }
  void run(const std::vector<std::string>& words) const;  // a client; throws if it fails
  static int free_port();

 private:
  struct Home {
    std::filesystem::path path;
    ~Home();
  };
  Home own_;
  std::filesystem::path home_;
  std::unique_ptr<Process> process_;
};

// By TERMGATE_SOURCE. Exits the program with 77 where the server is not installed.
Server& server();

// Until it returns true; false after `limit`.
bool within(std::chrono::milliseconds limit, const std::function<bool()>& condition);

}  // namespace termgate::test
