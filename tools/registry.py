#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""registry.py - the tests that meson lists, for ./run test and for the table of CONTRIBUTING.md.

    registry.py [--ci] WORLD=BUILD...      one line a test that ./run test runs:
                                           WORLD, lane, priority, name, command for a shell; tabs between them
    registry.py --attack WORLD=BUILD...    the same of those for ./run attack; the lane is what their number is: seconds, times
    registry.py --files WORLD=BUILD...     the files of tests/ that these tests consist of
    registry.py --table WORLD=BUILD...     the table of CONTRIBUTING.md

WORLD is a kind of build: gcc, clang, sanitizers, threads, emulated.  The `suite` of a test() in tests/meson.build says
where it runs: one lane, and its worlds, each followed by -ci or -local if it runs there only with or without CI set.
"""
import json
import os
import shlex
import subprocess
import sys

LANES = ("engine", "gimp", "dialog", "common", "alone")
WORLDS = ("gcc", "sanitizers", "clang", "threads", "emulated")
LABELS = ("gimp2", "gimp3", "data", "attack", "times")


def introspect(build, what):
    said = subprocess.run(["meson", "introspect", "--" + what, build], check=True, stdout=subprocess.PIPE)
    return json.loads(said.stdout)


def tags(test):
    """The words of a test's suite, of which meson makes "zenith:word"."""
    return [s.split(":", 1)[1] for s in test["suite"] if ":" in s]


def check(test):
    words = tags(test)
    lanes = [w for w in words if w in LANES]
    worlds = [w for w in words if w.partition("-")[0] in WORLDS]
    odd = [w for w in words if w not in lanes + worlds and w not in LABELS]
    if len(lanes) != 1 or not worlds or odd:
        sys.exit(f"registry.py: test('{test['name']}') needs one lane, its worlds, and nothing else: suite is {words}")
    return lanes[0], worlds


def command(test):
    # meson adds the folders of libraries a test depends on: our modules are found without it
    env = [f"{k}={v}" for k, v in sorted(test["env"].items()) if k != "LD_LIBRARY_PATH"]
    return shlex.join(["env", *env, *test["cmd"]] if env else test["cmd"])


def lines(builds, ci, attack):
    for world, build in builds:
        for test in introspect(build, "tests"):
            lane, worlds = check(test)
            if attack and "attack" not in tags(test):
                continue
            if attack:
                lane = "times" if "times" in tags(test) else "seconds"
            if world in worlds or world + ("-ci" if ci else "-local") in worlds:
                name = test["name"] + ("" if world == "gcc" else ", " + world)
                yield world, lane if attack or world == "gcc" else "common", test["priority"], name, command(test)


def files(builds):
    """Scripts among the words of a command, and the sources of its programs, as paths below tests/."""
    root = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + "/tests/"
    for world, build in builds:
        sources = {}
        for target in introspect(build, "targets"):
            for name in target["filename"]:
                sources[os.path.realpath(name)] = [s for group in target["target_sources"] for s in group.get("sources", [])]
        for test in introspect(build, "tests"):
            if not any(w.partition("-")[0] == world for w in check(test)[1]):
                continue
            for word in test["cmd"]:
                for path in [word, *sources.get(os.path.realpath(word), [])]:
                    if os.path.isfile(path) and os.path.realpath(path).startswith(root):
                        yield os.path.realpath(path)[len(root):]


def table(builds):
    """A line for all tests that run in the same worlds.  The builds list the same tests, but for those of one compiler."""
    rows, known = {}, set()
    said = {"": "yes", "ci": "CI", "local": "not CI"}
    for _, build in builds:
        for test in introspect(build, "tests"):
            if test["name"] in known:
                continue
            known.add(test["name"])
            worlds = dict(w.partition("-")[::2] for w in check(test)[1])
            words = tags(test)
            gimp = " ".join(n for w, n in (("gimp2", "2.10"), ("gimp3", "3")) if w in words)
            language = test["env"].get("LC_ALL", "C").partition(".")[0]
            cells = [language, *(said[worlds[w]] if w in worlds else "" for w in WORLDS), gimp, "yes" if "data" in words else ""]
            rows.setdefault(tuple(cells), []).append(test["name"])
    yield "| suites | language | " + " | ".join(WORLDS) + " | GIMP | data |"
    yield "|---|---|" + "---|" * (len(WORLDS) + 2)
    for cells, names in sorted(rows.items()):
        yield "| " + " | ".join(["; ".join(sorted(names)), *cells]) + " |"


def main():
    args = sys.argv[1:]
    flags = [a for a in args if a.startswith("--")]
    builds = [a.split("=", 1) for a in args if not a.startswith("--")]
    if not builds or any(w not in WORLDS for w, _ in builds) or any(f not in ("--ci", "--attack", "--files", "--table") for f in flags):
        sys.exit(__doc__)
    if "--files" in flags:
        print("\n".join(sorted(set(files(builds)))))
    elif "--table" in flags:
        print("\n".join(table(builds)))
    else:
        for line in sorted(lines(builds, "--ci" in flags, "--attack" in flags), key=lambda line: -line[2]):
            print("\t".join(map(str, line)))


main()
