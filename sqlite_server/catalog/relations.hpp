// The tables of a file as dialect::translate() asks about them: columns with their types, constants by the input functions of types.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include <termgate/dialect/translate.hpp>

#include "catalog/schema.hpp"

namespace termgate::sqlite_server {

// Immutable; any thread.
class FileRelations final : public dialect::Relations {
 public:
  // `id` is no other schema's.
  FileRelations(const Schema& schema, std::uint64_t id);
  const Relation* find(std::string_view name) const override;
  std::variant<std::string, SqlError> constant(std::string_view text, dialect::Oid type, std::int32_t typmod = -1) const override;
  std::variant<std::string, SqlError> stored_constant(std::string_view text, std::string_view declared, dialect::Oid from) const override;
  std::uint64_t id() const noexcept { return id_; }

 private:
  std::uint64_t id_;
  std::unordered_map<std::string, Relation> own_;  // by lower-case name
};

}  // namespace termgate::sqlite_server
