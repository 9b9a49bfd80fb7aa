// TERMGATE_EXPORT marks what programs see of libtermgate.so although it is compiled with hidden
// symbols: types that are thrown or implemented across its border, and functions of the term
// sources.
#pragma once

#define TERMGATE_EXPORT __attribute__((visibility("default")))
