"""A served SQLite file for a test: `front(lab, "name")` makes the file with layer 1, starts the proxy, and gives it once it listens."""
import re
import subprocess

from checks import eventually


class Front:
    """The proxy in front of one file. The lab stops it at its end."""

    def __init__(self, lab, path, *options):
        self.log_path = f"{lab.folder}/front{len(lab.proxies)}.log"
        words = [lab.termgate, "proxy", "--backend", f"sqlite:{path}", "--listen", "127.0.0.1:0", *options]
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        lab.proxies.append(self)
        eventually(lambda: re.search(r"listening address=\S+:\d+\n", self.log()) or self.process.poll() is not None, 20)
        found = re.search(r"listening address=\S+:(\d+)\n", self.log())
        assert found, f"the proxy does not listen: {self.log()}"
        self.port = int(found[1])

    def log(self):
        with open(self.log_path) as file:
            return file.read()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode


def front(lab, name, *options):
    path = f"{lab.folder}/{name}.db"
    lab.run(lab.termgate, "init", "--db", f"sqlite:{path}")
    return Front(lab, path, *options)
