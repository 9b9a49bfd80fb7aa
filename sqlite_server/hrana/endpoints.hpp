// What an HTTP server calls: a body in, a status and a body out. A request is read and gets its stream on any thread (begin), and is run on
// a thread that may block (run): between the two the server chooses that thread.
//
//   auto begun = begin(Endpoint::pipeline_v3, body, streams, principal);
//   Answer answer = begun.refused ? std::move(*begun.refused) : begun.call->run(permit);
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "messages.hpp"
#include "streams.hpp"

namespace termgate::hrana {

enum class Endpoint : std::uint8_t {
  pipeline_v2,  // POST /v2/pipeline
  pipeline_v3,  // POST /v3/pipeline
  cursor,       // POST /v3/cursor
  v0,           // POST /
  v1_execute,   // POST /v1/execute
  v1_batch,     // POST /v1/batch
};

// The body is JSON (application/json); a cursor's is one JSON document a line. A status 503 gets the header Retry-After.
struct Answer {
  int status = 200;
  std::string body;
  // A cursor's answer has begun through `write` and must not end well: close the connection without the last chunk.
  bool cut = false;
  Charge charge{};  // of the memory budget, for as long as the body lives
};

// Takes the next part of a cursor's body, some 16 KiB; the first one is the sign that the status is 200. May block, and may throw where the
// client is gone: the stream is lost then, and the answer is cut.
using Write = std::function<void(std::string_view)>;

class Call {
 public:
  // Its stream has an open transaction: somebody may wait for its end, so it must not wait for a thread.
  bool in_transaction() const noexcept { return in_transaction_; }
  // Text of its first statement, or empty: a hint whether it writes.
  std::string_view first_text() const noexcept;
  // Once. On a thread that may block. `write` is needed by a cursor only. Throws nothing.
  Answer run(const Permit& permit, const Write& write = {});
  // In place of run(): there is no thread for it. The stream is what it was, and its baton is good again.
  void put_back() noexcept;

 private:
  friend struct Begun begin(Endpoint endpoint, std::string_view body, Streams& streams, const Principal& principal);
  using What = std::variant<Pipeline, CursorCall, std::vector<Stmt>, Execute, Batch>;
  Call(Endpoint endpoint, What what, Charge charge, Streams& streams, Streams::Taken taken);

  Answer run_pipeline(const Permit& permit);
  Answer run_cursor(const Permit& permit, const Write& write);
  Answer run_alone(const Permit& permit);
  void give_up(const Failure& failure) noexcept;
  Body new_body() const { return Body(streams_->budget(), streams_->settings().answer_bytes_max); }

  Endpoint endpoint_;
  What what_;
  Charge charge_;  // what was read, in memory
  Streams* streams_;
  Streams::Taken taken_;
  bool in_transaction_ = false;
};

struct Begun {
  std::optional<Answer> refused;  // or
  std::optional<Call> call;
};
Begun begin(Endpoint endpoint, std::string_view body, Streams& streams, const Principal& principal);

// Both in one, for a caller that may block.
Answer answer(Endpoint endpoint, std::string_view body, Streams& streams, const Principal& principal, const Permit& permit,
              const Write& write = {});

}  // namespace termgate::hrana
