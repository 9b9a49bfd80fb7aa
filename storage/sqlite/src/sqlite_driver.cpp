// The port to SQLite: one connection that writes, through the WriteQueue, and a pool that reads.
// SQLite has one writer at a time, so a second writing connection of this process would only wait
// for the first. Owner: the Database. Threads: any number call at once; a call from inside another
// call's work is refused. A reading connection is in `readers_`, borrowed by one call, or closed;
// `readers_open_` counts the first two.
#include <termgate/detail/sqlite_driver.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include <sql/statements.hpp>
#include <termgate/error.hpp>

#include <termgate/detail/sqlite/connection.hpp>
#include <termgate/detail/sqlite/errors.hpp>
#include <termgate/detail/sqlite/write_queue.hpp>
#include <termgate/text/ascii.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {
namespace {

using sqlite::code_name;
using sqlite::Connection;
using sqlite::OpenAs;
using sqlite::WriteQueue;

class SqliteDriver;
// The driver whose work runs on this thread, because a call from inside it would wait for itself.
thread_local const SqliteDriver* at_work = nullptr;

struct AtWork {
  explicit AtWork(const SqliteDriver* driver) : before(std::exchange(at_work, driver)) {}
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
  ~AtWork() { at_work = before; }
  const SqliteDriver* before;
};

bool file_moved(const Unavailable& failure) {
  return failure.code() == code_name(SQLITE_READONLY_DBMOVED);
}

class SqliteTransaction final : public OpenTransaction {
 public:
  // With `queue`, the transaction is begun again as a flushed one if its first statement raises and
  // the connection would not flush that: a check or a claim, which Database::write begins with. A
  // later one is refused, because earlier statements cannot be run again.
  explicit SqliteTransaction(Connection& connection, WriteQueue* queue = nullptr)
      : connection_(connection), queue_(queue) {}
  Rows call(sql::Call call, std::span<const Value> parameters) override {
    return run(call, parameters);
  }
  Rows execute(std::string_view sql, std::span<const Value> parameters) override {
    return run(sql, parameters);
  }

 private:
  // The first statement resets `queue_`: only that one may restart the transaction.
  template <class Statement>
  Rows run(Statement statement, std::span<const Value> parameters) {
    WriteQueue* queue = std::exchange(queue_, nullptr);
    if (queue == nullptr) return connection_.execute(statement, parameters);
    try {
      return connection_.execute(statement, parameters);
    } catch (const InvalidInput&) {
      if (!connection_.layer1().core().flush().take_wanted()) throw;
    }
    queue->begin_flushed();
    return connection_.execute(statement, parameters);
  }

  Connection& connection_;
  WriteQueue* queue_;
};

// Thrown to undo only this member of a group; the queue has no other way to do that.
struct GivenUp {};

class SqliteDriver final : public Driver {
 public:
  SqliteDriver(OpenAs how, int connections_max)
      : how_(std::move(how)), readers_max_(std::max(connections_max - 1, 1)) {}

  std::string_view kind() const noexcept override { return "sqlite"; }
  // Read as a whole: SQLite holds all of a value in memory even if only a part is read.
  PayloadLimits payload_limits() const noexcept override {
    return {std::size_t{256} << 20, std::size_t{256} << 20};
  }

  void transact(const TransactOptions& options,
                const std::function<void(OpenTransaction&)>& work) override {
    refuse_nested();
    // All isolation levels mean SQLite's only one, serializable.
    //
    // With synchronous = normal or off a crash may lose the newest commits. It must not lower a
    // fence (F3), so a raise runs in a flushed transaction.
    const bool forgetful =
        !options.read_only && (how_.synchronous == "normal" || how_.synchronous == "off");
    WriteQueue* flushing = nullptr;
    const auto guarded = [&](Connection& connection) {
      const AtWork marked(this);
      SqliteTransaction session(connection, flushing);
      work(session);
      if (session.given_up()) throw GivenUp{};
    };
    try {
      if (options.read_only) return read(options.timeout, guarded);
      write([&](WriteQueue& queue) {
        if (forgetful) flushing = &queue;
        queue.run({.timeout = options.timeout, .alone = forgetful}, guarded);
      });
    } catch (const GivenUp&) {}
  }

  Rows query(std::string_view sql, std::span<const Value> parameters) override {
    refuse_nested();
    Rows rows;
    read(std::nullopt, [&](Connection& connection) {
      const AtWork marked(this);
      rows = connection.execute(sql, parameters);
    });
    return rows;
  }

  Rows call(sql::Call call, std::span<const Value> parameters, bool read_only,
            std::optional<std::chrono::milliseconds> timeout) override {
    refuse_nested();
    Rows rows;
    const auto one = [&](Connection& connection) {
      const AtWork marked(this);
      rows = connection.execute(call, parameters);
    };
    if (read_only) {
      read(timeout, one);
      return rows;
    }
    bool wants_flush = false;
    // What the check claims is announced to the lock's holder, which can be evicted for it (F4).
    const bool checks = (call == sql::Call::check_term || call == sql::Call::seal ||
                         call == sql::Call::seal_with_reason) &&
                        parameters.size() >= 2;
    const std::string scope = checks ? parameters[0].as_text() : std::string();
    const std::int64_t term = checks ? parameters[1].as_int() : 0;
    try {
      write([&](WriteQueue& queue) {
        queue.run({.timeout = timeout, .scope = scope, .term = term}, one, &wants_flush);
      });
    } catch (const InvalidInput&) {
      // A raise on a connection with weak flushing: only this transaction is flushed.
      if (!wants_flush) throw;
      write([&](WriteQueue& queue) {
        queue.run({.timeout = timeout, .scope = scope, .term = term, .flushed = true}, one);
      });
    }
    return rows;
  }

  InstallReport install() override {
    refuse_nested();
    sqlite::Setup::Installed installed{};
    write(
        [&](WriteQueue& queue) {
          queue.run({.flushed = !how_.memory()}, [&](Connection& connection) {
            installed = connection.layer1().setup().install();
          });
        },
        true);
    return {installed.from_version, installed.to_version};
  }

  int installed_version() override {
    refuse_nested();
    struct stat status {};
    // Opening a connection would fail if the file does not exist. That counts as version 0, and the
    // file is not created.
    if (!how_.memory() && stat(how_.path.c_str(), &status) != 0 && errno == ENOENT) return 0;
    int version = 0;
    read(std::nullopt,
         [&](Connection& connection) { version = connection.layer1().core().installed_version(); });
    return version;
  }

  void uninstall() override {
    refuse_nested();
    write([&](WriteQueue& queue) {
      queue.run({.flushed = !how_.memory()},
                [](Connection& connection) { connection.layer1().setup().uninstall(); });
    });
  }

  void grant(std::string_view, std::string_view) override {
    throw InvalidInput(
        "TG005 SQLite has no roles to grant anything to: whoever may write to the file may do "
        "everything");
  }

  Rows revoke(std::string_view) override {
    throw InvalidInput(
        "TG005 SQLite has no roles to revoke anything from: whoever may write to the file may do "
        "everything");
  }

 private:
  void refuse_nested() const {
    // Tested before any mutex is locked, because another thread of the parent may have held it at
    // fork().
    if (!how_.memory() && getpid() != process_) {
      throw Unavailable(fmt::format("the database {} was opened by process {} and inherited by "
                                    "fork(), and its locks are not this process's: "
                                    "nothing was written; open it anew in the child",
                                    how_.path, process_),
                        std::string(code_name(SQLITE_CANTOPEN)));
    }
    if (at_work == this) {
      throw InvalidInput(
          "TG005 a call to the database from inside a write's own callback: use the callback's "
          "transaction, for the call would "
          "wait for itself");
    }
  }

  struct Writer {
    Writer(const OpenAs& how, bool create)
        : connection(how, false, create), queue(connection, how.synchronous, how.wait) {}
    Connection connection;
    WriteQueue queue;
  };

  // The writing connection is opened at the first write and stays, as long as the path names the
  // file that it has open.
  std::shared_ptr<Writer> writer(bool create) {
    if (auto ready = writer_.load(std::memory_order_acquire)) return ready;
    const std::lock_guard lock(mutex_);
    if (auto ready = writer_.load(std::memory_order_acquire)) return ready;
    auto made = std::make_shared<Writer>(how_, create);
    writer_.store(made, std::memory_order_release);
    return made;
  }

  // If the file was moved, nothing was written, and the next write opens what the path then names.
  // The memory of fences is kept, so that a file with lower ones is reported as TG004.
  void write(const std::function<void(WriteQueue&)>& work, bool create = false) {
    std::shared_ptr<Writer> held = writer(create);
    try {
      work(held->queue);
    } catch (const Unavailable& failure) {
      if (file_moved(failure)) {
        std::shared_ptr<Writer> expected = held;
        // Drops only this writer, because another thread may already have opened a new one. Threads
        // that still use it keep it by their shared pointer.
        writer_.compare_exchange_strong(expected, nullptr);
      }
      throw;
    }
  }

  void read(std::optional<std::chrono::milliseconds> timeout,
            const std::function<void(Connection&)>& work) {
    // A database in memory exists in one connection only, so its reads go through the writer's
    // queue.
    if (how_.memory()) {
      return write(
          [&](WriteQueue& queue) { queue.run({.timeout = timeout, .read_only = true}, work); },
          true);
    }
    Borrowed reader(*this);
    Connection& connection = *reader.connection;
    connection.set_deadline(timeout ? std::optional(WriteQueue::Clock::now() + *timeout)
                                    : std::nullopt);
    // One snapshot for all statements of the work.
    connection.control_checked("BEGIN");
    struct End {
      Connection& held;
      ~End() { held.control("ROLLBACK"); }
    } end{connection};
    connection.layer1().begin_transaction();
    work(connection);
  }

  struct Borrowed {
    explicit Borrowed(SqliteDriver& from) : driver(from) {
      std::unique_lock lock(driver.mutex_);
      const auto wait = driver.how_.wait.value_or(OpenAs::default_wait);
      const bool free = driver.reader_free_.wait_for(lock, wait, [&] {
        return !driver.readers_.empty() || driver.readers_open_ < driver.readers_max_;
      });
      if (!free) {
        throw Blocked(fmt::format(
            "TG006 blocked for {} ms: all {} reading connections of this process are at work",
            wait.count(), driver.readers_max_));
      }
      while (!driver.readers_.empty()) {
        connection = std::move(driver.readers_.back());
        driver.readers_.pop_back();
        const auto problem = connection->layer1().core().file().problem(false);
        if (!problem || problem->code != SQLITE_READONLY_DBMOVED) return;
        connection.reset();
        --driver.readers_open_;
      }
      assert(driver.readers_open_ < driver.readers_max_ &&
             "a reader is opened only where there is room for one");
      ++driver.readers_open_;
      // Opening a file may take long, and other readers need the mutex. The place is counted
      // already, so the limit holds meanwhile.
      lock.unlock();
      try {
        connection = std::make_unique<Connection>(driver.how_, true, false);
      } catch (...) {
        lock.lock();
        --driver.readers_open_;
        driver.reader_free_.notify_one();
        throw;
      }
    }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    ~Borrowed() {
      const std::lock_guard lock(driver.mutex_);
      driver.readers_.push_back(std::move(connection));
      driver.reader_free_.notify_one();
    }
    SqliteDriver& driver;
    std::unique_ptr<Connection> connection;
  };

  const OpenAs how_;
  const pid_t process_ = getpid();
  const int readers_max_;
  std::mutex mutex_;  // guards the next three members, and the creation of a writer
  std::condition_variable reader_free_;
  std::vector<std::unique_ptr<Connection>> readers_;  // idle ones
  int readers_open_ = 0;
  std::atomic<std::shared_ptr<Writer>> writer_;
};

}  // namespace

std::unique_ptr<Driver> open_sqlite(std::string_view path_and_options,
                                    const SqliteOptions& options) {
  OpenAs how;
  const auto question = path_and_options.find('?');
  how.path = path_and_options.substr(0, question);
  how.wait = options.check_wait;
  if (how.path.empty())
    throw InvalidInput(
        "TG005 sqlite: names no file: sqlite:app.db, or sqlite::memory: for one that ends with the "
        "process");
  if (how.path.find('\0') != std::string::npos)
    throw InvalidInput("TG005 the path of a database holds a NUL");
  std::string_view rest = question == std::string_view::npos
                              ? std::string_view{}
                              : path_and_options.substr(question + 1);
  while (!rest.empty()) {
    const std::string_view option = rest.substr(0, rest.find('&'));
    rest = option.size() < rest.size() ? rest.substr(option.size() + 1) : std::string_view{};
    const auto equals = option.find('=');
    const std::string_view name = option.substr(0, equals);
    const std::string value =
        equals == std::string_view::npos ? std::string() : text::lower(option.substr(equals + 1));
    const auto is_one_of = [&](std::initializer_list<std::string_view> values) {
      return std::find(values.begin(), values.end(), value) != values.end();
    };
    if (name == "journal_mode") {
      // MEMORY and OFF cannot roll back after a crash, which would leave half of a write (F5).
      if (!is_one_of({"wal", "delete", "truncate", "persist"})) {
        throw InvalidInput(fmt::format(
            "TG005 journal_mode is wal, delete, truncate or persist, not \"{}\"", value));
      }
      how.journal_mode = value;
    } else if (name == "synchronous") {
      if (!is_one_of({"extra", "full", "normal", "off"})) {
        throw InvalidInput(
            fmt::format("TG005 synchronous is extra, full, normal or off, not \"{}\"", value));
      }
      how.synchronous = value;
    } else {
      throw InvalidInput(fmt::format(
          "TG005 sqlite: takes journal_mode and synchronous after the path, not \"{}\"", name));
    }
  }
  struct stat status {};
  if (!how.memory() && stat(how.path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    throw Unavailable(fmt::format("{} is a directory: a database is one file", how.path));
  }
  return std::make_unique<SqliteDriver>(std::move(how), options.connections_max);
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
