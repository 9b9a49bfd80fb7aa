// What happens to a client's message: it is forwarded unchanged, goes through the gate, is refused,
// or is answered here. That is decided from its type, its text and the procedures that it calls.
// Owner: one session; its thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <termgate/tds/packet.hpp>
#include <termgate/tds/request.hpp>
#include <termgate/tds_session/tds_session.hpp>

#include "claims.hpp"
#include "watch.hpp"

namespace termgate::tds_session {

// A message of the client: complete, or the part that is judged before the rest is forwarded.
struct Message {
  enum class Extent : std::uint8_t { begun, whole, given_up };

  bool complete() const noexcept { return extent != Extent::begun; }
  // Adds its next part, or begins a new message with the first. `kept`: the bytes are stored too.
  void add(const tds::PacketEvent& event, bool kept);

  std::uint8_t type = 0;
  // `begun`: more packets follow. `given_up`: in its last packet the client has withdrawn it.
  Extent extent = Extent::begun;
  // The reset bits of its first packet's status, which are removed from `raw`.
  std::uint8_t resets = 0;
  // Its packets, and their payload.
  std::string raw;
  std::string payload;
};

struct Verdict {
  enum class Way : std::uint8_t { pass, gate, refuse, answer };
  enum class Does : std::uint8_t {
    other,
    // It only reads, so it cannot have declared anything.
    reads,
    // It prepares a statement that only reads: the handle that the server returns is for that
    // statement.
    prepares_read,
    // It sets the scope or the term in SESSION_CONTEXT.
    declares,
    // INSERT BULK: the rows follow in a separate message.
    announces_bulk,
    bulk_rows,
    // It resets the session by a call.
    resets,
  };

  Way way = Way::gate;
  Does does = Does::other;
  // The pair that a call of set_term declares.
  std::optional<ScopedTerm> sets;
  std::string code, message;
  // The text for the log.
  std::string statement;
};

class MessageClassifier {
 public:
  MessageClassifier(const Options& options, const Claims& claims)
      : options_(options), claims_(claims) {}

  // `takes_rows`: an INSERT BULK has announced rows, and they may pass.
  Verdict verdict_of(const Message& message, std::uint32_t tds_version, bool takes_rows);
  // For more of a message that is forwarded while it arrives. Returns why it is refused, or null.
  const char* rest(std::string_view bytes, bool ends) { return judge_.take(bytes, ends); }

  // The server has prepared, under this handle, a statement that only reads.
  void prepared_read(std::int64_t handle);
  // Something was sent that may have prepared another statement under the same handle.
  void forget_prepared() noexcept { read_handles_.clear(); }

 private:
  Verdict batch(std::string_view body, bool complete) const;
  Verdict calls(std::string_view body, bool complete, std::uint32_t tds_version) const;
  Verdict transaction(std::string_view body, bool complete) const;
  bool call_reads(const tds::Call& call) const;
  bool reads_pass() const noexcept {
    return claims_.admission().without_term == conversation::WithoutTerm::read_only;
  }

  const Options& options_;
  const Claims& claims_;
  Judge judge_;
  std::set<std::int64_t> read_handles_;
};

}  // namespace termgate::tds_session
