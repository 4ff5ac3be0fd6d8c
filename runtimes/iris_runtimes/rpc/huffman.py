"""HPACK's Huffman code (RFC 7541, appendix B), backwards only: who sends may leave it out."""

from __future__ import annotations

from functools import lru_cache

from iris_runtimes.rpc.errors import ProtocolError

# The code is canonical, so the lengths of its words say all: one letter each of the 256 bytes and of the end, A for 5 bits.
_LENGTHS = (
    "ISXXXXXXXTZXXZXXXXXXXXZXXXXXXXXXBFFHIBDGFFDGDBBBAAABBBBBBBCDKBHFIBCCCCCCCCCCCCCCCCCCCCCCDCDIOIJBKABABABBBACC"
    "BBBABCBAABCCCCCKGJIXPRPPRRRSRSSSSSTSTTRSTSSSSQRSRSSTRQPRRSSQSRRTQRSSQQRQSRSSPRRRSRRSVVPORSRUVVVWWVTUOQVWWVWT"
    "QQVVXWWWPTPQRQQSRRUUTTVSVWVVWWWWWXWWWWWVZ"
)
_END = 256
_LONGEST_PADDING_BITS = 7


def _words() -> dict[tuple[int, int], int]:
    """(length in bits, code word) -> byte."""
    found: dict[tuple[int, int], int] = {}
    word = length = 0
    for bits, symbol in sorted((ord(letter) - ord("A") + 5, symbol) for symbol, letter in enumerate(_LENGTHS)):
        word <<= bits - length
        found[bits, word] = symbol
        word, length = word + 1, bits
    return found


_WORDS = _words()


@lru_cache(maxsize=256)
def decode(text: bytes) -> bytes:
    """The bytes. ProtocolError."""
    found = bytearray()
    word = length = 0
    for byte in text:
        for shift in range(7, -1, -1):
            word, length = (word << 1) | ((byte >> shift) & 1), length + 1
            symbol = _WORDS.get((length, word))
            if symbol == _END:
                raise ProtocolError("the end of a Huffman code within a text")
            if symbol is not None:
                found.append(symbol)
                word = length = 0
    if length > _LONGEST_PADDING_BITS or word != (1 << length) - 1:  # the rest of the last byte is ones
        raise ProtocolError("a Huffman code that is cut off")
    return bytes(found)
