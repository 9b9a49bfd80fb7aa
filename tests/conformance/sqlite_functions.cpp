// Layer 1's SQL functions for a plain session, as the loadable extension registers them.
#include <termgate/detail/sqlite/layer1.hpp>

namespace conformance {

void register_functions(sqlite3* db);
void register_functions(sqlite3* db) { termgate::sqlite::Layer1::register_on(db); }

}  // namespace conformance
