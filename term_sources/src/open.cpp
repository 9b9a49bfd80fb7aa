// The services that this build supports, by URL scheme.
#include <termgate/sources.hpp>

#include <array>
#include <functional>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <termgate/sources/url.hpp>
#include <termgate/sources/watched.hpp>

#ifdef TERMGATE_WITH_SOURCE_REDIS
#include <termgate/sources/redis.hpp>
#endif
#ifdef TERMGATE_WITH_SOURCE_ETCD
#include <termgate/sources/etcd.hpp>
#endif
#ifdef TERMGATE_WITH_SOURCE_ZOOKEEPER
#include <termgate/sources/zookeeper.hpp>
#endif
#ifdef TERMGATE_WITH_SOURCE_CONSUL
#include <termgate/sources/consul.hpp>
#endif
#ifdef TERMGATE_WITH_SOURCE_KUBERNETES
#include <termgate/sources/kubernetes.hpp>
#endif
#ifdef TERMGATE_WITH_SOURCE_FILE
#include <termgate/sources/file.hpp>
#endif

namespace termgate {
inline namespace v0 {
namespace {

struct Service {
  std::string_view scheme;
  std::unique_ptr<LeaseSource> (*open)(const sources::SourceUrl&);
};

constexpr Service services[] = {
#ifdef TERMGATE_WITH_SOURCE_REDIS
    {"redis", sources::open_redis},
    {"rediss", sources::open_redis},
#endif
#ifdef TERMGATE_WITH_SOURCE_ETCD
    {"etcd", sources::open_etcd},
    {"etcds", sources::open_etcd},
#endif
#ifdef TERMGATE_WITH_SOURCE_ZOOKEEPER
    {"zookeeper", sources::open_zookeeper},
#endif
#ifdef TERMGATE_WITH_SOURCE_CONSUL
    {"consul", sources::open_consul},
    {"consuls", sources::open_consul},
#endif
#ifdef TERMGATE_WITH_SOURCE_KUBERNETES
    {"kubernetes", sources::open_kubernetes},
#endif
#ifdef TERMGATE_WITH_SOURCE_FILE
    {"file", sources::open_file},
#endif
};

}  // namespace

std::vector<std::string_view> lease_source_schemes() {
  std::vector<std::string_view> schemes;
  for (const Service& service : services) schemes.push_back(service.scheme);
  return schemes;
}

std::shared_ptr<LeaseSource> open_lease_source(std::string_view text) {
  const sources::SourceUrl url = sources::SourceUrl::parse(text);
  for (const Service& service : services) {
    if (service.scheme == url.scheme) return sources::watched(service.open(url));
  }
  throw InvalidInput(fmt::format("TG005 the URL of the term source: {:?} is none of {}",
                                 url.scheme.substr(0, 40),
                                 fmt::join(lease_source_schemes(), ", ")));
}

}  // namespace v0
}  // namespace termgate
