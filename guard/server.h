// PostgreSQL's own headers, all in one place, because they do not compile without warnings under
// -Wextra. What differs between majors 13 and 18 is settled here, except how sessions.c requests
// shared memory.
#pragma once
#pragma GCC system_header

// postgres.h must come before any other header.
#include "postgres.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_am.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "commands/extension.h"
#include "commands/trigger.h"
#include "executor/execExpr.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/nodes.h"
#include "nodes/plannodes.h"
#include "parser/parse_func.h"
#include "parser/parser.h"
#include "parser/parsetree.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "postmaster/bgworker.h"
#include "replication/logicalworker.h"
#include "replication/walsender.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/sinvaladt.h"
#include "storage/shmem.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

#if PG_VERSION_NUM < 130000 || PG_VERSION_NUM >= 190000
#error "termgate_guard is for PostgreSQL 13 to 18"
#endif

#if PG_VERSION_NUM >= 170000
#define IsAutoVacuumProcess() (AmAutoVacuumWorkerProcess() || AmAutoVacuumLauncherProcess())
// The number of this backend among all, from 0.
#define BACKEND_INDEX MyProcNumber
#define LEADER_INDEX ParallelLeaderProcNumber
#define PROCESS_OF(virtual_id) ProcNumberGetProc((virtual_id).procNumber)
#else
#define IsAutoVacuumProcess() (IsAutoVacuumWorkerProcess() || IsAutoVacuumLauncherProcess())
#define BACKEND_INDEX (MyBackendId - 1)
#define PROCESS_OF(virtual_id) BackendIdGetProc((virtual_id).backendId)
#if PG_VERSION_NUM >= 140000
#define LEADER_INDEX (ParallelLeaderBackendId - 1)
#else
#define LEADER_INDEX (ParallelMasterBackendId - 1)
#endif
#endif

// A table's file, and whether its block is still in the buffer where it was last; if so, the buffer
// is pinned.
#if PG_VERSION_NUM >= 160000
typedef RelFileLocator RelationFile;
#define RELATION_FILE(relation) ((relation)->rd_locator)
#else
typedef RelFileNode RelationFile;
#define RELATION_FILE(relation) ((relation)->rd_node)
#endif
#if PG_VERSION_NUM >= 140000
#define READ_RECENT_BUFFER(file, block, buffer) \
  ReadRecentBuffer((file), MAIN_FORKNUM, (block), (buffer))
#else
#define READ_RECENT_BUFFER(file, block, buffer) ((void)(file), (void)(block), (void)(buffer), false)
#endif

// The tables that a statement, now ready to run, will write to.
#if PG_VERSION_NUM >= 140000
#define RESULT_RELATIONS_BEGIN(estate, result)                    \
  {                                                               \
    ListCell* result_cell;                                        \
    foreach (result_cell, (estate)->es_opened_result_relations) { \
      (result) = lfirst(result_cell);
#else
#define RESULT_RELATIONS_BEGIN(estate, result)                                                    \
  {                                                                                               \
    int result_number;                                                                            \
    for (result_number = 0; result_number < (estate)->es_num_result_relations; ++result_number) { \
      (result) = &(estate)->es_result_relations[result_number];
#endif
#define RESULT_RELATIONS_END \
  }                          \
  }

#if PG_VERSION_NUM >= 180000
#define EXECUTOR_RUN_PARAMETERS QueryDesc *query, ScanDirection direction, uint64 count
#define EXECUTOR_RUN_ARGUMENTS query, direction, count
#else
#define EXECUTOR_RUN_PARAMETERS QueryDesc *query, ScanDirection direction, uint64 count, bool once
#define EXECUTOR_RUN_ARGUMENTS query, direction, count, once
#endif

#if PG_VERSION_NUM >= 140000
#define UTILITY_PARAMETERS                                                                    \
  PlannedStmt *planned, const char *text, bool read_only_tree, ProcessUtilityContext context, \
      ParamListInfo params, QueryEnvironment *env, DestReceiver *dest, QueryCompletion *completion
#define UTILITY_ARGUMENTS planned, text, read_only_tree, context, params, env, dest, completion
#else
#define UTILITY_PARAMETERS                                                                     \
  PlannedStmt *planned, const char *text, ProcessUtilityContext context, ParamListInfo params, \
      QueryEnvironment *env, DestReceiver *dest, QueryCompletion *completion
#define UTILITY_ARGUMENTS planned, text, context, params, env, dest, completion
#endif

// Updates one row with heap_update(), and waits for another session that has locked it.
static inline TM_Result heap_update_row(Relation table, ItemPointer place, HeapTuple row) {
  TM_FailureData failure;
  LockTupleMode mode;
#if PG_VERSION_NUM >= 160000
  TU_UpdateIndexes indexes;
  return heap_update(table, place, row, GetCurrentCommandId(true), InvalidSnapshot, true, &failure,
                     &mode, &indexes);
#else
  return heap_update(table, place, row, GetCurrentCommandId(true), InvalidSnapshot, true, &failure,
                     &mode);
#endif
}

#if PG_VERSION_NUM >= 140000
#define INDEX_INSERT(index, values, absent, place, table, unique, how) \
  index_insert(index, values, absent, place, table, unique, false, how)
#else
#define INDEX_INSERT(index, values, absent, place, table, unique, how) \
  index_insert(index, values, absent, place, table, unique, how)
#endif
