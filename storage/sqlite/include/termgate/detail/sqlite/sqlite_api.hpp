// The one place that decides which SQLite layer 1 talks to: the linked library, or the one that loaded us.
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

static_assert(SQLITE_VERSION_NUMBER >= 3037000, "Termgate needs SQLite 3.37 or newer: STRICT tables");
