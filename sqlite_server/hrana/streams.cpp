#include "streams.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "failure.hpp"
#include "values.hpp"

namespace termgate::hrana {

namespace {

constexpr std::size_t seal_bytes = 16;
constexpr std::size_t baton_bytes = 16 + seal_bytes;

void append_big_endian(std::string& out, std::uint64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(number >> shift & 255);
}

std::uint64_t big_endian(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char byte : bytes.substr(0, 8))
    number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

// Compares in constant time.
bool same_bytes(std::string_view one, std::string_view other) {
  unsigned difference = one.size() == other.size() ? 0 : 1;
  for (std::size_t at = 0; at < std::min(one.size(), other.size()); ++at) {
    difference |= static_cast<unsigned char>(one[at]) ^ static_cast<unsigned char>(other[at]);
  }
  return difference == 0;
}

Failure expired() {
  return Failure(400, code::expired,
                 "STREAM_EXPIRED the stream is no longer known here: it was silent for too long, "
                 "or the server has been started anew. A "
                 "transaction that was open in it was rolled back. Begin again without a baton");
}

Failure reused() {
  return Failure(400, code::reused,
                 "BATON_REUSED this baton was used before; the stream goes on with the one of its "
                 "last answer");
}

}  // namespace

Streams::Taken::~Taken() {
  if (!stream_) return;
  stream_->lose(Lost(
      code::internal,
      "INTERNAL_ERROR a request of this stream was broken off; its transaction was rolled back"));
  streams_->keep_lost(*this);
}

Streams::Streams(StreamSettings settings)
    : settings_(std::move(settings)), budget_(settings_.memory_bytes_max) {}

std::string Streams::baton_of(StreamId id, std::uint64_t turn) const {
  std::string bytes;
  append_big_endian(bytes, id);
  append_big_endian(bytes, turn);
  const auto seal = settings_.seal(bytes);
  bytes.append(reinterpret_cast<const char*>(seal.data()), seal.size());
  return base64url(bytes);
}

void Streams::move_to(StreamId id, Record& record, State state) {
  if (record.state != State::in_use) list_of(record.state).erase(record.place);
  record.state = state;
  if (state == State::in_use) return;
  record.since = settings_.clock();
  auto& list = list_of(state);
  record.place = list.insert(list.end(), id);
}

void Streams::forget(StreamId id, Dropped& dropped) {
  const auto found = records_.find(id);
  if (found == records_.end()) return;
  if (found->second.stream) dropped.push_back(std::move(found->second.stream));
  move_to(id, found->second, State::in_use);
  records_.erase(found);
}

void Streams::must_have_room() const {
  const bool may_forget = std::any_of(lists_.begin(), lists_.begin() + 3,
                                      [](const auto& list) { return !list.empty(); });
  if (records_.size() < settings_.records_max || may_forget) return;
  throw Failure(
      503, code::busy,
      fmt::format(
          "SERVER_BUSY {} streams are open, which is the most (--max-streams); send it again later",
          records_.size()));
}

// Drops what costs least first: a baton that only a cursor has named, then texts and settings, then
// the memory of a loss. A transaction is never dropped.
void Streams::make_room(Dropped& dropped) {
  while (records_.size() >= settings_.records_max) {
    must_have_room();
    forget(std::find_if(lists_.begin(), lists_.begin() + 3,
                        [](const auto& list) { return !list.empty(); })
               ->front(),
           dropped);
  }
}

StreamId Streams::add_record(const Principal& principal, Dropped& dropped) {
  make_room(dropped);
  const StreamId id = ++last_id_;
  records_[id].principal = principal;
  return id;
}

Streams::Taken Streams::take(const std::optional<std::string>& baton, const Principal& principal) {
  Taken taken(*this, principal);
  if (!baton) {
    taken.stream_ = std::make_unique<Stream>(settings_.factory);
    const std::lock_guard lock(mutex_);
    must_have_room();
    taken.losses_ = losses_;
    return taken;
  }
  const auto bytes = base64url_bytes(*baton);
  if (!bytes || bytes->size() != baton_bytes) throw expired();
  const StreamId id = big_endian(*bytes);
  const std::uint64_t turn = big_endian(std::string_view(*bytes).substr(8));
  if (!same_bytes(baton_of(id, turn), *baton)) throw expired();
  {
    const std::lock_guard lock(mutex_);
    const auto found = records_.find(id);
    if (found == records_.end()) throw expired();
    Record& record = found->second;
    if (record.principal != principal)
      throw Failure(401, code::other_principal,
                    "AUTH_WRONG_TOKEN the baton belongs to another token's stream");
    if (record.lost) throw Failure(400, record.lost->code, record.lost->what());
    if (record.state == State::in_use || turn != record.turn) throw reused();
    taken.stream_ =
        record.stream ? std::move(record.stream) : std::make_unique<Stream>(settings_.factory);
    move_to(id, record, State::in_use);
    taken.id_ = id;
    taken.losses_ = losses_;
  }
  taken.stream_->heard();
  return taken;
}

std::string Streams::reserve(Taken& taken) {
  Dropped dropped;
  const std::lock_guard lock(mutex_);
  if (taken.id_ == 0) taken.id_ = add_record(taken.principal_, dropped);
  taken.reserved_ = true;
  return baton_of(taken.id_, records_.at(taken.id_).turn + 1);
}

std::optional<std::string> Streams::settle(Taken& taken, bool next_turn) {
  Stream& stream = taken.stream();
  const bool in_transaction = stream.in_transaction();
  std::optional<Lost> why;
  if (in_transaction) {
    const std::lock_guard lock(mutex_);
    if (taken.losses_ != losses_) why = last_loss_;
  }
  if (why) {
    stream.lose(*why);
    stream.must_live();
  }
  const State state = in_transaction   ? State::transaction
                      : stream.keeps() ? State::kept
                                       : State::bare;
  if (state != State::bare) stream.answered();
  Dropped dropped;
  const std::lock_guard lock(mutex_);
  const bool is_new = taken.id_ == 0 || records_.at(taken.id_).turn == 0;
  if (state == State::bare && !(next_turn && taken.reserved_) && (next_turn || is_new)) {
    forget(taken.id_, dropped);
    dropped.push_back(std::move(taken.stream_));
    return std::nullopt;
  }
  if (taken.id_ == 0) taken.id_ = add_record(taken.principal_, dropped);
  Record& record = records_.at(taken.id_);
  if (next_turn) ++record.turn;
  move_to(taken.id_, record, state);
  if (state == State::bare) {
    dropped.push_back(std::move(taken.stream_));
  } else {
    record.stream = std::move(taken.stream_);
  }
  return baton_of(taken.id_, record.turn);
}

std::optional<std::string> Streams::give_back(Taken taken) {
  try {
    return settle(taken, true);
  } catch (const Failure& failure) {
    // Something has run, so the client must not be invited to send it again: lack of room is a loss
    // here instead of a 503.
    taken.stream().lose(Lost(failure.code, failure.what()));
    const Lost why = *taken.stream().lost();
    keep_lost(taken);
    throw Failure(400, why.code, why.what());
  }
}

void Streams::put_back(Taken taken) noexcept {
  try {
    settle(taken, false);
  } catch (const Failure&) { keep_lost(taken); }
}

// A stream whose baton nobody has is just dropped.
void Streams::keep_lost(Taken& taken) noexcept {
  const std::unique_ptr<Stream> stream = std::move(taken.stream_);
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(taken.id_);
  if (found == records_.end()) return;
  found->second.lost = stream->lost();
  move_to(taken.id_, found->second, State::lost);
}

void Streams::lose_streams(std::vector<std::pair<StreamId, std::unique_ptr<Stream>>> streams,
                           const Lost& why) {
  for (auto& [id, stream] : streams) {
    stream->lose(why);
    const std::lock_guard lock(mutex_);
    const auto found = records_.find(id);
    if (found == records_.end()) continue;
    found->second.lost = stream->lost();
    move_to(id, found->second, State::lost);
  }
}

void Streams::lose_all(const Lost& why) {
  std::vector<std::pair<StreamId, std::unique_ptr<Stream>>> streams;
  {
    const std::lock_guard lock(mutex_);
    ++losses_;
    last_loss_ = why;
    auto& transactions = list_of(State::transaction);
    while (!transactions.empty()) {
      const StreamId id = transactions.front();
      Record& record = records_.at(id);
      record.lost = why;  // reported to the client from now on
      streams.emplace_back(id, std::move(record.stream));
      move_to(id, record, State::in_use);
    }
  }
  lose_streams(std::move(streams), why);
}

Lost Streams::silence(const StreamSettings& settings) {
  return Lost(code::timeout, fmt::format("TRANSACTION_TIMEOUT the transaction was silent for {} ms "
                                         "(--transaction-idle-timeout) and was rolled back; "
                                         "nothing of it was written",
                                         settings.transaction_idle_timeout.count()));
}

void Streams::tick() {
  const Moment now = settings_.clock();
  const Lost why = silence(settings_);
  std::vector<std::pair<StreamId, std::unique_ptr<Stream>>> silent;
  Dropped dropped;
  {
    const std::lock_guard lock(mutex_);
    auto& transactions = list_of(State::transaction);
    while (!transactions.empty()) {
      const StreamId id = transactions.front();
      Record& record = records_.at(id);
      if (now - record.since < settings_.transaction_idle_timeout) break;
      record.lost = why;  // reported to the client from now on
      silent.emplace_back(id, std::move(record.stream));
      move_to(id, record, State::in_use);
    }
    for (const State state : {State::bare, State::kept, State::lost}) {
      auto& list = list_of(state);
      while (!list.empty() && now - records_.at(list.front()).since >= settings_.kept_for)
        forget(list.front(), dropped);
    }
  }
  lose_streams(std::move(silent), why);
}

Streams::Counts Streams::counts() const {
  const std::lock_guard lock(mutex_);
  const auto size = [&](State state) { return lists_[static_cast<std::size_t>(state)].size(); };
  Counts counts{size(State::transaction), size(State::kept), size(State::bare), size(State::lost),
                0};
  counts.in_use = records_.size() - counts.transactions - counts.kept - counts.bare - counts.lost;
  return counts;
}

}  // namespace termgate::hrana
