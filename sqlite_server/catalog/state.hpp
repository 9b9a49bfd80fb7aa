// A connection's catalog from within: what the virtual tables and the functions share.
#pragma once

#include <sqlite3.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include <termgate/sqlite_server/catalog.hpp>

#include "catalog/rows.hpp"
#include "catalog/query.hpp"
#include "catalog/relations.hpp"

namespace termgate::sqlite_server {

class CatalogState final : public Catalog {
 public:
  CatalogState(sqlite3* connection, std::string database) : connection_(connection), database_(std::move(database)) {}

  void serve(CatalogSession* session) noexcept override { session_ = session; }
  bool reading() const noexcept override { return reading_ > 0; }
  std::optional<SqlError> problem() const override;
  std::string reg_text(std::int64_t value, Oid type) override;
  void find_origins(std::vector<Origin>& origins) override;
  void temporary(bool may_be) noexcept override { may_have_temporary_ = may_be; }
  void writing() override;
  void transaction_over() noexcept override { unchanged_.reset(); }
  void watch_rows(bool on) override;
  // Whether the statement that is being run has inserted or changed that row.
  bool changed(const std::string& table, std::int64_t row) const;
  void let_go() noexcept override {
    cookie_.reset();
    temporary_.reset();
  }

  // The schema as the open transaction sees it, read again only where it may have changed.
  std::shared_ptr<const Schema> schema();
  std::shared_ptr<const FileRelations> relations() override;
  // The rows of a relation; they stay as they are while a cursor holds them.
  std::shared_ptr<Rows> rows(const SystemRelation& relation);

  CatalogSession& session() noexcept { return session_ == nullptr ? nobody_ : *session_; }
  sqlite3* connection() const noexcept { return connection_; }
  std::string database() { return session().database().value_or(database_); }

  // Fails the call that is under way.
  void fail(sqlite3_context* context, SqlError problem);

  // While it lives, statements are the catalog's own.
  class Reading {
   public:
    explicit Reading(CatalogState& state) : state_(state) { ++state_.reading_; }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;
    ~Reading() { --state_.reading_; }

   private:
    CatalogState& state_;
  };

 private:
  struct Mark {
    std::int64_t cookie = -1;
    std::uint64_t fingerprint = 0;
    bool committed = false;  // the cookie alone says that nothing changed
  };
  std::uint64_t fingerprint();
  std::int64_t cookie();

  sqlite3* connection_;
  std::optional<Query> cookie_, temporary_;  // asked before each look at the schema
  std::string database_;
  CatalogSession nobody_;
  CatalogSession* session_ = nullptr;
  int reading_ = 0;
  bool may_have_temporary_ = true;
  std::optional<SqlError> problem_;
  Mark mark_;
  std::optional<std::int64_t> unchanged_;  // the schema's number at the start of the transaction that writes, which is a committed one's
  std::shared_ptr<const Schema> schema_;
  std::shared_ptr<const FileRelations> relations_;  // of schema_
  std::unordered_map<const SystemRelation*, std::shared_ptr<Rows>> rows_;
  std::string rows_database_;                                                  // which rows_ name
  std::unordered_map<std::string, std::unordered_set<std::int64_t>> changed_;  // by table, while watch_rows() is on
  bool changes_lost_ = false;                                                  // for want of memory
};

// module.cpp
void register_relations(sqlite3* connection, CatalogState& state);
// functions.cpp
void register_functions(sqlite3* connection, CatalogState& state);

}  // namespace termgate::sqlite_server
