// The inside of Session: one state machine, in a few classes that State wires together. parts.hpp has the structs that they share.
//
// Owner: one Session. Thread: the one that calls resume(); there is no lock and nothing is shared. Every event goes through resume(), and
// assert_consistent() runs after each. Its invariants:
//   - once the session ends, nothing of the client's waits;
//   - the server owes no reply before the login has begun;
//   - messages are held only while a pipeline is open, and the mark of its implicit transaction lies inside them;
//   - a frame exists only around a text that runs, and messages wait for a session lock only while one is requested or held;
//   - the transaction model is consistent (transaction_model.hpp).
// README.md says what each file tells.
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
#include "carrier.hpp"
#include "effects.hpp"
#include "held_messages.hpp"
#include "judgement.hpp"
#include "line.hpp"
#include "login.hpp"
#include "lone_statement.hpp"
#include "own_statements.hpp"
#include "parts.hpp"
#include "replies.hpp"
#include "replication.hpp"
#include "refusals.hpp"
#include "reply_router.hpp"
#include "seat.hpp"
#include "seating.hpp"
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
  bool must_wait(char type) const noexcept;  // this message begins a unit that cannot be judged yet
  void client_event(const pgwire::Event& event);
  void skip_to_sync(const pgwire::Event& event);
  static bool breaks_a_copy(char type) noexcept;
  void end_in_copy(char type);

  // --- simple.cpp ---
  void on_query(std::string_view sql);
  void run_statement(std::string_view sql, Effects effects, const Claim& claim, const statements::Classified& text);
  void on_function_call(const pgwire::Event& event);
  static bool opens_for_reading(std::string_view body) noexcept;

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
  void open_held(const Effects& effects, const Claim& claim, Act act);

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
  HeldMessages held_{line_, claims_, model_, judgement_, own_, pipeline_};
  Refusals refusals_{line_, claims_, model_, texts_, facts_, names_, judgement_, own_, held_, pipeline_, script_};
  Seating seating_{line_,      claims_, model_,    texts_, facts_,    names_,  seat_,
                   judgement_, own_,    refusals_, login_, pipeline_, script_, session_lock_};
  Carrier carrier_{line_, claims_, model_, texts_, facts_, names_, judgement_, own_, refusals_, seating_};
  LoneStatement lone_{line_, claims_, model_, facts_, judgement_, own_, refusals_, carrier_, session_lock_};

  // settle() once the rest of a client's message is through.
  bool settle_after_frame_ = false;

  // --- what comes from the server ---
  bool in_copy_in_ = false;     // the server waits for CopyData
  bool pump_after_ = false;     // what waits of the client's may be looked at now
  bool server_skips_ = false;   // after an error of an extended message, up to the client's Sync
  bool server_leaves_ = false;  // it has sent a FATAL error, and closes the connection

  // --- the session and its transaction ---
  // What checks have answered above all that was known: true only once the transaction has committed, for it may have been the check's own
  // raise.
  std::vector<std::pair<std::string, std::int64_t>> fences_unsettled_;
  std::string evicted_message_;

  // --- the unit that is under way ---
};

}  // namespace termgate::session
