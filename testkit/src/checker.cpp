// Judges a history against the guarantees, as an outside observer: each operation has a moment
// before which it was not sent and one after which its answer was there. Only what is certain from
// these moments is a breach: "before" means that one was answered before the other was sent.
// Operations without an answer may have happened or not, so they are judged by the rows that are
// there.
#include <termgate/testkit/checker.hpp>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

namespace termgate {
inline namespace v0 {
namespace testkit {
namespace {

using Kind = Breach::Kind;

constexpr std::size_t nobody = static_cast<std::size_t>(-1);

// Everything that was sent under one id, and the rows that are there for it.
struct Write {
  std::vector<std::size_t> sent;
  std::vector<std::size_t> rows;
  bool acknowledged = false;
  bool open = false;  // at least one attempt had no answer
};

// The highest term that had been acknowledged or seen by each moment, and the operation that showed
// it.
class Shut {
 public:
  void add(Moment when, std::int64_t term, std::size_t by) { events_.push_back({when, term, by}); }

  // Afterwards each event holds the highest term up to its moment, so before() is one binary
  // search.
  void settle() {
    std::sort(events_.begin(), events_.end(),
              [](const Event& a, const Event& b) { return a.when < b.when; });
    for (std::size_t i = 1; i < events_.size(); ++i) {
      if (events_[i - 1].term > events_[i].term)
        events_[i].term = events_[i - 1].term, events_[i].by = events_[i - 1].by;
    }
  }

  struct Event {
    Moment when;
    std::int64_t term;
    std::size_t by;
  };
  // The highest term of the operations that had ended before `begun`; term 0 if there was none.
  Event before(Moment begun) const {
    const auto after =
        std::lower_bound(events_.begin(), events_.end(), begun,
                         [](const Event& event, Moment when) { return event.when < when; });
    return after == events_.begin() ? Event{{}, 0, nobody} : *std::prev(after);
  }
  Event highest() const { return events_.empty() ? Event{{}, 0, nobody} : events_.back(); }

 private:
  std::vector<Event> events_;
};

class Judge {
 public:
  Judge(const std::vector<Operation>& history, const State& state, std::size_t breaches_max)
      : history_(history), state_(state), breaches_max_(breaches_max) {}

  Verdict judge() {
    gather();
    for (const auto& [id, write] : writes_) judge_write(id, write);
    judge_raises();
    judge_looks();
    judge_fences();
    judge_sequences();
    return std::move(verdict_);
  }

 private:
  void found(Kind kind, const std::string& scope, std::string text,
             std::vector<std::size_t> operations) {
    if (verdict_.breaches.size() >= breaches_max_) return;
    std::erase(operations, nobody);
    std::sort(operations.begin(), operations.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(history_[a].invoked, a) < std::pair(history_[b].invoked, b);
    });
    operations.erase(std::unique(operations.begin(), operations.end()), operations.end());
    verdict_.breaches.push_back({kind, scope, std::move(text), std::move(operations)});
  }

  void gather() {
    for (std::size_t i = 0; i < history_.size(); ++i) {
      const Operation& one = history_[i];
      if (one.kind == Operation::Kind::write) {
        Write& write = writes_[one.id];
        write.sent.push_back(i);
        write.acknowledged |= one.outcome == Outcome::committed;
        write.open |= one.outcome == Outcome::unknown;
      }
      if (one.outcome != Outcome::committed || one.term == 0) continue;
      if (one.kind == Operation::Kind::raise) ++verdict_.raises;
      // A write that was acknowledged on a later attempt may have committed under the term of an
      // earlier one.
      if (one.kind != Operation::Kind::write) shut_[one.scope].add(one.answered, one.term, i);
    }
    for (std::size_t i = 0; i < state_.rows.size(); ++i) {
      const auto found_write = writes_.find(state_.rows[i].id);
      if (found_write == writes_.end())
        found(Kind::foreign, state_.rows[i].scope,
              fmt::format("a row with the id \"{}\" and the term {} that no client wrote",
                          state_.rows[i].id, state_.rows[i].term),
              {});
      else found_write->second.rows.push_back(i);
    }
    for (const auto& [id, write] : writes_) {
      if (!write.acknowledged || write.rows.empty()) continue;
      const Row& row = state_.rows[write.rows[0]];
      for (const std::size_t i : write.sent) {
        if (history_[i].outcome == Outcome::committed)
          shut_[row.scope].add(history_[i].answered, row.term, i);
      }
    }
    for (auto& [scope, shut] : shut_) shut.settle();
  }

  const Shut& shut(const std::string& scope) const {
    static const Shut none;
    const auto found_scope = shut_.find(scope);
    return found_scope == shut_.end() ? none : found_scope->second;
  }

  void judge_write(std::string_view id, const Write& write) {
    const Operation& first = history_[write.sent.front()];
    const auto there = write.rows.size();
    const auto wanted = static_cast<std::size_t>(std::max(first.rows, 0));
    if (write.acknowledged) ++verdict_.committed;
    else if (!write.open) ++verdict_.refused;
    else ++(there > 0 ? verdict_.unknown_committed : verdict_.unknown_absent);

    if (there == 0) {
      if (write.acknowledged && wanted > 0)
        found(Kind::lost, first.scope,
              fmt::format("the write \"{}\" of term {} was acknowledged and is not there", id,
                          first.term),
              acknowledged_ones(write));
      return;
    }
    if (!write.acknowledged && !write.open)
      found(Kind::leaked, first.scope,
            fmt::format("the write \"{}\" of term {} was refused and is there", id, first.term),
            write.sent);
    if (there < wanted)
      found(Kind::torn, first.scope,
            fmt::format("{} of {} rows of the write \"{}\" are there", there, wanted, id),
            write.sent);
    if (there > wanted)
      found(Kind::twice, first.scope,
            fmt::format("{} rows of the write \"{}\" are there, and {} were written", there, id,
                        wanted),
            write.sent);

    const Row& row = state_.rows[write.rows[0]];
    // The earliest of the attempts that can have written the row: a breach must hold for all of
    // them.
    std::size_t maker = nobody;
    for (const std::size_t i : write.sent) {
      const Operation& one = history_[i];
      if (one.scope != row.scope || one.term != row.term ||
          (one.outcome == Outcome::refused && (write.acknowledged || write.open)))
        continue;
      if (maker == nobody || one.invoked < history_[maker].invoked) maker = i;
    }
    if (maker == nobody) {
      found(Kind::altered, row.scope,
            fmt::format("the write \"{}\" is there with scope \"{}\" and term {}, with which it "
                        "was never sent",
                        id, row.scope, row.term),
            write.sent);
      return;
    }
    for (const std::size_t i : write.rows) {
      const Row& other = state_.rows[i];
      if (other.term != row.term || other.scope != row.scope)
        found(Kind::altered, row.scope,
              fmt::format("rows of the write \"{}\" are there with the terms {} and {}", id,
                          row.term, other.term),
              write.sent);
    }
    for (const std::size_t i : write.sent) {
      const Operation& one = history_[i];
      if (one.outcome != Outcome::committed || !one.place) continue;
      // A batch is acknowledged with the number of its last row.
      const bool known = std::any_of(write.rows.begin(), write.rows.end(), [&](std::size_t at) {
        return state_.rows[at].place == one.place;
      });
      if (!known)
        found(Kind::altered, row.scope,
              fmt::format("the write \"{}\" was acknowledged with the number {} and has another",
                          id, *one.place),
              {i});
    }
    // F2: what had been acknowledged before the write began.
    const Shut::Event higher = shut(row.scope).before(history_[maker].invoked);
    if (higher.term > row.term)
      found(Kind::seal, row.scope,
            fmt::format("the write \"{}\" of term {} committed although it began after term {} had "
                        "been acknowledged",
                        id, row.term, higher.term),
            {higher.by, maker});
  }

  std::vector<std::size_t> acknowledged_ones(const Write& write) const {
    std::vector<std::size_t> those;
    std::copy_if(write.sent.begin(), write.sent.end(), std::back_inserter(those),
                 [&](std::size_t i) { return history_[i].outcome == Outcome::committed; });
    return those;
  }

  void judge_raises() {
    std::map<std::pair<std::string_view, std::int64_t>, std::size_t> issued;
    for (std::size_t i = 0; i < history_.size(); ++i) {
      const Operation& one = history_[i];
      if (one.kind == Operation::Kind::raise && one.outcome != Outcome::unknown &&
          one.answered != Moment::max() && one.answered - one.invoked > one.within) {
        const auto ms = [](Moment time) {
          return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
        };
        found(Kind::held_up, one.scope,
              fmt::format("a raise was answered after {} ms, and had to be within {} ms",
                          ms(one.answered - one.invoked), ms(one.within)),
              {i});
      }
      if (one.kind != Operation::Kind::raise || one.outcome != Outcome::committed) continue;
      const Shut::Event higher = shut(one.scope).before(one.invoked);
      if (!one.acquisition) {
        if (higher.term > one.term)
          found(Kind::seal, one.scope,
                fmt::format("the term {} was sealed although {} had been acknowledged before",
                            one.term, higher.term),
                {higher.by, i});
        continue;
      }
      // An acquisition must issue a term above all that were acknowledged before; a seal may repeat
      // the highest one.
      if (higher.term >= one.term)
        found(Kind::issued_twice, one.scope,
              fmt::format("the term {} was issued although {} had been acknowledged before",
                          one.term, higher.term),
              {higher.by, i});
      const auto [before, fresh] = issued.try_emplace({one.scope, one.term}, i);
      if (!fresh)
        found(Kind::issued_twice, one.scope, fmt::format("the term {} was issued twice", one.term),
              {before->second, i});
    }
  }

  void judge_looks() {
    for (std::size_t i = 0; i < history_.size(); ++i) {
      const Operation& one = history_[i];
      if (one.kind != Operation::Kind::look || one.outcome != Outcome::committed) continue;
      const Shut::Event higher = shut(one.scope).before(one.invoked);
      if (higher.term > one.term)
        found(Kind::lowered, one.scope,
              fmt::format("the fence was seen at {} although {} had been acknowledged before",
                          one.term, higher.term),
              {higher.by, i});
    }
  }

  void judge_fences() {
    for (const auto& [scope, shut] : shut_) {
      const Shut::Event highest = shut.highest();
      const auto fence = state_.fences.find(scope);
      const std::int64_t stands = fence == state_.fences.end() ? 0 : fence->second;
      if (stands < highest.term)
        found(Kind::lowered, scope,
              fmt::format("the fence stands at {} at the end although {} was acknowledged", stands,
                          highest.term),
              {highest.by});
    }
    for (const Row& row : state_.rows) {
      const auto fence = state_.fences.find(row.scope);
      const std::int64_t stands = fence == state_.fences.end() ? 0 : fence->second;
      if (stands >= row.term) continue;
      const auto write = writes_.find(row.id);
      found(
          Kind::lowered, row.scope,
          fmt::format("the fence stands at {} at the end below a row of term {}", stands, row.term),
          write == writes_.end() ? std::vector<std::size_t>{} : write->second.sent);
    }
  }

  void judge_sequences() {
    std::map<std::string_view, std::vector<const Row*>> sequences;
    for (const Row& row : state_.rows) {
      if (!row.sequence.empty() && row.place) sequences[row.sequence].push_back(&row);
    }
    for (auto& [name, rows] : sequences) {
      std::stable_sort(rows.begin(), rows.end(),
                       [](const Row* a, const Row* b) { return *a->place < *b->place; });
      // For each scope: its terms must never decrease in commit order.
      std::unordered_map<std::string_view, const Row*> highest;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const Row& row = *rows[i];
        if (i > 0 && *rows[i - 1]->place == *row.place)
          found(Kind::numbering, row.scope,
                fmt::format("the number {} of \"{}\" is there twice", *row.place, name),
                sent_with(*rows[i - 1], row));
        else if (i > 0 && !row.gaps && *rows[i - 1]->place + 1 != *row.place)
          found(Kind::numbering, row.scope,
                fmt::format("\"{}\" has nothing between the numbers {} and {}", name,
                            *rows[i - 1]->place, *row.place),
                sent_with(*rows[i - 1], row));
        const Row*& top = highest[row.scope];
        if (top != nullptr && top->term > row.term)
          found(Kind::order, row.scope,
                fmt::format("in \"{}\" number {} has term {} after number {} with term {}", name,
                            *row.place, row.term, *top->place, top->term),
                sent_with(*top, row));
        else top = &row;
      }
    }
  }

  std::vector<std::size_t> sent_with(const Row& a, const Row& b) const {
    std::vector<std::size_t> those;
    for (const Row* row : {&a, &b}) {
      const auto write = writes_.find(row->id);
      if (write == writes_.end()) continue;
      for (const std::size_t i : write->second.sent) {
        if (history_[i].term == row->term) those.push_back(i);
      }
    }
    return those;
  }

  const std::vector<Operation>& history_;
  const State& state_;
  const std::size_t breaches_max_;
  Verdict verdict_;
  std::map<std::string_view, Write> writes_;  // views into the history
  std::map<std::string, Shut, std::less<>> shut_;
};

std::string what(const Operation& one) {
  switch (one.kind) {
    case Operation::Kind::write: return fmt::format("writes \"{}\" with term {}", one.id, one.term);
    case Operation::Kind::raise:
      return fmt::format(fmt::runtime(one.acquisition ? "acquires term {}" : "seals term {}"),
                         one.term);
    case Operation::Kind::look: return fmt::format("sees the fence at {}", one.term);
  }
  return {};
}

const char* ended(Outcome outcome) {
  switch (outcome) {
    case Outcome::committed: return "acknowledged";
    case Outcome::refused: return "refused";
    case Outcome::unknown: return "no answer";
  }
  return "";
}

}  // namespace

Verdict check(const std::vector<Operation>& history, const State& state, std::size_t breaches_max) {
  return Judge(history, state, breaches_max).judge();
}

const char* guarantee_of(Breach::Kind kind) noexcept {
  switch (kind) {
    case Kind::order: return "F1";
    case Kind::seal: return "F2";
    case Kind::lowered:
    case Kind::issued_twice: return "F3";
    case Kind::held_up: return "F4";
    case Kind::torn:
    case Kind::lost:
    case Kind::leaked:
    case Kind::twice:
    case Kind::altered:
    case Kind::foreign:
    case Kind::numbering: return "F5";
  }
  return "";
}

const char* name_of(Breach::Kind kind) noexcept {
  switch (kind) {
    case Kind::order: return "order";
    case Kind::seal: return "seal";
    case Kind::lowered: return "lowered";
    case Kind::issued_twice: return "issued twice";
    case Kind::held_up: return "held up";
    case Kind::torn: return "torn";
    case Kind::lost: return "lost";
    case Kind::leaked: return "leaked";
    case Kind::twice: return "twice";
    case Kind::altered: return "altered";
    case Kind::foreign: return "foreign";
    case Kind::numbering: return "numbering";
  }
  return "";
}

std::string describe(const Breach& breach, const std::vector<Operation>& history) {
  std::string text = fmt::format("{} {}, scope \"{}\": {}\n", guarantee_of(breach.kind),
                                 name_of(breach.kind), breach.scope, breach.text);
  if (breach.operations.empty()) return text;
  const Moment from = history[breach.operations.front()].invoked;
  const auto ms = [&](Moment when) {
    return std::chrono::duration<double, std::milli>(when - from).count();
  };
  for (const std::size_t i : breach.operations) {
    const Operation& one = history[i];
    const std::string until =
        one.answered == Moment::max() ? "…" : fmt::format("{:.3f}", ms(one.answered));
    text += fmt::format("  {:>10.3f} to {:>10} ms  {}  {}: {}\n", ms(one.invoked), until,
                        one.client.empty() ? "-" : one.client, what(one), ended(one.outcome));
  }
  return text;
}

}  // namespace testkit
}  // namespace v0
}  // namespace termgate
