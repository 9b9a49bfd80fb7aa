// What the name of a function says of a call, where it says anything. Names as folded by the server: lower case unless quoted.
#pragma once

#include <string_view>

namespace termgate::statements {

// Functions of PostgreSQL and its usual extensions that change something although the transaction is READ ONLY, or that run SQL
// which they are given as text, so that nothing can be seen of it. Listed, with the reason, in functions.cpp. Not set_config,
// whose first argument decides.
bool is_read_only_hole(std::string_view function) noexcept;

// The server's own functions that most queries call. That one of the user's may bear the same name is why this is a hint only.
bool is_everyday(std::string_view function) noexcept;

// Operators and types of the server's own, by name. As with functions, one of the user's may bear the same name.
bool is_everyday_operator(std::string_view operation) noexcept;
// In small letters: a string behind it is none of a type that it names.
bool stands_before_a_constant(std::string_view word) noexcept;
bool is_everyday_type(std::string_view type) noexcept;

// The functions of layer 1 that write and carry their own scope and term.
bool is_termgate_write(std::string_view function) noexcept;

// The functions of layer 1 that only read.
bool is_termgate_read(std::string_view function) noexcept;

// Words of the grammar that no function and no type can have as its name unless it is quoted: IN, VALUES, INTEGER, …
bool is_never_a_name(std::string_view word) noexcept;

// Words of the grammar behind which an expression may begin. A column may have the name of some: those that are usual for columns, and that
// no expression ever follows, are left out.
bool may_begin_expression(std::string_view word) noexcept;

// Settings by which a session, or what it calls, gets out of READ ONLY or out of triggers.
bool sets_read_only(std::string_view setting) noexcept;

// Settings by which the same text becomes other tokens.
bool changes_lexing(std::string_view setting) noexcept;

}  // namespace termgate::statements
