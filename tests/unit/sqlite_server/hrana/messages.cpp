// JSON to structs and back: what is understood, what is refused, and how values are written.
#include "hrana/messages.hpp"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include <boost/json.hpp>
#include <catch2/catch.hpp>

#include "hrana/failure.hpp"
#include "hrana/limits.hpp"
#include "hrana/values.hpp"
#include "support.hpp"

using namespace termgate::hrana;

namespace {

std::string written(const ValueView& value) {
  std::string out;
  append_value(out, value);
  return out;
}

Value read_argument(const std::string& json) {
  Charge charge;
  auto execute = read_v1_execute(R"({"stmt":{"sql":"SELECT ?","args":[)" + json + "]}}", charge);
  REQUIRE(execute.stmt.args.size() == 1);
  return execute.stmt.args.front();
}

std::string refusal_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Failure& failure) {
    return std::to_string(failure.status) + " " + failure.code + " " + failure.what();
  }
  return "nothing";
}

std::string pipeline_refusal(const std::string& json) {
  return refusal_of([&] {
    Charge charge;
    read_pipeline(json, charge);
  });
}

}  // namespace

TEST_CASE("hrana values: each kind is written as clients read it", "[hrana]") {
  CHECK(written(std::monostate()) == R"({"type":"null"})");
  CHECK(written(std::int64_t{42}) == R"({"type":"integer","value":"42"})");
  CHECK(written(std::numeric_limits<std::int64_t>::min()) ==
        R"({"type":"integer","value":"-9223372036854775808"})");
  CHECK(written(42.0) == R"({"type":"float","value":42.0})");
  CHECK(written(0.1) == R"({"type":"float","value":0.1})");
  CHECK(written(-0.0) == R"({"type":"float","value":-0.0})");
  CHECK(written(1e300) == R"({"type":"float","value":1e+300})");
  CHECK(written(std::numeric_limits<double>::infinity()) == R"({"type":"null"})");
  CHECK(written(std::string_view("a\"\\\n\x01\xc3\xa9")) ==
        "{\"type\":\"text\",\"value\":\"a\\\"\\\\\\n\\u0001\xc3\xa9\"}");
  CHECK(written(BlobView{std::string_view("\0\xff\x01", 3)}) ==
        R"({"type":"blob","base64":"AP8B"})");
  CHECK(written(BlobView{"a"}) == R"({"type":"blob","base64":"YQ"})");
  CHECK(written(BlobView{"ab"}) == R"({"type":"blob","base64":"YWI"})");
  CHECK(written(BlobView{""}) == R"({"type":"blob","base64":""})");
}

TEST_CASE("hrana values: arguments reach the file as they were written", "[hrana]") {
  CHECK(read_argument(R"({"type":"null"})") == Value());
  CHECK(read_argument(R"({"type":"integer","value":"9223372036854775807"})") ==
        Value(std::numeric_limits<std::int64_t>::max()));
  CHECK(read_argument(R"({"type":"integer","value":"-9223372036854775808"})") ==
        Value(std::numeric_limits<std::int64_t>::min()));
  CHECK(read_argument(R"({"type":"integer","value":42})") == Value(std::int64_t{42}));
  CHECK(read_argument(R"({"type":"float","value":42})") == Value(42.0));
  CHECK(read_argument(R"({"type":"float","value":12345678901234567890123})") ==
        Value(12345678901234567890123.0));
  CHECK(read_argument(R"({"type":"text","value":"\ud83d\ude00\u0000"})") ==
        Value(std::string("\xf0\x9f\x98\x80\0", 5)));
  CHECK(read_argument(R"({"type":"blob","base64":"AP8B"})") ==
        Value(Blob{std::string("\0\xff\x01", 3)}));
  CHECK(read_argument(R"({"type":"blob","base64":"YQ"})") == Value(Blob{"a"}));
  CHECK(read_argument(R"({"type":"blob","base64":"YQ=="})") == Value(Blob{"a"}));
  const auto negative_zero = std::get<double>(read_argument(R"({"type":"float","value":-0})"));
  CHECK(std::signbit(negative_zero));
}

TEST_CASE("hrana values: floats are exact both ways", "[hrana]") {
  std::uint64_t bits = 88172645463325252U;
  for (int round = 0; round < 20'000; ++round) {
    bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
    double number = 0;
    std::memcpy(&number, &bits, sizeof number);
    if (!std::isfinite(number)) continue;
    std::string text;
    append_float(text, number);
    if (read_argument(R"({"type":"float","value":)" + text + "}") != Value(number)) FAIL(text);
  }
}

TEST_CASE("hrana values: what is no value is refused with its place", "[hrana]") {
  const char* bad[] = {
      R"({"type":"integer","value":"9223372036854775808"})",
      R"({"type":"integer","value":9223372036854775808})",
      R"({"type":"integer","value":1.5})",
      R"({"type":"integer","value":"+1"})",
      R"({"type":"integer","value":" 1"})",
      R"({"type":"integer","value":""})",
      R"({"type":"integer"})",
      R"({"type":"float","value":null})",
      R"({"type":"float","value":"1"})",
      R"({"type":"text","value":1})",
      R"({"type":"blob","base64":"A"})",
      R"({"type":"blob","base64":"YR"})",
      R"({"type":"blob","base64":"YQ="})",
      R"({"type":"blob","base64":"Y Q="})",
      R"({"type":"blob","base64":"-_8"})",
      R"({"type":"bool","value":true})",
      R"({"value":1})",
      R"(7)",
  };
  for (const char* json : bad) {
    const std::string why = refusal_of([&] { read_argument(json); });
    INFO(json << ": " << why);
    CHECK(why.starts_with("400 PROTOCOL_ERROR stmt.args[0]"));
  }
}

TEST_CASE("hrana messages: absent and null are the same and unknown fields are ignored",
          "[hrana]") {
  Charge charge;
  const auto pipeline = read_pipeline(
      R"({"baton":null,"x":[1],"requests":[{"type":"batch","batch":{"steps":[{"condition":null,"stmt":{"sql":"SELECT 1","sql_id":null,"args":null,)"
      R"("named_args":[{"name":"x","value":{"type":"null"}}],"want_rows":false,"replication_index":null}}],"replication_index":null}},)"
      R"({"type":"describe","sql":null,"sql_id":7},{"type":"get_autocommit"},{"type":"close"}]})",
      charge);
  CHECK(!pipeline.baton);
  REQUIRE(pipeline.requests.size() == 4);
  const auto& step = std::get<Batch>(pipeline.requests[0]).steps.at(0);
  CHECK(!step.condition);
  CHECK(step.stmt.sql.text == "SELECT 1");
  CHECK(!step.stmt.want_rows);
  CHECK(step.stmt.named_args.at(0).first == "x");
  CHECK(std::get<Describe>(pipeline.requests[1]).sql.id == 7);
  CHECK(
      std::get<Execute>(
          read_pipeline(R"({"requests":[{"type":"execute","stmt":{"sql":"a","sql":"b"}}]})", charge)
              .requests[0])
          .stmt.sql.text == "b");
}

TEST_CASE("hrana messages: what is no request is refused with its place", "[hrana]") {
  const std::pair<const char*, const char*> bad[] = {
      {"", "400 PROTOCOL_ERROR the body is no JSON"},
      {"{", "400 PROTOCOL_ERROR the body is no JSON"},
      {"[]", "400 PROTOCOL_ERROR the body is no object"},
      {R"({"requests":[]} x)", "400 PROTOCOL_ERROR the body is no JSON"},
      {R"({"requests":[]}{})", "400 PROTOCOL_ERROR the body is no JSON"},
      {R"({})", "400 PROTOCOL_ERROR the body has no \"requests\""},
      {R"({"requests":{}})", "400 PROTOCOL_ERROR requests is no array"},
      {R"({"baton":7,"requests":[]})", "400 PROTOCOL_ERROR baton is no string"},
      {R"({"requests":[{"type":"fly"}]})", "400 PROTOCOL_ERROR requests[0].type is none of"},
      {R"({"requests":[{"type":"execute"}]})", "400 PROTOCOL_ERROR requests[0] has no \"stmt\""},
      {R"({"requests":[{"type":"execute","stmt":{}}]})",
       "400 PROTOCOL_ERROR requests[0].stmt needs either"},
      {R"({"requests":[{"type":"execute","stmt":{"sql":"a","sql_id":1}}]})",
       "400 PROTOCOL_ERROR requests[0].stmt needs either"},
      {R"({"requests":[{"type":"execute","stmt":{"sql_id":2147483648}}]})",
       "400 PROTOCOL_ERROR requests[0].stmt.sql_id is no integer of 32 bits"},
      {R"({"requests":[{"type":"execute","stmt":{"sql":"a","want_rows":1}}]})",
       "400 PROTOCOL_ERROR requests[0].stmt.want_rows is neither"},
      {R"({"requests":[{"type":"batch","batch":{"steps":[{"stmt":{"sql":"a"},"condition":{"type":"ok","step":0}}]}}]})",
       "400 PROTOCOL_ERROR requests[0].batch.steps[0].condition.step is no earlier step"},
      {R"({"requests":[{"type":"batch","batch":{"steps":[{"stmt":{"sql":"a"},"condition":{"type":"maybe"}}]}}]})",
       "400 PROTOCOL_ERROR requests[0].batch.steps[0].condition.type is none of"},
      {"{\"requests\":[{\"type\":\"sequence\",\"sql\":\"\xff\"}]}",
       "400 PROTOCOL_ERROR the body is no JSON"},
      {R"({"requests":[{"type":"sequence","sql":"\ud800"}]})",
       "400 PROTOCOL_ERROR the body is no JSON"},
      {R"({"requests":[{"type":"execute","stmt":{"sql":"a","args":[{"type":"float","value":1e400}]}}]})",
       "400 PROTOCOL_ERROR the body is no JSON"},
  };
  for (const auto& [json, why] : bad) {
    INFO(json);
    CHECK(pipeline_refusal(json).substr(0, std::string_view(why).size()) == why);
  }
}

TEST_CASE("hrana messages: each limit is named where it is reached", "[hrana]") {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  CHECK(pipeline_refusal(nested(json_depth_max + 1))
            .find("REQUEST_TOO_LARGE the body is no JSON document that can be read: nested deeper "
                  "than 64") != std::string::npos);
  CHECK(pipeline_refusal(nested(json_depth_max)) == "400 PROTOCOL_ERROR the body is no object");
  CHECK(pipeline_refusal(std::string(1 << 20, '[')).find("nested deeper than 64") !=
        std::string::npos);

  const auto requests = [](std::size_t count) {
    std::string body = R"({"requests":[)";
    for (std::size_t at = 0; at < count; ++at) body += R"({"type":"get_autocommit"},)";
    body.pop_back();
    return body + "]}";
  };
  CHECK(pipeline_refusal(requests(requests_max)) == "nothing");
  CHECK(pipeline_refusal(requests(requests_max + 1)) ==
        "400 REQUEST_TOO_LARGE requests has 4097 entries; at most 4096 (requests)");

  const auto condition = [](std::size_t depth) {
    std::string text = R"({"type":"ok","step":0})";
    for (std::size_t at = 1; at < depth; ++at) text = R"({"type":"not","cond":)" + text + "}";
    return R"({"requests":[{"type":"batch","batch":{"steps":[{"stmt":{"sql":"a"}},{"stmt":{"sql":"a"},"condition":)" +
           text + "}]}}]}";
  };
  CHECK(pipeline_refusal(condition(condition_depth_max)) == "nothing");
  CHECK(pipeline_refusal(condition(condition_depth_max + 1))
            .find("deeper than 16 (condition depth)") != std::string::npos);
}

TEST_CASE("hrana messages: a document that does not fit into the memory is refused with 503",
          "[hrana]") {
  Budget budget(1 << 20);
  {
    Charge charge(budget);
    std::string many = R"({"requests":[],"x":[)";
    for (int at = 0; at < 100'000; ++at) many += "1,";
    many += "1]}";
    CHECK(refusal_of([&] { read_pipeline(many, charge); }).starts_with("503 SERVER_BUSY"));
  }
  CHECK(budget.used() == 0);
}

TEST_CASE("hrana messages: WebSocket messages of each kind are understood", "[hrana]") {
  Charge charge;
  const auto read = [&](const char* json) { return read_socket_message(json, charge); };
  CHECK(std::get<Hello>(read(R"({"type":"hello","jwt":"eyJ"})")).token == "eyJ");
  CHECK(!std::get<Hello>(read(R"({"type":"hello","jwt":null})")).token);
  const auto request = [&](const std::string& what) {
    return std::get<SocketRequest>(
        read((R"({"type":"request","request_id":3,"request":)" + what + "}").c_str()));
  };
  CHECK(std::get<OpenStream>(request(R"({"type":"open_stream","stream_id":1})").what).stream == 1);
  CHECK(std::get<OnStream>(request(R"({"type":"execute","stream_id":1,"stmt":{"sql":"a"}})").what)
            .stream == 1);
  CHECK(
      std::get<FetchCursor>(request(R"({"type":"fetch_cursor","cursor_id":1,"max_count":5})").what)
          .count_max == 5);
  CHECK(std::get<OpenCursor>(
            request(R"({"type":"open_cursor","stream_id":1,"cursor_id":2,"batch":{"steps":[]}})")
                .what)
            .cursor == 2);
  CHECK_THROWS_AS(request(R"({"type":"close"})"), Failure);
  CHECK_THROWS_AS(request(R"({"type":"fetch_cursor","cursor_id":1,"max_count":-1})"), Failure);
  CHECK_THROWS_AS(read(R"({"type":"hallo"})"), Failure);
}

TEST_CASE("hrana messages: v0 has plain values", "[hrana]") {
  Charge charge;
  const auto statements = read_v0(
      R"({"statements":["SELECT 1",{"q":"a","params":[1,1.5,1.0,"x",null,true,{"base64":"YQ"}]},{"q":"b","params":{":a":2}}]})",
      charge);
  REQUIRE(statements.size() == 3);
  CHECK(statements[1].args == std::vector<Value>{std::int64_t{1}, 1.5, 1.0, std::string("x"),
                                                 Value(), std::int64_t{1}, Blob{"a"}});
  CHECK(statements[2].named_args.at(0) == std::pair<std::string, Value>(":a", std::int64_t{2}));
}

TEST_CASE("hrana messages: an error's text is cut at a whole character", "[hrana]") {
  std::string text;
  for (int at = 0; at < 3000; ++at) text += "\xc3\xa9";
  std::string out;
  append_error(out, "CODE", "x" + text);
  const auto read = boost::json::parse(out);
  CHECK(read.at("message").as_string().size() == 2047);
}
