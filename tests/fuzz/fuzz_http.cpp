// The bytes of one connection: at once and byte by byte they are the same requests, with the same
// refusals, and nothing is held beyond the bounds. What follows a handshake of a WebSocket is
// frames. The first byte says where the bytes are cut.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/http/handler.hpp>

#include "frames.hpp"
#include "reader.hpp"

using namespace termgate::http;

namespace {

constexpr std::size_t body_bytes_max = 1000, message_bytes_max = 500;

std::string frames_of(std::string_view bytes, std::size_t step) {
  std::string seen;
  FrameReader reader(message_bytes_max);
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
    reader.put(bytes.substr(0, step));
    for (;;) {
      const FrameReader::Event event = reader.next();
      if (event.what == FrameReader::What::need_more) break;
      if (event.bytes.size() > message_bytes_max) std::abort();
      if (event.what == FrameReader::What::message && event.kind == Kind::text &&
          !is_utf8_text(event.bytes))
        std::abort();
      seen += static_cast<char>(event.what);
      seen += std::to_string(event.code) + event.bytes + event.problem;
      if (event.what == FrameReader::What::broken || event.what == FrameReader::What::close)
        return seen;
    }
  }
  return seen;
}

std::string requests_of(std::string_view bytes, std::size_t step) {
  std::string seen, waiting;
  RequestReader reader(16u << 10);
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    waiting += bytes.substr(at, step);
    while (!waiting.empty()) {
      std::size_t used = 0;
      auto what = reader.put(waiting, used);
      if (used > waiting.size()) std::abort();
      waiting.erase(0, used);
      if (what == RequestReader::Step::need_more) break;
      if (what == RequestReader::Step::head) {
        const Head& head = reader.head();
        seen += "|" + head.method + " " + head.target;
        for (const auto& [name, value] : head.headers) seen += "\n" + name + ":" + value;
        if (const auto refusal = refusal_of(head, {}))
          return seen + "!" + std::to_string(refusal->status);
        if (head.count("Authorization") > 1 || head.count("Host") > 1) std::abort();
        if (wants_socket(head) && !reader.has_body())
          return seen + "#" +
                 frames_of(waiting + std::string(bytes.substr(std::min(at + step, bytes.size()))),
                           step);
        what = reader.go_on(body_bytes_max);
      }
      if (what == RequestReader::Step::refused)
        return seen + "!" + std::to_string(reader.refusal().status);
      if (what != RequestReader::Step::body) continue;
      const std::string body = reader.take_body();
      if (body.size() > body_bytes_max) std::abort();
      seen += "=" + body + (reader.keeps_alive() ? "+" : "-");
      if (!reader.keeps_alive()) return seen;
      reader.restart();
    }
    if (waiting.size() > 40'000) std::abort();
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 16'000) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = requests_of(bytes, std::max<std::size_t>(bytes.size(), 1));
  for (const std::size_t step : {std::size_t{1}, std::size_t{1} + data[0]}) {
    const std::string cut = requests_of(bytes, step);
    // A head that is cut is parsed once its end is here, so that of one without an end the refusal
    // may be missing.
    const std::string& longer = cut.size() > whole.size() ? cut : whole;
    const std::string& shorter = cut.size() > whole.size() ? whole : cut;
    if (longer != shorter && (!longer.starts_with(shorter) || longer[shorter.size()] != '!'))
      std::abort();
  }
  return 0;
}
