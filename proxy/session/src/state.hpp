// The inside of Session: one state machine, told in five files.
//   login.cpp    from the first byte to the first ReadyForQuery
//   client.cpp   what the client says, and what is decided of it
//   inject.cpp   the messages that are put before, around and behind it
//   server.cpp   what the server answers, and to whom
//   session.cpp  ends, deadlines, evictions; the outside
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
#include <termgate/pgwire/startup.hpp>
#include <termgate/pgwire/types.hpp>
#include <termgate/session/session.hpp>
#include <termgate/statements/declaration.hpp>
#include <termgate/statements/settings.hpp>

#include "answers.hpp"
#include "effects.hpp"

namespace termgate::session {

// Bytes on their way to one socket.
class Outbox {
 public:
  std::string& back() noexcept { return bytes_; }
  std::string_view view() const noexcept { return std::string_view(bytes_).substr(sent_); }
  std::size_t size() const noexcept { return bytes_.size() - sent_; }
  std::size_t capacity() const noexcept { return bytes_.capacity(); }
  void sent(std::size_t bytes) noexcept {
    sent_ += bytes;
    if (sent_ >= bytes_.size()) {
      sent_ = 0;
      bytes_.clear();
      if (bytes_.capacity() > kept) std::string().swap(bytes_);
    } else if (sent_ >= compacted && sent_ >= bytes_.size() / 2) {
      // A reader that never quite catches up must not make us keep all that it has read.
      bytes_.erase(0, sent_);
      sent_ = 0;
    }
  }

 private:
  // An idle connection holds next to nothing; one that is busy does not allocate for every message.
  static constexpr std::size_t kept = 4096;
  static constexpr std::size_t compacted = 64u << 10;
  std::string bytes_;
  std::size_t sent_ = 0;
};

// A scope and a term that are known for certain; either may be missing.
struct Pair {
  std::string scope;
  std::int64_t term = 0;
  bool complete() const noexcept { return !scope.empty() && term > 0; }
  bool empty() const noexcept { return scope.empty() && term == 0; }
  bool operator==(const Pair&) const = default;
};

class Session::State {
 public:
  State(const Options& options, Peer peer, Surroundings& surroundings, Instant now);

  // --- login.cpp ---
  enum class Stage : std::uint8_t {
    greeting,        // the client's first packets
    client_tls,      // S was answered, the handshake is on
    admitting,
    connecting,
    server_greeting,  // SSLRequest was sent
    server_tls,
    login,           // both talk about who the client is
    ready,
    replication,     // bytes are passed on without a look
    closing,         // what is in the outboxes is sent, nothing more is read
    closed,
  };

  void greet(std::string_view bytes);
  void admitted(const Admission& admission);
  void server_connected();
  void server_greeted(std::string_view& bytes);
  void start_login();
  void login_from_client(const pgwire::Event& event);
  void login_from_server(const pgwire::Event& event);
  std::string server_options(std::string_view asked) const;

  // --- client.cpp ---
  void from_client(std::string_view bytes);
  std::size_t look_at(std::string_view bytes);         // how many of them were dealt with
  void pump();                                         // what waited may be looked at now
  bool blocked() const noexcept;
  bool blocked_but_for_deferred() const noexcept;
  bool must_wait(char type) const noexcept;            // this message begins a unit that cannot be judged yet
  void client_event(const pgwire::Event& event);
  void unit_begins();
  void on_query(std::string_view sql);
  void on_parse(const pgwire::Event& event);
  void on_bind(const pgwire::Event& event);
  void on_execute(const pgwire::Event& event);
  void on_close(const pgwire::Event& event);
  void on_sync(const pgwire::Event& event);
  void on_flush(const pgwire::Event& event);
  void on_function_call(const pgwire::Event& event);
  void forward_extended(const pgwire::Event& event, Asked asked, bool answered = true);

  bool guards() const noexcept;                        // the server session is read-only by default
  bool active() const noexcept;                        // writes go behind the check
  bool final_rule() const noexcept;
  bool may_speak() const noexcept;                     // has, or may have, a scope and a term
  Text classified(std::string_view sql);
  Effects resolved(Effects effects, const statements::Classified* text) const;
  // The scope and term that a unit is checked with, as far as the proxy knows them; empty: the server's session knows.
  struct Claim {
    Pair pair;
    bool certain = false;
    std::string code, problem, hint;                   // why there can be none
  };
  Claim claim_of(const statements::Classified* text);
  bool stale_in_memory(const Claim& claim) const;
  bool known_writer(std::string_view sql) const;
  static std::size_t hash_of(std::string_view sql) noexcept;  // literals left out
  bool frame_refuses(const Effects& effects);
  void note_sent(const Effects& effects);              // the transaction as it will be once this has run
  void observe(const Effects& effects, const Claim& claim);
  // In a block: what must stand before a statement. True: a message of ours was added.
  bool guard_block(const Effects& effects, const Claim& claim, bool runs);
  // In a transaction that the client itself wants READ ONLY: whether the server certainly refuses what writes. False: it was refused here.
  bool left_to_read_only(const Effects& effects);
  static bool names_ours(const statements::Classified& text) noexcept;
  void refuse_reserved();
  void note_prepared(const Effects& effects);
  void refuse_claim(const Claim& claim);
  void run_statement(std::string_view sql, Effects effects, const Claim& claim, const statements::Classified& text);
  bool answer_show(const statements::Statement& statement);
  void remember_writer(std::string_view sql);
  void remember_writer_hash(std::size_t hash);

  // Scripts: a text whose statements cannot all be sent at once, or that needs BEGIN and COMMIT around it.
  void start_script(std::string_view sql, Text text, const Claim& claim);
  void next_piece();
  void finish_script();
  void script_refused();
  void release_complete();
  void note_block_begun();
  Effects resolved_statement(const statements::Statement& statement) const;

  // Groups: extended messages up to a Sync.
  struct Known;
  void group_begins();
  void commit_to_group();
  void decide(const Effects& effects, const Known& known, bool runs);
  const Known* known_statement(std::string_view name) const;
  Expected* last_asked();
  static bool opens_for_reading(std::string_view body) noexcept;

  // --- inject.cpp ---
  std::string& out();                                  // where messages go now: the server's outbox, or what is held of a group
  void ask(Expected expected);                         // and their answers
  void send(std::string_view frame);
  const std::string& name_of(Ours which);
  void prepare_ours(Ours which, Role role, std::string_view told);
  void run_ours(Ours which, Role role, std::span<const pgwire::Field> values, std::string_view told = {});
  void add_writable(Role role);
  void add_check(const Pair& pair, Role role);
  void add_opening(const Pair& pair, bool with_check);
  void add_sync(Role role);
  void add_hidden_query(std::string_view sql, Role role);
  void raise_in_advance(const Pair& pair);
  void run_plain_query(std::string_view sql, Role role = Role::client);
  void run_converted(std::string_view sql, bool description_shown);
  template <class Add>
  void at_beginning(Add add);
  void open_group(const Pair& pair, bool with_check);
  void lock_group();
  void flush_group();
  static std::string error_text(std::string_view code, std::string_view message, std::string_view hint);
  void refuse(std::string_view code, std::string_view message, std::string_view hint);
  void refuse_if_it_parses(std::string_view sql, std::string_view code, std::string_view message);
  void fail_in_server(const std::string& told);
  void refuse_stale(const Pair& pair, std::int64_t fence);
  void hold(const Pair& pair);
  void release();
  void restore_default();
  void ask_who_serves();

  // --- server.cpp ---
  void from_server(std::string_view bytes);
  void server_event(const pgwire::Event& event);
  void server_error(const pgwire::Event& event);
  void ready_for_query(pgwire::TransactionStatus status, const pgwire::Event& event);
  void parameter_status(const pgwire::Event& event);
  void check_answered(std::string_view row);
  void flush_made_answers();
  void settle();                                       // all that was asked is answered
  void out_of_step(const pgwire::Event& event);
  std::string explained(const pgwire::ReportFields& fields, Role role);
  void report_refusal(std::string_view code, std::string_view message, const Pair& pair, std::int64_t fence, bool from_memory);
  void run_again();
  void drop_until_sync();
  void shown(const Expected& expected, char type);

  // --- session.cpp ---
  void act(Action::Kind kind) { actions_.push_back({kind}); }
  void end(std::string_view sqlstate, std::string_view message);  // FATAL to the client, goodbye to the server
  void close_all();
  void fence_seen(std::string_view scope, std::int64_t fence);
  void tick();
  void idle_now();
  Phase phase() const noexcept;
  bool wants_client() const noexcept;
  bool wants_server() const noexcept;
  std::optional<Instant> deadline() const noexcept;
  std::size_t memory_bytes() const noexcept;

  // --- what everybody knows ---
  const Options& options_;
  Peer peer_;
  Surroundings& surroundings_;
  Instant now_;
  Stage stage_ = Stage::greeting;
  Outbox to_client_, to_server_;
  std::vector<Action> actions_;

  // --- login ---
  pgwire::StartupReader startup_reader_;
  bool encrypted_ = false;
  bool asked_ssl_ = false, asked_gss_ = false;
  Applicant applicant_;
  Admission admission_;
  std::uint16_t client_minor_ = 0;
  bool negotiated_ = false;
  std::vector<std::pair<std::string, std::string>> startup_;  // the client's parameters and extensions, to be sent on
  bool credential_asked_ = false;
  bool plus_removed_ = false;
  bool awaiting_sasl_initial_ = false;
  std::uint32_t server_pid_ = 0;
  std::string server_key_;
  std::uint32_t cancel_pid_ = 0;
  std::string cancel_key_;
  Instant started_, quiet_since_;

  // --- reading ---
  pgwire::Reader client_reader_, server_reader_;
  std::string client_in_;                  // bytes of the client that may not be looked at yet
  struct Deferred {
    std::string frame;
    char type = 0;
    std::uint32_t body_bytes = 0;
    bool last = true, whole = true;
  };
  std::optional<Deferred> deferred_;       // a message that was read and must wait
  bool client_mid_frame_ = false;          // half of a message of the client's is on its way to the server
  enum class Parts : std::uint8_t { send, drop, hold } client_parts_ = Parts::send;  // the rest of a streamed message
  bool show_parts_ = true;                 // the same of the server's

  // --- what the server owes ---
  Answers answers_;
  bool in_copy_in_ = false;                // the server waits for CopyData
  bool pump_after_ = false;                // what waits of the client's may be looked at now
  std::string late_description_, late_complete_;
  bool late_parts_ = false;                // the rest of a RowDescription that waits is yet to come
  bool server_skips_ = false;              // after an error of an extended message, up to the client's Sync
  bool functions_outstanding_ = false;     // something runs that may change settings
  bool unknown_outstanding_ = false;       // a function runs whose name says nothing
  bool unread_outstanding_ = false;        // something runs that could not be read
  bool wait_for_all_ = false;              // the next unit cannot be judged before all answers are here

  // --- the transaction, as it will be when everything sent has run ---
  pgwire::TransactionStatus status_ = pgwire::TransactionStatus::idle;  // by the last ReadyForQuery
  struct Transaction {
    bool in_block = false;
    bool failed = false;
    bool client_read_only = false;  // the client wants it so
    bool snapshot = false;          // its access mode is fixed, and it is READ ONLY
    bool writable = false;          // made so by us
    bool fenced = false;            // the check was passed, or is on its way before whatever follows
    bool declared_inside = false;   // scope or term may have been declared in it
    bool suspect = false;           // something in it may have changed the session's default
    std::vector<Pair> passed;       // by pairs that were named
    Pair last;                      // as the check answered
  };
  Transaction tx_;
  bool believed_read_only_ = false;          // default_transaction_read_only as the client knows it
  bool believed_before_block_ = false;
  bool told_read_only_ = false;              // by the last ParameterStatus
  std::string login_ready_;                  // the login's ReadyForQuery, not given yet
  bool guarded_ = false;                     // under `allow`: has declared
  bool default_broken_ = false;              // the server's own value is off: put back before anything else
  bool reports_default_ = false;             // the server reports changes of it (14 and later); else it is put back by suspicion

  // --- declarations ---
  std::shared_ptr<const TermSource> rule_;
  Pair bound_;                               // by the rule, for good; empty: not yet
  Pair known_;                               // what the session has declared for itself, where that is certain
  bool known_certain_ = true;
  bool declaration_in_doubt_ = false;        // something of this unit may change it
  bool spoke_ = false;                       // a declaration of the client's own was seen
  std::string why_not_, why_not_code_;       // of a rule that has no term now
  statements::Settings settings_;
  statements::ConformingStrings reported_conforming_ = statements::ConformingStrings::on;

  // --- prepared statements ---
  struct Known {
    Effects effects;
    Text text;            // for its declaration; nullptr: nothing is known
    std::size_t hash = 0;  // of its text
  };
  std::map<std::string, Known, std::less<>> statements_, portals_;
  std::array<std::string, ours_count> names_;
  std::array<bool, ours_count> prepared_{};  // ours, by the messages sent so far
  std::vector<std::size_t> writers_;         // hashes of texts that looked like reads and met READ ONLY

  // --- the group of extended messages up to the next Sync ---
  struct Group {
    bool begun = false;
    bool direct = false;          // messages go straight to the server
    bool refused = false;         // everything up to Sync is dropped
    bool touched_server = false;  // something of it was sent
    bool executed = false;
    bool executed_here = false;   // since the last transaction that ended in it
    bool declared_inside = false;   // scope or term may have been declared in it
    bool suspect = false;         // may change the session's default, on a server that does not report it
    bool held_session = false;    // runs under a lock at session level
    bool needs_hold = false;
    std::string held;             // messages not sent yet
    std::vector<Expected> asked;  // their answers
    std::size_t opening_at = 0;   // where in `held` an implicit transaction begins
    std::size_t opening_asked = 0;
    bool opening_possible = true;
    bool ended_one = false;       // a transaction ended in it, so what follows begins another before its answers are here
    bool reads_only = true;       // may be run again
    std::vector<std::string> parsed;  // names, to be forgotten where the group is refused
    std::size_t first_hash = 0;   // of the text that is executed first
    Effects effects;              // of what runs under a lock at session level
    Claim claim;
  };
  Group group_;
  bool into_group_ = false;
  // What was sent of a unit that only reads, in case READ ONLY refuses it.
  struct Again {
    bool possible = false;
    bool wanted = false;
    bool extended = false;
    std::string bytes;            // whole frames (extended) or the text (simple)
    std::size_t hash = 0;         // of the text
    Claim claim;
    std::size_t parses = 0, binds = 0, descriptions = 0, closes = 0;  // of its answers, those that were shown
  };
  Again again_;
  bool opening_refused_ = false;  // the opening of a block failed; the text behind it meets 25P02, which nobody need see

  // --- scripts and frames ---
  struct Script {
    bool running = false;
    std::string sql;
    Text text;
    Claim claim;
    std::size_t next = 0;         // statement
    bool frame = false;           // our BEGIN is open
    bool failed = false;          // nothing more of it runs
    bool ending = false;          // COMMIT or ROLLBACK of the frame is on its way
    std::size_t offset = 0;       // of the piece that runs, in the text
    std::string complete;         // the last CommandComplete, held until the frame is committed
  };
  Script script_;
  bool act_after_frame_ = false;  // settle() again once the client's half-sent message is through

  // --- the lock at session level ---
  struct Hold {
    enum class Stage : std::uint8_t { none, asked, held, releasing } stage = Stage::none;
    bool failed = false;
    Pair pair;                    // as answered
    std::string waiting;          // the client's text (simple) or messages (extended) that run under it
    bool extended = false;
    std::vector<Expected> asked;
    Effects effects;
  };
  Hold hold_;
  Instant check_sent_{};
  Pair check_pair_;
  bool draining_ = false;
  std::string evicted_message_;
};

}  // namespace termgate::session
