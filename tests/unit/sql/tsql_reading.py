"""T-SQL as the lint looks at it: each batch as tokens, and as the tree that the model's reader makes of it."""
import functools
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "model/sqlserver"))
import tsql  # noqa: E402
from tsql import Query, Source, Unread  # noqa: E402


class Problem(Exception):
    pass


class Reader(tsql.Reader):
    keeps_collations = True


class Batch:
    def __init__(self, text, line=1):
        reader = Reader(text, line)
        self.tokens, self.statements = reader.tokens, reader.statements()
        if reader.peek()[0] != "end":
            reader.fail("a statement expected")


@functools.lru_cache(maxsize=None)
def batches_of(text):
    return [Batch(part, line) for part, line in tsql.batches_of(text)]


def nodes(tree):
    """Every tuple, query and source of a tree, the inner ones too, in the order of the text."""
    if isinstance(tree, (tuple, Query, Source)):
        yield tree
    if isinstance(tree, Query):
        tree = (tree.top, tree.items, tree.sources, tree.where, tree.group, tree.order, tree.union)
    elif isinstance(tree, Source):
        tree = (tree.query, tree.on)
    if isinstance(tree, (tuple, list)):
        for part in tree:
            yield from nodes(part)


def is_word(token, *words):
    return token[0] == "word" and token[1].upper() in words


def text_of(tokens):
    return " ".join(token[1] for token in tokens)


@functools.lru_cache(maxsize=None)
def within(text):
    """A string that holds a statement, as a batch. None: it is prose, or a piece."""
    try:
        return Batch(text) if re.search(r"\b(SELECT|INSERT|EXEC|CREATE|ALTER|GRANT|DROP)\b", text, re.I) else None
    except Unread:
        return None


def texts_in(tokens):
    """Each string that holds a statement, strings within such a string included."""
    for kind, text, _ in tokens:
        batch = within(text[text.index("'") + 1 : -1].replace("''", "'")) if kind == "string" else None
        if batch:
            yield batch
            yield from texts_in(batch.tokens)
