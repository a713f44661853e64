#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Texts and their tokens, made by Hugging Face's tokenizers, for tests/unit/test_text.c.

    python3 tools/golden_text.py tests/data/text
    python3 tools/golden_text.py --merges 4000 --texts 10000 DIR && build/tests/test_text DIR/tokenizer.json DIR/texts.json
    python3 tools/golden_text.py --ranks qwen.tiktoken --texts 10000 DIR

A byte-level BPE with the normaliser, split rules and special tokens of Qwen3 is trained on made-up texts.  With --ranks, the
vocabulary is that of a tiktoken file instead (PyPI's dashscope has Qwen's), and merges follow from it.
Texts are of many scripts, with marks in any order, contractions, digits, white space and special tokens.
"""
import argparse
import base64
import json
import random
import unicodedata
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
BLOCKS = [(0x20, 0x7e), (0x20, 0x7e), (0x61, 0x7a), (0xa0, 0x24f), (0x250, 0x36f), (0x370, 0x3ff), (0x400, 0x52f),
          (0x531, 0x5ff), (0x600, 0x6ff), (0x700, 0x7bf), (0x900, 0xd7f), (0xe00, 0xfff), (0x10a0, 0x13ff),
          (0x1780, 0x18af), (0x1e00, 0x1fff), (0x2000, 0x206f), (0x2070, 0x24ff), (0x2500, 0x2bff), (0x3000, 0x30ff),
          (0x1100, 0x11ff), (0xac00, 0xd7a3), (0x4e00, 0x9fff), (0xf900, 0xfaff), (0xfb00, 0xfdff), (0xff00, 0xffef),
          (0x10000, 0x10fff), (0x1d100, 0x1d7ff), (0x1f300, 0x1faff), (0x20000, 0x2a6df), (0x2f800, 0x2fa1f)]
SPACES = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u3000", "\u00a0", "\u2028", "\x85", "\u2003", " \r"]
WORDS = ["a photo of", "the cat's", "it'S", "we'LL", "I'm", "don't", "you\u017f've", "'\u017f", "they're", "1234567", "3.14", "2026-11-16",
         "na\u00efve", "cafe\u0301", "\u1112\u1161\u11ab", "\u0915\u094d\u0937", "q\u0307\u0323", "\u212b", "\ufb01", "\u0958", "\u2126", "...", "?!\n",
         "--", "'", "''s", "_x_", "e=mc\u00b2", "\u0f71\u0f72\u0f74", "a\u0315\u0300\u05ae\u0300\u0062", "\u00bd", "\u2167", "\u3007"]


def known(c):
    """Is it a character, and one whose combining class the reference knows?  Its tables are of an older Unicode."""
    return unicodedata.category(c) not in ("Cn", "Cs") and all(
        normalizers.NFC().normalize_str(s) == unicodedata.normalize("NFC", s) for s in ("q\u0345" + c, "q\u0334" + c))


def texts(n, seed, special):
    r = random.Random(seed)
    marks = [chr(c) for c in range(0x300, 0x20000) if unicodedata.combining(chr(c)) and known(chr(c))]
    out = []
    for _ in range(n):
        parts = []
        low, high = r.choice(BLOCKS)
        for _ in range(r.randint(1, 14)):
            kind = r.random()
            if kind < 0.3:
                parts.append(r.choice(WORDS))
            elif kind < 0.7:
                if r.random() < 0.3:
                    low, high = r.choice(BLOCKS)
                chars = (chr(r.randint(low, high)) for _ in range(r.randint(1, 9)))
                parts.append("".join(c for c in chars if known(c)))
            elif kind < 0.78:
                parts.append(r.choice("aeioAOnsu") + "".join(r.choice(marks) for _ in range(r.randint(1, 5))))
            elif kind < 0.8 and special:
                parts.append(r.choice(SPECIAL))
            else:
                parts.append(r.choice(SPACES))
        out.append("".join(parts).replace("\0", "") or "x")
    return out


def byte_chars():
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in keep]
    return {**{b: chr(b) for b in keep}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def from_ranks(path):
    """The vocabulary of a tiktoken file; the merge of a token is the last one that makes it of two with lower ranks."""
    ranks = {base64.b64decode(a): int(b) for a, b in (line.split() for line in path.read_bytes().splitlines() if line)}
    chars, merges = byte_chars(), []
    spell = lambda t: "".join(chars[b] for b in t)
    for token, rank in sorted(ranks.items(), key=lambda kv: kv[1]):
        parts = [bytes([b]) for b in token]
        while len(parts) > 2:
            at = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], 1 << 30))
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
        if len(parts) == 2:
            merges.append((spell(parts[0]), spell(parts[1])))
    return models.BPE(vocab={spell(t): r for t, r in ranks.items()}, merges=merges)


def tokenizer(merges, ranks):
    t = Tokenizer(from_ranks(ranks) if ranks else models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    if not ranks:
        t.train_from_iterator(texts(6000, 1, False), trainers.BpeTrainer(
            vocab_size=256 + merges, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in SPECIAL])
    return t


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--merges", type=int, default=300)
    p.add_argument("--texts", type=int, default=300)
    p.add_argument("--ranks", type=Path)
    p.add_argument("out", type=Path)
    a = p.parse_args()
    t = tokenizer(a.merges, a.ranks)
    t.save(str(a.out / "tokenizer.json"), pretty=False)
    chat = [f"<|im_start|>user\n{s}<|im_end|>\n<|im_start|>assistant\n" for s in ("a cat", "\u4e00\u53ea\u732b\n")]
    rows = [json.dumps([s, t.encode(s).ids]) for s in chat + texts(a.texts - len(chat), 2, True)]
    (a.out / "texts.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")
    print(f"{t.get_vocab_size()} tokens, {len(rows)} texts")


main()
