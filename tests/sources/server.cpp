#include "server.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include <termgate/sources.hpp>

namespace termgate::test {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

// What blanks separate, and `more` as it is.
Words words(const std::string& text, const Words& more) {
  std::istringstream stream(text);
  Words all{std::istream_iterator<std::string>(stream), {}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

pid_t start_process(const Words& command, const std::filesystem::path& log) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t parent = getpid(), pid = fork();
  if (pid != 0) {
    setpgid(pid, pid);  // as the child does: whoever is first
    return pid;
  }
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(out, 1);
  dup2(out, 2);
  execvp(words[0], words.data());
  _exit(127);
}

class Redis final : public Server {
 public:
  std::string url() const override { return fmt::format("redis://127.0.0.1:{}", port_); }
  std::chrono::milliseconds ttl() const override { return 500ms; }
  bool counts() const override { return true; }
  void delete_counter(const std::string& scope) override {
    run(words(client(), {"termgate:{" + scope + "}:term"}));
  }
  void take_away(const std::string& scope) override {
    run(words(client(), {"termgate:{" + scope + "}:lease"}));
  }

 private:
  Words command() const override {
    return words(
        fmt::format("redis-server --port {} --bind 127.0.0.1 --appendonly yes --appendfsync always "
                    "--repl-diskless-sync-delay 0",
                    port_),
        {"--save", "", "--dir", data().string()});
  }
  std::string client() const { return fmt::format("redis-cli -p {} DEL", port_); }
  const int port_ = free_port();
};

class Etcd final : public Server {
 public:
  std::string url() const override { return fmt::format("etcd://127.0.0.1:{}", port_); }
  std::chrono::milliseconds late() const override { return 1500ms; }
  // An operator may delete the key; no counter is in it.
  void delete_counter(const std::string& scope) override {
    run(words(fmt::format("env ETCDCTL_API=3 etcdctl --endpoints 127.0.0.1:{} del", port_),
              {"termgate/" + scope}));
  }

 private:
  Words command() const override {
    const std::string client = fmt::format("http://127.0.0.1:{}", port_),
                      peer = fmt::format("http://127.0.0.1:{}", peer_);
    return words(
        fmt::format("etcd --listen-client-urls {0} --advertise-client-urls {0} --listen-peer-urls "
                    "{1} --initial-advertise-peer-urls {1} --initial-cluster default={1} "
                    "--heartbeat-interval 50 --election-timeout 250",
                    client, peer),
        {"--data-dir", data().string()});
  }
  const int port_ = free_port(), peer_ = free_port();
};

class ZooKeeper final : public Server {
 public:
  std::string url() const override { return fmt::format("zookeeper://127.0.0.1:{}", port_); }
  std::chrono::milliseconds ttl() const override { return 800ms; }
  std::chrono::milliseconds late() const override { return 1000ms; }
  bool renews_itself() const override { return true; }
  bool client_refuses() const override { return true; }
  void delete_counter(const std::string&) override {}  // there is none
  void take_away(const std::string& scope) override {
    std::string node = "/termgate/";
    for (const char c : scope) node += c == ' ' ? "%20" : std::string(1, c);
    run(words(java + fmt::format("ZooKeeperMain -server 127.0.0.1:{} delete", port_), {node}));
  }

 private:
  const std::string java =
      "java -Xmx128m -cp /etc/zookeeper/conf:/usr/share/java/zookeeper.jar org.apache.zookeeper.";
  void prepare() override {
    std::ofstream(home() / "zoo.cfg") << "tickTime=200\nminSessionTimeout=400\nmaxSessionTimeout="
                                         "120000\nadmin.enableServer=false\n"
                                      << "clientPortAddress=127.0.0.1\nclientPort=" << port_
                                      << "\ndataDir=" << data().string() << "\n";
  }
  Words command() const override {
    return words(java + "server.quorum.QuorumPeerMain", {(home() / "zoo.cfg").string()});
  }
  const int port_ = free_port();
};

// A double that speaks the service's protocol; see its head.
class Double : public Server {
 public:
  explicit Double(std::string program) : program_(std::move(program)) {}
  void delete_counter(const std::string& scope) override {
    run({"python3", script(), "--delete", scope, "--port", std::to_string(port_)});
  }

 protected:
  std::string script() const { return std::string(TERMGATE_TEST_SOURCES) + "/" + program_; }
  Words command() const override {
    return {"python3", script(), "--port", std::to_string(port_), "--data", data().string()};
  }
  const int port_ = free_port();

 private:
  const std::string program_;
};

class ConsulDouble final : public Double {
 public:
  ConsulDouble() : Double("consul_double.py") {}
  std::string url() const override { return fmt::format("consul://127.0.0.1:{}", port_); }
  std::chrono::milliseconds ttl() const override { return 2500ms; }  // the double's ten seconds
};

// A real agent that is a server of its own. Sessions last ten seconds at least, and up to twice as
// long.
class Consul final : public Server {
 public:
  explicit Consul(std::string program) : program_(std::move(program)) {}
  std::string url() const override { return fmt::format("consul://127.0.0.1:{}", port_); }
  std::chrono::milliseconds ttl() const override { return 10s; }
  std::chrono::milliseconds late() const override { return 12s; }
  void delete_counter(const std::string& scope) override {
    run({program_, "kv", "delete", fmt::format("-http-addr=127.0.0.1:{}", port_),
         "termgate/" + scope});
  }

 private:
  void prepare() override {
    std::ofstream(home() / "consul.json") << fmt::format(
        R"({{"server": true, "bootstrap_expect": 1, "node_name": "one", "data_dir": "{}", "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1",
"disable_update_check": true, "performance": {{"raft_multiplier": 1}}, "ports": {{"http": {}, "server": {}, "serf_lan": {}, "serf_wan": -1,
"dns": -1, "grpc": -1}}}})",
        data().string(), port_, server_, gossip_);
  }
  Words command() const override {
    return {program_, "agent", "-config-file", (home() / "consul.json").string()};
  }
  const std::string program_;
  const int port_ = free_port(), server_ = free_port(), gossip_ = free_port();
};

class KubernetesDouble final : public Double {
 public:
  KubernetesDouble() : Double("kubernetes_double.py") {}
  std::string url() const override {
    return fmt::format("kubernetes://127.0.0.1:{}/default?tls=off", port_);
  }
  std::chrono::milliseconds late() const override { return 1500ms; }
  bool counts_in_the_lease() const override { return true; }
};

// A real API server, with an etcd of its own: kubernetes_server.sh.
class Kubernetes final : public Server {
 public:
  std::string url() const override {
    return fmt::format(
        "kubernetes://127.0.0.1:{}/default?ca-file={}/certs/apiserver.crt&password-file={}/token",
        port_, home().string(), home().string());
  }
  std::chrono::milliseconds late() const override { return 1500ms; }
  bool counts_in_the_lease() const override { return true; }
  void delete_counter(const std::string& scope) override {
    run({"bash", script, "delete", std::to_string(port_), scope});
  }

 private:
  const std::string script = std::string(TERMGATE_TEST_SOURCES) + "/kubernetes_server.sh";
  Words command() const override {
    return {"bash",
            script,
            "run",
            home().string(),
            std::to_string(port_),
            std::to_string(etcd_),
            std::to_string(peer_)};
  }
  const int port_ = free_port(), etcd_ = free_port(), peer_ = free_port();
};

bool installed(const char* program) {
  return std::system(fmt::format("command -v {} >/dev/null 2>&1", program).c_str()) == 0;
}

std::unique_ptr<Server> make(std::string_view kind) {
  const auto need = [](const char* program) {
    if (installed(program)) return;
    std::printf("skipped: %s is not installed\n", program);
    std::exit(77);
  };
  if (kind == "redis") {
    need("redis-server");
    return std::make_unique<Redis>();
  }
  if (kind == "etcd") {
    need("etcd");
    need("etcdctl");
    return std::make_unique<Etcd>();
  }
  if (kind == "zookeeper") {
    need("java");
    if (!std::filesystem::exists("/usr/share/java/zookeeper.jar")) need("zookeeper.jar");
    return std::make_unique<ZooKeeper>();
  }
  if (kind == "consul_double") return std::make_unique<ConsulDouble>();
  if (kind == "consul") {
    const char* program = std::getenv("TERMGATE_CONSUL");
    if (program == nullptr) need("the Consul of tests/support/consul_home.sh");
    return std::make_unique<Consul>(program);
  }
  if (kind == "kubernetes_double") return std::make_unique<KubernetesDouble>();
  if (kind == "kubernetes") {
    need("etcd");
    if (std::getenv("TERMGATE_KUBE_APISERVER") == nullptr)
      need("the program that TERMGATE_KUBE_APISERVER names");
    return std::make_unique<Kubernetes>();
  }
  throw std::runtime_error("TERMGATE_SOURCE names no server");
}

// Every thread of every process of the group.
bool all_stopped(pid_t group) try {
  std::error_code gone;
  for (const auto& process : std::filesystem::directory_iterator("/proc", gone)) {
    if (process.path().filename().string().find_first_not_of("0123456789") != std::string::npos)
      continue;
    for (const auto& thread : std::filesystem::directory_iterator(process.path() / "task", gone)) {
      std::ifstream file(thread.path() / "stat");
      std::string text((std::istreambuf_iterator<char>(file)), {});
      char state = 'Z';
      int parent = 0, of_group = 0;
      const auto name_end = text.rfind(')');
      if (name_end == std::string::npos) continue;
      if (std::sscanf(text.c_str() + name_end + 1, " %c %d %d", &state, &parent, &of_group) != 3 ||
          of_group != group)
        continue;
      if (state != 'T' && state != 'Z' && state != 'X') return false;
    }
  }
  return true;
} catch (const std::filesystem::filesystem_error&) {
  return false;  // a process ended while its folder was read
}

}  // namespace

Process::Process(Words command, const std::filesystem::path& log)
    : pid_(start_process(command, log)) {
  if (pid_ < 0) throw std::runtime_error("fork");
}
Process::~Process() {
  if (pid_ > 0) end(SIGKILL);
}
void Process::pause() {
  ::kill(-pid_, SIGSTOP);
  // Each thread stops when it notices: until then it may still answer.
  if (!within(10s, [this] { return all_stopped(pid_); }))
    throw std::runtime_error("the server has not stopped");
}
void Process::resume() { ::kill(-pid_, SIGCONT); }
void Process::end(int signal) {
  ::kill(-pid_, signal);
  if (signal != SIGKILL) {
    ::kill(-pid_, SIGCONT);
    if (within(10s, [this] { return waitpid(pid_, nullptr, WNOHANG) == pid_; })) {
      ::kill(-pid_, SIGKILL);  // what it had started
      pid_ = -1;
      return;
    }
    ::kill(-pid_, SIGKILL);
  }
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

Server::Home::~Home() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

Server::Server() {
  const char* tmp = std::getenv("TMPDIR");
  std::string name = std::string(tmp == nullptr ? "/tmp" : tmp) + "/termgate-source.XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
  own_.path = home_ = name;
}

void Server::start() {
  if (process_) return;
  std::filesystem::create_directories(data());
  prepare();
  process_ = std::make_unique<Process>(command(), home_ / "log");
  std::string last = "nothing";
  const bool ready = within(60s, [&] {
    try {
      const auto source = open_lease_source(url());
      const auto lease = source->try_acquire(Scope("is it ready?"), "the suite", 10s);
      return lease && source->release(Scope("is it ready?"), *lease, "the suite");
    } catch (const Error& error) {
      last = error.what();
      return false;
    }
  });
  if (ready) return;
  std::ifstream log(home_ / "log");
  throw std::runtime_error("the server did not start: " + last + "\n" +
                           std::string(std::istreambuf_iterator<char>(log), {}));
}

void Server::stop() {
  if (process_) process_->end(SIGTERM);
  process_.reset();
}
void Server::kill() {
  if (process_) process_->end(SIGKILL);
  process_.reset();
}
void Server::wipe() {
  kill();
  std::filesystem::remove_all(data());
  start();
}
void Server::back_up() {
  stop();
  std::filesystem::remove_all(home_ / "yesterday");
  std::filesystem::copy(data(), home_ / "yesterday", std::filesystem::copy_options::recursive);
  start();
}
void Server::restore() {
  stop();
  std::filesystem::remove_all(data());
  std::filesystem::copy(home_ / "yesterday", data(), std::filesystem::copy_options::recursive);
  start();
}

void Server::run(const Words& words) const {
  int status = 0;
  waitpid(start_process(words, home_ / "log"), &status, 0);
  if (status != 0) throw std::runtime_error(words[0] + " failed");
}

// Below the ports that the kernel gives to other programs' connections: one of those could take it
// while the server is stopped.
int Server::free_port() {
  std::random_device chance;
  for (;;) {
    const int port = 12'000 + static_cast<int>(chance() % 18'000);
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    const bool bound = bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    close(socket);
    if (bound) return port;
  }
}

Server& server() {
  static const std::unique_ptr<Server> one = [] {
    const char* kind = std::getenv("TERMGATE_SOURCE");
    auto made = make(kind == nullptr ? "" : kind);
    made->start();
    return made;
  }();
  one->start();
  return *one;
}

bool within(std::chrono::milliseconds limit, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + limit;
  do {
    if (condition()) return true;
    std::this_thread::sleep_for(20ms);
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace termgate::test
