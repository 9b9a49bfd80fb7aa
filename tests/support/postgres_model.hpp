// A server in a few hundred lines: what PostgreSQL does with transactions, READ ONLY, savepoints,
// prepared statements, pipelines and COPY, for a small vocabulary of statements, and with
// Termgate's check and seats. The oracle of fuzz_pg_session: it knows for itself what writes, and
// whether the check was passed, or a seat stands for it. Long: one model of a server; a case for
// each statement and message.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/encode.hpp>
#include <termgate/pgwire/reader.hpp>
#include <termgate/pgwire/types.hpp>

namespace termgate::test {

[[noreturn]] inline void broken(const char* what, std::string_view detail = {}) {
  std::fprintf(stderr, "broken: %s: %.*s\n", what, static_cast<int>(detail.size()), detail.data());
  std::abort();
}

class PostgresModel;

// What the sessions of one server share.
struct PostgresWorld {
  std::int64_t fence = 5;   // of orders
  std::size_t commits = 0;  // of transactions that wrote behind a check
  std::size_t seated = 0;   // transactions that wrote under a seat and without a check
  std::size_t evicted = 0;
  std::vector<PostgresModel*> sessions;

  // A new leader: whoever holds the check's lock, or has a seat, is evicted (F4), but for `but`.
  void raise(std::int64_t term, const PostgresModel* but = nullptr);
};

class PostgresModel {
 public:
  // What a text means here. Whatever is not in the list is a syntax error.
  enum class What {
    unknown,
    empty,
    read,
    hidden_write,
    write,
    hole,
    flip_default,
    begin,
    begin_read_only,
    begin_read_write,
    commit,
    commit_chain,
    rollback,
    savepoint,
    rollback_to,
    release,
    mark,
    unmark,
    set_transaction_off,
    set_transaction_on,
    set_default_off,
    set_default_on,
    reset_default,
    set_term_4,
    set_term_5,
    set_local_term_4,
    set_scope,
    copy_in,
    copy_out,
    vacuum,
    call,
    prepare_write,
    prepare_read,
    execute_x,
    execute_y,
    deallocate_all,
    discard_all,
    show_default,
    who_serves,
    lend_default,
    take_default_back,
    own_mode,
    check_in_own_mode,
    check_in_own_mode_of_block,
    check_again_lent,
    check,
    check_again,
    hold,
    release_hold,
    prepare_transaction,
    sit,
    stand,
    unseat,
  };

  struct Text {
    const char* sql;
    What what;
  };
  // The first `vocabulary_client` are a client's; those behind are the session's own, which a
  // client does not say.
  static constexpr Text vocabulary[] = {
      {"", What::empty},
      {"SELECT a FROM t", What::read},
      {"SELECT a FROM writing_view", What::hidden_write},
      {"INSERT INTO t VALUES (1)", What::write},
      {"UPDATE t SET a = $1", What::write},
      {"/*termgate.scope='orders',termgate.term='5'*/ DELETE FROM t", What::write},
      {"/*termgate.scope='orders',termgate.term='4'*/ DELETE FROM t", What::write},
      {"WITH x AS (DELETE FROM t RETURNING a) SELECT a FROM x", What::write},
      {"NOTIFY c", What::hole},
      {"SELECT flip()", What::flip_default},
      {"BEGIN", What::begin},
      {"BEGIN READ ONLY", What::begin_read_only},
      {"BEGIN READ WRITE", What::begin_read_write},
      {"START TRANSACTION ISOLATION LEVEL SERIALIZABLE", What::begin},
      {"COMMIT", What::commit},
      {"COMMIT AND CHAIN", What::commit_chain},
      {"ROLLBACK", What::rollback},
      {"SAVEPOINT s", What::savepoint},
      {"ROLLBACK TO s", What::rollback_to},
      {"RELEASE s", What::release},
      {"SET TRANSACTION READ WRITE", What::set_transaction_off},
      {"SET TRANSACTION READ ONLY", What::set_transaction_on},
      {"SET transaction_read_only = off", What::set_transaction_off},
      {"SET default_transaction_read_only = off", What::set_default_off},
      {"SET default_transaction_read_only = on", What::set_default_on},
      {"SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", What::set_default_off},
      {"RESET default_transaction_read_only", What::reset_default},
      {"SET termgate.term = '4'", What::set_term_4},
      {"SET termgate.term = '5'", What::set_term_5},
      {"SET LOCAL termgate.term = '4'", What::set_local_term_4},
      {"SET termgate.scope = 'orders'", What::set_scope},
      {"COPY t FROM STDIN", What::copy_in},
      {"COPY t TO STDOUT", What::copy_out},
      {"VACUUM t", What::vacuum},
      {"CALL p()", What::call},
      {"DO $$ BEGIN PERFORM p(); END $$", What::write},
      {"PREPARE x AS INSERT INTO t VALUES (1)", What::prepare_write},
      {"PREPARE y AS SELECT a FROM t", What::prepare_read},
      {"EXECUTE x", What::execute_x},
      {"EXECUTE y", What::execute_y},
      {"DEALLOCATE ALL", What::deallocate_all},
      {"DISCARD ALL", What::discard_all},
      {"SHOW default_transaction_read_only", What::show_default},
      {"FROB t", What::unknown},
      {"PREPARE TRANSACTION 'x'", What::prepare_transaction},
      // A client's up to here.
      {"SET LOCAL default_transaction_read_only TO DEFAULT", What::lend_default},
      {"SET LOCAL default_transaction_read_only TO on", What::take_default_back},
      {"SET default_transaction_read_only TO DEFAULT", What::reset_default},
      {"SELECT pg_catalog.set_config('transaction_read_only', "
       "pg_catalog.set_config('default_transaction_read_only', NULL, true), true)",
       What::own_mode},
      {"SELECT pg_catalog.set_config('transaction_read_only', "
       "pg_catalog.set_config('default_transaction_read_only', NULL, true), true), "
       "pg_catalog.left(pg_catalog.set_config('default_transaction_read_only', 'on', true), 0)",
       What::own_mode},
      {"SELECT pg_catalog.concat(\"termgate\".check_claim_text($1, $2, $3, $4), "
       "pg_catalog.chr(10), "
       "pg_catalog.set_config('transaction_read_only', "
       "pg_catalog.set_config('default_transaction_read_only', NULL, true), true))",
       What::check_in_own_mode},
      {"SELECT pg_catalog.concat(\"termgate\".check_claim_text($1, $2, $3, $4), "
       "pg_catalog.chr(10), "
       "pg_catalog.set_config('transaction_read_only', "
       "pg_catalog.set_config('default_transaction_read_only', NULL, true), true), "
       "pg_catalog.left(pg_catalog.set_config('default_transaction_read_only', 'on', true), 0))",
       What::check_in_own_mode_of_block},
      {"SELECT *, pg_catalog.current_setting('default_transaction_read_only') FROM "
       "\"termgate\".check_again()",
       What::check_again_lent},
      {"SET default_transaction_read_only TO on", What::set_default_on},
      {"SET default_transaction_read_only TO off", What::set_default_off},
      {"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", What::set_default_on},
      {"SAVEPOINT _termgate_first", What::mark},
      {"RELEASE SAVEPOINT _termgate_first", What::unmark},
      {"SET transaction_read_only TO on", What::set_transaction_on},
      {"SET transaction_read_only TO off", What::set_transaction_off},
      {"SELECT \"termgate\".check_claim_text($1, $2, $3, $4)", What::check},
      {"SELECT * FROM \"termgate\".check_again()", What::check_again},
      {"SELECT * FROM \"termgate\".hold_claim($1, $2, $3, $4, $5)", What::hold},
      {"SELECT \"termgate\".release_session($1)", What::release_hold},
      {"SELECT s.nonce, s.why, CASE WHEN s.nonce IS NOT NULL THEN "
       "pg_catalog.set_config('default_transaction_read_only', NULL, false) END "
       "FROM "
       "\"termgate\".sit($1, $2, pg_catalog.sha256(pg_catalog.decode($3, 'hex'))) s",
       What::sit},
      {"SELECT \"termgate\".stand(ARRAY[$1::pg_catalog.uuid], pg_catalog.decode($2, 'hex')), "
       "pg_catalog.set_config('default_transaction_read_only', 'on', false)",
       What::stand},
      {"SET LOCAL termgate.seat TO off", What::unseat},
  };
  static constexpr std::size_t vocabulary_client = 45;
  // How the session's question at a login begins; run() has its answer.
  static constexpr std::string_view who_serves = "SELECT pg_catalog.pg_backend_pid(), ";
  static constexpr std::uint32_t pid = 4711;

  // `guarded`: a write that the check does not stand before is a breach, and ends the program.
  // Without `world` it has one of its own.
  PostgresModel(bool guarded, bool reports_default, std::string declared_scope,
                std::int64_t declared_term, PostgresWorld* world = nullptr)
      : world_(world != nullptr ? *world : own_),
        guarded_(guarded),
        reports_default_(reports_default),
        rules_(rules()),
        reader_(rules_) {
    now_.scope = std::move(declared_scope);
    now_.term = declared_term;
    start_ = kept_ = now_;
    world_.sessions.push_back(this);
  }
  PostgresModel(const PostgresModel&) = delete;
  PostgresModel& operator=(const PostgresModel&) = delete;
  ~PostgresModel() { std::erase(world_.sessions, this); }

  void receive(std::string_view bytes) {
    while (!bytes.empty() && !over) {
      const pgwire::Event event = reader_.next(bytes);
      bytes.remove_prefix(event.used);
      if (event.kind == pgwire::Event::Kind::malformed)
        broken("the server got a frame that cannot be read", event.problem.reason());
      if (event.kind == pgwire::Event::Kind::need_more) return;
      if (event.kind == pgwire::Event::Kind::message) message(event.type, event.body);
      if (event.kind == pgwire::Event::Kind::part)
        broken("the rules stream nothing", std::string_view(&event.type, 1));
    }
  }

  // Evicted where it holds the check's lock, or has a seat.
  bool stands_in_the_way() const noexcept { return !over && (tx_.checked || held || seat_); }
  void evict() {
    out += made_error("FATAL", "57P01", "terminating connection due to administrator command");
    end();
  }
  std::int64_t fence() const noexcept { return world_.fence; }
  void raise(std::int64_t term) { world_.raise(term); }
  // The connection is gone, and with it the transaction and the locks.
  void end() {
    over = true;
    tx_ = Transaction();
    held = false;
    seat_.reset();
  }

  char state() const noexcept { return !tx_.block ? 'I' : tx_.failed ? 'E' : 'T'; }
  bool copying() const noexcept { return copying_; }

  std::string out;            // for the client
  bool over = false;          // the connection is gone behind `out`
  bool held = false;          // the check's lock at session level
  std::size_t swallowed = 0;  // Syncs in the middle of a COPY
  std::size_t writes = 0;

 private:
  struct Settings {
    bool default_read_only = false;
    std::string scope;
    std::int64_t term = 0;
  };
  // What ROLLBACK TO brings back.
  struct Part {
    bool read_only = false, checked = false, wrote = false, owes = false;  // owes: a check
    std::int64_t term = 0;  // that the check passed with, or that the session's lock is held, or
                            // its seat taken, under
    std::optional<std::optional<std::int64_t>> seat_then = {};  // the seat once it has committed
  };
  struct Savepoint {
    Part part;
    Settings settings;
    bool ours;
  };
  struct Transaction : Part {
    bool active = false, block = false, failed = false, snapshot = false;
    std::vector<Savepoint> savepoints;
  };
  struct Portal {
    std::string sql;
    std::vector<std::optional<std::string>> values;
  };
  struct Failure {
    std::string code, text;
  };

  static pgwire::Rules rules() {
    pgwire::Rules made = pgwire::Rules::frontend();
    for (int type = 0; type < 256; ++type) {
      if (made[static_cast<char>(type)].known)
        made[static_cast<char>(type)].whole_max = made[static_cast<char>(type)].body_max;
    }
    return made;
  }

  static std::string made_error(std::string_view severity, std::string_view code,
                                std::string_view text) {
    std::string bytes;
    pgwire::append_error_response(bytes, pgwire::report(severity, code, text));
    return bytes;
  }

  template <class Decoded>
  static auto whole(const Decoded& decoded, const char* message) {
    if (!decoded) broken(message, decoded.problem().reason());
    return *decoded;
  }

  static std::string_view trimmed(std::string_view sql) {
    while (!sql.empty() && sql.front() == ' ') sql.remove_prefix(1);
    while (!sql.empty() && (sql.back() == ' ' || sql.back() == ';')) sql.remove_suffix(1);
    return sql;
  }
  static What meaning(std::string_view sql) {
    if (sql.starts_with(who_serves)) return What::who_serves;
    for (const Text& text : vocabulary) {
      if (trimmed(sql) == text.sql) return text.what;
    }
    return What::unknown;
  }
  static std::vector<std::string_view> split(std::string_view sql) {
    // The bodies of DO are quoted by dollars.
    std::vector<std::string_view> all;
    bool quoted = false;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < sql.size(); ++at) {
      if (sql.substr(at, 2) == "$$") quoted = !quoted, ++at;
      else if (sql[at] == ';' && !quoted)
        all.push_back(sql.substr(begin, at - begin)), begin = at + 1;
    }
    all.push_back(sql.substr(begin));
    std::erase_if(all, [](std::string_view one) { return trimmed(one).empty(); });
    return all;
  }
  static bool needs_snapshot(What what) {
    switch (what) {
      case What::read:
      case What::hidden_write:
      case What::write:
      case What::flip_default:
      case What::who_serves:
      case What::own_mode:
      case What::check_in_own_mode:
      case What::check_in_own_mode_of_block:
      case What::check_again_lent:
      case What::check:
      case What::check_again:
      case What::hold:
      case What::sit:
      case What::stand:
      case What::release_hold: return true;
      default: return false;
    }
  }
  static bool needs_block(What what) {
    return what == What::commit_chain || what == What::mark || what == What::savepoint ||
           what == What::rollback_to || what == What::release || what == What::prepare_transaction;
  }
  static bool leaves(What what) {
    return what == What::commit || what == What::rollback || what == What::rollback_to ||
           what == What::commit_chain || what == What::prepare_transaction;
  }

  void start() {
    if (tx_.active) return;
    tx_ = Transaction();
    tx_.active = true;
    tx_.read_only = now_.default_read_only;
    kept_ = now_;
  }
  void commit() {
    const bool was = tx_.failed;
    if (!was && tx_.owes) broken("a write without a check");
    if (!was && tx_.wrote && guarded_) {
      // F1, F2: whoever raised meanwhile has evicted the holder of the lock, so a COMMIT that gets
      // here stands under the highest fence.
      if (tx_.term < world_.fence)
        broken("a write committed under a term lower than the fence", std::to_string(tx_.term));
      ++world_.commits;
      if (!tx_.checked) ++world_.seated;
    }
    if (!was && tx_.seat_then) seat_ = *tx_.seat_then;
    tx_ = Transaction();
    portals_.clear();  // none outlives its transaction
    if (was) now_ = kept_;
    now_.term = local_ ? kept_term_ : now_.term;
    local_ = false;
    now_.default_read_only =
        std::exchange(default_behind_, std::nullopt).value_or(now_.default_read_only);
  }
  void abort() {
    if (tx_.active) now_ = kept_;
    tx_ = Transaction();
    portals_.clear();
    local_ = false;
    default_behind_.reset();
  }
  // For this transaction alone.
  void set_default_local(bool on) {
    if (!default_behind_) default_behind_ = now_.default_read_only;
    now_.default_read_only = on;
  }
  void set_default(bool on) {
    now_.default_read_only = on;
    default_behind_.reset();
  }
  void fail() {
    if (!tx_.block) return abort();
    tx_.failed = true;
    // What is aborted has given its locks back: the innermost savepoint's part, or the whole
    // transaction.
    tx_.checked = !tx_.savepoints.empty() && tx_.savepoints.back().part.checked;
  }
  void ready() {
    if (reports_default_ && reported_ != now_.default_read_only) {
      reported_ = now_.default_read_only;
      pgwire::append_parameter_status(out, "default_transaction_read_only",
                                      reported_ ? "on" : "off");
    }
    pgwire::append_ready_for_query(out, static_cast<pgwire::TransactionStatus>(state()));
  }

  std::optional<Failure> write(std::string_view sql, bool stopped_by_read_only = true) {
    if (tx_.read_only && stopped_by_read_only)
      return Failure{"25006", "cannot execute in a read-only transaction"};
    // A seat stands for what the session declares, and for no comment.
    const bool seated = seat_ && now_.scope == "orders" && now_.term == *seat_ &&
                        sql.find("termgate.") == std::string_view::npos;
    // What looks like a read may write before the check, if that comes before the COMMIT.
    if (guarded_ && !tx_.checked && !held && !seated) {
      if (meaning(sql) != What::hidden_write) broken("a write without a check", sql);
      tx_.owes = true;
    }
    ++writes;
    tx_.wrote = true;
    if (!tx_.checked) tx_.term = held ? held_term_ : seat_.value_or(0);
    return {};
  }

  std::optional<Failure> check(std::optional<std::string> scope, std::optional<std::string> term,
                               What what, std::string& rows) {
    const std::string wanted_scope = scope ? *scope : now_.scope;
    const std::int64_t wanted = term ? std::atoll(term->c_str()) : now_.term;
    if (wanted_scope.empty() || (wanted == 0 && !term))
      return Failure{"TG002", "TG002 no term declared: a write needs a scope and a term"};
    // The vocabulary declares 4 and 5. What is above may be the fence, and would pass.
    if (wanted > 5 && wanted != start_.term)
      broken("a check under a term that its client never declared", std::to_string(wanted));
    if (wanted < 1) return Failure{"TG005", "TG005 the term must be an integer from 1 to 2^62"};
    if (wanted < world_.fence)
      return Failure{"TG001", "TG001 stale term " + std::to_string(wanted) + " for scope \"" +
                                  wanted_scope + "\": the fence stands at " +
                                  std::to_string(world_.fence)};
    if (tx_.read_only && wanted > world_.fence)
      return Failure{"25006", "cannot raise in a read-only transaction"};
    if (wanted > world_.fence && tx_.wrote)
      return Failure{"TG005", "TG005 this transaction has passed a lower term already"};
    world_.raise(wanted, this);
    tx_.checked = true;
    tx_.owes = false;
    tx_.term = wanted;
    if (what == What::hold) held = true, held_term_ = wanted;
    const std::string told_term = std::to_string(wanted), told_fence = std::to_string(world_.fence);
    if (what == What::check || what == What::check_in_own_mode ||
        what == What::check_in_own_mode_of_block) {
      const std::string answer =
          told_term + ' ' + told_fence + ' ' + wanted_scope + (what == What::check ? "" : "\noff");
      const pgwire::Field values[] = {answer};
      pgwire::append_data_row(rows, values);
    } else {
      const pgwire::Field values[] = {wanted_scope, told_term, told_fence,
                                      now_.default_read_only ? "on" : "off"};
      pgwire::append_data_row(rows,
                              std::span(values).first(what == What::check_again_lent ? 4 : 3));
    }
    return {};
  }

  void set_local() {
    if (!local_) kept_term_ = now_.term;
    local_ = true;
  }

  // `alone`: the one statement of its message, and not in a block, so that it may end its
  // transaction. Rows and the tag go to `out`. Long: one case for each kind of statement of the
  // model.
  std::optional<Failure> run(std::string_view sql, bool alone, bool extended,
                             const std::vector<std::optional<std::string>>& values = {}) {
    const What what = meaning(sql);
    if (tx_.failed && !leaves(what))
      return Failure{
          "25P02",
          "current transaction is aborted, commands ignored until end of transaction block"};
    start();
    if (needs_snapshot(what)) tx_.snapshot = true;
    if (!tx_.block && needs_block(what))
      return Failure{"25P01", "it can only be used in transaction blocks"};
    std::string rows, tag = "SET";
    const std::string one_text = what == What::who_serves ? std::to_string(pid) : "1";
    const pgwire::Field one = one_text;
    const auto returns_row = [&](const char* as) {
      if (!extended) {
        const pgwire::Column column{.name = "a"};
        pgwire::append_row_description(rows, std::span(&column, 1));
      }
      pgwire::append_data_row(rows, std::span(&one, 1));
      tag = as;
    };
    switch (what) {
      case What::unknown: return Failure{"42601", "syntax error"};
      case What::empty: pgwire::append_bare(out, 'I'); return {};
      case What::hidden_write:
        if (auto failure = write(sql)) return failure;
        returns_row("SELECT 1");
        break;
      case What::who_serves: {
        const std::string term = std::to_string(now_.term);
        const pgwire::Field fields[] = {
            one,
            now_.scope.empty() ? pgwire::Field() : pgwire::Field(now_.scope),
            now_.term == 0 ? pgwire::Field() : pgwire::Field(term),
            "f",
            "",
            "f",
            "off",
            "off",
            "t"};
        pgwire::append_data_row(rows, fields);
        tag = "SELECT 1";
        break;
      }
      case What::show_default:
      case What::read: returns_row("SELECT 1"); break;
      case What::write:
        if (auto failure = write(sql)) return failure;
        tag = "INSERT 0 1";
        break;
      case What::hole:
        if (auto failure = write(sql, false)) return failure;
        tag = "NOTIFY";
        break;
      case What::flip_default:
        set_default(false);
        returns_row("SELECT 1");
        break;
      case What::begin:
      case What::begin_read_only:
      case What::begin_read_write:
        tag = "BEGIN";
        if (tx_.block) break;  // a warning, no more
        tx_.block = true;
        if (what == What::begin_read_only) tx_.read_only = true;
        if (what == What::begin_read_write) {
          if (tx_.read_only && tx_.snapshot)
            return Failure{"25001", "transaction read-write mode must be set before any query"};
          tx_.read_only = false;
        }
        break;
      case What::commit:
        tag = tx_.failed ? "ROLLBACK" : "COMMIT";
        commit();
        break;
      case What::commit_chain: {
        tag = tx_.failed ? "ROLLBACK" : "COMMIT";
        const bool read_only = tx_.read_only;
        commit();
        start();
        tx_.block = true;
        tx_.read_only = read_only;
        break;
      }
      case What::rollback:
        tag = "ROLLBACK";
        abort();
        break;
      case What::mark:
      case What::savepoint:
        tx_.savepoints.push_back({tx_, now_, what == What::mark});
        tag = "SAVEPOINT";
        break;
      case What::rollback_to:
        if (tx_.savepoints.empty() || tx_.savepoints.back().ours)
          return Failure{"3B001", "savepoint does not exist"};
        tx_.failed = false;
        static_cast<Part&>(tx_) = tx_.savepoints.back().part;
        now_ = tx_.savepoints.back().settings;
        tag = "ROLLBACK";
        break;
      case What::release:
        if (tx_.savepoints.empty() || tx_.savepoints.back().ours)
          return Failure{"3B001", "savepoint does not exist"};
        tx_.read_only = tx_.savepoints.back().part.read_only;
        tx_.savepoints.pop_back();
        tag = "RELEASE";
        break;
      case What::unmark: {
        const auto mark = std::find_if(tx_.savepoints.begin(), tx_.savepoints.end(),
                                       [](const auto& open) { return open.ours; });
        if (mark == tx_.savepoints.end()) return Failure{"3B001", "savepoint does not exist"};
        tx_.read_only = mark->part.read_only;
        tx_.savepoints.erase(mark, tx_.savepoints.end());
        tag = "RELEASE";
        break;
      }
      case What::set_transaction_off:
        if (tx_.read_only && (tx_.snapshot || !tx_.savepoints.empty()))
          return Failure{"25001", "transaction read-write mode must be set before any query"};
        tx_.read_only = false;
        break;
      case What::set_transaction_on: tx_.read_only = true; break;
      case What::set_default_off: set_default(false); break;
      case What::set_default_on: set_default(true); break;
      case What::reset_default:
        set_default(start_.default_read_only);
        tag = "RESET";
        break;
      case What::lend_default: set_default_local(start_.default_read_only); break;
      case What::take_default_back: set_default_local(true); break;
      case What::own_mode:
        set_default_local(start_.default_read_only);
        if (tx_.block) set_default_local(true);
        tx_.read_only = tx_.read_only || start_.default_read_only;
        returns_row("SELECT 1");
        break;
      case What::set_term_4: now_.term = 4, local_ = false; break;
      case What::set_term_5: now_.term = 5, local_ = false; break;
      case What::set_local_term_4:
        if (tx_.block) set_local(), now_.term = 4;
        break;
      case What::set_scope: now_.scope = "orders"; break;
      case What::copy_in:
        if (auto failure = write(sql)) return failure;
        pgwire::append_opaque(out, 'G', std::string_view("\0\0\0", 3));
        copying_ = true;
        copy_extended_ = extended;
        return {};
      case What::copy_out:
        tx_.snapshot = true;
        pgwire::append_opaque(out, 'H', std::string_view("\0\0\0", 3));
        pgwire::append_opaque(out, 'd', "1\n");
        pgwire::append_bare(out, 'c');
        tag = "COPY 1";
        break;
      case What::vacuum:
        if (!alone) return Failure{"25001", "VACUUM cannot run inside a transaction block"};
        if (auto failure = write(sql, false)) return failure;
        commit();
        tag = "VACUUM";
        break;
      case What::call:
        tx_.snapshot = true;
        if (auto failure = write(sql)) return failure;
        if (!tx_.block && alone) {
          // The procedure commits by itself, and writes again.
          commit();
          start();
          tx_.snapshot = true;
          if (auto failure = write(sql)) return failure;
        }
        tag = "CALL";
        break;
      case What::prepare_write:
      case What::prepare_read: {
        const std::string name = what == What::prepare_write ? "x" : "y";
        if (statements_.count(name) != 0)
          return Failure{"42P05", "prepared statement already exists"};
        statements_[name] =
            what == What::prepare_write ? "INSERT INTO t VALUES (1)" : "SELECT a FROM t";
        tx_.snapshot = true;
        tag = "PREPARE";
        break;
      }
      case What::execute_x:
      case What::execute_y: {
        const auto found = statements_.find(what == What::execute_x ? "x" : "y");
        if (found == statements_.end())
          return Failure{"26000", "prepared statement does not exist"};
        const What inner = meaning(found->second);
        if (inner != What::write && inner != What::read && inner != What::hidden_write)
          return Failure{"42601", "EXECUTE of a utility statement"};
        return run(std::string(found->second), alone, extended);
      }
      case What::deallocate_all:
        statements_.clear();
        tag = "DEALLOCATE ALL";
        break;
      case What::discard_all:
        if (!alone) return Failure{"25001", "DISCARD ALL cannot run inside a transaction block"};
        statements_.clear();
        portals_.clear();
        now_ = start_;
        kept_ = now_;
        held = false;
        tag = "DISCARD ALL";
        break;
      case What::check_again_lent:
      case What::check_again: {
        if (!values.empty()) return Failure{"08P01", "it takes no parameters"};
        const std::string term = std::to_string(now_.term);
        if (now_.scope.empty() || now_.term == 0) {
          const pgwire::Field fields[] = {
              now_.scope.empty() ? pgwire::Field() : pgwire::Field(now_.scope),
              now_.term == 0 ? pgwire::Field() : pgwire::Field(term), pgwire::Field(),
              now_.default_read_only ? "on" : "off"};
          pgwire::append_data_row(rows, std::span(fields).first(what == What::check_again ? 3 : 4));
        } else if (auto failure = check({}, {}, what, rows)) {
          return failure;
        }
        tag = "SELECT 1";
        break;
      }
      case What::check:
      case What::check_in_own_mode:
      case What::check_in_own_mode_of_block:
      case What::hold: {
        if (values.size() != (what == What::hold ? 5u : 4u))
          return Failure{"08P01", "other parameters are needed"};
        if (auto failure = check(values[0], values[1], what, rows)) return failure;
        if (what == What::check_in_own_mode) set_default_local(start_.default_read_only);
        tag = "SELECT 1";
        break;
      }
      case What::release_hold:
        held = false;
        returns_row("SELECT 1");
        break;
      case What::prepare_transaction:
        if (!tx_.failed && guarded_ && tx_.wrote && !tx_.checked)
          broken("prepared without a lock", sql);
        if (!tx_.failed && tx_.seat_then) broken("prepared with the row of a seat", sql);
        tag = tx_.failed ? "ROLLBACK" : "PREPARE TRANSACTION";
        commit();
        break;
      case What::sit: {
        if (tx_.block || values.size() != 3)
          broken("sit() in a block, or with other parameters", sql);
        std::string answer;
        if (auto failure = check(values[0], values[1], what, answer)) return failure;
        tx_.seat_then = tx_.term;
        set_default(start_.default_read_only);
        const pgwire::Field nonce[] = {seat_nonce, std::nullopt, ""};
        pgwire::append_data_row(rows, nonce);
        tag = "SELECT 1";
        break;
      }
      case What::stand: {
        if (values.size() != 2 || values[0] != seat_nonce) broken("stand() for another seat", sql);
        if (tx_.read_only && seat_)
          return Failure{"25006", "cannot execute DELETE in a read-only transaction"};
        tx_.seat_then.emplace(std::nullopt);
        set_default(true);
        const pgwire::Field gone[] = {"{}", "on"};
        pgwire::append_data_row(rows, gone);
        tag = "SELECT 1";
        break;
      }
      case What::unseat: break;
    }
    out += rows;
    pgwire::append_command_complete(out, tag);
    return {};
  }

  void failed(const Failure& failure, bool extended) {
    out += made_error("ERROR", failure.code, failure.text);
    fail();
    if (extended) skipping_ = true;
  }

  void simple(std::string_view sql) {
    statements_.erase("");
    portals_.erase("");
    const std::vector<std::string_view> all = split(sql);
    if (all.empty()) {
      pgwire::append_bare(out, 'I');
      return ready();
    }
    for (const std::string_view one : all) {
      if (meaning(one) == What::unknown) {  // the grammar sees the whole text first
        if (tx_.failed) failed({"25P02", "current transaction is aborted"}, false);
        else failed({"42601", "syntax error"}, false);
        return ready();
      }
    }
    rest_.assign(all.begin(), all.end());
    simple_alone_ = all.size() == 1;
    go_on();
  }

  void go_on() {
    while (!rest_.empty()) {
      const std::string one = rest_.front();
      rest_.erase(rest_.begin());
      if (auto failure = run(one, simple_alone_ && !tx_.block, false)) {
        rest_.clear();
        failed(*failure, false);
        return ready();
      }
      if (copying_) return;
      // Transaction control that left no block ends the implicit one.
      if (rest_.empty() && !tx_.block) commit();
    }
    ready();
  }

  void copy_message(char type) {
    if (type == 'd' || type == 'H') return;
    if (type == 'S') {
      ++swallowed;
      return;
    }
    copying_ = false;
    if (type == 'c') {
      pgwire::append_command_complete(out, "COPY 1");
      if (!copy_extended_) {
        if (rest_.empty() && !tx_.block) commit();
        go_on();
      }
      return;
    }
    if (type == 'f') {
      rest_.clear();
      failed({"57014", "COPY from stdin failed"}, copy_extended_);
      if (!copy_extended_) ready();
      return;
    }
    // 15 and later: the session cannot go on.
    out += made_error("FATAL", "08P01", "unexpected message type during COPY from stdin");
    end();
  }

  // Long: one case for each message of the protocol.
  void message(char type, std::string_view body) {
    if (type == 'X') {
      end();
      return;
    }
    if (copying_) return copy_message(type);
    if (skipping_) {
      if (type != 'S') return;
      skipping_ = false;
    }
    switch (type) {
      case 'Q': return simple((*pgwire::decode_query(body)).sql);
      case 'P': {
        const auto parse = whole(pgwire::decode_parse(body), "Parse");
        const What what = meaning(parse.sql);
        const std::string name(parse.statement);
        if (tx_.failed && !leaves(what))
          return failed({"25P02", "current transaction is aborted"}, true);
        if (split(parse.sql).size() > 1)
          return failed({"42601", "cannot insert multiple commands into a prepared statement"},
                        true);
        start();
        if (needs_snapshot(what)) tx_.snapshot = true;
        if (what == What::unknown) return failed({"42601", "syntax error"}, true);
        if (!name.empty() && statements_.count(name) != 0)
          return failed({"42P05", "prepared statement already exists"}, true);
        statements_[name] = std::string(trimmed(parse.sql));
        return pgwire::append_bare(out, '1');
      }
      case 'B': {
        const auto bind = whole(pgwire::decode_bind(body), "Bind");
        const auto found = statements_.find(std::string(bind.statement));
        if (found == statements_.end())
          return failed({"26000", "prepared statement does not exist"}, true);
        const What what = meaning(found->second);
        if (tx_.failed && !leaves(what))
          return failed({"25P02", "current transaction is aborted"}, true);
        start();
        if (needs_snapshot(what)) tx_.snapshot = true;
        const std::string name(bind.portal);
        if (!name.empty() && portals_.count(name) != 0)
          return failed({"42P03", "cursor already exists"}, true);
        portals_[name] = {found->second, values_of(body, bind)};
        return pgwire::append_bare(out, '2');
      }
      case 'D': {
        const auto named = whole(pgwire::decode_describe(body), "Describe");
        start();
        std::string sql;
        if (named.portal) {
          const auto found = portals_.find(std::string(named.name));
          if (found == portals_.end()) return failed({"34000", "portal does not exist"}, true);
          sql = found->second.sql;
        } else {
          const auto found = statements_.find(std::string(named.name));
          if (found == statements_.end())
            return failed({"26000", "prepared statement does not exist"}, true);
          sql = found->second;
        }
        const What what = meaning(sql);
        if (tx_.failed && !leaves(what))
          return failed({"25P02", "current transaction is aborted"}, true);
        if (!named.portal) pgwire::append_opaque(out, 't', std::string_view("\0\0", 2));
        if (what == What::read || what == What::hidden_write || what == What::flip_default ||
            what == What::show_default) {
          const pgwire::Column column{.name = "a"};
          return pgwire::append_row_description(out, std::span(&column, 1));
        }
        return pgwire::append_bare(out, 'n');
      }
      case 'E': {
        const auto execute = whole(pgwire::decode_execute(body), "Execute");
        const auto found = portals_.find(std::string(execute.portal));
        if (found == portals_.end()) return failed({"34000", "portal does not exist"}, true);
        const Portal portal = found->second;
        // A statement that ends transactions may do so in a pipeline up to 17.
        if (auto failure = run(portal.sql, !tx_.block, true, portal.values))
          return failed(*failure, true);
        if (!tx_.active) portals_.clear();
        return;
      }
      case 'C': {
        const auto named = whole(pgwire::decode_close(body), "Close");
        if (named.portal) portals_.erase(std::string(named.name));
        else statements_.erase(std::string(named.name));
        return pgwire::append_bare(out, '3');
      }
      case 'S':
        if (!tx_.block) {
          if (tx_.active) commit();
          portals_.clear();
        }
        return ready();
      case 'H': return;
      case 'F': {
        if (tx_.failed) {
          failed({"25P02", "current transaction is aborted"}, false);
          return ready();
        }
        start();
        tx_.snapshot = true;
        // Every one but loread writes.
        const auto call = whole(pgwire::decode_function_call_head(body), "FunctionCall");
        if (call.function_oid != 954) {
          if (auto failure = write("lowrite")) {
            failed(*failure, false);
            return ready();
          }
        }
        pgwire::append_opaque(out, 'V', std::string_view("\xff\xff\xff\xff", 4));
        if (!tx_.block) commit();
        return ready();
      }
      case 'd':
      case 'c':
      case 'f': return;  // left over from a COPY that failed
      default: broken("the server got a message of this type", std::string_view(&type, 1));
    }
  }

  static std::vector<std::optional<std::string>> values_of(std::string_view body,
                                                           const pgwire::Bind& bind) {
    std::vector<std::optional<std::string>> values;
    std::size_t at = bind.portal.size() + bind.statement.size() + 2 + 2 +
                     2 * std::size_t{bind.parameter_formats} + 2;
    for (std::uint16_t i = 0; i < bind.parameters; ++i) {
      std::uint32_t length = 0;
      for (int b = 0; b < 4; ++b) length = length << 8 | static_cast<unsigned char>(body[at++]);
      if (length == 0xffffffffu) {
        values.emplace_back();
        continue;
      }
      values.emplace_back(std::string(body.substr(at, length)));
      at += length;
    }
    return values;
  }

  PostgresWorld own_;
  PostgresWorld& world_;
  bool guarded_, reports_default_;
  pgwire::Rules rules_;
  pgwire::Reader reader_;
  Settings now_, kept_,
      start_;  // in force, as they were when the transaction began, as the start-up said
  static constexpr std::string_view seat_nonce = "4f1c7d2e-0000-4000-8000-00000000beef";
  std::optional<std::int64_t> seat_;  // its term
  bool local_ = false;
  std::optional<bool> default_behind_;  // what the session's default comes back to when the
                                        // transaction has committed
  std::int64_t kept_term_ = 0;
  std::int64_t held_term_ = 0;
  bool reported_ = false;
  Transaction tx_;
  std::map<std::string, std::string> statements_;
  std::map<std::string, Portal> portals_;
  bool skipping_ = false, copying_ = false, copy_extended_ = false, simple_alone_ = false;
  std::vector<std::string> rest_;  // of a simple query
};

inline void PostgresWorld::raise(std::int64_t term, const PostgresModel* but) {
  if (term <= fence) return;
  fence = term;
  for (PostgresModel* session : sessions) {
    if (session == but || !session->stands_in_the_way()) continue;
    session->evict();
    ++evicted;
  }
}

}  // namespace termgate::test
