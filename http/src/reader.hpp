// Requests of one connection out of its bytes. Beast parses; what it lets pass and a reader in front of us might read otherwise is refused
// here. No I/O, no clock. One thread at a time.
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

// What is wrong with a head, whoever it is for; none: nothing. `hosts`: names that are served beside the loopback's.
std::optional<Refusal> refusal_of(const Head& head, const std::vector<std::string>& hosts);

class RequestReader {
 public:
  enum class Step : std::uint8_t {
    need_more,
    head,     // head() is whole; go_on() or another request is next
    body,     // body() is whole
    refused,  // refusal(); nothing more can be read
  };

  explicit RequestReader(std::size_t head_bytes_max);
  ~RequestReader();

  // Takes what it can of `bytes`, which begin where it stopped, and says how much that was.
  Step put(std::string_view bytes, std::size_t& used);
  // After Step::head: the body may have so many bytes. Refused: it says already that it has more.
  Step go_on(std::size_t body_bytes_max);
  // The next request is expected.
  void restart();

  Head& head() noexcept { return head_; }
  std::size_t body_bytes() const noexcept;  // of the body that are here
  std::string take_body();
  const Refusal& refusal() const noexcept { return refusal_; }
  bool begun() const noexcept { return begun_; }  // a byte of a head is here, and the head is not whole
  bool has_body() const noexcept;                 // of the request whose head is here
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
  bool begun_ = false, in_body_ = false, keep_alive_ = false, version_1_1_ = false, wants_continue_ = false;
};

}  // namespace termgate::http
