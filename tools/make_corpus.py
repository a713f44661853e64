#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/fuzz/corpus: small weight files, good ones and every kind of bad one.

    python3 tools/make_corpus.py [folder]

They seed the fuzzer, and tests/unit/test_weights.c knows what each must give: a file added here
needs a line there.  Only the standard library is used; the bytes are the same on every run."""

import json
import os
import struct
import sys

files = {}


# ---- safetensors ------------------------------------------------------------------------------

def st(header, data=b"", length=None):
    """header: an object, or the text itself."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def one(dtype="F32", shape=(2,), offsets=(0, 8), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


def raw(text, data=bytes(8)):
    return st(text.encode() if isinstance(text, str) else text, data)


TENSOR = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'

# 0, 1, 2, 3 in every type, then what is peculiar to the small floating types
PLAIN = {
    "BOOL": bytes([0, 1, 2, 3]), "U8": bytes([0, 1, 2, 3]), "I8": bytes([0, 1, 2, 3]),
    "I16": struct.pack("<4h", 0, 1, 2, 3), "U16": struct.pack("<4H", 0, 1, 2, 3),
    "I32": struct.pack("<4i", 0, 1, 2, 3), "U32": struct.pack("<4I", 0, 1, 2, 3),
    "I64": struct.pack("<4q", 0, 1, 2, 3), "U64": struct.pack("<4Q", 0, 1, 2, 3),
    "F16": struct.pack("<4e", 0, 1, 2, 3), "BF16": struct.pack("<4H", 0, 0x3F80, 0x4000, 0x4040),
    "F32": struct.pack("<4f", 0, 1, 2, 3), "F64": struct.pack("<4d", 0, 1, 2, 3),
    "F8_E4M3": bytes([0, 0x38, 0x40, 0x44]), "F8_E5M2": bytes([0, 0x3C, 0x40, 0x42]),
}
SPECIAL = {  # largest, smallest subnormal, -smallest normal, infinity or largest negative, no number
    "F16": struct.pack("<5H", 0x7BFF, 0x0001, 0x8400, 0x7C00, 0x7E00),
    "BF16": struct.pack("<5H", 0x7F7F, 0x0001, 0x8080, 0x7F80, 0x7FC0),
    "F8_E4M3": bytes([0x7E, 0x01, 0x88, 0xFE, 0x7F]),
    "F8_E5M2": bytes([0x7B, 0x01, 0x84, 0x7C, 0x7E]),
    "I8": struct.pack("<5b", 127, -1, -2, -128, 5), "I16": struct.pack("<5h", 32767, -1, -2, -32768, 5),
    "I64": struct.pack("<5q", 1 << 40, -1, -2, -(1 << 40), 5),
    "U64": struct.pack("<5Q", 1 << 63, 1, 2, 3, 5),
}


def safetensors():
    header, data = {}, b""
    for kind, table in (("plain", PLAIN), ("special", SPECIAL)):
        for name, part in table.items():
            n = 4 if kind == "plain" else 5
            header[f"{kind}.{name}"] = one(name, (2, 2) if n == 4 else (5,),
                                           (len(data), len(data) + len(part)))
            data += part
    files["st-dtypes"] = st(header, data)
    files["st-order"] = st(
        {"second": one("F32", (2, 1), (4, 12)), "__metadata__": {"format": "pt", "a\"\n": "\u00e9"},
         "first": one("F32", (), (0, 4)), "empty": one("F16", (3, 0, 2), (4, 4)),
         "tail": one("I8", (1, 1, 1, 1, 1, 1, 1, 3), (12, 15))},
        struct.pack("<3f", 1.5, -2, 4) + b"\1\2\xff")
    files["st-names"] = raw('{"\\u00e9\\ud83d\\ude00\\/\\\\\\"\\b\\f\\n\\r\\t":' + TENSOR + ' }\t\r\n   ')
    files["st-utf8"] = raw('{"\u00e9\u20ac\U0001f600":' + TENSOR + '}')
    files["st-unknown-member"] = raw(
        '{"a":{"new":[1,-2.5e+3,{"x":null,"y":[true,false,[]],"z":{}},"s"],' + TENSOR[1:] + '}')
    bad = {
        "hole": st({"a": one(), "b": one("F32", (1,), (12, 16))}, bytes(16)),
        "hole-first": st({"a": one("F32", (2,), (4, 12))}, bytes(12)),
        "trailing": st({"a": one()}, bytes(9)),
        "overlap": st({"a": one(), "b": one("F32", (2,), (4, 12))}, bytes(12)),
        "same-place": st({"a": one(), "b": one()}, bytes(8)),
        "range": st({"a": one()}, bytes(7)),
        "range-back": st({"a": one("F32", (2,), (8, 0))}, bytes(8)),
        "range-negative": st({"a": one("F32", (2,), (-8, 0))}, bytes(8)),
        "bytes": st({"a": one("F32", (3,))}, bytes(8)),
        "twice": raw('{"a":' + TENSOR + ',"a":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}}'),
        "member-twice": raw('{"a":{"dtype":"F32",' + TENSOR[1:] + '}'),
        "member-missing": raw('{"a":{"dtype":"F32","shape":[2]}}'),
        "dtype": st({"a": one("F4")}, bytes(8)),
        "shape-negative": st({"a": one("F32", (-2,))}, bytes(8)),
        "shape-overflow": st({"a": one("F32", (1 << 62, 4, 2))}, bytes(8)),
        "shape-overflow-empty": st({"a": one("F32", (1 << 62, 1 << 62, 0), (0, 0))}),
        "shape-float": raw(TENSOR.join(['{"a":', '}']).replace("[2]", "[2.0]")),
        "shape-huge": raw(TENSOR.join(['{"a":', '}']).replace("[2]", "[9223372036854775808]")),
        "shape-zero": raw(TENSOR.join(['{"a":', '}']).replace("[2]", "[02]")),
        "dims": st({"a": one("F32", (1,) * 8 + (2,))}, bytes(8)),
        "offsets": raw(TENSOR.join(['{"a":', '}']).replace("[0,8]", "[0,8,8]")),
        "header-long": st({"a": one()}, bytes(8), 1 << 40),
        "header-cut": st({"a": one()}, b"", 1000),
        "json-cut": raw('{"a":' + TENSOR),
        "json-tail": raw('{"a":' + TENSOR + '}x'),
        "json-comma": raw('{"a":' + TENSOR + ',}'),
        "json-no-comma": raw('{"a":' + TENSOR + ' "b":' + TENSOR + '}'),
        "json-colon": raw('{"a"' + TENSOR + '}'),
        "json-array": raw('{"a":[1]}'),
        "json-deep": raw('{"a":{"x":' + "[" * 70 + "]" * 70 + "," + TENSOR[1:] + '}'),
        "json-value": raw('{"a":{"x":01,' + TENSOR[1:] + '}'),
        "json-word": raw('{"a":{"x":nul,' + TENSOR[1:] + '}'),
        "meta-number": raw('{"__metadata__":{"a":1}}', b""),
        "meta-twice": raw('{"__metadata__":{},"__metadata__":{}}', b""),
        "surrogate": raw('{"\\ud83d":' + TENSOR + '}'),
        "surrogate-pair": raw('{"\\ud83d\\u0041":' + TENSOR + '}'),
        "escape": raw('{"\\x":' + TENSOR + '}'),
        "escape-hex": raw('{"\\u00g0":' + TENSOR + '}'),
        "zero": raw('{"\\u0000":' + TENSOR + '}'),
        "control": raw('{"\1":' + TENSOR + '}'),
        "utf8": raw(b'{"\xc0\x80":' + TENSOR.encode() + b'}'),
        "utf8-surrogate": raw(b'{"\xed\xa0\x80":' + TENSOR.encode() + b'}'),
        "utf8-cut": raw(b'{"\xe2\x82'),
        "nothing": st({}),
    }
    files.update({"bad-st-" + k: v for k, v in bad.items()})


# ---- pickles ------------------------------------------------------------------------------------

def i(n):
    if 0 <= n < 256:
        return b"K" + bytes([n])
    if 0 <= n < 65536:
        return b"M" + struct.pack("<H", n)
    if -2**31 <= n < 2**31:
        return b"J" + struct.pack("<i", n)
    return b"\x8a\x08" + struct.pack("<q", n)


def u(s):
    s = s.encode() if isinstance(s, str) else s
    return b"X" + struct.pack("<I", len(s)) + s


def g(module, name):
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


def t(*items):
    return b"(" + b"".join(items) + b"t"


def d(*pairs):
    return b"}(" + b"".join(k + v for k, v in pairs) + b"u"


def call(fn, *args):
    return fn + t(*args) + b"R"


def storage(key="0", cls="FloatStorage", n=4, module="torch"):
    return t(u("storage"), g(module, cls), u(key), u("cpu"), i(n)) + b"Q"


ORDERED = call(g("collections", "OrderedDict"))
V2 = g("torch._utils", "_rebuild_tensor_v2")
V3 = g("torch._utils", "_rebuild_tensor_v3")


def tensor(store=None, offset=0, shape=(4,), stride=(1,)):
    return call(V2, store or storage(), i(offset), t(*map(i, shape)), t(*map(i, stride)), b"\x89",
                ORDERED)


def tensor3(dtype, n, offset=0, shape=(2, 2), stride=(2, 1)):
    return call(V3, storage("0", "UntypedStorage", n, "torch.storage"), i(offset),
                t(*map(i, shape)), t(*map(i, stride)), b"\x89", ORDERED, g("torch", dtype))


# ---- zip --------------------------------------------------------------------------------------

def archive(members, zip64=False, comment=b"", method=0, flags=0x808, root="archive"):
    """members: name -> bytes.  Sizes are in the directory only, and data is aligned, as PyTorch does."""
    out, directory = b"", b""
    for name, data in members.items():
        full = (root + "/" + name).encode()
        at = len(out)
        pad = -(at + 30 + len(full) + 4) % 64
        out += struct.pack("<4s5H3I2H", b"PK\3\4", 0, flags, method, 0, 0, 0, 0, 0, len(full), 4 + pad)
        out += full + b"FB" + struct.pack("<H", pad) + b"Z" * pad + data
        extra = b""
        size, where = len(data), at
        if zip64:
            extra = b"XX\2\0ab" + struct.pack("<HHQQQ", 1, 24, size, size, at)
            size = where = 0xFFFFFFFF
        directory += struct.pack("<4s6H3I5H2I", b"PK\1\2", 0, 0, flags, method, 0, 0, 0, size, size,
                                 len(full), len(extra), 0, 0, 0, 0, where) + full + extra
    at, n = len(out), len(members)
    out += directory
    if zip64:
        end = len(out)
        out += struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, n, n, len(directory), at)
        out += struct.pack("<4sIQI", b"PK\6\7", 0, end, 1)
        return out + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 65535, 65535, 0xFFFFFFFF, 0xFFFFFFFF,
                                 len(comment)) + comment
    return out + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, n, n, len(directory), at,
                             len(comment)) + comment


FOUR = struct.pack("<4f", 0, 1, 2, 3)


def pt(body, data=None, order=b"little", proto=b"\x80\2", **options):
    members = {"data.pkl": proto + body + b"."}
    if order:
        members["byteorder"] = order
    members.update({"data/" + k: v for k, v in ({"0": FOUR} if data is None else data).items()})
    members["version"] = b"3\n"
    return archive(members, **options)


def wrapped(key):
    return pt(d((u("epoch"), i(3)), (u(key), d((u("w"), tensor())))))


def torch_good():
    state = (ORDERED + b"(" + u("w") + tensor(storage() + b"q\1") +
             u("w.t") + tensor(b"h\1", 0, (2, 2), (1, 2)) + u("slice") + tensor(b"h\1", 1, (2,), (2,)) +
             u("scalar") + tensor(b"h\1", 3, (), ()) + u("empty") + tensor(b"h\1", 4, (0, 3), (3, 1)) +
             u("odd") + tensor(b"h\1", 2, (1, 2), (1 << 40, 1)) + b"u" +
             b"}" + u("_metadata") + ORDERED + b"sb")
    files["pt-plain"] = pt(state)
    files["pt-zip64"] = pt(state, zip64=True, comment=b"with a comment")
    files["pt-old"] = pt(state, order=None, root="some name")
    plain = [("Float", "F32"), ("Double", "F64"), ("Half", "F16"), ("BFloat16", "BF16"),
             ("Long", "I64"), ("Int", "I32"), ("Short", "I16"), ("Char", "I8"), ("Byte", "U8"),
             ("Bool", "BOOL")]
    files["pt-dtypes"] = pt(
        d(*[(u(s), tensor(storage(s, c + "Storage", 4), 0, (2, 2), (2, 1))) for c, s in plain]),
        {s: PLAIN[s] for _, s in plain})
    for torch, s in (("uint16", "U16"), ("uint32", "U32"), ("uint64", "U64"),
                     ("float8_e4m3fn", "F8_E4M3"), ("float8_e5m2", "F8_E5M2")):
        files["pt-v3-" + torch] = pt(d((u(s), tensor3(torch, len(PLAIN[s])))), {"0": PLAIN[s]})
    for key in ("state_dict", "model_state_dict", "params", "params_ema"):
        files["pt-" + key.replace("_", "-")] = wrapped(key)
    files["pt-ema-first"] = pt(d((u("params"), d((u("w"), tensor()))),
                                 (u("params_ema"), d((u("e"), tensor())))))
    files["pt-params-tensor"] = pt(d((u("params"), tensor()), (u("x"), d((u("y"), tensor())))))
    files["pt-nested"] = pt(d((u("a"), d((u("b"), d((u("c"), tensor()))), (u("n"), i(1)))),
                              (u("d"), tensor()), (u("list"), b"](" + tensor() + b"e"),
                              (i(7), tensor())))
    files["pt-bare"] = pt(tensor())
    files["pt-expanded"] = pt(d((u("w"), tensor(None, 1, (3, 2), (0, 2)))))
    files["pt-again"] = pt(d((u("w"), tensor(None, 0)), (u("x"), i(1)), (u("x"), tensor()),
                             (u("y"), tensor()), (u("y"), b"N"), (u("w"), tensor(None, 1, (2,)))))
    parameter = call(g("torch._utils", "_rebuild_parameter"), tensor(), b"\x88", ORDERED)
    subclass = call(g("torch._tensor", "_rebuild_from_type_v2"), V2, g("torch", "Tensor"),
                    t(storage(), i(0), t(i(4)), t(i(1)), b"\x89", ORDERED), d((u("x"), i(1))))
    old = call(g("torch._utils", "_rebuild_tensor"), storage(), i(0), t(i(4)), t(i(1)))
    files["pt-parameter"] = pt(d((u("p"), parameter), (u("s"), subclass), (u("o"), old)))
    # every opcode that is known, most of them around values that do not matter
    odd = (b"](K\1J\xff\xff\xff\xff\x8a\0\x8a\1\xff\x8a\x09" + b"\1" * 9 + b"\x8b\2\0\0\0\1\1"
           b"G?\xf0\0\0\0\0\0\0\x88\x89NU\2abT\2\0\0\0abC\1xB\1\0\0\0x\x8c\1z\x85\x86\x87)e(lNa" +
           b"(\x91\x8f(K\1\x90K\1N0" + b"0(NN1" + b"(K\1K\2d2" +
           b"I12\nI-5\nI01\nL99999999999999999999L\nL7L\nIx\np5\ng5\n" +
           b"\x8d\1\0\0\0\0\0\0\0y\x8e\1\0\0\0\0\0\0\0y\x96\1\0\0\0\0\0\0\0y" +
           g("my.module", "Class") + b")\x81}b" + g("my.module", "Class") + b")}\x92" +
           g("posix", "system") + t(u("false")) + b"R(K\1K\2u(K\1e" + u("mod") + u("Name") + b"\x93" +
           u("not a storage") + b"Q" + b"r\0\1\0\0j\0\1\0\0")
    files["pt-opcodes"] = pt(d((u("state_dict"), d((u("w"), tensor())))) + odd.join((b"(", b"1")),
                             proto=b"\x80\4\x95\0\0\0\0\0\0\0\0")
    # protocol 4: names through the stack, memo without numbers
    v2 = b"\x8c\x0ctorch._utils\x8c\x12_rebuild_tensor_v2\x93\x94"
    store = b"(\x8c\7storage\x94\x8c\5torch\x8c\x0cFloatStorage\x93\x8c\0010\x8c\3cpuK\4tQ"
    files["pt-protocol4"] = pt(b"}\x94\x8c\1w\x94" + v2 + b"(" + store + b"K\0K\4\x85K\1\x85\x89}tRs",
                               proto=b"\x80\4\x95" + bytes(8))


def torch_bad():
    def w(*args, **more):
        return pt(d((u("w"), tensor(*args))), **more)

    bad = {
        "storage-missing": pt(d((u("w"), tensor(storage("1"))))),
        "storage-short": pt(d((u("w"), tensor(storage("0", n=5))))),
        "storage-negative": pt(d((u("w"), tensor(storage("0", n=-1))))),
        "storage-overflow": pt(d((u("w"), tensor(storage("0", n=1 << 62))))),
        "storage-key": pt(d((u("w"), tensor(storage("k" * 300))))),
        "stride-far": w(None, 0, (4,), (2,)),
        "stride-negative": w(None, 3, (4,), (-1,)),
        "stride-overflow": w(None, 0, (2, 2), (1 << 62, 1 << 62)),
        "stride-count": w(None, 0, (2, 2), (1,)),
        "offset": w(None, 1, (4,), (1,)),
        "offset-negative": w(None, -1, (4,), (1,)),
        "offset-overflow": w(None, (1 << 63) - 1, (4,), (1,)),
        "v3-far": pt(d((u("w"), tensor3("uint64", 16)))),
        "shape-negative": w(None, 0, (-4,), (1,)),
        "shape-overflow": w(None, 0, (1 << 40, 1 << 40), (0, 0)),
        "repeats": w(None, 0, (1 << 20, 1 << 20), (0, 0)),
        "shared": pt(d(*[(u(f"w{n}"), tensor(b"h\1" if n else storage("0", "ByteStorage", 8192) + b"q\1", 0, (8192,))) for n in range(256)]),
                     {"0": bytes(8192)}),
        "dims": w(None, 0, (1,) * 9, (1,) * 9),
        "dtype": pt(d((u("w"), tensor(storage("0", "ComplexFloatStorage", 2), 0, (2,))))),
        "dtype-v3": pt(d((u("w"), tensor3("float4_e2m1fn_x2", 16)))),
        "tensor-args": pt(d((u("w"), call(V2, i(1), i(2))))),
        "object": pt(g("my.module", "Net") + b")\x81" + d((u("w"), tensor())) + b"b"),
        "list": pt(b"](" + tensor() + b"e"),
        "nothing": pt(d((u("epoch"), i(3)))),
        "name-zero": pt(d((u("a\0b"), tensor()))),
        "name-long": pt(d((u("n" * 1100), tensor()))),
        "name-utf8": pt(d((u(b"\xff"), tensor()))),
        "name-twice": pt(d((u("a"), d((u("b"), tensor()))), (u("a.b"), tensor()))),
        "cycle": pt(b"}q\1(" + u("a") + b"h\1" + u("b") + b"h\1u"),
        "opcode": pt(b"\xff"),
        "no-stop": archive({"data.pkl": b"\x80\2}"}),
        "pickle-empty": archive({"data.pkl": b""}),
        "text-cut": archive({"data.pkl": b"\x80\2X\xff\xff\xff\xff."}),
        "line-cut": archive({"data.pkl": b"\x80\2ctorch\nFloat"}),
        "memo-never": pt(b"h\1"),
        "memo-far": pt(b"Nr\xff\xff\xff\xff"),
        "memo-word": pt(b"Npx\n"),
        "stack": pt(b"s"),
        "stack-mark": pt(b"}K\1(K\2s"),
        "mark": pt(b"}u"),
        "mark-first": pt(b"(t"),
        "dict-odd": pt(b"}(K\1u"),
        "dict-odd2": pt(b"(K\1d"),
        "not-dict": pt(b"K\1(K\1K\1u"),
        "call": pt(g("a", "b") + b"NR"),
        "global": pt(b"K\1K\2\x93"),
        "big-endian": pt(d((u("w"), tensor())), order=b"big"),
        "deflated": pt(d((u("w"), tensor())), method=8),
        "encrypted": pt(d((u("w"), tensor())), flags=0x809),
        "not-torch": archive({"readme": b"hello"}),
        "deep-root": archive({"data.pkl": b"\x80\2}."}, root="a/b"),
    }
    # 2^40 names for one tensor, and 2^40 dictionaries for none
    bomb = b"}" + u("w") + tensor() + b"s"
    hollow = b"}"
    for n in range(40):
        put, get = b"q" + bytes([n]), b"h" + bytes([n])
        bomb += put + b"0}(" + u("a") + get + u("b") + get + b"u"
        hollow += put + b"0}(" + b"".join(u(str(m)) + get for m in range(12)) + b"u"
    bad["bomb"] = pt(bomb)
    bad["hollow"] = pt(hollow)
    many = b"}" + b"".join(b"(" + u(str(m)) + tensor() + b"u" for m in range(3)) + b"q\1" + b"0}("
    many += b"".join(u("%d" % m) + b"h\1" for m in range(40)) + b"uq\2" + b"0}("
    many += b"".join(u("%d" % m) + b"h\2" for m in range(40)) + b"u"
    bad["names"] = pt(many)
    good = pt(d((u("w"), tensor())))
    end = good.rindex(b"PK\5\6")
    bad["zip-cut"] = good[:-1]
    bad["zip-comment"] = good[:-2] + b"\1\0"
    bad["zip-count"] = good[:end + 10] + b"\xff\xff" + good[end + 12:]
    bad["zip-size"] = good[:end + 12] + b"\xff\xff\0\0" + good[end + 16:]
    bad["zip-record"] = good.replace(b"PK\1\2", b"PK\1\3", 1)
    bad["zip-local"] = good.replace(b"PK\3\4", b"PK\3\5").replace(b"PK\3\5", b"PK\3\4", 1)
    bad["zip-twice"] = pt(d((u("w"), tensor())), {"0": FOUR, "1": FOUR}).replace(b"data/1", b"data/0")
    at = good.index(b"PK\1\2")  # the directory's record of data.pkl
    bad["zip-past"] = good[:at + 20] + struct.pack("<2I", 1 << 20, 1 << 20) + good[at + 28:]
    z64 = pt(d((u("w"), tensor())), zip64=True)
    at = z64.rindex(b"PK\6\7")
    bad["zip64-locator"] = z64[:at + 8] + b"\xff" * 8 + z64[at + 16:]
    bad["zip64-extra"] = z64.replace(struct.pack("<HH", 1, 24), struct.pack("<HH", 1, 16))
    bad["zip64-extra-cut"] = z64.replace(struct.pack("<HH", 1, 24), struct.pack("<HH", 1, 99))
    bad["zip64-count"] = z64[:at - 24] + b"\xff" * 8 + z64[at - 16:]
    bad["zip-empty"] = b"PK\5\6" + bytes(18)
    files.update({"bad-pt-" + k: v for k, v in bad.items()})


# ---- GGUF -----------------------------------------------------------------------------------------

def gs(text):
    b = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(b)) + b


def kv(key, kind, value):
    return gs(key) + struct.pack("<I", kind) + value


def gt(name="w", dims=(32, 2), kind=8, offset=0):
    return gs(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, offset)


def gguf(tensors, pairs=(), data=bytes(68), version=3, align=32, n_tensors=None, n_pairs=None):
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors) if n_tensors is None else n_tensors,
                                 len(pairs) if n_pairs is None else n_pairs) + b"".join(pairs) + b"".join(tensors)
    return head + bytes(-len(head) % align) + data


def ggufs():
    block = b"\0\x3c" + bytes(range(32))  # Q8_0 with scale 1: 0 .. 31
    every = [kv("general.architecture", 8, gs("qwen3")), kv("list", 9, struct.pack("<IQ", 8, 2) + gs("a") + gs("bc")),
             kv("numbers", 9, struct.pack("<IQ", 5, 3) + bytes(12)), kv("f", 12, bytes(8)), kv("yes", 7, b"\1"),
             kv("general.alignment", 4, struct.pack("<I", 64)), kv("long", 8, gs("x" * 5000))]
    files["gguf"] = gguf([gt("w"), gt("v", (4,), 0, 128)], every, block + bytes(94) + struct.pack("<4f", 0, 1, 2, 3), align=64)
    files["gguf-v2"] = gguf([gt("w", (32,))], data=block, version=2)
    huge = 1 << 63
    bad = {
        "version": gguf([gt()], version=1), "big-endian": gguf([gt()], version=3 << 24),
        "many": gguf([gt()], n_tensors=1 << 40), "many-pairs": gguf([gt()], n_pairs=1 << 60),
        "more": gguf([gt()], n_tensors=2), "key-long": gguf([gt()], [struct.pack("<Q", huge)]),
        "key-cut": gguf([], [struct.pack("<Q", 1000) + b"key"], data=b"", n_tensors=1),
        "value-type": gguf([gt()], [kv("k", 13, b"")]), "array-type": gguf([gt()], [kv("k", 9, struct.pack("<IQ", 9, 1))]),
        "array-long": gguf([gt()], [kv("k", 9, struct.pack("<IQ", 10, huge))]),
        "array-wraps": gguf([gt()], [kv("k", 9, struct.pack("<IQ", 10, 1 << 61))]),
        "array-strings": gguf([gt()], [kv("k", 9, struct.pack("<IQ", 8, huge))]),
        "alignment": gguf([gt()], [kv("general.alignment", 4, bytes(4))]),
        "name-empty": gguf([gt("")]), "name-long": gguf([gt("n" * 1025)]), "name-zero": gguf([gt("a\0b")]),
        "name-utf8": gguf([gt(b"\xff")]), "dims-none": gguf([gt(dims=())]), "dims": gguf([gt(dims=(32, 1, 1, 1, 1))]),
        "dims-many": gguf([gs("w") + struct.pack("<I", 1 << 31)]), "shape-zero": gguf([gt(dims=(32, 0))]),
        "shape-huge": gguf([gt(dims=(32, huge))]), "shape-overflow": gguf([gt(dims=(1 << 31, 1 << 31, 1 << 31))]),
        "shape-block": gguf([gt(dims=(33, 2))]), "type": gguf([gt(kind=10)]), "type-far": gguf([gt(kind=1 << 31)]),
        "offset": gguf([gt(offset=32)]), "offset-odd": gguf([gt(dims=(32,), offset=8)]), "offset-huge": gguf([gt(offset=-32 % 2**64)]),
        "cut": gguf([gt()], data=bytes(67)), "cut-header": gguf([gt()])[:40], "nothing": gguf([]),
        "twice": gguf([gt(dims=(32,)), gt(dims=(32,), offset=64)], data=bytes(98)),
        "repeats": gguf([gt(), gt("v")]),
    }
    files.update({"bad-gguf-" + k: v for k, v in bad.items()})


# ---- others -------------------------------------------------------------------------------------

def pickle_of(file):
    begin = file.index(b"\x80")
    return file[begin:file.index(b".PK\3\4", begin) + 1]


def others():
    files["index"] = json.dumps({"metadata": {"total_size": 8}, "weight_map": {"a": "x.safetensors"}},
                                indent=1).encode()
    files["bad-index-path"] = b'{"weight_map": {"a": "../x.safetensors"}}'
    files["bad-index-slash"] = b'{"weight_map": {"a": "sub/x.safetensors"}}'
    files["bad-index-map"] = b'{"hello": 1}'
    files["bad-index-json"] = b'{"weight_map": {"a": 1}}'
    files["bad-legacy"] = (b"\x80\2\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\2M\xe9\3.\x80\2}q\0X\x10\0\0\0"
                           b"protocol_versionq\1M\xe9\3s.")
    files["bad-hdf5"] = b"\x89HDF\r\n\x1a\n" + bytes(8)
    files["bad-lfs"] = (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    files["bad-text"] = b"<html>Not found</html>\n"
    files["bad-pickle"] = b"\x80\4\x95" + bytes(8) + b"}."
    # parts alone: the fuzzer wraps them
    files["bad-pickle-state"] = b"\x80\2" + d((u("a"), d((u("w"), tensor()))), (u("b"), tensor3("uint16", 64))) + b"."
    files["bad-pickle-opcodes"] = pickle_of(files["pt-opcodes"])
    files["bad-pickle-plain"] = pickle_of(files["pt-plain"])
    files["bad-index-header"] = ('{"__metadata__":{"k":"v"},"\\u00e9":{"dtype":"F32","shape":[2,2],'
                                 '"data_offsets":[0,16]},"b":{"dtype":"U8","shape":[48],"x":[{}],'
                                 '"data_offsets":[16,64]}}').encode()
    files["bad-noise"] = bytes(range(256))
    files["bad-short"] = b"\1\2\3"
    files["bad-empty"] = b""


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "tests", "fuzz", "corpus")
    safetensors()
    torch_good()
    torch_bad()
    ggufs()
    others()
    os.makedirs(folder, exist_ok=True)
    for name, data in files.items():
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)
    print(f"{len(files)} files, {sum(map(len, files.values()))} bytes")


if __name__ == "__main__":
    main()
