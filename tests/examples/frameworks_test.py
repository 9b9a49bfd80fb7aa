#!/usr/bin/env python3
"""examples/frameworks: each framework declares in one place, and its statements reach PostgreSQL fenced. A framework
that is not installed is skipped by name; in ./test every one of them is there. Needs TERMGATE_TEST_POSTGRESQL.

  frameworks_test.py TERMGATE_COMMAND
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent))
from served import database  # noqa: E402

TERMGATE = str(Path(sys.argv[1]).resolve())
SERVER = os.environ.get("TERMGATE_TEST_POSTGRESQL")
if not SERVER:
    print("skipped: TERMGATE_TEST_POSTGRESQL is not set")
    sys.exit(77)
SOURCE = Path(__file__).resolve().parents[2] / "examples" / "frameworks"
PYTHON = "/usr/bin/python3"  # Debian's has the frameworks
JARS = ["hibernate-core", "hibernate-commons-annotations", "postgresql", "antlr", "commons-collections3", "dom4j", "geronimo-jpa_2.0_spec"]
JARS += ["geronimo-jta-1.2-spec", "slf4j-api", "slf4j-nop", "javassist"]
NPM = {"sequelize": ["sequelize@6.37.7", "pg@8.23.1"], "typeorm": ["typeorm@0.3.27", "pg@8.23.1", "reflect-metadata@0.2.2"]}
ROLE = f"frameworks_{os.getpid()}"


def modules_of(framework):
    """npm's modules, fetched once into the cache of the tests."""
    given = os.environ.get("TERMGATE_CACHE")
    cache = Path(given) if given else Path("/var/cache/termgate") if os.getuid() == 0 else Path.home() / ".cache" / "termgate"
    home = cache / ("framework-" + "-".join(NPM[framework]).replace("@", "-"))
    home.mkdir(parents=True, exist_ok=True)
    if not (home / "ready").exists():
        words = [*"npm install --ignore-scripts --no-audit --no-fund --loglevel=error --prefix".split(), str(home), *NPM[framework]]
        subprocess.run(words, check=True, timeout=280, stdout=subprocess.DEVNULL)
        (home / "ready").touch()
    return home / "node_modules"


class Frameworks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        stack = database(self, "frameworks")
        admin = stack.__enter__()
        self.addCleanup(lambda: self.sql(SERVER, f"DROP ROLE {ROLE}"))
        self.addCleanup(stack.__exit__, None, None, None)
        self.url = urlsplit(admin)._replace(netloc=f"{ROLE}@{urlsplit(admin).netloc.rpartition('@')[2]}").geturl()
        subprocess.run([TERMGATE, "init", "--db", admin], check=True, capture_output=True, timeout=60)
        self.sql(admin, f"CREATE ROLE {ROLE} LOGIN", f"GRANT CREATE ON SCHEMA public TO {ROLE}")
        subprocess.run([TERMGATE, "init", "--db", admin, "--grant", f"{ROLE}=write"], check=True, capture_output=True, timeout=60)
        self.sql(
            self.url,
            "CREATE TABLE accounts (id integer PRIMARY KEY, balance bigint NOT NULL)",
            "INSERT INTO accounts VALUES (42, 100)",
            "SELECT termgate.protect('accounts', scope => 'billing')",
            "SELECT termgate.check_term('billing', 4)",
        )

    def sql(self, url, *statements):
        words = [word for statement in statements for word in ("-c", statement)]
        done = subprocess.run(
            ["psql", "-qXAt", "-v", "ON_ERROR_STOP=1", url, *words], capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def play(self, *words, **environment):
        def run(term, won):
            given = {name: value for name, value in os.environ.items() if not name.startswith(("TERMGATE_", "PG"))}
            given |= {"EXAMPLE_URL": self.url, "TERMGATE_SCOPE": "billing", **environment}
            if term:
                given["TERMGATE_TERM"] = term
            if won:
                given["EXAMPLE_WON"] = "1"
            done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=given, cwd=self.folder, check=False)
            return (done.returncode, done.stdout.strip()), done.stderr

        def balance():
            return self.sql(self.url, "SELECT balance FROM accounts WHERE id = 42")

        for term, won, wanted, left in (
            ("5", False, (3, "refused TG005"), "100"),  # a trigger never raises the fence
            ("5", True, (0, "written"), "70"),
            ("4", False, (3, "refused TG001"), "70"),
            ("", False, (3, "refused TG002"), "70"),
            ("6", True, (0, "written"), "40"),
            ("5", False, (3, "refused TG001"), "40"),
        ):
            outcome, errors = run(term, won)
            self.assertEqual((outcome, balance()), (wanted, left), f"term {term!r}, won {won}: {errors}")

    def needs(self, *files):
        for one in files:
            if not (shutil.which(one) if "/" not in one else Path(one).exists()):
                self.skipTest(f"{one} is not installed")

    def test_sqlalchemy(self):
        self.needs("/usr/lib/python3/dist-packages/sqlalchemy")
        self.play(PYTHON, str(SOURCE / "sqlalchemy_example.py"))

    def test_sqlalchemy_core(self):
        self.needs("/usr/lib/python3/dist-packages/sqlalchemy")
        self.play(PYTHON, str(SOURCE / "sqlalchemy_example.py"), EXAMPLE_CORE="1")

    def test_the_lines_of_the_page(self):
        self.needs("/usr/lib/python3/dist-packages/sqlalchemy")
        page = SOURCE.parents[1] / "docs" / "use" / "frameworks.md"
        (code,) = re.findall(r"^```sh\n(export EXAMPLE_URL.*?)\n```$", page.read_text(encoding="utf-8"), re.S | re.M)
        code = code.replace("postgresql://app@db.example/app", self.url).replace("python3 examples/frameworks", f"{PYTHON} {SOURCE}")
        done = subprocess.run(["bash", "-e", "-c", code], capture_output=True, text=True, timeout=120, cwd=self.folder)
        self.assertEqual((done.returncode, done.stdout), (0, "written\n"), done.stderr)

    def test_django(self):
        self.needs("/usr/lib/python3/dist-packages/django")
        self.play(PYTHON, "-W", "ignore", str(SOURCE / "django_example.py"))

    def node(self, framework):
        self.needs("node", "npm")
        (self.folder / "node_modules").symlink_to(modules_of("sequelize" if framework == "pg" else framework))
        shutil.copy(SOURCE / f"{framework}_example.mjs", self.folder)
        self.play("node", f"{framework}_example.mjs")

    def test_sequelize(self):
        self.node("sequelize")

    def test_pg(self):
        self.node("pg")

    def test_typeorm(self):
        self.node("typeorm")

    def go(self, name):
        self.needs("go")
        environment = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOFLAGS": "", "CGO_ENABLED": "0"}
        subprocess.run(
            ["go", "build", "-o", str(self.folder / name), str(SOURCE / f"{name}_example.go")], check=True, timeout=280, env=environment
        )
        self.play(str(self.folder / name), PGSSLMODE="disable")  # lib/pq demands TLS otherwise

    def test_lib_pq(self):
        self.needs("/usr/share/gocode/src/github.com/lib/pq")
        self.go("lib_pq")

    def test_pgx(self):
        self.needs("/usr/share/gocode/src/github.com/jackc/pgx/v4")
        self.go("pgx")

    def test_hibernate(self):
        self.needs("javac", "/usr/share/java/hibernate-core.jar")
        jars = ":".join(f"/usr/share/java/{one}.jar" for one in JARS)
        subprocess.run(["javac", "-cp", jars, "-d", str(self.folder), str(SOURCE / "HibernateExample.java")], check=True, timeout=120)
        self.play("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}:{self.folder}", "HibernateExample")

    def test_odbc_of_mono(self):
        self.needs("mcs", "mono")
        subprocess.run(
            ["mcs", "-out:odbc.exe", "-r:System.Data.dll", str(SOURCE / "OdbcExample.cs")], check=True, timeout=120, cwd=self.folder
        )
        self.play("mono", "odbc.exe")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
