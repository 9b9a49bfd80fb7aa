#!/usr/bin/env python3
"""What a forge reads is true of this tree: workflows run only scripts that are here, with options and jobs that these know;
pre-commit, CODEOWNERS and the updates of dependencies name what exists. Prints each breach; exit 1 if any.

A workflow cannot be run here, so that its commands are those of .ci/run is what keeps it from rotting. At the end, faults
are planted into copies of the first workflow's text, and each must be found.
"""
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import yaml

root = Path(__file__).resolve().parents[2]
# In front of the checkout there is no script yet.
first_steps = (
    "apt-get update && apt-get install -y --no-install-recommends ca-certificates git",
    'git config --system --add safe.directory "$GITHUB_WORKSPACE"',
)
# Actions run with our permissions: only those of the forge itself, by major version.
actions = re.compile(r"^actions/(checkout|upload-artifact)@v\d+$")


def output(*command):
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout


def tracked(*patterns):
    return output("git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns).splitlines()


def command_breaches(line, jobs):
    if line in first_steps:
        return
    words = shlex.split(line)
    script = root / words[0]
    if "/" not in words[0] or not script.is_file() or not os.access(script, os.X_OK):
        yield f"runs {words[0]}, which is no script of this tree"
        return
    if words[0] == ".ci/run":
        if words[1:2] not in ([], ["--full"]):
            yield f".ci/run has no option {words[1]}"
        yield from (f".ci/run has no job \"{job}\"" for job in words[2:] if job not in jobs)
        return
    text = script.read_text(encoding="utf-8")
    yield from (f"{words[0]} has no option {word}" for word in words[1:] if word.startswith("-") and word not in text)


def expanded(text, matrix):
    """The command for each combination of the matrix."""
    for values in itertools.product(*matrix.values()):
        one = text
        for name, value in zip(matrix, values):
            one = one.replace("${{ matrix.%s }}" % name, str(value))
        yield one


def workflow_breaches(text, jobs):
    document = yaml.safe_load(text)
    if document.get("permissions") != {"contents": "read"}:
        yield "its permissions are not contents: read"
    for name, job in document["jobs"].items():
        if "timeout-minutes" not in job:
            yield f"{name}: no timeout-minutes"
        yield from (f"{name}: needs {other}, which is no job" for other in job.get("needs", []) if other not in document["jobs"])
        matrix = job.get("strategy", {}).get("matrix", {})
        for step in job["steps"]:
            if "uses" in step:
                if not actions.match(step["uses"]):
                    yield f"{name}: uses {step['uses']}"
                continue
            lines = (line for run in expanded(step["run"], matrix) for line in run.splitlines())
            for line in lines:
                if "${{" in line:
                    yield f"{name}: a command with the forge's words in it can be made another by whoever opens a pull request: {line}"
                else:
                    yield from (f"{name}: {reason}" for reason in command_breaches(line, jobs))


def form_breaches(text):
    form = yaml.safe_load(text)
    yield from (f"has no {field}" for field in ("name", "description", "body") if not form.get(field))
    ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    if len(set(ids)) != len(ids):
        yield "an id twice"


def updates_breaches(text):
    there = {(one["package-ecosystem"], one["directory"]) for one in yaml.safe_load(text)["updates"]}
    for path in tracked("*package.json"):
        if json.loads((root / path).read_text()).get("dependencies") and ("npm", "/" + str(Path(path).parent)) not in there:
            yield f"{path} has dependencies and no entry"
    for path in tracked("*go.mod", "*.csproj", "*pom.xml"):
        if re.search(r"^require\b|<PackageReference|<dependency>", (root / path).read_text(), re.M):
            yield f"{path} has dependencies: give it an entry, and this check the kind"
    yield from (f"{folder} is not there" for _, folder in there if not (root / folder.lstrip("/")).is_dir())


def owners_breaches(text):
    for line in text.splitlines():
        path, *teams = line.split("#")[0].split() or ["*", "@"]
        if not teams:
            yield f"{path} has no owner"
        if path != "*" and not (root / path.lstrip("/")).exists():
            yield f"{path} is not there"


def hooks_breaches(text, jobs):
    for repo in yaml.safe_load(text)["repos"]:
        if repo["repo"] != "local":
            yield f"fetches {repo['repo']}"
        for hook in repo["hooks"]:
            yield from command_breaches(hook["entry"], jobs)


plants = (  # what is put in place of what, and what must be reported
    (".ci/run --full ${{ matrix.job }}", ".ci/build --full ${{ matrix.job }}", "no script of this tree"),
    (".ci/run --full ${{ matrix.job }}", ".ci/run --fast ${{ matrix.job }}", "no option --fast"),
    (".ci/run --full ${{ matrix.job }}", "make -j2", "no script of this tree"),
    (".ci/run --full ${{ matrix.job }}", "./test --quick", "no option --quick"),
    (".ci/run --full ${{ matrix.job }}", ".ci/run --full ${{ github.head_ref }}", "the forge's words"),
    ("[checks, test,", "[checks, tests,", "no job \"tests\""),
    ("actions/checkout@v4", "someone/checkout@v4", "uses someone/checkout@v4"),
    ("contents: read", "contents: write", "permissions"),
)


def main():
    jobs = output(".ci/run", "--list").split()
    workflows = tracked(".github/workflows/*")
    checks = [(path, workflow_breaches((root / path).read_text(), jobs)) for path in workflows]
    forms = [path for path in tracked(".github/ISSUE_TEMPLATE/*.yml") if not path.endswith("/config.yml")]
    checks += [(path, form_breaches((root / path).read_text())) for path in forms]
    for path, check in ((".github/dependabot.yml", updates_breaches), (".github/CODEOWNERS", owners_breaches)):
        checks.append((path, check((root / path).read_text())))
    checks.append((".pre-commit-config.yaml", hooks_breaches((root / ".pre-commit-config.yaml").read_text(), jobs)))
    breaches = [f"{path}: {reason}" for path, reasons in checks for reason in reasons]
    if len(workflows) < 2 or len(forms) < 2:
        breaches.append("not all workflows and forms were found")
    text = (root / ".github/workflows/ci.yml").read_text()
    for old, new, reason in plants:
        if old not in text or not any(reason in found for found in workflow_breaches(text.replace(old, new), jobs)):
            breaches.append(f"a planted fault was not found: {new}")
    print(*breaches, sep="\n", end="\n" if breaches else "")
    print(f"{len(checks)} files, {len(plants)} planted faults, {len(breaches)} breaches")
    sys.exit(1 if breaches else 0)


if __name__ == "__main__":
    main()
