#!/usr/bin/env python3
"""tests/bench/figures.py in a repository of its own, on what short runs of each command printed (samples/): the values are read, the
page and the plot are written, and figures that are missing, old, or other than the pages', are refused.

  figures_test.py
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
README = (
    "It reaches {} to\n{} of the rate of an unfenced INSERT. It costs {} µs in a transaction's first\nstatement and {} in each further"
    " one; they keep\n{} of the rate.\n"
)


class Repository:
    def __init__(self, folder):
        self.root = Path(folder)
        self.git("init", "-q")
        self.put("sql/postgres/install/1.sql", "SELECT 1")
        self.put(
            "docs/evidence/benchmarks.md", "# What it costs\n\n<!-- figures: tests/bench/figures.py write -->\n<!-- /figures -->\n\nMore.\n"
        )
        self.put("README.md", README.format("0.00", "0.00", 0, 0, "0.00"))
        self.put("docs/images/other.svg", "")
        self.commit("first")

    def git(self, *words):
        return subprocess.run(["git", "-C", self.root, *words], capture_output=True, text=True, check=True).stdout.strip()

    def put(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")

    def commit(self, subject):
        self.git("add", "-A")
        self.git("-c", "user.name=test", "-c", "user.email=test@termgate.example", "commit", "-q", "--allow-empty", "-m", subject)

    def figures(self, *words):
        environment = os.environ | {"TERMGATE_FIGURES_ROOT": str(self.root)}
        done = subprocess.run([sys.executable, HERE / "figures.py", *words], capture_output=True, text=True, env=environment)
        return done.returncode, done.stdout + done.stderr

    def passes(self, *words):
        status, text = self.figures(*words)
        assert status == 0, text
        return text

    def refuses(self, *reasons):
        status, text = self.figures("check")
        assert status == 1, f"not refused: {reasons}"
        missing = [reason for reason in reasons if reason not in text]
        assert not missing, f"{missing} not in:\n{text}"
        return text


def values(path):
    sets = json.loads(path.read_text(encoding="utf-8"))["sets"]
    return {key: one["value"] for figures in sets.values() for key, one in figures.items()}


def main():
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        repository = Repository(folder)
        repository.refuses("the figures of library were never recorded", "the figures of proxy were never recorded")
        path = repository.root / repository.passes("record", HERE / "samples").strip()
        found = values(path)
        assert len(found) == 12, found
        assert (found["first"], found["further"], found["guard"]) == (134.5, 28.5, 1.03), found
        assert (found["proxy_select"], found["proxy_insert"]) == (1.36, 0.49), found
        assert 62 < found["takeover"] < 63, found
        library = json.loads((HERE / "samples/library").read_text(encoding="utf-8"))["runs"]
        [run] = (one for one in library if (one["scenario"], one["writers"], one["scopes"]) == ("library-execute", 8, 64))
        assert found["execute_8_64"] == round(run["ratio"], 4), found

        # The pages: README has other figures until it is corrected.
        repository.passes("write")
        text = repository.refuses("README.md does not say", "134 µs in a transaction's first")
        assert "benchmarks.md or" not in text, text
        executed = [value for key, value in found.items() if key.startswith("execute_")]
        said = README.format(f"{min(executed):.2f}", f"{max(executed):.2f}", f"{found['first']:.0f}", f"{found['further']:.0f}", "1.03")
        repository.put("README.md", said)
        repository.commit("figures")
        repository.passes("check")
        page = (repository.root / "docs/evidence/benchmarks.md").read_text(encoding="utf-8")
        assert page.startswith("# What it costs\n") and page.endswith("\nMore.\n") and "| 1.03 (1.03–1.03) |" in page, page
        repository.put("docs/evidence/benchmarks.md", page.replace("| 1.03 (", "| 0.99 ("))
        repository.refuses("is not what the recorded figures give")
        repository.put("docs/evidence/benchmarks.md", page)

        # A change of what is not measured makes nothing old; one of PostgreSQL's layer 1 makes all but SQLite's.
        repository.put("docs/other.md", "")
        repository.commit("a page")
        repository.passes("check")
        repository.put("sql/postgres/install/1.sql", "SELECT 2")
        repository.commit("code")
        text = repository.refuses("the figures of statement are of", "the figures of proxy are of", "1 commits have changed")
        assert "figures of sqlite" not in text, text

        # Output without the figure.
        (Path(other) / "statement").write_text("no seat\n", encoding="utf-8")
        status, text = repository.figures("record", other)
        assert status == 1 and "has no first" in text, text
    print("figures_test: passed")


if __name__ == "__main__":
    main()
