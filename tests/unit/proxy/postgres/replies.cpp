// What the client sees of the server's replies (proxy/postgres/src/reply_router.hpp), without a
// session: the table of requests and replies, and each rule that hides a reply or keeps it for
// later.
#include <catch2/catch.hpp>

#include <deque>
#include <set>
#include <string>
#include <string_view>

#include <termgate/pgwire/types.hpp>

#include "reply_router.hpp"

using namespace termgate::pg_session;
namespace backend = termgate::pgwire::backend;
using termgate::pgwire::Event;

namespace {

// A message is its type and a digit that tells it from others: "C1".
Event message(std::string_view frame, bool first = true, bool last = true) {
  Event event;
  event.kind = first && last ? Event::Kind::message : Event::Kind::part;
  event.type = frame.front();
  event.first = first;
  event.last = last;
  event.frame = frame;
  return event;
}

struct Bench {
  PendingReplies pending;
  Outbox client;
  ReplyRouter router{pending, client};

  PendingReply& ask(Request request) {
    PendingReply reply;
    reply.request = request;
    pending.push(reply);
    return pending.at(pending.size() - 1);
  }
  void reply(std::string_view frame) {
    INFO(frame);
    REQUIRE(router.fits(frame.front()));
    router.route(message(frame));
  }
  // What the client was given since the last call.
  std::string shown() {
    std::string bytes(client.view());
    client.sent(bytes.size());
    return bytes;
  }
};

// clang-format off
const std::set<char> all_replies{backend::bind_complete,     backend::close_complete,    backend::command_complete,       backend::copy_both_response,    backend::copy_data,
                                 backend::copy_done,         backend::copy_in_response,  backend::copy_out_response,      backend::data_row,              backend::empty_query_response,
                                 backend::function_call_response, backend::no_data,      backend::parameter_description,  backend::parse_complete,        backend::portal_suspended,
                                 backend::ready_for_query,   backend::row_description,   backend::authentication,         backend::backend_key_data,      backend::negotiate_protocol_version};
// clang-format on

}  // namespace

TEST_CASE("replies: each request takes its own replies and no others", "[F7][proxy]") {
  struct Row {
    const char* name;
    Request request;
    std::set<char> more, last;
    bool skips;  // after an error of it the server skips everything up to the next Sync
  };
  const std::set<char> copies{backend::copy_in_response, backend::copy_out_response,
                              backend::copy_both_response, backend::copy_data, backend::copy_done};
  std::set<char> executes = copies, queries = copies;
  executes.insert(backend::data_row);
  queries.insert({backend::data_row, backend::row_description, backend::command_complete,
                  backend::empty_query_response});
  const std::deque<Row> rows{
      {"Parse", Request::parse, {}, {backend::parse_complete}, true},
      {"Bind", Request::bind, {}, {backend::bind_complete}, true},
      {"Close", Request::close, {}, {backend::close_complete}, true},
      {"Describe of a statement",
       Request::describe_statement,
       {backend::parameter_description},
       {backend::row_description, backend::no_data},
       true},
      {"Describe of a portal",
       Request::describe_portal,
       {},
       {backend::row_description, backend::no_data},
       true},
      {"Execute",
       Request::execute,
       executes,
       {backend::command_complete, backend::empty_query_response, backend::portal_suspended},
       true},
      {"Sync", Request::sync, {}, {backend::ready_for_query}, false},
      {"Query", Request::query, queries, {backend::ready_for_query}, false},
      {"FunctionCall",
       Request::function_call,
       {backend::function_call_response},
       {backend::ready_for_query},
       false},
      {"what passed unread",
       Request::passage,
       {backend::parse_complete, backend::bind_complete, backend::row_description, backend::no_data,
        backend::data_row, backend::command_complete, backend::empty_query_response,
        backend::copy_out_response, backend::copy_data, backend::copy_done},
       {backend::ready_for_query},
       false},
      {"nothing that was sent", Request::nothing, {}, {}, true},
  };
  REQUIRE(rows.size() == request_count);
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(is_extended(row.request) == row.skips);
    for (const char type : all_replies) {
      CAPTURE(type);
      const Fit wanted = row.last.count(type) != 0   ? Fit::last
                         : row.more.count(type) != 0 ? Fit::more
                                                     : Fit::no;
      CHECK(fit_of(row.request, type) == wanted);
    }
  }
}

TEST_CASE("replies: those to a message of ours are hidden with their parts and notices",
          "[F7][proxy]") {
  Bench bench;
  bench.ask(Request::execute).hidden = true;
  bench.ask(Request::execute);
  bench.router.route(message("D1", true, false));
  CHECK_FALSE(bench.router.shows());
  bench.router.route_rest(message("D2", false, true), 100);
  bench.router.forward_unless_hidden(message("N1"));
  bench.reply("C1");
  CHECK(bench.shown().empty());
  bench.router.forward_unless_hidden(message("N2"));
  bench.router.route(message("D3", true, false));
  bench.router.route_rest(message("D4", false, true), 100);
  CHECK(bench.router.shows());
  bench.reply("C2");
  bench.router.forward_unless_hidden(message("N3"));
  CHECK(bench.shown() == "N2D3D4C2N3");
}

TEST_CASE(
    "replies: a converted query shows neither NoData nor the end of its statement before the Sync",
    "[F7][proxy]") {
  Bench bench;
  bench.ask(Request::describe_portal).hide_no_data = true;
  bench.ask(Request::execute).late_complete = true;
  bench.ask(Request::sync);
  bench.reply("n");
  bench.reply("C");
  CHECK(bench.shown().empty());
  CHECK(bench.pending.size() == 1);
  SECTION("it has committed") {
    bench.router.release_complete();
    bench.reply("Z");
    CHECK(bench.shown() == "CZ");
  }
  SECTION("its commit has failed") {
    bench.router.drop_converted();
    bench.router.release_complete();
    bench.reply("Z");
    CHECK(bench.shown() == "Z");
  }
}

TEST_CASE("replies: a description that must wait comes with the first reply of its statement",
          "[F7][proxy]") {
  Bench bench;
  bench.ask(Request::describe_portal).late_description = true;
  bench.ask(Request::execute);
  SECTION("whole") {
    bench.reply("T");
    CHECK_FALSE(bench.router.keeps_a_part());
    CHECK(bench.shown().empty());
    bench.reply("D");
    CHECK(bench.shown() == "TD");
  }
  SECTION("in parts") {
    bench.router.route(message("T1", true, false));
    CHECK(bench.router.keeps_a_part());
    bench.router.route_rest(message("T2", false, true), 100);
    CHECK_FALSE(bench.router.keeps_a_part());
    CHECK(bench.shown().empty());
    bench.reply("C");
    CHECK(bench.shown() == "T1T2C");
  }
  SECTION("too long to wait") {
    bench.router.route(message("T1", true, false));
    bench.router.route_rest(message("T2", false, false), 3);
    CHECK(bench.shown() == "T1T2");
    CHECK_FALSE(bench.router.keeps_a_part());
    bench.router.route_rest(message("T3", false, true), 3);
    bench.reply("D");
    CHECK(bench.shown() == "T3D");
  }
  SECTION("the statement has failed") {
    bench.reply("T");
    bench.router.drop_converted();
    bench.reply("C");
    CHECK(bench.shown() == "C");
  }
}

TEST_CASE("replies: the last statement of a frame shows its end after the COMMIT of the frame",
          "[F7][proxy]") {
  Bench bench;
  bench.ask(Request::query).role = Purpose::framed;
  bench.reply("T");
  bench.reply("D");
  bench.reply("C1");
  CHECK(bench.shown() == "TD");
  bench.reply("C2");  // the next statement of the text
  CHECK(bench.shown() == "C1");
  SECTION("it commits") {
    bench.router.release_framed();
    CHECK(bench.shown() == "C2");
  }
  SECTION("it does not") {
    bench.router.drop_framed();
    bench.router.release_framed();
    CHECK(bench.shown().empty());
  }
  SECTION("and rows of another statement mean that it has succeeded") {
    bench.reply("D");
    CHECK(bench.shown() == "C2D");
  }
}

TEST_CASE("replies: one that is made here comes after all before it", "[F7][proxy]") {
  Bench bench;
  bench.ask(Request::sync);
  bench.ask(Request::nothing).text = "made 1 ";
  bench.ask(Request::nothing).text = "made 2";
  bench.router.give_made_replies();
  CHECK(bench.shown().empty());
  bench.reply("Z");
  CHECK(bench.shown() == "Zmade 1 made 2");
  CHECK(bench.pending.empty());
}

TEST_CASE("replies: Syncs inside a copy from the client have none", "[F7][proxy]") {
  Bench bench;
  bench.ask(Request::execute);
  bench.ask(Request::sync);
  bench.ask(Request::parse);
  bench.ask(Request::sync);
  SECTION("the client has not ended its copy yet") {
    CHECK(bench.router.copy_in_begins());
    CHECK(bench.pending.size() == 2);
  }
  SECTION("it has right behind the request") {
    bench.pending.head().copy_ends = true;
    CHECK_FALSE(bench.router.copy_in_begins());
    CHECK(bench.pending.size() == 4);
    CHECK_FALSE(bench.pending.head().copy_ends);  // a text may hold another COPY
  }
  SECTION("it has behind the first Sync") {
    bench.pending.at(2).copy_ends = true;
    CHECK_FALSE(bench.router.copy_in_begins());
    CHECK(bench.pending.size() == 3);
    CHECK(bench.pending.at(1).request == Request::parse);
    CHECK(bench.pending.at(2).request == Request::sync);
  }
}
