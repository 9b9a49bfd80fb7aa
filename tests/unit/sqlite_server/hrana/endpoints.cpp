// What an HTTP client gets: results, batches, cursors, losses, limits.
#include "hrana/endpoints.hpp"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "support.hpp"

using namespace termgate::hrana;
using namespace termgate::hrana::fake;

namespace {

std::string on(std::string_view baton, const std::string& request) {
  return "{" + (baton.empty() ? std::string() : R"("baton":")" + std::string(baton) + "\",") +
         R"("requests":[)" + request + "]}";
}

std::string batch_request(std::initializer_list<std::string_view> texts) {
  return R"({"type":"batch","batch":)" + batch_of(texts) + "}";
}

const std::string close_request = R"({"type":"close"})";

// A cursor's lines, as they were written, and its answer.
struct CursorAnswer {
  Answer answer;
  std::string text;
  std::size_t writes = 0;
};
CursorAnswer cursor(Server& server, const std::string& body, std::size_t fails_at = 0) {
  CursorAnswer got;
  got.answer =
      answer(Endpoint::cursor, body, server.streams, "app", Permit{}, [&](std::string_view part) {
        if (++got.writes == fails_at) throw std::runtime_error("the client is gone");
        got.text += part;
      });
  return got;
}

}  // namespace

TEST_CASE("hrana pipeline: an answer has all fields", "[hrana]") {
  Server server;
  const auto answer = call(
      server,
      on("",
         R"({"type":"execute","stmt":{"sql":"INSERT 7"}},{"type":"execute","stmt":{"sql":"SELECT"}},)"
         R"({"type":"execute","stmt":{"sql":"FAIL"}},{"type":"describe","sql":"SELECT"},)"
         R"({"type":"get_autocommit"},{"type":"close"})"));
  CHECK(answer.status == 200);
  CHECK(
      answer.body ==
      R"({"baton":null,"base_url":null,"results":[)"
      R"({"type":"ok","response":{"type":"execute","result":{"cols":[],"rows":[],"affected_row_count":1,"last_insert_rowid":"1",)"
      R"("replication_index":null,"rows_read":0,"rows_written":1,"query_duration_ms":0.250}}},)"
      R"({"type":"ok","response":{"type":"execute","result":{"cols":[{"name":"n","decltype":"INTEGER"}],"rows":[[{"type":"integer","value":"7"}]],)"
      R"("affected_row_count":0,"last_insert_rowid":null,"replication_index":null,"rows_read":1,"rows_written":0,"query_duration_ms":0.250}}},)"
      R"({"type":"error","error":{"message":"UNIQUE constraint failed: t.id","code":"SQLITE_CONSTRAINT","extended_code":"SQLITE_CONSTRAINT_UNIQUE"}},)"
      R"({"type":"ok","response":{"type":"describe","result":{"params":[{"name":":a"},{"name":null}],"cols":[{"name":"n","decltype":"INTEGER"}],)"
      R"("is_explain":false,"is_readonly":true}}},)"
      R"({"type":"ok","response":{"type":"get_autocommit","is_autocommit":true}},{"type":"ok","response":{"type":"close"}}]})");
  CHECK(server.file.sessions == 0);
  CHECK(server.streams.budget().used() == answer.charge.bytes());
}

TEST_CASE("hrana pipeline: a failure has message code and error", "[hrana]") {
  Server server;
  const auto answer = call(server, "{}");
  CHECK(answer.status == 400);
  CHECK(
      answer.body ==
      R"({"message":"the body has no \"requests\"","code":"PROTOCOL_ERROR","error":"the body has no \"requests\""})");
}

TEST_CASE("hrana pipeline: close that is not last runs nothing", "[hrana]") {
  Server server;
  CHECK(
      code_of(call(
          server,
          on("",
             R"({"type":"execute","stmt":{"sql":"INSERT 1"}},{"type":"close"},{"type":"get_autocommit"})"))) ==
      "PROTOCOL_ERROR");
  CHECK(server.file.numbers.empty());
  CHECK(call(server, R"({"requests":[]})").body ==
        R"({"baton":null,"base_url":null,"results":[]})");
}

TEST_CASE("hrana pipeline: stored texts", "[hrana]") {
  Server server;
  const std::string store = R"({"type":"store_sql","sql_id":0,"sql":"INSERT 5"})",
                    use = R"({"type":"execute","stmt":{"sql_id":0}})";
  // As @libsql/client has it: store, batch, close in one request.
  const auto stored = call(server, on("", store + "," + use + "," + use + "," + close_request),
                           Endpoint::pipeline_v2);
  CHECK(stored.status == 200);
  CHECK(server.file.numbers == std::vector<std::int64_t>{5, 5});

  const std::string baton = baton_of(call(server, on("", store)));
  REQUIRE(!baton.empty());
  CHECK(code_of(call(server, on(baton, store), Endpoint::pipeline_v2)) == "PROTOCOL_ERROR");
  // Nothing ran, so the baton is good again; version 3 replaces.
  const std::string next = baton_of(
      call(server, on(baton, R"({"type":"store_sql","sql_id":0,"sql":"INSERT 6"},)" + use)));
  CHECK(server.file.numbers.back() == 6);
  CHECK(
      code_of(call(
          server,
          on(next,
             R"({"type":"execute","stmt":{"sql":"INSERT 1"}},{"type":"sequence","sql_id":9})"))) ==
      "PROTOCOL_ERROR");
  CHECK(code_of(call(server, on(next, R"({"type":"close_sql","sql_id":0},)" + use))) ==
        "PROTOCOL_ERROR");
  CHECK(server.file.numbers.size() == 3);
  CHECK(baton_of(
            call(server,
                 on(next, R"({"type":"close_sql","sql_id":0},{"type":"close_sql","sql_id":77})")))
            .empty());

  std::string many;
  for (int id = 0; id < 51; ++id)
    many += R"({"type":"store_sql","sql_id":)" + std::to_string(id) + R"(,"sql":"a"},)";
  const auto full = call(server, on("", many + R"({"type":"store_sql","sql_id":0,"sql":")" +
                                            std::string(65537, 'x') + "\"}"));
  CHECK(full.body.find("SQL_STORE_FULL") != std::string::npos);
  CHECK(full.body.find("a stored text has 65537 bytes; at most 65536") != std::string::npos);
}

TEST_CASE("hrana pipeline: a text that is too long is a statement's error", "[hrana]") {
  Server server(100, 1 << 20, 1 << 27);
  const std::string text(std::size_t{1} << 20, ' ');
  CHECK(call(server, on("", R"({"type":"execute","stmt":{"sql":")" + text + "x\"}}"))
            .body.find("SQLITE_TOOBIG") != std::string::npos);
  CHECK(call(server, on("", R"({"type":"execute","stmt":{"sql":")" + text + "\"}}"))
            .body.find("SQLITE_TOOBIG") == std::string::npos);
  CHECK(call(server,
             on("", R"({"type":"sequence","sql":")" + std::string((16 << 20) + 1, ';') + "\"}"))
            .body.find("the sequence's text has 16777217 bytes") != std::string::npos);
}

TEST_CASE("hrana pipeline: an answer that grows too large keeps what was whole", "[hrana]") {
  Server server(100, 20'000);
  const auto answer = call(server, pipeline("", {"INSERT 1", "BIG 30", "SELECT"}));
  CHECK(answer.status == 200);
  const auto json = json_of(answer);
  const auto& results = json.at("results").as_array();
  REQUIRE(results.size() == 3);
  CHECK(results[0].at("type") == "ok");
  CHECK(results[1].at("error").at("code") == "RESPONSE_TOO_LARGE");
  CHECK(std::string_view(results[1].at("error").at("message").as_string())
            .find("20000 bytes (--max-answer-bytes)") != std::string_view::npos);
  CHECK(results[2].at("type") == "ok");

  Server small(100, 1 << 20, 100'000);
  const auto refused = call(small, pipeline("", {"BIG 200"}));
  CHECK(refused.body.find("(--max-memory)") != std::string::npos);
}

TEST_CASE("hrana batch: conditions choose the steps", "[hrana]") {
  Server server;
  const auto ran = [&](const std::string& condition) {
    const auto answer = call(
        server,
        on("",
           R"({"type":"batch","batch":{"steps":[{"stmt":{"sql":"SELECT"}},{"stmt":{"sql":"FAIL"}},)"
           R"({"stmt":{"sql":"SELECT"},"condition":{"type":"ok","step":1}},{"stmt":{"sql":"SELECT"},"condition":)" +
               condition + "}]}}"));
    const auto json = json_of(answer);
    const auto& result = json.at("results").at(0).at("response").at("result");
    CHECK(result.at("step_errors").at(1).at("code") == "SQLITE_CONSTRAINT");
    CHECK(result.at("step_results").at(2).is_null());
    CHECK(result.at("step_errors").at(2).is_null());
    return !result.at("step_results").at(3).is_null();
  };
  CHECK(ran(R"({"type":"ok","step":0})"));
  CHECK(!ran(R"({"type":"ok","step":1})"));
  CHECK(!ran(R"({"type":"ok","step":2})"));
  CHECK(!ran(R"({"type":"error","step":0})"));
  CHECK(ran(R"({"type":"error","step":1})"));
  CHECK(ran(R"({"type":"error","step":2})"));  // skipped: it did not succeed
  CHECK(!ran(R"({"type":"not","cond":{"type":"ok","step":0}})"));
  CHECK(ran(R"({"type":"and","conds":[]})"));
  CHECK(!ran(R"({"type":"or","conds":[]})"));
  CHECK(!ran(R"({"type":"and","conds":[{"type":"ok","step":0},{"type":"ok","step":1}]})"));
  CHECK(ran(R"({"type":"or","conds":[{"type":"ok","step":1},{"type":"ok","step":0}]})"));
  CHECK(ran(R"({"type":"is_autocommit"})"));
}

TEST_CASE("hrana batch: one that is a transaction is a member of a group", "[hrana]") {
  Server server;
  const auto groups = [&](const std::string& batch) {
    const int before = server.file.groups;
    CHECK(
        call(server, on("", R"({"type":"batch","batch":)" + batch + "}," + close_request)).status ==
        200);
    return server.file.groups - before;
  };
  CHECK(groups(batch_of({"BEGIN IMMEDIATE", "INSERT 1", "INSERT 2", "COMMIT", "ROLLBACK"})) == 1);
  CHECK(server.file.numbers == std::vector<std::int64_t>{1, 2});
  CHECK(groups(batch_of({"BEGIN", "INSERT 1", "FAIL", "COMMIT", "ROLLBACK"})) == 1);
  CHECK(server.file.numbers == std::vector<std::int64_t>{1, 2});
  CHECK(groups(batch_of({"BEGIN", "COMMIT"})) == 1);
  CHECK(groups(batch_of({"BEGIN", "INSERT 3"})) == 0);
  CHECK(groups(batch_of({"INSERT 3", "COMMIT"})) == 0);
  CHECK(groups(batch_of({"BEGIN", "ROLLBACK"})) == 0);
  CHECK(groups(batch_of({"BEGIN", "COMMIT", "COMMIT"})) == 0);
  CHECK(
      groups(
          R"({"steps":[{"stmt":{"sql":"BEGIN"}},{"stmt":{"sql":"INSERT 3"}},{"stmt":{"sql":"COMMIT"},"condition":{"type":"ok","step":1}}]})") ==
      0);
  CHECK(
      groups(
          R"({"steps":[{"stmt":{"sql":"BEGIN"}},{"stmt":{"sql":"INSERT 4"},"condition":{"type":"and","conds":[{"type":"ok","step":0},)"
          R"({"type":"not","cond":{"type":"is_autocommit"}}]}},{"stmt":{"sql":"COMMIT"},"condition":{"type":"ok","step":1}},)"
          R"({"stmt":{"sql":"ROLLBACK"},"condition":{"type":"and","conds":[{"type":"ok","step":0},{"type":"not","cond":{"type":"ok","step":2}}]}}]})") ==
      1);
  CHECK(groups("{\"steps\":[]}") == 0);
}

TEST_CASE("hrana lost: a request that finds it out ends with 400 at every place", "[hrana]") {
  const std::vector<std::pair<std::string, std::string>> requests = {
      {"execute", R"({"type":"execute","stmt":{"sql":"INSERT 2"}})"},
      {"COMMIT", R"({"type":"execute","stmt":{"sql":"COMMIT"}})"},
      {"batch", batch_request({"INSERT 2", "INSERT 3", "SELECT"})},
      {"batch with COMMIT", batch_request({"INSERT 2", "COMMIT", "ROLLBACK"})},
      {"sequence", R"({"type":"sequence","sql":"INSERT 2;INSERT 3;SELECT"})"},
      {"describe", R"({"type":"describe","sql":"SELECT"})"},
      {"get_autocommit", R"({"type":"get_autocommit"})"},
      {"two",
       R"({"type":"execute","stmt":{"sql":"INSERT 2"}},{"type":"execute","stmt":{"sql":"INSERT 3"}})"},
      {"failed statement", R"({"type":"execute","stmt":{"sql":"FAIL"}})"},
  };
  for (const auto& [name, request] : requests) {
    for (int lose_after = 1; lose_after < 12; ++lose_after) {
      Server server;
      const std::string baton = baton_of(call(server, pipeline("", {"BEGIN", "INSERT 1"})));
      REQUIRE(!baton.empty());
      server.file.lose_after = lose_after;
      const auto answer = call(server, on(baton, request));
      INFO(name << " lost after " << lose_after << ": " << answer.body);
      // Either the loss came later, or the status says it; then nothing was written, and the stream
      // stays lost.
      if (server.file.lose_after > 0) {
        CHECK(answer.status == 200);
        continue;
      }
      CHECK(answer.status == 400);
      CHECK(code_of(answer) == "TG001");
      CHECK(server.file.numbers.empty());
      for (int again = 0; again < 3; ++again) {
        const auto later =
            call(server, on(baton, R"({"type":"execute","stmt":{"sql":"INSERT 9"}})"));
        CHECK(later.status == 400);
        CHECK(code_of(later) == "TG001");
      }
      CHECK(call(server, on(baton, close_request)).status == 400);
      CHECK(server.file.numbers.empty());
      CHECK(server.streams.counts().lost == 1);
    }
  }
}

TEST_CASE("hrana lost: within one request without a baton it is 400 too", "[hrana]") {
  Server server;
  const auto answer =
      call(server, pipeline("", {"BEGIN", "INSERT 1", "LOSE", "INSERT 2", "COMMIT"}, true));
  CHECK(answer.status == 400);
  CHECK(code_of(answer) == "TG001");
  CHECK(call(server, on("", batch_request({"BEGIN", "INSERT 1", "LOSE", "COMMIT", "ROLLBACK"})))
            .status == 400);
  server.file.may_group = false;
  CHECK(call(server, on("", batch_request({"BEGIN", "INSERT 1", "LOSE", "COMMIT", "ROLLBACK"})))
            .status == 400);
  CHECK(call(server, R"({"statements":["INSERT 1","LOSE"]})", Endpoint::v0).status == 400);
  CHECK(
      call(server, R"({"batch":)" + batch_of({"BEGIN", "LOSE"}) + "}", Endpoint::v1_batch).status ==
      400);
  CHECK(server.file.numbers.empty());
  CHECK(server.file.sessions == 0);
}

TEST_CASE("hrana fault: an unknown outcome and what nobody expected are 500 and lose the stream",
          "[hrana]") {
  for (const auto& [statement, code] :
       {std::pair("UNKNOWN", "OUTCOME_UNKNOWN"), {"BREAK", "INTERNAL_ERROR"}}) {
    INFO(statement);
    Server server;
    const std::string baton = baton_of(call(server, pipeline("", {"BEGIN", "INSERT 1"})));
    CHECK(call(server, pipeline(baton, {statement})).status == 500);
    CHECK(code_of(call(server, pipeline(baton, {"COMMIT"}))) == code);
    CHECK(call(server, pipeline("", {statement})).status == 500);
    CHECK(server.file.numbers.empty());
    CHECK(server.streams.counts().in_use == 0);
  }
}

TEST_CASE("hrana busy: 503 only where nothing has run", "[hrana]") {
  Server server;
  const std::string baton = baton_of(call(server, pipeline("", {"BEGIN", "INSERT 1"})));
  const auto first = call(server, pipeline(baton, {"BUSY", "COMMIT"}));
  CHECK(first.status == 503);
  CHECK(code_of(first) == "SERVER_BUSY");
  const auto second = call(server, pipeline(baton, {"INSERT 2", "BUSY", "COMMIT"}));
  CHECK(second.status == 200);
  CHECK(json_of(second).at("results").at(1).at("error").at("code") == "SERVER_BUSY");
  CHECK(server.file.numbers == std::vector<std::int64_t>{1, 2});
  const auto batch = call(server, on("", batch_request({"INSERT 3", "BUSY"})));
  CHECK(json_of(batch)
            .at("results")
            .at(0)
            .at("response")
            .at("result")
            .at("step_errors")
            .at(1)
            .at("code") == "SERVER_BUSY");
  CHECK(call(server, on("", batch_request({"BUSY", "INSERT 3"}))).status == 503);
}

TEST_CASE("hrana cursor: entries and the last line", "[hrana]") {
  Server server;
  const auto got = cursor(
      server,
      R"({"batch":{"steps":[{"stmt":{"sql":"INSERT 7"}},{"stmt":{"sql":"SELECT"}},{"stmt":{"sql":"FAIL"}},)"
      R"({"stmt":{"sql":"SELECT"},"condition":{"type":"ok","step":2}},{"stmt":{"sql":"SELECT","want_rows":false}}]}})");
  CHECK(got.answer.status == 200);
  CHECK(!got.answer.cut);
  const std::size_t end = got.text.find('\n');
  const auto first = boost::json::parse(got.text.substr(0, end));
  CHECK(
      got.text.substr(end + 1) ==
      R"({"type":"step_begin","step":0,"cols":[]})"
      "\n"
      R"({"type":"step_end","affected_row_count":1,"last_insert_rowid":1})"
      "\n"
      R"({"type":"step_begin","step":1,"cols":[{"name":"n","decltype":"INTEGER"}]})"
      "\n"
      R"({"type":"row","row":[{"type":"integer","value":"7"}]})"
      "\n"
      R"({"type":"step_end","affected_row_count":0,"last_insert_rowid":null})"
      "\n"
      R"({"type":"step_begin","step":2,"cols":[]})"
      "\n"
      R"({"type":"step_error","step":2,"error":{"message":"UNIQUE constraint failed: t.id","code":"SQLITE_CONSTRAINT","extended_code":"SQLITE_CONSTRAINT_UNIQUE"}})"
      "\n"
      R"({"type":"step_begin","step":4,"cols":[{"name":"n","decltype":"INTEGER"}]})"
      "\n"
      R"({"type":"step_end","affected_row_count":0,"last_insert_rowid":null})"
      "\n"
      R"({"type":"replication_index","replication_index":null})"
      "\n");
  // The baton is a real one, though nothing is kept.
  CHECK(server.streams.counts().bare == 1);
  CHECK(server.file.sessions == 0);
  const std::string baton = first.at("baton").as_string().c_str();
  CHECK(call(server, pipeline(baton, {"INSERT 8"})).status == 200);
  CHECK(code_of(call(server, pipeline(baton, {"INSERT 8"}))) ==
        "STREAM_EXPIRED");  // nothing was kept by that
}

TEST_CASE("hrana cursor: large results go out in parts", "[hrana]") {
  Server server(100, 20'000, 50'000);
  const auto got = cursor(server, R"({"batch":{"steps":[{"stmt":{"sql":"BIG 300"}}]}})");
  CHECK(!got.answer.cut);
  CHECK(got.writes > 15);
  CHECK(got.text.size() > 300 * 1024);
  CHECK(got.text.ends_with("\"replication_index\":null}\n"));
}

TEST_CASE("hrana cursor: a loss is 400 as long as nothing was written and a cut body later",
          "[hrana]") {
  Server server;
  const auto early =
      cursor(server, R"({"batch":)" + batch_of({"BEGIN", "INSERT 1", "LOSE", "COMMIT"}) + "}");
  CHECK(early.answer.status == 400);
  CHECK(code_of(early.answer) == "TG001");
  CHECK(early.writes == 0);

  const auto late =
      cursor(server, R"({"batch":)" + batch_of({"BEGIN", "BIG 30", "LOSE", "COMMIT"}) + "}");
  CHECK(late.answer.cut);
  CHECK(late.text.find("\"replication_index\"") == std::string::npos);
  CHECK(late.text.find(R"({"type":"error","error":{"message":"TG001 )") != std::string::npos);
  const std::string baton =
      boost::json::parse(late.text.substr(0, late.text.find('\n'))).at("baton").as_string().c_str();
  CHECK(code_of(call(server, pipeline(baton, {"INSERT 5"}))) == "TG001");
  CHECK(server.file.numbers.empty());
}

TEST_CASE("hrana cursor: a client that is gone loses its stream", "[hrana]") {
  for (const std::size_t fails_at : {1, 2, 3}) {
    Server server;
    const auto got =
        cursor(server, R"({"batch":)" + batch_of({"BEGIN", "INSERT 1", "BIG 100"}) + "}", fails_at);
    CHECK(got.answer.cut);
    CHECK(server.file.sessions == 0);
    CHECK(server.streams.counts().in_use == 0);
    CHECK(server.streams.counts().transactions == 0);
  }
}

TEST_CASE("hrana v0: statements are one transaction", "[hrana]") {
  Server server;
  const auto v0 = [&](const std::string& statements) {
    return call(server, R"({"statements":[)" + statements + "]}", Endpoint::v0);
  };
  CHECK(
      v0(R"("INSERT 1",{"q":"INSERT 2"},"SELECT")").body ==
      R"([{"results":{"columns":[],"rows":[],"affected_row_count":1,"last_insert_rowid":1,"rows_read":0,"rows_written":1,"query_duration_ms":0.250}},)"
      R"({"results":{"columns":[],"rows":[],"affected_row_count":1,"last_insert_rowid":2,"rows_read":0,"rows_written":1,"query_duration_ms":0.250}},)"
      R"({"results":{"columns":["n"],"rows":[[1],[2]],"affected_row_count":0,"last_insert_rowid":null,"rows_read":2,"rows_written":0,"query_duration_ms":0.250}}])");
  CHECK(server.file.groups == 1);
  const auto failed = v0(R"("INSERT 3","FAIL")");
  CHECK(failed.status == 400);
  CHECK(
      failed.body ==
      R"({"message":"UNIQUE constraint failed: t.id","code":"SQLITE_CONSTRAINT","error":"UNIQUE constraint failed: t.id"})");
  server.file.may_group = false;
  CHECK(v0(R"("INSERT 3","FAIL")").status == 400);
  CHECK(server.file.numbers == std::vector<std::int64_t>{1, 2});
  for (const char* word : {"BEGIN", " begin", "-- x\\nCOMMIT", "/* x */ ;ROLLBACK", "savepoint a",
                           "RELEASE a", "END"}) {
    CHECK(code_of(v0("\"INSERT 3\",\"" + std::string(word) + "\"")) == "PROTOCOL_ERROR");
  }
  CHECK(v0("").body == "[]");
  CHECK(v0(R"({"q":"SELECT ?","params":[9007199254740993,1.5,"x",null,{"base64":"YQ"}]})")
            .body.find(R"("rows":[[9007199254740993,1.5,"x",null,{"base64":"YQ"}]])") !=
        std::string::npos);
  CHECK(server.file.numbers == std::vector<std::int64_t>{1, 2});
  CHECK(server.file.sessions == 0);
}

TEST_CASE("hrana v1: a statement or a batch without a stream", "[hrana]") {
  Server server;
  CHECK(call(server, R"({"stmt":{"sql":"INSERT 1"}})", Endpoint::v1_execute)
            .body.starts_with(R"({"result":{"cols":[],"rows":[],)"));
  CHECK(call(server, R"({"stmt":{"sql":"FAIL"}})", Endpoint::v1_execute).status == 400);
  CHECK(code_of(call(server, R"({"stmt":{"sql_id":1}})", Endpoint::v1_execute)) ==
        "PROTOCOL_ERROR");
  const auto batch =
      call(server, R"({"batch":)" + batch_of({"BEGIN", "INSERT 2", "COMMIT", "ROLLBACK"}) + "}",
           Endpoint::v1_batch);
  CHECK(json_of(batch).at("result").at("step_results").as_array().size() == 4);
  CHECK(call(server, R"({"batch":)" + batch_of({"BEGIN", "INSERT 3"}) + "}", Endpoint::v1_batch)
            .status == 200);
  CHECK(server.file.numbers == std::vector<std::int64_t>{1, 2});
  CHECK(server.file.sessions == 0);
}

TEST_CASE("hrana call: what a server must know before it chooses a thread", "[hrana]") {
  Server server;
  auto begun =
      begin(Endpoint::pipeline_v3, pipeline("", {"BEGIN", "INSERT 1"}), server.streams, "app");
  REQUIRE(begun.call);
  CHECK(!begun.call->in_transaction());
  CHECK(begun.call->first_text() == "BEGIN");
  const std::string baton = baton_of(begun.call->run(Permit{}));
  auto next = begin(Endpoint::cursor, R"({"baton":")" + baton + R"(","batch":{"steps":[]}})",
                    server.streams, "app");
  REQUIRE(next.call);
  CHECK(next.call->in_transaction());
  next.call.reset();  // a call that is never run
  CHECK(code_of(call(server, pipeline(baton, {"COMMIT"}))) == "INTERNAL_ERROR");
  CHECK(server.file.numbers.empty());
}
