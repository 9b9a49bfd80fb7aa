// The client's half of the session: cuts the client's bytes into messages, decides which of them
// must wait, and hands each to its function.
//
// A message waits:
//   - while a script or a session lock is at work, or after the server has sent a FATAL error
//     (blocked_but_for_deferred);
//   - if its unit cannot be judged before the server has answered (must_wait);
//   - if the server is a standby, until its answer shows whether it was promoted (asks_recovery);
//   - if the session gives its seat back first (stands_before);
//   - while the connection to the server is being made (from_client).
// In the second to fourth case it is in `line_.deferred`. The bytes after it stay in
// `line_.client_in`, in the order of arrival.
#include <cassert>

#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/encode.hpp>
#include <termgate/pgwire/types.hpp>

#include "state.hpp"

namespace termgate::pg_session {

namespace frontend = pgwire::frontend;
using pgwire::Event;

namespace {

// The codec knows the bound, but not the name of the option that sets it.
std::string naming_the_limit(const pgwire::Malformed& problem) {
  std::string result(problem.reason());
  if (problem.above == pgwire::Limit::statement_bytes) result += " (--max-statement-bytes)";
  if (problem.above == pgwire::Limit::message_bytes) result += " (--max-message-bytes)";
  return result;
}

}  // namespace

// The common case copies nothing: while nothing waits, the messages are read from the caller's
// buffer, and only what was not processed is kept.
void Session::State::from_client(std::string_view bytes) {
  switch (line_.stage) {
    case Stage::greeting: return login_.greet(bytes);
    case Stage::replication: return replication_.from_client(bytes);
    case Stage::closing:
    case Stage::closed: return;
    case Stage::client_tls:
    case Stage::admitting:
    case Stage::connecting:
    case Stage::server_greeting:
    case Stage::server_tls: line_.client_in += bytes; return;
    case Stage::login:
    case Stage::ready: break;
  }
  if (line_.client_in.empty()) {
    const std::size_t used = look_at(bytes);
    if (!line_.over()) line_.client_in.append(bytes.substr(used));
  } else {
    line_.client_in.append(bytes);
    pump();
  }
}

// Called when a message may no longer have to wait. The deferred message goes first, because it is
// older than the bytes in `line_.client_in`.
void Session::State::pump() {
  if (line_.stage != Stage::ready && line_.stage != Stage::login) return;
  if (line_.deferred && !waiting_.blocked_but_for_deferred() &&
      !waiting_.must_wait(line_.deferred->type)) {
    const Deferred message = std::move(*line_.deferred);
    line_.deferred.reset();
    Event event;
    event.kind = message.whole ? Event::Kind::message : Event::Kind::part;
    event.type = message.type;
    event.body_bytes = message.body_bytes;
    event.first = true;
    event.last = message.last;
    event.frame = message.frame;
    event.body = event.frame.substr(5);
    if (seating_.stands_before(event)) {
      line_.deferred = message;
      return;
    }
    client_event(event);
    seating_.forget_peeked();
  }
  if (line_.client_in.empty()) return;
  // look_at() may append to line_.client_in through what it calls, so it reads from a buffer of its
  // own.
  const std::string bytes = std::move(line_.client_in);
  line_.client_in = std::string();
  const std::size_t used = look_at(bytes);
  // What look_at() left is older than whatever was added meanwhile.
  if (used < bytes.size() && !line_.over()) line_.client_in.insert(0, bytes, used);
}

// True for a message that begins a transaction on a standby, in a session that has, or may have, a
// claim: the standby may have been promoted since the last transaction.
bool Session::State::asks_recovery(char type) const noexcept {
  if (!facts_.standby() || line_.stage != Stage::ready || !claims_.guards() || !claims_.may_speak())
    return false;
  if (!line_.server.replies.empty() || pipeline_.begun() || model_.tx.in_block ||
      model_.status != pgwire::TransactionStatus::idle)
    return false;
  return type == frontend::query || type == frontend::parse || type == frontend::bind ||
         type == frontend::function_call;
}

// After an error everything up to the Sync is dropped: the proxy has refused, or the server would
// skip it.
void Session::State::skip_to_sync(const Event& event) {
  if (event.type == frontend::sync) {
    if (!pipeline_.refused()) {
      line_.server_skips = false;
      model_.end_implicit();  // rolled back, so nothing is left to check
      pipeline_ = Pipeline();
      pipeline_.goes = Goes::direct;
    }
    if (pipelines_.on_sync()) settle();
    return;
  }
  if (event.type == frontend::terminate) return line_.close_all();
  line_.client_parts = Line::Parts::drop;
}

void Session::State::defer(const Event& event) {
  seating_.forget_peeked();
  line_.deferred = Deferred{std::string(event.frame), event.type, event.body_bytes, event.last,
                            event.kind == Event::Kind::message};
}

std::size_t Session::State::look_at(std::string_view bytes) {
  std::size_t used = 0;
  while (used < bytes.size() && !waiting_.blocked() &&
         (line_.stage == Stage::ready || line_.stage == Stage::login)) {
    if (const std::size_t passed = passage_.pass(bytes.substr(used)); passed > 0) {
      used += passed;
      continue;
    }
    const Event event = line_.client_reader.next(bytes.substr(used));
    used += event.used;
    switch (event.kind) {
      case Event::Kind::need_more: return bytes.size();
      case Event::Kind::announced: break;
      case Event::Kind::malformed:
        line_.host.happened({.kind = Incident::Kind::malformed, .message = event.problem.reason()});
        line_.end(event.problem.sqlstate, naming_the_limit(event.problem));
        return bytes.size();
      case Event::Kind::message:
      case Event::Kind::part:
        if (line_.in_copy_in && event.first && waiting_.breaks_a_copy(event.type)) {
          waiting_.end_in_copy(event.type);
        } else if (line_.stage == Stage::login) {
          login_.from_client(event);
        } else if (event.first && !pipeline_.refused() && !line_.server_skips &&
                   waiting_.must_wait(event.type)) {
          if (pipeline_.begun() &&
              (event.type == frontend::query || event.type == frontend::function_call)) {
            // The server does not flush its replies without a Sync, so what is held is sent as
            // before a Flush of the client's.
            pipelines_.commit_to_group();
            if (pipeline_.refused()) {
              client_event(event);
              break;
            }
            pgwire::append_bare(line_.server.bytes.back(), frontend::flush);
            pipeline_.sent = pipeline_.touched_server = true;
          } else if (line_.server_awaits_sync()) {
            pgwire::append_bare(line_.server.bytes.back(), frontend::flush);
          }
          defer(event);
        } else if (event.first && asks_recovery(event.type)) {
          own_.ask_recovery();
          defer(event);
        } else if (seating_.stands_before(event)) {
          defer(event);
        } else {
          client_event(event);
          seating_.forget_peeked();
          if (event.type == frontend::copy_data && event.last &&
              line_.client_parts == Line::Parts::send && !pipeline_.refused() &&
              line_.stage == Stage::ready && !waiting_.blocked()) {
            const std::string_view data =
                line_.client_reader.run_of(frontend::copy_data, bytes.substr(used));
            line_.server.bytes.back() += data;
            used += data.size();
          }
        }
        break;
    }
  }
  return used;
}

void Session::State::client_event(const Event& event) {
  if (!event.first) {
    if (line_.client_parts == Line::Parts::send) line_.server.bytes.back() += event.frame;
    if (event.last) {
      line_.client_mid_frame = false;
      if (line_.settle_after_frame) {
        line_.settle_after_frame = false;
        settle();
      }
    }
    return;
  }
  line_.client_parts = Line::Parts::send;
  if (pipeline_.refused() || line_.server_skips) return skip_to_sync(event);
  if (pipeline_.needs_hold &&
      (event.type == frontend::parse || event.type == frontend::bind ||
       event.type == frontend::describe || event.type == frontend::execute)) {
    line_.client_parts = Line::Parts::drop;
    return refusals_.refuse(Act::refuse_after_held, {}, {});
  }
  if (line_.in_copy_in && (event.type == frontend::sync || event.type == frontend::flush)) {
    // In the middle of a copy the server ignores these, so no reply is owed.
    line_.server.bytes.back() += event.frame;
    return;
  }
  switch (event.type) {
    case frontend::query: {
      const auto query = pgwire::decode_query(event.body);
      if (!query) return line_.end("08P01", query.problem().reason());
      return scripts_.on_query(query->sql);
    }
    case frontend::parse: return pipelines_.on_parse(event);
    case frontend::bind: return pipelines_.on_bind(event);
    case frontend::execute: return pipelines_.on_execute(event);
    case frontend::describe: return pipelines_.on_describe(event);
    case frontend::close: return pipelines_.on_close(event);
    case frontend::sync:
      if (pipelines_.on_sync()) settle();
      return;
    case frontend::flush: return pipelines_.on_flush();
    case frontend::function_call: return scripts_.on_function_call(event);
    case frontend::copy_data:
      line_.client_mid_frame = !event.last;
      line_.server.bytes.back() += event.frame;
      return;
    case frontend::copy_done:
    case frontend::copy_fail:
      if (!line_.in_copy_in && !line_.server.replies.empty())
        line_.server.replies.at(line_.server.replies.size() - 1).copy_ends = true;
      line_.in_copy_in = false;
      line_.server.bytes.back() += event.frame;
      return;
    case frontend::terminate: return line_.close_all();
    default: return line_.end("08P01", "a password message outside of a login");
  }
}

// --- the login ---

void Session::State::login_event(const Event& event) {
  switch (login_.from_server(event)) {
    case Login::Then::nothing: return;
    case Login::Then::note_parameter: return replies_.parameter_status(event);
    case Login::Then::go_on: return logged_in();
  }
}

void Session::State::logged_in() {
  if (line_.stage == Stage::replication) {
    const std::string rest = std::exchange(line_.client_in, std::string());
    return replication_.from_client(rest);
  }
  if (!login_.asks()) return pump();
  own_.add_hidden_query(login_.question(), Purpose::who_serves);
  // READ ONLY from here on, and not earlier: a login trigger may write.
  if (claims_.guards()) own_.restore_default(false);
}

}  // namespace termgate::pg_session
