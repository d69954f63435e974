#!/usr/bin/env python3
"""Writes docs/sc4s-parity.md: a row for each definition of SC4S 3.45, with the rules that stand for it.

usage: tests/sc4s/parity.py ../shared/corpus/sc4s/vendors.tsv > docs/sc4s-parity.md
"""
import collections
import csv
import pathlib
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What no rule stands for, and why.
WITHOUT = {
    "app-hec-debug": "no rule: `inrush explain` and `inrush queue cat` show what is sent",
    "app-lp-global_archive": "no rule: a `file` destination is an archive",
    "app-fix-invalid-program-ne": "not needed: the header's bytes are kept as they came",
    "app-almost-syslogz-json": "not needed: a PRI before a JSON object is read as it is",
    "app-almost-syslogz-bsd-epoch": "not needed: the parser reads epoch times",
    "app-almost-syslogz-bsd-isotime": "not needed: the parser reads ISO times",
    "app-almost-syslogz-bsd-onedigitday": "not needed: the parser reads days of one digit",
    "app-almost-syslogz-isodate": "not needed: the parser reads ISO times",
    "app-raw-bsd_nopri": "not needed: the parser reads headers without a PRI",
    "app-raw-isodate": "not needed: the parser reads headers without a PRI",
    "app-syslog-example": "an example; `example.yaml` in the guide stands for it",
}
CASES = """\
## The cases of SC4S's own tests

419 of 423 come out exactly (index, sourcetype, source, host, time to the millisecond, text where a case states it), with
`tests/sc4s/inrush.yaml`; the black-box test `packs::the_cases_of_sc4s_come_out_as_there` fails when one more does not. The others:

| case | why |
|---|---|
| `test_common_lite.py::test_fallback` | of the image without Cisco's definitions; `test_common.py::test_tz_guess` wants the opposite of the same line |
| `test_mk8s_*.py` (three) | skipped there too: they want files that the set-up does not have |

What a case wants of several messages together (four of grouping) is shown by the packs' samples and the black-box tests `groups::`; here each message is looked at alone (`--fresh`), but for `test_vmware_bsd_vpscache`, which means
the second of its messages: of a host that was a vCenter before.

## The definitions
"""
FORMATS = "not yet: a syslog destination does not exist"


def main():
    rows = list(csv.DictReader(open(sys.argv[1]), delimiter="\t", quoting=csv.QUOTE_NONE))
    rules = collections.defaultdict(list)
    for path in sorted((ROOT / "packs").glob("*.yaml")):
        for rule in yaml.safe_load(path.read_text())["rules"]:
            for name in rule.get("sc4s", []):
                rules[name].append((path.name, rule["name"], "group" in rule))
    products = {}
    for row in rows:
        product = "/".join(filter(None, (row["vendor"], row["product"])))
        if product:
            products.setdefault((row["topic"], row["application"]), product)
    seen, out, done = set(), [], 0
    for row in rows:
        key = (row["topic"], row["application"])
        if key in seen:
            continue
        seen.add(key)
        name = row["application"]
        found = rules.get(name, [])
        if found:
            names = ", ".join(f"`{rule}`" for _, rule, _ in found)
            grouped = any(group for *_, group in found)
            state = "done: parts are put together, except over RELP" if grouped else "done"
            done += 1
        elif "lp-dest-format" in row["topic"]:
            names, state = "", FORMATS
            if row["topic"].endswith("hec_fmt"):
                state = "in the product's own rules"
                done += 1
        else:
            names, state = "", WITHOUT.get(name, "not yet")
            done += state.startswith(("not needed", "no rule", "by ", "an example"))
        product = products.get(key, "")
        out.append(f"| {row['topic']} | {name} | {product} | {names} | {state} |")
    print("# Every definition of SC4S 3.45, and what stands for it\n")
    print("Written by `tests/sc4s/parity.py`; the rules are in `packs/`. A rule may stand for")
    print(f"several definitions. {done} of {len(out)} are done or not needed.\n")
    print(CASES)
    print("| topic | definition | product | rules | state |")
    print("|---|---|---|---|---|")
    print("\n".join(out))


main()
