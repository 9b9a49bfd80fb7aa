#include "endpoints.hpp"

#include <exception>
#include <utility>

#include <fmt/format.h>

#include "failure.hpp"

namespace termgate::hrana {

namespace {

constexpr std::size_t chunk_bytes = std::size_t{16} << 10;

Answer refusal(int status, std::string_view code, std::string_view message) {
  return {status, failure_body(code, message), false, {}};
}
Answer refusal(const Failure& failure) {
  return refusal(failure.status, failure.code, failure.what());
}

// A cursor's body. Nothing is sent until there is a chunk, so that an early failure still becomes a
// status instead of half a body.
class Chunks {
 public:
  explicit Chunks(const Write& write) : write_(write) {}

  void line(std::string_view text) {
    chunk_ += text;
    chunk_ += '\n';
    if (chunk_.size() >= chunk_bytes) flush();
  }
  void flush() {
    has_written_ = true;
    is_broken_ = true;  // until the write succeeds
    write_(chunk_);
    is_broken_ = false;
    chunk_.clear();
  }
  // Sends the line that marks the body as complete. False: the client is gone.
  bool end() noexcept {
    try {
      line(R"({"type":"replication_index","replication_index":null})");
      if (!chunk_.empty()) flush();
      return true;
    } catch (const std::exception&) { return false; }
  }
  void last_line(const Failure& failure) noexcept {
    if (is_broken_) return;
    try {
      std::string error = R"({"type":"error","error":)";
      append_error(error, failure.code, failure.what());
      line(error + '}');
      if (!chunk_.empty()) flush();
    } catch (const std::exception&) {
      // The client is gone, and the connection ends anyway.
    }
  }
  bool has_written() const noexcept { return has_written_; }

 private:
  const Write& write_;
  std::string chunk_;
  bool has_written_ = false, is_broken_ = false;
};

Failure failure_of(const std::exception& fault) {
  if (const auto* failure = dynamic_cast<const Failure*>(&fault)) return *failure;
  return Failure(500, code::internal,
                 fmt::format("INTERNAL_ERROR the request was broken off: {}. What it had not "
                             "committed was rolled back",
                             fault.what()));
}

std::string baton_and_base_url(const std::optional<std::string>& baton) {
  return (baton ? "{\"baton\":\"" + *baton + '"' : std::string("{\"baton\":null")) +
         ",\"base_url\":null";
}

std::string_view text_of(const Stmt& stmt) { return stmt.sql.text; }

std::string_view text_of(const std::vector<Request>& requests) {
  for (const Request& request : requests) {
    if (const auto* execute = std::get_if<Execute>(&request)) return text_of(execute->stmt);
    if (const auto* store = std::get_if<StoreSql>(&request)) return store->text;
    if (const auto* sequence = std::get_if<Sequence>(&request)) return sequence->sql.text;
    if (const auto* batch = std::get_if<Batch>(&request))
      return batch->steps.empty() ? std::string_view() : text_of(batch->steps.front().stmt);
  }
  return {};
}

}  // namespace

Call::Call(Endpoint endpoint, What what, Charge charge, Streams& streams, Streams::Taken taken)
    : endpoint_(endpoint),
      what_(std::move(what)),
      charge_(std::move(charge)),
      streams_(&streams),
      taken_(std::move(taken)) {
  in_transaction_ = taken_.stream().in_transaction();
}

std::string_view Call::first_text() const noexcept {
  if (const auto* pipeline = std::get_if<Pipeline>(&what_)) return text_of(pipeline->requests);
  if (const auto* statements = std::get_if<std::vector<Stmt>>(&what_))
    return statements->empty() ? std::string_view() : text_of(statements->front());
  if (const auto* execute = std::get_if<Execute>(&what_)) return text_of(execute->stmt);
  const auto* cursor = std::get_if<CursorCall>(&what_);
  const auto& steps = cursor != nullptr ? cursor->batch.steps : std::get<Batch>(what_).steps;
  return steps.empty() ? std::string_view() : text_of(steps.front().stmt);
}

Answer Call::run_pipeline(const Permit& permit) {
  auto& requests = std::get<Pipeline>(what_).requests;
  Stream& stream = taken_.stream();
  stream.check(requests, endpoint_ == Endpoint::pipeline_v3 ? Version::hrana3 : Version::hrana2);
  Body body = new_body();
  body.text = R"(,"results":[)";
  for (std::size_t at = 0; at < requests.size(); ++at) {
    if (at != 0) body.text += ',';
    stream.run(requests[at], permit, body);
  }
  body.text += "]}";
  body.text.insert(0, baton_and_base_url(streams_->give_back(std::move(taken_))));
  return {200, std::move(body.text), false, std::move(body.charge)};
}

Answer Call::run_cursor(const Permit& permit, const Write& write) {
  Chunks chunks(write);
  try {
    Batch& batch = std::get<CursorCall>(what_).batch;
    taken_.stream().check(batch);
    chunks.line(baton_and_base_url(streams_->reserve(taken_)) + '}');
    taken_.stream().cursor(batch, permit, RowidForm::number,
                           [&](std::string_view entry) { chunks.line(entry); });
    streams_->give_back(std::move(taken_));
  } catch (const std::exception& fault) {
    if (!chunks.has_written()) throw;
    // The status has been sent. The body ends with the error and without its last line, and the
    // connection is closed.
    const Failure failure = failure_of(fault);
    give_up(failure);
    chunks.last_line(failure);
    return {200, {}, true, {}};
  }
  return {200, {}, !chunks.end(), {}};
}

// After a fault of the server, or once the client is gone, the stream cannot be trusted. A request
// that was refused before it ran leaves the stream as it was.
void Call::give_up(const Failure& failure) noexcept {
  if (!taken_.is_held()) return;
  if (failure.status == 500) taken_.stream().lose(Lost(failure.code, failure.what()));
  streams_->put_back(std::move(taken_));
}

void Call::put_back() noexcept {
  if (taken_.is_held()) streams_->put_back(std::move(taken_));
}

// For v0 and v1, where the stream ends with its request.
Answer Call::run_alone(const Permit& permit) {
  Stream& stream = taken_.stream();
  Body body = new_body();
  std::optional<Refused> error;
  try {
    if (auto* statements = std::get_if<std::vector<Stmt>>(&what_)) {
      stream.plain(*statements, permit, body);
    } else {
      body.text = R"({"result":)";
      if (auto* execute = std::get_if<Execute>(&what_)) {
        stream.check(execute->stmt);
        stream.execute(execute->stmt, permit, body);
      } else {
        stream.check(std::get<Batch>(what_));
        stream.batch(std::get<Batch>(what_), permit, body);
      }
      body.text += '}';
    }
  } catch (const Refused& refused) { error = refused; }
  stream.close();
  streams_->give_back(std::move(taken_));
  if (error) return refusal(400, error->code, error->what());
  return {200, std::move(body.text), false, std::move(body.charge)};
}

Answer Call::run(const Permit& permit, const Write& write) {
  try {
    if (endpoint_ == Endpoint::pipeline_v2 || endpoint_ == Endpoint::pipeline_v3)
      return run_pipeline(permit);
    if (endpoint_ == Endpoint::cursor) return run_cursor(permit, write);
    return run_alone(permit);
  } catch (const std::exception& fault) {
    const Failure failure = failure_of(fault);
    give_up(failure);
    return refusal(failure);
  }
}

Begun begin(Endpoint endpoint, std::string_view body, Streams& streams,
            const Principal& principal) {
  Charge charge(streams.budget());
  try {
    Call::What what;
    std::optional<std::string> baton;
    switch (endpoint) {
      case Endpoint::pipeline_v2:
      case Endpoint::pipeline_v3: {
        Pipeline pipeline = read_pipeline(body, charge);
        baton = std::move(pipeline.baton);
        what = std::move(pipeline);
        break;
      }
      case Endpoint::cursor: {
        CursorCall cursor = read_cursor(body, charge);
        baton = std::move(cursor.baton);
        what = std::move(cursor);
        break;
      }
      case Endpoint::v0: what = read_v0(body, charge); break;
      case Endpoint::v1_execute: what = read_v1_execute(body, charge); break;
      case Endpoint::v1_batch: what = read_v1_batch(body, charge); break;
    }
    return {{},
            Call(endpoint, std::move(what), std::move(charge), streams,
                 streams.take(baton, principal))};
  } catch (const Failure& failure) { return {refusal(failure), {}}; }
}

Answer answer(Endpoint endpoint, std::string_view body, Streams& streams,
              const Principal& principal, const Permit& permit, const Write& write) {
  Begun begun = begin(endpoint, body, streams, principal);
  return begun.refused ? std::move(*begun.refused) : begun.call->run(permit, write);
}

}  // namespace termgate::hrana
