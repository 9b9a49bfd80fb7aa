// Decides which SQLite layer 1 uses: the linked library, or the one that loaded the extension.
// Every file of this folder that calls SQLite includes this header first.
#pragma once

#ifdef TERMGATE_SQLITE_EXTENSION
#include <sqlite3ext.h>
// Defined in extension.cpp by SQLITE_EXTENSION_INIT1.
SQLITE_EXTENSION_INIT3
#else
#include <sqlite3.h>
#endif

#include <cstddef>
#include <memory>

static_assert(SQLITE_VERSION_NUMBER >= 3037000,
              "Termgate needs SQLite 3.37 or newer: STRICT tables");
