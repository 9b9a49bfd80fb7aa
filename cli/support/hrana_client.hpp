// A client of the proxy in front of an SQLite file: statements in Hrana 2's pipelines, over one HTTP connection that is kept. `termgate
// sql` uses it. It is the plainest client there is: one statement a request, and no statement is ever sent twice.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <boost/json.hpp>

#include <termgate/sources/connection.hpp>

namespace termgate::cli {

struct HranaBlob {
  std::string bytes;
  bool operator==(const HranaBlob&) const = default;
};
using HranaValue = std::variant<std::monostate, std::int64_t, double, std::string, HranaBlob>;

struct HranaRows {
  std::vector<std::string> columns;
  std::vector<std::vector<HranaValue>> rows;
  std::int64_t affected = 0;
  std::optional<std::int64_t> last_insert_rowid;
};

// One stream of the server's. One thread at a time.
class HranaClient {
 public:
  static constexpr std::size_t answer_bytes_max = 80 * 1024 * 1024;  // the server's 64 MiB, and what JSON adds to them

  struct Options {
    std::string url = {};      // http://HOST[:PORT] or https://; libsql:// is https://
    std::string token = {};    // empty: none
    std::string scope = {};    // with term, or neither
    std::int64_t term = 0;     // 0: none is sent
    std::string ca_file = {};  // of https://; empty: the system's
    std::chrono::milliseconds timeout{30'000};
  };
  // Connects with the first statement. Throws InvalidInput for a URL that is none, or a file that cannot be read.
  explicit HranaClient(Options options);
  ~HranaClient();  // close()
  HranaClient(const HranaClient&) = delete;
  HranaClient& operator=(const HranaClient&) = delete;

  // One statement; its parameters by position. A statement that failed throws the type of its TG code (docs/reference/errors.md), Conflict
  // for SQLITE_BUSY, DatabaseError with SQLite's code for the rest. A transaction stays open then, unless open() says no.
  // Unavailable: nothing of it was done. OutcomeUnknown: no answer came, and the statement may have committed.
  HranaRows execute(const std::string& sql, const std::vector<HranaValue>& parameters = {});

  // Whether the server keeps something of this stream: a transaction, or a setting.
  bool open() const noexcept { return !baton_.empty(); }
  // Ends the stream, and so rolls back what is open. Never throws: if the request does not arrive, the server ends the stream by itself.
  void close() noexcept;

 private:
  struct Answer {
    unsigned status;
    boost::json::value body;
  };
  boost::json::value pipeline(boost::json::object request, bool may_commit, std::chrono::milliseconds timeout);
  Answer post(const std::string& body, bool may_commit, std::chrono::milliseconds timeout);

  const Options options_;
  const std::string host_;  // with its port, as it is in the URL
  sources::Connection connection_;
  std::chrono::steady_clock::time_point used_{};
  std::string baton_;  // empty: the server keeps nothing
};

}  // namespace termgate::cli
