// Classifies a piece of SQL text, for a proxy that must decide before it runs. Never throws or
// crashes on any text, and fails closed: what cannot be read is `unparsable`, which counts as a
// write. Any thread.
//
// That a text is a read is an optimisation, never the proof: views, operators, casts and the user's
// functions may hide anything, and only the database's READ ONLY stops them (docs/contract.md, F6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/statements/declaration.hpp>
#include <termgate/statements/settings.hpp>

namespace termgate::statements {

enum class Kind : std::uint8_t {
  empty,  // no statement: white space, comments, `;`
  // SELECT, VALUES, TABLE, WITH: without INTO, a row lock, a WITH that modifies, a set_config() of
  // scope or term, or a function that functions.cpp lists as a hole or as a write of layer 1.
  provably_read,
  write,
  // Counts as a write that may do anything, and that may end the transaction.
  unparsable,
  // Some version refuses it inside a transaction block: VACUUM, CREATE DATABASE, CREATE INDEX
  // CONCURRENTLY and the like.
  must_run_alone,

  begin,     // also START TRANSACTION
  commit,    // also END
  rollback,  // also ABORT
  savepoint,
  rollback_to,
  release,
  prepare_transaction,
  commit_prepared,
  rollback_prepared,
  set_transaction,  // the name is `snapshot` for SET TRANSACTION SNAPSHOT

  set,
  set_local,
  set_constraints,
  reset,  // also SET … TO DEFAULT, but not SET LOCAL
  reset_all,
  show,
  discard,  // PLANS, SEQUENCES, TEMP
  discard_all,

  prepare,  // `inner`: what it will run
  // Runs what an earlier text prepared; the caller knows what that was.
  execute,
  deallocate,
  declare_cursor,  // `inner`: its query
  fetch,
  move,
  close,

  copy_in,       // FROM STDIN
  copy_out,      // TO STDOUT; `inner` if it is a query
  copy_program,  // in either direction
  copy_file,     // in either direction, on the server

  call,
  do_block,
  explain,  // `inner`: with ANALYZE what it runs (execute: `name`), else provably_read
  lock_table,
  listen,
  unlisten,
  notify,
};

enum class Isolation : std::uint8_t {
  unspecified,
  read_uncommitted,
  read_committed,
  repeatable_read,
  serializable
};
enum class Access : std::uint8_t { unspecified, read_only, read_write };

// SELECT [* FROM] schema.function(literals and parameters), without a comment: only this call.
struct LoneCall {
  std::string function;  // in lower case unless quoted; empty: it is not such a call
  // An argument has a cast; if the type is a domain, its CHECK may run anything.
  bool casts = false;
  // The cast is to a type whose name is not a word of the grammar, so the cast itself may run code.
  bool runs_casts = false;
};

struct Statement {
  Kind kind = Kind::unparsable;
  Kind inner = Kind::empty;
  std::size_t offset = 0;  // of its first token in the text, in bytes
  std::size_t length = 0;  // to the end of its last token, without the `;`

  // Set by begin, set_transaction, and SET SESSION CHARACTERISTICS.
  Isolation isolation = Isolation::unspecified;
  Access access = Access::unspecified;  // set by the same kinds
  bool and_chain = false;               // COMMIT or ROLLBACK AND CHAIN
  bool all = false;                     // DEALLOCATE ALL, CLOSE ALL, UNLISTEN *
  bool to_default = false;              // SET LOCAL … TO DEFAULT

  // May end the transaction that it runs in: COMMIT and the like, CALL, DO, whatever is unparsable.
  bool might_end_transaction = false;
  // READ ONLY lets it through, although it must count as a write.
  bool read_only_hole = false;
  // Changes, or may change, a setting that READ ONLY and triggers depend on: transaction_read_only,
  // role, session_replication_role and the like.
  bool sets_read_only = false;
  // Changes, or may change, how later texts are lexed: until the server has answered, Settings are
  // unknown.
  bool changes_lexing = false;
  // Calls functions, common ones too, or uses operators or casts that are not among the server's
  // common ones. Not set for definitions.
  bool calls_functions = false;
  // Some of these are not among the server's common ones, by name, so the statement is more likely
  // to write. Only a hint. For a definition: it calls any.
  bool calls_unknown = false;
  // Calls a function of layer 1 that writes and decides by itself whether it may.
  bool calls_termgate = false;
  LoneCall lone_call;  // if calls_termgate
  // It declares termgate.scope or termgate.term, or may: by a set_config() of them or of a computed
  // name anywhere in it, or because it is CALL, DO or unparsable. Not set for SET and RESET, which
  // `name` shows.
  bool declares = false;
  // A query that calls set_config() of these two and is otherwise a read without unknown calls.
  bool only_declares = false;
  // A query that certainly does nothing but declare: SELECT set_config('termgate.…', value,
  // boolean), … with literals and parameters. This holds only if set_config is the server's own.
  bool exactly_declares = false;
  bool unknown_parameters = false;  // PREPARE: parameters of user-defined types
  // Where the text calls set_config() of scope or term. `pg_catalog.` inserted there makes it the
  // server's own, whatever the search_path. npos: the call names its schema already.
  std::vector<std::size_t> set_config_at;
  // Where the WRITE of READ WRITE is, in a statement that sets the access mode.
  std::vector<std::size_t> write_words;
  // A CALL, or a DO that may end transactions: it contains COMMIT, ROLLBACK or CALL, or its body
  // cannot be read.
  bool holds_transaction_words = false;
  // Has a parameter ($1). True if that is not known.
  bool parameters = true;
  // Has a string, which the input function of its type reads. True if that is not known.
  bool literals = true;
  // The word FROM or TABLE is in it. True if that is not known.
  bool names_tables = true;
  // BEGIN [WORK | TRANSACTION] or START TRANSACTION, without modes.
  bool bare_begin = false;
  // The server describes its rows before it makes the first one: a query or SHOW. INSERT …
  // RETURNING, EXECUTE and a WITH that writes describe them only once they have succeeded.
  bool describes_first = false;
  // Must run alone if the table is partitioned: CLUSTER t, REINDEX TABLE t, REINDEX INDEX i.
  bool perhaps_alone = false;

  // Setting (lower case), savepoint, prepared statement, cursor, channel, or a prepared
  // transaction's gid; unquoted and in full. The server cuts names at 63 bytes, but not settings
  // and gids.
  std::string name;
  // The value that set, set_local or a set_config() gives. nullopt: there is none, or it is not a
  // plain literal.
  std::optional<std::string> value;

  // Scope and term in the comments before its first token and after its last one. In a text of
  // several statements, a comment belongs to the statement on its side of the `;`, and one at the
  // very end to the last statement. If the text begins with BEGIN or ends with COMMIT, a comment
  // there counts for every statement that has none.
  Declaration declared;
};

struct Classified {
  std::vector<Statement> statements;  // at least one: Kind::empty for an empty text
  // No `;` is between two of its other tokens: at most one statement, whatever its grammar. Only
  // then may a text be sent by Parse.
  bool single = false;
  // Classified without the grammar: doing that again is as cheap as a lookup.
  bool by_tokens = false;
  // The scope and term in the comments at the ends of the text.
  Declaration declared;
  // Whether the text contains termgate.scope or termgate.term anywhere, in upper or lower case, so
  // that it may declare.
  bool speaks_of_terms = false;

  // Whether the text needs no term: is_read() holds for each of its statements.
  bool is_read() const noexcept;
  bool might_end_transaction() const noexcept;
};

// Whether the statement by itself may run without a term. EXECUTE, FETCH and MOVE count as reads
// here: the caller knows what was prepared, and a cursor can only read. Transaction control is a
// read, except two-phase commit and what may set READ WRITE (sets_read_only). CALL and DO never
// are.
bool is_read(const Statement& statement) noexcept;

// Takes about a microsecond for plain statements, and longer if it needs the grammar (several
// statements, WITH, COPY, EXPLAIN and the like).
Classified classify(std::string_view sql, const Settings& settings = {}) noexcept;

}  // namespace termgate::statements
