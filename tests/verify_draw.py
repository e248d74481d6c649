#!/usr/bin/env python3
"""A second verifier of draws, written from docs/verifiable-draw.md alone and with nothing but Python's own library.

    verify_draw.py DOCUMENT [PROOF]

Prints the names of the checks that fail, one to a line; the exit code is 1 if any does.
"""

import hashlib
import json
import struct
import sys


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def u64(number):
    return struct.pack(">Q", number)


def text(string):
    encoded = string.encode()
    return u64(len(encoded)) + encoded


def node(left, right):
    return sha256(b"\x01", left, right)


def left_part(count):
    size = 1
    while size * 2 < count:
        size *= 2
    return size


def root_of(leaves):
    if not leaves:
        return sha256()
    # Row by row: an odd one out moves up as it is, which gives the same shape.
    row = leaves
    while len(row) > 1:
        above = [node(row[i], row[i + 1]) for i in range(0, len(row) - 1, 2)]
        if len(row) % 2:
            above.append(row[-1])
        row = above
    return row[0]


def climb(leaf, index, count, path):
    if not 0 <= index < count:
        return None
    if count == 1:
        return leaf if not path else None
    if not path:
        return None
    left = left_part(count)
    if index < left:
        below = climb(leaf, index, left, path[:-1])
        return below and node(below, path[-1])
    below = climb(leaf, index - left, count - left, path[:-1])
    return below and node(path[-1], below)


def chacha20_blocks(key):
    def rotate(value, bits):
        return ((value << bits) | (value >> (32 - bits))) & 0xFFFFFFFF

    def quarter(state, a, b, c, d):
        for first, second, third, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            state[first] = (state[first] + state[second]) & 0xFFFFFFFF
            state[third] = rotate(state[third] ^ state[first], bits)

    counter = 0
    while True:
        start = list(struct.unpack("<4I", b"expand 32-byte k")) + list(struct.unpack("<8I", key))
        start += [counter, 0, 0, 0]
        state = list(start)
        for _ in range(10):
            for lane in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)):
                quarter(state, *lane)
            for lane in ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
                quarter(state, *lane)
        yield struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(state, start)))
        counter += 1


def numbers(key):
    for block in chacha20_blocks(key):
        yield from struct.unpack("<8Q", block)


def below(stream, bound):
    limit = (1 << 64) // bound * bound
    while True:
        number = next(stream)
        if number < limit:
            return number % bound


def draw(seed, root, nonce, entries, capacity):
    stream = numbers(sha256(seed, root, nonce.encode()))
    positions = list(range(1, entries + 1))
    for i in range(min(capacity, entries)):
        j = i + below(stream, entries - i)
        positions[i], positions[j] = positions[j], positions[i]
    return positions[: min(capacity, entries)]


def check(document, proof):
    failed = []

    def expect(name, holds):
        if not holds:
            failed.append(name)

    seed, root = bytes.fromhex(document["seed"]), bytes.fromhex(document["root"])
    leaves = [bytes.fromhex(leaf) for leaf in document["leaves"]]
    source, nonce = document.get("publicNonceSource"), document.get("publicNonce")
    committed = sha256(
        text("guerdon.draw.commitment.v1"),
        seed,
        text(document["eventId"]),
        u64(document["capacityTotal"]),
        u64(document["lotteryCutoffAt"]),
        text(source or ""),
    )
    expect("version", document["version"] == 1)
    expect("commitment", committed.hex() == document["commitment"])
    expect("entries", len(leaves) == document["entries"])
    expect("root", root_of(leaves) == root)
    expect("nonce", (source is None) == (nonce is None))
    drawn = draw(seed, root, nonce or "", document["entries"], document["capacityTotal"])
    expect("winners", drawn == document["winners"])
    if proof:
        names = ("eventId", "entries", "root")
        expect("proof: document", all(proof[name] == document[name] for name in names))
        leaf = sha256(
            b"\x00",
            text("guerdon.draw.leaf.v1"),
            text(proof["eventId"]),
            u64(proof["position"]),
            text(proof["requestId"]),
            text(proof["userId"]),
            bytes.fromhex(proof["salt"]),
        )
        expect("proof: leaf", leaf.hex() == proof["leaf"])
        path = [bytes.fromhex(sibling) for sibling in proof["path"]]
        index = proof["position"] - 1
        reached = climb(bytes.fromhex(proof["leaf"]), index, proof["entries"], path)
        expect("proof: path", reached is not None and reached.hex() == proof["root"])
        there = 0 <= index < len(leaves) and leaves[index].hex() == proof["leaf"]
        expect("proof: place", there)
    return failed


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        document = json.load(file)
    proof = None
    if len(sys.argv) > 2:
        with open(sys.argv[2], encoding="utf-8") as file:
            proof = json.load(file)
    failed = check(document, proof)
    print("\n".join(failed) if failed else "the draw is sound")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
