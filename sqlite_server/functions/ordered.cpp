// Aggregates that have an order of their own (string_agg(x, ',' ORDER BY y), array_agg(DISTINCT x)), and those of intervals.
#include <algorithm>
#include <new>
#include <optional>
#include <vector>

#include "functions/functions.hpp"
#include "values/forms.hpp"

namespace termgate::sqlite_server {
namespace ordered {
namespace {

constexpr std::size_t bytes_max = std::size_t{1} << 26;
constexpr std::int64_t day_us = 86'400'000'000;

struct OfState {
  CatalogState* state;
  int (*compare_numeric)(std::string_view, std::string_view);
};

// SQLite's own copy of a value.
class Kept {
 public:
  explicit Kept(sqlite3_value* value) : value_(sqlite3_value_dup(value)) {
    if (value_ == nullptr) throw std::bad_alloc();
  }
  Kept(Kept&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Kept& operator=(Kept&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Kept() { sqlite3_value_free(value_); }
  int type() const { return sqlite3_value_type(value_); }
  bool null() const { return type() == SQLITE_NULL; }
  double real() const { return sqlite3_value_double(value_); }
  std::int64_t whole() const { return sqlite3_value_int64(value_); }
  std::string_view text() const {
    const auto* bytes = static_cast<const char*>(type() == SQLITE_BLOB ? sqlite3_value_blob(value_) : sqlite3_value_text(value_));
    return {bytes == nullptr ? "" : bytes, static_cast<std::size_t>(sqlite3_value_bytes(value_))};
  }

 private:
  sqlite3_value* value_;
};

// pg_ordered(kind, keys, a, b, key, …). `kind`: s string_agg, a array_agg, j J json_agg and jsonb_agg, o O the same of objects; `keys`:
// for each two letters, < or > and v (as SQLite compares), n (numeric) or i (interval), then l or f where NULLs go; D in front: DISTINCT.
struct Rows {
  std::string kind, keys;
  bool distinct = false;
  std::vector<std::vector<Kept>> rows;
  std::size_t bytes = 0;
};

int rank(const Kept& value) {
  return value.type() == SQLITE_INTEGER || value.type() == SQLITE_FLOAT ? 0 : value.type() == SQLITE_TEXT ? 1 : 2;
}

int compared(const Kept& a, const Kept& b, char how, const OfState& of) {
  if (how == 'n') return of.compare_numeric(a.text(), b.text());
  if (how == 'i') {
    const auto span = [](const Interval& each) {
      const std::int64_t rest = (each.micros % day_us + day_us) % day_us;
      return std::pair(each.months * 30 + each.days + (each.micros - rest) / day_us, rest);
    };
    const auto x = span(parse_interval(a.text())), y = span(parse_interval(b.text()));
    return x < y ? -1 : x > y ? 1 : 0;
  }
  if (rank(a) != rank(b)) return rank(a) - rank(b);
  if (rank(a) == 0) {
    if (a.type() == SQLITE_INTEGER && b.type() == SQLITE_INTEGER) return a.whole() < b.whole() ? -1 : a.whole() > b.whole() ? 1 : 0;
    return a.real() < b.real() ? -1 : a.real() > b.real() ? 1 : 0;
  }
  const int order = a.text().compare(b.text());
  return order;
}

// < 0: the first goes before the second.
int compared(const std::vector<Kept>& a, const std::vector<Kept>& b, const Rows& rows, const OfState& of) {
  for (std::size_t i = 0; i * 3 + 2 < rows.keys.size(); ++i) {
    const Kept &x = a[i + 2], &y = b[i + 2];
    const bool last = rows.keys[i * 3 + 2] == 'l';
    if (x.null() || y.null()) {
      if (x.null() && y.null()) continue;
      return x.null() == last ? 1 : -1;
    }
    const int order = compared(x, y, rows.keys[i * 3 + 1], of);
    if (order != 0) return rows.keys[i * 3] == '<' ? order : -order;
  }
  return 0;
}

template <class Work>
void guarded(sqlite3_context* context, const Work& work) {
  const OfState& of = *static_cast<OfState*>(sqlite3_user_data(context));
  try {
    work(of);
  } catch (CallError& failed) { of.state->fail(context, std::move(failed.problem)); } catch (const std::bad_alloc&) {
    sqlite3_result_error_nomem(context);
  }
}

template <class Held>
Held* held_by(sqlite3_context* context, bool make) {
  auto** held = static_cast<Held**>(sqlite3_aggregate_context(context, make ? sizeof(Held*) : 0));
  if (held == nullptr) return nullptr;
  if (*held == nullptr && make) *held = new (std::nothrow) Held();
  return *held;
}

void step(sqlite3_context* context, int count, sqlite3_value** values) {
  guarded(context, [&](const OfState& of) {
    Rows* held = held_by<Rows>(context, true);
    if (held == nullptr) throw std::bad_alloc();
    const Call call(*of.state, context, count, values);
    if (held->kind.empty()) {
      held->kind = call.text(0);
      held->keys = call.text(1);
      held->distinct = held->keys.starts_with('D');
      if (held->distinct) held->keys.erase(0, 1);
    }
    // string_agg() has no place for NULL.
    if (held->kind == "s" && call.null(2)) return;
    std::vector<Kept> row;
    for (int i = 2; i < count; ++i) {
      row.emplace_back(values[i]);
      held->bytes += 32 + static_cast<std::size_t>(sqlite3_value_bytes(values[i]));
    }
    if (held->bytes > bytes_max) fail("54000", "an aggregate with ORDER BY or DISTINCT may keep " + std::to_string(bytes_max) + " bytes");
    held->rows.push_back(std::move(row));
  });
}

std::string result_of(const Rows& held) {
  const char kind = held.kind.empty() ? 's' : held.kind[0];
  if (kind == 's') {
    std::string out;
    for (std::size_t i = 0; i < held.rows.size(); ++i) {
      if (i > 0 && !held.rows[i][1].null()) out += held.rows[i][1].text();
      out += held.rows[i][0].text();
    }
    return out;
  }
  if (kind == 'a') {
    Elements elements;
    for (const auto& row : held.rows) elements.push_back(row[0].null() ? std::nullopt : std::optional(std::string(row[0].text())));
    return array_literal(elements);
  }
  JsonList list;
  const bool object = kind == 'o' || kind == 'O';
  for (const auto& row : held.rows) {
    const Kept& value = object ? row[1] : row[0];
    const std::string json(value.null() ? "null" : value.text());
    if (!object) {
      list.put(json);
      continue;
    }
    if (row[0].null()) fail("22023", "field name must not be null");
    list.put(row[0].text(), json);
  }
  return list.text(object, kind == 'J' || kind == 'O');
}

void end(sqlite3_context* context) {
  Rows* held = held_by<Rows>(context, false);
  guarded(context, [&](const OfState& of) {
    if (held == nullptr || held->rows.empty()) return sqlite3_result_null(context);
    std::stable_sort(held->rows.begin(), held->rows.end(), [&](const auto& a, const auto& b) { return compared(a, b, *held, of) < 0; });
    if (held->distinct) {
      const auto same = [&](const auto& a, const auto& b) { return compared(a, b, *held, of) == 0; };
      held->rows.erase(std::unique(held->rows.begin(), held->rows.end(), same), held->rows.end());
    }
    const std::string text = result_of(*held);
    if (text.size() > bytes_max) fail("54000", "a value is too long");
    sqlite3_result_text64(context, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  });
  delete held;
}

// --- intervals

struct Spans {
  Interval total{};
  std::int64_t count = 0;
  std::optional<std::string> best;
};

void add(std::int64_t& to, std::int64_t amount, bool narrow) {
  if (__builtin_add_overflow(to, amount, &to) || (narrow && (to > INT32_MAX || to < INT32_MIN))) fail("22008", "interval out of range");
}

void span_step(sqlite3_context* context, int count, sqlite3_value** values) {
  guarded(context, [&](const OfState& of) {
    Spans* held = held_by<Spans>(context, true);
    if (held == nullptr) throw std::bad_alloc();
    const Call call(*of.state, context, count, values);
    if (call.null(0)) return;
    const Interval each = parse_interval(call.text(0));
    add(held->total.months, each.months, true);
    add(held->total.days, each.days, true);
    add(held->total.micros, each.micros, false);
    ++held->count;
  });
}

void span_end(sqlite3_context* context) {
  Spans* held = held_by<Spans>(context, false);
  guarded(context, [&](const OfState&) {
    if (held == nullptr || held->count == 0) return sqlite3_result_null(context);
    const std::string text = interval_text(held->total);
    sqlite3_result_text64(context, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  });
  delete held;
}

// Of equals the later one, as interval_smaller() and interval_larger() have it.
template <bool greatest>
void best_step(sqlite3_context* context, int count, sqlite3_value** values) {
  guarded(context, [&](const OfState& of) {
    Spans* held = held_by<Spans>(context, true);
    if (held == nullptr) throw std::bad_alloc();
    const Call call(*of.state, context, count, values);
    if (call.null(0)) return;
    const auto span = [](const Interval& each) {
      const std::int64_t rest = (each.micros % day_us + day_us) % day_us;
      return std::pair(each.months * 30 + each.days + (each.micros - rest) / day_us, rest);
    };
    const std::string text = call.text(0);
    if (held->best) {
      const auto old = span(parse_interval(*held->best)), now = span(parse_interval(text));
      if (greatest ? old > now : old < now) return;
    }
    held->best = text;
  });
}

void best_end(sqlite3_context* context) {
  Spans* held = held_by<Spans>(context, false);
  if (held == nullptr || !held->best) sqlite3_result_null(context);
  else sqlite3_result_text64(context, held->best->data(), held->best->size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  delete held;
}

}  // namespace
}  // namespace ordered

void register_ordered(sqlite3* connection, CatalogState& state, int (*compare_numeric)(std::string_view, std::string_view)) {
  using namespace ordered;
  const auto put = [&](const char* name, int count, void (*of_row)(sqlite3_context*, int, sqlite3_value**),
                       void (*of_all)(sqlite3_context*)) {
    sqlite3_create_window_function(connection, name, count, SQLITE_UTF8 | SQLITE_INNOCUOUS, new OfState{&state, compare_numeric}, of_row,
                                   of_all, nullptr, nullptr, [](void* held) { delete static_cast<OfState*>(held); });
  };
  put("pg_ordered", -1, step, end);
  put("pg_interval_sum", 1, span_step, span_end);
  put("pg_interval_min", 1, best_step<false>, best_end);
  put("pg_interval_max", 1, best_step<true>, best_end);
}

}  // namespace termgate::sqlite_server
