#include "messages.hpp"

#include <charconv>
#include <cstdio>
#include <limits>

#include <fmt/format.h>

#include "failure.hpp"
#include "json.hpp"
#include "limits.hpp"
#include "values.hpp"

namespace termgate::hrana {

namespace {

std::int64_t read_integer(const Node& node) {
  if (node.json().is_int64()) return node.integer();
  if (!node.json().is_string()) node.fail("is no integer of 64 bits");
  const std::string_view text = node.text();
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size())
    node.fail("is no integer of 64 bits");
  return number;
}

Blob read_blob(const Node& node) {
  auto bytes = base64_bytes(node.text());
  if (!bytes) node.fail("is no base64");
  return Blob{std::move(*bytes)};
}

Value read_value(const Node& node) {
  const Node type = node.at("type");
  const std::string_view name = type.text();
  if (name == "null") return std::monostate();
  if (name == "integer") return read_integer(node.at("value"));
  if (name == "float") return node.at("value").number();
  if (name == "text") return std::string(node.at("value").text());
  if (name == "blob") return read_blob(node.at("base64"));
  type.fail(R"(is none of "null", "integer", "float", "text", "blob")");
}

// v0 has no types: a number without a decimal point is an integer.
Value read_plain_value(const Node& node) {
  const auto& value = node.json();
  if (value.is_null()) return std::monostate();
  if (value.is_bool()) return std::int64_t{node.flag()};
  if (value.is_string()) return std::string(node.text());
  if (value.is_int64()) return node.integer();
  if (value.is_double()) return node.number();
  if (value.is_uint64()) node.fail("is no integer of 64 bits");
  return read_blob(node.at("base64"));
}

Sql read_sql(const Node& node) {
  const auto text = node.find("sql");
  const auto id = node.find("sql_id");
  if (text.has_value() == id.has_value()) node.fail(R"(needs either "sql" or "sql_id")");
  if (id) return Sql{{}, id->id()};
  return Sql{std::string(text->text()), {}};
}

Stmt read_stmt(const Node& node) {
  Stmt stmt{read_sql(node), {}, {}, true};
  if (const auto args = node.find("args")) {
    const std::size_t count = args->size(parameters_max, "parameters");
    stmt.args.reserve(count);
    for (std::size_t index = 0; index < count; ++index)
      stmt.args.push_back(read_value(args->item(index)));
  }
  if (const auto args = node.find("named_args")) {
    const std::size_t count = args->size(parameters_max, "parameters");
    stmt.named_args.reserve(count);
    for (std::size_t index = 0; index < count; ++index) {
      const Node arg = args->item(index);
      stmt.named_args.emplace_back(arg.at("name").text(), read_value(arg.at("value")));
    }
  }
  if (const auto want_rows = node.find("want_rows")) stmt.want_rows = want_rows->flag();
  return stmt;
}

class ConditionReader {
 public:
  // `step`: the number of the step that the condition belongs to.
  explicit ConditionReader(std::size_t step) : step_(step) {}

  Condition read(const Node& node, std::size_t depth = 1) {
    if (depth > condition_depth_max)
      node.too_large(
          fmt::format("is nested deeper than {} (condition depth)", condition_depth_max));
    if (++parts_ > condition_parts_max)
      node.too_large(fmt::format("has more than {} parts (conditions)", condition_parts_max));
    const Node type = node.at("type");
    const std::string_view name = type.text();
    Condition condition;
    if (name == "ok" || name == "error") {
      condition.kind = name == "ok" ? Condition::Kind::ok : Condition::Kind::error;
      condition.step = read_step(node.at("step"));
    } else if (name == "not") {
      condition.kind = Condition::Kind::no;
      condition.inner.push_back(read(node.at("cond"), depth + 1));
    } else if (name == "and" || name == "or") {
      condition.kind = name == "and" ? Condition::Kind::all : Condition::Kind::any;
      const Node conds = node.at("conds");
      const std::size_t count = conds.size(condition_parts_max, "conditions");
      for (std::size_t index = 0; index < count; ++index)
        condition.inner.push_back(read(conds.item(index), depth + 1));
    } else if (name == "is_autocommit") {
      condition.kind = Condition::Kind::is_autocommit;
    } else {
      type.fail(R"(is none of "ok", "error", "not", "and", "or", "is_autocommit")");
    }
    return condition;
  }

 private:
  std::size_t read_step(const Node& node) const {
    const std::int64_t number = node.integer();
    if (number < 0 || static_cast<std::uint64_t>(number) >= step_) node.fail("is no earlier step");
    return static_cast<std::size_t>(number);
  }

  std::size_t step_;
  std::size_t parts_ = 0;
};

Batch read_batch(const Node& node) {
  const Node steps = node.at("steps");
  const std::size_t count = steps.size(requests_max, "steps");
  Batch batch;
  batch.steps.reserve(count);
  for (std::size_t index = 0; index < count; ++index) {
    const Node item = steps.item(index);
    Step step;
    if (const auto condition = item.find("condition"))
      step.condition = ConditionReader(index).read(*condition);
    step.stmt = read_stmt(item.at("stmt"));
    batch.steps.push_back(std::move(step));
  }
  return batch;
}

StoreSql read_store(const Node& node) {
  return {node.at("sql_id").id(), std::string(node.at("sql").text())};
}

// Requests that HTTP and WebSocket share; none: an unknown type.
std::optional<Request> read_shared_request(const Node& node, std::string_view type) {
  if (type == "execute") return Execute{read_stmt(node.at("stmt"))};
  if (type == "batch") return read_batch(node.at("batch"));
  if (type == "sequence") return Sequence{read_sql(node)};
  if (type == "describe") return Describe{read_sql(node)};
  if (type == "get_autocommit") return GetAutocommit{};
  return std::nullopt;
}

Request read_request(const Node& node) {
  const Node type = node.at("type");
  const std::string_view name = type.text();
  if (auto request = read_shared_request(node, name)) return std::move(*request);
  if (name == "close") return Close{};
  if (name == "store_sql") return read_store(node);
  if (name == "close_sql") return CloseSql{node.at("sql_id").id()};
  type.fail(
      R"(is none of "execute", "batch", "sequence", "describe", "store_sql", "close_sql", "get_autocommit", "close")");
}

std::optional<std::string> read_baton(const Node& node) {
  const auto baton = node.find("baton");
  if (!baton) return std::nullopt;
  return std::string(baton->text());
}

SocketRequest read_socket_request(const Node& root) {
  SocketRequest message;
  message.id = root.at("request_id").id();
  const Node node = root.at("request");
  const Node type = node.at("type");
  const std::string_view name = type.text();
  if (name == "open_stream") {
    message.what = OpenStream{node.at("stream_id").id()};
  } else if (name == "close_stream") {
    message.what = CloseStream{node.at("stream_id").id()};
  } else if (name == "store_sql") {
    message.what = read_store(node);
  } else if (name == "close_sql") {
    message.what = CloseSql{node.at("sql_id").id()};
  } else if (name == "open_cursor") {
    message.what = OpenCursor{node.at("stream_id").id(), node.at("cursor_id").id(),
                              read_batch(node.at("batch"))};
  } else if (name == "fetch_cursor") {
    const Node count = node.at("max_count");
    if (count.integer() < 0) count.fail("is negative");
    message.what =
        FetchCursor{node.at("cursor_id").id(), static_cast<std::size_t>(count.integer())};
  } else if (name == "close_cursor") {
    message.what = CloseCursor{node.at("cursor_id").id()};
  } else if (auto request = read_shared_request(node, name)) {
    message.what = OnStream{node.at("stream_id").id(), std::move(*request)};
  } else {
    type.fail("is no request of the protocol");
  }
  return message;
}

Stmt read_v0_statement(const Node& node) {
  Stmt stmt;
  if (node.json().is_string()) {
    stmt.sql.text = node.text();
    return stmt;
  }
  stmt.sql.text = node.at("q").text();
  const auto params = node.find("params");
  if (!params) return stmt;
  if (const auto* named = params->json().if_object()) {
    if (named->size() > parameters_max)
      params->too_large(fmt::format("has more than {} entries (parameters)", parameters_max));
    for (const auto& [name, value] : *named)
      stmt.named_args.emplace_back(name, read_plain_value(params->member(name, value)));
    return stmt;
  }
  const std::size_t count = params->size(parameters_max, "parameters");
  for (std::size_t index = 0; index < count; ++index)
    stmt.args.push_back(read_plain_value(params->item(index)));
  return stmt;
}

void append_optional(std::string& out, const std::optional<std::string>& text) {
  if (text) {
    append_string(out, *text);
  } else {
    out += "null";
  }
}

// At most message_bytes_max bytes of the message, without splitting a character.
std::string_view cut(std::string_view message) {
  if (message.size() <= message_bytes_max) return message;
  std::size_t size = message_bytes_max;
  while (size > 0 && (static_cast<unsigned char>(message[size]) & 0xc0) == 0x80) --size;
  return message.substr(0, size);
}

void begin_error(std::string& out, std::string_view code, std::string_view message) {
  out += R"({"message":)";
  append_string(out, cut(message));
  out += R"(,"code":)";
  append_string(out, code);
}

}  // namespace

Pipeline read_pipeline(std::string_view json, Charge& charge) {
  const Document document(json, charge);
  const Node root = document.root();
  Pipeline pipeline{read_baton(root), {}};
  const Node requests = root.at("requests");
  const std::size_t count = requests.size(requests_max, "requests");
  pipeline.requests.reserve(count);
  for (std::size_t index = 0; index < count; ++index)
    pipeline.requests.push_back(read_request(requests.item(index)));
  return pipeline;
}

CursorCall read_cursor(std::string_view json, Charge& charge) {
  const Document document(json, charge);
  const Node root = document.root();
  return {read_baton(root), read_batch(root.at("batch"))};
}

SocketMessage read_socket_message(std::string_view json, Charge& charge) {
  const Document document(json, charge);
  const Node root = document.root();
  const Node type = root.at("type");
  if (type.text() == "request") return read_socket_request(root);
  if (type.text() != "hello") type.fail(R"(is neither "hello" nor "request")");
  const auto token = root.find("jwt");
  return Hello{token ? std::optional<std::string>(token->text()) : std::nullopt};
}

Execute read_v1_execute(std::string_view json, Charge& charge) {
  const Document document(json, charge);
  const Node root = document.root();
  return {read_stmt(root.at("stmt"))};
}

Batch read_v1_batch(std::string_view json, Charge& charge) {
  const Document document(json, charge);
  const Node root = document.root();
  return read_batch(root.at("batch"));
}

std::vector<Stmt> read_v0(std::string_view json, Charge& charge) {
  const Document document(json, charge);
  const Node root = document.root();
  const Node statements = root.at("statements");
  const std::size_t count = statements.size(requests_max, "statements");
  std::vector<Stmt> read;
  read.reserve(count);
  for (std::size_t index = 0; index < count; ++index)
    read.push_back(read_v0_statement(statements.item(index)));
  return read;
}

std::string failure_body(std::string_view code, std::string_view message) {
  std::string body;
  begin_error(body, code, message);
  body += R"(,"error":)";
  append_string(body, cut(message));
  body += '}';
  return body;
}

void append_columns(std::string& out, std::span<const Column> columns) {
  out += '[';
  for (const Column& column : columns) {
    if (out.back() != '[') out += ',';
    out += R"({"name":)";
    append_string(out, column.name);
    out += R"(,"decltype":)";
    append_optional(out, column.declared_type);
    out += '}';
  }
  out += ']';
}

void append_row(std::string& out, std::span<const ValueView> values) {
  out += '[';
  for (const ValueView& value : values) {
    if (out.back() != '[') out += ',';
    append_value(out, value);
  }
  out += ']';
}

void append_error(std::string& out, const Refused& error) {
  begin_error(out, error.code, error.what());
  if (!error.extended_code.empty()) {
    out += R"(,"extended_code":)";
    append_string(out, error.extended_code);
  }
  if (error.offset) {
    out += R"(,"offset":)";
    append_number(out, static_cast<std::int64_t>(*error.offset));
  }
  out += '}';
}

void append_error(std::string& out, std::string_view code, std::string_view message) {
  begin_error(out, code, message);
  out += '}';
}

void append_description(std::string& out, const Description& description) {
  out += R"({"params":[)";
  for (const Parameter& parameter : description.parameters) {
    if (out.back() != '[') out += ',';
    out += R"({"name":)";
    append_optional(out, parameter.name);
    out += '}';
  }
  out += R"(],"cols":)";
  append_columns(out, description.columns);
  out += description.explains ? R"(,"is_explain":true)" : R"(,"is_explain":false)";
  out += description.read_only ? R"(,"is_readonly":true})" : R"(,"is_readonly":false})";
}

void append_counts(std::string& out, const Outcome& outcome, RowidForm form) {
  out += R"("affected_row_count":)";
  append_number(out, outcome.affected_rows);
  out += R"(,"last_insert_rowid":)";
  if (!outcome.last_insert_rowid) {
    out += "null";
    return;
  }
  if (form == RowidForm::text) out += '"';
  append_number(out, *outcome.last_insert_rowid);
  if (form == RowidForm::text) out += '"';
}

}  // namespace termgate::hrana
