// What an HTTP server calls: a body in, a status and a body out. begin() parses a request and finds
// its stream on any thread; run() needs a thread that may block, which the server chooses in
// between.
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

// The body is JSON (application/json); a cursor's has one JSON document a line. The caller adds the
// header Retry-After to a status 503.
struct Answer {
  int status = 200;
  std::string body;
  // A cursor's answer was begun through `write` and must not end normally: close the connection
  // without the last chunk.
  bool cut = false;
  Charge charge{};  // the body's share of the memory budget
};

// Takes the next part of a cursor's body, some 16 KiB; the first call means that the status is 200.
// May block, and may throw if the client is gone: the stream is then lost and the answer cut off.
using Write = std::function<void(std::string_view)>;

class Call {
 public:
  // The stream has an open transaction. Others may wait for its end, so the call must not wait for
  // a thread.
  bool in_transaction() const noexcept { return in_transaction_; }
  // The text of the first statement, or empty: a hint whether it writes.
  std::string_view first_text() const noexcept;
  // Must be called at most once, on a thread that may block. Only a cursor needs `write`. Throws
  // nothing.
  Answer run(const Permit& permit, const Write& write = {});
  // Instead of run(), if there is no thread for it: the stream is unchanged, and its baton is valid
  // again, unless the stream was lost meanwhile.
  void put_back() noexcept;

 private:
  friend struct Begun begin(Endpoint endpoint, std::string_view body, Streams& streams,
                            const Principal& principal);
  using What = std::variant<Pipeline, CursorCall, std::vector<Stmt>, Execute, Batch>;
  Call(Endpoint endpoint, What what, Charge charge, Streams& streams, Streams::Taken taken);

  Answer run_pipeline(const Permit& permit);
  Answer run_cursor(const Permit& permit, const Write& write);
  Answer run_alone(const Permit& permit);
  void give_up(const Failure& failure) noexcept;
  Body new_body() const { return Body(streams_->budget(), streams_->settings().answer_bytes_max); }

  Endpoint endpoint_;
  What what_;
  Charge charge_;  // the memory of the parsed request
  Streams* streams_;
  Streams::Taken taken_;
  bool in_transaction_ = false;
};

struct Begun {
  std::optional<Answer> refused;  // or `call`
  std::optional<Call> call;
};
Begun begin(Endpoint endpoint, std::string_view body, Streams& streams, const Principal& principal);

// begin() and run() in one, for a caller that may block.
Answer answer(Endpoint endpoint, std::string_view body, Streams& streams,
              const Principal& principal, const Permit& permit, const Write& write = {});

}  // namespace termgate::hrana
