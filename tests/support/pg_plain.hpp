// A plain libpq client for tests: what happens here goes round the library. And throw-away
// databases and servers.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>

#include "pg_session.hpp"

namespace termgate::test {

// One session; throws std::runtime_error for whatever the server refuses.
class Plain : public PgSession {
 public:
  using PgSession::PgSession;

  // The first column of the first row; empty where there is none.
  std::string run(const std::string& sql) { return value(sql); }

  // Asks until the answer is `wanted`, at most 10 s.
  bool await(const std::string& sql, const std::string& wanted) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (run(sql) != wanted) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
};

inline std::uint16_t port_of(const std::string& url) {
  const auto slash = url.rfind('/');
  return static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':', slash) + 1)));
}

// An empty database of its own on a server that is there anyway; dropped at the end.
class FreshDatabase {
 public:
  explicit FreshDatabase(std::string server) : server_(std::move(server)) {
    static std::atomic<int> count{0};
    name_ = "faults_" + std::to_string(getpid()) + "_" + std::to_string(count++);
    Plain(server_).run("CREATE DATABASE " + name_);
  }
  ~FreshDatabase() {
    try {
      Plain(server_).run("DROP DATABASE IF EXISTS " + name_ + " WITH (FORCE)");
    } catch (const std::exception&) {
      // The throw-away server is stopped after the run anyway.
    }
  }
  FreshDatabase(const FreshDatabase&) = delete;
  FreshDatabase& operator=(const FreshDatabase&) = delete;

  std::string url() const { return server_.substr(0, server_.rfind('/') + 1) + name_; }

 private:
  std::string server_;
  std::string name_;
};

// A PostgreSQL server of the test's own, durable as a production one is; stopped at the end.
// `script`: pg_server.sh.
class OwnServer {
 public:
  OwnServer(std::string script, std::string major)
      : script_(std::move(script)), major_(std::move(major)) {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "termgate-server-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = pattern;
    std::filesystem::permissions(
        folder_,
        std::filesystem::perms(0755));  // the server runs as another user where we are root
    start();
  }
  ~OwnServer() {
    try {
      script("stop '" + folder_ + "' immediate");
    } catch (const std::exception&) {
      // It was killed and not started again.
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  const std::string& url() const { return url_; }
  // Comes back on the port that it had.
  void start() { url_ = script("start " + major_ + " '" + folder_ + "'"); }
  void kill() { script("kill '" + folder_ + "'"); }

 private:
  std::string script(const std::string& arguments) {
    FILE* pipe = popen(("'" + script_ + "' " + arguments).c_str(), "r");
    if (pipe == nullptr) throw std::runtime_error("popen");
    std::string output;
    std::array<char, 4096> part{};
    while (fgets(part.data(), static_cast<int>(part.size()), pipe) != nullptr)
      output += part.data();
    if (pclose(pipe) != 0) throw std::runtime_error(script_ + " " + arguments + " failed");
    while (!output.empty() && output.back() == '\n') output.pop_back();
    return output;
  }

  std::string script_, major_, folder_, url_;
};

}  // namespace termgate::test
