// libtermgate-preload.so: layer 1 for a program that nobody can change. LD_PRELOAD puts it in front
// of the program's own SQLite library, and each connection that the program opens gets the
// extension termgate.so and the scope and term of TERMGATE_SCOPE and TERMGATE_TERM.
//
// It changes nothing else: it neither reads nor writes the file, and if anything fails, the
// connection stays as the program opened it. A protected table then refuses its writes, because its
// triggers find no function to call. The library depends on the C library only, because it is also
// loaded into every program that the intended one starts or is started through, and exports only
// the three functions that it wraps. docs/use/sqlite-preload.md says which programs it reaches.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sqlite3.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

constexpr const char* extension_name = "termgate.so";
constexpr const char* extension_entry = "sqlite3_termgate_init";
constexpr std::int64_t term_max = std::int64_t{1} << 62;

// ------------------------------------------------------------------------------------------------
// what was declared

// Copied when the process starts, because a program may later clear or overwrite its environment.
// Never freed.
struct Declared {
  const char* extension = nullptr;
  const char* scope = nullptr;
  std::int64_t term = 0;  // 0: no term, or an invalid one
};
Declared declared;

const char* copy_of(const char* text) {
  return text != nullptr && *text != '\0' ? strdup(text) : nullptr;
}

std::int64_t term_of(const char* text) {
  if (text == nullptr || *text == '\0') return 0;
  std::int64_t term = 0;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9' || term > term_max / 10) return 0;
    term = term * 10 + (*text - '0');
  }
  return term <= term_max ? term : 0;
}

// nullptr: this library's own folder is not known.
const char* beside_this_library() {
  Dl_info own{};
  if (dladdr(static_cast<const void*>(&declared), &own) == 0 || own.dli_fname == nullptr)
    return nullptr;
  const char* slash = strrchr(own.dli_fname, '/');
  if (slash == nullptr) return nullptr;
  const auto folder = static_cast<std::size_t>(slash - own.dli_fname) + 1;
  auto* path = static_cast<char*>(malloc(folder + strlen(extension_name) + 1));
  if (path == nullptr) return nullptr;
  memcpy(path, own.dli_fname, folder);
  strcpy(path + folder, extension_name);
  return path;
}

void read_environment() {
  declared.extension = copy_of(getenv("TERMGATE_EXTENSION"));
  if (declared.extension == nullptr) declared.extension = beside_this_library();
  declared.scope = copy_of(getenv("TERMGATE_SCOPE"));
  declared.term = term_of(getenv("TERMGATE_TERM"));
}

// Another library's constructor may open a file before this library's constructor has run.
const Declared& declaration() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, read_environment);
  return declared;
}

__attribute__((constructor)) void begin() { declaration(); }

// ----------------------------------------------------------------------------------------------
// the program's SQLite

// A loaded library. It stays loaded while this object lives, and longer if others use it.
class Library {
 public:
  // The library that contains this address; none for the program itself, which cannot be opened by
  // name.
  explicit Library(const void* address) {
    Dl_info info{};
    if (dladdr(address, &info) != 0 && info.dli_fname != nullptr)
      handle_ = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
    dlerror();  // clears the error, which the program must not see
  }
  // Looks in the library, and in what it depends on.
  void* find(const char* name) const { return handle_ != nullptr ? dlsym(handle_, name) : nullptr; }
  template <class Function>
  Function* find_as(const char* name) const {
    return reinterpret_cast<Function*>(find(name));
  }

 private:
  void* handle_ = nullptr;
};

struct Search {
  const char* name;
  const void* ours;
  void* found;
};

int look_into(dl_phdr_info* info, std::size_t, void* held) {
  auto& search = *static_cast<Search*>(held);
  if (info->dlpi_name == nullptr || *info->dlpi_name == '\0') return 0;
  void* library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return 0;
  void* found = dlsym(library, search.name);
  if (found != search.ours) search.found = found;
  dlclose(library);
  return search.found != nullptr ? 1 : 0;
}

// The function that the caller would have reached without this library. Several SQLite libraries
// may be loaded: the caller's own comes first, then the next one in the program's order. If a
// compiler has turned the call into a jump, the caller appears to be another one; then the first
// loaded library is used.
void* next_function(const Library& caller, const char* name, const void* ours) {
  void* found = caller.find(name);
  if (found == nullptr || found == ours) found = dlsym(RTLD_NEXT, name);
  if (found != nullptr) return found;
  Search search{name, ours, nullptr};
  dl_iterate_phdr(look_into, &search);
  return search.found;
}

// ------------------------------------------------------------------------------------------------
// a new connection

// Declares nothing unless there are both a scope and a term; a protected table then requires them
// (TG002).
void declare(const Library& sqlite, sqlite3* db) {
  const auto prepare = sqlite.find_as<decltype(sqlite3_prepare_v2)>("sqlite3_prepare_v2");
  const auto bind_text = sqlite.find_as<decltype(sqlite3_bind_text)>("sqlite3_bind_text");
  const auto bind_term = sqlite.find_as<decltype(sqlite3_bind_int64)>("sqlite3_bind_int64");
  const auto step = sqlite.find_as<decltype(sqlite3_step)>("sqlite3_step");
  const auto finalize = sqlite.find_as<decltype(sqlite3_finalize)>("sqlite3_finalize");
  if (prepare == nullptr || bind_text == nullptr || bind_term == nullptr || step == nullptr ||
      finalize == nullptr)
    return;
  sqlite3_stmt* statement = nullptr;
  if (declared.scope != nullptr && declared.term > 0 &&
      prepare(db, "SELECT termgate_declare(?1, ?2)", -1, &statement, nullptr) == SQLITE_OK) {
    bind_text(statement, 1, declared.scope, -1, SQLITE_STATIC);
    bind_term(statement, 2, declared.term);
    step(statement);
    finalize(statement);
  }
  // An empty statement clears the error that sqlite3_errcode() would otherwise report.
  prepare(db, "", -1, &statement, nullptr);
}

// Allows C calls to load extensions for this moment only, and never SQL; the program's own setting
// is unchanged.
void add_layer1(const Library& sqlite, sqlite3* db) {
  const auto config = sqlite.find_as<decltype(sqlite3_db_config)>("sqlite3_db_config");
  const auto load = sqlite.find_as<decltype(sqlite3_load_extension)>("sqlite3_load_extension");
  const auto free_message = sqlite.find_as<decltype(sqlite3_free)>("sqlite3_free");
  if (config == nullptr || load == nullptr || free_message == nullptr ||
      declared.extension == nullptr)
    return;
  int allowed = 0;
  if (config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, -1, &allowed) != SQLITE_OK) return;
  if (allowed == 0) config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, nullptr);
  char* message = nullptr;
  load(db, declared.extension, extension_entry, &message);
  free_message(message);
  if (allowed == 0) config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, nullptr);
}

// `open` calls the real function with the program's arguments.
template <class Function, class Open>
int open_fenced(const char* name, Function* ours, const void* caller, sqlite3** db, Open open) {
  declaration();
  const Library calling(caller);
  const auto real = reinterpret_cast<Function*>(
      next_function(calling, name, reinterpret_cast<const void*>(ours)));
  if (real == nullptr) {
    if (db != nullptr) *db = nullptr;
    return SQLITE_MISUSE;
  }
  const int code = open(real);
  // The extension opens connections itself, and these need no other layer 1.
  if (code != SQLITE_OK || db == nullptr || *db == nullptr ||
      calling.find(extension_entry) != nullptr)
    return code;
  const int system_error = errno;
  const Library sqlite(reinterpret_cast<const void*>(real));
  add_layer1(sqlite, *db);
  declare(sqlite, *db);
  errno = system_error;
  return code;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int sqlite3_open(const char* path, sqlite3** db) {
  return open_fenced("sqlite3_open", &sqlite3_open, __builtin_return_address(0), db,
                     [&](auto* open) { return open(path, db); });
}

__attribute__((visibility("default"))) int sqlite3_open_v2(const char* path, sqlite3** db,
                                                           int flags, const char* vfs) {
  return open_fenced("sqlite3_open_v2", &sqlite3_open_v2, __builtin_return_address(0), db,
                     [&](auto* open) { return open(path, db, flags, vfs); });
}

__attribute__((visibility("default"))) int sqlite3_open16(const void* path, sqlite3** db) {
  return open_fenced("sqlite3_open16", &sqlite3_open16, __builtin_return_address(0), db,
                     [&](auto* open) { return open(path, db); });
}

}  // extern "C"
