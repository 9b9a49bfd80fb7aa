#!/usr/bin/env python3
"""Man pages and completions, which packaging/manual.py makes from the command; no server.

  manual_test.py TERMGATE_COMMAND
"""
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TERMGATE = str(Path(sys.argv[1]).resolve())
SOURCE = Path(__file__).resolve().parents[2]


def run(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, **more)


class Manual(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.out = Path(cls.folder.name)
        done = run(sys.executable, str(SOURCE / "packaging" / "manual.py"), TERMGATE, str(cls.out))
        assert done.returncode == 0, done
        cls.about = json.loads(run(TERMGATE, "--help", "--json").stdout)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_command_of_the_overview_is_in_the_json_and_has_a_page(self):
        listed = re.findall(r"^  ([a-z-]+(?: [a-z-]+)?)\s{2,}", run(TERMGATE, "--help").stdout, re.M)
        self.assertGreater(len(listed), 40)
        self.assertEqual(sorted(listed), sorted(one["name"] for one in self.about["commands"]))
        pages = {path.name for path in (self.out / "man").iterdir()}
        self.assertEqual(pages, {"termgate.1"} | {f"termgate-{one.replace(' ', '-')}.1" for one in listed})

    def test_every_option_of_help_is_in_the_json(self):
        for command in self.about["commands"]:
            text = run(TERMGATE, *command["name"].split(" "), "--help").stdout
            shown = set(re.findall(r"^  --([a-z-]+)", text, re.M))
            common = self.about["own_database"] if command["own_database"] else self.about["every_command"]
            self.assertEqual(shown, {one["name"] for one in command["options"] + common}, command["name"])

    def test_a_page_has_every_option_and_no_roff_that_man_complains_of(self):
        page = (self.out / "man" / "termgate-proxy.1").read_text(encoding="utf-8")
        proxy = next(one for one in self.about["commands"] if one["name"] == "proxy")
        for one in proxy["options"]:
            self.assertIn("\\-\\-" + one["name"].replace("-", "\\-") + "\\fR", page)
        if not shutil.which("groff"):
            self.skipTest("groff is not installed")
        for path in sorted((self.out / "man").iterdir()):
            done = run("groff", "-man", "-Tutf8", "-Kutf8", "-ww", "-rLL=100n", str(path))
            complaints = [line for line in done.stderr.splitlines() if "can't break line" not in line and "cannot adjust" not in line]
            self.assertEqual((done.returncode, complaints), (0, []), path.name)

    def test_text_cannot_become_a_request_of_roff(self):
        sys.path.insert(0, str(SOURCE / "packaging"))
        import manual

        self.assertEqual(manual.roff(".so /etc/passwd\n'x a-b\\n"), "\\&.so /etc/passwd\n\\&'x a\\-b\\en")

    def bash(self, *words):
        script = f"""source '{self.out}/completions/termgate.bash'
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _termgate; printf '%s\\n' "${{COMPREPLY[@]}}" """
        done = run("bash", "-c", script, "bash", *words)
        self.assertEqual(done.stderr, "")
        return set(done.stdout.split())

    def test_bash_completes_commands_families_and_options(self):
        self.assertEqual(self.bash("termgate", "pro"), {"protect", "proxy"})
        self.assertLessEqual({"acquire", "renew", "release"}, self.bash("termgate", "lease", ""))
        self.assertEqual(self.bash("termgate", "lease", "acq"), {"acquire"})
        self.assertEqual(self.bash("termgate", "lease", "acquire", "--sc"), {"--scope", "--schema"})
        self.assertEqual(self.bash("termgate", "seal", "--te"), {"--term"})
        self.assertEqual(self.bash("termgate", "nonsense", "--"), {""} - {""})

    def test_bash_completes_files_for_values_and_programs_after_two_dashes(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "some file.conf").touch()
            script = f"""cd '{folder}'; source '{self.out}/completions/termgate.bash'
COMP_WORDS=(termgate proxy --config so); COMP_CWORD=3; _termgate; printf '%s\\n' "${{COMPREPLY[@]}}" """
            self.assertEqual(run("bash", "-c", script).stdout, "some file.conf\n")
        self.assertIn("printf", self.bash("termgate", "run", "--scope", "a", "--", "prin"))

    def test_zsh_and_fish_can_read_theirs(self):
        for shell, name in (("zsh", "_termgate"), ("fish", "termgate.fish")):
            with self.subTest(shell):
                text = (self.out / "completions" / name).read_text(encoding="utf-8")
                for command in self.about["commands"]:
                    self.assertIn(command["name"].split(" ")[-1], text)
                if shutil.which(shell):
                    done = run(shell, "-n", str(self.out / "completions" / name), env={**os.environ, "HOME": self.folder.name})
                    self.assertEqual((done.returncode, done.stderr), (0, ""))

    def fish(self, line):
        """What fish offers for a line whose cursor is at its end."""
        if not shutil.which("fish"):
            self.skipTest("fish is not installed")
        script = f"source '{self.out}/completions/termgate.fish'; complete -C '{line}'"
        done = run("fish", "--no-config", "-c", script, env={**os.environ, "HOME": self.folder.name})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return {one.split("\t")[0] for one in done.stdout.splitlines()}

    def test_fish_completes_commands_families_and_options(self):
        self.assertEqual(self.fish("termgate pro"), {"protect", "proxy"})
        self.assertLessEqual({"acquire", "renew", "release"}, self.fish("termgate lease "))
        self.assertEqual(self.fish("termgate lease acq"), {"acquire"})
        self.assertEqual(self.fish("termgate lease acquire --sc"), {"--scope", "--schema"})
        self.assertEqual(self.fish("termgate seal --te"), {"--term"})
        for command in self.about["commands"]:
            common = self.about["own_database"] if command["own_database"] else self.about["every_command"]
            offered = {one for one in self.fish(f"termgate {command['name']} --") if one != "--"}
            self.assertEqual(offered, {"--" + one["name"] for one in command["options"] + common}, command["name"])

    def zsh(self, *lines):
        """What an interactive zsh makes of each line when Tab is pressed at its end. One shell for all of them: it starts slowly."""
        if not shutil.which("zsh"):
            self.skipTest("zsh is not installed")
        start = (
            f"PROMPT=; PS2=; unsetopt zle_bracketed_paste prompt_cr; fpath=('{self.out}/completions' $fpath); autoload -Uz compinit; "
            f"compinit -u -d '{self.folder.name}/zcompdump'; zstyle ':completion:*' list-colors; LISTMAX=1000; "
            "report() { zle complete-word; print -r -- \"<<$BUFFER>>\"; BUFFER=; }; zle -N report; bindkey '^I' report; print -r ready.\n"
        )
        child, terminal = pty.fork()
        if child == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"], {**os.environ, "HOME": self.folder.name, "TERM": "dumb", "COLUMNS": "200"})
        seen, made = "", []

        def until(pattern):
            nonlocal seen
            end = time.monotonic() + 30
            while not (found := re.search(pattern, seen)):
                self.assertLess(time.monotonic(), end, seen)
                if select.select([terminal], [], [], 0.2)[0]:
                    seen += os.read(terminal, 65536).decode(errors="replace")
            seen = seen[found.end() :]
            return found[1]

        try:
            os.write(terminal, start.encode())
            until("\n(ready)\\.")
            for line in lines:
                os.write(terminal, (line + "\t").encode())
                made.append(until("<<(.*?)>>"))
        finally:
            os.close(terminal)
            os.waitpid(child, 0)
        return made

    def test_zsh_completes_commands_families_and_options(self):
        made = self.zsh(
            "termgate lease acq", "termgate sea", "termgate proxy --beck", "termgate lease acquire --ttl 1s --own", "termgate run --sco"
        )
        self.assertEqual(
            made,
            [
                "termgate lease acquire ",
                "termgate seal ",
                "termgate proxy --beck",
                "termgate lease acquire --ttl 1s --owner ",
                "termgate run --scope ",
            ],
        )

    def test_the_same_input_gives_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as other:
            (Path(other) / "about.json").write_text(json.dumps(self.about), encoding="utf-8")
            run(sys.executable, str(SOURCE / "packaging" / "manual.py"), "--json", other + "/about.json", other)
            for path in sorted(self.out.rglob("*")):
                if path.is_file():
                    self.assertEqual(path.read_bytes(), (Path(other) / path.relative_to(self.out)).read_bytes(), path)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
