// TYPE_INFO ([MS-TDS] 2.2.5.4 to 2.2.5.6, TDS 7.1 and later):
//
//   fixed types             type
//   …N types, GUID          type  size:1
//   DECIMALN, NUMERICN      type  size:1  precision:1  scale:1
//   DATE                    type
//   TIME, DATETIME2, …      type  scale:1
//   (N)(VAR)CHAR            type  size:2  collation:5            size 0xFFFF: chunks
//   (VAR)BINARY             type  size:2                         size 0xFFFF: chunks
//   TEXT, NTEXT             type  size:4  collation:5
//   IMAGE, SQL_VARIANT      type  size:4
//   XML                     type  schema:1  (database, owner: 1 + UTF-16; collection: 2 + UTF-16, where schema is 1)
//   UDT                     type  (size:2 in a column)  database, schema, name: 1 + UTF-16  (assembly: 2 + UTF-16 in a column)
#include <termgate/tds/type_info.hpp>

#include <termgate/tds/types.hpp>

#include "bytes.hpp"

namespace termgate::tds {
namespace {

constexpr std::uint32_t no_size = 0xFFFF;
constexpr std::size_t collation_bytes = 5;

std::optional<std::uint32_t> fixed_size(std::uint8_t of) noexcept {
  switch (of) {
    case type::null: return 0;
    case type::int1:
    case type::bit: return 1;
    case type::int2: return 2;
    case type::int4:
    case type::datetime4:
    case type::float4:
    case type::money4: return 4;
    case type::money:
    case type::datetime:
    case type::float8:
    case type::int8: return 8;
    default: return std::nullopt;
  }
}

// Reads what follows the type's byte. False: the type is unknown.
bool read_rest(Cursor& cursor, TypePlace place, TypeInfo& info) noexcept {
  if (const auto size = fixed_size(info.type)) {
    info.form = ValueForm::fixed;
    info.size = *size;
    return true;
  }
  switch (info.type) {
    case type::unique_identifier:
    case type::integer_n:
    case type::bit_n:
    case type::float_n:
    case type::money_n:
    case type::datetime_n:
    case type::varbinary_old:
    case type::binary_old:
    case type::varchar_old:
    case type::char_old:
    case type::time:
    case type::datetime2:
    case type::datetime_offset:
      info.form = ValueForm::length_1;
      info.size = cursor.u8();
      return true;
    case type::date: info.form = ValueForm::length_1; return true;
    case type::decimal_old:
    case type::numeric_old:
    case type::decimal_n:
    case type::numeric_n:
      info.form = ValueForm::length_1;
      info.size = cursor.u8();
      cursor.bytes(2);
      return true;
    case type::varchar:
    case type::character:
    case type::nvarchar:
    case type::nchar:
    case type::varbinary:
    case type::binary:
      info.size = cursor.u16();
      info.form = info.size == no_size ? ValueForm::partial : ValueForm::length_2;
      if (info.type != type::varbinary && info.type != type::binary) cursor.bytes(collation_bytes);
      return true;
    case type::text:
    case type::ntext:
    case type::image:
      info.size = cursor.u32();
      info.form = place == TypePlace::column ? ValueForm::text_pointer : ValueForm::length_4;
      if (info.type != type::image) cursor.bytes(collation_bytes);
      return true;
    case type::variant:
      info.size = cursor.u32();
      info.form = ValueForm::variant;
      return true;
    case type::xml:
      info.form = ValueForm::partial;
      if (cursor.u8() != 0) {
        cursor.short_text();
        cursor.short_text();
        cursor.long_text();
      }
      return true;
    case type::user_defined:
      info.form = ValueForm::partial;
      if (place == TypePlace::column) info.size = cursor.u16();
      for (int i = 0; i < 3; ++i) cursor.short_text();
      if (place == TypePlace::column) cursor.long_text();
      return true;
    default: return false;
  }
}

}  // namespace

bool TypeInfo::is_text() const noexcept {
  return type == type::text || type == type::ntext || type == type::image;
}

TypeRead read_type(std::string_view bytes, TypePlace place) noexcept {
  TypeRead read;
  Cursor cursor(bytes);
  read.info.type = cursor.u8();
  const bool known = !cursor.good() || read_rest(cursor, place, read.info);
  if (!known) return read;
  if (!cursor.good()) {
    read.kind = TypeRead::Kind::need_more;
    read.needed = bytes.size() + cursor.missing();
    return read;
  }
  read.kind = TypeRead::Kind::read;
  read.info.bytes = cursor.at();
  return read;
}

}  // namespace termgate::tds
