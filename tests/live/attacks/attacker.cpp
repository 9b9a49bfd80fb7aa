// A random attacker on the proxy. Sessions of random messages in a random state, judged only by
// what was committed.
//
//   live_attacker --url postgresql://postgres@127.0.0.1:PORT/postgres --proxy PORT --mode reject|read-only|allow
//                 [--seconds N] [--seed N] [--workers N] [--replay SEED]
//
// A session is made from its seed alone: some eight messages in steps, each a simple text, a
// pipeline, a piece of one without Sync, a COPY, a function call, or a raise of a fence by a direct
// connection. Terms are relative to the fences of the worker's own scopes, so that a seed means the
// same session in any run. Every session ends with a marker that has to come back in its place: a
// session that hangs, or whose answers are out of step, is a failure as well.
// Long: a program that shares no code with what it attacks, so that nothing hides behind a shared
// mistake.
//
// The judge is judge.sql: a deferred trigger of the superuser's writes down, at the commit of each
// row that the attacker wrote, what the session declares and which scopes' locks it holds; the
// fences' own history says what was current by the commit's time. It shares nothing with the
// proxy's decision. A breach is replayed alone and made shorter by leaving steps out.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <termgate/pgwire/encode.hpp>

namespace {

namespace wire = termgate::pgwire;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kPatience = 15s;  // longer than any wait of the server's own

// ------------------------------------------------------------------------------------------------
// the wire

std::uint32_t number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

struct Message {
  char type = 0;
  std::string body;

  std::string field(char wanted) const {  // of an error: C its code, M its text
    for (std::size_t at = 0; at < body.size() && body[at] != 0;) {
      const std::size_t end = body.find('\0', at);
      if (body[at] == wanted) return body.substr(at + 1, end - at - 1);
      at = end + 1;
    }
    return {};
  }
  std::vector<std::string> row() const {
    std::vector<std::string> values;
    std::size_t at = 2;
    while (at + 4 <= body.size()) {
      const auto size = static_cast<std::int32_t>(number(at));
      at += 4;
      values.emplace_back(size < 0 ? std::string{}
                                   : body.substr(at, static_cast<std::size_t>(size)));
      at += size < 0 ? 0 : static_cast<std::size_t>(size);
    }
    return values;
  }
  std::uint32_t number(std::size_t at) const { return number_at(body, at); }
};

struct Closed : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Hung : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Nonsense : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string big_endian(std::uint32_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i));
  return out;
}

class Wire {
 public:
  Wire(std::uint16_t port, const std::string& user,
       const std::vector<std::pair<std::string, std::string>>& more = {})
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      close(fd_);
      throw Closed("connect: " + std::string(std::strerror(errno)));
    }
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    std::string body = big_endian(3U << 16, 4);
    const auto add = [&](const std::string& name, const std::string& value) {
      body += name + '\0' + value + '\0';
    };
    add("user", user);
    add("database", "postgres");
    for (const auto& [name, value] : more) add(name, value);
    body += '\0';
    try {
      send(big_endian(static_cast<std::uint32_t>(body.size() + 4), 4) + body);
      while (next(kPatience).type != 'Z') {}
    } catch (...) {
      close(fd_);
      throw;
    }
  }
  ~Wire() { close(fd_); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  void send(std::string_view bytes) {
    const auto until = Clock::now() + kPatience;
    while (!bytes.empty()) {
      const auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        bytes.remove_prefix(static_cast<std::size_t>(sent));
        continue;
      }
      if (errno != EAGAIN && errno != EINTR) throw Closed("send");
      if (Clock::now() > until) throw Hung("the other side reads nothing");
      fill(5ms);  // it may wait for us to read
    }
  }

  // The next message; Hung where none comes in time, Closed at the end.
  Message next(std::chrono::milliseconds wait) {
    auto message = poll_next(wait);
    if (!message) throw Hung("no answer");
    return std::move(*message);
  }

  std::optional<Message> poll_next(std::chrono::milliseconds wait) {
    const auto until = Clock::now() + wait;
    for (;;) {
      if (in_.size() - at_ >= 5) {
        const std::uint32_t size = number_at(in_, at_ + 1);
        if (size < 4 || size > (1U << 26) ||
            std::strchr("123ACDEGHINRSTVWZcdnstvK", in_[at_]) == nullptr)
          throw Nonsense("a message that no server sends");
        if (in_.size() - at_ >= 1 + size) {
          Message message{in_[at_], in_.substr(at_ + 5, size - 4)};
          at_ += 1 + size;
          if (at_ == in_.size()) in_.clear(), at_ = 0;
          return message;
        }
      }
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
      if (left < 0ms || (!fill(left) && Clock::now() >= until)) return std::nullopt;
    }
  }

 private:
  bool fill(std::chrono::milliseconds wait) {
    pollfd one{fd_, POLLIN, 0};
    if (poll(&one, 1, static_cast<int>(wait.count())) <= 0) return false;
    char buffer[65536];
    const auto got = recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) throw Closed("closed");
    if (got > 0) in_.append(buffer, static_cast<std::size_t>(got));
    return got > 0;
  }

  int fd_;
  std::string in_;
  std::size_t at_ = 0;
};

// The superuser's own connection. Throws std::runtime_error with the server's message.
class Direct {
 public:
  explicit Direct(std::uint16_t port)
      : wire_(port, "postgres", {{"application_name", "observer"}}) {}
  std::vector<std::vector<std::string>> run(const std::string& sql) {
    std::string out, error;
    wire::append_query(out, sql);
    wire_.send(out);
    std::vector<std::vector<std::string>> rows;
    for (;;) {
      const Message message = wire_.next(60s);
      if (message.type == 'D') rows.push_back(message.row());
      if (message.type == 'E') error = message.field('M');
      if (message.type == 'Z') break;
    }
    if (!error.empty()) throw std::runtime_error(sql.substr(0, 300) + ": " + error);
    return rows;
  }
  std::string value(const std::string& sql) { return run(sql).at(0).at(0); }

 private:
  Wire wire_;
};

// ------------------------------------------------------------------------------------------------
// the sessions

// What a step does, and how it reads.
struct Step {
  std::string bytes;
  std::string said;
  int ready = 0;       // how many ReadyForQuery it earns
  bool open = false;   // a pipeline is open after it
  bool drain = false;  // read for a moment
  bool leave = false;  // the client goes without a word
  std::string raise;   // SQL of the direct connection instead
};

struct Session {
  std::string user;
  std::vector<std::pair<std::string, std::string>> start;  // not empty: a connection of its own
  std::vector<Step> steps;
};

struct Known {  // what a session is made for
  std::array<std::string, 3> scopes;
  std::array<std::int64_t, 3> fences{};
  std::string lease, worker;
  std::map<std::string, std::uint32_t> oids;
};

// A text of a session, and how often it comes beside the others of its table. In it stand, once it
// is sent: @WRITE a call that writes one row, @ARGS what it takes, @COLUMNS a table's columns for
// that, @INNER the same as one text; @SCOPE, @TERM, @LOCAL a claim, @NAME its scope bare, @BOTH the
// settings of both; @FENCE, @STALE, @RAISED terms of that scope; @WORKER, @LEASE, @LABEL.
struct Way {
  const char* text;
  int weight = 1;
};

// clang-format off
constexpr Way kHidden[] = {  // what looks like a read
    {"SELECT @WRITE"}, {"SELECT * FROM attack.many(@ARGS)"}, {"VALUES (@WRITE)"},
    {"SELECT (SELECT @WRITE)"},
    {"WITH x AS MATERIALIZED (SELECT @WRITE AS i) SELECT i FROM x"},
    {"SELECT 1 WHERE @WRITE > 0"},
    {"SELECT '@INNER'::text OPERATOR(attack.<<%) 1"},
    {"SELECT CAST('@INNER' AS attack.dom)"},
    {"SELECT attack.agg('@INNER'::text)"},
    {"SELECT ('@INNER'::text::attack.cell).*"},
    {"SELECT i, @WRITE FROM generate_series(1, 3) i"},
    {"SELECT attack.run($q$INSERT INTO attack.rows @COLUMNS VALUES (@ARGS)$q$)"},
    {"SELECT attack.caught(@ARGS)"},
    {"SELECT attack.folded(@ARGS)", 2},
    {"SELECT '{\"@INNER\"}'::attack.dom[]"},
    {"SELECT '(\"@INNER\")'::attack.boxed"},
    {"SELECT attack.run($q$DECLARE h CURSOR WITH HOLD FOR SELECT @WRITE$q$)"},
};
constexpr Way kPlain[] = {
    {"INSERT INTO attack.rows @COLUMNS VALUES (@ARGS)", 4},
    {"INSERT INTO attack.rows @COLUMNS VALUES (@ARGS) RETURNING id"},
    {"WITH x AS (INSERT INTO attack.rows @COLUMNS VALUES (@ARGS) RETURNING id) SELECT id FROM x"},
    {"INSERT INTO attack.ruled @COLUMNS VALUES (@ARGS)"},
    {"INSERT INTO attack.triggered @COLUMNS VALUES (@ARGS)"},
    {"INSERT INTO attack.late @COLUMNS VALUES (@ARGS)"},
    {"DO $x$ BEGIN INSERT INTO attack.rows @COLUMNS VALUES (@ARGS); END $x$"},
    {"DO $x$ BEGIN PERFORM @WRITE; END $x$"},
    {"CALL attack.execute($q$INSERT INTO attack.rows @COLUMNS VALUES (@ARGS)$q$)"},
    {"COPY (SELECT @WRITE) TO STDOUT"},
    {"EXPLAIN ANALYZE SELECT @WRITE"},
    {"UPDATE attack.target SET v = v WHERE worker = @WORKER RETURNING @WRITE"},
    {nullptr, 7},  // a hidden one
};
constexpr Way kDeclarations[] = {
    {"SELECT @BOTH", 4},
    {"SELECT set_config('termgate.term', @TERM, @LOCAL)"},
    {"SELECT set_config('termgate.scope', @SCOPE, @LOCAL)"},
    {"SELECT 1 WHERE (SELECT set_config('termgate.scope', @SCOPE, @LOCAL)) || (SELECT "
     "set_config('termgate.term', @TERM, @LOCAL)) <> ''"},
    {"WITH x AS MATERIALIZED (SELECT @BOTH) SELECT * FROM x"},
    {"SELECT set_config(k, x, @LOCAL) FROM (VALUES ('termgate.scope', @SCOPE), ('termgate.term', "
     "@TERM)) v(k, x)"},
    {"DO $d$ BEGIN PERFORM @BOTH; END $d$"},
    {"SELECT attack.declare(@SCOPE, @TERM, @LOCAL)"},
    {"CALL attack.declaring(@SCOPE, @TERM, @LOCAL)"},
    {"COPY (SELECT @BOTH) TO STDOUT"},
    {"SET LOCAL termgate.scope = @SCOPE"}, {"SET LOCAL termgate.term = @TERM"},
    {"SET termgate.term = @TERM"},
    {"INSERT INTO attack.scratch SELECT set_config('termgate.scope', @SCOPE, @LOCAL) || "
     "set_config('termgate.term', @TERM, @LOCAL)"},
    {"UPDATE attack.target SET v = v WHERE worker = @WORKER RETURNING @BOTH"},
    {"RESET termgate.term"}, {"RESET ALL"}, {"SET termgate.term = ''"},
    {"SELECT set_config('termgate.scope', '', true)"},
    {"SELECT attack.run($q$SET LOCAL termgate.scope = @SCOPE; SET LOCAL termgate.term = @TERM$q$)"},
    {"EXPLAIN ANALYZE SELECT @BOTH"},
    // What is in force at the end counts for the commit, and its own claim for the row.
    {"SELECT attack.w(@LABEL,'writes and declares',NULL,NULL), @BOTH"},
    {"SELECT @BOTH, attack.w(@LABEL,'declares and writes',NULL,NULL)"},
    {"SELECT attack.declare_and_write(@SCOPE, @TERM, @LABEL)"},
};
constexpr Way kLayer1[] = {
    {"SELECT termgate.job_finish(0, 'failed')"},
    {"SELECT termgate.job_heartbeat(0)"},
    {"SELECT termgate.release_lease('no', 'no', 1)"},
    {"SELECT termgate.renew_lease('no', 'no', 1, interval '1 s')"},
    {"SELECT termgate.check_term(@SCOPE, @FENCE)", 2},
    {"SELECT termgate.check_term(@SCOPE, @STALE)"},
    {"SELECT termgate.append('attacked @NAME', @FENCE, 'x', scope => @SCOPE)"},
    {"SELECT termgate.append('attacked known', 1, 'x', write_id => "
     "'11111111-1111-1111-1111-111111111111')"},
    {"SELECT termgate.seal(@SCOPE, @FENCE, '10 ms')"},
    {"SELECT termgate.seal(@SCOPE, @RAISED, '10 ms')"},
    {"SELECT termgate.acquire_lease('@LEASE', 'me', interval '1 s', grace => '10 ms')"},
    {"SELECT termgate.check_session()"},
    {"SELECT termgate.check_session(@SCOPE, @FENCE)"},
    {"SELECT termgate.fence(@SCOPE)"},
    {"SELECT termgate.hold_session(@SCOPE, @FENCE)"},
    {"SELECT termgate.release_session(@SCOPE)"},
    {"SELECT termgate.unprotect('attack.rows')"},
    {"SELECT termgate.check_term(@SCOPE, @FENCE) WHERE false"},
    {"SELECT termgate.lease(@SCOPE)"},
};
constexpr Way kReads[] = {
    {"SELECT 1"}, {"SELECT count(*) FROM attack.target"}, {"SELECT now()"},
    {"SELECT nextval('attack.seq')"},
    {"SELECT version()"}, {"SHOW termgate.term"},
    {"SELECT current_setting('termgate.scope', true)"},
    {"SELECT attack.harmless()"}, {"TABLE attack.target"}, {"SELECT 1/0"}, {"SELEC"}, {""},
    {"SELECT pg_backend_pid()"}, {"VALUES (1), (2)"}, {"SELECT lower('X')"}, {"EXPLAIN SELECT 1"},
    {"SET work_mem = '4MB'"}, {"SELECT generate_series(1, 5)"}, {"LISTEN x"}, {"DISCARD PLANS"},
    {"LOCK TABLE attack.target IN ACCESS SHARE MODE"},
    // What replaces the proxy's own statements.
    {"SELECT attack.forge()"}, {"SELECT 'x'::attack.forging"}, {"SELECT attack.lower(1)"},
    {"SELECT * FROM attack.forger"}, {"SET search_path = attack, pg_catalog"},
};
constexpr Way kControl[] = {
    {"BEGIN", 4}, {"BEGIN /* x */"}, {"BEGIN READ ONLY"}, {"START TRANSACTION READ WRITE"},
    {"BEGIN ISOLATION LEVEL REPEATABLE READ"}, {"BEGIN ISOLATION LEVEL SERIALIZABLE"},
    {"COMMIT", 2}, {"END"}, {"COMMIT WORK"}, {"ROLLBACK"}, {"ABORT"},
    {"COMMIT AND CHAIN", 2}, {"ROLLBACK AND CHAIN"},
    {"SAVEPOINT a", 2}, {"SAVEPOINT b"}, {"ROLLBACK TO a", 2},
    {"ROLLBACK TO SAVEPOINT b"}, {"RELEASE a"},
    {"PREPARE TRANSACTION 'g@LABEL'"}, {"COMMIT PREPARED 'g@LABEL'"}, {"ROLLBACK PREPARED 'g0'"},
    {"SET TRANSACTION READ ONLY"}, {"SET TRANSACTION READ WRITE"},
    {"SET default_transaction_read_only = on"},
    {"SET default_transaction_read_only = off"}, {"SET transaction_read_only = off"},
    {"SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE"},
    {"DISCARD ALL"}, {"RESET ALL"}, {"DEALLOCATE ALL"}, {"CLOSE ALL"},
    {"SET CONSTRAINTS attack.t IMMEDIATE"}, {"SET CONSTRAINTS attack.t DEFERRED"},
};
// clang-format on

using Values = std::initializer_list<std::pair<const char*, std::string>>;

std::string filled(std::string text, Values values) {
  for (const auto& [mark, value] : values) {
    for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += value.size())
      text.replace(at, std::strlen(mark), value);
  }
  return text;
}

class Maker {
 public:
  Maker(std::uint64_t seed, const Known& known)
      : seed_(seed),
        random_(seed * 0x9E3779B97F4A7C15ULL + 0x1234567),
        known_(known),
        fences_(known.fences),
        label_(std::to_string(seed)) {}

  Session make() {
    Session session;
    session.user = pick({"a_write", "a_write", "a_lead", "a_operate", "a_maker"});
    if (one_in(30)) {
      const Claim claim = a_claim();
      if (one_in(4)) {
        session.start.emplace_back("application_name", "termgate.scope=" + claim.scope +
                                                           ";termgate.term=" + claim.term + ";");
      } else {
        session.start.emplace_back(
            "options", "-c termgate.scope=" + claim.scope + " -c termgate.term=" + claim.term);
      }
    } else if (one_in(2)) {  // most sessions begin with a declaration
      const Claim claim = a_claim();
      simple("SET termgate.scope = '" + claim.scope + "'; SET termgate.term = '" + claim.term +
             "'");
      push(session);
    }
    // Eight messages on the average, of which a pipeline's step has several; now and then many
    // more.
    const int length = 1 + static_cast<int>(below(one_in(10) ? 10 : 3));
    for (int i = 0; i < length; ++i) {
      a_step();
      push(session);
    }
    if (unsynced_) {
      sync();
      push(session);
    }
    return session;
  }

 private:
  struct Claim {
    std::string scope, term;
  };

  std::uint64_t below(std::uint64_t count) { return random_() % count; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  std::string pick(std::initializer_list<const char*> choices) {
    return *(choices.begin() + below(choices.size()));
  }

  void push(Session& session) {
    session.steps.push_back(std::move(step_));
    step_ = {};
  }

  Claim a_claim() {
    const auto which = below(3);
    const std::int64_t fence = fences_[which];
    std::string scope = known_.scopes[which];
    switch (below(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4: return {scope, std::to_string(fence)};
      case 5:
      case 6:
      case 7: return {scope, std::to_string(fence - 1)};
      case 8: return {scope, std::to_string(fence + 1)};
      case 9: return {scope, std::to_string(fence - static_cast<std::int64_t>(1 + below(3)))};
      case 10:
        return one_in(2) ? Claim{scope, pick({"x", "0", "-1", "9.5", "4611686018427387905",
                                              "99999999999999999999"})}
                         : Claim{scope, ""};
      default: return {known_.scopes[below(3)], std::to_string(fence)};
    }
  }

  static std::string comment_of(const Claim& claim) {
    return "/*termgate.scope='" + claim.scope + "',termgate.term='" + claim.term + "'*/";
  }

  template <std::size_t Count>
  const char* choose(const Way (&ways)[Count]) {
    int all = 0;
    for (const Way& way : ways) all += way.weight;
    auto at = static_cast<int>(below(static_cast<std::uint64_t>(all)));
    const Way* way = ways;
    for (; at >= way->weight; ++way) at -= way->weight;
    return way->text;
  }

  // A write that looks like this or that. `claim`: of the comment that goes with it.
  std::string writer(const std::string& tag, const std::optional<Claim>& claim,
                     bool plain_select = false) {
    const char* plain = plain_select ? nullptr : choose(kPlain);
    const std::string named = claim ? "'" + claim->scope + "','" + claim->term + "'" : "NULL,NULL";
    return filled(
        plain != nullptr ? plain : choose(kHidden),
        {{"@WRITE", "attack.w(@ARGS)"},
         {"@ARGS", label_ + ",'" + tag + "'," + named},
         {"@COLUMNS", "(label, way, cs, ct)"},
         {"@INNER", label_ + "|" + tag + "|" + (claim ? claim->scope + "|" + claim->term : "|")},
         {"@WORKER", known_.worker}});
  }

  std::string declaration(const Claim& claim) {
    return filled(choose(kDeclarations), {{"@BOTH",
                                           "set_config('termgate.scope', @SCOPE, @LOCAL), "
                                           "set_config('termgate.term', @TERM, @LOCAL)"},
                                          {"@SCOPE", "'" + claim.scope + "'"},
                                          {"@TERM", "'" + claim.term + "'"},
                                          {"@LOCAL", one_in(3) ? "false" : "true"},
                                          {"@WORKER", known_.worker},
                                          {"@LABEL", label_}});
  }

  std::string layer_1() {
    const auto which = below(3);
    const std::int64_t fence = fences_[which];
    return filled(choose(kLayer1), {{"@NAME", known_.scopes[which]},
                                    {"@SCOPE", "'" + known_.scopes[which] + "'"},
                                    {"@FENCE", std::to_string(fence)},
                                    {"@STALE", std::to_string(fence - 1)},
                                    {"@RAISED", std::to_string(fence + 1)},
                                    {"@LEASE", known_.lease}});
  }

  std::string read() { return choose(kReads); }
  std::string control() { return filled(choose(kControl), {{"@LABEL", label_}}); }

  // One statement with what it declares by a comment, perhaps.
  std::string statement(const std::string& tag) {
    switch (below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4: {
        std::optional<Claim> claim;
        if (one_in(3)) claim = a_claim();
        return decorated(writer(tag, claim), claim);
      }
      case 5:
      case 6:
      case 7: return declaration(a_claim());
      case 8:
      case 9: return layer_1();
      case 10:
      case 11: return read();
      case 12: {
        switch (below(7)) {
          case 0: return "PREPARE p AS " + writer("EXECUTE, " + tag, std::nullopt, true);
          case 1: return "EXECUTE p";
          case 2: return "DECLARE c CURSOR FOR " + writer("cursor, " + tag, std::nullopt, true);
          case 3: return "FETCH ALL c";
          case 4:
            return "DECLARE h CURSOR WITH HOLD FOR " +
                   writer("held cursor, " + tag, std::nullopt, true);
          case 5: return "FETCH h";
          default:
            return one_in(2) ? "PREPARE p AS " +
                                   std::string("SELECT set_config('termgate.term', '1', true)")
                             : "DEALLOCATE p";
        }
      }
      default: return control();
    }
  }

  std::string decorated(const std::string& sql, const std::optional<Claim>& claim) {
    if (!claim) return one_in(8) ? "/* x */ " + sql + " -- y\n" : sql;
    switch (below(4)) {
      case 0: return sql + " " + comment_of(*claim);
      case 1: return " \n" + comment_of(*claim) + sql;
      case 2: return "/* x */ " + comment_of(*claim) + " " + sql;
      default: return comment_of(*claim) + " " + sql;
    }
  }

  void simple(const std::string& sql) {
    wire::append_query(step_.bytes, sql);
    step_.said += "Q[" + sql + "] ";
    ++step_.ready;
  }

  void sync() {
    wire::append_bare(step_.bytes, 'S');
    step_.said += "Sync ";
    ++step_.ready;
    unsynced_ = false;
  }

  void extended(const std::string& tag) {
    const std::string name = one_in(3) ? pick({"s1", "s2"}) : "",
                      portal = one_in(4) ? pick({"p1", "p2"}) : "";
    unsynced_ = true;
    const bool reuse = !name.empty() && one_in(3);
    if (!reuse) {
      if (!name.empty() && one_in(2)) {
        wire::append_close_statement(step_.bytes, name);
        step_.said += "Close ";
      }
      std::string sql = statement(tag);
      std::vector<wire::Field> values;
      Claim claim;
      if (one_in(10)) {
        claim = a_claim();
        sql =
            "SELECT set_config('termgate.scope', $1, true), set_config('termgate.term', $2, true)";
        values = {claim.scope, claim.term};
      }
      wire::append_parse(step_.bytes, name, sql);
      step_.said += "Parse " + name + "[" + sql + "] ";
      if (one_in(8)) flush();
      if (one_in(12)) return;  // parsed, and no more
      wire::append_bind(step_.bytes, portal, name, values);
      step_.said += "Bind " + portal + " ";
      if (!values.empty()) step_.said += "(" + claim.scope + ", " + claim.term + ") ";
    } else {
      wire::append_bind(step_.bytes, portal, name, {});
      step_.said += "Bind " + portal + "=" + name + " ";
    }
    if (one_in(6)) {
      wire::append_describe_portal(step_.bytes, portal);
      step_.said += "Describe ";
    }
    if (one_in(12)) flush();
    if (one_in(12)) return;  // never executed, perhaps later
    const auto rows = one_in(5) ? 1U : 0U;
    wire::append_execute(step_.bytes, portal, rows);
    step_.said += rows != 0 ? "Execute " + portal + " 1 " : "Execute " + portal + " ";
    if (rows != 0 && one_in(2)) {
      if (one_in(2)) flush();
      wire::append_execute(step_.bytes, portal, 0);
      step_.said += "Execute " + portal + " ";
    }
    if (one_in(12)) {
      wire::append_execute(step_.bytes, pick({"p1", "p2", ""}), 0);
      step_.said += "Execute another ";
    }
  }

  void flush() {
    wire::append_bare(step_.bytes, 'H');
    step_.said += "Flush ";
    step_.drain = true;
  }

  void copy_in(const std::string& tag) {
    std::optional<Claim> claim;
    if (one_in(3)) claim = a_claim();
    const std::string sql = decorated("COPY attack.rows (label, way, cs, ct) FROM STDIN", claim);
    const bool simply = !unsynced_ && one_in(2);
    if (simply) {
      wire::append_query(step_.bytes, sql);
      ++step_.ready;
    } else {
      wire::append_parse(step_.bytes, "", sql);
      wire::append_bind(step_.bytes, "", "", {});
      wire::append_execute(step_.bytes, "");
      unsynced_ = true;
    }
    step_.said += (simply ? "Q[" : "P/B/E[") + sql + "] ";
    wire::append_opaque(step_.bytes, 'd',
                        label_ + "\tCOPY, " + tag + "\t" +
                            (claim ? claim->scope + "\t" + claim->term : "\\N\t\\N") + "\n");
    if (one_in(6)) {
      wire::append_copy_fail(step_.bytes, "no");
      step_.said += "CopyData CopyFail ";
    } else {
      wire::append_bare(step_.bytes, 'c');
      step_.said += "CopyData CopyDone ";
    }
    if (!simply) sync();
  }

  void function_call() {
    const auto call = [&](const std::string& name, const std::vector<std::string>& values) {
      std::string body = big_endian(known_.oids.at(name), 4) + big_endian(0, 2) +
                         big_endian(static_cast<std::uint32_t>(values.size()), 2);
      for (const auto& value : values)
        body += big_endian(static_cast<std::uint32_t>(value.size()), 4) + value;
      wire::append_opaque(step_.bytes, 'F', body + big_endian(0, 2));
      step_.said += "Call " + name;
      for (const auto& value : values) step_.said += " " + value;
      step_.said += "; ";
      ++step_.ready;
    };
    const Claim claim = a_claim();
    switch (below(5)) {
      case 0:
      case 1: return call("w", {label_, "fast path", "", ""});
      case 2:
        call("set_config", {"termgate.scope", claim.scope, "true"});
        return call("set_config", {"termgate.term", claim.term, "true"});
      case 3: return call("declare", {claim.scope, claim.term, one_in(2) ? "true" : "false"});
      default: return call("check_term", {claim.scope, claim.term.empty() ? "1" : claim.term});
    }
  }

  // Code declares, something is written under that, and another declaration takes its place before
  // the commit: by chance alone too rare.
  void declared_over() {
    const Claim by_code = a_claim();
    const auto which = below(3);
    const Claim later =
        one_in(4) ? a_claim() : Claim{known_.scopes[which], std::to_string(fences_[which])};
    const std::string s = "'" + by_code.scope + "'", t = "'" + by_code.term + "'",
                      write = "attack.w(" + label_ + ",'under what code declared',NULL,NULL)";
    std::vector<std::string> texts{"BEGIN"};
    if (one_in(3))
      texts.push_back(one_in(2) ? read() : writer("before code declares", std::nullopt));
    switch (below(5)) {
      case 0:
      case 1:
        texts.push_back("SELECT attack.declare_and_write(" + s + ", " + t + ", " + label_ + ")");
        break;
      case 2: texts.push_back("SELECT attack.declare(" + s + ", " + t + ", true), " + write); break;
      case 3:
        texts.push_back("DO $d$ BEGIN PERFORM attack.declare(" + s + ", " + t +
                        ", true); PERFORM " + write + "; END $d$");
        break;
      default:
        texts.insert(texts.end(), {"CALL attack.declaring(" + s + ", " + t + ", true)",
                                   writer("under what code declared", std::nullopt)});
        break;
    }
    if (one_in(3))
      texts.push_back(one_in(2) ? read() : writer("before the next declaration", std::nullopt));
    texts.push_back(declaration(later));
    if (one_in(3)) texts.push_back(writer("under the next declaration", std::nullopt));
    texts.push_back("COMMIT");
    const auto how = below(3);
    std::string all;
    for (const std::string& text : texts) {
      if (how == 0) {
        simple(text);
      } else if (how == 1) {
        all += (all.empty() ? "" : "; ") + text;
      } else {
        wire::append_parse(step_.bytes, "", text);
        wire::append_bind(step_.bytes, "", "", {});
        wire::append_execute(step_.bytes, "");
        step_.said += "P/B/E[" + text + "] ";
      }
    }
    if (how == 1) simple(all);
    if (how == 2) sync();
  }

  // A transaction whose access mode is no longer, or not yet, what a check has made of it; and what
  // looks harmless in it: what only plans, what was harmless when it was prepared, what runs
  // triggers late.
  void behind_a_savepoint() {
    const std::string name = pick({"s1", "s2"});
    const bool swapped = one_in(2);
    const std::optional<Claim> none;
    if (swapped) {
      wire::append_close_statement(step_.bytes, name);
      const std::string harmless = pick({"SHOW work_mem", "", "SET work_mem = '4MB'", "SAVEPOINT z",
                                         "SELECT set_config('termgate.scope', 'x', true)", "COMMIT",
                                         "BEGIN", "LISTEN x", "SELECT 1", "DEALLOCATE ALL"});
      wire::append_parse(step_.bytes, name, harmless);
      step_.said += "Close, Parse " + name + "[" + harmless + "] ";
      sync();
      simple("SELECT attack.run($r$DEALLOCATE " + name + "; PREPARE " + name + " AS " +
             writer("by another name", none, true) + "$r$)");
    }
    std::vector<std::string> texts{"BEGIN"};
    if (one_in(4))
      texts.push_back(one_in(2) ? writer("before the savepoint", none) : declaration(a_claim()));
    if (!one_in(5)) texts.push_back("SAVEPOINT a");
    if (!one_in(3))
      texts.push_back(pick({"SELECT 1", "SELECT 1/0", "SELECT count(*) FROM attack.target",
                            "SELECT attack.harmless()"}));
    texts.push_back(
        pick({"ROLLBACK AND CHAIN", "COMMIT AND CHAIN", "ROLLBACK TO a", "RELEASE a", "SELECT 1"}));
    if (one_in(4)) texts.push_back(declaration(a_claim()));
    if (one_in(3)) {
      const auto from = below(texts.size());
      std::string text = texts[from];
      for (std::size_t i = from + 1; i < texts.size(); ++i) text += "; " + texts[i];
      if (one_in(2)) text += "; " + writer("at the end of its text", none);
      texts.resize(from);
      texts.push_back(text);
    }
    for (const std::string& text : texts) simple(text);
    switch (below(5)) {
      case 0: simple(writer("behind a savepoint", none)); break;
      case 1:
        simple(swapped ? "EXECUTE " + name : "SET CONSTRAINTS attack.t IMMEDIATE");
        break;  // not the judge's
      case 2: simple(writer("behind a savepoint", none, true)); break;
      default:
        if (!swapped) {
          const std::string sql = one_in(2)
                                      ? "SELECT attack.folded(" + label_ + ",'planned',NULL,NULL)"
                                      : writer("planned", none, true);
          wire::append_parse(step_.bytes, "", sql);
          step_.said += "Parse [" + sql + "] ";
          if (one_in(3)) {
            sync();
            break;
          }
        }
        wire::append_bind(step_.bytes, "", swapped ? name : "", {});
        step_.said += "Bind ";
        if (swapped || one_in(3)) {
          wire::append_execute(step_.bytes, "");
          step_.said += "Execute ";
        }
        sync();
        break;
    }
    if (one_in(4)) simple(declaration(a_claim()));
    if (one_in(4))
      simple(
          pick({"RELEASE a", "SAVEPOINT b", "ROLLBACK TO a", "SAVEPOINT b; SELECT 1; RELEASE b"}));
    simple(pick({"COMMIT", "COMMIT", "COMMIT AND CHAIN"}));
    if (one_in(2)) simple("COMMIT");
  }

  // What looks surely like a read writes, in a pipeline with what has a claim of its own.
  void a_view() {
    simple("SET attack.packed = '" + label_ + "|view||'");
    const auto send = [&](const std::string& sql) {
      wire::append_parse(step_.bytes, "", sql);
      step_.said += "Parse [" + sql + "] ";
      if (one_in(8)) return;
      wire::append_bind(step_.bytes, "", "", {});
      step_.said += "Bind ";
      if (one_in(8)) return;
      wire::append_execute(step_.bytes, "");
      step_.said += "Execute ";
    };
    if (one_in(4)) send(control());
    if (one_in(4)) send(statement("before a view"));
    send("TABLE attack.viewed");
    if (one_in(6)) flush();
    for (auto count = 1 + below(2); count > 0; --count) {
      const Claim claim = a_claim();
      send(one_in(2)   ? decorated(writer("behind a view", claim), claim)
           : one_in(2) ? layer_1()
                       : statement("behind a view"));
    }
    if (one_in(4)) send("TABLE attack.viewed");
    if (one_in(4)) send("COMMIT");
    sync();
  }

  void a_step() {
    if (unsynced_) {
      if (one_in(3)) {
        sync();
      } else {
        extended("pipeline");
        if (one_in(2)) sync();
        else if (one_in(2)) flush();
      }
      step_.open = unsynced_;
      return;
    }
    switch (below(24)) {
      case 21: behind_a_savepoint(); break;
      case 22: a_view(); break;
      case 0:
      case 1:
      case 2:
      case 3: simple(statement("simple")); break;
      case 4:
      case 5:
      case 6: {  // several statements in a text
        std::string text;
        const auto count = 2 + below(3);
        for (std::uint64_t i = 0; i < count; ++i) text += (i == 0 ? "" : "; ") + statement("text");
        simple(text);
        break;
      }
      case 7:
      case 8: simple(control()); break;
      case 9: simple("BEGIN; " + statement("text") + "; " + statement("text") + "; COMMIT"); break;
      case 10:
      case 11:
      case 12:
      case 13: {  // a pipeline
        const auto count = 1 + below(4);
        for (std::uint64_t i = 0; i < count; ++i) {
          extended("group");
          if (one_in(5)) sync();
        }
        if (!one_in(5)) sync();
        else flush();
        break;
      }
      case 14:
      case 18: {  // simple queries without waiting
        const auto count = 2 + below(3);
        for (std::uint64_t i = 0; i < count; ++i) simple(statement("simple pipeline"));
        break;
      }
      case 15: copy_in("step"); break;
      case 16: function_call(); break;
      case 19: declared_over(); break;
      case 17: {
        const auto which = below(3);
        fences_[which] += 1;
        step_.raise = "SELECT termgate.seal('" + known_.scopes[which] + "', " +
                      std::to_string(fences_[which]) + ", '5 ms')";
        step_.said = "-- direct: " + step_.raise;
        break;
      }
      default:
        if (one_in(12)) {
          step_.leave = true;
          simple(statement("left"));
          step_.said += "and the client is gone ";
        } else {
          simple(read());
        }
    }
    step_.open = unsynced_;
  }

  std::uint64_t seed_;
  std::mt19937_64 random_;
  const Known& known_;
  std::array<std::int64_t, 3> fences_;
  std::string label_;
  Step step_;
  bool unsynced_ = false;
};

// ------------------------------------------------------------------------------------------------
// playing

struct Trouble {
  std::string what;
  std::uint64_t seed = 0;
};

class Player {
 public:
  Player(std::uint16_t server, std::uint16_t proxy, int worker) : proxy_(proxy), direct_(server) {
    for (std::size_t i = 0; i < 3; ++i)
      known_.scopes[i] =
          "attack" + std::to_string(worker) + std::string(1, static_cast<char>('a' + i));
    known_.worker = std::to_string(worker);
    known_.lease = "attacklease" + known_.worker;
    for (const auto& row :
         direct_.run("SELECT proname, oid FROM pg_proc WHERE (pronamespace = "
                     "'attack'::regnamespace AND proname IN ('w', "
                     "'declare')) OR (proname = 'set_config' AND pronamespace = "
                     "'pg_catalog'::regnamespace) OR "
                     "(proname = 'check_term' AND pronamespace = 'termgate'::regnamespace)"))
      known_.oids[row[0]] = static_cast<std::uint32_t>(std::stoul(row[1]));
    for (const auto& scope : known_.scopes) learn(scope);
    learn("x");  // some declare it by a name that stands for that, and may pass with it
  }

  // Plays the session of a seed, the steps that `kept` names or all. What went wrong by itself, or
  // nothing.
  std::optional<std::string> play(std::uint64_t seed, const std::vector<bool>* kept = nullptr) {
    const Session session = make(seed);
    std::optional<std::string> trouble;
    length_ = 0;
    for (const Step& step : session.steps) {
      length_ += step.raise.empty() ? 0U : 1U;
      for (std::size_t at = 0; at + 5 <= step.bytes.size(); ++length_)
        at += 1 + number_at(step.bytes, at + 1);
    }
    said_.clear();
    last_error_.clear();
    untrusted_.reset();
    std::string text;
    try {
      // A connection is used again and again, unless its start says something.
      if (session.start.empty()) wire_ = std::move(idle_[session.user]);
      if (!wire_) wire_ = std::make_unique<Wire>(proxy_, session.user, session.start), ++connected;
      int open = 0;
      for (std::size_t i = 0; i < session.steps.size(); ++i) {
        if (kept != nullptr && !(*kept)[i]) continue;
        const Step& step = session.steps[i];
        text += step.said;
        if (!step.raise.empty()) {
          raise(step.raise);
          continue;
        }
        wire_->send(step.bytes);
        if (step.leave) {
          wire_.reset();
          break;
        }
        for (open = step.ready; open > 0;) {
          const Message message = answer(seed, text);
          note(message);
          if (message.type == 'Z') --open;
        }
        if (step.drain && step.open) {
          while (const auto message = wire_->poll_next(2ms)) note(*message);
        }
      }
      if (wire_) end(seed, text);
    } catch (const Closed& closed) {
      wire_.reset();
      ++cut;
      if (last_error_.empty()) ++cut_without_a_word;
    } catch (const Hung& hung) {
      wire_.reset();
      trouble = std::string("HANG: ") + hung.what();
    } catch (const Nonsense& nonsense) {
      wire_.reset();
      trouble = std::string("OUT OF STEP: ") + nonsense.what();
    }
    // Nothing here was ever restored: a proxy that says so believes in a fence that no database has
    // shown.
    if (!trouble && untrusted_) trouble = "TG004: " + *untrusted_;
    const bool holds = text.find("hold_session") !=
                       std::string::npos;  // its lock would stand in for a check later
    const bool prepared = text.find("PREPARE TRANSACTION") != std::string::npos;
    if (session.start.empty() && !holds) idle_[session.user] = std::move(wire_);
    wire_.reset();
    if (prepared) sweep(seed);
    return trouble;
  }

  Session make(std::uint64_t seed) {
    const auto rows =
        direct_.run("SELECT scope, term FROM termgate.fences WHERE scope IN ('" + known_.scopes[0] +
                    "', '" + known_.scopes[1] + "', '" + known_.scopes[2] + "')");
    for (const auto& row : rows) {
      for (std::size_t i = 0; i < 3; ++i) {
        if (row[0] == known_.scopes[i]) known_.fences[i] = std::stoll(row[1]);
      }
    }
    return Maker(seed, known_).make();
  }

  // A session alone, on a connection of its own, judged at once: what it breached.
  std::string verdict(std::uint64_t seed, const std::string& mode,
                      const std::vector<bool>* kept = nullptr) {
    idle_.clear();
    const auto trouble = play(seed, kept);
    idle_.clear();
    for (int i = 0; i < 100 && direct_.value("SELECT count(*) FROM pg_stat_activity WHERE usename "
                                             "LIKE 'a\\_%' AND state <> 'idle'") != "0";
         ++i)
      std::this_thread::sleep_for(5ms);
    std::string what = trouble.value_or("");
    for (const auto& row :
         direct_.run("SELECT label, way, reason, detail FROM attack.judge('" + mode + "')")) {
      if (row[0] == std::to_string(seed))
        what += "[" + row[1] + ": " + row[2] + " " + row[3] + "] ";
    }
    return what;
  }

  Direct& direct() { return direct_; }
  const std::vector<std::string>& said() const { return said_; }

  std::size_t length() const { return length_; }

  std::uint64_t cut = 0, cut_without_a_word = 0, raises_missed = 0, connected = 0, raises = 0;
  std::map<std::string, std::uint64_t> errors;
  bool listening = false;

 private:
  // Which advisory locks a check of this scope takes, seen on this connection.
  void learn(const std::string& scope) {
    direct_.run("SELECT termgate.seal('" + scope +
                "', greatest(coalesce((SELECT term FROM termgate.fences WHERE scope = '" + scope +
                "'), 0), 10))");
    direct_.run("BEGIN; SELECT termgate.check_term('" + scope +
                "', (SELECT term FROM termgate.fences WHERE scope = '" + scope +
                "')); INSERT INTO attack.keys SELECT '" + scope +
                "', classid, objid, objsubid FROM pg_locks WHERE locktype = 'advisory' AND pid = "
                "pg_backend_pid() ON CONFLICT DO NOTHING; COMMIT");
  }

  void raise(const std::string& sql) {
    ++raises;
    try {
      direct_.run(sql);
    } catch (const std::runtime_error&) {
      ++raises_missed;  // a prepared transaction of the session's own is in the way, or the session
                        // itself raised higher
    }
  }

  void sweep(std::uint64_t seed) {
    for (const auto& row : direct_.run("SELECT gid FROM pg_prepared_xacts WHERE gid = 'g" +
                                       std::to_string(seed) + "'")) {
      try {
        direct_.run("ROLLBACK PREPARED '" + row[0] + "'");
      } catch (const std::runtime_error&) {
        // its session is still at it
      }
    }
  }

  void note(const Message& message) {
    if (message.type == 'E') {
      last_error_ = message.field('C');
      ++errors[last_error_];
      if (last_error_ == "TG004") untrusted_ = message.field('M');
    }
    if (listening) {
      std::string text(1, message.type);
      if (message.type == 'E' || message.type == 'N')
        text += "[" + message.field('C') + " " + message.field('M') + "]";
      if (message.type == 'C') text += "[" + message.body.substr(0, message.body.size() - 1) + "]";
      if (message.type == 'Z') text += "[" + message.body + "]";
      said_.push_back(std::move(text));
    }
  }

  // The next message. Where a session prepared a transaction and goes on in another one, it may
  // wait for the rows that the first one holds: then that is rolled back, as an operator would, and
  // it is no hang of the proxy's.
  Message answer(std::uint64_t seed, const std::string& text) {
    if (text.find("PREPARE TRANSACTION") != std::string::npos) {
      if (auto message = wire_->poll_next(500ms)) return std::move(*message);
      sweep(seed);
    }
    return wire_->next(kPatience);
  }

  // Back to a clean session, and proof that its answers are where they belong.
  void end(std::uint64_t seed, const std::string& text) {
    const std::string mark = "mark" + std::to_string(seed);
    std::string out;
    wire::append_query(out, "ROLLBACK");
    // DISCARD ALL would throw away every plan of layer 1 as well, which is most of the work of a
    // session.
    wire::append_query(out, "RESET ALL");
    int wanted = 3;
    const auto also = [&](std::initializer_list<const char*> signs, const char* sql) {
      if (std::any_of(signs.begin(), signs.end(),
                      [&](const char* sign) { return text.find(sign) != std::string::npos; }))
        wire::append_query(out, sql), ++wanted;
    };
    also({"PREPARE", "Parse s", "forg", "lower"}, "DEALLOCATE ALL");
    also({"HOLD"}, "CLOSE ALL");
    also({"LISTEN"}, "UNLISTEN *");
    wire::append_query(out, "SET application_name = '" + mark +
                                "'");  // which every session may, and the server reports it
    wire_->send(out);
    int ready = 0;
    bool seen = false;
    while (ready < wanted) {
      const Message message = answer(seed, text);
      if (message.type == 'S' && message.body.find(mark) != std::string::npos) {
        if (ready != wanted - 1) throw Nonsense("the marker came too early");
        seen = true;
      }
      if (message.type == 'Z') ++ready;
    }
    if (!seen) throw Nonsense("the marker did not come back");
    if (const auto more = wire_->poll_next(0ms); more && more->type != 'N' && more->type != 'S')
      throw Nonsense("messages after the last ReadyForQuery");
  }

  std::uint16_t proxy_;
  Direct direct_;
  Known known_;
  std::unique_ptr<Wire> wire_;
  std::map<std::string, std::unique_ptr<Wire>> idle_;
  std::string last_error_;
  std::optional<std::string> untrusted_;
  std::vector<std::string> said_;
  std::size_t length_ = 0;
};

struct Options {
  std::string url = "postgresql://postgres@127.0.0.1:5432/postgres", mode = "read-only";
  std::uint16_t server = 0, proxy = 0;
  double seconds = 20;
  std::uint64_t seed = 0;
  int workers = 3;
  bool replay = false;
  std::size_t breaches_shown = 12;
};

std::uint16_t port_of(const std::string& url) {
  const auto slash = url.rfind('/');
  return static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':', slash) + 1)));
}

std::string shown(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') out += "\\n";
    else out += c;
  }
  return out;
}

// Plays it again alone, leaves out what is not needed, and prints what is left.
bool explain(Player& player, std::uint64_t seed, const std::string& mode, bool shrink,
             Clock::time_point deadline) {
  const Session session = player.make(seed);
  std::vector<bool> kept(session.steps.size(), true);
  std::string what;
  for (int i = 0; i < 3 && what.empty(); ++i) what = player.verdict(seed, mode);
  if (what.empty())
    std::cout << "    (not seen again alone: it depends on the moment, or on what the connection "
                 "did earlier)\n";
  if (shrink && !what.empty()) {
    for (std::size_t i = kept.size(); i-- > 0 && Clock::now() < deadline;) {
      kept[i] = false;
      const auto less = player.verdict(seed, mode, &kept);
      if (less.empty()) kept[i] = true;
    }
  }
  player.listening = true;
  const std::string last = player.verdict(seed, mode, &kept);
  player.listening = false;
  std::cout << "    as " << session.user;
  for (const auto& [name, value] : session.start) std::cout << ", " << name << " = " << value;
  std::cout << "\n";
  const Session now = player.make(seed);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) std::cout << "    " << i << ". " << shown(now.steps[i].said) << "\n";
  }
  std::cout << "    answers:";
  for (const auto& answer : player.said()) std::cout << " " << shown(answer);
  std::cout << "\n    " << (last.empty() ? what : last) << std::endl;
  return !what.empty();
}

// Long: one run, whose threads share its counts.
int run(const Options& options) {
  std::mutex lock;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> sessions{0}, messages{0};
  std::vector<Trouble> troubles;
  std::map<std::string, std::uint64_t> errors;
  std::uint64_t cut = 0, silent = 0, missed = 0, raises = 0, connected = 0;
  Direct direct(options.server);
  const auto until = Clock::now() + std::chrono::duration<double>(options.seconds);
  const auto begin = Clock::now();
  std::vector<std::thread> threads;
  for (int worker = 0; worker < options.workers; ++worker) {
    threads.emplace_back([&, worker] {
      try {
        Player player(options.server, options.proxy, worker);
        for (std::uint64_t seed = options.seed + static_cast<std::uint64_t>(worker);
             Clock::now() < until && !stop; seed += static_cast<std::uint64_t>(options.workers)) {
          const auto trouble = player.play(seed);
          ++sessions;
          messages += player.length();
          if (trouble) {
            const std::lock_guard guard(lock);
            troubles.push_back({*trouble, seed});
          }
        }
        const std::lock_guard guard(lock);
        for (const auto& [code, count] : player.errors) errors[code] += count;
        cut += player.cut;
        silent += player.cut_without_a_word;
        missed += player.raises_missed;
        raises += player.raises;
        connected += player.connected;
      } catch (const std::exception& failure) {
        const std::lock_guard guard(lock);
        troubles.push_back({std::string("the attacker cannot go on: ") + failure.what(), 0});
        stop = true;
      }
    });
  }
  // What was committed is judged while it goes on, so that the tables stay small.
  std::uint64_t judged = 0;
  std::map<std::string, std::pair<std::uint64_t, std::vector<std::uint64_t>>>
      breaches;  // by kind: how many, of which sessions
  const auto judge = [&] {
    judged += std::stoull(direct.value("SELECT count(*) FROM attack.rows"));
    for (const auto& row : direct.run("SELECT label, way, reason, detail FROM attack.judge('" +
                                      options.mode + "')")) {
      auto& [count, seeds] = breaches[row[2] + ", " + row[1]];
      ++count;
      if (seeds.size() < 20) seeds.push_back(std::stoull(row[0]));
      if (count == 1)
        std::cout << "BREACH seed " << row[0] << ": " << row[1] << ": " << row[2] << " " << row[3]
                  << std::endl;
    }
  };
  while (Clock::now() < until && !stop) {
    std::this_thread::sleep_for(500ms);
    judge();
  }
  for (auto& thread : threads) thread.join();
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  judge();
  std::cout << sessions << " sessions, " << messages << " messages in " << took << " s ("
            << static_cast<int>(static_cast<double>(sessions) / took) << " a second), " << judged
            << " rows judged, " << cut << " connections ended (" << silent << " without an error), "
            << connected << " made, " << raises << " raises, " << missed
            << " of them refused\nerrors:";
  for (const auto& [code, count] : errors) std::cout << " " << code << " " << count;
  std::cout << std::endl;
  for (std::size_t i = 0; i < std::min<std::size_t>(troubles.size(), 20); ++i)
    std::cout << "TROUBLE seed " << troubles[i].seed << ": " << troubles[i].what << std::endl;
  std::uint64_t count = 0;
  for (const auto& [kind, found] : breaches) count += found.first;
  if (count != 0 || !troubles.empty()) {
    try {
      Player player(options.server, options.proxy, options.workers);
      std::size_t explained = 0;
      const auto deadline = Clock::now() + 60s;
      for (const auto& [kind, found] : breaches) {
        if (++explained > options.breaches_shown || Clock::now() > deadline) break;
        std::cout << kind << " (" << found.first << "), seed " << found.second.front() << ":\n";
        for (std::size_t i = 0; i < std::min<std::size_t>(3, found.second.size()); ++i) {
          if (explain(player, found.second[i], options.mode, true, deadline)) break;
        }
      }
      for (const auto& trouble : troubles) {
        if (trouble.seed != 0 && ++explained < 2 * options.breaches_shown &&
            Clock::now() < deadline) {
          std::cout << "seed " << trouble.seed << ":\n";
          explain(player, trouble.seed, options.mode, false, deadline);
        }
      }
    } catch (const std::exception& failure) {
      std::cout << "cannot explain: " << failure.what() << std::endl;
    }
  }
  std::cout << "mode " << options.mode << ": " << count << " breaches, " << troubles.size()
            << " other failures; first seed " << options.seed << std::endl;
  if (judged == 0 || sessions == 0)
    std::cout << "nothing was committed: this run proves nothing" << std::endl;
  return count == 0 && troubles.empty() && judged != 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string name = argv[i];
      const auto value = [&]() -> std::string {
        if (++i >= argc) throw std::runtime_error(name + " needs a value");
        return argv[i];
      };
      if (name == "--url") options.url = value();
      else if (name == "--proxy") options.proxy = static_cast<std::uint16_t>(std::stoi(value()));
      else if (name == "--mode") options.mode = value();
      else if (name == "--seconds") options.seconds = std::stod(value());
      else if (name == "--seed") options.seed = std::stoull(value());
      else if (name == "--workers") options.workers = std::stoi(value());
      else if (name == "--breaches") options.breaches_shown = std::stoull(value());
      else if (name == "--replay") options.replay = true, options.seed = std::stoull(value());
      else throw std::runtime_error("unknown option " + name);
    }
    options.server = port_of(options.url);
    if (options.seed == 0)
      options.seed = static_cast<std::uint64_t>(
                         std::chrono::system_clock::now().time_since_epoch().count() / 1000) %
                     1'000'000'000 * 1000;
    if (options.replay) {
      Player player(options.server, options.proxy, options.workers);
      return explain(player, options.seed, options.mode, true, Clock::now() + 60s) ? 1 : 0;
    }
    return run(options);
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << "\n";
    return 2;
  }
}
