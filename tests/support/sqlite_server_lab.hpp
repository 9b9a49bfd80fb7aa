// What the byte-level tests of sqlite_server share: a file with layer 1, an engine over it, and clients whose answers are read as a line:
//   client.ask(query("SELECT 1 AS a"))  ->  "T(a:23) D(1) C(SELECT 1) Z(I)"
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/encode.hpp>
#include <termgate/pgwire/startup.hpp>
#include <termgate/pgwire/types.hpp>

#include <termgate/detail/sqlite/connection.hpp>
#include "session/session.hpp"

namespace sqlite_server_lab {

namespace sqlite_server = termgate::sqlite_server;
namespace pgwire = termgate::pgwire;
namespace sqlite = termgate::sqlite;

struct File {
  File() {
    const char* folder = std::getenv("TMPDIR");
    std::string name = std::string(folder != nullptr ? folder : "/tmp") + "/termgate-sqlite-XXXXXX";
    path = mkdtemp(name.data());
    path += "/app.db";
    sqlite::Connection connection({.path = path}, false, true);
    connection.layer1().install();
  }
  ~File() { std::filesystem::remove_all(std::filesystem::path(path).parent_path()); }
  std::string path;
};

inline std::string query(std::string_view sql) {
  std::string out;
  pgwire::append_query(out, sql);
  return out;
}
inline std::string parse(std::string_view name, std::string_view sql, std::initializer_list<std::uint32_t> types = {}) {
  std::string out;
  const std::vector<std::uint32_t> all(types);
  pgwire::append_parse(out, name, sql, all);
  return out;
}
inline std::string bind(std::string_view portal, std::string_view name, std::initializer_list<pgwire::Field> values = {},
                        std::initializer_list<std::uint16_t> formats = {}, std::initializer_list<std::uint16_t> results = {}) {
  std::string out;
  const std::vector<pgwire::Field> all(values);
  const std::vector<std::uint16_t> in(formats), back(results);
  pgwire::append_bind(out, portal, name, all, in, back);
  return out;
}
inline std::string describe_statement(std::string_view name) {
  std::string out;
  pgwire::append_describe_statement(out, name);
  return out;
}
inline std::string describe_portal(std::string_view name) {
  std::string out;
  pgwire::append_describe_portal(out, name);
  return out;
}
inline std::string execute(std::string_view portal = {}, std::uint32_t rows = 0) {
  std::string out;
  pgwire::append_execute(out, portal, rows);
  return out;
}
inline std::string bare(char type) {
  std::string out;
  pgwire::append_bare(out, type);
  return out;
}
inline std::string synced() { return bare(pgwire::frontend::sync); }
inline std::string copy_data(std::string_view bytes) {
  std::string out;
  pgwire::append_opaque(out, pgwire::frontend::copy_data, bytes);
  return out;
}
inline std::string copy_done() { return bare(pgwire::frontend::copy_done); }

// The answers, a word a message.
inline std::string told(std::string_view bytes) {
  std::string line;
  const auto number = [](std::string_view from, std::size_t size) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value = value << 8 | static_cast<unsigned char>(from[i]);
    return value;
  };
  while (bytes.size() >= 5) {
    const char type = bytes[0];
    const std::size_t size = number(bytes.substr(1), 4) + 1;
    std::string_view body = bytes.substr(5, size - 5);
    bytes.remove_prefix(size);
    if (type == 'S' || type == 'K' || type == 'R') continue;
    if (!line.empty()) line += ' ';
    line += type;
    if (type == 'T') {
      const std::uint32_t count = number(body, 2);
      body.remove_prefix(2);
      line += '(';
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::string_view name = body.substr(0, body.find('\0'));
        if (i > 0) line += ',';
        line += std::string(name) + ":" + std::to_string(number(body.substr(name.size() + 7), 4));
        body.remove_prefix(name.size() + 1 + 18);
      }
      line += ')';
    } else if (type == 't') {
      line += '(';
      for (std::uint32_t i = 0; i < number(body, 2); ++i) line += (i > 0 ? "," : "") + std::to_string(number(body.substr(2 + 4 * i), 4));
      line += ')';
    } else if (type == 'D') {
      const std::uint32_t count = number(body, 2);
      body.remove_prefix(2);
      line += '(';
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t length = number(body, 4);
        body.remove_prefix(4);
        if (i > 0) line += ',';
        if (length == 0xffffffff) {
          line += "NULL";
        } else {
          line += body.substr(0, length);
          body.remove_prefix(length);
        }
      }
      line += ')';
    } else if (type == 'C') {
      line += "(" + std::string(body.substr(0, body.size() - 1)) + ")";
    } else if (type == 'Z') {
      line += "(" + std::string(body) + ")";
    } else if (type == 'E' || type == 'N') {
      const auto report = pgwire::decode_report(body);
      line += "(" + std::string(report->sqlstate()) + ")";
    } else if (type == 'd') {
      line += "(" + std::string(body) + ")";
    }
  }
  if (!bytes.empty()) line += " + " + std::to_string(bytes.size()) + " bytes";
  return line;
}

inline sqlite_server::SessionOptions options_of(std::uint32_t pid) {
  sqlite_server::SessionOptions options;
  options.pid = pid;
  options.key = "kkkk";
  return options;
}

class Client {
 public:
  Client(sqlite_server::Engine& engine, std::vector<std::pair<std::string, std::string>> parameters = {}, std::uint32_t pid = 7)
      : session_(engine, control_, options_of(pid), [this](std::string_view bytes) { out_ += bytes; }) {
    std::vector<pgwire::StartupMessage::Parameter> all{{"user", "me"}, {"database", "app"}};
    for (const auto& [name, value] : parameters) all.emplace_back(name, value);
    std::string bytes;
    pgwire::append_startup(bytes, 0, all);
    session_.feed(bytes);
    began_ = std::exchange(out_, {});
  }
  // What can be answered at once is, where this is set or TERMGATE_SQLITE_SERVER_QUICKLY is in the environment: nothing of an answer may
  // depend on it.
  bool quickly = std::getenv("TERMGATE_SQLITE_SERVER_QUICKLY") != nullptr;
  std::string raw(std::string_view bytes) {
    std::string answer;
    if (quickly && session_.feed_quickly(bytes, answer)) return answer;
    session_.feed(bytes);
    return std::exchange(out_, {});
  }
  // "-": not at once.
  std::string ask_quickly(std::string_view bytes) {
    std::string answer;
    return session_.feed_quickly(bytes, answer) ? told(answer) + std::string(out_) : "-" + out_ + answer;
  }
  std::string ask(std::string_view bytes) { return told(raw(bytes)); }
  // The fields of the last error that `bytes` are answered with.
  std::string field(std::string_view bytes, char letter) {
    const std::string answer = raw(bytes);
    std::string found;
    for (std::string_view rest = answer; rest.size() >= 5;) {
      std::uint32_t size = 0;
      for (std::size_t i = 1; i < 5; ++i) size = size << 8 | static_cast<unsigned char>(rest[i]);
      if (rest[0] == 'E') found = std::string((*pgwire::decode_report(rest.substr(5, size - 4)))[letter]);
      rest.remove_prefix(size + 1);
    }
    return found;
  }
  const std::string& began() const { return began_; }
  // A machine that holds this thread up makes what it runs look slow, and it is not tried for a while.
  std::string ask_quickly_at_last(std::string_view bytes) {
    std::string answer = "-";
    for (int i = 0; i < 1000 && answer == "-"; ++i) answer = ask_quickly(bytes);
    return answer;
  }
  sqlite_server::Control& control() { return control_; }
  sqlite_server::Session& session() { return session_; }

 private:
  sqlite_server::Control control_;
  std::string out_;
  std::string began_;
  sqlite_server::Session session_;
};

struct Lab {
  File file;
  sqlite_server::Engine engine{{.path = file.path}};
};

}  // namespace sqlite_server_lab
