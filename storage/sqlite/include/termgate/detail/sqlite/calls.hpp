// The calls of layer 1 that leaders, jobs, followers and operators make: a class for each subject,
// owned by the connection's Layer1 and used by that connection's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/scope.hpp>
#include <termgate/term.hpp>
#include <termgate/write_id.hpp>

#include <termgate/detail/sqlite/core.hpp>
#include <termgate/detail/sqlite/fences.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlite {

// Appends with their check, and write ids (F1, F5).
class Streams {
 public:
  Streams(Core& core, Fences& fences) : core_(core), fences_(fences) {}

  struct Write {
    std::string_view payload;  // borrowed for the call
    std::optional<std::string> write_id;
  };
  // Returns the number of the last write.
  std::int64_t append(const Stream& stream, Term term, const std::vector<Write>& writes,
                      std::optional<std::int64_t> expected, const std::optional<Scope>& scope);

  struct Claim {
    bool fresh;
    std::int64_t fence;
  };
  Claim claim_write(const Scope& scope, Term term, const WriteId& id);

  struct Outcome {
    std::optional<std::string> stream;
    std::optional<std::int64_t> sequence_no;
    std::string scope;
    std::int64_t term;
    Moment created_at;
  };
  std::optional<Outcome> outcome(const WriteId& id);

 private:
  Scope scope_of(const Stream& stream, const std::optional<Scope>& named,
                 const std::optional<std::string>& fixed);
  std::int64_t repeated(const Stream& stream, const std::vector<Write>& writes, bool& found);

  Core& core_;
  Fences& fences_;
};

// Leases, and their planned hand-over.
class Leases {
 public:
  Leases(Core& core, Fences& fences) : core_(core), fences_(fences) {}

  struct Acquisition {
    bool acquired;
    std::int64_t term;
    Moment expires_at;
    std::string owner_id;
    std::int64_t remaining_ms;
  };
  Acquisition acquire(const Scope& scope, const std::string& owner, std::int64_t ttl_ms,
                      const std::optional<std::string>& endpoint);
  struct Renewal {
    bool renewed;
    std::optional<Moment> expires_at;
    std::int64_t remaining_ms;
    std::optional<std::int64_t>
        leave_in_ms;  // the holder should release the lease within this time
  };
  Renewal renew(const Scope& scope, const std::string& owner, Term term, std::int64_t ttl_ms);
  // Renews many in one transaction. `leases`: a JSON array of {"scope", "owner", "term", "ttl_ms"},
  // at most 500, no scope twice. Returns for each in order: renewed, lost or untrusted.
  std::vector<std::string_view> renew_all(const std::string& leases);
  bool release(const Scope& scope, const std::string& owner, Term term);
  bool force_release(const Scope& scope, const std::string& actor, const std::string& reason);

  // Makes the open transaction fail to commit unless this owner then still holds the lease, under
  // its current term. Returns when the lease ends. Throws LeaseLost if it is not held now.
  Moment require(const Scope& scope, const std::string& owner);
  // Throws LeaseLost if a required lease is over. Transactions that share a commit each call this
  // at their own end.
  void need_required();

  // Requests the holder to leave within the drain. Meanwhile only `successor` may take the lease
  // (an owner, or a prefix followed by *; none: anybody but the holder); afterwards the holder
  // cannot renew it. None: nobody holds it.
  struct HandOver {
    std::string owner_id;
    std::int64_t term;
    Moment leave_before;
  };
  std::optional<HandOver> request_hand_over(const Scope& scope,
                                            const std::optional<std::string>& successor,
                                            std::int64_t drain_ms, const std::string& actor,
                                            const std::string& reason);
  // How long the holder under this term may still stay. None: nobody requests its lease.
  std::optional<std::int64_t> leave_in_ms(const std::string& scope, std::int64_t term);

 private:
  using LeaseRow = Fences::LeaseRow;
  struct AskedFor {
    std::string owner;
    std::optional<std::string> successor;
    Moment leave_before;
  };
  LeaseRow need_live(const Scope& scope, const std::string& owner, std::int64_t term);
  bool knows_hand_overs();
  std::optional<AskedFor> asked_for(const std::string& scope, std::int64_t term);
  bool may_follow(const std::string& scope, std::int64_t term, const std::string& owner,
                  Moment moment);
  void handed_over(const std::string& scope, const LeaseRow& before, const std::string& owner,
                   std::int64_t term, Moment moment);

  Core& core_;
  Fences& fences_;
  bool hand_overs_known_ = false;
};

// The history of jobs.
class Jobs {
 public:
  Jobs(Core& core, Fences& fences, Leases& leases)
      : core_(core), fences_(fences), leases_(leases) {}

  std::string start(const std::string& job_name, const Scope& scope, const std::string& owner,
                    Term term, const std::optional<std::string>& detail);
  // Requests a run: `kind` is run, dry-run or resume. `requested` false: the job already has a
  // request, whose run_id this is, and nothing was changed.
  struct Request {
    bool requested;
    std::string run_id;
  };
  Request request(const std::string& job_name, const Scope& scope, const std::string& kind,
                  const std::string& actor, const std::string& reason);
  // Begins the requested run, as start() does. None: there is no request.
  struct Taken {
    std::string run_id, kind;
  };
  std::optional<Taken> take(const std::string& job_name, const Scope& scope,
                            const std::string& owner, Term term);
  // Returns false if the run is no longer open. A heartbeat, and the completion of a run, are
  // checked like writes (TG001).
  bool heartbeat(const std::string& run_id, const std::optional<std::string>& checkpoint);
  // A heartbeat and the renewal of the run's lease. `beaten` false: the run is no longer open, and
  // nothing was renewed.
  struct Beat {
    bool beaten = false, renewed = false;
    std::optional<Moment> beat_before = {};
    std::optional<std::int64_t> remaining_ms = {};
  };
  Beat heartbeat(const std::string& run_id, const std::optional<std::string>& checkpoint,
                 std::int64_t ttl_ms);
  bool finish(const std::string& run_id, const std::string& status,
              std::optional<std::int64_t> exit_code, const std::optional<std::string>& detail,
              const std::optional<std::string>& checkpoint);

 private:
  struct Open {
    std::string scope;
    std::int64_t term;
    std::string owner;
  };
  std::optional<Open> open(const std::string& run_id, bool checked);
  void begin(const std::string& job_name, const Scope& scope, const std::string& owner, Term term,
             Moment moment);
  // Term 0: finds the requested run.
  std::optional<Taken> find(const std::string& job_name, const Scope& scope, std::int64_t term);

  Core& core_;
  Fences& fences_;
  Leases& leases_;
};

// Runs and positions of followers.
class Followers {
 public:
  explicit Followers(Core& core) : core_(core) {}

  // Returns the follower's new run; an older run cannot move positions any more. Give a stream or a
  // scope, always the same for one name.
  std::int64_t start(const std::string& name, const std::optional<std::string>& stream,
                     const std::optional<std::string>& scope, bool from_end);
  // "moved"; "taken": a later start has taken it over; "elsewhere": the position is not `from`.
  std::string_view advance(const std::string& name, std::int64_t run, const Stream& stream,
                           std::int64_t from, std::int64_t to);
  bool remove(const std::string& name);

 private:
  Core& core_;
};

// The operator's calls (F3).
class Operations {
 public:
  Operations(Core& core, Fences& fences) : core_(core), fences_(fences) {}

  std::int64_t reset_fence(const Scope& scope, Term term, const std::string& actor,
                           const std::string& reason);
  std::int64_t declare_restored(const Scope& scope, Term above, const std::string& actor,
                                const std::string& reason);
  std::int64_t declare_nothing_lost(const std::string& actor, const std::string& reason);
  std::int64_t declare_untrusted(const std::string& actor, const std::string& reason);
  std::string set_raise_by(const Scope& scope, const std::string& mode);
  std::int64_t prune(const Stream& stream, std::int64_t before);
  std::int64_t prune_history(std::int64_t older_than_ms);
  bool stream_move(const Stream& stream, const Scope& scope, const std::string& actor,
                   const std::string& reason);
  void set_setting(const std::string& name, const std::string& value);

 private:
  std::int64_t declare_trust(bool untrusted, std::string_view action, const std::string& actor,
                             const std::string& reason);

  Core& core_;
  Fences& fences_;
};

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
