// Short ways to call a fake server and to read its answers.
#pragma once

#include <string>
#include <string_view>

#include <boost/json.hpp>

#include "fake_file.hpp"
#include "hrana/endpoints.hpp"

namespace termgate::hrana::fake {

inline Answer call(Server& server, std::string_view body, Endpoint endpoint = Endpoint::pipeline_v3,
                   const Principal& who = "app") {
  return answer(endpoint, body, server.streams, who, Permit{});
}

// A pipeline of execute requests under a baton; "": none.
inline std::string pipeline(std::string_view baton, std::initializer_list<std::string_view> texts,
                            bool closes = false) {
  std::string body = baton.empty() ? R"({"requests":[)"
                                   : R"({"baton":")" + std::string(baton) + R"(","requests":[)";
  for (const std::string_view text : texts) {
    body += R"({"type":"execute","stmt":{"sql":")" + std::string(text) + R"("}},)";
  }
  if (closes) body += R"({"type":"close"},)";
  if (body.back() == ',') body.pop_back();
  return body + "]}";
}

inline std::string batch_of(std::initializer_list<std::string_view> texts) {
  std::string steps;
  std::size_t at = 0;
  for (const std::string_view text : texts) {
    steps += R"({"stmt":{"sql":")" + std::string(text) + "\"}";
    if (at != 0 && text == "ROLLBACK") {
      steps += R"(,"condition":{"type":"not","cond":{"type":"ok","step":)" +
               std::to_string(at - 1) + "}}";
    } else if (at != 0) {
      steps += R"(,"condition":{"type":"ok","step":)" + std::to_string(at - 1) + "}";
    }
    steps += "},";
    ++at;
  }
  if (!steps.empty()) steps.pop_back();
  return R"({"steps":[)" + steps + "]}";
}

inline boost::json::value json_of(const Answer& answer) { return boost::json::parse(answer.body); }

inline std::string baton_of(const Answer& answer) {
  const auto json = json_of(answer);
  const auto& baton = json.at("baton");
  return baton.is_null() ? std::string() : std::string(baton.as_string().c_str());
}

// The code of a body that is not 200; "" where there is none.
inline std::string code_of(const Answer& answer) {
  const auto json = json_of(answer);
  const auto* code = json.is_object() ? json.as_object().if_contains("code") : nullptr;
  return code == nullptr ? std::string() : std::string(code->as_string().c_str());
}

}  // namespace termgate::hrana::fake
