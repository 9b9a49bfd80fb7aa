// Reads the requests of one connection from its bytes. Beast parses; what Beast accepts and a proxy
// in front of us might read differently is refused here. No I/O, no clock. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/http/message.hpp>

namespace termgate::http {

struct Refusal {
  unsigned status;
  const char* message;
};

// What is wrong with a head, whatever its path; nullopt: nothing. `hosts`: names that are served
// besides the loopback names.
std::optional<Refusal> refusal_of(const Head& head, const std::vector<std::string>& hosts);

class RequestReader {
 public:
  enum class Step : std::uint8_t {
    need_more,
    head,     // the head is complete; continue with go_on() or restart()
    body,     // the body is complete
    refused,  // see refusal(); nothing more can be read
  };

  explicit RequestReader(std::size_t head_bytes_max);
  ~RequestReader();

  // Takes as many of `bytes` as it can; `used` says how many. The next call continues with the
  // rest.
  Step put(std::string_view bytes, std::size_t& used);
  // Call after Step::head with the limit of the body. Returns `refused` if the head announces a
  // longer one.
  Step go_on(std::size_t body_bytes_max);
  // Prepares for the next request.
  void restart();

  Head& head() noexcept { return head_; }
  std::size_t body_bytes() const noexcept;  // of the body, received so far
  std::string take_body();
  const Refusal& refusal() const noexcept { return refusal_; }
  bool begun() const noexcept { return begun_; }  // part of a head has arrived
  bool has_body() const noexcept;  // whether the request whose head has arrived has one
  bool keeps_alive() const noexcept { return keep_alive_; }
  bool version_1_1() const noexcept { return version_1_1_; }
  bool wants_continue() const noexcept { return wants_continue_; }

 private:
  struct Parser;
  Step refuse(unsigned status, const char* message) noexcept;
  Step take_head();
  Step failed(int error) noexcept;

  const std::size_t head_bytes_max_;
  std::unique_ptr<Parser> parser_;
  Head head_;
  Refusal refusal_{400, ""};
  bool begun_ = false, in_body_ = false, keep_alive_ = false, version_1_1_ = false,
       wants_continue_ = false;
};

}  // namespace termgate::http
