// What a piece of SQL text is, for a proxy that must decide before it runs. Never throws, never crashes on a text, and fails
// closed: what cannot be read is `unparsable`, which counts as a write. Any thread.
//
// That a text is a read is an optimisation, never the proof: views, operators, casts and functions of the user's may hide
// anything, and it is the database's READ ONLY that stops them (docs/contract.md, F6).
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
  empty,          // no statement at all: white space, comments, `;`
  provably_read,  // SELECT, VALUES, TABLE: no INTO, no lock, nothing that modifies, no function of the list in functions.cpp
  write,
  unparsable,      // counts as a write, as several statements, and as one that may end the transaction
  must_run_alone,  // refused inside a transaction block by some major: VACUUM, CREATE DATABASE, CREATE INDEX CONCURRENTLY, …

  begin,     // also START TRANSACTION
  commit,    // also END
  rollback,  // also ABORT
  savepoint,
  rollback_to,
  release,
  prepare_transaction,
  commit_prepared,
  rollback_prepared,
  set_transaction,  // name `snapshot` for SET TRANSACTION SNAPSHOT

  set,
  set_local,
  set_constraints,
  reset,  // also SET … TO DEFAULT
  reset_all,
  show,
  discard,  // PLANS, SEQUENCES, TEMP
  discard_all,

  prepare,  // inner: what it will run
  execute,  // of a statement that an earlier text prepared: the caller remembers what it was
  deallocate,
  declare_cursor,  // inner: its query
  fetch,
  move,
  close,

  copy_in,       // FROM STDIN
  copy_out,      // TO STDOUT; inner where it is a query
  copy_program,  // either direction
  copy_file,     // either direction, on the server

  call,
  do_block,
  explain,  // inner: with ANALYZE what it runs (execute: name), else provably_read
  lock_table,
  listen,
  unlisten,
  notify,
};

enum class Isolation : std::uint8_t { unspecified, read_uncommitted, read_committed, repeatable_read, serializable };
enum class Access : std::uint8_t { unspecified, read_only, read_write };

// SELECT [* FROM] schema.function(literals and parameters), without a comment: one call and nothing else.
struct LoneCall {
  std::string function;     // in lower case unless quoted; empty: the statement is no such call
  bool casts = false;       // an argument has a cast, and a domain's CHECK may run anything
  bool runs_casts = false;  // to a type whose name is no word of the grammar: the cast itself may run code
};

struct Statement {
  Kind kind = Kind::unparsable;
  Kind inner = Kind::empty;
  std::size_t offset = 0;  // of its first token in the text, in bytes
  std::size_t length = 0;  // to the end of its last one, without the `;`

  Isolation isolation = Isolation::unspecified;  // of begin, set_transaction, and SET SESSION CHARACTERISTICS
  Access access = Access::unspecified;           // of the same
  bool and_chain = false;                        // COMMIT or ROLLBACK AND CHAIN
  bool all = false;                              // DEALLOCATE ALL, CLOSE ALL, UNLISTEN *
  bool to_default = false;                       // SET LOCAL … TO DEFAULT

  // May end the transaction that it runs in: COMMIT and the like, CALL, DO, what cannot be read.
  bool might_end_transaction = false;
  // READ ONLY lets it through, and it must count as a write all the same.
  bool read_only_hole = false;
  // Changes, or may change, what READ ONLY and triggers still stop: transaction_read_only, role, session_replication_role, …
  bool sets_read_only = false;
  // Changes, or may change, how later texts are lexed: until the server has answered, Settings are unknown.
  bool changes_lexing = false;
  // Calls functions whose names say nothing: they may write.
  bool calls_functions = false;
  // Calls functions that are not among the server's own everyday ones, by name: likelier to write. A hint, no more.
  bool calls_unknown = false;
  // Calls a function of layer 1 that writes; scope and term are its arguments.
  bool calls_termgate = false;
  LoneCall lone_call;  // where calls_termgate
  // Its own words declare termgate.scope or termgate.term, or set what cannot be seen here: set_config() of ours or of a computed name
  // anywhere in it, or one of the two names in a string.
  bool declares = false;
  // A query that calls set_config() of the two, and otherwise is a read that calls nothing unknown: it declares.
  bool only_declares = false;
  // The same, and for certain it does nothing else: SELECT set_config('termgate.…', value, boolean), … with literals and parameters, as
  // long as set_config is the server's own.
  bool exactly_declares = false;
  bool unknown_parameters = false;  // PREPARE: parameters of types that are not the server's own
  // Where in the text calls of set_config() name no schema: `pg_catalog.` put there makes them the server's own, whatever the search_path.
  std::vector<std::size_t> set_config_at;
  // Where READ WRITE says WRITE, in a statement that sets the access mode.
  std::vector<std::size_t> write_words;
  // Holds COMMIT, ROLLBACK or CALL among its words: of a DO, that it may end transactions.
  bool holds_transaction_words = false;
  // Must run alone where it meets a partitioned table: CLUSTER t, REINDEX TABLE t, REINDEX INDEX i.
  bool perhaps_alone = false;

  // Setting (lower case), savepoint, prepared statement, cursor, channel, or a prepared transaction's gid, unquoted.
  // In full: the server cuts names (not settings, not gids) at 63 bytes.
  std::string name;
  // What set, set_local or a set_config declares that is understood; nullopt: none, or one that is not a plain literal.
  std::optional<std::string> value;

  // Scope and term of the comments before its first token and after its last one. In a text of several statements a comment belongs to the
  // statement on its side of the `;`; one at the very end to the last statement.
  Declaration declared;
};

struct Classified {
  std::vector<Statement> statements;  // at least one: Kind::empty for an empty text
  // No `;` precedes the last token: at most one statement, whatever its grammar. Only then may a text be sent by Parse.
  bool single = false;
  // Known without the grammar: as cheap to say again as to remember.
  bool by_tokens = false;
  // The scope and term of the comments at the ends of the text.
  Declaration declared;
  // Whether the text speaks of termgate.scope or termgate.term anywhere, in whatever form: it may declare.
  bool speaks_of_terms = false;

  // Needs no term: no statement of it is a write, or a hole, or may become one.
  bool is_read() const noexcept;
  bool might_end_transaction() const noexcept;
};

// Whether the statement by itself may run without a term. EXECUTE, FETCH, MOVE count as reads here: the caller knows what was
// prepared, and a cursor can only read. CALL, DO and transaction control do not write by themselves either, and still the
// caller must look at them: CALL and DO are never reads, BEGIN READ WRITE and the like (sets_read_only) are not.
bool is_read(const Statement& statement) noexcept;

// Refused inside a transaction block: kind must_run_alone, DISCARD ALL, COMMIT PREPARED and ROLLBACK PREPARED.
bool runs_alone(const Statement& statement) noexcept;

// Costs about a microsecond for plain statements; what needs the grammar (several statements, WITH, COPY, EXPLAIN, …) some more.
Classified classify(std::string_view sql, const Settings& settings = {}) noexcept;

}  // namespace termgate::statements
