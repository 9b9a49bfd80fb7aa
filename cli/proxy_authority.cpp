#include "proxy_authority.hpp"

#include <mutex>

#include <termgate/detail/fence_memory.hpp>

namespace termgate::cli {
namespace {

class PlainAuthority final : public net::Authority {
 public:
  explicit PlainAuthority(const AuthoritySettings& settings) : settings_(settings) {}

  session::Admission admit(std::uint64_t, const net::Arrival& arrival) override {
    session::Admission admission;
    admission.without_term = settings_.without_term;
    admission.enforce = settings_.enforce;
    admission.replication = settings_.replication;
    (void)arrival;
    return admission;
  }
  void established(std::uint64_t, std::function<void()> settled) override { settled(); }
  void ended(std::uint64_t) override {}
  std::int64_t highest_fence(std::string_view scope) const override { return memory_.highest(std::string(scope)); }
  void saw_fence(std::string_view scope, std::int64_t fence) override {
    const std::string name(scope);
    if (memory_.highest(name) >= fence) return;
    memory_.saw(name, fence);
    const std::lock_guard lock(mutex_);
    if (callback_) callback_(scope, fence);
  }
  void happened(const session::Incident&) override {}
  void subscribe(std::function<void(std::string_view, std::int64_t)> callback) override {
    const std::lock_guard lock(mutex_);
    callback_ = std::move(callback);
  }
  bool leads(std::string_view) override { return false; }
  std::int64_t leases_held() const override { return 0; }
  std::string reload() override { return {}; }

 private:
  const AuthoritySettings settings_;
  termgate::detail::FenceMemory memory_;
  std::mutex mutex_;
  std::function<void(std::string_view, std::int64_t)> callback_;
};

}  // namespace

std::unique_ptr<net::Authority> make_authority(const AuthoritySettings& settings, net::Log&) { return std::make_unique<PlainAuthority>(settings); }

}  // namespace termgate::cli
