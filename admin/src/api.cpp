// Long: one function for each path of the API.
#include <termgate/admin/api.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>

#include <boost/json.hpp>
#include <fmt/format.h>

#include <termgate/detail/host_header.hpp>
#include <termgate/followers.hpp>
#include <termgate/info.hpp>
#include <termgate/jobs.hpp>
#include <termgate/operator.hpp>
#include <termgate/text/ascii.hpp>
#include <termgate/text/hex.hpp>
#include <termgate/text/printable.hpp>

#include "admin_page.hpp"

namespace termgate::admin {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

constexpr int shown_scopes = 500, shown_jobs = 100, shown_followers = 100, shown_audit = 300;
constexpr int page_max = 1000;
constexpr int searched_max =
    20'000;  // how many of the newest audit entries are searched for an action

json::value optional_text(const std::optional<std::string>& text) {
  return text ? json::value(*text) : json::value(nullptr);
}

std::optional<std::string> decoded(std::string_view text, bool plus_is_blank) {
  std::string given(text);
  if (plus_is_blank) std::replace(given.begin(), given.end(), '+', ' ');
  return text::percent_decoded(given);
}

// Whether a browser sends this for a page of another site. Clients other than browsers send neither
// header.
bool from_another_site(const Request& request) {
  if (request.fetch_site == "cross-site" || request.fetch_site == "same-site") return true;
  if (request.origin.empty()) return false;
  return request.origin != "http://" + request.host && request.origin != "https://" + request.host;
}

Reply refusal(unsigned status, std::string_view message, std::string_view code = {}) {
  Reply reply;
  reply.status = status;
  reply.body = json::serialize(json::value{
      {"error",
       {{"code", code},
        {"message", text::is_utf8(message) ? std::string(message) : text::printable(message)}}}});
  return reply;
}

struct Refused : std::runtime_error {
  Refused(unsigned the_status, const std::string& message)
      : std::runtime_error(message), status(the_status) {}
  unsigned status;
};

std::string text_of(const json::object& body, const char* name) {
  const json::value* value = body.if_contains(name);
  if (value == nullptr || !value->is_string())
    throw Refused(400, fmt::format("\"{}\" is missing, or is no string", name));
  return std::string(value->as_string());
}

std::int64_t number_in(std::string_view text, const char* name) {
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{} || end != text.data() + text.size() || text.empty())
    throw Refused(400, fmt::format("{} is no number", name));
  return number;
}

// A number is expected as a string, which every client can read exactly; a JSON integer is accepted
// too.
std::int64_t number_of(const json::object& body, const char* name) {
  const json::value* value = body.if_contains(name);
  if (value != nullptr && value->is_int64()) return value->as_int64();
  if (value != nullptr && value->is_string())
    return number_in(std::string_view(value->as_string().data(), value->as_string().size()), name);
  throw Refused(
      400,
      fmt::format("\"{}\" is missing, or is neither a whole number nor one in a string", name));
}

template <class T>
json::value moment_or_null(const std::optional<T>& ms) {
  return ms ? json::value(*ms) : json::value(nullptr);
}

json::object json_of(const LeaseInfo& lease) {
  return {{"scope", lease.scope},
          {"owner", lease.owner},
          {"term", std::to_string(lease.term)},
          {"state", state_of(lease)},
          {"acquired_at_ms", lease.acquired_at_ms},
          {"renewed_at_ms", lease.renewed_at_ms},
          {"expires_at_ms", lease.expires_at_ms},
          {"released_at_ms", moment_or_null(lease.released_at_ms)},
          {"endpoint", lease.endpoint}};
}

json::object json_of(const Lease& lease, std::int64_t ttl_ms) {
  return {{"scope", lease.scope().name()},
          {"owner", lease.owner()},
          {"term", std::to_string(lease.term().value())},
          {"state", "held"},
          {"ttl_ms", ttl_ms},
          {"asked_to_leave", lease.leave_before().has_value()}};
}

json::object json_of(const HandOverInfo& one) {
  return {{"scope", one.scope},
          {"state", one.state},
          {"owner", one.owner},
          {"term", std::to_string(one.term)},
          {"to", optional_text(one.to)},
          {"requested_by", one.requested_by},
          {"reason", one.reason},
          {"requested_at_ms", one.requested_at_ms},
          {"leave_before_ms", one.leave_before_ms},
          {"left_at_ms", moment_or_null(one.left_at_ms)},
          {"next_owner", optional_text(one.next_owner)},
          {"next_term",
           one.next_term ? json::value(std::to_string(*one.next_term)) : json::value(nullptr)},
          {"taken_at_ms", moment_or_null(one.taken_at_ms)},
          {"gap_ms", moment_or_null(one.gap_ms)}};
}

json::object json_of(const FenceInfo& fence) {
  return {{"scope", fence.scope},
          {"term", std::to_string(fence.term)},
          {"raised_at_ms", fence.raised_at_ms},
          {"raised_by", fence.raised_by},
          {"raise_by", fence.raise_by},
          {"untrusted", fence.untrusted}};
}

json::object json_of(const ScopeRow& row) {
  return {{"scope", row.scope},
          {"state", row.state()},
          {"lease", row.lease ? json::value(json_of(*row.lease)) : json::value(nullptr)},
          {"fence", row.fence ? json::value(json_of(*row.fence)) : json::value(nullptr)}};
}

json::object json_of(const JobRunInfo& run) {
  return {{"run_id", run.run_id},
          {"job", run.job},
          {"scope", run.scope},
          {"owner", run.owner},
          {"term", std::to_string(run.term)},
          {"status", run.status},
          {"started_at_ms", run.started_at_ms},
          {"completed_at_ms", moment_or_null(run.completed_at_ms)},
          {"last_heartbeat_ms", moment_or_null(run.last_heartbeat_ms)},
          {"exit_code", moment_or_null(run.exit_code)},
          {"checkpoint", optional_text(run.checkpoint)},
          {"detail", optional_text(run.detail)},
          {"request", optional_text(run.request)}};
}

json::object json_of(const FollowerInfo& info) {
  return {{"name", info.name},
          {"stream", optional_text(info.followed.stream)},
          {"scope", optional_text(info.followed.scope)},
          {"behind", std::to_string(info.behind)},
          {"behind_ms", moment_or_null(info.behind_ms)},
          {"moved_at_ms", moment_or_null(info.moved_at_ms)}};
}

// Turns terms within the detail, which may be too large for a browser's numbers, into strings, as
// everywhere in the API.
void stringify_terms(json::object& detail) {
  for (const char* name : {"term", "fence", "previous", "previous_term", "from", "to"}) {
    json::value* value = detail.if_contains(name);
    if (value != nullptr && value->is_int64()) *value = std::to_string(value->as_int64());
  }
}

json::object json_of(const AuditEntry& entry) {
  boost::system::error_code failed;
  json::value detail = json::parse(entry.detail, failed);
  if (failed || !detail.is_object())
    detail = json::object{
        {"text", text::is_utf8(entry.detail) ? entry.detail : text::printable(entry.detail)}};
  stringify_terms(detail.as_object());
  return {{"id", std::to_string(entry.id)}, {"at_ms", entry.at_ms},
          {"actor", entry.actor},           {"client", entry.client},
          {"action", entry.action},         {"scope", optional_text(entry.scope)},
          {"detail", std::move(detail)}};
}

template <class Items>
json::array array_of(const Items& items) {
  json::array all;
  for (const auto& item : items) all.push_back(json_of(item));
  return all;
}

Reply document(json::value value, unsigned status = 200) {
  Reply reply;
  reply.status = status;
  reply.body = json::serialize(value);
  return reply;
}

unsigned status_of(const Error& error) {
  if (dynamic_cast<const InvalidInput*>(&error)) return 400;
  if (dynamic_cast<const StaleTerm*>(&error) || dynamic_cast<const LeaseLost*>(&error) ||
      dynamic_cast<const Blocked*>(&error) || dynamic_cast<const Conflict*>(&error))
    return 409;
  if (dynamic_cast<const Unavailable*>(&error)) return 503;
  return 500;
}

// Whether clients may be redirected there: no javascript:, nothing relative, no line break that
// would end the header.
bool may_redirect_to(std::string_view endpoint) {
  if (!endpoint.starts_with("http://") && !endpoint.starts_with("https://")) return false;
  return std::all_of(endpoint.begin(), endpoint.end(), [](unsigned char c) {
    return c > 0x20 && c < 0x7f && c != '"' && c != '<' && c != '>' && c != '\\';
  });
}

}  // namespace

std::optional<std::vector<std::string>> path_parts(std::string_view path) {
  if (!path.starts_with('/')) return std::nullopt;
  std::vector<std::string> parts;
  while (!path.empty()) {
    path.remove_prefix(1);
    const auto end = std::min(path.find('/'), path.size());
    auto part = decoded(path.substr(0, end), false);
    if (!part) return std::nullopt;
    parts.push_back(std::move(*part));
    path.remove_prefix(end);
  }
  return parts;
}

std::optional<std::vector<std::pair<std::string, std::string>>> query_parts(
    std::string_view query) {
  std::vector<std::pair<std::string, std::string>> parts;
  while (!query.empty()) {
    const auto end = query.find('&');
    const std::string_view part = query.substr(0, end);
    query = end == std::string_view::npos ? std::string_view{} : query.substr(end + 1);
    if (part.empty()) continue;
    const auto equals = part.find('=');
    auto name = decoded(part.substr(0, equals), true);
    auto value = equals == std::string_view::npos ? std::optional(std::string())
                                                  : decoded(part.substr(equals + 1), true);
    if (!name || !value) return std::nullopt;
    if (std::any_of(parts.begin(), parts.end(),
                    [&](const auto& other) { return other.first == *name; }))
      return std::nullopt;
    parts.emplace_back(std::move(*name), std::move(*value));
  }
  return parts;
}

// A request that has passed the checks so far, and its parts.
struct Api::Call {
  const Request& request;
  std::vector<std::string> path;
  std::vector<std::pair<std::string, std::string>> query;
  std::optional<Caller> caller;

  bool get() const { return request.method == "GET"; }
  bool is(std::initializer_list<std::string_view> parts) const {
    return std::equal(path.begin(), path.end(), parts.begin(), parts.end());
  }
  bool begins(std::initializer_list<std::string_view> parts, std::size_t size) const {
    return path.size() == size && std::equal(parts.begin(), parts.end(), path.begin());
  }
  void need(Level level) const {
    if (!caller) throw Refused(401, "a bearer token is wanted: Authorization: Bearer TOKEN");
    if (caller->level < level)
      throw Refused(403, fmt::format("the token of {} does not reach that far: level {} is wanted",
                                     text::printable(caller->name), http::word_of(level)));
  }
  void need_method(std::string_view method) const {
    if (request.method != method) throw Refused(405, fmt::format("{} only", method));
  }
  std::optional<std::string> parameter(std::string_view name) const {
    for (const auto& [given, value] : query) {
      if (given == name) return value;
    }
    return std::nullopt;
  }
  // Replies 400 for any other parameter: ignoring it would answer another request than the one that
  // came.
  void only(std::initializer_list<std::string_view> known) const {
    for (const auto& [given, value] : query) {
      if (std::find(known.begin(), known.end(), given) == known.end())
        throw Refused(
            400,
            fmt::format("there is no parameter \"{}\" here; {}", text::printable(given),
                        known.size() == 0 ? std::string("this path takes none")
                                          : fmt::format("known are {}", fmt::join(known, ", "))));
    }
  }
  std::optional<std::string> one_of(std::string_view name,
                                    std::initializer_list<std::string_view> words) const {
    auto value = parameter(name);
    if (value && std::find(words.begin(), words.end(), *value) == words.end())
      throw Refused(400, fmt::format("{} is one of {}", name, fmt::join(words, ", ")));
    return value;
  }
  int limit(int fallback) const {
    const auto text = parameter("limit");
    if (!text) return fallback;
    const std::int64_t number = number_in(*text, "limit");
    if (number < 1 || number > page_max)
      throw Refused(400, fmt::format("limit is from 1 to {}", page_max));
    return static_cast<int>(number);
  }
  json::object body() const {
    if (text::lower(request.content_type.substr(0, request.content_type.find(';'))) !=
        "application/json")
      throw Refused(415, "Content-Type: application/json is wanted");
    boost::system::error_code failed;
    json::value value = json::parse(request.body, failed);
    if (failed || !value.is_object()) throw Refused(400, "the body is no JSON object");
    return std::move(value.as_object());
  }
};

Reply Api::failure(const std::exception& error) const {
  if (const auto* refused = dynamic_cast<const Refused*>(&error))
    return refusal(refused->status, refused->what());
  const std::string message = options_.hide ? options_.hide(error.what()) : error.what();
  if (const auto* ours = dynamic_cast<const Error*>(&error))
    return refusal(status_of(*ours), message, ours->code());
  return refusal(500, message);
}

std::shared_ptr<const Tokens> Api::tokens() const {
  const std::lock_guard lock(tokens_mutex_);
  return tokens_;
}

void Api::use(Tokens tokens) {
  auto next = std::make_shared<const Tokens>(std::move(tokens));
  const std::lock_guard lock(tokens_mutex_);
  tokens_ = std::move(next);
}

bool Api::may_read(const std::string& authorization) const {
  return tokens()->caller(authorization).has_value();
}

Reply Api::answer(const Request& request) {
  Reply reply;
  std::string who = "nobody";
  try {
    // This order keeps everything from a page that a DNS rebinding has led here, or that makes its
    // visitors' browsers send requests.
    const auto host = detail::host_name(request.host);
    if (!host) throw Refused(400, "the Host header is malformed");
    if (!detail::host_is_served(*host, options_.hosts))
      throw Refused(421, "this name is not served here (--http-host)");
    if (from_another_site(request)) throw Refused(403, "a page of another site may not ask here");
    if (options_.first) {
      if (auto theirs = options_.first(request)) return std::move(*theirs);
    }
    const auto question = request.target.find('?');
    auto path = path_parts(std::string_view(request.target).substr(0, question));
    auto query = query_parts(question == std::string::npos
                                 ? std::string_view{}
                                 : std::string_view(request.target).substr(question + 1));
    if (!path || !query) throw Refused(400, "a malformed path or query");
    Call call{request, std::move(*path), std::move(*query),
              tokens()->caller(request.authorization)};
    if (!request.authorization.empty() && !call.caller)
      throw Refused(401, "this bearer token is nobody's");
    if (call.caller) who = call.caller->name;
    reply = route(call);
    if (!call.get()) scopes_.forget();
  } catch (const std::exception& error) {
    reply = failure(error);
    if (reply.status == 401)
      reply.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"termgate\"");
  }
  if (reply.status >= 400 || (request.method != "GET" && request.method != "HEAD"))
    reply.note = fmt::format("{} {} {} {}", reply.status, text::printable(request.method),
                             text::printable(std::string_view(request.target).substr(0, 200)),
                             text::printable(who));
  return reply;
}

Reply Api::route(const Call& call) {
  if (call.is({""}) || call.is({"index.html"})) {
    call.need_method("GET");
    return admin_page();
  }
  if (call.is({"healthz"})) {
    call.need_method("GET");
    return {200, "ok\n", "text/plain; charset=utf-8"};
  }
  if (call.is({"leader"})) {
    call.only({"scope"});
    return leader(call);
  }
  if (call.is({"api", "v1", "metrics"})) {
    call.need_method("GET");
    call.only({});
    call.need(Level::read);
    return {200, metrics_.text(), "text/plain; version=0.0.4; charset=utf-8"};
  }
  if (call.is({"metrics"})) {
    call.need_method("GET");
    if (!options_.open_metrics) call.need(Level::read);
    return {200, metrics_.text(), "text/plain; version=0.0.4; charset=utf-8"};
  }
  if (call.path.size() < 3 || call.path[0] != "api" || call.path[1] != "v1")
    throw Refused(404, "there is nothing here");
  // Without a token nobody learns which scopes exist.
  call.need(Level::read);
  if (call.path[2] == "leases" && call.path.size() == 3) return leases(call);
  if (call.path[2] == "leases") return lease(call);
  if (call.begins({"api", "v1", "fences"}, 5)) return change(call);
  if (call.is({"api", "v1", "job-requests"})) return request_job(call);
  if (call.path[2] == "jobs" && (!call.get() || call.path.size() == 5)) return change_job(call);
  call.need_method("GET");
  if (call.is({"api", "v1", "events"})) {
    call.only({});
    Reply reply;
    reply.events = true;
    reply.type = "text/event-stream";
    return reply;
  }
  if (call.is({"api", "v1", "overview"})) {
    call.only({});
    return {200, overview()};
  }
  if (call.path[2] == "scopes" || call.path[2] == "fences") return scopes_or_fences(call);
  if (call.path[2] == "jobs") return jobs(call);
  if (call.is({"api", "v1", "followers"})) {
    call.only({"limit", "after"});
    return document(
        {{"followers", array_of(Followers(database_).list(call.parameter("after").value_or(""),
                                                          call.limit(page_max)))}});
  }
  if (call.is({"api", "v1", "hand-overs"})) {
    call.only({"scope", "limit"});
    const auto scope = call.parameter("scope");
    return document({{"hand_overs", array_of(Info(database_).hand_overs(
                                        scope ? std::optional(Scope(*scope)) : std::nullopt,
                                        call.limit(page_max)))}});
  }
  if (call.is({"api", "v1", "audit"})) return audit(call);
  throw Refused(404, "there is nothing here");
}

Reply Api::jobs(const Call& call) {
  if (call.begins({"api", "v1", "jobs"}, 4)) {
    call.only({});
    const auto runs = Jobs(database_).list({.run_id = call.path[3]}, 1);
    if (runs.empty()) throw Refused(404, "there is no such run");
    return document(json_of(runs.front()));
  }
  if (call.path.size() != 3) throw Refused(404, "there is nothing here");
  call.only({"job", "scope", "status", "limit"});
  const auto status =
      call.one_of("status", {"requested", "started", "completed", "failed", "cancelled", "lost"});
  const JobFilter filter{
      .job = call.parameter("job"), .scope = call.parameter("scope"), .status = status};
  return document({{"jobs", array_of(Jobs(database_).list(filter, call.limit(shown_jobs)))}});
}

// Requests a run, which `termgate run --on-request` carries out; its state is at /api/v1/jobs/RUN.
Reply Api::request_job(const Call& call) {
  call.only({});
  call.need_method("POST");
  call.need(Level::lead);
  const json::object body = call.body();
  const std::string job = text_of(body, "job"), scope = text_of(body, "scope");
  const std::string kind = body.if_contains("kind") == nullptr ? "run" : text_of(body, "kind");
  const std::string reason = body.if_contains("reason") == nullptr ? "" : text_of(body, "reason");
  const JobRequest made =
      Jobs(database_).request(job, Scope(scope), kind, "admin " + call.caller->name, reason);
  if (!made.requested)
    throw Refused(409, fmt::format("a run of this job is requested already: {}", made.run_id));
  return document({{"run_id", made.run_id}}, 202);
}

// Steps of a run that a client drives over HTTP. A heartbeat returns 202 instead of 200 if the
// holder should give up the lease, and 409 if the run has ended.
Reply Api::change_job(const Call& call) {
  const bool start = call.path.size() == 3, beat = call.path.size() == 4,
             end = call.path.size() == 5;
  const bool finish = end && call.path[4] == "finish", cancel = end && call.path[4] == "cancel";
  if (!start && !beat && !finish && !cancel) throw Refused(404, "there is nothing here");
  call.only({});
  call.need_method(beat ? "PUT" : "POST");
  call.need(cancel ? Level::operate : Level::lead);
  const json::object body = call.body();
  const auto text = [&](const char* name) {
    return body.if_contains(name) == nullptr ? std::optional<std::string>()
                                             : std::optional(text_of(body, name));
  };
  if (start) {
    const std::string job = text_of(body, "job"), owner = text_of(body, "owner"),
                      scope = text_of(body, "scope");
    return document(
        {{"run_id", Jobs(database_).start(job, Scope(scope), Term(number_of(body, "term")), owner,
                                          text("detail"))}},
        201);
  }
  const auto runs = Jobs(database_).list({.run_id = call.path[3]}, 1);
  if (runs.empty()) throw Refused(404, "there is no such run");
  const auto& run = runs.front();
  const std::string ended = fmt::format("this run is no longer open: {}",
                                        run.status == "started" ? "it has just ended" : run.status);
  if (beat) {
    const bool renew = body.if_contains("ttl_ms") != nullptr;
    if (!(renew ? Jobs(database_)
                      .beat(run.run_id, text("checkpoint"), milliseconds(number_of(body, "ttl_ms")))
                      .has_value()
                : Jobs(database_).beat(run.run_id, text("checkpoint"))))
      throw Refused(409, ended);
    const auto asked = Info(database_).hand_overs(Scope(run.scope), 1);
    const bool leave =
        !asked.empty() && asked.front().state == "asked" && asked.front().term == run.term;
    return document(
        {{"renewed", renew},
         {"leave_before_ms", leave ? json::value(asked.front().leave_before_ms) : nullptr}},
        leave ? 202 : 200);
  }
  std::string status = "cancelled";
  std::optional<std::string> detail = text("detail");
  if (cancel) {
    if (text_of(body, "confirm") != run.job)
      throw Refused(400, "\"confirm\" must be the job's name");
    detail = fmt::format("cancelled by admin {}: {}", call.caller->name, text_of(body, "reason"));
  } else {
    status = text_of(body, "status");
    if (status != "completed" && status != "failed")
      throw Refused(400, "a run finishes as completed or failed");
  }
  const auto code = body.if_contains("exit_code") == nullptr
                        ? std::optional<std::int64_t>()
                        : std::optional(number_of(body, "exit_code"));
  if (!Jobs(database_).finish(run.run_id, status, code, detail, text("checkpoint")))
    throw Refused(409, ended);
  return document({{"status", status}});
}

Reply Api::audit(const Call& call) {
  call.only({"scope", "action", "above", "limit"});
  AuditFilter filter{.scope = call.parameter("scope")};
  if (const auto above = call.parameter("above")) filter.above_id = number_in(*above, "above");
  const auto action = call.parameter("action");
  const int limit = call.limit(shown_audit);
  json::array all;
  for (const AuditEntry& entry : Operator(database_).audit(filter, action ? searched_max : limit)) {
    if (all.size() < static_cast<std::size_t>(limit) && (!action || entry.action == *action))
      all.push_back(json_of(entry));
  }
  return document({{"audit", std::move(all)}});
}

// One page of the matching entries, ordered by name, and where the next page begins.
Reply Api::scopes_or_fences(const Call& call) {
  const bool fences = call.path[2] == "fences";
  const auto json_of_one = [&](const ScopeRow& row) {
    return fences ? json_of(*row.fence) : json_of(row);
  };
  if (call.path.size() == 4) {
    call.only({});
    const Scope scope(call.path[3]);
    const ScopeRow row{scope.name(), fences ? std::nullopt : Info(database_).lease(scope),
                       Info(database_).fence(scope)};
    if (!row.fence && !row.lease)
      throw Refused(
          404, fences ? "this scope has no fence" : "this scope has neither a lease nor a fence");
    return document(json_of_one(row));
  }
  if (call.path.size() != 3) throw Refused(404, "there is nothing here");
  if (fences) call.only({"search", "limit", "after"});
  else call.only({"state", "search", "limit", "after"});
  const auto state = call.one_of("state", {"held", "expired", "released", "no_lease", "untrusted"});
  const std::string search = call.parameter("search").value_or(""),
                    after = call.parameter("after").value_or("");
  const auto limit = static_cast<std::size_t>(call.limit(fences ? page_max : shown_jobs));
  json::array page;
  std::int64_t found = 0;
  bool more = false;
  const auto all = scopes_.look();
  for (const ScopeRow& row : all->rows) {
    if ((fences && !row.fence) || !found_in(search, {row.scope, row.lease ? row.lease->owner : ""}))
      continue;
    if (state &&
        (*state == "untrusted" ? !row.fence || !row.fence->untrusted : *state != row.state()))
      continue;
    ++found;
    if (row.scope <= after) continue;
    if (page.size() < limit) page.push_back(json_of_one(row));
    else more = true;
  }
  json::value next = more ? page.back().at("scope") : json::value(nullptr);
  return document({{fences ? "fences" : "scopes", std::move(page)},
                   {"next", std::move(next)},
                   {"found", found}});
}

Reply Api::leases(const Call& call) {
  if (call.get()) {
    call.only({"state", "search", "limit", "after"});
    const auto state = call.one_of("state", {"held", "renewed", "expired", "released"});
    const auto wanted =
        [&](const LeaseInfo& one) {  // "renewed": held, and renewed since its acquisition
          return !state || (*state == "renewed" ? state_of(one) == std::string_view("held") &&
                                                      one.renewed_at_ms > one.acquired_at_ms
                                                : *state == state_of(one));
        };
    const std::string search = call.parameter("search").value_or("");
    json::array all;
    std::string after = call.parameter("after").value_or("");
    const auto limit = static_cast<std::size_t>(call.limit(page_max));
    bool more = false;
    // Reads page by page, so that a rare state is found among many leases.
    for (;;) {
      const auto page = Info(database_).leases(after, page_max);
      for (const LeaseInfo& one : page) {
        if (!wanted(one) || !found_in(search, {one.scope, one.owner})) continue;
        if (all.size() < limit) all.push_back(json_of(one));
        else more = true;
      }
      if (page.size() < page_max || more) break;
      after = page.back().scope;
    }
    json::value next = more ? all.back().at("scope") : json::value(nullptr);
    return document({{"leases", std::move(all)}, {"next", std::move(next)}});
  }
  call.only({});
  call.need_method("POST");
  call.need(Level::lead);
  const json::object body = call.body();
  LeaseOptions options;
  options.owner = text_of(body, "owner");
  if (body.if_contains("endpoint") != nullptr) options.endpoint = text_of(body, "endpoint");
  const Scope scope(text_of(body, "scope"));
  const std::int64_t ttl_ms = number_of(body, "ttl_ms");
  if (options.owner.empty()) throw Refused(400, "\"owner\" is empty");
  const auto lease = database_.try_acquire_lease(scope, milliseconds(ttl_ms), options);
  if (!lease) throw Refused(409, "another holds this lease");
  return document(json_of(*lease, ttl_ms), 201);
}

Reply Api::lease(const Call& call) {
  const Scope scope(call.path[3]);
  if (call.begins({"api", "v1", "leases"}, 5) && call.path[4] == "hand-over")
    return hand_over(call, scope);
  if (call.path.size() > 4) return change(call);
  call.only({});
  if (call.get()) {
    const auto info = Info(database_).lease(scope);
    if (!info) throw Refused(404, "this scope never had a lease");
    return document(json_of(*info));
  }
  if (call.request.method != "PUT" && call.request.method != "DELETE")
    throw Refused(405, "GET, PUT and DELETE only");
  call.need(Level::lead);
  const json::object body = call.body();
  const std::string owner = text_of(body, "owner");
  const Term term(number_of(body, "term"));
  if (call.request.method == "PUT") {
    const std::int64_t ttl_ms = number_of(body, "ttl_ms");
    return document(
        json_of(database_.renew_lease(scope, term, owner, milliseconds(ttl_ms)), ttl_ms));
  }
  if (!database_.release_lease(scope, term, owner))
    throw Refused(409, "the lease is not held by this owner under this term");
  return document({{"released", true}});
}

// Requests that the holder leave; the result is at /api/v1/hand-overs.
Reply Api::hand_over(const Call& call, const Scope& scope) {
  call.only({});
  call.need_method("POST");
  call.need(Level::lead);
  const json::object body = call.body();
  HandOverOptions options;
  options.actor = "admin " + call.caller->name;
  if (body.if_contains("to") != nullptr) options.to = text_of(body, "to");
  if (body.if_contains("drain_ms") != nullptr)
    options.drain = milliseconds(number_of(body, "drain_ms"));
  if (body.if_contains("reason") != nullptr) options.reason = text_of(body, "reason");
  if (!Operator(database_).request_hand_over(scope, options))
    throw Refused(409, "nobody holds this lease");
  const auto asked = Info(database_).hand_overs(scope, 1);
  return document(asked.empty() ? json::object{} : json_of(asked.front()), 202);
}

// Actions that shut a leader out. They need an operator's token, a reason for the audit, and the
// scope's name once more, against slips.
Reply Api::change(const Call& call) {
  const bool release = call.begins({"api", "v1", "leases"}, 5) && call.path[4] == "force-release";
  const bool seal = call.begins({"api", "v1", "fences"}, 5) && call.path[4] == "seal";
  if (!release && !seal) throw Refused(404, "there is nothing here");
  call.only({});
  call.need_method("POST");
  call.need(Level::operate);
  const Scope scope(call.path[3]);
  const json::object body = call.body();
  const std::string reason = text_of(body, "reason");
  if (reason.find_first_not_of(" \t\r\n") == std::string::npos || reason.size() > 1000)
    throw Refused(400, "\"reason\" is for the audit: 1 to 1000 bytes of text");
  if (text_of(body, "confirm") != scope.name())
    throw Refused(400, "\"confirm\" must be the scope's name");
  if (release) {
    if (!Operator(database_).force_release(scope, "admin " + call.caller->name, reason))
      throw Refused(404, "there is no lease to end: this scope has none, or it was given back");
    return document({{"released", true}});
  }
  const SealReceipt receipt = database_.seal(scope, Term(number_of(body, "term")), {},
                                             "admin " + call.caller->name, reason);
  return document({{"term", std::to_string(receipt.fence.value())},
                   {"previous", std::to_string(receipt.previous)},
                   {"evicted", receipt.evicted}});
}

// For load balancers and clients: 200 with the holder's endpoint (307 with redirect_leader, if it
// is a URL), or 503 if nobody holds the lease.
Reply Api::leader(const Call& call) {
  call.need_method("GET");
  if (!options_.open_leader) call.need(Level::read);
  const auto name = call.parameter("scope");
  if (!name) throw Refused(400, "write /leader?scope=S");
  const auto info = Info(database_).lease(Scope(*name));
  if (!info || info->released_at_ms || info->remaining_ms <= 0)
    throw Refused(503, "nobody holds this lease");
  Reply reply = document({{"owner", info->owner},
                          {"term", std::to_string(info->term)},
                          {"endpoint", info->endpoint},
                          {"remaining_ms", info->remaining_ms}});
  if (options_.redirect_leader && may_redirect_to(info->endpoint)) {
    reply.status = 307;
    reply.headers.emplace_back("Location", info->endpoint);
  }
  return reply;
}

std::string Api::overview() {
  auto [clock, rest] = overview_and_clock();
  return clock + rest;
}

std::pair<std::string, std::string> Api::overview_and_clock() {
  const auto all = scopes_.look();
  json::array leases, fences;
  // The revision covers all scopes, so that a viewer of one page learns of every change.
  std::size_t revision = all->rows.size();
  for (const ScopeRow& row : all->rows) {
    const auto mix = [&](auto value) {
      revision = revision * 1099511628211u + std::hash<decltype(value)>()(value);
    };
    mix(row.scope);
    if (row.lease) {
      for (const std::int64_t number :
           {row.lease->term, row.lease->expires_at_ms, row.lease->released_at_ms.value_or(0)})
        mix(number);
      mix(row.lease->endpoint);
      if (leases.size() < shown_scopes) leases.push_back(json_of(*row.lease));
    }
    if (row.fence) {
      for (const std::int64_t number : {row.fence->term, std::int64_t{row.fence->untrusted}})
        mix(number);
      if (fences.size() < shown_scopes) fences.push_back(json_of(*row.fence));
    }
  }
  json::array leaving;
  for (const HandOverInfo& one : Info(database_).hand_overs({}, shown_scopes)) {
    if (one.in_progress()) leaving.push_back(json_of(one));
  }
  json::object counts{{"scopes", all->rows.size()}, {"untrusted", all->untrusted()}};
  for (const char* state : {"held", "expired", "released", "no_lease"})
    counts[state] = all->count(state);
  const std::string rest = json::serialize(
      json::value{{"database", database_.kind()},
                  {"where", options_.where},
                  {"revision", fmt::format("{:x}", revision)},
                  {"counts", std::move(counts)},
                  {"leases", std::move(leases)},
                  {"fences", std::move(fences)},
                  {"hand_overs", std::move(leaving)},
                  {"jobs", array_of(Jobs(database_).list({}, shown_jobs))},
                  {"followers", array_of(Followers(database_).list("", shown_followers))},
                  {"audit", array_of(Operator(database_).audit({}, shown_audit))}});
  return {fmt::format("{{\"now_ms\":{},", all->now_ms), rest.substr(1)};
}

}  // namespace termgate::admin
