// The inside of Session: one state machine, spread over several files. parts.hpp has the structs that it consists of.
//
// Owner: one Session. Thread: the one that calls resume(); there is no lock and nothing is shared. Every event goes through resume(), and
// assert_consistent() runs after each. Its invariants:
//   - once the session ends, nothing of the client's waits;
//   - the server owes no reply before the login has begun;
//   - messages are held only while a pipeline is open, and the mark of its implicit transaction lies inside them;
//   - a frame exists only around a text that runs, and messages wait for a session lock only while one is requested or held;
//   - the transaction model is consistent (transaction_model.hpp).
//
//   login.cpp        from the first byte to the first ReadyForQuery
//   client.cpp       the client's bytes: messages, which of them wait, who deals with each
//   guard.cpp        the decision: may this unit run, and with which check (guard.hpp)
//   claims.cpp       which scope and term a session writes under, and what follows from that
//   judgement.cpp    what a unit is before anything is sent of it
//   transaction_model.cpp  the transaction, predicted and observed
//   transaction.cpp  what a statement changes once it was sent, and what must come before it in a block
//   simple.cpp       simple queries of one statement; function calls
//   script.cpp       simple queries of several
//   extended.cpp     the messages of the extended protocol
//   group.cpp        what they are together, up to a Sync
//   seat.cpp         the session's seat: its transactions pass without a check
//   own_statements.cpp  the messages that are sent ahead of, around and after the client's
//   refusal.cpp      how a unit fails, and the client's error
//   reply_router.cpp what the client sees of the server's replies
//   server.cpp       what the replies say of the session and its transaction
//   server_error.cpp errors: whose they are, what the client sees of them, what is lost with them
//   session.cpp      ends, deadlines, evictions; the outside
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/encode.hpp>
#include <termgate/pgwire/reader.hpp>
#include <termgate/pgwire/types.hpp>
#include <termgate/session/session.hpp>
#include <termgate/statements/declaration.hpp>
#include <termgate/statements/settings.hpp>

#include "claims.hpp"
#include "effects.hpp"
#include "judgement.hpp"
#include "line.hpp"
#include "login.hpp"
#include "own_statements.hpp"
#include "parts.hpp"
#include "replies.hpp"
#include "replication.hpp"
#include "reply_router.hpp"
#include "seat.hpp"
#include "transaction_model.hpp"

namespace termgate::session {

class Session::State {
 public:
  State(const Options& options, Peer peer, SessionHost& session_host, Instant now);

  // --- the login, see login.hpp ---
  void login_event(const pgwire::Event& event);
  void logged_in();

  // --- client.cpp ---
  void from_client(std::string_view bytes);
  std::size_t look_at(std::string_view bytes);  // how many of them were dealt with
  void defer(const pgwire::Event& event);
  void pump();  // what waited may be looked at now
  bool blocked() const noexcept;
  bool blocked_but_for_deferred() const noexcept;
  bool server_awaits_sync() const noexcept;
  bool must_wait(char type) const noexcept;  // this message begins a unit that cannot be judged yet
  void client_event(const pgwire::Event& event);
  void skip_to_sync(const pgwire::Event& event);
  static bool breaks_a_copy(char type) noexcept;
  void end_in_copy(char type);

  // --- transaction.cpp ---
  void note_handed_over(const Effects& effects);
  void note_sent(const Effects& effects, bool named);  // what will be otherwise once this has run; `named`: by a comment
  void note_prepared(const Effects& effects);
  // In a transaction that goes on: puts in front of a statement what the decision wants there. True: a message of ours was added; where the
  // statement is refused, it is so already, and the transaction has failed.
  enum class Step : std::uint8_t { parses, plans, runs };  // Parse, Bind, Execute or a simple query
  bool guard_block(const Effects& effects, const Claim& claim, Step step);
  static bool runs_code_ahead(const Effects& effects, Step step) noexcept;
  bool settle_mode();
  bool mark();
  bool release_mark();
  bool lock_for_commit();
  // Does what the decision says, in the transaction that is open; the acts `frame` and `hold` are the caller's.
  bool carry_out(Act act, const Effects& effects, const Claim& claim);
  // What the transaction still needs before the COMMIT or Sync that comes next. True: a message of ours was added.
  bool add_before_commit();

  void run_plain_query(std::string_view sql, Purpose role = Purpose::client, Change change = Change::none, std::size_t read_hash = 0);
  void run_converted(std::string_view sql, Change change = Change::none, std::size_t read_hash = 0);

  // --- simple.cpp ---
  void on_query(std::string_view sql);
  void run_statement(std::string_view sql, Effects effects, const Claim& claim, const statements::Classified& text);
  void run_held(std::string_view sql, const Effects& effects, const Claim& claim);
  void on_function_call(const pgwire::Event& event);
  static bool opens_for_reading(std::string_view body) noexcept;

  // --- seat.cpp ---
  void unit_begins();
  void hand_over();
  bool at_rest() const noexcept;
  void mind_seat();
  void sit(const ScopedTerm& pair, const SeatOffer& offer);
  void stand();
  void look_at_seat();
  bool passes_seated(const Effects& effects) const noexcept;
  bool passes_seated(const statements::Classified& text, std::string_view sql) const;
  bool passes_seated(const Effects& effects, std::string_view executes) const;
  bool passes_seated(const Known* known) const;
  void leave_seat();
  bool passes_under_seat() const noexcept;
  bool seat_covers() const;
  const Text& peek(std::string_view sql);
  bool stands_before(const pgwire::Event& event);
  bool lock_what_was_seated();
  void seat_settled();
  void gate_wanted(std::string_view scope);

  // --- script.cpp ---
  void start_script(std::string_view sql, Text text);
  void next_piece();
  bool run_apart(const statements::Statement& statement, const Effects& effects);
  Act decided_in_script(const statements::Statement& statement, const Effects& effects) const;
  void send_piece(const Effects& effects);
  void finish_script();
  void begin_frame();
  void script_refused();
  bool frame_refuses(const Effects& effects);
  Effects resolved_statement(const statements::Statement& statement) const;
  bool frame_needed(std::size_t from) const;

  // --- extended.cpp ---
  void on_parse(const pgwire::Event& event);
  bool guard_parse(std::string_view name, Known known);
  void on_describe(const pgwire::Event& event);
  void on_bind(const pgwire::Event& event);
  void close_unnamed_portal(const pgwire::Event& event);
  void ask_whether_there(const pgwire::Event& event, Request what, std::string_view name);
  void parse_again(const pgwire::Event& event, std::string_view name, std::string_view parse);
  void on_execute(const pgwire::Event& event);
  void on_close(const pgwire::Event& event);
  void on_sync(const pgwire::Event& event);
  void on_flush();
  void send_held();
  void forward_extended(const pgwire::Event& event, PendingReply reply);

  // --- group.cpp ---
  void group_begins(bool declares = false);  // its first message does
  void guard_group(const Effects& effects, const Known& known, Step step, bool whole);
  void commit_to_group(bool flushed = false);
  void hold_at_sync(const Effects& effects, const Claim& claim);
  void redeclares_after_reads(const Unit& unit, const Claim& claim);
  void note_named(const Claim& claim);
  void pass_in_group(const Unit& unit, const Claim& claim);
  void send_first();
  void open_held(const Effects& effects, const Claim& claim, Act act);
  void open_group(const Claim& claim, bool with_check);
  void lock_group();
  void lock_reads();
  void flush_group();

  // --- lone_statement.cpp ---
  void hold(const Claim& claim);
  void release();

  // --- refusal.cpp ---
  static std::string error_text(std::string_view code, std::string_view message, std::string_view hint);
  void refuse(std::string_view code, std::string_view message, std::string_view hint);
  void refuse_unless_unknown(std::string_view sql, const statements::Statement& statement, const Refusal& refusal, const ScopedTerm& pair);
  void refuse_reserved();
  void end_as_stale(std::string_view message);
  void refuse_claim(const Claim& claim);
  void refuse_from_memory(const Refusal& refusal, const ScopedTerm& pair);
  void fail_in_server(const std::string& error);
  static bool stale_report(std::string_view message, ScopedTerm& pair, std::int64_t& fence) noexcept;
  void report_refusal(std::string_view code, std::string_view message, const ScopedTerm& pair, std::int64_t fence, bool from_memory);
  Explained explained(const pgwire::ReportFields& report, Purpose role) const;
  void ours_refused(const pgwire::ReportFields& report, Purpose role);

  // --- server.cpp ---
  void from_server(std::string_view bytes);
  void server_event(const pgwire::Event& event);
  bool row_of_ours(const pgwire::Event& event);
  bool command_completed(const pgwire::Event& event);
  void ready_for_query(const pgwire::Event& event);
  void parameter_status(const pgwire::Event& event);
  void check_answered(std::string_view row);
  bool asks_recovery(char type) const noexcept;
  bool row_shown(const pgwire::Event& event);
  void settle();  // every request is answered
  void settle_transaction();
  void run_under_hold();
  void out_of_step(const pgwire::Event& event);

  // --- server_error.cpp ---
  void server_error(const pgwire::Event& event);
  void client_failed(const pgwire::Event& event, const pgwire::ReportFields& report);
  void read_has_written(const pgwire::ReportFields& report);
  void remember_writers_of_piece();
  void ours_failed(const pgwire::Event& event, const pgwire::ReportFields& report);
  void drop_until_sync();

  // --- session.cpp ---
  void fence_seen(std::string_view scope, std::int64_t fence);
  void end_if_stale();
  void tick();
  void idle_now();
  Phase phase() const noexcept;
  bool wants_client() const noexcept;
  bool wants_server() const noexcept;
  bool waits_for_more() const noexcept;
  std::optional<Instant> deadline() const noexcept;
  std::size_t memory_bytes() const noexcept;
  void assert_consistent() const noexcept;

  // --- what every part knows ---
  Line line_;
  TransactionModel model_;
  Claims claims_;
  Seat seat_;
  Texts texts_;
  ServerFacts facts_;
  ClientNames names_;

  // --- the unit that is under way ---
  Pipeline pipeline_;
  Script script_;
  SessionLock session_lock_;

  // --- the parts ---
  Login login_{line_, claims_, texts_, facts_, model_};
  Replication replication_{line_, claims_, texts_.settings};
  Judgement judgement_{line_, claims_, model_, texts_, facts_, names_};
  OwnStatements own_{line_, claims_, model_, texts_, facts_, seat_, judgement_, pipeline_, script_};

  // settle() once the rest of a client's message is through.
  bool settle_after_frame_ = false;

  // --- what comes from the server ---
  bool in_copy_in_ = false;     // the server waits for CopyData
  bool pump_after_ = false;     // what waits of the client's may be looked at now
  bool server_skips_ = false;   // after an error of an extended message, up to the client's Sync
  bool server_leaves_ = false;  // it has sent a FATAL error, and closes the connection

  // --- the session and its transaction ---
  struct Peeked {
    const char* at = nullptr;  // in the message
    Text text;
  } peeked_;

  // What checks have answered above all that was known: true only once the transaction has committed, for it may have been the check's own
  // raise.
  std::vector<std::pair<std::string, std::int64_t>> fences_unsettled_;
  bool opening_refused_ =
      false;  // a check in a block failed: the text after it meets 25P02, or a COMMIT that rolls back, which nobody need see
  std::string evicted_message_;

  // --- the unit that is under way ---
};

}  // namespace termgate::session
