// A WebSocket connection's session. It does no I/O: messages come in, answers and jobs come out. Streams run beside each other; requests of
// one stream run in order.
//
// The connection's thread calls take(), tick(), lose() and close(), one at a time. A job is run by any thread that may block; there is
// never more than one job of a stream. A job keeps what it needs alive, so it may end after the connection.
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

// "hrana3", "hrana2", "hrana1"; the first of the client's list that is known, for the answer's header Sec-WebSocket-Protocol. No list:
// Hrana 1, without that header. None: the client speaks none of ours, and the upgrade is refused (400).
struct Subprotocol {
  Version version = Version::hrana1;
  std::string name;
};
std::optional<Subprotocol> choose_subprotocol(std::optional<std::string_view> header);

// Who a `hello` is, or why it is refused. On the connection's thread, so it must not block.
struct Identity {
  Principal principal;
  Permit permit;
};
using Login = std::function<std::variant<Identity, Refused>(const std::optional<std::string>& token)>;

class Socket {
  struct Shared;
  struct Channel;
  using Task = std::variant<Request, CloseStream, OpenCursor, FetchCursor, CloseCursor>;

 public:
  // Work of one stream.
  class Job {
   public:
    // One request. `answer`: a message to send, if there is one. `more`: call run() again, on this thread or another.
    struct Done {
      std::optional<std::string> answer;
      Charge charge{};  // of the memory budget, until the answer is sent
      bool more = false;
    };
    Done run();
    // The stream has an open transaction: the job must not wait for a thread.
    bool in_transaction() const noexcept;

   private:
    friend class Socket;
    Job(std::shared_ptr<Shared> shared, std::shared_ptr<Channel> channel) : shared_(std::move(shared)), channel_(std::move(channel)) {}
    std::shared_ptr<Shared> shared_;
    std::shared_ptr<Channel> channel_;
  };
  struct Violation {
    int close_code = 1002;  // or 1008: hello refused; 1009: too large; 1013: no memory for it now
    std::string reason;     // at most 123 bytes
  };
  struct Output {
    std::vector<std::string> answers;    // in this order, at once
    std::vector<Job> jobs;               // to be run
    std::optional<Violation> violation;  // after the answers; call close() then
  };

  // `first`: who it is until a `hello`; none: requests before it are a violation. `streams` outlives the jobs.
  Socket(Streams& streams, Version version, Login login, std::optional<Identity> first = {});
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // A text message.
  Output take(std::string_view message);
  // False: 128 requests are without an answer; stop reading until a job has ended.
  bool may_read() const noexcept;
  // Silent transactions become lost. Call it every second or oftener.
  Output tick();
  // Every open transaction is lost: drain, a moved file.
  Output lose(const Lost& why);
  // The connection's end: streams roll back, those in use when their job ends.
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
  std::shared_ptr<const Permit> permit_;  // none: no hello yet
  std::map<std::int32_t, std::shared_ptr<Channel>> channels_;
  std::map<std::int32_t, Stored> stored_;
  std::map<std::int32_t, std::int32_t> cursors_;  // to their streams
};

}  // namespace termgate::hrana
