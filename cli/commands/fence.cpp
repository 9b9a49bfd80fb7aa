// seal, fence …, status, explain: read and raise fences, and lower them with an audit entry.
#include <chrono>
#include <map>
#include <thread>

#include <fmt/format.h>

#include <termgate/detail/named_row.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include "command.hpp"
#include "output.hpp"

namespace po = boost::program_options;

namespace termgate::cli {
namespace {

boost::json::object json_of(const FenceInfo& fence) {
  return {{"scope", fence.scope},
          {"fence", fence.term},
          {"raised_at", moment(fence.raised_at_ms)},
          {"raised_by", fence.raised_by},
          {"raise_by", fence.raise_by},
          {"untrusted", fence.untrusted}};
}

// The detail of an audit event as JSON. Where layer 1 wrote plain text, the text becomes a member.
boost::json::object detail_of(const std::string& text) {
  boost::system::error_code failure;
  const boost::json::value value = boost::json::parse(text, failure);
  if (!failure && value.is_object()) return value.get_object();
  if (text.empty()) return {};
  return {{"text", is_utf8(text) ? text : printable(text)}};
}

// Calls `use` for all pages of a listing, in scope order.
template <class Page, class Use>
void for_each_page(Page page, Use use) {
  std::string after;
  for (;;) {
    const auto items = page(after);
    if (items.empty()) return;
    for (const auto& item : items) use(item);
    after = items.back().scope;
  }
}

int run_seal(const Arguments& arguments) {
  const Scope scope = arguments.scope();
  const auto reason = arguments.maybe("reason");
  if (!reason && arguments.maybe("actor"))
    throw UsageError("--actor needs --reason: both go to the audit");
  const auto actor =
      reason ? std::optional(arguments.text_or("actor", default_actor())) : std::nullopt;
  const SealReceipt receipt = arguments.open().seal(
      scope, arguments.term(), arguments.maybe_duration("grace"), actor, reason);
  if (arguments.json()) {
    print_json({{"scope", scope.name()},
                {"fence", receipt.fence.value()},
                {"previous", receipt.previous},
                {"evicted", receipt.evicted},
                {"sealed_at", moment(receipt.sealed_at_ms)}});
  } else {
    print_line(fmt::format("sealed: the fence of \"{}\" stands at {} (before: {}), {} evicted, {}",
                           printable(scope.name()), receipt.fence.value(), receipt.previous,
                           receipt.evicted, moment(receipt.sealed_at_ms)));
  }
  return Exit::done;
}

int run_fence_list(const Arguments& arguments) {
  Database database = arguments.open();
  Listing listing(arguments.json(), {"SCOPE", "FENCE", "RAISED", "BY", "WHO MAY RAISE", ""});
  for_each_page([&](const std::string& after) { return Info(database).fences(after, 500); },
                [&](const FenceInfo& fence) {
                  listing.add([&] { return json_of(fence); },
                              [&] {
                                return std::vector<std::string>{printable(fence.scope),
                                                                std::to_string(fence.term),
                                                                moment(fence.raised_at_ms),
                                                                printable(fence.raised_by),
                                                                fence.raise_by,
                                                                fence.untrusted ? "untrusted" : ""};
                              });
                });
  listing.end();
  return Exit::done;
}

int run_fence_show(const Arguments& arguments) {
  const Scope scope = arguments.scope();
  const auto fence = Info(arguments.open()).fence(scope);
  if (!fence) {
    if (arguments.json()) print_json({{"scope", scope.name()}, {"fence", nullptr}});
    else
      fmt::print(stderr,
                 "termgate: scope \"{}\" has no fence yet; the first check, seal or acquisition "
                 "makes it\n",
                 printable(scope.name()));
    return Exit::failed;
  }
  if (arguments.json()) print_json(json_of(*fence));
  else
    print_line(
        fmt::format("{}{}", fence->term, fence->untrusted ? " (untrusted: writes get TG004)" : ""));
  return Exit::done;
}

int run_fence_reset(const Arguments& arguments) {
  const Scope scope = arguments.scope();
  const Term term = arguments.term();
  const std::int64_t previous =
      Operator(arguments.open())
          .reset_fence(scope, term, arguments.text_or("actor", default_actor()),
                       arguments.text_or("reason", no_reason));
  if (arguments.json())
    print_json({{"scope", scope.name()}, {"fence", term.value()}, {"previous", previous}});
  else
    print_line(
        fmt::format("reset: the fence of \"{}\" stands at {} (before: {}); writers with terms from "
                    "{} on are accepted again",
                    printable(scope.name()), term.value(), previous, term.value()));
  return Exit::done;
}

int run_declare_restored(const Arguments& arguments) {
  Database database = arguments.open();
  const std::string actor = arguments.text_or("actor", default_actor());
  const std::string reason = arguments.text_or("reason", no_reason);
  const int ways = (arguments.maybe("above") ? 1 : 0) + (arguments.flag("nothing-lost") ? 1 : 0) +
                   (arguments.flag("untrusted") ? 1 : 0);
  if (ways != 1) {
    throw UsageError(
        "give one of: --scope X --above N (its terms were issued up to N), --nothing-lost (no "
        "raise is missing in this database), "
        "--untrusted (an old copy "
        "was put back: refuse writes until each scope is settled)");
  }
  if (arguments.flag("nothing-lost")) {
    const std::int64_t scopes = Operator(database).declare_nothing_lost(actor, reason);
    if (arguments.json()) print_json({{"scopes", scopes}});
    else print_line(fmt::format("{} scopes are no longer untrusted", scopes));
  } else if (arguments.flag("untrusted")) {
    const std::int64_t scopes = Operator(database).declare_untrusted(actor, reason);
    if (arguments.json()) print_json({{"scopes", scopes}});
    else
      print_line(
          fmt::format("{} scopes are untrusted: writes get TG004 until a lease is acquired or "
                      "--above is declared",
                      scopes));
  } else {
    const Scope scope = arguments.scope();
    const Term fence =
        Operator(database).declare_restored(scope, arguments.term("above"), actor, reason);
    if (arguments.json()) print_json({{"scope", scope.name()}, {"fence", fence.value()}});
    else
      print_line(fmt::format("the fence of \"{}\" stands at {} and is no longer untrusted",
                             printable(scope.name()), fence.value()));
  }
  return Exit::done;
}

int run_fence_raise_by(const Arguments& arguments) {
  const Scope scope = arguments.scope();
  const std::string mode = arguments.text("mode");
  Operator(arguments.open()).set_raise_by(scope, mode);
  if (arguments.json()) print_json({{"scope", scope.name()}, {"raise_by", mode}});
  else
    print_line(fmt::format("the fence of \"{}\" is raised by {}", printable(scope.name()),
                           mode == "seal" ? "seal alone" : "any writer"));
  return Exit::done;
}

void print_status(Database& database, bool json) {
  std::map<std::string, LeaseInfo> leases;
  for_each_page([&](const std::string& after) { return Info(database).leases(after, 500); },
                [&](const LeaseInfo& lease) { leases.emplace(lease.scope, lease); });
  std::map<std::string, HandOverInfo> leaving;
  for (HandOverInfo& one : Info(database).hand_overs()) {
    if (one.in_progress()) leaving.emplace(one.scope, std::move(one));
  }
  boost::json::array scopes;
  std::vector<std::vector<std::string>> rows;
  for_each_page(
      [&](const std::string& after) { return Info(database).fences(after, 500); },
      [&](const FenceInfo& fence) {
        const auto found = leases.find(fence.scope);
        const LeaseInfo* lease = found == leases.end() ? nullptr : &found->second;
        const bool held = lease != nullptr && lease->remaining_ms > 0;
        const auto asked = leaving.find(fence.scope);
        if (json) {
          auto object = json_of(fence);
          object["lease"] = lease == nullptr
                                ? boost::json::value(nullptr)
                                : boost::json::value{{"owner", lease->owner},
                                                     {"term", lease->term},
                                                     {"held", held},
                                                     {"remaining_ms", lease->remaining_ms},
                                                     {"endpoint", lease->endpoint}};
          if (asked != leaving.end()) {
            const HandOverInfo& one = asked->second;
            object["hand_over"] = {
                {"state", one.state},
                {"owner", one.owner},
                {"to", one.to ? boost::json::value(*one.to) : boost::json::value(nullptr)},
                {"leave_before", moment(one.leave_before_ms)}};
          }
          scopes.push_back(std::move(object));
          return;
        }
        std::string state = "-";
        if (held) state = "held for another " + length(lease->remaining_ms);
        else if (lease != nullptr) state = lease->released_at_ms ? "released" : "run out";
        if (asked != leaving.end()) {
          state += asked->second.state == "asked" ? ", asked to leave" : ", handed over";
          if (asked->second.to) state += " to " + printable(*asked->second.to);
        }
        if (fence.untrusted) state += ", fence untrusted";
        rows.push_back({printable(fence.scope), std::to_string(fence.term),
                        lease ? printable(lease->owner) : "-", state, moment(fence.raised_at_ms),
                        lease ? printable(lease->endpoint) : ""});
      });
  if (json) print_json({{"scopes", std::move(scopes)}});
  else print_table({"SCOPE", "FENCE", "LEASE OF", "STATE", "RAISED", "ENDPOINT"}, rows);
}

int run_status(const Arguments& arguments) {
  Database database = arguments.open();
  const auto pause = arguments.duration_or("interval", std::chrono::milliseconds(1000));
  for (;;) {
    if (arguments.flag("watch") && !arguments.json()) fmt::print("\033[H\033[2J");
    print_status(database, arguments.json());
    if (!arguments.flag("watch")) return Exit::done;
    if (std::fflush(stdout) != 0) return Exit::failed;
    std::this_thread::sleep_for(pause);
  }
}

int run_explain(const Arguments& arguments) {
  const Scope scope = arguments.scope();
  Database database = arguments.open();
  const auto fence = Info(database).fence(scope);
  const auto lease = Info(database).lease(scope);
  const Rows history = Operator(database).explain(
      scope, static_cast<int>(arguments.integer_or("limit", 50, 1, 100'000)));
  if (arguments.json()) {
    boost::json::array events;
    for (const Row& each : history.rows) {
      const detail::NamedRow row(history, each);
      events.push_back({{"at", moment(row["at_ms"].as_int())},
                        {"actor", row["actor"].as_text()},
                        {"client", row["client"].as_text()},
                        {"action", row["action"].as_text()},
                        {"detail", detail_of(row["detail"].as_text())}});
    }
    boost::json::object object{{"scope", scope.name()},
                               {"fence", nullptr},
                               {"lease", nullptr},
                               {"events", std::move(events)}};
    if (fence) object["fence"] = json_of(*fence);
    if (lease)
      object["lease"] = {
          {"owner", lease->owner}, {"term", lease->term}, {"remaining_ms", lease->remaining_ms}};
    print_json(object);
    return Exit::done;
  }
  if (!fence) {
    print_line(
        fmt::format("Scope \"{}\" has no fence: nothing was ever written, sealed or acquired here.",
                    printable(scope.name())));
  } else {
    print_line(fmt::format(
        "Scope \"{}\": the fence stands at {}, raised {} by {}. Every lower term is refused "
        "(TG001).{}",
        printable(scope.name()), fence->term, moment(fence->raised_at_ms),
        printable(fence->raised_by), fence->untrusted ? " It is untrusted (TG004)." : ""));
  }
  if (lease) {
    print_line(lease->remaining_ms > 0
                   ? fmt::format("The lease is {}'s under term {}, for another {}.",
                                 printable(lease->owner), lease->term, length(lease->remaining_ms))
                   : fmt::format("The last lease was {}'s under term {}; it is {}.",
                                 printable(lease->owner), lease->term,
                                 lease->released_at_ms ? "released" : "over"));
  }
  if (!history.rows.empty()) print_line("");
  std::vector<std::vector<std::string>> rows;
  for (const Row& each : history.rows) {
    const detail::NamedRow row(history, each);
    rows.push_back({moment(row["at_ms"].as_int()), row["action"].as_text(),
                    printable(row["actor"].as_text()), printable(row["client"].as_text()),
                    printable(row["detail"].as_text())});
  }
  if (!rows.empty()) print_table({"WHEN", "WHAT", "WHO", "FROM", "DETAIL"}, rows);
  return Exit::done;
}

void scope_option(po::options_description& o) {
  o.add_options()("scope", po::value<std::string>(), "the scope");
}

void audited_options(po::options_description& o) {
  o.add_options()("reason", po::value<std::string>(), "why; kept in the audit")(
      "actor", po::value<std::string>(), "who (default: you)");
}

}  // namespace

void add_fence_commands(std::vector<Command>& commands) {
  commands.push_back({"seal",
                      "raise a fence without writing; lower terms are shut out from then on",
                      "  termgate seal --db postgresql://ops@db/app --scope billing --term 7\n"
                      "Waits for writers with lower terms for the grace period, then ends their "
                      "sessions. Status 3: the fence is "
                      "already\nhigher. Status 8: a session could not be evicted; the message "
                      "names it and the next step.",
                      [](po::options_description& o) {
                        scope_option(o);
                        o.add_options()("term", po::value<std::string>(), "the new fence")(
                            "grace", po::value<std::string>(),
                            "how long to wait before eviction (default: the setting, 1s)")(
                            "reason", po::value<std::string>(), "kept in the audit")(
                            "actor", po::value<std::string>(), "who acts (USER@host)");
                      },
                      {},
                      run_seal});
  commands.push_back({"fence list", "list the fences", "", nullptr, {}, run_fence_list});
  commands.push_back({"fence show",
                      "print one scope's fence",
                      "Prints the highest accepted term. Status 1: there is no fence yet.",
                      scope_option,
                      {"scope"},
                      run_fence_show});
  commands.push_back({"fence reset",
                      "lower a fence, audited; the only way down",
                      "For example after a mistyped term. Every term from the new fence upwards is "
                      "accepted from then on, so make sure "
                      "that\nno old leader is alive.\n  termgate fence reset --scope billing "
                      "--term 8 --reason 'mistyped term'",
                      [](po::options_description& o) {
                        scope_option(o);
                        o.add_options()("term", po::value<std::string>(), "the new, lower fence");
                        audited_options(o);
                      },
                      {},
                      run_fence_reset});
  commands.push_back(
      {"fence declare-restored",
       "settle fences after a restore or failover",
       "A restored or promoted database may have forgotten raises; its scopes are then untrusted "
       "and writes get TG004.\n"
       "  --scope X --above N   the issuer of this scope's terms has issued terms up to N\n"
       "  --nothing-lost        a planned switchover or pg_upgrade: no raise is missing\n"
       "  --untrusted           an old copy was restored in a way that the database cannot detect: "
       "refuse until settled",
       [](po::options_description& o) {
         scope_option(o);
         o.add_options()("above", po::value<std::string>(), "the highest term ever issued")(
             "nothing-lost", po::bool_switch(), "no raise is missing")(
             "untrusted", po::bool_switch(), "the copy is old");
         audited_options(o);
       },
       {},
       run_declare_restored});
  commands.push_back({"fence raise-by",
                      "set who may raise a fence: writer or seal",
                      "  termgate fence raise-by --scope billing --mode seal\nWith seal, a write "
                      "with a term above the fence fails with "
                      "TG005 until that term is sealed.",
                      [](po::options_description& o) {
                        scope_option(o);
                        o.add_options()("mode", po::value<std::string>(), "writer or seal");
                      },
                      {},
                      run_fence_raise_by});
  commands.push_back({"status",
                      "show scopes, fences, leases and holders on one screen",
                      "One line for each scope: its fence, who holds its lease and for how long, "
                      "and whether the fence is untrusted.\n"
                      "  termgate status --watch --interval 2s",
                      [](po::options_description& o) {
                        o.add_options()("watch", po::bool_switch(), "repeat until interrupted")(
                            "interval", po::value<std::string>(), "how often (1s)");
                      },
                      {},
                      run_status});
  commands.push_back({"explain",
                      "show who held a scope when, what was refused or evicted, and why",
                      "  termgate explain --scope billing",
                      [](po::options_description& o) {
                        scope_option(o);
                        o.add_options()("limit", po::value<std::string>(),
                                        "how many events, newest first (50)");
                      },
                      {"scope"},
                      run_explain});
}

}  // namespace termgate::cli
