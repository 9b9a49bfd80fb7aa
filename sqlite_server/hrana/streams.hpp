// Streams between HTTP requests: their batons, who may use them, how long they are kept.
//
// A baton is the base64url of the stream's number and its turn (8 bytes each, big-endian; each
// request has the next turn) and 16 bytes of an HMAC under a key made at the start. The answer of a
// stream that is kept contains a new baton; only the latest is accepted, and only once. It is
// useless without the principal's token.
//
// A stream is kept after a request if it has an open transaction, stored texts or settings, or if a
// cursor had to name its baton beforehand. A transaction that is silent for too long is lost. A
// stream without a transaction, and the record of a lost one, is forgotten after an hour, or
// earlier if there are records_max. Its baton then gets STREAM_EXPIRED, and never makes a new
// stream.
//
// Any thread. No call holds the lock while it uses the file.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "budget.hpp"
#include "stream.hpp"

namespace termgate::hrana {

// The token's name; empty where there are no tokens.
using Principal = std::string;
using Moment = std::chrono::steady_clock::time_point;
using StreamId = std::uint64_t;
// The first 16 bytes of an HMAC-SHA256 of the text. Any thread.
using Seal = std::function<std::array<std::uint8_t, 16>(std::string_view)>;

struct StreamSettings {
  SessionFactory factory;
  Seal seal;
  std::function<Moment()> clock;
  std::size_t records_max = 100'000;  // --max-streams
  std::size_t answer_bytes_max = std::size_t{64} << 20;
  std::size_t memory_bytes_max = std::size_t{1} << 30;  // --max-memory
  std::chrono::milliseconds transaction_idle_timeout{10'000};
  std::chrono::milliseconds kept_for{std::chrono::hours(1)};
};

class Streams {
 public:
  // A stream that one request is using. If it is destroyed without being given back, after an
  // exception, the stream is lost.
  class Taken {
   public:
    Taken(Taken&& other) noexcept = default;
    Taken& operator=(Taken&&) = delete;
    ~Taken();
    Stream& stream() const noexcept { return *stream_; }
    bool is_held() const noexcept { return stream_ != nullptr; }

   private:
    friend class Streams;
    Taken(Streams& streams, Principal principal)
        : streams_(&streams), principal_(std::move(principal)) {}
    Streams* streams_;
    Principal principal_;
    std::unique_ptr<Stream> stream_;  // none: given back, or moved from
    StreamId id_ = 0;                 // 0: a new stream without a record
    std::uint64_t losses_ = 0;        // how often everything had been lost before it was taken
    bool reserved_ = false;           // a cursor has named its next baton
  };

  explicit Streams(StreamSettings settings);

  // Takes the baton's stream, or makes a new one. Throws Failure: STREAM_EXPIRED, BATON_REUSED,
  // AUTH_WRONG_TOKEN, the reason of the stream's loss, or SERVER_BUSY if there is no room for
  // another stream.
  Taken take(const std::optional<std::string>& baton, const Principal& principal);
  // For a cursor, whose first line contains the baton: returns the one that give_back() will
  // return. From here on the stream is kept. Throws Failure (503).
  std::string reserve(Taken& taken);
  // Returns the next baton; nullopt if nothing needs to be kept. Throws Failure (400) if the stream
  // was lost meanwhile, or is lost now because there is no room to keep it.
  std::optional<std::string> give_back(Taken taken);
  // Nothing has run: the old baton is valid again, unless the stream is lost.
  void put_back(Taken taken) noexcept;

  // Every open transaction is lost, because of a drain or a moved file; those in use at the end of
  // their request.
  void lose_all(const Lost& why);
  // Ends what has been silent for too long. Call it at least once a second.
  void tick();

  struct Counts {
    std::size_t transactions = 0, kept = 0, bare = 0, lost = 0, in_use = 0;
  };
  Counts counts() const;
  // The reason for losing a transaction that was silent for too long.
  static Lost silence(const StreamSettings& settings);
  Budget& budget() noexcept { return budget_; }
  const StreamSettings& settings() const noexcept { return settings_; }

 private:
  // Records that are not in use are in a list for each state, the oldest first.
  enum class State : std::uint8_t { bare, kept, lost, transaction, in_use };
  struct Record {
    Principal principal;
    std::uint64_t turn = 0;
    State state = State::in_use;
    Moment since{};
    std::unique_ptr<Stream> stream;  // none: in use, bare or lost
    std::optional<Lost> lost;
    std::list<StreamId>::iterator place{};
  };
  using Dropped = std::vector<std::unique_ptr<Stream>>;  // destroyed, and so rolled back, after the
                                                         // lock is released

  std::string baton_of(StreamId id, std::uint64_t turn) const;
  std::list<StreamId>& list_of(State state) { return lists_[static_cast<std::size_t>(state)]; }
  void move_to(StreamId id, Record& record, State state);
  void forget(StreamId id, Dropped& dropped);
  void must_have_room() const;
  void make_room(Dropped& dropped);
  StreamId add_record(const Principal& principal, Dropped& dropped);
  std::optional<std::string> settle(Taken& taken, bool next_turn);
  void keep_lost(Taken& taken) noexcept;
  void lose_streams(std::vector<std::pair<StreamId, std::unique_ptr<Stream>>> streams,
                    const Lost& why);

  const StreamSettings settings_;
  Budget budget_;
  mutable std::mutex mutex_;  // guards the members below
  std::unordered_map<StreamId, Record> records_;
  std::array<std::list<StreamId>, 5> lists_;
  StreamId last_id_ = 0;
  std::uint64_t losses_ = 0;
  std::optional<Lost> last_loss_;  // the reason of the last lose_all()
};

}  // namespace termgate::hrana
