// Messages and their replies stay together (proxy/postgres/src/batch.hpp): whatever is put in front
// of held messages comes with its replies at the same place in their queue.
#include <catch2/catch.hpp>

#include <string>
#include <utility>

#include "batch.hpp"

using namespace termgate::pg_session;

namespace {

Batch of(std::initializer_list<std::string> messages) {
  Batch batch;
  for (const std::string& message : messages)
    batch.add(message, {.request = Request::execute, .text = message});
  return batch;
}

// The messages; each must have its reply at the same place.
std::string shown(Batch& batch) {
  std::string bytes(batch.bytes.view()), of_replies;
  for (std::size_t i = 0; i < batch.replies.size(); ++i) of_replies += batch.replies.at(i).text;
  CHECK(bytes == of_replies);
  return bytes;
}

}  // namespace

TEST_CASE("batch: what is inserted comes with its replies at the mark", "[F1][proxy]") {
  Batch held = of({"a", "b"});
  const Batch::Mark between = held.end();
  held.add("c", {.text = "c"});
  SECTION("between two messages") {
    held.insert_at(between, of({"1", "22"}));
    CHECK(shown(held) == "ab122c");
  }
  SECTION("in front of all") {
    held.insert_at({}, of({"1"}));
    CHECK(shown(held) == "1abc");
  }
  SECTION("twice at one mark: the later one comes first") {
    held.insert_at(between, of({"1"}));
    held.insert_at(between, of({"2"}));
    CHECK(shown(held) == "ab21c");
  }
  SECTION("at the end") {
    held.insert_at(held.end(), of({"1"}));
    CHECK(shown(held) == "abc1");
  }
}

TEST_CASE("batch: what is appended leaves its own batch empty", "[F1][proxy]") {
  Batch server = of({"a"}), held = of({"b", "c"});
  server.append(std::move(held));
  CHECK(shown(server) == "abc");
  CHECK(held.empty());
  CHECK(held.replies.empty());
  held.add("d", {.text = "d"});
  CHECK(shown(held) == "d");
}

TEST_CASE("batch: bytes that were sent still have their replies", "[F1][proxy]") {
  Batch server = of({"a", "b"});
  server.bytes.sent(2);
  CHECK(server.empty());
  CHECK(server.replies.size() == 2);
  server.replies.pop();
  server.append(of({"c"}));
  CHECK(server.bytes.view() == "c");
  CHECK(server.replies.head().text == "b");
  CHECK(server.replies.at(1).text == "c");
}

TEST_CASE("batch: a part of the queue that was answered is not moved along", "[F1][proxy]") {
  Batch from = of({"a", "b", "c"}), to = of({"x"});
  from.replies.pop();
  to.replies.append(std::move(from.replies));
  REQUIRE(to.replies.size() == 3);
  CHECK(to.replies.at(1).text == "b");
  CHECK(to.replies.at(2).text == "c");
  CHECK(from.replies.empty());
}
