#include "front/routes.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <termgate/scope.hpp>
#include <termgate/text/hex.hpp>
#include <termgate/text/scanner.hpp>
#include <termgate/version.hpp>

#include "claim/letters.hpp"
#include "front/websocket.hpp"
#include "hrana/failure.hpp"

namespace termgate::sqlite_front {
namespace {

using hrana::Endpoint;

constexpr std::size_t small_body =
    std::size_t{64} << 10;  // a body of at most this size is parsed on the loop's thread

struct Route {
  std::string_view path;
  Endpoint endpoint;
};
constexpr Route data_routes[]{
    {"/v2/pipeline", Endpoint::pipeline_v2}, {"/v3/pipeline", Endpoint::pipeline_v3},
    {"/v3/cursor", Endpoint::cursor},        {"/", Endpoint::v0},
    {"/v1/execute", Endpoint::v1_execute},   {"/v1/batch", Endpoint::v1_batch}};
constexpr std::string_view looks[]{"/healthz", "/readyz",  "/health", "/version", "/v2",
                                   "/v3",      "/metrics", "/leader", "/"};
// Paths that embedded replicas request.
constexpr std::string_view replicas[]{"/info", "/sync/", "/wal_log.", "/proxy.", "/dump"};

const Route* data_route(std::string_view path) {
  const auto* found = std::find_if(std::begin(data_routes), std::end(data_routes),
                                   [&](const Route& route) { return route.path == path; });
  return found == std::end(data_routes) ? nullptr : found;
}
bool is_look(std::string_view path) {
  return std::find(std::begin(looks), std::end(looks), path) != std::end(looks);
}
bool is_replicas(std::string_view path) {
  return std::any_of(std::begin(replicas), std::end(replicas),
                     [&](std::string_view start) { return path.starts_with(start); });
}

http::Reply plain(unsigned status, std::string body) {
  return {status, std::move(body), "text/plain; charset=utf-8"};
}

http::Reply wrong_method(std::string_view allowed) {
  auto reply = error_reply(405, "METHOD_NOT_ALLOWED", fmt::format("{} only", allowed));
  reply.headers.emplace_back("Allow", std::string(allowed));
  return reply;
}

// Whether the text's first word suggests a read, which does not need a thread that may wait for the
// write lock. A wrong guess only costs time.
bool seems_to_read(std::string_view text) {
  const auto words = text::first_pieces(text, text::Dialect::sqlite, 1, true);
  if (words.empty()) return true;
  for (const std::string_view word : {"select", "explain", "values", "pragma"})
    if (words[0] == word) return true;
  return false;
}

}  // namespace

// One request to the data endpoints, from its head to its answer.
struct Routes::Work {
  Work(http::Request the_request, http::Answer the_answer, Endpoint the_endpoint,
       Sender the_visitor, bool late)
      : request(std::move(the_request)),
        answer(std::move(the_answer)),
        endpoint(the_endpoint),
        sender(std::move(the_visitor)),
        running(sender.whose, late) {}

  http::Request request;
  http::Answer answer;
  const Endpoint endpoint;
  const Sender sender;
  Running running;
  hrana::Permit permit;
  std::optional<hrana::Call> call;
};

http::Decision Routes::decide(const http::Head& head) {
  const auto path = head.path();
  if (path == "/" && http::wants_socket(head)) return decide_socket(head);
  if (const Route* route = data_route(path);
      route != nullptr && head.method != "GET" && head.method != "HEAD") {
    if (head.method != "POST") return wrong_method("POST");
    // Checked before the body is read, so that an unknown sender cannot make the server hold one.
    const auto sender = core_.sender(head);
    if (const auto* refusal = std::get_if<claim::Refusal>(&sender)) {
      core_.counts.turned_away.add(refusal->status == 401 ? "token" : "claim");
      return refusal_reply(*refusal);
    }
    return http::Take{core_.options.request_bytes_max, core_.room()};
  }
  if (is_look(path)) {
    if (head.method != "GET" && head.method != "HEAD") return wrong_method("GET");
    return http::Take{0};
  }
  if (is_replicas(path)) {
    core_.counts.requests.add("replica");
    core_.log(false, "replica_refused",
              {{"path", std::string(path.substr(0, 40))}, {"client", head.peer.address.text()}},
              true);
    return error_reply(404, "NOT_FOUND",
                       "this server serves no replicas: use the URL without syncUrl");
  }
  if (data_route(path) != nullptr) return wrong_method("POST");
  core_.counts.requests.add("other");
  if (path == "/v3-protobuf" || path.starts_with("/v3-protobuf/"))
    return error_reply(404, "NOT_FOUND",
                       "this server speaks Hrana in JSON only: /v3/pipeline, /v2/pipeline");
  return error_reply(404, "NOT_FOUND",
                     "nothing is served at this path: use the URL without a path");
}

http::Decision Routes::decide_socket(const http::Head& head) {
  const auto offered = head.header("Sec-WebSocket-Protocol");
  const auto subprotocol = hrana::choose_subprotocol(
      head.count("Sec-WebSocket-Protocol") == 0 ? std::nullopt
                                                : std::optional<std::string_view>(offered));
  if (!subprotocol)
    return error_reply(400, "PROTOCOL_ERROR",
                       "none of the subprotocols is spoken here: hrana3, hrana2, hrana1");
  if (core_.files.draining())
    return error_reply(503, "SERVER_BUSY", "this server is ending: connect again");
  core_.counts.requests.add("websocket");
  auto socket = std::make_shared<WebSocket>(core_, head, subprotocol->version);
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(sockets_, [](const auto& one) { return one.expired(); });
    sockets_.push_back(socket);
  }
  return http::Upgrade{std::move(socket), subprotocol->name, core_.options.request_bytes_max,
                       core_.room()};
}

void Routes::request(http::Request request, http::Answer answer) {
  const Route* route = data_route(request.head.path());
  if (route == nullptr || request.head.method != "POST") return answer.reply(look(request.head));
  core_.counts.requests.add(route->path);
  auto sender = core_.sender(request.head);
  if (const auto* refusal = std::get_if<claim::Refusal>(&sender))
    return answer.reply(refusal_reply(*refusal));
  // The sender refers to strings of the head. Moving the vector of headers leaves those strings in
  // place.
  auto work = std::make_shared<Work>(std::move(request), std::move(answer), route->endpoint,
                                     std::get<Sender>(std::move(sender)), core_.files.draining());
  work->answer.on_gone([weak = std::weak_ptr(work)] {
    if (const auto gone = weak.lock()) gone->running.cancel();
  });
  const bool small = work->request.body.size() <= small_body;
  if (auto permit = small ? core_.permit_at_once(work->sender) : std::nullopt)
    return begin(work, *permit);
  if (core_.workers.run(Lane::admissions,
                        [this, work] { begin(work, core_.permit(work->sender)); }))
    return;
  core_.counts.turned_away.add("busy");
  work->answer.reply(error_reply(503, hrana::code::busy, "too many requests wait: try again"));
}

void Routes::begin(const std::shared_ptr<Work>& work,
                   const std::variant<hrana::Permit, claim::Refusal>& permit) {
  if (const auto* refusal = std::get_if<claim::Refusal>(&permit))
    return work->answer.reply(refusal_reply(*refusal));
  work->permit = std::get<hrana::Permit>(permit);
  auto begun =
      hrana::begin(work->endpoint, work->request.body, core_.streams, work->sender.caller.name);
  work->request.body = {};
  work->request.room.reset();
  if (begun.refused) {
    http::Reply reply{static_cast<unsigned>(begun.refused->status), std::move(begun.refused->body)};
    if (reply.status == 503) reply.headers.emplace_back("Retry-After", "1");
    return work->answer.reply(std::move(reply));
  }
  work->call.emplace(std::move(*begun.call));
  const Lane lane = work->call->in_transaction()              ? Lane::transactions
                    : work->endpoint == Endpoint::cursor      ? Lane::cursors
                    : seems_to_read(work->call->first_text()) ? Lane::reads
                                                              : Lane::writers;
  if (core_.workers.run(lane, [this, work] { run(*work); })) return;
  core_.counts.turned_away.add("busy");
  work->call->put_back();
  work->answer.reply(
      error_reply(503, hrana::code::busy, "too many requests are at work: try again"));
}

// Runs on a worker. A cursor's body is sent as it grows; every other answer is complete before it
// is sent.
void Routes::run(Work& work) {
  const Running::Here here(work.running);
  std::unique_ptr<http::BodyWriter> body;
  const hrana::Write write = [&](std::string_view part) {
    if (!body) body = work.answer.stream({.status = 200, .type = "application/x-ndjson"});
    if (!body->write(part)) throw std::runtime_error("the client has gone");
  };
  try {
    hrana::Answer done = work.call->run(work.permit, write);
    work.call.reset();
    if (body) {
      // Without the last chunk the client knows that the body was cut off.
      if (!done.cut) body->end();
      return;
    }
    http::Reply reply{static_cast<unsigned>(done.status), std::move(done.body)};
    // The body's memory is counted until it is sent, however slowly the client reads.
    if (done.charge.bytes() > 0)
      reply.keeps = std::make_shared<hrana::Charge>(std::move(done.charge));
    if (work.endpoint == Endpoint::cursor && reply.status == 200)
      reply.type = "application/x-ndjson";
    if (reply.status == 503) reply.headers.emplace_back("Retry-After", "1");
    work.answer.reply(std::move(reply));
  } catch (const std::exception& error) {
    work.call.reset();
    if (!body) work.answer.reply(error_reply(500, hrana::code::internal, error.what()));
  }
}

void Routes::failed(const http::Endpoint& from, std::string_view why) {
  core_.log(false, "connection_failed", {{"client", from.text()}, {"reason", std::string(why)}},
            true);
}

// All other paths: small answers that do not wait for anything.
http::Reply Routes::look(const http::Head& head) {
  const auto path = head.path();
  if (path == "/healthz" || path == "/health") return plain(200, "ok\n");
  if (path == "/readyz") {
    const std::string obstacle = core_.files.obstacle();
    return obstacle.empty() ? plain(200, "ok\n") : plain(503, obstacle + "\n");
  }
  if (path == "/version") return plain(200, fmt::format("termgate {}\n", version()));
  if (path == "/v2" || path == "/v3") return plain(200, "Hrana in JSON\n");
  if (path == "/")
    return plain(200,
                 "This is an SQLite file, served by Termgate over libSQL's protocol.\n"
                 "curl -d '{\"statements\": [\"SELECT 1\"]}' http://HOST:PORT/\n");
  const auto sender = core_.sender(head);
  if (const auto* refusal = std::get_if<claim::Refusal>(&sender)) return refusal_reply(*refusal);
  if (path == "/metrics")
    return {200, metrics_text(core_, sockets()), "text/plain; version=0.0.4; charset=utf-8"};
  return leader(head);
}

http::Reply Routes::leader(const http::Head& head) const {
  std::optional<std::string> scope;
  for (std::string_view rest = head.query(); !rest.empty();) {
    const auto end = rest.find('&');
    const auto part = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (!part.starts_with("scope=")) continue;
    if (scope) return plain(400, "scope is given twice\n");
    std::string value(part.substr(6));
    std::replace(value.begin(), value.end(), '+', ' ');
    scope = text::percent_decoded(value);
    if (!scope) return plain(400, "scope: a % without two hexadecimal digits\n");
  }
  if (!scope) return plain(400, "write /leader?scope=S\n");
  if (const char* problem = name_problem(*scope))
    return plain(400, fmt::format("scope: {}\n", problem));
  const bool leads = core_.options.authority != nullptr && core_.options.authority->leads(*scope);
  return leads ? plain(200, "leader\n") : plain(503, "not leader\n");
}

std::vector<std::shared_ptr<WebSocket>> Routes::open_sockets() const {
  std::vector<std::shared_ptr<WebSocket>> all;
  const std::lock_guard lock(mutex_);
  for (const auto& one : sockets_) {
    if (auto socket = one.lock()) all.push_back(std::move(socket));
  }
  return all;
}

std::size_t Routes::sockets() const { return open_sockets().size(); }

void Routes::tick() {
  for (const auto& socket : open_sockets()) socket->tick();
}

void Routes::lose(const hrana::Lost& why) {
  for (const auto& socket : open_sockets()) socket->lose(why);
}

}  // namespace termgate::sqlite_front
