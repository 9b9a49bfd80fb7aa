// The protocol's messages: JSON to structs, and results to JSON. Hrana 1, 2 and 3 know different
// messages, but a message looks the same in each. So one parser serves all versions, and accepts a
// newer version's messages in an older one.
//
// Absent and null are the same; unknown fields are ignored; of a key that comes twice the last
// value counts. Every read_… throws Failure (400, PROTOCOL_ERROR or REQUEST_TOO_LARGE) with the
// place in the document: "requests[3].stmt.args[0].value is no integer".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "budget.hpp"
#include "port.hpp"

namespace termgate::hrana {

enum class Version : std::uint8_t { hrana1 = 1, hrana2 = 2, hrana3 = 3 };

struct Sql {
  std::string text;
  std::optional<std::int32_t> id;  // of a stored text, which is used in place of `text`
};
struct Stmt {
  Sql sql;
  std::vector<Value> args;
  std::vector<std::pair<std::string, Value>> named_args;
  bool want_rows = true;
};
struct Condition {
  enum class Kind : std::uint8_t { ok, error, no, all, any, is_autocommit };
  Kind kind = Kind::ok;
  std::size_t step = 0;          // for ok and error: a step before the condition's own
  std::vector<Condition> inner;  // for no: one; for all and any: any number
};
struct Step {
  std::optional<Condition> condition;
  Stmt stmt;
};
struct Batch {
  std::vector<Step> steps;
};

struct Execute {
  Stmt stmt;
};
struct Sequence {
  Sql sql;
};
struct Describe {
  Sql sql;
};
struct StoreSql {
  std::int32_t id = 0;
  std::string text;
};
struct CloseSql {
  std::int32_t id = 0;
};
struct GetAutocommit {};
struct Close {};
using Request =
    std::variant<Execute, Batch, Sequence, Describe, StoreSql, CloseSql, GetAutocommit, Close>;

struct Pipeline {
  std::optional<std::string> baton;
  std::vector<Request> requests;
};
struct CursorCall {
  std::optional<std::string> baton;
  Batch batch;
};

// The messages of a WebSocket.
struct Hello {
  std::optional<std::string> token;
};
struct OpenStream {
  std::int32_t stream = 0;
};
struct CloseStream {
  std::int32_t stream = 0;
};
struct OnStream {  // execute, batch, sequence, describe, get_autocommit
  std::int32_t stream = 0;
  Request request;
};
struct OpenCursor {
  std::int32_t stream = 0, cursor = 0;
  Batch batch;
};
struct FetchCursor {
  std::int32_t cursor = 0;
  std::size_t count_max = 0;
};
struct CloseCursor {
  std::int32_t cursor = 0;
};
struct SocketRequest {
  std::int32_t id = 0;
  std::variant<OpenStream, CloseStream, OnStream, StoreSql, CloseSql, OpenCursor, FetchCursor,
               CloseCursor>
      what;
};
using SocketMessage = std::variant<Hello, SocketRequest>;

// `charge` grows by the document's memory, and must be held while the result is used. Throws
// Failure 503 if the budget is used up.
Pipeline read_pipeline(std::string_view json, Charge& charge);
CursorCall read_cursor(std::string_view json, Charge& charge);
SocketMessage read_socket_message(std::string_view json, Charge& charge);
Execute read_v1_execute(std::string_view json, Charge& charge);
Batch read_v1_batch(std::string_view json, Charge& charge);
// {"statements": ["SELECT 1", {"q": "SELECT ?", "params": [1]}, {"q": "SELECT :a", "params": {"a":
// {"base64": "AQI"}}}]}
std::vector<Stmt> read_v0(std::string_view json, Charge& charge);

// [{"name":"a","decltype":null}, …]
void append_columns(std::string& out, std::span<const Column> columns);
void append_row(std::string& out, std::span<const ValueView> values);
// {"message":…,"code":…}, with extended_code and offset if known. The message is cut at
// message_bytes_max.
void append_error(std::string& out, const Refused& error);
void append_error(std::string& out, std::string_view code, std::string_view message);
void append_description(std::string& out, const Description& description);
// How "last_insert_rowid" is written: as the text "7" or as a number. It is null if nothing was
// inserted.
enum class RowidForm : std::uint8_t { text, number };
void append_counts(std::string& out, const Outcome& outcome, RowidForm form);

}  // namespace termgate::hrana
