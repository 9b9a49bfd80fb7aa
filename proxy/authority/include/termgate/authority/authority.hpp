// The implementation of conversation::Authority: the operator's rules, the leases held for
// applications, the watched files, and the fences that other processes raise, in one object for the
// whole proxy. Any thread may call any member.
//
// The database may be unreachable or not configured: fixed terms and files still work, and leases
// report why there is no term.
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
  std::string rules_path;  // empty: no rules
  // For the proxy's own connections, with its own credentials. Empty: no database.
  std::string database_url;
  std::string schema = "termgate";
  // This machine's name in names of lease holders. Empty: its host name.
  std::string machine;
  std::chrono::milliseconds file_pause{200};       // between two checks of the watched files
  std::chrono::milliseconds fences_pause{30'000};  // the longest between two readings of all fences
  std::chrono::milliseconds settle_wait{10'000};   // the longest that `settled` waits for a lease
  // What applies where no rule says otherwise.
  conversation::WithoutTerm without_term = conversation::WithoutTerm::read_only;
  conversation::Enforce enforce = conversation::Enforce::on;
  bool replication = false;
  // See SeatOffer; for PostgreSQL. 0: no seats.
  int seat_checks = conversation::SeatOffer().checks;
  // How many databases are watched at once besides that of database_url; see docs/use/proxy.md.
  std::size_t watched_databases_max = 20;
  // How long such a watch continues without a session in its database.
  std::chrono::milliseconds watch_idle_pause{2'000};
  // How long after a session's last use such a watch is safe from being replaced by another
  // database's.
  std::chrono::milliseconds watch_keep_pause{10'000};
  // Opens the lock service of a rule's `source`. Throws InvalidInput for a URL that it does not
  // know. Empty: no rule may have a source.
  std::function<std::shared_ptr<LeaseSource>(const std::string& url)> open_source;
  // Messages for the operator's log. error: the database of database_url cannot be watched or
  // queried. warning: another database cannot be watched, or a lock service warns. info: the rest,
  // such as leases taken, lost and given back. Any thread; must not block.
  enum class Weight : std::uint8_t { info, warning, error };
  std::function<void(Weight, std::string_view)> log;
};

class Authority final : public conversation::Authority {
 public:
  // Reads the rules and the files that they name, and starts the threads, which connect; does not
  // wait for the database. Throws InvalidInput if the rules or the URL are wrong, and Unavailable
  // if the process has no descriptor left.
  explicit Authority(Settings settings);
  // Gives its leases back; may block until the database answers.
  ~Authority() override;
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  conversation::Admission admit(std::uint64_t session, const ConnectRequest& request) override;
  void established(std::uint64_t session, std::function<void()> settled) override;
  void ended(std::uint64_t session) override;

  // The fences of one database, shared by all sessions there. Their holders must be gone before
  // this object.
  std::shared_ptr<conversation::Fences> fences(std::string_view database) override;
  // Notes a write that was refused as stale. A worker adds what was noted to the audit, at most
  // once a second for each scope. Only for the database of database_url, and not for refusals by
  // PostgreSQL itself, which layer 1 records.
  void happened(std::string_view database, const conversation::Incident& incident) override;
  void subscribe(
      std::function<void(std::uint64_t fences, std::string_view scope, std::int64_t fence)>
          callback) override;

  void subscribe_gates(std::function<void(std::string_view scope, bool certain)> callback) override;
  void gate_held(std::string_view scope) override;
  void gate_left(std::string_view scope) override;
  conversation::SeatOffer seat_offer(std::string_view database) const override;

  void raise(std::string_view scope, std::int64_t term,
             std::function<void(std::string_view, std::string_view)> done) override;
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
