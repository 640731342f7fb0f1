"""A GGUF file with other metadata: to make models with templates, tokens or limits of our choosing of a tiny one."""
import struct

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def _string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value):
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    return struct.pack("<I", 8) + _string(value)


def patch(data, changes):
    """changes: key -> text, whole number, truth value or None (leave it out)."""
    tensors, pairs = struct.unpack_from("<QQ", data, 8)
    at = 24
    kept = []

    def skip(kind, at):
        if kind == 8:
            return at + 8 + struct.unpack_from("<Q", data, at)[0]
        if kind == 9:
            inner, count = struct.unpack_from("<IQ", data, at)
            at += 12
            for _ in range(count):
                at = skip(inner, at)
            return at
        return at + SIZES[kind]

    for _ in range(pairs):
        start = at
        length = struct.unpack_from("<Q", data, at)[0]
        key = data[at + 8:at + 8 + length].decode()
        at += 8 + length
        kind = struct.unpack_from("<I", data, at)[0]
        at = skip(kind, at + 4)
        if key not in changes:
            kept.append(data[start:at])
    infos = at
    for _ in range(tensors):
        at += 8 + struct.unpack_from("<Q", data, at)[0]
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 12
    kept += [_string(key) + _value(value) for key, value in changes.items() if value is not None]
    head = data[:8] + struct.pack("<QQ", tensors, len(kept)) + b"".join(kept) + data[infos:at]
    pad = lambda n: -n % 32
    return head + bytes(pad(len(head))) + data[at + pad(at):]
