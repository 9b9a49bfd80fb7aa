#include "connection.hpp"

#include <poll.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/text/fnv.hpp>
#include <termgate/text/hex.hpp>

#include "statement_text.hpp"

namespace termgate {
inline namespace v0 {
namespace detail {
namespace {

// Type OIDs of result columns that are converted from text (pg_type.dat; they never change).
constexpr Oid oid_bool = 16, oid_bytea = 17, oid_int8 = 20, oid_int2 = 21, oid_int4 = 23,
              oid_oid = 26, oid_float4 = 700, oid_float8 = 701;

constexpr std::size_t prepared_max =
    256;  // statements that one connection remembers; further ones are never prepared

constexpr std::chrono::milliseconds just_now{5};  // see looks_alive()

constexpr std::size_t binary_from = std::size_t{1} << 20;

std::string hex_bytea(std::string_view bytes) {
  std::string text = "\\x";
  text::append_hex(text, bytes);
  return text;
}

// Accepts both forms of bytea_output, which a role, a database or a pooler may have set.
std::string bytes_of(std::string_view text) {
  std::string bytes;
  if (text.starts_with("\\x")) {
    bytes.resize(text.size() / 2 - 1);
    const char* from = text.data() + 2;
    for (char& byte : bytes) {
      byte = static_cast<char>(text::hex_value(from[0]) * 16 + text::hex_value(from[1]));
      from += 2;
    }
    return bytes;
  }
  bytes.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      bytes += text[at];
    } else if (at + 1 < text.size() && text[at + 1] == '\\') {
      bytes += text[++at];
    } else {
      if (at + 3 >= text.size()) throw DatabaseError("the server sent a bytea that is cut off");
      bytes += static_cast<char>((text[at + 1] - '0') * 64 + (text[at + 2] - '0') * 8 +
                                 (text[at + 3] - '0'));
      at += 3;
    }
  }
  return bytes;
}

// PostgreSQL's text form of an array. `text` appends one element and must quote it, so that no
// value can be read as NULL; an unquoted NULL is a null element.
template <class Range, class Text>
std::string array_literal(const Range& items, std::size_t bytes, Text text) {
  std::string literal;
  literal.reserve(bytes);
  literal += '{';
  for (const auto& item : items) {
    if (literal.size() > 1) literal += ',';
    text(literal, item);
  }
  literal += '}';
  return literal;
}

void append_quoted(std::string& literal, std::string_view text) {
  literal += '"';
  for (const char character : text) {
    if (character == '"' || character == '\\') literal += '\\';
    literal += character;
  }
  literal += '"';
}

// The text form of one parameter; none for NULL.
std::optional<std::string> parameter_text(const Value& value) {
  struct {
    std::optional<std::string> operator()(std::monostate) const { return std::nullopt; }
    std::optional<std::string> operator()(bool held) const { return held ? "true" : "false"; }
    std::optional<std::string> operator()(std::int64_t held) const { return std::to_string(held); }
    std::optional<std::string> operator()(double held) const { return fmt::format("{}", held); }
    std::optional<std::string> operator()(const std::string& held) const {
      if (held.find('\0') != std::string::npos)
        throw InvalidInput("TG005 malformed text: PostgreSQL takes no NUL in text; use Bytes");
      return held;
    }
    std::optional<std::string> operator()(const Bytes& held) const { return hex_bytea(held.data); }
    std::optional<std::string> operator()(const BytesView& held) const {
      return hex_bytea(held.data);
    }
    std::optional<std::string> operator()(const BytesArray& held) const {
      return (*this)(BytesArrayView{held});
    }
    std::optional<std::string> operator()(const BytesArrayView& held) const {
      std::size_t bytes = 2;
      for (const std::string& item : held.items) bytes += 2 * item.size() + 6;
      return array_literal(held.items, bytes, [](std::string& literal, const std::string& item) {
        literal += "\"\\\\x";  // the backslash of \x is escaped inside the quotes
        text::append_hex(literal, item);
        literal += '"';
      });
    }
    std::optional<std::string> operator()(const TextArray& held) const {
      return array_literal(held, 0,
                           [](std::string& literal, const std::optional<std::string>& item) {
                             if (item) append_quoted(literal, *item);
                             else literal += "NULL";
                           });
    }
  } to_text;
  return std::visit(to_text, value.variant());
}

// A statement's values in libpq's form. Borrows large payloads.
class Parameters {
 public:
  explicit Parameters(std::span<const Value> values) {
    if (values.size() > 65535)
      throw InvalidInput(fmt::format("TG005 {} values: a statement takes 65535", values.size()));
    texts_.reserve(values.size());  // no reallocation, so that pointers into it stay valid
    for (const Value& value : values) {
      // A large payload is sent in binary: as text it would be twice as long, and copied three
      // times. A view is for a parameter of type bytea.
      const auto* view = std::get_if<BytesView>(&value.variant());
      const bool binary = view != nullptr && view->data.size() > binary_from;
      if (!binary) texts_.push_back(parameter_text(value));
      const std::string* text = binary || !texts_.back() ? nullptr : &*texts_.back();
      const std::size_t length = binary ? view->data.size() : text != nullptr ? text->size() : 0;
      if (length > std::numeric_limits<int>::max())
        throw InvalidInput(fmt::format("TG005 a value of {} bytes is too long", length));
      values_.push_back(binary ? view->data.data() : text != nullptr ? text->c_str() : nullptr);
      lengths_.push_back(static_cast<int>(length));
      formats_.push_back(binary);
    }
  }
  bool send(PGconn* session, const std::string& sql) const {
    return PQsendQueryParams(session, sql.c_str(), count(), nullptr, values_.data(),
                             lengths_.data(), formats_.data(), 0) == 1;
  }
  bool send_prepared(PGconn* session, const std::string& name) const {
    return PQsendQueryPrepared(session, name.c_str(), count(), values_.data(), lengths_.data(),
                               formats_.data(), 0) == 1;
  }

 private:
  int count() const { return static_cast<int>(values_.size()); }

  std::vector<std::optional<std::string>> texts_;
  std::vector<const char*> values_;
  std::vector<int> lengths_, formats_;
};

template <class Number>
Number number(std::string_view text) {
  Number result{};
  if (std::from_chars(text.data(), text.data() + text.size(), result).ec != std::errc{})
    throw DatabaseError(fmt::format("the server sent a number that is none: {}", text));
  return result;
}

Value value_of(std::string_view text, Oid type) {
  switch (type) {
    case oid_bool: return Value(text == "t");
    case oid_int2:
    case oid_int4:
    case oid_int8:
    case oid_oid: return Value(number<std::int64_t>(text));
    case oid_float4:
    case oid_float8: return Value(number<double>(text));
    case oid_bytea: return Value(Bytes{bytes_of(text)});
    default: return Value(text);
  }
}

}  // namespace

Connection::Connection(const std::string& conninfo) : session_(PQconnectdb(conninfo.c_str())) {
  if (!session_) throw std::bad_alloc();
  if (!is_open()) throw ServerFailure("08006", PQerrorMessage(session_.get()));
  PQsetNoticeReceiver(
      session_.get(), [](void*, const PGresult*) {}, nullptr);
}

void Connection::fail(const Statement* statement, const PGresult* result) const {
  const char* code = result != nullptr ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : nullptr;
  const std::string sqlstate(text(code));
  // For a wrong number of values the server uses a code from the class of lost connections.
  if (sqlstate == "08P01" && statement != nullptr && is_open()) {
    const std::size_t wanted = highest_parameter(statement->sql),
                      given = statement->parameters.size();
    if (wanted != given)
      throw InvalidInput(fmt::format(
          "TG005 the statement has {} parameters and {} values were given", wanted, given));
  }
  throw ServerFailure(
      sqlstate, result != nullptr ? PQresultErrorMessage(result) : PQerrorMessage(session_.get()));
}

void Connection::prepare(std::string_view sql) {
  const auto found = seen_.find(sql);
  if (found == seen_.end()) {
    if (seen_.size() < prepared_max) seen_.emplace(std::string(sql), std::string());
    return;
  }
  if (!found->second.empty()) return;
  // Named by the statement's text: through a pooler that shares sessions, a counter in the name
  // could call another program's statement.
  const std::string name = fmt::format("termgate_{:016x}", text::fnv1a(sql));
  const Result result(PQprepare(session_.get(), name.c_str(), found->first.c_str(), 0, nullptr));
  if (PQresultStatus(result.get()) != PGRES_COMMAND_OK) fail(nullptr, result.get());
  found->second = name;
}

// The name under which the statement is prepared; null: it is not prepared.
const std::string* Connection::prepared(std::string_view sql) const {
  const auto found = seen_.find(sql);
  return found == seen_.end() || found->second.empty() ? nullptr : &found->second;
}

Rows Connection::rows_of(Result result, const Statement* statement) {
  switch (PQresultStatus(result.get())) {
    case PGRES_TUPLES_OK:
    case PGRES_COMMAND_OK:
    case PGRES_EMPTY_QUERY: break;
    case PGRES_COPY_IN:
    case PGRES_COPY_OUT:
    case PGRES_COPY_BOTH:
      given_up_ = true;
      throw InvalidInput(
          "TG005 COPY from or to the client is not taken here: the connection was closed; use COPY "
          "with a file, or INSERT");
    default: fail(statement, result.get());
  }
  answered_ = std::chrono::steady_clock::now();
  Rows rows;
  const int columns = PQnfields(result.get()), count = PQntuples(result.get());
  std::vector<Oid> types;
  for (int column = 0; column < columns; ++column) {
    rows.columns.emplace_back(PQfname(result.get(), column));
    types.push_back(PQftype(result.get(), column));
  }
  rows.affected = std::strtoll(PQcmdTuples(result.get()), nullptr, 10);  // empty: 0
  rows.rows.reserve(static_cast<std::size_t>(count));
  for (int row = 0; row < count; ++row) {
    Row converted;
    converted.reserve(types.size());
    for (int column = 0; column < columns; ++column) {
      if (PQgetisnull(result.get(), row, column)) {
        converted.emplace_back();
      } else {
        const auto length = static_cast<std::size_t>(PQgetlength(result.get(), row, column));
        converted.push_back(value_of({PQgetvalue(result.get(), row, column), length},
                                     types[static_cast<std::size_t>(column)]));
      }
    }
    rows.rows.push_back(std::move(converted));
  }
  return rows;
}

// The connection is in pipeline mode while this lives. If an answer is missing at the end, the
// connection is closed.
class Connection::Sent {
 public:
  explicit Sent(Connection& connection) : connection_(connection) {
    if (PQenterPipelineMode(session()) != 1) connection_.fail();
  }
  ~Sent() {
    if (PQexitPipelineMode(session()) != 1) connection_.given_up_ = true;
  }
  Sent(const Sent&) = delete;
  Sent& operator=(const Sent&) = delete;

  void sync() {
    if (PQpipelineSync(session()) != 1) connection_.fail();
  }
  // The next result; null at the end of each statement's results.
  Result next() { return Result(PQgetResult(session())); }

 private:
  PGconn* session() const { return connection_.session_.get(); }
  Connection& connection_;
};

std::vector<Rows> Connection::run_all(std::span<const Statement> statements) {
  std::vector<Parameters> parameters;
  std::vector<const std::string*> names;
  for (const Statement& statement : statements) {
    parameters.emplace_back(statement.parameters);
    names.push_back(prepared(statement.sql));
  }
  std::vector<Rows> all;
  Result failed;
  std::size_t failed_at = 0;
  {
    Sent sent(*this);
    for (std::size_t i = 0; i < statements.size(); ++i) {
      const bool went = names[i] != nullptr
                            ? parameters[i].send_prepared(session_.get(), *names[i])
                            : parameters[i].send(session_.get(), std::string(statements[i].sql));
      if (!went) fail();
    }
    sent.sync();
    // After an error the other statements are "aborted". All of them must be answered before the
    // connection can be used again.
    for (bool synced = false, ended = false; !synced;) {
      Result result = sent.next();
      if (!result) {
        // Two nulls in a row: nothing is left to read, and the answer to Sync never came.
        if (ended || !is_open()) {
          given_up_ = true;
          break;
        }
        ended = true;
        continue;
      }
      ended = false;
      switch (PQresultStatus(result.get())) {
        case PGRES_PIPELINE_SYNC: synced = true; break;
        case PGRES_PIPELINE_ABORTED: break;
        case PGRES_TUPLES_OK:
        case PGRES_COMMAND_OK:
        case PGRES_EMPTY_QUERY: all.push_back(rows_of(std::move(result), nullptr)); break;
        case PGRES_COPY_IN:
        case PGRES_COPY_OUT:
        case PGRES_COPY_BOTH: rows_of(std::move(result), nullptr); break;  // throws
        default:
          if (!failed) {
            failed = std::move(result);
            failed_at = std::min(all.size(), statements.size() - 1);
          }
          if (!is_open()) synced = true;
      }
    }
  }
  if (failed) fail(&statements[failed_at], failed.get());
  if (all.size() != statements.size())
    throw ServerFailure("08006", "the server did not answer all that was sent");
  return all;
}

Rows Connection::run(const Statement& statement) {
  const Parameters parameters(statement.parameters);
  const std::string* name = prepared(statement.sql);
  const bool went = name != nullptr ? parameters.send_prepared(session_.get(), *name)
                                    : parameters.send(session_.get(), std::string(statement.sql));
  if (!went) fail();
  Result last;
  while (Result next{PQgetResult(session_.get())}) {
    last = std::move(next);
    const auto status = PQresultStatus(last.get());
    if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH) break;
  }
  if (!last) fail();
  return rows_of(std::move(last), &statement);
}

Rows Connection::run_script(const std::string& sql) {
  Result result(PQexec(session_.get(), sql.c_str()));
  if (!result) fail();
  return rows_of(std::move(result), nullptr);
}

bool Connection::has_nothing_to_read() const {
  pollfd descriptor{socket(), POLLIN, 0};
  return is_open() && poll(&descriptor, 1, 0) == 0;
}

bool Connection::looks_alive() const {
  return std::chrono::steady_clock::now() - answered_ < just_now ? is_open()
                                                                 : has_nothing_to_read();
}

void Connection::expect_alive() {
  // One read returns the server's last message, and another one the end of the connection.
  for (int reads = 0; reads < 100 && !has_nothing_to_read(); ++reads) {
    if (PQconsumeInput(session_.get()) != 1 || !is_open())
      throw ServerFailure("08006", PQerrorMessage(session_.get()));
  }
}

std::vector<std::string> Connection::notified() {
  std::vector<std::string> payloads;
  if (PQconsumeInput(session_.get()) != 1 || !is_open())
    throw ServerFailure("08006", PQerrorMessage(session_.get()));
  struct Free {
    void operator()(PGnotify* one) const { PQfreemem(one); }
  };
  while (const std::unique_ptr<PGnotify, Free> one{PQnotifies(session_.get())})
    payloads.emplace_back(one->extra);
  return payloads;
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
