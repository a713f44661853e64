#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""english.py FILE.mo... <TEXT - messages back into the language of the source, for tests that run in another one.

Each translation in the text becomes its English original, with the values it holds; the longest first, then what is
around it and in it.  Text that is no translation stays, so that a message that was never translated is English too:
tests/plugin/po.sh finds those.
"""
import gettext
import re
import sys

SPEC = re.compile(r"%(?:(\d+)\$)?[-+ 0#']*[0-9*]*(?:\.[0-9*]+)?(?:hh|h|ll|l|z|j|t)?([a-zA-Z%])")


def pattern(translation):
    """A regular expression for a translation with values in it, and which value each of its groups is."""
    out, order, at = "", [], 0
    for spec in SPEC.finditer(translation):
        out += re.escape(translation[at:spec.start()])
        at = spec.end()
        if spec[2] == "%":
            out += "%"
        else:
            order.append(int(spec[1]) - 1 if spec[1] else len(order))
            out += "(.*)" if at == len(translation) else "(.*?)"
    out += re.escape(translation[at:])
    if not order:
        out = r"(?<!\w)" + out + r"(?!\w)"
    return re.compile(out), order


def entries(files):
    for name in files:
        with open(name, "rb") as f:
            catalog = gettext.GNUTranslations(f)._catalog
        for key, text in catalog.items():
            english = (key[0] if isinstance(key, tuple) else key).rpartition("\4")[2]
            text = text.replace("_", "")
            letters = sum(c.isalpha() for c in SPEC.sub("", text))
            if english and letters > 2 and "\n" not in text:
                yield letters, text, english.replace("_", "")


def main():
    known = [(*pattern(text), english) for _, text, english in sorted(entries(sys.argv[1:]), reverse=True)]

    def back(text):
        for regex, order, english in known:
            m = regex.search(text)
            if not m or not m[0]:
                continue
            values = dict(zip(order, m.groups()))
            parts, at, n = [back(text[:m.start()])], 0, 0
            for spec in SPEC.finditer(english):
                parts.append(english[at:spec.start()])
                at = spec.end()
                parts.append("%" if spec[2] == "%" else back(values.get(n, "")))
                n += spec[2] != "%"
            return "".join([*parts, english[at:], back(text[m.end():])])
        return text

    for line in sys.stdin:
        print(back(line.rstrip("\n")))


main()
