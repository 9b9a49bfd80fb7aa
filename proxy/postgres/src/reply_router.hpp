// What the client sees of the server's replies: the request that a reply belongs to decides whether
// it is forwarded, hidden or kept for later (docs/decisions/0006). Bytes in, bytes out; server.cpp
// derives what a reply says of the session and its transaction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <termgate/pgwire/reader.hpp>

#include <termgate/pg_session/host.hpp>
#include "replies.hpp"

namespace termgate::pg_session {

// The replies that fit a request, by their type bytes. A reply in `last` ends the request; replies
// in `more` come before that, in any number.
struct RepliesOf {
  Request request;
  std::string_view more, last;
};

inline constexpr std::array<RepliesOf, request_count> reply_table{{
    {Request::parse, "", "1"},
    {Request::bind, "", "2"},
    {Request::close, "", "3"},
    {Request::describe_statement, "t", "Tn"},
    {Request::describe_portal, "", "Tn"},
    {Request::execute, "DGHWdc", "CIs"},  // rows, the copies, then how it ended
    {Request::sync, "", "Z"},
    {Request::query, "TDCIGHWdc", "Z"},
    {Request::function_call, "V", "Z"},
    {Request::passage, "12TnDCIHdc", "Z"},
    {Request::nothing, "", ""},
}};

enum class Fit : std::uint8_t { no, more, last };

// reply_table, indexed by request and type byte, because every reply is looked up.
inline constexpr auto fits_by_type = [] {
  std::array<std::array<Fit, 128>, request_count> fits{};
  for (const RepliesOf& replies : reply_table) {
    for (const char type : replies.more)
      fits[static_cast<std::size_t>(replies.request)][static_cast<std::size_t>(type)] = Fit::more;
    for (const char type : replies.last)
      fits[static_cast<std::size_t>(replies.request)][static_cast<std::size_t>(type)] = Fit::last;
  }
  return fits;
}();

constexpr Fit fit_of(Request request, char type) noexcept {
  const auto index = static_cast<unsigned char>(type);
  return index < 128 ? fits_by_type[static_cast<std::size_t>(request)][index] : Fit::no;
}

// After an error in one of these requests the server skips everything up to the next Sync.
constexpr bool is_extended(Request request) noexcept {
  return request != Request::query && request != Request::function_call &&
         request != Request::sync && request != Request::passage;
}

// What happens to a reply that fits.
enum class Shown : std::uint8_t {
  forward,
  // It answers a message of ours, or a simple query would not have had it.
  hide,
  // For a converted query (Carrier::run_converted): kept until its first other reply, because an
  // error comes without a description.
  keep_description,
  // For a converted query: kept until the Sync has committed it.
  keep_complete,
  // For a text in a frame (our BEGIN and COMMIT around it): kept until the server replies to the
  // text's next statement, or until that statement is sent by itself; after the last statement,
  // until the frame's COMMIT has succeeded.
  keep_framed,
};

Shown shown_as(const PendingReply& request, const pgwire::Event& reply) noexcept;

// Owner: the session's State; its thread. Borrows the queue of requests that the server has not
// answered yet and the client's outbox. Invariants: a reply belongs to the head of `pending`
// (fits() before route() or hide()); the client gets replies in the order of its requests, so a
// kept reply is released before any later reply is forwarded. Notices do not wait for it.
class ReplyRouter {
 public:
  ReplyRouter(PendingReplies& pending, Outbox& client) noexcept
      : pending_(pending), client_(client) {}

  // Whether the reply can belong to the request that is answered next.
  bool fits(char type) const noexcept {
    return !pending_.empty() && fit_of(pending_.head().request, type) != Fit::no;
  }

  // --- the beginning of a message, or the whole of it ---
  // For a reply that fits. The last one of a request removes the request from `pending`.
  void route(const pgwire::Event& reply);
  // As route(), but the client gets nothing.
  void hide(const pgwire::Event& reply);
  // For a message that belongs to no request.
  void forward(const pgwire::Event& message);
  // For a message that the running request has caused.
  void forward_unless_hidden(const pgwire::Event& message);
  // Notices about our own statements are not shown; the server's log has them. Exceptions are
  // hidden messages in the client's place (Purpose::client), such as those that replace a simple
  // query, and the COMMIT of a frame, which runs the client's deferred triggers.
  void forward_notice(const pgwire::Event& notice);

  // --- the rest of a message that comes in parts ---
  // A kept description that grows beyond `kept_bytes_max` is released at once.
  void route_rest(const pgwire::Event& part, std::size_t kept_bytes_max);
  // Whether the client got the part of this message that has arrived.
  bool shows() const noexcept { return showing_; }
  // Whether a message has partly arrived of which the client has nothing yet.
  bool keeps_a_part() const noexcept { return keeping_; }

  // --- what was kept ---
  void release_complete() { release(complete_); }
  void release_framed() { release(framed_); }
  void drop_framed() noexcept { framed_.clear(); }
  // The converted query has failed.
  void drop_converted() noexcept;

  // --- the pending requests ---
  // Gives the client the replies made here, once every reply before them was given.
  void give_made_replies();
  // For CopyInResponse. True: the server now waits for the client's data, and skips the Syncs that
  // were sent before the copy ends.
  bool copy_in_begins();

 private:
  void release(std::string& kept);
  void end_request(const pgwire::Event& reply);

  PendingReplies& pending_;
  Outbox& client_;
  std::string description_, complete_, framed_;
  bool showing_ = true;
  bool keeping_ = false;
};

}  // namespace termgate::pg_session
