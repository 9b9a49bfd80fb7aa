// storm: the proxies' processes and their faults (proxies.hpp has a diagram). A killed proxy's
// successor has the same address, because the relays stay.
#include "storm/proxies.hpp"
#include "storm/started.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "storm/clock.hpp"

namespace termgate::cli::storm {
namespace {

// The last line of a proxy's log, which says why it ended.
std::string last_line(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  return last.empty() ? "it said nothing" : last;
}

std::string backend_file(const Plan& plan, std::size_t index) {
  return fmt::format("{}/proxy{}.backend", plan.folder, index + 1);
}

}  // namespace

Proxies::Proxies(Plan& plan) : plan_(plan), proxies_(static_cast<std::size_t>(plan.proxies)) {
  if (fmt::format("{}/.s.PGSQL.{}", plan.folder, plan.proxies).size() >=
      sizeof sockaddr_un{}.sun_path)
    throw UsageError(fmt::format(
        "--proxies: {} is too long for the path of a socket; give a shorter TMPDIR", plan.folder));
  const std::string own = named(plan.url, plan.names.application() + "-proxy");
  for (std::size_t index = 0; index < proxies_.size(); ++index) {
    std::string backend = own;
    try {
#ifdef TERMGATE_WITH_ODBC
      if (is_odbc(own)) {
        const auto [host, port] = place_of_odbc(own);
        backs_.push_back(std::make_unique<Relay>(own, RelayTarget{.host = host, .port = port}));
        backend = beside(plan.backend_url, backs_.back()->port());
      } else
#endif
        backend = backs_.emplace_back(std::make_unique<Relay>(own))->url();
    } catch (const Unavailable&) { throw; } catch (const Error&) {
      // The server requires TLS, so there is no relay between this proxy and the server.
    }
    fronts_.push_back(std::make_unique<Relay>(
        plan.url, RelayTarget{.host = plan.folder, .port = std::to_string(index + 1)}));
    plan.proxy_ports.push_back(fronts_.back()->port());
    // A file instead of an argument, because the URL may contain a password and everybody can read
    // arguments; nobody else can read this folder.
    std::ofstream file(backend_file(plan, index));
    file << backend << '\n';
    if (!file.flush()) throw Error("storm: its folder could not be written");
  }
}

Proxies::~Proxies() {
  for (std::size_t index = 0; index < proxies_.size(); ++index) {
    std::error_code ignored;
    // It contains the URL, so it is not kept with the logs.
    std::filesystem::remove(backend_file(plan_, index), ignored);
    if (proxies_[index].pid <= 0) continue;
    kill(proxies_[index].pid, SIGKILL);
    while (waitpid(proxies_[index].pid, nullptr, 0) < 0 && errno == EINTR) {}
    forget_clock(proxies_[index].pid);
  }
}

std::string Proxies::log_of(std::size_t index) const {
  return fmt::format("{}/proxy{}.{}.out", plan_.folder, index + 1, proxies_[index].life);
}

void Proxies::start(std::size_t index) {
  Proxy& proxy = proxies_[index];
  ++proxy.life;
  const std::string log = log_of(index);
  std::vector<std::string> words = {
      plan_.program,     "proxy",
      "--listen",        fmt::format("unix:{}/.s.PGSQL.{}", plan_.folder, index + 1),
      "--backend-file",  backend_file(plan_, index),
      "--schema",        plan_.schema,
      "--enforce",       plan_.enforce,
      "--drain-timeout", "2s",
      "--threads",       "2"};
  // Sessions of a storm last for only a few writes, but are to have seats even so.
  if (engine_of(plan_.url) == Engine::postgresql) words.insert(words.end(), {"--seats", "eager"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> settings = environment_with(
      plan_.clocks != nullptr ? plan_.clocks->settings(fmt::format("proxy{}", index + 1))
                              : std::vector<std::string>());
  std::vector<char*> envp;
  for (std::string& setting : settings) envp.push_back(setting.data());
  envp.push_back(nullptr);
  const pid_t director = getpid();
  Started started;
  proxy.pid = fork();
  if (proxy.pid < 0) throw Error("storm: no process for a proxy");
  if (proxy.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != director) _exit(127);
    setpgid(0, 0);  // the terminal's signals are for the director, which ends the storm in order
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (out < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0) _exit(127);
    execve(plan_.program.c_str(), argv.data(), envp.data());
    _exit(127);
  }
  started.wait();
}

void Proxies::start_all(milliseconds patience) {
  for (std::size_t index = 0; index < proxies_.size(); ++index) {
    if (proxies_[index].pid <= 0) start(index);
  }
  const auto end = std::chrono::steady_clock::now() + patience;
  for (std::size_t index = 0; index < proxies_.size(); ++index) {
    Proxy& proxy = proxies_[index];
    for (;;) {
      std::string why;
      try {
        const std::string url = through(plan_.url, plan_.proxy_ports[index]);
        connect(is_odbc(plan_.url) ? url : url + "&connect_timeout=5")->run("SELECT 1");
        break;
      } catch (const Error& error) { why = error.what(); }
      const bool ended = waitpid(proxy.pid, nullptr, WNOHANG) == proxy.pid;
      if (ended) {
        forget_clock(proxy.pid);
        proxy.pid = -1;
      }
      if (ended || std::chrono::steady_clock::now() >= end)
        throw Error(fmt::format("storm: proxy {} did not start: {}", index + 1,
                                ended ? last_line(log_of(index)) : why));
      std::this_thread::sleep_for(milliseconds(20));
    }
  }
}

void Proxies::tick() {
  const auto now = std::chrono::steady_clock::now();
  for (std::size_t index = 0; index < proxies_.size(); ++index) {
    Proxy& proxy = proxies_[index];
    if (proxy.pid > 0) {
      if (proxy.stopped && now >= proxy.due) {
        proxy.stopped = false;
        kill(proxy.pid, SIGCONT);
      }
      if (waitpid(proxy.pid, nullptr, WNOHANG) == proxy.pid) {
        ++ended_by_themselves_;
        last_words_ = last_line(log_of(index));
        forget_clock(proxy.pid);
        proxy.pid = -1;
        proxy.stopped = false;
        proxy.due = now + std::chrono::seconds(1);
      }
    } else if (now >= proxy.due) {
      start(index);
    }
  }
}

std::vector<Proxies::Proxy*> Proxies::alive(bool stopped_too) {
  std::vector<Proxy*> those;
  for (Proxy& proxy : proxies_) {
    if (proxy.pid > 0 && (stopped_too || !proxy.stopped)) those.push_back(&proxy);
  }
  return those;
}

bool Proxies::stop_one(Choice& choice) {
  const auto those = alive(false);
  const std::size_t which = static_cast<std::size_t>(choice.number(0, 1'000'000));
  const milliseconds time = choice.span(plan_.ttl / 4, 3 * plan_.ttl);
  if (those.empty()) return false;
  Proxy& proxy = *those[which % those.size()];
  if (kill(proxy.pid, SIGSTOP) != 0) return false;
  proxy.stopped = true;
  proxy.due = std::chrono::steady_clock::now() + time;
  return true;
}

bool Proxies::kill_one(Choice& choice) {
  const auto those = alive(true);
  const std::size_t which = static_cast<std::size_t>(choice.number(0, 1'000'000));
  const milliseconds time = choice.span(milliseconds(0), plan_.ttl);
  if (those.empty()) return false;
  Proxy& proxy = *those[which % those.size()];
  kill(proxy.pid, SIGKILL);
  while (waitpid(proxy.pid, nullptr, 0) < 0 && errno == EINTR) {}
  forget_clock(proxy.pid);
  proxy.pid = -1;
  proxy.stopped = false;
  proxy.due = std::chrono::steady_clock::now() + time;
  return true;
}

bool Proxies::cut_one(Choice& choice, bool front) {
  const auto& relays = front ? fronts_ : backs_;
  const auto which = static_cast<std::size_t>(choice.number(0, 1'000'000));
  const auto most = static_cast<int>(choice.number(1, 4));
  const bool reset = choice.in(50);
  return !relays.empty() && relays[which % relays.size()]->cut(most, reset, 2 * plan_.ttl) > 0;
}

std::vector<Relay*> Proxies::relays() const {
  std::vector<Relay*> all;
  for (const auto& relay : fronts_) all.push_back(relay.get());
  for (const auto& relay : backs_) all.push_back(relay.get());
  return all;
}

void Proxies::resume_all() {
  for (Proxy& proxy : proxies_) {
    if (proxy.pid > 0 && proxy.stopped) kill(proxy.pid, SIGCONT);
    proxy.stopped = false;
  }
}

void Proxies::end_all(milliseconds patience) {
  resume_all();
  for (const Proxy& proxy : proxies_) {
    if (proxy.pid > 0) kill(proxy.pid, SIGTERM);
  }
  const auto end = std::chrono::steady_clock::now() + patience;
  for (Proxy& proxy : proxies_) {
    while (proxy.pid > 0) {
      if (std::chrono::steady_clock::now() >= end) kill(proxy.pid, SIGKILL);
      if (waitpid(proxy.pid, nullptr, WNOHANG) == proxy.pid) {
        forget_clock(proxy.pid);
        proxy.pid = -1;
      } else {
        std::this_thread::sleep_for(milliseconds(10));
      }
    }
  }
}

}  // namespace termgate::cli::storm
