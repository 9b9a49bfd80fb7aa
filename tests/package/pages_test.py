#!/usr/bin/env python3
"""The pages that the package installs, under their names there: no link in them leads to a file that is not installed.

  pages_test.py
"""
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging"))
import files  # noqa: E402


def main():
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        files.pages(ROOT, out)
        for name in files.INSTALLED:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).symlink_to(ROOT / name)
        kept, dead = 0, []
        for page in sorted(out.rglob("*.md")):
            for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
                path = target.partition("#")[0]
                if not path or "://" in path or path.startswith("mailto:"):
                    continue
                kept += 1
                if not (page.parent / path).exists():
                    dead.append(f"{page.relative_to(out)}: {target}")
        print("\n".join(dead))
        assert (out / "docs/reference/rules.md").exists() and kept > 100, f"{kept} links in the pages"
        return bool(dead)


if __name__ == "__main__":
    sys.exit(main())
