// follow, follower …: prints the writes of a stream or of a scope's streams as they come, and keeps
// the position in the database.
#include <poll.h>

#include <atomic>
#include <cstdio>

#include <fmt/format.h>

#include <termgate/follower.hpp>
#include <termgate/followers.hpp>
#include <termgate/info.hpp>

#include "command.hpp"
#include "input.hpp"
#include "output.hpp"

namespace po = boost::program_options;

namespace termgate::cli {
namespace {

using namespace std::chrono_literals;

struct Ended {
  std::atomic<bool> taken{false}, pruned{false}, output_failed{false};
};

// Each write is printed and flushed before the position moves past it, so that a full disk or a
// closed pipe loses nothing.
void print_followed(const Arguments& arguments, const Stream& stream, const StreamWrite& write,
                    Ended& ended) {
  if (arguments.json()) {
    print_json_with_payload(
        {{"stream", stream.name()},
         {"sequence_no", write.sequence_no.value()},
         {"scope", write.scope},
         {"term", write.term.value()}},
        write.payload,
        {{"created_at", moment(write.created_at_ms)}, {"write_id", optional_text(write.write_id)}});
  } else if (arguments.flag("raw")) {
    print_line(write.payload);
  } else {
    if (arguments.maybe("scope")) std::fputs((printable(stream.name()) + "\t").c_str(), stdout);
    print_write(write.sequence_no.value(), write.term.value(), write.payload);
  }
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  ended.output_failed = true;
  throw Error("standard output could not be written");
}

FollowerOptions follower_options(const Arguments& arguments, Ended& ended) {
  FollowerOptions options;
  options.from_end = arguments.flag("from-end");
  options.skip_pruned = arguments.flag("skip-pruned");
  options.listen = !arguments.flag("no-listen");
  options.poll = arguments.maybe_duration("poll");
  options.news = [&ended](const FollowerNews& news) {
    if (news.kind == FollowerNews::Kind::taken) ended.taken = true;
    if (news.kind == FollowerNews::Kind::pruned) ended.pruned = true;
    fmt::print(stderr, "termgate: {}\n", escaped(news.text));
  };
  return options;
}

int run_follow(const Arguments& arguments) {
  const std::string name = arguments.text("name");
  if (arguments.maybe("stream").has_value() == arguments.maybe("scope").has_value())
    throw UsageError("give --stream X, or --scope S for all streams of a scope");
  Ended ended;
  const FollowerOptions options = follower_options(arguments, ended);
  Database database = arguments.open();
  const Interrupts interrupts;
  const auto apply = [&](const Stream& stream, const StreamWrite& write) {
    print_followed(arguments, stream, write, ended);
  };
  std::optional<Follower> follower;
  if (arguments.maybe("stream"))
    follower.emplace(database, name, Stream(arguments.text("stream")), apply, options);
  else follower.emplace(database, name, arguments.scope(), apply, options);
  const bool once = arguments.flag("once");
  bool caught_up = false;
  while (follower->running() && !interrupts.seen() && !ended.output_failed && !caught_up) {
    if (once) {
      caught_up = follower->catch_up(200ms);
      continue;
    }
    pollfd watched{interrupts.wake(), POLLIN, 0};
    poll(&watched, 1, 200);
  }
  follower->stop();
  if (ended.output_failed) return Exit::failed;
  if (ended.taken) return Exit::lease_lost;
  return ended.pruned && !options.skip_pruned ? Exit::failed : Exit::done;
}

boost::json::object json_of(const FollowerInfo& info) {
  return {{"name", info.name},
          {"stream", optional_text(info.followed.stream)},
          {"scope", optional_text(info.followed.scope)},
          {"run", info.run},
          {"started_at", moment(info.started_at_ms)},
          {"started_by", info.started_by},
          {"behind", info.behind},
          {"behind_ms", optional_number(info.behind_ms)},
          {"moved_at", info.moved_at_ms ? boost::json::value(moment(*info.moved_at_ms))
                                        : boost::json::value(nullptr)}};
}

int run_follower_list(const Arguments& arguments) {
  Database database = arguments.open();
  Listing listing(arguments.json(),
                  {"FOLLOWER", "FOLLOWS", "BEHIND", "BY", "MOVED", "RUN", "STARTED"});
  std::string after;
  for (;;) {
    const auto page = Followers(database).list(after, 500);
    if (page.empty()) break;
    for (const FollowerInfo& info : page) {
      listing.add([&] { return json_of(info); },
                  [&] {
                    const std::string what =
                        info.followed.stream
                            ? "stream " + printable(*info.followed.stream)
                            : "scope " + printable(info.followed.scope.value_or(""));
                    return std::vector<std::string>{
                        printable(info.name),        what,
                        std::to_string(info.behind), info.behind_ms ? length(*info.behind_ms) : "",
                        moment(info.moved_at_ms),    std::to_string(info.run),
                        moment(info.started_at_ms)};
                  });
    }
    after = page.back().name;
  }
  listing.end();
  return Exit::done;
}

int run_follower_remove(const Arguments& arguments) {
  const std::string name = arguments.text("name");
  const bool removed = Followers(arguments.open()).remove(name);
  if (arguments.json()) print_json({{"removed", removed}});
  else if (removed)
    print_line(fmt::format("removed: a follower of the name {} would begin anew", printable(name)));
  else fmt::print(stderr, "termgate: there is no follower \"{}\"\n", printable(name));
  return removed ? Exit::done : Exit::failed;
}

}  // namespace

void add_follow_commands(std::vector<Command>& commands) {
  commands.push_back(
      {"follow",
       "print writes as they come, and keep the position in the database",
       "Goes on where the follower of this name has stopped, on whatever host that was: each write "
       "at least once, in order, "
       "none left out. A later start\n"
       "takes the follower over, and ends the one before with status 5.\n"
       "  termgate follow --name projection-1 --stream orders --json | ./project.py\n"
       "  termgate follow --name audit --scope billing                  all streams of a scope, "
       "side by side",
       [](po::options_description& o) {
         o.add_options()("name", po::value<std::string>(),
                         "the follower's name: its position is kept under it")(
             "stream", po::value<std::string>(), "follow this stream")(
             "scope", po::value<std::string>(), "follow all streams of this scope")(
             "from-end", po::bool_switch(), "the first time: begin after what is there")(
             "once", po::bool_switch(),
             "end when everything that was there at the start is printed")(
             "skip-pruned", po::bool_switch(),
             "go on after writes that were pruned (else: status 1 before them)")(
             "no-listen", po::bool_switch(),
             "PostgreSQL: poll, for poolers that do not pass LISTEN")(
             "poll", po::value<std::string>(),
             "longest pause between two looks, 10ms to 1h (200ms; 1s where it is notified)")(
             "raw", po::bool_switch(), "payloads alone, one a line");
       },
       {"name"},
       run_follow});
  commands.push_back({"follower list",
                      "list followers and how far behind they are",
                      "",
                      {},
                      {},
                      run_follower_list});
  commands.push_back({"follower remove",
                      "forget a follower and its position",
                      "One that runs ends with status 5. Remove those that are not used any more: "
                      "on PostgreSQL each append to what\n"
                      "they follow notifies them.",
                      [](po::options_description& o) {
                        o.add_options()("name", po::value<std::string>(), "its name");
                      },
                      {"name"},
                      run_follower_remove});
}

}  // namespace termgate::cli
