#!/usr/bin/env python3
"""Writes docs/sc4s-hostile.md: other vendors' texts in the fields of each product's messages.

usage: tests/sc4s/hostile.py INRUSH [PACKS] > docs/sc4s-hostile.md

`hostile.tsv` has the messages, `marks.tsv` the texts, `hostile-known.tsv` what may come out
otherwise, and why. The black-box test `hostile::` asserts the same. PACKS: a folder of packs that
stand in for those in the binary.
"""
import collections
import html
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

HERE = pathlib.Path(__file__).resolve().parent

def table(name):
    return [line.split("\t") for line in (HERE / name).read_text().splitlines()]


def unescaped(text):
    plain = {"t": "\t", "n": "\n", "\\": "\\"}
    return re.sub(r"\\([tn\\])", lambda found: plain[found[1]], text)


def filled(message, text):
    """`{}` as it is, `{j}` as JSON writes it, `{q}` as structured data, `{x}` as XML."""
    quoted = re.sub(r'(["\\\]])', r"\\\1", text)
    xml = html.escape(text)
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
            command = [binary, "explain", "-c", "inrush.yaml", "--input", "json", "--json"]
            command.append("--fresh")
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


def differing(products, marks, known, ask, times):
    """Asks each message with each mark; returns what came out otherwise, by product and taker."""
    pairs = []
    for row in products:
        pairs += [(row, mark) for vendor, mark in marks if not row[0].startswith(vendor)]
    raws = [filled(unescaped(row[5]), " ".join([mark] * times)) for row, mark in pairs]
    otherwise = collections.defaultdict(set)
    for (row, mark), answer in zip(pairs, ask([row for row, _ in pairs], raws)):
        if place(answer) != (row[2], row[3]):
            otherwise[row[0]].add(taker(answer))
            if row[0] not in known.get(taker(answer), ()):
                print(f"not known: {row[0]} taken by {taker(answer)} with {mark}", file=sys.stderr)
    return len(pairs), otherwise


def main():
    binary = str(pathlib.Path(sys.argv[1]).resolve())
    packs = str(pathlib.Path(sys.argv[2]).resolve()) if len(sys.argv) > 2 else ""
    products, marks, rows = table("hostile.tsv"), table("marks.tsv"), table("hostile-known.tsv")
    known = {row[0]: set(row[3].split()) for row in rows}

    def ask(some, raws):
        return explained(binary, packs, some, raws)

    pairs, otherwise = differing(products, marks, known, ask, 1)
    _, twice = differing(products, marks, known, ask, 2)
    empty = ask(products, [filled(unescaped(row[5]), "") for row in products])
    long = ask(products, [filled(unescaped(row[5]), "a b " * 16384) for row in products])
    print(HEAD.format(products=len(products), marks=len(marks), pairs=pairs))
    print("| text | whose |\n|---|---|")
    for vendor, mark in marks:
        print(f"| `{mark.replace('|', chr(92) + '|')}` | {vendor.strip('_')} |")
    print(BY_ROWS.format(pairs=sum(map(len, otherwise.values())), products=len(otherwise)))
    for name, definition, row, taken in rows:
        row = row.replace("|", "\\|")
        taken = f"{len(taken.split())}: {taken.replace(' ', ', ')}"
        print(f"| `{name}` | {definition} | {row} | {taken} |")
    print(PRODUCTS)
    for row, first, second in zip(products, empty, long):
        sender = row[1] or "-"
        names = sorted(otherwise.get(row[0], set()) | twice.get(row[0], set()))
        cells = [f"`{row[0]}`", sender, row[2], row[3], ", ".join(names) or "none"]
        for one in (first, second):
            cells.append("own" if place(one) == (row[2], row[3]) else place(one)[0])
        print("| " + " | ".join(cells) + " |")


HEAD = """\
# Texts of other vendors where an attacker can write

Written by `tests/sc4s/hostile.py`. The black-box test `sc4s_hostile::` makes the same checks.

An attacker can choose URLs, user agents, names of users and files, subjects and names in DNS. Such
a field can contain the text by which the events of another vendor are recognised. It must not
change the recognised product of the event, except where it does so in SC4S too.

The test has {products} messages, one for each product and each way in which it is recognised
(`tests/sc4s/hostile.tsv`), and {marks} texts of other vendors (`tests/sc4s/marks.tsv`). Without a
vendor's own texts, that makes {pairs} pairs. Each pair was classified with the text once and with the
text twice. Each message was also classified with an empty field, with 64 KiB in it and, by the
black-box test alone, with bytes that are not UTF-8.

## The texts
"""
BY_ROWS = """
## What comes out as another's, as at SC4S

SC4S searches the whole message for some texts, in the order of its definitions. Definitions that
recognise a sender by its address come last. Where the definition of SC4S lets the text decide, the
text decides here too: {pairs} times, for {products} products.

| rule that takes it | definition of SC4S | what its row says | products |
|---|---|---|---|"""
PRODUCTS = """
## By product

`sender` is the configured product of the sender, or the port of its listener. `other` lists the
rules that match the event with some of the texts in it. `empty` and `64 KiB` are the results with
an empty field and with 64 KiB in it: `own` is the product's own sourcetype and index.

| rule | sender | sourcetype | index | other | empty | 64 KiB |
|---|---|---|---|---|---|---|"""
main()
