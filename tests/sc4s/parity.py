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

419 of 423 cases have exactly the expected result with `tests/sc4s/inrush.yaml`. The comparison covers index, sourcetype, source, host, time
to the millisecond, and the text if the case has one. The black-box test `packs::the_cases_of_sc4s_come_out_as_there` fails if one more
case differs. These cases differ:

| case | why |
|---|---|
| `test_common_lite.py::test_fallback` | for the image without Cisco's definitions; `test_common.py::test_tz_guess` expects the opposite for the same line |
| `test_mk8s_*.py` (three) | SC4S skips them too: they need files that the set-up does not have |

Four cases expect a result of several messages together (grouping). The samples of the packs and the black-box tests `groups::` cover them;
this comparison looks at each message alone (`--fresh`). The exception is `test_vmware_bsd_vpscache`. It is about its second message, from a
host that was recognised as a vCenter before.

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
    print("Written by `tests/sc4s/parity.py`. The rules are in `packs/`, and one rule may stand for several")
    print(f"definitions. {done} of {len(out)} definitions are done or not needed.\n")
    print(CASES)
    print("| topic | definition | product | rules | state |")
    print("|---|---|---|---|---|")
    print("\n".join(out))


main()
