// What PostgreSQL 15 says of itself: lines whose fields are apart by `|`, booleans t and f. tools/catalog_data.py writes
// catalog_data.cpp.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace termgate::sqlite_server::data {

extern const std::string_view relations[];  // name, OID, kind, "column type,column type"
extern const std::size_t relations_count;
extern const std::string_view
    types[];  // oid, typname, typlen, typbyval, typtype, typcategory, typispreferred, typdelim, typsubscript, typelem, typarray, typinput,
              // typoutput, typreceive, typsend, typmodin, typmodout, typalign, typstorage, typcollation
extern const std::size_t types_count;
extern const std::string_view
    functions[];  // oid, proname, prokind, prorettype, proargtypes apart by commas, proretset, provolatile, proisstrict, pronargs
extern const std::size_t functions_count;
extern const std::string_view operator_classes[];  // oid, opcmethod, opcname, opcfamily, opcintype, opckeytype
extern const std::size_t operator_classes_count;
extern const std::string_view keywords[];  // word, catcode, barelabel, catdesc, baredesc
extern const std::size_t keywords_count;

}  // namespace termgate::sqlite_server::data
