// Every message after a client's start-up packets, in both directions (PostgreSQL documentation,
// "Message Formats", protocol-message-formats.html; integers big-endian):
//
//   0      1                5                        1 + length
//   +------+----------------+------------------------+
//   | type | length : int32 | body : length - 4 bytes |
//   +------+----------------+------------------------+
#include <termgate/pgwire/reader.hpp>

#include <algorithm>
#include <new>

#include <termgate/pgwire/types.hpp>

#include "bytes.hpp"

namespace termgate::pgwire {
namespace {

constexpr std::size_t header_bytes = 5;
// A buffer that grew beyond this is freed after its message, so that one long statement does not
// use memory for ever.
constexpr std::size_t buffer_kept_bytes = 16u << 10;
// The server's own limit for messages that are never long (PQ_SMALL_MESSAGE_LIMIT, libpq/pqcomm.h).
constexpr std::uint32_t small_bytes_max = 10'000;
// The server's own limit for messages of an authentication exchange (PG_MAX_AUTH_TOKEN_LENGTH,
// libpq/auth.h).
constexpr std::uint32_t authentication_bytes_max = 65'535;

Rule empty() noexcept { return {true, 0, 0, 0, 0}; }
Rule whole(std::uint32_t body_min, std::uint32_t body_max) noexcept {
  return {true, body_min, body_max, body_max, 0};
}

}  // namespace

Rules Rules::frontend(const Limits& limits) noexcept {
  namespace type = pgwire::frontend;
  Rules rules;
  rules[type::query] = whole(1, limits.statement_bytes_max);
  rules[type::parse] = whole(4, limits.statement_bytes_max);
  // A Bind's names come first; 8 kB are enough for any two reasonable names.
  rules[type::bind] = {true, 8, limits.message_bytes_max, limits.bind_whole_bytes_max, 8u << 10};
  rules[type::function_call] = {true, 10, limits.message_bytes_max, limits.bind_whole_bytes_max, 4};
  rules[type::copy_data] = {true, 0, limits.message_bytes_max, -1, 0};
  rules[type::copy_fail] = whole(1, small_bytes_max);
  rules[type::describe] = whole(2, small_bytes_max);
  rules[type::close] = whole(2, small_bytes_max);
  rules[type::execute] = whole(5, small_bytes_max);
  rules[type::password] = whole(0, authentication_bytes_max);
  for (const char type : {type::sync, type::flush, type::terminate, type::copy_done})
    rules[type] = empty();
  for (const char type : {type::query, type::parse}) rules[type].limit = Limit::statement_bytes;
  for (const char type : {type::bind, type::function_call, type::copy_data})
    rules[type].limit = Limit::message_bytes;
  return rules;
}

Rules Rules::backend(const Limits& limits) noexcept {
  namespace type = pgwire::backend;
  Rules rules;
  rules[type::authentication] = whole(4, authentication_bytes_max);
  rules[type::backend_key_data] = whole(8, 4 + 256);
  rules[type::parameter_status] = whole(2, 1u << 20);
  rules[type::negotiate_protocol_version] = whole(8, authentication_bytes_max);
  rules[type::ready_for_query] = whole(1, 1);
  rules[type::command_complete] = whole(1, small_bytes_max);
  rules[type::notification_response] = whole(6, 64u << 10);
  for (const char type :
       {type::copy_in_response, type::copy_out_response, type::copy_both_response})
    rules[type] = whole(3, small_bytes_max);
  for (const char type : {type::error_response, type::notice_response})
    rules[type] = {true, 1, limits.message_bytes_max, limits.report_whole_bytes_max, 0};
  rules[type::row_description] = {true, 2, limits.message_bytes_max, -1, 2};
  // The count wraps at 65,535, but the server still sends all parameters.
  rules[type::parameter_description] = {true, 2, limits.message_bytes_max, -1, 2};
  rules[type::data_row] = {true, 2, limits.message_bytes_max, -1, 0};
  rules[type::copy_data] = {true, 0, limits.message_bytes_max, -1, 0};
  rules[type::function_call_response] = {true, 4, limits.message_bytes_max, -1, 0};
  for (const char type :
       {type::parse_complete, type::bind_complete, type::close_complete, type::empty_query_response,
        type::no_data, type::portal_suspended, type::copy_done}) {
    rules[type] = empty();
  }
  return rules;
}

Event Reader::refuse(const Malformed& why, std::size_t used) noexcept {
  state_ = State::broken;
  problem_ = why;
  Event event;
  event.kind = Event::Kind::malformed;
  event.used = used;
  event.problem = why;
  return event;
}

Event Reader::next(std::string_view input) noexcept {
  if (given_) {
    given_ = false;
    buffer_.clear();
    if (buffer_.capacity() > buffer_kept_bytes) std::string().swap(buffer_);
  }
  switch (state_) {
    case State::header: return header_of(input);
    case State::gathering: return gather(input);
    case State::streaming: return stream(input);
    case State::broken: break;
  }
  return refuse(problem_, 0);
}

std::string_view Reader::run_of(char type, std::string_view input) const noexcept {
  const Rule& rule = (*rules_)[type];
  if (!between_messages() || !rule.known) return {};
  std::size_t end = 0;
  while (input.size() - end >= header_bytes && input[end] == type) {
    const std::uint32_t length = read_u32(input.data() + end + 1);
    if (length < 4 || length - 4 < rule.body_min || length - 4 > rule.body_max ||
        length > input.size() - end - 1)
      break;
    end += 1 + std::size_t{length};
  }
  return input.substr(0, end);
}

Event Reader::header_of(std::string_view input) noexcept {
  Event event;
  if (input.empty()) return event;
  const char type = held_ > 0 ? header_[0] : input[0];
  const Rule& rule = (*rules_)[type];
  if (!rule.known)
    return refuse(malformed("unknown message type 0x%02x", static_cast<unsigned char>(type)), 0);

  const bool straddles = held_ > 0 || input.size() < header_bytes;
  if (straddles) {
    const std::size_t taken = std::min(header_bytes - held_, input.size());
    std::copy_n(input.data(), taken, header_.data() + held_);
    held_ += taken;
    event.used = taken;
    if (held_ < header_bytes) return event;
  }
  const char* header = straddles ? header_.data() : input.data();
  const std::uint32_t length = read_u32(header + 1);
  if (length < 4)
    return refuse(malformed("message type 0x%02x with the length %ld: it counts its own 4 bytes",
                            static_cast<unsigned char>(type), static_cast<long>(length)),
                  event.used);
  const std::uint32_t body_bytes = length - 4;
  if (body_bytes > rule.body_max) {
    Malformed problem =
        malformed("message type 0x%02x with a body of %lu bytes: at most %lu are allowed",
                  static_cast<unsigned char>(type), static_cast<unsigned long>(body_bytes),
                  static_cast<unsigned long>(rule.body_max));
    problem.above = rule.limit;
    return refuse(problem, event.used);
  }
  if (body_bytes < rule.body_min) {
    return refuse(
        malformed("message type 0x%02x with a body of %lu bytes: at least %lu are needed",
                  static_cast<unsigned char>(type), static_cast<unsigned long>(body_bytes),
                  static_cast<unsigned long>(rule.body_min)),
        event.used);
  }
  held_ = 0;
  type_ = type;
  body_bytes_ = body_bytes;
  whole_ = static_cast<std::int64_t>(body_bytes) <= rule.whole_max;
  const std::size_t wanted = whole_ ? body_bytes : std::min(body_bytes, rule.head_bytes);
  event.type = type;
  event.body_bytes = body_bytes;

  if (straddles ? wanted == 0 : input.size() - header_bytes >= wanted) {
    const std::size_t there =
        straddles ? 0 : std::min<std::size_t>(body_bytes, input.size() - header_bytes);
    event.kind = whole_ ? Event::Kind::message : Event::Kind::part;
    event.first = true;
    event.last = there == body_bytes;
    event.frame = {header, header_bytes + there};
    event.body = event.frame.substr(header_bytes);
    if (!straddles) event.used = header_bytes + there;
    left_ = static_cast<std::uint32_t>(body_bytes - there);
    state_ = event.last ? State::header : State::streaming;
    return event;
  }
  try {
    buffer_.assign(header, header_bytes);
  } catch (const std::bad_alloc&) {
    return refuse(malformed_as("53200", "out of memory"), event.used);
  }
  target_ = header_bytes + wanted;
  state_ = State::gathering;
  if (!straddles) event.used = header_bytes;
  event.kind = Event::Kind::announced;
  return event;
}

Event Reader::gather(std::string_view input) noexcept {
  Event event;
  event.type = type_;
  event.body_bytes = body_bytes_;
  const std::size_t taken = std::min(target_ - buffer_.size(), input.size());
  try {
    // Grows with the bytes that have arrived, never with what a length field promises.
    buffer_.append(input.data(), taken);
  } catch (const std::bad_alloc&) { return refuse(malformed_as("53200", "out of memory"), 0); }
  event.used = taken;
  if (buffer_.size() < target_) return event;
  event.kind = whole_ ? Event::Kind::message : Event::Kind::part;
  event.first = true;
  event.frame = buffer_;
  event.body = event.frame.substr(header_bytes);
  left_ = static_cast<std::uint32_t>(body_bytes_ - event.body.size());
  event.last = left_ == 0;
  given_ = true;
  state_ = event.last ? State::header : State::streaming;
  return event;
}

Event Reader::stream(std::string_view input) noexcept {
  Event event;
  event.type = type_;
  event.body_bytes = body_bytes_;
  if (input.empty()) return event;
  const std::size_t taken = std::min<std::size_t>(left_, input.size());
  event.kind = Event::Kind::part;
  event.frame = event.body = input.substr(0, taken);
  event.used = taken;
  left_ -= static_cast<std::uint32_t>(taken);
  event.last = left_ == 0;
  if (event.last) state_ = State::header;
  return event;
}

}  // namespace termgate::pgwire
