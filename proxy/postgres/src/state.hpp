// The inside of Session: one state machine, in several classes that State wires together. parts.hpp
// has the structs that they share.
//
// Owner: one Session. Thread: the one that calls resume(); there is no lock. What sessions share is
// in SessionHost. Every event goes through resume(), and assert_consistent() runs after most of
// them. Its invariants:
//   - once the session ends, nothing of the client's waits;
//   - the server owes no reply before the login has begun;
//   - messages are held only while a pipeline is open, and the mark of its implicit transaction lies
//     inside them;
//   - a frame (guard.hpp) exists only around a text that runs, and messages wait for a session lock
//     only while one is requested or held;
//   - the transaction model is consistent (transaction_model.hpp).
// README.md describes the files.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include <termgate/pgwire/reader.hpp>
#include <termgate/pg_session/session.hpp>

#include "carrier.hpp"
#include "claims.hpp"
#include "held_messages.hpp"
#include "judgement.hpp"
#include "line.hpp"
#include "login.hpp"
#include "lone_statement.hpp"
#include "own_statements.hpp"
#include "parts.hpp"
#include "passage.hpp"
#include "pipeline_runner.hpp"
#include "refusals.hpp"
#include "replication.hpp"
#include "script_runner.hpp"
#include "seat.hpp"
#include "seating.hpp"
#include "server_replies.hpp"
#include "transaction_model.hpp"
#include "waiting.hpp"

namespace termgate::pg_session {

class Session::State {
 public:
  State(const Options& options, Peer peer, SessionHost& session_host, Instant now);

  // --- the login, see login.hpp ---
  void login_event(const pgwire::Event& event);
  void logged_in();

  // --- client.cpp ---
  void from_client(std::string_view bytes);
  std::size_t look_at(std::string_view bytes);  // how many of them were processed
  void defer(const pgwire::Event& event);
  void pump();  // processes the messages that have waited, if they may be now
  void client_event(const pgwire::Event& event);
  void skip_to_sync(const pgwire::Event& event);
  // A standby may have been promoted since the last transaction.
  bool asks_recovery(char type) const noexcept;

  // --- session.cpp ---
  void from_server(std::string_view bytes);
  // Called when every request is answered.
  void settle();
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

  // --- what every part shares ---
  Line line_;
  TransactionModel model_;
  Claims claims_;
  Seat seat_;
  Texts texts_;
  ServerFacts facts_;
  ClientNames names_;

  // --- the unit under way ---
  Pipeline pipeline_;
  Script script_;
  SessionLock session_lock_;

  // --- the parts ---
  Login login_{line_, claims_, texts_, facts_, model_};
  Replication replication_{line_, claims_, texts_.settings};
  Judgement judgement_{line_, claims_, model_, texts_, facts_, names_};
  OwnStatements own_{line_, claims_, model_, texts_, facts_, seat_, judgement_, pipeline_, script_};
  HeldMessages held_{line_, claims_, model_, judgement_, own_, pipeline_};
  Refusals refusals_{line_,      claims_, model_, texts_,    facts_, names_,
                     judgement_, own_,    held_,  pipeline_, script_};
  Seating seating_{line_,      claims_, model_,    texts_, facts_,    names_,  seat_,
                   judgement_, own_,    refusals_, login_, pipeline_, script_, session_lock_};
  Passage passage_{line_, claims_, texts_, names_, seat_, judgement_, seating_, pipeline_};
  Carrier carrier_{line_, claims_, model_, texts_, names_, judgement_, own_, refusals_, seating_};
  LoneStatement lone_{line_, claims_, model_, facts_, judgement_, own_, carrier_, session_lock_};
  PipelineRunner pipelines_{line_,     claims_,  model_,     texts_, facts_,
                            names_,    seat_,    judgement_, own_,   held_,
                            refusals_, seating_, carrier_,   lone_,  pipeline_};
  ScriptRunner scripts_{line_, claims_,   model_,   texts_,   facts_, names_,    judgement_,
                        own_,  refusals_, seating_, carrier_, lone_,  pipeline_, script_};
  Waiting waiting_{line_, texts_, pipeline_, script_, session_lock_};
  ServerReplies replies_{line_,    claims_,   model_,     texts_,       facts_,    names_,
                         seat_,    login_,    judgement_, own_,         refusals_, seating_,
                         waiting_, pipeline_, script_,    session_lock_};
};

}  // namespace termgate::pg_session
