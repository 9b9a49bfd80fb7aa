// A client for the proxy in front of an SQLite file, used by `termgate sql`. It sends statements in
// Hrana 2 pipelines over one HTTP connection. It is as simple as possible: one statement a request,
// and no statement is ever sent twice.
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

// One stream of the server. One thread at a time.
class HranaClient {
 public:
  // The server's limit of 64 MiB, with room for JSON's escapes.
  static constexpr std::size_t answer_bytes_max = 80 * 1024 * 1024;

  struct Options {
    std::string url = {};      // http://HOST[:PORT] or https://; libsql:// is https://
    std::string token = {};    // empty: none
    std::string scope = {};    // either with `term`, or empty
    std::int64_t term = 0;     // 0: none is sent
    std::string ca_file = {};  // used for https://; empty: the system's certificates
    std::chrono::milliseconds timeout{30'000};
  };
  // Connects at the first statement. Throws InvalidInput if the URL is not valid or the CA file
  // cannot be read.
  explicit HranaClient(Options options);
  ~HranaClient();  // calls close()
  HranaClient(const HranaClient&) = delete;
  HranaClient& operator=(const HranaClient&) = delete;

  // Executes one statement; parameters are by position. A statement that fails throws the type of
  // its TG code (docs/reference/errors.md), Conflict for SQLITE_BUSY, otherwise DatabaseError with
  // SQLite's code. An open transaction stays open then, unless open() returns false. Unavailable
  // means that nothing was kept: the statement did not run, or its transaction is rolled back.
  // OutcomeUnknown means that no answer came, and the statement may have committed.
  HranaRows execute(const std::string& sql, const std::vector<HranaValue>& parameters = {});

  // Whether the server keeps state for this stream: a transaction or a setting.
  bool open() const noexcept { return !baton_.empty(); }
  // Ends the stream, which rolls back an open transaction. Never throws: if the request does not
  // arrive, the server ends the stream by itself.
  void close() noexcept;

 private:
  struct Answer {
    unsigned status;
    boost::json::value body;
  };
  boost::json::value pipeline(boost::json::object request, bool may_commit,
                              std::chrono::milliseconds timeout);
  Answer post(const std::string& body, bool may_commit, std::chrono::milliseconds timeout);

  const Options options_;
  const std::string host_;  // host and port, as in the URL
  sources::Connection connection_;
  std::chrono::steady_clock::time_point used_{};
  std::string baton_;  // Hrana's name of the stream on the server; empty: it keeps none
};

}  // namespace termgate::cli
