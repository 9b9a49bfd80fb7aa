// What the tables of an SQLite file hold that the proxy could not read: found by doctor, rewritten by mend.
#pragma once

#include <vector>

#include <termgate/database.hpp>

namespace termgate::cli {

// One advice a column that holds such values. Reads every row of every table.
void add_stored_rows(Database& database, std::vector<Advice>& advice);

// One advice a column whose constant DEFAULT its own CHECK refuses, such as a negative default that earlier builds of the proxy stored as
// 0.
void add_stored_defaults(Database& database, std::vector<Advice>& advice);

}  // namespace termgate::cli
