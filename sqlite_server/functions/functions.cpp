// Registers every function of dialect::functions_to_supply() on a connection, and carries their failures.
#include "functions/functions.hpp"

#include <algorithm>
#include <iterator>
#include <new>

#include <termgate/dialect/functions.hpp>

#include "values/forms.hpp"

namespace termgate::sqlite_server {
namespace {

// What a value of one statement may grow to by a function: repeat(), lpad() and kin ask before they build.
constexpr std::size_t answer_bytes_max = std::size_t{1} << 26;

struct Registered {
  CatalogState* state;
  const Body* body;
};

void scalar(sqlite3_context* context, int count, sqlite3_value** values) {
  const auto& self = *static_cast<const Registered*>(sqlite3_user_data(context));
  Call call(*self.state, context, count, values);
  if (!self.body->nulls_too) {
    for (int i = 0; i < count; ++i) {
      if (call.null(i)) return call.answer_null();
    }
  }
  try {
    self.body->run(call);
  } catch (CallError& failed) { self.state->fail(context, std::move(failed.problem)); } catch (const std::bad_alloc&) {
    sqlite3_result_error_nomem(context);
  } catch (const std::exception& error) { self.state->fail(context, {"XX000", error.what()}); }
}

// ------------------------------------------------------------------------------------------------ aggregates

template <class Held>
Held* held_by(sqlite3_context* context, bool make) {
  auto** held = static_cast<Held**>(sqlite3_aggregate_context(context, make ? sizeof(Held*) : 0));
  if (held == nullptr) return nullptr;
  if (*held == nullptr && make) *held = new (std::nothrow) Held();
  return *held;
}

void collect(sqlite3_context* context, int count, sqlite3_value** values) {
  const auto& self = *static_cast<const Registered*>(sqlite3_user_data(context));
  auto* held = held_by<Elements>(context, true);
  if (held == nullptr) return sqlite3_result_error_nomem(context);
  try {
    const Call call(*self.state, context, count, values);
    held->push_back(call.null(0) ? std::nullopt : std::optional(call.text(0)));
  } catch (const std::bad_alloc&) { sqlite3_result_error_nomem(context); }
}

template <bool empty_is_null>
void collected(sqlite3_context* context) {
  auto* held = held_by<Elements>(context, false);
  try {
    if (held == nullptr && empty_is_null) sqlite3_result_null(context);
    else {
      const std::string text = held == nullptr ? "{}" : array_literal(*held);
      sqlite3_result_text64(context, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
    }
  } catch (const std::bad_alloc&) { sqlite3_result_error_nomem(context); }
  delete held;
}

struct Bits {
  bool any = false;
  std::int64_t value = 0;
};
template <bool both>
void bits_step(sqlite3_context* context, int, sqlite3_value** values) {
  auto* bits = static_cast<Bits*>(sqlite3_aggregate_context(context, sizeof(Bits)));
  if (bits == nullptr) return sqlite3_result_error_nomem(context);
  if (sqlite3_value_type(values[0]) == SQLITE_NULL) return;
  const std::int64_t value = sqlite3_value_int64(values[0]);
  bits->value = !bits->any ? value : both ? bits->value & value : bits->value | value;
  bits->any = true;
}
void bits_end(sqlite3_context* context) {
  const auto* bits = static_cast<Bits*>(sqlite3_aggregate_context(context, 0));
  if (bits == nullptr || !bits->any) sqlite3_result_null(context);
  else sqlite3_result_int64(context, bits->value);
}

// pg_json_agg(json), pg_json_object_agg(key, json): the JSON is made already (pg_to_json); NULL of no rows.
template <bool object>
void json_list_step(sqlite3_context* context, int count, sqlite3_value** values) {
  const auto& self = *static_cast<const Registered*>(sqlite3_user_data(context));
  auto* held = held_by<JsonList>(context, true);
  if (held == nullptr) return sqlite3_result_error_nomem(context);
  try {
    const Call call(*self.state, context, count, values);
    const std::string json = call.null(count - 1) ? std::string("null") : call.text(count - 1);
    if (!object) return held->put(json);
    if (call.null(0)) return self.state->fail(context, {"22023", "field name must not be null"});
    held->put(call.text(0), json);
  } catch (const std::bad_alloc&) { sqlite3_result_error_nomem(context); }
}

template <bool object, bool binary>
void json_list_end(sqlite3_context* context) {
  const auto& self = *static_cast<const Registered*>(sqlite3_user_data(context));
  auto* held = held_by<JsonList>(context, false);
  try {
    if (held == nullptr) return sqlite3_result_null(context);
    const std::string text = held->text(object, binary);
    sqlite3_result_text64(context, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  } catch (CallError& failed) { self.state->fail(context, std::move(failed.problem)); } catch (const std::bad_alloc&) {
    sqlite3_result_error_nomem(context);
  }
  delete held;
}

struct Collector {
  std::string_view name;
  void (*step)(sqlite3_context*, int, sqlite3_value**);
  void (*end)(sqlite3_context*);
};
constexpr Collector aggregates[] = {
    {"pg_array_agg", collect, collected<false>},
    {"array_agg", collect, collected<true>},
    {"pg_bit_and", bits_step<true>, bits_end},
    {"pg_bit_or", bits_step<false>, bits_end},
    {"pg_json_agg", json_list_step<false>, json_list_end<false, false>},
    {"pg_jsonb_agg", json_list_step<false>, json_list_end<false, true>},
    {"pg_json_object_agg", json_list_step<true>, json_list_end<true, false>},
    {"pg_jsonb_object_agg", json_list_step<true>, json_list_end<true, true>},
};

const Body* body_named(std::string_view name) {
  for (const auto& bodies : {cast_functions(), text_functions(), array_functions(), json_functions(), number_functions(), time_functions(),
                             session_functions(), catalog_functions()}) {
    for (const Body& each : bodies) {
      if (each.name == name) return &each;
    }
  }
  return nullptr;
}

}  // namespace

std::string Call::text(int i) const {
  switch (sqlite3_value_type(values[i])) {
    case SQLITE_FLOAT: return float_text(real(i), false);
    case SQLITE_BLOB: {
      std::string out;
      (void)append_bytea(out, Stored(Blob{std::string(blob(i))}), Format::text);
      return out;
    }
    default: {
      const auto* bytes = reinterpret_cast<const char*>(sqlite3_value_text(values[i]));
      return bytes == nullptr ? std::string() : std::string(bytes, static_cast<std::size_t>(sqlite3_value_bytes(values[i])));
    }
  }
}

std::string_view Call::blob(int i) const {
  const auto* bytes = static_cast<const char*>(sqlite3_value_blob(values[i]));
  return bytes == nullptr ? std::string_view() : std::string_view(bytes, static_cast<std::size_t>(sqlite3_value_bytes(values[i])));
}

Stored Call::stored(int i) const {
  switch (sqlite3_value_type(values[i])) {
    case SQLITE_INTEGER: return Stored(whole(i));
    case SQLITE_FLOAT: return Stored(real(i));
    case SQLITE_TEXT: return Stored(text(i));
    case SQLITE_BLOB: return Stored(Blob{std::string(blob(i))});
    default: return Stored();
  }
}

void Call::answer(std::string_view text) {
  if (text.size() > answer_bytes_max) fail("54000", "a value of " + std::to_string(text.size()) + " bytes is too long");
  // A view of nothing may point nowhere, which SQLite would take for NULL.
  sqlite3_result_text64(context, text.data() == nullptr ? "" : text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

void Call::answer_blob(std::string_view bytes) {
  if (bytes.size() > answer_bytes_max) fail("54000", "a value of " + std::to_string(bytes.size()) + " bytes is too long");
  sqlite3_result_blob64(context, bytes.data() == nullptr ? "" : bytes.data(), bytes.size(), SQLITE_TRANSIENT);
}

void Call::answer_stored(const Stored& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) answer(*number);
  else if (const auto* float_value = std::get_if<double>(&value)) answer(*float_value);
  else if (const auto* words = std::get_if<std::string>(&value)) answer(*words);
  else if (const auto* bytes = std::get_if<Blob>(&value)) answer_blob(bytes->bytes);
  else answer_null();
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (at + size > text.size()) size = 1;
    out.push_back(text.substr(at, size));
    at += size;
  }
  return out;
}

void register_functions(sqlite3* connection, CatalogState& state) {
  register_typed(connection, state);
  for (const dialect::Function& function : dialect::functions_to_supply()) {
    const std::string name(function.name);
    if (function.kind == dialect::Function::Kind::aggregate) {
      const auto found =
          std::find_if(std::begin(aggregates), std::end(aggregates), [&](const Collector& each) { return each.name == name; });
      if (found == std::end(aggregates)) continue;
      sqlite3_create_function_v2(connection, name.c_str(), function.arguments_min, SQLITE_UTF8 | SQLITE_INNOCUOUS,
                                 new Registered{&state, nullptr}, nullptr, found->step, found->end,
                                 [](void* held) { delete static_cast<Registered*>(held); });
      continue;
    }
    const Body* body = body_named(name);
    if (body == nullptr) continue;
    const int flags = SQLITE_UTF8 | (body->pure ? SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS : 0);
    const bool any = function.arguments_max < 0;
    for (int count = any ? -1 : function.arguments_min; count <= (any ? -1 : function.arguments_max); ++count) {
      sqlite3_create_function_v2(connection, name.c_str(), count, flags, new Registered{&state, body}, scalar, nullptr, nullptr,
                                 [](void* held) { delete static_cast<Registered*>(held); });
    }
  }
  for (const Body& body : typed_functions()) {
    const auto [least, most] = typed_arguments(body.name);
    for (int count = most < 0 ? -1 : least; count <= most; ++count) {
      sqlite3_create_function_v2(connection, std::string(body.name).c_str(), count, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS,
                                 new Registered{&state, &body}, scalar, nullptr, nullptr,
                                 [](void* held) { delete static_cast<Registered*>(held); });
    }
  }
  for (const Body& body : plain_functions()) {
    for (const int count : body.name == "replace" ? std::vector{3} : body.name == "like" ? std::vector{2, 3} : std::vector{2}) {
      sqlite3_create_function_v2(connection, std::string(body.name).c_str(), count, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS,
                                 new Registered{&state, &body}, scalar, nullptr, nullptr,
                                 [](void* held) { delete static_cast<Registered*>(held); });
    }
  }
}

}  // namespace termgate::sqlite_server
