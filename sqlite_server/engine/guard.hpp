// What a text from the network may touch, asked of SQLite's authorizer while it is prepared. Closed are the file system, what
// changes the connection or the durability of its commits, and Termgate's own objects, but for what is listed in guard.cpp.
#pragma once

#include <string>
#include <string_view>

namespace termgate::sqlite_server {

// Takes the authorizer's arguments but for the name of the trigger, view or common table expression that asks: anybody may choose the
// last of these, so it says nothing. `why` is set to the message where the answer is false.
// `temporary`: the connection is one session's own, which may have temporary tables, views and indexes.
bool may(int action, const char* first, const char* second, std::string& why, bool temporary = false);

// The names that SQLite does not pass to the authorizer: a table's new one, the arguments of a virtual table.
class Named {
 public:
  // What the authorizer was asked of the text.
  void ask(int action, const char* second);
  // Once it is prepared.
  bool may(std::string_view sql, std::string& why);

 private:
  bool made_virtual_ = false;
  bool renamed_ = false;
};

// Whether a function that is let pass writes, though the statement that calls it may be a SELECT.
bool function_writes(const char* name);

}  // namespace termgate::sqlite_server
