// The virtual table behind every relation of the catalog: rows in memory, found by equality of one column.
#include <sqlite3.h>

#include <algorithm>
#include <new>

#include "catalog_state.hpp"

namespace termgate::lite {
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

std::string declared_type(const std::string& type) {
  const bool array = type.starts_with('_');
  const dialect::Type* known = dialect::type_named(array ? std::string_view(type).substr(1) : std::string_view(type));
  if (known == nullptr) return "text";
  return array ? std::string(known->name) + "_array_text" : std::string(known->declared);
}

bool whole_numbers(const SystemRelation& relation, int column) {
  const std::string& type = relation.columns[static_cast<std::size_t>(column)].type;
  const dialect::Type* known = dialect::type_named(type);
  return type == "bool" || (known != nullptr && known->stored == dialect::Stored::integer);
}

// Memory that ends must not end the process: SQLite is told.
template <class Work>
int guarded(const Work& work) noexcept {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return SQLITE_NOMEM;
  } catch (...) {
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
    if (const int code = sqlite3_declare_vtab(connection, (sql + ")").c_str()); code != SQLITE_OK) return code;
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

int best_index(sqlite3_vtab*, sqlite3_index_info* info) {
  info->estimatedCost = 3000;
  info->estimatedRows = 3000;
  int best = -1;
  bool best_is_key = false;
  for (int i = 0; i < info->nConstraint; ++i) {
    const auto& constraint = info->aConstraint[i];
    if (!constraint.usable || constraint.op != SQLITE_INDEX_CONSTRAINT_EQ || constraint.iColumn < 0) continue;
    // The first columns are the keys, as a rule.
    const bool key = constraint.iColumn < 2;
    if (best < 0 || (key && !best_is_key)) {
      best = i;
      best_is_key = key;
    }
  }
  if (best >= 0) {
    info->aConstraintUsage[best].argvIndex = 1;
    info->idxNum = info->aConstraint[best].iColumn + 1;
    info->estimatedCost = best_is_key ? 4 : 40;
    info->estimatedRows = best_is_key ? 4 : 40;
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

int filter(sqlite3_vtab_cursor* base, int column_and_one, const char*, int count, sqlite3_value** values) {
  return guarded([&] {
    auto* cursor = static_cast<Cursor*>(base);
    cursor->at = 0;
    cursor->all = true;
    cursor->chosen.clear();
    if (column_and_one == 0 || count == 0) return SQLITE_OK;
    const int column = column_and_one - 1;
    const SystemRelation& relation = *static_cast<Table*>(base->pVtab)->module->relation;
    cursor->all = false;
    const int type = whole_numbers(relation, column) ? sqlite3_value_numeric_type(values[0]) : sqlite3_value_type(values[0]);
    if (type == SQLITE_NULL) return SQLITE_OK;
    // SQLite looks at each row once more; what is no plain number or text is left to it.
    if (type != SQLITE_INTEGER && type != SQLITE_TEXT) {
      cursor->all = true;
      return SQLITE_OK;
    }
    auto& found_by = cursor->rows->found_by;
    auto index = found_by.find(column);
    if (index == found_by.end()) {
      index = found_by.try_emplace(column).first;
      for (std::size_t i = 0; i < cursor->rows->rows.size(); ++i) {
        const Stored& value = cursor->rows->rows[i][static_cast<std::size_t>(column)];
        if (!std::holds_alternative<std::monostate>(value)) index->second.emplace(key_of(value), i);
      }
    }
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_value_text(values[0]));
    if (bytes == nullptr) return SQLITE_NOMEM;
    const auto [first, last] = index->second.equal_range(std::string(bytes, static_cast<std::size_t>(sqlite3_value_bytes(values[0]))));
    for (auto each = first; each != last; ++each) cursor->chosen.push_back(each->second);
    std::sort(cursor->chosen.begin(), cursor->chosen.end());
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
  const Stored& value = static_cast<Cursor*>(base)->row()[static_cast<std::size_t>(place)];
  if (const auto* number = std::get_if<std::int64_t>(&value)) sqlite3_result_int64(context, *number);
  else if (const auto* real = std::get_if<double>(&value)) sqlite3_result_double(context, *real);
  else if (const auto* text = std::get_if<std::string>(&value)) sqlite3_result_text64(context, text->data(), text->size(), SQLITE_TRANSIENT, SQLITE_UTF8);
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
    sqlite3_create_module_v2(connection, relation.name.c_str(), &module_of_the_catalog, new Module{&state, &relation}, [](void* module) { delete static_cast<Module*>(module); });
  }
}

}  // namespace termgate::lite
