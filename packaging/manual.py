#!/usr/bin/env python3
"""Man pages and shell completions, made from what the command says of itself: `termgate --help --json`.

  manual.py TERMGATE_COMMAND OUT_DIR     or     manual.py --json FILE OUT_DIR

Writes OUT_DIR/man/*.1 and OUT_DIR/completions/termgate.bash, _termgate (zsh) and termgate.fish. The same input gives the same bytes.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

EXIT = [
    ("0", "done"),
    ("1", "failed"),
    ("2", "wrong usage"),
    ("3", "refused as stale"),
    ("4", "another owner holds the lease"),
    ("5", "the lease was lost"),
    ("6", "sequence conflict"),
    ("7", "outcome unknown"),
    ("8", "blocked"),
    ("9", "any other TG code"),
]


def roff(text):
    """Text as roff takes it: no escape, no request at a line's begin, hyphens that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("^", "\\(ha").replace("~", "\\(ti").replace("`", "\\(ga")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def paragraphs(text):
    out, code = [], False
    for line in text.split("\n"):
        is_code = line.startswith("  ")
        if is_code != code:
            out.append(".PP\n.RS 4\n.nf" if is_code else ".fi\n.RE\n.PP")
            code = is_code
        out.append(roff(line[2:] if is_code else line) if line.strip() else ".PP" if not code else "")
    if code:
        out.append(".fi\n.RE")
    return "\n".join(out)


def option_items(options):
    out = []
    for one in options:
        value = r" \fIVALUE\fR" if one["value"] else ""
        meaning = roff(one["meaning"])
        out.append(f".TP\n\\fB\\-\\-{roff(one['name'])}\\fR{value}\n{meaning[:1].upper()}{meaning[1:]}.")
    return "\n".join(out)


def title(name, version):
    return f'.TH {roff(name.upper())} 1 "" "Termgate {version}" "Termgate"'


def page(command, about):
    name = "termgate-" + command["name"].replace(" ", "-")
    arguments = "".join(f" [\\fI{roff(one.upper())}\\fR]" for one in command["arguments"])
    common = about["own_database"] if command["own_database"] else about["every_command"]
    parts = [
        title(name, about["version"]),
        f".SH NAME\n{roff(name)} \\- {roff(command['summary'])}",
        f".SH SYNOPSIS\n.B termgate {roff(command['name'])}\n[\\fIOPTIONS\\fR]{arguments}",
    ]
    if command["help"]:
        parts.append(".SH DESCRIPTION\n" + paragraphs(command["help"]))
    if command["options"]:
        parts.append(".SH OPTIONS\n" + option_items(command["options"]))
    parts.append(".SH OPTIONS OF EVERY COMMAND\n" + option_items(common))
    parts.append(
        ".SH EXIT STATUS\nSee\n.BR termgate (1)."
        + (
            "\nWhat COMMAND ends with is passed through; the outcomes of this command itself are 100 more."
            if command["name"] == "run"
            else ""
        )
    )
    parts.append(".SH SEE ALSO\n.BR termgate (1)")
    return "\n".join(parts) + "\n"


def overview(about):
    parts = [
        title("termgate", about["version"]),
        ".SH NAME\ntermgate \\- fencing at the write boundary of PostgreSQL, SQLite and SQL Server",
        ".SH SYNOPSIS\n.B termgate\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR]",
        (
            ".SH DESCRIPTION\nA database refuses a write whose term (fencing token) is lower than the highest term that it accepted for"
            " the\nscope of the write. This command installs that check, holds leases, runs programs under a lease, and proves that it"
            " holds.\nEach command has a page of its own."
        ),
    ]
    groups = {}
    for one in about["commands"]:
        groups.setdefault(one["group"], []).append(one)
    for group, commands in groups.items():
        parts.append(f".SH {roff(group.upper())}")
        for one in commands:
            parts.append(f".TP\n.BR termgate\\-{roff(one['name'].replace(' ', '-'))} (1)\n{roff(one['summary'])}")
    parts.append(".SH OPTIONS OF EVERY COMMAND\n" + option_items(about["every_command"]))
    parts.append(
        ".SH ENVIRONMENT\n.TP\n\\fBTERMGATE_DB\\fR\nThe URL of the database, where neither \\fB\\-\\-db\\fR nor \\fB\\-\\-db\\-file\\fR is"
        " given."
    )
    parts.append(".SH EXIT STATUS\n" + "\n".join(f".TP\n{status}\n{meaning}" for status, meaning in EXIT))
    parts.append(".SH FILES\n.TP\n\\fI/etc/termgate\\fR\nSample configuration of the services termgate\\-proxy and termgate\\-admin.")
    return "\n".join(parts) + "\n"


def bash(about):
    firsts, families, options = firsts_and_families(about)
    out = [
        "# bash completion for termgate; made from `termgate --help --json`",
        "_termgate() {",
        "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} first=${COMP_WORDS[1]-} second=${COMP_WORDS[2]-}",
        "  local words='' values='' i",
        "  COMPREPLY=()",
        "  for ((i = 2; i < COMP_CWORD; i++)); do",
        '    if [ "${COMP_WORDS[i]}" = -- ]; then',
        '      mapfile -t COMPREPLY < <(compgen -c -f -- "$current")',
        "      return",
        "    fi",
        "  done",
        '  if [ "$COMP_CWORD" = 1 ]; then',
        f"    COMPREPLY=($(compgen -W '{' '.join([*firsts, '--help', '--version'])}' -- \"$current\"))",
        "    return",
        "  fi",
        '  case "$first" in',
        f"    help) COMPREPLY=($(compgen -W '{' '.join(firsts)}' -- \"$current\")); return ;;",
    ]
    for family, seconds in families.items():
        if family not in options:
            out.append(
                f"    {family}) [ \"$COMP_CWORD\" != 2 ] || {{ COMPREPLY=($(compgen -W '{' '.join(seconds)} --help' -- \"$current\"));"
                " return; } ;;"
            )
    out += ["  esac", '  case "$first $second" in']
    for name in sorted(options, key=lambda one: (-one.count(" "), one)):
        pattern = f"'{name}'" if " " in name else f"'{name} '*"
        every = " ".join("--" + one["name"] for one in options[name])
        values = " ".join("--" + one["name"] for one in options[name] if one["value"])
        out.append(f"    {pattern}) words='{every}' values=' {values} ' ;;")
    out += [
        "  esac",
        '  if [[ "$previous" == --* && "$values" == *" $previous "* ]]; then',
        '    mapfile -t COMPREPLY < <(compgen -f -- "$current")',
        '  elif [[ "$current" == -* || -z "$current" ]]; then',
        '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
        "  else",
        '    mapfile -t COMPREPLY < <(compgen -f -- "$current")',
        "  fi",
        "}",
        "complete -o filenames -F _termgate termgate",
    ]
    return "\n".join(out) + "\n"


def firsts_and_families(about):
    firsts, families, options = [], {}, {}
    for one in about["commands"]:
        first, _, second = one["name"].partition(" ")
        if first not in firsts:
            firsts.append(first)
        if second:
            families.setdefault(first, []).append(second)
        options[one["name"]] = one["options"] + (about["own_database"] if one["own_database"] else about["every_command"])
    return firsts, families, options


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def summary_of_family(about, first):
    own = [one["summary"] for one in about["commands"] if one["name"] == first]
    return own[0] if own else ", ".join(one["name"].split(" ")[1] for one in about["commands"] if one["name"].startswith(first + " "))


def zsh(about):
    firsts, families, options = firsts_and_families(about)

    def entry(word, meaning):
        return quoted(word.replace(":", "\\:") + ":" + meaning)

    def spec(one):
        meaning = re.sub(r"([\[\]:\\])", r"\\\1", one["meaning"])
        many = "*" if one["many"] else ""
        return quoted(f"{many}--{one['name']}[{meaning}]" + (":value:_files" if one["value"] else ""))

    out = [
        "#compdef termgate",
        "# made from `termgate --help --json`",
        "_termgate() {",
        "  local -a words_first words_second",
        "  words_first=(",
    ]
    out += [f"    {entry(one, summary_of_family(about, one))}" for one in firsts]
    out += [
        "  )",
        "  if (( CURRENT == 2 )); then _describe -t commands 'command of termgate' words_first; return; fi",
        '  local name="${words[2]}"',
    ]
    out.append('  case "$name" in')
    for family, seconds in families.items():
        entries = " ".join(
            entry(second, next(one["summary"] for one in about["commands"] if one["name"] == f"{family} {second}")) for second in seconds
        )
        out += [f"    {family})", f"      words_second=({entries})"]
        alone = " && [[ ${words[3]} != -* ]]" if family in options else ""
        out.append(f"      if (( CURRENT == 3 )){alone}; then _describe -t commands 'command of termgate {family}' words_second; fi")
        out.append(f'      case "${{words[3]}}" in {"|".join(seconds)}) name="$name ${{words[3]}}" ;; esac ;;')
    out += ["  esac", '  case "$name" in']
    for name, own in options.items():
        out.append(f"    {quoted(name)}) _arguments {' '.join(spec(one) for one in own)} '*:argument:_files' ;;")
    out += ["  esac", "}", '_termgate "$@"']
    return "\n".join(out) + "\n"


def fish(about):
    firsts, families, options = firsts_and_families(about)
    out = ["# fish completion for termgate; made from `termgate --help --json`"]
    for first in firsts:
        out.append(f"complete -c termgate -n __fish_use_subcommand -f -a {first} -d {fish_quoted(summary_of_family(about, first))}")
    for family, seconds in families.items():
        for second in seconds:
            meaning = next(one["summary"] for one in about["commands"] if one["name"] == f"{family} {second}")
            condition = f"__fish_seen_subcommand_from {family}; and not __fish_seen_subcommand_from {' '.join(seconds)}"
            out.append(f"complete -c termgate -n {fish_quoted(condition)} -f -a {second} -d {fish_quoted(meaning)}")
    for name, own in options.items():
        first, _, second = name.partition(" ")
        condition = f"__fish_seen_subcommand_from {first}" + (f"; and __fish_seen_subcommand_from {second}" if second else "")
        if not second and first in families:
            condition += f"; and not __fish_seen_subcommand_from {' '.join(families[first])}"
        for one in own:
            value = " -r" if one["value"] else ""
            out.append(f"complete -c termgate -n {fish_quoted(condition)} -l {one['name']}{value} -d {fish_quoted(one['meaning'])}")
    return "\n".join(out) + "\n"


def fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--json":
        about = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    elif len(sys.argv) == 3:
        about = json.loads(subprocess.run([sys.argv[1], "--help", "--json"], check=True, capture_output=True, text=True, timeout=60).stdout)
    else:
        sys.exit(__doc__)
    out = Path(sys.argv[-1])
    (out / "man").mkdir(parents=True, exist_ok=True)
    (out / "completions").mkdir(parents=True, exist_ok=True)
    for old in (out / "man").glob("*.1"):
        old.unlink()
    (out / "man" / "termgate.1").write_text(overview(about), encoding="utf-8")
    for command in about["commands"]:
        (out / "man" / f"termgate-{command['name'].replace(' ', '-')}.1").write_text(page(command, about), encoding="utf-8")
    (out / "completions" / "termgate.bash").write_text(bash(about), encoding="utf-8")
    (out / "completions" / "_termgate").write_text(zsh(about), encoding="utf-8")
    (out / "completions" / "termgate.fish").write_text(fish(about), encoding="utf-8")


if __name__ == "__main__":
    main()
