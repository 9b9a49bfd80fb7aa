// lease …: leases by hand, for scripts and operators.
#include <fmt/format.h>

#include "command.hpp"
#include "output.hpp"

namespace po = boost::program_options;

namespace termgate::cli {
namespace {

constexpr std::chrono::milliseconds ttl_default{10'000};

boost::json::object json_of(const LeaseInfo& lease) {
  return {{"scope", lease.scope},
          {"owner", lease.owner},
          {"term", lease.term},
          {"held", lease.remaining_ms > 0},
          {"remaining_ms", lease.remaining_ms},
          {"expires_at", moment(lease.expires_at_ms)},
          {"acquired_at", moment(lease.acquired_at_ms)},
          {"renewed_at", moment(lease.renewed_at_ms)},
          {"released_at", lease.released_at_ms ? boost::json::value(moment(*lease.released_at_ms)) : boost::json::value(nullptr)},
          {"endpoint", lease.endpoint}};
}

std::string owner_of(const Arguments& arguments) {
  // Each shell command is a process of its own, so renew and release need the owner that acquire printed.
  if (auto owner = arguments.maybe("owner")) return *owner;
  throw UsageError("--owner is missing: the owner that `lease acquire` printed");
}

int run_acquire(const Arguments& arguments) {
  const Scope scope = arguments.scope();
  Database database = arguments.open();
  LeaseOptions options;
  options.owner = arguments.text_or("owner", Database::default_owner());
  options.endpoint = arguments.text_or("endpoint", "");
  options.grace = arguments.maybe_duration("grace");
  const auto ttl = arguments.duration_or("ttl", ttl_default);
  std::optional<Lease> lease;
  if (const auto wait = arguments.maybe_duration("wait")) {
    options.wait = *wait;
    try {
      lease = database.acquire_lease(scope, ttl, options);
    } catch (const Blocked&) {
      // Another's live lease is status 4; a session that could not be evicted stays status 8.
      const auto info = database.lease(scope);
      if (!info || info->remaining_ms <= 0 || info->owner == options.owner) throw;
    }
  } else {
    lease = database.try_acquire_lease(scope, ttl, options);
  }
  if (!lease) {
    const auto info = database.lease(scope);
    if (arguments.json()) {
      boost::json::object object{{"acquired", false}};
      if (info) object["lease"] = json_of(*info);
      print_json(object);
    } else {
      fmt::print(stderr, "termgate: the lease of \"{}\" is {}'s under term {}, for another {}\n", printable(scope.name()),
                 info ? printable(info->owner) : "another", info ? info->term : 0,
                 length(info ? std::max<std::int64_t>(info->remaining_ms, 0) : 0));
    }
    return Exit::lease_anothers;
  }
  if (arguments.json())
    print_json(
        {{"acquired", true}, {"scope", scope.name()}, {"owner", lease->owner()}, {"term", lease->term().value()}, {"ttl_ms", ttl.count()}});
  else print_line(fmt::format("{}\t{}", lease->term().value(), lease->owner()));
  return Exit::done;
}

int run_renew(const Arguments& arguments) {
  const Scope scope = arguments.scope();
  Database database = arguments.open();
  database.renew_lease(scope, arguments.term(), owner_of(arguments), arguments.duration_or("ttl", ttl_default));
  const auto info = database.lease(scope);
  if (arguments.json()) print_json(info ? json_of(*info) : boost::json::object{});
  else print_line(fmt::format("renewed for another {}", length(info ? info->remaining_ms : 0)));
  return Exit::done;
}

int run_release(const Arguments& arguments) {
  const Scope scope = arguments.scope();
  const bool released = arguments.open().release_lease(scope, arguments.term(), owner_of(arguments));
  if (arguments.json()) print_json({{"released", released}});
  else if (released) print_line("released; the fence stays where it is");
  else fmt::print(stderr, "termgate: the lease of \"{}\" was not held by that owner under that term\n", printable(scope.name()));
  return released ? Exit::done : Exit::lease_lost;
}

std::string how_it_stands(const LeaseInfo& info) {
  if (info.remaining_ms > 0) return "held for another " + length(info.remaining_ms);
  return info.released_at_ms ? "released" : "run out";
}

int run_show(const Arguments& arguments) {
  const Scope scope = arguments.scope();
  const auto info = arguments.open().lease(scope);
  if (!info) {
    if (arguments.json()) print_json({{"scope", scope.name()}, {"lease", nullptr}});
    else fmt::print(stderr, "termgate: scope \"{}\" has never had a lease\n", printable(scope.name()));
    return Exit::failed;
  }
  if (arguments.json()) print_json(json_of(*info));
  else {
    print_line(fmt::format("{} under term {}: {}{}", printable(info->owner), info->term, how_it_stands(*info),
                           info->endpoint.empty() ? "" : "; endpoint " + printable(info->endpoint)));
  }
  return Exit::done;
}

const char* state_of(const LeaseInfo& info) { return info.remaining_ms > 0 ? "held" : info.released_at_ms ? "released" : "expired"; }

int run_list(const Arguments& arguments) {
  const auto state = arguments.maybe("state");
  if (state && *state != "held" && *state != "expired" && *state != "released")
    throw UsageError(fmt::format("--state {}: must be one of held, expired, released", *state));
  Database database = arguments.open();
  Listing listing(arguments.json(), {"SCOPE", "OWNER", "TERM", "STATE", "ACQUIRED", "ENDPOINT"});
  std::string after;
  for (;;) {
    const auto page = database.leases(after, 500);
    if (page.empty()) break;
    for (const LeaseInfo& info : page) {
      if (state && *state != state_of(info)) continue;
      listing.add([&] { return json_of(info); },
                  [&] {
                    return std::vector<std::string>{printable(info.scope), printable(info.owner),       std::to_string(info.term),
                                                    how_it_stands(info),   moment(info.acquired_at_ms), printable(info.endpoint)};
                  });
    }
    after = page.back().scope;
  }
  listing.end();
  return Exit::done;
}

int run_force_release(const Arguments& arguments) {
  const Scope scope = arguments.scope();
  // An operator who ends somebody's lead says why; the audit keeps it.
  const std::string reason = arguments.text("reason");
  if (reason.find_first_not_of(" \t\n") == std::string::npos) throw UsageError("--reason is empty: give a reason; the audit stores it");
  const bool released = arguments.open().force_release(scope, arguments.text_or("actor", default_actor()), reason);
  if (arguments.json()) print_json({{"released", released}});
  else print_line(released ? "released, and its term is shut out" : "no owner holds that lease: acquire it, or seal a term");
  return released ? Exit::done : Exit::failed;
}

void scope_and_owner(po::options_description& o) {
  o.add_options()("scope", po::value<std::string>(), "the scope")("owner", po::value<std::string>(),
                                                                  "the owner (acquire: host:pid:random)");
}

}  // namespace

void add_lease_commands(std::vector<Command>& commands) {
  commands.push_back({"lease acquire",
                      "take a free lease, or your own again; prints term and owner",
                      "Every acquisition issues a new term and seals it: the previous holder is shut out from that moment.\n"
                      "  termgate lease acquire --scope billing --ttl 10s --wait 30s\nStatus 4: another owner holds it; the message names "
                      "the owner and the end.",
                      [](po::options_description& o) {
                        scope_and_owner(o);
                        o.add_options()("ttl", po::value<std::string>(), "how long the lease lasts, 100ms to 1d (10s)")(
                            "wait", po::value<std::string>(), "how long to wait while another owner holds it (not at all)")(
                            "endpoint", po::value<std::string>(), "where the holder can be reached")(
                            "grace", po::value<std::string>(), "how long to wait before eviction (default: the setting)");
                      },
                      {},
                      run_acquire});
  commands.push_back({"lease renew",
                      "extend a lease; status 5 if it is lost",
                      "Only the holder can renew, under its own term, before the lease ends. A lost lease cannot be renewed: stop the "
                      "work, then acquire it again.\n"
                      "  termgate lease renew --scope billing --owner worker-7 --term 5 --ttl 10s",
                      [](po::options_description& o) {
                        scope_and_owner(o);
                        o.add_options()("term", po::value<std::string>(), "its term")("ttl", po::value<std::string>(),
                                                                                      "how long it lasts from now (10s)");
                      },
                      {},
                      run_renew});
  commands.push_back(
      {"lease release",
       "end a lease; its term stays used",
       "The next leader does not have to wait until it ends.\n  termgate lease release --scope billing --owner worker-7 --term 5",
       [](po::options_description& o) {
         scope_and_owner(o);
         o.add_options()("term", po::value<std::string>(), "its term");
       },
       {},
       run_release});
  commands.push_back({"lease show", "print one scope's lease", "", scope_and_owner, {"scope"}, run_show});
  commands.push_back({"lease list",
                      "list the leases",
                      "",
                      [](po::options_description& o) {
                        o.add_options()("state", po::value<std::string>(), "only those that are held, expired (run out) or released");
                      },
                      {},
                      run_list});
  commands.push_back({"lease force-release",
                      "end another owner's lease and shut its term out, audited",
                      "  termgate lease force-release --scope billing --reason 'node 3 is on fire'",
                      [](po::options_description& o) {
                        o.add_options()("scope", po::value<std::string>(), "the scope")(
                            "reason", po::value<std::string>(), "why; kept in the audit")("actor", po::value<std::string>(),
                                                                                          "who (default: you)");
                      },
                      {},
                      run_force_release});
}

}  // namespace termgate::cli
