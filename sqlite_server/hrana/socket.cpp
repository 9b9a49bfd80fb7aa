#include "socket.hpp"

#include <deque>
#include <mutex>

#include <fmt/format.h>

#include "failure.hpp"
#include "limits.hpp"
#include "values.hpp"

namespace termgate::hrana {

namespace {

constexpr std::size_t reason_bytes_max = 123;

std::string error_message(std::int32_t request, std::string_view code, std::string_view message) {
  std::string out = R"({"type":"response_error","request_id":)";
  append_number(out, request);
  out += R"(,"error":)";
  append_error(out, code, message);
  out += '}';
  return out;
}

std::string error_message(std::int32_t request, const Refused& error) {
  std::string out = R"({"type":"response_error","request_id":)";
  append_number(out, request);
  out += R"(,"error":)";
  append_error(out, error);
  out += '}';
  return out;
}

std::string ok_message(std::int32_t request, std::string_view response) {
  return fmt::format(R"({{"type":"response_ok","request_id":{},"response":{{"type":"{}"}}}})",
                     request, response);
}

}  // namespace

std::optional<Subprotocol> choose_subprotocol(std::optional<std::string_view> header) {
  if (!header) return Subprotocol{};
  while (!header->empty()) {
    const std::size_t comma = std::min(header->find(','), header->size());
    std::string_view name = header->substr(0, comma);
    header->remove_prefix(std::min(comma + 1, header->size()));
    name.remove_prefix(std::min(name.find_first_not_of(" \t"), name.size()));
    name.remove_suffix(name.size() - (name.find_last_not_of(" \t") + 1));
    if (name == "hrana3") return Subprotocol{Version::hrana3, "hrana3"};
    if (name == "hrana2") return Subprotocol{Version::hrana2, "hrana2"};
    if (name == "hrana1") return Subprotocol{Version::hrana1, "hrana1"};
  }
  return std::nullopt;
}

// What jobs need from the connection after its end.
struct Socket::Shared {
  explicit Shared(Streams& streams_given) : streams(streams_given) {}
  Streams& streams;
  std::atomic<std::size_t> unanswered{0};
};

// One stream and the requests that wait for it. The stream belongs to the thread that has set
// `is_running`, or that holds the mutex while `is_running` is not set.
struct Socket::Channel {
  struct Waiting {
    std::int32_t request = 0;
    Task task;
    std::shared_ptr<const Permit> permit;
    Charge charge;
  };

  // The entries that no fetch_cursor has taken yet.
  struct BufferedCursor {
    std::deque<std::string> entries;
    std::size_t bytes = 0;
    Charge charge;
  };

  Channel(const SessionFactory& factory, Moment now) : stream(factory), idle_since(now) {}

  std::string run(Waiting& waiting, Shared& shared, Charge& charge);
  void respond(Request& request, const Waiting& waiting, Body& body);
  void respond(CloseStream&, const Waiting& waiting, Body& body);
  void respond(OpenCursor& request, const Waiting& waiting, Body& body);
  void respond(FetchCursor& request, const Waiting& waiting, Body& body);
  void respond(CloseCursor& request, const Waiting& waiting, Body& body);
  void apply_loss();

  Stream stream;
  std::map<std::int32_t, BufferedCursor> cursors;
  Streams* streams = nullptr;
  std::atomic<bool> in_transaction{false};

  std::mutex mutex;  // guards the members below
  std::deque<Waiting> waiting;
  std::optional<Lost> loss;  // applied by the next job, or at the end of the current one
  bool is_running = false;
  bool has_ended = false;  // the connection has ended
  Moment idle_since;
};

void Socket::Channel::respond(Request& request, const Waiting& own, Body& body) {
  stream.respond(request, *own.permit, body);
}

void Socket::Channel::respond(CloseStream&, const Waiting&, Body& body) {
  cursors.clear();
  stream.close();
  body.text += R"({"type":"close_stream"})";
}

void Socket::Channel::respond(OpenCursor& request, const Waiting& own, Body& body) {
  BufferedCursor cursor{{}, 0, Charge(streams->budget())};
  const std::size_t bytes_max = streams->settings().answer_bytes_max;
  stream.cursor(request.batch, *own.permit, RowidForm::text, [&](std::string_view entry) {
    const bool is_end = entry.starts_with(R"({"type":"step_e)");
    const std::size_t bytes = cursor.bytes + entry.size() + sizeof(std::string);
    if (!is_end && (bytes > bytes_max || !cursor.charge.grow_to(bytes))) {
      throw Refused(code::answer_too_large,
                    fmt::format("the cursor's rows are more than {} bytes (--max-answer-bytes), or "
                                "fill the server's memory "
                                "for answers (--max-memory); what was committed is kept; read them "
                                "in parts, or by POST /v3/cursor",
                                bytes_max));
    }
    cursor.bytes = bytes;
    cursor.entries.emplace_back(entry);
  });
  cursors.insert_or_assign(request.cursor, std::move(cursor));
  body.text += R"({"type":"open_cursor"})";
}

void Socket::Channel::respond(FetchCursor& request, const Waiting&, Body& body) {
  stream.must_live();
  const auto found = cursors.find(request.cursor);
  if (found == cursors.end())
    throw Refused(code::protocol, fmt::format("cursor {} is not open", request.cursor));
  BufferedCursor& cursor = found->second;
  body.text += R"({"type":"fetch_cursor","entries":[)";
  for (std::size_t count = 0; count < request.count_max && !cursor.entries.empty(); ++count) {
    if (count != 0) body.text += ',';
    body.text += cursor.entries.front();
    cursor.bytes -= std::min(cursor.bytes, cursor.entries.front().size() + sizeof(std::string));
    cursor.entries.pop_front();
  }
  cursor.charge.shrink_to(cursor.bytes);
  body.text += cursor.entries.empty() ? R"(],"done":true})" : R"(],"done":false})";
}

void Socket::Channel::respond(CloseCursor& request, const Waiting&, Body& body) {
  cursors.erase(request.cursor);
  body.text += R"({"type":"close_cursor"})";
}

std::string Socket::Channel::run(Waiting& own, Shared& shared, Charge& charge) {
  Body body(shared.streams.budget(), shared.streams.settings().answer_bytes_max);
  try {
    stream.heard();
    body.text = fmt::format(R"({{"type":"response_ok","request_id":{},"response":)", own.request);
    try {
      std::visit([&](auto& task) { respond(task, own, body); }, own.task);
      body.text += '}';
    } catch (const Refused& error) { body.text = error_message(own.request, error); }
    apply_loss();
    in_transaction = stream.in_transaction();
  } catch (const Failure& failure) {
    body.text = error_message(own.request, failure.code, failure.what());
  } catch (const std::exception& fault) {
    stream.lose(Lost(
        code::internal,
        fmt::format("INTERNAL_ERROR a request of this stream was broken off: {}", fault.what())));
    body.text = error_message(own.request, code::internal, stream.lost()->what());
  }
  charge = std::move(body.charge);
  return std::move(body.text);
}

// Throws Failure if a transaction is lost by it.
void Socket::Channel::apply_loss() {
  std::optional<Lost> why;
  {
    const std::lock_guard lock(mutex);
    why = std::exchange(loss, std::nullopt);
  }
  if (!why || !stream.in_transaction()) return;
  stream.lose(*why);
  stream.must_live();
}

Socket::Job::Done Socket::Job::run() {
  Channel& channel = *channel_;
  std::optional<Channel::Waiting> own;
  {
    const std::lock_guard lock(channel.mutex);
    if (!channel.has_ended && !channel.waiting.empty()) {
      own = std::move(channel.waiting.front());
      channel.waiting.pop_front();
    }
  }
  Done done;
  try {
    channel.apply_loss();
  } catch (const Failure&) {
    // The stream has recorded the loss, and its next request reports it.
  }
  if (own) {
    done.answer = channel.run(*own, *shared_, done.charge);
    shared_->unanswered.fetch_sub(1);
  }
  if (channel.stream.lost()) channel.in_transaction = false;
  const std::lock_guard lock(channel.mutex);
  if (channel.has_ended) {
    channel.stream.close();
    channel.waiting.clear();
  }
  done.more = !channel.waiting.empty() || channel.loss.has_value();
  if (done.more) return done;
  channel.is_running = false;
  channel.idle_since = shared_->streams.settings().clock();
  channel.stream.answered();
  return done;
}

bool Socket::Job::in_transaction() const noexcept { return channel_->in_transaction; }

Socket::Socket(Streams& streams, Version version, Login login, std::optional<Identity> first)
    : shared_(std::make_shared<Shared>(streams)), version_(version), login_(std::move(login)) {
  if (first) permit_ = std::make_shared<const Permit>(std::move(first->permit));
}

Socket::~Socket() = default;

bool Socket::may_read() const noexcept { return shared_->unanswered < unanswered_max; }

Socket::Output Socket::take(std::string_view message) {
  Output output;
  const auto violate = [&](int close_code, std::string reason) {
    reason.resize(std::min(reason.size(), reason_bytes_max));
    output.violation = Violation{close_code, std::move(reason)};
  };
  Charge charge(shared_->streams.budget());
  try {
    SocketMessage read = read_socket_message(message, charge);
    if (auto* hello = std::get_if<Hello>(&read)) {
      on(*hello, output);
    } else if (permit_ == nullptr) {
      violate(1002, "a request before hello");
    } else {
      on(std::get<SocketRequest>(read), std::move(charge), output);
    }
  } catch (const Failure& failure) {
    violate(failure.status == 503             ? 1013
            : failure.code == code::too_large ? 1009
                                              : 1002,
            failure.what());
  }
  return output;
}

void Socket::on(Hello& hello, Output& output) {
  auto who = login_(hello.token);
  if (auto* identity = std::get_if<Identity>(&who)) {
    permit_ = std::make_shared<const Permit>(std::move(identity->permit));
    output.answers.emplace_back(R"({"type":"hello_ok"})");
    return;
  }
  const auto& error = std::get<Refused>(who);
  std::string answer = R"({"type":"hello_error","error":)";
  append_error(answer, error);
  output.answers.push_back(answer + '}');
  output.violation = Violation{1008, error.code};
}

void Socket::on(SocketRequest& request, Charge charge, Output& output) {
  const std::int32_t id = request.id;
  try {
    if (const auto* open = std::get_if<OpenStream>(&request.what)) {
      open_stream(id, open->stream, output);
    } else if (const auto* close = std::get_if<CloseStream>(&request.what)) {
      close_stream(id, close->stream, output);
    } else if (auto* store_request = std::get_if<StoreSql>(&request.what)) {
      store(id, *store_request, std::move(charge), output);
    } else if (const auto* close_sql = std::get_if<CloseSql>(&request.what)) {
      stored_.erase(close_sql->id);
      output.answers.push_back(ok_message(id, "close_sql"));
    } else if (auto* on_stream = std::get_if<OnStream>(&request.what)) {
      resolve(on_stream->request);
      queue(id, on_stream->stream, std::move(on_stream->request), std::move(charge), output);
    } else if (auto* open_cursor = std::get_if<OpenCursor>(&request.what)) {
      resolve(open_cursor->batch);
      if (cursors_.contains(open_cursor->cursor))
        throw Failure(400, code::protocol,
                      fmt::format("cursor_id {} is in use", open_cursor->cursor));
      if (cursors_.size() >= socket_cursors_max)
        throw Refused("TOO_MANY_CURSORS",
                      fmt::format("{} cursors are open, which is the most", cursors_.size()));
      const std::int32_t stream = open_cursor->stream, cursor = open_cursor->cursor;
      queue(id, stream, std::move(*open_cursor), std::move(charge), output);
      cursors_.emplace(cursor, stream);
    } else if (auto* fetch = std::get_if<FetchCursor>(&request.what)) {
      queue(id, stream_of(fetch->cursor), *fetch, std::move(charge), output);
    } else {
      const CloseCursor close_cursor = std::get<CloseCursor>(request.what);
      const std::int32_t stream = stream_of(close_cursor.cursor);
      cursors_.erase(close_cursor.cursor);
      queue(id, stream, close_cursor, std::move(charge), output);
    }
  } catch (const Refused& error) { output.answers.push_back(error_message(id, error)); }
}

void Socket::open_stream(std::int32_t request, std::int32_t stream, Output& output) {
  if (channels_.contains(stream))
    throw Failure(400, code::protocol, fmt::format("stream_id {} is in use", stream));
  if (channels_.size() >= socket_streams_max) {
    throw Refused(
        "TOO_MANY_STREAMS",
        fmt::format("{} streams are open on this connection, which is the most", channels_.size()));
  }
  const auto& settings = shared_->streams.settings();
  const auto channel = std::make_shared<Channel>(settings.factory, settings.clock());
  channel->streams = &shared_->streams;
  channels_.emplace(stream, channel);
  output.answers.push_back(ok_message(request, "open_stream"));
}

// The number is free at once: a later request under it means another stream.
void Socket::close_stream(std::int32_t request, std::int32_t stream, Output& output) {
  queue(request, stream, CloseStream{stream}, Charge(), output);
  channels_.erase(stream);
  std::erase_if(cursors_, [&](const auto& cursor) { return cursor.second == stream; });
}

void Socket::store(std::int32_t request, StoreSql& what, Charge charge, Output& output) {
  const bool is_known = stored_.contains(what.id);
  if (is_known && version_ != Version::hrana3)
    throw Failure(400, code::protocol, fmt::format("sql_id {} is in use", what.id));
  if (what.text.size() > stored_sql_bytes_max) {
    throw Refused("SQLITE_TOOBIG", fmt::format("a stored text has {} bytes; at most {}",
                                               what.text.size(), stored_sql_bytes_max));
  }
  if (!is_known && stored_.size() >= socket_stored_sql_max) {
    throw Refused(
        "SQL_STORE_FULL",
        fmt::format("the connection has {} stored texts, which is the most; send close_sql for one",
                    stored_.size()));
  }
  charge.shrink_to(what.text.size());
  stored_.insert_or_assign(what.id, Stored{std::move(what.text), std::move(charge)});
  output.answers.push_back(ok_message(request, "store_sql"));
}

void Socket::queue(std::int32_t request, std::int32_t stream, Task task, Charge charge,
                   Output& output) {
  const auto found = channels_.find(stream);
  if (found == channels_.end())
    throw Refused(code::protocol, fmt::format("stream {} is not open", stream));
  const auto& channel = found->second;
  shared_->unanswered.fetch_add(1);
  const std::lock_guard lock(channel->mutex);
  channel->waiting.push_back({request, std::move(task), permit_, std::move(charge)});
  if (std::exchange(channel->is_running, true)) return;
  channel->stream.heard();
  output.jobs.push_back(Job(shared_, channel));
}

void Socket::resolve(Sql& sql) const {
  if (!sql.id) return;
  const auto found = stored_.find(*sql.id);
  if (found == stored_.end())
    throw Refused("SQL_NOT_STORED",
                  fmt::format("sql_id {} is not stored on this connection", *sql.id));
  sql = Sql{found->second.text, {}};
}

void Socket::resolve(Batch& batch) const {
  for (Step& step : batch.steps) resolve(step.stmt.sql);
}

void Socket::resolve(Request& request) const {
  if (auto* execute = std::get_if<Execute>(&request)) resolve(execute->stmt.sql);
  if (auto* batch = std::get_if<Batch>(&request)) resolve(*batch);
  if (auto* sequence = std::get_if<Sequence>(&request)) resolve(sequence->sql);
  if (auto* describe = std::get_if<Describe>(&request)) resolve(describe->sql);
}

std::int32_t Socket::stream_of(std::int32_t cursor) const {
  const auto found = cursors_.find(cursor);
  if (found == cursors_.end())
    throw Refused(code::protocol, fmt::format("cursor {} is not open", cursor));
  return found->second;
}

Socket::Output Socket::tick() {
  const auto& settings = shared_->streams.settings();
  const Moment now = settings.clock();
  Output output;
  for (auto& [id, channel] : channels_) {
    const std::lock_guard lock(channel->mutex);
    if (channel->is_running || !channel->in_transaction ||
        now - channel->idle_since < settings.transaction_idle_timeout)
      continue;
    channel->loss = Streams::silence(settings);
    channel->is_running = true;
    output.jobs.push_back(Job(shared_, channel));
  }
  return output;
}

Socket::Output Socket::lose(const Lost& why) {
  Output output;
  for (auto& [id, channel] : channels_) {
    const std::lock_guard lock(channel->mutex);
    if (!channel->is_running && !channel->in_transaction) continue;
    channel->loss = why;
    if (!std::exchange(channel->is_running, true)) output.jobs.push_back(Job(shared_, channel));
  }
  return output;
}

Socket::Output Socket::close() {
  Output output;
  for (auto& [id, channel] : channels_) {
    const std::lock_guard lock(channel->mutex);
    channel->has_ended = true;
    channel->waiting.clear();
    if (!std::exchange(channel->is_running, true)) output.jobs.push_back(Job(shared_, channel));
  }
  channels_.clear();
  cursors_.clear();
  stored_.clear();
  return output;
}

}  // namespace termgate::hrana
