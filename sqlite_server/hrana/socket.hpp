// The session of a WebSocket connection. It does no I/O: messages come in, answers and jobs come
// out. Streams run in parallel; requests of one stream run in order.
//
// The connection's thread calls take(), tick(), lose() and close(), one at a time. Any thread that
// may block runs a job; a stream never has more than one. A job keeps alive what it needs, so it
// may end after the connection.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "messages.hpp"
#include "streams.hpp"

namespace termgate::hrana {

// "hrana3", "hrana2" or "hrana1": the first in the client's list that is known, for the answer's
// header Sec-WebSocket-Protocol. Without a list it is Hrana 1, without that header. nullopt: no
// version in common, and the upgrade is refused (400).
struct Subprotocol {
  Version version = Version::hrana1;
  std::string name;
};
std::optional<Subprotocol> choose_subprotocol(std::optional<std::string_view> header);

// The identity that a `hello` proves, or why it is refused. Called within take().
struct Identity {
  Principal principal;
  Permit permit;
};
using Login =
    std::function<std::variant<Identity, Refused>(const std::optional<std::string>& token)>;

class Socket {
  struct Shared;
  struct Channel;
  using Task = std::variant<Request, CloseStream, OpenCursor, FetchCursor, CloseCursor>;

 public:
  // The next request of one stream, ready to run.
  class Job {
   public:
    // The result of one run. `answer`: a message to send, if there is one. `more`: call run()
    // again, on any thread.
    struct Done {
      std::optional<std::string> answer;
      Charge charge{};  // the answer's memory: keep it until the client has been sent the answer
      bool more = false;
    };
    Done run();
    // The stream has an open transaction, so the job must not wait for a thread.
    bool in_transaction() const noexcept;

   private:
    friend class Socket;
    Job(std::shared_ptr<Shared> shared, std::shared_ptr<Channel> channel)
        : shared_(std::move(shared)), channel_(std::move(channel)) {}
    std::shared_ptr<Shared> shared_;
    std::shared_ptr<Channel> channel_;
  };
  struct Violation {
    int close_code =
        1002;  // also 1008: hello refused; 1009: message too large; 1013: no memory for it now
    std::string reason;  // at most 123 bytes
  };
  struct Output {
    std::vector<std::string> answers;    // send these in this order, at once
    std::vector<Job> jobs;               // run these
    std::optional<Violation> violation;  // after sending the answers, call close()
  };

  // `first`: the identity before a `hello`; none: earlier requests are a violation. `streams` must
  // outlive the jobs.
  Socket(Streams& streams, Version version, Login login, std::optional<Identity> first = {});
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Handles a text message.
  Output take(std::string_view message);
  // False: 128 requests are unanswered; stop reading until a job has ended.
  bool may_read() const noexcept;
  // Ends transactions that have been silent for too long. Call it at least once a second.
  Output tick();
  // Every open transaction is lost, because of a drain or a moved file.
  Output lose(const Lost& why);
  // The connection has ended: streams roll back, those in use when their job ends.
  Output close();

 private:
  struct Stored {
    std::string text;
    Charge charge;
  };

  void on(Hello& hello, Output& output);
  void on(SocketRequest& request, Charge charge, Output& output);
  void open_stream(std::int32_t request, std::int32_t stream, Output& output);
  void close_stream(std::int32_t request, std::int32_t stream, Output& output);
  void store(std::int32_t request, StoreSql& what, Charge charge, Output& output);
  void queue(std::int32_t request, std::int32_t stream, Task task, Charge charge, Output& output);
  void resolve(Sql& sql) const;
  void resolve(Request& request) const;
  void resolve(Batch& batch) const;
  std::int32_t stream_of(std::int32_t cursor) const;

  std::shared_ptr<Shared> shared_;
  Version version_;
  Login login_;
  std::shared_ptr<const Permit> permit_;  // none: there was no hello yet
  std::map<std::int32_t, std::shared_ptr<Channel>> channels_;
  std::map<std::int32_t, Stored> stored_;
  std::map<std::int32_t, std::int32_t> cursors_;  // each cursor's stream
};

}  // namespace termgate::hrana
