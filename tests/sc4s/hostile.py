#!/usr/bin/env python3
"""Writes docs/sc4s-hostile.md: other vendors' texts in the fields of each product's messages.

usage: tests/sc4s/hostile.py INRUSH [PACKS] > docs/sc4s-hostile.md

`hostile.tsv` has the messages, `marks.tsv` the texts, `hostile-known.tsv` what may come out
otherwise, and why. The black-box test `hostile::` asserts the same. PACKS: a folder of packs that
stand in for those in the binary.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

HERE = pathlib.Path(__file__).resolve().parent
FALLBACKS = {"sc4s:fallback", "nix:syslog", "cef", "json"}


def table(name):
    return [line.split("\t") for line in (HERE / name).read_text().splitlines()]


def unescaped(text):
    plain = {"t": "\t", "n": "\n", "\\": "\\"}
    return re.sub(r"\\([tn\\])", lambda found: plain[found[1]], text)


def filled(message, text):
    """`{}` as it is, `{j}` as JSON writes it, `{q}` as structured data, `{x}` as XML."""
    quoted = re.sub(r'(["\\\]])', r"\\\1", text)
    xml = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    ways = {"": text, "j": json.dumps(text)[1:-1], "q": quoted, "x": xml}
    return re.sub(r"\{([jqx]?)\}", lambda found: ways[found[1]], message)


def explained(binary, packs, rows, raws):
    """What comes of each text, from the sender and under the option that its row names."""
    found = [None] * len(raws)
    for option in sorted({row[4] for row in rows}):
        some = [number for number, row in enumerate(rows) if row[4] == option]
        with tempfile.TemporaryDirectory() as folder:
            ports = configuration(pathlib.Path(folder), packs, rows, option)
            lines = []
            for number in some:
                listener = f"tcp:{ports[rows[number][1]]}"
                line = {"raw": raws[number], "peer": "127.0.0.1", "listener": listener}
                lines.append(json.dumps(line | {"received_at": 1714979289.5}))
            command = [binary, "explain", "-c", "inrush.yaml", "--input", "json", "--json", "--fresh"]
            text = "\n".join(lines)
            said = subprocess.run(command, input=text, text=True, capture_output=True, cwd=folder)
        answers = [json.loads(line) for line in said.stdout.splitlines()]
        assert len(answers) == len(some), said.stderr[:500]
        for number, answer in zip(some, answers):
            found[number] = answer
    return found


def configuration(folder, packs, rows, option):
    """Writes `inrush.yaml` with a source for each hint; returns the ports."""
    config = yaml.safe_load((HERE / "inrush.yaml").read_text())
    ports = {"": 514}
    for number, hint in enumerate(sorted({row[1] for row in rows} - {""})):
        ports[hint] = 20000 + number
        if "/" not in hint:
            ports[hint] = int(hint)
            continue
        source = {"type": "syslog", "listen": [f"tcp://0.0.0.0:{ports[hint]}"], "timezone": "UTC"}
        config["sources"][f"hint_{number}"] = source | {"product": hint}
    if option:
        name, value = option.split("=")
        config["packs"]["options"][name] = value
    config["packs"]["files"] = [packs] if packs else []
    (folder / "inrush.yaml").write_text(yaml.safe_dump(config))
    return ports


def place(answer):
    hec = answer["hec"] or {}
    return hec.get("sourcetype", "dropped"), hec.get("index", "main")


def taker(answer):
    return (answer.get("rule") or "").split("|")[-1]


def main():
    binary = str(pathlib.Path(sys.argv[1]).resolve())
    packs = str(pathlib.Path(sys.argv[2]).resolve()) if len(sys.argv) > 2 else ""
    products, marks = table("hostile.tsv"), table("marks.tsv")
    pairs = [(row, mark) for row in products for vendor, mark in marks if not row[0].startswith(vendor)]
    raws = [filled(unescaped(row[5]), mark) for row, mark in pairs]
    found = explained(binary, packs, [row for row, _ in pairs], raws)
    for (row, mark), answer, raw in zip(pairs, found, raws):
        if place(answer) != (row[2], row[3]):
            print(row[0], mark, (row[2], row[3]), place(answer), answer.get("rule"), raw[:200], sep=" | ")
    print(len(pairs))


main()
