// What the name of a function shows about a call. Names are as the server folds them: lower case
// unless quoted.
#pragma once

#include <string_view>

namespace termgate::statements {

// Functions of PostgreSQL and its common extensions that change something although the transaction
// is READ ONLY (in some version at least), or that run SQL which they get as text, so that it
// cannot be seen here. functions.cpp lists them, with the reasons. Without set_config, whose first
// argument decides.
bool is_read_only_hole(std::string_view function) noexcept;

// The server's own functions that most queries call. Only a hint, because a user's function may
// have the same name.
bool is_everyday(std::string_view function) noexcept;

// Operators and types of the server's own, by name. As with functions, a user's may have the same
// name.
bool is_everyday_operator(std::string_view operation) noexcept;
// `word`: in lower case. True: if a string follows it, the word is not the type of that string.
bool stands_before_a_constant(std::string_view word) noexcept;
bool is_everyday_type(std::string_view type) noexcept;

// The functions of layer 1 that write and decide by themselves whether they may. A statement that
// is one such call and nothing else may run without a check of the proxy's.
bool is_termgate_write(std::string_view function) noexcept;

// The functions of layer 1 that only read.
bool is_termgate_read(std::string_view function) noexcept;

// Words of the grammar that cannot be the name of a function or type unless quoted: IN, VALUES,
// INTEGER and the like.
bool is_never_a_name(std::string_view word) noexcept;

// Words of the grammar that an expression may follow. Columns may have some of these names: words
// that are common for columns, and that no expression ever follows, are left out.
bool may_begin_expression(std::string_view word) noexcept;

// Settings by which a session, or what it calls, avoids READ ONLY or triggers.
bool sets_read_only(std::string_view setting) noexcept;

// Settings that change how a text is split into tokens.
bool changes_lexing(std::string_view setting) noexcept;

}  // namespace termgate::statements
