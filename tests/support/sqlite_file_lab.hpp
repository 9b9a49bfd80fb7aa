// What the tests of sqlite_server/file share: a file with layer 1, an engine over it, streams whose
// answers are read as a line:
//   stream.ask("SELECT 1 AS a, 'x'")  ->  "a|'x' 1|x"      stream.ask("nonsense")  ->  "! SQL_INPUT_ERROR near …"
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <termgate/detail/sqlite/connection.hpp>

#include "file/connection.hpp"
#include "file/engine.hpp"
#include "file/memory.hpp"
#include "file/session.hpp"

namespace sqlite_file_lab {

namespace hrana = termgate::hrana;
namespace sqlite = termgate::sqlite;
using termgate::sqlite_file::Engine;
using termgate::sqlite_file::EngineOptions;
using termgate::sqlite_file::Session;
using termgate::sqlite_file::SessionOptions;

// Before the first use of SQLite in this program.
inline const bool memory_counted = termgate::sqlite_file::count_memory();

struct File {
  File() {
    const char* folder = std::getenv("TMPDIR");
    std::string name = std::string(folder != nullptr ? folder : "/tmp") + "/termgate-file-XXXXXX";
    path = mkdtemp(name.data());
    path += "/app.db";
    sqlite::Connection connection({.path = path}, false, true);
    connection.layer1().setup().install();
  }
  ~File() { std::filesystem::remove_all(std::filesystem::path(path).parent_path()); }
  std::string path;
};

struct Lab {
  explicit Lab(EngineOptions options = {}) : engine(open(std::move(options))) {}
  std::shared_ptr<Engine> open(EngineOptions options) const {
    options.path = file.path;
    return std::make_shared<Engine>(std::move(options));
  }
  // By another connection, as another process has one.
  std::string outside(const std::string& sql) const {
    sqlite::Connection connection({.path = file.path}, false, false);
    std::string result;
    sqlite3_exec(
        connection.handle(), sql.c_str(),
        [](void* to, int, char** values, char**) {
          *static_cast<std::string*>(to) +=
              values[0] != nullptr ? std::string(values[0]) + ";" : "NULL;";
          return 0;
        },
        &result, nullptr);
    return result;
  }
  File file;
  std::shared_ptr<Engine> engine;
};

class Text final : public hrana::RowSink {
 public:
  void columns(std::span<const hrana::Column> columns) override {
    for (const auto& each : columns) line += (line.empty() ? "" : "|") + each.name;
  }
  void row(std::span<const hrana::ValueView> values) override {
    std::string one;
    for (const auto& each : values) one += (one.empty() ? "" : "|") + shown(each);
    line += (line.empty() ? "" : " ") + one;
  }
  static std::string shown(const hrana::ValueView& value) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
    if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
    if (const auto* text = std::get_if<std::string_view>(&value)) return std::string(*text);
    if (const auto* blob = std::get_if<hrana::BlobView>(&value))
      return fmt::format("x{}", blob->bytes.size());
    return "NULL";
  }
  std::string line;
};

inline hrana::Permit with(std::string scope, std::int64_t term) {
  hrana::Permit permit;
  permit.claim = {std::move(scope), term};
  return permit;
}
inline hrana::Permit unfenced() {
  hrana::Permit permit;
  permit.access = hrana::Access::unfenced;
  return permit;
}

struct Stream {
  Stream(std::shared_ptr<Engine> engine, hrana::Permit given = {}, SessionOptions options = {})
      : session(std::move(engine), std::move(options)), permit(std::move(given)) {}

  // "!" an error in a 200, "!!" a 400, "!!!" a 500, "!503" a 503.
  template <class Work>
  static std::string told(const Work& work) {
    try {
      return work();
    } catch (const hrana::Refused& refused) {
      return "! " + refused.code + " " + refused.what();
    } catch (const hrana::Lost& lost) {
      return "!! " + lost.code + " " + lost.what();
    } catch (const hrana::Unknown& unknown) {
      return std::string("!!! ") + unknown.what();
    } catch (const hrana::Busy& busy) { return std::string("!503 ") + busy.what(); }
  }
  std::string ask(std::string_view sql, std::vector<hrana::Value> values = {}) {
    return told([&] {
      Text rows;
      hrana::Statement statement;
      statement.sql = sql;
      statement.positional = values;
      outcome = session.execute(statement, permit, rows);
      return rows.line;
    });
  }
  std::string sequence(std::string_view sql) {
    return told([&] {
      session.sequence(sql, permit);
      return std::string();
    });
  }
  bool open() const { return !session.is_autocommit(); }

  Session session;
  hrana::Permit permit;
  hrana::Outcome outcome;
};

}  // namespace sqlite_file_lab
