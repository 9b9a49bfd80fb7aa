// Who may come in, with which scope and term, and what fences are known: the operator's rules, the leases that stand for applications, the watched files and
// the fences that other processes raise, in one object for the whole proxy. Any thread may call any member; what may block says so.
//
// A session is named by a number that the caller chooses and does not use twice:
//
//   admit(7, arrival)        the rules' answer to its start-up message; nothing is done for it yet
//   established(7, settled)  the server has let it in: only now may it hold a lease, or take one over. The caller holds the client's statements back
//                            until `settled` is called, so that the first one finds its term
//   ended(7)                 the last one of a host gives the host's lease back
//
// The database may be unreachable or unknown: fixed terms and files work all the same, leases say why there is no term.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <termgate/authority/rules.hpp>
#include <termgate/session/admission.hpp>

namespace termgate::authority {

// Whether a client still answers, as its kernel's acknowledgements show. Any thread, also after the connection has ended.
class Presence {
 public:
  virtual ~Presence() = default;
  virtual bool open() const = 0;
  // Since the peer's machine was last heard of.
  virtual std::chrono::milliseconds silent_for() const = 0;
  // From now on a silent peer is asked so often that silent_for() stays below `bound` while it is there.
  virtual void ask_within(std::chrono::milliseconds bound) = 0;
};

struct Arrival {
  Visitor visitor;
  std::shared_ptr<Presence> presence;  // nullptr: taken to be there as long as its session is open
};

struct Settings {
  std::string rules_path;     // empty: no rules
  std::string database_url;   // of the proxy's own connections, with its own credentials; empty: none
  std::string schema = "termgate";
  std::string machine;        // this machine's name among holders; empty: its host name
  std::chrono::milliseconds file_pause{200};     // between two looks at the watched files
  std::chrono::milliseconds fences_pause{30'000};  // between two readings of all fences
  std::chrono::milliseconds settle_wait{10'000};  // how long `settled` may be put off
  // What holds where no rule says otherwise.
  session::WithoutTerm without_term = session::WithoutTerm::read_only;
  session::Enforce enforce = session::Enforce::on;
  bool replication = false;
  // What an operator should read in the log: leases taken, lost, given back; a database that is not reached. Any thread; must not block.
  std::function<void(std::string_view)> log;
};

class Authority {
 public:
  // Throws InvalidInput where the rules or the URL are wrong. Connects to nothing yet.
  explicit Authority(Settings settings);
  // Gives back the leases that it holds; may block for as long as the database takes to answer.
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  session::Admission admit(std::uint64_t session, const Arrival& arrival);
  // `settled` is called exactly once, from within or from a thread of ours: the lease is held, or it is known why not, or settle_wait is over.
  // A session that is not known (or has ended) is settled at once.
  void established(std::uint64_t session, std::function<void()> settled);
  void ended(std::uint64_t session);

  // Reads the rules anew. What is wrong with them, or empty; the former rules stand then. Sessions keep what they were admitted with.
  std::string reload();

  // The highest fence seen, 0 for none: a lower bound of the truth.
  std::int64_t highest_fence(std::string_view scope) const;
  void saw_fence(std::string_view scope, std::int64_t fence);
  // Called for every fence that is seen to have risen, by whichever thread saw it; must not block nor call subscribe(). nullptr: no more calls once this returns.
  void subscribe(std::function<void(std::string_view scope, std::int64_t fence)> callback);
  // The message of TG004, where the database shows a lower fence for the scope than was seen before, and no reset explains it; else empty.
  std::string doubt(std::string_view scope) const;

  // A write was refused as stale, from memory or by the database: written to the audit, at most once a second a scope.
  void refused(std::string_view scope, std::int64_t term);

  // Whether a host behind this proxy holds the scope's lease now, by a rule.
  bool leader(std::string_view scope) const;
  std::int64_t leases_held() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace termgate::authority
