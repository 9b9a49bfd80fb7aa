#!/usr/bin/env python3
"""Random texts of dates, times and intervals mean on an SQLite file behind the proxy what they mean on PostgreSQL 15, or are refused.

  pytest tests/live/sqlite_server_times_test.py [--count N] [--seed S] [--show]

Half of them are well-formed, in all orders and with fields that are out of range now and then; half are pieces at random. The same value,
the same SQLSTATE, and a refusal with 0A000 are fine. A time that is read wrongly is a wrong answer, and so is a text that is taken where
PostgreSQL refuses it, or is called malformed where PostgreSQL reads it. 4,000 by default, of one seed; with --long of a new one.
"""
import random
from collections import Counter

import given
import pgraw
from checks import check, note
from given import LONG

MONTHS = "Jan February mar Apr MAY June jul Aug Sept Sep October Nov dec".split()
DAYS = "Mon Tuesday wed Thurs Thu fri Sat Sunday".split()
UNITS = (
    "millennium century decade year years yr y month mon mons months week weeks w day days d hour hours h hr minute minutes min mins m"
    " second seconds sec secs s millisecond ms msec microseconds us usec fortnight qtr"
).split()
PIECES = (
    "2024-01-02 2024/1/2 1/2/2024 20240102 01-02-2024 2024.01.02 2024-001 99-01-02 2024-02-30 J2460000 2024-Jan-02 02-Jan-2024 10:11"
    " 10:11:12 10:11:12.345678 101112 1011 24:00 25:00 10:60 T10:11 10:11:12,5 10am +03 -08:30 Z UTC +0300 -5 +00:00:00 PST"
    " America/New_York +25 GMT BC AD +3: epoch infinity Mon Tue dow allballs"
).split() + ["Jan 2 2024", "2 January 2024", "January 2, 2024", "10:11 PM"]


class Texts:
    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.kinds = ["date", "timestamp", "timestamptz", "time", "interval", "interval", "timetz"]

    def seldom(self, one_in):
        return self.chance.random() < 1 / one_in

    def number(self, low, high, wild_low, wild_high):
        """Of one digit or two, sometimes out of range."""
        value = self.chance.randint(wild_low, wild_high) if self.seldom(10) else self.chance.randint(low, high)
        return self.chance.choice([str(value), f"{value:02}"])

    def date(self):
        pick = self.chance.choice
        year = self.chance.choice([self.chance.randint(1900, 2100), self.chance.randint(1, 9999)])
        y, m, d, name, day = f"{year:04}", self.number(1, 12, 0, 13), self.number(1, 28, 0, 32), pick(MONTHS), pick(DAYS)
        a = pick("-/.")
        b = pick("-/.") if self.seldom(10) else a
        return pick(
            [f"{y}{a}{m}{b}{d}", f"{m}{a}{d}{b}{y}", f"{d}{a}{name}{b}{y}", f"{y}{a}{name}{b}{d}", f"{name} {d}, {y}", f"{name} {d} {y}"]
            + [f"{d} {name} {y}", f"{y} {name} {d}", f"{day} {name} {d} {y}", f"{day}, {d} {name} {y}", f"{day} {name} {d}, {y}"]
            + [f"{day}, {name} {d}, {y}", f"{y}{self.chance.randint(1, 12):02}{self.chance.randint(1, 28):02}"]
            + [f"{y}{pick('-.')}{self.chance.randint(0, 370):03}", f"{m}{a}{d}{a}{year % 100:02}", f"{d} {name} {year % 100:02}"]
            + [f"{name}-{d}-{y}", f"{name}. {d} {y}", f"{name} {d},{y}", f"{d}{name}{y}", f"{day} {y}-{m}-{d}"]
            + [f"{y}-{m}-{d}"] * 3
        )

    def time(self):
        pick, two = self.chance.choice, lambda: f"{self.chance.randint(0, 61 if self.seldom(10) else 59):02}"
        hour, minute, second = self.number(0, 23, 0, 25), two(), two()
        fraction = "." + "".join(pick("0123456789") for _ in range(self.chance.randint(1, 8)))
        text = pick(
            [f"{hour}:{minute}", f"{hour}:{minute}:{second}", f"{hour}:{minute}:{second}{fraction}", f"{hour}:{minute}:{second}"]
            + [f"{hour:>02}{minute}{second}", f"{hour:>02}{minute}", f"{hour}:{minute}{fraction}", f"{hour}:{self.chance.randint(0, 9)}"]
        )
        if self.seldom(5):
            text += pick(["", " "]) + pick(["AM", "PM", "am", "pm"])
        return text + self.zone() if self.seldom(3) else text

    def zone(self):
        pick, hour = self.chance.choice, self.chance.randint(0, 16)
        offset = [str(hour), f"{hour:02}", f"{hour:02}:{pick(['00', '30', '45', '60'])}", f"{hour:02}30", f"{hour:02}:30:15"]
        return pick(["", " "]) + (pick("+-") + pick(offset) if self.seldom(1.4) else pick(["Z", "UTC", "gmt", "z", "PST"]))

    def interval(self):
        pick, whole, kind = self.chance.choice, self.chance.randint, self.chance.random()
        number = lambda: pick(["", "", "-", "+"]) + pick([str(whole(0, 400)), f"{whole(0, 40)}.{pick(['5', '25', '1234567'])}", ".5"])
        if kind < 0.6:
            text = " ".join(number() + pick([" ", " ", ""]) + pick(UNITS) for _ in range(whole(1, 3)))
        elif kind < 0.7:
            text = "P" + "".join(f"{whole(0, 40)}{unit}" for unit in "YMWD" if self.seldom(2))
            if self.seldom(2):
                text += "T" + "".join(pick([str(whole(0, 70)), f"{whole(0, 70)}.5"]) + unit for unit in "HMS" if self.seldom(2))
        else:
            text = f"{pick(['', '-', '+'])}{whole(0, 40)}-{whole(0, 14)}" if kind < 0.8 else ""
        if self.seldom(2.5):
            clock = [f"{whole(0, 200)}:{whole(0, 61):02}", f"{whole(0, 200)}:{whole(0, 61):02}:{whole(0, 61):02}"]
            clock += [
                f"{whole(0, 30)}:{whole(0, 59):02}:{whole(0, 59):02}.{whole(0, 99999999)}",
                f"{whole(0, 70)}:{whole(0, 61):02}.{whole(0, 999)}",
            ]
            text += pick([" ", "", f" {number()} "]) + pick(["", "-", "+"]) + pick(clock)
        text += " ago" if self.seldom(10) else ""
        text = "@ " + text if self.seldom(20) else text
        return text.replace(" ", ", ", 1) if self.seldom(20) else text or "5"

    def well_formed(self, kind):
        if kind == "interval":
            text = self.interval()
        elif kind in ("time", "timetz"):
            text = self.time() if self.seldom(1.4) else f"{self.date()} {self.time()}"
        else:
            text = self.date()
            if self.seldom(2):
                text += self.chance.choice([" ", " ", "T", "  "]) + self.time()
            elif self.seldom(3):
                text += self.zone()
            text += self.chance.choice([" BC", " AD", "BC"]) if self.seldom(20) else ""
        text = f" {text} " if self.seldom(20) else text
        return text + self.chance.choice("x,.:-/1 +") if self.seldom(30) else text

    def pieces(self):
        letters = lambda: "".join(self.chance.choice("0123456789 -/.:,+") for _ in range(self.chance.randint(1, 5)))
        one = lambda: letters() if self.seldom(4) else self.chance.choice(PIECES)
        return self.chance.choice(["", " ", " "]).join(one() for _ in range(self.chance.choice([1, 2, 2, 2, 3])))

    def one(self):
        kind = self.chance.choice(self.kinds)
        return kind, self.well_formed(kind) if self.seldom(2) else self.pieces()


def test_random_texts_mean_the_same_or_are_refused(lab):
    count = given.option("count", 4000)
    seed = given.option("seed", random.SystemRandom().randrange(1 << 32) if LONG else 1)
    texts, tally, wrong, refused = Texts(seed), Counter(), [], []
    lab.run(lab.termgate, "init", "--db", f"sqlite:{lab.folder}/app.db")
    proxy = lab.proxy(f"sqlite:{lab.folder}/app.db")
    server = lab.server("15", "fsync=off")
    sides = [pgraw.Connection(port, parameters=[("options", "-c TimeZone=UTC")], wait=60) for port in (server.port, proxy.port)]
    for _ in range(count):
        kind, text = texts.one()
        answers = []
        for side in sides:
            messages = side.query(f"SELECT '{text}'::{kind}")
            failed = [message.fields()["C"] for message in messages if message.type == "E"]
            answers.append(failed[0] if failed else [message.row() for message in messages if message.type == "D"])
        wanted, got = answers
        verdict = "refused" if got == "0A000" else "wrong" if got != wanted else "same error" if isinstance(got, str) else "same"
        tally[verdict] += 1
        if verdict == "wrong":
            wrong.append((kind, text, wanted, got))
        elif verdict == "refused" and not isinstance(wanted, str):
            refused.append((kind, text, wanted))
    for verdict, times in tally.most_common():
        note(f"{times:8} {verdict}")
    for one in wrong[:20]:
        print("wrong: %s '%s': PostgreSQL %s, here %s" % one)
    for one in refused[:200] if given.option("show", False) else []:
        print("refused: %s '%s': PostgreSQL %s" % one)
    check(f"{count} texts of seed {seed}: the same value, the same SQLSTATE, or a refusal", not wrong and tally["same"] > count / 8)
    for side in sides:
        side.end()
