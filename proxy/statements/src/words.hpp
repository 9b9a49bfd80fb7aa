// The words of SQL that decisions depend on. Any other word is Word::other.
#pragma once

#include <cstdint>
#include <string_view>

namespace termgate::statements {

// clang-format off
// name, spelling
#define TERMGATE_WORDS(X)                                                                                                        \
  X(abort_, "abort") X(access, "access") X(all, "all") X(alter, "alter") X(analyse, "analyse") X(analyze, "analyze") X(and_, "and") \
  X(as, "as") X(atomic, "atomic") X(authorization, "authorization") X(begin, "begin") X(binary, "binary") X(call, "call")        \
  X(catalog, "catalog") X(chain, "chain") X(characteristics, "characteristics") X(checkpoint, "checkpoint") X(close, "close")    \
  X(cluster, "cluster") X(comment, "comment") X(commit, "commit") X(committed, "committed") X(concurrently, "concurrently")      \
  X(constraints, "constraints") X(copy, "copy") X(create, "create") X(current, "current") X(cursor, "cursor")                    \
  X(database, "database") X(deallocate, "deallocate") X(declare, "declare") X(default_, "default") X(deferrable, "deferrable")   \
  X(delete_, "delete") X(detach, "detach") X(discard, "discard") X(do_, "do") X(drop, "drop") X(end, "end")                      \
  X(execute, "execute") X(explain, "explain") X(false_, "false") X(fetch, "fetch") X(for_, "for") X(from, "from")                \
  X(grant, "grant") X(hold, "hold") X(import, "import") X(in, "in") X(index, "index") X(insert, "insert") X(into, "into")        \
  X(isolation, "isolation") X(key, "key") X(level, "level") X(listen, "listen") X(load, "load") X(local, "local")                \
  X(lock, "lock") X(merge, "merge") X(mode, "mode") X(move, "move") X(names, "names") X(no, "no") X(not_, "not")                 \
  X(notify, "notify") X(nowait, "nowait") X(off, "off") X(on, "on") X(only, "only") X(option, "option")                          \
  X(partition, "partition") X(plans, "plans") X(prepare, "prepare") X(prepared, "prepared") X(program, "program")                \
  X(publication, "publication") X(read, "read") X(reassign, "reassign") X(refresh, "refresh") X(reindex, "reindex")              \
  X(release, "release") X(repeatable, "repeatable") X(reset, "reset") X(revoke, "revoke") X(role, "role")                        \
  X(rollback, "rollback") X(savepoint, "savepoint") X(schema, "schema") X(security, "security") X(select, "select")              \
  X(sequences, "sequences") X(serializable, "serializable") X(session, "session") X(set, "set") X(share, "share")                \
  X(show, "show") X(snapshot, "snapshot") X(start, "start") X(stdin_, "stdin") X(stdout_, "stdout")                              \
  X(subscription, "subscription") X(system, "system") X(table, "table") X(tablespace, "tablespace") X(temp, "temp")              \
  X(temporary, "temporary") X(time, "time") X(to, "to") X(transaction, "transaction") X(true_, "true")                           \
  X(truncate, "truncate") X(uncommitted, "uncommitted") X(unique, "unique") X(unlisten, "unlisten") X(update, "update")          \
  X(vacuum, "vacuum") X(values, "values") X(verbose, "verbose") X(with, "with") X(without, "without") X(work, "work")            \
  X(write, "write") X(xml, "xml") X(zone, "zone")
// clang-format on

enum class Word : std::uint8_t {
  other,
#define TERMGATE_WORD(name, spelling) name,
  TERMGATE_WORDS(TERMGATE_WORD)
#undef TERMGATE_WORD
};

// Ignores the case of ASCII letters, as the grammar does for its keywords.
Word word_of(std::string_view text) noexcept;

}  // namespace termgate::statements
