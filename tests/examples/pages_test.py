#!/usr/bin/env python3
"""The pages of the examples: their shell blocks, cut out and run as printed, print what the pages print; and the snippets of
docs/use/frameworks.md are in the programs that frameworks_test.py runs. Paths, file names and ports are replaced by this run's.

  pages_test.py TERMGATE_COMMAND TERMGATE_EXTENSION HTTP_GUARD TASK_QUEUE
"""
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TERMGATE, EXTENSION, HTTP_GUARD, TASK_QUEUE = (str(Path(one).resolve()) for one in sys.argv[1:5])
SOURCE = Path(__file__).resolve().parents[2]
EXAMPLES = SOURCE / "examples"


def block(page, kind, beginning=""):
    found = re.findall(rf"^```{kind}\n(.*?)\n^```$", (SOURCE / page).read_text(encoding="utf-8"), re.S | re.M)
    found = [code for code in found if code.startswith(beginning)]
    assert len(found) == 1, f"{page} has {len(found)} blocks of {kind} that begin with {beginning!r}"
    return found[0]


def without_line(text, beginning):
    lines = text.splitlines()
    rest = [line for line in lines if not line.startswith(beginning)]
    assert len(rest) == len(lines) - 1, f"one line begins with {beginning!r}: {text}"
    return "\n".join(rest)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def shell(self, text, **more):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("TERMGATE_", "PG"))}
        # Debian's python3 and termgate first: what a reader has.
        environment |= {"PATH": f"{Path(TERMGATE).parent}:/usr/bin:{os.environ['PATH']}", **more}
        done = subprocess.run(
            ["bash", "-e", "-c", text], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        self.assertEqual(done.returncode, 0, f"{text}\n{done.stdout}{done.stderr}")
        return done.stdout

    def test_outbox(self):
        page = "examples/outbox/README.md"
        original = without_line(without_line(block(page, "sh"), "apt install"), "export TERMGATE_EXTENSION=")
        original = original.replace(" outbox.py", f" {shlex.quote(str(EXAMPLES / 'outbox' / 'outbox.py'))}")
        # Two relays that are a second apart: on a busy machine that can be too little, and then the second comes first.
        for attempt in range(10):
            code = re.sub(r"\b(\w+)\.db\b", rf"\g<1>{attempt}.db", original)
            # A background job's status is not the shell's, and `wait` without a name ends with 0.
            out = self.shell(code, TERMGATE_EXTENSION=EXTENSION.removesuffix(".so"))
            printed = "\n".join(line for line in out.splitlines() if re.match(r"term|refused", line))
            if printed == block(page, "text"):
                return
        self.assertEqual(printed, block(page, "text"))

    def test_http_guard(self):
        code = without_line(block("examples/http-guard/README.md", "sh"), "cmake ")
        port = free_port()
        code = code.replace("/tmp/examples/http_guard", shlex.quote(HTTP_GUARD)).replace("8080", str(port))
        server, *requests = code.splitlines()
        lines = [
            server,
            "trap 'kill $!' EXIT",
            f"for i in $(seq 300); do ! curl -s http://127.0.0.1:{port}/ >/dev/null || break; sleep 0.1; done",
        ]
        expected = []
        for request in requests:
            request, _, comment = request.partition("#")
            lines.append(request.strip().replace("curl ", r"curl -s -w '\n#%{http_code}\n' "))
            expected.append(comment.split(":")[0].split())
        answers = re.findall(r"(?s)(.*?)\n#(\d{3})\n", self.shell("\n".join(lines)).partition("listening on")[2].split("\n", 1)[1])
        self.assertEqual(len(answers), len(expected), answers)
        for (body, status), wanted in zip(answers, expected):
            for word in wanted:
                self.assertTrue(word in (body.strip(), status) or body.startswith(word + " "), (body, status, wanted))

    def test_task_queue(self):
        page = "examples/task-queue/README.md"
        code = without_line(block(page, "sh"), "cmake ").replace("/tmp/examples/task_queue", shlex.quote(TASK_QUEUE))
        shape = re.sub(r"\d+", "#", block(page, "text", "listening on"))
        out = self.shell(code).strip()
        self.assertEqual(re.sub(r"\d+", "#", out), shape, out)
        self.assertEqual(out.splitlines()[2:], block(page, "text", "listening on").splitlines()[2:])

    def test_cron(self):
        page = "examples/cron/README.md"
        self.assertIn("\n" + block(page, "text") + "\n", (EXAMPLES / "cron" / "crontab").read_text(encoding="utf-8"))
        script = re.sub(r"\\\n\s*", "", (EXAMPLES / "cron" / "nightly.sh").read_text(encoding="utf-8"))
        self.assertIn(block(page, "sh").partition(" …")[0], script)
        # The command for a job that hangs.
        (hangs,) = re.findall(r"`(termgate lease force-release [^`]*)`", (SOURCE / page).read_text(encoding="utf-8"))
        self.shell(
            "export TERMGATE_DB=sqlite:cron.db; termgate init >/dev/null; termgate lease acquire --scope nightly --ttl 1h >/dev/null;"
            f" {hangs}"
        )

    def test_frameworks(self):
        page = "docs/use/frameworks.md"
        text = (SOURCE / page).read_text(encoding="utf-8")

        def bare(code):
            return re.sub(r"[\s;]+", "", code)

        programs = {path.suffix: "" for path in (EXAMPLES / "frameworks").glob("*.*")}
        for path in (EXAMPLES / "frameworks").glob("*.*"):
            programs[path.suffix] += bare(path.read_text(encoding="utf-8"))
        suffixes = {"python": ".py", "js": ".mjs", "java": ".java", "go": ".go", "csharp": ".cs"}
        # The services in front of this heading are run by live_services.
        declared = text[text.index("\n## One place to declare\n") :]
        blocks = [one for one in re.findall(r"^```(\w+)\n(.*?)\n^```$", declared, re.S | re.M) if one[0] != "sh"]
        self.assertEqual({kind for kind, _ in blocks}, set(suffixes))
        # Each program is on the page, and says what the page says of it.
        for program in (EXAMPLES / "frameworks").glob("*.*"):
            code = program.read_text(encoding="utf-8")
            self.assertIn(f"examples/frameworks/{program.name})", text)
            for word in ("EXAMPLE_URL", "TERMGATE_SCOPE", "TERMGATE_TERM", "EXAMPLE_WON"):
                self.assertIn(word, code, program)
            self.assertRegex(code, r"(?i)raise_?fence\(.*term")
        for kind, code in blocks:
            for line in code.splitlines():
                self.assertIn(bare(line), programs[suffixes[kind]], f"{page}: no program of examples/frameworks/ has {line}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:], verbosity=2)
