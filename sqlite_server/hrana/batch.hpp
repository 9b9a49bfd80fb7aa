// A batch's conditions, and how a batch that is one transaction is recognised. Private to the
// folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "messages.hpp"

namespace termgate::hrana {

enum class Ran : std::uint8_t { skipped, ok, failed };

// `is_autocommit` is called only if the condition needs it. A skipped step counts as failed:
// `error` holds for it.
bool holds(const Condition& condition, std::span<const Ran> ran,
           const std::function<bool()>& is_autocommit);

// The text's first word in lower case, after spaces, comments and semicolons; empty if it does not
// begin with a word.
std::string first_word(std::string_view sql);
// One of begin, commit, end, rollback, savepoint, release.
bool is_transaction_word(std::string_view word);

// Whether the batch is BEGIN; statements, each on condition that the one before succeeded; COMMIT
// on the same condition; and perhaps a ROLLBACK if COMMIT failed. `texts`: one for each step.
bool is_one_transaction(const Batch& batch, std::span<const std::string_view> texts);

}  // namespace termgate::hrana
