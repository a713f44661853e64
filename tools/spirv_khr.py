#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""SPIR-V with SPV_NV_cooperative_matrix to SPV_KHR_cooperative_matrix: spirv_khr.py IN.spv OUT.num

Compilers up to glslang 12 have only NVIDIA's older extension in GLSL, drivers of all vendors the newer one.  They differ in
numbers, in the order of operands, and in that a type says what it is used for.  The sizes say that here: they are
specialisation constants, A being M x K (24, 26), B K x N and sums M x N (N is 25).  OUT has the words as C numbers."""
import struct
import sys

CAPABILITY, EXTENSION, DECORATE, TYPE_INT, CONSTANT_TRUE, CONSTANT = 17, 10, 71, 21, 41, 43
NV_TYPE, NV_LOAD, NV_STORE, NV_MULADD, NV_LENGTH, NV_CAPABILITY = 5358, 5359, 5360, 5361, 5362, 5357
KHR_TYPE, KHR_LOAD, KHR_STORE, KHR_MULADD, KHR_LENGTH, KHR_CAPABILITY = 4456, 4457, 4458, 4459, 4460, 6022
SPEC_ID, M, N, K = 1, 24, 25, 26
USE = {(M, K): 0, (K, N): 1, (M, N): 2}


def instructions(words):
    at = 5
    while at < len(words):
        size = words[at] >> 16
        assert size > 0 and at + size <= len(words), "not SPIR-V"
        yield words[at] & 0xFFFF, words[at + 1 : at + size]
        at += size


def text(string):
    data = string.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack("<%dI" % (len(data) // 4), data))


def translate(words):
    bound = words[3]
    small = [bound, bound + 1, bound + 2]  # the constants 0, 1 and 2
    spec, true, out, made = {}, set(), [], False
    for op, w in instructions(words):
        if op == DECORATE and w[1] == SPEC_ID:
            spec[w[0]] = w[2]
        elif op == CONSTANT_TRUE:
            true.add(w[1])
    for op, w in instructions(words):
        more = []
        if op == CAPABILITY and w[0] == NV_CAPABILITY:
            w = [KHR_CAPABILITY]
        elif op == EXTENSION and w == text("SPV_NV_cooperative_matrix"):
            w = text("SPV_KHR_cooperative_matrix")
        elif op == TYPE_INT and w[1:] == [32, 0] and not made:
            more = [(CONSTANT, [w[0], small[i], i]) for i in range(3)]
            made = True
        elif op == NV_TYPE:
            assert made
            op, w = KHR_TYPE, w + [small[USE[spec[w[3]], spec[w[4]]]]]
        elif op == NV_LOAD:
            op, w = KHR_LOAD, w[:3] + [small[w[4] in true], w[3]] + w[5:]
        elif op == NV_STORE:
            op, w = KHR_STORE, w[:2] + [small[w[3] in true], w[2]] + w[4:]
        elif op == NV_MULADD:
            op = KHR_MULADD
        elif op == NV_LENGTH:
            op = KHR_LENGTH
        for o, v in [(op, w)] + more:
            out += [(len(v) + 1) << 16 | o] + v
    return words[:3] + [bound + 3, words[4]] + out


def main():
    data = open(sys.argv[1], "rb").read()
    words = translate(list(struct.unpack("<%dI" % (len(data) // 4), data)))
    with open(sys.argv[2], "w") as out:
        out.write(",\n".join(",".join("0x%08x" % w for w in words[i : i + 8]) for i in range(0, len(words), 8)) + "\n")


main()
