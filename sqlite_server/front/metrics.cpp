// The text of /metrics, in Prometheus's format, with a description of each number.
#include <iterator>
#include <string>

#include <fmt/format.h>

#include <termgate/version.hpp>

#include "front/routes.hpp"

namespace termgate::sqlite_front {
namespace {

class Text {
 public:
  void head(std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(out(), "# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  }
  template <typename Number>
  void one(std::string_view name, std::string_view type, std::string_view help, Number number) {
    head(name, type, help);
    fmt::format_to(out(), "{} {}\n", name, number);
  }
  template <std::size_t size>
  void labelled(std::string_view name, std::string_view label, std::string_view help,
                const Labelled<size>& numbers) {
    head(name, "counter", help);
    numbers.each([&](std::string_view value, std::int64_t number) {
      fmt::format_to(out(), "{}{{{}=\"{}\"}} {}\n", name, label, value, number);
    });
  }
  void line(std::string_view line) { text_ += line; }
  std::string take() { return std::move(text_); }

 private:
  std::back_insert_iterator<std::string> out() { return std::back_inserter(text_); }
  std::string text_;
};

}  // namespace

std::string metrics_text(Core& core, std::size_t sockets) {
  Text text;
  text.head("termgate_build_info", "gauge", "The version that runs.");
  text.line(fmt::format("termgate_build_info{{version=\"{}\"}} 1\n", version()));
  text.one("termgate_websockets", "gauge", "Open WebSockets.", sockets);
  text.one("termgate_sessions_in_transaction", "gauge", "Streams with an open transaction.",
           core.files.transactions());
  text.one("termgate_write_lock_waiters", "gauge", "Requests that wait for the write lock.",
           core.files.waiting());
  text.one("termgate_session_bytes", "gauge", "Memory of requests and answers under way.",
           core.streams.budget().used());
  text.one("termgate_enforcing", "gauge",
           "1: --enforce on; 0: observe. A rule may say otherwise for its clients.",
           core.options.enforce == conversation::Enforce::on ? 1 : 0);
  text.one("termgate_draining", "gauge", "1 once nothing new is begun.",
           core.files.draining() ? 1 : 0);
  text.one("termgate_leases_held", "gauge", "Leases held for applications.",
           core.options.authority == nullptr ? 0 : core.options.authority->leases_held());

  const auto streams = core.streams.counts();
  text.head("termgate_streams", "gauge", "Streams that HTTP requests left behind, by state.");
  for (const auto& [state, number] : {std::pair{"transaction", streams.transactions},
                                      {"kept", streams.kept},
                                      {"bare", streams.bare},
                                      {"lost", streams.lost},
                                      {"in_use", streams.in_use}})
    text.line(fmt::format("termgate_streams{{state=\"{}\"}} {}\n", state, number));
  text.labelled("termgate_streams_lost_total", "why", "Transactions that the server ended.",
                core.counts.lost);
  text.labelled("termgate_requests_total", "endpoint",
                "Requests, by endpoint; of WebSockets, connections.", core.counts.requests);
  text.labelled("termgate_requests_refused_total", "why", "Requests refused as a whole.",
                core.counts.turned_away);
  text.labelled("termgate_refusals_total", "code", "Statements refused with a code of Termgate's.",
                core.counts.refusals);

  const auto file = core.files.counters();
  text.one("termgate_commits_total", "counter", "Flushed commits.", file.commits);
  text.one("termgate_group_members", "counter", "Writes that shared those commits.",
           file.group_members);
  text.one("termgate_transactions_total", "counter",
           "Explicit transactions that committed a write.", file.transactions);
  text.one("termgate_evicted_transactions_total", "counter",
           "Open transactions ended for others that waited.", file.evicted);
  text.head("termgate_would_refuse_total", "counter",
            "Refusals that --enforce observe let pass, by code.");
  for (std::size_t at = 0; at < file.observed.size(); ++at)
    text.line(fmt::format("termgate_would_refuse_total{{code=\"{}\"}} {}\n",
                          sqlite_file::Engine::observed_codes[at], file.observed[at]));
  return text.take();
}

}  // namespace termgate::sqlite_front
