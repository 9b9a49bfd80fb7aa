#!/usr/bin/env python3
"""The alert rules and the dashboard name metrics that exist, and every alert has an entry in docs/use/operations.md.
Where promtool is installed (Debian: prometheus) it checks the rules and plays
packaging/prometheus/termgate.tests.yml.
"""
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

root = Path(__file__).resolve().parents[2]
rules = root / "packaging/prometheus/termgate.rules.yml"
dashboard = root / "packaging/grafana/termgate.json"
sources = ["admin/src/metrics.cpp", "storage/src/stats.cpp", "proxy/net/src/metrics.cpp"]


def metrics_of(expressions):
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\btermgate_[a-z_]+", expressions)}


def main():
    breaches = []
    exported = set(re.findall(r"\btermgate_[a-z_]+", "".join((root / source).read_text() for source in sources)))
    text = rules.read_text()
    panels = json.loads(dashboard.read_text())["panels"]
    asked = {
        "the rules": metrics_of("\n".join(re.findall(r"(?m)^\s+expr: (?:>-\n)?((?:.|\n {10})*)$", text))),
        "the dashboard": metrics_of("\n".join(target["expr"] for panel in panels for target in panel["targets"])),
    }
    for where, names in asked.items():
        if len(names) < 10:
            breaches.append(f"{where}: only {len(names)} metrics were found")
        breaches += [f"{where}: nothing exports {name}" for name in sorted(names - exported)]
    # An action that the audit does not know is a series that never comes; one that is not exported at 0 is seen from its second time on.
    layer1 = "".join(path.read_text() for path in (root / "sql/postgres/install").glob("*.sql"))
    known = set(re.findall(r"'([a-z_]+)'", " ".join(re.findall(r"_audit\('[a-z_]+'|\baction (?:=|IN) \(?(?:'[a-z_]+',? ?)+", layer1))))
    at_zero = set(re.findall(r'\{"([a-z_]+)", 0\}', (root / "admin/include/termgate/admin/metrics.hpp").read_text()))
    actions = {name for values in re.findall(r'action=~?\\?"([a-z_|]+)', text + dashboard.read_text()) for name in values.split("|")}
    if len(actions) < 3:
        breaches.append(f"only {len(actions)} actions of the audit were found in the rules and the dashboard")
    breaches += [f"the audit has no action {name}" for name in sorted(actions | at_zero) if name not in known]
    breaches += [f"admin/include/termgate/admin/metrics.hpp: action {name} is not counted from 0" for name in sorted(actions - at_zero)]
    operations = (root / "docs/use/operations.md").read_text()
    alerts = re.findall(r"- alert: (\w+)", text)
    breaches += [f"docs/use/operations.md: no entry for {alert}" for alert in alerts if f"| `{alert}` |" not in operations]
    breaches += [
        f"docs/use/operations.md: there is no alert {alert}"
        for alert in re.findall(r"\| `(Termgate\w+)` \|", operations)
        if alert not in alerts
    ]
    # Prometheus' own labels: one of the metric's by such a name becomes exported_job or exported_instance.
    for source in sources:
        for name in ("job", "instance"):
            if re.search(rf'\{{"{name}",|[{{,]{name}=\\?"', (root / source).read_text()):
                breaches.append(f"{source}: a label is called {name}")
    if shutil.which("promtool"):
        for words in (["check", "rules", rules.name], ["test", "rules", "termgate.tests.yml"]):
            done = subprocess.run(["promtool", *words], cwd=rules.parent, capture_output=True, text=True)
            if done.returncode:
                breaches.append(f"promtool {' '.join(words)}: {done.stdout}{done.stderr}")
    for breach in breaches:
        print(breach)
    print(
        f"{len(alerts)} alerts, {len(panels)} panels, promtool {'has run' if shutil.which('promtool') else 'is not installed'},"
        f" {len(breaches)} breaches"
    )
    return bool(breaches)


if __name__ == "__main__":
    sys.exit(main())
