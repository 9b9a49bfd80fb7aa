"""The comments of C and C++ sources, one by one, for the rules of tidy.py."""
import re
from functools import lru_cache
from pathlib import Path

# A string, a character, or a comment to the end of the line. Raw strings hold SQL and JSON, whose slashes are no comments.
token = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*')


@lru_cache(maxsize=None)
def of(path: Path):
    """[(line, text)]: lines of comment below each other are one comment; one behind code is by itself."""
    text = path.read_text(encoding="utf-8")
    found, last = [], None
    for match in token.finditer(text):
        if not match.group().startswith("//"):
            continue
        line = text.count("\n", 0, match.start()) + 1
        alone = text[text.rfind("\n", 0, match.start()) + 1 : match.start()].isspace() or text[match.start() - 1 : match.start()] in (
            "",
            "\n",
        )
        words = match.group()[2:].strip()
        if alone and last == line - 1 and found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {words}")
        else:
            found.append((line, words))
        last = line if alone else None
    return found


@lru_cache(maxsize=None)
def code_of(path: Path):
    """The same text without comments, and with empty strings."""
    return token.sub(lambda match: "" if match.group().startswith("//") else '""', path.read_text(encoding="utf-8"))


def functions_of(path: Path):
    """{class: how many functions its body declares or defines}, counted by what ends in a parameter list at its own level."""
    code, counts = code_of(path), {}
    code = re.sub(r"^\s*#(?:.*\\\n)*.*", "", code, flags=re.M)
    for head in re.finditer(r"\b(?:class|struct)\s+(?:\[\[\w+\]\]\s*)?((?:\w+::)*\w+)(?:\s+final)?\s*(?::[^:;{}(][^;{}]*)?\{", code):
        depth, piece, at, functions = 1, "", head.end(), 0
        while at < len(code) and depth > 0:
            c = code[at]
            depth += (c == "{") - (c == "}")
            if depth == 1 and c in ";}" or depth == 2 and c == "{":
                piece = re.sub(r"\b(public|private|protected):", "", piece).strip()
                before = piece.split("(")[0]
                if (
                    "(" in piece
                    and "=" not in before.replace("operator=", "").replace("==", "")
                    and re.search(r"[\w>&*=\]\[()<+!-]\s*$", before)
                ):
                    if not re.match(r"(using|typedef|static_assert|friend|struct|class|enum|union)\b", piece):
                        functions += 1
                piece = ""
            elif depth == 1:
                piece += c
            at += 1
        counts[head.group(1)] = max(functions, counts.get(head.group(1), 0))
    return counts
