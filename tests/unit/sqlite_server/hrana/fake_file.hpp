// A file without SQLite, for tests of hrana/: a list of numbers, and a language of a few words.
//
//   BEGIN…, COMMIT, ROLLBACK    as usual                  INSERT 7       appends a number
//   SELECT                      all numbers, one a row    SELECT ?       one row with the arguments
//   FAIL, BUSY, UNKNOWN, BREAK  Refused, Busy, Unknown, a fault          LOSE  the transaction is lost (TG001)
//   BIG 70                      70 rows of 1 KiB          SET, UNSET     a setting
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <termgate/text/fnv.hpp>

#include "hrana/streams.hpp"

namespace termgate::hrana::fake {

struct File {
  std::vector<std::int64_t> numbers;
  int sessions = 0, groups = 0, statements = 0;
  bool may_group = true;
  int lose_after = 0;  // so many calls within a transaction from now it is lost; 0: never
  std::string last_sql;
};

inline ValueView view_of(const Value& value) {
  return std::visit(
      [](const auto& held) -> ValueView {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, Blob>) {
          return BlobView{held.bytes};
        } else {
          return held;
        }
      },
      value);
}

class Session : public FileSession {
 public:
  explicit Session(File& file) : file_(file) { ++file_.sessions; }
  ~Session() override { --file_.sessions; }

  Outcome execute(const Statement& statement, const Permit&, RowSink& rows) override {
    look();
    ++file_.statements;
    file_.last_sql = statement.sql;
    const std::string_view sql = statement.sql;
    if (sql.starts_with("SELECT ?")) return echo(statement, rows);
    if (sql.starts_with("SELECT")) return select(rows);
    if (sql.starts_with("BIG ")) return big(std::stoi(std::string(sql.substr(4))), rows);
    rows.columns({});
    Outcome outcome;
    outcome.milliseconds = 0.25;
    if (sql.starts_with("BEGIN")) {
      if (in_transaction_)
        throw Refused("SQLITE_ERROR", "cannot start a transaction within a transaction");
      in_transaction_ = true;
    } else if (sql == "COMMIT" || sql == "ROLLBACK") {
      if (!in_transaction_) throw Refused("SQLITE_ERROR", "cannot end - no transaction is active");
      end_transaction(sql == "COMMIT");
    } else if (sql.starts_with("INSERT ")) {
      (in_transaction_ ? pending_ : file_.numbers)
          .push_back(std::stoll(std::string(sql.substr(7))));
      outcome.affected_rows = 1;
      outcome.rows_written = 1;
      outcome.last_insert_rowid = static_cast<std::int64_t>(file_.numbers.size() + pending_.size());
    } else {
      other(sql);
    }
    return outcome;
  }
  void sequence(std::string_view sql, const Permit& permit) override {
    while (!sql.empty()) {
      const std::size_t end = std::min(sql.find(';'), sql.size());
      NoRows rows;
      static_cast<void>(execute({sql.substr(0, end), {}, {}, false}, permit, rows));
      sql.remove_prefix(std::min(end + 1, sql.size()));
    }
  }
  Description describe(std::string_view sql, const Permit&) override {
    if (sql == "FAIL") throw Refused("SQL_INPUT_ERROR", "no");
    return {{{":a"}, {std::nullopt}}, {{"n", "INTEGER"}}, false, sql.starts_with("SELECT")};
  }
  bool is_autocommit() const override {
    const_cast<Session*>(this)->look();
    return !in_transaction_;
  }
  bool keeps_settings() const override { return has_setting_; }
  bool together(std::span<const std::string_view> texts, const Permit&,
                const std::function<void()>& work) override {
    if (!file_.may_group || texts.size() < 2) return false;
    ++file_.groups;
    work();
    return true;
  }
  void end(const Lost* why) noexcept override {
    end_transaction(false);
    has_setting_ = false;
    if (why != nullptr) lost_ = *why;
  }
  void answered() noexcept override {}
  void heard() noexcept override {}

 private:
  struct NoRows : RowSink {
    void columns(std::span<const Column>) override {}
    void row(std::span<const ValueView>) override {}
  };

  void look() {
    if (in_transaction_ && file_.lose_after > 0 && --file_.lose_after == 0) lose();
    if (lost_) throw *lost_;
  }
  void lose() {
    end_transaction(false);
    lost_ = Lost("TG001", "TG001 stale term 5 for scope \"billing\": the fence stands at 6");
  }
  void end_transaction(bool keep) {
    if (keep) file_.numbers.insert(file_.numbers.end(), pending_.begin(), pending_.end());
    pending_.clear();
    in_transaction_ = false;
  }
  void other(std::string_view sql) {
    if (sql == "FAIL")
      throw Refused("SQLITE_CONSTRAINT", "UNIQUE constraint failed: t.id",
                    "SQLITE_CONSTRAINT_UNIQUE");
    if (sql == "BUSY") throw Busy("SERVER_BUSY 512 writers wait already; send it again later");
    if (sql == "UNKNOWN") throw Unknown("OUTCOME_UNKNOWN the flush failed; ask termgate_outcome()");
    if (sql == "BREAK") throw std::runtime_error("a fault");
    if (sql == "LOSE") lose(), look();
    if (sql != "SET" && sql != "UNSET")
      throw Refused("SQL_INPUT_ERROR", "near \"" + std::string(sql) + "\": syntax error");
    has_setting_ = sql == "SET";
  }
  Outcome echo(const Statement& statement, RowSink& rows) {
    std::vector<Column> columns(statement.positional.size() + statement.named.size(),
                                Column{"v", std::nullopt});
    std::vector<ValueView> values;
    for (const Value& value : statement.positional) values.push_back(view_of(value));
    for (const auto& [name, value] : statement.named) values.push_back(view_of(value));
    rows.columns(columns);
    rows.row(values);
    return {0, {}, 1, 0, 0.25};
  }
  Outcome select(RowSink& rows) {
    rows.columns(std::array{Column{"n", "INTEGER"}});
    for (const auto* numbers : {&file_.numbers, &pending_}) {
      for (const std::int64_t number : *numbers) rows.row(std::array{ValueView{number}});
    }
    return {0, {}, file_.numbers.size() + pending_.size(), 0, 0.25};
  }
  Outcome big(int count, RowSink& rows) {
    const std::string text(1024, 'x');
    rows.columns(std::array{Column{"t", "TEXT"}});
    for (int at = 0; at < count; ++at) rows.row(std::array{ValueView{std::string_view(text)}});
    return {};
  }

  File& file_;
  std::vector<std::int64_t> pending_;
  bool in_transaction_ = false, has_setting_ = false;
  std::optional<Lost> lost_;
};

// No HMAC: enough that another text has another seal.
inline std::array<std::uint8_t, 16> seal(std::string_view sealed) {
  std::array<std::uint8_t, 16> sum{};
  const std::uint64_t hash = text::fnv1a(sealed);
  for (std::size_t at = 0; at < sum.size(); ++at)
    sum[at] = static_cast<std::uint8_t>(hash >> (at % 8 * 8));
  return sum;
}

// A server without a network: the file, the streams and a clock that moves when it is moved.
struct Server {
  File file;
  Moment now{};
  Streams streams;

  explicit Server(std::size_t records_max = 100,
                  std::size_t answer_bytes_max = std::size_t{64} << 10,
                  std::size_t memory_bytes_max = 1 << 24)
      : streams(StreamSettings{[this] { return std::make_unique<Session>(file); }, seal,
                               [this] { return now; }, records_max, answer_bytes_max,
                               memory_bytes_max}) {}
};

}  // namespace termgate::hrana::fake
