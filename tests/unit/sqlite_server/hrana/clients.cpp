// What clients of libSQL send, byte for byte but for the SQL, which is the fake file's.
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "support.hpp"

using namespace termgate::hrana;
using namespace termgate::hrana::fake;

namespace {

struct Exchange {
  Endpoint endpoint;
  std::string_view body;  // @: the baton of the answer before
  std::string_view part;  // of the answer
  bool keeps = false;     // the answer has a baton
};
struct Program {
  const char* client;
  std::vector<Exchange> exchanges;
  std::vector<std::int64_t> numbers;  // of the file in the end
};

// clang-format off
const Program programs[] = {
  {"@libsql/client 0.18: execute",
   {{Endpoint::pipeline_v2, R"({"requests":[{"type":"execute","stmt":{"sql":"INSERT 1","args":[{"type":"integer","value":"9007199254740993"},{"type":"float","value":1.5},{"type":"blob","base64":"AP8B"},{"type":"null"}],"named_args":[],"want_rows":true}},{"type":"close"}]})",
     R"("affected_row_count":1,"last_insert_rowid":"1","replication_index":null,)"}},
   {1}},
  {"@libsql/client 0.18: batch",
   {{Endpoint::pipeline_v2, R"({"requests":[{"type":"store_sql","sql_id":0,"sql":"INSERT 2"},{"type":"batch","batch":{"steps":[{"stmt":{"sql":"BEGIN IMMEDIATE","args":[],"named_args":[],"want_rows":false}},{"condition":{"type":"ok","step":0},"stmt":{"sql_id":0,"args":[],"named_args":[],"want_rows":true}},{"condition":{"type":"ok","step":1},"stmt":{"sql":"COMMIT","args":[],"named_args":[],"want_rows":false}},{"condition":{"type":"not","cond":{"type":"ok","step":2}},"stmt":{"sql":"ROLLBACK","args":[],"named_args":[],"want_rows":false}}]}},{"type":"close"}]})",
     R"("step_errors":[null,null,null,null])"}},
   {2}},
  {"@libsql/client 0.18: interactive transaction",
   {{Endpoint::pipeline_v2, R"({"requests":[{"type":"store_sql","sql_id":0,"sql":"INSERT 1"},{"type":"batch","batch":{"steps":[{"stmt":{"sql":"BEGIN IMMEDIATE","args":[],"named_args":[],"want_rows":false}},{"condition":{"type":"ok","step":0},"stmt":{"sql_id":0,"args":[],"named_args":[],"want_rows":true}}]}}]})",
     R"("step_errors":[null,null])", true},
    {Endpoint::pipeline_v2, R"({"baton":"@","requests":[{"type":"store_sql","sql_id":1,"sql":"INSERT 2"},{"type":"batch","batch":{"steps":[{"stmt":{"sql_id":1,"args":[],"named_args":[],"want_rows":true}}]}}]})",
     R"("step_errors":[null])", true},
    {Endpoint::pipeline_v2, R"({"baton":"@","requests":[{"type":"execute","stmt":{"sql":"COMMIT","args":[],"named_args":[],"want_rows":false}},{"type":"close"}]})",
     R"({"type":"ok","response":{"type":"close"}})"}},
   {1, 2}},
  {"libsql 0.5 (Rust): a statement and a query",
   {{Endpoint::pipeline_v3, R"({"baton":null,"requests":[{"type":"describe","sql":"INSERT 3","sql_id":null,"replication_index":null}]})",
     R"("is_explain":false,"is_readonly":false)"},
    {Endpoint::pipeline_v3, R"({"baton":null,"requests":[{"type":"batch","batch":{"steps":[{"condition":null,"stmt":{"sql":"INSERT 3","sql_id":null,"args":[{"type":"integer","value":"9007199254740993"},{"type":"blob","base64":"AP8"}],"named_args":[],"want_rows":true,"replication_index":null}}],"replication_index":null}},{"type":"get_autocommit"},{"type":"close"}]})",
     R"({"type":"get_autocommit","is_autocommit":true})"},
    {Endpoint::cursor, R"({"baton":null,"batch":{"steps":[{"condition":null,"stmt":{"sql":"SELECT","sql_id":null,"args":[],"named_args":[],"want_rows":true,"replication_index":null}}],"replication_index":null}})",
     R"({"type":"row","row":[{"type":"integer","value":"3"}]})", true}},
   {3}},
  {"@tursodatabase/serverless 1.4: a transaction by cursors",
   {{Endpoint::pipeline_v3, R"({"baton":null,"requests":[{"type":"sequence","sql":"BEGIN "},{"type":"get_autocommit"}]})",
     R"({"type":"get_autocommit","is_autocommit":false})", true},
    {Endpoint::cursor, R"({"baton":"@","batch":{"steps":[{"stmt":{"sql":"INSERT 4","args":[{"type":"integer","value":"42"},{"type":"blob","base64":"AQI="}],"named_args":[],"want_rows":true}},{"stmt":{"sql":"SELECT","args":[],"named_args":[],"want_rows":false},"condition":{"type":"is_autocommit"}}]}})",
     R"({"type":"step_end","affected_row_count":1,"last_insert_rowid":1})" "\n" R"({"type":"replication_index")", true},
    {Endpoint::pipeline_v3, R"({"baton":"@","requests":[{"type":"sequence","sql":"COMMIT"},{"type":"get_autocommit"}]})",
     R"({"type":"get_autocommit","is_autocommit":true})"}},
   {4}},
  {"libsql-stateless-easy 1.8: a batch",
   {{Endpoint::pipeline_v3, R"({"baton":null,"requests":[{"type":"batch","batch":{"steps":[{"stmt":{"sql":"BEGIN IMMEDIATE"}},{"stmt":{"sql":"INSERT 5"},"condition":{"type":"and","conds":[{"type":"ok","step":0},{"type":"not","cond":{"type":"is_autocommit"}}]}},{"stmt":{"sql":"COMMIT"},"condition":{"type":"ok","step":1}},{"stmt":{"sql":"ROLLBACK"},"condition":{"type":"not","cond":{"type":"ok","step":2}}}]}},{"type":"close"}]})",
     R"("step_errors":[null,null,null,null])"}},
   {5}},
  {"knex over @libsql/sqlite3: named arguments and a stream without close",
   {{Endpoint::pipeline_v2, R"({"requests":[{"type":"batch","batch":{"steps":[{"stmt":{"sql":"SELECT ?","args":[],"named_args":[{"name":"$1","value":{"type":"text","value":"a"}}],"want_rows":true}}]}}]})",
     R"("rows":[[{"type":"text","value":"a"}]])"},
    {Endpoint::pipeline_v2, R"({"requests":[{"type":"execute","stmt":{"sql":"INSERT 6"}}]})", R"("affected_row_count":1)"}},
   {6}},
  {"libsql-client-py over HTTP: version 1",
   {{Endpoint::v1_execute, R"({"stmt":{"sql":"INSERT 7","args":[{"type":"integer","value":"1"}],"want_rows":true}})", R"({"result":{"cols":[],"rows":[],"affected_row_count":1,)"},
    {Endpoint::v1_batch, R"({"batch":{"steps":[{"stmt":{"sql":"INSERT 8"}},{"stmt":{"sql":"FAIL"},"condition":{"type":"ok","step":0}}]}})", R"("code":"SQLITE_CONSTRAINT")"}},
   {7, 8}},
  {"curl: version 0",
   {{Endpoint::v0, R"({"statements": ["INSERT 9", "SELECT"]})", R"("columns":["n"],"rows":[[9]])"}},
   {9}},
};
// clang-format on

}  // namespace

TEST_CASE("hrana clients: each gets what it waits for", "[hrana]") {
  for (const Program& program : programs) {
    Server server;
    std::string baton;
    for (const Exchange& exchange : program.exchanges) {
      std::string body(exchange.body);
      if (const std::size_t at = body.find('@'); at != std::string::npos)
        body.replace(at, 1, baton);
      std::string written;
      const auto answer =
          termgate::hrana::answer(exchange.endpoint, body, server.streams, "app", Permit{},
                                  [&](std::string_view part) { written += part; });
      const std::string text = exchange.endpoint == Endpoint::cursor ? written : answer.body;
      INFO(program.client << "\n" << body << "\n" << text);
      CHECK(answer.status == 200);
      CHECK(text.find(exchange.part) != std::string::npos);
      const auto first = boost::json::parse(text.substr(0, text.find('\n')));
      const auto* given = first.is_object() ? first.as_object().if_contains("baton") : nullptr;
      baton =
          given != nullptr && given->is_string() ? std::string(given->as_string()) : std::string();
      CHECK(baton.empty() == !exchange.keeps);
    }
    INFO(program.client);
    CHECK(server.file.numbers == program.numbers);
  }
}
