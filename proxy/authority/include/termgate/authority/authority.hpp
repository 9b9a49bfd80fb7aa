// conversation::Authority as it is: the operator's rules, the leases that stand for applications, the watched files and the fences that
// other processes raise, in one object for the whole proxy. Any thread may call any member.
//
// The database may be unreachable or unknown: fixed terms and files work all the same, leases say why there is no term.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <termgate/authority/rules.hpp>
#include <termgate/lease_source.hpp>
#include <termgate/conversation/authority.hpp>

namespace termgate::authority {

using conversation::ConnectRequest;
using conversation::PeerLiveness;

struct Settings {
  std::string rules_path;    // empty: no rules
  std::string database_url;  // of the proxy's own connections, with its own credentials; empty: none
  std::string schema = "termgate";
  std::string machine;                             // this machine's name among holders; empty: its host name
  std::chrono::milliseconds file_pause{200};       // between two looks at the watched files
  std::chrono::milliseconds fences_pause{30'000};  // between two readings of all fences
  std::chrono::milliseconds settle_wait{10'000};   // how long `settled` may be put off
  // What holds where no rule says otherwise.
  conversation::WithoutTerm without_term = conversation::WithoutTerm::read_only;
  conversation::Enforce enforce = conversation::Enforce::on;
  bool replication = false;
  int seat_checks = conversation::SeatOffer().checks;  // on PostgreSQL: see there; 0: no seats
  std::size_t watched_databases_max = 20;              // beside that of database_url, watched at once; see docs/use/proxy.md
  std::chrono::milliseconds watch_idle_pause{2'000};   // without a session there, until such a watch ends
  std::chrono::milliseconds watch_keep_pause{10'000};  // after a session's last word, until such a watch may end for another database's
  // Opens the lock service of a rule's `source`; throws InvalidInput for a URL that means nothing. Empty: no rule may have a source.
  std::function<std::shared_ptr<LeaseSource>(const std::string& url)> open_source;
  // What an operator should read in the log: leases taken, lost, given back (info); another database that is not watched (warning); that of
  // database_url not being watched (error). Any thread; must not block.
  enum class Weight : std::uint8_t { info, warning, error };
  std::function<void(Weight, std::string_view)> log;
};

class Authority final : public conversation::Authority {
 public:
  // Throws InvalidInput where the rules or the URL are wrong. Connects to nothing yet.
  explicit Authority(Settings settings);
  // Gives back the leases that it holds; may block for as long as the database takes to answer.
  ~Authority() override;
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  conversation::Admission admit(std::uint64_t session, const ConnectRequest& request) override;
  void established(std::uint64_t session, std::function<void()> settled) override;
  void ended(std::uint64_t session) override;

  // Those of one database for all sessions there. What they are held by must be gone before this object.
  std::shared_ptr<conversation::Fences> fences(std::string_view database) override;
  // A write that was refused as stale is written to the audit, at most once a second a scope; of the database of database_url only.
  void happened(std::string_view database, const conversation::Incident& incident) override;
  void subscribe(std::function<void(std::uint64_t fences, std::string_view scope, std::int64_t fence)> callback) override;

  void subscribe_gates(std::function<void(std::string_view scope, bool certain)> callback) override;
  void gate_held(std::string_view scope) override;
  void gate_left(std::string_view scope) override;
  conversation::SeatOffer seat_offer(std::string_view database) const override;

  void raise(std::string_view scope, std::int64_t term, std::function<void(std::string_view, std::string_view)> done) override;
  conversation::Obstacle obstacle() const override;
  conversation::ServedBy served_by() const override;
  conversation::Watching watching() const override;
  bool leads(std::string_view scope) const override;
  std::int64_t leases_held() const override;
  std::string reload() override;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace termgate::authority
