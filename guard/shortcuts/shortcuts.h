// The fast versions of layer 1's functions: what the two parts of this folder share.
//
//   shortcuts.c  where statements call check_term(), append() and the triggers of protect()
//   append.c     append() and append_many()
#pragma once

#include "interface.h"

// The guard, whose library must be loaded before this one.
extern GuardInterface* guard;

// shortcuts.c
extern Oid layer1_relation(const char* name);
extern Oid layer1_function(const char* name, int arguments, const Oid* types, Oid* owner);

// append.c
extern void append_watch(void);
extern const char* append_schema(void);
extern bool append_one(FunctionCallInfo fcinfo, Datum* last);
extern bool append_array(FunctionCallInfo fcinfo, Datum* last);
extern bool append_has_no_follower(void);
