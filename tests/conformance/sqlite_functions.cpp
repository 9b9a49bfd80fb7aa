// Layer 1's SQL functions for a plain session, as the loadable extension registers them.
#include <termgate/detail/sqlite/law.hpp>

namespace conformance {

void register_functions(sqlite3* db);
void register_functions(sqlite3* db) { termgate::sqlite::Law::register_on(db); }

}  // namespace conformance
