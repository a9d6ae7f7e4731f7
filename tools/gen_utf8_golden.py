#!/usr/bin/env python3
"""Writes tests/data/utf8_golden.json: random byte strings (hex) and what Python decodes them to with errors="replace".
Run from the root of the tree."""
import json
import os
import random


def main():
    pick = random.Random(5)
    pool = [0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF]
    cases = [b"", b"\xf0\x9f\x99", b"\xe2\x82", b"\xc3", "aé日🙂".encode(), b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xf0\x9f\x99a"]
    cases += [bytes(pick.choice(pool) for _ in range(pick.randrange(1, 12))) for _ in range(300)]
    out = os.path.join(os.path.dirname(__file__), "..", "tests", "data", "utf8_golden.json")
    with open(out, "w", encoding="utf-8") as f:
        json.dump([[c.hex(), c.decode("utf-8", errors="replace")] for c in cases], f, ensure_ascii=False, indent=0)
        f.write("\n")


if __name__ == "__main__":
    main()
