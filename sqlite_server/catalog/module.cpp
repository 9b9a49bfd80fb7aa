// The virtual table behind every relation of the catalog: rows in memory, found by equality of one column
// (decision 0016).
// One thread, the connection's. A cursor shares the rows with the CatalogState, so they stay while it is open
// even if the schema changes meanwhile. No exception may leave a callback: SQLite is C, so guarded() turns it
// into a code.
#include <sqlite3.h>

#include <algorithm>
#include <new>
#include <optional>
#include <string>

#include "catalog/state.hpp"

namespace termgate::sqlite_server {
namespace {

struct Module {
  CatalogState* state;
  const SystemRelation* relation;
};

struct Table : sqlite3_vtab {
  Module* module;
};

struct Cursor : sqlite3_vtab_cursor {
  std::shared_ptr<Rows> rows;
  std::vector<std::size_t> chosen;
  bool all = true;
  std::size_t at = 0;
  const Row& row() const { return rows->rows[all ? at : chosen[at]]; }
};

// The declared type tells the server which PostgreSQL type a column has; SQLite takes its affinity from it.
std::string declared_type(const std::string& type) {
  const bool array = type.starts_with('_');
  const dialect::Type* known = dialect::type_named(array ? std::string_view(type).substr(1) : std::string_view(type));
  if (known == nullptr) return "text";
  return array ? std::string(known->name) + "_array_text" : std::string(known->declared);
}

bool whole_numbers(const SystemRelation& relation, int column) {
  if (static_cast<std::size_t>(column) >= relation.columns.size()) return true;
  const std::string& type = relation.columns[static_cast<std::size_t>(column)].type;
  const dialect::Type* known = dialect::type_named(type);
  return type == "bool" || (known != nullptr && known->stored == dialect::Stored::integer);
}

// Running out of memory must not end the process: SQLite gets SQLITE_NOMEM.
template <class Work>
int guarded(const Work& work) noexcept {
  try {
    return work();
  } catch (const std::bad_alloc&) { return SQLITE_NOMEM; } catch (...) {
    return SQLITE_ERROR;
  }
}

int connect(sqlite3* connection, void* auxiliary, int, const char* const*, sqlite3_vtab** out, char**) {
  return guarded([&] {
    auto* module = static_cast<Module*>(auxiliary);
    // Declaring asks the authorizer as a CREATE TABLE does.
    const CatalogState::Reading reading(*module->state);
    std::string sql = "CREATE TABLE x(";
    for (std::size_t i = 0; i < module->relation->columns.size(); ++i) {
      const auto& column = module->relation->columns[i];
      sql += (i > 0 ? ", \"" : "\"") + column.name + "\" " + declared_type(column.type);
    }
    if (const int code = sqlite3_declare_vtab(connection, (sql + ", tableoid oid_int HIDDEN)").c_str()); code != SQLITE_OK) return code;
    sqlite3_vtab_config(connection, SQLITE_VTAB_INNOCUOUS);
    auto* table = new Table{};
    table->module = module;
    *out = table;
    return SQLITE_OK;
  });
}

int disconnect(sqlite3_vtab* table) {
  delete static_cast<Table*>(table);
  return SQLITE_OK;
}

bool is_boolean(const SystemRelation& relation, int column) {
  return column >= 0 && static_cast<std::size_t>(column) < relation.columns.size() &&
         relation.columns[static_cast<std::size_t>(column)].type == "bool";
}

// idxNum: the column that rows are found by, plus one. The arguments after it are for boolean columns, which idxStr names: 'f' is
// false here, as a client writes it, and would not be to SQLite.
int best_index(sqlite3_vtab* table, sqlite3_index_info* info) {
  const SystemRelation& relation = *static_cast<Table*>(table)->module->relation;
  // Rough on purpose: SQLite only has to prefer a lookup to a walk, and a key to another column.
  info->estimatedCost = 3000;
  info->estimatedRows = 3000;
  int best = -1;
  bool best_is_key = false;
  std::string booleans;
  for (int i = 0; i < info->nConstraint; ++i) {
    const auto& constraint = info->aConstraint[i];
    if (!constraint.usable || constraint.op != SQLITE_INDEX_CONSTRAINT_EQ || constraint.iColumn < 0 ||
        static_cast<std::size_t>(constraint.iColumn) >= relation.columns.size())
      continue;
    if (is_boolean(relation, constraint.iColumn)) {
      booleans += (booleans.empty() ? "" : ",") + std::to_string(i);
      continue;
    }
    // The first columns are the keys, as a rule.
    const bool key = constraint.iColumn < 2;
    if (best < 0 || (key && !best_is_key)) {
      best = i;
      best_is_key = key;
    }
  }
  int arguments = 0;
  if (best >= 0) {
    info->aConstraintUsage[best].argvIndex = ++arguments;
    info->idxNum = info->aConstraint[best].iColumn + 1;
    info->estimatedCost = best_is_key ? 4 : 40;
    info->estimatedRows = best_is_key ? 4 : 40;
  }
  if (!booleans.empty()) {
    std::string columns;
    for (const std::string_view place : fields_of(booleans, ',')) {
      const auto i = number_of(place);
      info->aConstraintUsage[i].argvIndex = ++arguments;
      info->aConstraintUsage[i].omit = 1;
      columns += (columns.empty() ? "" : ",") + std::to_string(info->aConstraint[i].iColumn);
    }
    info->idxStr = sqlite3_mprintf("%s", columns.c_str());
    if (info->idxStr == nullptr) return SQLITE_NOMEM;
    info->needToFreeIdxStr = 1;
  }
  return SQLITE_OK;
}

int open(sqlite3_vtab* table, sqlite3_vtab_cursor** out) {
  return guarded([&] {
    auto* cursor = new Cursor{};
    try {
      const Module& module = *static_cast<Table*>(table)->module;
      cursor->rows = module.state->rows(*module.relation);
    } catch (...) {
      delete cursor;
      throw;
    }
    *out = cursor;
    return SQLITE_OK;
  });
}

int close(sqlite3_vtab_cursor* cursor) {
  delete static_cast<Cursor*>(cursor);
  return SQLITE_OK;
}

std::string key_of(const Stored& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return {};
}

// What a client may write for a boolean; nothing else is equal to one.
std::optional<std::int64_t> truth(sqlite3_value* value) {
  if (sqlite3_value_type(value) == SQLITE_INTEGER) return sqlite3_value_int64(value);
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_value_text(value));
  if (bytes == nullptr) return std::nullopt;
  const auto parsed = parse_value(bytes, dialect::oid::boolean, Format::text);
  const auto* stored = std::get_if<Stored>(&parsed);
  return stored == nullptr ? std::nullopt : std::optional(std::get<std::int64_t>(*stored));
}

// Narrows what is chosen to the rows whose column equals the value.
int choose(Cursor& cursor, const SystemRelation& relation, int column, sqlite3_value* value) {
  const int type = whole_numbers(relation, column) ? sqlite3_value_numeric_type(value) : sqlite3_value_type(value);
  cursor.all = type != SQLITE_NULL;
  // SQLite looks at each row once more; what is no plain number or text is left to it.
  if (type != SQLITE_INTEGER && type != SQLITE_TEXT) return SQLITE_OK;
  cursor.all = false;
  auto& found_by = cursor.rows->found_by;
  auto index = found_by.find(column);
  if (index == found_by.end()) {
    // Built at the first lookup by this column, and kept with the rows.
    index = found_by.try_emplace(column).first;
    for (std::size_t i = 0; i < cursor.rows->rows.size(); ++i) {
      const Stored& held = cursor.rows->rows[i][static_cast<std::size_t>(column)];
      if (!std::holds_alternative<std::monostate>(held)) index->second.emplace(key_of(held), i);
    }
  }
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_value_text(value));
  if (bytes == nullptr) return SQLITE_NOMEM;
  const auto [first, last] = index->second.equal_range(std::string(bytes, static_cast<std::size_t>(sqlite3_value_bytes(value))));
  for (auto each = first; each != last; ++each) cursor.chosen.push_back(each->second);
  std::sort(cursor.chosen.begin(), cursor.chosen.end());
  return SQLITE_OK;
}

int filter(sqlite3_vtab_cursor* base, int column_and_one, const char* booleans, int count, sqlite3_value** values) {
  return guarded([&] {
    auto& cursor = *static_cast<Cursor*>(base);
    const SystemRelation& relation = *static_cast<Table*>(base->pVtab)->module->relation;
    cursor.at = 0;
    cursor.all = true;
    cursor.chosen.clear();
    int argument = 0;
    if (column_and_one > 0 && count > 0) {
      if (const int code = choose(cursor, relation, column_and_one - 1, values[argument++]); code != SQLITE_OK) return code;
    }
    if (booleans == nullptr) return SQLITE_OK;
    if (cursor.all) {
      for (std::size_t i = 0; i < cursor.rows->rows.size(); ++i) cursor.chosen.push_back(i);
      cursor.all = false;
    }
    for (const std::string_view column : fields_of(booleans, ',')) {
      const auto wanted = truth(values[argument++]);
      std::erase_if(cursor.chosen, [&](std::size_t row) {
        const auto* held = std::get_if<std::int64_t>(&cursor.rows->rows[row][static_cast<std::size_t>(number_of(column))]);
        return !wanted || held == nullptr || *held != *wanted;
      });
    }
    return SQLITE_OK;
  });
}

int next(sqlite3_vtab_cursor* cursor) {
  ++static_cast<Cursor*>(cursor)->at;
  return SQLITE_OK;
}

int at_end(sqlite3_vtab_cursor* base) {
  const auto* cursor = static_cast<Cursor*>(base);
  return cursor->at >= (cursor->all ? cursor->rows->rows.size() : cursor->chosen.size()) ? 1 : 0;
}

int column(sqlite3_vtab_cursor* base, sqlite3_context* context, int place) {
  const SystemRelation& relation = *static_cast<Table*>(base->pVtab)->module->relation;
  if (static_cast<std::size_t>(place) >= relation.columns.size()) {
    sqlite3_result_int64(context, relation.oid);
    return SQLITE_OK;
  }
  const Stored& value = static_cast<Cursor*>(base)->row()[static_cast<std::size_t>(place)];
  if (const auto* number = std::get_if<std::int64_t>(&value)) sqlite3_result_int64(context, *number);
  else if (const auto* real = std::get_if<double>(&value)) sqlite3_result_double(context, *real);
  else if (const auto* text = std::get_if<std::string>(&value))
    sqlite3_result_text64(context, text->data(), text->size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  else sqlite3_result_null(context);
  return SQLITE_OK;
}

int row_id(sqlite3_vtab_cursor* base, sqlite3_int64* out) {
  const auto* cursor = static_cast<Cursor*>(base);
  *out = static_cast<sqlite3_int64>(cursor->all ? cursor->at : cursor->chosen[cursor->at]) + 1;
  return SQLITE_OK;
}

// Without xCreate: eponymous, in no schema.
const sqlite3_module module_of_the_catalog = [] {
  sqlite3_module made{};
  made.iVersion = 1;
  made.xConnect = connect;
  made.xBestIndex = best_index;
  made.xDisconnect = disconnect;
  made.xDestroy = disconnect;
  made.xOpen = open;
  made.xClose = close;
  made.xFilter = filter;
  made.xNext = next;
  made.xEof = at_end;
  made.xColumn = column;
  made.xRowid = row_id;
  return made;
}();

}  // namespace

void register_relations(sqlite3* connection, CatalogState& state) {
  for (const SystemRelation& relation : system_relations()) {
    sqlite3_create_module_v2(connection, relation.name.c_str(), &module_of_the_catalog, new Module{&state, &relation},
                             [](void* module) { delete static_cast<Module*>(module); });
  }
}

}  // namespace termgate::sqlite_server
