#include "driver_library.hpp"

#include <dlfcn.h>

#include <string>

#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/version.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {

const DriverLibrary& driver_library(const char* name) {
  const std::string file = fmt::format("libtermgate-{}.so.{}", name, TERMGATE_VERSION_MAJOR);
  // Looks beside this library first: the driver there was installed with it.
  void* library = nullptr;
  Dl_info own{};
  if (dladdr(reinterpret_cast<const void*>(&driver_library), &own) != 0 &&
      own.dli_fname != nullptr) {
    const std::string_view path = own.dli_fname;
    if (const auto slash = path.rfind('/'); slash != std::string_view::npos)
      library =
          dlopen(fmt::format("{}/{}", path.substr(0, slash), file).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw InvalidInput(
        fmt::format("TG005 the driver {} cannot be loaded: {}. Install it beside libtermgate.so.{}",
                    file, reason == nullptr ? "no reason given" : reason, TERMGATE_VERSION_MAJOR));
  }
  const auto entry =
      reinterpret_cast<const DriverLibrary* (*)()>(dlsym(library, "termgate_driver_library"));
  if (entry == nullptr)
    throw InvalidInput(
        fmt::format("TG005 {} is no driver of Termgate: it has no termgate_driver_library", file));
  const DriverLibrary* driver = entry();
  if (driver->version != version())
    throw InvalidInput(fmt::format(
        "TG005 {} is of version {} and libtermgate of version {}: install the same version of both",
        file, driver->version, version()));
  return *driver;
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
