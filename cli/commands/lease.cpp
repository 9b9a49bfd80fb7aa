// lease …: leases by hand, for scripts and operators.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include <fmt/format.h>

#include <termgate/info.hpp>
#include <termgate/lease_watch.hpp>
#include <termgate/operator.hpp>

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
          {"released_at", lease.released_at_ms ? boost::json::value(moment(*lease.released_at_ms))
                                               : boost::json::value(nullptr)},
          {"endpoint", lease.endpoint}};
}

std::string owner_of(const Arguments& arguments) {
  // Each shell command is a process of its own, so renew and release need the owner name that
  // acquire printed.
  if (auto owner = arguments.maybe("owner")) return *owner;
  throw UsageError("--owner is missing: the owner that `lease acquire` printed");
}

int run_acquire(const Arguments& arguments) {
  const Scope scope = arguments.scope();
  Database database = arguments.open();
  LeaseOptions options;
  options.owner = arguments.text_or("owner", default_owner());
  options.endpoint = arguments.text_or("endpoint", "");
  options.grace = arguments.maybe_duration("grace");
  const auto ttl = arguments.duration_or("ttl", ttl_default);
  std::optional<Lease> lease;
  if (const auto wait = arguments.maybe_duration("wait")) {
    options.wait = *wait;
    try {
      lease = database.acquire_lease(scope, ttl, options);
    } catch (const Blocked&) {
      // If another owner holds a live lease, the status is 4. If a session could not be evicted, it
      // stays 8.
      const auto info = Info(database).lease(scope);
      if (!info || info->remaining_ms <= 0 || info->owner == options.owner) throw;
    }
  } else {
    lease = database.try_acquire_lease(scope, ttl, options);
  }
  if (!lease) {
    const auto info = Info(database).lease(scope);
    if (arguments.json()) {
      boost::json::object object{{"acquired", false}};
      if (info) object["lease"] = json_of(*info);
      print_json(object);
    } else {
      fmt::print(stderr, "termgate: the lease of \"{}\" is {}'s under term {}, for another {}\n",
                 printable(scope.name()), info ? printable(info->owner) : "another",
                 info ? info->term : 0,
                 length(info ? std::max<std::int64_t>(info->remaining_ms, 0) : 0));
    }
    return Exit::lease_anothers;
  }
  if (arguments.json())
    print_json({{"acquired", true},
                {"scope", scope.name()},
                {"owner", lease->owner()},
                {"term", lease->term().value()},
                {"ttl_ms", ttl.count()}});
  else print_line(fmt::format("{}\t{}", lease->term().value(), lease->owner()));
  return Exit::done;
}

int run_renew(const Arguments& arguments) {
  const Scope scope = arguments.scope();
  Database database = arguments.open();
  database.renew_lease(scope, arguments.term(), owner_of(arguments),
                       arguments.duration_or("ttl", ttl_default));
  const auto info = Info(database).lease(scope);
  if (arguments.json()) print_json(info ? json_of(*info) : boost::json::object{});
  else print_line(fmt::format("renewed for another {}", length(info ? info->remaining_ms : 0)));
  return Exit::done;
}

int run_release(const Arguments& arguments) {
  const Scope scope = arguments.scope();
  const bool released =
      arguments.open().release_lease(scope, arguments.term(), owner_of(arguments));
  if (arguments.json()) print_json({{"released", released}});
  else if (released) print_line("released; the fence stays where it is");
  else
    fmt::print(stderr, "termgate: the lease of \"{}\" was not held by that owner under that term\n",
               printable(scope.name()));
  return released ? Exit::done : Exit::lease_lost;
}

std::string how_it_stands(const LeaseInfo& info) {
  if (info.remaining_ms > 0) return "held for another " + length(info.remaining_ms);
  return info.released_at_ms ? "released" : "run out";
}

int run_show(const Arguments& arguments) {
  const Scope scope = arguments.scope();
  const auto info = Info(arguments.open()).lease(scope);
  if (!info) {
    if (arguments.json()) print_json({{"scope", scope.name()}, {"lease", nullptr}});
    else
      fmt::print(stderr, "termgate: scope \"{}\" has never had a lease\n", printable(scope.name()));
    return Exit::failed;
  }
  if (arguments.json()) print_json(json_of(*info));
  else {
    print_line(fmt::format(
        "{} under term {}: {}{}", printable(info->owner), info->term, how_it_stands(*info),
        info->endpoint.empty() ? "" : "; endpoint " + printable(info->endpoint)));
  }
  return Exit::done;
}

const char* state_of(const LeaseInfo& info) {
  return info.remaining_ms > 0 ? "held" : info.released_at_ms ? "released" : "expired";
}

int run_list(const Arguments& arguments) {
  const auto state = arguments.maybe("state");
  if (state && *state != "held" && *state != "expired" && *state != "released")
    throw UsageError(fmt::format("--state {}: must be one of held, expired, released", *state));
  Database database = arguments.open();
  Listing listing(arguments.json(), {"SCOPE", "OWNER", "TERM", "STATE", "ACQUIRED", "ENDPOINT"});
  std::string after;
  for (;;) {
    const auto page = Info(database).leases(after, 500);
    if (page.empty()) break;
    for (const LeaseInfo& info : page) {
      if (state && *state != state_of(info)) continue;
      listing.add([&] { return json_of(info); },
                  [&] {
                    return std::vector<std::string>{
                        printable(info.scope),       printable(info.owner),
                        std::to_string(info.term),   how_it_stands(info),
                        moment(info.acquired_at_ms), printable(info.endpoint)};
                  });
    }
    after = page.back().scope;
  }
  listing.end();
  return Exit::done;
}

int run_watch(const Arguments& arguments) {
  const Scope scope = arguments.scope();
  std::atomic<bool> unread{false};
  const auto tell = [&](const std::optional<LeaseInfo>& leader) {
    if (arguments.json())
      print_json(leader ? json_of(*leader)
                        : boost::json::object{{"scope", scope.name()}, {"held", false}});
    else if (!leader) print_line("nobody");
    else
      print_line(fmt::format("{}\t{}\t{}", leader->term, printable(leader->owner),
                             printable(leader->endpoint)));
    if (std::fflush(stdout) != 0) unread = true;
  };
  const LeaseWatch watch(arguments.open(), scope, tell,
                         arguments.duration_or("interval", std::chrono::milliseconds(1000)));
  while (!unread) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return Exit::failed;
}

int run_force_release(const Arguments& arguments) {
  const Scope scope = arguments.scope();
  // An operator who ends somebody's lead must give a reason, which the audit stores.
  const std::string reason = arguments.text("reason");
  if (reason.find_first_not_of(" \t\n") == std::string::npos)
    throw UsageError("--reason is empty: give a reason; the audit stores it");
  const bool released =
      Operator(arguments.open())
          .force_release(scope, arguments.text_or("actor", default_actor()), reason);
  if (arguments.json()) print_json({{"released", released}});
  else
    print_line(released ? "released, and its term is shut out"
                        : "no owner holds that lease: acquire it, or seal a term");
  return released ? Exit::done : Exit::failed;
}

boost::json::object json_of(const HandOverInfo& one) {
  const auto text = [](const auto& value) {
    return value ? boost::json::value(*value) : boost::json::value(nullptr);
  };
  const auto at = [](const auto& ms) {
    return ms ? boost::json::value(moment(*ms)) : boost::json::value(nullptr);
  };
  return {{"scope", one.scope},
          {"state", one.state},
          {"owner", one.owner},
          {"term", one.term},
          {"to", text(one.to)},
          {"requested_by", one.requested_by},
          {"reason", one.reason},
          {"requested_at", moment(one.requested_at_ms)},
          {"leave_before", moment(one.leave_before_ms)},
          {"left_at", at(one.left_at_ms)},
          {"next_owner", text(one.next_owner)},
          {"next_term", text(one.next_term)},
          {"taken_at", at(one.taken_at_ms)},
          {"gap_ms", text(one.gap_ms)}};
}

std::string how_it_went(const HandOverInfo& one) {
  const std::string who = fmt::format("{} (term {})", printable(one.owner), one.term);
  if (one.state == "taken") {
    return fmt::format("{} {}; {} leads under term {}; {} ms without a leader", who,
                       one.left_at_ms ? "has left" : "had not left", printable(*one.next_owner),
                       *one.next_term, one.gap_ms.value_or(0));
  }
  if (one.left_at_ms) return fmt::format("{} has left, and nobody has taken the lease yet", who);
  return fmt::format("{} has not left: its lease is renewed no more, and is free when it ends",
                     who);
}

// Requests the hand-over. Without --no-wait it then waits until the lease is taken, or the drain is
// over.
int run_hand_over(const Arguments& arguments) {
  const Scope scope = arguments.scope();
  HandOverOptions options;
  options.to = arguments.text_or("to", "");
  options.drain = arguments.duration_or("drain", options.drain);
  options.actor = arguments.text_or("actor", default_actor());
  options.reason = arguments.text_or("reason", options.reason);
  Database database = arguments.open();
  if (!Operator(database).request_hand_over(scope, options)) {
    if (arguments.json()) print_json({{"requested", false}});
    else
      fmt::print(stderr, "termgate: nobody holds the lease of \"{}\"\n", printable(scope.name()));
    return Exit::failed;
  }
  using namespace std::chrono_literals;
  std::optional<HandOverInfo> last;
  for (auto pause = 5ms;; pause = std::min(pause * 2, 100ms)) {
    const auto found = Info(database).hand_overs(scope, 1);
    if (!found.empty()) last = found.front();
    if (arguments.flag("no-wait") || !last || !last->in_progress()) break;
    std::this_thread::sleep_for(pause);
  }
  if (!last) throw DatabaseError("the request is gone");
  if (arguments.json()) print_json(json_of(*last));
  else if (last->state == "asked")
    print_line(fmt::format("{} is asked to leave", printable(last->owner)));
  else print_line(how_it_went(*last));
  return arguments.flag("no-wait") || last->state == "taken" ? Exit::done : Exit::lease_anothers;
}

void scope_and_owner(po::options_description& o) {
  o.add_options()("scope", po::value<std::string>(), "the scope")(
      "owner", po::value<std::string>(), "the owner (acquire: host:pid:random)");
}

}  // namespace

// Long: a table of commands, each with its help.
void add_lease_commands(std::vector<Command>& commands) {
  commands.push_back({"lease acquire",
                      "take a free lease, or your own again; prints term and owner",
                      "Every acquisition issues a new term and seals it: the previous holder is "
                      "shut out from that moment.\n"
                      "  termgate lease acquire --scope billing --ttl 10s --wait 30s\nStatus 4: "
                      "another owner holds it; the message names "
                      "the owner and the end.",
                      [](po::options_description& o) {
                        scope_and_owner(o);
                        o.add_options()("ttl", po::value<std::string>(),
                                        "how long the lease lasts, 100ms to 1d (10s)")(
                            "wait", po::value<std::string>(),
                            "how long to wait while another owner holds it (not at all)")(
                            "endpoint", po::value<std::string>(),
                            "where the holder can be reached")(
                            "grace", po::value<std::string>(),
                            "how long to wait before eviction (default: the setting)");
                      },
                      {},
                      run_acquire});
  commands.push_back({"lease renew",
                      "extend a lease; status 5 if it is lost",
                      "Only the holder can renew, under its own term, before the lease ends. A "
                      "lost lease cannot be renewed: stop the "
                      "work, then acquire it again.\n"
                      "  termgate lease renew --scope billing --owner worker-7 --term 5 --ttl 10s",
                      [](po::options_description& o) {
                        scope_and_owner(o);
                        o.add_options()("term", po::value<std::string>(), "its term")(
                            "ttl", po::value<std::string>(), "how long it lasts from now (10s)");
                      },
                      {},
                      run_renew});
  commands.push_back({"lease release",
                      "end a lease; its term stays used",
                      "The next leader does not have to wait until it ends.\n  termgate lease "
                      "release --scope billing --owner worker-7 --term 5",
                      [](po::options_description& o) {
                        scope_and_owner(o);
                        o.add_options()("term", po::value<std::string>(), "its term");
                      },
                      {},
                      run_release});
  commands.push_back(
      {"lease show", "print one scope's lease", "", scope_and_owner, {"scope"}, run_show});
  commands.push_back({"lease watch",
                      "print who leads a scope, and each change",
                      "A line now and whenever another leads: term, owner and endpoint, or nobody. "
                      "It ends with its reader, or a signal.\n"
                      "  termgate lease watch --scope billing | while read term owner endpoint; do "
                      "reroute \"$endpoint\"; done",
                      [](po::options_description& o) {
                        o.add_options()("scope", po::value<std::string>(), "the scope")(
                            "interval", po::value<std::string>(),
                            "how often to look where nothing is reported (1s)");
                      },
                      {"scope"},
                      run_watch});
  commands.push_back({"lease list",
                      "list the leases",
                      "",
                      [](po::options_description& o) {
                        o.add_options()("state", po::value<std::string>(),
                                        "only those that are held, expired (run out) or released");
                      },
                      {},
                      run_list});
  commands.push_back(
      {"lease hand-over",
       "ask the holder of a lease to leave, and wait until another has it",
       "The holder finishes what it is at and gives the lease back: a leader loop stops its work, "
       "`termgate run` sends "
       "COMMAND a signal. As long as the drain lasts the successor alone may take the lease. A "
       "holder that has not left "
       "then is renewed no more: its lease ends and is taken over, as after a crash.\n"
       "  termgate lease hand-over --scope billing --to 'web-2:*' --drain 30s\n"
       "Prints the receipt: who left, who leads, and how long nobody did. Status 4: nobody has "
       "taken it within the drain; "
       "1: nobody holds it.",
       [](po::options_description& o) {
         o.add_options()("scope", po::value<std::string>(), "the scope")(
             "to", po::value<std::string>(),
             "the next owner, or the beginning of its name and a * (anybody but the holder)")(
             "drain", po::value<std::string>(),
             "the time in which the holder has to leave, 100ms to 1d (30s)")(
             "reason", po::value<std::string>(), "why; kept in the audit (planned)")(
             "actor", po::value<std::string>(), "who (default: you)")(
             "no-wait", po::bool_switch(), "return when the holder is asked");
       },
       {"scope"},
       run_hand_over});
  commands.push_back({"lease force-release",
                      "end another owner's lease and shut its term out, audited",
                      "  termgate lease force-release --scope billing --reason 'node 3 is on fire'",
                      [](po::options_description& o) {
                        o.add_options()("scope", po::value<std::string>(), "the scope")(
                            "reason", po::value<std::string>(), "why; kept in the audit")(
                            "actor", po::value<std::string>(), "who (default: you)");
                      },
                      {},
                      run_force_release});
}

}  // namespace termgate::cli
