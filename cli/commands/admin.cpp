// admin: serves leases, fences, jobs and the audit over HTTP, with a page that shows them.

#include <sys/socket.h>

#include <csignal>

#include <fmt/format.h>

#include <termgate/admin/server.hpp>
#include <termgate/http/systemd.hpp>

#include "command.hpp"
#include "output.hpp"
#include "secrets.hpp"
#include "support/tokens.hpp"

namespace po = boost::program_options;

namespace termgate::cli {
namespace {

using namespace std::chrono_literals;

// A socket from systemd replaces the one of --http. Like that one it must be on the loopback,
// unless --behind-tls is given.
void take_inherited(http::ListenerOptions& listener) {
  const auto sockets = http::take_inherited_sockets();
  if (sockets.empty()) return;
  if (sockets.size() > 1)
    throw UsageError(
        "systemd passed more than one socket: admin serves one; its .socket unit has one "
        "ListenStream=");
  const int descriptor = sockets.front().descriptor;
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  int listens = 0;
  socklen_t listens_size = sizeof listens;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) != 0 ||
      listens == 0 || (address.ss_family != AF_INET && address.ss_family != AF_INET6))
    throw UsageError(
        "the inherited socket is not a listening TCP socket: its .socket unit needs "
        "ListenStream=HOST:PORT and Accept=no");
  listener.host = http::Endpoint(reinterpret_cast<const sockaddr*>(&address), size).host();
  listener.inherited = descriptor;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

int run_admin(const Arguments& arguments) {
  admin::ServerOptions server_options;
  const std::string wanted = arguments.text_or("http", "127.0.0.1:9091");
  const auto address = http::parse_host_port(wanted);
  if (!address || address->host.empty())
    throw UsageError(fmt::format("--http {}: HOST:PORT is wanted, as in 127.0.0.1:9091", wanted));
  server_options.listener.host = address->host;
  server_options.listener.port = address->port;
  take_inherited(server_options.listener);
  if (!is_loopback(server_options.listener.host) && !arguments.flag("behind-tls"))
    throw UsageError(
        fmt::format("--http {}: tokens would cross the network in the clear; put a TLS proxy in "
                    "front and say --behind-tls, or listen on 127.0.0.1",
                    server_options.listener.host));
  server_options.poll = arguments.duration_or("poll", 1s);
  if (server_options.poll < 50ms || server_options.poll > 1h)
    throw UsageError("--poll must be from 50ms to 1h");
  admin::ApiOptions api_options;
  if (const auto host = arguments.maybe("http-host")) server_options.hosts.push_back(*host);
  api_options.hosts = server_options.hosts;
  api_options.open_leader = arguments.flag("open-leader");
  api_options.open_metrics = arguments.flag("open-metrics");
  api_options.redirect_leader = arguments.flag("redirect-leader");
  api_options.hide = [url = arguments.database_url()](std::string text) {
    return without_passwords(std::move(text), {url});
  };
  api_options.where = place_of(arguments.database_url());
  const std::string tokens_path = arguments.text("tokens");
  http::Tokens tokens = read_tokens(tokens_path);
  OpenOptions open;
  open.schema = arguments.text_or("schema", open.schema);
  open.answer_wait = 20s;
  open.connections_max = 8;
  sigset_t mine;
  sigemptyset(&mine);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&mine, signal);
  pthread_sigmask(SIG_BLOCK, &mine, nullptr);
  signal(SIGPIPE, SIG_IGN);
  admin::Api api(Database::open(arguments.database_url(), open), std::move(tokens),
                 std::move(api_options));
  const admin::Server server(server_options, api);
  print_line(fmt::format("listening on http://{}/", server.address()));
  std::fflush(stdout);
  http::notify_service_manager("READY=1");
  for (;;) {
    int came = 0;
    sigwait(&mine, &came);
    if (came != SIGHUP) {
      http::notify_service_manager("STOPPING=1");
      return Exit::done;
    }
    try {
      api.use(read_tokens(tokens_path));
      fmt::print(stderr, "termgate admin: the tokens were read again\n");
    } catch (const UsageError& wrong) {
      fmt::print(stderr, "termgate admin: {}; the previous tokens stay in force\n", wrong.what());
    }
  }
}

}  // namespace

void add_admin_command(std::vector<Command>& commands) {
  commands.push_back(
      {"admin",
       "serve leases, fences, jobs and the audit over HTTP, with a page to look at them",
       "Who leads what and until when, terms over time, refusals, jobs, followers; leases can be "
       "taken, renewed and given "
       "back, released by force, and scopes sealed.\n"
       "Every request but those of the page itself and /healthz carries a bearer token: --tokens "
       "FILE has a line NAME LEVEL "
       "TOKEN for each, with level read, write,\n"
       "lead or operate, and is readable by its owner alone. TOKEN may be sha256: and the token's "
       "hash.\n"
       "SIGHUP reads the file again.\n"
       "  echo \"ann operate $(head -c 32 /dev/urandom | base64)\" > tokens; chmod 600 tokens\n"
       "  termgate admin --db postgresql://app@db.example/app --tokens tokens --http "
       "127.0.0.1:9091",
       [](po::options_description& o) {
         o.add_options()("http", po::value<std::string>(), "where to listen (127.0.0.1:9091)")(
             "tokens", po::value<std::string>(), "the file of bearer tokens")(
             "http-host", po::value<std::string>(),
             "a name that requests may use beside the loopback's; *: any")(
             "behind-tls", po::bool_switch(),
             "listen elsewhere than on the loopback: something in front ends TLS")(
             "open-leader", po::bool_switch(),
             "/leader?scope=S needs no token, for load balancers")(
             "open-metrics", po::bool_switch(), "/metrics needs no token")(
             "redirect-leader", po::bool_switch(),
             "/leader answers 307 to an endpoint that is http:// or https://")(
             "poll", po::value<std::string>(), "how often events look at the database (1s)");
       },
       {},
       run_admin});
}

}  // namespace termgate::cli
