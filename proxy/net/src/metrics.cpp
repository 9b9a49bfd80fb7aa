// Counters and their Prometheus text. Each worker has counters of its own; the text adds them up. A
// value that a client can choose is reduced to a class before it becomes a label, and the number of
// classes is limited.
#include <termgate/net/metrics.hpp>

#include <fmt/format.h>

namespace termgate::net {
namespace {

// Codes that are exported with 0 from the start, for --enforce on and for observe.
constexpr std::array<const char*, 7> codes_from_start{"3F000", "42501", "TG001", "TG002",
                                                      "TG004", "TG005", "TG006"};

bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

}  // namespace

std::string_view scope_class(std::string_view scope) noexcept {
  std::size_t end = 0;
  while (end < scope.size() && end < 40 && letter(scope[end])) ++end;
  return end == 0 ? std::string_view("other") : scope.substr(0, end);
}

void Counters::note(const conversation::Incident& incident) {
  using Kind = conversation::Incident::Kind;
  switch (incident.kind) {
    case Kind::transaction: transactions.add(); break;
    case Kind::fenced: {
      fenced.add();
      const double seconds = std::chrono::duration<double>(incident.took).count();
      std::size_t bucket = 0;
      while (bucket < bounds_seconds.size() && seconds > bounds_seconds[bucket]) ++bucket;
      check_buckets[bucket].add();
      check_nanoseconds.add(incident.took.count());
      break;
    }
    case Kind::would_refuse:
    case Kind::refused: {
      const std::lock_guard lock(mutex_);
      std::pair<std::string, std::string> key(scope_class(incident.scope),
                                              incident.code.substr(0, 5));
      // Termgate has few codes, but a server may send any five letters.
      if (refusals_.size() >= classes_max && refusals_.find(key) == refusals_.end())
        key = {"other", "other"};
      Refusals& refused = refusals_[key];
      ++(incident.kind == Kind::would_refuse ? refused.let_pass
         : incident.from_memory              ? refused.from_memory
                                             : refused.from_database);
      break;
    }
    case Kind::evicted: evicted.add(); break;
    case Kind::malformed: malformed.add(); break;
    case Kind::login_refused: logins_refused.add(); break;
    case Kind::no_seat: break;
  }
}

std::map<std::pair<std::string, std::string>, Counters::Refusals> Counters::refusals() const {
  const std::lock_guard lock(mutex_);
  return refusals_;
}

// Long: one line for each metric.
std::string metrics_text(const std::vector<std::shared_ptr<Counters>>& counters,
                         const Gauges& gauges, std::string_view version) {
  std::string text;
  auto out = std::back_inserter(text);
  auto head = [&](std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(out, "# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  };
  auto sum = [&](Counter Counters::*member) {
    std::int64_t total = 0;
    for (const auto& one : counters) total += ((*one).*member).get();
    return total;
  };
  auto counter = [&](std::string_view name, Counter Counters::*member, std::string_view help) {
    head(name, "counter", help);
    fmt::format_to(out, "{} {}\n", name, sum(member));
  };
  auto gauge = [&](std::string_view name, std::int64_t value, std::string_view help) {
    head(name, "gauge", help);
    fmt::format_to(out, "{} {}\n", name, value);
  };

  head("termgate_build_info", "gauge", "The version that runs.");
  fmt::format_to(out, "termgate_build_info{{version=\"{}\"}} 1\n", version);
  gauge("termgate_connections", gauges.connections,
        "Clients that have sent their start-up message.");
  gauge("termgate_connections_peak", gauges.connections_peak,
        "The most there were at once since the start.");
  gauge("termgate_connections_limit", gauges.connections_limit, "--max-connections.");
  gauge("termgate_connections_greeting", gauges.greeting,
        "Clients that have not sent their start-up message yet.");
  gauge("termgate_sessions_in_transaction", gauges.in_transaction,
        "Sessions with an open transaction.");
  gauge("termgate_sessions_seated", gauges.seated,
        "Sessions with a seat, on SQL Server with the gate of their scope: writes pass unchecked.");
  gauge("termgate_session_bytes", gauges.session_bytes,
        "Memory that sessions hold for data under way.");
  gauge("termgate_leases_held", gauges.leases_held, "Leases held for applications.");
  gauge("termgate_enforcing", gauges.enforcing ? 1 : 0,
        "1: --enforce on; 0: observe. A rule may say otherwise for its sessions.");
  gauge("termgate_reload_needs_restart", gauges.needs_restart,
        "Options that were changed and come into force with the next start.");
  gauge("termgate_draining", gauges.draining ? 1 : 0, "1 once no new clients are taken.");
  gauge("termgate_fences_watched", gauges.watching.backend ? 1 : 0,
        "1 while the proxy is notified of raised fences in the database of --backend.");
  gauge("termgate_databases_watched", gauges.watching.databases,
        "Other databases whose fences are watched now.");
  gauge("termgate_databases_watched_limit", gauges.watching.databases_limit,
        "--max-watched-databases.");
  head("termgate_watch_failures_total", "counter",
       "Watches of fences that were lost or could not begin.");
  fmt::format_to(out, "termgate_watch_failures_total {}\n", gauges.watching.failures);
  counter("termgate_connections_accepted_total", &Counters::accepted,
          "Connections taken from listeners.");
  counter("termgate_connections_opened_total", &Counters::opened, "Clients that logged in.");
  counter("termgate_logins_refused_total", &Counters::logins_refused,
          "Logins that the server, or the proxy in its place, refused.");
  counter("termgate_connections_closed_total", &Counters::closed, "Connections that ended.");
  head("termgate_connections_refused_total", "counter",
       "Clients refused, by the limit that was reached.");
  for (const auto& [limit, member] :
       {std::pair{"connections", &Counters::refused_limit_connections},
        {"greeting", &Counters::refused_limit_greeting},
        {"user", &Counters::refused_limit_user},
        {"database", &Counters::refused_limit_database},
        {"address", &Counters::refused_limit_address},
        {"descriptors", &Counters::no_descriptors}})
    fmt::format_to(out, "termgate_connections_refused_total{{limit=\"{}\"}} {}\n", limit,
                   sum(member));
  counter("termgate_greeting_timeouts_total", &Counters::greeting_timeouts,
          "Clients that never sent their start-up message.");
  counter("termgate_backend_connect_failures_total", &Counters::connect_failures,
          "Sessions for which no server was reached.");
  counter("termgate_tls_failures_total", &Counters::tls_failures,
          "TLS handshakes that failed, on either side.");
  counter("termgate_malformed_total", &Counters::malformed, "Peers that broke the protocol.");
  counter("termgate_client_bytes_total", &Counters::bytes_from_clients, "Bytes read from clients.");
  counter("termgate_server_bytes_total", &Counters::bytes_from_servers, "Bytes read from servers.");
  head("termgate_cancel_requests_total", "counter", "Cancel requests, by their result.");
  for (const auto& [fate, member] : {std::pair{"forwarded", &Counters::cancels},
                                     {"unknown", &Counters::cancels_unknown},
                                     {"over_limit", &Counters::cancels_over_limit}})
    fmt::format_to(out, "termgate_cancel_requests_total{{fate=\"{}\"}} {}\n", fate, sum(member));
  counter("termgate_transactions_total", &Counters::transactions,
          "Transactions that ended on the server.");
  counter("termgate_fenced_transactions_total", &Counters::fenced,
          "Transactions that passed the check.");
  counter("termgate_evicted_transactions_total", &Counters::evicted,
          "Open transactions ended because a higher term was seen.");

  std::map<std::pair<std::string, std::string>, Counters::Refusals> refusals;
  // Series start at 0, because increase() misses the first count of one that begins with 1.
  for (const char* code : codes_from_start) refusals[{"other", code}] = {};
  for (const auto& one : counters) {
    for (const auto& [key, count] : one->refusals()) {
      const bool full =
          refusals.size() >= Counters::classes_max && refusals.find(key) == refusals.end();
      auto& total = refusals[full ? std::pair<std::string, std::string>("other", "other") : key];
      total.from_memory += count.from_memory;
      total.from_database += count.from_database;
      total.let_pass += count.let_pass;
    }
  }
  const auto code_of = [](const std::string& written) {
    std::string code;
    for (char c : written) code += (c >= '0' && c <= '9') || letter(c) ? c : '?';
    return code;
  };
  head("termgate_would_refuse_total", "counter",
       "Refusals that --enforce observe let pass, by class of scope and code.");
  for (const auto& [key, count] : refusals) {
    if (count.let_pass > 0 || key.first == "other")
      fmt::format_to(out, "termgate_would_refuse_total{{scope_class=\"{}\",code=\"{}\"}} {}\n",
                     key.first, code_of(key.second), count.let_pass);
  }
  head("termgate_refusals_total", "counter",
       "Statements refused, by class of scope, code, and source (memory or database).");
  for (const auto& [key, count] : refusals) {
    const std::string code = code_of(key.second);
    for (const auto& [from, number] :
         {std::pair{"memory", count.from_memory}, {"database", count.from_database}})
      fmt::format_to(out,
                     "termgate_refusals_total{{scope_class=\"{}\",code=\"{}\",from=\"{}\"}} {}\n",
                     key.first, code, from, number);
  }

  head("termgate_check_seconds", "histogram", "From sending a check to its answer.");
  std::int64_t cumulated = 0;
  for (std::size_t i = 0; i <= Counters::bounds_seconds.size(); ++i) {
    for (const auto& one : counters) cumulated += one->check_buckets[i].get();
    if (i < Counters::bounds_seconds.size())
      fmt::format_to(out, "termgate_check_seconds_bucket{{le=\"{}\"}} {}\n",
                     Counters::bounds_seconds[i], cumulated);
    else fmt::format_to(out, "termgate_check_seconds_bucket{{le=\"+Inf\"}} {}\n", cumulated);
  }
  fmt::format_to(out, "termgate_check_seconds_sum {:.9f}\ntermgate_check_seconds_count {}\n",
                 static_cast<double>(sum(&Counters::check_nanoseconds)) / 1e9, cumulated);
  return text;
}

}  // namespace termgate::net
