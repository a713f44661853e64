#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes engine/text/unicode_tbl.h from the Unicode data of this Python.

    python3 tools/make_unicode.py >engine/text/unicode_tbl.h

Letters and numbers are ranges of code points; canonical decompositions are triples of one step each (0: no second code
point), sorted by the code point that they are of; compositions are the indices of those that may be undone, sorted by
their parts.  Hangul syllables follow from arithmetic and are not in the tables.
"""
import unicodedata

ALL = [chr(c) for c in range(0x110000) if not 0xd800 <= c < 0xe000]


def ranges(has):
    out = []
    for c in ALL:
        c_has = has(c)
        if c_has and out and out[-1][1] == ord(c) - 1 and out[-1][2] == c_has:
            out[-1][1] = ord(c)
        elif c_has:
            out.append([ord(c), ord(c), c_has])
    return out


def decompositions():
    out = []
    for c in ALL:
        d = unicodedata.decomposition(c)
        if d and d[0] != "<":
            parts = [int(p, 16) for p in d.split()]
            out.append((ord(c), parts[0], parts[1] if len(parts) > 1 else 0))
    return out


def table(kind, name, rows, comment, size=""):
    print(f"\n/* {comment} */\nstatic const {kind} {name}[]{size} = {{")
    line = "   "
    for r in rows:
        if len(line) + 1 + len(r) > 119:
            print(line)
            line = "   "
        line += f" {r}"
    print(line + "\n};")


def main():
    steps = decompositions()
    # What normalising does not put together again is excluded from composition.
    composed = [i for i, (c, a, b) in enumerate(steps)
                if b and unicodedata.normalize("NFC", chr(a) + chr(b)) == chr(c)]
    composed.sort(key=lambda i: steps[i][1:])
    print("/* SPDX-License-Identifier: MIT */\n"
          f"/* unicode_tbl.h - tables of Unicode {unicodedata.unidata_version}; made by tools/make_unicode.py. */\n"
          "/* clang-format off */")
    for name, letter in (("letters", "L"), ("numbers", "N")):
        rows = ranges(lambda c: unicodedata.category(c)[0] == letter)
        table("zn_range", name, [f"{{ {a:#x}, {b:#x}, 0 }}," for a, b, _ in rows],
              f"first and last code point of general category {letter}")
    rows = ranges(unicodedata.combining)
    table("zn_range", "classes", [f"{{ {a:#x}, {b:#x}, {v} }}," for a, b, v in rows],
          "first and last code point, canonical combining class")
    table("uint32_t", "steps", [f"{{ {c:#x}, {a:#x}, {b:#x} }}," for c, a, b in steps],
          "a code point, its decomposition", "[3]")
    table("uint16_t", "composed", [f"{i}," for i in composed], "indices of steps, sorted by their parts")
    print("/* clang-format on */")


main()
