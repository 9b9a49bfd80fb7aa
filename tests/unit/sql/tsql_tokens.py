"""T-SQL as tokens, and what several readers of it need."""
import re

TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*)
  | (?P<comment>/\*)
  | (?P<string>N?'(?:[^']|'')*')
  | (?P<bracket>\[(?:[^\]]|\]\])*\])
  | (?P<quoted>"(?:[^"]|"")*")
  | (?P<schema>@schema@|@schema_lit@|@own_objects@)
  | (?P<variable>@@?\w+)
  | (?P<parameter>\$\d+)
  | (?P<temporary>\#\w+)
  | (?P<number>0x[0-9A-Fa-f]*|\d+(?:\.\d+)?)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<sign><>|<=|>=|::|[-+*/%=<>(),.;:])
""",
    re.X,
)


class Problem(Exception):
    pass


def tokens_of(text):
    at, found = 0, []
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            raise Problem(f"cannot be read from here: {text[at:at + 40]!r}")
        kind = match.lastgroup
        end = match.end()
        if kind == "comment":
            depth, end = 1, at + 2
            while depth:
                step = re.compile(r"/\*|\*/").search(text, end)
                if not step:
                    raise Problem("a comment does not end")
                depth += 1 if step.group() == "/*" else -1
                end = step.end()
        elif kind != "blank":
            found.append((kind, match.group()))
        at = end
    return found


def batches_of(text):
    return [part for part in re.split(r"(?m)^GO\r?$", text) if tokens_of(part)]


def is_word(token, *words):
    return token[0] == "word" and token[1].upper() in words


def text_of(tokens):
    return " ".join(token[1] for token in tokens)


def split_top(tokens):
    """At commas outside parentheses."""
    parts, depth = [[]], 0
    for token in tokens:
        depth += token[1] == "("
        depth -= token[1] == ")"
        if token[1] == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def texts_in(tokens):
    """The tokens of each string that holds a statement, strings within such a string included."""
    for kind, text in tokens:
        if kind == "string" and re.search(r"\b(SELECT|INSERT|EXEC|CREATE|ALTER|GRANT|DROP)\b", text, re.I):
            try:
                within = tokens_of(text[text.index("'") + 1 : -1].replace("''", "'"))
            except Problem:
                continue  # prose, or a piece
            yield within
            yield from texts_in(within)


def closing(tokens, at):
    """The place of the parenthesis that closes the one at `at`."""
    depth = 0
    for end in range(at, len(tokens)):
        depth += (tokens[end][1] == "(") - (tokens[end][1] == ")")
        if depth == 0:
            return end
    return len(tokens)
