// Layer 1's SQL interface on a connection: the functions termgate_…, and the virtual table that
// reports where transactions begin and end. Parameters and results are listed in
// sql/sqlite/README.md.
// Long: all SQL functions of layer 1, and the table of them.
#include <termgate/detail/sqlite/layer1.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include <sql/statements.hpp>
#include <termgate/error.hpp>
#include <termgate/value.hpp>

#include <termgate/detail/sqlite/errors.hpp>
#include <termgate/text/hex.hpp>
#include "functions.hpp"
#include "json.hpp"

namespace termgate {
inline namespace v0 {
namespace sqlite {
namespace {

namespace stmt = termgate::sql::sqlite_statements;

// ------------------------------------------------------------------------------------------------
// JSON

// A payload in JSON: as text if it is UTF-8 without NUL, otherwise {"hex":"…"}.
std::string payload_json(std::string_view payload) {
  bool text = payload.empty();
  // name_problem() accepts UTF-8 without NUL; its length limits are avoided by testing piece by
  // piece.
  for (std::size_t at = 0; at < payload.size();) {
    std::size_t end = std::min(at + 190, payload.size());
    while (end < payload.size() && end > at &&
           (static_cast<unsigned char>(payload[end]) & 0xC0) == 0x80)
      --end;
    text = end > at && name_problem(payload.substr(at, end - at)) == nullptr;
    if (!text) break;
    at = end;
  }
  if (text) {
    std::string quoted = Json('[').value(payload).close();
    return quoted.substr(1, quoted.size() - 2);
  }
  return Json('{').key("hex").value(text::hex(payload)).close();
}

std::string from_hex(const std::string& hex) {
  auto digit = [](char c) {
    if (const int value = text::hex_value(c); value >= 0) return value;
    throw InvalidInput(
        "TG005 malformed payload: {\"hex\":\"…\"} holds something else than hexadecimal digits");
  };
  if (hex.size() % 2 != 0)
    throw InvalidInput("TG005 malformed payload: {\"hex\":\"…\"} has an odd number of digits");
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (std::size_t at = 0; at < hex.size(); at += 2)
    bytes += static_cast<char>(digit(hex[at]) * 16 + digit(hex[at + 1]));
  return bytes;
}

// ------------------------------------------------------------------------------------------------
// arguments

class Arguments {
 public:
  Arguments(int count, sqlite3_value** values) : count_(count), values_(values) {}

  bool absent(int at) const {
    return at >= count_ || sqlite3_value_type(values_[at]) == SQLITE_NULL;
  }
  int type(int at) const { return sqlite3_value_type(values_[at]); }
  sqlite3_value* raw(int at) const { return at < count_ ? values_[at] : nullptr; }

  // Text, or an integer in decimal; the bytes are copied, because a nested statement may move them.
  std::string text(int at, const char* what) const {
    if (absent(at)) throw InvalidInput(fmt::format("TG005 malformed {}: it is NULL", what));
    if (type(at) != SQLITE_TEXT && type(at) != SQLITE_INTEGER) {
      throw InvalidInput(fmt::format("TG005 malformed {}: must be text", what));
    }
    return bytes(at);
  }
  std::optional<std::string> optional_text(int at, const char* what) const {
    if (absent(at)) return std::nullopt;
    return text(at, what);
  }
  std::int64_t integer(int at, const char* what) const {
    if (absent(at) || type(at) != SQLITE_INTEGER) {
      throw InvalidInput(fmt::format("TG005 malformed {}: must be an integer", what));
    }
    return sqlite3_value_int64(values_[at]);
  }
  std::optional<std::int64_t> optional_integer(int at, const char* what) const {
    if (absent(at)) return std::nullopt;
    return integer(at, what);
  }
  Scope scope(int at) const { return Scope(text(at, "scope")); }
  std::optional<Scope> optional_scope(int at) const {
    if (absent(at)) return std::nullopt;
    return scope(at);
  }
  Stream stream(int at) const { return Stream(text(at, "stream")); }
  Term term(int at) const {
    if (absent(at) || type(at) != SQLITE_INTEGER) {
      throw InvalidInput("TG005 malformed term: a term is an integer from 1 to 2^62");
    }
    return Term(sqlite3_value_int64(values_[at]));
  }
  std::optional<std::string> write_id(int at) const {
    if (absent(at)) return std::nullopt;
    return WriteId(text(at, "write id")).text();
  }
  std::string_view payload(int at) const {
    if (absent(at)) throw InvalidInput("TG005 malformed payload: it is NULL");
    return view(at);
  }
  std::string bytes(int at) const { return std::string(view(at)); }

 private:
  std::string_view view(int at) const {
    const void* data = type(at) == SQLITE_BLOB
                           ? sqlite3_value_blob(values_[at])
                           : static_cast<const void*>(sqlite3_value_text(values_[at]));
    const auto size = static_cast<std::size_t>(sqlite3_value_bytes(values_[at]));
    return data != nullptr ? std::string_view(static_cast<const char*>(data), size)
                           : std::string_view("");
  }
  int count_;
  sqlite3_value** values_;
};

// ------------------------------------------------------------------------------------------------
// results

void give(sqlite3_context* context, const std::string& text) {
  sqlite3_result_text64(context, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}
void give(sqlite3_context* context, std::int64_t number) { sqlite3_result_int64(context, number); }
void give(sqlite3_context* context, bool truth) { sqlite3_result_int(context, truth ? 1 : 0); }

// Refuses what SQLite's JSON silently misreads: it ends at a NUL, also if written as \u0000, and
// treats an object's values like an array's.
std::string json_array(Layer1& layer1, const Arguments& arguments, int at, const char* what) {
  std::string json = arguments.text(at, what);
  for (std::size_t byte = 0; byte < json.size(); ++byte) {
    const bool escaped = json[byte] == '\\';
    if (json[byte] == '\0' || (escaped && json.compare(byte, 6, "\\u0000") == 0)) {
      throw InvalidInput(
          fmt::format("TG005 malformed {}: a text holds a NUL, which JSON in SQLite cannot carry; "
                      "give such a payload as "
                      "{{\"hex\":\"…\"}}",
                      what));
    }
    if (escaped) ++byte;
  }
  Running kind = layer1.core().use(stmt::json_kind);
  if (!kind.bind(json).step() || kind.text(0) != "array")
    throw InvalidInput(fmt::format("TG005 malformed {}: must be a JSON array", what));
  return json;
}

// A batch: the driver's own array behind a pointer, or a JSON array of texts and {"hex":"…"}, which
// is stored in `payloads`.
std::span<const std::string> payloads_of(Layer1& layer1, const Arguments& arguments, int at,
                                         std::vector<std::string>& payloads) {
  if (sqlite3_value* raw = arguments.raw(at)) {
    if (const auto* array =
            static_cast<const BytesArray*>(sqlite3_value_pointer(raw, bytes_array_pointer)))
      return *array;
    if (const auto* view =
            static_cast<const BytesArrayView*>(sqlite3_value_pointer(raw, bytes_view_pointer)))
      return view->items;
  }
  const std::string json = json_array(layer1, arguments, at, "payloads");
  Running items = layer1.core().use(stmt::json_items);
  items.bind(json);
  while (items.step()) {
    const std::string type = items.text(0);
    if (type == "text") {
      payloads.push_back(items.text(1));
    } else if (type == "object" && !items.is_null(2)) {
      payloads.push_back(from_hex(items.text(2)));
    } else {
      throw InvalidInput(
          "TG005 malformed payloads: must be a JSON array of texts and of {\"hex\":\"…\"}");
    }
  }
  return payloads;
}

// None: the argument was not given.
std::optional<std::vector<std::optional<std::string>>> write_ids_of(Layer1& layer1,
                                                                    const Arguments& arguments,
                                                                    int at) {
  std::vector<std::optional<std::string>> ids;
  if (sqlite3_value* raw = arguments.raw(at)) {
    if (const auto* array = static_cast<const std::vector<std::optional<std::string>>*>(
            sqlite3_value_pointer(raw, text_array_pointer))) {
      for (const auto& id : *array)
        ids.push_back(id ? std::optional(WriteId(*id).text()) : std::nullopt);
      return ids;
    }
  }
  if (arguments.absent(at)) return std::nullopt;
  const std::string json = json_array(layer1, arguments, at, "write ids");
  Running items = layer1.core().use(stmt::json_items);
  items.bind(json);
  while (items.step()) {
    ids.push_back(items.text(0) == "null" ? std::nullopt
                                          : std::optional(WriteId(items.text(1)).text()));
  }
  return ids;
}

Guards::RowScope row_scope(const Arguments& arguments, int at) {
  switch (arguments.type(at)) {
    case SQLITE_NULL: return {Guards::RowScope::Kind::null, {}};
    case SQLITE_TEXT:
    case SQLITE_INTEGER: return {Guards::RowScope::Kind::text, arguments.bytes(at)};
    default: return {Guards::RowScope::Kind::unfit, {}};
  }
}

// What a trigger read in its own file; nullopt if it passes nothing.
std::optional<Guards::Handed> handed(const Arguments& arguments, int at) {
  if (arguments.raw(at) == nullptr) return std::nullopt;
  return Guards::Handed{arguments.type(at) == SQLITE_INTEGER
                            ? std::optional(sqlite3_value_int64(arguments.raw(at)))
                            : std::nullopt};
}

std::string lease_json(Layer1& layer1, const Scope& scope) {
  Running read = layer1.core().use(stmt::lease_read);
  if (!read.bind(scope.name()).step()) return {};
  const std::int64_t remaining = read.is_null(5) ? read.integer(2) - layer1.core().now() : 0;
  return Json('{')
      .key("scope")
      .value(scope.name())
      .key("owner_id")
      .value(read.text(0))
      .key("term")
      .value(read.integer(1))
      .key("expires_at")
      .value(read.integer(2))
      .key("acquired_at")
      .value(read.integer(3))
      .key("renewed_at")
      .value(read.integer(4))
      .key("released_at")
      .value(read.optional_integer(5))
      .key("endpoint")
      .value(read.optional_text(6))
      .key("remaining_ms")
      .value(remaining)
      .close();
}

// ------------------------------------------------------------------------------------------------
// functions

using Body = void (*)(Layer1&, sqlite3_context*, const Arguments&);

struct Function {
  const char* name;
  int arguments_min, arguments_max;
  int flags;
  const char* takes;
  Body body;
};

// Most functions may only be called by top-level SQL: a trigger or view of a hostile schema must
// not be able to seal a scope.
constexpr int writes = SQLITE_UTF8 | SQLITE_DIRECTONLY;
constexpr int reads = SQLITE_UTF8 | SQLITE_DIRECTONLY;
// Besides termgate_version() and termgate_now(), only the guard function may be called from
// triggers, also under trusted_schema = OFF, and therefore from views. A view gains nothing by
// that: the guard passes only what the session has declared or passed, and raises or counts only
// inside a writing statement.
constexpr int guards = SQLITE_UTF8 | SQLITE_INNOCUOUS;

constexpr Function functions[] = {
    {"termgate_version", 0, 0, SQLITE_UTF8 | SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC, "()",
     [](Layer1&, sqlite3_context* out, const Arguments&) {
       give(out, std::string(TERMGATE_VERSION));
     }},
    {"termgate_now", 0, 0, SQLITE_UTF8 | SQLITE_INNOCUOUS, "()",
     [](Layer1& layer1, sqlite3_context* out, const Arguments&) {
       give(out, layer1.core().now());
     }},
    {"termgate_check_term", 2, 2, writes, "(scope, term)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out, layer1.fences().check_term(in.scope(0), in.term(1)));
     }},
    {"termgate_seal", 2, 5, writes, "(scope, term [, grace_ms [, actor, reason]])",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       // With the write lock held no other write is in flight, so the grace has no effect.
       static_cast<void>(in.optional_integer(2, "grace"));
       const Fences::Receipt receipt = layer1.fences().seal(
           in.scope(0), in.term(1), in.optional_text(3, "actor"), in.optional_text(4, "reason"));
       give(out, Json('{')
                     .key("fence")
                     .value(receipt.fence)
                     .key("previous")
                     .value(receipt.previous)
                     .key("evicted")
                     .value(receipt.evicted)
                     .key("sealed_at")
                     .value(receipt.sealed_at)
                     .close());
     }},
    {"termgate_append", 3, 6, writes, "(stream, term, payload [, expected [, scope [, write_id]]])",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       // These are the argument's own bytes, which stay valid until the function returns.
       give(out, layer1.streams().append(
                     in.stream(0), in.term(1), {{in.payload(2), in.write_id(5)}},
                     in.optional_integer(3, "expected number"), in.optional_scope(4)));
     }},
    {"termgate_append_many", 3, 6, writes,
     "(stream, term, payloads [, expected [, scope [, write_ids]]])",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       std::vector<std::string> held;
       const auto payloads = payloads_of(layer1, in, 2, held);
       const auto ids = write_ids_of(layer1, in, 5);
       // If a batch had only some ids, part of it could be sent again, and nobody could tell what
       // became of the rest (F5).
       const bool given = ids.has_value();
       if (given && (ids->size() != payloads.size() ||
                     std::find(ids->begin(), ids->end(), std::nullopt) != ids->end())) {
         throw InvalidInput(fmt::format(
             "TG005 a batch of {} needs as many write ids, none of them NULL", payloads.size()));
       }
       std::vector<Streams::Write> batch;
       batch.reserve(payloads.size());
       for (std::size_t at = 0; at < payloads.size(); ++at)
         batch.push_back({payloads[at], given ? (*ids)[at] : std::nullopt});
       give(out, layer1.streams().append(in.stream(0), in.term(1), batch,
                                         in.optional_integer(3, "expected number"),
                                         in.optional_scope(4)));
     }},
    {"termgate_claim_write", 3, 3, writes, "(scope, term, write_id)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       const Streams::Claim claim =
           layer1.streams().claim_write(in.scope(0), in.term(1), WriteId(in.text(2, "write id")));
       give(out, Json('{').key("fresh").value(claim.fresh).key("fence").value(claim.fence).close());
     }},
    {"termgate_outcome", 1, 1, reads, "(write_id)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       const auto outcome = layer1.streams().outcome(WriteId(in.text(0, "write id")));
       if (!outcome) return sqlite3_result_null(out);
       give(out, Json('{')
                     .key("scope")
                     .value(outcome->scope)
                     .key("term")
                     .value(outcome->term)
                     .key("stream")
                     .value(outcome->stream)
                     .key("sequence_no")
                     .value(outcome->sequence_no)
                     .key("created_at")
                     .value(outcome->created_at)
                     .close());
     }},
    {"termgate_declare", 2, 2, writes, "(scope, term)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       auto scope = in.optional_scope(0);
       const auto term = in.absent(1) ? std::nullopt : std::optional(in.term(1));
       layer1.core().declare(std::move(scope), term);
       sqlite3_result_null(out);
     }},
    {"termgate_acquire_lease", 3, 5, writes, "(scope, owner, ttl_ms [, endpoint [, grace_ms]])",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       static_cast<void>(in.optional_integer(4, "grace"));
       const auto got = layer1.leases().acquire(
           in.scope(0), in.text(1, "owner"), in.integer(2, "TTL"), in.optional_text(3, "endpoint"));
       give(out, Json('{')
                     .key("acquired")
                     .value(got.acquired)
                     .key("term")
                     .value(got.term)
                     .key("expires_at")
                     .value(got.expires_at)
                     .key("owner_id")
                     .value(got.owner_id)
                     .key("remaining_ms")
                     .value(got.remaining_ms)
                     .close());
     }},
    {"termgate_renew_lease", 4, 4, writes, "(scope, owner, term, ttl_ms)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       const auto renewal = layer1.leases().renew(in.scope(0), in.text(1, "owner"), in.term(2),
                                                  in.integer(3, "TTL"));
       give(out, Json('{')
                     .key("renewed")
                     .value(renewal.renewed)
                     .key("expires_at")
                     .value(renewal.expires_at)
                     .key("remaining_ms")
                     .value(renewal.remaining_ms)
                     .key("leave_in_ms")
                     .value(renewal.leave_in_ms)
                     .close());
     }},
    {"termgate_renew_leases", 1, 1, writes, "(leases)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       Json outcomes('[');
       for (const std::string_view outcome :
            layer1.leases().renew_all(in.text(0, "list of leases")))
         outcomes.value(outcome);
       give(out, outcomes.close());
     }},
    {"termgate_release_lease", 3, 3, writes, "(scope, owner, term)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out, layer1.leases().release(in.scope(0), in.text(1, "owner"), in.term(2)));
     }},
    {"termgate_force_release", 3, 3, writes, "(scope, actor, reason)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out,
            layer1.leases().force_release(in.scope(0), in.text(1, "actor"), in.text(2, "reason")));
     }},
    {"termgate_require_lease", 2, 2, writes, "(scope, owner)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out, layer1.leases().require(in.scope(0), in.text(1, "owner")));
     }},
    {"termgate_request_hand_over", 1, 5, writes,
     "(scope [, successor [, drain_ms [, actor [, reason]]]])",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       const auto asked = layer1.leases().request_hand_over(
           in.scope(0), in.optional_text(1, "successor"),
           in.optional_integer(2, "drain").value_or(30'000),
           in.optional_text(3, "actor").value_or(layer1.core().client()),
           in.optional_text(4, "reason").value_or("planned"));
       Json answer('{');
       answer.key("requested").value(asked.has_value());
       if (asked)
         answer.key("owner_id")
             .value(asked->owner_id)
             .key("term")
             .value(asked->term)
             .key("leave_before")
             .value(asked->leave_before);
       give(out, answer.close());
     }},
    {"termgate_leave_in", 2, 2, reads, "(scope, term)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       const auto left = layer1.leases().leave_in_ms(in.scope(0).name(), in.term(1).value());
       if (left) give(out, *left);
       else sqlite3_result_null(out);
     }},
    {"termgate_reset_fence", 4, 4, writes, "(scope, term, actor, reason)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out, layer1.operations().reset_fence(in.scope(0), in.term(1), in.text(2, "actor"),
                                                 in.text(3, "reason")));
     }},
    {"termgate_declare_restored", 4, 4, writes, "(scope, above, actor, reason)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out, layer1.operations().declare_restored(in.scope(0), in.term(1), in.text(2, "actor"),
                                                      in.text(3, "reason")));
     }},
    {"termgate_declare_nothing_lost", 2, 2, writes, "(actor, reason)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out,
            layer1.operations().declare_nothing_lost(in.text(0, "actor"), in.text(1, "reason")));
     }},
    {"termgate_declare_untrusted", 2, 2, writes, "(actor, reason)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out, layer1.operations().declare_untrusted(in.text(0, "actor"), in.text(1, "reason")));
     }},
    {"termgate_set_raise_by", 2, 2, writes, "(scope, 'writer' or 'seal')",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out, layer1.operations().set_raise_by(in.scope(0), in.text(1, "mode")));
     }},
    {"termgate_prune", 2, 2, writes, "(stream, before)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out, layer1.operations().prune(in.stream(0), in.integer(1, "number")));
     }},
    {"termgate_prune_history", 1, 1, writes, "(older_than_ms)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out, layer1.operations().prune_history(in.integer(0, "age")));
     }},
    {"termgate_stream_move", 4, 4, writes, "(stream, scope, actor, reason)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out, layer1.operations().stream_move(in.stream(0), in.scope(1), in.text(2, "actor"),
                                                 in.text(3, "reason")));
     }},
    {"termgate_fence", 1, 1, reads, "(scope)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       Running read = layer1.core().use(stmt::fence_show);
       const Scope scope = in.scope(0);
       if (!read.bind(scope.name()).step()) return sqlite3_result_null(out);
       give(out, Json('{')
                     .key("scope")
                     .value(read.text(0))
                     .key("term")
                     .value(read.integer(1))
                     .key("raised_at")
                     .value(read.integer(2))
                     .key("raised_by")
                     .value(read.text(3))
                     .key("raise_by")
                     .value(read.text(4))
                     .key("untrusted")
                     .value(read.integer(5) != 0)
                     .key("reset_from")
                     .value(read.optional_integer(6))
                     .close());
     }},
    {"termgate_lease", 1, 1, reads, "(scope)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       const std::string lease = lease_json(layer1, in.scope(0));
       if (lease.empty()) return sqlite3_result_null(out);
       give(out, lease);
     }},
    {"termgate_read_stream", 1, 3, reads, "(stream [, after [, limit]])",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       const Stream stream = in.stream(0);
       Running read = layer1.core().use(stmt::stream_page);
       read.bind(stream.name())
           .bind(in.optional_integer(1, "number").value_or(0))
           .bind(in.optional_integer(2, "limit").value_or(1000));
       Json rows('[');
       while (read.step()) {
         rows.raw(Json('{')
                      .key("sequence_no")
                      .value(read.integer(0))
                      .key("scope")
                      .value(read.text(1))
                      .key("term")
                      .value(read.integer(2))
                      .key("payload")
                      .raw(payload_json(read.text(3)))
                      .key("created_at")
                      .value(read.integer(4))
                      .key("write_id")
                      .value(read.optional_text(5))
                      .close());
       }
       give(out, rows.close());
     }},
    {"termgate_settings", 0, 0, reads, "()",
     [](Layer1& layer1, sqlite3_context* out, const Arguments&) {
       Running read = layer1.core().use(stmt::settings_show);
       Json rows('[');
       while (read.step()) {
         rows.raw(Json('{')
                      .key("name")
                      .value(read.text(0))
                      .key("value")
                      .value(read.text(1))
                      .key("what")
                      .value(read.text(2))
                      .close());
       }
       give(out, rows.close());
     }},
    {"termgate_set_setting", 2, 2, writes, "(name, value)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       const std::string value = in.text(1, "value");
       layer1.operations().set_setting(in.text(0, "name"), value);
       give(out, value);
     }},
    {"termgate_record_refusal", 6, 6, writes, "(scope, term, count, first_ms, last_ms, client)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       layer1.core().refusals().record(in.text(0, "scope"), in.integer(1, "term"),
                                       in.integer(2, "count"), in.integer(3, "moment"),
                                       in.integer(4, "moment"), in.text(5, "client"));
       give(out, true);
     }},
    {"termgate_job_start", 4, 5, writes, "(job_name, scope, owner, term [, detail])",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out, layer1.jobs().start(in.text(0, "job name"), in.scope(1), in.text(2, "owner"),
                                     in.term(3), in.optional_text(4, "detail")));
     }},
    {"termgate_job_request", 2, 5, writes, "(job_name, scope [, kind [, actor [, reason]]])",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       const auto asked = layer1.jobs().request(
           in.text(0, "job name"), in.scope(1), in.optional_text(2, "kind").value_or("run"),
           in.optional_text(3, "actor").value_or(layer1.core().client()),
           in.optional_text(4, "reason").value_or("by hand"));
       give(out, Json('{')
                     .key("requested")
                     .value(asked.requested)
                     .key("run_id")
                     .value(asked.run_id)
                     .close());
     }},
    {"termgate_job_take", 4, 4, writes, "(job_name, scope, owner, term)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       const auto taken =
           layer1.jobs().take(in.text(0, "job name"), in.scope(1), in.text(2, "owner"), in.term(3));
       Json answer('{');
       if (taken) answer.key("run_id").value(taken->run_id).key("kind").value(taken->kind);
       give(out, answer.close());
     }},
    {"termgate_job_heartbeat", 1, 3, writes, "(run_id [, checkpoint [, ttl_ms]])",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       if (in.absent(2))
         return give(
             out, layer1.jobs().heartbeat(in.text(0, "run id"), in.optional_text(1, "checkpoint")));
       const auto beat = layer1.jobs().heartbeat(
           in.text(0, "run id"), in.optional_text(1, "checkpoint"), in.integer(2, "TTL"));
       give(out, Json('{')
                     .key("beaten")
                     .value(beat.beaten)
                     .key("renewed")
                     .value(beat.renewed)
                     .key("beat_before")
                     .value(beat.beat_before)
                     .key("remaining_ms")
                     .value(beat.remaining_ms)
                     .close());
     }},
    {"termgate_job_finish", 2, 5, writes,
     "(run_id, status [, exit_code [, detail [, checkpoint]]])",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out,
            layer1.jobs().finish(in.text(0, "run id"), in.text(1, "status"),
                                 in.optional_integer(2, "exit code"), in.optional_text(3, "detail"),
                                 in.optional_text(4, "checkpoint")));
     }},
    {"termgate_follower_start", 2, 4, writes, "(name, stream [, scope [, from_end]])",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out,
            layer1.followers().start(in.text(0, "follower name"), in.optional_text(1, "stream"),
                                     in.optional_text(2, "scope"),
                                     in.optional_integer(3, "from_end").value_or(0) != 0));
     }},
    {"termgate_follower_advance", 5, 5, writes, "(name, run, stream, from, to)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out, std::string(layer1.followers().advance(
                     in.text(0, "follower name"), in.integer(1, "run"), in.stream(2),
                     in.integer(3, "position"), in.integer(4, "position"))));
     }},
    {"termgate_follower_remove", 1, 1, writes, "(name)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out, layer1.followers().remove(in.text(0, "follower name")));
     }},
    {"termgate_protect", 2, 5, writes,
     "(target, scope_column [, scope [, 'enforce' or 'observe' [, prefix]]])",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out, layer1.tables().protect(in.text(0, "target"), in.optional_text(1, "scope column"),
                                         in.optional_text(2, "scope"),
                                         in.optional_text(3, "mode").value_or("enforce"),
                                         in.optional_text(4, "prefix").value_or("")));
     }},
    {"termgate_unprotect", 1, 1, writes, "(target)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out, layer1.tables().unprotect(in.text(0, "target")));
     }},
    {"termgate_adopt", 3, 4, writes, "(target, scope_column, term_column [, prefix])",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out, layer1.tables().adopt(in.text(0, "target"), in.text(1, "scope column"),
                                       in.text(2, "term column"),
                                       in.optional_text(3, "prefix").value_or("")));
     }},
    {"termgate_unadopt", 1, 1, writes, "(target)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       give(out, layer1.tables().unadopt(in.text(0, "target")));
     }},
    {"termgate_doctor", 0, 0, reads, "()",
     [](Layer1& layer1, sqlite3_context* out, const Arguments&) {
       Json rows('[');
       for (const Doctor::Advice& finding : layer1.doctor().look()) {
         rows.raw(Json('{')
                      .key("severity")
                      .value(finding.severity)
                      .key("object")
                      .value(finding.object)
                      .key("problem")
                      .value(finding.problem)
                      .key("remedy")
                      .value(finding.remedy)
                      .close());
       }
       give(out, rows.close());
     }},
    {"termgate_verify", 0, 1, reads, "([since_ms])",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       Json rows('[');
       for (const Doctor::Breach& breach :
            layer1.doctor().verify(in.optional_integer(0, "moment").value_or(0))) {
         rows.raw(Json('{')
                      .key("kind")
                      .value(breach.kind)
                      .key("scope")
                      .value(breach.scope)
                      .key("object")
                      .value(breach.object)
                      .key("detail")
                      .value(breach.detail)
                      .close());
       }
       give(out, rows.close());
     }},
    {"termgate_init", 0, 0, writes, "()",
     [](Layer1& layer1, sqlite3_context* out, const Arguments&) {
       const auto installed = layer1.setup().install();
       give(out, Json('{')
                     .key("from_version")
                     .value(std::int64_t{installed.from_version})
                     .key("to_version")
                     .value(std::int64_t{installed.to_version})
                     .close());
     }},
    {"termgate_uninstall", 2, 2, writes,
     "(actor, reason), as a statement of its own: it takes away every fence",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       layer1.setup().uninstall(in.text(0, "actor"), in.text(1, "reason"));
       sqlite3_result_null(out);
     }},
    // Called by triggers only. A program without the extension gets this name in its error message,
    // which tells what to do.
    {"termgate_guard_load_termgate_extension_first", 2, 5, guards, "(kind, …)",
     [](Layer1& layer1, sqlite3_context* out, const Arguments& in) {
       const std::string kind = in.text(0, "kind");
       const std::string name = in.text(1, "table");
       Guards& guard = layer1.guards();
       if (kind == "arm") return give(out, guard.arm());
       if (kind == "row") {
         guard.require_here(name, handed(in, 3));
         guard.row(name, row_scope(in, 2));
       } else if (kind == "any") {
         guard.require_here(name, handed(in, 2));
         guard.any(name);
       } else if (kind == "observe") {
         guard.observe_row(name,
                           in.raw(2) != nullptr ? std::optional(row_scope(in, 2)) : std::nullopt,
                           handed(in, 3));
       } else if (kind == "observe any") {
         guard.observe_row(name, std::nullopt, handed(in, 2));
       } else if (kind == "adopted") {
         guard.require_here(name, handed(in, 4));
         guard.adopted(name, row_scope(in, 2), in.optional_integer(3, "term"));
       } else if (kind == "replace") {
         guard.require_here(name, handed(in, 2));
         guard.replace(name);
       } else if (kind == "perhaps") {
         guard.note_perhaps(name, row_scope(in, 2));
       } else if (kind == "surely") {
         guard.require_here(name, handed(in, 2));
         guard.noted(name);
       } else if (kind == "changed") {
         guard.require_here("termgate_fences", handed(in, 2));
         guard.changed();
       } else if (kind == "raise") {
         guard.require_here("termgate_fences", handed(in, 3));
         guard.raise(name, in.integer(2, "term"));
       } else if (kind == "lower") {
         guard.require_here("termgate_fences", handed(in, 4));
         if (!guard.lower(name, in.integer(3, "term"))) return sqlite3_result_null(out);
       } else if (kind == "own" || kind == "mark") {
         // Layer 1's own statements need no mark: they write to the main database only.
         if (!layer1.core().at_work()) return sqlite3_result_null(out);
       } else {
         throw InvalidInput(
             "TG005 an unknown guard: this extension is older than the database's triggers");
       }
       give(out, true);
     }},
};

// These functions wait for no lock and prepare nothing. So they work while another connection holds
// the file, before an encrypted file's key is given, and on a connection that its owner has not
// begun to use.
bool touches_no_file(std::string_view name) {
  return name == "termgate_declare" || name == "termgate_version";
}

struct Registered {
  Layer1* layer1;
  const Function* function;
};

void call(sqlite3_context* context, int count, sqlite3_value** values) {
  const auto* registered = static_cast<const Registered*>(sqlite3_user_data(context));
  Layer1& layer1 = *registered->layer1;
  sqlite3* db = layer1.core().connection();
  // Nested statements would change the application's last_insert_rowid().
  const sqlite3_int64 rowid = sqlite3_last_insert_rowid(db);
  try {
    const Function& function = *registered->function;
    if (layer1.core().file().inherited()) layer1.core().require_file();
    layer1.core().flush().report_failure();
    if (count < function.arguments_min || count > function.arguments_max) {
      throw InvalidInput(fmt::format("TG005 {} takes {}", function.name, function.takes));
    }
    const auto work = [&] { function.body(layer1, context, Arguments(count, values)); };
    if (touches_no_file(function.name)) work();
    else layer1.core().patiently(work);
  } catch (const StaleTerm& stale) {
    // A refused seal wrote nothing and does not count as a refused write.
    if (std::string_view(registered->function->name) != "termgate_seal")
      layer1.core().refusals().count(stale.scope(), stale.term());
    sqlite3_result_error(context, stale.what(), -1);
  } catch (const Conflict& conflict) {
    sqlite3_result_error(context, conflict.what(), -1);
    sqlite3_result_error_code(context, SQLITE_BUSY_SNAPSHOT);
  } catch (const Error& error) {
    sqlite3_result_error(context, error.what(), static_cast<int>(std::strlen(error.what())));
    const std::string_view code = error.code();
    // An error of SQLite itself keeps its code; TG codes are plain errors, recognized by their
    // prefix.
    if (code.starts_with("SQLITE_")) sqlite3_result_error_code(context, code_of(code));
  } catch (const std::bad_alloc&) {
    sqlite3_result_error_nomem(context);
  } catch (const std::exception& error) { sqlite3_result_error(context, error.what(), -1); }
  sqlite3_set_last_insert_rowid(db, rowid);
}

// ------------------------------------------------------------------------------------------------
// the table of transactions

struct Table : sqlite3_vtab {
  Layer1* layer1;
};

// What the module and every function point to; freed with the module when the connection closes.
struct Home {
  explicit Home(sqlite3* db) : layer1(db) {}
  Layer1 layer1;
  std::array<Registered, std::size(functions)> registered{};
};

PassedChecks& marks_of(sqlite3_vtab* table) {
  return static_cast<Table*>(table)->layer1->core().passed_checks();
}

int connect(sqlite3* db, void* home, int, const char* const*, sqlite3_vtab** out, char**) {
  const int code = sqlite3_declare_vtab(db, "CREATE TABLE x(unused)");
  if (code != SQLITE_OK) return code;
  sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
  auto* table = new (std::nothrow) Table();
  if (table == nullptr) return SQLITE_NOMEM;
  table->layer1 = &static_cast<Home*>(home)->layer1;
  *out = table;
  return SQLITE_OK;
}

int disconnect(sqlite3_vtab* table) {
  delete static_cast<Table*>(table);
  return SQLITE_OK;
}

// A second table. Only one statement ever names it, once, to connect it; SQLite then disconnects it
// when the connection closes. SQLite refuses to close while our statements are prepared, and this
// is the last moment to finalize them.
int disconnect_last(sqlite3_vtab* table) {
  static_cast<Table*>(table)->layer1->core().finalize_statements();
  return disconnect(table);
}

int best_index(sqlite3_vtab*, sqlite3_index_info*) { return SQLITE_OK; }
int open_cursor(sqlite3_vtab*, sqlite3_vtab_cursor** out) {
  *out = new (std::nothrow) sqlite3_vtab_cursor();
  return *out != nullptr ? SQLITE_OK : SQLITE_NOMEM;
}
int close_cursor(sqlite3_vtab_cursor* cursor) {
  delete cursor;
  return SQLITE_OK;
}
int filter(sqlite3_vtab_cursor*, int, const char*, int, sqlite3_value**) { return SQLITE_OK; }
int next(sqlite3_vtab_cursor*) { return SQLITE_OK; }
int eof(sqlite3_vtab_cursor*) { return 1; }  // no rows
int column(sqlite3_vtab_cursor*, sqlite3_context*, int) { return SQLITE_OK; }
int rowid(sqlite3_vtab_cursor*, sqlite3_int64* out) {
  *out = 0;
  return SQLITE_OK;
}
// The table must be writable, so that SQLite calls it for transactions; it refuses every write.
int update(sqlite3_vtab* table, int, sqlite3_value**, sqlite3_int64*) {
  table->zErrMsg =
      sqlite3_mprintf("termgate_transaction holds no rows and takes none: a pass is not a row");
  return SQLITE_READONLY;
}
int begin(sqlite3_vtab* table) {
  static_cast<Table*>(table)->layer1->transaction_began();
  return SQLITE_OK;
}
// The last moment at which a transaction that has passed the check, or raised, can be refused.
int sync(sqlite3_vtab* table) {
  Layer1& layer1 = *static_cast<Table*>(table)->layer1;
  try {
    const auto problem = layer1.before_commit();
    if (!problem) return SQLITE_OK;
    table->zErrMsg = sqlite3_mprintf("%s", problem->text.c_str());
    return problem->code;
  } catch (const std::bad_alloc&) { return SQLITE_NOMEM; }
}
int commit(sqlite3_vtab* table) {
  static_cast<Table*>(table)->layer1->transaction_ended(true);
  return SQLITE_OK;
}
int rollback(sqlite3_vtab* table) {
  static_cast<Table*>(table)->layer1->transaction_ended(false);
  return SQLITE_OK;
}
int savepoint(sqlite3_vtab* table, int index) {
  marks_of(table).savepoint(index);
  return SQLITE_OK;
}
int release(sqlite3_vtab* table, int index) {
  marks_of(table).released(index);
  return SQLITE_OK;
}
int rollback_to(sqlite3_vtab* table, int index) {
  marks_of(table).rolled_back_to(index);
  return SQLITE_OK;
}

// Newer versions of SQLite have further members.
constexpr sqlite3_module transaction_module = [] {
  sqlite3_module module{};  // eponymous only, so without xCreate: it has no place in any schema
  module.iVersion = 2;
  module.xConnect = connect;
  module.xBestIndex = best_index;
  module.xDisconnect = disconnect;
  module.xOpen = open_cursor;
  module.xClose = close_cursor;
  module.xFilter = filter;
  module.xNext = next;
  module.xEof = eof;
  module.xColumn = column;
  module.xRowid = rowid;
  module.xUpdate = update;
  module.xBegin = begin;
  module.xSync = sync;
  module.xCommit = commit;
  module.xRollback = rollback;
  module.xSavepoint = savepoint;
  module.xRelease = release;
  module.xRollbackTo = rollback_to;
  return module;
}();

constexpr sqlite3_module connection_module = [] {
  sqlite3_module module = transaction_module;
  module.xDisconnect = disconnect_last;
  module.xUpdate = nullptr;
  return module;
}();

// None: the connection has no layer 1.
std::optional<std::string> registered_version(sqlite3* db) {
  sqlite3_stmt* probe = nullptr;
  if (sqlite3_prepare_v2(db, "SELECT termgate_version()", -1, &probe, nullptr) != SQLITE_OK)
    return std::nullopt;
  std::string version;
  if (sqlite3_step(probe) == SQLITE_ROW)
    version = reinterpret_cast<const char*>(sqlite3_column_text(probe, 0));
  sqlite3_finalize(probe);
  return version;
}

}  // namespace

Layer1* Layer1::register_on(sqlite3* db) {
  if (registered_version(db)) return nullptr;
  return &put_on(db);
}

Layer1& Layer1::register_first(sqlite3* db) {
  // If another version has a function that this one lacks, that function would outlive what it
  // points to.
  if (const auto there = registered_version(db); there && *there != TERMGATE_VERSION) {
    throw InvalidInput(fmt::format(
        "TG005 another library has put version {} of Termgate's functions on a new connection, and "
        "this is version " TERMGATE_VERSION ": install one version of both",
        *there));
  }
  return put_on(db);
}

// Functions and modules with the same names are replaced.
Layer1& Layer1::put_on(sqlite3* db) {
  auto* home = new Home(db);
  if (const char* path = sqlite3_db_filename(db, "main"); path != nullptr)
    home->layer1.core().watch_file(path);
  // From here on the module owns it, even if registering fails.
  int code = sqlite3_create_module_v2(db, "termgate_transaction", &transaction_module, home,
                                      [](void* held) { delete static_cast<Home*>(held); });
  if (code == SQLITE_OK)
    code = sqlite3_create_module_v2(db, "termgate_connection", &connection_module, home, nullptr);
  for (std::size_t at = 0; code == SQLITE_OK && at < std::size(functions); ++at) {
    home->registered[at] = {&home->layer1, &functions[at]};
    code = sqlite3_create_function_v2(db, functions[at].name, -1, functions[at].flags,
                                      &home->registered[at], call, nullptr, nullptr, nullptr);
  }
  if (code != SQLITE_OK) throw_sqlite(db, code);
  return home->layer1;
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
