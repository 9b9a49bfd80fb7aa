// open_lease_source: turns a URL into a lock service that hands out leases and terms
// (docs/use/term-sources.md).
//
//   LeaderLoop loop(db, open_lease_source("redis://cache.example"), Scope{"billing"}, [&](const Leadership& leads) { … });
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <termgate/export.hpp>
#include <termgate/lease_source.hpp>

namespace termgate {
inline namespace v0 {

// Schemes: redis, rediss, etcd, etcds, zookeeper, consul, consuls, kubernetes and file, as far as
// this build has them. Connects at the first call. Any thread may call the object; its calls wait
// for each other. It remembers the highest term of each scope and the identity of the data that it
// came from, and throws StaleTerm for a term that is not above that one (file: that is below it),
// and for data of another identity. Throws InvalidInput for an invalid URL, without quoting it. A
// password comes from ?password-file=PATH or from the environment variable
// TERMGATE_SOURCE_PASSWORD.
TERMGATE_EXPORT std::shared_ptr<LeaseSource> open_lease_source(std::string_view url);

// The schemes that this build supports.
TERMGATE_EXPORT std::vector<std::string_view> lease_source_schemes();

}  // namespace v0
}  // namespace termgate
