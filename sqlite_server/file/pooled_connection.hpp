// The connection on which a session prepares a statement.
#pragma once

#include <memory>
#include <utility>

#include "file/connection.hpp"
#include "file/session.hpp"

namespace termgate::sqlite_file {

// The connection of the transaction or of the batch if there is one; otherwise one of the pool,
// borrowed while this lives.
class Session::PooledConnection {
 public:
  explicit PooledConnection(Session& session) : engine_(*session.engine_) {
    if (session.member_ != nullptr) {
      connection_ = &session.member_->connection;
    } else if (session.transaction_.connection() != nullptr) {
      connection_ = session.transaction_.connection();
    } else {
      const FileTransaction& transaction = session.transaction_;
      borrowed_ = engine_.borrow(transaction.state() == FileTransaction::State::begun &&
                                 !transaction.read_only());
      connection_ = borrowed_.get();
    }
  }
  PooledConnection(const PooledConnection&) = delete;
  PooledConnection& operator=(const PooledConnection&) = delete;
  ~PooledConnection() {
    if (borrowed_) engine_.put_back(std::move(borrowed_));
  }
  Connection& connection() const noexcept { return *connection_; }
  std::unique_ptr<Connection> take() noexcept { return std::move(borrowed_); }

 private:
  Engine& engine_;
  std::unique_ptr<Connection> borrowed_;
  Connection* connection_ = nullptr;
};

}  // namespace termgate::sqlite_file
