"""Vocabularies small enough for a test model, and how a vocabulary goes into a GGUF file.

A model of a few hundred kilobytes cannot carry a real vocabulary. `byte_pairs` has the 256 bytes, a dozen
merges and the special tokens of a family; `pieces` is the SentencePiece counterpart. Both can encode any
text.
"""

from dataclasses import dataclass, field

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@dataclass
class Vocabulary:
    model: str
    pre: str
    tokens: list
    types: list
    eos: int
    bos: int | None = None
    pad: int | None = None
    unknown: int | None = None
    add_bos: bool = False
    add_space_prefix: bool | None = None
    scores: list = field(default_factory=list)
    merges: list = field(default_factory=list)
    template: str | None = None

    def write(self, writer) -> None:
        writer.add_tokenizer_model(self.model)
        writer.add_tokenizer_pre(self.pre)
        writer.add_token_list(self.tokens)
        if self.scores:
            writer.add_token_scores(self.scores)
        writer.add_token_types(self.types)
        if self.merges:
            writer.add_token_merges(self.merges)
        for value, add in (
            (self.bos, writer.add_bos_token_id),
            (self.eos, writer.add_eos_token_id),
            (self.unknown, writer.add_unk_token_id),
            (self.pad, writer.add_pad_token_id),
        ):
            if value is not None:
                add(value)
        writer.add_add_bos_token(self.add_bos)
        if self.add_space_prefix is not None:
            writer.add_add_space_prefix(self.add_space_prefix)
        if self.template:
            writer.add_chat_template(self.template)


def byte_characters() -> list:
    """The character that stands for each byte in byte-level BPE vocabularies: itself where printable, else
    from U+0100 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(rest)) for byte in range(256)]


def byte_pairs(pre: str, specials: list, size: int, **rest) -> Vocabulary:
    """`specials` are control tokens and come last; `rest` names some of them: eos, bos, pad; the vocabulary
    is padded to `size`."""
    space = byte_characters()[ord(" ")]
    merges = [
        "t h",
        "th e",
        f"{space} the",
        "i n",
        "e r",
        f"{space} a",
        "o n",
        "r e",
        f"{space} i",
        f"{space}i s",
        "a n",
        "an d",
    ]
    tokens = byte_characters() + ["".join(merge.split(" ")) for merge in merges]
    types = [NORMAL] * len(tokens)
    spares = [f"<|spare_{i}|>" for i in range(size - len(tokens) - len(specials))]
    tokens += specials + spares
    types += [CONTROL] * (len(specials) + len(spares))
    assert len(tokens) == size and len(set(tokens)) == size
    named = {
        key: tokens.index(value) if key in ("eos", "bos", "pad") else value for key, value in rest.items()
    }
    return Vocabulary("gpt2", pre, tokens, types, merges=merges, **named)


def pieces(specials: list, size: int, **rest) -> Vocabulary:
    """`specials` come first and one of them is the unknown token; then bytes, pieces of one character,
    longer pieces."""
    tokens = specials + [f"<0x{byte:02X}>" for byte in range(256)]
    types = [UNKNOWN if token == "<unk>" else CONTROL for token in specials] + [BYTE] * 256
    longer = ["\u2581t", "he", "\u2581the", "in", "\u2581i", "\u2581is"]
    letters = ["\u2581", *"etaoinshrdlucmfwypvbgkjqxz.,", *"TAHI"][: size - len(tokens) - len(longer)]
    scores = (
        [0.0] * len(tokens)
        + [-1.0 - i for i in range(len(longer))]
        + [-100.0 - i for i in range(len(letters))]
    )
    tokens += longer + letters
    types += [NORMAL] * (len(longer) + len(letters))
    assert len(tokens) == size and len(set(tokens)) == size
    names = ("eos", "bos", "pad", "unknown")
    named = {key: tokens.index(value) if key in names else value for key, value in rest.items()}
    return Vocabulary("llama", "default", tokens, types, scores=scores, **named)


def for_family(family: str) -> Vocabulary:
    """A vocabulary with the pre-tokeniser and the special tokens that files of this GGUF architecture
    have."""
    if family == "llama":
        specials = [
            "<|begin_of_text|>",
            "<|end_of_text|>",
            "<|start_header_id|>",
            "<|end_header_id|>",
            "<|eot_id|>",
        ]
        return byte_pairs("llama-bpe", specials, 280, bos="<|begin_of_text|>", eos="<|eot_id|>", add_bos=True)
    if family == "llama-pieces":
        return pieces(["<unk>", "<s>", "</s>"], 292, bos="<s>", eos="</s>", unknown="<unk>", add_bos=True)
    if family == "gemma3":
        specials = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
        named = {"pad": "<pad>", "eos": "<eos>", "bos": "<bos>", "unknown": "<unk>"}
        return pieces(specials, 296, add_bos=True, add_space_prefix=False, **named)
    if family == "gpt-oss":
        specials = [
            "<|startoftext|>",
            "<|endoftext|>",
            "<|return|>",
            "<|constrain|>",
            "<|channel|>",
            "<|start|>",
        ]
        specials += ["<|end|>", "<|message|>", "<|call|>"]
        return byte_pairs(
            "gpt-4o", specials, 280, bos="<|startoftext|>", eos="<|return|>", pad="<|endoftext|>"
        )
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    pre = "qwen35" if family in ("qwen35", "qwen35moe") else "qwen2"
    named = {"bos": "<|endoftext|>", "eos": "<|im_end|>", "pad": "<|endoftext|>"}
    return byte_pairs(pre, specials, 272, template=CHATML, **named)
